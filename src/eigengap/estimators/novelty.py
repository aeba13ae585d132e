"""Novelty detection as a scikit-learn outlier detector: p-values, T2, SPE and their causes."""

from __future__ import annotations

from functools import partial
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.factor_analysis import FactorAnalysis
from eigengap.estimators.shared.base import (
    AcceptsMissing,
    coded_of_new,
    keep_features,
    keep_parameters,
    like_input,
    map_rows,
    source_of_new,
    takes_kinds,
    with_kinds,
)
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.sklearn_compat import HasMethods, Interval, StrOptions, _fit_context
from eigengap.exceptions import SingularModelError
from eigengap.inference import column_novelty
from eigengap.inference import novelty as gaussian_novelty
from eigengap.inference.novelty import (
    Explanation,
    NoveltyStatistics,
    distances_of,
    scaled_to_median,
    weighted_quantile,
)
from eigengap.linalg import Array
from eigengap.models.columns.model import ColumnModel
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.novelty import Name
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.sources import (
    Source,
    as_source,
    column,
    library_of,
    missing_codes,
    open_table,
)


class NoveltyDetector(AcceptsMissing, Shown, OutlierMixin, BaseEstimator):
    """Rows that a linear-Gaussian model finds improbable, with p-values and causes.

    The squared distance D2 = (x - mu)^T C^-1 (x - mu) over the observed values of a row is split
    into T2, along the components, and SPE, away from them. Each has a p-value that means the same
    however many values are missing, and every value its share.

    Parameters
    ----------
    estimator : PPCA, FactorAnalysis or another with a LinearGaussian as `model_`, default=None
        None is FactorAnalysis(): it has a noise variance for each column, so that a value is judged
        by the standards of its own column, whatever its units. On five real tables it detected
        rows with one exchanged value better than PPCA(scale=True), which fits faster.
    contamination : float in (0, 0.5] or "auto", default="auto"
        Share of the training rows to flag. "auto" flags every row with p < alpha.
    alpha : float in (0, 1), default=0.05
        Share of ordinary new rows that may be flagged; used if contamination="auto".
    missing_values : float or list of float, default=nan
        Values that mark a missing value, besides NaN; NaN leaves the estimator's own.

    Attributes
    ----------
    estimator_ : the fitted model
    core_ : LinearGaussian or ColumnModel
        What ordinary rows follow: the model of `estimator_`, or the bulk of its Student rows.
    offset_ : float
        `decision_function` is `score_samples` less this.
    reference_ : Reference
        The distributions behind the p-values.
    kinds_ : dict
        The kind of every column; only where `columns`, or the estimator's, is not "numeric".
    n_features_in_, feature_names_in_

    Notes
    -----
    `score_samples` is the logarithm of the p-value of D2, not the log density: with more values
    observed a density falls (or rises, in small units) however ordinary the row is, so that
    densities of rows with different missing values cannot be compared. p-values can.

    With known parameters D2, T2 and SPE are chi-squared, exactly. Here the parameters come from the
    data, which makes new rows look less probable than they are: at 50 x 20 with 5 factors 26 % of
    ordinary new rows have a chi-squared p-value below 0.05. p-values are therefore those of F
    distributions (`eigengap.models.gaussian.reference`): from 30 rows on, complete or with 30 % of
    the values missing, 4 to 6 % of ordinary new rows have p < 0.05, and 8 to 9 % where rows have
    hardly more observed values than there are components (benchmarks/novelty.py). With a noise
    variance for each column that holds for tables longer than wide: 10 to 12 % lie below 0.05 at 40
    x 40, 30 x 60 and 50 x 100, where PPCA has 4 to 7 %. The rows of the fit itself look more
    ordinary than new ones: expect fewer than alpha of them below alpha. Data that are not Gaussian
    have heavier tails: on real tables 6 to 14 % of held-out rows lay below 0.05.

    With columns of several kinds every cell is compared with what the cells before it lead one to
    expect: its deviance -2 ln p has a mean and a variance that the model knows, whatever its kind.
    Their sum is scaled to be a D2 (`eigengap.models.columns.deviance`) with degrees of freedom that
    need not be whole, and the same F distributions apply. 4 to 6 % of ordinary new rows have
    p < 0.05 after fits to 60 rows and more; rows of a few yes-or-no columns have few different
    p-values. T2 and SPE are those of the continuous columns.

    Outliers in the training data widen the model and mask themselves. Where there may be more than
    a few, use FactorAnalysis(distribution="student"): it is fitted to the bulk, and p-values are
    those of the Gaussian with its scatter, scaled so that the median training row is an ordinary
    one.

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
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float | str = "auto",
        alpha: float = 0.05,
        missing_values: Any = nan,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        return with_kinds(tags) if takes_kinds(self.columns) else tags

    @_fit_context(prefer_skip_nested_validation=False)  # the inner estimator's are validated too
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model and set the threshold."""
        estimator = self._asked()
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        estimator.fit(X, **weights)
        core: Any = getattr(estimator, "model_", None)
        if isinstance(core, ColumnModel):
            table = estimator.table_
            how = {"missing_values": [*table.schema.missing, *table.schema.missing_texts]}
            rows = open_table(X, **how, **weights).source(table.schema, table.used)
            source = rows.present()
        elif isinstance(core, LinearGaussian):
            source = as_source(X, missing_values=_codes(estimator), **weights).present()
        else:
            raise ValueError(
                f"{type(estimator).__name__} has no linear-Gaussian density, which T2, SPE and "
                "their p-values need; use PPCA or FactorAnalysis"
            )
        if isinstance(core, StudentLinearGaussian):
            found = map_rows(source, partial(distances_of, model=core.gaussian))
            core = scaled_to_median(core.gaussian, found, source.weight)
        law = _novelty(core).reference_of(core, source)
        offset = float(np.log(self.alpha))
        if not isinstance(self.contamination, str):
            scores = map_rows(source, partial(_novelty(core).log_p, model=core, law=law))
            offset = weighted_quantile(scores, source.weight, float(self.contamination))
        table = getattr(estimator, "table_", None)
        keep_features(self, X, source if table is None else table)  # only now: a fit may fail
        self.estimator_, self.core_, self.reference_, self.offset_ = estimator, core, law, offset
        return self

    # How probable -------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Logarithm of the p-value of D2, 0 for a row without any observed value: (n_samples,)."""
        source = self._source(X)
        log_p = _novelty(self.core_).log_p
        return map_rows(source, partial(log_p, model=self.core_, law=self.reference_))

    def p_values(self, X: Any) -> Array:
        """p-values of D2, each among rows with the same missing values: (n_samples,)."""
        return np.exp(self.score_samples(X))

    def decision_function(self, X: Any) -> Array:
        """`score_samples` less `offset_`, negative for rows to be flagged: (n_samples,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.intp]:
        """-1 for outliers, 1 for ordinary rows: (n_samples,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def statistics(self, X: Any) -> NoveltyStatistics:
        """D2, T2 and SPE of every row with degrees of freedom and p-values.

        Returns
        -------
        NoveltyStatistics
            `D2`, `T2` and `SPE`, each with `value`, `dof`, `p_value` and `log_p` (n_samples,). A
            row with no more observed values than components has no SPE: 0, with p-value 1.
        """
        own = _novelty(self.core_)
        parts = map_rows(self._source(X), partial(own.parts_of, model=self.core_))
        return own.statistics_of(parts, self.reference_)

    # Which column --------------------------------------------------------------------------

    def contributions(self, X: Any, of: Name = "D2") -> Any:
        """Share of every value in a statistic of its row.

        Parameters
        ----------
        of : {"D2", "T2", "SPE"}
            "D2": (x - mu)_j (C^-1 (x - mu))_j. "T2": (x - mu)_j times half the derivative of T2 by
            x_j. "SPE": squared residual from the components over the column's noise variance.
            Shares in D2 and T2 may be negative.

        Returns
        -------
        table of X's type, of shape (n_samples, n_features)
            Rows sum to the statistic; missing values have 0.
        """
        if of not in get_args(Name):
            raise ValueError(f'of must be "D2", "T2" or "SPE", got {of!r}')
        source = self._source(X)
        if isinstance(self.core_, ColumnModel):
            raise ValueError(
                "contributions are shares of a squared distance, which levels and counts have no "
                "part in; explain() names the cells of any kind that are unexpected"
            )
        self._require_noise(source)
        shares = map_rows(source, lambda x: novelty.contributions(self.core_, x, of))
        return like_input(self, X, shares)

    def explain(self, X: Any, k: int = 3) -> list[Explanation]:
        """The values that make rows improbable, in words.

        Of each row the value is removed that deviates most from what the other observed ones lead
        one to expect (which lowers D2 most), then the same of what is left, k times: so that one
        outlying value does not put the blame on the columns that correlate with it.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            The rows to be explained.
        k : int, default=3
            Number of values.

        Returns
        -------
        list of Explanation
            `row`, `label` (of a frame's index), `p_value`, `cells` (each with `column`, `value`,
            `expected`, `std`, `deviation`) and `p_value_without`; str() of each is a sentence.
        """
        if not isinstance(k, Integral) or k < 1:
            raise ValueError(f"k, the number of cells to name, must be a positive integer, got {k}")
        source = self._source(X)
        values = map_rows(source, lambda x: x)
        labels = list(X.index) if library_of(X) == "pandas" else list(range(len(values)))
        model, law = self.core_, self.reference_
        if isinstance(model, ColumnModel):
            table = self.estimator_.table_
            return column_novelty.explain(values, k, table, labels, model, law)
        self._require_noise(source)
        names = list(map(_named, getattr(self, "feature_names_in_", range(values.shape[1]))))
        return gaussian_novelty.explain(values, k, names, labels, model, law)

    # ---------------------------------------------------------------------------------------

    def _asked(self) -> Any:
        """The estimator, unfitted, as the parameters ask for it."""
        estimator = FactorAnalysis() if self.estimator is None else clone(self.estimator)
        if missing_codes(self.missing_values):
            estimator.set_params(missing_values=self.missing_values)
        if takes_kinds(self.columns):
            if "columns" not in estimator.get_params():
                raise ValueError(
                    f"{type(estimator).__name__} takes numbers only; FactorAnalysis and PPCA take "
                    "columns"
                )
            estimator.set_params(columns=self.columns)
        return estimator

    @property
    def kinds_(self) -> dict[Any, str]:
        """The kind of every column; only where the estimator takes columns of several kinds."""
        return self.estimator_.kinds_

    def _source(self, X: Any) -> Source:
        check_is_fitted(self, "offset_")
        if isinstance(self.core_, ColumnModel):
            return coded_of_new(self, X, self.estimator_.table_)
        return source_of_new(self, X, missing_values=_codes(self.estimator_))

    def _require_noise(self, source: Source) -> None:
        try:
            novelty.require_noise(self.core_)
        except SingularModelError as error:
            j = int(np.argmin(self.core_.psi))
            raise type(error)(f"column {column(source.names, j)}: {error}") from None


def _codes(estimator: Any) -> Any:
    return getattr(estimator, "missing_values", nan)


def _novelty(core: Any) -> Any:
    """The module that judges rows under this model."""
    return column_novelty if isinstance(core, ColumnModel) else gaussian_novelty


def _named(key: Any) -> str:
    """A column's name; x0, x1, ... by position."""
    return f"x{key}" if isinstance(key, int) else str(key)
