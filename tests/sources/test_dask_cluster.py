"""Sources on a Dask cluster of real processes: what travels, what stays, and the same sums."""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.sources.clusters import local_client
from tests.tolerance import assert_same_optimum

from eigengap.fitting.gaussian.bayesian import fit_bayesian
from eigengap.fitting.gaussian.fit import fit_factor_analysis, fit_ppca
from eigengap.fitting.gaussian.pca import fit_pca
from eigengap.fitting.mixture.fit import fit_mixture
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources.base import Block
from eigengap.sources.conversion import as_source
from eigengap.sources.dask import as_dask_source
from eigengap.statistics.expected.gaussian import Expected
from eigengap.statistics.moments import Moments

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

import dask  # noqa: E402

from eigengap.sources.dask import cluster as running  # noqa: E402

N, D, Q = 600, 8, 2


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with local_client(2) as client:
        yield client


def table(missing: bool = True) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, Q)) @ rng.normal(size=(Q, D)) + 0.4 * rng.normal(size=(N, D)) + 3.0
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


def lazy(X: np.ndarray, chunk: int = 100) -> Any:
    return da.from_array(X, chunks=(chunk, D))


def covariance(model: Any) -> np.ndarray:
    return np.asarray(model.W @ model.W.T + np.diag(model.psi))


def prepare(block: Block) -> ObservedRows:
    return prepare_rows(block.values, block.weight, np.full(D, 3.0), None, Q)


def e_step(scale: float = 1.0) -> partial[Expected]:
    W = scale * np.random.default_rng(1).normal(size=(D, Q))
    return partial(Expected.of, coefficients=Coefficients(W, np.zeros(D), np.ones(D)))


FITS = {
    "PPCA": lambda source: fit_ppca(source, Q),
    "factor analysis": lambda source: fit_factor_analysis(source, Q),
    "Bayesian PCA": lambda source: fit_bayesian(source, 3),
}


@pytest.mark.parametrize("name", list(FITS))
def test_fits_are_those_in_memory(client: Any, name: str) -> None:
    X = table()
    source, expected = as_dask_source(lazy(X)), as_source(X)
    source.observed()
    fit, other = FITS[name](source), FITS[name](expected)
    assert_same_optimum(covariance(fit.model), covariance(other.model))
    assert source.passes == 1 + expected.passes
    # Nothing lazy is kept: what was fitted needs neither Dask nor the cluster.
    assert b"dask" not in pickle.dumps(fit.model)
    assert b"distributed" not in pickle.dumps(fit.model)


def test_pca_of_a_frame_keeps_nothing_on_the_workers(client: Any) -> None:
    X = table(missing=False)
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")), npartitions=5)
    fit, expected = fit_pca(as_dask_source(frame), Q), fit_pca(as_source(X), Q)
    np.testing.assert_allclose(fit.spectrum.lam, expected.spectrum.lam, rtol=1e-10)
    np.testing.assert_allclose(fit.U, expected.U, rtol=1e-10, atol=1e-12)
    assert _settled(client, 0)


