"""Writing HDF5: one dataset named "data"."""

from __future__ import annotations

import errno
import os
import shutil
from typing import Any

from numpy.typing import NDArray

from eigengap.extras import MissingExtraError
from eigengap.sources.sinks.base import Sink

CHUNK = 1 << 20  # bytes
MARGIN = 1 << 18  # bytes that HDF5 may need besides the rows


class Hdf5Sink(Sink):
    """A dataset (n, d); column names go into its attribute "columns".

    HDF5 keeps what it cannot write, and trips over it at the end of the process. So the room is
    asked for beforehand.
    """

    _h5: Any = None

    def _begin(self) -> None:
        try:
            import h5py
        except ImportError as error:
            raise MissingExtraError("writing HDF5", "h5py", "files") from error
        assert self.dtype is not None
        assert self.n_features is not None
        width = max(1, self.n_features)
        chunk = max(1, CHUNK // (self.dtype.itemsize * width))
        self._chunk_bytes = chunk * width * self.dtype.itemsize
        self._require_room(self._chunk_bytes)
        self._h5 = h5py.File(self._temporary, "w-")
        self._data = self._h5.create_dataset(
            "data",
            shape=(0, self.n_features),
            maxshape=(None, self.n_features),
            chunks=(chunk, width),
            dtype=self.dtype,
        )
        if self.names is not None:
            self._data.attrs["columns"] = list(self.names)

    def _write(self, rows: NDArray[Any]) -> None:
        self._require_room(rows.nbytes + self._chunk_bytes)
        start = len(self._data)
        try:
            self._data.resize(start + len(rows), axis=0)
            self._data[start:] = rows
            self._h5.flush()
        except (OSError, RuntimeError) as error:
            raise OSError(str(error)) from error

    def _end(self) -> None:
        try:
            self._h5.close()
        except (OSError, RuntimeError) as error:
            raise OSError(str(error)) from error
        number = os.open(self._temporary, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def _abandon(self) -> None:
        if self._h5 is not None and self._h5.id.valid:
            self._h5.close()

    def _require_room(self, size: int) -> None:
        if shutil.disk_usage(self._target.parent).free < size + MARGIN:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
