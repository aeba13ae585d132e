"""KernelPCA against scikit-learn's: given matrices that centring makes symmetric, and errors."""

import numpy as np
import pytest
import sklearn.decomposition as peer
from sklearn.exceptions import NotFittedError

import eigengap as eg

SOLVERS = ["auto", "dense", "arpack", "randomized"]


def off_by_rows_and_columns(n, new, seed=0):
    """A kernel matrix with a number added to each row and to each column, and that of new rows.

    New rows are off by numbers of their own, and by those of the columns.
    """
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n + new, 5)) * np.linspace(3.0, 1.0, 5)
    K = A @ A[:n].T
    return K, K + 5.0 * rng.normal(size=(n + new, 1)) + 5.0 * rng.normal(size=n)


@pytest.mark.parametrize("n", [30, 700])  # LAPACK, Lanczos
@pytest.mark.parametrize("solver", SOLVERS)
def test_what_centring_takes_away_is_no_asymmetry(solver, n):
    K, off = off_by_rows_and_columns(n, 10)
    how = {"n_components": 3, "kernel": "precomputed", "eigen_solver": solver, "random_state": 0}
    ours, plain = eg.KernelPCA(**how).fit(off[:n]), eg.KernelPCA(**how).fit(K[:n])
    theirs = peer.KernelPCA(3, kernel="precomputed", eigen_solver="dense").fit(off[:n])
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(ours.transform(off), plain.transform(K), atol=1e-6)
    np.testing.assert_allclose(abs(ours.transform(off)), abs(theirs.transform(off)), atol=1e-6)
    np.testing.assert_allclose(ours.fit_transform(off[:n]), plain.fit_transform(K[:n]), atol=1e-6)


def test_weights_are_frequencies_of_a_matrix_off_by_rows_and_columns():
    n = 20
    _, off = off_by_rows_and_columns(n, 0)
    w = np.random.default_rng(1).integers(1, 4, n)
    often = np.repeat(np.arange(n), w)
    weighted = eg.KernelPCA(3, kernel="precomputed").fit(off, sample_weight=w)
    repeated = eg.KernelPCA(3, kernel="precomputed").fit(off[np.ix_(often, often)])
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(
        weighted.transform(off), repeated.transform(off[:, often]), atol=1e-8
    )


def test_what_stays_asymmetric_is_refused():
    K, off = off_by_rows_and_columns(30, 0)
    with pytest.raises(ValueError, match="not symmetric"):
        eg.KernelPCA(2, kernel="precomputed", center=False).fit(off)
    for wrong, says in ((off, "not symmetric"), (K, "not symmetric.*row 3, column 7")):
        wrong[3, 7] += 1.0
        with pytest.raises(ValueError, match=says):
            eg.KernelPCA(2, kernel="precomputed").fit(wrong)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine"])
def test_no_inverse_transform_without_asking_for_it(kernel):
    X = np.random.default_rng(0).normal(size=(20, 4))
    for kind in (peer.KernelPCA, eg.KernelPCA):
        model = kind(2, kernel=kernel)
        Z = model.fit_transform(X)
        for scores in (Z, X):  # of the right shape or not
            with pytest.raises(NotFittedError, match="fit_inverse_transform"):
                model.inverse_transform(scores)
    if kernel in ("linear", "rbf"):
        model.set_params(preimage="fixed_point")  # needs no other fit
        assert model.inverse_transform(Z).shape == X.shape
    with pytest.raises(ValueError, match="Cannot fit_inverse_transform with a precomputed kernel"):
        eg.KernelPCA(kernel="precomputed", fit_inverse_transform=True).fit(X @ X.T)
