"""F12: eight joblib threads, each of which calls BLAS and compiled kernels."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info

import eigengap as eg
from eigengap.compiled import threads

CALLERS = 8


def blas_threads():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


@pytest.mark.parametrize("gaps", [0.0, 0.2], ids=["complete", "gaps"])
def test_fits_in_threads_are_those_one_after_another(gaps):
    tables = []
    for seed in range(CALLERS):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 20)) + rng.normal(size=(400, 20))
        tables.append(np.where(rng.random(X.shape) < gaps, np.nan, X))

    def fit(X):
        return eg.PPCA(3).fit(X).get_covariance()

    before = blas_threads()
    together = Parallel(n_jobs=CALLERS, backend="threading")(delayed(fit)(X) for X in tables)
    assert blas_threads() == before  # whoever leaves last restores what the first has found
    for X, found in zip(tables, together, strict=True):
        np.testing.assert_allclose(found, fit(X), rtol=1e-12)


def test_a_kernel_uses_no_more_threads_than_there_are_to_share(monkeypatch):
    """With eight callers at once each has its own thread and a share of the helpers, no more."""
    monkeypatch.setattr(threads, "allowed", lambda: CALLERS)
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
