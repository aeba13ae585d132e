"""The fitted estimator as the report asks it: by bare arrays, and never changed.

Of a pipeline it is the model at its end, with the table as it reaches that model.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from math import nan
from os import PathLike
from typing import Any

import numpy as np

import eigengap
from eigengap.estimators.shared.display import has_stopped_early
from eigengap.fitting.columns.kinds import Ordinal
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.plots.numbers.names import clean, component_names, distinct
from eigengap.plots.numbers.rows import bare, coded_table
from eigengap.registry import Estimator, entry_of
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import Source, is_dask, library_of, like


@dataclass(frozen=True, eq=False)
class Subject:
    """An estimator that was fitted, and what it can be asked.

    `bare` is a shallow copy that takes arrays without names and with NaN for every missing value.
    """

    given: Any
    bare: Any
    wrapped: str  # a sentence where the model is that of an inner estimator
    names: tuple[str, ...] | None  # of the columns of the fit
    codes: Any  # values that mark a missing value, as NaN does

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
        coded = coded_table(estimator)
        if coded is not None:
            names = None if coded.names is None else [coded.names[j] for j in coded.used]
        codes = getattr(estimator, "missing_values", nan)
        if inner is not None and isinstance(codes, float) and codes != codes:
            codes = getattr(inner, "missing_values", nan)
        plain = bare(shown)
        if "missing_values" in plain.__dict__:
            plain.missing_values = nan
        return cls(
            given=estimator,
            bare=plain,
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
    def coded(self) -> CodedTable | None:
        """How a fit to columns of several kinds reads tables; None of a fit to numbers."""
        found: CodedTable | None = coded_table(self.given)
        return found

    @property
    def converged(self) -> bool | None:
        """None where there is nothing to converge, or the fit was stopped early on purpose."""
        found = getattr(self.bare, "converged_", None)
        early = any(map(has_stopped_early, (self.given, self.bare)))
        return None if early and not found else found

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
        try:
            defaults = type(self.given)().get_params(deep=False)
        except TypeError:  # a class that cannot be made without parameters
            defaults = {}
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
        if self.coded is not None:  # of coded values, whose kinds and orders of levels are known
            kinds = (self.coded.kinds[j] for j in self.coded.used)
            codes = (Ordinal() if isinstance(kind, Ordinal) else kind for kind in kinds)
            parameters["columns"] = dict(enumerate(codes))
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


# Pipelines -------------------------------------------------------------------------------------


def is_pipeline(estimator: Any) -> bool:
    """Whether it is scikit-learn's Pipeline, or made like it."""
    return hasattr(estimator, "steps") and hasattr(estimator, "named_steps")


def last_of(pipeline: Any) -> Any:
    """The fitted estimator at the end of a pipeline."""
    last = pipeline.steps[-1][1]
    if not hasattr(last, "get_params"):
        raise ValueError(
            f"the last step of this pipeline is {last!r}, of which there is nothing to report; "
            "report pipeline[:k] that ends with a model"
        )
    return last


def handed_over(pipeline: Any, X: Any) -> tuple[Any, Any, str]:
    """The last estimator with names for its columns, the table that it gets, and what to say."""
    last = last_of(pipeline)
    if len(pipeline.steps) == 1:
        return last, X, ""
    if isinstance(X, str | PathLike | Source) or is_dask(X):
        raise ValueError(
            f"the steps before {type(last).__name__} take a table in memory: read the file first, "
            "e.g. pandas.read_csv(path), and give the array or frame"
        )
    before = pipeline[:-1]
    table = before.transform(X)
    steps = ", ".join(clean(type(step).__name__) for _, step in before.steps)
    said = (
        f"{clean(type(last).__name__)} is the last step of a pipeline: columns are shown as "
        f"{steps} handed them over, in the units that they have there."
    )
    names = _names(last, before)
    if names is None:
        return last, table, said
    named = copy.copy(last)
    named.feature_names_in_ = np.array(names, dtype=object)
    if isinstance(table, np.ndarray) and library_of(X) is not None:
        table = like(X, table, columns=names)
    return named, table, said


def _names(last: Any, before: Any) -> list[str] | None:
    """Of the columns that the last step gets; None where they are unknown."""
    if hasattr(last, "feature_names_in_"):
        return [str(name) for name in last.feature_names_in_]
    try:
        names = [str(name) for name in before.get_feature_names_out()]
    except (AttributeError, ValueError):
        return None
    return names if len(names) == last.n_features_in_ == len(set(names)) else None
