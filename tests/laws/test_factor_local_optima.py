"""Factor analysis has local optima, most of them improper: the fit finds a better one.

The oracle is L-BFGS on dense covariances, from random starts.
"""

import numpy as np
import pytest
from tests.random_tables import climbed, noise_floor

import eigengap as eg

SHORT = 1e-3  # nats per row


def best_of_many(X, q, starts):
    rng = np.random.default_rng(0)
    one, variance = np.ones(len(X)), np.nanvar(X, axis=0)
    floor = noise_floor(X, one, "diagonal")
    ends = []
    for _ in range(starts):
        W = rng.normal(size=(X.shape[1], q)) * np.sqrt(variance / 2 / q)[:, None]
        mu, psi = np.nanmean(X, axis=0), variance / 2
        ends.append(climbed(X, one, mu, W, psi, floor, "diagonal", max_iter=150).after)
    return max(ends)


@pytest.mark.parametrize("seed", [3, 25])
def test_a_column_that_is_almost_the_sum_of_two_others(seed):
    """Complete data: two uniquenesses vanish, and which ones is a matter of search."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8))
    X[:, 7] = X[:, 0] + X[:, 1] + 0.01 * rng.normal(size=60)
    fit = eg.FactorAnalysis(2).fit(X)
    assert fit.log_likelihood_ / len(X) >= best_of_many(X, 2, 8) - SHORT


@pytest.mark.parametrize(("seed", "q"), [(37, 2), (50, 2)])
def test_tables_with_missing_values(seed, q):
    """Tables in which the start by the covariance alone fell 0.01 to 0.1 nats per row short."""
    rng = np.random.default_rng([5, seed])
    n = int(np.exp(rng.uniform(np.log(50), np.log(500))))
    d, k = int(rng.integers(5, 16)), int(rng.integers(1, 5))
    W = rng.normal(size=(d, k)) * rng.uniform(0.3, 1.5, size=(d, 1))
    psi = rng.uniform(0.1, 2, size=d)
    X = rng.normal(size=(n, k)) @ W.T + np.sqrt(psi) * rng.normal(size=(n, d))
    X[rng.random(X.shape) < rng.uniform(0.05, 0.4)] = np.nan
    X = X[~np.isnan(X).all(axis=1)]
    fit = eg.FactorAnalysis(q).fit(X)
    assert fit.log_likelihood_ / len(X) >= best_of_many(X, q, 6) - SHORT
