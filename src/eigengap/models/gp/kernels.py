"""Covariance functions of latent coordinates, as values that add with +.

Every latent coordinate has a length scale of its own (automatic relevance determination):

    RBF       v exp(-r^2 / 2)                                  r^2 = sum_k (z_k - u_k)^2 / l_k^2
    Matern32  v (1 + sqrt(3) r) exp(-sqrt(3) r)
    Matern52  v (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r)
    Linear    sum_k a_k z_k u_k

Rasmussen and Williams (2006), "Gaussian processes for machine learning", chapter 4. What is left
out (None) is for a fit to choose; what is given is where it starts.

Functions of a distance are written for NumPy and for whatever else has its functions (`xp`), so
that a fit that derives gradients runs the same lines.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from eigengap.linalg import Array

Scales = float | Array | None  # one for all coordinates, one of each, or for the fit to choose


@dataclass(frozen=True, eq=False)
class LatentKernel:
    """A covariance function k(z, u) of two points in latent space: the sum of its parts.

    A kernel that is its own only part has methods of its own.
    """

    @property
    def parts(self) -> tuple[LatentKernel, ...]:
        """The kernels whose sum it is."""
        return (self,)

    def __add__(self, other: LatentKernel) -> LatentKernel:
        if not isinstance(other, LatentKernel):
            return NotImplemented
        return Sum(self.parts + other.parts)

    def require_positive(self, q: int) -> None:
        """Refuse values that no fit can start from; what is left out is for the fit to choose."""
        for part in self.parts:
            for field in fields(part):
                value = getattr(part, field.name)
                if value is None:
                    continue
                if field.name != "variance":
                    value = scales_of(value, q, field.name)
                if not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0.0)):
                    raise ValueError(
                        f"the kernel {type(part).__name__} has {field.name}={value}, which must be "
                        "positive and finite; None leaves the choice to the fit"
                    )

    def matrix(self, Z: Array, U: Array) -> Array:
        """k(z, u) of every row of Z (a, q) and of U (b, q): (a, b)."""
        return np.asarray(sum(part.matrix(Z, U) for part in self.parts))

    def diagonal(self, Z: Array) -> Array:
        """k(z, z) of every row: (a,)."""
        return np.asarray(sum(part.diagonal(Z) for part in self.parts))

    def slopes(self, Z: Array, U: Array) -> Array:
        """Derivatives of k(z, u) with respect to z: (a, b, q)."""
        return np.asarray(sum(part.slopes(Z, U) for part in self.parts))

    def slopes_of_diagonal(self, Z: Array) -> Array:
        """Derivatives of k(z, z): (a, q)."""
        return np.asarray(sum(part.slopes_of_diagonal(Z) for part in self.parts))

    def steepness(self, q: int) -> Array:
        """(q,) mean square of the slope, along each coordinate, of functions it is the prior of."""
        return np.asarray(sum(part.steepness(q) for part in self.parts))

    def reach(self, q: int) -> Array:
        """(q,) how far along each coordinate functions go before they turn; inf where never."""
        return np.asarray(np.min([part.reach(q) for part in self.parts], axis=0))

    def times(self, factor: float) -> LatentKernel:
        """The kernel of functions sqrt(factor) times as large."""
        return Sum(tuple(part.times(factor) for part in self.parts))

    def ordered(self, order: Any) -> LatentKernel:
        """The same for points whose coordinates come in another order."""
        return Sum(tuple(part.ordered(order) for part in self.parts))


@dataclass(frozen=True, eq=False)
class Sum(LatentKernel):
    """The kernel of sums of independent functions."""

    terms: tuple[LatentKernel, ...]

    @property
    def parts(self) -> tuple[LatentKernel, ...]:
        return self.terms


@dataclass(frozen=True, eq=False)
class Stationary(LatentKernel):
    """A kernel of the distance in units of the length scales."""

    variance: float | None = None
    lengths: Scales = None

    def matrix(self, Z: Array, U: Array) -> Array:
        return np.asarray(self._variance * self.of_distance(self._distances(Z, U)))

    def diagonal(self, Z: Array) -> Array:
        return np.full(len(Z), self._variance)

    def slopes(self, Z: Array, U: Array) -> Array:
        l2 = self.lengths_of(Z.shape[1]) ** 2
        fall = self._variance * self.fall(self._distances(Z, U))
        return np.asarray(fall[:, :, None] * (U[None, :, :] - Z[:, None, :]) / l2)

    def slopes_of_diagonal(self, Z: Array) -> Array:
        return np.zeros_like(Z)

    def steepness(self, q: int) -> Array:
        """-k''(0): the mean square slope of a stationary process."""
        return np.asarray(
            self._variance * float(self.fall(np.zeros(1))[0]) / self.lengths_of(q) ** 2
        )

    def reach(self, q: int) -> Array:
        return self.lengths_of(q)

    def times(self, factor: float) -> Stationary:
        return self if self.variance is None else replace(self, variance=self.variance * factor)

    def ordered(self, order: Any) -> Stationary:
        return replace(self, lengths=self.lengths_of(len(order))[order])

    def lengths_of(self, q: int) -> Array:
        """(q,) length scales."""
        return scales_of(self.lengths, q, "lengths")

    @property
    def _variance(self) -> float:
        if self.variance is None:
            raise ValueError("the variance of this kernel is left for a fit to choose")
        return self.variance

    def _distances(self, Z: Array, U: Array) -> Array:
        """(a, b) squared distances r^2, about the centre of U: an offset would take digits."""
        lengths = self.lengths_of(Z.shape[1])
        A, B = Z / lengths, U / lengths
        centre = np.mean(B, axis=0)
        return np.asarray(squared_distances(A - centre, B - centre))

    @staticmethod
    def of_distance(r2: Any, xp: Any = np, away: float = 0.0) -> Any:
        """k / v; `away` is added to what roots are taken of."""
        raise NotImplementedError

    @staticmethod
    def fall(r2: Array) -> Any:
        """-2 d(k / v) / d(r^2): what multiplies (u - z) / l^2 in the slope."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RBF(Stationary):
    """v exp(-r^2 / 2): smooth functions."""

    @staticmethod
    def of_distance(r2: Any, xp: Any = np, away: float = 0.0) -> Any:
        return xp.exp(-0.5 * r2)

    fall = of_distance


