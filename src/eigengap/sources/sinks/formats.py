"""Writing NumPy, Parquet, HDF5, Zarr and CSV files.

CSV has the fewest digits that read back as the same number; missing values are empty. A header cell
that begins with = + - @ is a formula to a spreadsheet, and the name of a column may come from
anywhere: an apostrophe in front makes it text again (OWASP, CSV injection).
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from eigengap.runtime.part_files import Part
from eigengap.sources.files.csv.cells import Cells
from eigengap.sources.files.paths import ZARR, needed
from eigengap.sources.sinks.base import FileSink, Sink

GROUP = 64 << 20  # bytes of a row group of Parquet, as float64
HDF5_CHUNK, ZARR_CHUNK = 1 << 20, 4 << 20  # bytes


class NpySink(FileSink):
    """An array (n, d) in C order; the file has no place for column names."""

    def _begin(self) -> None:
        self._create()
        self._header(0)
        self._start = self._file.tell()

    def _write(self, rows: NDArray[Any]) -> None:
        self._file.write(rows.data)

    def _end(self) -> None:
        self._file.seek(0)
        self._header(self.n_rows)
        if self._file.tell() != self._start:  # NumPy leaves room for any number of rows
            raise AssertionError("the header has changed its length")
        self._close()

    def _header(self, n: int) -> None:
        assert self.dtype is not None
        facts = {
            "descr": npy_format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (n, self.n_features),
        }
        npy_format.write_array_header_1_0(self._file, facts)


class ParquetSink(FileSink):
    """Columns of numbers or text, named by position where there are no names.

    Missing values are null, and every page has a checksum.
    """

    _writer: Any = None

    def _begin(self) -> None:
        parquet = needed("writing Parquet", "pyarrow.parquet")
        import pyarrow as pa

        assert self.n_features is not None
        names = self.names or tuple(map(str, range(self.n_features)))
        types = self._types or [pa.from_numpy_dtype(self.dtype)] * self.n_features
        fields = [pa.field(name, kind) for name, kind in zip(names, types, strict=True)]
        self._schema = pa.schema(fields)
        self._tables: list[Any] = []
        self._writer = parquet.ParquetWriter(
            self._create(), self._schema, write_page_checksum=True, use_dictionary=False
        )

    def _write(self, rows: NDArray[Any]) -> None:
        import pyarrow as pa

        columns = [
            pa.array(np.ascontiguousarray(rows[:, j]), from_pandas=True)
            for j in range(rows.shape[1])
        ]
        self._write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def _write_table(self, table: Any) -> None:
        self._tables.append(table.rename_columns(self._schema.names).cast(self._schema))
        if sum(table.nbytes for table in self._tables) >= GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        tables, self._tables = self._tables, []
        if tables:
            table = pa.concat_tables(tables)
            self._writer.write_table(table, row_group_size=len(table))

    def _end(self) -> None:
        self._write_group()
        self._writer.close()
        self._close()

    def _abandon(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # or closing it would write the footer
        super()._abandon()


class ZarrSink(Sink):
    """An array (n, d) in compressed chunks of whole rows; names go into its attribute "columns"."""

    _array: Any = None

    def _may_replace(self, target: Path) -> bool:
        return target.is_file() or any((target / name).exists() for name in ZARR)

    def _begin(self) -> None:
        zarr = needed("writing Zarr", "zarr")
        assert self.dtype is not None
        assert self.n_features is not None
        self._chunk = max(1, ZARR_CHUNK // max(1, self.dtype.itemsize * self.n_features))
        self._rest: NDArray[Any] = np.empty((0, self.n_features), dtype=self.dtype)
        self._part = Part(self._target, is_folder=True)
        self._array = zarr.open_array(
            str(self._part.path),
            mode="w-",
            shape=(0, self.n_features),
            chunks=(self._chunk, max(1, self.n_features)),
            dtype=self.dtype,
            fill_value=np.nan,
        )
        if self.names is not None:
            self._array.attrs["columns"] = list(self.names)

    def _write(self, rows: NDArray[Any]) -> None:
        """Write whole chunks, and keep the rest: no chunk is written twice."""
        rows = np.concatenate([self._rest, rows]) if len(self._rest) else rows
        whole = len(rows) // self._chunk * self._chunk
        if whole:
            self._array.append(rows[:whole])
        self._rest = rows[whole:].copy()

    def _end(self) -> None:
        if len(self._rest):
            self._array.append(self._rest)

    def _abandon(self) -> None:
        self._array = None


class Hdf5Sink(FileSink):
    """A dataset (n, d); column names go into its attribute "columns"."""

    _h5: Any = None

    def _begin(self) -> None:
        h5py = needed("writing HDF5", "h5py")
        assert self.dtype is not None
        assert self.n_features is not None
        width = max(1, self.n_features)
        chunk = max(1, HDF5_CHUNK // (self.dtype.itemsize * width))
        self._disk = _NeverFails(self._create())
        # The first version whose metadata have checksums and room for very many names.
        self._h5 = h5py.File(self._disk, "w", libver=("v110", "v110"))
        self._data = self._h5.create_dataset(
            "data",
            shape=(0, self.n_features),
            maxshape=(None, self.n_features),
            chunks=(chunk, width),
            dtype=self.dtype,
            fletcher32=True,  # a checksum for each chunk
        )
        if self.names is not None:
            self._data.attrs["columns"] = np.array([name.encode() for name in self.names])
        self._disk.raise_error()

    def _write(self, rows: NDArray[Any]) -> None:
        start = len(self._data)
        self._data.resize(start + len(rows), axis=0)
        self._data[start:] = rows
        self._disk.raise_error()

    def _end(self) -> None:
        self._h5.close()
        self._disk.raise_error()
        self._close()

    def _abandon(self) -> None:
        if self._h5 is not None and self._h5.id.valid:
            self._disk.drop()
            self._h5.close()
        super()._abandon()


class _NeverFails:
    """A file whose writes succeed as far as HDF5 knows.

    HDF5 keeps what it could not write and tries again when the file is closed and when the process
    ends, which crashes on a full disk. So the first error is kept, later writes are dropped, and
    `raise_error` raises it from Python.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._error: OSError | None = None
        self._dropping = False

    def drop(self) -> None:
        """Write nothing from now on."""
        self._dropping = True

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _attempt(self, do: Callable[..., Any], *args: Any) -> Any:
        try:
            return do(*args)
        except OSError as error:
            self._error, self._dropping = error, True
            return None

    def write(self, data: Any) -> int:
        if not self._dropping:
            self._attempt(self._file.write, data)
        return len(data)

    def flush(self) -> None:
        if not self._dropping:
            self._attempt(self._file.flush)

    def truncate(self, size: int | None = None) -> int:
        done = None if self._dropping else self._attempt(self._file.truncate, size)
        return int(done if done is not None else size or 0)

    def seek(self, place: int, whence: int = 0) -> int:
        done = self._attempt(self._file.seek, place, whence)  # which may flush a buffer
        return int(place if done is None else done)

    def __getattr__(self, name: str) -> Any:  # tell, read, readinto
        return getattr(self._file, name)


