"""Likelihood-ratio tests between nested linear-Gaussian models (Wilks 1938).

    D = 2 (ln L(larger) - ln L(smaller))

Isotropic against diagonal noise (PPCA against factor analysis of equal rank) is regular: under the
smaller model D tends to chi2 with d - 1 degrees of freedom. The rank (q against q + 1 components)
is not: under the smaller model the loadings of the additional component are 0, where its direction
is not identified, and D tends to the largest of many variables, far above chi2. So the rank is
tested by the parametric bootstrap (McLachlan 1987): D of tables drawn from the fitted smaller
model, with the missing values of the true one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import numpy as np
import scipy.special

from eigengap.comparison.compare import seed_of, unfitted
from eigengap.fitting.gaussian.fit import fit_factor_analysis, fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.inference.confidence import observed_values
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.threads import in_threads
from eigengap.runtime.warnings import silence
from eigengap.selection.inner_fits import fit_rows
from eigengap.selection.rank import factor_parameters, ppca_parameters
from eigengap.sources import ArraySource, Rescaled, as_source, in_memory, missing_codes
from eigengap.wording import counted

Method = Literal["auto", "chi2", "bootstrap"]
METHODS: tuple[Method, ...] = ("auto", "chi2", "bootstrap")
OURS = "eigengap."
ISOTROPIC, FACTORS = "PPCA", "FactorAnalysis"
SHORT = 1e-6  # of the log-likelihood, by which a larger model may fall short through its tolerance


@dataclass(frozen=True, eq=False)
class LikelihoodRatioTest:
    """A test of a smaller model against a larger one.

    Attributes
    ----------
    statistic : float, 2 (ln L(larger) - ln L(smaller))
    df : int, free parameters that the larger model has more
    p_value : float
    method : "chi2" or "bootstrap"
    replicates : array (n_boot,), the statistic under the smaller model; empty for chi2
    log_likelihoods : of the smaller and of the larger model
    summary : str
    """

    statistic: float
    df: int
    p_value: float
    method: str
    replicates: Array
    log_likelihoods: tuple[float, float]
    summary: str

    def __repr__(self) -> str:
        return self.summary


def likelihood_ratio_test(
    smaller: Any,
    larger: Any,
    X: Any,
    *,
    method: Method = "auto",
    sample_weight: Any = None,
    n_boot: int = 199,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> LikelihoodRatioTest:
    """Test PPCA or FactorAnalysis against a larger model of the same data.

    Parameters
    ----------
    smaller, larger : PPCA or FactorAnalysis
        With n_components given: PPCA of q and q + 1 components, FactorAnalysis likewise, or PPCA
        and FactorAnalysis of the same q. They are copied and fitted to X. The larger one has to
        contain the smaller one: what it is given (noise_variance, fit_mean=False) and what marks a
        missing value must be given to the smaller one too.
    X : table of shape (n_samples, n_features)
        NaN marks a missing value.
    method : {"auto", "chi2", "bootstrap"}, default="auto"
        "auto" is chi2 where the ranks are equal (regular) and the parametric bootstrap where they
        differ, because chi2 rejects a true rank far too often.
    sample_weight : array of shape (n_samples,), default=None
        Frequencies.
    n_boot : int, default=199
        Tables drawn; p-values are multiples of 1 / (n_boot + 1).
    random_state : int, Generator, RandomState or None, default=0
        Of the drawn tables; None draws other ones every time.
    n_jobs : int, default=None
        Threads that fit the drawn tables; -1 for one a core.

    Returns
    -------
    LikelihoodRatioTest

    Notes
    -----
    Where the fit of the larger model ends below the smaller one, at a local maximum, it is climbed
    again from the smaller one, which lies in it: of the table and of the drawn ones alike.

    Examples
    --------
    >>> from eigengap import PPCA, FactorAnalysis
    >>> from eigengap.comparison.likelihood_ratio import likelihood_ratio_test
    >>> from sklearn.datasets import load_iris
    >>> test = likelihood_ratio_test(PPCA(1), FactorAnalysis(1), load_iris().data)
    >>> test.df, test.method, test.p_value < 0.001
    (3, 'chi2', True)
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    _require_gaussian(smaller, larger)
    if why := _why_not_nested(smaller, larger):
        raise ValueError(
            f"{_called(smaller)} is not nested in {_called(larger)}: {why}. Give the smaller model "
            "first, of the same kind with fewer components, or PPCA against FactorAnalysis"
        )
    given = as_source(X, sample_weight=sample_weight, missing_values=smaller.missing_values)
    table = in_memory(given).present()
    df = _parameters(larger, table.n_features) - _parameters(smaller, table.n_features)
    if df <= 0:
        raise ValueError(
            f"{_called(smaller)} is not nested in {_called(larger)} as a smaller model: of "
            f"{table.n_features} columns both have the same number of free parameters. Test fewer "
            "components"
        )
    first, second = _fit(smaller, table), _fit(larger, table)
    rank = second.n_components_ - first.n_components_
    how = ("chi2" if rank == 0 else "bootstrap") if method == "auto" else method
    log_likelihoods = _log_likelihoods(table, first, second)
    statistic, replicates = _statistic(*log_likelihoods), np.empty(0)
    if how == "chi2":
        p_value = float(scipy.special.chdtrc(df, statistic))
        by = f"chi2 with {df} degrees of freedom"
    else:
        replicates = _replicates(table, first, smaller, larger, n_boot, random_state, n_jobs)
        p_value = (1 + int(np.sum(replicates >= statistic))) / (n_boot + 1)
        by = f"{n_boot} simulated tables"
    summary = (
        f"{_called(first)} against {_called(second)}: 2 ln LR = {statistic:.4g}, "
        f"p = {p_value:.3g} by {by}"
    )
    if how == "chi2" and rank > 0:
        summary += (
            "; chi2 is wrong for a test of rank (the additional component is not identified under "
            "the smaller model) and rejects far too often"
        )
    return LikelihoodRatioTest(statistic, df, p_value, how, replicates, log_likelihoods, summary)


