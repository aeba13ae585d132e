"""`choose_rank`: every criterion for the number of components, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import nan
from numbers import Integral
from typing import Any

import numpy as np

from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.gaussian.bayesian import fit_bayesian
from eigengap.fitting.gaussian.fit import fit_factor_analysis, fit_ppca
from eigengap.fitting.gaussian.noise import Specification
from eigengap.fitting.gaussian.pca import fit_pca
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit, Noise
from eigengap.linalg import Array
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.coded_table import CodedTable
from eigengap.selection.columns import METHOD, rank_of_source
from eigengap.selection.rank import automatic, spectral
from eigengap.selection.rank.automatic import parallel_analysis, permuted_parallel_analysis
from eigengap.selection.rank.choice import (
    NAMES,
    Curve,
    DoesNotApplyError,
    RankChoice,
    in_words,
    vote,
)
from eigengap.selection.rank.search import first_minimum, largest_rank, most_factors
from eigengap.sources import (
    Block,
    HeldOut,
    Rescaled,
    Source,
    as_source,
    fold_of_cells,
    require_frequencies,
    warn_of_codes,
)
from eigengap.spectrum import Spectrum
from eigengap.statistics.additive import Additive
from eigengap.statistics.imputed_correlation import Standardised
from eigengap.statistics.moments import ColumnMoments, refuse_out_of_range, refuse_tiny_columns

Picked = tuple[int, Curve]
Fit = Callable[[Source, int, EMOptions], GaussianFit]

FOLDS = 5
LOOSER = EMOptions(tol=1e-3, max_iter=100)  # looser fits make neighbouring q equal


def choose_rank(
    X: Any,
    *,
    criteria: Iterable[str] | None = None,
    max_rank: int | None = None,
    noise: Noise = "isotropic",
    scale: bool = False,
    tolerance: float = 0.05,
    missing_values: Any = nan,
    sample_weight: Any = None,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
    columns: str | Mapping[Any, Any] = "numeric",
) -> RankChoice:
    """How many components a table has, by every criterion that applies to it.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        NaN marks a missing value.
    criteria : iterable of str, default=None
        Which to ask: "deflated_parallel_analysis" (what n_components="auto" takes),
        "parallel_analysis", "permuted_parallel_analysis", "eigengap", "tolerance", "bartlett",
        "bic", "minka", "gavish_donoho", "cross_validation", "ard". None asks all of them.
    max_rank : int, default=None
        Most components to consider; None allows n_features - 1 and half of the rows, and with
        noise="diagonal" no more factors than n_features columns identify.
    noise : {"isotropic", "diagonal"}, default="isotropic"
        One noise variance (PPCA), or one for every column (factor analysis): the model of the
        criteria that need one.
    scale : bool, default=False
        Divide every column by its standard deviation first. Parallel analysis always does.
    tolerance : float in (0, 1), default=0.05
        Share of the variance that may be left out: epsilon of 000 section 2.4.
    missing_values : float or list of float, default=nan
    sample_weight : array of shape (n_samples,), default=None
        Frequency of each row. Give copies of a row by it: to cross-validation a repeated row shows
        the values that are held out in its copy.
    random_state : int, Generator, RandomState or None, default=0
        Of the permutations and of the folds of cross-validation.
    columns : "numeric", "auto" or mapping of columns to kinds, default="numeric"
        What columns hold (docs/columns.md). Where it is not "numeric", "cross_validation" is the
        only criterion that applies: the mean log score of held-out values, the logarithm of the
        probability of a level or of the density of a number. 0 is a possible answer then.

    Returns
    -------
    RankChoice
        `n_components`, `criteria`, `curves`, `summary`, `not_applied`. n_components is what
        deflated parallel analysis picks, which docs/rank.md shows to be right most often; where it
        was not asked, the number that most of the asked criteria pick, the smaller in a tie.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import choose_rank
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 8)) + 0.3 * rng.normal(size=(200, 8))
    >>> X[rng.random(X.shape) < 0.1] = np.nan
    >>> choice = choose_rank(X, criteria=["deflated_parallel_analysis", "bic", "eigengap"])
    >>> choice.n_components, choice.criteria
    (2, {'deflated_parallel_analysis': 2, 'bic': 2, 'eigengap': 2})
    >>> choice.curves["bic"].better
    'lower'
    """
    asked = _asked(criteria)
    if max_rank is not None and (not isinstance(max_rank, Integral) or max_rank < 1):
        raise ValueError(f"max_rank is {max_rank!r}; it has to be a whole number of at least 1")
    if noise not in ("isotropic", "diagonal"):
        raise ValueError(f'noise is {noise!r}; it has to be "isotropic" or "diagonal"')
    if not 0.0 < tolerance < 1.0:
        raise ValueError(
            f"tolerance is {tolerance!r}; it is a share of the variance, between 0 and 1"
        )
    seed = seed_of(random_state)
    if not isinstance(columns, str) or columns != "numeric":
        coded, rows = CodedTable.learned(X, _kinds(columns), sample_weight, missing_values)
        return _of_columns(rows.present(), coded.columns, asked, noise, seed, max_rank)
    source = as_source(X, sample_weight=sample_weight, missing_values=missing_values).present()
    source.require_fit(min_rows=3)
    require_frequencies(source.observed().sum_w)
    warn_of_codes(source)
    if source.n_features < 2:
        raise ValueError("X has 1 column: there is no number of components to choose")
    moments = source.reduce(ColumnMoments.of)
    refuse_out_of_range(source, float(np.sum(moments.variance)), fit_mean=True)
    if not np.any(moments.variance > 0.0):
        raise ValueError("all rows of X are equal, so that there are no components")
    if scale:
        refuse_tiny_columns(source, moments.variance)
        sd = np.sqrt(moments.variance)
        source = Rescaled(source, np.where(sd > 0, sd, 1.0))
    table = _Table(source, moments, noise, tolerance, seed, max_rank)
    picks: dict[str, int] = {}
    curves: dict[str, Curve] = {}
    not_applied: dict[str, str] = {}
    for name in asked:
        try:
            picks[name], curves[name] = CRITERIA[name](table)
        except DoesNotApplyError as why:
            not_applied[name] = str(why)
        except (ObjectiveFellError, np.linalg.LinAlgError) as why:  # the others still have a say
            not_applied[name] = f"its fit failed: {why}"
    if automatic.NAME in picks:
        kept = picks[automatic.NAME]
    elif picks:
        kept = vote(picks)
    else:
        raise ValueError(
            "none of the criteria applies to this table: "
            + "; ".join(f"{name}: {why}" for name, why in not_applied.items())
        )
    kept = max(min(kept, table.most), 1)
    return RankChoice(kept, picks, curves, in_words(kept, picks, not_applied), not_applied)


NUMBERS_ONLY = "numbers only; for columns of several kinds held-out values decide"


def _of_columns(
    source: Source,
    columns: Columns,
    asked: list[str],
    noise: Noise,
    seed: int,
    most: int | None,
) -> RankChoice:
    """Of columns of several kinds."""
    others = dict.fromkeys([name for name in asked if name != METHOD], NUMBERS_ONLY)
    if METHOD not in asked:
        raise ValueError(
            f"columns of several kinds have one criterion, {METHOD}: "
            f"{', '.join(others)} take numbers only"
        )
    require_frequencies(source.observed().sum_w)
    spec = Specification("diagonal" if noise == "diagonal" else "isotropic")
    choice = rank_of_source(source, columns, seed, spec, most).choice()
    not_applied = {**choice.not_applied, **others}
    words = f"{choice.summary}. Not applied: the other criteria, which take numbers"
    return replace(choice, not_applied=not_applied, summary=words if others else choice.summary)


def _kinds(columns: Any) -> Any:
    if isinstance(columns, Mapping) or columns == "auto":
        return columns
    raise ValueError(f'columns is {columns!r}; it has to be "numeric", "auto" or a mapping')


@dataclass(frozen=True, eq=False)
class _Table:
    """What the criteria share, found when it is first needed."""

    source: Source
    columns: ColumnMoments
    noise: Noise
    tolerance: float
    seed: int
    asked_most: int | None

    @cached_property
    def most(self) -> int:
        d = self.source.n_features
        limit = largest_rank(d, self.source.observed().sum_w)
        if self.noise == "diagonal":
            limit = min(limit, most_factors(d))
        return limit if self.asked_most is None else min(limit, self.asked_most)

    @cached_property
    def standardised(self) -> Standardised:
        return Standardised.of(self.source)

    @cached_property
    def parallel(self) -> Picked:
        return parallel_analysis(self.standardised.spectrum(), self.most)

    @cached_property
    def deflated(self) -> Picked:
        first, curve = self.parallel
        count, left = automatic.deflated(self.source, self.standardised, first, self.most)
        return count, left or curve  # without deflation the plain count decides

    @cached_property
    def spectrum(self) -> Spectrum:
        if self.source.has_missing:
            return spectral.incomplete_spectrum(
                self.source, max(min(self.deflated[0], self.most), 1)
            )
        return fit_pca(self.source, None).spectrum

    def whole_spectrum(self) -> Spectrum:
        """The spectrum, for criteria that need all of it, in spherical noise."""
        if self.noise == "diagonal":
            raise DoesNotApplyError("it takes the noise to be the same in every column")
        found, d = self.spectrum, self.source.n_features
        if self.source.has_missing and not found.complete:
            raise DoesNotApplyError(
                f"it needs all {d} eigenvalues, for which two columns must be observed together in "
                f"at least {d + 1} rows on average; they are in {found.sum_w:.3g}"
            )
        return found

    def fit(self, source: Source, q: int, options: EMOptions) -> GaussianFit:
        fit = fit_factor_analysis if self.noise == "diagonal" else fit_ppca
        return fit(source, q, options=options)


def _bartlett(table: _Table) -> Picked:
    if table.noise == "diagonal":
        return spectral.factor_test(table.source, table.most)
    return spectral.bartlett(table.whole_spectrum(), table.most)


def _bic(table: _Table) -> Picked:
    isotropic = table.noise == "isotropic"
    if isotropic and not table.source.has_missing:
        curve = spectral.bic_from_spectrum(table.spectrum, table.most)
        return curve.lowest(), curve
    curve = spectral.bic_by_fits(
        lambda q: table.fit(table.source, q, spectral.LOOSE).log_likelihood,
        spectral.ppca_parameters if isotropic else spectral.factor_parameters,
        table.source.n_features,
        float(np.mean(table.columns.sum_w)),
        table.most,
    )
    return curve.lowest(), curve


def _minka(table: _Table) -> Picked:
    curve = spectral.minka_evidence(table.whole_spectrum(), table.most)
    return curve.highest(), curve


def _gavish_donoho(table: _Table) -> Picked:
    count, curve = spectral.gavish_donoho(table.whole_spectrum())
    return min(count, table.most), curve


def _permuted(table: _Table) -> Picked:
    rows = table.source.collect()
    values: Array = rows if isinstance(rows, np.ndarray) else rows.toarray()
    w = table.source.map(_weights)
    if np.any(w != np.round(w)):
        raise DoesNotApplyError("sample_weight is not whole: its rows cannot be repeated")
    X = np.repeat(values.astype(np.float64, copy=False), w.astype(np.intp), axis=0)
    return permuted_parallel_analysis(X, table.most, np.random.default_rng(table.seed))


def _ard(table: _Table) -> Picked:
    """Components that Bayesian PCA keeps (Bishop 1999), and the mean squared loading of each.

    Components are removed from a fit that begins with a few, or with more as long as all are kept.
    """
    loose = replace(spectral.LOOSE, max_iter=300)
    W = fit_bayesian(table.source, None, noise=table.noise, options=loose).bayesian.W  # (d, q)
    size = np.sort(np.einsum("jk,jk->k", W, W))[::-1] / len(W)
    kept = size[size > 0.0]
    curve = Curve.from_first(kept, "higher", "mean squared loading of the k-th component")
    return min(len(kept), table.most), curve


CRITERIA: dict[str, Callable[[_Table], Picked]] = {
    automatic.NAME: lambda table: table.deflated,
    automatic.PLAIN: lambda table: table.parallel,
    "permuted_parallel_analysis": _permuted,
    "eigengap": lambda table: spectral.largest_eigengap(table.spectrum, table.most),
    "tolerance": lambda table: spectral.within_tolerance(
        table.spectrum, table.tolerance, table.source.n_features
    ),
    "bartlett": _bartlett,
    "bic": _bic,
    "minka": _minka,
    "gavish_donoho": _gavish_donoho,
    "cross_validation": lambda table: cross_validate(
        table.source, table.fit, table.most, table.seed
    ),
    "ard": _ard,
}


# Cross-validation of single values ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SquaredErrors(Additive):
    """Weighted sum of squared errors over cells, and the weight of the cells."""

    total: float
    weight: float

    @classmethod
    def of(cls, model: LinearGaussian, fold: int, seed: int, block: Block) -> SquaredErrors:
        """Of the cells of a fold, predicted from the others of their row."""
        values = block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
        tested = fold_of_cells(block.start, values.shape, FOLDS, seed) == fold
        tested &= ~np.isnan(values)
        kept = np.where(tested, np.nan, values)
        guess = model.posterior_mean(kept) @ model.W.T + model.mu if model.q else model.mu
        squares: Array = np.where(tested, values - guess, 0.0) ** 2
        w = np.ones(len(values)) if block.weight is None else block.weight
        return cls(float(w @ squares.sum(axis=1)), float(w @ tested.sum(axis=1)))


def cross_validate(source: Source, fit: Fit, most: int, seed: int) -> tuple[int, Curve]:
    """The number of components, from 0, of least mean squared error on held-out cells.

    Cells, not rows, are left out (Wold 1978; Bro et al. 2008): each fold hides its share of the
    cells, the model is fitted to the others, and the held-out ones are compared with their expected
    value given what is left of their row. Folds are a function of (seed, row, column).
    """
    kept = [HeldOut(source, fold, FOLDS, seed) for fold in range(FOLDS)]
    for part in kept:
        if np.any(part.observed().per_column < 2):
            raise DoesNotApplyError("a column has too few values to hide some of them")

    def errors(part: HeldOut, q: int) -> SquaredErrors:
        if q == 0:
            mean = part.reduce(ColumnMoments.of).mean
            model = LinearGaussian(np.zeros((len(mean), 0)), mean, np.ones(len(mean)))
        else:
            model = fit(part, q, LOOSER).model
        return source.reduce(partial(SquaredErrors.of, model, part.fold, seed))

    def error(q: int) -> float:
        sums = reduce(SquaredErrors.merge, (errors(part, q) for part in kept))
        return sums.total / max(sums.weight, 1.0)

    label = f"mean squared error of held-out values, {FOLDS}-fold"
    curve = Curve.of(first_minimum(error, 0, most), "lower", label)
    return curve.lowest(), curve


# What is given ------------------------------------------------------------------------------------


def _weights(block: Block) -> Array:
    return np.ones(block.n_rows) if block.weight is None else block.weight


def _asked(criteria: Iterable[str] | None) -> list[str]:
    if criteria is None:
        return list(CRITERIA)
    asked = [criteria] if isinstance(criteria, str) else list(criteria)
    unknown = [name for name in asked if name not in CRITERIA]
    if unknown or not asked:
        said = f"{unknown[0]!r} is not a criterion" if unknown else "criteria is empty"
        raise ValueError(f"{said}; choose from {', '.join(NAMES)}, or None for all of them")
    return asked


def seed_of(random_state: Any) -> int:
    """A seed from an int, Generator, RandomState or None."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(np.random.default_rng(random_state).integers(2**31 - 1))
