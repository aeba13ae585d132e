"""Writing CSV: the fewest digits that read back as the same number; missing values are empty.

A header cell that begins with = + - @ is a formula to a spreadsheet, and the name of a column may
come from anywhere: an apostrophe in front makes it text again (OWASP, CSV injection).
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import MissingExtraError
from eigengap.sources.files.csv.cells import Cells
from eigengap.sources.sinks.base import FileSink

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

    def _as_text(self, rows: NDArray[Any]) -> memoryview:
        try:
            import pyarrow as pa
            from pyarrow import csv as arrow_csv
        except ImportError as error:
            raise MissingExtraError("writing CSV", "pyarrow", "files") from error
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
