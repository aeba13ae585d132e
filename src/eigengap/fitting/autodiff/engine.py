"""JAX, in double precision, without changing what the caller's own JAX code gets.

Importing this module imports JAX, or says how to install it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from eigengap.exceptions import MissingExtraError
from eigengap.fitting.optimise.lbfgs import Minimum, minimise
from eigengap.fitting.optimise.loop import Watch
from eigengap.linalg import Array

try:
    import jax
    from jax.flatten_util import ravel_pytree
except ImportError as error:
    raise MissingExtraError("this fit", "jax", "autodiff") from error

Parameters = Mapping[str, Array]  # by name, of any shapes


@contextmanager
def double_precision() -> Iterator[None]:
    """float64 for what JAX computes inside, in this thread; elsewhere as the caller set it."""
    with jax.enable_x64(True):
        yield


def minimise_over(
    objective: Callable[[dict[str, jax.Array]], jax.Array],
    start: Parameters,
    *,
    gradient: float = 1e-6,
    change: float = 1e-12,
    max_iter: int = 1000,
    watch: Watch | None = None,
) -> tuple[dict[str, Array], Minimum]:
    """The parameters that minimise a function of them, by L-BFGS; and how it went."""
    with double_precision():
        x, shaped = ravel_pytree({name: jax.numpy.asarray(v) for name, v in start.items()})
        both = jax.jit(jax.value_and_grad(lambda flat: objective(shaped(flat))))

        def function(flat: Array) -> tuple[float, Array]:
            value, slope = both(flat)
            return float(value), np.asarray(slope)

        found = minimise(
            function,
            np.asarray(x),
            gradient=gradient,
            change=change,
            max_iter=max_iter,
            watch=watch,
        )
        named = shaped(jax.numpy.asarray(found.x))
        return {name: np.asarray(value) for name, value in named.items()}, found
