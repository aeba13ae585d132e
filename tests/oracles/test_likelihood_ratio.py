"""Likelihood-ratio tests: statistics by hand, p-values uniform where they should be."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest
from tests import dense

import eigengap as eg
from eigengap.comparison.likelihood_ratio import likelihood_ratio_test

W = np.array([[1.5, 0.2], [1.3, 0.0], [-1.2, 0.3], [0.1, 1.4], [0.2, 1.2], [-0.1, 1.3]])


def table(n, rng, missing=0.0):
    X = rng.normal(size=(n, 2)) @ W.T + rng.normal(size=(n, 6))
    X[rng.random(X.shape) < missing] = np.nan
    return X


def rank_statistic(lam, q, n):
    """2 ln LR of PPCA with q against q + 1 components, from eigenvalues (..., d) descending."""
    d = lam.shape[-1]
    by_rank = [
        np.log(lam[..., :k]).sum(-1) + (d - k) * np.log(lam[..., k:].mean(-1)) for k in (q, q + 1)
    ]
    return n * (by_rank[0] - by_rank[1])


def spectra(C, n, tables, rng):
    X = rng.normal(size=(tables, n, len(C))) @ np.linalg.cholesky(C).T
    X -= X.mean(axis=1, keepdims=True)
    return np.linalg.eigvalsh(np.swapaxes(X, 1, 2) @ X / n)[:, ::-1]


def test_rank_statistic_from_eigenvalues():
    X = table(80, np.random.default_rng(0))
    found = likelihood_ratio_test(eg.PPCA(2), eg.PPCA(3), X, n_boot=1)
    lam = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    assert found.statistic == pytest.approx(rank_statistic(lam, 2, 80))
    assert (found.df, found.method) == (4, "bootstrap")


def test_threads_find_the_same():
    X = table(60, np.random.default_rng(1), missing=0.2)
    alone, together = (
        likelihood_ratio_test(eg.PPCA(1), eg.PPCA(2), X, n_boot=6, n_jobs=jobs) for jobs in (1, 2)
    )
    np.testing.assert_allclose(alone.replicates, together.replicates, rtol=1e-8)
    with pytest.raises(ValueError, match="n_jobs=0"):
        likelihood_ratio_test(eg.PPCA(1), eg.PPCA(2), X, n_boot=6, n_jobs=0)


def test_statistic_with_missing_by_brute_force():
    X = table(60, np.random.default_rng(1), missing=0.2)
    small, large = eg.PPCA(1), eg.FactorAnalysis(1)
    found = likelihood_ratio_test(small, large, X)
    sums = [
        dense.log_likelihood(X, m.mean_, m.get_covariance()).sum()
        for m in (small.fit(X), large.fit(X))
    ]
    assert found.statistic == pytest.approx(2 * (sums[1] - sums[0]), abs=1e-6)
    assert (found.df, found.method) == (5, "chi2")
    assert found.p_value == pytest.approx(chi2.sf(found.statistic, 5))


def test_isotropic_against_diagonal_is_uniform():
    rng = np.random.default_rng(2)
    tests = [
        likelihood_ratio_test(eg.PPCA(2), eg.FactorAnalysis(2), table(400, rng)) for _ in range(120)
    ]
    assert kstest([t.p_value for t in tests], "uniform").pvalue > 0.01


def test_unequal_noise_is_found():
    X = table(300, np.random.default_rng(3))
    X[:, 0] += np.random.default_rng(4).normal(size=300)
    assert likelihood_ratio_test(eg.PPCA(2), eg.FactorAnalysis(2), X).p_value < 1e-3


def test_replicates_have_the_law_of_the_smaller_model():
    rng = np.random.default_rng(5)
    X = table(100, rng)
    found = likelihood_ratio_test(eg.PPCA(2), eg.PPCA(3), X, n_boot=150)
    null = eg.PPCA(2).fit(X).get_covariance()
    brute = rank_statistic(spectra(null, 100, 4000, rng), 2, 100)
    assert kstest(found.replicates, brute).pvalue > 0.01
    share = np.mean(brute >= found.statistic)
    assert abs(found.p_value - share) < 4 * np.sqrt(share * (1 - share) / 150) + 1 / 151


def test_chi2_would_reject_a_true_rank():
    """Why the rank is tested by simulation: of 20 columns chi2 rejects half of all true ranks."""
    rng = np.random.default_rng(6)
    C = np.diag([7.0, 4.0, *np.ones(18)])
    D = rank_statistic(spectra(C, 500, 100, rng), 2, 500)
    assert np.mean(chi2.sf(D, 18) < 0.05) > 0.3
    X = rng.normal(size=(500, 20)) @ np.sqrt(C)
    found = likelihood_ratio_test(eg.PPCA(2), eg.PPCA(3), X, method="chi2")
    assert "rejects far too often" in found.summary


def test_one_component_too_few_is_found():
    rng = np.random.default_rng(7)
    factors = eg.FactorAnalysis(1), eg.FactorAnalysis(2)
    complete = likelihood_ratio_test(*factors, table(150, rng), n_boot=19)
    assert (complete.df, complete.p_value) == (5, pytest.approx(1 / 20))
    incomplete = likelihood_ratio_test(
        eg.PPCA(1), eg.PPCA(2), table(150, rng, missing=0.2), n_boot=19
    )
    assert (incomplete.df, incomplete.p_value) == (5, pytest.approx(1 / 20))


@pytest.mark.parametrize(
    ("smaller", "larger", "words"),
    [
        (eg.PPCA(2), eg.PPCA(1), "not nested"),
        (eg.FactorAnalysis(1), eg.PPCA(2), "not nested"),
        (eg.PPCA(2), eg.PPCA(2), "not nested"),
        (eg.PPCA(2, scale=True), eg.FactorAnalysis(2), "scale=True"),
        (eg.PPCA(1, loading_precision=1.0), eg.PPCA(2), "loading_precision"),
        (eg.PPCA("auto"), eg.PPCA(2), "n_components as a number"),
        (eg.PPCA(1), eg.PPCA(2, scale=True), "estimated units"),
        (eg.PPCA(1), eg.PPCA(2, noise_variance=0.5), "given noise_variance=0.5"),
        (eg.PPCA(1, noise_variance=1.0), eg.PPCA(2, noise_variance=0.5), "the smaller one 1.0"),
        (eg.PPCA(1), eg.PPCA(2, fit_mean=False), "fit_mean=False"),
        (eg.PPCA(1, missing_values=-9.0), eg.FactorAnalysis(1), "different tables"),
        (eg.PPCA(5), eg.PPCA(6), "same number of free parameters"),
        (eg.FactorAnalysis(3), eg.FactorAnalysis(4), "same number of free parameters"),
        (eg.PPCA(5), eg.FactorAnalysis(5), "same number of free parameters"),
        (eg.PCA(1), eg.PCA(2), "got PCA"),
        (eg.BayesianPCA(1), eg.PPCA(2), "got BayesianPCA"),
        (eg.PPCA(1), eg.PPCA(2, distribution="student"), "student"),
    ],
)
def test_what_is_no_test(smaller, larger, words):
    with pytest.raises(ValueError, match=words):
        likelihood_ratio_test(smaller, larger, table(50, np.random.default_rng(8)))


@pytest.mark.parametrize(
    ("smaller", "larger", "df"),
    [
        (eg.PPCA(4), eg.PPCA(5), 2),
        (eg.PPCA(1, noise_variance=1.0), eg.PPCA(1), 1),
        (eg.PPCA(5, noise_variance=0.1), eg.PPCA(6, noise_variance=0.1), 1),
        (eg.PPCA(1, fit_mean=False), eg.PPCA(1), 6),
        (eg.FactorAnalysis(2), eg.FactorAnalysis(3), 4),
        (eg.PPCA(3), eg.FactorAnalysis(4), 5),
    ],
)
def test_degrees_of_freedom_are_the_difference_of_dimensions(smaller, larger, df):
    """The dimension of a family of covariances is the rank of its derivative, found numerically."""
    X = table(60, np.random.default_rng(8))
    found = likelihood_ratio_test(smaller, larger, X, method="chi2")
    assert found.df == df == _dimension(larger) - _dimension(smaller)


def _dimension(model):
    rng, d, q = np.random.default_rng(0), 6, model.n_components

    def covariance(theta):
        W, noise = theta[: d * q].reshape(d, q), theta[d * q :]
        return (W @ W.T + np.diag(np.broadcast_to(noise, d)))[np.tril_indices(d)]

    diagonal = isinstance(model, eg.FactorAnalysis)
    given = getattr(model, "noise_variance", None)
    n_noise = d if diagonal else 1
    theta = np.concatenate([rng.normal(size=d * q), 1.0 + rng.random(n_noise)])
    free = d * q + (n_noise if given is None else 0)
    step = 1e-5 * np.eye(len(theta))[:free]
    derivative = [(covariance(theta + h) - covariance(theta - h)) / 2e-5 for h in step]
    rank = int(np.linalg.matrix_rank(np.array(derivative), tol=1e-6))
    return rank + (d if getattr(model, "fit_mean", True) else 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pair", ["rank", "noise", "rank of scaled", "rank of factors"])
def test_a_larger_fit_that_stops_short_goes_on_from_the_smaller_one(pair):
    smaller, larger = {
        "rank": (eg.PPCA(2), eg.PPCA(3, max_iter=1)),
        "noise": (eg.PPCA(2), eg.FactorAnalysis(2, max_iter=1)),
        "rank of scaled": (eg.PPCA(2, scale=True), eg.PPCA(3, max_iter=1, scale=True)),
        "rank of factors": (eg.FactorAnalysis(2), eg.FactorAnalysis(3, max_iter=1)),
    }[pair]
    X = table(80, np.random.default_rng(3), missing=0.4) * [1.0, 2.0, 1.0, 3.0, 1.0, 1.0]
    alone = [model.fit(X).log_likelihood_ for model in (smaller, larger)]
    assert alone[1] < alone[0]
    found = likelihood_ratio_test(smaller, larger, X, method="chi2")
    assert found.log_likelihoods[0] == pytest.approx(alone[0])
    assert 0.0 <= found.statistic < 10.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("n", "seed"), [(60, 4), (200, 7)])
def test_ranks_of_factors_with_most_values_missing(n, seed):
    # Both fits of three factors end at a local maximum below that of two.
    rng = np.random.default_rng(seed)
    q = 2 if n == 60 else 1
    X = rng.normal(size=(n, q)) @ rng.normal(size=(q, 6)) + rng.normal(size=(n, 6)) / q
    X[rng.random(X.shape) < 0.6] = np.nan
    found = likelihood_ratio_test(eg.FactorAnalysis(2), eg.FactorAnalysis(3), X, method="chi2")
    assert found.log_likelihoods[1] >= found.log_likelihoods[0]


def test_every_kind_of_random_state():
    X = table(40, np.random.default_rng(1))
    states = (None, np.random.default_rng(0), np.random.RandomState(0), 7)
    for state in states:
        found = likelihood_ratio_test(eg.PPCA(1), eg.PPCA(2), X, n_boot=2, random_state=state)
        assert found.replicates.shape == (2,)
