"""The covariance functions of `models.gp.kernels` as functions of parameters that JAX derives.

A kernel is its form, which is fixed (and what compiled functions are kept by), and the logarithms
of its parameters, by name:

    variances  (a,)    of the a parts that are functions of a distance
    lengths    (a, q)  of these
    slopes     (q,)    prior variances of the linear part, if there is one

Several linear parts are one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.linalg import Array
from eigengap.models.gp.kernels import LatentKernel, Linear, Stationary, Sum, squared_distances

Logs = dict[str, jax.Array]  # parameters by name, logarithms of what is positive

_AWAY = 1e-12  # added to squared distances whose roots are derived, for they have none at 0


@dataclass(frozen=True)
class Form:
    """What a kernel is a sum of."""

    stationary: tuple[type[Stationary], ...]
    linear: bool

    @classmethod
    def of(cls, kernel: LatentKernel) -> Form:
        kinds = tuple(type(part) for part in kernel.parts if isinstance(part, Stationary))
        return cls(kinds, any(isinstance(part, Linear) for part in kernel.parts))

    @property
    def is_linear(self) -> bool:
        return not self.stationary


def start_of(kernel: LatentKernel, shares: Array) -> dict[str, Array]:
    """Where a fit begins: the kernel's own values, else what suits latents of unit variance.

    shares (q,) holds the share of the data's variance along each starting coordinate: those with
    little start with long length scales. Variances share the unit among the parts.
    """
    q, form = len(shares), Form.of(kernel)
    share = 1.0 / (len(form.stationary) + form.linear)
    wide = np.sqrt(q * np.clip(shares[0] / np.maximum(shares, 1e-12), 1.0, 100.0))
    slopes = share * np.maximum(shares, 1e-3 * np.max(shares)) / np.sum(shares)

    def begun(part: LatentKernel) -> LatentKernel:
        if isinstance(part, Stationary):
            variance = share if part.variance is None else part.variance
            return replace(
                part, variance=variance, lengths=wide if part.lengths is None else part.lengths
            )
        assert isinstance(part, Linear)
        return Linear(slopes) if part.variances is None else part

    return logs_of(Sum(tuple(begun(part) for part in kernel.parts)), q)


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


def kernel_from(form: Form, logs: dict[str, Array]) -> LatentKernel:
    """The kernel as a value."""
    parts: list[LatentKernel] = [
        kind(float(np.exp(logs["variances"][i])), np.exp(logs["lengths"][i]))
        for i, kind in enumerate(form.stationary)
    ]
    if form.linear:
        parts.append(Linear(np.exp(logs["slopes"])))
    return parts[0] if len(parts) == 1 else Sum(tuple(parts))


def matrix(form: Form, logs: Logs, Z: jax.Array, U: jax.Array) -> jax.Array:
    """k(z, u) of all pairs: (a, b)."""
    K = jnp.zeros((Z.shape[0], U.shape[0]))
    for i, kind in enumerate(form.stationary):
        lengths = jnp.exp(logs["lengths"][i])
        r2 = squared_distances(Z / lengths, U / lengths, jnp)
        K += jnp.exp(logs["variances"][i]) * kind.of_distance(r2, jnp, _AWAY)
    if form.linear:
        K += (Z * jnp.exp(logs["slopes"])) @ U.T
    return K