def test_a_mixture(client: Any) -> None:
    X = table()
    X[: N // 2] += 6.0
    fit, other = (
        fit_mixture(s, 2, [Q, Q], "isotropic") for s in (as_dask_source(lazy(X)), as_source(X))
    )
    for a, b in zip(fit.model.models, other.model.models, strict=True):
        assert_same_optimum(a.mu, b.mu)
        assert_same_optimum(covariance(a), covariance(b))


def test_sums_do_not_depend_on_who_made_them(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit: threads of this process, two workers, unit by unit or in bundles."""
    monkeypatch.setenv("EIGENGAP_COMPILED", "never")  # or a kernel loaded here by an earlier test
    X = table()
    rows = as_dask_source(lazy(X, 50)).prepared(prepare)
    first, second = rows.reduce(e_step()), rows.reduce(e_step())
    with dask.config.set(scheduler="synchronous"):
        here = as_dask_source(lazy(X, 50)).prepared(prepare).reduce(e_step())
    for name in ("A", "B", "latent", "squares"):
        np.testing.assert_array_equal(getattr(first, name), getattr(here, name))
        np.testing.assert_array_equal(getattr(second, name), getattr(here, name))


def test_a_step_is_a_few_tasks_and_rows_are_prepared_once(client: Any) -> None:
    """Each worker has two tasks a step, and one more joins what they found."""
    before = _tasks_so_far(client, "eigengap-prepared")
    rows = as_dask_source(lazy(table(), 25)).prepared(prepare)
    rows.reduce(e_step())
    prepared = _tasks_so_far(client, "eigengap-prepared")
    assert prepared - before == 24
    for _ in range(2):
        rows.reduce(e_step(2.0))
    before = _tasks_so_far(client, "eigengap-")
    rows.reduce(e_step(3.0))
    assert _tasks_so_far(client, "eigengap-prepared") == prepared
    assert _tasks_so_far(client, "eigengap-") - before <= 2 * 2 + 1


def test_large_parameters_are_sent_once(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "INLINE_BYTES", 0)
    rows = as_dask_source(lazy(table())).prepared(prepare)
    before = _tasks_so_far(client, "eigengap-parameters")
    found = rows.reduce(e_step())
    assert _tasks_so_far(client, "eigengap-parameters") - before == 2  # prepare, and the E-step
    expected = as_source(table()).prepared(prepare).reduce(e_step())
    np.testing.assert_allclose(found.A, expected.A, rtol=1e-12)


def test_what_was_kept_is_let_go(client: Any) -> None:
    rows = as_dask_source(lazy(table())).prepared(prepare)
    rows.reduce(e_step())
    assert _settled(client, 4)
    del rows
    assert _settled(client, 0)


def test_rows_in_order_in_pieces(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from eigengap.sources.dask import cluster

    monkeypatch.setattr(cluster, "BATCH_BYTES", 1)
    X = table()
    source = as_dask_source(lazy(X, 20))
    np.testing.assert_array_equal(source.map(lambda block: block.values[:, :3]), X[:, :3])
    assert source.passes == 1
    prepared = source.prepared(lambda block: block.values * 2.0)
    np.testing.assert_array_equal(prepared.map(lambda values: values[:, 1]), 2.0 * X[:, 1])


def test_prepared_twice(client: Any) -> None:
    X = table(missing=False)
    once = as_dask_source(lazy(X)).prepared(lambda block: block.values + 1.0)
    twice = once.prepared(lambda values: Block(values * 2.0, None, None, 0))
    moments = twice.reduce(Moments.of)
    np.testing.assert_allclose(moments.mean, 2.0 * (X.mean(axis=0) + 1.0), rtol=1e-12)


def _allow(threads: int) -> None:
    """On a worker: as many threads for BLAS."""
    from eigengap.runtime.threads import _give, libraries

    for library in libraries():
        _give(library, threads)


def test_blas_has_its_share_of_the_cores(client: Any) -> None:
    """While a task runs BLAS has cores / threads of all workers of the machine; then what it had.

    Workers whose environment allows more are held to it too.
    """
    source = as_dask_source(lazy(table(missing=False)))

    def threads(block: Block) -> np.ndarray:
        from threadpoolctl import ThreadpoolController

        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return np.full(block.n_rows, max(library.num_threads for library in libraries))

    client.run(_allow, 8)
    try:
        share = max(1, running.cores() // sum(client.nthreads().values()))
        assert source.map(threads).max() == share
    finally:
        client.run(_allow, 1)
    with dask.config.set(scheduler="threads", num_workers=8):
        assert source.map(threads).max() == 1


def test_errors_of_tasks_come_through(client: Any) -> None:
    X = table()
    X[333, 5] = -np.inf
    with pytest.raises(ValueError, match=r"partition 3 .*-inf at row 333, column 5"):
        as_dask_source(lazy(X)).observed()

    def missing(chunk: np.ndarray) -> np.ndarray:
        raise FileNotFoundError("part-7.parquet")

    with pytest.raises(FileNotFoundError, match="part-7"):
        as_dask_source(lazy(X).map_blocks(missing, dtype=float, meta=np.empty((0, 0)))).observed()


def _settled(client: Any, kept: int) -> bool:
    """Whether, within a while, so many results are on the workers: they are let go by and by.

    The scheduler hears of it when the client's objects are collected and its own loop has time,
    which a busy machine may keep it waiting for.
    """
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        gc.collect()
        held = {key for keys in client.has_what().values() for key in keys}
        if len(held) == kept:
            return True
        time.sleep(0.1)
    return False


def _tasks_so_far(client: Any, prefix: str) -> int:
    """Tasks with such a name that the scheduler has seen come to memory."""

    def count(dask_scheduler: Any) -> int:
        groups = dask_scheduler.task_prefixes.items()
        return sum(p.state_counts["memory"] for name, p in groups if name.startswith(prefix))

    return int(client.run_on_scheduler(count))
