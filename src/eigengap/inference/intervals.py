"""Confidence intervals of a fitted model's parameters, as a value.

Built from standard errors, whoever computed them (`inference.confidence`, `inference.asymptotics`):

    loadings, mean       estimate -+ t se
    explained variance   estimate exp(-+ t se of its logarithm)
    noise variance       the same, about the estimate freed from its bias

with t Student's quantile at n - 1 degrees of freedom. Variances go through the logarithm, which
makes their variance constant (Anderson 1963) and the limits positive. Maximum likelihood
underestimates the noise as a regression without its degrees of freedom does, so that part is
corrected; the upward bias of sorted eigenvalues is not, because correcting it was measured to lose
coverage (docs/intervals.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.sources import new_frame


@dataclass(frozen=True, eq=False)
class Interval:
    """An estimate with its limits; all arrays have the estimate's shape."""

    estimate: Array
    low: Array
    high: Array
    se: Array  # of the estimate, or of its logarithm for a variance

    @classmethod
    def around(cls, estimate: Array, se: Array, quantile: float) -> Interval:
        return cls(estimate, estimate - quantile * se, estimate + quantile * se, se)

    @classmethod
    def of_variance(
        cls, estimate: Array, log_se: Array, quantile: float, log_bias: Array | float = 0.0
    ) -> Interval:
        """Limits on the logarithm's scale, about an estimate without its bias."""
        centre = estimate * np.exp(-np.asarray(log_bias))
        with np.errstate(over="ignore"):  # a variance of which nothing is known: 0 to infinity
            factor = np.exp(quantile * log_se)
        return cls(estimate, centre / factor, centre * factor, log_se)

    def covers(self, truth: Any) -> Any:
        """Whether the limits enclose `truth`, entry by entry."""
        return (self.low <= truth) & (truth <= self.high)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Confidence intervals for the parameters of a linear-Gaussian model.

    Attributes
    ----------
    loadings : Interval of shape (d, q)
        In data units, as `loadings_`.
    explained_variance : Interval of shape (q,)
        As `explained_variance_`: divisor n - 1, in standardised units where scale=True.
    mean : Interval of shape (d,)
    noise_variance : Interval of shape (1,) or (d,)
        As `noise_variance_`.
    level : float
    method : "bootstrap", "parametric" or "asymptotic"
    align : "rotation" or "axes"
    n_boot : number of replicates, 0 for asymptotic intervals
    not_converged : replicates whose fit did not converge
    names : names of the d features, or None
    """

    loadings: Interval
    explained_variance: Interval
    mean: Interval
    noise_variance: Interval
    level: float
    method: str
    align: str
    n_boot: int
    not_converged: int = 0
    names: tuple[str, ...] | None = None

    @property
    def summary(self) -> str:
        """What the intervals are, in words."""
        how = {
            "bootstrap": f"{self.n_boot} tables of resampled rows",
            "parametric": f"{self.n_boot} tables drawn from the fitted model",
            "asymptotic": "the asymptotic covariance of maximum likelihood",
        }[self.method]
        turned = {
            "rotation": "loadings are compared after turning the latent axes onto the fit's",
            "axes": "every component keeps its own axis, so that loadings also move as axes turn "
            "among themselves",
        }[self.align]
        apart = int(np.sum((self.loadings.low > 0) | (self.loadings.high < 0)))
        words = (
            f"{self.level:.0%} intervals from {how}; {turned}. {apart} of "
            f"{self.loadings.estimate.size} loadings differ from 0"
        )
        if self.not_converged:
            words += f"; {self.not_converged} of {self.n_boot} fits did not converge"
        return words

    def to_frame(self) -> Any:
        """One line a number: parameter, feature, component, estimate, low, high."""
        d, q = self.loadings.estimate.shape
        features = list(self.names or (f"x{j}" for j in range(d)))
        noise = features if len(self.noise_variance.estimate) == d else ["all"]
        lines = [
            *(("loading", features[j], k + 1) for j in range(d) for k in range(q)),
            *(("explained_variance", "all", k + 1) for k in range(q)),
            *(("mean", name, 0) for name in features),
            *(("noise_variance", name, 0) for name in noise),
        ]
        parts = (self.loadings, self.explained_variance, self.mean, self.noise_variance)
        numbers = {
            field: np.concatenate([getattr(part, field).ravel() for part in parts])
            for field in ("estimate", "low", "high")
        }
        parameter, feature, component = (list(part) for part in zip(*lines, strict=True))
        return new_frame(
            {"parameter": parameter, "feature": feature, "component": component, **numbers}
        )

    def __repr__(self) -> str:
        variance = self.explained_variance
        rows = [
            f"  component {k + 1}: explained variance {e:.4g} [{low:.4g}, {high:.4g}]"
            for k, (e, low, high) in enumerate(
                zip(variance.estimate, variance.low, variance.high, strict=True)
            )
        ]
        return "\n".join([f"Intervals: {self.summary}", *rows])


def require_level(level: float) -> None:
    """Refuse what is no probability of an interval."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
