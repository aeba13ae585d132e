"""Isomap against scikit-learn: all pairs of 10 000 rows of a swiss roll, and landmarks.

All pairs are compared at equal geodesic distances, both in one process and in turn. Landmarks are
held against all pairs by the residual variance over the exact distances. Beyond what a matrix of
all pairs could hold, 100 000 rows are fitted on landmarks, with the memory that takes.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.first_use import _high_water
from benchmarks.table import Row, against, check, limit
from benchmarks.timing import in_new_process

Q = 2
NEIGHBOURS = 10
LANDMARKS = 100
EQUAL = 1e-12  # largest relative difference of two geodesic distances
EXACT, ON_LANDMARKS = 2.5, 80.0  # times that are asked for
WITHIN = 0.01  # residual variance, absolute
GIGABYTES, SECONDS = 1.0, 60.0  # that 100 000 rows may take


def run(quick: bool = False) -> list[Row]:
    n, many = (3_000, 20_000) if quick else (10_000, 100_000)
    return [*_against_scikit_learn(n, 1 if quick else 2), *_many(many)]


def roll_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and their arc length and height on the roll."""
    from sklearn.datasets import make_swiss_roll

    X, t = make_swiss_roll(n, noise=0.2, random_state=0)
    arc = 0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t))
    return X, np.column_stack([arc, X[:, 1]])


def _against_scikit_learn(n: int, rounds: int) -> list[Row]:
    case = f"swiss roll, {n} x 3, {NEIGHBOURS} neighbours"
    _say(case)
    found = in_new_process(f"{__name__}:compare", n, rounds)
    parts = (
        f"of which neighbours {found['graph']:.2g} s, paths {found['paths']:.2g} s, "
        f"coordinates {found['coordinates']:.2g} s; the first fit of the process, which loads or "
        f"compiles the kernel, {found['first']:.2g} s"
    )
    near, exact = found["residual_on_landmarks"], found["residual"]
    return [
        against(case, "fit, all pairs", found["ours"], "scikit-learn", found["theirs"],
                target=EXACT, note=parts),
        limit(case, "largest relative difference of geodesic distances", found["apart"], "",
              EQUAL, note=f"coordinates differ by {found['coordinates_apart']:.1e} of the largest"),
        against(case, f"fit, {LANDMARKS} landmarks", found["on_landmarks"], "scikit-learn",
                found["theirs"], target=ON_LANDMARKS,
                note=f"the first fit of a process {found['first_on_landmarks']:.2g} s"),
        limit(case, f"residual variance with {LANDMARKS} landmarks less that with all pairs",
              abs(near - exact), "", WITHIN,
              note=f"{near:.6f} and {exact:.6f}, both over the exact distances; correlation with "
              f"arc length and height {_both(found['truth_on_landmarks'])} and "
              f"{_both(found['truth'])}"),
    ]  # fmt: skip


def _many(n: int) -> list[Row]:
    case = f"swiss roll, {n} x 3, {LANDMARKS} landmarks"
    _say(case)
    found = in_new_process(f"{__name__}:fit_many", n)
    return [
        limit(case, "fit", found["seconds"], "s", SECONDS,
              note=f"residual variance {found['residual']:.6f}, correlation with arc length and "
              f"height {_both(found['truth'])}; new rows {found['seconds_of_new']:.2g} s for "
              "10 000"),
        limit(case, "memory beyond the rows", found["peak"], "GB", GIGABYTES),
        check(case, "all pairs are refused before they are allocated", found["refused"],
              note=found["words"]),
    ]  # fmt: skip


