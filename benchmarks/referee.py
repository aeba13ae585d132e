"""One judge for all: plain NumPy, row by row, sharing no code with the package.

A model here is (W, mu, sigma2) of x = W z + mu + e, e ~ N(0, sigma2 I).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular


class Model(NamedTuple):
    W: np.ndarray  # (d, q)
    mu: np.ndarray  # (d,)
    sigma2: float


def log_likelihood(X: np.ndarray, model: Model) -> float:
    """Log-density of the seen cells of X (n, d), nats a row."""
    return judge(X, None, model)[0]


def judge(X: np.ndarray, truth: np.ndarray | None, model: Model) -> tuple[float, float]:
    """Nats a row of the seen cells, and root mean squared error of the hidden ones filled."""
    W, mu, sigma2 = model
    q = W.shape[1]
    total, squares, hidden_cells = 0.0, 0.0, 0
    for i, x in enumerate(X):
        observed = ~np.isnan(x)
        k = np.count_nonzero(observed)
        V, r = W[observed], x[observed] - mu[observed]
        L = np.linalg.cholesky(sigma2 * np.eye(q) + V.T @ V)
        y = solve_triangular(L, V.T @ r, lower=True, check_finite=False)
        log_det = 2 * np.log(np.diag(L)).sum() + (k - q) * np.log(sigma2)
        total -= 0.5 * (k * np.log(2 * np.pi) + log_det + (r @ r - y @ y) / sigma2)
        if truth is not None:
            z = solve_triangular(L.T, y, lower=False, check_finite=False)
            error = W[~observed] @ z + mu[~observed] - truth[i, ~observed]
            squares += error @ error
            hidden_cells += len(error)
    return total / len(X), float(np.sqrt(squares / max(hidden_cells, 1)))


def best_in_subspace(X: np.ndarray, C: np.ndarray, mu: np.ndarray) -> Model:
    """The likeliest model whose loadings span C (d, q) and whose mean is mu.

    Some peers give back axes without the variances along them. With x = C y + mu + e,
    y ~ N(0, T), the maximum over T and sigma2 is more than they can have reached with C.
    """
    C = np.linalg.qr(C)[0]
    n, q = len(X), C.shape[1]
    observed = ~np.isnan(X)
    R = np.where(observed, X - mu, 0.0)
    G = (observed @ (C[:, :, None] * C[:, None, :]).reshape(-1, q * q)).reshape(n, q, q)
    b, rr, cells = R @ C, np.sum(R * R), np.count_nonzero(observed)
    Y = np.linalg.solve(G + 1e-3 * np.eye(q), b[..., None])[..., 0]
    T, sigma2 = Y.T @ Y / n, (rr - np.sum(b * Y)) / cells
    for _ in range(500):
        S = np.linalg.inv(G / sigma2 + np.linalg.inv(T))  # (n, q, q)
        Y = (S @ b[..., None])[..., 0] / sigma2
        YY = S + Y[:, :, None] * Y[:, None, :]
        T_new = YY.mean(axis=0)
        sigma2_new = (rr - 2 * np.sum(b * Y) + np.sum(G * YY)) / cells
        moved = np.max(np.abs(T_new - T)) / np.max(np.abs(T)) + abs(sigma2_new / sigma2 - 1)
        T, sigma2 = T_new, float(sigma2_new)
        if moved < 1e-7:
            break
    return Model(C @ np.linalg.cholesky(T), mu, sigma2)


def gaussian_log_likelihood(
    S: np.ndarray, offset: np.ndarray, W: np.ndarray, psi: np.ndarray
) -> float:
    """Nats a row of complete data: S their covariance at divisor n, offset = their mean - mu."""
    C = W @ W.T + np.diag(psi)
    S = S + np.outer(offset, offset)
    log_det = np.linalg.slogdet(C)[1]
    return float(-0.5 * (len(C) * np.log(2 * np.pi) + log_det + np.trace(np.linalg.solve(C, S))))
