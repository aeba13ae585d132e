"""Kernels as values: k(x, y) = <phi(x), phi(y)> for all pairs of rows of two tables.

Schoelkopf, Smola and Mueller (1998), "Nonlinear component analysis as a kernel eigenvalue
problem". Values are float64 whatever the rows are. Kernels of distances shift both tables by the
centre of the second first: |x|^2 + |y|^2 - 2 x'y loses as many digits as |x|^2 / |x - y|^2 has, so
that an offset of the columns would take them all. Where the range of the rows themselves takes too
many, the differences are formed pair by pair.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.spatial.distance

from eigengap.exceptions import KernelOverflowError
from eigengap.linalg import Array

Rows = Any  # ndarray (n, d) of floats, or a scipy.sparse CSR array of the same

LOST = 1e-11  # relative error of a kernel value at which distances are formed pair by pair
_PIECE = 1 << 18  # cells of a matrix that are worked on at a time, so that they stay in the cache


class NoRealPowerError(ValueError):
    """A fractional power of a negative number."""

    def __init__(self, degree: float) -> None:
        super().__init__(
            f"a polynomial kernel of degree {degree:g} has no value where gamma x'y + coef0 is "
            "negative, as it is for some of these rows: use a whole degree, or a larger coef0"
        )


class Kernel(ABC):
    """A symmetric function of two rows."""

    @property
    def is_positive(self) -> bool:
        """Whether no matrix of this kernel can have a negative eigenvalue."""
        return True

    @abstractmethod
    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        """k(x, y) of every row x of X (a, d) and y of Y (b, d): (a, b), into `out` if given."""

    @abstractmethod
    def diagonal(self, X: Rows) -> Array:
        """k(x, x) of every row: (a,)."""

    def features(self, d: int) -> int | None:
        """Dimension of phi where it is phi_j(x) = k(x, e_j) for the d unit vectors; else None."""
        return None


@dataclass(frozen=True, eq=False)
class Linear(Kernel):
    """(x - origin)'(y - origin): any origin gives the same kernel once centred in feature space."""

    origin: Array | None = None  # (d,); None is 0

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        if self.origin is None:
            return _products(X, Y, out)
        return _products(dense(X) - self.origin, dense(Y) - self.origin, out)

    def diagonal(self, X: Rows) -> Array:
        return squares(X if self.origin is None else dense(X) - self.origin)

    def features(self, d: int) -> int | None:
        return d if self.origin is None else None


@dataclass(frozen=True)
class Cosine(Kernel):
    """x'y / |x||y|; 0 where a row is 0, as in scikit-learn."""

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        return _products(_normalised(X), _normalised(Y), out)

    def diagonal(self, X: Rows) -> Array:
        return np.where(squares(X) > 0.0, 1.0, 0.0)

    def features(self, d: int) -> int | None:
        return d


class _OfProducts(Kernel):
    """A function of x'y."""

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        return _in_pieces(_products(X, Y, out), self._of_products)

    def diagonal(self, X: Rows) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return self._of_products(squares(X))

    @abstractmethod
    def _of_products(self, G: Array) -> Array:
        """In place."""


@dataclass(frozen=True)
class Polynomial(_OfProducts):
    """(gamma x'y + coef0)^degree."""

    gamma: float
    degree: float = 3.0
    coef0: float = 1.0

    @property
    def is_positive(self) -> bool:
        return self.coef0 >= 0.0 and float(self.degree).is_integer()

    def _of_products(self, G: Array) -> Array:
        G *= self.gamma
        G += self.coef0
        if self.degree == 2:
            return np.multiply(G, G, out=G)
        if self.degree == 3:  # np.power takes thirty times as long
            return np.multiply(G, G * G, out=G)
        if not float(self.degree).is_integer() and np.any(G < 0.0):
            raise NoRealPowerError(self.degree)
        return np.power(G, self.degree, out=G)


@dataclass(frozen=True)
class Sigmoid(_OfProducts):
    """tanh(gamma x'y + coef0): not positive in general."""

    gamma: float
    coef0: float = 1.0

    is_positive = False

    def _of_products(self, G: Array) -> Array:
        G *= self.gamma
        G += self.coef0
        return np.tanh(G, out=G)


@dataclass(frozen=True)
class _OfDistances(Kernel):
    """b exp(-gamma times a distance)."""

    gamma: float
    b: float = 1.0

    def diagonal(self, X: Rows) -> Array:
        return np.full(X.shape[0], self.b)

    def _raised(self, E: Array) -> Array:
        """b exp(E), in place."""
        np.exp(E, out=E)
        if self.b != 1.0:
            E *= self.b
        return E


@dataclass(frozen=True)
class RBF(_OfDistances):
    """b exp(-gamma |x - y|^2)."""

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        X, Y = _about_centre(X, Y)
        with np.errstate(over="ignore"):
            sx, sy = squares(X), squares(Y)
            largest = float(np.max(sx, initial=0.0) + np.max(sy, initial=0.0))
        rounding = 8.0 * float(np.finfo(np.float64).eps) * largest  # of |x|^2 + |y|^2 - 2 x'y
        loses = not self.gamma * rounding <= LOST
        if isinstance(X, np.ndarray) and isinstance(Y, np.ndarray) and not loses:
            # All of it is one product: (2 gamma x, -gamma |x|^2, 1)'(y, 1, -gamma |y|^2).
            A = np.column_stack([2.0 * self.gamma * X, -self.gamma * sx, np.ones(len(X))])
            B = np.column_stack([Y, np.ones(len(Y)), -self.gamma * sy])
            K = np.empty((len(X), len(Y))) if out is None else out
            for rows in _pieces(K):
                self._raised(np.matmul(A[rows], B.T, out=K[rows]))
            return K
        if not np.isfinite(largest):
            raise KernelOverflowError(int(np.argmax(sx)))
        if loses:
            D = _put(scipy.spatial.distance.cdist(dense(X), dense(Y), "sqeuclidean"), out)
        else:
            D = _products(X, Y, out)
            for rows in _pieces(D):
                piece = D[rows]
                piece *= -2.0
                piece += sy
                piece += sx[rows, None]
                np.maximum(piece, 0.0, out=piece)
        D *= -self.gamma
        return _in_pieces(D, self._raised)


