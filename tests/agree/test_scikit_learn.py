"""Agreement with scikit-learn, and one test for every line of docs/known-differences.md."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sklearn.decomposition as peer
from sklearn.datasets import load_digits, load_iris

import eigengap as eg
from eigengap.linalg import principal_angles

PAGE = Path(__file__).parents[2] / "docs" / "known-differences.md"


def table(n, d, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * np.linspace(3, 0.5, d) @ rng.normal(size=(d, d)) + offset


@pytest.mark.parametrize("shape", [(100, 5), (2000, 30), (30, 30), (20, 60), (60, 400)])
@pytest.mark.parametrize("q", [1, 3, 5])
def test_pca_has_scikit_learns_numbers(shape, q):
    X = table(*shape, offset=100.0)
    ours, theirs = eg.PCA(q).fit(X), peer.PCA(q, svd_solver="full").fit(X)
    for name in ("mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-7)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-6)
    Z = theirs.transform(X)
    np.testing.assert_allclose(ours.inverse_transform(Z), theirs.inverse_transform(Z), atol=1e-6)
    assert ours.n_components_ == theirs.n_components_
    assert ours.n_samples_ == theirs.n_samples_


@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh", "arpack", "randomized"])
def test_every_solver_name_gives_the_exact_axes(solver):
    X = table(300, 40)
    theirs = peer.PCA(4, svd_solver="full").fit(X)
    ours = eg.PCA(4, svd_solver=solver, random_state=0).fit(X)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-7)


@pytest.mark.parametrize("fraction", [0.5, 0.9, 0.999])
def test_fraction_and_mle_choose_as_scikit_learn(fraction):
    X = load_digits().data
    assert eg.PCA(fraction).fit(X).n_components_ == peer.PCA(fraction).fit(X).n_components_
    iris = load_iris().data
    for data in (iris, table(200, 6)):
        assert eg.PCA("mle").fit(data).n_components_ == peer.PCA("mle").fit(data).n_components_


def test_whitened_scores():
    X = table(200, 6)
    ours, theirs = eg.PCA(3, whiten=True).fit(X), peer.PCA(3, whiten=True).fit(X)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-8)
    Z = theirs.transform(X)
    np.testing.assert_allclose(ours.inverse_transform(Z), theirs.inverse_transform(Z), atol=1e-8)


@pytest.mark.parametrize("q", [1, 2, 4])
def test_factor_analysis_finds_scikit_learns_optimum(q):
    rng = np.random.default_rng(q)
    X = rng.normal(size=(500, q)) @ rng.normal(size=(q, 12)) + rng.normal(size=(500, 12)) * (
        rng.uniform(0.5, 2, 12)
    )
    ours = eg.FactorAnalysis(q).fit(X)
    theirs = peer.FactorAnalysis(q, tol=1e-10, max_iter=20000, svd_method="lapack").fit(X)
    assert ours.score(X) >= theirs.score(X) - 1e-8
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-3)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-2)
    assert principal_angles(ours.loadings_, theirs.components_.T)[0] < 1e-2


def test_score_samples_of_full_rank_models_agree():
    """q = d leaves no noise: the only divisor is n against n - 1."""
    X = table(500, 5)
    ours, theirs = eg.PCA().fit(X), peer.PCA().fit(X)
    np.testing.assert_allclose(ours.get_covariance() * 500 / 499, theirs.get_covariance())


@pytest.mark.parametrize("kind", ["PCA", "FactorAnalysis", "KernelPCA"])
def test_columns_are_named_as_scikit_learn_names_them(kind):
    """And axes as people write them."""
    X = table(50, 5)
    ours, theirs = getattr(eg, kind)(2).fit(X), getattr(peer, kind)(2).fit(X)
    np.testing.assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    prefix = {"PCA": "PC", "FactorAnalysis": "FA", "KernelPCA": "KPC"}[kind]
    assert ours.component_names_ == [f"{prefix}1", f"{prefix}2"]
    frame = ours.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(theirs.get_feature_names_out())


def test_a_share_that_is_met_exactly_does_not_do():
    for X in (load_iris().data, table(60, 6)):
        for k, share in enumerate(np.cumsum(eg.PCA().fit(X).explained_variance_ratio_)[:-1]):
            assert eg.PCA(float(share)).fit(X).n_components_ == k + 2
            assert eg.PCA(float(share) - 1e-9).fit(X).n_components_ == k + 1


@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh", "arpack", "randomized"])
@pytest.mark.parametrize("shape", [(30, 4), (4, 30)])
def test_solvers_refuse_the_same_numbers_of_components(shape, solver):
    X = table(*shape)
    for q in (None, 0, 1, 3, 4, 5, 0.5, "mle"):
        if q == "mle" and shape == (4, 30):
            continue  # refused by all, of which the next test has the words
        ours, theirs = (kind(q, svd_solver=solver) for kind in (eg.PCA, peer.PCA))
        try:
            expected = theirs.fit(X).n_components_
        except ValueError as error:
            first = str(error).split(":")[0].split(", ")[0]
            with pytest.raises(ValueError, match=re.escape(first)):
                ours.fit(X)
        else:
            if q is None and shape == (4, 30):
                expected = 3  # centred, four rows span three directions
            assert ours.fit(X).n_components_ == expected


@pytest.mark.parametrize("shape", [(1000, 100), (100, 1000)])
def test_oversampling_the_whole_space_is_exact(shape):
    X = np.random.default_rng(0).normal(size=shape)  # a flat spectrum
    theirs = peer.PCA(1, svd_solver="full").fit(X)
    ours = eg.PCA(1, svd_solver="randomized", n_oversamples=100).fit(X)
    np.testing.assert_allclose(ours.components_, theirs.components_, atol=1e-11)


def test_minkas_choice_needs_as_many_rows_as_columns():
    for kind in (eg.PCA, peer.PCA):
        with pytest.raises(ValueError, match="is only supported if n_samples >= n_features"):
            kind("mle", svd_solver="full").fit(table(4, 30))


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("how", [{}, {"scale": True}], ids=["plain", "scaled"])
@pytest.mark.parametrize("kind", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
def test_without_components_columns_are_independent(kind, how, missing):
    """Mean and variance of the observed values are the maximum; nothing is left to transform."""
    X = table(60, 5, offset=10.0)
    if missing:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = kind(0, **how).fit(X)
    mean, sd = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    if kind is eg.FactorAnalysis or how:
        variance = sd**2
    else:
        variance = np.full(5, np.nanmean((X - mean) ** 2))
    np.testing.assert_allclose(model.mean_, mean, rtol=1e-6)
    np.testing.assert_allclose(model.get_covariance(), np.diag(variance), rtol=1e-5)
    log_density = -0.5 * (np.log(2 * np.pi * variance) + (X - mean) ** 2 / variance)
    np.testing.assert_allclose(model.score(X), np.nansum(log_density) / 60, rtol=1e-9)
    assert model.transform(X).shape == (60, 0)
    np.testing.assert_allclose(model.inverse_transform(np.zeros((2, 0))), [mean, mean], rtol=1e-6)
    filled, std = model.impute(X, return_std=True)
    np.testing.assert_allclose(filled, np.where(np.isnan(X), mean, X), rtol=1e-6)
    assert np.all((std > 0.0) == np.isnan(X))
    assert model.components_.shape == (0, 5)
    assert len(model.get_feature_names_out()) == len(model.explained_variance_) == 0


@pytest.mark.parametrize("kind", ["PCA", "FactorAnalysis"])
def test_the_model_without_components_is_scikit_learns(kind):
    X = table(60, 5)
    ours, theirs = getattr(eg, kind)(0).fit(X), getattr(peer, kind)(0).fit(X)
    bessel = 59 / 60 if kind == "PCA" else 1.0  # divisor n here, n - 1 there
    np.testing.assert_allclose(ours.get_covariance(), bessel * theirs.get_covariance(), rtol=1e-6)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X))
    assert eg.PCA(0, whiten=True).fit(X).transform(X).shape == (60, 0)


def test_the_page_names_every_test_of_scikit_learn_that_fails_here():
    """Names only: their numbers are checked by `make test-dropin`."""
    below = PAGE.read_text(encoding="utf-8").split("## The tests of scikit-learn")[1]
    named = set(re.findall(r"^\| `(test_\w+)` \|", below.split("\n## ")[0], flags=re.MULTILINE))
    listed = tomllib.loads((PAGE.parents[1] / "tests/dropin/expected_failures.toml").read_text())
    tests = [test for entry in listed["difference"] for test in entry["tests"]]
    assert all(entry["reason"] for entry in listed["difference"])
    assert named == {re.sub(r"\[.*", "", test.split("::")[1]) for test in tests}


# Differences, each named as on the page --------------------------------------------------------


def test_noise_variance_is_maximum_likelihood():
    X = np.random.default_rng(0).normal(size=(20, 200))
    q = 5
    lam = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2 / 20
    ours, theirs = eg.PCA(q).fit(X), peer.PCA(q).fit(X)
    np.testing.assert_allclose(ours.noise_variance_, lam[q:].sum() / (200 - q), rtol=1e-10)
    np.testing.assert_allclose(theirs.noise_variance_, lam[q:].sum() * 20 / 19 / (20 - q))
    assert ours.score(X) > theirs.score(X)


def test_whitening_leaves_the_density_alone():
    X = table(100, 5)
    plain, white = eg.PCA(2).fit(X), eg.PCA(2, whiten=True).fit(X)
    np.testing.assert_array_equal(plain.get_covariance(), white.get_covariance())
    assert plain.score(X) == white.score(X)


def test_none_keeps_the_directions_that_have_variance():
    X = table(10, 30)
    assert peer.PCA().fit(X).n_components_ == 10
    assert eg.PCA().fit(X).n_components_ == 9
    assert eg.PCA().fit(table(50, 5)).n_components_ == 5


def test_approximate_solvers_are_exact():
    """scikit-learn's randomised solver is off by default on a flat spectrum."""
    X = np.random.default_rng(0).normal(size=(600, 550))
    exact = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:5] ** 2 / 599
    theirs = peer.PCA(5, svd_solver="randomized", iterated_power=1, random_state=0).fit(X)
    ours = eg.PCA(5, svd_solver="randomized", iterated_power=1, random_state=0).fit(X)
    assert np.abs(theirs.explained_variance_ / exact - 1).max() > 1e-3
    np.testing.assert_allclose(ours.explained_variance_, exact, rtol=1e-9)


