"""n_components as users give it, turned into a number of components."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

import numpy as np

from eigengap.fitting.gaussian.problem import GaussianFit
from eigengap.runtime.warnings import warn
from eigengap.selection.rank import RankChoice, automatic_rank, rank_for_fraction, reaching
from eigengap.sources import Source
from eigengap.wording import words

LOOSE = 1e-3  # tolerance of the fits that only compare ranks

Fit = Callable[[int], GaussianFit]  # of q components


def rank_from_fits(
    asked: int | float | str,
    source: Source,
    fit: Fit,
    *,
    fit_mean: bool = True,
    most: int | None = None,
) -> tuple[int, RankChoice | None]:
    """The number asked for, that of parallel analysis ("auto"), or that explains a fraction.

    And why, for "auto", which takes no more than `most`. `fit` may be loose: see `fit_reaching`.
    """
    if isinstance(asked, Integral):
        require_rank(int(asked), source)
        return int(asked), None
    if isinstance(asked, str):
        choice = automatic_rank(source, fit_mean=fit_mean, most=most)
        return choice.n_components, choice
    share, most = float(asked), most_components(source)
    return rank_for_fraction(lambda q: explained(fit(q)), share, most), None


def fit_reaching(asked: int | float | str, q: int, source: Source, fit: Fit) -> GaussianFit:
    """The fit of q components, or of as many more as the share that was asked for takes.

    q comes from loose fits, which may come out short of it. Warns where it is out of reach.
    """
    if isinstance(asked, Integral | str):
        return fit(q)
    found = reaching(fit, explained, q, float(asked), most_components(source))
    share = explained(found)
    if share < asked and found.spectrum.total > 0.0:
        warn(
            f"{words().parameter('n_components', f'{asked:g}')} of the variance is out of "
            f"reach: {found.model.q} components, "
            f"the most that rows and columns allow, explain {share:.3g}",
            UserWarning,
        )
    return found


def explained(fit: GaussianFit) -> float:
    """Share of the variance that the components of a fit explain."""
    return float(np.sum(fit.spectrum.explained_ratio(fit.model.q)))


def most_components(source: Source) -> int:
    """The most that can be asked for: as many as rows, and as columns."""
    return int(min(source.observed().count, source.n_features))


def require_rank(q: int, source: Source) -> None:
    """Refuse more components than rows or columns."""
    most = most_components(source)
    if q > most:
        raise ValueError(
            f"{words().parameter('n_components', q)} must be at most {most}, the smaller of "
            "the number of rows "
            f"({source.observed().count:g}) and of columns ({source.n_features})"
        )


def require_components(q: int | float, source: Source, svd_solver: str) -> None:
    """Refuse what scikit-learn's solver of that name refuses, in its words."""
    most = most_components(source)
    bound = f"min(n_samples, n_features)={most} with svd_solver="
    if svd_solver == "arpack" and q == most:
        raise ValueError(
            f"{words().parameter('n_components', q)} must be strictly less than "
            f"{bound}'arpack'; 'full' finds all"
        )
    least = 1 if svd_solver in ("arpack", "randomized") else 0
    if not least <= q <= most:
        named = "full" if svd_solver == "auto" else svd_solver
        raise ValueError(
            f"{words().parameter('n_components', q)} must be between {least} and "
            f"{bound}{named!r}: at most {most}, the "
            f"smaller of the number of rows ({source.observed().count:g}) and of columns "
            f"({source.n_features})"
        )
