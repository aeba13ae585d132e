"""Confidence intervals of a fitted estimator's loadings and variances.

The estimator is one of maximum likelihood (PPCA, FactorAnalysis, PCA). It is known here by its
fitted attributes and by `refitted(source, random_state)`, the same estimator fitted to another
table.

The bootstrap (Efron 1979) is how an estimate varies over tables that could have been observed. A
replicate is the same fit to another table: rows drawn again with replacement, as counts that enter
the fit as row weights so that nothing is copied; or a table drawn from the fitted model with the
missing values of the true one. Every replicate starts afresh: EM from its spectral start takes 7 to
20 steps, and no fewer from the full fit.

W and W R describe the same density for every orthogonal R (factor analysis and PPCA alike), so
loadings of two fits differ by an arbitrary R unless something fixes it:

- "rotation": Procrustes rotates one onto the other. What is left is how far the fitted subspace and
  its scale moved. It is stable however close two eigenvalues are.
- "axes": each fit keeps the axes that it defines itself (principal axes, the canonical form of
  factor analysis, the varimax solution, ...) and only order and signs are matched. The rotation of
  the axes among themselves is then part of the difference; where two eigenvalues are close it has
  no limit.

Nearness is measured in a unit for each feature, so that it does not depend on how columns of
different kinds are scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any, Literal

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import NDArray

from eigengap.fitting.gaussian.rotation import rotate
from eigengap.inference.asymptotics import noise_bias, standard_errors
from eigengap.inference.intervals import Interval, Intervals, require_level
from eigengap.linalg import Array, procrustes
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.threads import in_threads
from eigengap.runtime.warnings import silence
from eigengap.selection.inner_fits import fit_rows
from eigengap.sources import ArraySource, Source, as_source, in_memory
from eigengap.statistics.moments import ColumnMoments

Method = Literal["bootstrap", "parametric", "asymptotic"]
METHODS: tuple[Method, ...] = ("bootstrap", "parametric", "asymptotic")
Align = Literal["rotation", "axes"]
ALIGNMENTS: tuple[Align, ...] = ("rotation", "axes")
Aligned = Callable[[Array, Array], Array]  # (W, the same rotated by its own fit) -> aligned (d, q)

Draw = Callable[[np.random.Generator], ArraySource]

OTHER_TABLE = 1e-2  # nats a row between the fit's log-likelihood and that of the table given
LEAST_OBSERVED = 2  # rows in which a replicate must show a column
TRIES = 100  # draws until every column has them


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
    require_level(level)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if align not in ALIGNMENTS:
        raise ValueError(f"align must be one of {', '.join(ALIGNMENTS)}, got {align!r}")
    if n_boot < 2:
        raise ValueError(f"n_boot must be at least 2, got {n_boot}; a few hundred are usual")
    if not hasattr(estimator, "refitted"):
        raise TypeError(
            "confidence intervals are for PPCA, FactorAnalysis and PCA, not for "
            f"{type(estimator).__name__}"
        )
    codes = getattr(estimator, "missing_values", nan)
    given = as_source(X, sample_weight=sample_weight, cell_sd=cell_sd, missing_values=codes)
    table = in_memory(given).present()
    table.require_fit(min_rows=2)
    w = np.ones(table.n_rows) if table.weight is None else table.weight
    fitted = estimator
    if not hasattr(estimator, "model_"):
        fresh = type(estimator)(**{**estimator.get_params(deep=False), "missing_values": nan})
        rows, names = table.collect(), table.names
        fitted = fit_rows(fresh, rows, names, weight=w, cell_sd=table.cell_sd)
    n = float(np.sum(w))
    _require_table_of(fitted, table, w)
    loadings = _Loadings.of(fitted, table, align)
    not_converged = 0
    if method == "asymptotic":
        se, bias = _asymptotic(fitted, table, loadings)
        n_boot = 0
    else:
        draw = _resampling(table, w) if method == "bootstrap" else _drawing(table, w, fitted.model_)

        def replicate(stream: np.random.SeedSequence) -> tuple[Array, bool]:
            """The readings of one more fit, and whether it converged."""
            rng = np.random.default_rng(stream)
            source = draw(rng)
            again = fitted.refitted(source, random_state=int(rng.integers(2**31)))
            return _readings(again, loadings), bool(again.converged_)

        # One independent stream a replicate, so that their order and threads do not matter.
        streams = np.random.SeedSequence(seed_from(random_state)).spawn(n_boot)
        with silence():  # fits that did not converge are counted
            replicates = in_threads(replicate, streams, n_jobs)
        drawn = np.stack([values for values, _ in replicates])
        not_converged = sum(not converged for _, converged in replicates)
        # Resampling n rows loses one degree of freedom as the sample variance does.
        se = np.std(drawn, axis=0, ddof=1) * np.sqrt(n / max(n - 1.0, 1.0))
        bias = np.mean(drawn, axis=0) - _readings(fitted, loadings)
    d, q = fitted.loadings_.shape
    at = np.cumsum([d * q, q, d])
    se_loadings, se_variance, se_mean, se_noise = np.split(se, at)
    # Student's, two-sided, at n - 1 degrees of freedom
    t = float(scipy.special.stdtrit(max(n - 1.0, 1.0), 0.5 + level / 2.0))
    noise = np.atleast_1d(fitted.noise_variance_)
    return Intervals(
        loadings=Interval.around(fitted.loadings_, se_loadings.reshape(d, q), t),
        explained_variance=Interval.of_variance(fitted.explained_variance_, se_variance, t),
        mean=Interval.around(fitted.mean_, se_mean, t),
        noise_variance=Interval.of_variance(noise, se_noise, t, bias[at[-1] :]),
        level=level,
        method=method,
        align=align,
        n_boot=n_boot,
        not_converged=not_converged,
        names=table.names,
    )


def _require_table_of(fitted: Any, table: ArraySource, w: Array) -> None:
    """Refuse a table other than the one that was fitted, as far as the likelihood shows."""
    if table.n_features != fitted.n_features_in_:
        raise ValueError(
            f"X has {table.n_features} features, but {type(fitted).__name__} was fitted to "
            f"{fitted.n_features_in_}"
        )
    expected = getattr(fitted, "log_likelihood_", np.inf)
    if not np.isfinite(expected):
        return
    rows = table.collect()
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    here = float(w @ fitted.model_.log_likelihood(dense, table.cell_sd))
    if abs(here - expected) > OTHER_TABLE * float(np.sum(w)):
        raise ValueError(
            f"X is not the table that {type(fitted).__name__} was fitted to: its log-likelihood is "
            f"{here:.6g}, that of the fit {expected:.6g}. Give the same rows, sample_weight and "
            "cell_sd, or an estimator that is not fitted"
        )


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


def onto(W: Array, loadings: Array, unit: Array, align: Align) -> Aligned:
    """How the loadings of another fit are aligned with those of this one.

    Parameters
    ----------
    W : (d, q) unrotated loadings of the reference
    loadings : (d, q) the same after the rotation of factor analysis, W T^-T; W where there is none
    unit : (d,) of each feature
    """
    per = 1.0 / unit[:, None]
    if align == "axes":
        return lambda _, other: match_axes(other * per, loadings * per) / per
    rotation = np.linalg.lstsq(W, loadings, rcond=None)[0]  # (q, q), the reference's rotation
    return lambda other, _: other @ procrustes(other * per, W * per) @ rotation


def match_axes(A: Array, B: Array) -> Array:
    """A with its columns ordered and signed to be nearest to those of B, (d, q)."""
    products = A.T @ B
    _, order = scipy.optimize.linear_sum_assignment(-np.abs(products).T)
    signs = np.where(products[order, np.arange(B.shape[1])] < 0, -1.0, 1.0)
    return A[:, order] * signs


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


def _asymptotic(fitted: Any, table: ArraySource, loadings: _Loadings) -> tuple[Array, Array]:
    """Standard errors of the readings, and their bias, which only the noise has."""
    if type(fitted.model_) is not LinearGaussian or table.cell_sd is not None:
        raise ValueError(
            "asymptotic intervals are for Gaussian noise that is the same in every row; use "
            'method="bootstrap" with distribution="student" or cell_sd'
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
    isotropic = np.ndim(fitted.noise_variance_) == 0
    se = standard_errors(
        table,
        fitted.model_,
        partial(_model_readings, loadings, isotropic),
        isotropic=isotropic,
        fit_mean=getattr(fitted, "fit_mean", True),
        fit_noise=getattr(fitted, "noise_variance", None) is None,
    )
    log_bias = np.zeros(len(se))
    if getattr(fitted, "noise_variance", None) is None:
        observed = table.reduce(ColumnMoments.of).sum_w
        bias = noise_bias(fitted.model_.W, fitted.model_.psi, observed)
        log_bias[-1 if isotropic else -len(bias) :] = np.mean(bias) if isotropic else bias
    return se, log_bias


# Tables drawn anew -------------------------------------------------------------------------------


def seed_from(random_state: Any) -> int:
    """A seed from what scikit-learn takes for a random_state, drawn as it draws one."""
    if random_state is None:  # of the generator that np.random.seed sets
        return int(np.random.randint(np.iinfo(np.int32).max))  # noqa: NPY002
    if not isinstance(random_state, np.random.RandomState):
        random_state = np.random.RandomState(random_state)
    return int(random_state.randint(np.iinfo(np.int32).max))


def observed_values(table: ArraySource) -> NDArray[np.bool_]:
    """(n, d)."""
    rows = table.collect()
    return ~np.isnan(rows) if isinstance(rows, np.ndarray) else np.ones(rows.shape, dtype=bool)


def _resampling(table: ArraySource, w: Array) -> Draw:
    """Rows of the table drawn with replacement."""
    rows, observed = table.collect(), observed_values(table)
    sd, names = table.cell_sd, table.names
    return lambda rng: ArraySource(
        rows, weight=resampled(observed, w, rng), cell_sd=sd, names=names
    )


def _drawing(table: ArraySource, w: Array, model: LinearGaussian) -> Draw:
    """Tables drawn from the fitted model, with the missing values and weights of this one.

    A row that counts w times, w whole, is w rows, each with noise of its own.
    """
    observed, sd = observed_values(table), table.cell_sd
    counts = np.round(w).astype(np.intp)
    if w.max() > 1.0 and np.array_equal(counts, w):
        observed = np.repeat(observed, counts, axis=0)
        sd = None if sd is None else np.repeat(sd, counts, axis=0)
        w = np.ones(len(observed))

    def draw(rng: np.random.Generator) -> ArraySource:
        drawn = model.sample(len(w), rng)
        if sd is not None:
            drawn += np.nan_to_num(sd) * rng.standard_normal(drawn.shape)
        values = np.where(observed, drawn, np.nan)
        return ArraySource(values, weight=w, cell_sd=sd, names=table.names)

    return draw


def resampled(observed: NDArray[np.bool_], weight: Array, rng: np.random.Generator) -> Array:
    """How often each row was drawn, (n,): as many draws as the weights (frequencies) sum to.

    A draw that shows a column in fewer than two rows is no table to fit and is repeated.
    """
    sum_w = float(np.sum(weight))
    draws = max(round(sum_w), 2)
    for _ in range(TRIES):
        counts = rng.multinomial(draws, weight / sum_w).astype(np.float64)
        if np.all(np.count_nonzero(observed[counts > 0], axis=0) >= LEAST_OBSERVED):
            return np.asarray(counts * (sum_w / draws))
    cells = np.count_nonzero(observed[weight > 0], axis=0)
    column = int(np.argmin(cells))
    raise ValueError(
        f"the rows cannot be resampled: {TRIES} draws in a row showed some column in fewer than "
        f"{LEAST_OBSERVED} rows. Column {column} has {cells[column]} observed value(s); "
        'drop it, or use method="parametric" or "asymptotic"'
    )
