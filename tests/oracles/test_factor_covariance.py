"""Factor analysis of a covariance against R, statsmodels, scikit-learn, closed forms and dense
brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import FactorAnalysis
from statsmodels.multivariate.factor import Factor

from eigengap.fitting.gaussian import factor_covariance
from eigengap.fitting.gaussian.factor_covariance import FactorSolution, fit_factors

# R's datasets::ability.cov$cov: six tests taken by 112 persons.
ABILITY = np.array(
    [
        [24.641, 5.991, 33.520, 6.023, 20.755, 29.701],
        [5.991, 6.700, 18.137, 1.782, 4.936, 7.204],
        [33.520, 18.137, 149.831, 19.424, 31.430, 50.753],
        [6.023, 1.782, 19.424, 12.711, 4.757, 9.075],
        [20.755, 4.936, 31.430, 4.757, 52.604, 66.762],
        [29.701, 7.204, 50.753, 9.075, 66.762, 135.292],
    ]
)
# R 4.2.2: f <- factanal(covmat = ability.cov, factors = 2, rotation = "none",
#                        control = list(lower = 1e-6, opt = list(factr = 0, maxit = 10000)))
# f$loadings, f$uniquenesses, f$criteria["objective"]; the same with factors = 1
ABILITY_LOADINGS = np.array(
    [
        [0.6475263524, 0.3542392556],
        [0.3474315688, 0.5384785394],
        [0.4710815954, 0.7482663773],
        [0.2530205619, 0.4081165864],
        [0.9640584988, -0.1346828095],
        [0.8154010180, -0.0391515357],
    ]
)
ABILITY_UNIQUENESS = {
    1: [0.53459892, 0.85257900, 0.74818565, 0.91012781, 0.23171611, 0.27974112],
    2: [0.4552241715, 0.5893321678, 0.2181795590, 0.7694214467, 0.0524517517, 0.3335883358],
}
ABILITY_OBJECTIVE = {1: 0.699345035353785, 2: 0.057160216837}

# R's datasets::Harman74.cor$cov, lower triangle: 24 psychological tests.
# fmt: off
HARMAN_TRIANGLE = [
    1.000,
    0.318, 1.000,
    0.403, 0.317, 1.000,
    0.468, 0.230, 0.305, 1.000,
    0.321, 0.285, 0.247, 0.227, 1.000,
    0.335, 0.234, 0.268, 0.327, 0.622, 1.000,
    0.304, 0.157, 0.223, 0.335, 0.656, 0.722, 1.000,
    0.332, 0.157, 0.382, 0.391, 0.578, 0.527, 0.619, 1.000,
    0.326, 0.195, 0.184, 0.325, 0.723, 0.714, 0.685, 0.532, 1.000,
    0.116, 0.057, -0.075, 0.099, 0.311, 0.203, 0.246, 0.285, 0.170, 1.000,
    0.308, 0.150, 0.091, 0.110, 0.344, 0.353, 0.232, 0.300, 0.280, 0.484, 1.000,
    0.314, 0.145, 0.140, 0.160, 0.215, 0.095, 0.181, 0.271, 0.113, 0.585, 0.428, 1.000,
    0.489, 0.239, 0.321, 0.327, 0.344, 0.309, 0.345, 0.395, 0.280, 0.408, 0.535, 0.512,
    1.000,
    0.125, 0.103, 0.177, 0.066, 0.280, 0.292, 0.236, 0.252, 0.260, 0.172, 0.350, 0.131,
    0.195, 1.000,
    0.238, 0.131, 0.065, 0.127, 0.229, 0.251, 0.172, 0.175, 0.248, 0.154, 0.240, 0.173,
    0.139, 0.370, 1.000,
    0.414, 0.272, 0.263, 0.322, 0.187, 0.291, 0.180, 0.296, 0.242, 0.124, 0.314, 0.119,
    0.281, 0.412, 0.325, 1.000,
    0.176, 0.005, 0.177, 0.187, 0.208, 0.273, 0.228, 0.255, 0.274, 0.289, 0.362, 0.278,
    0.194, 0.341, 0.345, 0.324, 1.000,
    0.368, 0.255, 0.211, 0.251, 0.263, 0.167, 0.159, 0.250, 0.208, 0.317, 0.350, 0.349,
    0.323, 0.201, 0.334, 0.344, 0.448, 1.000,
    0.270, 0.112, 0.312, 0.137, 0.190, 0.251, 0.226, 0.274, 0.274, 0.190, 0.290, 0.110,
    0.263, 0.206, 0.192, 0.258, 0.324, 0.358, 1.000,
    0.365, 0.292, 0.297, 0.339, 0.398, 0.435, 0.451, 0.427, 0.446, 0.173, 0.202, 0.246,
    0.241, 0.302, 0.272, 0.388, 0.262, 0.301, 0.167, 1.000,
    0.369, 0.306, 0.165, 0.349, 0.318, 0.263, 0.314, 0.362, 0.266, 0.405, 0.399, 0.355,
    0.425, 0.183, 0.232, 0.348, 0.173, 0.357, 0.331, 0.413, 1.000,
    0.413, 0.232, 0.250, 0.380, 0.441, 0.386, 0.396, 0.357, 0.483, 0.160, 0.304, 0.193,
    0.279, 0.243, 0.246, 0.283, 0.273, 0.317, 0.342, 0.463, 0.374, 1.000,
    0.474, 0.348, 0.383, 0.335, 0.435, 0.431, 0.405, 0.501, 0.504, 0.262, 0.251, 0.350,
    0.382, 0.242, 0.256, 0.360, 0.287, 0.272, 0.303, 0.509, 0.451, 0.503, 1.000,
    0.282, 0.211, 0.203, 0.248, 0.420, 0.433, 0.437, 0.388, 0.424, 0.531, 0.412, 0.414,
    0.358, 0.304, 0.165, 0.262, 0.326, 0.405, 0.374, 0.366, 0.448, 0.375, 0.434, 1.000,
]
# g <- factanal(covmat = Harman74.cor$cov, factors = 4, rotation = "none",
#               control = list(lower = 1e-6, opt = list(factr = 0, maxit = 10000)))
HARMAN_UNIQUENESS = [
    0.43846455, 0.78009387, 0.64351577, 0.65121884, 0.35200548, 0.31150644,
    0.28260148, 0.48536096, 0.25659162, 0.23969266, 0.55097955, 0.43507833,
    0.49072861, 0.64597533, 0.69599909, 0.54909868, 0.59815313, 0.59264645,
    0.76150329, 0.59161955, 0.58290329, 0.60102789, 0.49726216, 0.49976548,
]
# fmt: on
HARMAN_OBJECTIVE = 1.710821469609


def harman() -> np.ndarray:
    R = np.zeros((24, 24))
    R[np.tril_indices(24)] = HARMAN_TRIANGLE
    return R + np.tril(R, -1).T


def sample(n: int, d: int, q: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    W, psi = rng.normal(size=(d, q)), rng.uniform(0.3, 2.0, d)
    return rng.normal(size=(n, q)) @ W.T + np.sqrt(psi) * rng.normal(size=(n, d))


def covariance(X: np.ndarray) -> np.ndarray:
    return np.cov(X.T, bias=True)


def dense_log_likelihood(S: np.ndarray, W: np.ndarray, psi: np.ndarray) -> float:
    C = W @ W.T + np.diag(psi)
    sign, log_det = np.linalg.slogdet(C)
    assert sign > 0
    return -0.5 * (len(S) * np.log(2 * np.pi) + log_det + np.trace(np.linalg.solve(C, S)))


def score_norm(S: np.ndarray, W: np.ndarray, psi: np.ndarray) -> float:
    """Largest entry of the gradient of the log-likelihood per row in W and ln psi (dense)."""
    C_inv = np.linalg.inv(W @ W.T + np.diag(psi))
    G = C_inv - C_inv @ S @ C_inv
    return max(np.max(np.abs(G @ W)), np.max(np.abs(0.5 * np.diag(G) * psi)))


def objective_of_r(S: np.ndarray, fit: FactorSolution) -> float:
    """factanal's criterion: minus twice the log-likelihood ratio against C = S, per row."""
    d = len(S)
    saturated = -0.5 * (d * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + d)
    return 2.0 * (saturated - fit.log_likelihood_per_row)


