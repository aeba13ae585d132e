"""JAX, in double precision, without changing what the caller's own JAX code gets.

Importing this module imports JAX, or says how to install it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from eigengap.exceptions import MissingExtraError
from eigengap.linalg import Array

try:
    import jax
except ImportError as error:
    raise MissingExtraError("this fit", "jax", "autodiff") from error

Parameters = Mapping[str, Array]  # by name, of any shapes


@contextmanager
def double_precision() -> Iterator[None]:
    """float64 for what JAX computes inside, in this thread; elsewhere as the caller set it."""
    with jax.enable_x64(True):
        yield