def _fit(model: Any, table: ArraySource) -> Any:
    fresh = unfitted(model).set_params(missing_values=nan)
    return fit_rows(fresh, table.collect(), table.names, weight=table.weight)


def _log_likelihoods(table: ArraySource, smaller: Any, larger: Any) -> tuple[float, float]:
    """Of both fits; the larger one climbed from the smaller one where it ended below it.

    It then starts as the smaller one, further loadings 0.
    """
    low, high = float(smaller.log_likelihood_), float(larger.log_likelihood_)
    if high >= low:
        return low, high
    q, model = larger.n_components_, smaller.model_
    W = np.hstack([model.W, np.zeros((model.d, q - model.q))])
    unit = np.ones(model.d) if larger.scale_ is None else larger.scale_
    start = LinearGaussian(W=W, mu=model.mu, psi=model.psi).rescaled(1.0 / unit)
    options = EMOptions(tol=larger.tol, max_iter=larger.max_iter, start=start)
    rows = Rescaled(table, unit)
    if _kind(larger) == FACTORS:
        fit = fit_factor_analysis(rows, q, options=options)
    else:
        sigma2, fit_mean = larger.noise_variance, larger.fit_mean
        fit = fit_ppca(
            rows, q, solver="em", noise_variance=sigma2, fit_mean=fit_mean, options=options
        )
    return low, max(high, fit.log_likelihood - float(fit.observed_w @ np.log(unit)))


def _replicates(
    table: ArraySource,
    null: Any,
    smaller: Any,
    larger: Any,
    n_boot: int,
    random_state: Any,
    n_jobs: int | None,
) -> Array:
    """The statistic of n_boot tables of the fitted smaller model.

    A row of weight w stands for w rows, and as many are drawn in its place, with its missing
    values.
    """
    if n_boot < 1:
        raise ValueError(f"n_boot must be at least 1, got {n_boot}")
    observed = observed_values(table)
    if table.weight is not None:
        whole = np.round(table.weight).astype(np.intp)
        if not np.array_equal(whole, table.weight):
            raise ValueError(
                "the bootstrap draws rows, so that sample_weight must hold whole numbers of them; "
                'use method="chi2" where the ranks are equal'
            )
        observed = np.repeat(observed, whole, axis=0)

    def replicate(stream: np.random.SeedSequence) -> float:
        drawn = null.model_.sample(len(observed), np.random.default_rng(stream))
        again = ArraySource(np.where(observed, drawn, np.nan), names=table.names)
        return _statistic(*_log_likelihoods(again, _fit(smaller, again), _fit(larger, again)))

    streams = np.random.SeedSequence(seed_of(random_state)).spawn(n_boot)
    with silence():  # Heywood cases of a replicate are part of the null
        return np.array(in_threads(replicate, streams, n_jobs))


