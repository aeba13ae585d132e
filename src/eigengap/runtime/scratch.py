"""Memory that is used again and again, for sums that do not outlive the step.

The system gives fresh memory page by page, each cleared at its first use: for arrays that are gone
through once or twice this costs as much as the arithmetic. The allocator saves it where it may keep
what was freed; workers of Dask tell theirs to give all of it back at once
(MALLOC_TRIM_THRESHOLD_=65536), and a step of EM took half as long again.
"""

from __future__ import annotations

import threading
from math import prod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST = 16 << 20  # bytes of one array that are kept


class Scratch(threading.local):
    """Arrays by name, of each Python thread its own, undefined until written to."""

    def __init__(self) -> None:
        self._kept: dict[str, Array] = {}

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        """Nothing of it is sent to a worker, which begins with its own."""
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
