"""Tables that are read from a file as often as needed, in blocks, never as a whole.

Every block is validated as it is read: an infinite cell, or a table that has become longer or
shorter since the last pass, is an error that names the file and the row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.memory import SHARE, free_memory, require_memory
from eigengap.sources.ahead import ahead
from eigengap.sources.base import Block, Rows, S, SeenCells
from eigengap.sources.blocked import BlockedSource, merge_stream
from eigengap.sources.checks import check_not_empty, count_gaps, with_gaps_for
from eigengap.sources.drawn import Draw, Drawn, seed_of
from eigengap.sources.reader import Reader, UnreadableError

BLOCK_BYTES = 32 << 20  # of float64 values; a fit holds some five of these at a time
KEPT_SHARE = 0.25  # of the free memory that prepared blocks may fill


class StreamSource(BlockedSource):
    """The table of a `Reader`, cut into blocks of equal numbers of rows.

    `bytes_read` counts what was read from the medium, where the reader knows.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        weight: Array | None = None,
        codes: tuple[float, ...] = (),
        block_bytes: int = BLOCK_BYTES,
        block_rows: int | None = None,
    ) -> None:
        self.reader = reader
        self.n_features, self.names = reader.n_features, reader.names
        self.dtype, self.n_rows = reader.dtype, reader.n_rows
        self.is_sparse, self.is_dear = False, True
        self.passes, self.bytes_read = 0, 0
        self.weight = weight
        self._codes = codes
        self._known: dict[Hashable, Any] = {}  # statistics of the whole table
        self.rows_per_block = block_rows or max(1, block_bytes // (8 * max(1, self.n_features)))
        self._most_kept = KEPT_SHARE * free_memory()
        if self.n_rows is not None:
            self._check_length(self.n_rows)

    @property
    def has_gaps(self) -> bool | None:  # type: ignore[override]
        """Whether a cell is unseen; None before the table was read once."""
        seen = self._known.get(SeenCells.of)
        return None if seen is None else bool(np.any(seen.per_column < seen.rows))

    def reduce(self, of: Callable[[Any], S]) -> S:
        if of in self._known:
            found: S = self._known[of]
            return found
        return super().reduce(of)

    def gather(self, *ofs: Callable[[Any], Any]) -> None:
        wanted = [of for of in ofs if of not in self._known]
        if not wanted:
            return
        self.passes += 1
        together = merge_stream(_Several(tuple(of(b) for of in wanted)) for b in self._blocks())
        self._known.update(zip(wanted, together.parts, strict=True))

    def remember(self, of: Callable[[Any], S], value: S) -> None:
        self._known[of] = value

    def map(self, fn: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        self.passes += 1
        parts: list[NDArray[Any]] = []
        rows = 0
        for block in self._blocks():
            parts.append(fn(block))
            rows += block.n_rows
            if len(parts) == 1:
                self._require_room(parts[0].nbytes / max(rows, 1))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _require_room(self, bytes_per_row: float) -> None:
        if self.n_rows is not None:
            require_memory(
                2.0 * bytes_per_row * self.n_rows,  # the parts, and the whole that is made of them
                f"the result for all {self.n_rows} rows of {self.reader.where}",
                "write it to a file block by block with eigengap.stream(method, X, path)",
            )

    def seen(self) -> SeenCells:
        self.gather(SeenCells.of)
        found: SeenCells = self._known[SeenCells.of]
        return found

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        seed = seed_of(rng)
        drawn = self._drawn(k, seed)
        if len(drawn.rows) < k:
            raise ValueError(f"cannot draw {k} distinct rows from {len(drawn.rows)}")
        return drawn.rows[:k]

    def _drawn(self, k: int, seed: int) -> Drawn:
        """A sample of k rows or more; a smaller one is the beginning of a larger one."""
        known = [of for of in self._known if isinstance(of, Draw) and of.seed == seed]
        draw = next((of for of in known if of.k >= k), Draw(k, seed))
        self.gather(draw)
        drawn: Drawn = self._known[draw]
        return drawn

    def collect(self) -> Rows:
        """The whole table, where it fits in memory."""
        n = self.n_rows if self.n_rows is not None else self.seen().rows
        require_memory(
            float(n) * self.n_features * self.dtype.itemsize,
            f"the table {self.reader.where} of {n} rows and {self.n_features} columns, as a whole,",
            "fit a sample of its rows (source.sample), or fewer columns",
        )
        return self.map(_values)

    @property
    def fits_in_memory(self) -> bool:
        """Whether `collect` would be granted, with room for a copy."""
        n = self.n_rows if self.n_rows is not None else self.seen().rows
        return 16.0 * n * self.n_features <= SHARE * free_memory()

    def _blocks(self) -> Iterator[Block]:
        return ahead(self._read())

    def _read(self) -> Iterator[Block]:
        row = kept = 0  # rows read, and those of them that count
        for values in recut(self.reader.pieces(self.rows_per_block), self.rows_per_block):
            stop = row + len(values)
            self._refuse_longer(stop)
            if self.weight is not None and len(self.weight) < stop:
                raise ValueError(
                    f"sample_weight has {len(self.weight)} entries but X has at least {stop} rows"
                )
            weight = None if self.weight is None else self.weight[row:stop]
            values = self._validated(values, row)
            if weight is not None and not weight.all():  # a row of weight 0 is as if absent
                values, weight = values[weight > 0], weight[weight > 0]
            if len(values):
                yield Block(values, weight, None, kept)
            row, kept = stop, kept + len(values)
        self._check_length(row)
        self.n_rows = row
        self.bytes_read += self.reader.bytes_per_pass or 0

    def _validated(self, values: NDArray[Any], start: int) -> NDArray[Any]:
        if self._codes:
            values = with_gaps_for(values, self._codes)
        try:
            count_gaps(values, self.names, start)
        except ValueError as error:
            raise UnreadableError(self.reader.where, str(error)) from None
        return values

    def _refuse_longer(self, rows: int) -> None:
        if self.n_rows is not None and rows > self.n_rows:
            raise UnreadableError(
                self.reader.where,
                f"it had {self.n_rows} rows and has become longer while it is read. Let nothing "
                "write to it, or work on a copy",
            )

    def _check_length(self, rows: int) -> None:
        if self.n_rows is not None and rows < self.n_rows:
            raise UnreadableError(
                self.reader.where,
                f"it ends after row {rows - 1}, and {self.n_rows} rows were expected: it was cut "
                "short, or changed while it is read",
            )
        check_not_empty((rows, self.n_features))
        if self.weight is not None and len(self.weight) != rows:
            raise ValueError(f"sample_weight has {len(self.weight)} entries but X has {rows} rows")


class _Several:
    """Several statistics of the same rows."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts

    def merge(self, other: _Several) -> _Several:
        return _Several(tuple(a.merge(b) for a, b in zip(self.parts, other.parts, strict=True)))


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


def _values(block: Block) -> NDArray[Any]:
    values: NDArray[Any] = block.values
    return values
