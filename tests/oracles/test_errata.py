"""Errata of the lecture notes and reports that the project grew from: docs/errata.md.

Each case shows on numbers that the printed formula fails and that its correction holds. Nothing
here imports the package: the cases are about the mathematics, in dense NumPy.
"""

from __future__ import annotations

import csv
import re
from importlib import resources
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

N, D, Q = 200, 5, 2


@pytest.fixture
def X() -> np.ndarray:
    """Centred correlated data (N, D) with well-separated eigenvalues."""
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((D, D)))[0] * np.sqrt([9.0, 4.0, 1.0, 0.5, 0.2])
    X = rng.standard_normal((N, D)) @ mixing.T
    return X - X.mean(axis=0)


def eigen(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues descending and their eigenvectors as columns."""
    lam, U = np.linalg.eigh(S)
    return lam[::-1], U[:, ::-1]


def covariance(X: np.ndarray) -> np.ndarray:
    return X.T @ X / len(X)


def closed_form(S: np.ndarray, q: int = Q) -> tuple[np.ndarray, float]:
    """W and sigma2 of maximum likelihood (Tipping and Bishop 1999, Eqs. 7 and 8)."""
    lam, U = eigen(S)
    sigma2 = lam[q:].mean()
    return U[:, :q] * np.sqrt(lam[:q] - sigma2), sigma2


def log_likelihood(X: np.ndarray, mu: np.ndarray, C: np.ndarray) -> float:
    """Sum over rows of ln N(x_seen | mu_seen, C_seen): the definition, row by row."""
    total = 0.0
    for x in X:
        seen = ~np.isnan(x)
        r, Cs = x[seen] - mu[seen], C[np.ix_(seen, seen)]
        _, log_det = np.linalg.slogdet(Cs)
        total -= 0.5 * (seen.sum() * np.log(2 * np.pi) + log_det + r @ np.linalg.solve(Cs, r))
    return total


def gradient(f, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of a scalar function of an array."""
    g = np.empty(x.size)
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = step
        e = e.reshape(x.shape)
        g[i] = (f(x + e) - f(x - e)) / (2 * step)
    return g.reshape(x.shape)


# --- 000: lecture 13, CSE517A ----------------------------------------------------------------


def test_000_eq_13_whitens_to_identity_over_n(X: np.ndarray) -> None:
    U, s, _ = np.linalg.svd(X.T, full_matrices=False)  # 000 has features in rows
    printed = np.diag(1 / s) @ U.T @ X.T
    np.testing.assert_allclose(printed @ printed.T / N, np.eye(D) / N, atol=1e-12)
    corrected = np.sqrt(N) * printed
    np.testing.assert_allclose(corrected @ corrected.T / N, np.eye(D), atol=1e-12)


def test_000_eq_20_has_the_constant_d_not_r(X: np.ndarray) -> None:
    W, sigma2 = closed_form(covariance(X))
    C = W @ W.T + sigma2 * np.eye(D)
    rest = N * np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, X.T @ X))
    truth = log_likelihood(X, np.zeros(D), C)
    assert -0.5 * (N * D * np.log(2 * np.pi) + rest) == pytest.approx(truth, rel=1e-12)
    printed = -0.5 * (N * Q * np.log(2 * np.pi) + rest)
    assert printed - truth == pytest.approx(0.5 * N * (D - Q) * np.log(2 * np.pi), rel=1e-9)


def test_000_u1_needs_the_inverse_of_the_factorisation(X: np.ndarray) -> None:
    G = X.T @ X
    lam, U = eigen(G)
    printed = U @ np.diag(lam) @ U.T  # what (XX')^-1 is first set equal to: XX' itself
    np.testing.assert_allclose(printed, G, rtol=1e-9, atol=1e-9)
    corrected = np.linalg.inv(U @ np.diag(lam) @ U.T)
    np.testing.assert_allclose(corrected, U @ np.diag(1 / lam) @ U.T, atol=1e-12)
    np.testing.assert_allclose(corrected @ G, np.eye(D), atol=1e-10)


