"""Likelihood-ratio tests between nested linear-Gaussian models (Wilks 1938).

    D = 2 (ln L(larger) - ln L(smaller))

Isotropic against diagonal noise (PPCA against factor analysis of equal rank) is regular: under the
smaller model D tends to chi2 with d - 1 degrees of freedom. The rank (q against q + 1 components)
is not: under the smaller model the loadings of the additional component are 0, where its direction
is not identified, and D tends to the largest of many variables, far above chi2. So the rank is
tested by the parametric bootstrap (McLachlan 1987): D of tables drawn from the fitted smaller
model, with the gaps of the true one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any, Literal

import numpy as np
import scipy.special
from numpy.typing import NDArray

from eigengap.comparison.unfitted import unfitted
from eigengap.linalg import Array
from eigengap.models.linear_gaussian import LinearGaussian
from eigengap.rank import factor_parameters, ppca_parameters
from eigengap.sources import as_source
from eigengap.threads import in_threads
from eigengap.warn import silence

Method = Literal["auto", "chi2", "bootstrap"]
METHODS: tuple[Method, ...] = ("auto", "chi2", "bootstrap")
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
    random_state: int = 0,
    n_jobs: int | None = None,
) -> LikelihoodRatioTest:
    """Test PPCA or FactorAnalysis against a larger model of the same data.

    Parameters
    ----------
    smaller, larger : PPCA or FactorAnalysis
        With n_components given: PPCA of q and q + 1 components, FactorAnalysis likewise, or PPCA
        and FactorAnalysis of the same q. They are copied and fitted to X.
    X : table of shape (n_samples, n_features)
        NaN marks a gap.
    method : {"auto", "chi2", "bootstrap"}, default="auto"
        "auto" is chi2 where the ranks are equal (regular) and the parametric bootstrap where they
        differ, because chi2 rejects a true rank far too often.
    sample_weight : array of shape (n_samples,), default=None
        Frequencies.
    n_boot : int, default=199
        Tables drawn; p-values are multiples of 1 / (n_boot + 1).
    random_state : int, default=0
    n_jobs : int, default=None
        Threads that fit the drawn tables; -1 for one a core.

    Returns
    -------
    LikelihoodRatioTest

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
    table = _Table.of(smaller, larger, X, sample_weight)
    first, second = table.fit(smaller), table.fit(larger)
    _require_gaussian(first, second)
    df = _parameters(second) - _parameters(first)
    _require_nested(first, second, df)
    rank = second.n_components_ - first.n_components_
    how = ("chi2" if rank == 0 else "bootstrap") if method == "auto" else method
    statistic = _statistic(first, second)
    if how == "chi2":
        p_value, replicates = float(scipy.special.chdtrc(df, statistic)), np.empty(0)
    else:
        replicates = table.replicates(first, smaller, larger, n_boot, random_state, n_jobs)
        p_value = (1 + int(np.sum(replicates >= statistic))) / (n_boot + 1)
    return LikelihoodRatioTest(
        statistic=statistic,
        df=df,
        p_value=p_value,
        method=how,
        replicates=replicates,
        log_likelihoods=(first.log_likelihood_, second.log_likelihood_),
        summary=_summary(first, second, statistic, df, p_value, how, rank, n_boot),
    )


@dataclass(frozen=True, eq=False)
class _Table:
    values: Any  # (n, d), NaN where unseen
    weight: Array | None

    @classmethod
    def of(cls, smaller: Any, larger: Any, X: Any, sample_weight: Any) -> _Table:
        for model in (smaller, larger):
            if not isinstance(getattr(model, "n_components", None), int | np.integer):
                raise ValueError(
                    f"{type(model).__name__} must have n_components as a number: a test needs two "
                    "given models, not ones that choose"
                )
        codes = getattr(smaller, "missing_values", nan)
        source = as_source(X, sample_weight=sample_weight, missing_values=codes).present()
        return cls(source.collect(), getattr(source, "weight", None))

    def fit(self, model: Any, values: Any = None) -> Any:
        fresh = unfitted(model).set_params(missing_values=nan)
        return fresh.fit(self.values if values is None else values, None, sample_weight=self.weight)

    def replicates(
        self,
        null: Any,
        smaller: Any,
        larger: Any,
        n_boot: int,
        random_state: int,
        n_jobs: int | None,
    ) -> Array:
        """The statistic of n_boot tables of the fitted smaller model.

        A row of weight w stands for w rows, and as many are drawn in its place, with its gaps.
        """
        if n_boot < 1:
            raise ValueError(f"n_boot must be at least 1, got {n_boot}")
        dense = isinstance(self.values, np.ndarray)
        seen = ~np.isnan(self.values) if dense else np.ones(self.values.shape, dtype=bool)
        if self.weight is not None:
            seen = np.repeat(seen, _whole(self.weight), axis=0)
        repeated = _Table(np.empty(0), None)

        def replicate(stream: np.random.SeedSequence) -> float:
            drawn = null.model_.sample(len(seen), np.random.default_rng(stream))
            drawn = np.where(seen, drawn, np.nan)
            return _statistic(repeated.fit(smaller, drawn), repeated.fit(larger, drawn))

        streams = np.random.SeedSequence(int(random_state)).spawn(n_boot)
        with silence():  # Heywood cases of a replicate are part of the null
            return np.array(in_threads(replicate, streams, n_jobs))


