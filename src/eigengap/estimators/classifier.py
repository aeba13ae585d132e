"""Classification by a linear-Gaussian density per class, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import keep_parameters, map_rows
from eigengap.estimators.shared.inner import Predictor, warnings_about
from eigengap.estimators.shared.sklearn_compat import HasMethods, _check_y, _fit_context
from eigengap.exceptions import (
    DataError,
    NoiseFloorWarning,
    SentinelWarning,
    UnboundedLikelihoodWarning,
    UnitsWarning,
)
from eigengap.fitting.columns.classes import pseudo_rows, shared_columns
from eigengap.fitting.columns.kinds import Continuous
from eigengap.fitting.gaussian.column_scale import column_scale
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.selection.coded_table import CodedTable
from eigengap.selection.inner_fits import fit_rows
from eigengap.selection.prediction import (
    ClassRows,
    best,
    classification_errors,
    frequencies,
    has_density,
)
from eigengap.sources import (
    ArraySource,
    ObservedCells,
    Rescaled,
    Rows,
    Source,
    column,
    in_memory,
    show,
    warn_of_codes,
)
from eigengap.wording import listed

FEWEST_FOR_NOISE = 3  # rows: two lie on a line
WAYS_OUT = "leave the class out, or merge it with another"
LEAST_NOISE = 1e-6  # of the mean variance, where no class has any noise

Fit = Callable[[Any, ArraySource], Any]  # an estimator, fitted to the rows of a class


class PPCAClassifier(ClassifierMixin, Predictor):
    """A density for each class and Bayes' rule; rows may have missing values.

        p(k | x) = pi_k p(x | k) / sum_l pi_l p(x | l),   p(x | k) = N(mu_k, W_k W_k^T + Psi_k)

    over the observed values of x. Between Gaussian naive Bayes (no components) and
    quadratic discriminant analysis (d - 1).

    Parameters
    ----------
    n_components : int, float in (0, 1) or "auto", default="auto"
        Components of each class; "auto" is the number, common to all classes that have the rows for
        it, with which fewest held-out rows are classified wrongly, by cross-validation in 5 folds
        (`cv_errors_`).
    noise : {"isotropic", "diagonal"}, default="isotropic"
        PPCA or factor analysis for each class. Isotropic noise keeps a column that is constant in
        one class from deciding alone. A class whose rows are too few or too much alike to have any
        noise takes the mean of the others', with a warning.
    priors : array of shape (n_classes,), default=None
        Class probabilities in the order of `classes_`; None learns them.
    scale : bool, default=True
        Whether to divide every column by its standard deviation over all classes first. On by
        default: which columns separate classes does not depend on their units.
    estimator : density estimator with `fit` and `score_samples`, default=None
        Used for each class instead, e.g. MixturePPCA. Of the other parameters only priors, scale
        and missing_values apply then.
    tol, max_iter, n_init, random_state, verbose
        As in PPCA and FactorAnalysis.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    class_prior_ : array of shape (n_classes,)
    models_ : list of estimators
        The fitted density of each class, in units of `scale_`.
    kinds_, levels_ : dict
        The kind of every column, and the levels of those that have some; only where `columns` is
        not "numeric".
    scale_ : array of shape (n_features,) or None
    cv_errors_ : dict of int to float
        Share of held-out rows classified wrongly, by number of components; only if
        n_components="auto".
    n_features_in_, feature_names_in_

    Notes
    -----
    With columns of several kinds the classes share maps and thresholds, which are learned from all
    rows: of the maps of a continuous column the one under which the values of each class are most
    nearly Gaussian. A class gets one more observation of every column of levels or counts, spread
    over its values as they are in all rows, so that a level that it has never had does not decide
    alone: of a single column of levels P(level | class) = (n_level + share_level) / (n + 1).
    A class of n rows has no more than n - 2 components. `scale` has no effect then.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from eigengap import PPCAClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X[::3, 0] = float("nan")
    >>> model = PPCAClassifier().fit(X, y)
    >>> model.predict([[5.0, float("nan"), 1.4, 0.2], [float("nan"), 3.0, 5.5, 2.1]])
    array([0, 2])
    """

    _methods = ("fit", "score_samples")
    _target = "the class of each row"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "priors": ["array-like", None],
        "estimator": [HasMethods(list(_methods)), None],
    }

    def __init__(
        self,
        n_components: int | float | str = "auto",
        *,
        noise: str = "isotropic",
        priors: Any = None,
        scale: bool = True,
        estimator: Any = None,
        missing_values: Any = nan,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_init: int = 1,
        random_state: Any = None,
        verbose: bool | int = False,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a density to the rows of each class.

        Parameters
        ----------
        y : array of shape (n_samples,)
            Classes, numbers or strings. Of a row without any observed value the class counts in
            `class_prior_`, and nothing else.
        """
        table, everything = self._read(X, sample_weight)
        labels = self._labels(y, everything)
        source = everything.present()
        known = source if table is None else in_memory(table.shown(source))
        known.require_fit(min_rows=2)
        if table is None:
            warn_of_codes(source)
        weight = frequencies(everything)
        classes, code = np.unique(labels[weight > 0], return_inverse=True)
        counted = np.bincount(code, weights=weight[weight > 0]).astype(float)
        prior = self._prior(classes, counted)
        code = code[everything.is_present()[weight > 0]]
        for label in classes[np.bincount(code, minlength=len(classes)) == 0]:
            raise ValueError(f"class {show(label)} has no row with an observed value: {WAYS_OUT}")
        unit, fit = None, fit_source
        if table is not None:
            shared = _Shared.of(table, self.columns, source, code)
            table, fit = shared.table, shared.fit
        elif self.scale:
            unit = column_scale(source)
        scaled = source if unit is None else in_memory(Rescaled(source, unit))
        d = None if table is None else len(table.used)
        parts = [
            ClassRows(f"class {show(label)}", scaled.only(np.flatnonzero(code == k)), d)
            for k, label in enumerate(classes)
        ]
        for k, part in enumerate(parts):
            self._require_rows(part, known.only(np.flatnonzero(code == k)).observed())
        densities = partial(self._trial_densities, fit)
        most = None if table is None else table.columns.width
        errors = classification_errors(parts, densities, most) if self._adapts else None
        q = best(errors) if errors else 1
        models = self._fit_classes(parts, {"n_components": q} if self._adapts else {}, fit)
        self._keep_columns(X, source, table)
        self.classes_, self.class_prior_ = classes, prior
        self.scale_, self.models_ = unit, models
        self._keep_errors(errors)
        return self

    def _labels(self, y: Any, source: Source) -> NDArray[Any]:
        """The class of every row."""
        self._require_target(y)
        _refuse_missing(y)
        labels = _check_y(y, multi_output=False, y_numeric=False, estimator=self)
        check_classification_targets(labels)
        check_consistent_length(np.empty(source.n_rows or 0), labels)
        return labels

    def _prior(self, classes: NDArray[Any], counted: Array) -> Array:
        if self.priors is None:
            return counted / counted.sum()
        named = ", ".join(show(label) for label in classes[:10])
        if isinstance(self.priors, Mapping):
            raise ValueError(
                "priors is a list of probabilities in the order of the sorted class labels, "
                f"{named}; got a mapping"
            )
        prior = np.array(self.priors, dtype=np.float64)  # a copy: it is a fitted attribute
        if prior.shape != classes.shape:
            raise ValueError(
                f"priors has shape {prior.shape}, but there are {len(classes)} classes: {named}"
            )
        if not np.all(prior >= 0) or not np.isclose(prior.sum(), 1.0):
            raise ValueError(f"priors must be probabilities that sum to 1, got {prior}")
        return prior / prior.sum()

    @property
    def _settled(self) -> tuple[type[Warning], ...]:
        """Warnings that do not concern a class: codes are looked for in all rows; a standardised
        column may well hardly vary in a class; a class without a density is dealt with here."""
        settled = (SentinelWarning, UnboundedLikelihoodWarning)
        return (*settled, UnitsWarning) if self.scale else settled

    def _require_rows(self, part: ClassRows, observed: ObservedCells) -> None:
        if observed.count < (1 if self._takes_kinds else 2):
            raise ValueError(
                f"{part.name} has {observed.rows} row(s) (n_samples={observed.rows}), too few for "
                f"a density: {WAYS_OUT}"
            )
        if observed.sum_w <= 1.0 and not self._takes_kinds:
            raise DataError(
                f"sample_weight sums to {observed.sum_w:g} in {part.name}, but weights are "
                "frequencies: rows that count once or less in all have no variance. Raise these "
                "weights, or leave the class out",
                value=observed.sum_w,
            )
        missing = np.flatnonzero(observed.per_column == 0)
        if len(missing):
            named = column(part.source.names, int(missing[0]))
            raise ValueError(
                f"{part.name} has no value in column {named}: every cell is NaN. Drop the column "
                "or the class"
            )
        q = self.n_components
        given = self.estimator is not None or not isinstance(q, Integral)
        if not given and not self._takes_kinds and int(q) > observed.count - 2:
            raise ValueError(
                f"{part.name} has {observed.count:g} rows, too few for n_components={q}: a density "
                f"with {q} components needs {q + 2} rows. Give fewer, or "
                '"auto", which adapts to each class'
            )

    def _fit_classes(self, parts: list[ClassRows], settings: dict[str, Any], fit: Fit) -> list[Any]:
        """The density of each class; one whose rows lie on a line takes the others' mean noise."""
        models = [self._fit_class(part, settings, fit) for part in parts]
        weight = [part.source.observed().sum_w for part in parts]
        least = FEWEST_FOR_NOISE if self.estimator is None else 0
        proper = [k for k, model in enumerate(models) if _has_density(model) and weight[k] >= least]
        rest = sorted(set(range(len(models))) - set(proper))
        if not rest:
            return models
        borrowed: dict[str, Any]
        if self._takes_kinds:  # u are in units of their deviations within classes
            proper, borrowed = proper or rest, {"n_components": 0, "noise_variance": 1.0}
        else:
            mean = float(np.mean([np.mean(m.model_.variances()) for m in models]) or 1.0)
            lent = LEAST_NOISE * mean
            if proper:
                noise = [float(np.mean(models[k].noise_variance_)) for k in proper]
                lent = float(np.average(noise, weights=[weight[k] for k in proper]))
            borrowed = {**settings, "n_components": 1, "noise_variance": lent}
        warn(
            f"the rows of {listed([parts[k].name for k in rest])} are too few or too much alike "
            "to determine a noise variance: "
            + ("the mean of the other classes is used" if proper else "a small one is used"),
            NoiseFloorWarning,
        )
        for k in rest:
            with warnings_about(parts[k].name, but=self._settled):
                models[k] = fit(PPCA(**borrowed), parts[k].source)
        return models

    def _fit_class(self, part: ClassRows, settings: dict[str, Any], fit: Fit) -> Any:
        settings, q = dict(settings), self.n_components
        if self._takes_kinds and isinstance(q, Integral) and not settings:
            settings["n_components"] = max(0, min(int(q), int(part.source.observed().sum_w) - 2))
        if self._adapts:  # a class of few rows has fewer components than the others
            observed = part.source.observed()
            most = min(int(observed.sum_w) - 2, observed.rows, part.source.n_features - 1)
            settings["n_components"] = max(1, min(settings["n_components"], most))
        with warnings_about(part.name, but=self._settled):
            model = fit(self._density(scale=False).set_params(**settings), part.source)
            while self._adapts and not _has_density(model) and model.n_components_ > 1:
                settings["n_components"] = model.n_components_ - 1
                model = fit(self._density(scale=False).set_params(**settings), part.source)
        if not self._adapts and not _has_density(model):
            raise ValueError(
                f"{part.name} has no density: its {part.source.n_rows} rows lie in a plane of few "
                'dimensions, without noise. Give fewer components, or n_components="auto"'
            )
        return model

    def _trial_densities(self, fit: Fit, parts: list[ClassRows], q: int, rows: Rows) -> Array:
        """ln p(x | k) (m, K) by loose fits of q components, for cross-validation."""
        return _densities(self._fit_classes(parts, self._loose(q), fit), rows)

    # Predicting ----------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row: (n_samples,)."""
        joint = self._log_joint(X)  # first, for it refuses where there was no fit
        return self.classes_[np.argmax(joint, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities of every row: (n_samples, n_classes).

        A row without any observed value has the prior's.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities: (n_samples, n_classes)."""
        joint = self._log_joint(X)
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class where there are two, else ln pi_k p(x | k) of each.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
        """
        joint = self._log_joint(X)
        return joint[:, 1] - joint[:, 0] if len(self.classes_) == 2 else joint

    def score_samples(self, X: Any) -> Array:
        """ln p(x) of the observed values under the mixture of all classes: (n_samples,)."""
        return np.asarray(logsumexp(self._log_joint(X), axis=1))

    @property
    def n_iter_(self) -> int:
        """Most steps that the fit of a class took."""
        return max(model.n_iter_ for model in self.models_)

    # ---------------------------------------------------------------------------------------

    def _log_joint(self, X: Any) -> Array:
        """ln pi_k p(x | k): (n, K)."""
        check_is_fitted(self, "models_")
        source = self._new(X)
        with np.errstate(divide="ignore"):  # a prior of 0 excludes its class
            log_prior = np.log(self.class_prior_)
        return map_rows(source, self._log_densities) + log_prior

    def _log_densities(self, X: Array) -> Array:
        """ln p(x | k) in the units of the data: (c, K)."""
        unit = self.scale_
        rows = X if unit is None else X / unit
        lost = np.any(np.isinf(rows), axis=1, keepdims=True)
        densities = _densities(self.models_, np.where(lost, 0.0, rows))
        nowhere = np.max(densities, axis=1, keepdims=True) == -np.inf
        densities = np.where(lost | nowhere, nan, densities)  # no class is nearer than another
        if unit is not None:
            densities -= (~np.isnan(X) @ np.log(unit))[:, None]
        return densities


def _densities(models: list[Any], rows: Rows) -> Array:
    """ln p(x | k): (c, K)."""
    coded = [getattr(model, "table_", None) is not None for model in models]
    of = [
        m.model_.log_likelihood if c else m.score_samples
        for m, c in zip(models, coded, strict=True)
    ]
    return np.column_stack([log_density(rows) for log_density in of])


def fit_source(estimator: Any, source: ArraySource) -> Any:
    return fit_rows(estimator, source.collect(), source.names, weight=source.weight)


@dataclass(frozen=True, eq=False)
class _Shared:
    """Columns that the classes share, and what each class gets besides its rows."""

    table: CodedTable
    columns: Any  # as the user asked for them
    extra: Array  # (m, d) rows
    weight: Array  # (m,)

    @classmethod
    def of(cls, table: CodedTable, asked: Any, source: ArraySource, code: NDArray[np.intp]) -> Self:
        values = np.asarray(source.collect(), dtype=np.float64)
        weight, columns = frequencies(source), table.columns
        chosen = [kind == Continuous() for kind in table.kinds]
        free = np.array(chosen, dtype=bool)[table.used]
        shared = shared_columns(columns, values, weight, code, free)
        extra = pseudo_rows(columns, values, weight)
        return cls(replace(table, columns=shared), asked, *extra)

    def fit(self, estimator: Any, source: ArraySource) -> Any:
        """The density of a class, fitted to its rows and the others."""
        rows = np.concatenate([source.collect(), self.extra])
        weight = np.concatenate([frequencies(source), self.weight])
        estimator.set_params(columns=self.columns)
        estimator._fit_table(ArraySource(rows, weight=weight, names=source.names), self.table)
        own = source.observed().sum_w  # the others are none that anybody has counted
        estimator.spectrum_ = replace(estimator.spectrum_, sum_w=own)
        return estimator


def _has_density(estimator: Any) -> bool:
    return has_density(getattr(estimator, "model_", None))


def _refuse_missing(y: Any) -> None:
    """Refuse labels that are None or NaN, by row."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "OfM" or labels.ndim != 1:
        return
    for row, label in enumerate(labels):
        if label is None or type(label).__name__ == "NAType" or label != label:  # NaN, NaT
            raise ValueError(
                f"Input y contains NaN: row {row} has no class ({label!r}). A density belongs to a "
                "class: drop the rows without one"
            )
