"""Fits whose gradients JAX derives, in double precision; only files in this folder import it.

Importing any of them imports JAX, or raises an error on how to install it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from eigengap.exceptions import MissingExtraError

try:
    import jax
except ImportError as error:
    raise MissingExtraError("this fit", "jax", "autodiff") from error


def double_precision() -> AbstractContextManager[None]:
    """float64 for what JAX computes inside, in this thread; elsewhere as the caller set it."""
    precision: AbstractContextManager[None] = jax.enable_x64(True)
    return precision
