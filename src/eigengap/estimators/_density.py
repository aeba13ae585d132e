"""The density estimators that the classifier and the regressor are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from eigengap.estimators._base import SHARED_CONSTRAINTS
from eigengap.estimators._sklearn_compat import HasMethods, Interval, StrOptions
from eigengap.estimators.factor_analysis import FactorAnalysis
from eigengap.estimators.ppca import PPCA
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.runtime.warnings import captured, warn

NEARLY_NONE = 1e-10  # share of a column's variance below which its noise counts as none

# Parameters that both hand on to PPCA or FactorAnalysis, beside n_components.
HANDED_ON = ("tol", "max_iter", "n_init", "random_state", "verbose")

CONSTRAINTS: dict[str, list[Any]] = {
    **SHARED_CONSTRAINTS,
    "noise": [StrOptions({"isotropic", "diagonal"})],
    "tol": [Interval(Real, 0, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left")],
}


def density(owner: Any, methods: list[str], scale: bool) -> Any:
    """An unfitted estimator as the owner's parameters ask for it.

    `estimator`, where given, is cloned and must have `methods`; else `noise` decides.
    """
    if owner.estimator is not None:
        _require(owner, methods)
        return clone(owner.estimator)
    kind = PPCA if owner.noise == "isotropic" else FactorAnalysis
    options = {name: getattr(owner, name) for name in HANDED_ON}
    return kind(owner.n_components, scale=scale, **options)


def _require(owner: Any, methods: list[str]) -> None:
    if not HasMethods(methods).is_satisfied_by(owner.estimator):
        raise ValueError(
            f"estimator={type(owner.estimator).__name__} must have the methods "
            f"{', '.join(methods)}: PPCA, FactorAnalysis, BayesianPCA and MixturePPCA have"
        )
    if owner.n_components != "auto":
        raise ValueError(
            f"n_components={owner.n_components} has no effect beside an estimator of its own; give "
            "it to the estimator"
        )


def has_density(estimator: Any) -> bool:
    """Whether a complete row has a density, and not one of almost no width."""
    model = getattr(estimator, "model_", None)
    if not isinstance(model, LinearGaussian):
        return True
    variance = np.einsum("jq,jq->j", model.W, model.W) + model.psi
    exact = model.W[model.psi <= NEARLY_NONE * variance] if np.any(variance > 0) else model.W
    return int(np.linalg.matrix_rank(exact)) == len(exact) if len(exact) else True


@contextmanager
def warnings_about(what: str, but: tuple[type[Warning], ...] = ()) -> Iterator[None]:
    """Repeat warnings of the inner fit, but some kinds, with a word on which fit it was."""
    with captured() as heard:
        yield
    for told in heard:
        if not issubclass(told.category, but):
            warn(f"{what}: {told.message}", told.category)
