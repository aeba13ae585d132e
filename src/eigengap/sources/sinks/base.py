"""A table on its way into a file: under another name until it is complete, or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from eigengap.printable import quoted
from eigengap.runtime.part_files import Part, target_of
from eigengap.sources.wording import first_repeated, quote
from eigengap.wording import words

GATHERED = 8 << 20  # bytes of rows that are written together


class Sink(ABC):
    """Rows in order, appended in a `with` block.

    What is written stands in the same folder under a hidden name. When the block is left it is
    brought to the disk and renamed in one step; an exception, also of the writing itself, removes
    it, and what had the name before is as it was.
    """

    def __init__(self, path: Path, names: Sequence[str] | None, force: bool) -> None:
        self.path = path
        self._target = target_of(path)
        self._force = force
        self.names = None if names is None else tuple(map(str, names))
        self.n_rows = 0
        self.n_features: int | None = None if self.names is None else len(self.names)
        self.dtype: np.dtype[Any] | None = None
        self._waiting: list[NDArray[Any]] = []
        self._part: Part | None = None  # what is written to
        self._refuse()

    @abstractmethod
    def _begin(self) -> None:
        """Open the temporary file; `n_features` and `dtype` are known."""

    @abstractmethod
    def _write(self, rows: NDArray[Any]) -> None:
        """Add rows (c, d), C order, of `dtype`."""

    @abstractmethod
    def _end(self) -> None:
        """Write what is left and close."""

    @abstractmethod
    def _abandon(self) -> None:
        """Close what is open, without any care for what was written."""

    def _may_replace(self, target: Path) -> bool:
        """Whether what stands there, and the caller wants to be replaced, is a table like ours."""
        return target.is_file()

    def append(self, rows: Any) -> None:
        """Add rows (c, d) of real numbers; NaN is an unseen cell."""
        rows = np.asarray(rows)
        self._check(rows)
        if self.dtype is None:
            single = rows.dtype == np.float32
            self.dtype = np.dtype(np.float32 if single else np.float64)
            with self._told():
                self._begin()
        self.n_rows += len(rows)
        self._waiting.append(np.array(rows, dtype=self.dtype, order="C"))
        if sum(part.nbytes for part in self._waiting) >= GATHERED:
            self._flush()

    def name_columns(self, names: Sequence[str]) -> None:
        """Give the columns names, before the first row."""
        assert self.n_rows == 0
        self.names, self.n_features = tuple(map(str, names)), len(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            if self.dtype is None:
                raise ValueError(f"nothing was appended to {quoted(str(self.path))}")
            self._flush()
            with self._told():
                self._end()
                self._refuse()
                self._publish()
        except BaseException:
            self._discard()
            raise
        assert self._part is not None
        self._part.release()

    def _check(self, rows: NDArray[Any]) -> None:
        if rows.ndim != 2 or rows.dtype.kind not in "fiub":
            raise ValueError(
                f"rows of real numbers, shape (c, d), are written to {quoted(str(self.path))}; got "
                f"shape {rows.shape} of {rows.dtype}"
            )
        if self.n_features is None:
            self.n_features = rows.shape[1]
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"{quoted(str(self.path))} has {self.n_features} columns, and row {self.n_rows} on "
                f"has {rows.shape[1]}"
            )
        twice = first_repeated(self.names or ())
        if twice is not None and self.dtype is None:
            raise ValueError(f"the column name {quote(twice)} occurs twice; names must be unique")

    def _flush(self) -> None:
        if not self._waiting:
            return
        parts, self._waiting = self._waiting, []
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        with self._told():
            self._write(rows)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the system says of the temporary file is said of the one that the caller named."""
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            number = error.errno or _number_in(str(error))
            raise OSError(
                number,
                f"{os.strerror(number)}; nothing was written under this name",
                str(self.path),
            ) from error

    def _refuse(self) -> None:
        """Refuse to write where something stands that must not be replaced, or where none can."""
        if self._target.exists() and not self._force:
            raise FileExistsError(
                errno.EEXIST,
                f"it exists already; pass {words().parameter('force', True)} to replace it",
                str(self.path),
            )
        if self._target.exists() and not self._may_replace(self._target):
            raise FileExistsError(
                errno.EEXIST,
                "what is there is no file of this kind (a folder, a pipe, a device) and is not "
                "replaced; give another path",
                str(self.path),
            )
        if not self._target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "its folder does not exist", str(self.path))

    def _publish(self) -> None:
        """From the temporary name to the final one."""
        assert self._part is not None
        if self._target.is_dir():
            self._replace_folder(self._part.path)
        else:
            self._part.publish()
        _sync(self._target.parent)

    def _replace_folder(self, new: Path) -> None:
        """A folder cannot be replaced in one step: the old one makes way, or returns."""
        aside = new.with_suffix(".old")
        os.rename(self._target, aside)
        try:
            os.rename(new, self._target)
        except BaseException:
            os.rename(aside, self._target)
            raise
        shutil.rmtree(aside)

    def _discard(self) -> None:
        self._waiting = []
        try:
            self._abandon()
        finally:
            if self._part is not None:
                self._part.remove()
                self._part.release()


class FileSink(Sink):
    """A sink of one file that Python itself writes, so that its errors are Python's."""

    _file: Any = None

    def _create(self) -> Any:
        """The temporary file, which must not be there yet, with the permissions of a new one."""
        self._part = Part(self._target)
        # Closed before the part has its name, until when it has to be locked.
        self._file = os.fdopen(self._part.number, "w+b", closefd=False)
        return self._file

    def _close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def _abandon(self) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError:  # the disk is full: what is in the buffer is not wanted any more
            self._file.close()


def _number_in(text: str) -> int:
    """The error number that a library has put into words."""
    for number, name in (
        (errno.ENOSPC, "No space left"),
        (errno.EDQUOT, "quota"),
        (errno.EFBIG, "File too large"),
    ):
        if name in text or f"errno = {number}" in text:
            return number
    return errno.EIO


def _sync(folder: Path) -> None:
    """Bring the name itself to the disk, where the system can."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:  # folders cannot be opened there
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):
            raise
    finally:
        os.close(number)


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
