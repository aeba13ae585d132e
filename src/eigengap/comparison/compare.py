"""Comparing models on rows and cells held out from their fits.

`compare` fits every model on the same folds and measures, on the rows left out,

- the log-likelihood per row (of what was observed of it), for models that are densities;
- the error of imputing held-out cells, in standard deviations of their columns, for models
  that can impute; and how often their 95 % intervals cover the truth;
- the time of a fit.

Differences from the best are paired: both models are asked for the same rows and the same cells.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.comparison.fillers import covered, fill, unfitted
from eigengap.comparison.paired import RowMean
from eigengap.exceptions import SentinelWarning, SingularModelError
from eigengap.linalg import Array
from eigengap.registry import entry_of, scores_log_density
from eigengap.runtime.warnings import captured, warn
from eigengap.selection.inner_fits import Names, fit_rows
from eigengap.sources import as_source, hidden_cells, library_of, like, new_frame, warn_of_codes

QUANTILE_95 = 1.959963984540054
NO_NAN = "does not take NaN"
FAILED = "failed on fold"

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


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
        NaN marks a missing value. A sparse table is made dense.
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

    Standard errors are over rows, given the fits: they say whether the difference would stay with
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
    rows = _Rows.of(X, y, sample_weight, missing_values)
    seed = _seed(random_state)
    folds = list(_folds(cv, rows, seed))
    hidden = hidden_cells(~np.isnan(rows.values), _share(holdout), seed)
    measured = [_measure(name, model, rows, folds, hidden) for name, model in named.items()]
    _require_one(measured)
    return Comparison(tuple(measured), rows.weight, len(folds), rows.unit_note())


# What comes out ------------------------------------------------------------------------------


@dataclass(eq=False)
class Measured:
    """One model's figures by row: sums over the folds that tested the row."""

    name: str
    log_likelihood: Array  # (n,) sum over tests; NaN throughout where there is no density
    squared_error: Array  # (n,) sum over held-out cells, in units of their columns' variance
    inside: Array  # (n,) held-out cells within their 95 % interval; NaN without intervals
    tests: Array  # (n,) how often the row was tested
    cells: Array  # (n,) held-out cells it had in all its tests
    fold_log_likelihood: list[float] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @classmethod
    def empty(cls, name: str, n: int) -> Measured:
        return cls(name, np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))

    def no_density(self, reason: str) -> None:
        self.log_likelihood[:] = nan
        self._because(reason)

    def no_filling(self, reason: str) -> None:
        self.squared_error[:] = nan
        self.inside[:] = nan
        self._because(reason)

    def not_at_all(self, reason: str) -> None:
        self.log_likelihood[:] = self.squared_error[:] = self.inside[:] = nan
        self.reasons = []
        self._because(reason)

    def _because(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models side by side on held-out rows and cells.

    Attributes
    ----------
    names : tuple of str
    log_likelihood : array (m,)
        Mean held-out log-likelihood per row; NaN where a model is no density.
    log_likelihood_difference, log_likelihood_se : arrays (m,)
        From the best, and its standard error, paired over rows.
    rmse : array (m,)
        Root mean squared error of held-out cells, in standard deviations of their columns: filling
        with the column mean gives about 1.
    rmse_difference, rmse_se : arrays (m,)
        From the best, and its standard error, paired over rows.
    coverage : array (m,)
        Share of held-out cells within filled -+ 1.96 sd.
    fit_seconds : array (m,), mean over the folds
    fold_log_likelihood : array (folds, m)
    reasons : dict of name -> why a figure is missing
    best : name of the model of largest log-likelihood; of least rmse where none is a density
    """

    measured: tuple[Measured, ...]
    weight: Array
    n_folds: int
    constant_columns: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.measured)

    @property
    def log_likelihood(self) -> Array:
        return _values(self._log_likelihoods())

    @property
    def log_likelihood_difference(self) -> Array:
        return _differences(self._log_likelihoods(), np.nanargmax)[0]

    @property
    def log_likelihood_se(self) -> Array:
        return _differences(self._log_likelihoods(), np.nanargmax)[1]

    @property
    def rmse(self) -> Array:
        return _values(self._errors())

    @property
    def rmse_difference(self) -> Array:
        return _differences(self._errors(), np.nanargmin)[0]

    @property
    def rmse_se(self) -> Array:
        return _differences(self._errors(), np.nanargmin)[1]

    @property
    def coverage(self) -> Array:
        return _values([self._mean(one.inside, one.cells) for one in self.measured])

    @property
    def fit_seconds(self) -> Array:
        return np.array([np.mean(one.fit_seconds or [nan]) for one in self.measured])

    @property
    def fold_log_likelihood(self) -> Array:
        blank = [nan] * self.n_folds
        return np.array(
            [
                one.fold_log_likelihood if len(one.fold_log_likelihood) == self.n_folds else blank
                for one in self.measured
            ]
        ).T

    @property
    def reasons(self) -> dict[str, str]:
        return {one.name: "; ".join(one.reasons) for one in self.measured if one.reasons}

    @property
    def best(self) -> str:
        for values, pick in ((self.log_likelihood, np.nanargmax), (self.rmse, np.nanargmin)):
            if not np.all(np.isnan(values)):
                return self.names[int(pick(values))]
        raise ValueError("no model could be measured: " + _listed(self.reasons))

    @property
    def summary(self) -> str:
        """The comparison in words."""
        parts = [
            _in_words(
                "held-out log-likelihood per row", self.names, self.log_likelihood,
                self.log_likelihood_difference, self.log_likelihood_se, "worse",
            ),
            _in_words(
                "error of held-out cells (rmse in standard deviations)", self.names, self.rmse,
                self.rmse_difference, self.rmse_se, "worse",
            ),
        ]  # fmt: skip
        if self.reasons:
            parts.append("Not measured: " + _listed(self.reasons))
        rows = max(int(np.sum(one.tests > 0)) for one in self.measured)
        cells = max(int(np.sum(one.cells)) for one in self.measured)
        parts.append(
            f"Over {self.n_folds} folds, {rows} test rows and {cells} held-out cells; standard "
            "errors are paired over rows and do not hold the variability of the training rows"
        )
        return ". ".join(part for part in parts if part) + "." + self.constant_columns

    def to_frame(self) -> Any:
        """One line a model, as a pandas (or polars) frame."""
        return new_frame(self._columns())

    def __repr__(self) -> str:
        columns = self._columns()
        shown = {
            "model": columns["model"],
            "log-lik/row": _shown(self.log_likelihood),
            "from best": _with_error(self.log_likelihood_difference, self.log_likelihood_se),
            "rmse": _shown(self.rmse),
            "from best ": _with_error(self.rmse_difference, self.rmse_se),
            "95 % holds": [_percent(share) for share in self.coverage],
            "fit": [_duration(seconds) for seconds in self.fit_seconds],
            "note": columns["note"],
        }
        return _table(shown)

    def _columns(self) -> dict[str, Any]:
        return {
            "model": list(self.names),
            "log_likelihood": self.log_likelihood,
            "log_likelihood_difference": self.log_likelihood_difference,
            "log_likelihood_se": self.log_likelihood_se,
            "rmse": self.rmse,
            "rmse_difference": self.rmse_difference,
            "rmse_se": self.rmse_se,
            "coverage": self.coverage,
            "fit_seconds": self.fit_seconds,
            "note": [self.reasons.get(name, "") for name in self.names],
        }

    def _log_likelihoods(self) -> list[RowMean | None]:
        return [self._mean(one.log_likelihood, one.tests) for one in self.measured]

    def _errors(self) -> list[RowMean | None]:
        means = [self._mean(one.squared_error, one.cells) for one in self.measured]
        return [None if mean is None else mean.root() for mean in means]

    def _mean(self, sums: Array, counts: Array) -> RowMean | None:
        tested = counts > 0
        if not tested.any() or np.any(np.isnan(sums[tested])):
            return None
        return RowMean.of(sums[tested], counts[tested], self.weight[tested])


def _values(means: Sequence[RowMean | None]) -> Array:
    return np.array([nan if mean is None else mean.value for mean in means])


def _differences(means: Sequence[RowMean | None], pick: Any) -> tuple[Array, Array]:
    """Each mean less the best one, and its standard error: 0, 0 for the best itself."""
    values = _values(means)
    if np.all(np.isnan(values)):
        return values, values
    best = means[int(pick(values))]
    assert best is not None
    apart = [None if mean is None else mean.minus(best) for mean in means]
    return _values(apart), np.array([nan if mean is None else mean.se for mean in apart])


# Measuring -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """The table as the caller has it, and as numbers."""

    table: Any  # ndarray, or a frame with the caller's column names
    values: Array  # (n, d), NaN where missing
    names: Names  # of the columns, where the table itself does not have them
    y: Any
    weight: Array  # (n,)
    weighted: bool
    unit: Array  # (d,) standard deviation of what was observed of each column
    place: NDArray[np.intp]  # of each row of X among these; -1 if its weight is 0 or it is empty

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, missing_values: Any) -> _Rows:
        source = as_source(X, sample_weight=sample_weight, missing_values=missing_values)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        values = source.collect()
        dense = values if isinstance(values, np.ndarray) else values.toarray()
        dense = np.asarray(dense, dtype=np.float64)
        given = getattr(source, "weight", None)
        weight = np.ones(len(dense)) if given is None else given
        table = dense if library_of(X) is None else like(X, dense)
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
        return cls(
            table=table,
            values=dense,
            names=source.names if library_of(X) is None else None,
            y=y,
            weight=weight,
            weighted=given is not None,
            unit=_moments(dense, weight)[1],
            place=place,
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_missing(self) -> bool:
        return bool(np.isnan(self.values).any())

    def take(self, at: NDArray[np.intp]) -> Any:
        return _take(self.table, at)

    def take_hidden(self, at: NDArray[np.intp], hidden: NDArray[np.bool_]) -> tuple[Any, Array]:
        """Rows with cells hidden, as the caller's type and as numbers."""
        values = np.where(hidden[at], np.nan, self.values[at])
        rows = values if self.table is self.values else like(self.take(at), values)
        return rows, values

    def unit_note(self) -> str:
        constant = int(np.sum(self.unit == 0))
        if not constant:
            return ""
        return f" {constant} constant column{'s' if constant > 1 else ''} left out of the rmse."


def _moments(X: Array, weight: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (d,) of what was observed, each row as often as it counts."""
    w = np.where(np.isnan(X), 0.0, weight[:, None])
    count = np.maximum(w.sum(axis=0), np.finfo(float).tiny)  # 0 for a column without any
    filled = np.where(w > 0, X, 0.0)
    mean = np.sum(w * filled, axis=0) / count
    return mean, np.sqrt(np.sum(w * (filled - mean) ** 2, axis=0) / count)


def _require_one(measured: list[Measured]) -> None:
    """Refuse where every model failed, for then there is nothing to compare."""
    if all(one.reasons and one.reasons[0].startswith(FAILED) for one in measured):
        raise ValueError(
            "no model could be fitted: "
            + "; ".join(f"{one.name!r} {one.reasons[0]}" for one in measured)
        )


def _measure(
    name: str, model: Any, rows: _Rows, folds: list[Fold], hidden: NDArray[np.bool_]
) -> Measured:
    found = Measured.empty(name, len(rows))
    refused = _why_not_fitted(model, rows)
    if refused:
        found.not_at_all(refused)
        return found
    no_density = _why_no_density(model)
    if no_density:
        found.no_density(no_density)
    with _each_warning_once(name):
        for number, (train, test) in enumerate(folds):
            try:
                fitted, seconds = _fit(model, rows, train)
                found.fit_seconds.append(seconds)
                found.tests[test] += 1.0
                _score(found, fitted, rows, test)
                _fill(found, fitted, rows, train, test, hidden)
            except ValueError as error:
                if rows.has_missing and "Input X contains NaN" in str(error):
                    found.not_at_all(NO_NAN)
                else:
                    found.not_at_all(f"{FAILED} {number + 1} of {len(folds)}: {error}")
                return found
    return found


@contextmanager
def _each_warning_once(name: str) -> Iterator[None]:
    """What a model warns of, once and under its name, however many folds it met it in."""
    with captured() as heard:
        yield
    for caught in dict.fromkeys(heard):
        if not issubclass(caught.category, SentinelWarning):  # given for the whole table
            warn(f"{name}: {caught.message}", caught.category)


def _fit(model: Any, rows: _Rows, train: NDArray[np.intp]) -> tuple[Any, float]:
    fresh = unfitted(model)
    weight = rows.weight[train] if rows.weighted else None
    y = () if rows.y is None else (_take(rows.y, train),)
    table = rows.take(train)
    start = time.perf_counter()
    fit_rows(fresh, table, rows.names, *y, weight=weight)
    return fresh, time.perf_counter() - start


def _score(found: Measured, fitted: Any, rows: _Rows, test: NDArray[np.intp]) -> None:
    if np.isnan(found.log_likelihood).all():
        return
    try:
        scores = np.asarray(fitted.score_samples(rows.take(test)), dtype=np.float64)
    except SingularModelError as error:
        found.no_density(str(error))
        return
    found.log_likelihood[test] += scores
    w = rows.weight[test]
    found.fold_log_likelihood.append(float(w @ scores / w.sum()) if w.sum() > 0 else nan)


def _fill(
    found: Measured,
    fitted: Any,
    rows: _Rows,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    hidden: NDArray[np.bool_],
) -> None:
    asked = hidden[test] & (rows.unit > 0)  # (c, d)
    found.cells[test] += asked.sum(axis=1)
    if not asked.any() or np.isnan(found.squared_error).all():
        return
    table, values = rows.take_hidden(test, hidden)
    answer = fill(fitted, table, values, _moments(rows.values[train], rows.weight[train])[0])
    if answer is None:
        found.no_filling("cannot fill cells (no impute, no inverse_transform)")
        return
    filled, sd = answer
    truth = rows.values[test]
    unit = np.where(rows.unit > 0, rows.unit, 1.0)
    error = np.where(asked, (filled - truth) / unit, 0.0)
    found.squared_error[test] += np.sum(error**2, axis=1)
    if sd is None:
        found.inside[:] = nan
    else:
        inside = asked & covered(truth, filled, sd, QUANTILE_95)
        found.inside[test] += inside.sum(axis=1)


def _why_not_fitted(model: Any, rows: _Rows) -> str:
    if rows.weighted and "sample_weight" not in inspect.signature(model.fit).parameters:
        return "takes no sample_weight"
    return ""


def _why_no_density(model: Any) -> str:
    if not hasattr(model, "score_samples"):
        return "is no density (no score_samples)"
    if _kind(model) == "outlier_detector":
        return "score_samples of an outlier detector is no log-density"
    if not scores_log_density(model):
        return f"is no density (score_samples is {entry_of(model).row_score})"
    steps = getattr(model, "steps", ())
    if len(steps) > 1:
        return "a pipeline's density is of transformed columns"
    inner = steps[0][1] if steps else getattr(model, "estimator", None)  # of a search
    return "" if inner is None else _why_no_density(inner)


def _kind(model: Any) -> str | None:
    if hasattr(model, "__sklearn_tags__"):
        return getattr(model.__sklearn_tags__(), "estimator_type", None)
    return getattr(model, "_estimator_type", None)


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
    names = [type(model).__name__ for model in models]
    longer = (
        [" ".join(repr(model).split()) for model in models],
        [type(model).__module__.partition(".")[0] for model in models],
        [str(k + 1) for k in range(len(models))],
    )
    names = _apart(names, longer[0], lambda _, call: call)
    names = _apart(names, longer[1], lambda name, package: f"{name} ({package})")
    return _apart(names, longer[2], lambda name, number: f"{name} ({number})")


def _apart(names: list[str], more: list[str], join: Callable[[str, str], str]) -> list[str]:
    """Names that occur more than once, with what may distinguish them."""
    return [
        join(name, extra) if names.count(name) > 1 else name
        for name, extra in zip(names, more, strict=True)
    ]


def _folds(cv: Any, rows: _Rows, seed: int) -> Iterator[Fold]:
    n = len(rows)
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= n:
            raise ValueError(f"cv={cv} folds need between 2 and {n}, the number of rows")
        shuffled = np.random.default_rng(seed).permutation(n)
        parts = np.array_split(shuffled, int(cv))
        splits: Any = (
            (np.concatenate([*parts[:k], *parts[k + 1 :]]), part) for k, part in enumerate(parts)
        )
    else:
        splits = cv.split(rows.values, rows.y) if hasattr(cv, "split") else _of_kept(cv, rows)
    for train, test in splits:
        yield np.sort(_positions(train)), np.sort(_positions(test))


def _of_kept(splits: Any, rows: _Rows) -> Iterator[Fold]:
    """Given folds of rows of X as folds of those that are kept."""
    for train, test in splits:
        first, second = rows.place[_positions(train)], rows.place[_positions(test)]
        yield first[first >= 0], second[second >= 0]


def _positions(index: Any) -> NDArray[np.intp]:
    found = np.asarray(index)
    return np.flatnonzero(found) if found.dtype == bool else found.astype(np.intp)


def _share(holdout: float) -> float:
    if not 0.0 <= holdout < 1.0:
        raise ValueError(f"holdout must be a share of the cells in [0, 1), got {holdout}")
    return holdout


def _seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if hasattr(random_state, "integers"):
        return int(random_state.integers(2**31))
    if hasattr(random_state, "randint"):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def _take(table: Any, at: NDArray[np.intp]) -> Any:
    """Rows of an array, a frame or a list by position."""
    if hasattr(table, "iloc"):
        return table.iloc[at]
    if hasattr(table, "take") and library_of(table) == "pyarrow":
        return table.take(at)
    if isinstance(table, list | tuple):
        return [table[i] for i in at]
    return table[at]


# Words and tables ----------------------------------------------------------------------------


def _in_words(
    what: str, names: tuple[str, ...], values: Array, apart: Array, se: Array, worse: str
) -> str:
    if np.all(np.isnan(values)):
        return ""
    best = int(np.flatnonzero(apart == 0.0)[0])
    others = [
        f"{names[k]} is {worse} by {abs(apart[k]):.3g} (se {se[k]:.2g})"
        for k in np.argsort(np.abs(apart))
        if k != best and not np.isnan(values[k])
    ]
    words = f"{what[0].upper() + what[1:]}: {names[best]} is best ({values[best]:.4g})"
    return "; ".join([words, *others])


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


def _shown(values: Array) -> list[str]:
    return ["—" if np.isnan(value) else f"{value:.4g}" for value in values]


def _with_error(values: Array, se: Array) -> list[str]:
    return [
        "—" if np.isnan(value) else "best" if value == 0.0 else f"{value:+.3g} ± {error:.2g}"
        for value, error in zip(values, se, strict=True)
    ]


def _percent(share: float) -> str:
    return "—" if np.isnan(share) else f"{100 * share:.1f} %"


def _duration(seconds: float) -> str:
    if np.isnan(seconds):
        return "—"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _table(columns: Mapping[str, Sequence[str]]) -> str:
    widths = [max(map(len, [head.strip(), *cells])) for head, cells in columns.items()]
    heads = [head.strip() for head in columns]
    lines = [heads, ["-" * width for width in widths], *zip(*columns.values(), strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
