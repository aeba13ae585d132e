"""Dask workers and schedulers that die: real processes, really killed (scorecard F1, F2, F3)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.clusters import local_client

from eigengap import PPCA
from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.optimise.loop import Progress
from eigengap.persistence.checkpoint import Checkpoint
from eigengap.sources.base import Block
from eigengap.sources.conversion import as_source
from eigengap.sources.dask import as_dask_source
from eigengap.statistics.moments import Moments

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

import dask  # noqa: E402

from eigengap.exceptions import ClusterError  # noqa: E402
from eigengap.sources.dask import cluster as running  # noqa: E402

N, D, Q = 600, 8, 3


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 1,
                "distributed.scheduler.worker-saturation": 1.0,  # or a neighbour may be blamed
            }
        ),
        local_client(3) as client,
    ):
        yield client


def table() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, Q)) @ rng.normal(size=(Q, D)) + 0.8 * rng.normal(size=(N, D))
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def lazy() -> Any:
    return da.from_array(table(), chunks=(60, D))


def fitted(watch: Callable[[Progress], None] | None = None) -> Any:
    return fit_ppca(
        as_dask_source(lazy()), Q, solver="em", options=EMOptions(tol=1e-8, watch=watch)
    )


def test_f1_a_worker_is_killed_half_way(client: Any) -> None:
    undisturbed = fitted()
    half = len(undisturbed.trace) // 2
    assert half > 3
    pids = client.run(os.getpid)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.iteration == half and not killed:
            holding = {a: keys for a, keys in client.has_what().items() if keys}
            killed.append(pids[max(holding, key=lambda a: len(holding[a]))])
            os.kill(killed[0], signal.SIGKILL)

    disturbed = fitted(kill)
    assert killed
    assert len(disturbed.trace) == len(undisturbed.trace)
    for name in ("W", "mu", "psi"):
        np.testing.assert_allclose(
            getattr(disturbed.model, name), getattr(undisturbed.model, name), rtol=1e-12
        )
    assert disturbed.log_likelihood == pytest.approx(undisturbed.log_likelihood, rel=1e-12)
    here = fit_ppca(as_source(table()), Q, solver="em", options=EMOptions(tol=1e-8))
    assert disturbed.log_likelihood == pytest.approx(here.log_likelihood, rel=1e-10)


def test_all_workers_die_and_others_come(client: Any) -> None:
    """Rows kept on the workers are prepared again on those that replace them."""
    undisturbed = fitted()
    before = client.run(os.getpid)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.iteration == 3 and not killed:
            killed.extend(before.values())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    disturbed = fitted(kill)
    assert killed
    assert set(client.run(os.getpid).values()).isdisjoint(killed)
    assert len(disturbed.trace) == len(undisturbed.trace)
    for name in ("W", "mu", "psi"):
        np.testing.assert_array_equal(
            getattr(disturbed.model, name), getattr(undisturbed.model, name)
        )


def test_a_task_that_never_returns_meets_a_limit(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LOOK", 0.2)

    def sleeping(block: Block) -> Moments:
        if block.start == 300:
            time.sleep(8)
        return Moments.of(block)

    with (
        dask.config.set({"eigengap.task-timeout": "3s"}),
        pytest.raises(ClusterError, match=r"has ended for 3 seconds.*partition 5"),
    ):
        as_dask_source(lazy()).reduce(sleeping)


def test_workers_that_may_not_run_the_tasks(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOOK", 0.2)
    monkeypatch.setattr(running, "PATIENCE", 1.0)
    # Rows of its own: what waits for a worker must not have the keys of another test's chunks.
    rows = da.from_array(table() + 1.0, chunks=(60, D))
    with (
        dask.annotate(resources={"what no worker has": 1}),
        pytest.raises(ClusterError, match="has workers, but has run no task for 1 seconds"),
    ):
        as_dask_source(rows).reduce(Moments.of)


def test_f2_a_block_that_always_kills_its_worker(client: Any) -> None:
    def deadly(block: Block) -> Moments:
        if block.start == 240:
            os._exit(1)
        return Moments.of(block)

    with pytest.raises(ClusterError, match=r"worker that was given partition 4 died, 2 in"):
        as_dask_source(lazy()).reduce(deadly)


@pytest.mark.slow
def test_f2_a_partition_that_cannot_be_loaded_without_dying(client: Any) -> None:
    def deadly(chunk: np.ndarray, block_info: Any = None) -> np.ndarray:
        if block_info and block_info[0]["chunk-location"][0] == 7:
            os._exit(1)
        return chunk

    array = lazy().map_blocks(deadly, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ClusterError, match=r"worker that was given partition 7 died"):
        as_dask_source(array).observed()


CLUSTER = textwrap.dedent(
    """
    import sys, distributed
    if __name__ == "__main__":
        cluster = distributed.LocalCluster(
            n_workers=int(sys.argv[1]), threads_per_worker=1, processes=False,
            dashboard_address=":0", host="127.0.0.1", protocol="tcp://",
        )
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
    """
)


@pytest.fixture
def other_cluster() -> Iterator[Callable[[int], tuple[subprocess.Popen[str], Any]]]:
    """Scheduler and workers in a process of their own, and a client here."""
    started: list[tuple[subprocess.Popen[str], Any]] = []

    def start(workers: int) -> tuple[subprocess.Popen[str], Any]:
        process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(workers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        client = distributed.Client(process.stdout.readline().strip(), timeout=5)
        started.append((process, client))
        return process, client

    yield start
    for process, client in started:
        process.kill()
        process.wait()
        client.close(timeout=1)


@pytest.mark.slow
def test_f3_the_scheduler_is_killed(other_cluster: Any) -> None:
    process, client = other_cluster(1)
    reached: list[int] = []

    def kill(progress: Progress) -> None:
        reached.append(progress.iteration)
        if progress.iteration == 4:
            process.send_signal(signal.SIGKILL)
            process.wait()

    with client.as_current(), pytest.raises(ClusterError, match="scheduler is lost"):
        fitted(kill)
    assert max(reached) >= 4


@pytest.mark.slow
def test_f3_a_fit_goes_on_from_its_checkpoint_on_another_cluster(
    other_cluster: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    estimator = PPCA(Q, tol=1e-8, checkpoint=Checkpoint(tmp_path / "fit.egck", every=0))
    process, client = other_cluster(1)
    compute, calls = running.compute, []

    def killing(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 12:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return compute(*args)

    with client.as_current(), monkeypatch.context() as patched:
        patched.setattr(running, "compute", killing)
        with pytest.raises(ClusterError, match="scheduler is lost"):
            estimator.fit(as_dask_source(lazy()))
    assert (tmp_path / "fit.egck").exists()

    _, client = other_cluster(1)
    with client.as_current():
        source = as_dask_source(lazy())
        resumed = estimator.fit(source)
        anew = as_dask_source(lazy())
        PPCA(Q, tol=1e-8).fit(anew)
    whole = PPCA(Q, tol=1e-8).fit(table())
    assert source.passes < anew.passes  # it did not begin anew
    np.testing.assert_allclose(resumed.get_covariance(), whole.get_covariance(), rtol=1e-8)
    assert not (tmp_path / "fit.egck").exists()


@pytest.mark.slow
def test_no_worker_ever_comes(other_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LOOK", 0.2)
    monkeypatch.setattr(running, "PATIENCE", 1.0)
    _, client = other_cluster(0)
    with client.as_current(), pytest.raises(ClusterError, match="no worker for 1 seconds"):
        as_dask_source(lazy()).observed()
