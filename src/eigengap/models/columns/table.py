"""All columns of a table, each of its kind, and the Gaussian columns u behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.columns.column import Column
from eigengap.models.gaussian.evidence import Evidence
from eigengap.models.gaussian.sites import SiteRows


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table in their order; D is the number of their u."""

    kinds: tuple[Column, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(kind.width for kind in self.kinds)

    @property
    def width(self) -> int:
        return sum(self.widths)

    @property
    def free_scale(self) -> NDArray[np.bool_]:
        """(D,) whether the scale of each u is left open by the data."""
        return np.repeat([kind.free_scale for kind in self.kinds], self.widths).astype(bool)

    def encode(self, values: Array, weight: Array | None = None) -> SiteRows:
        """What rows (c, d) say about u; categories by their codes, NaN where missing."""
        cells = [kind.encode(values[:, j]) for j, kind in enumerate(self.kinds)]
        exact, first, second = (np.concatenate(part, axis=1) for part in zip(*cells, strict=True))
        at = np.flatnonzero(np.repeat([kind.has_evidence for kind in self.kinds], self.widths))
        of = np.repeat(np.arange(len(self.kinds)), self.widths)[at]
        evidence = Evidence(
            is_count=np.array([self.kinds[j].is_count for j in of], dtype=bool),
            first=np.ascontiguousarray(first[:, at]),
            second=np.ascontiguousarray(second[:, at]),
            shape=np.array([self.kinds[j].shape for j in of], dtype=np.float64),
        )
        M = ~np.isnan(exact)
        return SiteRows(np.where(M, exact, 0.0), M.astype(np.float64), at, evidence, weight)

    def log_slope(self, values: Array) -> Array:
        """(c,) what the maps of its cells add to the log-density of a row."""
        return sum(
            (k.log_slope(values[:, j]) for j, k in enumerate(self.kinds)), np.zeros(len(values))
        )

    def __iter__(self) -> Iterator[tuple[Column, slice]]:
        """Each column, and where its u are."""
        end = np.cumsum(self.widths)
        for kind, stop in zip(self.kinds, end.tolist(), strict=True):
            yield kind, slice(stop - kind.width, stop)
