"""Sources whose passes are expensive: statistics are remembered, and several share a pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.memory import SHARE, free_memory, require_memory
from eigengap.sources.base import Draw, Drawn, ObservedCells, Rows, S, Source, seed_of
from eigengap.sources.derived.blocked import stacked, values_of


class MemoisedSource(Source):
    """A source that reads its table anew in every pass; messages name it by `where`."""

    where: str
    is_expensive = True
    _known: dict[Hashable, Any]  # statistics of the whole table

    @abstractmethod
    def _take(self, ofs: Sequence[Callable[[Any], Any]]) -> Sequence[Any]:
        """Several statistics of the whole table in one pass."""

    @property
    def has_missing(self) -> bool | None:  # type: ignore[override]
        """Whether a value is missing; None before the table was read once."""
        observed = self._known.get(ObservedCells.of)
        return None if observed is None else bool(np.any(observed.per_column < observed.rows))

    def _require_unchanged(self) -> None:
        """Refuse to answer from memory for a table that has changed."""

    def reduce(self, of: Callable[[Any], S]) -> S:
        if of in self._known:
            self._require_unchanged()
            known: S = self._known[of]
            return known
        found: S = self._take([of])[0]
        return found

    def gather(self, *ofs: Callable[[Any], Any]) -> None:
        wanted = [of for of in dict.fromkeys(ofs) if of not in self._known]
        if wanted:
            self._known.update(zip(wanted, self._take(wanted), strict=True))
        else:
            self._require_unchanged()

    def remember(self, of: Callable[[Any], S], value: S) -> None:
        self._known[of] = value

    def observed(self) -> ObservedCells:
        self.gather(ObservedCells.of)
        found: ObservedCells = self._known[ObservedCells.of]
        return found

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        drawn = self._drawn(k, seed_of(rng))
        if len(drawn.rows) < k:
            raise ValueError(f"cannot draw {k} distinct rows from {len(drawn.rows)}")
        return drawn.rows[:k]

    def _drawn(self, k: int, seed: int) -> Drawn:
        """A sample of k rows or more; a smaller one is the beginning of a larger one."""
        known = [of for of in self._known if isinstance(of, Draw) and of.seed == seed]
        draw = next((of for of in known if of.k >= k), Draw(k, seed))
        drawn = self._gathered(draw)
        if len(drawn.rows) < k and draw.below < inf:  # the bound was too tight, which is rare
            drawn = self._gathered(Draw(k, seed))
        return drawn

    def _gathered(self, draw: Draw) -> Drawn:
        self.gather(draw)
        found: Drawn = self._known[draw]
        return found

    def collect(self) -> Rows:
        """The whole table, where it fits into memory."""
        n = self._count_rows()
        require_memory(
            float(n) * self.n_features * self.dtype.itemsize,
            f"the table {self.where} of {n} rows and {self.n_features} columns, as a whole,",
            "fit a sample of its rows (source.sample), or fewer columns",
        )
        return self.map(values_of)

    def _stacked(self, parts: Iterator[NDArray[Any]], n: int | None) -> NDArray[Any]:
        """The n rows that `map` gives, unless the first part shows that memory is too small."""

        def checked() -> Iterator[NDArray[Any]]:
            for k, part in enumerate(parts):
                if k == 0 and n is not None:
                    require_memory(
                        part.nbytes / max(len(part), 1) * n,
                        f"the result for all {n} rows of the table {self.where}",
                        "write it to a file block by block with eigengap.stream(method, X, path)",
                    )
                yield part
                del part  # or it would stay in memory while the next one is computed

        return stacked(checked(), n)

    @property
    def fits_in_memory(self) -> bool:
        """Whether `collect` would be allowed, with room for a copy."""
        return 16.0 * self._count_rows() * self.n_features <= SHARE * free_memory()

    def _count_rows(self) -> int:
        return self.n_rows if self.n_rows is not None else self.observed().rows


class Several:
    """Several statistics of the same rows; None where there are no rows, or no answer.

    `counts` may have been counted on the way, for each part of the table.
    """

    def __init__(self, parts: tuple[Any, ...], counts: dict[int, Any] | None = None) -> None:
        self.parts, self.counts = parts, counts or {}

    def merge(self, other: Several) -> Several:
        merged = tuple(
            (a if b is None else b) if a is None or b is None else a.merge(b)
            for a, b in zip(self.parts, other.parts, strict=True)
        )
        return Several(merged, self.counts | other.counts)
