"""Tables in files. `open_source` finds the reader by the first bytes of the file, then its name.

Many files with the same columns, one after the other, are one table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import PartitionColumnWarning, UnreadableError
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.sources.array import F4, F8, is_field
from eigengap.sources.base import Source
from eigengap.sources.cells import is_number
from eigengap.sources.checks import as_weight, check_not_empty, missing_codes
from eigengap.sources.fields.places import is_field_path
from eigengap.sources.files.csv.reader import CsvReader
from eigengap.sources.files.csv.rows import SkippedLines
from eigengap.sources.files.hdf5 import Hdf5Reader
from eigengap.sources.files.npy import NpyReader, NpzReader
from eigengap.sources.files.parquet import ParquetReader
from eigengap.sources.files.paths import KNOWN, Address, find_files, format_of
from eigengap.sources.files.zarr_reader import ZarrReader
from eigengap.sources.reader import Reader, StreamSource, unreadable
from eigengap.sources.wording import quote
from eigengap.wording import words

TEXTS = (".csv", ".csv.gz", ".tsv", ".txt")
READERS: dict[str, Any] = {
    "parquet": ParquetReader,
    "hdf5": Hdf5Reader,
    "zarr": ZarrReader,
    "npz": NpzReader,
    "npy": NpyReader,
}


def open_source(
    path: Any,
    *,
    columns: Any = None,
    missing_values: Any = nan,
    skip_rows: int = 0,
    comment: str | None = None,
    sample_weight: Any = None,
    sample_dim: Hashable | None = None,
    variable: Hashable | None = None,
    block_bytes: int | None = None,
    block_rows: int | None = None,
) -> Source:
    """A file, or many, as a table that every estimator reads in blocks, never as a whole.

    Parameters
    ----------
    path : str, path-like, or a list of them; or a DataArray or Dataset of xarray
        CSV (plain, .gz, .bz2 or .zst), Parquet (a file, or a folder of them), .npy, .npz, HDF5 or
        Zarr. The format is found by the first bytes of the file, then by its name. A glob such as
        "runs/*.csv" or a list of paths is one table, file after file (2 before 10 in a glob), and
        the files must have the same columns in the same order. Where a file holds several arrays,
        "file.h5::name" selects one; the only two-dimensional one is found by itself. NetCDF files
        and Zarr groups with named dimensions are fields, as are DataArrays (docs/fields.md).
    columns : list, default=None
        The columns to use, in this order; strings are names, integers positions. In Parquet only
        these are read.
    missing_values : NaN, number, str or list of them, default=nan
        What stands for a missing value besides NaN and null. In CSV, empty cells and the spellings
        that pandas takes (NA, NaN, null, n/a, ...) are missing; text such as "?" can be added.
    skip_rows : int, default=0
        Of CSV: lines above the header, or above the first row, that are none.
    comment : str, default=None
        Of CSV: lines that begin with this text, such as "#", or with blanks and then it, are no
        rows.
    sample_weight : array-like of shape (n_rows,), default=None
        How often each row counts; a row of weight 0 is as if absent.
    sample_dim, variable : names, default=None
        Of a field: the dimension whose positions are the rows (None: the first), and which variable
        of several.
    block_bytes : int, default=None
        Size of a block as float64; by default 32 MiB, or less where the machine, the container or
        EIGENGAP_MEMORY leaves little memory. Some ten blocks, and twenty for each thread, are in
        memory at a time.
    block_rows : int, default=None
        Rows of a block, instead of `block_bytes`.

    Returns
    -------
    source : Source
        For `fit`, `transform` and whatever takes a table; a `FieldSource` for a field. Nothing but
        the first rows of a CSV file and the headers of the others has been read; a field is read
        once, to distinguish land from missing values, unless `columns` are given.

    Raises
    ------
    FileNotFoundError
        Where nothing is there; names that are close to the path are offered.
    UnreadableError
        A ValueError with the path: a column that holds no numbers, a damaged file, files that
        differ in their columns. What is wrong further on in the file is reported while it is
        read, with the line or row.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from eigengap.sources.opening import open_source
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "wells.csv"
    >>> _ = path.write_text("well,depth,flow\\nA,1.5,20\\nB,NA,22\\nC,2.5,?\\n")
    >>> source = open_source(path, columns=["depth", "flow"], missing_values="?")
    >>> source.names
    ('depth', 'flow')
    >>> source.collect()
    array([[ 1.5, 20. ],
           [ nan, 22. ],
           [ 2.5,  nan]])
    >>> folder.cleanup()
    """
    skipped = SkippedLines.of(skip_rows, comment)
    if is_field(path) or is_field_path(path):
        from eigengap.sources.fields.table import field_source

        if skipped:
            raise ValueError(f"{skipped} is for CSV files, and this is a labelled field")
        return field_source(
            path,
            sample_dim=sample_dim,
            variable=variable,
            columns=columns,
            missing_values=missing_values,
            sample_weight=sample_weight,
            block_bytes=block_bytes,
            block_rows=block_rows,
        )
    if sample_dim is not None or variable is not None:
        raise ValueError(
            "sample_dim and variable choose in a labelled field (a DataArray, NetCDF, or a Zarr "
            "group with named dimensions), and this is a plain table"
        )
    texts, codes = codes_of(missing_values)
    addresses = [
        part
        for found in find_files(path)
        for part in (parquet_parts(found) if format_of(found.path).name == "folder" else [found])
    ]
    readers = [_reader(address, columns, texts, skipped) for address in addresses]
    if len(readers) == 1:
        reader = readers[0]
        if reader.n_rows == 0:  # one of many files may be empty, but not the table
            with unreadable(reader.where, (ValueError,), "{}"):
                check_not_empty((0, reader.n_features))
    else:
        several = isinstance(path, list | tuple)
        where = f"{readers[0].where} and {len(readers) - 1} more files" if several else str(path)
        reader = ManyReader(readers, where)
    return StreamSource(
        reader,
        weight=_weight(sample_weight, reader),
        codes=codes,
        block_bytes=block_bytes,
        block_rows=block_rows,
    )


def _reader(address: Address, columns: Any, texts: frozenset[str], skipped: SkippedLines) -> Reader:
    """The reader of one file; `texts` stand for a missing value."""
    path, member = address.path, address.member
    kind = format_of(path)
    if member is not None and kind.name not in ("npz", "hdf5", "zarr"):
        raise UnreadableError(str(path), f"it is one table; leave out ::{member}")
    if skipped and kind.name != "csv":
        raise UnreadableError(str(path), f"it has no lines: {skipped} is for CSV files")
    if texts and kind.name != "csv":
        raise UnreadableError(
            str(path),
            f"{words().parameter('missing_values', quote(min(texts)))} is text, and the file "
            "holds numbers; text is looked for in CSV files",
        )
    with unreadable(str(path), (ValueError,), "{}"):  # a column that does not exist
        if kind.name == "csv":
            reader: Reader = CsvReader(path, columns, texts, kind.compression, skipped)
        else:
            which = () if member is None else (member,)
            reader = READERS[kind.name](path, columns, *which)
        check_not_empty((1, reader.n_features))
    return reader


def parquet_parts(address: Address) -> list[Address]:
    """The Parquet files in a folder and in the folders below it."""
    folder = address.path
    found = [
        path
        for path in sorted(folder.rglob("*.parquet"))
        if not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise UnreadableError(
            str(folder),
            f"it is a folder, neither of Parquet files nor of Zarr. For many files give a glob: "
            f"{words().path(str(folder / '*.csv'))}. {KNOWN} are read",
        )
    others = sorted(path.name for path in folder.iterdir() if path.name.endswith(TEXTS))
    if others:
        raise UnreadableError(
            str(folder),
            f"it holds Parquet files and others, such as {quote(others[0])}, and which are the "
            f"table? Give a glob: {words().path(str(folder / '*.parquet'))}",
        )
    # Hive and Spark encode columns in the names of folders.
    inside = {part for path in found for part in path.relative_to(folder).parts[:-1]}
    keys = sorted({part.partition("=")[0] for part in inside if "=" in part})
    if keys:
        warn(
            f"{words().path(str(folder))} is parted by {', '.join(map(quote, keys))}, which stands "
            "in the names of its folders and not in the files: it is left out of the table",
            PartitionColumnWarning,
        )
    return [Address(path) for path in found]


def codes_of(missing_values: Any) -> tuple[frozenset[str], tuple[float, ...]]:
    """Texts and numbers that stand for a missing value."""
    given = missing_values
    if isinstance(given, str) or not isinstance(given, list | tuple | set | frozenset):
        given = [given]
    texts = [code for code in given if isinstance(code, str)]
    numbers = [code for code in given if not isinstance(code, str)]
    numbers += [float(text) for text in texts if is_number(text)]
    if len(numbers) == 1 and isinstance(numbers[0], np.ndarray):
        return frozenset(texts), missing_codes(numbers[0])
    return frozenset(text.strip() for text in texts), missing_codes(numbers)


def _weight(sample_weight: Any, reader: Reader) -> Array | None:
    if sample_weight is None:
        return None
    if np.ndim(sample_weight) == 0 and reader.n_rows is None:
        raise ValueError(
            f"sample_weight={sample_weight} is one number, and the number of rows of "
            f"{reader.where} is known only when it has been read; give a weight for each row"
        )
    n = len(sample_weight) if reader.n_rows is None else reader.n_rows
    return as_weight(sample_weight, n)


class ManyReader(Reader):
    """The rows of several readers; their columns must agree in name and order."""

    def __init__(self, readers: Sequence[Reader], where: str) -> None:
        first = readers[0]
        for other in readers[1:]:
            _require_same_columns(first, other)
        agree_on_decimals([reader for reader in readers if isinstance(reader, CsvReader)])
        self.where = where
        self._readers = readers
        self.n_features, self.names = first.n_features, first.names
        self.dtype = F4 if all(r.dtype == F4 for r in readers) else F8
        self.long = np.any([np.broadcast_to(r.long, first.n_features) for r in readers], axis=0)
        self.n_rows = _total(reader.n_rows for reader in readers)
        self._starts: list[int] = []  # first row of each file, as far as it is known

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        row, starts = 0, []
        for reader in self._readers:
            starts.append(row)
            self._starts = max(self._starts, starts, key=len)
            for piece in reader.pieces(rows):
                row += len(piece)
                yield piece.astype(self.dtype, copy=False)

    def require_unchanged(self) -> None:
        for reader in self._readers:
            reader.require_unchanged()

    def place(self, row: int) -> str:
        starts = [0]
        for reader in self._readers[:-1]:
            if reader.n_rows is None:
                break
            starts.append(starts[-1] + reader.n_rows)
        starts = max(starts, self._starts, key=len)
        index = bisect_right(starts, row) - 1
        return self._readers[index].place(row - starts[index])

    @property
    def bytes_per_pass(self) -> int | None:
        return _total(reader.bytes_per_pass for reader in self._readers)


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum, None where one of the counts is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def _require_same_columns(first: Reader, other: Reader) -> None:
    if first.names == other.names and first.n_features == other.n_features:
        return
    difference = f"{other.n_features} instead of {first.n_features}"
    if (first.names is None) != (other.names is None):
        difference = "only one of them has column names"
    for j, (ours, theirs) in enumerate(zip(first.names or (), other.names or (), strict=False)):
        if ours != theirs:
            difference = f"column {j} is {quote(theirs)} instead of {quote(ours)}"
            break
    raise UnreadableError(
        other.where,
        f"its columns are not those of {words().path(first.where)}: {difference}. Files that are "
        "read as one table have the same columns in the same order; "
        f"{words().parameter('columns')} chooses those that all of them have",
    )


def agree_on_decimals(readers: Sequence[CsvReader]) -> None:
    """Refuse files whose decimal marks differ: next to 1,5 the text 1.500 is a thousand and a half.

    A file whose first rows show no mark, because all numbers are whole, follows the others.
    """
    marks = [(reader.where, mark) for reader in readers if (mark := reader.dialect.mark)]
    for where, mark in marks[1:]:
        first, other = marks[0]
        if mark.decimal != other.decimal:
            raise UnreadableError(
                where,
                f"{mark}, and in {words().path(first)} {other}. Files that are read as one table "
                "have one decimal mark: write the numbers of all files in one way, or read the "
                "files apart",
            )
    for reader in readers:
        if marks and reader.dialect.mark is None:
            reader.follow(marks[0][1].decimal)
