"""A mixture in the plane that shows most of it.

The axes are the leading left singular vectors of [sqrt(pi_k) W_k, sqrt(pi_k) (mu_k - mu)]: what the
components explain within themselves and how far they lie apart, the noise left aside; in units of
the fit. Rows are projected with their missing values at their expected values, components as
Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array, sign_rule
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.plots.numbers.names import labels
from eigengap.plots.numbers.rows import all_rows, bare
from eigengap.plots.numbers.scores import ScoreEllipses


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows and components of a mixture along some of its axes."""

    points: Array  # (m, 2)
    resp: Array  # (m, K)
    ellipses: ScoreEllipses  # (K,) of the components
    weights: Array  # (K,)
    names: list[str]
    share: Array  # (2,) of the variance that the axes have shown, noise aside


def mixture_numbers(
    estimator: Any, X: Any, axes: tuple[int, ...] = (0, 1), level: float = 0.95
) -> Clusters:
    """Rows X (m, d) and the components of a fitted mixture, projected."""
    X = all_rows(X, estimator).X
    mixture, unit, names = _parts(estimator)
    mu = mixture.mean() / unit
    models = [model.gaussian.rescaled(1.0 / unit) for model in mixture.models]
    weights = mixture.weights
    spread = np.hstack(
        [
            np.sqrt(w) * np.column_stack([m.W, m.mu - mu])
            for w, m in zip(weights, models, strict=True)
        ]
    )
    U, s, _ = np.linalg.svd(spread, full_matrices=False)
    if U.shape[1] <= max(axes):
        raise ValueError(
            f"axes={tuple(a + 1 for a in axes)}: the components of the mixture span "
            f"{U.shape[1]} direction{'s' if U.shape[1] != 1 else ''}"
        )
    P = (U * sign_rule(U))[:, list(axes)]
    imputed = mixture.conditional_mean(X) / unit
    centre = np.array([(m.mu - mu) @ P for m in models])
    cov = np.array([_projected(m, P) for m in models])
    which = np.arange(len(models))
    return Clusters(
        points=(imputed - mu) @ P,
        resp=np.asarray(bare(estimator).predict_proba(X)),
        ellipses=ScoreEllipses(which, centre, cov, level),
        weights=weights,
        names=names,
        share=(s[list(axes)] ** 2) / max(float(np.sum(s**2)), 1e-300),
    )


def _projected(model: LinearGaussian, P: Array) -> Array:
    B = P.T @ model.W
    return np.asarray(B @ B.T + (P.T * model.psi) @ P)


def _parts(estimator: Any) -> tuple[MixtureOfLinearGaussians, Array, list[str]]:
    """The mixture in data units, its units, and names of its components."""
    model = getattr(estimator, "model_", None)
    if isinstance(model, MixtureOfLinearGaussians):
        unit = np.ones(model.d) if estimator.scale_ is None else estimator.scale_
        return model, unit, [f"component {k}" for k in range(model.K)]
    densities = [getattr(one, "model_", None) for one in getattr(estimator, "models_", [])]
    if densities and all(isinstance(one, LinearGaussian) for one in densities):
        unit = estimator.scale_
        d = densities[0].d  # type: ignore[union-attr]
        unit = np.ones(d) if unit is None else np.asarray(unit)
        models = [one.gaussian.rescaled(unit) for one in densities]  # type: ignore[union-attr]
        prior = np.log(np.maximum(estimator.class_prior_, 1e-300))
        names = labels(estimator.classes_)
        return MixtureOfLinearGaussians(prior, models), unit, names
    raise AttributeError(
        f"{public_name(estimator)} has no components of a mixture. MixturePPCA and "
        "PPCAClassifier, whose classes they are, have them"
    )