# ---------------------------------------------------------------- other programs


@pytest.mark.parametrize("q", [1, 2])
def test_ability_as_r(q: int) -> None:
    fit = fit_factors(ABILITY, q)
    assert fit.converged
    assert fit.heywood == ()
    np.testing.assert_allclose(fit.psi / np.diag(ABILITY), ABILITY_UNIQUENESS[q], atol=2e-8)
    assert objective_of_r(ABILITY, fit) == pytest.approx(ABILITY_OBJECTIVE[q], abs=1e-10)


def test_ability_loadings_as_r() -> None:
    fit = fit_factors(ABILITY, 2)
    scaled = fit.W / np.sqrt(np.diag(ABILITY))[:, None]
    np.testing.assert_allclose(scaled, ABILITY_LOADINGS, atol=2e-8)


@pytest.mark.parametrize("exact_from_start", [150, 0])
def test_harman_as_r(exact_from_start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by the route of high dimension: partial eigensolver and Joreskog's Hessian."""
    monkeypatch.setattr(factor_covariance, "EXACT_FROM_START", exact_from_start)
    fit = fit_factors(harman(), 4)
    assert fit.converged
    np.testing.assert_allclose(fit.psi, HARMAN_UNIQUENESS, atol=3e-8)
    assert objective_of_r(harman(), fit) == pytest.approx(HARMAN_OBJECTIVE, abs=1e-10)


def test_harman_as_statsmodels() -> None:
    R = harman()
    theirs = Factor(corr=R, n_factor=3, method="ml", nobs=145).fit()
    ours = fit_factors(R, 3)
    np.testing.assert_allclose(ours.psi, theirs.uniqueness, atol=1e-4)
    at_theirs = dense_log_likelihood(R, theirs.loadings_no_rot, theirs.uniqueness)
    assert ours.log_likelihood_per_row >= at_theirs - 1e-10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # creeps to psi = 0
@pytest.mark.parametrize(
    ("X", "q"),
    [
        (load_iris().data, 1),
        (load_wine().data, 3),
        (sample(500, 12, 3, seed=0), 3),
    ],
    ids=["iris", "wine", "synthetic"],
)
def test_likelihood_reaches_scikit_learn(X: np.ndarray, q: int) -> None:
    theirs = FactorAnalysis(q, tol=1e-9, max_iter=5000, svd_method="lapack").fit(X)
    ours = fit_factors(covariance(X), q)
    assert ours.converged
    assert ours.log_likelihood_per_row >= theirs.score(X) - 1e-6


def test_covariance_equals_scikit_learn_where_the_optimum_is_proper() -> None:
    X = sample(500, 12, 3, seed=0)
    theirs = FactorAnalysis(3, tol=1e-10, max_iter=5000, svd_method="lapack").fit(X)
    ours = fit_factors(covariance(X), 3)
    np.testing.assert_allclose(
        ours.W @ ours.W.T + np.diag(ours.psi), theirs.get_covariance(), atol=1e-4
    )


# ---------------------------------------------------------------- closed forms


def test_one_factor_of_three_features_is_exact() -> None:
    """Just identified: w_1^2 = s_12 s_13 / s_23, and C = S."""
    w, psi = np.array([0.8, -1.2, 3.0]), np.array([0.5, 1.0, 4.0])
    fit = fit_factors(np.outer(w, w) + np.diag(psi), 1)
    np.testing.assert_allclose(fit.W[:, 0] * np.sign(fit.W[0, 0]), w, rtol=1e-6)
    np.testing.assert_allclose(fit.psi, psi, rtol=1e-6)


def test_no_factor_is_independence() -> None:
    fit = fit_factors(ABILITY, 0)
    assert fit.W.shape == (6, 0)
    assert fit.converged
    np.testing.assert_allclose(fit.psi, np.diag(ABILITY), rtol=1e-12)
    expected = dense_log_likelihood(ABILITY, fit.W, fit.psi)
    assert fit.log_likelihood_per_row == pytest.approx(expected, rel=1e-12)


def test_independent_features_are_fitted_exactly_whatever_q() -> None:
    """The solution is not unique (a factor may take part of one feature's noise); C = S is."""
    S = np.diag([1.0, 2.0, 5.0, 3.0])
    for q in range(4):
        fit = fit_factors(S, q)
        assert fit.converged
        np.testing.assert_allclose(fit.W @ fit.W.T + np.diag(fit.psi), S, atol=1e-6)


def test_population_covariance_is_recovered() -> None:
    rng = np.random.default_rng(5)
    W, psi = rng.normal(size=(15, 3)), rng.uniform(0.5, 2.0, 15)
    fit = fit_factors(W @ W.T + np.diag(psi), 3)
    np.testing.assert_allclose(fit.psi, psi, rtol=1e-6)
    np.testing.assert_allclose(fit.W @ fit.W.T, W @ W.T, atol=1e-6)


def test_heywood_case_is_reported_and_finite() -> None:
    """r_12 r_13 / r_23 = 1.62 > 1: feature 0 becomes the factor and the others regress on it."""
    R = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, 0.5], [0.9, 0.5, 1.0]])
    fit = fit_factors(R, 1, floor=1e-6)
    assert fit.heywood == (0,)
    assert fit.converged
    np.testing.assert_allclose(fit.W[:, 0], [1.0, 0.9, 0.9], atol=1e-5)
    np.testing.assert_allclose(fit.psi, [1e-6, 0.19, 0.19], rtol=1e-4)
    assert np.isfinite(fit.log_likelihood_per_row)


