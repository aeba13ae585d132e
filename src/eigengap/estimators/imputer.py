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
    limited,
    require_count,
    require_names,
    seed_of,
    source_of_new,
    takes_kinds,
)
from eigengap.estimators.shared.density import warn_of_few
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.inner import ColumnMeans, StoppedFactorAnalysis
from eigengap.estimators.shared.sklearn_compat import (
    HasMethods,
    StrOptions,
    _check_feature_names_in,
    _fit_context,
    _get_output_config,
)
from eigengap.estimators.shared.transformer import whole_table
from eigengap.exceptions import (
    FewCellsWarning,
    HeywoodWarning,
    NoiseFloorWarning,
    SentinelWarning,
    UnreadableError,
)
from eigengap.fitting.columns.details import Limited, without_limits
from eigengap.fitting.columns.kinds import LARGEST, floor_of
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.inference.intervals import require_level
from eigengap.linalg import Array
from eigengap.models.columns.table import Columns
from eigengap.runtime.warnings import without
from eigengap.selection.coded_table import CodedTable
from eigengap.selection.columns import ColumnSearch
from eigengap.selection.gaussian_or_mapped import (
    BAYESIAN,
    MODEL,
    Behind,
    are_plain,
    choice_alone,
    compare,
)
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
    Schema,
    Source,
    boolean_columns,
    column,
    holds_numbers,
    in_memory_table,
    library_of,
    like,
    missing_codes,
    resolve_columns,
    typed_like,
    warn_of_codes,
    whole_columns,
    with_new_columns,
)
from eigengap.statistics.column_facts import TableFacts
from eigengap.statistics.moments import ColumnMoments, refuse_overflow

PIECE_CELLS = 1 << 17  # of imputed values that are rounded and clipped together
CARE = 4  # times as many values are held out where the search is to be thorough
MIXTURE_STEPS = 5  # times as many steps for mixtures: rows have to find their clusters first
COLUMN_STEPS = 4  # and for columns of several kinds, whose sites have to settle

EARLY: tuple[type[Warning], ...] = (NoiseFloorWarning, HeywoodWarning, ConvergenceWarning)


