"""What `svd`, `pinv` and `low_rank` ask of their arguments."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np

from eigengap.sources import Rows, Source, as_source, column


def matrix_of(X: Any, name: str) -> tuple[Rows, Any]:
    """X as a complete array or CSR array (n, d), and the type its cells were given in."""
    source = as_source(X)
    if source.has_missing:
        row, j = _first_missing(source)
        raise ValueError(
            f"Input X contains NaN (row {row}, column {column(source.names, j)}): `{name}` needs "
            "every cell. eigengap.low_rank(X, k) accepts missing values and gives the factors of "
            "the completed matrix"
        )
    return source.collect(), source.dtype


def relative_tolerance(rank_tol: float | Literal["auto"]) -> float | None:
    """None for "auto"."""
    if isinstance(rank_tol, str):
        if rank_tol == "auto":
            return None
    elif isinstance(rank_tol, Real) and 0.0 <= rank_tol < 1.0:
        return float(rank_tol)
    raise ValueError(
        f'rank_tol is {rank_tol!r}; it has to be "auto" or a number from 0 up to 1, relative to '
        "the largest singular value"
    )


def require_rank(k: int, n: int, d: int) -> int:
    """k, unless no n x d matrix has that rank."""
    if k > min(n, d):
        raise ValueError(
            f"k = {k} is more than {min(n, d)}, the smaller side of this {n} x {d} matrix"
        )
    return k


def seed_of(random_state: Any) -> int:
    """A seed from an int, Generator, RandomState or None."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(np.random.default_rng(random_state).integers(2**31 - 1))


def _first_missing(source: Source) -> tuple[int, int]:
    values = source.collect()
    row = int(np.argmax(np.isnan(values).any(axis=1)))
    return row, int(np.argmax(np.isnan(values[row])))
