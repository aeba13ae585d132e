"""Variational Bayes for the linear-Gaussian model: its updates and its evidence lower bound (ELBO).

    x_ij = w_j^T z_i + mu_j + e,  z_i ~ N(0, I),  e ~ N(0, 1 / tau),  tau ~ Gamma
    w_jk ~ N(0, 1 / alpha_k),  alpha_k ~ Gamma,  mu_j ~ N(shift_j, 1 / mean_precision)

(Bishop 1999, "Variational principal components"; with missing values Ilin and Raiko 2010, section
4.2). The posterior is approximated by q(Z) q(W, mu) q(alpha) q(tau). In it the rows z_i are
independent Gaussians, and so are the features w~_j = (w_j, mu_j), here with w_j and mu_j together.
One alpha_k for a whole column of W lets a column that the data do not ask for vanish (automatic
relevance determination).

q(Z) is an E-step with E[w~ w~^T] in place of w~ w~^T, so the data enter through `Expected` alone,
and everything else here is small. The bound is exact: its every term and constant is there, so
that it can be compared between numbers of components.

Rotating the latent space leaves all but q(alpha) as it is, and the bound is highest where Q = sum_j
E[w_j w_j^T] is diagonal (Hadamard's inequality). There q(alpha) is a function of Q alone, so
neither it nor the rotation need be kept: in any basis the expected prior precision of w_j is the
matrix (a + d / 2) (b + Q / 2)^-1, and the bound depends on Q's eigenvalues. The updates are then
smooth, as extrapolation needs them; eigenvectors of nearly equal columns are not.

Where cells give evidence about u instead of x, `Expected` has the moments of u under q(Z, U), which
expectation propagation approximates (`statistics.expected.sites`), and the bound is approximate as
the log-likelihood is. Columns whose scale the data leave open (`FreeScale`) have tau = 1, and their
loadings and means a prior besides alpha's, which counts as observations of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from eigengap.compiled import factorise
from eigengap.linalg import (
    Array,
    pack,
    pack_outer,
    packed_diagonal,
    packed_indices,
    packed_size,
    twice_off_diagonal,
    unpack,
)
from eigengap.models.gaussian.bayesian import Gammas
from eigengap.models.gaussian.posterior import (
    Coefficients,
    UncertainCoefficients,
    times_packed,
)
from eigengap.statistics.expected.gaussian import Expected, in_other_units
from eigengap.statistics.expected.sites import LARGEST_STEP, FreeScale

# Shape of the posterior of a precision that is known: it is not learned, and varies by 1e-6.
KNOWN = 1e12


@dataclass(frozen=True)
class Prior:
    """Shapes and rates of the Gamma priors of alpha and tau, and the precision of mu."""

    loading_shape: float
    loading_rate: float
    noise_shape: float | Array  # one, or of each tau, and so is its rate
    noise_rate: float | Array
    mean_precision: float
    free: FreeScale | None = None  # columns of known noise, and the prior that bounds them

    def own(self, q: int) -> Array | None:
        """(q + 1, d) precision of each (w_j, mu_j) besides alpha's, None where there is none."""
        return None if self.free is None else self.free.precision(q)


@dataclass(frozen=True, eq=False)
class VariationalPosterior:
    """q(W, mu) and q(tau), in the fit's units, mu measured from the rows' shift."""

    mean: Array  # (q + 1, d) of w~_j, feature innermost
    cov: Array  # (K~, d) packed covariance of w~_j
    tau: Gammas  # (1,), or (d,) where every feature has its own noise
    tau_of: NDArray[np.intp] | None = None  # (d,) which of tau each feature has, where it is others

    @property
    def q(self) -> int:
        return len(self.mean) - 1

    @property
    def d(self) -> int:
        return int(self.mean.shape[1])

    @property
    def noise_of(self) -> NDArray[np.intp]:
        """(d,) which of tau each feature has."""
        if self.tau_of is not None:
            return self.tau_of
        return np.arange(self.d) if len(self.tau) == self.d else np.zeros(self.d, dtype=np.intp)

    def precisions(self) -> Array:
        """(d,) E[tau_j]."""
        return np.asarray(self.tau.mean()[self.noise_of])

    def coefficients(self) -> Coefficients:
        """What q(Z) needs: E[w~], E[w~ w~^T] and E[tau]."""
        psi = 1.0 / self.precisions()
        W = np.ascontiguousarray(self.mean[:-1].T)
        return UncertainCoefficients(W, self.mean[-1], psi, self.cov)

    def second_moment(self) -> Array:
        """Q~ = sum_j E[w~_j w~_j^T], (q + 1, q + 1)."""
        return self.mean @ self.mean.T + unpack(np.sum(self.cov, axis=1), self.q + 1)

    def relevance(self, prior: Prior) -> Gammas:
        """q(alpha) in the basis in which Q is diagonal, the strongest column first."""
        return _relevance(_strengths(self.second_moment()), self.d, prior)

    def principal(self) -> VariationalPosterior:
        """The same in that basis."""
        U = np.linalg.eigh(self.second_moment()[:-1, :-1])[1][:, ::-1]
        T = np.eye(self.q + 1)
        T[:-1, :-1] = U.T
        return replace(self, mean=T @ self.mean, cov=_transformed(self.cov, T))

    def only(self, kept: NDArray[np.bool_]) -> VariationalPosterior:
        """The same with some (q,) of the components."""
        rows = np.append(kept, True)
        i, j = packed_indices(self.q + 1)
        return replace(self, mean=self.mean[rows], cov=self.cov[rows[i] & rows[j]])