CELLS = 1 << 17  # converted to text together
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class TextSink(FileSink):
    """Bytes of text, compressed where the name ends in .gz."""

    _zip: Any = None

    def _begin(self) -> None:
        file = self._create()
        if self._target.name.lower().endswith(".gz"):
            # No name and no time inside: equal rows give equal bytes.
            self._zip = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
        self._text = self._zip or file

    def _end(self) -> None:
        if self._zip is not None:
            self._zip.close()
        self._close()

    def _abandon(self) -> None:
        if self._file is not None and self._zip is not None:
            self._zip.fileobj = None  # or forgetting it would try to write once more
        super()._abandon()


class CsvSink(TextSink):
    """Comma-separated text."""

    def _begin(self) -> None:
        super()._begin()
        if self.names is not None:
            self._text.write(csv_header(self.names))

    def _write(self, rows: NDArray[Any]) -> None:
        step = max(1, CELLS // rows.shape[1])
        for start in range(0, len(rows), step):
            self._text.write(self._as_text(rows[start : start + step]))

    def _write_table(self, table: Any) -> None:
        arrow_csv = needed("writing CSV", "pyarrow.csv")
        import pyarrow as pa

        for quoting in ("none", "needed"):  # the second puts all text in quotes
            text = pa.BufferOutputStream()
            how = arrow_csv.WriteOptions(include_header=False, quoting_style=quoting)
            try:
                arrow_csv.write_csv(table, text, how)
            except pa.ArrowInvalid:
                if quoting == "needed":
                    raise
                continue
            self._text.write(memoryview(text.getvalue()))
            return

    def _as_text(self, rows: NDArray[Any]) -> memoryview:
        arrow_csv = needed("writing CSV", "pyarrow.csv")
        import pyarrow as pa

        # An empty line is no row: a missing value in a single column is written out.
        missing_empty = rows.shape[1] > 1
        # One long column: many short ones are slow in pyarrow.
        table = pa.table({"cell": pa.array(rows.ravel(), from_pandas=missing_empty)})
        text = pa.BufferOutputStream()
        arrow_csv.write_csv(table, text, arrow_csv.WriteOptions(include_header=False))
        letters = np.frombuffer(text.getvalue(), dtype=np.uint8).copy()
        ends = np.flatnonzero(letters == ord("\n")).reshape(rows.shape)
        letters[ends[:, :-1]] = ord(",")
        return letters.data


def csv_header(names: Sequence[str], separator: str = ",", newline: str = "\n") -> bytes:
    """The line of column names; numbers are in quotes, so that they are read as names.

    >>> csv_header(["a", "=1+1", "b,c"])
    b'a,\\'=1+1,"b,c"\\n'
    """
    written = io.StringIO(newline="")
    safe = ["'" + name if name.startswith(FORMULA) else name for name in names]
    all_numbers = all(Cells().number(name) is not None for name in safe)
    quoted = all_numbers or any("\r" in name for name in safe)
    csv.writer(
        written,
        delimiter=separator,
        lineterminator=newline,
        quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL,
    ).writerow(safe)
    return written.getvalue().encode()
