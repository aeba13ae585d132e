"""The models that LowRankImputer tries by itself, in an order that makes each guide the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from eigengap.estimators._column_means import ColumnMeans
from eigengap.estimators._sklearn_compat import _VisualBlock
from eigengap.estimators.bayesian_pca import BayesianPCA
from eigengap.estimators.factor_analysis import FactorAnalysis
from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.estimators.ppca import PPCA
from eigengap.linalg import Array
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.predictive import Predictive
from eigengap.selection.held_out import HeldOut, Search

FIRST_CAP = 16  # components offered to Bayesian PCA; doubled for as long as that helps
LIKE_SIZE = 5.0  # ratio of standard deviations up to which columns are of like size
# Rows for each factor of a fit by maximum likelihood: with fewer it may still fill well, stopped
# early, but what is not known of its parameters is no longer small.
ROWS_A_FACTOR = 8
LARGEST_MIXTURE = 16
FEW_ROWS = 30  # in which a column is seen, below which its parameters are not taken for certain
ROWS_A_CLUSTER = 30  # and two for each column: fewer do not determine a cluster's plane
MIXTURE_STEPS = 5  # times as many: rows have to find their clusters first
MIXTURE_RANKS = (2, 8)  # components of a cluster
WORTH_IT = 0.01  # relative gain without which the search for larger models ends

STANDARDISED = {True: " of standardised columns", False: ""}


@dataclass(frozen=True, eq=False)
class AsItIs:
    """A model whose parameters are taken for certain, but those of columns seen in few rows."""

    model: LinearGaussian
    evidence: ObservationPattern | None = None

    def conditional(self, X: Array, cell_sd: Array | None = None) -> tuple[Array, Array]:
        mean, variance = self.model.conditional(X, cell_sd)
        few = self._few()
        if few.any():
            _, wider = self._uncertain().conditional(X, cell_sd)
            variance = np.where(few, np.maximum(variance, wider), variance)
        return mean, variance

    def draw(self, rng: np.random.Generator) -> LinearGaussian:
        few = self._few()
        if not few.any():
            return self.model
        drawn, W = self._uncertain().draw(rng), few[:, None]
        return replace(
            self.model,
            W=np.where(W, drawn.W, self.model.W),
            mu=np.where(few, drawn.mu, self.model.mu),
            psi=np.where(few, drawn.psi, self.model.psi),
        )

    def _few(self) -> NDArray[np.bool_]:
        """(d,) columns of which too few cells can be hidden to put their intervals right."""
        if self.evidence is None:
            return np.zeros(self.model.d, dtype=bool)
        return self.evidence.observed_w < FEW_ROWS

    def _uncertain(self) -> Predictive:
        assert self.evidence is not None
        return Predictive.of(self.model, self.evidence)


class StoppedFactorAnalysis(FactorAnalysis):
    """Factor analysis stopped before its maximum.

    What is not known of parameters is found at a maximum, and far from one it is beyond all
    measure: on WDBC, 30 % missing, 18 factors, standard deviations are 6 times those of the model
    itself after 10 steps, 1.1 times at the end. Here they are the model's own, which miss little
    where there are many rows for each factor, and `std_factors_` of LowRankImputer widens them.
    Users know it as FactorAnalysis.
    """

    _public_name = "FactorAnalysis"
    _stops_early = True

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        own = type(self).__name__
        return f"{self._public_name}{super().__repr__(N_CHAR_MAX + len(own))[len(own) :]}"

    def _sk_visual_block_(self) -> Any:
        """For scikit-learn's diagram, which falls back to the name of the class without it."""

        return _VisualBlock("single", self, names=self._public_name, name_details=str(self))

    @property
    def predictive_(self) -> Any:
        return AsItIs(self.model_, self.evidence_)