def update(expected: Expected, current: VariationalPosterior, prior: Prior) -> VariationalPosterior:
    """One round of updates, q(Z) being `expected`: q(W, mu), q(tau), a change of basis."""
    distinct, of = _distinct_features(expected, current)
    mean, cov, residual = _regression(expected, current, prior, distinct, of)
    if prior.free is not None:
        mean = _rescaled(expected, mean, prior.free)
    mean, cov = _in_best_basis(expected, mean, cov, of, prior)
    tau = _noise(expected, residual, current, prior)
    cov = cov if len(distinct) == current.d else cov[:, of]
    return replace(current, mean=mean, cov=cov, tau=tau)


def elbo(expected: Expected, posterior: VariationalPosterior, prior: Prior) -> float:
    """The evidence lower bound with the q(Z) and q(alpha) that are best for this posterior.

    `expected` must be the E-step under `posterior.coefficients()`: its log-likelihood is
    E[ln p(X, Z)] + H[q(Z)] with ln E[tau] where E[ln tau] belongs.
    """
    q, d, tau = posterior.q, posterior.d, posterior.tau
    log_det = _log_det(posterior.cov, q + 1)  # first: it refuses indefinite covariances
    cells = _by_noise(expected.observed(), posterior)
    observed = expected.log_likelihood + 0.5 * float(cells @ (tau.mean_log() - np.log(tau.mean())))
    Q = posterior.second_moment()
    lam = _strengths(Q)
    alpha = _relevance(lam, d, prior)
    log_precision = float(np.sum(alpha.mean_log())) + log(prior.mean_precision)
    misfit = float(alpha.mean() @ lam) + prior.mean_precision * float(Q[-1, -1])
    # The constants of the prior and of the entropy, (q + 1) d ln 2 pi / 2, cancel.
    loadings = 0.5 * (d * (log_precision + q + 1) - misfit + log_det)
    own = prior.own(q)
    if own is not None:
        loadings -= 0.5 * float(np.sum(own * _squares(posterior)))
    learned = tau.shape < KNOWN
    given = (np.broadcast_to(x, tau.shape.shape) for x in (prior.noise_shape, prior.noise_rate))
    of_prior = (each[learned] for each in given)
    of_noise = Gammas(tau.shape[learned], tau.rate[learned]).divergence(*of_prior)
    return (
        observed + loadings - alpha.divergence(prior.loading_shape, prior.loading_rate) - of_noise
    )


def gradient(
    expected: Expected, posterior: VariationalPosterior, prior: Prior
) -> tuple[Array, Array, Array]:
    """Derivatives of `elbo` by the mean (q + 1, d), cov (K~, d) and ln of the rate of tau (k,).

    q(Z) and q(alpha) are the best ones, so that they may be held.
    """
    mean, tau, q = posterior.mean, posterior.precisions(), posterior.q
    D = pack(_prior_precision(posterior, prior))
    left = expected.B - times_packed(expected.A, mean)
    by_mean = tau * left - times_packed(D[:, None], mean)
    inverse = pack(np.asarray(np.linalg.inv(unpack(posterior.cov.T, q + 1)), dtype=np.float64)).T
    by_cov = 0.5 * (inverse - tau * expected.A - D[:, None])
    own = prior.own(q)
    if own is not None:
        by_mean = by_mean - own * mean
        by_cov[packed_diagonal(q + 1)] -= 0.5 * own
    squares = expected.squares - np.einsum("kd,kd->d", mean, expected.B + left)
    squares += np.einsum("kd,kd->d", twice_off_diagonal(expected.A.T).T, posterior.cov)
    a, b = posterior.tau.shape, posterior.tau.rate
    of_noise, count = (_by_noise(x, posterior) for x in (squares, expected.observed()))
    by_rate = 0.5 * (of_noise * a / b - count) + a * prior.noise_rate / b - prior.noise_shape
    return by_mean, twice_off_diagonal(by_cov.T).T, np.where(a < KNOWN, by_rate, 0.0)


