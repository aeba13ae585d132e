"""Latents as JAX sees them: free, or a function of the rows; of unit variance where asked."""

from __future__ import annotations

import jax
import jax.numpy as jnp

TINY = 1e-12  # variance of a coordinate that is the same for all rows


def latents(back: str | None, parameters: dict[str, jax.Array], features: jax.Array) -> jax.Array:
    """(n, q): the back constraint's function of the features.

    Where there is none the features (n,) say which row of the parameter Z is the row's latent.
    """
    if back is None:
        return parameters["Z"][features]
    if back == "kernel":
        return features @ parameters["A"]
    hidden = jnp.tanh(features @ parameters["W1"] + parameters["b1"])
    return features @ parameters["W0"] + hidden @ parameters["W2"] + parameters["b2"]


def to_unit_variance(Z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Z with every coordinate of mean 0 and mean square 1; the mean and the root mean square."""
    shift = jnp.mean(Z, axis=0)
    stretch = jnp.sqrt(jnp.mean((Z - shift) ** 2, axis=0) + TINY)
    return (Z - shift) / stretch, shift, stretch
