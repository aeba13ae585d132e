"""Errata of the lecture notes and reports that the project grew from: docs/errata.md.

Each case shows on numbers that the printed formula fails and that its correction holds. Nothing
here calls the package: the cases are about the mathematics, in dense NumPy. One of them reads a
table that the package ships.
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
        observed = ~np.isnan(x)
        r, Cs = x[observed] - mu[observed], C[np.ix_(observed, observed)]
        _, log_det = np.linalg.slogdet(Cs)
        total -= 0.5 * (observed.sum() * np.log(2 * np.pi) + log_det + r @ np.linalg.solve(Cs, r))
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


def test_000_projections_have_covariance_lambda_not_a_multiple_of_identity(X: np.ndarray) -> None:
    C = covariance(X)
    lam, U = eigen(C)
    lam, U = lam[:Q], U[:, :Q]
    np.testing.assert_allclose(U.T @ C @ U, U.T @ U @ np.diag(lam), atol=1e-10)
    np.testing.assert_allclose(U.T @ C @ U, np.diag(lam), atol=1e-10)
    for scalar in (*lam, lam.mean()):  # lambda I, as printed: each lambda is another one
        assert not np.allclose(U.T @ C @ U, scalar * np.eye(Q), rtol=0.1)


def test_000_proof_of_mds_multiplies_both_sides_by_v_transposed(X: np.ndarray) -> None:
    data = X.T  # 000 has features in rows
    U, s, Vt = np.linalg.svd(data, full_matrices=False)
    U, s, V = U[:, :Q], s[:Q], Vt[:Q].T
    right = np.diag(1 / s) @ np.diag(s**2) @ V.T
    np.testing.assert_allclose(U.T @ data @ V @ V.T, right, atol=1e-9)
    np.testing.assert_allclose(U.T @ data, right, atol=1e-9)  # the theorem
    assert (U.T @ data @ V).shape == (Q, Q)  # the left side as printed
    assert right.shape == (Q, N)


def test_000_eigenvalues_of_a_gram_matrix_that_count_are_the_positive_ones(X: np.ndarray) -> None:
    lam = eigen(X @ X.T)[0]
    noise = 1e-9 * lam[0]
    assert np.sum(lam > noise) == np.linalg.matrix_rank(X) == D
    assert np.sum(lam >= -noise) == N  # not one is negative: as printed, the dimension is n


def test_000_eq_16_needs_the_factor_one_over_n_lambda(X: np.ndarray) -> None:
    """The feature map is the identity, so that u can be written down."""
    lam, U = eigen(covariance(X))
    a = X @ U  # Eq. 15: a_i = phi(x_i)' u
    np.testing.assert_allclose(X.T @ a / (N * lam), U, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(X.T @ a, axis=0), N * lam, rtol=1e-9)  # Eq. 16: not 1


def test_000_gplvm_has_the_gram_matrix_of_the_latent_points() -> None:
    """Weights u ~ N(0, I) of each feature integrated out: its values at the n points."""
    rng = np.random.default_rng(6)
    n, features, sigma2 = 4, 40_000, 0.5
    V = rng.standard_normal((Q, n))  # latent points, in columns
    noise = np.sqrt(sigma2) * rng.standard_normal((features, n))
    data = rng.standard_normal((features, Q)) @ V + noise
    over_the_points = data.T @ data / features
    np.testing.assert_allclose(over_the_points, V.T @ V + sigma2 * np.eye(n), atol=0.1)
    printed = data.T @ data + sigma2 * np.eye(n)
    assert not np.allclose(over_the_points, printed, rtol=0.5)


def test_000_appendix_derives_the_marginal_not_the_conditional(X: np.ndarray) -> None:
    W, sigma2 = closed_form(covariance(X))
    draw = np.block([[np.eye(Q), np.zeros((Q, D))], [W, np.sqrt(sigma2) * np.eye(D)]])
    joint = draw @ draw.T  # covariance of (v, x), x = W v + noise
    printed = W @ W.T + sigma2 * np.eye(D)
    np.testing.assert_allclose(joint[Q:, Q:], printed, atol=1e-12)  # of x
    precision = np.linalg.inv(joint)
    given_v = np.linalg.inv(precision[Q:, Q:])
    np.testing.assert_allclose(given_v, sigma2 * np.eye(D), atol=1e-10)  # of x given v
    np.testing.assert_allclose(-given_v @ precision[Q:, :Q], W, atol=1e-10)  # its mean is W v
    assert not np.allclose(given_v, printed, atol=0.1)


def test_000_svd_saves_an_order_over_pca_only_where_n_is_less_than_d() -> None:
    sizes = (3, 10, 100, 1000)
    for n in sizes:
        for d in sizes:
            pca = d**2 * n + d**3
            if d <= n:
                assert pca <= 2 * d**2 * n  # O(d^2 n + d^3) is O(d^2 n), the order of the SVD
            else:
                assert pca > (d / n) ** 2 * (n**2 * d)  # O(n^2 d) is less, by more than (d/n)^2


def em_iterations(lam: list[float]) -> int:
    """Iterations of EM until W W' is within 1e-6 of maximum likelihood, for S = diag(lam)."""
    S = np.diag(lam)
    best = closed_form(S)[0]
    W, sigma2 = np.random.default_rng(7).standard_normal((D, Q)), 1.0
    for iteration in range(10_000):
        if np.linalg.norm(W @ W.T - best @ best.T) < 1e-6:
            return iteration
        M = W.T @ W + sigma2 * np.eye(Q)
        new = S @ W @ np.linalg.inv(sigma2 * np.eye(Q) + np.linalg.solve(M, W.T @ S @ W))
        sigma2 = np.trace(S - S @ W @ np.linalg.solve(M, new.T)) / D
        W = new
    raise AssertionError("EM did not converge")