def _by_noise(values: Array, posterior: VariationalPosterior) -> Array:
    """Sums (k,) over the features (d,) that have the same noise precision."""
    total = np.bincount(posterior.noise_of, weights=values, minlength=len(posterior.tau))
    return np.asarray(total, dtype=np.float64)


def _squares(posterior: VariationalPosterior) -> Array:
    """(q + 1, d) E[w~^2]."""
    return np.asarray(posterior.mean**2 + posterior.cov[packed_diagonal(posterior.q + 1)])


def _strengths(Q: Array) -> Array:
    """Eigenvalues (q,) of sum_j E[w_j w_j^T], falling."""
    return np.asarray(np.linalg.eigvalsh(Q[:-1, :-1])[::-1], dtype=np.float64)


def _relevance(lam: Array, d: int, prior: Prior) -> Gammas:
    """q(alpha) given sum_j E[w_jk^2] = lam_k."""
    shape = np.full(len(lam), prior.loading_shape + 0.5 * d)
    return Gammas(shape, prior.loading_rate + 0.5 * lam)


def _prior_precision(posterior: VariationalPosterior, prior: Prior) -> Array:
    """D~, (q + 1, q + 1): expected prior precision of w~_j."""
    q = posterior.q
    Q = posterior.second_moment()[:q, :q]
    D = np.zeros((q + 1, q + 1))
    D[:q, :q] = (prior.loading_shape + 0.5 * posterior.d) * np.linalg.inv(
        prior.loading_rate * np.eye(q) + 0.5 * Q
    )
    D[q, q] = prior.mean_precision
    return D


