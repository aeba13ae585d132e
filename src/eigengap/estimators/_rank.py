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


def most_components(source: Source) -> int:
    """The smaller of the number of rows, by weight, and of columns."""
    return int(min(source.seen().sum_w, source.n_features))


def require_rank(q: int, source: Source) -> None:
    """Refuse more components than rows or columns."""
    most = most_components(source)
    if q > most:
        raise ValueError(
            f"n_components={q} must be at most {most}, the smaller of the number of rows "
            f"({source.seen().sum_w:g}) and of columns ({source.n_features})"
        )


def require_components(q: int | float, source: Source, svd_solver: str) -> None:
    """Refuse what scikit-learn's solver of that name refuses, in its words."""
    most = most_components(source)
    bound = f"min(n_samples, n_features)={most} with svd_solver="
    if svd_solver == "arpack" and q == most:
        raise ValueError(
            f"n_components={q} must be strictly less than {bound}'arpack'; 'full' finds all"
        )
    least = 1 if svd_solver in ("arpack", "randomized") else 0
    if not least <= q <= most:
        named = "full" if svd_solver == "auto" else svd_solver
        raise ValueError(
            f"n_components={q} must be between {least} and {bound}{named!r}: at most {most}, the "
            f"smaller of the number of rows ({source.seen().sum_w:g}) and of columns "
            f"({source.n_features})"
        )
