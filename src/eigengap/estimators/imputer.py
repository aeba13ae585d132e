"""Imputation in a pipeline, by whichever low-rank model predicts held-out values best."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from math import nan
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.bayesian_pca import BayesianPCA
from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import (
    AT_LEAST_ONE,
    AcceptsMissing,
    check_names,
    keep_features,
    keep_parameters,
    require_count,
    seed_of,
    source_of_new,
)
from eigengap.estimators.shared.density import warn_of_few
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.inner import ColumnMeans, StoppedFactorAnalysis
from eigengap.estimators.shared.mixed import MixedTable
from eigengap.estimators.shared.sklearn_compat import (
    HasMethods,
    StrOptions,
    _check_feature_names_in,
    _fit_context,
    _get_output_config,
)
from eigengap.estimators.shared.transformer import whole_table
from eigengap.exceptions import FewCellsWarning, NoiseFloorWarning, SentinelWarning
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn, without
from eigengap.selection.imputation import (
    Candidates,
    HeldOut,
    ImputationChoice,
    Search,
    Trial,
    try_all,
)
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.sources import (
    Source,
    boolean_columns,
    column,
    in_memory_table,
    library_of,
    like,
    resolve_columns,
    typed_like,
    warn_of_codes,
    whole_columns,
    with_new_columns,
)
from eigengap.statistics.moments import ColumnMoments, refuse_overflow

PIECE_CELLS = 1 << 17  # of imputed values that are rounded and clipped together
# Of the model of columns of every kind, whose likelihood is maximised: it is not stopped early.
COLUMN_TOL, COLUMN_STEPS = 1e-4, 500
CARE = 4  # times as many values are held out where the search is to be thorough
MIXTURE_STEPS = 5  # times as many steps for mixtures: rows have to find their clusters first


class LowRankImputer(AcceptsMissing, Shown, TransformerMixin, BaseEstimator):
    """Imputation by a low-rank model, chosen by how well it predicts held-out values.

    Every missing value is imputed by its expected value given the observed ones of its row. Model
    and number of components are found by holding out observed values and asking each model for
    them; `choice_` reports the result.

    Parameters
    ----------
    estimator : "auto", "thorough", estimator or list of estimators, default="auto"
        The model: anything with `fit` and `impute`, such as `PPCA`, `FactorAnalysis`,
        `BayesianPCA` or `MixturePPCA`. Of a list the best is chosen. "auto" tries Bayesian PCA and
        factor analysis, in about the time of scikit-learn's IterativeImputer; "thorough" tries
        mixtures too, which impute better where the rows form clusters.
    n_components : int or "auto", default="auto"
        "auto" finds the number by held-out values for "auto" and for estimators whose own
        n_components is "auto" or None; those with a number keep it. A number goes to all.
    scale : "auto" or bool, default="auto"
        Whether columns are divided by their standard deviations. "auto" tries both for the models
        made here, and leaves given estimators as they are; True or False goes to all.
    integers : "keep", list of columns or None, default=None
        Columns to be imputed by whole numbers: those named, or ("keep") every column of an
        integer or boolean type or in which all numbers observed in `fit` are whole.
    bounds : "data", (low, high), mapping of columns to (low, high) or None, default=None
        Bounds of imputed values; "data" is the range observed in `fit`. None for low or high is
        no bound. Imputed values and ends of intervals are clipped, which cannot take them farther
        from a truth within the bounds; random draws are reflected, which does not pile them up.
    add_indicator : bool, default=False
        Whether `transform` appends a 0/1 column for each column that had missing values in `fit`.
    tol : float, default=1e-2
        Tolerance of the models made here; given estimators keep their own.
    max_iter : int, default=10
        Most steps of the models made here, while they are compared and in the end (of numbers:
        that of columns of several kinds is fitted until it converges). Further steps
        fit the observed values better, but predict held-out ones no better, and worse where the
        model is large for the table (docs/imputation.md).
    random_state : int, RandomState or None, default=0
        Which values are held out.
    columns : "numeric", "auto" or mapping of columns to kinds, default="numeric"
        What columns hold. "numeric": Gaussian numbers, and text is refused. "auto": numbers, levels
        and truth values of a data frame, each by its own kind of column (continuous, ordinal,
        binary, nominal; `kinds_`); identifiers, free text and dates are returned as they are. A
        mapping names kinds, "ordinal" for instance, or values of `eigengap.columns`, for some
        columns; the others are found as under "auto" (docs/columns.md).
    verbose : bool or int, default=False
        Whether to print each model as it is tried.

    Attributes
    ----------
    estimator_ : fitted estimator
    choice_ : ImputationChoice
        `trials` (every model and number of components with its error), `chosen`, `summary`.
        None where there was nothing to choose.
    n_components_ : int or None
        Of `estimator_`; a tuple of a mixture.
    n_iter_ : int
    std_factors_ : array of shape (n_features,)
        What the standard deviations of `estimator_` are multiplied by, so that 95 % of the
        held-out values lie in their 95 % intervals; 1 where none were held out.
    whole_ : array of shape (n_features,)
        Columns that are imputed by whole numbers.
    bounds_ : array of shape (2, n_features)
        Least and largest imputed value of each column.
    indicator_features_ : array
        Columns that had missing values in `fit`.
    kinds_, levels_ : dict
        The kind of every column, and the levels of those that have some; only where `columns` is
        not "numeric".
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap.estimators.imputer import LowRankImputer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(200, 6))
    >>> X[rng.random(X.shape) < 0.2] = np.nan
    >>> imputer = LowRankImputer().fit(X)
    >>> imputer.n_components_
    2
    >>> bool(np.isnan(imputer.transform(X)).any())
    False
    >>> low, high = imputer.intervals(X, level=0.9)

    A table with more than numbers:

    >>> import pandas as pd
    >>> size = X[:, 0]
    >>> table = pd.DataFrame({"size": size, "large": np.where(size > 0, "yes", "no")})
    >>> table["weight"] = np.exp(size)
    >>> table.loc[::5, "large"] = None
    >>> mixed = LowRankImputer(columns="auto").fit(table)
    >>> mixed.kinds_
    {'size': 'continuous', 'large': 'binary', 'weight': 'continuous'}
    >>> int(mixed.impute(table)["large"].isna().sum())
    0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [StrOptions({"auto", "thorough"}), HasMethods(["fit", "impute"]), list, tuple],
        "n_components": [*AT_LEAST_ONE, StrOptions({"auto"})],
        "scale": ["boolean", StrOptions({"auto"})],
        "integers": [StrOptions({"keep"}), "array-like", None],
        "bounds": [StrOptions({"data"}), tuple, list, Mapping, None],
        "columns": [StrOptions({"numeric", "auto"}), Mapping],
    }

    def __init__(
        self,
        estimator: Any = "auto",
        n_components: int | str = "auto",
        *,
        scale: bool | str = "auto",
        integers: Any = None,
        bounds: Any = None,
        add_indicator: bool = False,
        missing_values: Any = nan,
        tol: float = 1e-2,
        max_iter: int = 10,
        random_state: Any = 0,
        verbose: bool | int = False,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the model and fit it to the observed values of X."""
        if not isinstance(self.columns, str) or self.columns != "numeric":
            return self._fit_columns(X, sample_weight)
        source = whole_table(
            X, "LowRankImputer", sample_weight=sample_weight, missing_values=self.missing_values
        )
        source = source.present()
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        refuse_overflow(float(np.sum(source.reduce(ColumnMoments.of).variance)), source)
        values, weight = _dense(source), source.weight
        whole = self._whole(X, source, values)
        bounds = self._bounds(X, source, values)
        _require_whole_numbers(whole, bounds, source)
        choice, best, std_factors = self._chosen(values, weight, source.names)
        # A model of our own is stopped early on purpose; codes are looked for above.
        early = (NoiseFloorWarning, ConvergenceWarning) if isinstance(self.estimator, str) else ()
        with without(SentinelWarning, FewCellsWarning, *early):
            fitted = fit_rows(best, values, source.names, weight=weight)
        warn_of_few(source, int(np.max(getattr(fitted, "n_components_", 0))))
        keep_features(self, X, source)  # only now: a fit may fail
        self.estimator_, self.choice_, self.std_factors_ = fitted, choice, std_factors
        self.whole_, self.bounds_ = whole, bounds
        self.indicator_features_ = np.flatnonzero(np.isnan(values).any(axis=0))
        return self

    def _fit_columns(self, X: Any, sample_weight: Any) -> Self:
        """The model of columns of every kind, instead of one of numbers."""
        for name, value in (("estimator", "auto"), ("integers", None), ("bounds", None)):
            if getattr(self, name) is not value and getattr(self, name) != value:
                raise ValueError(
                    f'{name} goes with columns="numeric"; kinds of columns say what is imputed'
                )
        if self.add_indicator:
            raise ValueError('add_indicator goes with columns="numeric"')
        _require_in_memory(X)
        table = MixedTable.fitted(
            X,
            self.columns,
            self.n_components,
            weight=sample_weight,
            missing_values=self.missing_values,
            options=EMOptions(tol=min(self.tol, COLUMN_TOL), max_iter=COLUMN_STEPS),
            seed=seed_of(self.random_state),
        )
        if not table.converged_:
            warn(
                f"LowRankImputer stopped after {table.n_iter_} steps before it reached its "
                "tolerance: levels that other columns separate, or columns that follow from "
                "others, leave the likelihood flat. Fewer components help",
                ConvergenceWarning,
            )
        source = table.pattern_of(X)
        keep_features(self, X, source)
        d = source.n_features
        self.estimator_, self.choice_, self.std_factors_ = table, None, np.ones(d)
        self.whole_, self.bounds_ = np.zeros(d, dtype=bool), np.tile([[-np.inf], [np.inf]], d)
        self.indicator_features_ = np.flatnonzero(source.missing_per_column())
        return self

    def _mixed(self, X: Any) -> MixedTable | None:
        """The table of the fit, if it has columns of several kinds, and X has the same columns."""
        check_is_fitted(self, "estimator_")
        if not isinstance(self.estimator_, MixedTable):
            return None
        _require_in_memory(X)
        check_names(self, X)
        return self.estimator_

    def _chosen(
        self, values: Array, weight: Array | None, names: Names
    ) -> tuple[ImputationChoice | None, Any, Array]:
        """What the search found, the estimator to fit, and factors for its deviations."""
        given = [] if isinstance(self.estimator, str) else self._given()
        if len(given) == 1 and not _leaves_rank_open(given[0][1]):
            return None, given[0][1], np.ones(values.shape[1])
        care = CARE if self.estimator == "thorough" else 1
        held_out = HeldOut.of(values, weight, seed_of(self.random_state), care, names)
        search = Search(held_out, clone, self._report)
        if isinstance(self.estimator, str):
            q = None if self.n_components == "auto" else int(self.n_components)
            try_all(search, self._candidates(), self.scale, q)
        for label, estimator in given:
            if _leaves_rank_open(estimator):
                search.ranks(label, estimator)
            else:
                search.once(label, estimator)
        return search.chosen()

    def _candidates(self) -> Candidates:
        how = {"tol": self.tol, "max_iter": self.max_iter}
        mixture = None
        if self.estimator == "thorough":
            more = {**how, "max_iter": MIXTURE_STEPS * self.max_iter}
            mixture = MixturePPCA(n_init=1, split_merge=0, random_state=0, **more)
        return Candidates(
            ppca=PPCA(**how),
            bayesian=BayesianPCA(**how),
            factors=StoppedFactorAnalysis(**how),
            column_means=ColumnMeans(),
            mixture=mixture,
        )

    def _given(self) -> list[tuple[str, Any]]:
        """Copies of the given estimators with this imputer's rank and scale."""
        given = self.estimator if isinstance(self.estimator, list | tuple) else [self.estimator]
        if not given:
            raise ValueError('estimator is an empty list; give models to choose from, or "auto"')
        labels = [repr(estimator) for estimator in given]
        if twice := next((s for s in labels if labels.count(s) > 1), None):
            raise ValueError(f"estimator lists {twice} more than once")
        return [(label, self._adapted(label, e)) for label, e in zip(labels, given, strict=True)]

    def _adapted(self, label: str, estimator: Any) -> Any:
        for required in ("fit", "impute", "set_params"):
            if isinstance(estimator, type) or not hasattr(estimator, required):
                raise TypeError(f"{label} cannot impute: it is no object with {required}()")
        estimator = clone(estimator)
        known = estimator.get_params(deep=False)
        if isinstance(self.scale, bool) and "scale" in known:
            estimator.set_params(scale=self.scale)
        if self.n_components != "auto" and "n_components" in known:
            estimator.set_params(n_components=self.n_components)
        return estimator

    def _report(self, trial: Trial) -> None:
        if self.verbose:
            print(f"{trial}: error {trial.error:.4f}", file=sys.stderr, flush=True)

    def _whole(self, X: Any, source: Source, values: Array) -> NDArray[np.bool_]:
        """(d,) columns to be imputed by whole numbers."""
        d = source.n_features
        if not isinstance(self.integers, str):
            named = [] if self.integers is None else self.integers
            return np.isin(np.arange(d), resolve_columns(named, source.names, d))
        whole = np.all(np.isnan(values) | (values == np.round(values)), axis=0)
        by_type = whole_columns(X)
        return whole if by_type is None else whole | by_type

    def _bounds(self, X: Any, source: Source, values: Array) -> Array:
        """(2, d) least and largest imputed value of each column."""
        d = source.n_features
        low, high = np.full(d, -np.inf), np.full(d, np.inf)
        if isinstance(self.bounds, str):
            return np.stack([np.nanmin(values, axis=0), np.nanmax(values, axis=0)])
        if isinstance(self.bounds, Mapping):
            for column, pair in self.bounds.items():
                (j,) = resolve_columns([column], source.names, d)
                low[j], high[j] = _pair(pair, f"bounds of column {column!r}")
        elif self.bounds is not None:
            low[:], high[:] = _pair(self.bounds, "bounds")
        if isinstance(self.integers, str) and (truth := boolean_columns(X)) is not None:
            low[truth], high[truth] = np.maximum(low[truth], 0), np.minimum(high[truth], 1)
        return np.stack([low, high])

    # Imputing ------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """X with its missing values imputed, as an ndarray unless `set_output` is used.

        Where `set_output` asks for the library that X comes from, columns keep their types. With
        columns of several kinds the table is X's own type, as from `impute`.
        """
        if (table := self._mixed(X)) is not None:
            imputed = table.impute(X)
            wanted = _get_output_config("transform", self)["dense"]
            # scikit-learn makes data frames of anything but tables of pyarrow.
            is_arrow = library_of(imputed) == "pyarrow" and wanted != "default"
            return imputed.to_pandas() if is_arrow else imputed
        values, missing = self._read(X)
        imputed = self._within(np.asarray(self.estimator_.impute(values)), missing)
        own_types = _get_output_config("transform", self)["dense"] == library_of(X)
        flags = missing[:, self.indicator_features_] if self.add_indicator else None
        if own_types:
            typed = typed_like(X, imputed, missing)
            names = self.get_feature_names_out()[values.shape[1] :]
            return typed if flags is None else with_new_columns(typed, names, flags)
        return imputed if flags is None else np.hstack([imputed, flags.astype(imputed.dtype)])

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """X with its missing values imputed, in X's own type, and their standard deviations.

        Returns
        -------
        imputed : table of X's type
            Observed values are as they were. Columns keep their types where those can hold the
            imputed values: integers="keep" makes them so.
        std : table of X's type
            Standard deviation of each imputed value before rounding and clipping, 0 for observed
            ones; times `std_factors_`. Only if return_std. With columns of several kinds it is half
            the width of the central 68 % of a number, and NaN for levels (`level_probabilities`).
        """
        if (table := self._mixed(X)) is not None:
            return (table.impute(X), table.std(X)) if return_std else table.impute(X)
        values, missing = self._read(X)
        if not return_std:
            imputed = np.asarray(self.estimator_.impute(values))
            return typed_like(X, self._within(imputed, missing), missing)
        imputed, std = self._imputed_and_std(values)
        return typed_like(X, self._within(imputed, missing), missing), like(X, std)

    def intervals(self, X: Any, level: float = 0.95) -> tuple[Any, Any]:
        """Lower and upper ends of an interval for each imputed value, within the bounds.

        Observed values are their own ends. Ends of columns imputed by whole numbers are rounded
        too.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Probability with which the truth lies inside.

        Returns
        -------
        low, high : tables of X's type
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}")
        if (table := self._mixed(X)) is not None:
            return table.intervals(X, level)
        values, missing = self._read(X)
        imputed, std = self._imputed_and_std(values)
        reach = norm.ppf(0.5 + level / 2.0) * std
        low, high = (self._within(imputed + sign * reach, missing) for sign in (-1.0, 1.0))
        return like(X, low), like(X, high)

    def level_probabilities(self, X: Any) -> dict[Any, Array]:
        """Probabilities of the levels of each column that has levels, by column: (n_samples, K).

        The order of the levels is that of `levels_`; an observed level has probability 1. Only
        where `columns` is not "numeric".
        """
        table = self._mixed(X)
        if table is None:
            raise ValueError('columns="numeric" knows no levels; fit with columns="auto"')
        return table.level_probabilities(X)

    def sample_imputations(self, X: Any, m: int, random_state: Any = None) -> Iterator[Any]:
        """Draw the missing values m times: tables to analyse one by one and to `eigengap.pool`.

        Yields
        ------
        table of X's type
            X with its missing values imputed by one joint draw, its distance from the expected
            values times `std_factors_`, reflected at the bounds and rounded where asked.
        """
        require_count("m", m, "tables")
        if (table := self._mixed(X)) is not None:
            rng = np.random.default_rng(seed_of(random_state))
            return table.sample_imputations(X, m, rng)
        values, missing = self._read(X)
        low, high = self.bounds_
        imputed = np.asarray(self.estimator_.impute(values))

        def bounded(drawn: Any) -> Any:
            wider = imputed + self.std_factors_ * (np.asarray(drawn) - imputed)
            inside = np.where(missing, _reflected(wider, low, high), values)
            return typed_like(X, self._within(inside.astype(values.dtype), missing), missing)

        tables = self.estimator_.sample_imputations(values, m, random_state=random_state)
        return (bounded(drawn) for drawn in tables)

    def _imputed_and_std(self, values: Array) -> tuple[Array, Array]:
        imputed, std = map(np.asarray, self.estimator_.impute(values, return_std=True))
        std *= self.std_factors_
        return imputed, std

    def _read(self, X: Any) -> tuple[Array, NDArray[np.bool_]]:
        """The table (n, d) and where its values are missing."""
        check_is_fitted(self, "estimator_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        values = _dense(source)
        return values, np.isnan(values)

    def _within(self, imputed: Array, missing: NDArray[np.bool_]) -> Array:
        """Imputed values rounded where asked and clipped to the bounds, in place."""
        low, high = self.bounds_
        # A whole column's bounds are taken inwards, so that clipping leaves whole numbers.
        low = np.where(self.whole_, np.ceil(low), low)
        high = np.where(self.whole_, np.floor(high), high)
        step = max(1, PIECE_CELLS // imputed.shape[1])
        for start in range(0, len(imputed), step):
            part, where = imputed[start : start + step], missing[start : start + step]
            rounded = np.where(self.whole_, np.round(part), part)
            np.copyto(part, np.clip(rounded, low, high), where=where, casting="same_kind")
        return imputed

    # Names ---------------------------------------------------------------------------------

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The columns' own names, then missingindicator_* where add_indicator."""
        check_is_fitted(self, "estimator_")
        names = np.asarray(_check_feature_names_in(self, input_features), dtype=object)
        if not self.add_indicator:
            return names
        flags = [f"missingindicator_{names[j]}" for j in self.indicator_features_]
        return np.concatenate([names, np.array(flags, dtype=object)])

    @property
    def kinds_(self) -> dict[Any, str]:
        """The kind of every column; only where `columns` is not "numeric"."""
        return self.estimator_.described()  # which only a MixedTable has

    @property
    def levels_(self) -> dict[Any, tuple[Any, ...]]:
        """The levels of every column that has some, in the order of `level_probabilities`."""
        return self.estimator_.levels()

    n_components_ = property(lambda self: getattr(self.estimator_, "n_components_", None))
    n_iter_ = property(lambda self: int(getattr(self.estimator_, "n_iter_", 1)))


def _require_in_memory(X: Any) -> None:
    if not in_memory_table(X):
        raise ValueError(
            'columns other than "numeric" need a table in memory: a data frame, or a 2-d array'
        )


def _dense(source: Source) -> Array:
    """All values (n, d); a sparse table becomes dense."""
    values = source.collect()
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray())


def _leaves_rank_open(estimator: Any) -> bool:
    asked = estimator.get_params(deep=False).get("n_components", 1)
    return asked is None or (isinstance(asked, str) and asked == "auto")


def _require_whole_numbers(whole: NDArray[np.bool_], bounds: Array, source: Source) -> None:
    """Refuse bounds of a column of whole numbers between which there is none."""
    for j in np.flatnonzero(whole & (np.ceil(bounds[0]) > np.floor(bounds[1]))):
        low, high = bounds[:, j]
        raise ValueError(
            f"column {column(source.names, int(j))} is to be imputed by whole numbers, and there "
            f"is none between its bounds {low:g} and {high:g}"
        )


def _pair(pair: Any, label: str) -> tuple[float, float]:
    try:
        low, high = pair
        low = -np.inf if low is None else float(low)
        high = np.inf if high is None else float(high)
    except (TypeError, ValueError):
        raise ValueError(
            f"{label} must be (low, high), two numbers or None, got {pair!r}"
        ) from None
    if not low <= high:
        raise ValueError(f"{label} must be (low, high) with low <= high, got {pair!r}")
    return low, high


def _reflected(values: Array, low: Array, high: Array) -> Array:
    """Values mirrored at the bound that they cross, once; clipping does the rest."""
    values = np.where(values < low, 2.0 * low - values, values)
    return np.where(values > high, 2.0 * high - values, values)