def _whole(weight: Array) -> NDArray[np.intp]:
    """Weights as numbers of rows."""
    whole = np.round(weight).astype(np.intp)
    if not np.array_equal(whole, weight):
        raise ValueError(
            "the bootstrap draws rows, so that sample_weight must hold whole numbers of them; use "
            'method="chi2" where the ranks are equal'
        )
    return whole


def _statistic(smaller: Any, larger: Any) -> float:
    twice = 2.0 * (larger.log_likelihood_ - smaller.log_likelihood_)
    if not np.isfinite(twice):
        raise ValueError(
            "the likelihood has no maximum: a model has so many components that its covariance is "
            "singular. Test fewer components"
        )
    if twice < -2.0 * SHORT * abs(smaller.log_likelihood_):
        raise ValueError(
            f"the larger model has the smaller likelihood ({larger.log_likelihood_:.8g} against "
            f"{smaller.log_likelihood_:.8g}): the models are not nested, or a fit has stopped "
            "short; try a lower tol or n_init > 1"
        )
    return max(float(twice), 0.0)


def _require_gaussian(*fitted: Any) -> None:
    for one in fitted:
        if type(getattr(one, "model_", None)) is not LinearGaussian:
            raise ValueError(
                "the test is between PPCA and FactorAnalysis with Gaussian rows, got "
                f"{type(one).__name__}"
                + (' with noise="student"' if getattr(one, "noise", "") == "student" else "")
            )
        if getattr(one, "loading_precision", 0.0):
            raise ValueError(
                "a likelihood-ratio test needs maximum likelihood: loading_precision=0"
            )
    scales = {bool(getattr(one, "scale", False)) for one in fitted if not _diagonal(one)}
    if (scales == {True} and any(map(_diagonal, fitted))) or len(scales) > 1:
        raise ValueError(
            "PPCA with scale=True has its noise equal in estimated units, which is not nested in "
            "the other model; use scale=False, or standardise X beforehand"
        )


def _require_nested(smaller: Any, larger: Any, df: int) -> None:
    same = smaller.n_features_in_ == larger.n_features_in_
    ranks = smaller.n_components_ <= larger.n_components_
    if not (same and ranks) or df <= 0 or (_diagonal(smaller) and not _diagonal(larger)):
        raise ValueError(
            f"{_called(smaller)} is not nested in {_called(larger)}; give the smaller model first, "
            "of the same kind with fewer components, or PPCA against FactorAnalysis"
        )


def _parameters(fitted: Any) -> int:
    """Free parameters; what was given and not learned is not free."""
    d, q = fitted.n_features_in_, fitted.n_components_
    if _diagonal(fitted):
        return factor_parameters(d, q)
    free = ppca_parameters(d, q)
    free -= 0 if getattr(fitted, "fit_mean", True) else d
    return free - (0 if getattr(fitted, "noise_variance", None) is None else 1)


def _diagonal(fitted: Any) -> bool:
    return np.ndim(fitted.noise_variance_) == 1


def _called(fitted: Any) -> str:
    return f"{type(fitted).__name__}({fitted.n_components_})"


def _summary(
    smaller: Any,
    larger: Any,
    statistic: float,
    df: int,
    p_value: float,
    how: str,
    rank: int,
    n_boot: int,
) -> str:
    by = f"chi2 with {df} degrees of freedom" if how == "chi2" else f"{n_boot} simulated tables"
    words = (
        f"{_called(smaller)} against {_called(larger)}: 2 ln LR = {statistic:.4g}, "
        f"p = {p_value:.3g} by {by}"
    )
    if how == "chi2" and rank > 0:
        words += (
            "; chi2 is wrong for a test of rank (the additional component is not identified under "
            "the smaller model) and rejects far too often"
        )
    return words
