"""Coverage of 95 % intervals of hidden cells where a table is small, wide or half missing.

Rows are drawn from a known model of unit noise, cells are hidden at random, and the intervals of
the fit are held against the values hidden. A warning or a refusal does not make a row good; the
note counts them, because a figure outside its target is silent only without them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import eigengap as eg
from benchmarks.table import Row
from benchmarks.truth.targets import COVERAGE, figure

SPREAD = 1.5  # standard deviation of the entries of W: signal well above the unit noise
APART = 4.0  # distance of the means of two components, in standard deviations of the noise


@dataclass(frozen=True)
class Case:
    """One cell of the grid; `ranks` are asked of the estimator, `q` made the rows."""

    estimator: str
    n: int
    d: int
    q: int
    missing: float
    components: int = 1
    auto: bool = False

    def __str__(self) -> str:
        asked = f"{self.components}, n_latent=auto" if self.components > 1 else str(self.q)
        return (
            f"{self.estimator}({asked}), {self.n} x {self.d}, rank {self.q}, "
            f"{self.missing:.0%} missing"
        )

    def rows(self, rng: np.random.Generator) -> np.ndarray:
        """(n, d) rows of the model, complete."""
        sizes = np.bincount(np.arange(self.n) % self.components)
        parts = []
        for size in sizes:
            W = rng.normal(scale=SPREAD, size=(self.d, self.q)) / np.sqrt(self.q)
            mu = rng.normal(scale=APART / 2, size=self.d)
            noise = rng.normal(size=(size, self.d))
            parts.append(mu + rng.normal(size=(size, self.q)) @ W.T + noise)
        return np.vstack(parts)

    def model(self) -> Any:
        if self.components > 1:
            return eg.MixturePPCA(self.components, random_state=0)
        return getattr(eg, self.estimator)(self.q)


def grid() -> Iterator[Case]:
    for estimator in ("PPCA", "FactorAnalysis", "BayesianPCA"):
        yield Case(estimator, 30, 40, 8, 0.5)
        yield Case(estimator, 30, 8, 3, 0.5)
        yield Case(estimator, 100, 40, 8, 0.5)
        yield Case(estimator, 1000, 20, 3, 0.3)  # data enough: what must not suffer
    yield Case("MixturePPCA", 100, 20, 2, 0.3, components=2)
    yield Case("MixturePPCA", 100, 40, 2, 0.5, components=2)


def run(full: bool) -> list[Row]:
    rows = []
    for case in grid():
        shares, warned, refused = coverage(case, 40 if full else 8)
        total = len(shares) + refused
        said = f"{warned} of {total} fits warned" + (f", {refused} refused" if refused else "")
        if shares:
            rows.append(figure(str(case), "95 % intervals", shares, "%", COVERAGE, said))
        print(rows[-1]["case"], rows[-1]["ours"], said, file=sys.stderr, flush=True)
    return rows


def coverage(case: Case, tables: int) -> tuple[list[float], int, int]:
    """% of hidden cells within their intervals by table, fits that warned, fits refused."""
    shares, warned, refused = [], 0, 0
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        X = case.rows(rng)
        hidden = rng.random(X.shape) < case.missing
        holed = np.where(hidden, np.nan, X)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model = case.model().fit(holed)
                low, high = model.intervals(holed, level=0.95)
            except ValueError:  # refused: too few observed cells
                refused += 1
                continue
        warned += bool(caught)
        inside = (low <= X) & (high >= X)
        shares.append(100 * float(inside[hidden].mean()))
    return shares, warned, refused
