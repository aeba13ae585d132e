"""Comparing models on rows and cells held out from their fits.

`compare` fits every model on the same folds and measures, on the rows left out,

- the log-likelihood per row (of what was observed of it), for models that are densities;
- the error of imputing held-out cells, in standard deviations of their columns, for models
  that can impute; and how often their 95 % intervals cover the truth;
- the log score of held-out cells: the logarithm of the density that was predicted of a value, or of
  the probability of a level;
- the time of a fit.

Differences from the best are paired: both models are asked for the same rows and the same cells.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigengap.comparison.result import Comparison, Measured
from eigengap.exceptions import SentinelWarning, SingularModelError
from eigengap.fitting.columns.kinds import FEW_NUMBERS
from eigengap.linalg import Array
from eigengap.models.columns.column import TINY, LevelColumn
from eigengap.registry import entry_of, scores_log_density
from eigengap.runtime.warnings import captured, warn
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.sources import (
    as_source,
    hidden_cells,
    in_memory_table,
    library_of,
    like,
    made_missing,
    open_table,
    quote,
    warn_of_codes,
)
from eigengap.wording import listed

QUANTILE_95 = 1.959963984540054
FAILED = "failed on fold"
SETTLED = 1e-6  # largest move of an imputed value, in units of its column, that ends the projection
MOST_PROJECTIONS = 500

Rows = NDArray[np.intp]  # positions of rows
Fold = tuple[Rows, Rows]  # that train, that are tested


def compare(
    models: Sequence[Any] | Mapping[str, Any],
    X: Any,
    *,
    y: Any = None,
    cv: Any = 5,
    sample_weight: Any = None,
    holdout: float = 0.1,
    missing_values: Any = nan,
    random_state: Any = 0,
) -> Comparison:
    """Held-out log-likelihood and imputation error of any models, paired.

    Parameters
    ----------
    models : list of estimators, or dict of name -> estimator
        Anything with `fit`, and `score_samples` or `impute` or `transform`: models of this package,
        scikit-learn's GaussianMixture, KernelDensity, PCA, imputers. They are copied, not fitted.
    X : table of shape (n_samples, n_features)
        NaN marks a missing value. A sparse table is made dense. A frame may hold text, categories
        and truth values, which models with `columns` take.
    y : array of shape (n_samples,), default=None
        Given to `fit` and to the splitter, where they need one.
    cv : int, splitter with a method `split`, or iterable of (train, test), default=5
        An int makes that many shuffled folds.
    sample_weight : array of shape (n_samples,), default=None
        Frequencies; all copies of a row fall into one fold.
    holdout : float in [0, 1), default=0.1
        Share of the observed values of the test rows that are held out and have to be imputed.
    missing_values : float or list of float, default=nan
        Values that mark a missing value, besides NaN.
    random_state : int, Generator, RandomState or None, default=0
        Of the folds and of the cells that are hidden.

    Returns
    -------
    Comparison

    Notes
    -----
    A model that cannot be measured keeps its line and the reason: one that refuses NaN where X has
    missing values (fitting it to complete rows only would compare it on other data), one without
    `sample_weight` where weights are given, an outlier detector or an autoencoder, whose
    `score_samples` is no log-density, a pipeline, whose density is of transformed columns,
    one whose fit fails.

    A model with `impute` imputes by it, an imputer by its `transform`; what only projects
    (scikit-learn's PCA) by iterated projection from the column means.

    Densities are of the values as observed, whatever the map of a column: models with other maps,
    or with none, can be compared. A column that holds levels for one model and numbers for another
    is scored by probabilities there and by densities here; a note says so. The log score of a
    model of numbers is that of a Gaussian with the imputed mean and standard deviation. `rmse` and
    `coverage` are those of columns of numbers. A level of a test row that no training row has is
    made missing there, for all models.

    Standard errors are over rows, given the fits: they show whether the difference would stay with
    other test rows. Fits of different folds share most of their rows, so that how much the
    difference would change with other training rows is not in them, and has no unbiased estimate
    (Bengio and Grandvalet 2004); `fold_log_likelihood` shows it fold by fold.

    Examples
    --------
    >>> from eigengap import PPCA
    >>> from eigengap.comparison.compare import compare
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> result = compare({"one": PPCA(1), "two": PPCA(2)}, X)
    >>> result.best
    'two'
    """
    named = _named(models)
    rows = _Rows.of(X, y, sample_weight, missing_values, any(map(_takes_kinds, named.values())))
    seed = seed_of(random_state)
    folds = list(_folds(cv, rows, seed))
    if not 0.0 <= holdout < 1.0:
        raise ValueError(f"holdout must be a share of the cells in [0, 1), got {holdout}")
    hidden = hidden_cells(~np.isnan(rows.values), holdout, seed)
    measured = [_measure(name, model, rows, folds, hidden) for name, model in named.items()]
    if all(one.reasons and one.reasons[0].startswith(FAILED) for one in measured):
        failed = "; ".join(f"{one.name!r} {one.reasons[0]}" for one in measured)
        raise ValueError(f"no model could be fitted: {failed}")
    _note_other_columns(measured)
    constant = int(np.sum(rows.unit == 0))
    note = f" {constant} constant column{'s' * (constant > 1)} left out of the rmse."
    return Comparison.of(measured, rows.weight, len(folds), note if constant else "")


# Measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """The table as the caller has it, and as numbers."""

    table: Any  # ndarray, or a frame with the caller's column names
    values: Array  # (n, d), NaN where missing; codes of levels
    names: Names  # of the columns, where the table itself does not have them
    y: Any
    weight: Array  # (n,)
    weighted: bool
    has_kinds: bool  # whether levels, or columns that may be taken for levels, are looked for
    unit: Array  # (d,) standard deviation of what was observed of each column; NaN of levels
    place: Rows  # of each row of X among these; -1 if its weight is 0 or it is empty

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, missing_values: Any, has_kinds: bool) -> _Rows:
        if in_memory_table(X):
            coded = open_table(X, sample_weight=sample_weight, missing_values=missing_values)
            schema = coded.schema()
            if has_kinds or any(own.holds != "numbers" for own in schema.columns):
                every = coded.source(schema, range(len(schema.columns)))
                has_levels = np.array([own.holds != "numbers" for own in schema.columns])
                warn_of_codes(every, np.flatnonzero(~has_levels).tolist())
                cells = np.asarray(every.collect(), dtype=np.float64)
                values = cells[:, : len(schema.columns)]  # limits of cells may follow
                return cls._kept(X, values, None, y, every.weight, has_levels, True)
        source = as_source(X, sample_weight=sample_weight, missing_values=missing_values)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        collected = source.collect()
        is_array = isinstance(collected, np.ndarray)
        dense = np.asarray(collected if is_array else collected.toarray(), dtype=np.float64)
        table = dense if library_of(X) is None else like(X, dense)
        names = source.names if library_of(X) is None else None
        weight = getattr(source, "weight", None)
        return cls._kept(table, dense, names, y, weight, np.zeros(dense.shape[1], dtype=bool))

    @classmethod
    def _kept(
        cls,
        table: Any,
        dense: Array,
        names: Names,
        y: Any,
        given: Array | None,
        has_levels: NDArray[np.bool_],
        has_kinds: bool = False,
    ) -> _Rows:
        """Of rows that count and have an observed value."""
        weight = np.ones(len(dense)) if given is None else given
        if y is not None and len(y) != len(dense):
            raise ValueError(f"y has {len(y)} entries, but X has {len(dense)} rows")
        kept = np.flatnonzero((weight > 0) & ~np.isnan(dense).all(axis=1))
        place = np.full(len(dense), -1)
        place[kept] = np.arange(len(kept))
        if len(kept) < len(dense):
            same = table is dense
            dense, weight = dense[kept], weight[kept]
            table = dense if same else _take(table, kept)
            y = None if y is None else _take(y, kept)
        unit = np.where(has_levels, nan, _moments(dense, weight)[1])
        return cls(table, dense, names, y, weight, given is not None, has_kinds, unit, place)

    def tested(self, train: Rows, test: Rows, hidden: NDArray[np.bool_]) -> _Tested:
        """The test rows of a fold, in which levels that no training row has are missing."""
        table, values = _take(self.table, test), self.values[test]
        unknown = np.zeros(values.shape, dtype=bool)
        for j, unit in enumerate(self.unit):
            learned = np.unique(self.values[train, j][~np.isnan(self.values[train, j])])
            few = self.has_kinds and len(learned) <= FEW_NUMBERS
            if not np.isnan(unit) and not (few and np.all(learned == np.round(learned))):
                continue
            known = np.isin(values[:, j], learned)
            unknown[:, j] = ~(known | np.isnan(values[:, j]))
        if unknown.any():
            table, values = made_missing(table, unknown), np.where(unknown, nan, values)
        return _Tested(
            at=test,
            table=table,
            values=values,
            hidden=hidden[test] & ~unknown,
            unit=self.unit,
            weight=self.weight[test],
            means=_moments(self.values[train], self.weight[train])[0],
        )


@dataclass(frozen=True, eq=False)
class _Tested:
    """The test rows of a fold."""

    at: Rows
    table: Any  # as models take it
    values: Array  # (c, d)
    hidden: NDArray[np.bool_]  # (c, d) observed values that are held out
    unit: Array  # (d,)
    weight: Array  # (c,)
    means: Array  # (d,) of the training rows


def _moments(X: Array, weight: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (d,) of what was observed, each row as often as it counts."""
    w = np.where(np.isnan(X), 0.0, weight[:, None])
    count = np.maximum(w.sum(axis=0), np.finfo(float).tiny)  # 0 for a column without any
    values = np.where(w > 0, X, 0.0)
    mean = np.sum(w * values, axis=0) / count
    return mean, np.sqrt(np.sum(w * (values - mean) ** 2, axis=0) / count)


def _measure(
    name: str, model: Any, rows: _Rows, folds: list[Fold], hidden: NDArray[np.bool_]
) -> Measured:
    found = Measured.empty(name, len(rows.values))
    if rows.weighted and "sample_weight" not in inspect.signature(model.fit).parameters:
        found.not_at_all("takes no sample_weight")
        return found
    if reason := _why_no_density(model):
        found.no_density(reason)
    with captured() as heard:
        for number, (train, test) in enumerate(folds):
            try:
                fitted, table = unfitted(model), _take(rows.table, train)
                y = () if rows.y is None else (_take(rows.y, train),)
                weight = rows.weight[train] if rows.weighted else None
                start = time.perf_counter()
                fit_rows(fitted, table, rows.names, *y, weight=weight)
                found.fit_seconds.append(time.perf_counter() - start)
                found.tests[test] += 1.0
                tested = rows.tested(train, test, hidden)
                _score(found, fitted, tested)
                _impute(found, fitted, tested)
            except ValueError as error:
                if np.isnan(rows.values).any() and "Input X contains NaN" in str(error):
                    found.not_at_all("does not take NaN")
                else:
                    found.not_at_all(f"{FAILED} {number + 1} of {len(folds)}: {error}")
                break
    for caught in dict.fromkeys(heard):  # once, however many folds warned
        if not issubclass(caught.category, SentinelWarning):  # given for the whole table
            warn(f"{name}: {caught.message}", caught.category)
    return found


def _score(found: Measured, fitted: Any, tested: _Tested) -> None:
    if np.isnan(found.log_likelihood).all():
        return
    try:
        scores = np.asarray(fitted.score_samples(tested.table), dtype=np.float64)
    except SingularModelError as error:
        found.no_density(str(error))
        return
    found.log_likelihood[tested.at] += scores
    w = tested.weight
    found.fold_log_likelihood.append(float(w @ scores / w.sum()) if w.sum() > 0 else nan)


class _Predictions(NamedTuple):
    """What a model says of held-out cells, (c, d) each; NaN where it says nothing."""

    imputed: Array
    inside: (
        NDArray[Any] | None
    )  # 1 where the truth lies in the 95 % interval; None without intervals
    log_score: Array | None


def _impute(found: Measured, fitted: Any, tested: _Tested) -> None:
    if not tested.hidden.any() or np.isnan(found.squared_error).all():
        return
    answer = _coded_predictions(found, fitted, tested) or _predictions(fitted, tested)
    if answer is None:
        found.no_imputation("cannot impute cells (no impute, no inverse_transform)")
        return
    at, asked = tested.at, tested.hidden & ~np.isnan(answer.imputed)
    numbers = asked & (tested.unit > 0)  # neither constant columns nor levels
    unit = np.where(tested.unit > 0, tested.unit, 1.0)
    error = np.where(numbers, (answer.imputed - tested.values) / unit, 0.0)
    found.cells[at] += numbers.sum(axis=1)
    found.squared_error[at] += np.sum(error**2, axis=1)
    if answer.inside is None:
        found.inside[:] = nan
    else:
        found.inside[at] += np.sum(answer.inside, axis=1, where=numbers)
    if answer.log_score is None:
        found.log_score[:] = nan
    else:
        scored = asked & (tested.unit != 0)
        found.scored[at] += scored.sum(axis=1)
        found.log_score[at] += np.sum(answer.log_score, axis=1, where=scored)


def _predictions(fitted: Any, tested: _Tested) -> _Predictions | None:
    """Of a model of numbers: a Gaussian of the imputed mean and standard deviation."""
    if np.isnan(tested.unit).any():  # what it imputes of levels cannot be compared with codes
        return None
    values = np.where(tested.hidden, nan, tested.values)
    is_array = isinstance(tested.table, np.ndarray)
    table = values if is_array else like(tested.table, values)
    answer = impute_cells(fitted, table, values, tested.means)
    if answer is None:
        return None
    imputed, sd = answer
    if sd is None:
        return _Predictions(imputed, None, None)
    deviation = np.abs(tested.values - imputed)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = -0.5 * (deviation / sd) ** 2 - np.log(sd * np.sqrt(2.0 * np.pi))
    unit = np.where(tested.unit > 0, tested.unit, 1.0)
    # As columns do: no cell costs more than one of that density in units of its column.
    score = np.maximum(np.nan_to_num(density, nan=-inf), np.log(TINY / unit))
    return _Predictions(imputed, deviation <= QUANTILE_95 * sd, score)


def _coded_predictions(found: Measured, fitted: Any, tested: _Tested) -> _Predictions | None:
    """Of a model of columns of several kinds, in its own codes; None of another."""
    fitted = _innermost(fitted)
    table = getattr(fitted, "table_", None)
    if table is None:
        return None
    model, used = fitted.model_, table.used
    kept = _coded(table, made_missing(tested.table, tested.hidden))
    truth = _coded(table, tested.table)[:, : len(used)]
    for j, own in zip(used, table.columns.kinds, strict=True):
        if own.is_count or isinstance(own, LevelColumn):
            found.levels.add(str(table.key(j)))
    found.used |= {str(table.key(j)) for j in used}
    scores = model.log_scores(kept, truth)
    for j, own in enumerate(table.columns.kinds):
        some = ~np.isnan(truth[:, j])
        scores[some, j] += own.log_slope(truth[some, j])
    low, high = model.intervals(kept, 0.95)
    parts = model.impute(kept), (low <= truth) & (truth <= high), scores
    full = []
    for part in parts:
        full.append(np.full(tested.values.shape, nan))
        full[-1][:, used] = part
    return _Predictions(*full)


def _coded(table: Any, X: Any) -> Array:
    return np.asarray(table.source(X).collect(), dtype=np.float64)


def _innermost(estimator: Any) -> Any:
    """The density inside an imputer."""
    found = getattr(estimator, "estimator_", None)
    return estimator if found is None else _innermost(found)


def _takes_kinds(model: Any) -> bool:
    """Whether a model is a density of columns of several kinds."""
    asked = getattr(model, "columns", "numeric")
    return hasattr(model, "score_samples") and not (isinstance(asked, str) and asked == "numeric")


def _note_other_columns(measured: Sequence[Measured]) -> None:
    """Columns that hold levels for some models, and numbers for others, or are left out."""
    every = set[str]().union(*(one.used for one in measured))
    for one in measured:
        if one.used and one.used < every:
            left_out = listed([quote(name) for name in sorted(every - one.used)])
            one.not_at_all(f"leaves out {left_out}, which others describe")
    others = [one for one in measured if not np.isnan(one.log_score).all()]
    for one in others:
        common = set(others[0].levels).intersection(*(each.levels for each in others))
        own = sorted(one.levels - common)
        if own:
            which = listed([quote(name) for name in own])
            one.notes.append(
                f"takes {which} for levels or counts, others for numbers: "
                "probabilities are compared with densities"
            )


def _why_no_density(model: Any) -> str:
    if not hasattr(model, "score_samples"):
        return "is no density (no score_samples)"
    if hasattr(model, "__sklearn_tags__"):
        kind = getattr(model.__sklearn_tags__(), "estimator_type", None)
    else:
        kind = getattr(model, "_estimator_type", None)
    if kind == "outlier_detector":
        return "score_samples of an outlier detector is no log-density"
    if not scores_log_density(model):
        return f"is no density (score_samples is {entry_of(model).row_score})"
    steps = getattr(model, "steps", ())
    if len(steps) > 1:
        return "a pipeline's density is of transformed columns"
    inner = steps[0][1] if steps else getattr(model, "estimator", None)  # of a search
    return "" if inner is None else _why_no_density(inner)


# How any estimator imputes, and is copied ---------------------------------------------------------


def impute_cells(
    model: Any, rows: Any, hidden: Array, means: Array
) -> tuple[Array, Array | None] | None:
    """Imputed values (c, d), and their standard deviations where the model has them.

    None if it cannot impute. Models of this package can (`impute`), and so can imputers, whose
    `transform` gives the table back without missing values. What only projects (`transform`,
    `inverse_transform`: scikit-learn's PCA) imputes by iterated projection: start from the column
    means of its training rows, project, put the projection into the held-out cells, repeat. The
    fixed point is the completion nearest to the model's plane.

    rows : the table to impute as the model wants it, an array or a frame, NaN where missing
    hidden : (c, d) the same as an array
    means : (d,) of the training rows, where projection starts
    """
    if hasattr(model, "impute"):
        if "return_std" not in inspect.signature(model.impute).parameters:
            return np.asarray(model.impute(rows), dtype=np.float64), None
        mean, sd = model.impute(rows, return_std=True)
        return np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)
    if not hasattr(model, "transform"):
        return None
    imputed = _transformed(model, rows, hidden)
    if imputed is not None:
        return imputed, None
    if hasattr(model, "inverse_transform"):
        return _projected(model, rows, hidden, means), None
    return None


