"""ICA refuses what it cannot answer, and tells what it cannot know."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.mixtures import mixture, sources

from eigengap.estimators.ica import ICA
from eigengap.exceptions import GaussianComponentsWarning, NoSignalError, NotWhiteWarning
from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.ica.whitening import ppca_whitening
from eigengap.sources.conversion import as_source


@pytest.fixture
def X():
    return mixture("mixed", 1000, 5, seed=0)[0]


def test_one_row():
    with pytest.raises(ValueError, match="at least 2"):
        ICA().fit([[1.0, 2.0]])


def test_a_constant_table():
    with pytest.raises(ValueError, match="nothing to unmix"):
        ICA().fit(np.full((20, 3), 7.3))


def test_constant_and_repeated_columns_add_no_component(X):
    ica = ICA().fit(np.column_stack([X, np.full(len(X), 3.0), X[:, 0], X[:, 1] * 2]))
    assert ica.n_components_ == 5
    assert np.abs(ica.components_).max() < 1e3


def test_repeated_columns_in_float32_add_no_component(X):
    single = X.astype(np.float32)
    ica = ICA().fit(np.column_stack([single, single[:, 0] * np.float32(1 / 3)]))
    assert ica.n_components_ == 5


def test_more_components_than_directions_are_told(X):
    with pytest.warns(UserWarning, match="vary in 5 directions only"):
        ica = ICA(6).fit(np.column_stack([X, X[:, 0]]))
    assert ica.n_components_ == 5
    with pytest.warns(UserWarning, match="5 are looked for"):
        assert ICA(9).fit(X).n_components_ == 5


def test_fewer_rows_than_columns():
    X = np.random.default_rng(0).laplace(size=(6, 30))
    with pytest.warns(GaussianComponentsWarning):
        ica = ICA().fit(X)
    assert ica.n_components_ == 5
    assert np.isfinite(ica.components_).all()


def test_every_row_twice_gives_the_same(X):
    np.testing.assert_allclose(
        ICA().fit(np.repeat(X, 2, axis=0)).mixing_, ICA().fit(X).mixing_, atol=1e-8
    )


def test_infinity_is_named(X):
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match="inf at row 3, column 2"):
        ICA().fit(X)


@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_units_beyond_floating_point_are_refused(X, unit):
    with pytest.raises(ValueError, match="rescale"):
        ICA().fit(X * unit)


def test_one_gaussian_source_is_fine_and_two_are_told():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((5, 5))
    S = sources("mixed", 4000, 5, seed=2)
    S[:, 4] = rng.standard_normal(4000)
    ICA().fit(S @ A.T)
    S[:, 3] = rng.standard_normal(4000)
    with pytest.warns(
        GaussianComponentsWarning, match="cannot be distinguished from Gaussians"
    ) as told:
        ica = ICA().fit(S @ A.T)
    weakest = np.argsort(np.abs(ica.non_gaussianity_))[:2]
    assert all(f"IC{k + 1}" in str(told[0].message) for k in weakest)
    assert str(told[0].message).count("IC") == 2


def test_gaussian_rows_converge_and_are_told():
    with pytest.warns(GaussianComponentsWarning):
        assert ICA().fit(np.random.default_rng(3).standard_normal((2000, 6))).converged_


def test_too_few_steps_are_told(X):
    with pytest.warns(ConvergenceWarning, match="raise max_iter=1 or tol"):
        ica = ICA(max_iter=1).fit(X)
    assert not ica.converged_
    assert ica.n_iter_ == 1


def test_rows_that_are_not_white_are_told(X):
    with pytest.warns(NotWhiteWarning, match="Leave whiten out"):
        ICA(whiten=False).fit(X)


def test_components_cannot_be_chosen_without_whitening(X):
    Z = ICA().fit_transform(X)
    with pytest.warns(UserWarning, match="Ignoring n_components"):
        assert ICA(2, whiten=False).fit(Z).n_components_ == 5


def test_missing_need_whitening(X):
    ica = ICA(whiten=False).fit(ICA().fit_transform(X))
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="impute missing values first"):
        ICA(whiten=False).fit(X)
    with pytest.raises(ValueError, match="impute missing values first"):
        ica.transform(X)


def test_noise_needs_directions_without_components(X):
    with pytest.raises(ValueError, match="fewer n_components"):
        ICA(noise="isotropic").fit(X)
    with pytest.raises(ValueError, match="whiten must not be False"):
        ICA(noise="isotropic", whiten=False).fit(X)


def test_noise_refuses_components_that_are_noise():
    rng = np.random.default_rng(4)
    X = rng.laplace(size=(3000, 2)) @ rng.standard_normal((2, 10)) * 3
    X += rng.standard_normal(X.shape) * 0.1
    fit = fit_ppca(as_source(X), 4, noise_variance=1.0)
    with pytest.raises(NoSignalError, match="only 2 vary more than the noise"):
        ppca_whitening(fit, 2e-16)


@pytest.mark.parametrize(
    ("w_init", "message"),
    [
        (np.eye(3), r"has shape \(3, 3\), and has to have \(5, 5\)"),
        (np.zeros((5, 5)), "full rank"),
        (np.full((5, 5), np.nan), "finite"),
    ],
)
def test_starts_that_cannot_be(X, w_init, message):
    with pytest.raises(ValueError, match=message):
        ICA(w_init=w_init).fit(X)


def test_functions_that_cannot_be(X):
    with pytest.raises(ValueError, match=r"alpha must be in \[1,2\]"):
        ICA(fun_args={"alpha": 3}).fit(X)
    with pytest.raises(ValueError, match="return the derivative of every score"):
        ICA(fun=lambda x: (x**3, (3 * x**2).mean(axis=-1))).fit(X, sample_weight=np.ones(len(X)))
    with pytest.raises(ValueError, match="fun returned shapes"):
        ICA(fun=lambda x: (x.mean(axis=-1), x)).fit(X)


def test_inverse_of_another_width(X):
    with pytest.raises(ValueError, match="one column for each of the 2"):
        ICA(2).fit(X).inverse_transform(X)


def test_not_fitted(X):
    with pytest.raises(NotFittedError):
        ICA().transform(X)


def test_a_failed_fit_leaves_the_earlier_one(X):
    ica = ICA().fit(X)
    before = ica.mixing_
    with pytest.raises(ValueError, match="nothing to unmix"):
        ica.fit(np.ones((10, 3)))
    assert ica.mixing_ is before
    assert ica.n_features_in_ == 5


def test_directions_without_variance_are_told():
    """FastICA has a component for each column: what makes them fewer should not be silent."""
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(300, 2))
    with pytest.warns(UserWarning, match=r"small singular values: .* 2 of 5 directions"):
        assert ICA(random_state=0).fit(S @ rng.normal(size=(2, 5))).n_components_ == 2
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        warnings.filterwarnings("error", "There are some small")
        ICA(random_state=0).fit(S @ rng.normal(size=(2, 2)))
        ICA(2, random_state=0).fit(S @ rng.normal(size=(2, 5)))
        ICA(random_state=0).fit(rng.laplace(size=(6, 20)))  # six rows have five directions
