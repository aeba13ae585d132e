"""Trustworthiness against scikit-learn's: the same number, its time and its memory."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.first_use import _high_water
from benchmarks.table import Row, against, limit
from benchmarks.timing import in_new_process


def run(quick: bool = False) -> list[Row]:
    rows = []
    for n in (3000,) if quick else (3000, 10_000):
        for d in (3, 64):
            print(f"trustworthiness, {n} x {d}", file=sys.stderr, flush=True)
            ours = in_new_process(f"{__name__}:ours", n, d)
            theirs = in_new_process(f"{__name__}:theirs", n, d)
            case = f"trustworthiness, {n} x {d} to 2, 5 neighbours"
            apart = abs(ours["value"] - theirs["value"])
            rows.append(
                against(case, "time", ours["seconds"], "scikit-learn", theirs["seconds"],
                        target=1.0, note=f"values differ by {apart:.1e}; two threads "
                        f"{ours['threaded']:.2f} s; all figures of embedding_quality "
                        f"{ours['everything']:.2f} s")
            )  # fmt: skip
            rows.append(
                limit(case, "memory beyond the table", ours["peak"], "GB", 0.2,
                      note=f"scikit-learn {theirs['peak']:.2f} GB")
            )  # fmt: skip
    return rows


def points(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, d)) * np.linspace(3, 1, d)
    return X, X[:, :2]


def ours(n: int, d: int) -> dict[str, Any]:
    from eigengap.comparison.embedding import embedding_quality, trustworthiness

    X, Z = points(n, d)
    trustworthiness(X[:200], Z[:200])
    before = _high_water()
    seconds, value = _best(lambda: trustworthiness(X, Z))
    peak = (_high_water() - before) / 1e9
    return {
        "seconds": seconds,
        "value": value,
        "peak": peak,
        "threaded": _best(lambda: trustworthiness(X, Z, n_jobs=2))[0],
        "everything": _best(lambda: embedding_quality(X, Z))[0],
    }


def theirs(n: int, d: int) -> dict[str, Any]:
    from sklearn.manifold import trustworthiness

    X, Z = points(n, d)
    trustworthiness(X[:200], Z[:200])
    before = _high_water()
    seconds, value = _best(lambda: trustworthiness(X, Z))
    return {"seconds": seconds, "value": value, "peak": (_high_water() - before) / 1e9}


def _best(run: Any) -> tuple[float, Any]:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        value = run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), value