@dataclass(frozen=True, eq=False)
class Matern32(Stationary):
    """v (1 + sqrt(3) r) exp(-sqrt(3) r): functions that are differentiable once."""

    @staticmethod
    def of_distance(r2: Any, xp: Any = np, away: float = 0.0) -> Any:
        s = xp.sqrt(3.0 * r2 + away)
        return (1.0 + s) * xp.exp(-s)

    @staticmethod
    def fall(r2: Array) -> Any:
        return 3.0 * np.exp(-np.sqrt(3.0 * r2))


@dataclass(frozen=True, eq=False)
class Matern52(Stationary):
    """v (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r): functions differentiable twice."""

    @staticmethod
    def of_distance(r2: Any, xp: Any = np, away: float = 0.0) -> Any:
        s = xp.sqrt(5.0 * r2 + away)
        return (1.0 + s + s * s / 3.0) * xp.exp(-s)

    @staticmethod
    def fall(r2: Array) -> Any:
        s = np.sqrt(5.0 * r2)
        return 5.0 / 3.0 * (1.0 + s) * np.exp(-s)


@dataclass(frozen=True, eq=False)
class Linear(LatentKernel):
    """sum_k a_k z_k u_k: functions w'z with w_k ~ N(0, a_k), the dual of probabilistic PCA."""

    variances: Scales = None

    def matrix(self, Z: Array, U: Array) -> Array:
        return np.asarray((Z * self.variances_of(Z.shape[1])) @ U.T)

    def diagonal(self, Z: Array) -> Array:
        return np.asarray((Z * Z) @ self.variances_of(Z.shape[1]))

    def slopes(self, Z: Array, U: Array) -> Array:
        a, (b, q) = len(Z), U.shape
        return np.broadcast_to(U * self.variances_of(q), (a, b, q))

    def slopes_of_diagonal(self, Z: Array) -> Array:
        return np.asarray(2.0 * Z * self.variances_of(Z.shape[1]))

    def steepness(self, q: int) -> Array:
        return self.variances_of(q)

    def reach(self, q: int) -> Array:
        return np.full(q, np.inf)

    def times(self, factor: float) -> Linear:
        return self if self.variances is None else Linear(np.asarray(self.variances) * factor)

    def ordered(self, order: Any) -> Linear:
        return Linear(self.variances_of(len(order))[order])

    def variances_of(self, q: int) -> Array:
        """(q,) prior variances of the slopes."""
        return scales_of(self.variances, q, "variances")


def squared_distances(A: Any, B: Any, xp: Any = np) -> Any:
    """|a - b|^2 of all pairs of rows: (len(A), len(B))."""
    squares = xp.sum(A * A, axis=1)[:, None] + xp.sum(B * B, axis=1)
    return xp.maximum(squares - 2.0 * (A @ B.T), 0.0)


def scales_of(scales: Scales, q: int, what: str) -> Array:
    """(q,) positive numbers, one for each latent coordinate."""
    if scales is None:
        raise ValueError(f"the {what} of this kernel are left for a fit to choose")
    given = np.asarray(scales, dtype=np.float64)
    if given.shape not in ((), (1,), (q,)):
        raise ValueError(
            f"the kernel has {what} of shape {given.shape}, and there are {q} latent coordinates: "
            "give one number, or one for each of them"
        )
    return np.array(np.broadcast_to(given, (q,)))


NAMES: dict[str, type[LatentKernel]] = {
    "linear": Linear,
    "rbf": RBF,
    "matern32": Matern32,
    "matern52": Matern52,
}


def kernel_of(given: str | LatentKernel) -> LatentKernel:
    """A kernel from its name, or from names joined by +: "rbf+linear"."""
    if isinstance(given, LatentKernel):
        return given
    names = [name.strip() for name in given.split("+")]
    for name in names:
        if name not in NAMES:
            raise ValueError(
                f"kernel={given!r}: there is no kernel {name!r}; the names are "
                f"{', '.join(NAMES)}, and sums of them such as 'rbf+linear'"
            )
    if len(set(names)) < len(names):
        raise ValueError(
            f"kernel={given!r} names a kernel twice, and both would start alike: for two length "
            "scales give values that start apart, such as RBF(1.0, 0.5) + RBF(1.0, 5.0)"
        )
    parts = tuple(NAMES[name]() for name in names)
    return parts[0] if len(parts) == 1 else Sum(parts)
