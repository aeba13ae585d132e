"""Rotations against R, statsmodels, scikit-learn, a search over all angles, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition._factor_analysis import _ortho_rotation
from statsmodels.multivariate.factor_rotation import rotate_factors

from eigengap.fitting.gaussian.rotation import METHODS, Rotation, rotate

# B: every other row, rounded, of the unrotated loadings of
# factanal(covmat = Harman74.cor$cov, factors = 3, rotation = "none") in R 4.2.2
B = np.array(
    [
        [0.54, -0.03, 0.46],
        [0.36, -0.18, 0.42],
        [0.74, -0.20, -0.23],
        [0.74, -0.30, -0.26],
        [0.75, -0.38, -0.20],
        [0.54, 0.35, 0.02],
        [0.57, 0.27, 0.18],
        [0.35, 0.04, 0.16],
        [0.43, 0.16, 0.10],
        [0.41, 0.06, 0.20],
        [0.56, 0.25, 0.21],
        [0.67, -0.04, 0.24],
    ]
)
# varimax(B, normalize = TRUE, eps = 1e-15)$loadings
VARIMAX = np.array(
    [
        [0.1498722782, 0.3532338685, 0.5973810629],
        [0.1231913713, 0.1207721404, 0.5555519563],
        [0.7299533238, 0.2945785008, 0.1445394478],
        [0.7964723757, 0.2150490172, 0.1567981982],
        [0.8132749337, 0.1642580075, 0.2418743252],
        [0.1826409718, 0.6124191008, 0.0780071821],
        [0.1616665276, 0.5820119771, 0.2555894997],
        [0.1379930865, 0.2641093243, 0.2467877081],
        [0.1627091128, 0.4025580545, 0.1788092765],
        [0.1484592266, 0.3205077991, 0.2948467547],
        [0.1495329658, 0.5625933888, 0.2851816457],
        [0.3578403225, 0.4104400050, 0.4599883758],
    ]
)
# varimax(B, normalize = FALSE, eps = 1e-15)$loadings
VARIMAX_RAW = np.array(
    [
        [0.2373142895, 0.2931581532, 0.6015315663],
        [0.1846229096, 0.0677677847, 0.5474686371],
        [0.7651134133, 0.2163323019, 0.0911142140],
        [0.8244951596, 0.1304626938, 0.0915817519],
        [0.8440422187, 0.0722106589, 0.1711091869],
        [0.2472192253, 0.5860839729, 0.0994395863],
        [0.2397625665, 0.5446222179, 0.2758632840],
        [0.1848375220, 0.2316566875, 0.2487373506],
        [0.2164590744, 0.3719771654, 0.1878256039],
        [0.2050507091, 0.2831748568, 0.2991090222],
        [0.2285743862, 0.5242346860, 0.3051749398],
        [0.4363685166, 0.3414709620, 0.4484195578],
    ]
)
# p <- promax(varimax(B, eps = 1e-15)$loadings); p$loadings
PROMAX = np.array(
    [
        [-0.0594518912, 0.1282875277, 0.6457347804],
        [-0.0054293724, -0.1644281976, 0.6890509609],
        [0.7492256369, 0.1444337627, -0.0731511501],
        [0.8531771052, 0.0106873681, -0.0374539381],
        [0.8729839204, -0.1099776552, 0.0969038689],
        [-0.0007925413, 0.7600028200, -0.1816553986],
        [-0.0520087139, 0.6271582479, 0.0793956733],
        [0.0274074481, 0.1974202551, 0.2025487050],
        [0.0247520117, 0.4197493224, 0.0471648512],
        [0.0113776703, 0.2469186349, 0.2433535958],
        [-0.0661329985, 0.5873305243, 0.1305706249],
        [0.1992869113, 0.2289882156, 0.3902488997],
    ]
)
# solve(t(p$rotmat) %*% p$rotmat)
PROMAX_PHI = np.array(
    [
        [1.0000000000, 0.5859939148, 0.5374404561],
        [0.5859939148, 1.0000000000, 0.7082224473],
        [0.5374404561, 0.7082224473, 1.0000000000],
    ]
)


def matched(A: np.ndarray, to: np.ndarray) -> np.ndarray:
    """The columns of A in the order and with the signs that fit those of `to`."""
    overlap = A.T @ to
    order = np.argmax(np.abs(overlap), axis=0)
    assert sorted(order) == list(range(A.shape[1]))
    return A[:, order] * np.sign(overlap[order, np.arange(A.shape[1])])


def simple_loadings(d: int, q: int, seed: int) -> np.ndarray:
    """Each feature loads on one factor, with small cross loadings."""
    rng = np.random.default_rng(seed)
    W = 0.05 * rng.normal(size=(d, q))
    W[np.arange(d), np.arange(d) % q] += rng.uniform(0.5, 1.0, d)
    return W


def random_rotation(q: int, seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(q, q)))[0]


def orthomax_criterion(L: np.ndarray, gamma: float) -> float:
    return float(np.sum(L**4) - gamma / len(L) * np.sum(np.sum(L**2, axis=0) ** 2))


def assert_convention(W: np.ndarray, rotation: Rotation) -> None:
    T, L, phi = rotation.T, rotation.loadings, rotation.phi
    np.testing.assert_allclose(L, W @ np.linalg.inv(T).T, atol=1e-10)
    np.testing.assert_allclose(phi, T.T @ T, atol=1e-12)
    np.testing.assert_allclose(np.diag(phi), 1.0, atol=1e-12)
    np.testing.assert_allclose(L @ phi @ L.T, W @ W.T, atol=1e-10 * max(1.0, np.sum(W**2)))


# ---------------------------------------------------------------- other programs


@pytest.mark.parametrize(("normalize", "expected"), [(True, VARIMAX), (False, VARIMAX_RAW)])
def test_varimax_as_r(normalize: bool, expected: np.ndarray) -> None:
    rotation = rotate(B, "varimax", normalize=normalize)
    assert rotation.converged
    np.testing.assert_allclose(matched(rotation.loadings, expected), expected, atol=2e-8)


def test_promax_as_r() -> None:
    rotation = rotate(B, "promax")
    np.testing.assert_allclose(rotation.loadings, PROMAX, atol=5e-8)
    np.testing.assert_allclose(rotation.phi, PROMAX_PHI, atol=5e-8)


@pytest.mark.parametrize("method", ["varimax", "quartimax"])
def test_orthogonal_without_normalisation_as_scikit_learn(method: str) -> None:
    theirs = _ortho_rotation(B, method=method, tol=1e-15, max_iter=10_000).T
    ours = rotate(B, method, normalize=False).loadings
    np.testing.assert_allclose(matched(ours, theirs), theirs, atol=1e-6)


@pytest.mark.parametrize("gamma", [0.0, -0.5])
def test_oblimin_as_statsmodels(gamma: float) -> None:
    L, T = rotate_factors(B, "oblimin", gamma, "oblique", max_tries=500, tol=1e-7)
    ours = rotate(B, "oblimin", normalize=False, gamma=gamma)
    assert ours.converged
    np.testing.assert_allclose(matched(ours.loadings, L), L, atol=1e-5)
    np.testing.assert_allclose(matched(ours.T, T), T, atol=1e-5)


# ---------------------------------------------------------------- brute force


@pytest.mark.parametrize(("method", "gamma"), [("varimax", 1.0), ("quartimax", 0.0)])
@pytest.mark.parametrize("seed", range(5))
def test_two_factors_reach_the_best_of_all_angles(method: str, gamma: float, seed: int) -> None:
    W = np.random.default_rng(seed).normal(size=(9, 2))
    angles = np.linspace(0.0, np.pi, 2001)
    turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
    best = max(orthomax_criterion(W @ turn, gamma) for turn in turns)
    reached = orthomax_criterion(rotate(W, method, normalize=False).loadings, gamma)
    assert best - 1e-10 <= reached <= best + 1e-3


def test_a_stationary_start_is_left() -> None:
    """Two equal groups in canonical form: a general factor and a contrast. The gradient is zero
    there although the criterion is at its minimum; R's varimax returns an arbitrary rotation."""
    W = np.array([[0.6, 0.5]] * 3 + [[0.6, -0.5]] * 3)
    L = rotate(W, "varimax").loadings
    simple = 0.5**0.5 * np.array([[1.1, 0.1]] * 3 + [[0.1, 1.1]] * 3)
    np.testing.assert_allclose(matched(L, simple), simple, atol=1e-9)


