"""Writing Zarr: a folder of compressed chunks, each of whole rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import MissingExtraError
from eigengap.runtime.part_files import Part
from eigengap.sources.files.paths import ZARR
from eigengap.sources.sinks.base import Sink

CHUNK = 4 << 20  # bytes


class ZarrSink(Sink):
    """An array (n, d); column names go into its attribute "columns"."""

    _array: Any = None

    def _may_replace(self, target: Path) -> bool:
        return target.is_file() or any((target / name).exists() for name in ZARR)

    def _begin(self) -> None:
        try:
            import zarr
        except ImportError as error:
            raise MissingExtraError("writing Zarr", "zarr", "files") from error
        assert self.dtype is not None
        assert self.n_features is not None
        self._chunk = max(1, CHUNK // max(1, self.dtype.itemsize * self.n_features))
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
        """Whole chunks; what is left waits, or a chunk would be written twice."""
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