def test_000_lambda_of_the_scatter_is_n_times_lambda_of_the_covariance(X: np.ndarray) -> None:
    singular = np.linalg.svd(X, compute_uv=False)
    of_scatter, of_covariance = eigen(X.T @ X)[0], eigen(covariance(X))[0]
    np.testing.assert_allclose(singular, np.sqrt(of_scatter), rtol=1e-10)  # section 3.1
    np.testing.assert_allclose(singular, np.sqrt(N * of_covariance), rtol=1e-10)  # section 2
    assert not np.allclose(singular, np.sqrt(of_covariance))


# --- 001: lecture 17, CS 475 -----------------------------------------------------------------


def test_001_columns_of_w_are_scaled_by_the_root_of_lambda_minus_sigma2(X: np.ndarray) -> None:
    S = covariance(X)
    lam, U = eigen(S)
    sigma2 = lam[Q:].mean()
    root = U[:, :Q] * np.sqrt(lam[:Q] - sigma2)
    printed = U[:, :Q] * (lam[:Q] - sigma2)
    along_axes = lambda W: np.diag(U.T @ (W @ W.T + sigma2 * np.eye(D)) @ U)  # noqa: E731
    np.testing.assert_allclose(along_axes(root)[:Q], lam[:Q], rtol=1e-10)
    np.testing.assert_allclose(along_axes(root)[Q:], sigma2, rtol=1e-10)
    assert not np.allclose(along_axes(printed)[:Q], lam[:Q], rtol=0.1)


# --- 002: report on PPCA ---------------------------------------------------------------------


def test_002_section_2_2_w_is_d_by_q(X: np.ndarray) -> None:
    """Only a (d, q) matrix takes x of q entries to t of d entries with covariance (d, d)."""
    W, _ = closed_form(covariance(X))
    x = np.ones(Q)
    assert (W @ x).shape == (D,)
    assert (W @ W.T).shape == (D, D)
    with pytest.raises(ValueError, match="mismatch"):
        W.T @ x  # (q, d), as printed


def test_002_case_3_has_w_different_from_zero(X: np.ndarray) -> None:
    """The printed case 3 (W = 0) is case 1; maximum likelihood is the case with W != 0, C != S."""
    S = covariance(X)
    W, sigma2 = closed_form(S)
    C = W @ W.T + sigma2 * np.eye(D)
    np.testing.assert_allclose(S @ np.linalg.solve(C, W), W, atol=1e-10)
    assert np.linalg.norm(W) > 1
    assert np.linalg.norm(C - S) > 0.1
    at_zero = log_likelihood(X, np.zeros(D), np.trace(S) / D * np.eye(D))
    assert log_likelihood(X, np.zeros(D), C) > at_zero + 10


def test_002_eq_25_has_eigenvectors_in_front(X: np.ndarray) -> None:
    S = covariance(X)
    lam, U = eigen(S)
    W, sigma2 = closed_form(S)
    scale = np.diag(np.sqrt(lam[:Q] - sigma2))
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((Q, Q)))[0]

    def off_stationarity(W: np.ndarray) -> float:  # Eq. 19
        C = W @ W.T + sigma2 * np.eye(D)
        return float(np.linalg.norm(S @ np.linalg.solve(C, W) - W))

    assert off_stationarity(U[:, :Q] @ scale @ rotation) < 1e-10
    assert off_stationarity(W @ scale @ rotation) > 0.1  # W_q, as printed


def discarded_measure(lam: np.ndarray) -> float:
    """E of Eq. 29 with its lost logarithm: ln of the mean minus mean of the ln."""
    return float(np.log(lam.mean()) - np.log(lam).mean())


def printed_discarded_measure(lam: np.ndarray) -> float:
    return float(np.log(lam.mean()) - lam.mean())


def test_002_eq_29_is_ln_of_the_mean_minus_mean_of_the_ln(X: np.ndarray) -> None:
    """Over every choice of discarded eigenvalues L + N (d - q) E / 2 has to be constant."""
    lam, _ = eigen(covariance(X))
    constant, printed_constant = [], []
    for kept in combinations(range(D), Q):
        out = np.delete(lam, kept)
        likelihood = -0.5 * N * (np.log(lam[list(kept)]).sum() + (D - Q) * np.log(out.mean()))
        constant.append(likelihood + 0.5 * N * (D - Q) * discarded_measure(out))
        printed_constant.append(likelihood + 0.5 * N * (D - Q) * printed_discarded_measure(out))
        assert discarded_measure(out) >= 0  # Jensen's inequality, as 002 says
    assert np.ptp(constant) < 1e-8
    assert np.ptp(printed_constant) > 1
    assert printed_discarded_measure(lam[:3]) < 0


