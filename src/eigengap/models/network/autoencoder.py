"""A feed-forward autoencoder as an immutable value: rows to codes and back.

    z = f(x),  x^ = g(z),

f and g being layers x -> a(x W + b) with a smooth function a between them and none after the last.
A linear path runs parallel to them, z = x A + f(x) and x^ = z B + g(z), with `shortcut`: with
f = g = 0 it is principal component analysis, and the layers learn what is curved.

Rows are standardised first, (x - mean) / unit; a missing value is 0, the mean of its
column. Where the network `sees_missing`, as many further inputs mark those cells:
-1 for a missing value, 0 for an observed value.

The equations are written for NumPy and for whatever else has its functions (`xp`), so that a fit
that derives gradients runs the same lines. The value itself needs NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, sign_rule

ACTIVATIONS = ("tanh", "relu", "gelu", "softplus", "elu", "linear")
PIECE = 1 << 20  # cells of a layer that are computed at a time, so that they stay in the cache


def activated(x: Any, name: str, xp: Any = np) -> Any:
    """The function between two layers."""
    if name == "tanh":
        return xp.tanh(x)
    if name == "relu":
        return xp.maximum(x, 0.0)
    if name == "gelu":  # Hendrycks and Gimpel (2016), in its form with tanh
        return 0.5 * x * (1.0 + xp.tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))
    if name == "softplus":
        return xp.logaddexp(x, 0.0)
    if name == "elu":
        return xp.where(x > 0.0, x, xp.expm1(xp.minimum(x, 0.0)))
    return x


@dataclass(frozen=True)
class Architecture:
    """Widths and kind of a network: what its flat vector of parameters means."""

    d: int
    hidden: tuple[int, ...]  # widths of the encoder's layers; the decoder's are mirrored
    q: int
    activation: str
    shortcut: bool
    sees_missing: bool

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}"
            )

    @property
    def inputs(self) -> int:
        return 2 * self.d if self.sees_missing else self.d

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of W, b of each encoder layer, of each decoder layer; of A and B."""
        forth, back = (self.inputs, *self.hidden, self.q), (self.q, *self.hidden[::-1], self.d)
        layers: list[tuple[int, ...]] = []
        for widths in (forth, back):
            for a, b in pairwise(widths):
                layers += [(a, b), (b,)]
        return layers + ([(self.d, self.q), (self.q, self.d)] if self.shortcut else [])

    @property
    def size(self) -> int:
        return sum(prod(shape) for shape in self.shapes)

    def split(self, theta: Any) -> Parts:
        """The flat parameters (size,) by their places."""
        arrays, start = [], 0
        for shape in self.shapes:
            count = prod(shape)
            arrays.append(theta[start : start + count].reshape(shape))
            start += count
        per_side = len(self.hidden) + 1
        layers = [(arrays[2 * k], arrays[2 * k + 1]) for k in range(2 * per_side)]
        A, B = arrays[4 * per_side :] if self.shortcut else (None, None)
        return Parts(layers[:per_side], layers[per_side:], A, B)


@dataclass(frozen=True, eq=False)
class Parts:
    """Parameters by their places; arrays of NumPy, or of what stands for it."""

    encoder: list[tuple[Any, Any]]  # W (a, b), b (b,)
    decoder: list[tuple[Any, Any]]
    A: Any | None  # (d, q)
    B: Any | None  # (q, d)

    @property
    def matrices(self) -> list[Any]:
        """All weights, without the biases."""
        ways = [way for way in (self.A, self.B) if way is not None]
        return [W for W, _ in (*self.encoder, *self.decoder)] + ways

    def flat(self) -> Array:
        layers = [array for layer in (*self.encoder, *self.decoder) for array in layer]
        ways = [way for way in (self.A, self.B) if way is not None]
        return np.concatenate([np.ravel(array) for array in (*layers, *ways)])


def codes(x: Any, observed: Any, parts: Parts, arch: Architecture, xp: Any = np) -> Any:
    """Codes (n, q) of standardised rows x (n, d), 0 where missing; observed is 1 or 0."""
    inputs = xp.concatenate([x, observed - 1.0], axis=1) if arch.sees_missing else x
    z = _through(inputs, parts.encoder, arch.activation, xp)
    return z if parts.A is None else z + x @ parts.A