def _transformed(model: Any, rows: Any, hidden: Array) -> Array | None:
    """The imputed table of an imputer, whose observed values are unchanged; None of others."""
    try:
        out = model.transform(rows)
    except ValueError as error:
        if "NaN" in str(error):
            return None
        raise
    if getattr(out, "shape", None) != hidden.shape:
        return None
    imputed = np.asarray(out, dtype=np.float64)
    observed = ~np.isnan(hidden)
    same = np.allclose(imputed[observed], hidden[observed], rtol=1e-6, atol=0.0)
    return imputed if same and not np.isnan(imputed).any() else None


def _projected(model: Any, rows: Any, hidden: Array, means: Array) -> Array:
    missing = np.isnan(hidden)
    imputed = np.where(missing, means, hidden)
    unit = np.maximum(np.std(imputed, axis=0), np.finfo(np.float64).tiny)
    for _ in range(MOST_PROJECTIONS):
        scores = model.transform(like(rows, imputed))
        projected = np.asarray(model.inverse_transform(scores), dtype=np.float64)
        moved = np.where(missing, projected - imputed, 0.0)
        imputed = imputed + moved
        if np.max(np.abs(moved) / unit, initial=0.0) < SETTLED:
            break
    return imputed


def unfitted(estimator: Any) -> Any:
    """The estimator's parameters in a new object, as `sklearn.base.clone` makes it.

    scikit-learn's estimators know how (`__sklearn_clone__`); others are built again from
    `get_params`, and what has neither is copied as it is.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"{estimator.__name__} is a class; give an instance, e.g. {estimator.__name__}()"
        )
    if hasattr(estimator, "__sklearn_clone__"):
        return estimator.__sklearn_clone__()
    if hasattr(estimator, "get_params"):
        return type(estimator)(**deepcopy(estimator.get_params(deep=False)))
    return deepcopy(estimator)


# What goes in --------------------------------------------------------------------------------


def _named(models: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif hasattr(models, "fit"):
        raise TypeError("models must be a list or a dict of estimators, e.g. compare([model], X)")
    else:
        listed = list(models)
        named = dict(zip(_names(listed), listed, strict=True))
    if not named:
        raise ValueError("there is no model to compare")
    for name, model in named.items():
        if isinstance(model, type) or not hasattr(model, "fit"):
            raise TypeError(f"{name!r} is not an estimator: it must be an instance with a fit")
    return named


def _names(models: list[Any]) -> list[str]:
    """Class names where they differ; else the calls that made them, the package, and a number."""

    def longer(names: list[str], more: list[str]) -> list[str]:
        return [
            more if names.count(name) > 1 else name for name, more in zip(names, more, strict=True)
        ]

    names = longer(
        [type(model).__name__ for model in models],
        [" ".join(repr(model).split()) for model in models],
    )
    packages = [type(model).__module__.partition(".")[0] for model in models]
    names = longer(names, [f"{name} ({p})" for name, p in zip(names, packages, strict=True)])
    return longer(names, [f"{name} ({k})" for k, name in enumerate(names, 1)])


def _folds(cv: Any, rows: _Rows, seed: int) -> Iterator[Fold]:
    n = len(rows.values)
    splits: Any
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= n:
            raise ValueError(f"cv={cv} folds need between 2 and {n}, the number of rows")
        parts = np.array_split(np.random.default_rng(seed).permutation(n), int(cv))
        splits = (
            (np.concatenate([*parts[:k], *parts[k + 1 :]]), part) for k, part in enumerate(parts)
        )
    elif hasattr(cv, "split"):
        splits = cv.split(rows.values, rows.y)
    else:  # of rows of X, of which only those count that are kept
        kept = ([rows.place[_positions(part)] for part in split] for split in cv)
        splits = ((train[train >= 0], test[test >= 0]) for train, test in kept)
    for train, test in splits:
        yield np.sort(_positions(train)), np.sort(_positions(test))


def _positions(index: Any) -> Rows:
    found = np.asarray(index)
    return np.flatnonzero(found) if found.dtype == bool else found.astype(np.intp)


def seed_of(random_state: Any) -> int:
    if random_state is None:
        random_state = np.random.default_rng()
    if hasattr(random_state, "integers"):
        return int(random_state.integers(2**31))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def _take(table: Any, at: Rows) -> Any:
    """Rows of an array, a frame or a list by position."""
    if hasattr(table, "iloc"):
        return table.iloc[at]
    if hasattr(table, "take") and library_of(table) == "pyarrow":
        return table.take(at)
    if isinstance(table, list | tuple):
        return [table[i] for i in at]
    return table[at]
