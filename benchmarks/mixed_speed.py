"""Time of columns of every kind: of a step of EM next to numbers, of a fit next to reading its CSV.

Half of the columns are numbers, the others levels; a fifth of the cells is missing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd

from benchmarks.table import Row, limit
from benchmarks.timing import interleaved
from eigengap import FactorAnalysis
from eigengap.columns import Binary, Continuous, Nominal, Ordinal
from eigengap.fitting.columns.fit import LOOSEST, SiteProblem
from eigengap.fitting.gaussian.noise import GaussianProblem, Specification, problem_of
from eigengap.models.columns.table import Columns
from eigengap.sources import ArraySource
from eigengap.statistics.expected.sites import expected_of_sites
from eigengap.statistics.moments import ColumnMoments

SIZES = ((2_000, 20, 3), (20_000, 50, 5), (100_000, 50, 5))
STEPS = 5
MOST_STEPS_RATIO, MOST_CSV_RATIO = 3.0, 10.0
WORDS = np.array(["never", "seldom", "often", "mostly", "always"])


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


def run(quick: bool = False) -> list[Row]:
    sizes = SIZES[:2] if quick else SIZES
    return [*_steps(sizes), *_csv(*sizes[-1])]


def _steps(sizes: tuple[tuple[int, int, int], ...]) -> Iterator[Row]:
    for n, d, q in sizes:
        U, X, columns = table(n, d, q)
        numbers = ArraySource(U)
        moments = numbers.reduce(ColumnMoments.of)
        numeric = problem_of(numbers, moments, q, Specification("diagonal"))
        mixed = SiteProblem.of_columns(ArraySource(X), columns, q)
        careful = replace(mixed, settled=LOOSEST)  # as in fits with a tolerance of 1e-4
        near = mixed.rough(mixed.starts().first, 10, 0.01, 100)
        of_numbers = seconds(numeric, numeric.starts().first, partial(numeric.e_step, passes=100))
        rough = partial(expected_of_sites, passes=100, settles=False)
        steps = {
            "rough sites": lambda at, rough=rough: partial(rough, coefficients=at),
            "settled sites": partial(careful.e_step, passes=100),
        }
        for name, e_step in steps.items():
            ratio = seconds(mixed, near, e_step) / of_numbers
            note = f"a step with numbers alone takes {1e3 * of_numbers:.3g} ms"
            what = f"step of EM, {name} / numbers"
            yield limit(f"{n} x {d}, q {q}", what, ratio, "times", MOST_STEPS_RATIO, note)
            print(f"{n} x {d} {name}: {ratio:.2f} times", file=sys.stderr, flush=True)


def _csv(n: int, d: int, q: int) -> Iterator[Row]:
    _, X, _ = table(n, d, q)
    frame = pd.DataFrame({f"x{j}": _cells(x) for j, x in enumerate(X.T)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.to_csv(path, index=False)
        model = FactorAnalysis(q, columns="auto")
        runs = {
            "read": lambda: pd.read_csv(path),
            "frame": lambda: model.fit(frame),
            "file": lambda: model.fit(path),
        }
        found = interleaved(runs, 2)
    for name, what in (("frame", "fit of the frame"), ("file", "fit of the file")):
        ratio = found[name] / found["read"]
        note = f"{found[name]:.3g} s; pandas reads the file in {found['read']:.3g} s"
        case = f"{n} x {d}, q {q}, half of the columns text"
        yield limit(case, f"{what} / reading the CSV", ratio, "times", MOST_CSV_RATIO, note)
        print(f"{what}: {ratio:.2f} times reading", file=sys.stderr, flush=True)


def _cells(x: np.ndarray) -> np.ndarray:
    """Numbers as they are; codes of levels as words."""
    if not np.all(np.isnan(x) | (x == np.round(x))):
        return x
    missing = np.isnan(x)
    return np.where(missing, None, WORDS[np.where(missing, 0, x).astype(int)])
