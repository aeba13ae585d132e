"""The functions that ICA measures non-Gaussianity with: a potential F, g = F' and g'.

Hyvarinen (1999), "Fast and robust fixed-point algorithms for independent component analysis",
Eqs. 10 to 12: log cosh, the Gaussian, the fourth power. Entries are (c, q) arrays of scores in
float32 or float64; what comes back is of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

Scores = NDArray[Any]  # (c, q) float32 or float64

NODES = 100  # of Gauss-Hermite quadrature


class Nonlinearity(Protocol):
    """g = F' of a potential F."""

    def derivatives(self, Y: Scores) -> tuple[Scores, Scores]:
        """g(Y) and g'(Y)."""
        ...

    def potential(self, Y: Scores) -> Scores | None:
        """F(Y), None where only its derivatives are known."""
        ...


@dataclass(frozen=True)
class LogCosh:
    """F(y) = ln cosh(alpha y) / alpha: robust, good for sub- and super-Gaussian sources alike."""

    alpha: float = 1.0

    def derivatives(self, Y: Scores) -> tuple[Scores, Scores]:
        g = _tanh(Y if self.alpha == 1.0 else Y * Y.dtype.type(self.alpha))
        slope = g * g
        np.subtract(1.0, slope, out=slope)
        return g, (slope if self.alpha == 1.0 else slope * Y.dtype.type(self.alpha))

    def potential(self, Y: Scores) -> Scores:
        size = np.abs(Y if self.alpha == 1.0 else Y * Y.dtype.type(self.alpha))
        rest = np.exp(-2.0 * size)
        rest += 1.0
        np.log(rest, out=rest)
        rest += size
        rest -= Y.dtype.type(np.log(2.0))
        return np.asarray(rest if self.alpha == 1.0 else rest / Y.dtype.type(self.alpha))


@dataclass(frozen=True)
class Gauss:
    """F(y) = -exp(-y^2 / 2): for heavy tails."""

    def derivatives(self, Y: Scores) -> tuple[Scores, Scores]:
        square = Y * Y
        bell = np.exp(-0.5 * square)
        return Y * bell, (1.0 - square) * bell

    def potential(self, Y: Scores) -> Scores:
        return -np.exp(-0.5 * Y * Y)


@dataclass(frozen=True)
class Cube:
    """F(y) = y^4 / 4: kurtosis, which outliers rule."""

    def derivatives(self, Y: Scores) -> tuple[Scores, Scores]:
        square = Y * Y
        return square * Y, 3.0 * square

    def potential(self, Y: Scores) -> Scores:
        return 0.25 * (Y * Y) ** 2


@dataclass(frozen=True)
class Given:
    """A function of the caller's, in scikit-learn's convention for FastICA.

    It takes scores (q, c) and returns g of the same shape and g', averaged over the last axis or
    of the same shape. What it returns averaged holds for rows of equal weight only.
    """

    fun: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def averages(self) -> bool:
        """Whether the derivative comes averaged."""
        return np.asarray(self.fun(np.zeros((1, 2)), **self.arguments)[1]).ndim == 1

    def derivatives(self, Y: Scores) -> tuple[Scores, Scores]:
        g, slope = self.fun(Y.T.copy(), **self.arguments)
        g, slope = np.asarray(g), np.asarray(slope)
        if g.shape != Y.T.shape or slope.shape not in (Y.T.shape, (Y.shape[1],)):
            raise ValueError(
                f"fun returned shapes {g.shape} and {slope.shape} for scores of shape {Y.T.shape}: "
                "it has to return g of the same shape, and its derivative, averaged over the last "
                "axis or of the same shape too"
            )
        if slope.ndim == 1:
            return g.T, np.broadcast_to(slope, Y.shape)
        return g.T, slope.T

    def potential(self, Y: Scores) -> None:
        return None


def _tanh(Y: Scores) -> Scores:
    """tanh to rounding of 1, which is what sums of it need.

    In float64 1 - 2 / (exp(2 y) + 1), for NumPy's exponential is vectorised where its tanh is not;
    an overflow to infinity gives 1.
    """
    if Y.dtype != np.float64:
        return np.tanh(Y)
    with np.errstate(over="ignore"):
        T = np.exp(2.0 * Y)
    T += 1.0
    np.divide(-2.0, T, out=T)
    T += 1.0
    return T


@dataclass(frozen=True)
class GaussianReference:
    """What a Gaussian score of given variance v shows under a nonlinearity."""

    potential: float  # E F(y); nan where F is not known
    discrepancy_sd: float  # standard deviation of v g'(y) - g(y) y - its mean, a row


def gaussian_reference(fun: Nonlinearity, variance: float) -> GaussianReference:
    """By Gauss-Hermite quadrature.

    The discrepancy is taken with the variance of the scores held fixed, as whitening does: what
    it has in common with y^2 is left out of its standard deviation.
    """
    nodes, weight = _gauss_hermite()
    y: Array = np.sqrt(variance) * nodes[:, None]
    g, slope = fun.derivatives(y)
    F = fun.potential(y)
    t = (variance * slope - g * y)[:, 0]
    t = t - weight @ t
    square = nodes**2 - 1.0
    t = t - square * (weight @ (t * square)) / (weight @ square**2)
    return GaussianReference(
        float("nan") if F is None else float(weight @ F[:, 0]), float(np.sqrt(weight @ t**2))
    )


@lru_cache(maxsize=1)
def _gauss_hermite() -> tuple[Array, Array]:
    nodes, weight = np.polynomial.hermite_e.hermegauss(NODES)
    return nodes, weight / weight.sum()
