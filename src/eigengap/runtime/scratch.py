"""Memory that is reused, for sums that do not outlive a step.

The system provides fresh memory page by page and clears each page at its first use: for arrays that
are read once or twice this costs as much as the arithmetic. The allocator avoids it by keeping
freed memory, but Dask workers return all of it at once (MALLOC_TRIM_THRESHOLD_=65536), which made
an EM step half as long again.
"""

from __future__ import annotations

import threading
from math import prod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST = 16 << 20  # bytes of one array that are kept


class Scratch(threading.local):
    """Arrays by name, separate for each Python thread, with undefined contents."""

    def __init__(self) -> None:
        self._kept: dict[str, Array] = {}

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Send nothing to a worker, which begins with its own."""
        return Scratch, ()

    def array(self, name: str, shape: tuple[int, ...]) -> Array:
        """Valid until this thread asks for the same name again."""
        size = prod(shape)
        if 8 * size > LARGEST:
            return np.empty(shape)
        kept = self._kept.get(name)
        if kept is None or kept.size < size:
            kept = self._kept[name] = np.empty(size)
        return kept[:size].reshape(shape)