# ---------------------------------------------------------------- dense brute force


def test_log_likelihood_is_the_mean_of_the_rows() -> None:
    X = sample(200, 7, 2, seed=1)
    fit = fit_factors(covariance(X), 2)
    C = fit.W @ fit.W.T + np.diag(fit.psi)
    rows = multivariate_normal(X.mean(axis=0), C).logpdf(X)
    assert fit.log_likelihood_per_row == pytest.approx(rows.mean(), rel=1e-12)


@pytest.mark.parametrize(("S", "q"), [(ABILITY, 2), (harman(), 4)], ids=["ability", "harman"])
def test_score_is_zero_at_the_optimum(S: np.ndarray, q: int) -> None:
    fit = fit_factors(S, q)
    assert score_norm(S, fit.W, fit.psi) < 1e-7


def test_finite_differences_are_zero_at_the_optimum() -> None:
    R = ABILITY / np.sqrt(np.outer(np.diag(ABILITY), np.diag(ABILITY)))
    fit = fit_factors(R, 2)
    packed = np.concatenate([fit.W.ravel(), fit.psi])

    def at(p: np.ndarray) -> float:
        return dense_log_likelihood(R, p[:12].reshape(6, 2), p[12:])

    h = 1e-5
    slopes = [(at(packed + h * e) - at(packed - h * e)) / (2 * h) for e in np.eye(18)]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-6)
    away = packed * 1.01
    assert max(abs(at(away + h * e) - at(away - h * e)) / (2 * h) for e in np.eye(18)) > 1e-3


