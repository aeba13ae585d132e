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
from eigengap.sources.files.contents import ArrayReader, choose_member
from eigengap.sources.reader import unreadable

SUFFIX = ".npy"  # of the members of an archive
BROKEN = (BadZipFile, EOFError, OSError, zlib.error, NotImplementedError, RuntimeError)
# What NumPy raises where the header of an array is damaged: it is a line of Python.
DAMAGED = (ValueError, EOFError, SyntaxError, TypeError, KeyError, OverflowError, TokenError)
BROKEN_ARCHIVE = "it is not a whole .npz archive of numbers ({}); copy it anew"
TILE = 1 << 20  # bytes that are converted together


class RawReader(ArrayReader):
    """Numbers of one type, one after the other."""

    _shape: tuple[int, ...]
    _stored: np.dtype[Any]
    _by_column: bool  # Fortran order

    def _by_rows(self, stream: BinaryIO, rows: int) -> Iterator[NDArray[Any]]:
        """An array in C order from where the stream stands, in blocks of `rows`."""
        n, d = self._shape
        step = max(1, TILE // max(1, d * self._stored.itemsize))
        for start in range(0, n, rows):
            block = np.empty((min(rows, n - start), self.n_features), dtype=self.dtype)
            if self._chosen is None and self._stored == self.dtype:
                self._fill(stream, block, start)
                yield block
                continue
            for at in range(0, len(block), step):
                part = block[at : at + step]
                raw = np.empty((len(part), d), dtype=self._stored)
                self._fill(stream, raw, start + at)
                with np.errstate(over="ignore"):  # what is too large becomes inf, refused later
                    part[...] = raw if self._chosen is None else raw[:, self._chosen]
            yield block

    def _fill(self, stream: BinaryIO, target: NDArray[Any], start: int) -> None:
        """The next numbers into an array whose first row is row `start` of the table."""
        view = target.data.cast("B") if target.size else memoryview(b"")
        got = 0
        while got < len(view):
            count = stream.readinto(view[got : got + TILE])  # type: ignore[attr-defined]
            if not count:
                row = start + got // max(1, target.nbytes // len(target))
                raise UnreadableError(
                    self.where,
                    f"it ends at row {row}, and {self._shape[0]} rows were expected: cut short",
                )
            got += count


class NpyReader(RawReader):
    """A .npy file in C or Fortran order."""

    def __init__(self, path: Path, columns: Any = None) -> None:
        super().__init__(path)
        with unreadable(self.where, DAMAGED, "it is not a whole .npy file of numbers ({})"):
            # Shape, type and offset of the numbers; none of them is read.
            mapped = np.load(self._path, mmap_mode="r", allow_pickle=False)
        self._shape, self._stored = mapped.shape, mapped.dtype
        self._offset = int(mapped.offset)
        self._by_column = mapped.flags.f_contiguous and not mapped.flags.c_contiguous
        self._describe(mapped.dtype, mapped.shape, columns)

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        with self._path.open("rb", buffering=0) as stream:
            if self._by_column:
                yield from self._transposed(stream, rows)
            else:
                stream.seek(self._offset)
                yield from self._by_rows(cast(BinaryIO, stream), rows)

    def _transposed(self, stream: Any, rows: int) -> Iterator[NDArray[Any]]:
        n, d = self._shape
        chosen = range(d) if self._chosen is None else self._chosen
        for start in range(0, n, rows):
            block = np.empty((min(rows, n - start), len(chosen)), dtype=self.dtype)
            for k, j in enumerate(chosen):
                stream.seek(self._offset + (j * n + start) * self._stored.itemsize)
                column = np.empty(len(block), dtype=self._stored)
                self._fill(stream, column, start)
                with np.errstate(over="ignore"):
                    block[:, k] = column
            yield block


class NpzReader(RawReader):
    """A member of an archive, compressed or not, read without unpacking it.

    An archive can only be read forwards, so an array in Fortran order is read as a whole.
    """

    def __init__(self, path: Path, columns: Any = None, member: str | None = None) -> None:
        super().__init__(path)
        headers = {}
        with (
            unreadable(self.where, (*BROKEN, *DAMAGED), BROKEN_ARCHIVE),
            ZipFile(self._path) as archive,
        ):
            for name in archive.namelist():
                if name.endswith(SUFFIX):
                    with archive.open(name) as stream:
                        headers[name.removesuffix(SUFFIX)] = _header(cast(BinaryIO, stream))
        shapes = {name: shape for name, (shape, _, _) in headers.items()}
        self._member = choose_member(self.where, shapes, member)
        self._shape, self._by_column, self._stored = headers[self._member]
        if self._member not in (None, "arr_0"):
            self.where = f"{path}::{self._member}"
        self._describe(self._stored, self._shape, columns)

    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        with (
            unreadable(self.where, BROKEN, BROKEN_ARCHIVE),
            ZipFile(self._path) as archive,
            archive.open(self._member + SUFFIX) as stream,
        ):
            readable = cast(BinaryIO, stream)
            _header(readable)
            way = self._as_a_whole if self._by_column else self._by_rows
            yield from way(readable, rows)

    def _as_a_whole(self, stream: BinaryIO, rows: int) -> Iterator[NDArray[Any]]:
        n, d = self._shape
        require_memory(
            2.0 * n * d * self._stored.itemsize,
            f"the array {self.where} of {n} rows and {d} columns, in Fortran order and so read as "
            "a whole,",
            "write it as .npy, or in C order: numpy.savez(path, numpy.ascontiguousarray(table))",
        )
        across = np.empty((d, n), dtype=self._stored)
        self._fill(stream, across, 0)
        table = across.T if self._chosen is None else across[self._chosen].T
        for start in range(0, n, rows):
            yield np.array(table[start : start + rows], dtype=self.dtype, order="C")


def _header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and type of the array whose bytes come next."""
    version = npy_format.read_magic(stream)
    if version == (1, 0):
        return npy_format.read_array_header_1_0(stream)
    return npy_format.read_array_header_2_0(stream)
