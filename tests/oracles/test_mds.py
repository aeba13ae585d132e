"""Classical scaling as pure functions: against closed forms, dense linear algebra, brute force."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from eigengap.fitting.eigen import signed_spectrum as signed
from eigengap.fitting.eigen.signed_spectrum import (
    SignedSpectrum,
    lanczos_quadrature,
    signed_eigenpairs,
)
from eigengap.fitting.graph import mds
from eigengap.fitting.graph.mds import (
    additive_constant,
    coincident,
    correct,
    fit_distances,
    fit_gram,
    fit_rows,
    stress,
)
from eigengap.models.maps.distances import AdditiveConstant, GowerMap, inner_products
from eigengap.sources.conversion import as_source


def centred(G):
    H = np.eye(len(G)) - 1.0 / len(G)
    return H @ G @ H


def cycle(n):
    """Lengths of the shortest ways around a cycle of n edges."""
    steps = np.abs(np.arange(n)[:, None] - np.arange(n))
    return np.minimum(steps, n - steps).astype(float)


def cauchy(n, seed=0):
    """Distances far from Euclidean: they break the triangle inequality."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    noise = np.abs(rng.standard_cauchy((n, n)))
    D = cdist(X, X) + np.minimum(noise + noise.T, 20.0)
    np.fill_diagonal(D, 0.0)
    return D


# The theorem of 000 section 3.2 --------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 7), (7, 60), (30, 30), (200, 3), (3, 200)])
def test_scaling_is_principal_components(shape):
    """U'X = D V': scores from rows, coordinates from Gram matrix and from distances are equal."""
    X = np.random.default_rng(0).normal(size=shape) @ np.diag(np.linspace(1, 3, shape[1])) + 5.0
    q = min(shape[0] - 1, shape[1], 4)
    R = X - X.mean(axis=0)
    V, s, Ut = np.linalg.svd(R, full_matrices=False)
    np.testing.assert_allclose(R @ Ut[:q].T, V[:, :q] * s[:q], atol=1e-10)  # the theorem itself
    for fit in (fit_rows(as_source(X), q)[0], fit_gram(X @ X.T, q), fit_distances(cdist(X, X), q)):
        signs = np.sign(np.sum(fit.Z * V[:, :q], axis=0))
        np.testing.assert_allclose(fit.Z, V[:, :q] * s[:q] * signs, atol=1e-8)
        np.testing.assert_allclose(fit.spectrum.lam[:q], s[:q] ** 2, rtol=1e-10)
        largest = np.argmax(np.abs(fit.Z), axis=0)
        assert np.all(fit.Z[largest, np.arange(q)] > 0)


@pytest.mark.parametrize(("shape", "route"), [((500, 20), "covariance"), ((20, 500), "gram")])
def test_the_shape_chooses_the_matrix(shape, route):
    fit, _ = fit_rows(as_source(np.random.default_rng(0).normal(size=shape)), 3)
    assert fit.route == route


def test_rows_are_never_paired():
    """A million pairs of rows would be 8 TB: rows go through their covariance."""
    source = as_source(np.random.default_rng(0).normal(size=(1_000_000, 3)))
    fit, _ = fit_rows(source, 2)
    assert fit.Z.shape == (1_000_000, 2)
    assert source.passes <= 3


def test_points_on_a_line_come_back_as_the_line():
    x = np.random.default_rng(0).normal(size=40)
    fit = fit_distances(np.abs(x[:, None] - x), None)
    assert fit.Z.shape == (40, 1)
    np.testing.assert_allclose(np.abs(fit.Z[:, 0]), np.abs(x - x.mean()), atol=1e-12)
    np.testing.assert_allclose(cdist(fit.Z, fit.Z), np.abs(x[:, None] - x), atol=1e-12)


