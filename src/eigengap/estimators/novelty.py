"""Novelty detection as a scikit-learn outlier detector: p-values, T2, SPE and their causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._base import _on_dense
from eigengap.estimators._features import keep_features, like_input, source_of_new
from eigengap.estimators._notebook import Shown
from eigengap.estimators._sklearn_compat import HasMethods, Interval, StrOptions, _fit_context
from eigengap.estimators.factor_analysis import FactorAnalysis
from eigengap.exceptions import SingularModelError
from eigengap.linalg import Array
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import Distances, Name
from eigengap.models.gaussian.reference import Reference
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.sources import Source, as_source, column, library_of, missing_codes, show
from eigengap.statistics.expected.fitted import NoiseRatio


@dataclass(frozen=True, eq=False)
class Statistic:
    """One statistic of every row, with what it has to be compared to."""

    value: Array  # (n,)
    dof: NDArray[np.intp]  # (n,) degrees of freedom; 0 where it cannot be computed
    log_p: Array  # (n,) natural logarithm of the p-value: it does not underflow

    @property
    def p_value(self) -> Array:
        """(n,) probability of a larger value in a new row that follows the model."""
        return np.exp(self.log_p)


@dataclass(frozen=True, eq=False)
class NoveltyStatistics:
    """D2 = T2 + SPE of every row: how far, along the components, and away from them."""

    D2: Statistic  # squared Mahalanobis distance
    T2: Statistic  # Hotelling's statistic of the latent variables
    SPE: Statistic  # squared prediction error, in units of the noise


@dataclass(frozen=True)
class OddCell:
    """A cell beside what the rest of its row leads one to expect."""

    column: str
    value: float
    expected: float
    std: float

    @property
    def deviation(self) -> float:
        """value - expected, in standard deviations."""
        return (self.value - self.expected) / self.std

    def __str__(self) -> str:
        side = "above" if self.deviation > 0 else "below"
        return (
            f"{self.column} = {self.value:.4g}, expected {self.expected:.4g} ± {self.std:.2g} "
            f"({abs(self.deviation):.1f} sd {side})"
        )


@dataclass(frozen=True)
class Explanation:
    """Why a row is odd: its worst cells, each found after those before it were set aside."""

    row: int  # position in the table
    label: Any  # of the frame's index; the position where there is none
    p_value: float
    cells: tuple[OddCell, ...]
    p_value_without: float  # of what is left of the row

    def __str__(self) -> str:
        if not self.cells:
            return f"row {self._named}: nothing was seen"
        worst = "; ".join(str(cell) for cell in self.cells)
        many = "them" if len(self.cells) > 1 else "it"
        return (
            f"row {self._named}: p = {self.p_value:.2g}; {worst}; "
            f"without {many} p = {self.p_value_without:.2g}"
        )

    @property
    def _named(self) -> str:
        same = isinstance(self.label, Integral) and self.label == self.row
        return str(self.row) if same else f"{self.row} ({show(self.label)})"


class NoveltyDetector(Shown, OutlierMixin, BaseEstimator):
    """Rows that a linear-Gaussian model finds improbable, gaps welcome, with p-values and causes.

    The squared distance D2 = (x - mu)^T C^-1 (x - mu) over the seen cells of a row is split into
    T2, along the components, and SPE, away from them. Each has a p-value that means the same
    however many cells are missing, and every cell its share.

    Parameters
    ----------
    estimator : PPCA, FactorAnalysis or another with a LinearGaussian as `model_`, default=None
        None is FactorAnalysis(): it has a noise variance for each column, so that a cell is odd by
        the standards of its own column, whatever its units. On five real tables it told rows with
        one exchanged cell apart better than PPCA(scale=True), which fits faster.
    contamination : float in (0, 0.5] or "auto", default="auto"
        Share of the training rows to flag. "auto" flags every row with p < alpha.
    alpha : float in (0, 1), default=0.05
        Share of ordinary new rows that may be flagged; used if contamination="auto".
    missing_values : float or list of float, default=nan
        Values that mark an unseen cell, besides NaN; NaN leaves the estimator's own.

    Attributes
    ----------
    estimator_ : the fitted model
    core_ : LinearGaussian
        What ordinary rows follow: the model of `estimator_`, or the bulk of its Student rows.
    offset_ : float
        `decision_function` is `score_samples` less this.
    reference_ : Reference
        The laws behind the p-values.
    n_features_in_, feature_names_in_

    Notes
    -----
    `score_samples` is the logarithm of the p-value of D2, not the log density: with more cells seen
    a density falls (or rises, in small units) however ordinary the row is, so that densities of
    rows with different gaps cannot be compared. p-values can.

    With known parameters D2, T2 and SPE are chi-squared, exactly. Here the parameters come from the
    data, which makes new rows look odder than they are: at 50 x 20 with 5 factors 26 % of ordinary
    new rows have a chi-squared p-value below 0.05. p-values are therefore those of F laws
    (`eigengap.models.gaussian.reference`): from 30 rows on, complete or with 30 % of the cells
    missing, 4 to 6 % of ordinary new rows have p < 0.05, and 8 to 9 % where rows show hardly more
    cells than there are components (benchmarks/novelty.py). With a noise variance for each column
    that holds for tables longer than wide: 10 to 12 % lie below 0.05 at 40 x 40, 30 x 60 and 50 x
    100, where PPCA has 4 to 7 %. The rows of the fit itself look more ordinary than new ones:
    expect fewer than alpha of them below alpha. Data that are not Gaussian have heavier tails: on
    real tables 6 to 14 % of held-out rows lay below 0.05.

    Odd rows in the training data widen the model and hide themselves. Where there may be more than
    a few, use FactorAnalysis(noise="student"): it is fitted to the bulk, and p-values are those of
    the Gaussian with its scatter, scaled so that the median training row is an ordinary one.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import NoveltyDetector
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(200, 6))
    >>> detector = NoveltyDetector().fit(X)
    >>> new = X[:2].copy()
    >>> new[0, 4] += 4.0
    >>> new[:, 0] = np.nan
    >>> detector.predict(new)
    array([-1,  1])
    >>> detector.explain(new, k=1)[0].cells[0].column
    'x4'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "score_samples"]), None],
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
        "alpha": [Interval(Real, 0, 1, closed="neither")],
        "missing_values": [Real, "array-like"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float | str = "auto",
        alpha: float = 0.05,
        missing_values: Any = nan,
    ) -> None:
        self.estimator = estimator
        self.contamination = contamination
        self.alpha = alpha
        self.missing_values = missing_values

    @_fit_context(prefer_skip_nested_validation=False)  # the inner estimator's are validated too
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model and set the threshold.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap.
        y : ignored
        sample_weight : array of shape (n_samples,), default=None
            Frequency of each row.

        Returns
        -------
        self
        """
        estimator = FactorAnalysis() if self.estimator is None else clone(self.estimator)
        if missing_codes(self.missing_values):
            estimator.set_params(missing_values=self.missing_values)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        estimator.fit(X, **weights)
        model = getattr(estimator, "model_", None)
        if not isinstance(model, LinearGaussian):
            raise ValueError(
                f"{type(estimator).__name__} has no linear-Gaussian density, which T2, SPE and "
                "their p-values need; use PPCA or FactorAnalysis"
            )
        source = as_source(X, missing_values=_codes(estimator), **weights).present()
        core = _core(model, source)
        law = _reference(core, source)
        offset = self._offset(source, core, law)
        keep_features(self, X, source)  # only now: a fit may fail
        self.estimator_, self.core_, self.reference_, self.offset_ = estimator, core, law, offset
        return self

    # How odd -------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Logarithm of the p-value of D2, 0 for a row of which nothing was seen: (n_samples,)."""
        source = self._source(X)
        return _map(source, partial(_log_p, self.core_, self.reference_))

    def p_values(self, X: Any) -> Array:
        """Probability that an ordinary new row with the same gaps is as odd: (n_samples,)."""
        return np.exp(self.score_samples(X))

    def decision_function(self, X: Any) -> Array:
        """`score_samples` less `offset_`, negative for rows to be flagged: (n_samples,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.intp]:
        """-1 for odd rows, 1 for ordinary ones: (n_samples,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def statistics(self, X: Any) -> NoveltyStatistics:
        """D2, T2 and SPE of every row with degrees of freedom and p-values.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)

        Returns
        -------
        NoveltyStatistics
            `D2`, `T2` and `SPE`, each with `value`, `dof`, `p_value` and `log_p` (n_samples,). A
            row with no more seen cells than components has no SPE: 0, with p-value 1.
        """
        table = _map(self._source(X), self._distances)
        found = Distances(
            table[:, 0], table[:, 1], table[:, 2].astype(np.intp), table[:, 3].astype(np.intp)
        )
        law = self.reference_
        return NoveltyStatistics(
            D2=Statistic(found.D2, found.observed, law.log_p_D2(found.D2, found.observed)),
            T2=Statistic(found.T2, found.rank, law.log_p_T2(found)),
            SPE=Statistic(found.SPE, found.observed - found.rank, law.log_p_SPE(found)),
        )

    # Which column --------------------------------------------------------------------------

    def contributions(self, X: Any, of: Name = "D2") -> Any:
        """Share of every cell in a statistic of its row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        of : {"D2", "T2", "SPE"}
            "D2": (x - mu)_j (C^-1 (x - mu))_j. "T2": (x - mu)_j times half the derivative of T2 by
            x_j. "SPE": squared residual from the components over the column's noise variance.
            Shares in D2 and T2 may be negative.

        Returns
        -------
        table of X's type, of shape (n_samples, n_features)
            Rows sum to the statistic; unseen cells have 0.
        """
        if of not in get_args(Name):
            raise ValueError(f'of must be "D2", "T2" or "SPE", got {of!r}')
        source = self._source(X)
        self._require_noise(source)
        return like_input(
            self, X, _map(source, lambda x: novelty.contributions(self._model, x, of))
        )

    def explain(self, X: Any, k: int = 3) -> list[Explanation]:
        """The cells that make rows odd, in words.

        Of each row the cell is taken that deviates most from what the other seen cells lead one to
        expect (setting it aside lowers D2 most), then the same of what is left, k times: so that
        one wild cell does not put the blame on the columns that correlate with it.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            The rows to be explained.
        k : int, default=3
            Number of cells.

        Returns
        -------
        list of Explanation
            `row`, `label` (of a frame's index), `p_value`, `cells` (each with `column`, `value`,
            `expected`, `std`, `deviation`) and `p_value_without`; str() of each is a sentence.
        """
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k, the number of cells to name, must be a positive integer, got {k}")
        source = self._source(X)
        self._require_noise(source)
        values = np.array(_map(source, lambda x: x), dtype=np.float64)
        log_p = partial(_log_p, self.core_, self.reference_)
        before = np.exp(log_p(values))
        found: list[list[OddCell]] = [[] for _ in values]
        for _ in range(min(k, values.shape[1])):
            self._set_worst_aside(values, found)
        after = np.exp(log_p(values))
        labels = list(X.index) if library_of(X) == "pandas" else range(len(values))
        return [
            Explanation(i, labels[i], float(before[i]), tuple(cells), float(after[i]))
            for i, cells in enumerate(found)
        ]

    def _set_worst_aside(self, values: Array, found: list[list[OddCell]]) -> None:
        """Append the worst cell of every row to `found`, and hide it in `values`."""
        mean, sd = novelty.given_the_others(self._model, values)
        deviation = np.where(np.isnan(values), -1.0, np.abs(values - mean) / sd)
        worst = np.argmax(deviation, axis=1)
        for i in np.flatnonzero(deviation.max(axis=1) >= 0.0):
            j = worst[i]
            cell = (float(table[i, j]) for table in (values, mean, sd))
            found[i].append(OddCell(self._name(j), *cell))
            values[i, j] = np.nan

    # ---------------------------------------------------------------------------------------

    @property
    def _model(self) -> LinearGaussian:
        return self.core_

    def _name(self, j: int) -> str:
        return str(self.feature_names_in_[j]) if hasattr(self, "feature_names_in_") else f"x{j}"

    def _source(self, X: Any) -> Source:
        check_is_fitted(self, "offset_")
        source = source_of_new(self, X, missing_values=_codes(self.estimator_))
        return source

    def _distances(self, X: Array) -> Array:
        found = novelty.distances(self._model, X)
        return np.column_stack([found.T2, found.SPE, found.observed, found.rank])

    def _offset(self, source: Source, model: LinearGaussian, law: Reference) -> float:
        if isinstance(self.contamination, str):
            return float(np.log(self.alpha))
        weight = source.weight
        scores = _map(source, partial(_log_p, model, law))
        return _quantile(scores, weight, float(self.contamination))

    def _require_noise(self, source: Source) -> None:
        try:
            novelty.require_noise(self._model)
        except SingularModelError as error:
            j = int(np.argmin(self._model.psi))
            raise type(error)(f"column {column(source.names, j)}: {error}") from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _map(source: Source, fn: Callable[[Array], Array]) -> Array:
    return source.map(lambda block: _on_dense(block, fn))


def _log_p(model: LinearGaussian, law: Reference, X: Array) -> Array:
    """ln p of D2 of every row: (c,)."""
    observed = np.count_nonzero(~np.isnan(X), axis=1)
    return law.log_p_D2(novelty.squared_distance(model, X), observed)


def _codes(estimator: Any) -> Any:
    return getattr(estimator, "missing_values", nan)


def _reference(model: LinearGaussian, source: Source) -> Reference:
    """From the rows of the fit."""
    ratio = source.reduce(partial(NoiseRatio.of, model))
    return Reference.of(model, source.observed().sum_w, ratio.observed_w, ratio.mean)


def _core(model: LinearGaussian, source: Source) -> LinearGaussian:
    """The Gaussian that ordinary rows follow: the model itself, or the bulk of Student rows.

    Under heavy tails no row is odd. Scatter is covariance of the bulk up to a factor, which the
    median of D2 tells (as for the minimum covariance determinant: Rousseeuw and Van Driessen 1999).
    """
    if not isinstance(model, StudentLinearGaussian):
        return model
    bulk = model.gaussian
    found = _map(
        source,
        lambda x: np.column_stack(
            [novelty.squared_distance(bulk, x), np.count_nonzero(~np.isnan(x), axis=1)]
        ),
    )
    D2, p = found[found[:, 1] > 0].T
    weight = source.weight
    w = None if weight is None else weight[found[:, 1] > 0]
    factor = _quantile(D2 / special.chdtri(p, 0.5), w, 0.5)  # over chi-squared's median
    return replace(bulk, W=bulk.W * np.sqrt(factor), psi=bulk.psi * factor)


def _quantile(values: Array, weight: Array | None, share: float) -> float:
    """As np.quantile of the values, each repeated as often as its weight says."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends = np.cumsum(np.ones(len(values)) if weight is None else weight[order])
    position = share * (ends[-1] - 1.0)
    below, above = np.floor(position), np.ceil(position)
    low, high = (
        ordered[min(int(np.searchsorted(ends, at, side="right")), len(ordered) - 1)]
        for at in (below, above)
    )
    return float(low + (position - below) * (high - low))