def test_derivatives_of_the_profile_by_finite_differences() -> None:
    R = harman()
    problem = factor_covariance._Problem(R, 3, 1e-8, np.log(1e-6), -np.inf)
    theta = np.log(np.random.default_rng(0).uniform(0.2, 0.9, 24))
    at = factor_covariance._profile(theta, problem, exact=True)
    h = 1e-5
    sides = [
        (
            factor_covariance._profile(theta + h * e, problem, exact=True),
            factor_covariance._profile(theta - h * e, problem, exact=True),
        )
        for e in np.eye(24)
    ]
    gradient = [(up.value - down.value) / (2 * h) for up, down in sides]
    hessian = [(up.gradient - down.gradient) / (2 * h) for up, down in sides]
    np.testing.assert_allclose(at.gradient, gradient, atol=1e-7)
    np.testing.assert_allclose(factor_covariance._hessian(at), hessian, atol=1e-7)


def test_high_dimension_where_the_model_is_wrong() -> None:
    """No factor structure at d = 160: the cheap Hessian is too slow and hands over."""
    rng = np.random.default_rng(2)
    mixing = np.linalg.qr(rng.normal(size=(160, 160)))[0]
    X = rng.normal(size=(400, 160)) / np.arange(1, 161) ** 0.5 @ mixing
    S = covariance(X + 0.1 * rng.normal(size=X.shape))
    fit = fit_factors(S, 5)
    assert fit.converged
    sd = np.sqrt(np.diag(S))
    assert score_norm(S / np.outer(sd, sd), fit.W / sd[:, None], fit.psi / sd**2) < 1e-6