def test_oblimin_is_a_minimum_among_unit_columns() -> None:
    def criterion(T: np.ndarray) -> float:
        squares = (B @ np.linalg.inv(T / np.linalg.norm(T, axis=0)).T) ** 2
        return float(sum(squares[:, i] @ squares[:, j] for i in range(3) for j in range(i)))

    T = rotate(B, "oblimin", normalize=False).T
    h = 1e-4
    steps = [h * e.reshape(3, 3) for e in np.eye(9)]
    slopes = [(criterion(T + s) - criterion(T - s)) / (2 * h) for s in steps]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)
    rng = np.random.default_rng(0)
    around = [criterion(T + 0.05 * rng.normal(size=(3, 3))) for _ in range(50)]
    assert min(around) > criterion(T)


# ---------------------------------------------------------------- laws

shapes = st.tuples(st.integers(1, 6), st.integers(0, 6)).map(lambda s: (s[0] + s[1] + 2, s[0]))


@settings(max_examples=30, deadline=None)
@given(shape=shapes, seed=st.integers(0, 10_000), method=st.sampled_from(METHODS))
def test_convention_order_and_signs(shape: tuple[int, int], seed: int, method: str) -> None:
    W = np.random.default_rng(seed).normal(size=shape)
    rotation = rotate(W, method, normalize=seed % 2 == 0)
    assert_convention(W, rotation)
    L = rotation.loadings
    explained = np.diag(rotation.phi @ L.T @ L)
    assert np.all(np.diff(explained) <= 1e-9 * explained.sum())
    assert explained.sum() == pytest.approx(np.sum(W**2))
    assert np.all(L[np.argmax(np.abs(L), axis=0), np.arange(shape[1])] > 0)
    if method in ("varimax", "quartimax"):
        np.testing.assert_allclose(rotation.phi, np.eye(shape[1]), atol=1e-10)


