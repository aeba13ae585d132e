"""D2, T2, SPE, their shares and their tails against dense algebra and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests import dense

from eigengap import LinearGaussian
from eigengap.exceptions import SingularModelError
from eigengap.models.gaussian.novelty import (
    contributions,
    distances,
    given_the_others,
    squared_distance,
)
from eigengap.models.gaussian.reference import log_tail


def model_of(d, q, rng, psi=None):
    psi = rng.uniform(0.1, 2.0, d) if psi is None else psi
    return LinearGaussian(W=rng.normal(size=(d, q)), mu=rng.normal(size=d), psi=psi)


def incomplete(model, n, share, rng):
    X = model.sample(n, rng)
    X[rng.random(X.shape) < share] = np.nan
    X[0] = np.nan
    return X


def by_brute_force(x, model):
    """D2, T2, SPE and the rank of one row from the definitions, with dense matrices."""
    o = ~np.isnan(x)
    if not o.any():
        return 0.0, 0.0, 0.0, 0
    r, W, inverse = x[o] - model.mu[o], model.W[o], np.diag(1.0 / model.psi[o])
    C = model.covariance()[np.ix_(o, o)]
    G, b = W.T @ inverse @ W, W.T @ inverse @ r
    T2 = b @ np.linalg.pinv(G + G @ G, rcond=1e-12, hermitian=True) @ b
    SPE = r @ inverse @ r - b @ np.linalg.pinv(G, rcond=1e-12, hermitian=True) @ b
    return r @ np.linalg.solve(C, r), T2, SPE, np.linalg.matrix_rank(W)


@pytest.mark.parametrize(("d", "q", "share"), [(8, 3, 0.0), (8, 3, 0.5), (5, 4, 0.4), (30, 6, 0.3)])
def test_statistics_agree_with_their_definitions(d, q, share):
    rng = np.random.default_rng(d)
    model = model_of(d, q, rng)
    X = incomplete(model, 200, share, rng)
    expected = np.array([by_brute_force(x, model) for x in X])
    found = distances(model, X)
    np.testing.assert_allclose(found.T2, expected[:, 1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.SPE, expected[:, 2], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.D2, expected[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(squared_distance(model, X), expected[:, 0], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.rank, expected[:, 3])
    np.testing.assert_array_equal(found.observed, (~np.isnan(X)).sum(axis=1))


@pytest.mark.parametrize("noise", [1e-3, 1e-6, 1e-9, 0.0])
def test_small_noise_keeps_its_digits(noise):
    """Two columns (almost) without noise: dense algebra is still well conditioned."""
    rng = np.random.default_rng(1)
    psi = np.full(8, 0.5)
    psi[:2] = noise
    model = model_of(8, 3, rng, psi)
    X = incomplete(model, 100, 0.4, rng)
    C, mu = model.covariance(), model.mu
    D2 = []
    for x in X:
        o = ~np.isnan(x)
        r = x[o] - mu[o]
        D2.append(r @ np.linalg.solve(C[np.ix_(o, o)], r) if o.any() else 0.0)
    found = distances(model, X)
    np.testing.assert_allclose(found.D2, D2, rtol=1e-6, atol=1e-8)
    ranks = [np.linalg.matrix_rank(model.W[~np.isnan(x)]) if (~np.isnan(x)).any() else 0 for x in X]
    np.testing.assert_array_equal(found.rank, ranks)


def test_a_singular_model_is_refused_with_words():
    rng = np.random.default_rng(2)
    model = model_of(6, 2, rng, np.zeros(6))
    with pytest.raises(SingularModelError, match="Fit fewer components"):
        distances(model, np.ones((1, 6)))
    one = model_of(6, 2, rng, np.array([0.0, 1, 1, 1, 1, 1]))
    assert np.isfinite(distances(one, np.ones((1, 6))).D2).all()
    with pytest.raises(SingularModelError, match="feature 0 without any noise"):
        contributions(one, np.ones((1, 6)), "D2")


def test_contributions_follow_their_formulas_and_sum_to_the_statistic():
    rng = np.random.default_rng(3)
    model = model_of(7, 2, rng)
    X = incomplete(model, 50, 0.3, rng)
    found = distances(model, X)
    shares = {of: contributions(model, X, of) for of in ("D2", "T2", "SPE")}
    for of, table in shares.items():
        np.testing.assert_allclose(table.sum(axis=1), getattr(found, of), rtol=1e-9, atol=1e-10)
        assert np.all(table[np.isnan(X)] == 0.0)
    assert np.all(shares["SPE"] >= 0.0)
    C = model.covariance()
    for i in range(1, 10):
        o = ~np.isnan(X[i])
        r = X[i, o] - model.mu[o]
        by_hand = r * np.linalg.solve(C[np.ix_(o, o)], r)
        np.testing.assert_allclose(shares["D2"][i, o], by_hand, rtol=1e-9, atol=1e-12)


def test_shares_in_T2_are_half_the_derivative_times_the_deviation():
    rng = np.random.default_rng(4)
    model = model_of(6, 2, rng)
    x = model.sample(1, rng)
    step = 1e-6 * np.eye(6)
    by_difference = (distances(model, x + step).T2 - distances(model, x - step).T2) / 2e-6
    expected = 0.5 * (x[0] - model.mu) * by_difference
    np.testing.assert_allclose(contributions(model, x, "T2")[0], expected, rtol=1e-6, atol=1e-8)


def test_a_cell_given_the_others_is_the_cell_left_out():
    rng = np.random.default_rng(5)
    model = model_of(6, 2, rng)
    X = incomplete(model, 30, 0.3, rng)
    mean, sd = given_the_others(model, X)
    D2 = squared_distance(model, X)
    C = model.covariance()
    for i in range(len(X)):
        for j in range(6):
            left_out = X[[i]].copy()
            left_out[0, j] = np.nan
            filled, covs = dense.conditional(left_out, model.mu, C)
            position = np.flatnonzero(np.isnan(left_out[0])).tolist().index(j)
            np.testing.assert_allclose(mean[i, j], filled[0, j], rtol=1e-9, atol=1e-10)
            np.testing.assert_allclose(sd[i, j] ** 2, covs[0][position, position], rtol=1e-9)
            if not np.isnan(X[i, j]):
                fall = D2[i] - squared_distance(model, left_out)[0]
                np.testing.assert_allclose(
                    fall, ((X[i, j] - mean[i, j]) / sd[i, j]) ** 2, atol=1e-9
                )


def test_tails_agree_with_scipy_where_it_has_digits():
    x = np.array([0.0, 0.3, 5.0, 60.0, 900.0])
    for dof in (1, 3, 40):
        np.testing.assert_allclose(
            log_tail(x, dof, np.inf), stats.chi2.logsf(x, dof), rtol=1e-12, atol=1e-14
        )
        np.testing.assert_allclose(
            log_tail(x, dof, 30.0), stats.f.logsf(x / dof, dof, 30), rtol=1e-10, atol=1e-14
        )


def test_tails_far_out_have_closed_forms_for_two_degrees_of_freedom():
    x = np.array([1e3, 2e3, 1e5, 1e9])
    np.testing.assert_allclose(log_tail(x, 2, np.inf), -x / 2, rtol=1e-12)
    np.testing.assert_allclose(log_tail(x, 4, np.inf), -x / 2 + np.log1p(x / 2), rtol=1e-12)
    for nu in (1e3, 1e6):
        np.testing.assert_allclose(log_tail(x, 2, nu), -nu / 2 * np.log1p(x / nu), rtol=1e-9)
    assert log_tail(np.array([7.0]), 0, np.inf)[0] == 0.0
