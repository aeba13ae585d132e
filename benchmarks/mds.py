"""Classical scaling against scikit-learn's, side by side and at equal coordinates.

Distances that are given (Euclidean, and by city blocks, which no points in a Euclidean space have)
and rows. Each side runs in processes of its own, in turn; times are minima of the fits after the
first of each process.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.table import Row, against, limit
from benchmarks.timing import in_new_process

GIVEN = {"euclidean": 10, "cityblock": 10}  # metric: columns of the rows behind the distances
SIDES = (2_000, 5_000)
ROWS = (20_000, 10)
MANY = (1_000_000, 10)
Q = 2
EQUAL = 1e-8  # largest difference of two coordinates, relative to the largest coordinate
MEGABYTES = 500.0  # that a fit of a million rows may take beyond the rows


def run(quick: bool = False) -> list[Row]:
    sides = SIDES[:1] if quick else SIDES
    rows = [_given(n, metric, quick) for metric in GIVEN for n in sides]
    return [*rows, _from_rows(quick), _many()]


def _given(n: int, metric: str, quick: bool) -> Row:
    case = f"{n} x {n} {metric} distances"
    return _versus(case, (n, GIVEN[metric]), metric, 1 if quick or n > 2_000 else 2, target=2.0)


def _from_rows(quick: bool) -> Row:
    """scikit-learn takes the matrix of all pairs of rows, whose eigenvectors would take an hour."""
    n, d = (4_000, ROWS[1]) if quick else ROWS
    if quick:
        return _versus(f"{n} x {d} rows", (n, d), None, 1, target=50.0)
    _say(f"{n} x {d} rows")
    ours = in_new_process(f"{__name__}:fit_ours", (n, d), None, 5)
    peer = in_new_process(f"{__name__}:fit_peer", (5_000, d), None, 1)
    # n^3: measured at 5 000 rows, and at 20 000 at the least 4^2 times as long.
    bound = peer["seconds"] * (n / 5_000) ** 2
    return against(
        f"{n} x {d} rows", "fit", ours["seconds"], "scikit-learn", bound, target=100.0, bound=True,
        note=f"the peer took {peer['seconds']:.3g} s at 5 000 rows; here it would take at least "
        f"{(n / 5_000) ** 2:.0f} times that",
    )  # fmt: skip


def _many() -> Row:
    _say("a million rows")
    found = in_new_process(f"{__name__}:fit_many", MANY)
    return limit(
        f"{MANY[0]} x {MANY[1]} rows", "memory beyond the rows", found["megabytes"], "MB",
        MEGABYTES, note=f"fit in {found['seconds']:.2g} s",
    )  # fmt: skip


def _versus(
    case: str, shape: tuple[int, int], metric: str | None, turns: int, target: float
) -> Row:
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for _ in range(turns):
        _say(case)
        ours.append(in_new_process(f"{__name__}:fit_ours", shape, metric, 3))
        theirs.append(in_new_process(f"{__name__}:fit_peer", shape, metric, 1))
    ours.append(in_new_process(f"{__name__}:fit_ours", shape, metric, 3))
    mine, peer = (min(fits, key=lambda fit: fit["seconds"]) for fits in (ours, theirs))
    apart = float(np.max(np.abs(mine["Z"] - peer["Z"])) / np.max(np.abs(peer["Z"])))
    told = f"; negative share {mine['negative_share']:.3f} told" if mine["negative_share"] else ""
    same = "the same coordinates" if apart < EQUAL else "COORDINATES DIFFER"
    return against(
        case, "fit", mine["seconds"], "scikit-learn", peer["seconds"], target=target,
        note=f"{same}: {apart:.0e} of the largest{told}",
    )  # fmt: skip


def fit_ours(shape: tuple[int, int], metric: str | None, repeats: int) -> dict[str, Any]:
    from eigengap.estimators.classical_mds import ClassicalMDS

    X = _input(shape, metric)
    mds = ClassicalMDS(Q, metric="precomputed" if metric else "euclidean")
    seconds = _least(mds, X, repeats + 1)
    return {"seconds": seconds, "Z": mds.embedding_, "negative_share": mds.negative_share_}


def fit_peer(shape: tuple[int, int], metric: str | None, repeats: int) -> dict[str, Any]:
    from sklearn.manifold import ClassicalMDS

    X = _input(shape, metric)
    mds = ClassicalMDS(Q, metric="precomputed" if metric else "euclidean")
    return {"seconds": _least(mds, X, repeats), "Z": mds.embedding_}


def fit_many(shape: tuple[int, int]) -> dict[str, Any]:
    import resource

    from eigengap.estimators.classical_mds import ClassicalMDS

    X = np.random.default_rng(0).standard_normal(shape)
    ClassicalMDS(Q).fit(X[:1_000])  # imports and the like
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    ClassicalMDS(Q).fit(X)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "megabytes": (after - before) / 1024}


def _least(mds: Any, X: np.ndarray, repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        mds.fit(X)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _input(shape: tuple[int, int], metric: str | None) -> np.ndarray:
    from scipy.spatial.distance import cdist

    X = np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[1] + 1)
    return cdist(X, X, metric) if metric else X


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