@settings(max_examples=15, deadline=None)
@given(q=st.integers(2, 5), seed=st.integers(0, 10_000), method=st.sampled_from(METHODS))
def test_simple_structure_is_found_from_any_axes(q: int, seed: int, method: str) -> None:
    W = simple_loadings(6 * q, q, seed)
    plain, turned = rotate(W, method), rotate(W @ random_rotation(q, seed), method)
    assert plain.converged
    assert turned.converged
    np.testing.assert_allclose(turned.loadings, plain.loadings, atol=1e-6)
    np.testing.assert_allclose(matched(turned.loadings, W), W, atol=0.2)


@pytest.mark.parametrize("method", ["varimax", "quartimax", "oblimin"])
def test_kaiser_normalisation_ignores_the_length_of_rows(method: str) -> None:
    lengths = np.random.default_rng(0).uniform(0.1, 10.0, len(B))[:, None]
    plain, stretched = rotate(B, method), rotate(B * lengths, method)
    np.testing.assert_allclose(matched(stretched.T, plain.T), plain.T, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scale_of_the_loadings_does_not_matter(method: str, scale: float) -> None:
    for normalize in (True, False):
        plain = rotate(B, method, normalize=normalize)
        scaled = rotate(B * scale, method, normalize=normalize)
        np.testing.assert_allclose(scaled.loadings / scale, plain.loadings, atol=1e-6)


# ---------------------------------------------------------------- edges


def test_none_leaves_the_loadings_alone() -> None:
    rotation = rotate(-B, None)
    np.testing.assert_array_equal(rotation.loadings, -B)
    np.testing.assert_array_equal(rotation.T, np.eye(3))
    np.testing.assert_array_equal(rotation.phi, np.eye(3))


@pytest.mark.parametrize("method", METHODS)
def test_one_factor_only_takes_its_sign(method: str) -> None:
    rotation = rotate(-B[:, :1], method)
    np.testing.assert_allclose(rotation.loadings, B[:, :1], atol=1e-12)
    np.testing.assert_allclose(rotation.T, [[-1.0]], atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_no_factor(method: str) -> None:
    assert rotate(np.zeros((5, 0)), method).loadings.shape == (5, 0)


@pytest.mark.parametrize("method", METHODS)
def test_a_feature_without_communality(method: str) -> None:
    W = np.vstack([B, np.zeros(3)])
    rotation = rotate(W, method)
    assert_convention(W, rotation)
    np.testing.assert_array_equal(rotation.loadings[-1], 0.0)


@pytest.mark.parametrize("method", ["varimax", "quartimax", "oblimin"])
def test_a_zero_factor_is_no_failure(method: str) -> None:
    W = np.column_stack([B, np.zeros(len(B))])
    assert_convention(W, rotate(W, method))


def test_promax_names_a_zero_factor() -> None:
    with pytest.raises(ValueError, match="full column rank"):
        rotate(np.column_stack([B, np.zeros(len(B))]), "promax")


def test_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="varimax, quartimax, promax, oblimin"):
        rotate(B, "equamax")
