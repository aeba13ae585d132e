"""Small tables of every kind, and what the likelihood still has to give, by brute force.

Nothing here shares code with the fits: densities come from dense covariances of the observed
values, ascent from SciPy's L-BFGS-B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln


@dataclass(frozen=True, eq=False)
class Table:
    seed: int
    X: np.ndarray  # (n, d), NaN where missing
    weight: np.ndarray | None  # (n,)
    q: int
    traits: tuple[str, ...]

    @property
    def w(self) -> np.ndarray:
        return np.ones(len(self.X)) if self.weight is None else self.weight


def draw(seed: int, *, largest: tuple[int, int] = (60, 40)) -> Table:
    """A table from 2 x 1 up, 0 to 90 % missing, now and then with columns that are awkward."""
    rng = np.random.default_rng([17, seed])
    n = int(np.exp(rng.uniform(np.log(2), np.log(largest[0] + 1))))
    d = int(np.exp(rng.uniform(np.log(1), np.log(largest[1] + 1))))
    rank = int(rng.integers(1, 4))
    noise = float(rng.choice([1.0, 0.3, 0.01]))
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + noise * rng.normal(size=(n, d))
    traits = []

    def some(name: str, chance: float) -> bool:
        chosen = bool(rng.random() < chance)
        if chosen:
            traits.append(name)
        return chosen

    if some("constant", 0.15):
        X[:, rng.integers(d)] = 3.0
    if some("duplicate", 0.15):
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    if some("collinear", 0.15):
        X[:, rng.integers(d)] = 2.2046226 * X[:, rng.integers(d)] - X[:, rng.integers(d)]
    if some("near-collinear", 0.1):
        X[:, rng.integers(d)] = X[:, rng.integers(d)] + 1e-5 * rng.normal(size=n)
    if some("rounded", 0.1):
        X = np.round(X, 1)
    if some("scales", 0.2):
        X = X * 10.0 ** rng.integers(-4, 5, size=d)
    if some("far", 0.1):
        X = X + 1e3 * np.std(X, axis=0)
    weight = None
    if some("weights", 0.15):
        weight = rng.integers(1, 4, size=n).astype(np.float64)
    elif some("fractional weights", 0.1):
        weight = rng.uniform(0.2, 3.0, size=n)
    share = float(rng.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9], p=[0.1, 0.2, 0.2, 0.2, 0.2, 0.1]))
    hidden = rng.random((n, d)) < share
    for j in range(d):  # a column needs a value to be one
        hidden[rng.choice(n, size=min(n, 2), replace=False), j] = False
    X = np.where(hidden, np.nan, X)
    if some("float32", 0.15):
        X = X.astype(np.float32)
    q = int(rng.integers(1, max(min(4, d - 1, n - 1), 1) + 1))
    return Table(seed, X, weight, q, tuple(traits))


def column_variances(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Of the observed values of each column, weighted."""
    X = X.astype(np.float64)
    m = ~np.isnan(X)
    total = w @ m
    mean = w @ np.where(m, X, 0.0) / total
    constant = np.nanmax(X, axis=0) == np.nanmin(X, axis=0)  # whatever the mean was rounded to
    return np.where(constant, 0.0, w @ np.where(m, X - mean, 0.0) ** 2 / total)


def noise_floor(X: np.ndarray, w: np.ndarray, noise: str) -> np.ndarray:
    """(d,) least noise variance: docs/numerics.md, "Small noise"."""
    variance = column_variances(X, w)
    if noise == "diagonal":
        return 1e-6 * np.where(variance > 0, variance, np.mean(variance))
    varying = variance[variance > 0]
    return np.full(len(variance), max(1e-6 * varying.min(), 1e-13 * varying.max()))


def log_likelihood(X, w, mu, W, psi):
    """Weighted log-likelihood of the observed values and its derivatives by mu, W and psi.

    A missing value is one of variance 1 that agrees with its mean: it adds nothing.
    """
    C = W @ W.T + np.diag(psi)
    m = (~np.isnan(X)).astype(np.float64)
    masked = m[:, :, None] * m[:, None, :] * C
    i = np.arange(len(mu))
    masked[:, i, i] += 1.0 - m
    sd = np.sqrt(masked[:, i, i])  # correlations: columns may differ in size
    outer = sd[:, :, None] * sd[:, None, :]
    L = np.linalg.cholesky(masked / outer)
    inverse = np.linalg.inv(masked / outer) / outer * (m[:, :, None] * m[:, None, :])
    r = np.where(m > 0, X - mu, 0.0)
    y = np.einsum("nij,nj->ni", inverse, r)
    log_det = 2.0 * np.sum(np.log(L[:, i, i]) + np.log(sd), axis=1)
    rows = -0.5 * (m.sum(axis=1) * np.log(2 * np.pi) + log_det + np.sum(r * y, axis=1))
    by_C = 0.5 * (np.einsum("n,ni,nj->ij", w, y, y) - np.einsum("n,nij->ij", w, inverse))
    return float(w @ rows), w @ y, 2.0 * by_C @ W, np.diag(by_C).copy()


@dataclass(frozen=True, eq=False)
class Climbed:
    """What L-BFGS-B makes of a point."""

    before: float  # nats per row
    after: float
    mu: np.ndarray
    steepness: float  # largest entry of the projected gradient, in units of its information
    W: np.ndarray
    psi: np.ndarray

    @property
    def gain(self) -> float:
        return self.after - self.before


