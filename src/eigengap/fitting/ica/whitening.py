"""White scores for ICA: from the axes of PCA, or those of PPCA with its noise taken off.

With lam and U the leading eigenpairs of the covariance, z = Lam^-1/2 U'(x - mean) is white. Under
PPCA's noise, x = B s + mean + e with e ~ N(0, sigma2 I), it is the part without noise that has to
be white: z = (Lam - sigma2 I)^-1/2 U'(x - mean) has covariance I + N, where
N = sigma2 (Lam - sigma2 I)^-1 is that of the noise in it (quasi-whitening; Hyvarinen 1999,
"Gaussian moments for noisy independent component analysis").

Missing values are imputed by their expected values under the Gaussian density of the rows, so that
a row enters by its expected scores. Those are drawn towards 0 where cells are missing, which looks
like heavy tails; so the row counts for exp(-DOUBT t), t the variance that its missing values leave
open, in units of one white direction. Where components are as many as columns a missing value costs
one direction (t = 1) and complete rows decide; where columns are many it costs little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import NoSignalError
from eigengap.fitting.gaussian.problem import GaussianFit
from eigengap.fitting.ica.fit import sample_sizes
from eigengap.fitting.ica.steps import ROWS
from eigengap.linalg import Array, sign_rule
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.maps.affine import AffineMap
from eigengap.sources.base import Block, Source
from eigengap.spectrum import rounding_along
from eigengap.statistics.score_moments import ScoreBlock, SecondMoment, places

PIECE_BYTES = 1 << 24  # of products for rows with missing values at a time
DOUBT = 4.0  # how fast a row loses its weight with what its missing values leave open
ABOVE_FLOOR = 4.0  # times the least noise variance that a direction with missing values must have
LEAST_WHITE = 1e-2  # variance of a direction relative to another's, of scores to be white
LEAST_SIGNAL = 1e-3  # variance of a direction beyond that of the noise, relative to it


class NoVarianceError(ValueError):
    """All rows are equal: there is nothing to unmix."""


@dataclass(frozen=True, eq=False)
class Whitening:
    """How rows become white scores."""

    map: AffineMap  # to scores (q,), and back
    estimate: AffineMap  # to the best linear estimate of the scores without noise; `map` if none
    noise: Array | None  # (q, q) covariance of the noise in the scores
    density: LinearGaussian | None  # by which missing values are imputed

    @property
    def q(self) -> int:
        return len(self.map.A)

    def scores(self, values: Any) -> tuple[Array, Array | None]:
        """Scores (c, q) of rows, and what each counts for (c,), None where all count fully."""
        if not isinstance(values, np.ndarray) or not np.isnan(values).any():
            return self.map.forward(values), None
        if self.density is None:
            raise ValueError("rows with missing values need a density that imputes them")
        Z = self.map.forward(self.density.conditional_mean(values))
        return Z, np.exp(-np.minimum(DOUBT * open_variance(self.density, self.map.A, values), 60.0))


def no_whitening(d: int) -> Whitening:
    """Rows that are white already."""
    same = AffineMap(A=np.eye(d), B=np.eye(d), mean=np.zeros(d))
    return Whitening(same, same, None, None)


def pca_whitening(fit: GaussianFit, q: int, precision: float) -> Whitening:
    """Lam^-1/2 U' of the first q axes that have variance.

    precision : machine epsilon of the cells. Directions that vary by no more than their rounding
    are left out. Where q = d and missing values let PPCA have d - 1 components at most, which is a
    density without restriction, the last axis is the one that the others leave.
    """
    U, lam = _axes(fit, q)
    U, lam = _above_rounding(U, lam, fit, precision)
    root = np.sqrt(lam)
    forward = AffineMap(A=(U / root).T, B=U * root, mean=fit.model.mu)
    return Whitening(forward, forward, None, fit.model)


def ppca_whitening(fit: GaussianFit, precision: float) -> Whitening:
    """(Lam - sigma2 I)^-1/2 U', the noise that is left in the scores, and posterior means."""
    sigma2 = float(fit.model.psi[0])
    U, lam = _above_rounding(*_axes(fit, fit.model.q), fit, precision)
    if fit.model.q >= fit.model.d or sigma2 <= 0.0:
        raise NoSignalError(
            f'noise="isotropic" learns the noise from the variance that the {fit.model.q} '
            f"components leave, and there is none (n_features={fit.model.d}): ask for fewer "
            "n_components than the columns have directions, or leave noise out"
        )
    signal = lam - sigma2
    weak = np.flatnonzero(signal <= LEAST_SIGNAL * sigma2)
    if len(weak):
        raise NoSignalError(
            f"of {len(lam)} components only {int(weak[0])} vary more than the noise "
            f"(sigma2 = {sigma2:.3g}): ask for n_components={max(int(weak[0]), 1)} or fewer"
        )
    root = np.sqrt(signal)
    forward = AffineMap(A=(U / root).T, B=U * root, mean=fit.model.mu)
    posterior = AffineMap(A=(U * (root / lam)).T, B=U * root, mean=fit.model.mu)
    return Whitening(forward, posterior, np.diag(sigma2 / signal), fit.model)


