"""A dense Gaussian by brute force: the oracle of everything that takes gaps."""

from __future__ import annotations

import numpy as np


def log_likelihood(X, mu, C):
    """ln N(seen part of x | mu, C) of every row."""
    result = []
    for x in X:
        o = ~np.isnan(x)
        if not o.any():
            result.append(0.0)
            continue
        r = x[o] - mu[o]
        Coo = C[np.ix_(o, o)]
        quadratic = r @ np.linalg.solve(Coo, r)
        result.append(-0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * Coo)[1]))
    return np.array(result)


def conditional(X, mu, C):
    """Mean and covariance of the unseen cells: (n, d), and a list of matrices."""
    mean, covs = X.copy(), []
    for i, x in enumerate(X):
        o, u = ~np.isnan(x), np.isnan(x)
        gain = (
            np.linalg.solve(C[np.ix_(o, o)], C[np.ix_(o, u)]) if o.any() else np.zeros((0, u.sum()))
        )
        mean[i, u] = mu[u] + (x[o] - mu[o]) @ gain
        covs.append(C[np.ix_(u, u)] - C[np.ix_(u, o)] @ gain)
    return mean, covs


def posterior(X, W, mu, psi):
    """Mean (n, q) and covariance (n, q, q) of z from the joint Gaussian of (z, x)."""
    q = W.shape[1]
    C = W @ W.T + np.diag(psi)
    means, covs = [], []
    for x in X:
        o = ~np.isnan(x)
        gain = np.linalg.solve(C[np.ix_(o, o)], W[o]).T if o.any() else np.zeros((q, 0))
        means.append(gain @ (x[o] - mu[o]))
        covs.append(np.eye(q) - gain @ W[o])
    return np.array(means), np.array(covs)


def gradient(X, W, mu, psi):
    """Derivatives of the observed-data log-likelihood by W (d, q), mu (d,), psi (d,).

    From dL/dC = 1/2 sum_i (C_oo^-1 r r^T C_oo^-1 - C_oo^-1), placed in the seen rows and columns:
    002 Eq. 18 with gaps.
    """
    C = W @ W.T + np.diag(psi)
    by_C, by_mu = np.zeros_like(C), np.zeros_like(mu)
    for x in X:
        o = ~np.isnan(x)
        inverse = np.linalg.inv(C[np.ix_(o, o)])
        solved = inverse @ (x[o] - mu[o])
        by_C[np.ix_(o, o)] += 0.5 * (np.outer(solved, solved) - inverse)
        by_mu[o] += solved
    return 2 * by_C @ W, by_mu, np.diag(by_C)
