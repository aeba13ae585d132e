"""What a fit would take on a cluster: measured costs of one core, simulated for many.

A pass is a wave of tasks and a tree of merges. Every thread works through its share of the rows at
the speed that one core has here, times a lognormal straggling factor; the pass ends with the
slowest. Parameters go out and statistics come back along binary trees over the workers. All of that
is in `Cluster`; nothing here has been run on a hundred machines.

    python -m benchmarks.cluster_model
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np

from benchmarks.timing import in_new_process

D, Q = 1000, 20
ROWS = 1_000_000_000
MEASURED_ROWS = 20_000
STEPS = 25  # of EM, as on tables of this kind
TRIALS = 200


@dataclass(frozen=True)
class Cluster:
    """The assumptions."""

    workers: int = 100
    threads: int = 16  # a worker, each with a core
    memory: float = 256e9  # bytes a worker
    network: float = 1.25e9  # bytes a second between two workers: 10 Gbit/s
    latency: float = 2e-3  # seconds a message, scheduler included
    reading: float = 1e9  # bytes a second a worker, from object storage or a parallel file system
    per_task: float = 1e-3  # seconds of the scheduler for a task
    straggling: float = 0.15  # standard deviation of ln of the time of a thread


def main() -> None:
    cost = in_new_process("benchmarks.cluster_model:measure", MEASURED_ROWS)
    print(Cluster(), cost, sep="\n")
    for what, seconds in simulate(cost, Cluster()).items():
        print(f"{what}: {seconds:.3g} s")


def measure(n: int) -> dict[str, float]:
    """Seconds a row on one core: the scatter, and a step of EM with 20 % gaps."""
    import os

    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    from threadpoolctl import threadpool_limits

    import eigengap
    from eigengap.sources.base import Block
    from eigengap.statistics.moments import Moments

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, Q)) @ rng.normal(size=(Q, D)) + rng.normal(size=(n, D))
    with threadpool_limits(1):
        scatter = min(_seconds(lambda: Moments.of(Block(X, None, None, 0))) for _ in range(3))
        X[rng.random(X.shape) < 0.2] = np.nan
        few, many = (_fit_seconds(eigengap, X, steps) for steps in (3, 13))
    return {"scatter": scatter / n, "step": (many - few) / 10 / n}


def simulate(cost: dict[str, float], cluster: Cluster) -> dict[str, float]:
    """Seconds of each fit, and of what it is made of."""
    rng = np.random.default_rng(0)
    reading = 8.0 * ROWS * D / cluster.workers / cluster.reading
    triangle = (Q + 1) * (Q + 2) // 2
    step = _wave(cost["step"], 8.0 * D * (triangle + Q + 2), 8.0 * D * triangle, cluster, rng)
    look = _wave(cost["scatter"], 8.0 * D * D, 1e3, cluster, rng)
    kept = 2 * 8.0 * ROWS * D / cluster.workers <= 0.6 * cluster.memory
    passes = STEPS + 2  # the start, and rows that are prepared
    again = 0.0 if kept else reading
    return {
        "reading the table once": reading,
        "PCA, one pass, reading overlapped": max(reading, look),
        "PPCA with missing values, a step": max(step, again),
        f"PPCA with missing values, {STEPS} steps": max(reading, look) + passes * max(step, again),
    }


def _wave(
    per_row: float, back: float, out: float, cluster: Cluster, rng: np.random.Generator
) -> float:
    """Mean seconds of one pass."""
    threads = cluster.workers * cluster.threads
    factors = np.exp(cluster.straggling * rng.standard_normal((TRIALS, threads)))
    slowest = per_row * ROWS / threads * float(np.mean(np.max(factors, axis=1)))
    levels = ceil(log2(cluster.workers))
    trees = levels * (2 * cluster.latency + (back + out) / cluster.network)
    return slowest + trees + cluster.per_task * 2 * threads  # two bundles a thread


def _fit_seconds(eigengap: Any, X: np.ndarray, steps: int) -> float:
    model = eigengap.PPCA(Q, max_iter=steps, tol=1e-300)
    return min(_seconds(lambda: model.fit(X)) for _ in range(2))


def _seconds(run: Any) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