def _distinct_features(
    expected: Expected, current: VariationalPosterior
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Features (u,) whose covariances differ, and (d,) which of them each feature goes with.

    Under one noise variance all features without missing values share theirs.
    """
    everywhere = expected.observed() == expected.sum_w
    if len(current.tau) > 1 or np.sum(everywhere) < 2:
        return np.arange(current.d), np.arange(current.d)
    distinct = np.concatenate([np.flatnonzero(everywhere)[:1], np.flatnonzero(~everywhere)])
    of = np.zeros(current.d, dtype=np.intp)
    of[~everywhere] = np.arange(1, len(distinct))
    return distinct, of


def _regression(
    expected: Expected,
    current: VariationalPosterior,
    prior: Prior,
    distinct: NDArray[np.intp],
    of: NDArray[np.intp],
) -> tuple[Array, Array, Array]:
    """q(W, mu): means (q + 1, d), covariances (K~, u), expected squared residuals (d,).

    w~_j has precision E[tau] A_j + D~ and mean E[tau] cov_j B_j. From this follows
    sum_i E[(r - w~^T z~)^2] = squares - mean^T B + (q + 1 - tr D~ E[w~ w~^T]) / E[tau].
    """
    size = current.q + 1
    tau = current.precisions()
    D = pack(_prior_precision(current, prior))
    cov = np.ascontiguousarray(expected.A[:, distinct]) * tau[distinct]
    cov += D[:, None]
    own = prior.own(current.q)
    if own is not None:
        cov[packed_diagonal(size)] += own[:, distinct]
    right = expected.B * tau
    solved, _ = factorise(cov, np.ascontiguousarray(right[:, distinct]), passes=1)
    mean = solved[:, of]
    if len(distinct) < current.d:
        mean[:, of == 0] = unpack(cov[:, 0], size) @ right[:, of == 0]
    both = twice_off_diagonal(D)
    shrinkage = pack_outer(mean.T) @ both + (both @ cov)[of]
    if own is not None:
        shrinkage += np.sum(own * (mean**2 + cov[packed_diagonal(size)][:, of]), axis=0)
    explained = np.einsum("kd,kd->d", mean, expected.B)
    residual = expected.squares - explained + (size - shrinkage) / tau
    return mean, cov, np.maximum(residual, 0.0)  # below zero by rounding alone


def _rescaled(expected: Expected, mean: Array, free: FreeScale) -> Array:
    """Means of columns of known noise, as far as the scale of their u is from that noise.

    Where u may be multiplied by any number about its origin, so may w~ and the standard deviation
    of the noise together, and the bound is highest at tau = n / (squares - mean^T B): what
    parameter expansion is to a probit model (Liu, Rubin and Wu 1998). A question that no cell was
    asked has no scale.
    """
    count = expected.observed()
    centred = in_other_units(expected, np.ones(len(free.at)), -free.origin)
    origin = np.zeros_like(mean)
    origin[-1] = free.origin
    residual = centred.squares - np.einsum("kd,kd->d", mean - origin, centred.B)
    residual = np.where(count > 0.0, residual / np.where(count > 0.0, count, 1.0), 1.0)
    unit = 1.0 / np.sqrt(np.maximum(residual, 1e-300))
    unit = np.clip(unit, 1.0 / LARGEST_STEP, LARGEST_STEP)
    return np.where(free.at, origin + (mean - origin) * unit, mean)


def _in_best_basis(
    expected: Expected, mean: Array, cov: Array, of: NDArray[np.intp], prior: Prior
) -> tuple[Array, Array]:
    """The latent space shifted and scaled to where the bound is highest.

    z -> L^-1 (z - b), w -> L^T w, mu -> mu + b^T w leaves the fit as it is and moves only the
    divergences from the priors (Ilin and Raiko 2010, section 4.2; Luttinen and Ilin 2010). Up to
    the rates of the priors these are least where the latent variables have mean 0 and covariance
    I over the rows, so the step is a closed form: what PX-EM is to maximum likelihood. It is taken
    only where the bound does rise.
    """
    q, d = len(mean) - 1, mean.shape[1]
    b, V = expected.latent_moments()
    L = np.linalg.cholesky(V)
    T = np.eye(q + 1)  # w~ -> T w~
    T[:q, :q] = L.T
    T[q, :q] = b
    count = np.bincount(of, minlength=cov.shape[1]).astype(np.float64)
    Q = mean @ mean.T + unpack(cov @ count, q + 1)
    log_det = float(np.sum(np.log(np.diag(L))))
    gain = expected.sum_w * (0.5 * float(np.trace(V) + b @ b - q) - log_det) + d * log_det
    gain += _basis_cost(Q, d, prior) - _basis_cost(T @ Q @ T.T, d, prior)
    moved, moved_cov = T @ mean, _transformed(cov, T)
    own = prior.own(q)
    if own is not None:
        at = packed_diagonal(q + 1)
        gain += 0.5 * float(np.sum(own * (mean**2 + cov[at][:, of])))
        gain -= 0.5 * float(np.sum(own * (moved**2 + moved_cov[at][:, of])))
    return (moved, moved_cov) if gain > 0.0 else (mean, cov)


def _basis_cost(Q: Array, d: int, prior: Prior) -> float:
    """The part of minus the bound that depends on sum_j E[w~ w~^T], q(alpha) being the best."""
    q = len(Q) - 1
    rates = prior.loading_rate * np.eye(q) + 0.5 * Q[:q, :q]
    cost = (prior.loading_shape + 0.5 * d) * np.linalg.slogdet(rates)[1]
    return float(cost + 0.5 * prior.mean_precision * Q[q, q])


def _transformed(cov: Array, T: Array) -> Array:
    """T cov_j T^T of packed covariances (K~, u)."""
    return np.ascontiguousarray(pack(T @ unpack(cov.T, len(T)) @ T.T).T)


def _noise(
    expected: Expected, residual: Array, current: VariationalPosterior, prior: Prior
) -> Gammas:
    tau, known = current.tau, current.tau.shape >= KNOWN
    shape = prior.noise_shape + 0.5 * _by_noise(expected.observed(), current)
    rate = prior.noise_rate + 0.5 * _by_noise(residual, current)
    return Gammas(np.where(known, tau.shape, shape), np.where(known, tau.rate, rate))


def _log_det(cov: Array, size: int) -> float:
    """Sum of the log-determinants of packed covariances (K~, d); indefinite ones raise."""
    diagonal = np.einsum("jaa->ja", np.linalg.cholesky(unpack(cov.T, size)))
    return 2.0 * float(np.sum(np.log(diagonal)))


def start(
    mean: Array,
    tau: Gammas,
    observed_w: Array,
    prior: Prior,
    tau_of: NDArray[np.intp] | None = None,
) -> VariationalPosterior:
    """At given means (q + 1, d), with variances by the number of observed values (d,)."""
    q, d = len(mean) - 1, mean.shape[1]
    strength = np.sum(mean[:q] ** 2, axis=1)
    D = np.append(_relevance(strength, d, prior).mean(), prior.mean_precision)
    cov = np.zeros((packed_size(q + 1), d))
    begun = VariationalPosterior(mean, cov, tau, tau_of)
    cov[packed_diagonal(q + 1)] = 1.0 / (begun.precisions() * observed_w + D[:, None])
    return begun
