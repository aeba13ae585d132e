"""Rows that come back from the workers, in order, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from eigengap.runtime.memory import require_memory
from eigengap.sources.dask import cluster

BATCH_BYTES = 1 << 28  # that are on their way at a time


def batches(made: Sequence[Delayed], sizes: Sequence[float]) -> Iterator[list[Delayed]]:
    """Tasks in order, in batches of bounded size that keep every thread busy."""
    least = 2 * cluster.threads()
    batch: list[Delayed] = []
    held = 0.0
    for one, size in zip(made, sizes, strict=True):
        if len(batch) >= least and held + size > BATCH_BYTES:
            yield batch
            batch, held = [], 0.0
        batch.append(one)
        held += size
    yield batch


def stacked(pieces: Iterator[NDArray[Any]], n: int | None, where: str) -> NDArray[Any]:
    """Pieces one below the other; without a second copy where their number of rows is known."""
    first = next(pieces)
    if n is None:
        parts = [first, *pieces]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    require_memory(
        first.nbytes / len(first) * n,
        f"the result for all {n} rows of the table {where}",
        "write it to a file block by block with eigengap.stream(method, X, path)",
    )
    out = np.empty((n, *first.shape[1:]), dtype=first.dtype)
    out[: len(first)] = first
    row = len(first)
    for piece in pieces:
        out[row : row + len(piece)] = piece
        row += len(piece)
    return out