@pytest.mark.parametrize("n", [6, 9, 40])
def test_a_cycle_has_its_closed_form(n):
    """-D^2 / 2 is circulant: lam_k = -1/2 sum_j min(j, n - j)^2 cos(2 pi j k / n), k = 1..n-1."""
    j, k = np.arange(n), np.arange(1, n)
    lam = -0.5 * np.cos(2 * np.pi * np.outer(k, j) / n) @ np.minimum(j, n - j) ** 2
    fit = fit_distances(cycle(n), 2)
    np.testing.assert_allclose(fit.spectrum.lam, np.sort(np.append(lam, 0))[::-1], atol=1e-9)
    negative, positive = -lam[lam < 0].sum(), lam[lam > 0].sum()
    assert fit.spectrum.negative_share == pytest.approx(negative / (negative + positive))
    assert fit.spectrum.goodness_of_fit(2)[0] == pytest.approx(
        2 * lam.max() / (negative + positive)
    )
    assert fit.spectrum.goodness_of_fit(2)[1] == pytest.approx(2 * lam.max() / positive)
    assert fit.spectrum.significant() == np.sum(lam > -lam.min())


# Adding points -------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_a_new_point_is_where_its_row_is(weighted):
    rng = np.random.default_rng(1)
    X, new = rng.normal(size=(40, 3)) + 10.0, rng.normal(size=(5, 3)) + 10.0
    w = rng.integers(1, 4, 40).astype(float) if weighted else None
    mean, axes = np.average(X, axis=0, weights=w), None
    for fit, G in (
        (fit_distances(cdist(X, X), 3, w), inner_products(cdist(new, X))),
        (fit_gram(X @ X.T, 3, w), new @ X.T),
    ):
        axes = np.linalg.lstsq(X - mean, fit.Z, rcond=None)[0]
        np.testing.assert_allclose(fit.model.forward(G), (new - mean) @ axes, atol=1e-10)
        np.testing.assert_allclose(cdist(fit.model.forward(G), fit.Z), cdist(new, X), atol=1e-10)


@pytest.mark.parametrize("kind", [None, "cailliez", "lingoes"])
@pytest.mark.parametrize("n", [30, 600])
def test_a_fitted_point_is_mapped_onto_itself(n, kind):
    D = cauchy(n)
    fit = fit_distances(D, 3, kind=kind)
    D = D if fit.constant is None else fit.constant.corrected(D)
    Z = fit.model.forward(inner_products(D))
    np.testing.assert_allclose(Z, fit.Z, atol=1e-8 * np.abs(fit.Z).max())


def test_gower_by_his_own_formula():
    """z = 1/2 diag(lam)^-1 Z' (b - d^2), b the squared distances from the centroid (Gower 1968)."""
    D, n = cycle(9), 9
    fit = fit_distances(D, 2)
    b = np.diag(centred(-0.5 * D**2))
    d = np.full(n, 3.0)
    z = 0.5 * fit.Z.T @ (b - d**2) / fit.spectrum.lam[:2]
    np.testing.assert_allclose(fit.model.forward(inner_products(d[None, :]))[0], z, atol=1e-12)


def test_the_map_is_immutable_and_refuses_shapes_that_do_not_fit():
    model = GowerMap(np.zeros((4, 2)), np.zeros(4))
    assert (model.n, model.q) == (4, 2)
    with pytest.raises(ValueError, match="read-only"):
        model.A[0, 0] = 1.0
    with pytest.raises(ValueError, match="shapes do not fit"):
        GowerMap(np.zeros((4, 2)), np.zeros(3))


# Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, "cailliez", "lingoes"])
def test_a_weight_is_a_repetition(kind):
    D, w = cauchy(20), np.random.default_rng(2).integers(1, 4, 20)
    at = np.repeat(np.arange(20), w)
    weighted = fit_distances(D, 3, w.astype(float), kind)
    repeated = fit_distances(D[np.ix_(at, at)], 3, None, kind)
    np.testing.assert_allclose(repeated.Z, weighted.Z[at], atol=1e-9)
    np.testing.assert_allclose(repeated.spectrum.lam[:3], weighted.spectrum.lam[:3], rtol=1e-10)
    assert repeated.spectrum.negative_share == pytest.approx(
        weighted.spectrum.negative_share, abs=1e-12
    )
    if kind is not None:
        assert repeated.constant.c == pytest.approx(weighted.constant.c)


# The additive constant -----------------------------------------------------------------------