def test_missing_values_are_taken():
    X = table(50, 5)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        peer.PCA(2).fit(X)
    assert eg.PCA(2).fit_transform(X).shape == (50, 2)


def test_factor_analysis_without_a_number_chooses_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 10)) * 2 + rng.normal(size=(400, 10))
    assert peer.FactorAnalysis().fit(X).n_components is None  # and keeps all ten
    for asked in (None, "auto"):
        assert eg.FactorAnalysis(asked).fit(X).n_components_ == 2


def test_factor_analysis_goes_to_the_maximum():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 20)) * 0.5 + rng.normal(size=(300, 20))
    assert eg.FactorAnalysis(3).fit(X).score(X) > peer.FactorAnalysis(3).fit(X).score(X) + 1e-5


def test_rotated_factors_are_ordered_and_signed():
    rng = np.random.default_rng(2)  # enough rows for one maximum; that of iris is improper
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(400, 8))
    loadings = eg.FactorAnalysis(2, rotation="varimax").fit(X).loadings_
    theirs = peer.FactorAnalysis(2, rotation="varimax", tol=1e-7, max_iter=1500).fit(X)
    strength = np.sum(loadings**2, axis=0)
    assert strength[0] >= strength[1]
    largest = loadings[np.argmax(np.abs(loadings), axis=0), [0, 1]]
    assert np.all(largest > 0)
    # The same plane and the same criterion: equal up to order and sign.
    overlap = np.abs(loadings.T @ theirs.components_.T)
    cosine = overlap / np.outer(np.sqrt(strength), np.linalg.norm(theirs.components_, axis=1))
    np.testing.assert_allclose(np.sort(cosine.max(axis=1)), 1.0, atol=1e-2)


