"""Classical multidimensional scaling: coordinates from inner products, distances or rows.

Torgerson (1952), Gower (1966), Mardia, Kent and Bibby (1979, chapter 14). With G the inner products
of n points, or -D^2 / 2 of their distances, and H = I - 1 w' / sum w,

    B = H G H',   w^1/2 B w^1/2 = V diag(lam) V',   Z = w^-1/2 V_q diag(lam_q)^1/2,

w standing for diag(w) in the last two. Weights are frequencies: a point of weight 2 is two points.
Of Euclidean distances between rows the same Z is the principal component scores, Z = X U, so
that rows never need the n x n matrix: `fitting.gaussian.plan` chooses
between their covariance and their Gram matrix by shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from eigengap.fitting.eigen.signed_spectrum import EPS, SignedSpectrum, signed_eigenpairs
from eigengap.fitting.eigen.symmetric import double_centred, scaled_axes
from eigengap.fitting.gaussian.fit import closed_form, fit_exact_spectrum
from eigengap.fitting.gaussian.problem import GaussianFit
from eigengap.fitting.graph.additive_constant import additive_constant, correct
from eigengap.fitting.graph.distances import BLOCK_BYTES
from eigengap.linalg import Array, sign_rule
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.maps.affine import AffineMap
from eigengap.models.maps.distances import AdditiveConstant, GowerMap, Kind, inner_products
from eigengap.runtime.memory import require_pairs
from eigengap.sources.base import Block, Source

# A number, a share of the sum of the positive eigenvalues, or as many as are significant.
Dimensions = int | float | None

COPIES: dict[Kind | None, float] = {None: 2.0, "lingoes": 4.0, "cailliez": 5.0}  # n x n, at most
WAY_OUT = (
    "fit a sample of the points and give the others to transform, which adds them one by one "
    '(Gower); metric="euclidean" from rows of data needs no such matrix'
)


@dataclass(frozen=True, eq=False)
class ScalingFit:
    """Coordinates of n points and the map that adds another."""

    Z: Array  # (n, q), the entry of largest modulus in each column positive
    model: GowerMap | AffineMap
    spectrum: SignedSpectrum
    route: str  # "distances" or "gram", or how the principal components were found
    constant: AdditiveConstant | None = None  # what was added to the distances
    split: int = 0  # pairs at distance 0 that the constant sets apart

    @property
    def dimensions(self) -> int:
        """Columns of Z that are not 0 throughout."""
        q = self.Z.shape[1]
        return int(np.sum(self.spectrum.lam[:q] > self.spectrum.rounding))


def require_scaling(n: int, kind: Kind | None = None, more: float = 0.0) -> None:
    """Refuse a fit to n points whose matrices, and `more` of them, memory does not hold."""
    require_pairs(n, "classical scaling", WAY_OUT, COPIES[kind] + more)


# From pairs ----------------------------------------------------------------------------------


def fit_distances(
    D: Array, q: Dimensions, w: Array | None = None, kind: Kind | None = None
) -> ScalingFit:
    """Scaling of symmetric distances D (n, n), made Euclidean first where `kind` says how."""
    if kind is None:
        return _fit(inner_products(D), q, w, "distances", None)
    constant = additive_constant(D, kind)
    if constant.c == 0.0:
        return _fit(inner_products(D), q, w, "distances", constant)
    D, split = correct(D, constant)
    return replace(_fit(inner_products(D), q, w, "distances", constant), split=split)


def fit_gram(G: Array, q: Dimensions, w: Array | None = None) -> ScalingFit:
    """Scaling of symmetric inner products G (n, n), which are overwritten."""
    return _fit(G, q, w, "gram", None)


def _fit(
    G: Array, q: Dimensions, w: Array | None, route: str, constant: AdditiveConstant | None
) -> ScalingFit:
    # Centring leaves the rounding of what it takes away: of inner products about a far origin much.
    error = len(G) * EPS * float(np.max(np.abs(G))) * (1.0 if w is None else float(np.max(w)))
    B, means, _ = double_centred(G, w)
    root = None if w is None else np.sqrt(w)[:, None]
    if root is not None:
        B *= root
        B *= root.T
    known = q if isinstance(q, int) else None
    spectrum, V = signed_eigenpairs(B, known, error)
    if q is None:
        q = max(spectrum.significant() or 0, 1)
    elif isinstance(q, float):
        q = spectrum.for_share(q)
    Z, A, _ = scaled_axes(spectrum.lam[:q], V[:, :q], spectrum.rounding)
    if root is not None:
        Z, A = Z / root, A * root
    signs = sign_rule(Z)
    return ScalingFit(Z * signs, GowerMap(A * signs, means), spectrum, route, constant)


# From rows -----------------------------------------------------------------------------------


def fit_rows(source: Source, q: Dimensions) -> tuple[ScalingFit, LinearGaussian]:
    """Scaling of the Euclidean distances between complete rows, and the PPCA density of them."""
    n, d = source.observed().rows, source.n_features
    asked = min(q, n, d) if isinstance(q, int) else q
    pca = fit_exact_spectrum(source, asked)
    kept = pca.U.shape[1] if q is not None else max(pca.rank(source.dtype), 1)
    fit = closed_form(pca, kept)
    return of_components(source, fit, q if isinstance(q, int) else kept, pca.route), fit.model


def of_components(source: Source, fit: GaussianFit, q: int, route: str) -> ScalingFit:
    """Scaling through principal components: Z = (X - mu) U, and 0 beyond the rank.

    Missing values are imputed by their conditional mean.
    """
    spectrum = SignedSpectrum.of_rows(fit.spectrum)
    kept = min(fit.axes.shape[1], fit.spectrum.rank())
    U = np.zeros((source.n_features, q))
    U[:, :kept] = fit.axes[:, :kept]
    plain = AffineMap(A=U.T, B=U, mean=fit.model.mu)
    Z = source.map(partial(coordinates, model=plain, density=fit.model))
    signs = sign_rule(Z)
    U = U * signs
    return ScalingFit(Z * signs, AffineMap(A=U.T, B=U, mean=fit.model.mu), spectrum, route)


def coordinates(block: Block, model: AffineMap, density: LinearGaussian) -> NDArray[Any]:
    """Coordinates (c, q) of rows, missing values imputed by the density's conditional mean."""
    values = block.values
    if isinstance(values, np.ndarray) and np.isnan(np.sum(values)):
        values = density.conditional_mean(values)
    return model.forward(values)


# How good it is ------------------------------------------------------------------------------


def stress(far: Callable[[slice], Array], Z: Array) -> float:
    """Kruskal's (1964) stress-1 of the coordinates Z (n, q); `far` gives distances (c, n) of some.

    sqrt(sum (d - d_hat)^2 / sum d^2); 0 where all d are. No n x n matrix is formed.
    """
    apart = whole = 0.0
    step = max(1, BLOCK_BYTES // (8 * len(Z)))
    for start in range(0, len(Z), step):
        some = slice(start, start + step)
        d = far(some)
        apart += float(np.sum((d - cdist(Z[some], Z)) ** 2))
        whole += float(np.sum(d * d))
    return sqrt(apart / whole) if whole > 0.0 else 0.0