def _statistic(smaller: float, larger: float) -> float:
    twice = 2.0 * (larger - smaller)
    if not np.isfinite(twice):
        raise ValueError(
            "the likelihood has no maximum: a model has so many components that its covariance is "
            "singular. Test fewer components"
        )
    if twice < -2.0 * SHORT * abs(smaller):
        raise ValueError(
            f"the larger model has the smaller likelihood ({larger:.8g} against {smaller:.8g}): "
            "its fit has stopped short (try a lower tol, a larger max_iter, or n_init > 1), or its "
            "noise variances lie at their floor, where the test does not apply (test fewer "
            "components)"
        )
    return max(float(twice), 0.0)


def _kind(model: Any) -> str:
    """The name of the class that the model is of, or derives from; "" for others."""
    names = {base.__name__ for base in type(model).__mro__ if base.__module__.startswith(OURS)}
    return next((name for name in (ISOTROPIC, FACTORS) if name in names), "")


def _require_gaussian(*models: Any) -> None:
    """Refuse what is not a given model that is fitted by maximum likelihood."""
    for model in models:
        student = getattr(model, "distribution", "gaussian") == "student"
        if not _kind(model) or student:
            raise ValueError(
                "the test is between PPCA and FactorAnalysis with Gaussian rows, got "
                + type(model).__name__
                + (' with distribution="student"' if student else "")
            )
        if not isinstance(model.n_components, int | np.integer):
            raise ValueError(
                f"{type(model).__name__} must have n_components as a number: a test needs two "
                "given models, not ones that choose"
            )
        if getattr(model, "loading_precision", 0.0):
            raise ValueError(
                "a likelihood-ratio test needs maximum likelihood: loading_precision=0"
            )


def _why_not_nested(smaller: Any, larger: Any) -> str:
    if missing_codes(smaller.missing_values) != missing_codes(larger.missing_values):
        return "missing_values differ, so that they are fitted to different tables"
    if _kind(smaller) == FACTORS and _kind(larger) == ISOTROPIC:
        return "the noise of PPCA is the same in all columns"
    if smaller.n_components > larger.n_components:
        most = counted(smaller.n_components, "component")
        return f"it has {most}, the other {larger.n_components}"
    scales = {bool(model.scale) for model in (smaller, larger) if _kind(model) == ISOTROPIC}
    if len(scales) > 1 or (True in scales and _kind(larger) == FACTORS):
        return (
            "PPCA with scale=True has its noise equal in estimated units; use scale=False, or "
            "standardise X beforehand"
        )
    if _kind(larger) == FACTORS:
        return ""
    if smaller.fit_mean and not larger.fit_mean:
        return "the larger model has fit_mean=False, and the smaller one learns its mean"
    if larger.noise_variance is not None and smaller.noise_variance != larger.noise_variance:
        return (
            f"the larger model is given noise_variance={larger.noise_variance}, the smaller one "
            f"{smaller.noise_variance}"
        )
    return ""


def _parameters(model: Any, d: int) -> int:
    """Free parameters; what was given and not learned is not free."""
    q = int(model.n_components)
    if _kind(model) == FACTORS:
        return factor_parameters(d, q)
    free = ppca_parameters(d, q) - (0 if model.fit_mean else d)
    if model.noise_variance is None:
        return free
    # With the noise given, q = d is more than q = d - 1: the last eigenvalue is free.
    return free - (1 if q < d else 0)


def _called(model: Any) -> str:
    return f"{type(model).__name__}({model.n_components})"
