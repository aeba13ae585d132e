"""Each criterion for the number of components against something that does not share its code."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA as PeerPCA

import eigengap as eg
from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.gaussian.pca import fit_pca
from eigengap.selection.rank import minka_rank
from eigengap.selection.rank.automatic import (
    noise_shares,
    permuted_parallel_analysis,
    wishart_eigenvalues,
)
from eigengap.selection.rank.choose import choose_rank
from eigengap.selection.rank.search import most_factors
from eigengap.selection.rank.spectral import bartlett, gavish_donoho, omega, threshold
from eigengap.sources.conversion import as_source
from eigengap.spectrum import Spectrum


def spectrum_of(X):
    return fit_pca(as_source(X), None).spectrum


def components(n, d, q, seed, strength=3.0, noise=1.0):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.normal(size=(d, q)))[0] * np.linspace(strength + 1, strength, q)
    return rng.normal(size=(n, q)) @ W.T + np.sqrt(noise) * rng.normal(size=(n, d))


# Minka ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_minka_is_scikit_learns_mle(load):
    X = load().data
    X = X / X.std(axis=0)
    peer = PeerPCA(n_components="mle", svd_solver="full").fit(X)
    assert minka_rank(spectrum_of(X)) == peer.n_components_


@pytest.mark.parametrize("seed", range(6))
def test_minka_is_scikit_learns_mle_on_simulated_tables(seed):
    X = components(60, 9, 3, seed, strength=1.2)
    peer = PeerPCA(n_components="mle", svd_solver="full").fit(X)
    choice = choose_rank(X, criteria=["minka"], max_rank=8)
    assert choice.criteria["minka"] == peer.n_components_


def test_minkas_curve_is_scikit_learns_evidence():
    from sklearn.decomposition._pca import _assess_dimension

    X = components(80, 7, 2, 0)
    lam = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2 / 79
    curve = choose_rank(X, criteria=["minka"], max_rank=6).curves["minka"]
    ours = np.array([curve[q] for q in range(1, 7)])
    peer = np.array([_assess_dimension(lam, q, 80) for q in range(1, 7)])
    np.testing.assert_allclose(ours, peer, rtol=1e-8)


# Gavish and Donoho ------------------------------------------------------------------------------


def test_published_coefficients_of_the_optimal_threshold():
    """Gavish and Donoho (2014): 4 / sqrt(3), and Table IV with its cubic approximation."""
    assert threshold(1.0) == pytest.approx(4 / np.sqrt(3), rel=1e-12)
    assert omega(1.0) == pytest.approx(2.858, abs=5e-4)
    published = {0.05: 1.5194, 0.1: 1.6089, 0.25: 1.8371, 0.5: 2.1711, 0.75: 2.5014}
    for beta, expected in published.items():
        cubic = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
        assert omega(beta) == pytest.approx(expected, abs=5e-4)
        assert omega(beta) == pytest.approx(cubic, abs=0.02)


def test_threshold_on_a_square_table_is_2_858_medians():
    X = components(101, 100, 2, 0, strength=8.0)  # 100 rows are left of 101 when centred
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:100]
    count, curve = gavish_donoho(spectrum_of(X))
    assert count == int(np.sum(s > 2.858 * np.median(s))) == 2
    assert curve[1] == pytest.approx(s[0] / (2.858 * np.median(s)), rel=1e-3)


# Bartlett ---------------------------------------------------------------------------------------


def test_bartletts_statistic_by_determinants():
    X = np.random.default_rng(0).normal(size=(50, 4))
    n, d = X.shape
    S = np.cov(X.T)
    ratio = np.linalg.det(S) / (np.trace(S) / d) ** d
    statistic = -(n - 1 - (2 * d * d + d + 2) / (6 * d)) * np.log(ratio)
    _, curve = bartlett(spectrum_of(X), 2)
    assert curve[0] == pytest.approx(stats.chi2.sf(statistic, (d + 2) * (d - 1) / 2), rel=1e-9)


@pytest.mark.parametrize("q", [0, 2])
def test_bartletts_p_values_are_uniform_where_the_remainder_is_noise(q):
    p = []
    for seed in range(300):
        X = components(60, 6, q, seed) if q else np.random.default_rng(seed).normal(size=(60, 6))
        p.append(bartlett(spectrum_of(X), 4)[1][q])
    assert stats.kstest(p, "uniform").pvalue > 1e-3


@pytest.mark.needs_r
def test_the_test_of_factors_is_factanals(tmp_path):
    import subprocess

    X = components(150, 8, 2, 3)
    np.savetxt(tmp_path / "X", X)
    script = (
        f"X <- as.matrix(read.table(\"{tmp_path}/X\")); for (q in 1:2) cat(factanal(X, q)$PVAL, '')"
    )
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True)
    theirs = [float(word) for word in done.stdout.split()]
    curve = choose_rank(X, criteria=["bartlett"], noise="diagonal").curves["bartlett"]
    np.testing.assert_allclose([curve[1], curve[2]], theirs, rtol=1e-3, atol=1e-12)


def test_ledermanns_bound():
    for d in range(3, 60):
        q = most_factors(d)
        assert (d - q) ** 2 >= d + q
        assert (d - q - 1) ** 2 < d + q + 1


# Parallel analysis ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "d"), [(40, 6), (8, 30), (20, 20)])
def test_wishart_eigenvalues_are_those_of_gaussian_tables(n, d):
    """The bidiagonal model against tables in full: Kolmogorov-Smirnov on the first and second."""
    rng = np.random.default_rng(0)
    model = np.array([wishart_eigenvalues(n, d, rng, 2) for _ in range(400)])
    tables = []
    for _ in range(400):
        s2 = np.linalg.svd(rng.normal(size=(n, d)), compute_uv=False) ** 2
        tables.append(s2[:2] / s2.sum())
    for k in range(2):
        assert stats.ks_2samp(model[:, k], np.array(tables)[:, k]).pvalue > 1e-3


def test_noise_is_taken_for_noise():
    """At a quantile of 95 % one table of noise in twenty has a component, with gaps too."""
    for missing in (0.0, 0.3):
        found = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(50, 8)) * rng.uniform(0.1, 10, 8)
            X[rng.random(X.shape) < missing] = np.nan
            choice = choose_rank(X, criteria=["deflated_parallel_analysis"])
            assert choice.n_components >= 1
            found.append(choice.criteria["deflated_parallel_analysis"])
        assert np.count_nonzero(found) <= 9  # of 60; 3 expected


def test_permutation_agrees_with_gaussian_noise_on_gaussian_tables():
    X = components(120, 12, 3, 0, strength=2.5)
    count, curve = permuted_parallel_analysis(X, 6, np.random.default_rng(0))
    gaussian = choose_rank(X, criteria=["parallel_analysis"], max_rank=6)
    assert count == gaussian.criteria["parallel_analysis"] == 3
    np.testing.assert_allclose(
        list(curve.values()), list(gaussian.curves["parallel_analysis"].values()), rtol=0.08
    )


def test_quantiles_of_noise_are_the_same_every_time():
    np.testing.assert_array_equal(noise_shares(49.0, 8, 4), noise_shares(49.0, 8, 4))


# All of them ------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_every_criterion_finds_strong_components(noise):
    X = components(200, 10, 2, 1, strength=6.0, noise=0.05)
    choice = choose_rank(X, noise=noise, tolerance=0.05)
    assert choice.n_components == 2
    assert set(choice.criteria.values()) == {2}, choice.summary
    assert "agree" in choice.summary


def test_every_criterion_finds_strong_components_through_missing():
    rng = np.random.default_rng(2)
    X = components(200, 10, 2, 2, strength=6.0, noise=0.05)
    X[rng.random(X.shape) < 0.3] = np.nan
    choice = choose_rank(X)
    assert choice.n_components == 2
    assert set(choice.criteria.values()) == {2}, choice.summary


def test_eigengap_tolerance_and_bic_by_hand():
    lam = np.array([10.0, 8.0, 1.0, 0.9, 0.1])
    spectrum = Spectrum(lam, float(lam.sum()), 100.0, 5, complete=True)
    from eigengap.selection.rank.spectral import (
        bic_from_spectrum,
        largest_eigengap,
        within_tolerance,
    )

    q, curve = largest_eigengap(spectrum, 4)
    assert q == 2
    assert curve[2] == pytest.approx(8.0)
    assert within_tolerance(spectrum, 0.11, 5)[0] == 2
    assert within_tolerance(spectrum, 0.05 + 1e-9, 5)[0] == 4 - (1.0 / 20 < 0.05 + 1e-9)
    curve = bic_from_spectrum(spectrum, 4)
    sigma2 = lam[2:].mean()
    ll = -50 * (5 * np.log(2 * np.pi) + 5 + np.log(80.0) + 3 * np.log(sigma2))
    assert curve[2] == pytest.approx(-2 * ll + (10 - 1 + 6) * np.log(100))


def test_cross_validation_by_hand():
    """The error at q = 0 is that of the column means of the cells that each fold shows."""
    from eigengap.runtime.hashing import cell_uniforms

    X = components(40, 5, 1, 5)
    X[3, 2] = np.nan
    curve = choose_rank(X, criteria=["cross_validation"], random_state=4).curves["cross_validation"]
    seed = int(np.random.default_rng(4).integers(2**31 - 1))
    fold = np.floor(5 * cell_uniforms(np.arange(40), 5, seed))
    squares = []
    for k in range(5):
        shown = np.where(fold == k, np.nan, X)
        error = (X - np.nanmean(shown, axis=0))[(fold == k) & ~np.isnan(X)]
        squares.extend(error**2)
    assert curve[0] == pytest.approx(np.mean(squares), rel=1e-10)


def test_digits_have_many_components_and_the_choice_says_so():
    X = load_digits().data[:400]
    choice = choose_rank(X, criteria=["deflated_parallel_analysis", "parallel_analysis"])
    assert 5 < choice.n_components < 30


@pytest.mark.parametrize("d", [10, 12, 16])
def test_a_cliff_in_the_spectrum_is_the_number(d):
    """Five sources in few channels: deflation stops at a third of the columns, 3 or 4."""
    rng = np.random.default_rng(d)
    X = rng.laplace(size=(1000, 5)) @ rng.normal(size=(5, d)) + 0.05 * rng.normal(size=(1000, d))
    choice = eg.choose_rank(X, criteria=["deflated_parallel_analysis"])
    assert choice.n_components == 5
    assert eg.PCA("auto").fit(X).n_components_ == 5


def test_columns_that_nearly_repeat_others_are_no_cliff_of_the_first_half():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(300, 6))
    doubled = np.hstack([X, X[:, :5] + 1e-6 * rng.normal(size=(300, 5))])
    assert eg.choose_rank(X, criteria=["deflated_parallel_analysis"]).n_components <= 3
    assert eg.choose_rank(doubled, criteria=["deflated_parallel_analysis"]).n_components <= 5


# Fits that fail ----------------------------------------------------------------------------


def kilograms_and_pounds(seed: int) -> np.ndarray:
    """A weight in kg, a copy of it, the same in lb, and a height; a tenth missing."""
    rng = np.random.default_rng(seed)
    kg = rng.normal(70, 12, 60)
    X = np.column_stack([kg, kg, kg * 2.2046226, 5 * rng.normal(size=60) + 170])
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("seed", [2, 11, 14])
def test_columns_that_repeat_each_other_end_no_fit(seed):
    """Seed 11 raised ObjectiveFellError from Bayesian PCA."""
    choice = choose_rank(kilograms_and_pounds(seed), criteria=["eigengap", "ard"])
    assert choice.n_components >= 1
    assert "ard" in choice.criteria


@pytest.mark.parametrize(
    "error", [ObjectiveFellError("the objective fell"), np.linalg.LinAlgError("singular")]
)
def test_a_criterion_whose_fit_fails_is_skipped_and_named(error, monkeypatch):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr("eigengap.selection.rank.choose.fit_bayesian", fails)
    choice = choose_rank(kilograms_and_pounds(0), criteria=["eigengap", "ard"])
    assert list(choice.criteria) == ["eigengap"]
    assert str(error) in choice.not_applied["ard"]
    assert "automatic relevance determination (its fit failed" in choice.summary
