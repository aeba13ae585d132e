"""Files that tables are written to: under a temporary name until they are complete."""

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
from numpy.typing import NDArray

from eigengap.printable import quoted
from eigengap.runtime.part_files import Part, sync_folder, target_of
from eigengap.sources.checks import is_long, warn_of_rounded
from eigengap.sources.wording import first_repeated, quote
from eigengap.wording import words

GATHERED = 8 << 20  # bytes of rows that are written together


class Sink(ABC):
    """Rows in order, appended in a `with` block.

    Rows are written to a hidden file in the same folder. At the end of the block it is synchronised
    with the disk and renamed in one step; after an exception it is removed, and a file that had the
    name before is unchanged.
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
        self._warned_of_rounding = False
        self._part: Part | None = None  # what is written to
        self._types: list[Any] | None = None  # of Arrow, where columns may hold text
        self._refuse()

    @abstractmethod
    def _begin(self) -> None:
        """Open the temporary file; `n_features` and `dtype` are known."""

    @abstractmethod
    def _write(self, rows: NDArray[Any]) -> None:
        """Add rows (c, d), C order, of `dtype`."""

    @abstractmethod
    def _end(self) -> None:
        """Write the rest and close."""

    @abstractmethod
    def _abandon(self) -> None:
        """Close what is open, whatever was written."""

    def _may_replace(self, target: Path) -> bool:
        """Whether the existing file is of a kind that may be replaced."""
        return target.is_file()

    def append(self, rows: Any) -> None:
        """Add rows (c, d) of real numbers; NaN is a missing value.

        The first rows decide the type of the file: float32 if they are float32, else float64.
        Integers that float64 does not hold are rounded with a warning.
        """
        rows = np.asarray(rows)
        self._check(rows)
        if self.dtype is None:
            single = rows.dtype == np.float32
            self.dtype = np.dtype(np.float32 if single else np.float64)
            with self._named_errors():
                self._begin()
        self._waiting.append(self._converted(rows, self.dtype))
        self.n_rows += len(rows)
        if sum(part.nbytes for part in self._waiting) >= GATHERED:
            self._flush()

    def append_table(self, table: Any) -> None:
        """Add rows of a table of pyarrow, whose columns may hold text.

        The first rows decide the columns and their types.
        """
        if self.dtype is None:
            self.names = tuple(table.column_names) if self.names is None else self.names
            self.n_features, self.dtype = table.num_columns, np.dtype(np.float64)
            self._types = table.schema.types
            with self._named_errors():
                self._begin()
        with self._named_errors():
            self._write_table(table)
        self.n_rows += len(table)

    def _write_table(self, table: Any) -> None:
        raise ValueError(
            f"{quoted(str(self.path))} is a file of numbers, and levels are text: write .csv or "
            ".parquet"
        )

    def _converted(self, rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Rows in the type of the file, which the first ones decided."""
        if dtype == np.float32 and not np.can_cast(rows.dtype, dtype):
            raise ValueError(
                f"the rows before row {self.n_rows} of {quoted(str(self.path))} are float32, and "
                f"those from there on are {rows.dtype}, which float32 would round. Append all of "
                "them as one type, e.g. rows.astype(numpy.float64)"
            )
        with np.errstate(over="ignore"):
            found = np.array(rows, dtype=dtype, order="C")
        if rows.dtype.itemsize > dtype.itemsize and np.any(np.isinf(found) & np.isfinite(rows)):
            raise ValueError(
                f"row {self.n_rows} or one after it has a number too large for float64, of which "
                f"{quoted(str(self.path))} is made"
            )
        if not self._warned_of_rounding:
            self._warned_of_rounding = warn_of_rounded(
                found, is_long(rows.dtype), self.names, self.n_rows
            )
        return found

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
            with self._named_errors():
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
        with self._named_errors():
            self._write(rows)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Let errors of the temporary file name the one that the caller asked for."""
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
        """Refuse a path that exists and must not be replaced, or whose folder does not exist."""
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
        """Rename to the final name."""
        assert self._part is not None
        if not self._target.is_dir():
            self._part.publish()
        else:  # a folder in two steps, undone if the second fails: one step is impossible
            old = self._part.path.with_suffix(".old")
            os.rename(self._target, old)
            try:
                os.rename(self._part.path, self._target)
            except BaseException:
                os.rename(old, self._target)
                raise
            shutil.rmtree(old)
        sync_folder(self._target.parent)

    def _discard(self) -> None:
        self._waiting = []
        try:
            self._abandon()
        finally:
            if self._part is not None:
                self._part.remove()
                self._part.release()


class FileSink(Sink):
    """A sink of one file that Python writes, so that errors are Python's own."""

    _file: Any = None

    def _create(self) -> Any:
        """A new temporary file, with the permissions of a new file."""
        self._part = Part(self._target)
        # Not closed with the file: the part stays locked until it has its final name.
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
        except OSError:  # the disk is full, and the buffer is not needed any more
            self._file.close()


MESSAGES = {errno.ENOSPC: "No space left", errno.EDQUOT: "quota", errno.EFBIG: "File too large"}


def _number_in(text: str) -> int:
    """The error number that a library's message describes."""
    found = (n for n, name in MESSAGES.items() if name in text or f"errno = {n}" in text)
    return next(found, errno.EIO)
