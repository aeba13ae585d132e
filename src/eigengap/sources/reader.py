"""Tables that are read from the first row to the last, as often as needed, never as a whole.

A new format is a new file in `sources/files` that implements `Reader`; `StreamSource` cuts into
blocks, validates, counts and reads ahead. Every block is validated as it is read: an infinite
value, or a table that has become longer or shorter since the last pass, is an error that names the
file and the row. The next block is read while the last one is processed.

A fit reads a file many times, and every pass must find the same table. So size and time of writing
are compared before and after each pass, and before results of an earlier pass are used again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import InfiniteCellError, UnreadableError
from eigengap.linalg import Array
from eigengap.printable import quoted
from eigengap.runtime import memory
from eigengap.runtime.memory import free_memory
from eigengap.runtime.threads import closed_at_end
from eigengap.runtime.warnings import CapturedWarning, captured
from eigengap.sources.base import Block, present_rows
from eigengap.sources.blocked import BlockedSource, MemoisedSource, Several
from eigengap.sources.checks import (
    check_not_empty,
    count_missing,
    warn_of_rounded,
    with_missing_for,
)
from eigengap.wording import words

BLOCK_BYTES = 32 << 20  # of float64 values, where memory allows (`memory.block_bytes`)
KEPT_SHARE = 0.25  # of the free memory that prepared blocks may take
_END = object()


class Reader(ABC):
    """Rows in order, in pieces of any size.

    Attributes
    ----------
    where : how messages name the table, mostly its path
    n_features : number of columns that are read
    names : their names, or None where the table has none
    dtype : float32 or float64, what the pieces hold
    n_rows : number of rows, None where they have to be read to be counted
    long : whether columns, all or each (d,), are stored as 64-bit integers
    """

    where: str
    n_features: int
    names: tuple[str, ...] | None
    dtype: np.dtype[Any]
    n_rows: int | None
    long: Any = False

    @abstractmethod
    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """Consecutive rows (c, d), c about `rows` at most where the format allows; NaN is missing.

        The caller keeps what is yielded: it must not be overwritten later. Closing the iterator
        closes the file. A cell that cannot be read raises `UnreadableError`.
        """

    def require_unchanged(self) -> None:  # noqa: B027, a medium may be unable to change
        """Raise `UnreadableError` where the medium has changed since it was opened."""

    def place(self, row: int) -> str:
        """How messages name a row of the table: for many files, the file and the row in it."""
        return f"row {words().number(row)} of {words().path(self.where)}"

    @property
    def bytes_per_pass(self) -> int | None:
        """Bytes that a pass reads from the medium, None where that is not known."""
        return None


@dataclass(frozen=True)
class Stamp:
    """Facts that change when a file or folder is written to."""

    size: int  # bytes
    written: int  # nanoseconds
    number: int  # inode: another file may have got the same name
    parts: int = 1  # files in a folder

    @classmethod
    def of(cls, path: Path) -> Stamp:
        status = path.stat()
        if not S_ISDIR(status.st_mode):
            return cls(status.st_size, status.st_mtime_ns, status.st_ino)
        found = [part.stat() for part in path.rglob("*") if part.is_file()]
        written = max((part.st_mtime_ns for part in found), default=0)
        return cls(sum(part.st_size for part in found), written, status.st_ino, len(found))


def require_stamp(path: Path, stamp: Stamp, where: str) -> None:
    """Refuse a file or folder that has changed since it had this stamp."""
    try:
        now = Stamp.of(path)
    except FileNotFoundError:
        raise UnreadableError(where, "it was removed after it was opened") from None
    if now == stamp:
        return
    if now.size == stamp.size:
        change = "was written to"
    else:
        change = f"went from {stamp.size} to {now.size} bytes"
    raise UnreadableError(
        where,
        f"it {change} since it was opened, and every pass must see the same rows. Let nothing "
        "write to it, or work on a copy",
    )


@contextmanager
def unreadable(where: str, kinds: tuple[type[Exception], ...], message: str) -> Iterator[None]:
    """Let errors of these kinds name the file; {} in the message is for theirs."""
    try:
        yield
    except (UnreadableError, MemoryError):
        raise
    except kinds as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UnreadableError(where, message.replace("{}", said)) from error


class FileReader(Reader):
    """A table in one file, which is closed between passes."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path
        self._stamp = Stamp.of(path)

    @abstractmethod
    def _pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        """The rows of `pieces`, from a file that is known to be unchanged."""

    def pieces(self, rows: int) -> Iterator[NDArray[Any]]:
        self.require_unchanged()
        yield from self._pieces(rows)
        self.require_unchanged()

    @property
    def bytes_per_pass(self) -> int | None:
        return self._stamp.size

    def require_unchanged(self) -> None:
        require_stamp(self._path, self._stamp, self.where)