def test_000_cost_of_em_is_per_iteration() -> None:
    """d, r and n do not bound the number of iterations: it grows as the eigengap closes."""
    wide, narrow = em_iterations([9, 4, 1, 0.5, 0.2]), em_iterations([9, 1.01, 1, 0.5, 0.2])
    assert wide > 1
    assert narrow > 5 * wide


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


def test_001_not_any_subset_of_eigenvectors_gives_a_real_w(X: np.ndarray) -> None:
    S = covariance(X)
    lam, U = eigen(S)
    real = []
    for kept in map(list, combinations(range(D), Q)):
        sigma2 = np.delete(lam, kept).mean()
        if lam[kept].min() < sigma2:  # L - sigma2 I has no real root
            continue
        W = U[:, kept] * np.sqrt(lam[kept] - sigma2)
        C = W @ W.T + sigma2 * np.eye(D)
        np.testing.assert_allclose(S @ np.linalg.solve(C, W), W, atol=1e-9)  # stationary
        real.append(kept)
    assert [0, 1] in real
    assert [D - 2, D - 1] not in real


# --- 002: report on PPCA ---------------------------------------------------------------------


def test_002_section_2_2_w_is_d_by_q(X: np.ndarray) -> None:
    """Only a (d, q) matrix takes x of q entries to t of d entries with covariance (d, d)."""
    W, _ = closed_form(covariance(X))
    x = np.ones(Q)
    assert (W @ x).shape == (D,)
    assert (W @ W.T).shape == (D, D)
    with pytest.raises(ValueError, match="mismatch"):
        W.T @ x  # (q, d), as printed


def test_002_eq_3_projects_by_w_transposed(X: np.ndarray) -> None:
    W = eigen(covariance(X))[1][:, :Q]  # (d, q), orthonormal columns
    least_squares = np.linalg.lstsq(W, X.T, rcond=None)[0]
    np.testing.assert_allclose(W.T @ X.T, least_squares, atol=1e-10)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(W)  # as printed


def test_002_case_1_is_a_saddle_not_a_minimum(X: np.ndarray) -> None:
    lam, U = eigen(covariance(X))
    sigma2 = lam.mean()  # of maximum likelihood at W = 0

    def likelihood(W: np.ndarray, sigma2: float = sigma2) -> float:
        return log_likelihood(X, np.zeros(D), W @ W.T + sigma2 * np.eye(D))

    zero = np.zeros((D, Q))
    assert np.abs(gradient(likelihood, zero)).max() < 1e-6
    for value, u in zip(lam, U.T, strict=True):
        rise = likelihood(0.1 * np.outer(u, np.eye(Q)[0])) - likelihood(zero)
        assert np.sign(rise) == np.sign(value - sigma2)
    assert lam[0] > sigma2 > lam[-1]  # so there are both signs
    assert likelihood(zero) > max(likelihood(zero, sigma2 * f) for f in (0.9, 1.1))


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