class LowRankImputer(AcceptsMissing, Shown, TransformerMixin, BaseEstimator):
    """Imputation by a low-rank model, chosen by how well it predicts held-out values.

    Any table is taken: numbers, levels, text and truth values together. Every missing value is
    imputed given the observed ones of its row: by its expected value under a Gaussian of the
    numbers, or, behind columns of several kinds, by its median or most probable level. Model and
    number of components are found by holding out observed values and asking each model for them;
    `choice_` reports the result.

    Parameters
    ----------
    estimator : "auto", "thorough", estimator or list of estimators, default="auto"
        The model: anything with `fit` and `impute`, such as `PPCA`, `FactorAnalysis`,
        `BayesianPCA` or `MixturePPCA`. Of a list the best is chosen. "auto" tries Bayesian PCA and
        factor analysis, in about the time of scikit-learn's IterativeImputer; "thorough" tries
        mixtures too, which impute better where the rows form clusters (of numbers), and holds out
        four times as many values. A table that holds more than numbers is given to the estimator
        with this imputer's `columns`; one that has no such parameter is refused, and so is a list.
    n_components : int or "auto", default="auto"
        "auto" finds the number by held-out values for "auto" and for estimators whose own
        n_components is "auto" or None; those with a number keep it. A number goes to all.
    scale : "auto" or bool, default="auto"
        Whether columns are divided by their standard deviations. "auto" tries both for the models
        made here, and leaves given estimators as they are; True or False goes to all. False keeps
        numbers as they are, without maps, and is refused for other columns.
    integers : "keep", list of columns or None, default=None
        Columns to be imputed by whole numbers: those named, or ("keep") every column of an
        integer or boolean type or in which all numbers observed in `fit` are whole. Behind maps
        these are whole anyway. Columns of levels cannot be named here or in `bounds`.
    bounds : "data", (low, high), mapping of columns to (low, high) or None, default=None
        Bounds of imputed values; "data" is the range observed in `fit`. None for low or high is
        no bound. Imputed values and ends of intervals are clipped, which cannot take them farther
        from a truth within the bounds; random draws are reflected, which does not pile them up.
        By default a column without a negative value in `fit` gets none (and none below 1 if it
        holds whole numbers from 1 on), unless columns="numeric".
    add_indicator : bool, default=False
        Whether `transform` appends a 0/1 column for each column that had missing values in `fit`.
    tol : float, default=1e-2
        Tolerance of the models made here; given estimators keep their own.
    max_iter : int, default=10
        Most steps of the models made here, while they are compared and in the end; four times as
        many behind columns of several kinds. Further steps fit the observed values better, but
        predict held-out ones no better, and worse where the model is large for the table
        (docs/imputation.md).
    random_state : int, RandomState or None, default=0
        Which values are held out.
    columns : "auto", "numeric" or mapping of columns to kinds, default="auto"
        What columns hold. "auto": where all are numbers, Gaussian numbers or, if that predicts
        quantiles of held-out values with at least 5 % less loss, numbers behind maps of their own
        (skewed ones, for instance). Otherwise numbers, levels and truth values, each by its own
        kind of column (continuous, ordinal, binary, nominal; `kinds_`); identifiers, free text and
        dates are returned as they are. "numeric": Gaussian numbers, and text is refused. A mapping
        names kinds, "ordinal" for instance, or values of `eigengap.columns`, for some columns; the
        others are found as under "auto" (docs/columns.md).
    verbose : bool or int, default=False
        Whether to print each model as it is tried.

    Attributes
    ----------
    estimator_ : fitted estimator
    choice_ : ImputationChoice
        `trials` (every model and number of components with its error), `chosen`, `summary`,
        `losses`. None where there was nothing to choose.
    n_components_ : int or None
        Of `estimator_`; a tuple of a mixture.
    n_iter_ : int
    std_factors_ : array of shape (n_features,)
        What the standard deviations of `estimator_` are multiplied by, so that 95 % of the
        held-out values lie in their 95 % intervals; 1 where none were held out, and behind maps.
    whole_ : array of shape (n_features,)
        Columns that are imputed by whole numbers.
    bounds_ : array of shape (2, n_features)
        Least and largest imputed value of each column.
    indicator_features_ : array
        Columns that had missing values in `fit`.
    kinds_, levels_ : dict
        The kind of every column, and the levels of those that have some; "gaussian" and none where
        all are numbers that are imputed as they are.
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
    >>> mixed = LowRankImputer().fit(table)
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = takes_kinds(self.columns)
        return tags

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
        columns: Any = "auto",
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> Self:
        """Choose the model and fit it to the observed values of X.

        Parameters
        ----------
        lower, upper : array-like that broadcasts to X's shape, default=None
            Limits of values that are not known exactly, NaN where there is none; with columns of
            several kinds. Other methods take them by `eigengap.columns.with_limits`.
        """
        X = limited(self, X, lower, upper)
        if self._takes_numbers(X):
            try:
                return self._fit_numbers(X, sample_weight)
            except UnreadableError as error:  # a file with text below its first rows
                if self.columns == "numeric" or not error.in_cells:
                    raise
        return self._fit_columns(X, sample_weight)

    def _takes_numbers(self, X: Any) -> bool:
        """Whether all columns are read as numbers: as asked, or because they hold no others."""
        if not isinstance(self.columns, str) or isinstance(X, Limited):
            return False
        return self.columns == "numeric" or _holds_numbers(X, self.missing_values)

    def _fit_numbers(self, X: Any, sample_weight: Any) -> Self:
        source = whole_table(
            X, "LowRankImputer", sample_weight=sample_weight, missing_values=self.missing_values
        )
        source = source.present()
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        refuse_overflow(float(np.sum(source.reduce(ColumnMoments.of).variance)), source)
        values, weight = _dense(source), source.weight
        is_number = np.ones(source.n_features, dtype=bool)
        whole = self._whole(X, source.names, values, is_number)
        bounds = self._bounds(X, source.names, values, is_number)
        if self.bounds is None and self.columns != "numeric":
            floors = floor_of(np.nanmin(values, axis=0), _are_whole(values))
            bounds[0] = np.maximum(bounds[0], floors)
        _require_whole_numbers(whole, bounds, source.names)
        choice, best, std_factors = self._chosen(values, weight, source.names)
        # A model of our own is stopped early on purpose; codes are looked for above.
        early = EARLY if isinstance(self.estimator, str) else ()
        with without(SentinelWarning, FewCellsWarning, *early):
            fitted = fit_rows(best, values, source.names, weight=weight)
        warn_of_few(source, int(np.max(getattr(fitted, "n_components_", 0))))
        keep_features(self, X, source)  # only now: a fit may fail
        self.estimator_, self.choice_, self.std_factors_ = fitted, choice, std_factors
        self.whole_, self.bounds_ = whole, bounds
        self.indicator_features_ = np.flatnonzero(np.isnan(values).any(axis=0))
        return self

    def _fit_columns(self, X: Any, sample_weight: Any) -> Self:
        """Columns that hold more than numbers, or whose kinds were named."""
        if self.scale is False:
            raise ValueError(
                "scale=False has no meaning for columns of several kinds, each of which has a "
                'scale of its own; leave scale="auto"'
            )
        table, rows = CodedTable.learned(X, self.columns, sample_weight, self.missing_values)
        require_names(X)
        source = rows.present()
        plain, _ = without_limits(X)
        is_here = in_memory_table(plain)
        values = table.schema.code(plain) if is_here else _extremes(source, table)
        is_number = np.zeros(table.n_features, dtype=bool)
        is_number[table.used] = [not table.schema.columns[j].levels for j in table.used]
        whole = self._whole(plain, table.names, values, is_number)
        bounds = self._bounds(plain, table.names, values, is_number)
        _require_whole_numbers(whole, bounds, table.names)
        choice, best = self._chosen_for_columns(table, source)
        early = EARLY if isinstance(self.estimator, str) else ()
        with without(SentinelWarning, FewCellsWarning, *early):
            fitted = best.fit(X, sample_weight=sample_weight)
        keep_features(self, X, table)
        self.estimator_, self.choice_ = fitted, choice
        self.std_factors_ = np.ones(table.n_features)
        self.whole_, self.bounds_ = whole, bounds
        self.indicator_features_ = np.flatnonzero(table.incomplete(X))
        return self

    def _chosen_for_columns(
        self, table: CodedTable, source: Source
    ) -> tuple[ImputationChoice | None, Any]:
        """What the search found, and the estimator to fit to the table as it is."""
        if not isinstance(self.estimator, str):
            given = self._given()
            if len(given) > 1:
                raise ValueError(
                    "several estimators are compared on tables of numbers only; give one, or "
                    '"auto", for columns of several kinds'
                )
            ((label, estimator),) = given
            if "columns" not in estimator.get_params(deep=False):
                raise TypeError(
                    f"{label} takes numbers only (it has no parameter columns), and this table "
                    'holds other columns: leave estimator="auto", or select the columns of numbers'
                )
            return None, estimator.set_params(columns=self.columns)
        if self.n_components != "auto":
            return None, self._behind_columns(MODEL, int(self.n_components), self.columns)
        care = CARE if self.estimator == "thorough" else 1
        seed = seed_of(self.random_state)
        search = ColumnSearch.of(source, table.columns, seed, care)
        found = Behind.of(search, search.ranks(), EMOptions(**self._steps))
        choice = found.choice(search.n_hidden)
        for trial in choice.trials:
            self._report(trial)
        return choice, self._behind_columns(found.label, found.n_components, self.columns)

    def _behind_columns(self, label: str, q: int, columns: Any) -> Any:
        how = {"columns": columns, "missing_values": self.missing_values, **self._steps}
        if label == BAYESIAN:
            return BayesianPCA(q, noise="diagonal", **how)
        return StoppedFactorAnalysis(q, **how)

    @property
    def _steps(self) -> dict[str, Any]:
        """Of fits to columns of several kinds."""
        return {"tol": self.tol, "max_iter": COLUMN_STEPS * self.max_iter}

    def _chosen(
        self, values: Array, weight: Array | None, names: Names
    ) -> tuple[ImputationChoice | None, Any, Array]:
        """What the search found, the estimator to fit, and factors for its deviations."""
        given = [] if isinstance(self.estimator, str) else self._given()
        certain = np.ones(values.shape[1])
        if len(given) == 1 and not _leaves_rank_open(given[0][1]):
            return None, given[0][1], certain
        care = CARE if self.estimator == "thorough" else 1
        held_out = HeldOut.of(values, weight, seed_of(self.random_state), care, names)
        search = Search(held_out, clone, self._report)
        q = None if self.n_components == "auto" else int(self.n_components)
        if isinstance(self.estimator, str):
            try_all(search, self._candidates(), self.scale, q)
        for label, estimator in given:
            if _leaves_rank_open(estimator):
                search.ranks(label, estimator)
            else:
                search.once(label, estimator)
        best = search.best()
        choice, std_factors = search.chosen(best), held_out.std_factors(best.fits)
        learned = self._maps(values, weight)
        if learned is not None and values.shape[1] == 1:
            return choice_alone(), self._behind_columns(MODEL, 0, "auto"), certain
        if learned is None or not np.isfinite(best.trial.error):
            return choice, best.estimator, std_factors
        options = EMOptions(**self._steps)
        contest = compare(held_out, best, std_factors, learned, q, options, self._report)
        choice = contest.added_to(choice)
        if contest.is_mapped:
            chosen = choice.chosen
            behind = self._behind_columns(chosen.model, contest.n_components, "auto")
            return choice, behind, certain
        return choice, best.estimator, std_factors

    def _maps(self, values: Array, weight: Array | None) -> Columns | None:
        """The columns of a table of numbers, where they are to have maps and any has one."""
        if self.columns == "numeric" or not isinstance(self.estimator, str) or self.scale is False:
            return None
        if max(float(np.nanmax(values)), -float(np.nanmin(values))) > LARGEST:
            return None  # a constant, or its variance would have overflowed
        with without(SentinelWarning):  # codes are looked for before
            learned = CodedTable.learned(values, "auto", weight)[0].columns
        return None if are_plain(learned) else learned

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

    def _whole(
        self, X: Any, names: Names, values: Array, is_number: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """(d,) columns to be imputed by whole numbers."""
        d = values.shape[1]
        if not isinstance(self.integers, str):
            named = [] if self.integers is None else self.integers
            found = resolve_columns(named, names, d)
            _require_numbers("integers", found, is_number, names)
            return np.isin(np.arange(d), found)
        whole = _are_whole(values)
        by_type = whole_columns(X)
        return is_number & (whole if by_type is None else whole | by_type)

    def _bounds(self, X: Any, names: Names, values: Array, is_number: NDArray[np.bool_]) -> Array:
        """(2, d) least and largest imputed value of each column."""
        d = values.shape[1]
        low, high = np.full(d, -np.inf), np.full(d, np.inf)
        if isinstance(self.bounds, str):
            low[is_number] = np.nanmin(values[:, is_number], axis=0)
            high[is_number] = np.nanmax(values[:, is_number], axis=0)
            return np.stack([low, high])
        if isinstance(self.bounds, Mapping):
            for column, pair in self.bounds.items():
                (j,) = resolve_columns([column], names, d)
                _require_numbers("bounds", [j], is_number, names)
                low[j], high[j] = _pair(pair, f"bounds of column {column!r}")
        elif self.bounds is not None:
            low[is_number], high[is_number] = _pair(self.bounds, "bounds")
        if isinstance(self.integers, str) and (truth := boolean_columns(X)) is not None:
            truth &= is_number
            low[truth], high[truth] = np.maximum(low[truth], 0), np.minimum(high[truth], 1)
        return np.stack([low, high])

    # Imputing ------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """X with its missing values imputed, as an ndarray unless `set_output` is used.

        Where `set_output` asks for the library that X comes from, columns keep their types. A table
        that holds more than numbers comes back in X's own type, as from `impute`.
        """
        if (mixed := self._mixed(X)) is not None:
            return self._transformed(mixed, X)
        values, missing = self._read(X)
        imputed = self._within(np.asarray(self.estimator_.impute(values)), missing)
        own_types = _get_output_config("transform", self)["dense"] == library_of(X)
        flags = missing[:, self.indicator_features_] if self.add_indicator else None
        if own_types:
            typed = typed_like(X, imputed, missing)
            return typed if flags is None else with_new_columns(typed, self._flag_names(), flags)
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
            ones; times `std_factors_`. Only if return_std. Behind maps (`columns`) it is half the
            width of the central 68 % of a number, and NaN for levels (`level_probabilities`).
        """
        if (mixed := self._mixed(X)) is not None:
            found = mixed.impute(X, return_std)
            imputed, *std = found if return_std else (found,)
            imputed = self._adjusted(mixed, X, imputed)
            return (imputed, *std) if return_std else imputed
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
        require_level(level)
        if (mixed := self._mixed(X)) is not None:
            low, high = mixed.intervals(X, level)
            return self._adjusted(mixed, X, low), self._adjusted(mixed, X, high)
        values, missing = self._read(X)
        if self._table is not None:
            ends = tuple(map(np.asarray, self.estimator_.intervals(values, level)))
        else:
            imputed, std = self._imputed_and_std(values)
            reach = norm.ppf(0.5 + level / 2.0) * std
            ends = imputed - reach, imputed + reach
        low, high = (self._within(end, missing) for end in ends)
        return like(X, low), like(X, high)

    def level_probabilities(self, X: Any) -> dict[Any, Array]:
        """Probabilities of the levels of each column that has levels, by column: (n_samples, K).

        The order of the levels is that of `levels_`; an observed level has probability 1. Empty
        where all columns are imputed as Gaussian numbers.
        """
        if (mixed := self._mixed(X)) is not None:
            return mixed.level_probabilities(X)
        values, _ = self._read(X)
        if self._table is None:
            return {}
        return self._by_name(self.estimator_.level_probabilities(values))

    def sample_imputations(self, X: Any, m: int, random_state: Any = None) -> Iterator[Any]:
        """Draw the missing values m times: tables to analyse one by one and to `eigengap.pool`.

        Yields
        ------
        table of X's type
            X with its missing values imputed by one joint draw, its distance from the expected
            values times `std_factors_`, reflected at the bounds and rounded where asked.
        """
        require_count("m", m, "tables")
        low, high = self.bounds_
        if (mixed := self._mixed(X)) is not None:
            drawn = mixed.sample_imputations(X, m, random_state)
            plain = mixed.table_.for_draws(X)
            return (self._adjusted(mixed, plain, table, reflects=True) for table in drawn)
        values, missing = self._read(X)
        imputed = np.asarray(self.estimator_.impute(values))

        def bounded(drawn: Any) -> Any:
            wider = imputed + self.std_factors_ * (np.asarray(drawn) - imputed)
            inside = np.where(missing, _reflected(wider, low, high), values)
            return typed_like(X, self._within(inside.astype(values.dtype), missing), missing)

        tables = self.estimator_.sample_imputations(values, m, random_state=random_state)
        return (bounded(drawn) for drawn in tables)

    # Of columns that hold more than numbers ------------------------------------------------

    @property
    def _table(self) -> CodedTable | None:
        """What the model knows of its columns, where these have maps or levels."""
        table: CodedTable | None = getattr(self.estimator_, "table_", None)
        return table

    def _mixed(self, X: Any) -> Any:
        """The model, if it was fitted to a table that does not hold numbers alone.

        Such a table is coded and decoded by the model itself. X has to have the same columns.
        """
        check_is_fitted(self, "estimator_")
        table = self._table
        if table is None:
            return None
        are_numbers = all(own.holds == "numbers" for own in table.schema.columns)
        if table.names is None and are_numbers and not isinstance(X, Limited):
            return None
        if in_memory_table(X):
            check_names(self, X)
        return self.estimator_

    def _adjusted(self, mixed: Any, X: Any, imputed: Any, reflects: bool = False) -> Any:
        """An imputed table with whole numbers and bounds as asked."""
        low, high = self.bounds_
        if not self.whole_.any() and np.all(np.isinf(self.bounds_)):
            return imputed
        table = mixed.table_
        missing = np.isnan(table.code(X))
        values = table.schema.code(imputed)
        if reflects:
            values = np.where(missing, _reflected(values, low, high), values)
        return table.decode(X, self._within(values, missing)[:, table.used])

    def _transformed(self, mixed: Any, X: Any) -> Any:
        imputed = self.impute(X)
        library = library_of(imputed)
        if self.add_indicator:
            flags = mixed.table_.missing_cells(X)[:, self.indicator_features_]
            if library is None:
                imputed = np.hstack([imputed, flags.astype(float)])
            else:
                imputed = with_new_columns(imputed, self._flag_names(), flags)
        wanted = _get_output_config("transform", self)["dense"]
        # scikit-learn makes data frames of anything but tables of pyarrow.
        is_arrow = library == "pyarrow" and wanted != "default"
        return imputed.to_pandas() if is_arrow else imputed

    def _flag_names(self) -> Any:
        return self.get_feature_names_out()[self.n_features_in_ :]

    def _by_name(self, found: dict[Any, Any]) -> dict[Any, Any]:
        """By the names of the columns, where a model of bare numbers has their positions."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return found
        return {names[key] if isinstance(key, int) else key: each for key, each in found.items()}

    def _imputed_and_std(self, values: Array) -> tuple[Array, Array]:
        imputed, std = map(np.asarray, self.estimator_.impute(values, return_std=True))
        std *= self.std_factors_
        return imputed, std

    def _read(self, X: Any) -> tuple[Array, NDArray[np.bool_]]:
        """The table (n, d) and where its values are missing."""
        check_is_fitted(self, "estimator_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        values = _dense(source)
        if self._table is not None:  # a model of bare rows would name columns by position
            self._table.with_names(source.names).source(values)
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
        """The kind of every column: "gaussian" where all are numbers imputed as they are."""
        if self._table is not None:
            return self._by_name(self.estimator_.kinds_)
        return self._by_name(dict.fromkeys(range(self.n_features_in_), "gaussian"))

    @property
    def levels_(self) -> dict[Any, tuple[Any, ...]]:
        """The levels of every column that has some, in the order of `level_probabilities`."""
        return {} if self._table is None else self._by_name(self.estimator_.levels_)

    n_components_ = property(lambda self: getattr(self.estimator_, "n_components_", None))
    n_iter_ = property(lambda self: int(getattr(self.estimator_, "n_iter_", 1)))


def _are_whole(values: Array) -> NDArray[np.bool_]:
    """(d,) whether all observed values of a column are whole numbers."""
    return np.asarray(np.all(np.isnan(values) | (values == np.round(values)), axis=0))


def _dense(source: Source) -> Array:
    """All values (n, d); a sparse table becomes dense."""
    values = source.collect()
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray())


def _leaves_rank_open(estimator: Any) -> bool:
    asked = estimator.get_params(deep=False).get("n_components", 1)
    return asked is None or (isinstance(asked, str) and asked == "auto")


def _holds_numbers(X: Any, missing_values: Any) -> bool:
    """Whether no column holds text, levels or truth values."""
    if isinstance(X, Limited):
        return False
    is_frame = library_of(X) is not None
    if not in_memory_table(X):
        return holds_numbers(X, missing_values)
    if hasattr(X, "tocsr"):
        return True
    if not is_frame and np.asarray(X).dtype.kind != "O":
        return np.asarray(X).dtype.kind not in "US"
    schema = Schema.of(X, missing_codes(missing_values))
    return all(each.holds == "numbers" and not each.has_limits for each in schema.columns)


def _extremes(source: Source, table: CodedTable) -> Array:
    """Least and largest values (3, n_features) of the columns, and one that is not whole."""
    found = np.full((3, table.n_features), np.nan)
    for j, facts in zip(table.used, source.reduce(TableFacts.of).columns, strict=False):
        found[:2, j] = facts.least, facts.largest
        ends_are_whole = facts.least.is_integer() and facts.largest.is_integer()
        if facts.fractional and ends_are_whole:
            found[2, j] = facts.least + 0.5
    return found


def _require_numbers(
    parameter: str, named: Any, is_number: NDArray[np.bool_], names: Names
) -> None:
    """Refuse a column of levels where a parameter is about numbers."""
    for j in named:
        if not is_number[j]:
            raise ValueError(
                f"{parameter} names column {column(names, int(j))}, which holds no numbers that "
                "are imputed; name columns of numbers only"
            )


def _require_whole_numbers(whole: NDArray[np.bool_], bounds: Array, names: Names) -> None:
    """Refuse bounds of a column of whole numbers between which there is none."""
    for j in np.flatnonzero(whole & (np.ceil(bounds[0]) > np.floor(bounds[1]))):
        low, high = bounds[:, j]
        raise ValueError(
            f"column {column(names, int(j))} is to be imputed by whole numbers, and there "
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
