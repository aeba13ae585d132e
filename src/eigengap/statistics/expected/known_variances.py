"""What is known of the noise of each column's cells, before a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import Block
from eigengap.sources.wording import column

# Beside the smallest known variance of a column, a noise variance that is as good as none.
NEGLIGIBLE = 1e-6

SMALLEST = 1e-145  # deviation whose square, and the inverse of that, stay within float64


@dataclass(frozen=True, eq=False)
class KnownVariances:
    """Over the seen cells of each column; they merge."""

    least: Array  # (d,) smallest known variance; 0 where one is not known, inf where none is seen
    sum: Array  # (d,) of the known variances' inverse square roots, unknown ones left out
    count: Array  # (d,) of known variances
    first_unknown: NDArray[np.intp]  # (d,) row of the first seen cell without one; -1 if none

    @classmethod
    def of(cls, block: Block) -> KnownVariances:
        values, deviations = block.values, block.cell_sd
        shape = values.shape
        observed = (
            ~np.isnan(values) if isinstance(values, np.ndarray) else np.ones(shape, dtype=bool)
        )
        deviations = np.zeros(shape) if deviations is None else deviations
        known = observed & (deviations > SMALLEST)
        unknown = observed & ~known
        precision = np.divide(1.0, deviations, out=np.zeros(shape), where=known)
        first = np.where(unknown.any(axis=0), block.start + np.argmax(unknown, axis=0), -1)
        return cls(
            least=np.min(deviations, axis=0, where=observed, initial=np.inf) ** 2,
            sum=precision.sum(axis=0),
            count=known.sum(axis=0).astype(np.float64),
            first_unknown=first,
        )

    def merge(self, other: KnownVariances) -> KnownVariances:
        first = np.where(self.first_unknown >= 0, self.first_unknown, other.first_unknown)
        return KnownVariances(
            least=np.minimum(self.least, other.least),
            sum=self.sum + other.sum,
            count=self.count + other.count,
            first_unknown=first,
        )

    def rescaled(self, unit: Array) -> KnownVariances:
        """Of x / unit."""
        return replace(self, least=self.least / unit**2, sum=self.sum * unit)

    def typical(self) -> Array:
        """(d,) known variance of a typical cell (harmonic mean of deviations); 0 where none is."""
        mean = self.sum / np.maximum(self.count, 1.0)
        return np.where(self.count > 0, 1.0 / np.where(mean > 0, mean, 1.0) ** 2, 0.0)

    def floor(self, alone: Array, noise: str) -> Array:
        """(d,) least noise variance that is safe beside what is known; `alone` where nothing is."""
        least = self.least
        if noise == "isotropic":
            least = np.full(len(least), float(np.min(least)))
        return np.asarray(np.maximum(alone - least, np.minimum(NEGLIGIBLE * least, alone / 2)))

    def require_everywhere(self, names: tuple[str, ...] | None) -> None:
        """Refuse cells without a known variance where there is no other noise."""
        without = np.flatnonzero(self.first_unknown >= 0)
        if len(without):
            j = int(without[0])
            raise ValueError(
                f"noise_variance=0 leaves cell_sd as the only noise, but row "
                f"{int(self.first_unknown[j])}, column {column(names, j)} has none (0, NaN, or "
                "so small that its square underflows). Give it one, let noise_variance be learned "
                "(None), or set the cell to NaN"
            )
