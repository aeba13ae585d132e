"""Eigenvalues of either sign: the spectrum of a matrix of inner products.

Distances that no points in a Euclidean space have, and kernels that are not positive, show by
negative eigenvalues. How much those hold of the whole decides whether coordinates can be trusted,
and takes the whole spectrum, of which an embedding needs but the first few. In order of cost:

* a small matrix is diagonalised;
* else a pivoted Cholesky factorisation that comes to an end (Higham 2002, section 10.3) proves that
  there is no negative eigenvalue, and gives the rank;
* else up to `EXACT` points the eigenvalues are computed without their vectors;
* beyond, the sum of the negative ones is estimated by stochastic Lanczos quadrature (Ubaru, Chen
  and Saad 2017): tr f(G) for f(x) = max(-x, 0), from random probes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg.lapack

from eigengap.fitting.eigen.symmetric import SMALL, Eigenpairs, leading_eigenpairs
from eigengap.linalg import Array
from eigengap.spectrum import Spectrum

EXACT = 2500  # side up to which all eigenvalues are computed where some are negative
ANGLE = 1e-10  # of eigenvectors, so that a fitted point is mapped onto itself
PROBES, STEPS = 16, 48  # of the quadrature
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class SignedSpectrum:
    """The leading eigenvalues of a symmetric matrix and the sums of all, by sign."""

    lam: Array  # (k,) the known ones, descending, of either sign
    positive: float  # sum of all positive eigenvalues
    negative: float  # sum of the moduli of all negative ones
    least: float  # the smallest eigenvalue; 0 where none is negative
    rounding: float  # modulus up to which an eigenvalue counts as 0
    rank: int | None  # number of positive ones, None where that is not known
    estimated: bool = False  # whether `positive`, `negative` and `least` are

    @classmethod
    def of_all(cls, lam: Array, floor: float = 0.0) -> SignedSpectrum:
        """Of all eigenvalues, in any order."""
        lam = np.sort(lam)[::-1]
        size = max(abs(float(lam[0])), abs(float(lam[-1])))
        rounding = max(len(lam) * EPS * size, floor)
        positive, negative = lam[lam > rounding], lam[lam < -rounding]
        return cls(
            lam=lam,
            positive=float(np.sum(positive)),
            negative=abs(float(np.sum(negative))),
            least=float(negative[-1]) if len(negative) else 0.0,
            rounding=rounding,
            rank=len(positive),
        )

    @classmethod
    def of_rows(cls, spectrum: Spectrum) -> SignedSpectrum:
        """Of the inner products of centred rows: sum_w times the spectrum of their covariance."""
        lam = spectrum.lam * spectrum.sum_w
        rank = spectrum.rank()
        known = spectrum.complete or rank < len(lam)
        total = spectrum.total * spectrum.sum_w
        rounding = spectrum.rounding * spectrum.sum_w
        return cls(lam, total, 0.0, 0.0, rounding, rank if known else None)

    @property
    def negative_share(self) -> float:
        """Of the sum of the moduli of all eigenvalues, what the negative ones hold."""
        size = self.positive + self.negative
        return self.negative / size if size > 0.0 else 0.0

    def goodness_of_fit(self, q: int) -> tuple[float, float]:
        """What the first q eigenvalues hold of all moduli, and of all positive eigenvalues.

        Mardia, Kent and Bibby (1979), Eq. 14.4.7, and R's cmdscale. 0 where all are 0.
        """
        kept = float(np.sum(np.maximum(self.lam[:q], 0.0)))
        size = self.positive + self.negative
        return (kept / size if size > 0.0 else 0.0, kept / self.positive if size > 0.0 else 0.0)

    def significant(self) -> int | None:
        """Number of eigenvalues above rounding and above the modulus of every negative one.

        The magnitude criterion of Sibson (1979): what is no larger than the largest that is known
        to be error may be error too. None where more of them are significant than are known.
        """
        if self.least == 0.0:
            return self.rank
        count = int(np.sum(self.lam > self.rounding - self.least))
        return count if count < len(self.lam) else None

    def for_share(self, share: float) -> int:
        """Fewest leading eigenvalues that hold `share` of all positive ones; lam must be whole."""
        held = np.cumsum(np.maximum(self.lam, 0.0))
        if self.positive <= 0.0:
            return 1
        return min(int(np.searchsorted(held / self.positive, share)) + 1, len(self.lam))


def signed_eigenpairs(G: Array, k: int | None, floor: float = 0.0) -> tuple[SignedSpectrum, Array]:
    """The spectrum of the symmetric matrix G (n, n) and its k leading eigenvectors; None is all.

    Eigenvalues up to `floor` in modulus count as 0: the error that G comes with.
    """
    n = len(G)
    if k is None or n <= SMALL:
        found = leading_eigenpairs(G, None)
        return SignedSpectrum.of_all(found.lam, floor), found.V[:, :k]
    found = leading_eigenpairs(G, k, ANGLE)
    if n > EXACT:
        return _estimated(G, found, floor), found.V
    rank = _rank_if_positive(G, floor)
    if rank is None:
        return SignedSpectrum.of_all(np.linalg.eigvalsh(G).astype(np.float64), floor), found.V
    rounding = max(n * EPS * float(found.lam[0]), floor)
    return SignedSpectrum(found.lam, float(G.trace()), 0.0, 0.0, rounding, rank), found.V


def _rank_if_positive(G: Array, floor: float) -> int | None:
    """The rank of G if it is positive semi-definite, None if it is not.

    P'GP = LL' + S with S = 0 but for rounding: what is left is looked at through random vectors.
    """
    n = len(G)
    largest = float(np.max(G.diagonal()))
    tol = max(n * EPS * largest, floor / n)
    if largest <= tol:
        return None if np.any(np.abs(G) > tol) else 0
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(G, lower=1, tol=tol)
    L = np.tril(factor[:, :rank])
    probe = np.random.default_rng(0).standard_normal((n, 8))
    at = order - 1
    left = (G @ probe)[at] - L @ (L.T @ probe[at])
    allowed = max(10.0 * n * EPS * float(np.linalg.norm(G)), floor)
    return int(rank) if float(np.max(np.linalg.norm(left, axis=0))) <= allowed else None


def _estimated(G: Array, found: Eigenpairs, floor: float) -> SignedSpectrum:
    """Sums by sign from the quadrature; the trace is exact, so one of them gives the other."""
    n = len(G)
    nodes, shares = lanczos_quadrature(G, PROBES, STEPS)
    least = float(np.min(nodes))
    rounding = max(n * EPS * max(float(found.lam[0]), -least), floor)
    trace = float(G.trace())
    if least >= -rounding:
        return SignedSpectrum(found.lam, trace, 0.0, 0.0, rounding, None)
    negative = n * float(np.mean(np.sum(shares * np.maximum(-nodes, 0.0), axis=1)))
    known = float(np.sum(np.maximum(found.lam, 0.0)))
    positive = max(trace + negative, known)
    return SignedSpectrum(found.lam, positive, negative, least, rounding, None, estimated=True)


def lanczos_quadrature(G: Array, probes: int, steps: int) -> tuple[Array, Array]:
    """Nodes and weights (probes, steps) whose sums of f are estimates of tr f(G) / n.

    Gauss quadrature of the spectral measure of random unit vectors (Golub and Meurant 2010), all
    probes in one product a step.
    """
    n = len(G)
    steps = min(steps, n)
    v = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, probes)) / np.sqrt(n)
    T = np.zeros((probes, steps, steps))
    before, beta = np.zeros_like(v), np.zeros(probes)
    for k in range(steps):
        w = G @ v - before * beta
        T[:, k, k] = alpha = np.einsum("ip,ip->p", v, w)
        w -= v * alpha
        beta = np.linalg.norm(w, axis=0)
        if k + 1 < steps:
            T[:, k, k + 1] = T[:, k + 1, k] = beta
        before, v = v, w / np.where(beta > 0.0, beta, 1.0)
    nodes, vectors = np.linalg.eigh(T)
    return nodes, vectors[:, 0, :] ** 2
