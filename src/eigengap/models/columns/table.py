"""The columns of a table, each of its kind, and the latent Gaussian columns u behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.columns.evidence import Evidence
from eigengap.models.gaussian.sites import SiteRows


class Column(Protocol):
    width: int
    free_scale: bool
    has_evidence: bool

    def encode(self, x: Array) -> tuple[Array, Array, Array]: ...


@dataclass(frozen=True, eq=False)
class Columns:
    kinds: tuple[Any, ...]

    @property
    def width(self) -> int:
        return sum(k.width for k in self.kinds)

    @property
    def free_scale(self) -> NDArray[np.bool_]:
        return np.repeat([k.free_scale for k in self.kinds], [k.width for k in self.kinds])

    def encode(self, values: Array, weight: Array | None = None) -> SiteRows:
        parts = [k.encode(values[:, j]) for j, k in enumerate(self.kinds)]
        exact, first, second = (np.column_stack(p) for p in zip(*parts, strict=True))
        has = np.repeat([k.has_evidence for k in self.kinds], [k.width for k in self.kinds])
        at = np.flatnonzero(has)
        M = ~np.isnan(exact)
        is_count = np.zeros(len(at), dtype=bool)
        evidence = Evidence(
            is_count,
            np.ascontiguousarray(first[:, at]),
            np.ascontiguousarray(second[:, at]),
            np.full(len(at), np.inf),
        )
        return SiteRows(np.where(M, exact, 0.0), M.astype(float), at, evidence, weight)
