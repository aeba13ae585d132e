"""n_components as users give it, turned into a number of components."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np

from eigengap.fitting.gaussian_em import GaussianFit
from eigengap.rank import RankChoice, automatic_rank, largest_rank, rank_for_fraction
from eigengap.sources.base import Source
from eigengap.statistics.moments import ColumnMoments

LOOSE = 1e-3  # tolerance of the fits that only compare ranks

Fit = Callable[[int], GaussianFit]  # q -> a loose fit


def rank_from_fits(
    asked: int | float | str,
    source: Source,
    fit: Fit,
    *,
    fit_mean: bool = True,
    most: int | None = None,
) -> tuple[int, RankChoice | None]:
    """The number asked for, that of parallel analysis ("auto"), or that explains a fraction.

    And why, for "auto", which takes no more than `most`.
    """
    d = source.n_features
    if isinstance(asked, Integral):
        require_rank(int(asked), source)
        return int(asked), None
    if isinstance(asked, str):
        choice = automatic_rank(source, fit_mean=fit_mean, most=most)
        return choice.n_components, choice

    def explained(q: int) -> float:
        return float(np.sum(fit(q).spectrum.explained_ratio(q)))

    return rank_for_fraction(explained, float(asked), largest_rank(d, rows_seen(source))), None


def rows_seen(source: Source) -> float:
    """Mean number of rows, by weight, in which a column was seen."""
    return float(np.mean(source.reduce(ColumnMoments.of).sum_w))


def require_rank(q: int, source: Source) -> None:
    """Refuse more components than rows or columns."""
    rows, d = source.seen().count, source.n_features
    most = int(min(rows, d))
    if q > most:
        raise ValueError(
            f"n_components={q} must be at most {most}, the smaller of the number of rows "
            f"({rows:g}) and of columns ({d})"
        )