@dataclass(frozen=True)
class Laplacian(_OfDistances):
    """b exp(-gamma sum_j |x_j - y_j|)."""

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        D = _put(scipy.spatial.distance.cdist(dense(X), dense(Y), "cityblock"), out)
        D *= -self.gamma
        return _in_pieces(D, self._raised)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Rows are kernel values already, one for each landmark."""

    is_positive = False

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        return np.array(dense(X)) if out is None else _put(dense(X), out)

    def diagonal(self, X: Rows) -> Array:
        raise TypeError("a row of kernel values does not hold k(x, x)")


@dataclass(frozen=True)
class Function(Kernel):
    """A function of two rows, called for every pair."""

    of: Callable[..., float]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    is_positive = False

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        A, B = dense(X), dense(Y)
        K = np.empty((len(A), len(B))) if out is None else out
        for i, x in enumerate(A):
            for j, y in enumerate(B):
                K[i, j] = self._value(x, y)
        return K

    def diagonal(self, X: Rows) -> Array:
        return np.array([self._value(x, x) for x in dense(X)])

    def _value(self, x: Array, y: Array) -> float:
        value = self.of(x, y, **self.parameters)
        if np.ndim(value) != 0:
            raise ValueError(
                "a callable kernel takes two rows and returns one number, but returned an array "
                f"of shape {np.shape(value)}. For a function of two whole tables pass an object "
                "with the methods matrix(X, Y) and diagonal(X), see eigengap.models.kernels"
            )
        if np.isnan(value):
            raise ValueError(
                "the callable kernel returned NaN for a pair of rows; it has to be a number for "
                "every pair"
            )
        return float(value)


def named(name: str, gamma: float, degree: float, coef0: float, b: float) -> Kernel:
    """The kernel of scikit-learn's name, with those of the parameters that it has."""
    makers: dict[str, Callable[[], Kernel]] = {
        "linear": Linear,
        "cosine": Cosine,
        "precomputed": Precomputed,
        "poly": lambda: Polynomial(gamma, degree, coef0),
        "sigmoid": lambda: Sigmoid(gamma, coef0),
        "rbf": lambda: RBF(gamma, b),
        "laplacian": lambda: Laplacian(gamma, b),
    }
    return makers[name]()


def about_mean(kernel: Kernel, rows: Rows) -> Kernel:
    """The linear kernel about the mean: the same once centred, and free of an offset's rounding."""
    if isinstance(kernel, Linear) and isinstance(rows, np.ndarray):
        return Linear(np.mean(rows, axis=0, dtype=np.float64))
    return kernel


# Products and distances ---------------------------------------------------------------------


def dense(X: Rows) -> Array:
    """Rows as a float64 array."""
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)


def squares(X: Rows) -> Array:
    """|x|^2 of every row: (n,)."""
    if isinstance(X, np.ndarray):
        A = dense(X)
        return np.asarray(np.einsum("ij,ij->i", A, A))
    return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).reshape(-1)


def _about_centre(X: Rows, Y: Rows) -> tuple[Rows, Rows]:
    """Both about the medians of some rows of Y: near the bulk of it whatever a few rows do."""
    if not (isinstance(X, np.ndarray) and isinstance(Y, np.ndarray)) or len(Y) == 0:
        return X, Y
    centre = np.median(dense(Y[:: max(1, len(Y) // 100)]), axis=0)
    return dense(X) - centre, dense(Y) - centre


def _products(X: Rows, Y: Rows, out: Array | None) -> Array:
    """X Y', (a, b)."""
    if isinstance(X, np.ndarray) and isinstance(Y, np.ndarray):
        with np.errstate(over="ignore", invalid="ignore"):  # who uses it looks for infinities
            return np.matmul(dense(X), dense(Y).T, out=out)
    product = X.astype(np.float64) @ Y.T.astype(np.float64)
    return _put(product if isinstance(product, np.ndarray) else product.toarray(), out)


def _put(values: Array, out: Array | None) -> Array:
    if out is None:
        return values
    out[...] = values
    return out


def _normalised(X: Rows) -> Rows:
    """Rows of unit length; 0 stays 0."""
    if isinstance(X, np.ndarray):
        A = dense(X)
        largest = np.max(np.abs(A), axis=1, initial=0.0)
        # So that squares neither overflow nor underflow.
        A = A / np.where(largest > 0.0, largest, 1.0)[:, None]
        length = np.sqrt(squares(A))
        return A / np.where(length > 0.0, length, 1.0)[:, None]
    length = np.sqrt(squares(X))
    return X.multiply(1.0 / np.where(length > 0.0, length, 1.0)[:, None]).tocsr()


def _in_pieces(K: Array, fn: Callable[[Array], Array]) -> Array:
    """fn, which works in place, on pieces of K that fit the cache."""
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in _pieces(K):
            fn(K[rows])
    return K


def _pieces(K: Array) -> list[slice]:
    step = max(16, _PIECE // max(1, K.shape[1]))
    return [slice(start, start + step) for start in range(0, K.shape[0], step)]
