"""What the measures of embeddings are given: tables, sizes of neighbourhoods, samples of points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from eigengap.comparison.pairwise import Ints
from eigengap.linalg import Array
from eigengap.sources import as_source

BLOCK_BYTES = 4 << 20  # of distances that are computed at a time, so that they stay in the cache
AUTO_PAIRS = 10**8  # that sample="auto" looks at
AUTO_ROWS = 1000  # at least

Sample = int | str | None


def table(values: Any, which: str) -> Array:
    """A table (n, d) of numbers, dense and in float64; `which` it is, for messages."""
    try:
        found = as_source(values).collect()
    except ValueError as error:
        raise ValueError(str(error).replace("Input X", f"Input {which}", 1)) from None
    return np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), np.float64)


def coordinates(values: Any, which: str) -> Array:
    """A table of coordinates (n, q): none may be missing or infinite."""
    plain = None if hasattr(values, "toarray") else np.asarray(values)
    if plain is not None and plain.ndim == 2 and plain.dtype.kind == "f" and np.isinf(plain).any():
        i, j = map(int, np.argwhere(np.isinf(plain))[0])
        raise ValueError(
            f"Input {which} contains infinity: {plain[i, j]} at row {i}, column {j}; leave that "
            "point out of both tables"
        )
    points = table(values, which)
    if np.isnan(points).any():
        i, j = map(int, np.argwhere(np.isnan(points))[0])
        raise ValueError(
            f"{which} has no coordinate at row {i}, column {j}; leave that point out of both tables"
        )
    return points


def one_size(n_neighbors: Any, most: int, why: str) -> int:
    if not isinstance(n_neighbors, Integral):
        raise ValueError(
            f"n_neighbors must be one integer here, got {n_neighbors!r}; embedding_quality takes "
            "several"
        )
    return sizes([int(n_neighbors)], most, why)[0]


def sizes(n_neighbors: int | Sequence[int], most: int, why: str) -> list[int]:
    """Sizes of neighbourhoods, each at most `most`; `why` ends the message where one is not."""
    asked: Any = n_neighbors
    given = list(asked) if isinstance(asked, Iterable) else [asked]
    if not given:
        raise ValueError("n_neighbors is empty; give at least one size of a neighbourhood")
    for k in given:
        if not isinstance(k, Integral) or isinstance(k, bool) or int(k) < 1:
            raise ValueError(f"n_neighbors must be a positive integer or a list of them, got {k!r}")
        if int(k) > most:
            raise ValueError(f"n_neighbors={k} must be {why}")
    return [int(k) for k in given]


def below_half(n: int) -> tuple[int, str]:
    """The largest size that has a worst case to compare with, and why."""
    return (n - 1) // 2, (
        f"less than half of the {n} points, for larger neighbourhoods have no worst case to "
        "compare with; neighbour_recall takes them"
    )


def below_all(n: int) -> tuple[int, str]:
    """The largest size that there is, and why."""
    return n - 1, f"less than the {n} points: a point is not its own neighbour"


def sampled(sample: Sample, n: int, random_state: Any) -> Ints:
    """The points that are looked at, in order."""
    if sample is None:
        m = n
    elif isinstance(sample, str):
        if sample != "auto":
            raise ValueError(f'sample must be a number of points, "auto" or None, got {sample!r}')
        m = min(n, max(AUTO_ROWS, AUTO_PAIRS // n))
    elif isinstance(sample, Integral) and not isinstance(sample, bool) and int(sample) >= 1:
        m = min(int(sample), n)
    else:
        raise ValueError(f'sample must be a positive integer, "auto" or None, got {sample!r}')
    if m == n:
        return np.arange(n)
    return np.sort(_generator(random_state).choice(n, size=m, replace=False))


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if hasattr(random_state, "randint"):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    return np.random.default_rng(random_state)


def slices(m: int, n: int) -> list[slice]:
    """m points in pieces whose distances to all n stay in the cache."""
    step = max(1, BLOCK_BYTES // (8 * n))
    return [slice(start, min(start + step, m)) for start in range(0, m, step)]


def pieces(rows: Ints, n: int) -> Iterator[Ints]:
    return (rows[part] for part in slices(len(rows), n))
