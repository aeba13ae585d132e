"""NumPy's .npz archives: one array of them, read through the archive without unpacking it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.runtime.memory import require_memory
from eigengap.sources.checks import is_long, resolve_columns
from eigengap.sources.files.file import FileReader
from eigengap.sources.files.members import choose_member, float_type
from eigengap.sources.files.raw import DAMAGED, RawRows

SUFFIX = ".npy"  # of the members
BROKEN = (BadZipFile, EOFError, OSError, zlib.error, NotImplementedError, RuntimeError)


class NpzReader(FileReader):
    """A member of the archive, compressed or not.

    An archive has one direction, so an array in Fortran order is read as a whole.
    """

    def __init__(self, path: Path, columns: Any = None, member: str | None = None) -> None:
        super().__init__(path)
        headers = self._headers()
        shapes = {name: shape for name, (shape, _, _) in headers.items()}
        self._member = choose_member(self.where, shapes, member)
        self._shape, self._by_column, self._stored = headers[self._member]
        if self._member not in (None, "arr_0"):
            self.where = f"{path}::{self._member}"
        self.dtype = float_type(self.where, self._stored, self._shape)
        self.long = is_long(self._stored)
        self.names = None
        self.n_rows, d = self._shape
        self._chosen = None if columns is None else resolve_columns(columns, None, d)
        self.n_features = d if self._chosen is None else len(self._chosen)

    def _headers(self) -> dict[str, tuple[tuple[int, ...], bool, np.dtype[Any]]]:
        headers = {}
        try:
            with ZipFile(self._path) as archive:
                for name in archive.namelist():
                    if name.endswith(SUFFIX):
                        with archive.open(name) as stream:
                            headers[name.removesuffix(SUFFIX)] = _header(cast(BinaryIO, stream))
        except (*BROKEN, *DAMAGED) as error:
            raise self._broken(error) from error
        return headers

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        try:
            with ZipFile(self._path) as archive, archive.open(self._member + SUFFIX) as stream:
                readable = cast(BinaryIO, stream)
                _header(readable)
                yield from self._from_start(readable, rows)
        except BROKEN as error:
            raise self._broken(error) from error

    def _from_start(self, stream: BinaryIO, rows: int) -> Iterator[NDArray[Any]]:
        n, d = self._shape
        if not self._by_column:
            raw = RawRows(self.where, (n, d), self._stored, self.dtype, self._chosen)
            yield from raw.read(stream, rows)
            return
        require_memory(
            2.0 * n * d * self._stored.itemsize,
            f"the array {self.where} of {n} rows and {d} columns, in Fortran order and so read as "
            "a whole,",
            "write it as .npy, or in C order: numpy.savez(path, numpy.ascontiguousarray(table))",
        )
        raw = RawRows(self.where, (d, n), self._stored, self._stored, None)
        (across,) = raw.read(stream, d)
        table = across.T if self._chosen is None else across[self._chosen].T
        for start in range(0, n, rows):
            yield np.array(table[start : start + rows], dtype=self.dtype, order="C")

    def _broken(self, error: BaseException) -> UnreadableError:
        return UnreadableError(
            self.where, f"it is not a whole .npz archive of numbers ({error}); copy it anew"
        )


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and type of the array whose bytes come next."""
    version = npy_format.read_magic(stream)
    if version == (1, 0):
        return npy_format.read_array_header_1_0(stream)
    return npy_format.read_array_header_2_0(stream)
