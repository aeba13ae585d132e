"""Two Dask workers of one thread each against the same fit in memory on the same two cores.

The table lies on the workers in partitions (`X.persist()`), as it lies in memory for the other.
Beside the times of whole fits: what a step of EM costs and sends when there is nothing to compute,
and eight joblib threads against the same fits one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import Row, against, limit
from benchmarks.timing import in_new_process, interleaved, seconds

TARGET = 1.3
SLOW_DOWN = 1.2
Q = 10
PARTITIONS = 16
KEPT = 256 << 20  # bytes that an allocator keeps; Dask's default is 64 kB


def run(quick: bool = False) -> list[Row]:
    scale = 10 if quick else 1
    return [
        *in_new_process("benchmarks.dask_workers:_fits", 2_000_000 // scale, 150_000 // scale),
        *in_new_process("benchmarks.dask_workers:_steps"),
        *in_new_process("benchmarks.dask_workers:_threads", 40_000 // scale),
    ]


def table(n: int, d: int, missing: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, Q)) @ rng.standard_normal((Q, d))
    X += rng.standard_normal((n, d))
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X


@contextmanager
def _client(keeps_memory: bool = False) -> Iterator[Any]:
    """A client of two workers; they may keep freed memory instead of giving it back at once."""
    import dask
    import distributed

    environ = "distributed.nanny.pre-spawn-environ"
    kept = {f"{environ}.MALLOC_{what}_THRESHOLD_": KEPT for what in ("TRIM", "MMAP")}
    with (
        dask.config.set(kept if keeps_memory else {}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=":0",
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _fits(n_pca: int, n_ppca: int) -> list[Row]:
    from eigengap import PCA, PPCA

    rows = []
    for keeps_memory in (False, True):
        told = ", workers that keep freed memory" if keeps_memory else ""
        with _client(keeps_memory) as client:
            for name, n, missing, estimator in (
                ("PCA", n_pca, 0.0, PCA(Q)),
                ("PPCA, 20 % of the cells gone", n_ppca, 0.2, PPCA(Q)),
            ):
                rows.append(_side_by_side(client, name + told, n, missing, estimator))
    return rows


def _side_by_side(client: Any, name: str, n: int, missing: float, estimator: Any) -> Row:
    import dask.array as da
    import distributed

    from eigengap.sources.dask import as_dask_source

    d = 100
    X = table(n, d, missing)
    # Scattered, so that no graph carries the table.
    parts = [client.scatter(part) for part in np.array_split(X, PARTITIONS)]
    lengths = [len(part) for part in np.array_split(X, PARTITIONS)]
    lazy = da.concatenate(
        [
            da.from_delayed(part, shape=(rows, d), dtype=X.dtype)
            for part, rows in zip(parts, lengths, strict=True)
        ]
    ).persist()
    distributed.wait(lazy)

    runs = {
        "dask": lambda: estimator.fit(as_dask_source(lazy)),
        "memory": lambda: estimator.fit(X),
    }
    best = interleaved(runs, 5)
    return against(
        f"{name}: {n} x {d}, {Q} components",
        "fit",
        best["dask"],
        "in memory, two threads",
        best["memory"],
        target=1 / TARGET,
        note=f"{PARTITIONS} partitions, 2 workers of 1 thread; overhead "
        f"{best['dask'] / best['memory']:.2f} times, to be below {TARGET}",
    )


def _steps() -> list[Row]:
    """Steps of EM over partitions of ten rows: all overhead."""
    import dask.array as da

    from eigengap.models.gaussian.posterior import Coefficients
    from eigengap.sources.dask import as_dask_source
    from eigengap.statistics.expected.gaussian import Expected

    rows = []
    with _client():
        for partitions, d, q in ((100, 50, 10), (16, 1000, 20)):
            X = table(10 * partitions, d, 0.2)
            source = as_dask_source(da.from_array(X, chunks=(10, d)), block_rows=10)
            ready = source.prepared(partial(_prepared, d=d, q=q))
            rng = np.random.default_rng(0)
            W = rng.standard_normal((d, q))
            of = partial(Expected.of, coefficients=Coefficients(W, np.zeros(d), np.ones(d)))
            for _ in range(3):
                ready.reduce(of)
            steps = 20
            sent = _loopback()
            taken = seconds(partial(_several, ready, of, steps))
            sent = _loopback() - sent
            rows.append(
                against(
                    f"{partitions} partitions of 10 rows, d {d}, q {q}",
                    "one step of EM",
                    taken / steps,
                    "in memory, the same blocks",
                    _in_one_process(X, of, q),
                    note=f"{sent / steps / 1e3:.0f} kB sent in a step",
                )
            )
    return rows


def _several(ready: Any, of: Any, steps: int) -> None:
    for _ in range(steps):
        ready.reduce(of)


def _in_one_process(X: np.ndarray, of: Any, q: int) -> float:
    from eigengap.sources.conversion import as_source

    ready = as_source(X, block_rows=10).prepared(partial(_prepared, d=X.shape[1], q=q))
    return min(seconds(lambda: ready.reduce(of)) for _ in range(4))


def _prepared(block: Any, d: int, q: int) -> Any:
    from eigengap.models.gaussian.observed_rows import prepare_rows

    return prepare_rows(block.values, block.weight, np.zeros(d), None, q)


def _loopback() -> float:
    """Bytes that this machine has sent to itself."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return float(counts.split()[0])
    return float("nan")


def _threads(n: int) -> list[Row]:
    """Eight fits in joblib threads against the same eight one after another."""
    from joblib import Parallel, delayed

    from eigengap.fitting.gaussian.fit import fit_ppca
    from eigengap.fitting.gaussian.pca import fit_pca
    from eigengap.sources.conversion import as_source

    rows = []
    for name, missing, fit in (("PCA", 0.0, fit_pca), ("PPCA, 20 % gone", 0.2, fit_ppca)):
        tables = [table(n, 60, missing, seed) for seed in range(8)]

        def one(X: np.ndarray, fit: Any = fit) -> Any:
            return fit(as_source(X), Q)

        def together(tables: Any = tables, one: Any = one) -> Any:
            return Parallel(n_jobs=8, backend="threading")(delayed(one)(X) for X in tables)

        def in_turn(tables: Any = tables, one: Any = one) -> Any:
            return [one(X) for X in tables]

        best = interleaved({"together": together, "in turn": in_turn}, 3)
        rows.append(
            limit(
                f"{name}: eight fits of {n} x 60 in eight joblib threads",
                "against one after another",
                best["together"] / best["in turn"],
                "times",
                SLOW_DOWN,
                note=f"{best['together']:.2f} s against {best['in turn']:.2f} s",
            )
        )
    return rows
