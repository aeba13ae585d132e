"""ICA against R, picard, scikit-learn, finite differences and dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from tests import tolerance
from tests.mixtures import amari, matched, mixture, sources

from eigengap.estimators.ica import ICA
from eigengap.fitting.ica.steps import above_diagonal, cayley, corrected, descent, slope_at
from eigengap.fitting.ica.whitening import open_variance
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.statistics.nonlinearity import Cube, Gauss, Given, LogCosh, gaussian_reference
from eigengap.statistics.score_moments import Evaluation, Potentials, ScoreBlock, ScoreMoments

FUNCTIONS = [LogCosh(), LogCosh(1.7), Gauss(), Cube()]


def signals() -> np.ndarray:
    """Four periodic signals, mixed: the same numbers in every language."""
    t = np.arange(500.0)
    S = np.column_stack(
        [
            np.sin(0.13 * t),
            np.sign(np.sin(0.071 * t + 0.3)),
            ((0.037 * t) % 1) ** 3,
            np.tan(1.5 * np.sin(0.0911 * t + 1)),
        ]
    )
    A = np.array(
        [[1, 0.5, -0.3, 0.2], [0.4, 1, 0.6, -0.5], [-0.2, 0.3, 1, 0.4], [0.7, -0.6, 0.1, 1]]
    )
    return S @ A.T


# R 4, fastICA 1.2.3, X = signals():
#   a <- fastICA(X, 4, alg.typ = "parallel", fun = f, alpha = 1, method = "R", maxit = 2000,
#                tol = 1e-14, w.init = diag(4)); t(a$K %*% a$W)
OF_R = {
    "logcosh": [
        [-0.0853401644348, 0.051874878934, -0.367954863018, 0.0104017802531],
        [-1.6909394838300, 1.082649619990, -1.321377078540, 1.4061665212900],
        [-0.7747708086030, 1.838028405090, -1.463463881850, 1.6557563264300],
        [-4.2251109572800, 4.369637690310, -0.780521913903, 3.3272629058200],
    ],
    "exp": [
        [-0.112487092714, 0.0849346059057, -0.372619366416, 0.0341217907464],
        [-1.696366319820, 1.0881111659400, -1.323604521520, 1.4102103868000],
        [-0.771944079071, 1.8351695425400, -1.462094779040, 1.6536707786200],
        [-4.222816831280, 4.3689651084300, -0.777093232476, 3.3264298074500],
    ],
}

# python-picard 0.8.2: K, W, _ = picard(X.T, ortho=True, extended=True, tol=1e-12, max_iter=2000,
# random_state=0); W @ K
OF_PICARD = [
    [-0.085340180598, 0.051874902223, -0.367954869458, 0.010401797635],
    [-0.7747708661, 1.838028468029, -1.463463885833, 1.655756371606],
    [-4.225110939785, 4.369637658071, -0.780521885556, 3.327262875651],
    [1.69093950038, -1.082649642148, 1.321377089078, -1.406166539361],
]


@pytest.mark.parametrize("fun", ["logcosh", "exp"])
def test_unmixing_is_that_of_r(fun):
    ours = ICA(fun=fun, tol=1e-10).fit(signals()).components_
    np.testing.assert_allclose(matched(ours, np.array(OF_R[fun])), OF_R[fun], atol=2e-7)


def test_unmixing_is_that_of_picard():
    ours = ICA(tol=1e-10).fit(signals()).components_
    np.testing.assert_allclose(matched(ours, np.array(OF_PICARD)), OF_PICARD, atol=1e-8)


@pytest.mark.parametrize("fun", ["logcosh", "exp", "cube"])
@pytest.mark.parametrize("kind", ["sub", "super", "mixed"])
def test_unmixing_is_that_of_scikit_learn(kind, fun):
    X, A = mixture(kind, 4000, 5, seed=3)
    theirs = FastICA(fun=fun, tol=1e-12, max_iter=2000, random_state=0).fit(X)
    ours = ICA(fun=fun).fit(X)
    close = matched(ours.components_, theirs.components_)
    np.testing.assert_allclose(close, theirs.components_, atol=1e-5)
    assert abs(amari(ours.components_ @ A) - amari(theirs.components_ @ A)) < 1e-5
    np.testing.assert_allclose(ours.mean_, theirs.mean_, atol=1e-12)
    np.testing.assert_allclose(
        matched(ours.whitening_, theirs.whitening_), theirs.whitening_, atol=1e-10
    )


def test_arbitrary_variance_is_that_of_scikit_learn():
    X, _ = mixture("super", 2000, 3, seed=1)
    theirs = FastICA(whiten="arbitrary-variance", tol=1e-12, max_iter=500, random_state=0).fit(X)
    ours = ICA(whiten="arbitrary-variance").fit(X)
    close = matched(ours.components_, theirs.components_)
    np.testing.assert_allclose(close, theirs.components_, atol=1e-6)
    np.testing.assert_allclose(np.sum(ours.transform(X) ** 2, axis=0), 1.0)


def test_rows_that_are_white_are_only_rotated():
    X, _ = mixture("mixed", 3000, 4, seed=2)
    X = X - X.mean(axis=0)
    lam, U = np.linalg.eigh(X.T @ X / len(X))
    Z = X @ (U / np.sqrt(lam))
    ours = ICA(whiten=False).fit(Z)
    np.testing.assert_allclose(ours.components_ @ ours.components_.T, np.eye(4), atol=1e-12)
    theirs = FastICA(whiten=False, tol=1e-12, max_iter=500, random_state=0).fit(Z)
    close = matched(ours.components_, theirs.components_)
    np.testing.assert_allclose(close, theirs.components_, atol=1e-5)


# Moments and steps ------------------------------------------------------------------------


@pytest.mark.parametrize("fun", FUNCTIONS, ids=repr)
def test_derivatives_are_those_of_the_potential(fun):
    y = np.linspace(-4, 4, 81)[:, None]
    h = 1e-5
    g, slope = fun.derivatives(y)
    np.testing.assert_allclose(
        g, (fun.potential(y + h) - fun.potential(y - h)) / (2 * h), atol=1e-6, rtol=1e-6
    )
    np.testing.assert_allclose(
        slope, (fun.derivatives(y + h)[0] - fun.derivatives(y - h)[0]) / (2 * h), atol=1e-6
    )


def test_log_cosh_does_not_overflow():
    y = np.array([[-1e4, -400.0, 0.0, 400.0, 1e4]])
    g, slope = LogCosh().derivatives(y)
    np.testing.assert_array_equal(g[0], [-1, -1, 0, 1, 1])
    np.testing.assert_allclose(LogCosh().potential(y)[0], np.abs(y[0]) - np.log(2) * (y[0] != 0))
    np.testing.assert_array_equal(slope[0], [0, 0, 1, 0, 0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fun", FUNCTIONS, ids=repr)
def test_moments_are_plain_averages(fun, weighted):
    rng = np.random.default_rng(0)
    Z, R = rng.standard_normal((20_000, 3)), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    w = rng.integers(0, 4, len(Z)).astype(float) if weighted else np.ones(len(Z))
    block = ScoreBlock(Z, w if weighted else None)
    found = ScoreMoments.of(block, R, Evaluation(fun, with_spread=True, threads=2)).mean()
    Y = Z @ R.T
    g, slope = fun.derivatives(Y)
    np.testing.assert_allclose(
        found.cross, (g * w[:, None]).T @ Y / w.sum(), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(found.slope, w @ slope / w.sum(), rtol=1e-10)
    np.testing.assert_allclose(found.spread, (slope * w[:, None]).T @ Y**2 / w.sum(), rtol=1e-9)
    single = ScoreMoments.of(block, R, Evaluation(fun, precision=np.float32)).mean()
    sizes = (np.abs(g) * w[:, None]).T @ np.abs(Y) / w.sum()
    # Each term rounds a score, its 3 products and sums, what fun makes of it, and the weight.
    off = tolerance.of_sum(len(Z), np.float32, per_term=12)
    assert np.all(np.abs(single.cross - found.cross) <= off * sizes)


@pytest.mark.parametrize("fun", FUNCTIONS, ids=repr)
def test_gradient_and_curvature_are_those_of_the_contrast(fun):
    """By differences of sum_i s_i E F(y_i) along the rotation of every pair."""
    Z = sources("mixed", 3000, 4, seed=5) @ np.linalg.qr(np.arange(16.0).reshape(4, 4) ** 2 % 7)[0]
    block, R = ScoreBlock(Z, None), np.eye(4)
    moments = ScoreMoments.of(block, R, Evaluation(fun, with_spread=True)).mean()
    at = slope_at(moments)

    def contrast(p):
        return float(at.sign @ Potentials.of(block, cayley(p, 4) @ R, fun).mean)

    h, pairs = 1e-3, np.eye(6)
    up = np.array([contrast(h * e) for e in pairs])
    down = np.array([contrast(-h * e) for e in pairs])
    scale = np.abs(above_diagonal(at.measured)).max()
    # Along a pair the derivative is twice the entry: both of (i, j) and (j, i) turn.
    np.testing.assert_allclose(
        (up - down) / (2 * h), 2 * above_diagonal(at.gradient), atol=1e-5 * max(scale, 1)
    )
    np.testing.assert_allclose(
        (up + down - 2 * contrast(np.zeros(6))) / h**2,
        2 * above_diagonal(at.measured),
        atol=1e-3 * max(scale, 1),
    )


def test_l_bfgs_without_memory_is_preconditioned_descent():
    rng = np.random.default_rng(1)
    block = ScoreBlock(rng.laplace(size=(500, 3)), None)
    at = slope_at(ScoreMoments.of(block, np.eye(3), Evaluation(LogCosh())).mean())
    nothing = np.empty((0, 3))
    step = descent(at, nothing, nothing)
    np.testing.assert_allclose(step, -above_diagonal(at.gradient) / above_diagonal(at.curvature))


def test_l_bfgs_is_bfgs():
    """The inverse Hessian after two updates, written out as matrices (Nocedal and Wright 6.17)."""
    rng = np.random.default_rng(2)
    block = ScoreBlock(rng.laplace(size=(500, 3)), None)
    at = slope_at(ScoreMoments.of(block, np.eye(3), Evaluation(LogCosh())).mean())
    Q = np.diag([1.0, 2.0, 3.0]) + 0.3
    steps = rng.standard_normal((2, 3))
    changes = steps @ Q
    H = np.diag(1.0 / above_diagonal(at.curvature))
    for s, y in zip(steps, changes, strict=True):
        rho = 1.0 / (s @ y)
        V = np.eye(3) - rho * np.outer(y, s)
        H = V.T @ H @ V + rho * np.outer(s, s)
    expected = -H @ above_diagonal(at.gradient)
    np.testing.assert_allclose(descent(at, steps, changes), expected, rtol=1e-10)


@pytest.mark.parametrize("fun", FUNCTIONS[:3], ids=repr)
def test_noise_shifts_the_moments_as_stein_says(fun):
    """At the true sources E[g(y_i) y_j] without its shift is zero within sampling error."""
    rng = np.random.default_rng(3)
    n = 400_000
    L = np.array([[0.8, 0.0, 0.0], [0.5, 0.6, 0.0], [-0.4, 0.3, 0.7]])
    S = sources("mixed", n, 3, seed=4)
    block = ScoreBlock(S + rng.standard_normal((n, 3)) @ L.T, None)
    moments = ScoreMoments.of(block, np.eye(3), Evaluation(fun)).mean()
    off = ~np.eye(3, dtype=bool)
    assert np.abs(corrected(moments, L @ L.T).cross[off]).max() < 5 / np.sqrt(n)
    assert np.abs(moments.cross[off]).max() > 50 / np.sqrt(n)


def test_gaussian_reference():
    """Closed forms: E -exp(-y^2/2) = -1/sqrt(1 + v); of y^4/4 3 v^2/4; spread by simulation."""
    assert gaussian_reference(Gauss(), 1.7).potential == pytest.approx(-1 / np.sqrt(2.7), abs=1e-12)
    assert gaussian_reference(Cube(), 1.7).potential == pytest.approx(0.75 * 1.7**2)
    # 3 y^2 - y^4 less its projection on y^2 - 1 is -(y^4 - 6 y^2 + 3), of variance 24.
    assert gaussian_reference(Cube(), 1.0).discrepancy_sd == pytest.approx(np.sqrt(24))
    y = np.random.default_rng(0).standard_normal((400_000, 1))
    y /= np.sqrt(np.mean(y**2))
    mean = float(np.mean(LogCosh().potential(y)))
    assert gaussian_reference(LogCosh(), 1.0).potential == pytest.approx(mean, abs=1e-3)


def test_a_given_function_is_taken_as_scikit_learn_does():
    X, _ = mixture("super", 2000, 3, seed=1)

    def averaged(x, power):
        return x**power, (power * x ** (power - 1)).mean(axis=-1)

    def each(x):
        return x**3, 3 * x**2

    cube = ICA(fun="cube").fit(X).mixing_
    np.testing.assert_allclose(
        ICA(fun=averaged, fun_args={"power": 3}).fit(X).mixing_, cube, atol=1e-6
    )
    np.testing.assert_allclose(ICA(fun=each).fit(X).mixing_, cube, atol=1e-6)
    assert Given(averaged, {"power": 3}).averages
    assert not Given(each).averages


def test_what_missing_leave_open_by_the_dense_gaussian():
    rng = np.random.default_rng(6)
    model = LinearGaussian(
        W=rng.standard_normal((5, 2)), mu=rng.standard_normal(5), psi=rng.uniform(0.2, 1, 5)
    )
    A = rng.standard_normal((3, 5))
    X = model.sample(40, rng)
    X[rng.random(X.shape) < 0.4] = np.nan
    X[0] = np.nan
    C = model.covariance()
    expected = []
    for row in X:
        m, o = np.isnan(row), ~np.isnan(row)
        cov = C[np.ix_(m, m)] - C[np.ix_(m, o)] @ np.linalg.solve(C[np.ix_(o, o)], C[np.ix_(o, m)])
        expected.append(np.trace(A[:, m] @ cov @ A[:, m].T))
    np.testing.assert_allclose(open_variance(model, A, X), expected, atol=1e-10)
