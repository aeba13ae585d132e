"""The models that LowRankImputer tries by itself, in an order in which each guides the next.

Bayesian PCA finds its number of components in one fit and does not overfit: it gives the order of
magnitude. With noise of its own for each column it is Bayesian factor analysis. Maximum likelihood
wins where most directions carry signal, which automatic relevance determination gives up too early;
mixtures win where the rows form clusters; and where columns do not predict each other their means
are the best there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.selection.imputation import Search
from eigengap.selection.rank import most_factors

FIRST_CAP = 16  # components offered to Bayesian PCA; doubled for as long as that helps
LIKE_SIZE = 5.0  # ratio of standard deviations up to which columns are of like size
# Rows for each factor of a fit by maximum likelihood: with fewer it may still impute well, stopped
# early, but the uncertainty of its parameters is no longer small.
ROWS_A_FACTOR = 8
LARGEST_MIXTURE = 16
ROWS_A_CLUSTER = 30  # and two for each column: fewer do not determine a cluster's plane
MIXTURE_RANKS = (2, 8)  # components of a cluster
WORTH_IT = 0.01  # relative gain without which the search for larger models ends

STANDARDISED = {True: " of standardised columns", False: ""}


@dataclass(frozen=True)
class Candidates:
    """Unfitted estimators; the search sets their ranks, scales, kinds of noise and clusters."""

    ppca: Any
    bayesian: Any
    factors: Any
    column_means: Any
    mixture: Any = None  # None where mixtures are not tried


def try_all(
    search: Search, candidates: Candidates, scale: bool | str, n_components: int | None
) -> None:
    """Try all candidates, with n_components where given; scale "auto" tries both where both fit."""
    scales = [scale] if isinstance(scale, bool) else _scales(search.held_out.sd)
    if n_components is None:
        _try_ranks(search, candidates, scales)
    else:
        for scaled in scales:
            label = f"PPCA{STANDARDISED[scaled]}"
            search.once(label, candidates.ppca, n_components, scale=scaled)
        search.once("factor analysis", candidates.factors, n_components)
    search.once("column means", candidates.column_means)


def _try_ranks(search: Search, candidates: Candidates, scales: list[bool]) -> None:
    for scale in scales:
        _try_bayesian(search, candidates.bayesian, scale)
    best = search.best()
    rank, cap = max(int(best.kept), 1), best.trial.n_components
    search.once("Bayesian factor analysis", candidates.bayesian, cap, noise="diagonal")
    most = max(int(search.held_out.rows_observed / ROWS_A_FACTOR), 1)
    most = min(most, most_factors(search.held_out.X.shape[1]))
    search.ranks("factor analysis", candidates.factors, start=rank, most=most)
    if candidates.mixture is not None:
        _try_mixtures(search, candidates.mixture, rank, scales[-1])


def _try_bayesian(search: Search, estimator: Any, scale: bool) -> None:
    """More components for as long as they are all kept and help."""
    label = f"Bayesian PCA{STANDARDISED[scale]}"
    most = search.held_out.most
    cap, last = min(FIRST_CAP, most), np.inf
    while True:
        error = search.once(label, estimator, cap, scale=scale)
        all_kept = search.tried[-1].kept >= cap
        if cap == most or not all_kept or error > (1.0 - WORTH_IT) * last:
            break
        cap, last = min(2 * cap, most), error


def _try_mixtures(search: Search, estimator: Any, rank: int, scale: bool) -> None:
    """Few and more components for each of two clusters, then twice as many clusters.

    In one unit where there is one: clusters of standardised columns are clusters of rare values,
    whose weight standardising raises.
    """
    n, d = search.held_out.X.shape
    rows = max(ROWS_A_CLUSTER, 2 * d)

    def error(K: int, q: int) -> float:
        label = f"mixture of {K} PPCA{STANDARDISED[scale]}"
        return search.once(label, estimator, q, n_mixture=K, scale=scale)

    if n < 2 * rows:
        return
    last, q = min((error(2, q), q) for q in sorted({min(rank, q) for q in MIXTURE_RANKS}))
    K = 4
    while K <= LARGEST_MIXTURE and n >= K * rows:
        found = error(K, q)
        if found > (1.0 - WORTH_IT) * last:
            break
        K, last = 2 * K, found


def _scales(sd: Array) -> list[bool]:
    """Whether to standardise: both are tried where columns of one unit differ in size.

    Most are of like size, so that they have a unit in common, but some vary little: rare values
    such as the pixels at an edge, which standardising would weigh like the others.
    """
    sd = sd[sd > 0]
    if len(sd) == 0:
        return [True]
    lower, upper = np.quantile(sd, [0.25, 0.75])
    is_a_choice = upper <= LIKE_SIZE * lower and sd.max() > LIKE_SIZE * sd.min()
    return [True, False] if is_a_choice else [True]