def test_002_after_eq_30_compares_with_the_mean_of_the_discarded() -> None:
    rng = np.random.default_rng(8)
    swaps_that_raise = {"discarded": 0, "retained": 0}
    cases = {"discarded": 0, "retained": 0}
    for _ in range(200):
        lam = rng.permutation(rng.exponential(size=D))
        kept, out = lam[:Q], lam[Q:]
        swapped = np.concatenate([kept[:1], out[1:]])  # kept[0] takes the place of out[0]
        for name, mean in (("discarded", out.mean()), ("retained", kept.mean())):
            if min(out[0], mean) < kept[0] < max(out[0], mean):
                cases[name] += 1
                swaps_that_raise[name] += discarded_measure(swapped) > discarded_measure(out)
    assert min(cases.values()) > 20
    assert swaps_that_raise["discarded"] == 0
    assert swaps_that_raise["retained"] > 0  # as printed


def test_002_e_has_a_single_minimum_but_is_not_convex() -> None:
    others = np.array([1.0, 2.0])
    grid = np.linspace(0.1, 30, 2000)
    E = np.array([discarded_measure(np.append(others, value)) for value in grid])
    lowest = np.argmin(E)
    assert grid[lowest] == pytest.approx(others.mean(), abs=0.02)
    assert np.all(np.diff(E)[:lowest] < 0)
    assert np.all(np.diff(E)[lowest:] > 0)
    bend, inner = np.diff(E, 2), grid[1:-1]
    turn = others.sum() / (np.sqrt(3) - 1)  # others' sum / (sqrt(d - q') - 1)
    assert np.all(bend[inner < turn - 0.1] > 0)
    assert np.all(bend[inner > turn + 0.1] < 0)  # convex, as printed, it would be above 0


