"""Time of a step of EM behind columns of every kind, relative to numbers of the same size."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import process_time

import numpy as np

from eigengap.columns import Binary, Continuous, Nominal, Ordinal
from eigengap.fitting.columns.fit import LOOSEST, SiteProblem
from eigengap.fitting.gaussian.noise import GaussianProblem, Specification, problem_of
from eigengap.models.columns.table import Columns
from eigengap.sources import ArraySource
from eigengap.statistics.expected.sites import expected_of_sites
from eigengap.statistics.moments import ColumnMoments

SIZES = ((100_000, 50, 5), (20_000, 50, 5), (2_000, 20, 3))
STEPS = 5


def table(n: int, d: int, q: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Columns]:
    """Numbers, and the same with half of the columns as levels; a fifth is missing."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + rng.normal(size=(n, d))
    X, kinds = U.copy(), []
    for j in range(d):
        cuts = ([], [], [], [-1.5, 0.0, 1.0, 2.0], [0.5], [-1.0, 1.0])[j % 6]
        if cuts:
            X[:, j] = np.digitize(U[:, j], cuts)
        kinds.append(
            (Continuous(), Continuous(), Continuous(), Ordinal(), Binary(), Nominal())[j % 6]
        )
    missing = rng.random(X.shape) < 0.2
    U[missing], X[missing] = np.nan, np.nan
    learned = (kind.learned(x[~np.isnan(x)]) for kind, x in zip(kinds, X.T, strict=True))
    return U, X, Columns(tuple(learned))


def seconds(problem: GaussianProblem, start: object, e_step: object) -> float:
    """Processor time of the fastest step after the first, which prepares the rows."""
    at, times = start, []
    for _ in range(STEPS + 1):
        begun = process_time()
        expected = problem.rows.reduce(e_step(at))
        at = problem.m_step.maximise(expected, at, problem.constraints)
        times.append(process_time() - begun)
    return float(min(times[1:]))


def main() -> None:
    print("| rows x columns | numbers | rough sites | settled sites |\n|---|---|---|---|")
    for n, d, q in SIZES:
        U, X, columns = table(n, d, q)
        numbers = ArraySource(U)
        moments = numbers.reduce(ColumnMoments.of)
        numeric = problem_of(numbers, moments, q, Specification("diagonal"))
        mixed = SiteProblem.of_columns(ArraySource(X), columns, q)
        careful = replace(mixed, settled=LOOSEST)  # as in fits with a tolerance of 1e-4
        near = mixed.rough(mixed.starts().first, 10, 0.01, 100)
        of_numbers = seconds(numeric, numeric.starts().first, partial(numeric.e_step, passes=100))
        rough = seconds(
            mixed,
            near,
            lambda at: partial(expected_of_sites, coefficients=at, passes=100, settles=False),
        )
        settled = seconds(mixed, near, partial(careful.e_step, passes=100))
        print(
            f"| {n} x {d} | {of_numbers:.4f} s | {rough / of_numbers:.1f} times | "
            f"{settled / of_numbers:.1f} times |",
            flush=True,
        )


if __name__ == "__main__":
    main()