def reconstructions(z: Any, parts: Parts, arch: Architecture, xp: Any = np) -> Any:
    """Standardised rows (n, d) at the codes z (n, q)."""
    x = _through(z, parts.decoder, arch.activation, xp)
    return x if parts.B is None else x + z @ parts.B


def penalty(parts: Parts, decay: float, xp: Any = np) -> Any:
    """decay / 2 times the sum of the squared weights, biases left out."""
    return 0.5 * decay * sum(xp.sum(W * W) for W in parts.matrices)


def _through(x: Any, layers: Sequence[tuple[Any, Any]], activation: str, xp: Any) -> Any:
    for W, b in layers[:-1]:
        x = activated(x @ W + b, activation, xp)
    W, b = layers[-1]
    return x @ W + b


@dataclass(frozen=True, eq=False)
class Network:
    """A fitted autoencoder.

    Attributes
    ----------
    architecture : Architecture
    theta : (size,) all weights and biases; `parts` gives them by their places
    mean, unit : (d,) rows are standardised by (x - mean) / unit
    """

    architecture: Architecture
    theta: Array
    mean: Array
    unit: Array

    def __post_init__(self) -> None:
        for name in ("theta", "mean", "unit"):
            value = np.array(getattr(self, name), dtype=np.float64, copy=True)
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        d, size = self.architecture.d, self.architecture.size
        if self.theta.shape != (size,) or self.mean.shape != (d,) or self.unit.shape != (d,):
            raise ValueError(
                f"shapes do not fit: theta {self.theta.shape}, mean {self.mean.shape}, unit "
                f"{self.unit.shape}; expected ({size},), ({d},), ({d},)"
            )

    @property
    def d(self) -> int:
        return self.architecture.d

    @property
    def q(self) -> int:
        return self.architecture.q

    @property
    def parts(self) -> Parts:
        return self.architecture.split(self.theta)

    # Use -------------------------------------------------------------------------------------

    def encode(self, X: NDArray[Any]) -> Array:
        """Codes (n, q) of rows (n, d), NaN where missing."""
        parts = self.parts
        return self._in_pieces(
            X, self.q, lambda x, observed: codes(x, observed, parts, self.architecture)
        )

    def decode(self, Z: NDArray[Any]) -> Array:
        """Rows (n, d) at the codes (n, q)."""
        rows = reconstructions(np.asarray(Z, dtype=np.float64), self.parts, self.architecture)
        return np.asarray(rows * self.unit + self.mean)

    def reconstruct(self, X: NDArray[Any]) -> Array:
        """Every row as the network gives it back, its missing values too: (n, d)."""
        return self._in_pieces(X, self.d, self._again) * self.unit + self.mean

    def squared_error(self, X: NDArray[Any]) -> Array:
        """Mean squared error (n,) of the observed values of each row, in standardised units.

        0 for a row without any.
        """

        def of(x: Array, observed: Array) -> Array:
            apart = (self._again(x, observed) - x) ** 2 * observed
            count = np.sum(observed, axis=1, keepdims=True)
            return np.asarray(np.sum(apart, axis=1, keepdims=True) / np.maximum(count, 1.0))

        return self._in_pieces(X, 1, of)[:, 0]

    def impute(self, X: NDArray[Any]) -> Array:
        """The rows with their missing values imputed by the network."""
        return np.where(np.isnan(X), self.reconstruct(X), X)

    def standardised(self, X: NDArray[Any]) -> tuple[Array, Array]:
        """Rows in units of their columns, 0 where missing, and 1 where observed: both (n, d)."""
        x = (X - self.mean) / self.unit
        observed = ~np.isnan(x)
        return np.where(observed, x, 0.0), observed.astype(np.float64)

    def _again(self, x: Array, observed: Array) -> Array:
        arch, parts = self.architecture, self.parts
        return np.asarray(reconstructions(codes(x, observed, parts, arch), parts, arch))

    def _in_pieces(self, X: NDArray[Any], width: int, fn: Any) -> Array:
        widest = max(self.architecture.inputs, *self.architecture.hidden, self.q)
        step = max(64, PIECE // widest)
        out = np.empty((len(X), width))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            out[rows] = fn(*self.standardised(X[rows]))
        return out

    # The same network, written otherwise ------------------------------------------------------

    def recoded(self, T: Array, shift: Array) -> Network:
        """The same reconstructions, with codes (z - shift) T; T (q, q) has an inverse."""
        parts, back = self.parts, np.linalg.inv(T)
        (W, b), (V, c) = parts.encoder[-1], parts.decoder[0]
        encoder = [*parts.encoder[:-1], (W @ T, (b - shift) @ T)]
        decoder = [(back @ V, c + shift @ V), *parts.decoder[1:]]
        A, B = parts.A, parts.B
        if A is not None and B is not None:
            U, e = decoder[-1]
            decoder[-1] = (U, e + shift @ B)
            A, B = A @ T, back @ B
        theta = Parts(encoder, decoder, A, B).flat()
        return Network(self.architecture, theta, self.mean, self.unit)

    def without_columns(self, columns: NDArray[np.bool_]) -> Network:
        """The same, but some columns neither go in nor come out: their cells are their means."""
        arch = self.architecture
        theta = self.theta.copy()
        parts = arch.split(theta)  # views
        W = parts.encoder[0][0]
        W[: arch.d][columns] = 0.0
        if arch.sees_missing:
            W[arch.d :][columns] = 0.0
        V, c = parts.decoder[-1]
        V[:, columns] = 0.0
        c[columns] = 0.0
        if parts.A is not None and parts.B is not None:
            parts.A[columns] = 0.0
            parts.B[:, columns] = 0.0
        return Network(arch, theta, self.mean, self.unit)

    def slopes(self, Z: Array) -> Array:
        """Derivatives (n, q, d) of standardised rows by the codes, at the codes Z (n, q)."""
        parts, activation = self.parts, self.architecture.activation
        x, J = Z, np.broadcast_to(np.eye(self.q), (len(Z), self.q, self.q))
        for W, b in parts.decoder[:-1]:
            before = x @ W + b
            x = activated(before, activation)
            J = (J @ W) * _slope(before, activation)[:, None, :]
        J = J @ parts.decoder[-1][0]
        return np.asarray(J if parts.B is None else J + parts.B)

    def canonical(self, mean: Array, covariance: Array, Z: Array) -> Network:
        """The same network whose codes have mean 0, unit variances and no correlation.

        `mean` (q,) and `covariance` (q, q) are those of the codes of the rows, Z (m, q) some of
        them. Of all rotations that leave this so, the one that makes the directions in which
        reconstructions move, E[J'J] with J = dx^/dz, diagonal, the largest first. A linear network
        has whitened principal components then. A code that does not vary keeps its unit.
        """
        lam, V = np.linalg.eigh(covariance)
        sd = np.sqrt(np.where(lam > 1e-12 * max(float(lam[-1]), 1e-300), lam, 1.0))
        white = self.recoded(V / sd, mean)
        J = white.slopes((Z - mean) @ (V / sd))
        moved, R = np.linalg.eigh(np.einsum("nqd,nrd->qr", J, J))
        R = R[:, np.argsort(-moved)]
        signs = sign_rule(np.mean(J, axis=0).T @ R)
        return white.recoded(R * signs, np.zeros(self.q))


def _slope(x: Array, activation: str) -> Array:
    """Derivative of `activated`."""
    if activation == "tanh":
        return np.asarray(1.0 - np.tanh(x) ** 2)
    if activation == "relu":
        return (x > 0.0).astype(np.float64)
    if activation == "gelu":
        t = np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))
        inner = 0.7978845608028654 * (1.0 + 0.134145 * x**2)
        return np.asarray(0.5 * (1.0 + t) + 0.5 * x * (1.0 - t**2) * inner)
    if activation == "softplus":
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
    if activation == "elu":
        return np.where(x > 0.0, 1.0, np.exp(np.minimum(x, 0.0)))
    return np.ones_like(x)


@dataclass(frozen=True, eq=False)
class Perceptron:
    """One hidden layer plus a linear map, z = W0'x + W2'tanh(W1'x + b1) + b2: no way back."""

    W0: Array  # (d, q)
    W1: Array  # (d, h)
    b1: Array  # (h,)
    W2: Array  # (h, q)
    b2: Array  # (q,)

    def forward(self, X: Any, xp: Any = np) -> Any:
        """Coordinates (n, q) of the rows X (n, d)."""
        return X @ self.W0 + xp.tanh(X @ self.W1 + self.b1) @ self.W2 + self.b2