def compare(n: int, rounds: int) -> dict[str, Any]:
    import sklearn.manifold

    from eigengap.estimators.isomap import Isomap
    from eigengap.fitting.graph.isomap import residual_variances

    X, truth = roll_of(n)

    def on_landmarks() -> Any:
        return Isomap(Q, n_neighbors=NEIGHBOURS, landmarks=LANDMARKS, random_state=0).fit(X)

    def ours() -> Any:
        return Isomap(Q, n_neighbors=NEIGHBOURS).fit(X)

    def theirs() -> Any:
        return sklearn.manifold.Isomap(n_components=Q, n_neighbors=NEIGHBOURS).fit(X)

    first_on_landmarks, _ = _timed(on_landmarks)
    first, _ = _timed(ours)
    seconds: dict[str, list[float]] = {"ours": [], "theirs": [], "on_landmarks": []}
    for _ in range(rounds):  # in turn, so that all met the same machine
        for _ in range(3):
            seconds["ours"].append(_timed(ours)[0])
            seconds["on_landmarks"].append(_timed(on_landmarks)[0])
        seconds["theirs"].append(_timed(theirs)[0])
    a, b, near = ours(), theirs(), on_landmarks()
    apart = np.max(np.abs(a.dist_matrix_ - b.dist_matrix_) / np.maximum(b.dist_matrix_, 1e-300))
    signs = np.sign(np.sum(a.embedding_ * b.embedding_, axis=0))
    off = np.max(np.abs(a.embedding_ - b.embedding_ * signs)) / np.max(np.abs(b.embedding_))
    return {
        **{name: min(times) for name, times in seconds.items()},
        **_parts(X),
        "first": first,
        "first_on_landmarks": first_on_landmarks,
        "apart": float(apart),
        "coordinates_apart": float(off),
        "residual": a.residual_variance_,
        "residual_on_landmarks": float(
            residual_variances(a.dist_matrix_, None, near.embedding_)[-1]
        ),
        "truth": _correlations(a.embedding_, truth),
        "truth_on_landmarks": _correlations(near.embedding_, truth),
    }


def _parts(X: np.ndarray) -> dict[str, float]:
    """Where the time of a fit to all pairs goes."""
    from eigengap.fitting.graph.isomap import fit_pairs, geodesics
    from eigengap.fitting.graph.neighbourhood import undirected
    from eigengap.fitting.graph.neighbours import Neighbours, Search

    graph_seconds, graph = _timed(
        lambda: undirected(Neighbours.of(Search(n_neighbors=NEIGHBOURS), X).among())
    )
    paths_seconds, D = _timed(lambda: geodesics(graph))
    return {
        "graph": graph_seconds,
        "paths": paths_seconds,
        "coordinates": _timed(lambda: fit_pairs(D, Q))[0],
    }


def fit_many(n: int) -> dict[str, Any]:
    from eigengap.estimators.isomap import Isomap
    from eigengap.exceptions import DoesNotFitError

    X, truth = roll_of(n)
    new = roll_of(n + 10_000)[0][-10_000:]
    Isomap(Q, landmarks=10).fit(X[:300])  # code that is loaded once is not memory of the fit
    before = _high_water()
    isomap = Isomap(Q, n_neighbors=NEIGHBOURS, landmarks=LANDMARKS, random_state=0)
    seconds, _ = _timed(lambda: isomap.fit(X))
    peak = (_high_water() - before) / 1e9
    try:
        Isomap(Q, n_neighbors=NEIGHBOURS).fit(X) if n > 50_000 else None
        refused, words = None, "too few rows to be refused"
    except DoesNotFitError as error:
        refused, words = True, str(error)
    return {
        "seconds": seconds,
        "seconds_of_new": _timed(lambda: isomap.transform(new))[0],
        "peak": peak,
        "residual": isomap.residual_variance_,
        "truth": _correlations(isomap.embedding_, truth),
        "refused": refused,
        "words": words,
    }


def _timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, done


def _correlations(Z: np.ndarray, truth: np.ndarray) -> list[float]:
    """Of each true coordinate with the embedding turned to it."""
    from eigengap.linalg import procrustes

    truth = truth - truth.mean(axis=0)
    Y = Z @ procrustes(Z, truth)
    return [float(np.corrcoef(Y[:, j], truth[:, j])[0, 1]) for j in range(truth.shape[1])]


def _both(pair: list[float]) -> str:
    return f"{pair[0]:.4f}, {pair[1]:.4f}"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
