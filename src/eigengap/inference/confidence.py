"""Confidence intervals of a fitted estimator's loadings and variances.

The estimator is one of maximum likelihood (PPCA, FactorAnalysis, PCA). It is known here by its
fitted attributes and by `refitted(source, random_state)`, the same estimator fitted to another
table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gaussian.rotation import rotate
from eigengap.inference.alignment import ALIGNMENTS, Align, Aligned, onto
from eigengap.inference.asymptotics import standard_errors
from eigengap.inference.bootstrap import Accuracy, generators, resampled, seed_from
from eigengap.inference.intervals import Interval, Intervals, noise_bias, student_quantile
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.threads import in_threads
from eigengap.runtime.warnings import silence
from eigengap.selection.inner_fits import fit_rows
from eigengap.sources import ArraySource, Source, as_source, in_memory
from eigengap.statistics.moments import ColumnMoments

Method = Literal["bootstrap", "parametric", "asymptotic"]
METHODS: tuple[Method, ...] = ("bootstrap", "parametric", "asymptotic")
OTHER_TABLE = 1e-2  # nats a row between the fit's log-likelihood and that of the table given


def confidence_intervals(
    estimator: Any,
    X: Any,
    *,
    sample_weight: Any = None,
    cell_sd: Any = None,
    level: float = 0.95,
    method: Method = "bootstrap",
    align: Align = "rotation",
    n_boot: int = 400,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Intervals:
    """Confidence intervals for loadings, explained variance, mean and noise variance.

    Parameters
    ----------
    estimator : PPCA, FactorAnalysis or PCA
        Fitted to X, or not yet, in which case a copy is. It is not changed.
    X : table of shape (n_samples, n_features)
        The table of the fit; NaN marks a missing value.
    sample_weight : array of shape (n_samples,), default=None
        Frequencies, as in the fit.
    cell_sd : table of X's shape, default=None
        Known standard deviation of each value, as in the fit.
    level : float in (0, 1), default=0.95
    method : {"bootstrap", "parametric", "asymptotic"}, default="bootstrap"
        "bootstrap" fits again to resampled rows and assumes no more than that rows are independent.
        "parametric" fits to tables drawn from the fitted model, with the missing values of X:
        better where rows are few and the model is right. "asymptotic" is the information matrix: no
        fit, but it takes the data to be Gaussian and the rows to be many.
    align : {"rotation", "axes"}, default="rotation"
        How loadings of two fits are compared, for a rotation of the latent axes changes them and
        not the model. "rotation" rotates each replicate onto the fit (Procrustes). "axes" lets each
        keep its own principal (or rotated) axes and matches order and signs only, so that
        intervals grow without bound as two eigenvalues come close. A rotation of factor analysis
        is held under "rotation" and found again by every replicate under "axes".
    n_boot : int, default=400
        Number of replicates.
    random_state : int, RandomState or None, default=0
    n_jobs : int, default=None
        Threads that fit replicates; -1 for one a core.

    Returns
    -------
    Intervals
        `loadings`, `explained_variance`, `mean`, `noise_variance`, each with `estimate`, `low`,
        `high`; `to_frame()`, `summary`.

    Notes
    -----
    Sorted eigenvalues are biased away from each other, the more the closer they are; intervals are
    around the estimate as it is. What was measured of their coverage is in docs/intervals.md.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import PPCA
    >>> from eigengap.inference.confidence import confidence_intervals
    >>> rng = np.random.default_rng(2)
    >>> X = rng.standard_normal((200, 1)) @ [[2.0, 1.0, 0.0]] + rng.standard_normal((200, 3))
    >>> X[::9, 1] = np.nan
    >>> intervals = confidence_intervals(PPCA(1), X, method="asymptotic")
    >>> intervals.loadings.covers([[2.0], [1.0], [0.0]]).ravel()
    array([ True,  True,  True])
    """
    _check_options(level, method, align, n_boot)
    if not hasattr(estimator, "refitted"):
        raise TypeError(
            "confidence intervals are for PPCA, FactorAnalysis and PCA, not for "
            f"{type(estimator).__name__}"
        )
    table = _Table.of(estimator, X, sample_weight, cell_sd)
    fitted = estimator if hasattr(estimator, "model_") else table.fit(estimator)
    table.require_of(fitted)
    loadings = _Loadings.of(fitted, table.source, align)
    build = partial(_intervals, fitted, table, level, method, align)
    if method == "asymptotic":
        return build(_asymptotic(fitted, table, loadings))
    rows = table if method == "bootstrap" else table.repeated()
    draw = rows.resampled if method == "bootstrap" else partial(rows.drawn, fitted.model_)
    refit = partial(_replicate, rows, fitted, loadings, draw)
    with silence():  # fits that did not converge are counted below
        replicates = in_threads(refit, generators(seed_from(random_state), n_boot), n_jobs)
    at_fit = _readings(fitted, loadings)
    found = Accuracy.of(at_fit, [values for values, _ in replicates], table.sum_w)
    return build(
        _Errors.split(found.se, fitted, log_bias=found.bias),
        n_boot=n_boot,
        not_converged=sum(not converged for _, converged in replicates),
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """The rows of the fit, read once."""

    source: Source
    values: Any  # (n, d), NaN where missing
    weight: Array  # (n,)
    cell_sd: Array | None  # (n, d)

    @classmethod
    def of(cls, estimator: Any, X: Any, sample_weight: Any, cell_sd: Any) -> _Table:
        codes = getattr(estimator, "missing_values", nan)
        everything = as_source(
            X, sample_weight=sample_weight, cell_sd=cell_sd, missing_values=codes
        )
        source = in_memory(everything).present()
        source.require_fit(min_rows=2)
        weight = np.ones(source.n_rows) if source.weight is None else source.weight
        return cls(source, source.collect(), weight, source.cell_sd)

    @property
    def sum_w(self) -> float:
        return float(np.sum(self.weight))

    def observed(self) -> NDArray[np.bool_]:
        if not isinstance(self.values, np.ndarray):
            return np.ones(self.values.shape, dtype=bool)
        return ~np.isnan(self.values)

    def fit(self, estimator: Any) -> Any:
        fresh = type(estimator)(**{**estimator.get_params(deep=False), "missing_values": nan})
        return fit_rows(
            fresh, self.values, self.source.names, weight=self.weight, cell_sd=self.cell_sd
        )

    def require_of(self, fitted: Any) -> None:
        """Refuse a table other than the one that was fitted, as far as the likelihood shows."""
        if self.source.n_features != fitted.n_features_in_:
            raise ValueError(
                f"X has {self.source.n_features} features, but {type(fitted).__name__} was fitted "
                f"to {fitted.n_features_in_}"
            )
        expected = getattr(fitted, "log_likelihood_", np.inf)
        if not np.isfinite(expected):
            return
        here = float(self.weight @ _scores(fitted, self.values, self.cell_sd))
        if abs(here - expected) > OTHER_TABLE * self.sum_w:
            raise ValueError(
                f"X is not the table that {type(fitted).__name__} was fitted to: its "
                f"log-likelihood is {here:.6g}, that of the fit {expected:.6g}. Give the same "
                "rows, sample_weight and cell_sd, or an estimator that is not fitted"
            )

    def resampled(self, rng: np.random.Generator) -> tuple[Any, Array]:
        return self.values, resampled(self.observed(), self.weight, rng)

    def drawn(self, model: LinearGaussian, rng: np.random.Generator) -> tuple[Array, Array]:
        """A table drawn from the fitted model, with the missing values and weights of this one."""
        drawn = model.sample(len(self.weight), rng)
        if self.cell_sd is not None:
            drawn += np.nan_to_num(self.cell_sd) * rng.standard_normal(drawn.shape)
        return np.where(self.observed(), drawn, np.nan), self.weight

    def repeated(self) -> _Table:
        """The same rows, as often as their weights say where these are whole numbers.

        A row that counts w times is w rows, each with noise of its own in a table drawn anew.
        """
        counts = np.round(self.weight).astype(np.intp)
        if self.weight.max() <= 1.0 or not np.array_equal(counts, self.weight):
            return self
        at = np.repeat(np.arange(len(counts)), counts)
        sd = None if self.cell_sd is None else self.cell_sd[at]
        return replace(self, values=self.values[at], weight=np.ones(len(at)), cell_sd=sd)


def _scores(fitted: Any, values: Any, cell_sd: Array | None) -> Array:
    """Log-likelihood of rows that were read already, whatever the names of the fit."""
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    return np.asarray(fitted.model_.log_likelihood(dense, cell_sd))


@dataclass(frozen=True, eq=False)
class _Loadings:
    """Loadings of any model, aligned with those of the fit."""

    aligned: Aligned
    rotation: Any
    kaiser: bool
    correlation: Array | None  # (d,) unit of the rotation over the model's standard deviation

    @classmethod
    def of(cls, fitted: Any, source: Source, align: Align) -> _Loadings:
        aligned = onto(fitted.model_.W, fitted.loadings_, units_of(fitted), align)
        if not hasattr(fitted, "rotation_"):
            return cls(aligned, None, False, None)
        unit = fitted.unit_of_rotation(source)
        over = None if unit is None else unit / np.sqrt(fitted.model_.gaussian.variances())
        return cls(aligned, fitted.rotation, fitted.kaiser, over)

    def of_model(self, model: LinearGaussian) -> Array:
        canonical = model.canonical()
        # As the model changes so do the standard deviations that its rotation divides by.
        unit = None if self.correlation is None else self.correlation * np.sqrt(model.variances())
        rotated = rotate(canonical.W, self.rotation, unit=unit, normalize=self.kaiser).loadings
        return self.aligned(canonical.W, rotated)


def units_of(fitted: Any) -> Array:
    """(d,) units in which loadings are compared: of the fit, or of each column where noise is."""
    if fitted.scale_ is not None:
        return np.asarray(fitted.scale_)
    if np.ndim(fitted.noise_variance_) == 0:
        return np.ones(fitted.n_features_in_)
    return np.asarray(np.sqrt(fitted.model_.variances()))


@dataclass(frozen=True, eq=False)
class _Errors:
    """Standard errors of the readings: of logarithms where they are variances."""

    loadings: Array
    log_variance: Array
    mean: Array
    log_noise: Array
    log_noise_bias: Array

    @classmethod
    def split(cls, se: Array, fitted: Any, log_bias: Array) -> _Errors:
        """From vectors in the order of `_readings`."""
        d, q = fitted.loadings_.shape
        at = np.cumsum([d * q, q, d])
        loadings, log_variance, mean, log_noise = np.split(se, at)
        return cls(loadings.reshape(d, q), log_variance, mean, log_noise, log_bias[at[-1] :])


def _readings(fitted: Any, loadings: _Loadings) -> Array:
    """What intervals are for, as one vector."""
    noise = np.atleast_1d(fitted.noise_variance_)
    return np.concatenate(
        [
            loadings.aligned(fitted.model_.W, fitted.loadings_).ravel(),
            _log(fitted.explained_variance_),
            fitted.mean_,
            _log(noise),
        ]
    )


def _model_readings(loadings: _Loadings, isotropic: bool, model: LinearGaussian) -> Array:
    """The same of a model in data units, constant factors of the variances left out."""
    noise = model.psi[:1] if isotropic else model.psi
    variance = model.principal_axes()[1]
    return np.concatenate([loadings.of_model(model).ravel(), _log(variance), model.mu, _log(noise)])


def _log(variance: Array) -> Array:
    return np.log(np.maximum(variance, np.finfo(np.float64).tiny))


def _replicate(
    table: _Table,
    fitted: Any,
    loadings: _Loadings,
    draw: Callable[[np.random.Generator], tuple[Any, Array]],
    rng: np.random.Generator,
) -> tuple[Array, bool]:
    """The readings of one more fit, and whether it converged."""
    values, weight = draw(rng)
    names = table.source.names
    source = ArraySource(values, weight=weight, cell_sd=table.cell_sd, names=names)
    again = fitted.refitted(source, random_state=int(rng.integers(2**31)))
    return _readings(again, loadings), bool(again.converged_)


def _asymptotic(fitted: Any, table: _Table, loadings: _Loadings) -> _Errors:
    _require_maximum_likelihood(fitted, table)
    isotropic = np.ndim(fitted.noise_variance_) == 0
    se = standard_errors(
        table.source,
        fitted.model_,
        partial(_model_readings, loadings, isotropic),
        isotropic=isotropic,
        fit_mean=getattr(fitted, "fit_mean", True),
        fit_noise=getattr(fitted, "noise_variance", None) is None,
    )
    observed = table.source.reduce(ColumnMoments.of).sum_w
    bias = noise_bias(fitted.model_.W, fitted.model_.psi, observed)
    if getattr(fitted, "noise_variance", None) is not None:
        bias = np.zeros_like(bias)
    log_bias = np.zeros(len(se))
    noise = slice(-1, None) if isotropic else slice(-len(bias), None)
    log_bias[noise] = np.mean(bias) if isotropic else bias
    return _Errors.split(se, fitted, log_bias)


def _require_maximum_likelihood(fitted: Any, table: _Table) -> None:
    if type(fitted.model_) is not LinearGaussian or table.cell_sd is not None:
        raise ValueError(
            "asymptotic intervals are for Gaussian noise that is the same in every row; use "
            'method="bootstrap" with noise="student" or cell_sd'
        )
    if getattr(fitted, "scale", False):
        raise ValueError(
            "asymptotic intervals do not know the uncertainty of the units that scale=True "
            'estimates; use method="bootstrap", or scale=False (the loadings of factor analysis '
            "are the same)"
        )
    if getattr(fitted, "loading_precision", 0.0):
        raise ValueError(
            "asymptotic intervals are for maximum likelihood, without loading_precision; use "
            'method="bootstrap"'
        )


def _intervals(
    fitted: Any,
    table: _Table,
    level: float,
    method: str,
    align: str,
    errors: _Errors,
    n_boot: int = 0,
    not_converged: int = 0,
) -> Intervals:
    quantile = student_quantile(level, table.sum_w)
    return Intervals(
        loadings=Interval.around(fitted.loadings_, errors.loadings, quantile),
        explained_variance=Interval.of_variance(
            fitted.explained_variance_, errors.log_variance, quantile
        ),
        mean=Interval.around(fitted.mean_, errors.mean, quantile),
        noise_variance=Interval.of_variance(
            np.atleast_1d(fitted.noise_variance_),
            errors.log_noise,
            quantile,
            errors.log_noise_bias,
        ),
        level=level,
        method=method,
        align=align,
        n_boot=n_boot,
        not_converged=not_converged,
        names=table.source.names,
    )


def _check_options(level: float, method: str, align: str, n_boot: int) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if align not in ALIGNMENTS:
        raise ValueError(f"align must be one of {', '.join(ALIGNMENTS)}, got {align!r}")
    if n_boot < 2:
        raise ValueError(f"n_boot must be at least 2, got {n_boot}; a few hundred are usual")
