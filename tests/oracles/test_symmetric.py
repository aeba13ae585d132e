"""Leading eigenpairs of matrices of pairs: against LAPACK, and refused where they do not fit."""

import numpy as np
import pytest

from eigengap.fitting.eigen.symmetric import double_centred, leading_eigenpairs


def symmetric(n, lam, rng):
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (Q * lam) @ Q.T


@pytest.mark.parametrize("n", [40, 700])
@pytest.mark.parametrize("k", [1, 5, None])
def test_eigenpairs_of_an_indefinite_matrix(n, k):
    """The most negative eigenvalue is the largest in modulus: it must not be taken."""
    rng = np.random.default_rng(0)
    lam = np.concatenate([[-50.0], np.linspace(-3, 3, n - 6), [8.0, 9.0, 12.0, 20.0, 21.0]])
    G = symmetric(n, lam, rng)
    found = leading_eigenpairs(G, k)
    expected = np.sort(lam)[::-1][:k]
    np.testing.assert_allclose(found.lam, expected, atol=1e-8 * 50)
    assert found.complete is (k is None)
    top = slice(0, min(5, len(expected)))
    np.testing.assert_allclose(
        G @ found.V[:, top], found.V[:, top] * found.lam[top], atol=1e-4 * 21
    )
    np.testing.assert_allclose(found.V.T @ found.V, np.eye(len(expected)), atol=1e-10)


def test_centring_is_that_of_weighted_rows():
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(30, 4)) + 3.0, rng.integers(1, 4, 30).astype(float)
    G, means, grand = double_centred(X @ X.T, w)
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(G, (X - mean) @ (X - mean).T, atol=1e-12)
    new = rng.normal(size=(3, 4))
    k = new @ X.T
    row_means = k @ (w / w.sum())
    np.testing.assert_allclose(
        k - row_means[:, None] - means + grand, (new - mean) @ (X - mean).T, atol=1e-12
    )
