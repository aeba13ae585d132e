"""Writing .npy: the number of rows is put into the header when the last one is there."""

from __future__ import annotations

from typing import Any

from numpy.lib import format as npy_format
from numpy.typing import NDArray

from eigengap.sources.sinks.base import FileSink


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
