"""The fitted estimator as the report asks it: by bare arrays, and never changed."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

import eigengap
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.plots.numbers.scores import component_names
from eigengap.registry import Estimator, entry_of
from eigengap.reporting.words import distinct


@dataclass(frozen=True, eq=False)
class Subject:
    """An estimator that was fitted, and what it can be asked.

    `bare` is a shallow copy that takes arrays without names and with NaN for every missing value.
    """

    given: Any
    bare: Any
    wrapped: str  # a sentence where the model is that of an inner estimator
    names: tuple[str, ...] | None  # of the columns of the fit
    codes: Any  # values that mark a missing value beside NaN

    @classmethod
    def of(cls, estimator: Any) -> Subject:
        if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
            raise TypeError(f"a report needs a fitted estimator, and this is {estimator!r}")
        kind, shows = type(estimator).__name__, entry_of(estimator).shows
        if not hasattr(estimator, "n_features_in_"):
            raise ValueError(f"this {kind} is not fitted yet; call fit(X) before the report")
        inner = getattr(estimator, "estimator_", None) if shows else None
        shown = estimator if inner is None else inner
        if not (hasattr(shown, "transform") or hasattr(shown, "embedding_")):
            raise ValueError(
                f"{kind} places rows nowhere (it has no transform), so that there is nothing to "
                "draw; report the PPCA, PCA, ... that was fitted to the same rows"
            )
        wrapped = "" if inner is None else shows.format(inner=_described(inner))
        names = getattr(estimator, "feature_names_in_", None)
        codes = getattr(estimator, "missing_values", nan)
        if inner is not None and _is_nan(codes):
            codes = getattr(inner, "missing_values", nan)
        return cls(
            given=estimator,
            bare=_bare(shown),
            wrapped=wrapped,
            names=None if names is None else tuple(map(str, names)),
            codes=codes,
        )

    @property
    def kind(self) -> str:
        """The public name of the estimator's class."""
        return public_name(self.bare)

    @property
    def entry(self) -> Estimator:
        return entry_of(self.bare)

    @property
    def converged(self) -> bool | None:
        """None where there is nothing to converge, or the fit was stopped early on purpose."""
        found = getattr(self.bare, "converged_", None)
        return None if type(self.bare).__name__ != self.kind else found

    @property
    def n_features(self) -> int:
        return int(self.bare.n_features_in_)

    @property
    def is_pairwise(self) -> bool:
        """Whether X holds distances, similarities or edges between rows instead of columns."""
        tags = getattr(self.bare, "__sklearn_tags__", None)
        return tags is not None and bool(tags().input_tags.pairwise)

    @property
    def gaussian(self) -> LinearGaussian | None:
        """The linear-Gaussian density, where there is one."""
        model = getattr(self.bare, "model_", None)
        return model if isinstance(model, LinearGaussian) else None

    @property
    def student(self) -> StudentLinearGaussian | None:
        model = getattr(self.bare, "model_", None)
        return model if isinstance(model, StudentLinearGaussian) else None

    @property
    def mixture(self) -> MixtureOfLinearGaussians | None:
        model = getattr(self.bare, "model_", None)
        return model if isinstance(model, MixtureOfLinearGaussians) else None

    @property
    def imputes(self) -> bool:
        return hasattr(self.bare, "impute")

    @property
    def n_components(self) -> int | None:
        """None where every part of a mixture has a number of its own."""
        found = getattr(self.bare, "n_components_", None)
        if found is None:
            found = getattr(self.bare, "n_components", None)
        return int(found) if isinstance(found, int | np.integer) else None

    def axis_names(self, q: int) -> tuple[str, ...]:
        """Of the coordinates that `transform` gives."""
        named = self.bare if self.wrapped else self.given
        try:
            names = distinct(component_names(named))
        except (AttributeError, ValueError):
            names = ()
        return names if len(names) == q else tuple(f"Axis {k + 1}" for k in range(q))

    def unusual_parameters(self) -> dict[str, Any]:
        """Parameters that differ from their defaults."""
        given = self.given.get_params(deep=False)
        defaults = type(self.given)().get_params(deep=False) if _has_defaults(self.given) else {}
        return {
            name: value
            for name, value in given.items()
            if name not in defaults or repr(value) != repr(defaults[name])
        }

    def refitted(self, X: Any, seed: int) -> Any:
        """A new estimator with the same parameters and number of components, fitted to X."""
        parameters = dict(self.bare.get_params(deep=False))
        kept = getattr(self.bare, "n_components_", None)
        if "n_components" in parameters and kept is not None:
            parameters["n_components"] = list(kept) if isinstance(kept, tuple) else int(kept)
        if parameters.get("random_state", 0) is None:
            parameters["random_state"] = seed
        defaults = type(self.bare)().get_params(deep=False)
        for name in ("verbose", "checkpoint"):
            if name in parameters:
                parameters[name] = defaults[name]
        return type(self.bare)(**parameters).fit(X)


def public_name(estimator: Any) -> str:
    """Of the nearest class that users know by name; column means have none."""
    if hasattr(type(estimator), "_public_name"):
        return str(type(estimator)._public_name)
    names = [cls.__name__ for cls in type(estimator).__mro__]
    return next((name for name in names if name in eigengap.__all__), names[0])


def _described(inner: Any) -> str:
    """The model, and whether it was stopped before its maximum on purpose."""
    kind, steps = public_name(inner), getattr(inner, "n_iter_", None)
    if type(inner).__name__ == kind or steps is None or getattr(inner, "converged_", True):
        return kind
    return f"{kind}, stopped after {steps} step{'s' if steps != 1 else ''}"


def _bare(estimator: Any) -> Any:
    bare = copy.copy(estimator)
    bare.__dict__.pop("feature_names_in_", None)
    if "missing_values" in bare.__dict__:
        bare.missing_values = nan
    return bare


def _has_defaults(estimator: Any) -> bool:
    try:
        type(estimator)()
    except TypeError:
        return False
    return True


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value
