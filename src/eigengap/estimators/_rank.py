"""n_components as users give it, turned into a number of components."""

from __future__ import annotations

import numpy as np

from eigengap.sources.base import Source

LOOSE = 1e-3  # tolerance of the fits that only compare ranks; BIC differs by far more


def rows_seen(source: Source) -> float:
    """Mean number of rows, by weight, in which a column was seen."""
    seen = source.seen()
    share = float(np.mean(seen.per_column)) / max(seen.rows, 1)
    return share * seen.sum_w


def require_rank(q: int, sum_w: float, d: int) -> None:
    """Refuse more components than rows or columns."""
    most = int(min(sum_w, d))
    if q > most:
        raise ValueError(
            f"n_components={q} must be at most {most}, the smaller of the number of rows "
            f"({sum_w:g}) and of columns ({d})"
        )
