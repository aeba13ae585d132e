"""F12: eight joblib threads, each of which calls BLAS and compiled kernels."""

from __future__ import annotations

import gc
import os
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info

import eigengap as eg
from eigengap.runtime import memory, threads
from eigengap.sources.conversion import as_source

CALLERS = 8


def blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch):
    """Tests run with one thread for BLAS, of which nothing could be taken away."""
    monkeypatch.setattr(memory, "cpu_quota", lambda: float("inf"))  # a container may grant fewer
    before = blas_threads()
    for library in threads.libraries():
        threads._give(library, 4)
    yield
    for library, most in zip(threads.libraries(), before, strict=True):
        threads._give(library, most)


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "gaps"])
def test_fits_in_threads_are_those_one_after_another(missing):
    tables = []
    for seed in range(CALLERS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=(400, 20))
        tables.append(np.where(rng.random(X.shape) < missing, np.nan, X))

    def fit(X):
        return eg.PPCA(3).fit(X).get_covariance()

    together = Parallel(n_jobs=CALLERS, backend="threading")(delayed(fit)(X) for X in tables)
    assert set(blas_threads()) == {4}  # whoever leaves last restores what the first has found
    for X, found in zip(tables, together, strict=True):
        np.testing.assert_allclose(found, fit(X), rtol=1e-12)


def test_a_kernel_uses_no_more_threads_than_there_are_to_share(monkeypatch):
    """With eight callers at once each has its own thread and a share of the helpers, no more."""
    monkeypatch.setattr(threads, "allowed_threads", lambda: CALLERS)
    lock, all_in = threading.Lock(), threading.Barrier(CALLERS)
    inside = most = 0

    def work(start, stop):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.002)
        with lock:
            inside -= 1
        return -1

    def caller(_):
        all_in.wait()
        return threads.over_columns(work, 64, 1)

    found = Parallel(n_jobs=CALLERS, backend="threading")(
        delayed(caller)(k) for k in range(CALLERS)
    )
    assert found == [-1] * CALLERS
    helpers = threads._executor()._max_workers
    assert 2 <= most <= CALLERS + helpers  # every caller works itself; the helpers are one pool


def test_passes_that_run_together_share_the_threads_of_blas():
    together = threading.Barrier(2, timeout=30)
    observed = []

    def look(block):
        together.wait()
        observed.append(set(blas_threads()))
        together.wait()
        return block.values

    callers = [threading.Thread(target=as_source(np.eye(3)).map, args=(look,)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert observed == [{2}, {2}]
    assert set(blas_threads()) == {4}


def test_limits_that_overlap_in_any_order_end_with_what_was_there():
    """Enter a, enter b, leave a, leave b, each in a Python thread of its own."""
    steps = {name: (threading.Event(), threading.Event()) for name in "ab"}
    inside = {name: threading.Event() for name in "ab"}
    out = {name: threading.Event() for name in "ab"}

    def hold(name, limit):
        enter, leave = steps[name]
        assert enter.wait(30)
        with limit:
            inside[name].set()
            assert leave.wait(30)
        out[name].set()

    limits = {"a": threads.one_blas_thread(), "b": threads.at_most(2)}
    for name, limit in limits.items():
        threading.Thread(target=hold, args=(name, limit)).start()
    found = []
    for name, step, done in (("a", 0, inside), ("b", 0, inside), ("a", 1, out), ("b", 1, out)):
        steps[name][step].set()
        assert done[name].wait(30)
        found.append(set(blas_threads()))
    assert found == [{1}, {1}, {2}, {4}]


def test_a_pass_within_a_pass_is_counted_once():
    inner = as_source(np.eye(3))

    def look(block):
        return np.array([[max(blas_threads())]]) + 0 * inner.map(lambda b: b.values)[:1, :1]

    assert as_source(np.ones((4, 2))).map(look) == 4


def test_a_limit_that_was_lower_stays():
    for library in threads.libraries():
        threads._give(library, 1)
    with threads.at_most(3):
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}


def test_limits_of_a_python_thread_are_given_back_by_it(monkeypatch):
    """OpenMP keeps a number for each Python thread: nobody else can restore it."""
    own = threading.local()

    def give(threads):
        own.threads = threads

    library = SimpleNamespace(threading_layer="openmp", set_num_threads=give)
    fake = type("Fake", (SimpleNamespace,), {"num_threads": property(lambda _: own.threads)})
    monkeypatch.setattr(threads, "_of_thread", lambda: [fake(**vars(library))])
    ends = []

    def pass_(both_in):
        own.threads = 4
        with threads.sharing(), threads.at_most(3):
            both_in.wait()
            ends.append(own.threads)
        ends.append(own.threads)

    both_in = threading.Barrier(2, timeout=30)
    callers = [threading.Thread(target=pass_, args=(both_in,)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert ends.count(4) == 2
    assert len(ends) == 4
    assert max(sorted(ends)[:2]) <= 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_a_new_account():
    with threads.one_blas_thread():
        child = os.fork()
        if child == 0:
            with threads.sharing():  # the parent's wish is not counted here
                inside = set(blas_threads())
            os._exit(0 if inside == set(blas_threads()) == {4} else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_an_interrupt_at_any_moment_leaves_no_limit_behind():
    """Ctrl-C comes between any two instructions, also while a limit is set or taken back."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    rng = np.random.default_rng(0)
    try:
        for _ in range(300):
            after = float(rng.uniform(1e-4, 6e-4))
            try:
                signal.setitimer(signal.ITIMER_REAL, after, 0.05)  # again, if one gets lost
                while True:
                    with threads.one_blas_thread(), threads.sharing():
                        pass
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    assert not threads._account._inside
    assert set(blas_threads()) == {4}


def test_who_keeps_an_exception_keeps_no_threads():
    """As a notebook does, for `%debug`."""

    def fails(block):
        if block.start == 2:
            raise ValueError("block 2")
        return block.values

    kept = []
    for source in (as_source(np.eye(6), block_rows=1), as_source(np.eye(6), block_rows=1)):
        try:
            source.prepared(lambda block: block).map(fails)
        except ValueError as error:
            kept.append(error)
    assert len(kept) == 2
    assert set(blas_threads()) == {4}
    assert not [one for one in threading.enumerate() if one.name.startswith("eigengap-block")]
