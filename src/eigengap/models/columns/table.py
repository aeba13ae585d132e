"""All columns of a table, each of its kind, and the Gaussian columns u behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.columns.column import Column, LevelColumn
from eigengap.models.gaussian.evidence import Evidence
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.sites import SiteRows


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table in their order; D is the number of their u.

    Values (c, d + e) hold first the values of the d columns, and then the details of those whose
    cells need more than a value, column by column: lower and upper limits, the ln of a size. They
    may be left out where no cell has any.
    """

    kinds: tuple[Column, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(kind.width for kind in self.kinds)

    @property
    def width(self) -> int:
        return sum(self.widths)

    def _of_u(self, each: Iterable[bool]) -> NDArray[np.bool_]:
        """(D,) what is so of each column, for its u."""
        return np.repeat(list(each), self.widths).astype(bool)

    @property
    def free_scale(self) -> NDArray[np.bool_]:
        """(D,) whether the scale of each u is left open by the data."""
        return self._of_u(kind.free_scale for kind in self.kinds)

    @property
    def origin(self) -> Array:
        """(D,) about which a u of free scale may be multiplied; 0 for others."""
        return np.concatenate([np.zeros(0), *(kind.origin for kind in self.kinds)])

    @property
    def n_details(self) -> int:
        return sum(kind.n_details for kind in self.kinds)

    def values(self, values: Array) -> Array:
        """(c, d) a copy of the values, without their details."""
        return values[:, : len(self.kinds)].copy()

    def details(self, values: Array, j: int) -> Array:
        """(c, n_details) of column j; NaN where `values` have none."""
        d, width = len(self.kinds), self.kinds[j].n_details
        if values.shape[1] == d:
            return np.full((len(values), width), np.nan)
        start = d + sum(kind.n_details for kind in self.kinds[:j])
        return values[:, start : start + width]

    @property
    def has_evidence(self) -> NDArray[np.bool_]:
        """(D,) whether cells may say less than their u."""
        return self._of_u(kind.has_evidence for kind in self.kinds)

    def with_mean_counts(self, of: LinearGaussian, drawn: LinearGaussian) -> LinearGaussian:
        """The drawn model, with mu of counts moved to where their means are those `of` another.

        A mean count is exp(mu + v / 2), v the variance of u. Counts tell it well, and how much of
        it is due to v badly: errors of mu and of v that are drawn apart do not make up for each
        other, and a large v, drawn once, would multiply all counts.
        """
        counts = self._of_u(kind.is_count for kind in self.kinds)
        if not counts.any():
            return drawn
        more = (drawn.variances() - of.variances()) / 2.0
        return replace(drawn, mu=np.where(counts, drawn.mu - more, drawn.mu))

    def with_scales(self, of: LinearGaussian, drawn: LinearGaussian) -> LinearGaussian:
        """The drawn model, with the variances `of` another where shares of cells tell them.

        Maps beside atoms and thresholds of levels are quantiles of u, and a mean count is
        exp(mu + v / 2), v the variance of u: a column alone tells its scale or its mean much better
        than errors of loadings and noise that are drawn apart would have them.
        """
        held = self.has_evidence & ~self.free_scale
        if not held.any():
            return drawn
        scale = np.where(held, np.sqrt(of.variances() / drawn.variances()), 1.0)
        return replace(drawn, W=drawn.W * scale[:, None], psi=drawn.psi * scale**2)

    def encode(self, values: Array, weight: Array | None = None) -> SiteRows:
        """What rows (c, d + e) say about u; categories by their codes, NaN where missing."""
        values = values.astype(np.float64, copy=False)
        cells = [
            kind.encode(values[:, j], self.details(values, j)) for j, kind in enumerate(self.kinds)
        ]
        exact, first, second = (np.concatenate(part, axis=1) for part in zip(*cells, strict=True))
        at = np.flatnonzero(self.has_evidence)
        of = np.repeat(np.arange(len(self.kinds)), self.widths)[at]
        evidence = Evidence(
            is_count=np.array([self.kinds[j].is_count for j in of], dtype=bool),
            first=np.ascontiguousarray(first[:, at]),
            second=np.ascontiguousarray(second[:, at]),
            shape=np.array([self.kinds[j].shape for j in of], dtype=np.float64),
        )
        M = ~np.isnan(exact)
        return SiteRows(np.where(M, exact, 0.0), M.astype(np.float64), at, evidence, weight)

    @property
    def places_of_levels(self) -> dict[int, slice]:
        """Where the levels of each column that has some are, side by side."""
        found, end = {}, 0
        for j, kind in enumerate(self.kinds):
            if isinstance(kind, LevelColumn):
                found[j] = slice(end, end := end + len(kind.levels))
        return found

    def observed_levels(self, values: Array) -> tuple[Array, dict[int, slice]]:
        """(n, sum of K) 1 at each level that is observed, else 0; where each column's are."""
        places = self.places_of_levels
        found = np.zeros((len(values), max((at.stop for at in places.values()), default=0)))
        for j, at in places.items():
            own = self.kinds[j]
            assert isinstance(own, LevelColumn)
            observed = np.flatnonzero(~np.isnan(values[:, j]))
            found[observed, at.start + own.code(values[observed, j])] = 1.0
        return found, places

    def exact(self, values: Array) -> Array:
        """(c, D) u of the columns all of whose cells give it, NaN elsewhere."""
        rows = self.encode(values)
        return np.where((rows.M > 0) & ~self.has_evidence, rows.R, np.nan)

    def log_slope(self, values: Array) -> Array:
        """(c,) what the maps of its cells add to the log-density of a row."""
        values = values.astype(np.float64, copy=False)
        return sum(
            (k.log_slope(values[:, j]) for j, k in enumerate(self.kinds)), np.zeros(len(values))
        )

    def __iter__(self) -> Iterator[tuple[Column, slice]]:
        """Each column, and where its u are."""
        end = np.cumsum(self.widths)
        for kind, stop in zip(self.kinds, end.tolist(), strict=True):
            yield kind, slice(stop - kind.width, stop)
