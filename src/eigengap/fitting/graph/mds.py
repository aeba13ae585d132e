"""Classical multidimensional scaling: coordinates from inner products, distances or rows.

Torgerson (1952), Gower (1966), Mardia, Kent and Bibby (1979, chapter 14). With G the inner products
of n points, or -D^2 / 2 of their distances, and H = I - 1 w' / sum w,

    B = H G H',   w^1/2 B w^1/2 = V diag(lam) V',   Z = w^-1/2 V_q diag(lam_q)^1/2,

w standing for diag(w) in the last two. Weights are frequencies: a point of weight 2 is two points.
Of Euclidean distances between rows the same Z is the principal component scores, Z = X U, so
that rows never need the n x n matrix: `fitting.gaussian.plan` chooses
between their covariance and their Gram matrix by shape.

Distances D of n points are Euclidean if and only if B1 = H (-D^2 / 2) H is positive semi-definite,
H = I - 1 1' / n (Schoenberg 1935; Young and Householder 1938). If they are not,

* Lingoes (1971) adds to their squares: sqrt(d^2 + 2 c) has B1 + c H, so c is -lam_min(B1);
* Cailliez (1983) adds to the distances: d + c has, with B2 = H (-D / 2) H,

      B(c) = B1 + 2 c B2 + c^2 / 2 H,

  and c is the largest eigenvalue of the 2n x 2n matrix [[0, 2 B1], [-I, -4 B2]].

That matrix is never formed. B(c) is positive semi-definite if the parabola v'B1 v + 2 c v'B2 v +
c^2 / 2 of every unit v orthogonal to 1 is not negative, and if so at one c then at every larger
one; so c is the largest root of all these parabolas. From any c below it, the eigenvector of the
smallest eigenvalue of B(c) has a parabola that is negative there, and its larger root is a better
lower bound: Newton's method, monotone, quadratic at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.spatial.distance import cdist

from eigengap.fitting.eigen.signed_spectrum import EPS, SignedSpectrum, signed_eigenpairs
from eigengap.fitting.eigen.symmetric import SMALL, double_centred, scaled_axes
from eigengap.fitting.gaussian.fit import closed_form, fit_exact_spectrum
from eigengap.fitting.gaussian.problem import GaussianFit
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

ENOUGH = 1e-13  # relative growth of c below which it has converged
MOST_STEPS = 60
NEAR = 0.01  # relative growth below which eigenvectors are found to TIGHT
LOOSE, TIGHT = 1e-4, 1e-9  # residuals of eigenvectors, relative to their matrix
KRYLOV, MOST_RESTARTS = 40, 200  # vectors of a Lanczos basis
COINCIDENT = 1e-12  # distance, relative to the largest, of points that are one
DECIMALS = 11  # of their distances to the others, relative to the largest, in which they agree


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
    """Scaling of symmetric distances D (n, n), made Euclidean first by `kind` where given."""
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


# The smallest constant that makes distances Euclidean ---------------------------------------


def additive_constant(D: Array, kind: Kind) -> AdditiveConstant:
    """The smallest constant for the distances D (n, n); 0 where they are Euclidean."""
    zero = COINCIDENT * float(np.max(D))
    points = np.unique(coincident(D, zero))
    distinct = D if len(points) == len(D) else D[np.ix_(points, points)]
    unit = float(np.max(distinct)) or 1.0  # squares of squares are taken on the way
    if kind == "cailliez":
        return AdditiveConstant(kind, _cailliez(distinct / unit) * unit, zero)
    B1 = double_centred(inner_products(distinct / unit))[0]
    lam, _ = _smallest(B1, None, TIGHT)
    return AdditiveConstant(kind, -lam * unit**2 if lam < -_slack(B1) else 0.0, zero)


def correct(D: Array, constant: AdditiveConstant) -> tuple[Array, int]:
    """D with the constant added to the distances of points that differ.

    Points that coincide are one point, however often it was given. That two are at distance 0 does
    not make them one, if a third is nearer to this than to that: the number of such pairs comes
    second.
    """
    same = coincident(D, constant.zero)
    added = AdditiveConstant(constant.kind, constant.c, zero=-1.0).corrected(D)
    np.fill_diagonal(added, 0.0)
    order = np.argsort(same, kind="stable")
    split = int(np.count_nonzero(constant.zero >= D))
    for group in np.split(order, np.flatnonzero(np.diff(same[order])) + 1):
        split -= len(group) ** 2
        if len(group) > 1:
            added[np.ix_(group, group)] = 0.0
    return added, split // 2


def coincident(D: Array, zero: float) -> NDArray[np.intp]:
    """(n,) for each point the first that coincides with it: itself where none before does.

    Points coincide that are at distance 0 and equally far from every other one.
    """
    first = np.arange(len(D))
    near = np.flatnonzero(np.count_nonzero(zero >= D, axis=1) > 1)
    if len(near) == 0:
        return first
    profiles = np.round(D[near] / (float(np.max(D)) or 1.0), DECIMALS)
    _, at, group = np.unique(profiles, axis=0, return_index=True, return_inverse=True)
    first[near] = near[at[group.ravel()]]
    return first


def _cailliez(D: Array) -> float:
    B1 = double_centred(inner_products(D))[0]
    B2 = double_centred(-0.5 * D)[0]
    slack = _slack(B1)
    c, v, tol = 0.0, None, LOOSE
    for _ in range(MOST_STEPS):
        lam, v = _smallest(B1 + (2.0 * c) * B2, v, tol)
        constant, slope = float(v @ (B1 @ v)), float(v @ (B2 @ v))
        root = -2.0 * slope + sqrt(max(4.0 * slope**2 - 2.0 * constant, 0.0))
        # B(c) is positive if lam, to which H adds c^2 / 2, is.
        done = lam + 0.5 * c * c >= -slack or root <= c * (1.0 + ENOUGH)
        if done and tol == TIGHT:
            break
        if done or root < c * (1.0 + NEAR):
            tol = TIGHT
        c = c if done else root
    return c


def _slack(B: Array) -> float:
    """A negative eigenvalue that rounding explains."""
    return len(B) * EPS * float(np.linalg.norm(B))


def _smallest(B: Array, v: Array | None, tol: float) -> tuple[float, Array]:
    """The smallest eigenvalue of B, never below it, and its eigenvector; from v where there is one.

    By Lanczos where B is large: a residual of tol |B| leaves the square of that, over the gap, in
    the eigenvalue. Shifted by |B|, so that an eigenvalue that is nothing but rounding converges.
    """
    n = len(B)
    if n <= SMALL:
        lam, V = np.linalg.eigh(B)
        return float(lam[0]), np.asarray(V[:, 0])
    size = float(np.linalg.norm(B))
    start = np.random.default_rng(0).standard_normal(n) if v is None else v
    shifted = LinearOperator((n, n), matvec=lambda x: B @ x - size * x, dtype=np.float64)
    try:
        _, V = eigsh(shifted, k=1, which="SA", v0=start, ncv=KRYLOV, tol=tol, maxiter=MOST_RESTARTS)
    except ArpackNoConvergence:
        _, V = scipy.linalg.eigh(B, subset_by_index=[0, 0])
    v = np.asarray(V[:, 0])
    return float(v @ (B @ v)), v


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