def test_factors_of_iris_have_a_better_optimum():
    """Two improper solutions, 0.005 nats per row apart: one start ends at the poorer."""
    X = load_iris().data
    theirs = peer.FactorAnalysis(2, tol=1e-7, max_iter=1500).fit(X)
    assert eg.FactorAnalysis(2).fit(X).score(X) > theirs.score(X) + 1e-3


def test_tolerance_is_of_parameters():
    """scikit-learn's FactorAnalysis stops on the likelihood; ours on the gradient or the step."""
    X = table(300, 8)
    coarse, fine = (eg.FactorAnalysis(2, tol=t).fit(X) for t in (1e-2, 1e-8))
    assert fine.score(X) >= coarse.score(X) - 1e-12


def test_text_is_never_parsed():
    X = np.array([["1.0", "2"], ["3", "4"], ["5", "7"]], dtype=object)
    peer.PCA(1).fit(X)
    with pytest.raises(ValueError, match="text"):
        eg.PCA(1).fit(X)


def test_the_page_names_every_test_here_and_no_other():
    table_of_ours = PAGE.read_text(encoding="utf-8").split("## The tests of scikit-learn")[0]
    named = set(re.findall(r"`(test_\w+)`", table_of_ours))
    source = Path(__file__).read_text(encoding="utf-8")
    here = source.split("# Differences, each named as on the page")[1]
    defined = set(re.findall(r"^def (test_\w+)", here, flags=re.MULTILINE))
    assert named == defined - {"test_the_page_names_every_test_here_and_no_other"}