def white_scores(source: Source, whitening: Whitening) -> tuple[Source, Whitening]:
    """The source's rows as `ScoreBlock`s, computed once, and the whitening that they are of.

    Rows with missing values, which count for less, and rows in float32 leave the scores not quite
    white. The rotation takes what is left of their correlations for dependence, so it is removed:
    the error of ICA is smallest where the very rows that it sees are white.
    """
    n = source.n_rows
    drawn = n is not None and (n > ROWS or len(sample_sizes(n, whitening.q)) > 0)
    scores = source.prepared(partial(_scored, whitening=whitening, drawn=drawn))
    exact = not source.has_missing and source.dtype == np.float64
    if exact or whitening.noise is not None or whitening.density is None:
        return scores, whitening
    lam, V = np.linalg.eigh(scores.reduce(SecondMoment.of).mean)
    if lam[0] < LEAST_WHITE * lam[-1]:  # missing values leave too little to go by
        return scores, whitening
    root = np.sqrt(lam)
    forward = AffineMap(
        A=(V / root) @ V.T @ whitening.map.A,
        B=whitening.map.B @ (V * root) @ V.T,
        mean=whitening.map.mean,
    )
    again = partial(_rotated, M=(V / root) @ V.T)
    return scores.prepared(again), replace(whitening, map=forward, estimate=forward)


def _rotated(block: ScoreBlock, M: Array) -> ScoreBlock:
    return replace(block, Z=block.Z @ M)


def _scored(block: Block, whitening: Whitening, drawn: bool) -> ScoreBlock:
    place = places(block.values) if drawn else None
    Z, trust = whitening.scores(block.values)
    weight = block.weight
    if trust is not None:
        weight = trust if weight is None else weight * trust
    return ScoreBlock(np.asarray(Z, dtype=np.float64), weight, place)


def open_variance(model: LinearGaussian, A: Array, X: NDArray[Any]) -> Array:
    """(n,) trace of the covariance of A x given the observed values of each row, A (q, d).

    Of the missing values m, x_m has covariance W_m S W_m' + Psi_m, with S the posterior covariance
    of the latent variables.
    """
    q = model.q
    products = np.einsum("sj,jl->jsl", A, model.W).reshape(model.d, -1)  # a_j w_j' of every column
    own = np.sum(A**2, axis=0) * model.psi
    result = np.empty(len(X))
    step = max(1, PIECE_BYTES // (8 * products.shape[1]))
    for part in model.row_posteriors(X):
        for some in part.pieces(step):
            missing = np.isnan(X[some.at]).astype(np.float64)
            B = (missing @ products).reshape(len(missing), len(A), q)
            result[some.at] = np.sum(B * (B @ some.covariances()), axis=(1, 2)) + missing @ own
    return result


def _axes(fit: GaussianFit, q: int) -> tuple[Array, Array]:
    """Axes (d, q) and the variances (q,) along them."""
    U, lam = fit.axes, fit.spectrum.lam[: fit.axes.shape[1]]
    have = U.shape[1]
    if q <= have:
        return U[:, :q], lam[:q]
    last = np.linalg.svd(U, full_matrices=True)[0][:, have:q]
    return np.hstack([U, last * sign_rule(last)]), np.append(lam, [fit.model.psi[0]] * (q - have))


def _above_rounding(
    U: Array, lam: Array, fit: GaussianFit, precision: float
) -> tuple[Array, Array]:
    squares = fit.model.mu**2 + fit.model.variances()
    kept = lam > np.maximum(fit.spectrum.rounding, rounding_along(U, squares, precision))
    if fit.at_floor:  # of the fit with missing values: what lies there is not separated from noise
        kept &= lam > ABOVE_FLOOR * float(fit.model.psi[0])
    if not kept.any():
        raise NoVarianceError(
            "all rows are equal, or vary by no more than the rounding of their cells: there is "
            "nothing to unmix"
        )
    return U[:, kept], lam[kept]