def climbed(X, w, mu, W, psi, floor, noise: str, max_iter: int = 300) -> Climbed:
    """L-BFGS-B on mu, W and ln psi, from a given point and above a floor of psi."""
    X = np.asarray(X, dtype=np.float64)
    d, q = W.shape
    kept = d if noise == "diagonal" else 1
    size = np.sqrt(np.sum(W**2, axis=1) + psi)
    rows = float(np.sum(w))

    def parts(theta):
        noises = np.broadcast_to(np.exp(theta[d * (q + 1) :]), (d,))
        return (
            mu + theta[d * q : d * (q + 1)] * size,
            theta[: d * q].reshape(d, q) * size[:, None],
            noises,
        )

    def minus(theta):
        at = parts(theta)
        try:
            value, by_mu, by_W, by_psi = log_likelihood(X, w, *at)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(theta)
        by_noise = by_psi * at[2]
        by_noise = by_noise if kept == d else np.array([np.sum(by_noise)])
        slope = np.concatenate([(by_W * size[:, None]).ravel(), by_mu * size, by_noise])
        return -value / rows, -slope / rows

    low = np.log(floor[:kept])
    start = np.concatenate(
        [(W / size[:, None]).ravel(), np.zeros(d), np.maximum(np.log(psi[:kept]), low)]
    )
    before, slope = minus(start)
    found = minimize(
        minus,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * (d * (q + 1)) + [(each, None) for each in low],
        options={"maxiter": max_iter, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9},
    )
    held = np.zeros(len(start), dtype=bool)
    held[d * (q + 1) :] = (start[d * (q + 1) :] <= low + 1e-3) & (slope[d * (q + 1) :] > 0)
    unit = np.concatenate([np.repeat(np.sqrt(psi) / size, q), np.sqrt(psi) / size, np.ones(kept)])
    mu, W, psi = parts(found.x)
    return Climbed(
        before=-before,
        after=-float(found.fun),
        steepness=float(np.max(np.abs(slope * unit)[~held], initial=0.0)),
        mu=mu,
        W=W,
        psi=psi,
    )


def evidence_bound(X, w, q, floor_share: float = 1e-7):
    """The ELBO of Bayesian PCA with one noise variance, as a function of one vector.

    Returns (bound, pack): bound(theta) is the ELBO of the table in its own units, with the best
    q(Z) and q(alpha) for what theta holds; pack(W, mu, cov, rate) is theta, for means W (d, q) and
    mu (d,), covariances (d, q + 1, q + 1) and the rate of q(tau), all in units of the data.
    """
    X = np.asarray(X, dtype=np.float64)
    d = X.shape[1]
    m = (~np.isnan(X)).astype(np.float64)
    observed = w @ m
    cells = float(np.sum(observed))
    shift = w @ np.where(m > 0, X, 0.0) / observed
    variance = column_variances(X, w)
    unit = np.sqrt(np.mean(variance))
    R = np.where(m > 0, (X - shift) / unit, 0.0)
    floor = max(noise_floor(X, w, "isotropic")[0], floor_share * np.max(variance)) / unit**2
    a0 = b0 = 1e-3
    s0, r0, mean_precision = 1e-6, max(1e-6, 0.5 * floor * cells), 1e-6
    shape = s0 + 0.5 * cells
    lower = np.tril_indices(q + 1)
    diagonal = np.flatnonzero(lower[0] == lower[1])

    def divergence(a, b, a_prior, b_prior):
        return (
            (a - a_prior) * digamma(a)
            - gammaln(a)
            + gammaln(a_prior)
            + a_prior * (np.log(b) - np.log(b_prior))
            + a * (b_prior - b) / b
        )

    def pack(W, mu, cov, rate):
        L = np.linalg.cholesky(cov / unit**2)[:, lower[0], lower[1]]
        L[:, diagonal] = np.log(L[:, diagonal])
        means = np.column_stack([W, mu - shift]) / unit
        return np.concatenate([means.ravel(), L.ravel(), [np.log(rate / unit**2)]])

    def bound(theta):
        means = theta[: d * (q + 1)].reshape(d, q + 1)
        L = np.zeros((d, q + 1, q + 1))
        entries = theta[d * (q + 1) : -1].reshape(d, -1).copy()
        log_det = 2.0 * np.sum(entries[:, diagonal])
        entries[:, diagonal] = np.exp(entries[:, diagonal])
        L[:, lower[0], lower[1]] = entries
        rate = np.exp(theta[-1])
        tau, log_tau = shape / rate, digamma(shape) - np.log(rate)
        second = means[:, :, None] * means[:, None, :] + L @ L.transpose(0, 2, 1)  # E[w~ w~']
        M = np.einsum("nd,dij->nij", m, second) * tau
        P = M[:, :q, :q] + np.eye(q)
        h = tau * R @ means[:, :q] - M[:, :q, q]
        z = np.linalg.solve(P, h[:, :, None])[:, :, 0]
        misfit = tau * (np.sum(R**2, axis=1) - 2.0 * R @ means[:, q]) + M[:, q, q]
        rows = m.sum(axis=1) * (log_tau - np.log(2 * np.pi)) - misfit
        rows += np.sum(h * z, axis=1) - np.linalg.slogdet(P)[1]
        Q = np.sum(second, axis=0)
        lam = np.linalg.eigvalsh(Q[:q, :q])
        a, b = a0 + 0.5 * d, b0 + 0.5 * lam
        log_precision = np.sum(digamma(a) - np.log(b)) + np.log(mean_precision)
        distance = np.sum(a / b * lam) + mean_precision * Q[q, q]
        loadings = 0.5 * (d * (log_precision + q + 1) - distance + log_det)
        value = 0.5 * float(w @ rows) + loadings - np.sum(divergence(a, b, a0, b0))
        return float(value - divergence(shape, rate, s0, r0) - cells * np.log(unit))

    return bound, pack
