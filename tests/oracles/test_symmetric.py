"""Leading eigenpairs of matrices of pairs: against LAPACK, and refused where they do not fit."""

import numpy as np
import pytest

from eigengap.fitting import memory
from eigengap.fitting.memory import DoesNotFitError, require_pairs
from eigengap.fitting.symmetric import double_centred, leading_eigenpairs


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


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    with pytest.raises(DoesNotFitError, match=r"160\.0 GB .* landmarks"):
        require_pairs(100_000, "an exact fit", "use landmarks")
    monkeypatch.setattr(memory, "free_memory", lambda: 10**6)
    with pytest.raises(DoesNotFitError, match=r"needs 2 MB of memory, and 1 MB are free"):
        require_pairs(354, "a small one", "buy memory")
    require_pairs(100, "a tiny one", "none")


def test_a_container_has_less_than_its_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    alone = memory.free_memory()
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.free_memory() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() > alone // 2
