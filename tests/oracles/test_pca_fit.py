"""fit_pca against the singular value decomposition of the centred table and scikit-learn."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA as PeerPCA

from eigengap import PCA
from eigengap.fitting.eigen.krylov import TopEigenpairs, shortfall, top_eigenpairs, top_triplets
from eigengap.fitting.gaussian import pca as pca_module
from eigengap.fitting.gaussian.pca import HasMissing, NotCertified, fit_pca
from eigengap.sources.array import ArraySource

SOLVERS = ["auto", "full", "covariance_eigh", "arpack", "randomized", "gram"]
SHAPES = [(300, 40), (40, 300), (150, 150), (90, 80), (30, 20), (4, 3)]


def source(X, w=None, rows=None):
    return ArraySource(X, weight=w, block_rows=rows)


def reference(X, w=None):
    """Mean, eigenvalues at divisor sum_w, axes (d, r), from the SVD of the weighted rows."""
    X = X.toarray() if scipy.sparse.issparse(X) else X
    X = X.astype(np.longdouble)
    w = np.ones(len(X)) if w is None else w
    mean = (w @ X) / w.sum()
    rows = ((X - mean) * np.sqrt(w)[:, None]).astype(float)
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    return mean.astype(float), s**2 / w.sum(), Vt.T


def table(n, d, dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(3, 0.3, d)
    return (X @ np.linalg.qr(rng.normal(size=(d, d)))[0] + rng.normal(size=d)).astype(dtype)


def assert_agrees(fit, X, w=None, tol=1e-10):
    mean, lam, U = reference(X, w)
    q, known = fit.U.shape[1], len(fit.spectrum.lam)
    np.testing.assert_allclose(fit.mean, mean, rtol=1e-6 if tol > 1e-8 else 1e-12, atol=tol)
    np.testing.assert_allclose(fit.spectrum.lam, lam[:known], rtol=0, atol=tol * lam[0])
    np.testing.assert_allclose(fit.spectrum.total, lam.sum(), rtol=max(tol, 1e-12))
    np.testing.assert_allclose(fit.U.T @ fit.U, np.eye(q), atol=1e-12)
    determined = lam[:q] > 1e-12 * lam[0]  # axes along which nothing varies are free
    cos = np.abs(np.sum(fit.U * U[:, :q], axis=0))[determined]
    assert (1 - cos).max(initial=0.0) < max(1e-8, tol)


@pytest.mark.parametrize("q", [1, 3, None, 0.8])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_gives_the_svd(solver, shape, q):
    X = table(*shape)
    fit = fit_pca(source(X), q, solver=solver)
    assert_agrees(fit, X)
    assert fit.n_rows == fit.sum_w == shape[0]
    lam = reference(X)[1]
    if q is None:
        assert fit.U.shape[1] == min(shape)
    elif q == 0.8:
        k, share = fit.U.shape[1], np.cumsum(lam) / lam.sum()
        assert share[k - 1] >= 0.8
        assert k == 1 or share[k - 2] < 0.8
    else:
        assert fit.U.shape[1] == q


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (1500, 50)])
def test_float32(solver, shape):
    X = table(*shape, dtype="f4")
    assert_agrees(fit_pca(source(X), 3, solver=solver), X, tol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
@pytest.mark.parametrize("rows", [None, 7])
def test_weights(solver, shape, rows):
    X = table(*shape)
    w = np.random.default_rng(3).uniform(0, 3, shape[0])
    fit = fit_pca(source(X, w, rows), 4, solver=solver)
    assert_agrees(fit, X, w)
    assert fit.sum_w == pytest.approx(w.sum(), rel=1e-14)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("offset", [30.0, 1e6])
def test_a_wide_table_far_from_zero(solver, dtype, offset):
    X = (table(40, 300) + offset).astype(dtype)
    w = np.random.default_rng(3).uniform(0.5, 3, 40)
    assert_agrees(fit_pca(source(X), 4, solver=solver), X)
    assert_agrees(fit_pca(source(X, w), 4, solver=solver), X, w)


@pytest.mark.parametrize("solver", ["gram", "covariance_eigh", "arpack"])
def test_one_column_of_many_far_from_zero(solver):
    X = table(40, 450)
    X[:, 1] += 1e7
    assert_agrees(fit_pca(source(X), 4, solver=solver), X)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(200, 60), (60, 200)])
def test_sparse(solver, shape):
    rng = np.random.default_rng(4)
    X = scipy.sparse.csr_array(table(*shape) * (rng.random(shape) < 0.2))
    w = rng.uniform(0.5, 2, shape[0])
    assert_agrees(fit_pca(source(X, w), 4, solver=solver), X, w)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
def test_without_a_mean(solver, shape):
    X = table(*shape)
    fit = fit_pca(source(X), 3, solver=solver, fit_mean=False)
    _, s, Vt = np.linalg.svd(X)
    known = len(fit.spectrum.lam)
    np.testing.assert_allclose(fit.spectrum.lam, s[:known] ** 2 / len(X), atol=1e-10 * s[0] ** 2)
    np.testing.assert_allclose(np.abs(np.sum(fit.U * Vt[:3].T, axis=0)), 1, atol=1e-8)
    np.testing.assert_allclose(fit.spectrum.total, np.sum(X**2) / len(X), rtol=1e-12)
    assert not fit.mean.any()


@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (20, 10)])
def test_same_signs_and_values_as_scikit_learn(shape):
    X = table(*shape)
    peer = PeerPCA(5, svd_solver="full").fit(X)
    for solver in SOLVERS:
        fit = fit_pca(source(X), 5, solver=solver)
        np.testing.assert_allclose(fit.U.T, peer.components_, atol=1e-4)
        got = fit.spectrum.explained_variance(5)
        np.testing.assert_allclose(got, peer.explained_variance_, rtol=1e-9)
        ratio = fit.spectrum.explained_ratio(5)
        np.testing.assert_allclose(ratio, peer.explained_variance_ratio_, rtol=1e-9)


def test_iris():
    fit = fit_pca(source(load_iris().data), 2)
    published = [4.2282417060, 0.2426707479, 0.0782095000, 0.0238350930]
    np.testing.assert_allclose(fit.spectrum.explained_variance(4), published, atol=1e-10)
    assert fit.spectrum.noise_variance(2) == pytest.approx(0.0506821479, abs=1e-10)
    assert fit.spectrum.log_likelihood(2) == pytest.approx(-404.9627802, abs=1e-6)


@pytest.mark.parametrize("solver", ["auto", "covariance_eigh", "gram", "full"])
@pytest.mark.parametrize("shape", [(400, 12), (12, 400)])
def test_eigenvalues_lost_in_the_squared_matrix_come_back(solver, shape):
    rng = np.random.default_rng(5)
    k = min(shape) - 1
    left = rng.normal(size=(shape[0], k))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    axes = np.linalg.qr(rng.normal(size=(shape[1], k)))[0]
    s = np.geomspace(1, 1e-10, k)  # eigenvalues down to 1e-20 of the first
    fit = fit_pca(source((left * s) @ axes.T), k, solver=solver)
    np.testing.assert_allclose(fit.spectrum.lam[:k], s**2 / shape[0], rtol=1e-4)
    assert np.max(1 - np.abs(np.sum(fit.U * axes, axis=0))) < 1e-8


# the reliability scorecard


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_t1_offsets(solver, offset):
    X = np.random.default_rng(0).normal(size=(1000, 5)) * [5, 4, 3, 2, 1]
    lam = fit_pca(source(X), solver=solver).spectrum.lam
    shifted = fit_pca(source(X + offset), solver=solver).spectrum.lam
    np.testing.assert_allclose(shifted, lam, rtol=1e-6)


def test_t1_offsets_on_the_krylov_route():
    X = table(400, 100)
    fit = fit_pca(source(X + 1e8), 3, solver="arpack")
    assert fit.route == "krylov"
    np.testing.assert_allclose(fit.spectrum.lam, reference(X + 1e8)[1][:3], rtol=1e-9)


@pytest.mark.parametrize("n", [1000, 60_000])
def test_t2_float32_with_an_offset(n):
    X = (np.random.default_rng(0).normal(size=(n, 5)) * [5, 4, 3, 2, 1] + 1e4).astype("f4")
    lam = fit_pca(source(X)).spectrum.lam
    np.testing.assert_allclose(lam, fit_pca(source(X.astype("f8"))).spectrum.lam, rtol=1e-3)


@pytest.mark.parametrize(("first", "step"), [(1000000.2, 0.1), (10000000.2, 0.1)])
@pytest.mark.parametrize("solver", SOLVERS)
def test_t3_nist(first, step, solver):
    column = np.array([first] + [first - step, first + step] * 500)
    lam = fit_pca(source(column[:, None]), solver=solver).spectrum.explained_variance(1)
    np.testing.assert_allclose(np.sqrt(lam), 0.1, rtol=1e-8)


@pytest.mark.parametrize("shift", [0, -10000, 3, 50000])
@pytest.mark.parametrize(("solver", "copies"), [*((s, 1) for s in SOLVERS), ("auto", 40_000)])
def test_t4_float32_axis(shift, solver, copies):
    X = np.array([[10001, 10000], [10000, 10001]] * copies, dtype="f4") + np.float32(shift)
    fit = fit_pca(source(X), 1, solver=solver)
    np.testing.assert_allclose(fit.U[:, 0] * np.sign(fit.U[0, 0]), [0.5**0.5, -(0.5**0.5)], 1e-6)
    np.testing.assert_allclose(fit.spectrum.lam[0], 0.5, rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(200, 40), (40, 200), (8, 4)])
@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e-150])
def test_t5_out_of_range(solver, shape, scale):
    with pytest.raises(ValueError, match="rescale"):
        fit_pca(source(table(*shape) * scale), 3, solver=solver)


@pytest.mark.parametrize("scale", [1e100, 1e-100])
def test_t5_ratios_do_not_depend_on_the_scale(scale):
    X = table(200, 10)
    got = fit_pca(source(X * scale)).spectrum.explained_ratio(10)
    np.testing.assert_allclose(got, fit_pca(source(X)).spectrum.explained_ratio(10), rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(200, 40), (40, 200), (7, 3)])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e7 / 3])
def test_t6_a_constant_table(solver, shape, value):
    fit = fit_pca(source(np.full(shape, value), rows=None), 3, solver=solver)
    assert not fit.spectrum.lam.any()
    assert len(fit.spectrum.lam) == (min(shape) if fit.spectrum.complete else 3)
    assert fit.spectrum.total == 0.0
    np.testing.assert_allclose(fit.mean, value, rtol=1e-15)
    np.testing.assert_allclose(fit.U.T @ fit.U, np.eye(3), atol=1e-12)


def test_t10_noise_variance_of_a_wide_table():
    X = table(5, 100)
    spectrum = fit_pca(source(X), 2).spectrum
    lam = reference(X)[1]
    assert spectrum.noise_variance(2) == pytest.approx(lam[2:].sum() / 98, rel=1e-12)


@pytest.mark.parametrize("shape", [(60, 8), (20, 70), (300, 200)])
def test_t12_every_row_twice(shape):
    X = table(*shape)
    once, twice = fit_pca(source(X), 3), fit_pca(source(np.repeat(X, 2, axis=0)), 3)
    weighted = fit_pca(source(X, np.full(shape[0], 2.0)), 3)
    for fit in (twice, weighted):
        np.testing.assert_allclose(fit.spectrum.lam[:3], once.spectrum.lam[:3], rtol=1e-10)
        np.testing.assert_allclose(fit.U, once.U, atol=1e-7)


def test_t13_the_first_axis_of_a_flat_spectrum():
    X = np.random.default_rng(0).normal(size=(100_000, 20))
    assert_agrees(fit_pca(source(X), 1), X)


@pytest.mark.parametrize("solver", ["auto", "full", "arpack"])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_t14_blocks_do_not_matter(solver, rows):
    X = table(400, 90) + 10.0
    shuffled = X[np.random.default_rng(1).permutation(400)]
    whole, cut = fit_pca(source(X), 5, solver=solver), fit_pca(source(shuffled, None, rows), 5)
    np.testing.assert_allclose(cut.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(cut.spectrum.lam[:5], whole.spectrum.lam[:5], rtol=1e-9)
    sigma2 = cut.spectrum.noise_variance(5)
    assert sigma2 == pytest.approx(whole.spectrum.noise_variance(5), rel=1e-9)


# what is refused


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
def test_missing_are_signalled(solver, shape):
    X = table(*shape)
    X[3, 2] = np.nan
    incomplete = source(X)
    incomplete.has_missing = None  # as a file that has not been read yet
    with pytest.raises(HasMissing):
        fit_pca(incomplete, 3, solver=solver)


@pytest.mark.parametrize("q", [41, 300])
def test_too_many_components(q):
    with pytest.raises(ValueError, match="components"):
        fit_pca(source(table(40, 100)), q)


# the Krylov iteration and its certificate


def operator(lam, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(lam), len(lam))))[0]
    A = (Q * lam) @ Q.T
    return A, Q


SPECTRA = {
    "power": np.arange(1, 401) ** -1.0,
    "flat": np.linspace(1.0, 0.9, 400),
    "repeated": np.r_[np.ones(12), np.linspace(0.5, 0.1, 388)],
    "one": np.r_[1.0, np.zeros(399)],
    "tiny gap": np.r_[1.0, 0.5, 0.5 - 1e-6, np.linspace(0.49, 0.1, 397)],
    "identity": np.ones(400),
    "zero": np.zeros(400),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("max_basis", [None, 60])
@pytest.mark.parametrize("k", [2, 10])
def test_certified_means_accurate(name, max_basis, k):
    lam = SPECTRA[name]
    A, Q = operator(lam)
    top = top_eigenpairs(lambda V: A @ V, 400, k, max_basis=max_basis, max_passes=400)
    assert top.certified
    scale = max(lam[0], 1e-300)
    assert np.max(np.abs(top.lam - lam[:k])) <= 1e-10 * scale
    np.testing.assert_allclose(top.U.T @ top.U, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(A @ top.U - top.U * top.lam, axis=0), top.residual, atol=1e-12 * scale
    )
    alone = [j for j in range(k) if np.sum(np.abs(lam - lam[j]) < 1e-9) == 1]
    cos = np.abs(np.sum(top.U * Q[:, :k], axis=0))[alone]
    assert np.max(1 - cos, initial=0.0) <= 1e-8


@pytest.mark.parametrize("k", [24, 40])
def test_a_space_that_is_used_up_is_solved(k):
    """The last block is narrower: no whole one is orthogonal to all that were found."""
    lam = SPECTRA["flat"]
    A, _ = operator(lam)
    top = top_eigenpairs(lambda V: A @ V, 400, k)
    assert top.certified
    np.testing.assert_allclose(top.lam, lam[:k], rtol=1e-12)
    triplets = top_triplets(lambda V: A @ V, lambda U: A.T @ U, (400, 400), k)
    assert triplets.certified
    np.testing.assert_allclose(triplets.s, lam[:k], rtol=1e-12)


def test_a_budget_that_is_too_small_is_told():
    A, _ = operator(SPECTRA["flat"])
    assert not top_eigenpairs(lambda V: A @ V, 400, 10, max_passes=5).certified


def test_the_same_seed_gives_the_same_bits():
    A, _ = operator(SPECTRA["power"])
    one, two = (top_eigenpairs(lambda V: A @ V, 400, 5, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.U, two.U)


def test_shortfall_looks_at_the_gap():
    theta, residual = np.array([1.0, 0.5, 0.5 - 1e-5]), np.array([1e-9, 1e-8, 1e-8])
    assert shortfall(theta, residual, 1) < 0.0  # far from its neighbour
    assert shortfall(theta, residual, 2) > 0.0  # 1e-8 is a large angle across a gap of 1e-5


@pytest.mark.parametrize("shape", [(150, 120), (120, 150)])
def test_without_a_certificate_the_exact_route_is_taken(monkeypatch, shape):
    def never(apply, d, k, angle):
        return TopEigenpairs(np.ones(k), np.eye(d, k), np.ones(k), 1, certified=False)

    monkeypatch.setattr(pca_module, "top_eigenpairs", never)
    X = table(*shape)
    fit = fit_pca(source(X), 3, solver="arpack")
    assert fit.route.startswith("krylov+")
    assert_agrees(fit, X)
    monkeypatch.setattr(pca_module, "LARGEST_DENSE", 100)
    with pytest.raises(NotCertified, match="n_components"):
        fit_pca(source(X), 3, solver="arpack")


def test_passes():
    tall, wide = source(table(300, 40)), source(table(40, 300))
    fit_pca(tall, 3)
    assert tall.passes == 1
    fit_pca(wide, 3)
    assert wide.passes <= 1


@pytest.mark.parametrize(
    ("solver", "tol", "allowed"),
    [
        ("auto", 0.0, 1e-7),
        ("randomized", 0.0, 1e-7),
        ("auto", 0.5, 1e-7),
        ("auto", 1e-10, 1e-10),
        ("arpack", 1e-9, 1e-9),
        ("arpack", 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("shape", [(300, 300), (300, 420)])
@pytest.mark.parametrize("power", [0.0, 0.7])
def test_axes_keep_the_tolerance_asked_for(solver, tol, allowed, shape, power):
    X = np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[1] + 1) ** -power
    assert fit_pca(source(X), 5, solver=solver).route == "krylov"
    pca = PCA(5, svd_solver=solver, tol=tol).fit(X)
    centred = X - X.mean(axis=0)
    _, s, Vt = np.linalg.svd(centred, full_matrices=False)
    lam = s**2
    gap = np.min(np.abs(np.diff(lam[:6])))
    # Neither solution knows an axis better than rounding over its gap allows.
    rounding = 1e-12 * lam[0] / gap
    cos = np.sum(pca.components_ * Vt[:5], axis=1)
    off = np.linalg.norm(pca.components_ - cos[:, None] * Vt[:5], axis=1)  # sines
    assert np.max(off) <= allowed + rounding
