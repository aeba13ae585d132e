"""The covariance functions of `models.gp.kernels` as functions of parameters that JAX derives.

A kernel is its form, which is fixed (and what compiled functions are kept by), and the logarithms
of its parameters, by name:

    variances  (a,)    of the a parts that are functions of a distance
    lengths    (a, q)  of these
    slopes     (q,)    prior variances of the linear part, if there is one

Several linear parts are one.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.linalg import Array
from eigengap.models.gp.kernels import (
    RBF,
    LatentKernel,
    Linear,
    Matern32,
    Matern52,
    Stationary,
    Sum,
)

Logs = dict[str, jax.Array]  # parameters by name, logarithms of what is positive

_NAME = {RBF: "rbf", Matern32: "matern32", Matern52: "matern52"}
_CLASS: dict[str, type[Stationary]] = {"rbf": RBF, "matern32": Matern32, "matern52": Matern52}
_AWAY = 1e-12  # added to squared distances whose roots are derived, for they have none at 0


@dataclass(frozen=True)
class Form:
    """What a kernel is a sum of."""

    stationary: tuple[str, ...]
    linear: bool

    @classmethod
    def of(cls, kernel: LatentKernel) -> Form:
        names = tuple(_NAME[type(p)] for p in kernel.parts if isinstance(p, Stationary))
        return cls(names, any(isinstance(p, Linear) for p in kernel.parts))

    @property
    def n_parts(self) -> int:
        return len(self.stationary) + self.linear

    @property
    def is_linear(self) -> bool:
        return not self.stationary

    @property
    def has_expectations(self) -> bool:
        """Whether its expected values over a Gaussian have a closed form."""
        return all(name == "rbf" for name in self.stationary)


def start_of(kernel: LatentKernel, shares: Array) -> dict[str, Array]:
    """Where a fit begins: what the kernel says, else what suits latents of unit variance.

    shares (q,) holds the share of the data's variance along each starting coordinate: those with
    little start with long length scales. Variances share the unit among the parts.
    """
    q, form = len(shares), Form.of(kernel)
    share = 1.0 / form.n_parts
    wide = np.sqrt(q * np.clip(shares[0] / np.maximum(shares, 1e-12), 1.0, 100.0))
    found: dict[str, Array] = {}
    parts = [part for part in kernel.parts if isinstance(part, Stationary)]
    if parts:
        given = [share if part.variance is None else part.variance for part in parts]
        lengths = [wide if part.lengths is None else part.lengths_of(q) for part in parts]
        found["variances"] = np.log(np.array(given, dtype=np.float64))
        found["lengths"] = np.log(np.array(lengths))
    if form.linear:
        chosen = share * np.maximum(shares, 1e-3 * np.max(shares)) / np.sum(shares)
        slopes = [
            chosen if part.variances is None else part.variances_of(q)
            for part in kernel.parts
            if isinstance(part, Linear)
        ]
        found["slopes"] = np.log(np.sum(slopes, axis=0))
    return found


def kernel_from(form: Form, logs: dict[str, Array]) -> LatentKernel:
    """The kernel as a value."""
    parts: list[LatentKernel] = [
        _CLASS[name](float(np.exp(logs["variances"][i])), np.exp(logs["lengths"][i]))
        for i, name in enumerate(form.stationary)
    ]
    if form.linear:
        parts.append(Linear(np.exp(logs["slopes"])))
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


def logs_of(kernel: LatentKernel, q: int) -> dict[str, Array]:
    """The parameters of a kernel that is a value; -inf where a slope has no variance."""
    found: dict[str, Array] = {}
    parts = [part for part in kernel.parts if isinstance(part, Stationary)]
    if parts:
        found["variances"] = np.log([part._variance for part in parts])
        found["lengths"] = np.log([part.lengths_of(q) for part in parts])
    slopes = [part.variances_of(q) for part in kernel.parts if isinstance(part, Linear)]
    if slopes:
        with np.errstate(divide="ignore"):
            found["slopes"] = np.log(np.sum(slopes, axis=0))
    return found


def matrix(form: Form, logs: Logs, Z: jax.Array, U: jax.Array) -> jax.Array:
    """k(z, u) of all pairs: (a, b)."""
    K = jnp.zeros((Z.shape[0], U.shape[0]))
    for i, name in enumerate(form.stationary):
        lengths = jnp.exp(logs["lengths"][i])
        r2 = _squared_distances(Z / lengths, U / lengths)
        K += jnp.exp(logs["variances"][i]) * _of_distance(name, r2)
    if form.linear:
        K += (Z * jnp.exp(logs["slopes"])) @ U.T
    return K


def diagonal(form: Form, logs: Logs, Z: jax.Array) -> jax.Array:
    """k(z, z): (a,)."""
    k = jnp.zeros(Z.shape[0])
    if form.stationary:
        k += jnp.sum(jnp.exp(logs["variances"]))
    if form.linear:
        k += (Z * Z) @ jnp.exp(logs["slopes"])
    return k


def _squared_distances(A: jax.Array, B: jax.Array) -> jax.Array:
    squares = jnp.sum(A * A, axis=1)[:, None] + jnp.sum(B * B, axis=1)
    return jnp.maximum(squares - 2.0 * (A @ B.T), 0.0)


def _of_distance(name: str, r2: jax.Array) -> jax.Array:
    if name == "rbf":
        return jnp.exp(-0.5 * r2)
    if name == "matern32":
        s = jnp.sqrt(3.0 * r2 + _AWAY)
        return (1.0 + s) * jnp.exp(-s)
    s = jnp.sqrt(5.0 * r2 + _AWAY)
    return (1.0 + s + s * s / 3.0) * jnp.exp(-s)
