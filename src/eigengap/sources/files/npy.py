"""NumPy's .npy files, in C or Fortran order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.checks import is_long, resolve_columns
from eigengap.sources.files.columns import write_columns
from eigengap.sources.files.file import FileReader
from eigengap.sources.files.members import float_type
from eigengap.sources.files.raw import DAMAGED, RawRows


class NpyReader(FileReader):
    """A two-dimensional table of numbers."""

    def __init__(self, path: Path, columns: Any = None) -> None:
        super().__init__(path)
        mapped = self._mapped()
        self._shape, self._stored = mapped.shape, mapped.dtype
        self.long = is_long(self._stored)
        self._offset = int(mapped.offset)
        self.dtype = float_type(self.where, mapped.dtype, mapped.shape)
        self._by_column = mapped.flags.f_contiguous and not mapped.flags.c_contiguous
        self.names = None
        self.n_rows, d = mapped.shape
        self._chosen = None if columns is None else resolve_columns(columns, None, d)
        self.n_features = d if self._chosen is None else len(self._chosen)

    def _mapped(self) -> Any:
        """Shape, type and place of the numbers; no page of them is touched."""
        try:
            return np.load(self._path, mmap_mode="r", allow_pickle=False)
        except DAMAGED as error:
            raise UnreadableError(
                self.where, f"it is not a whole .npy file of numbers ({error})"
            ) from error

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        with self._path.open("rb", buffering=0) as stream:
            if self._by_column:
                yield from self._transposed(stream, rows)
                return
            stream.seek(self._offset)
            raw = RawRows(self.where, self._shape, self._stored, self.dtype, self._chosen)
            yield from raw.read(stream, rows)

    def _transposed(self, stream: Any, rows: int) -> Iterator[NDArray[Any]]:
        n, d = self._shape
        chosen = range(d) if self._chosen is None else self._chosen
        for start in range(0, n, rows):
            count = min(rows, n - start)
            block = np.empty((count, len(chosen)), dtype=self.dtype)
            for k, j in enumerate(chosen):
                stream.seek(self._offset + (j * n + start) * self._stored.itemsize)
                raw = RawRows(self.where, (count, 1), self._stored, self.dtype, None)
                (column,) = raw.read(stream, count)
                write_columns(block[:, k : k + 1], [column[:, 0]])
            yield block