@dataclass(frozen=True)
class AutoModels:
    """Bayesian PCA, factor analysis and mixtures of PPCA, each around what the last one found.

    Bayesian PCA finds its number of components in one fit and does not overfit: it says about how
    many there are. With noise of its own for each column it is Bayesian factor analysis. Maximum
    likelihood wins where most directions carry something, which automatic relevance determination
    gives up too early; mixtures win where the rows form clusters; and where columns say nothing of
    each other their means are the best there is.
    """

    scale: bool | str  # "auto": both, where both make sense
    how: dict[str, Any]  # tolerance and steps of the fits in earnest
    with_mixtures: bool

    def run(self, search: Search, q: int | None) -> None:
        """Try them all, with q components where given."""
        scales = self._scales(search.held_out)
        if q is None:
            self._of_any_rank(search, scales)
        else:
            for scale in scales:
                search.once(f"PPCA{STANDARDISED[scale]}", PPCA(q, scale=scale, **self.how), q)
            search.once("factor analysis", StoppedFactorAnalysis(q, **self.how), q)
        search.once("column means", ColumnMeans())

    def _of_any_rank(self, search: Search, scales: list[bool]) -> None:
        for scale in scales:
            self._bayesian(search, f"Bayesian PCA{STANDARDISED[scale]}", scale)
        best = search.best()
        rank, cap = max(int(best.kept), 1), best.trial.n_components
        search.once("Bayesian factor analysis", BayesianPCA(noise="diagonal", **self.how), cap)
        most = max(int(search.held_out.rows_observed / ROWS_A_FACTOR), 1)
        most = min(most, largest_identified(search.held_out.X.shape[1]))
        search.ranks("factor analysis", StoppedFactorAnalysis(**self.how), start=rank, most=most)
        if self.with_mixtures:
            self._mixtures(search, rank, scales[-1])

    def _scales(self, held_out: HeldOut) -> list[bool]:
        if isinstance(self.scale, bool):
            return [self.scale]
        return [True, False] if _standardising_is_a_choice(held_out.sd) else [True]

    def _bayesian(self, search: Search, label: str, scale: bool) -> None:
        """More components for as long as they are all kept and help."""
        cap, most, last = min(FIRST_CAP, search.held_out.most), search.held_out.most, np.inf
        while True:
            error = search.once(label, BayesianPCA(scale=scale, **self.how), cap)
            all_kept = search.tried[-1].kept >= cap
            if cap == most or not all_kept or error > (1.0 - WORTH_IT) * last:
                break
            cap, last = min(2 * cap, most), error

    def _mixtures(self, search: Search, rank: int, scale: bool) -> None:
        """Few and more components for each of two clusters, then twice as many clusters.

        In one unit where there is one: clusters of standardised columns are clusters of the rare
        marks that standardising blows up.
        """
        n, d = search.held_out.X.shape
        how = {**self.how, "max_iter": MIXTURE_STEPS * self.how["max_iter"]}
        base = MixturePPCA(scale=scale, n_init=1, split_merge=0, random_state=0, **how)

        def error(K: int, q: int) -> float:
            label = f"mixture of {K} PPCA{STANDARDISED[scale]}"
            return search.once(label, clone(base).set_params(n_mixture=K), q)

        if n < 2 * max(ROWS_A_CLUSTER, 2 * d):
            return
        ranks = sorted({min(rank, q) for q in MIXTURE_RANKS})
        last, q = min((error(2, q), q) for q in ranks)
        K = 4
        while K <= LARGEST_MIXTURE and n >= K * max(ROWS_A_CLUSTER, 2 * d):
            found = error(K, q)
            if found > (1.0 - WORTH_IT) * last:
                break
            K, last = 2 * K, found


def largest_identified(d: int) -> int:
    """Most factors whose noise variances d columns determine: (d - q)^2 >= d + q (Ledermann 1937).

    With more, noise and factors can be traded for each other.
    """
    return max((q for q in range(1, d) if (d - q) ** 2 >= d + q), default=1)


def _standardising_is_a_choice(sd: Any) -> bool:
    """Whether columns of one unit differ in size, so that standardising may do harm.

    Most are of like size, so that they have a unit in common, but some vary little: rare marks
    such as the pixels at an edge, which standardising would blow up.
    """
    sd = sd[sd > 0]
    if len(sd) == 0:
        return False
    lower, upper = np.quantile(sd, [0.25, 0.75])
    return bool(upper <= LIKE_SIZE * lower and sd.max() > LIKE_SIZE * sd.min())