def test_002_eq_30_is_the_derivative_of_the_corrected_eq_29(X: np.ndarray) -> None:
    out = eigen(covariance(X))[0][Q:]
    printed_eq_30 = 1 / out.sum() - 1 / (len(out) * out)
    np.testing.assert_allclose(gradient(discarded_measure, out), printed_eq_30, rtol=1e-6)
    assert not np.allclose(gradient(printed_discarded_measure, out), printed_eq_30, rtol=0.1)


def e_step(X: np.ndarray, W: np.ndarray, sigma2: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means (n, q) and the shared posterior covariance (q, q), complete centred data."""
    S = np.linalg.inv(np.eye(W.shape[1]) + W.T @ W / sigma2)
    return X @ W @ S / sigma2, S


def test_002_eq_44_sums_squared_residuals(X: np.ndarray) -> None:
    """On complete data Eq. 44 has to be Eq. 40, the M-step of sigma2."""
    rng = np.random.default_rng(2)
    Z, S = e_step(X, rng.standard_normal((D, Q)), 0.7)
    W = np.linalg.solve(N * S + Z.T @ Z, Z.T @ X).T  # Eq. 43
    Ezz = N * S + Z.T @ Z
    eq_40 = (np.sum(X**2) - 2 * np.sum(Z * (X @ W)) + np.trace(Ezz @ W.T @ W)) / (N * D)
    residuals = np.linalg.norm(X - Z @ W.T, axis=1)
    spread = N * np.trace(W @ S @ W.T)
    assert (spread + np.sum(residuals**2)) / (N * D) == pytest.approx(eq_40, rel=1e-12)
    assert (spread + np.sum(residuals)) / (N * D) != pytest.approx(eq_40, rel=0.1)


def gappy(X: np.ndarray) -> np.ndarray:
    X = X + np.arange(1.0, D + 1)
    X[np.random.default_rng(3).random(X.shape) < 0.3] = np.nan
    return X[~np.isnan(X).all(axis=1)]


def shared_covariance_em(X: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Eqs. 43 to 45 with the square restored: one posterior covariance for all rows, fixed mean."""
    gaps = np.isnan(X)
    mu = np.nanmean(X, axis=0)
    filled = np.where(gaps, 0.0, X - mu)
    W, sigma2 = closed_form(covariance(filled))
    Z, _ = e_step(filled, W, sigma2)
    for _ in range(steps):
        filled = np.where(gaps, Z @ W.T, filled)
        Z, S = e_step(filled, W, sigma2)
        W = np.linalg.solve(len(X) * S + Z.T @ Z, Z.T @ filled).T
        squares = np.sum((filled - Z @ W.T) ** 2) + len(X) * np.trace(W @ S @ W.T)
        sigma2 = (squares + gaps.sum() * sigma2) / X.size
    return mu, W, sigma2


def exact_em(X: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """EM with the missing cells as hidden data: expected moments, then the closed form."""
    mu = np.nanmean(X, axis=0)
    W, sigma2 = closed_form(covariance(np.where(np.isnan(X), 0.0, X - mu)))
    for _ in range(steps):
        C = W @ W.T + sigma2 * np.eye(D)
        filled, extra = X.copy(), np.zeros((D, D))
        for x in filled:
            hid = np.isnan(x)
            K = np.linalg.solve(C[np.ix_(~hid, ~hid)], C[np.ix_(~hid, hid)]).T
            x[hid] = mu[hid] + K @ (x[~hid] - mu[~hid])
            extra[np.ix_(hid, hid)] += C[np.ix_(hid, hid)] - K @ C[np.ix_(~hid, hid)]
        mu = filled.mean(axis=0)
        W, sigma2 = closed_form(covariance(filled - mu) + extra / len(X))
    return mu, W, sigma2


def test_002_eqs_43_to_45_do_not_reach_the_observed_data_maximum(X: np.ndarray) -> None:
    X = gappy(X[:60])

    def objective(parameters: np.ndarray) -> float:
        mu, W = parameters[:D], parameters[D:-1].reshape(D, Q)
        return log_likelihood(X, mu, W @ W.T + np.exp(parameters[-1]) * np.eye(D))

    def flat(mu: np.ndarray, W: np.ndarray, sigma2: float) -> np.ndarray:
        return np.concatenate([mu, W.ravel(), [np.log(sigma2)]])

    approximate, again = (flat(*shared_covariance_em(X, steps)) for steps in (300, 400))
    np.testing.assert_allclose(approximate, again, atol=1e-10)  # it has converged
    exact = flat(*exact_em(X, 60))
    assert np.abs(gradient(objective, exact)).max() < 1e-5
    assert np.abs(gradient(objective, approximate)).max() > 1
    assert objective(exact) > objective(approximate) + 0.5


def test_002_section_4_3_uses_the_original_table_not_the_diagnostic_one() -> None:
    from sklearn.datasets import load_breast_cancer

    shipped = resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
    with shipped.open(encoding="utf-8") as stream:
        header, *rows = list(csv.reader(stream))
    features = np.array([row[1:-1] for row in rows])
    assert header[0] == "id"
    assert header[-1] == "diagnosis"
    assert features.shape == (699, 9)  # the size that 002 section 4.1 states
    assert np.sum(features == "") == 16
    assert set(np.unique(features)) == {"", *map(str, range(1, 11))}
    assert load_breast_cancer().data.shape == (569, 30)  # the Diagnostic table, named in 4.3


# --- 003: lecture 19, COMS 4721 --------------------------------------------------------------


def printed_m_step(X: np.ndarray, Z: np.ndarray, S: np.ndarray, sigma2: float) -> np.ndarray:
    return X.T @ Z @ np.linalg.inv(sigma2 * np.eye(Q) + Z.T @ Z + len(X) * S)


def test_003_m_step_is_map_under_a_unit_gaussian_prior_on_w(X: np.ndarray) -> None:
    sigma2 = 0.7
    Z, S = e_step(X, np.random.default_rng(4).standard_normal((D, Q)), sigma2)

    def expected_log_joint(W: np.ndarray) -> float:
        squares = np.sum((X - Z @ W.T) ** 2) + N * np.trace(W @ S @ W.T)
        return -0.5 * squares / sigma2

    def with_prior(W: np.ndarray) -> float:
        return expected_log_joint(W) - 0.5 * np.sum(W**2)

    printed = printed_m_step(X, Z, S, sigma2)
    ml = X.T @ Z @ np.linalg.inv(Z.T @ Z + N * S)
    assert np.abs(gradient(with_prior, printed)).max() < 1e-4
    np.testing.assert_allclose(gradient(expected_log_joint, printed), printed, atol=1e-4)
    assert np.abs(gradient(expected_log_joint, ml)).max() < 1e-4


def test_003_em_converges_to_the_map_estimate_not_to_ml(X: np.ndarray) -> None:
    X, sigma2 = X[:20], 0.7  # few rows, so that the prior is seen
    W = np.random.default_rng(5).standard_normal((D, Q))
    for _ in range(2000):
        W = printed_m_step(X, *e_step(X, W, sigma2), sigma2)

    def likelihood(W: np.ndarray) -> float:
        return log_likelihood(X, np.zeros(D), W @ W.T + sigma2 * np.eye(D))

    np.testing.assert_allclose(gradient(likelihood, W), W, atol=1e-4)  # = minus the prior's
    assert np.abs(W).max() > 0.5


def test_003_kernel_pca_scores_are_root_lambda_times_those_of_pca(X: np.ndarray) -> None:
    """With a linear kernel on centred data kernel PCA has to be PCA.

    000 Eq. 17 with unit eigenvectors of K gives the same as 003.
    """
    lam, U = eigen(X.T @ X)
    pca = X @ U[:, :Q]
    K = X @ X.T
    lam_k, a = eigen(K)
    lam_k, a = lam_k[:Q], a[:, :Q]
    np.testing.assert_allclose(lam_k, lam[:Q], rtol=1e-9)
    np.testing.assert_allclose(K @ a, lam_k * a, atol=1e-8)  # 000 Eq. 17 = 003's lambda a
    np.testing.assert_allclose(np.abs(lam_k * a), np.sqrt(lam_k) * np.abs(pca), atol=1e-7)
    np.testing.assert_allclose(np.abs(np.sqrt(lam_k) * a), np.abs(pca), atol=1e-8)


def test_003_kernel_pca_needs_a_centred_kernel(X: np.ndarray) -> None:
    shifted = X + 10.0
    H = np.eye(N) - 1 / N
    K = shifted @ shifted.T
    spectrum = eigen(X.T @ X)[0]
    np.testing.assert_allclose(eigen(H @ K @ H)[0][:D], spectrum, rtol=1e-8)
    assert eigen(K)[0][0] > 10 * spectrum[0]  # the printed route finds the mean, not the variance


# --- 004: post on dimension reduction --------------------------------------------------------


def test_004_section_2_1_projects_by_w_transposed(X: np.ndarray) -> None:
    lam, U = eigen(covariance(X))
    W = U[:, :Q]  # (D, M) as 004 declares it
    projected = X @ W  # rows W' x
    np.testing.assert_allclose(covariance(projected), np.diag(lam[:Q]), atol=1e-10)
    with pytest.raises(ValueError, match="mismatch"):
        W @ X[0]


def test_004_section_3_2_log_likelihood_has_minus_n_half_before_the_trace(X: np.ndarray) -> None:
    S = covariance(X)
    W, sigma2 = closed_form(S)
    C = W @ W.T + sigma2 * np.eye(D)
    log_det, trace = np.linalg.slogdet(C)[1], np.trace(np.linalg.solve(C, S))
    second_line = -0.5 * N * log_det - 0.5 * np.einsum("ni,ij,nj->", X, np.linalg.inv(C), X)
    truth = log_likelihood(X, np.zeros(D), C) + 0.5 * N * D * np.log(2 * np.pi)
    assert second_line == pytest.approx(truth, rel=1e-10)
    assert -0.5 * N * (log_det + trace) == pytest.approx(truth, rel=1e-10)
    assert -0.5 * N * log_det + trace != pytest.approx(truth, rel=0.1)  # as printed


def test_004_as_sigma2_vanishes_scores_become_whitened(X: np.ndarray) -> None:
    lam, V = eigen(covariance(X))
    lam, V = lam[:Q], V[:, :Q]
    sigma2 = 1e-10
    W = V * np.sqrt(lam - sigma2)
    F = W.T @ W + sigma2 * np.eye(Q)
    Z = X @ W @ np.linalg.inv(F)
    np.testing.assert_allclose(W, V * np.sqrt(lam), atol=1e-8)  # not V
    np.testing.assert_allclose(F, np.diag(lam), atol=1e-8)  # not I
    np.testing.assert_allclose(Z, X @ V / np.sqrt(lam), atol=1e-7)  # not V' x
    np.testing.assert_allclose(covariance(Z), np.eye(Q), atol=1e-7)
    assert not np.allclose(W, V, atol=0.1)
    assert not np.allclose(Z, X @ V, atol=0.1)


def test_004_section_2_2_singular_values_are_roots_of_eigenvalues(X: np.ndarray) -> None:
    singular = np.linalg.svd(X, compute_uv=False)
    lam = eigen(X.T @ X)[0]
    np.testing.assert_allclose(singular**2, lam, rtol=1e-10)
    assert not np.allclose(singular, lam, rtol=0.1)  # S = eval(X'X), as printed


def test_every_test_that_the_errata_page_names_is_there() -> None:
    """Here, or beside the class that it is about."""
    page = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\d\d\d_\w+)`", page))
    here = Path(__file__).parent
    written = {
        name
        for path in here.glob("test_*.py")
        for name in re.findall(r"^def (test_\d\d\d_\w+)", path.read_text(encoding="utf-8"), re.M)
    }
    assert {name for name in globals() if re.match(r"test_\d\d\d_", name)} <= named <= written