# ---------------------------------------------------------------- laws


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), q=st.integers(1, 3), powers=st.data())
def test_rescaling_a_feature_rescales_its_row(seed: int, q: int, powers: st.DataObject) -> None:
    """002 section 3.3. Powers of two are exact in floating point, so the law is exact too."""
    exponent = powers.draw(st.lists(st.integers(-20, 20), min_size=8, max_size=8))
    scale = 2.0 ** np.array(exponent)
    S = covariance(sample(100, 8, 2, seed))
    plain, scaled = fit_factors(S, q), fit_factors(S * np.outer(scale, scale), q)
    np.testing.assert_array_equal(scaled.W, plain.W * scale[:, None])
    np.testing.assert_array_equal(scaled.psi, plain.psi * scale**2)
    assert scaled.heywood == plain.heywood
    assert scaled.log_likelihood_per_row == pytest.approx(
        plain.log_likelihood_per_row - np.sum(np.log(scale)), rel=1e-12
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), q=st.integers(0, 7))
def test_solution_laws(seed: int, q: int) -> None:
    S = covariance(sample(60, 8, 2, seed))
    fit = fit_factors(S, q)
    assert fit.converged
    assert len(fit.trace) == fit.n_iter + 1
    assert fit.trace[-1] == fit.log_likelihood_per_row
    assert np.all(np.diff(fit.trace) >= -1e-7)  # rounding at psi = 1e-6, where 1/psi cancels
    assert fit.log_likelihood_per_row == pytest.approx(
        dense_log_likelihood(S, fit.W, fit.psi), abs=1e-6
    )
    signal = fit.W.T @ (fit.W / fit.psi[:, None])
    diagonal = np.diag(signal)
    assert np.all(np.diff(diagonal) <= 1e-9 * diagonal[:1].sum())
    np.testing.assert_allclose(signal, np.diag(diagonal), atol=1e-8 * max(diagonal, default=1.0))
    proper = np.setdiff1d(np.arange(8), fit.heywood)
    implied = np.sum(fit.W**2, axis=1) + fit.psi
    np.testing.assert_allclose(implied[proper], np.diag(S)[proper], rtol=1e-4)
    assert np.all(fit.psi >= 1e-6 * np.diag(S) * (1 - 1e-12))
    assert np.all(fit.psi <= np.diag(S) * (1 + 1e-12))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_more_factors_never_fit_worse(seed: int) -> None:
    S = covariance(sample(200, 7, 2, seed))
    values = [fit_factors(S, q).log_likelihood_per_row for q in range(7)]
    d = len(S)
    saturated = -0.5 * (d * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + d)
    assert np.all(np.diff(values) >= -1e-7)
    assert values[-1] <= saturated + 1e-7


@pytest.mark.parametrize("q", [1, 3, 8, 15])
def test_fewer_rows_than_features(q: int) -> None:
    S = covariance(sample(10, 20, 3, seed=3))
    fit = fit_factors(S, q)
    assert fit.converged
    assert np.all(np.isfinite(fit.W))
    assert np.all(fit.psi > 0)
    assert fit.log_likelihood_per_row == pytest.approx(
        dense_log_likelihood(S, fit.W, fit.psi), abs=1e-4
    )


def test_duplicated_columns_share_a_factor_at_the_floor() -> None:
    X = sample(100, 6, 1, seed=4)
    fit = fit_factors(covariance(np.column_stack([X, 2.0 * X[:, 0]])), 2)
    assert fit.converged
    assert {0, 6} <= set(fit.heywood)
    np.testing.assert_allclose(fit.W[6], 2.0 * fit.W[0], rtol=1e-3)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("S", "q", "message"),
    [
        (np.diag([1.0, 0.0, 2.0]), 1, "feature 1 has no variance"),
        (np.eye(3), 3, "q must be in 0..2"),
        (np.eye(3), -1, "q must be in 0..2"),
        (np.ones((2, 3)), 1, "square"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), 1, "not finite"),
    ],
)
def test_errors_say_what_is_wrong(S: np.ndarray, q: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_factors(S, q)


@pytest.mark.parametrize("floor", [0.0, 1.0, float("nan")])
def test_floor_is_a_share_of_the_variance(floor: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        fit_factors(ABILITY, 1, floor=floor)
