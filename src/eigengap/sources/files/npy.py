"""NumPy's .npy files, mapped into memory: rows come from the page cache, not through a copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.array import F4, F8
from eigengap.sources.checks import check_two_dimensional, resolve_columns
from eigengap.sources.reader import Reader, UnreadableError


class NpyReader(Reader):
    """A two-dimensional table of numbers in C or Fortran order."""

    def __init__(self, path: Path, columns: Any = None) -> None:
        self.where = str(path)
        self._path = path
        mapped = self._mapped()
        if mapped.dtype.kind not in "fiub":
            raise UnreadableError(
                self.where,
                f"it holds {mapped.dtype}, not real numbers. Write it anew as float64, e.g. "
                "numpy.save(path, table.astype(float))",
            )
        check_two_dimensional(mapped)
        self._chosen = None
        if columns is not None:
            self._chosen = resolve_columns(columns, None, mapped.shape[1])
        self.n_rows = int(mapped.shape[0])
        self.n_features = mapped.shape[1] if self._chosen is None else len(self._chosen)
        self.names = None
        self.dtype = F4 if mapped.dtype.kind == "f" and mapped.dtype.itemsize == 4 else F8

    def _mapped(self) -> NDArray[Any]:
        """The table as it is at this moment; a file cut short is seen here."""
        try:
            return np.load(self._path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
        except (ValueError, EOFError) as error:
            raise UnreadableError(
                self.where, f"it is not a whole .npy file of numbers ({error})"
            ) from error

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        mapped = self._mapped()
        for start in range(0, len(mapped), rows):
            piece = mapped[start : start + rows]
            if self._chosen is not None:
                piece = piece[:, self._chosen]
            # A copy, made by the thread that reads ahead: the pages are touched there and not
            # where they are computed with, and the file may change under a map.
            yield np.array(piece, dtype=self.dtype, order="C")

    @property
    def bytes_per_pass(self) -> int:
        return self._path.stat().st_size
