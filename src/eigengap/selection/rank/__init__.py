"""How many components: `choose_rank`, and the rule behind n_components="auto"."""

from eigengap.selection.rank.automatic import automatic_rank
from eigengap.selection.rank.choice import Curve, RankChoice
from eigengap.selection.rank.search import (
    largest_rank,
    most_factors,
    rank_for_fraction,
    reaching,
    search_ranks,
)
from eigengap.selection.rank.spectral import factor_parameters, minka_rank, ppca_parameters

__all__ = [
    "Curve",
    "RankChoice",
    "automatic_rank",
    "factor_parameters",
    "largest_rank",
    "minka_rank",
    "most_factors",
    "ppca_parameters",
    "rank_for_fraction",
    "reaching",
    "search_ranks",
]