def e_step(X: np.ndarray, W: np.ndarray, sigma2: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means (n, q) and the shared posterior covariance (q, q), complete centred data."""
    S = np.linalg.inv(np.eye(W.shape[1]) + W.T @ W / sigma2)
    return X @ W @ S / sigma2, S


def m_step(X: np.ndarray, Z: np.ndarray, S: np.ndarray) -> tuple[np.ndarray, float]:
    """Eqs. 39 and 40."""
    W = X.T @ Z @ np.linalg.inv(Z.T @ Z + len(X) * S)
    squares = np.sum((X - Z @ W.T) ** 2) + len(X) * np.trace(W @ S @ W.T)
    return W, squares / X.size


def test_002_eq_33_lacks_the_entropy_of_q(X: np.ndarray) -> None:
    """Only with the entropy is it a bound that EM never lowers and that the E-step makes tight."""
    W, sigma2 = 3 * np.random.default_rng(9).standard_normal((D, Q)), 1.0
    printed, bound, truth = [], [], []
    for _ in range(20):
        Z, S = e_step(X, W, sigma2)
        squares = np.sum((X - Z @ W.T) ** 2) + N * np.trace(W @ S @ W.T)
        latent = np.sum(Z**2) + N * np.trace(S)
        constant = N * ((D + Q) * np.log(2 * np.pi) + D * np.log(sigma2))
        entropy = 0.5 * N * (Q * np.log(2 * np.pi * np.e) + np.linalg.slogdet(S)[1])
        printed.append(-0.5 * (constant + squares / sigma2 + latent))
        bound.append(printed[-1] + entropy)
        truth.append(log_likelihood(X, np.zeros(D), W @ W.T + sigma2 * np.eye(D)))
        W, sigma2 = m_step(X, Z, S)
    np.testing.assert_allclose(bound, truth, rtol=1e-10)
    assert np.all(np.diff(bound) > 0)
    assert np.diff(printed).min() < -1  # Eq. 33, said always to grow


def test_002_eq_36_takes_the_expectation_over_x_given_t() -> None:
    """By a sum over a grid of the one latent variable: Eq. 37 is the mean given t."""
    w, sigma2, t = np.array([1.5, -0.7]), 0.4, np.array([2.0, 0.3])  # d = 2, q = 1, mu = 0
    x, step = np.linspace(-10, 10, 4001, retstep=True)
    squares = np.sum((t - x[:, None] * w) ** 2, axis=1) / sigma2 + x**2
    joint = np.exp(-0.5 * squares) / (2 * np.pi * sigma2 * np.sqrt(2 * np.pi))  # Eq. 35
    eq_37 = w @ t / (w @ w + sigma2)
    given_t = joint / (joint.sum() * step)
    assert np.sum(x * given_t) * step == pytest.approx(eq_37, rel=1e-9)
    assert np.sum(x * joint) * step != pytest.approx(eq_37, rel=0.1)  # as printed


def test_002_eq_43_has_the_posterior_covariance_not_the_sample_covariance(X: np.ndarray) -> None:
    """On complete data Eq. 43 has to be Eq. 39, the M-step of W."""
    sigma2 = 0.7
    W = np.random.default_rng(2).standard_normal((D, Q))
    M = W.T @ W + sigma2 * np.eye(Q)
    Z = X @ W @ np.linalg.inv(M)
    eq_39 = m_step(X, Z, sigma2 * np.linalg.inv(M))[0]
    corrected = np.linalg.solve(N * sigma2 * np.linalg.inv(M) + Z.T @ Z, Z.T @ X)
    np.testing.assert_allclose(corrected, eq_39.T, rtol=1e-9)
    with pytest.raises(ValueError, match="broadcast"):
        N * covariance(X) + Z.T @ Z  # S of Eq. 11 is d x d


def test_002_eq_45_leaves_out_the_mean(X: np.ndarray) -> None:
    """The optimal reconstruction of section 3.4: T is projected about its mean."""
    W, sigma2 = closed_form(covariance(X))
    mu = np.arange(1.0, D + 1)
    T = X + mu
    M = W.T @ W + sigma2 * np.eye(Q)
    onto = W @ np.linalg.inv(W.T @ W)
    latent = np.linalg.solve(M, W.T @ (T - mu).T)
    first_line, second_line = (onto @ M @ latent).T, (onto @ W.T @ T.T).T
    assert not np.allclose(first_line, second_line, atol=0.1)
    corrected = first_line + mu
    np.testing.assert_allclose(corrected, (T - mu) @ W @ onto.T + mu, atol=1e-9)
    least = N * eigen(covariance(X))[0][Q:].sum()  # of PCA
    assert np.sum((T - corrected) ** 2) == pytest.approx(least, rel=1e-9)
    assert np.sum((T - first_line) ** 2) > 2 * least
    assert np.sum((T - second_line) ** 2) > 2 * least


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


def incomplete(X: np.ndarray) -> np.ndarray:
    X = X + np.arange(1.0, D + 1)
    X[np.random.default_rng(3).random(X.shape) < 0.3] = np.nan
    return X[~np.isnan(X).all(axis=1)]


def shared_covariance_em(X: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Eqs. 43 to 45, their slips corrected: one posterior covariance for all rows, fixed mean."""
    missing = np.isnan(X)
    mu = np.nanmean(X, axis=0)
    filled = np.where(missing, 0.0, X - mu)
    W, sigma2 = closed_form(covariance(filled))
    for _ in range(steps):
        onto = W @ np.linalg.solve(W.T @ W, W.T)
        filled = np.where(missing, filled @ onto, filled)  # Eq. 45, of centred rows
        Z, S = e_step(filled, W, sigma2)
        W = np.linalg.solve(len(X) * S + Z.T @ Z, Z.T @ filled).T
        squares = np.sum((filled - Z @ W.T) ** 2) + len(X) * np.trace(W @ S @ W.T)
        sigma2 = (squares + missing.sum() * sigma2) / X.size
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
    X = incomplete(X[:60])

    def objective(parameters: np.ndarray) -> float:
        mu, W = parameters[:D], parameters[D:-1].reshape(D, Q)
        return log_likelihood(X, mu, W @ W.T + np.exp(parameters[-1]) * np.eye(D))

    def flat(mu: np.ndarray, W: np.ndarray, sigma2: float) -> np.ndarray:
        return np.concatenate([mu, W.ravel(), [np.log(sigma2)]])

    approximate, again = (flat(*shared_covariance_em(X, steps)) for steps in (2500, 3000))
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


def test_003_maximum_likelihood_has_a_closed_form(X: np.ndarray) -> None:
    """For a given sigma2, as in 003; EM without the prior climbs to it and no higher."""
    X, sigma2 = X[:20], 0.7

    def likelihood(W: np.ndarray) -> float:
        return log_likelihood(X, np.zeros(D), W @ W.T + sigma2 * np.eye(D))

    lam, U = eigen(covariance(X))
    closed = U[:, :Q] * np.sqrt(np.maximum(lam[:Q] - sigma2, 0))
    assert np.abs(gradient(likelihood, closed)).max() < 1e-5
    for seed in range(3):
        W = np.random.default_rng(seed).standard_normal((D, Q))
        assert likelihood(W) < likelihood(closed)
        for _ in range(500):
            W = m_step(X, *e_step(X, W, sigma2))[0]
        np.testing.assert_allclose(W @ W.T, closed @ closed.T, atol=1e-4)


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


def test_004_section_1_ppca_is_the_special_case_of_factor_analysis() -> None:
    """PPCA leaves d - q equal eigenvalues of C; factor analysis need not, unless psi is equal."""
    W = np.random.default_rng(10).standard_normal((D, Q))
    of_ppca = eigen(W @ W.T + np.diag(np.full(D, 0.5)))[0]  # factor analysis with equal psi
    np.testing.assert_allclose(of_ppca[Q:], 0.5, rtol=1e-10)
    of_factor_analysis = eigen(W @ W.T + np.diag([0.1, 0.3, 0.5, 1.0, 2.0]))[0]
    assert np.ptp(of_factor_analysis[Q:]) > 0.1  # no variant of PPCA


def test_004_section_2_1_lagrangian_subtracts_the_constraint(X: np.ndarray) -> None:
    S = covariance(X)
    lam, U = eigen(S)
    for value, w in zip(lam, U.T, strict=True):

        def lagrangian(w: np.ndarray, sign: int, value: float = value) -> float:
            return float(w @ S @ w + sign * value * (w @ w - 1))

        assert np.abs(gradient(lambda w: lagrangian(w, -1), w)).max() < 1e-6
        printed = gradient(lambda w: lagrangian(w, +1), w)
        np.testing.assert_allclose(printed, 4 * value * w, atol=1e-6)  # not 0: it has S w = -l w


def test_004_section_2_1_variance_is_the_trace(X: np.ndarray) -> None:
    W = np.linalg.qr(np.random.default_rng(11).standard_normal((D, Q)))[0]
    variance = np.sum((X @ W) ** 2) / N
    quadratic = W.T @ covariance(X) @ W
    assert variance == pytest.approx(np.trace(quadratic), rel=1e-12)
    assert quadratic.shape == (Q, Q)  # W'SW, as printed, is no variance for M > 1
    np.testing.assert_allclose(W.T @ W, np.eye(Q), atol=1e-12)  # I, not 1


def test_004_section_2_2_svd_of_rank_min_n_d_is_exact(X: np.ndarray) -> None:
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    assert len(s) == min(N, D)
    np.testing.assert_allclose(U * s @ Vt, X, atol=1e-10)  # r = min(N, D): nothing approximate
    for r in range(1, D):  # an approximation takes r < rank X
        error = np.sum((U[:, :r] * s[:r] @ Vt[:r] - X) ** 2)
        assert error == pytest.approx(np.sum(s[r:] ** 2), rel=1e-9)


def test_004_section_3_1_covariance_has_w_transposed_and_z_fewer_entries() -> None:
    """Expectations over points that have mean 0 and covariance I, so that they are exact."""
    rng = np.random.default_rng(12)

    def moments(size: int) -> np.ndarray:
        z = np.sqrt(size) * np.vstack([np.eye(size), -np.eye(size)])
        return np.einsum("ni,nj->ij", z, z) / len(z)

    W = rng.standard_normal((D, D))  # z of D entries, as printed
    np.testing.assert_allclose(W @ moments(D) @ W.T, W @ W.T, atol=1e-10)
    assert not np.allclose(W @ moments(D) @ W, W @ W.T, atol=0.1)  # as printed
    assert np.linalg.matrix_rank(W @ W.T) == D  # and no dimension is reduced
    W = W[:, :Q]
    assert np.linalg.matrix_rank(W @ moments(Q) @ W.T) == Q


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
