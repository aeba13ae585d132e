"""What rows that a network is not trained on (or, without them, some that it is) say of it.

By NumPy alone. Where training hides cells, some are hidden here too, always the same ones, so that
losses can be compared from pass to pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.network_rows import Monitored, hidden_for_good
from eigengap.linalg import Array
from eigengap.models.network import Network

HIDDEN_SHARE = (0.1, 0.5)  # least and most of the cells that are hidden to measure the noise
REPEATS = 5  # how often, others each time


@dataclass(frozen=True, eq=False)
class Monitor:
    """Rows to look at, and the cells of them that the network may see."""

    rows: Monitored
    given: Array  # (m, d) in data units, NaN where not seen or hidden
    seed: int

    @classmethod
    def of(cls, rows: Monitored, share: float, seed: int) -> Monitor:
        hidden = hidden_for_good(rows.values, share, seed)
        return cls(rows, np.where(hidden, np.nan, rows.values), seed)

    def loss(self, network: Network) -> float:
        """Mean squared error of the seen cells, in standardised units."""
        values = self.rows.values
        with np.errstate(over="ignore", invalid="ignore"):
            apart = (network.reconstruct(self.given) - values) / network.unit
            seen = self.rows.weight[:, None] * ~np.isnan(values)
            total = float(np.sum(np.where(seen > 0.0, seen * apart**2, 0.0)))
        return total / max(float(np.sum(seen)), 1e-300)

    def noise(self, network: Network) -> Array:
        """(d,) root mean squared error of cells hidden from the network, in data units.

        As many are hidden as are missing anyway, within bounds.
        """
        values, weight = self.rows.values, self.rows.weight
        share = float(np.clip(np.mean(np.isnan(values)), *HIDDEN_SHARE))
        total, count = np.zeros(network.d), np.zeros(network.d)
        for repeat in range(REPEATS):
            hidden = hidden_for_good(values, share, self.seed + 1 + repeat)
            again = network.reconstruct(np.where(hidden, np.nan, values))
            apart = np.where(hidden, (again - values) / network.unit, 0.0)
            total += weight @ apart**2
            count += weight @ hidden
        pooled = float(np.sum(total)) / max(float(np.sum(count)), 1.0)
        variance = np.where(count > 0.0, total / np.where(count > 0.0, count, 1.0), pooled)
        return np.asarray(np.sqrt(variance) * network.unit)
