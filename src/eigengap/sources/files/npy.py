"""NumPy's .npy files and .npz archives.

Files are read and not mapped: when a mapped file is cut short, the process that reads it is killed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.runtime.memory import require_memory
from eigengap.sources.files.columns import write_columns
from eigengap.sources.files.contents import ArrayReader, choose_member

SUFFIX = ".npy"  # of the members of an archive
BROKEN = (BadZipFile, EOFError, OSError, zlib.error, NotImplementedError, RuntimeError)
# What NumPy raises where the header of an array is damaged: it is a line of Python.
DAMAGED = (ValueError, EOFError, SyntaxError, TypeError, KeyError, OverflowError, TokenError)
TILE = 1 << 20  # bytes that are converted together


class NpyReader(ArrayReader):
    """A .npy file in C or Fortran order."""

    def __init__(self, path: Path, columns: Any = None) -> None:
        super().__init__(path)
        mapped = self._mapped()
        self._shape, self._stored = mapped.shape, mapped.dtype
        self._offset = int(mapped.offset)
        self._by_column = mapped.flags.f_contiguous and not mapped.flags.c_contiguous
        self._describe(mapped.dtype, mapped.shape, columns)

    def _mapped(self) -> Any:
        """Shape, type and offset of the numbers; none of them is read."""
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


class NpzReader(ArrayReader):
    """A member of an archive, compressed or not, read without unpacking it.

    An archive can only be read forwards, so an array in Fortran order is read as a whole.
    """

    def __init__(self, path: Path, columns: Any = None, member: str | None = None) -> None:
        super().__init__(path)
        headers = self._headers()
        shapes = {name: shape for name, (shape, _, _) in headers.items()}
        self._member = choose_member(self.where, shapes, member)
        self._shape, self._by_column, self._stored = headers[self._member]
        if self._member not in (None, "arr_0"):
            self.where = f"{path}::{self._member}"
        self._describe(self._stored, self._shape, columns)

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


class RawRows:
    """n rows of d numbers of one type in C order, some columns of which become float."""

    def __init__(
        self,
        where: str,
        shape: tuple[int, ...],
        stored: np.dtype[Any],
        dtype: np.dtype[Any],
        chosen: list[int] | None,
    ) -> None:
        self.where, self.stored, self.dtype, self.chosen = where, stored, dtype, chosen
        self.n, self.d = shape
        self.n_features = self.d if chosen is None else len(chosen)

    def read(self, stream: BinaryIO, rows: int) -> Iterator[NDArray[Any]]:
        """The rows from where the stream stands, in blocks of `rows`."""
        direct = self.chosen is None and self.stored == self.dtype
        for start in range(0, self.n, rows):
            block = np.empty((min(rows, self.n - start), self.n_features), dtype=self.dtype)
            if direct:
                self._fill(stream, block, start)
            else:
                self._convert(stream, block, start)
            yield block

    def _convert(self, stream: BinaryIO, block: NDArray[Any], start: int) -> None:
        step = max(1, TILE // max(1, self.d * self.stored.itemsize))
        for at in range(0, len(block), step):
            part = block[at : at + step]
            raw = np.empty((len(part), self.d), dtype=self.stored)
            self._fill(stream, raw, start + at)
            with np.errstate(over="ignore"):  # what is too large becomes inf, refused later
                part[...] = raw if self.chosen is None else raw[:, self.chosen]

    def _fill(self, stream: BinaryIO, target: NDArray[Any], start: int) -> None:
        view = target.data.cast("B") if target.size else memoryview(b"")
        got = 0
        while got < len(view):
            count = stream.readinto(view[got : got + TILE])  # type: ignore[attr-defined]
            if not count:
                row = start + got // max(1, self.d * self.stored.itemsize)
                raise UnreadableError(
                    self.where, f"it ends at row {row}, and {self.n} rows were expected: cut short"
                )
            got += count