def block_matrix_constant(D):
    """Cailliez (1983): the largest eigenvalue of [[0, 2 B1], [-I, -4 B2]]."""
    n = len(D)
    B1, B2 = centred(-0.5 * D**2), centred(-0.5 * D)
    block = np.block([[np.zeros((n, n)), 2 * B1], [-np.eye(n), -4 * B2]])
    return float(np.max(np.linalg.eigvals(block).real))


@pytest.mark.parametrize("D", [cycle(7), cycle(12), cauchy(40), cauchy(41, seed=3), cauchy(550)])
def test_cailliez_constant_is_that_of_the_block_matrix(D):
    found = additive_constant(D, "cailliez")
    assert found.c == pytest.approx(block_matrix_constant(D), rel=1e-8)
    lam = np.linalg.eigvalsh(centred(inner_products(found.corrected(D))))
    assert lam[0] > -1e-9 * lam[-1]  # Euclidean,
    less = AdditiveConstant("cailliez", 0.999 * found.c).corrected(D)
    assert np.linalg.eigvalsh(centred(inner_products(less)))[0] < -1e-6 * lam[-1]  # and barely so


@pytest.mark.parametrize("D", [cycle(7), cauchy(40), cauchy(550)])
def test_lingoes_constant_is_the_smallest_eigenvalue(D):
    found = additive_constant(D, "lingoes")
    lam = np.linalg.eigvalsh(centred(-0.5 * D**2))
    assert found.c == pytest.approx(-lam[0], rel=1e-9)
    corrected = np.linalg.eigvalsh(centred(inner_products(found.corrected(D))))
    others = np.delete(lam, np.argmin(np.abs(lam)))  # all but the 0 of the centring
    np.testing.assert_allclose(
        corrected, np.sort(np.append(others + found.c, 0.0)), atol=1e-9 * corrected[-1]
    )


@pytest.mark.parametrize("kind", ["cailliez", "lingoes"])
@pytest.mark.parametrize("n", [30, 600])
def test_euclidean_distances_need_no_constant(kind, n):
    X = np.random.default_rng(0).normal(size=(n, 4))
    assert additive_constant(cdist(X, X), kind).c == 0.0


@pytest.mark.parametrize("kind", ["cailliez", "lingoes"])
def test_corrected_distances_are_those_of_the_points(kind):
    D = cauchy(25)
    fit = fit_distances(D, 25, kind=kind)
    np.testing.assert_allclose(cdist(fit.Z, fit.Z), fit.constant.corrected(D), atol=1e-5)
    assert fit.spectrum.negative_share < 1e-12


def test_points_at_distance_zero_are_one_only_if_all_others_agree():
    D = cycle(6)
    twice = D[np.ix_([0, 1, 2, 3, 4, 5, 2], [0, 1, 2, 3, 4, 5, 2])]
    assert coincident(twice, 0.0).tolist() == [0, 1, 2, 3, 4, 5, 2]
    constant = additive_constant(twice, "cailliez")
    assert constant.c == pytest.approx(additive_constant(D, "cailliez").c)
    corrected, split = correct(twice, constant)
    assert (corrected[6, 2], split) == (0.0, 0)
    twice[6, 0] = twice[0, 6] = 2.5  # now the seventh is elsewhere, though at distance 0 of one
    assert coincident(twice, 0.0).tolist() == list(range(7))
    apart, split = correct(twice, additive_constant(twice, "cailliez"))
    assert (apart[6, 2] > 0.0, split) == (True, 1)
    assert np.linalg.eigvalsh(centred(inner_products(apart)))[0] > -1e-9


# The signed spectrum -------------------------------------------------------------------------


def symmetric(lam, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(lam), len(lam))))[0]
    return (Q * lam) @ Q.T


@pytest.mark.parametrize("n", [60, 700])
def test_sums_by_sign(n):
    lam = np.concatenate([[30.0, 20.0, 10.0], np.linspace(-4.0, 4.0, n - 3)])
    spectrum, V = signed_eigenpairs(symmetric(lam), 2)
    assert V.shape == (n, 2)
    assert spectrum.positive == pytest.approx(lam[lam > 0].sum())
    assert spectrum.negative == pytest.approx(-lam[lam < 0].sum())
    assert spectrum.least == pytest.approx(-4.0)
    assert spectrum.significant() == 3  # 4.0 is no more than the modulus of the least
    assert not spectrum.estimated