class StreamSource(MemoisedSource, BlockedSource):
    """The table of a `Reader`, cut into blocks of equal numbers of rows.

    `bytes_read` counts bytes that were read from the medium, where the reader reports them.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        weight: Array | None = None,
        codes: tuple[float, ...] = (),
        block_bytes: int | None = None,
        block_rows: int | None = None,
    ) -> None:
        self.reader, self.where = reader, reader.where
        self.n_features, self.names = reader.n_features, reader.names
        self.dtype, self.n_rows = reader.dtype, reader.n_rows
        self.is_sparse = False
        self.passes, self.bytes_read = 0, 0
        self.weight = weight
        self._codes = codes
        self._warned_of_rounding = False
        self._known = {}
        size = BLOCK_BYTES if block_rows else block_bytes or memory.block_bytes(BLOCK_BYTES)
        self.rows_per_block = block_rows or max(1, size // (8 * max(1, self.n_features)))
        self._most_kept = KEPT_SHARE * free_memory()
        if self.n_rows is not None:
            self._check_length(self.n_rows)

    def __repr__(self) -> str:
        rows = "rows not counted yet" if self.n_rows is None else f"{self.n_rows} rows"
        return (
            f"<{type(self).__name__} of {quoted(self.where)}: {rows} x {self.n_features} columns>"
        )

    def _require_unchanged(self) -> None:
        self.reader.require_unchanged()

    def _take(self, ofs: Sequence[Callable[[Any], Any]]) -> Sequence[Any]:
        def each(block: Block) -> Several:
            return Several(tuple(of(block) for of in ofs))

        return BlockedSource.reduce(self, each).parts

    def _blocks(self) -> Iterator[Block]:
        return ahead(self._read())

    def _read(self) -> Iterator[Block]:
        row = kept = 0  # rows that were read, and those that were not skipped
        for values in recut(self.reader.pieces(self.rows_per_block), self.rows_per_block):
            stop = row + len(values)
            if self.n_rows is not None and stop > self.n_rows:
                raise UnreadableError(
                    self.where,
                    f"it had {self.n_rows} rows and has become longer while it is read. Let "
                    "nothing write to it, or work on a copy",
                )
            if self.weight is not None and len(self.weight) < stop:
                raise ValueError(
                    f"sample_weight has {len(self.weight)} entries but X has at least {stop} rows"
                )
            weight = None if self.weight is None else self.weight[row:stop]
            values = self._validated(values, row)
            values, weight = present_rows(values, weight, self._skips_empty)
            if len(values):
                yield Block(values, weight, None, kept)
            row, kept = stop, kept + len(values)
        self._check_length(row)
        self.n_rows = row
        self.bytes_read += self.reader.bytes_per_pass or 0

    def _validated(self, values: NDArray[Any], start: int) -> NDArray[Any]:
        if self._codes:
            values = with_missing_for(values, self._codes)
        if not self._warned_of_rounding:
            self._warned_of_rounding = warn_of_rounded(values, self.reader.long, self.names, start)
        try:
            count_missing(values, self.names, start)
        except InfiniteCellError as error:
            at = {name: getattr(error, name) for name in ("row", "column", "name", "value")}
            raise UnreadableError(self.where, self._about(error), in_cells=True, **at) from None
        return values

    def _about(self, error: InfiniteCellError) -> str:
        """The message about an infinite value, with its row in the file if there are several."""
        place = self.reader.place(error.row)
        several = place != Reader.place(self.reader, error.row)
        return f"{error}. It is {place}" if several else str(error)

    def _check_length(self, rows: int) -> None:
        if self.n_rows is not None and rows < self.n_rows:
            raise UnreadableError(
                self.where,
                f"it ends after row {rows - 1}, and {self.n_rows} rows were expected: it was cut "
                "short, or changed while it is read",
            )
        check_not_empty((rows, self.n_features))
        if self.weight is not None and len(self.weight) != rows:
            raise ValueError(f"sample_weight has {len(self.weight)} entries but X has {rows} rows")


def recut(pieces: Iterator[NDArray[Any]], rows: int) -> Iterator[NDArray[Any]]:
    """The same rows in pieces of exactly `rows` of them, the last one excepted."""
    waiting: list[NDArray[Any]] = []
    count = 0
    for piece in pieces:
        while count + len(piece) >= rows:
            head, piece = piece[: rows - count], piece[rows - count :]
            yield head if not waiting else np.concatenate([*waiting, head])
            waiting, count = [], 0
        if len(piece):
            waiting.append(piece)
            count += len(piece)
    if waiting:
        yield waiting[0] if len(waiting) == 1 else np.concatenate(waiting)


T = TypeVar("T")


def ahead(parts: Iterator[T], depth: int = 1) -> Iterator[T]:
    """The same parts, up to `depth` of them read in advance, and the next one begun, by one thread.

    Errors of reading are raised here, in their place. Closing or deleting this iterator ends the
    thread and closes `parts`.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="eigengap-ahead")
    with closed_at_end(parts):
        try:
            waiting = deque(pool.submit(_read_next, parts) for _ in range(depth + 1))
            while True:
                taken, warned = waiting.popleft().result()
                for one in warned:  # while reading, to be reissued in the caller's thread
                    one.reissue()
                if taken is _END:
                    return
                waiting.append(pool.submit(_read_next, parts))
                yield taken
                del taken  # or it would stay in memory while the next one is waited for
        finally:
            pool.shutdown(cancel_futures=True)


def _read_next(parts: Iterator[Any]) -> tuple[Any, list[CapturedWarning]]:
    with captured() as caught:
        part = next(parts, _END)
    return part, caught
