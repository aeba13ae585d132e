"""n_components as users give it, turned into a number of components and a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral

import numpy as np

from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit
from eigengap.fitting.optimise.loop import silenced
from eigengap.runtime.warnings import warn
from eigengap.selection.rank.automatic import automatic_rank
from eigengap.selection.rank.choice import RankChoice
from eigengap.selection.rank.search import rank_for_fraction, reaching
from eigengap.sources import Source
from eigengap.wording import words

LOOSE = 1e-3  # tolerance of fits that only compare ranks: on, ranks hardly change place

Fit = Callable[[int], GaussianFit]  # of q components
Solved = tuple[GaussianFit, RankChoice | None]  # and why so many components, where it was chosen


def fit_asked(
    source: Source,
    options: EMOptions,
    fit: Callable[..., GaussianFit],
    asked: int | float | str,
    *,
    fit_mean: bool = True,
    most: int | None = None,
) -> Solved:
    """The fit with n_components=asked: a number, "auto", or a share of the variance.

    `fit(source, q, options=...)` is one fit. "auto" takes no more than `most` components. A share
    is looked for with loose fits, and reached with the options that were given.
    """
    if isinstance(asked, Integral):
        require_rank(int(asked), source)
        return fit(source, int(asked), options=options), None
    if isinstance(asked, str):
        choice = automatic_rank(source, fit_mean=fit_mean, most=most)
        return fit(source, choice.n_components, options=options), choice
    loose = loosened(options)
    share = float(asked)
    q = rank_for_fraction(
        lambda q: explained(fit(source, q, options=loose)), share, most_components(source)
    )
    return fit_reaching(share, q, source, lambda q: fit(source, q, options=options)), None


def loosened(options: EMOptions) -> EMOptions:
    """Options of fits that only compare ranks."""
    return replace(options, tol=max(options.tol, LOOSE), n_init=1, watch=silenced(options.watch))


def fit_reaching(share: float, q: int, source: Source, fit: Fit) -> GaussianFit:
    """The fit of q components, or of as many more as that share of the variance takes.

    q comes from loose fits, which may fall short of it. Warns where the share is out of reach.
    """
    found = reaching(fit, explained, q, share, most_components(source))
    if explained(found) < share and found.spectrum.total > 0.0:
        warn(
            f"{words().parameter('n_components', f'{share:g}')} of the variance is out of "
            f"reach: {found.model.q} components, "
            f"the most that rows and columns allow, explain {explained(found):.3g}",
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