@pytest.mark.parametrize("rank", [5, 300, 700])
def test_a_positive_matrix_needs_no_more_than_its_factor(rank, monkeypatch):
    def never(G):
        raise AssertionError("all eigenvalues were computed")

    monkeypatch.setattr(np.linalg, "eigvalsh", never)
    lam = np.zeros(700)
    lam[:rank] = np.linspace(9.0, 1.0, rank)
    spectrum, _ = signed_eigenpairs(symmetric(lam), 2)
    assert (spectrum.rank, spectrum.significant()) == (rank, rank)
    assert spectrum.negative == 0.0
    assert spectrum.positive == pytest.approx(lam.sum())


def test_a_small_negative_eigenvalue_is_observed_beside_a_low_rank():
    lam = np.zeros(700)
    lam[:3], lam[-1] = (9.0, 8.0, 7.0), -1e-6
    spectrum, _ = signed_eigenpairs(symmetric(lam), 2)
    assert spectrum.least == pytest.approx(-1e-6, rel=1e-3)
    assert spectrum.significant() == 3


def test_beyond_a_size_the_negative_share_is_estimated(monkeypatch):
    monkeypatch.setattr(signed, "EXACT", 600)
    lam = np.concatenate([[300.0, 200.0], np.linspace(-10.0, 30.0, 898)])
    spectrum, _ = signed_eigenpairs(symmetric(lam), 2)
    exact = SignedSpectrum.of_all(lam)
    assert spectrum.estimated
    assert spectrum.negative_share == pytest.approx(exact.negative_share, rel=0.05)
    assert spectrum.positive - spectrum.negative == pytest.approx(lam.sum())  # the trace is exact
    assert spectrum.least == pytest.approx(-10.0, rel=0.01)
    assert spectrum.significant() is None  # both known ones are, and there may be more
    X = np.random.default_rng(0).normal(size=(700, 5))
    euclidean = fit_distances(cdist(X, X), 2).spectrum
    assert (euclidean.negative_share, euclidean.estimated) == (0.0, False)


def test_quadrature_of_a_diagonal_matrix_is_exact_in_low_moments():
    """Of 20 eigenvalues 20 steps know everything; each probe of signs has the exact measure."""
    lam = np.linspace(-1.0, 3.0, 20)
    nodes, shares = lanczos_quadrature(np.diag(lam), 3, 20)
    for power in (0, 1, 2, 5):
        np.testing.assert_allclose(np.sum(shares * nodes**power, axis=1), np.mean(lam**power))


def test_shares_and_ranks():
    spectrum = SignedSpectrum.of_all(np.array([1.0, -2.0, 6.0, 3.0]))
    assert spectrum.negative_share == pytest.approx(2 / 12)
    assert spectrum.goodness_of_fit(1) == (pytest.approx(6 / 12), pytest.approx(6 / 10))
    assert spectrum.significant() == 2
    assert [spectrum.for_share(share) for share in (0.5, 0.6, 0.61, 0.9, 0.95)] == [1, 1, 2, 2, 3]
    nothing = SignedSpectrum.of_all(np.zeros(3))
    assert nothing.negative_share == 0.0
    assert nothing.goodness_of_fit(1) == (0.0, 0.0)
    assert nothing.significant() == 0


def test_stress_by_hand(monkeypatch):
    d, Z = np.array([[0.0, 3.0], [3.0, 0.0]]), np.array([[0.0], [2.0]])
    assert stress(lambda some: d[some], Z) == pytest.approx(1 / 3)
    assert stress(lambda some: np.zeros((2, 2))[some], np.zeros((2, 1))) == 0.0
    monkeypatch.setattr(mds, "BLOCK_BYTES", 16)  # one point at a time
    assert stress(lambda some: d[some], Z) == pytest.approx(1 / 3)
