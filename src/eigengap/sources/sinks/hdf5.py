"""Writing HDF5: one dataset named "data".

HDF5 keeps what it could not write and tries again when the file is closed and when the process
ends, which a full disk turns into a crash. So it writes through a file that never fails: the first
error is kept, what follows is dropped, and the error is raised here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import MissingExtraError
from eigengap.sources.sinks.base import FileSink

CHUNK = 1 << 20  # bytes


class Hdf5Sink(FileSink):
    """A dataset (n, d); column names go into its attribute "columns"."""

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
        self._disk = _NeverFails(self._create())
        # From this version on metadata have checksums, and may hold very many names.
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
        self._disk.tell_error()

    def _write(self, rows: NDArray[Any]) -> None:
        start = len(self._data)
        self._data.resize(start + len(rows), axis=0)
        self._data[start:] = rows
        self._disk.tell_error()

    def _end(self) -> None:
        self._h5.close()
        self._disk.tell_error()
        self._close()

    def _abandon(self) -> None:
        if self._h5 is not None and self._h5.id.valid:
            self._disk.drop()
            self._h5.close()
        super()._abandon()


class _NeverFails:
    """A file whose writing succeeds as far as HDF5 knows."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._error: OSError | None = None
        self._dropping = False

    def drop(self) -> None:
        """Write nothing from now on."""
        self._dropping = True

    def tell_error(self) -> None:
        if self._error is not None:
            raise self._error

    def write(self, data: Any) -> int:
        if not self._dropping:
            try:
                self._file.write(data)
            except OSError as error:
                self._error, self._dropping = error, True
        return len(data)

    def flush(self) -> None:
        if not self._dropping:
            try:
                self._file.flush()
            except OSError as error:
                self._error, self._dropping = error, True

    def truncate(self, size: int | None = None) -> int:
        if not self._dropping:
            try:
                return int(self._file.truncate(size))
            except OSError as error:
                self._error, self._dropping = error, True
        return size or 0

    def seek(self, place: int, whence: int = 0) -> int:
        try:
            return int(self._file.seek(place, whence))
        except OSError as error:  # a buffer is written out before the place is left
            self._error, self._dropping = error, True
            return place

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int = -1) -> bytes:
        return bytes(self._file.read(size))

    def readinto(self, target: Any) -> int:
        return int(self._file.readinto(target))
