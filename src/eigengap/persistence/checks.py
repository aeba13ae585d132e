"""Whether values have the fields, types and shapes that eigengap gives them.

Types are declared by the classes; `schema` lists shapes and ranges that other code relies on. The
same checks are made when a file is written and when it is read, so that nothing can be saved that
cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from eigengap.persistence.array_nodes import MalformedError
from eigengap.persistence.kinds import Kind, kind_of
from eigengap.persistence.schema import ESTIMATORS, VALUES

PROBED = 20  # points of a Gaussian process at which its variance is checked
MOST_JOBS = 1 << 31
LARGEST = float(np.sqrt(np.finfo(np.float64).max))  # in units of the data, as in fits
KINDS_OF_TYPE = {np.bool_: "b", np.integer: "iu", np.floating: "fiub"}


def require_value(kind: Kind, cls: type[Any], held: Mapping[str, Any]) -> None:
    """Refuse fields of other types or shapes than the class has."""
    _require_types(kind.name, cls, held)
    _require_schema(kind.name, VALUES.get(kind.name, {}), held, {}, complete=False)
    more = FURTHER.get(kind.name)
    if more is not None:
        more(held)


def require_estimator(
    cls: type[Any], held: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    """Refuse attributes of other types than the class declares, or that do not fit each other."""
    _require_types(cls.__name__, cls, held)
    names, count = held.get("feature_names_in_"), held.get("n_features_in_")
    if count is not None and not (fits(count, int) and count >= 0):
        raise MalformedError("a number of columns that is none")
    if held and count is None and cls.__name__ != "ColumnMeans":
        raise MalformedError(f"{cls.__name__} has no number of columns (n_features_in_)")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (count,)):
        raise MalformedError("names of columns that are not as many as the columns")
    for name in ("n_iter_", "n_components_", "log_likelihood_", "converged_"):
        if isinstance(held.get(name), str):
            raise MalformedError(f"{cls.__name__} has a text as {name}")
    sizes = {} if count is None else {"d": int(count)}
    table = ESTIMATORS.get(cls.__name__, {})
    complete = bool(held) and "_batches" not in held
    _require_schema(cls.__name__, table, held, sizes, complete=complete)
    more = FURTHER_ATTRIBUTES.get(cls.__name__)
    if more is not None and held:
        more(held, parameters)
    for name in ("model_", "core_", "_back", "_gap_model", "estimator_"):
        d = getattr(held.get(name), "d", None)
        if isinstance(d, int) and count is not None and d != count:
            raise MalformedError(f"a model of {d} columns for a table of {count}")


_hints = cache(get_type_hints)  # which takes longer than the checks


def _require_types(owner: str, cls: type[Any], held: Mapping[str, Any]) -> None:
    hints = _hints(cls)  # type: ignore[arg-type]
    for name, value in held.items():
        if name in hints and not fits(value, hints[name]):
            raise MalformedError(f"{owner} has a {type(value).__name__} as {name}")


def _require_schema(
    owner: str,
    table: Mapping[str, str],
    held: Mapping[str, Any],
    sizes: dict[str, int],
    *,
    complete: bool,
) -> None:
    """Refuse fields that do not match their entries in `schema`; `sizes` are lengths by letter."""
    for path, line in table.items():
        spec = Spec.of(line)
        there, value = _part(held, path)
        if not there or (value is None and spec.may_be_none):
            if spec.is_needed and complete and not there:
                raise MalformedError(f"{owner} has no {path}")
            continue
        wrong = spec.fault(value, sizes)
        if wrong:
            raise MalformedError(f"{owner} has {path} {wrong}")


def _part(held: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a part of a part exists, and the part; what another entry refuses does not exist."""
    first, *rest = path.split(".")
    if first not in held:
        return False, None
    value = held[first]
    for name in rest:
        if value is None or not hasattr(value, name):
            return False, None
        value = getattr(value, name)
    return True, value


@dataclass(frozen=True)
class Spec:
    """An entry of `schema`."""

    letters: tuple[str, ...]
    marks: frozenset[str]
    below: str  # the letter of what integers count, or nothing
    kinds: frozenset[str]

    @classmethod
    @cache
    def of(cls, line: str) -> Spec:
        plain, _, kinds = line.partition("@")
        words = plain.split()
        return cls(
            tuple(word for word in words if word.isalnum() and len(word) == 1),
            frozenset(words),
            next((word[1:] for word in words if word.startswith("<")), ""),
            frozenset(kinds.split()),
        )

    @property
    def may_be_none(self) -> bool:
        return "none" in self.marks

    @property
    def is_needed(self) -> bool:
        return "!" in self.marks

    def fault(self, value: Any, sizes: dict[str, int]) -> str:
        """What is wrong with a value, to be said after its name."""
        if "text" in self.marks:
            return "" if isinstance(value, str) else f"as a {type(value).__name__}"
        if self.kinds:
            imputes = "imputer" in self.kinds and hasattr(type(value), "impute")
            fits_kind = kind_name(value) in self.kinds or (imputes and kind_name(value))
            return "" if fits_kind else f"as a {type(value).__name__}"
        if not isinstance(value, np.ndarray):
            if (
                hasattr(value, "indptr") and "int" not in self.marks
            ):  # sparse rows, whose parts were checked as they were made
                return self._other_shape(tuple(map(int, value.shape)), sizes)
            if isinstance(value, bool | str) or not isinstance(value, Real):
                return f"as a {type(value).__name__}"
            if isinstance(value, int) and value.bit_length() > 63:
                return f"as a number of {value.bit_length()} bits"
            value = np.asarray(value)
        return self._other_shape(value.shape, sizes) or self._other_numbers(value, sizes)

    def _other_shape(self, shape: tuple[int, ...], sizes: dict[str, int]) -> str:
        fits_all = len(shape) == len(self.letters) and all(
            n == (int(letter) if letter.isdigit() else sizes.setdefault(letter, n))
            for letter, n in zip(self.letters, shape, strict=True)
        )
        if fits_all:
            return ""
        known = ", ".join(
            f"{letter} = {n}" for letter, n in sizes.items() if letter in self.letters
        )
        return f"of shape {shape} for ({', '.join(self.letters)}){known and ', ' + known}"

    def _other_numbers(self, array: NDArray[Any], sizes: dict[str, int]) -> str:
        if array.dtype.kind not in "fiub":
            return "" if "*" in self.marks else f"of {array.dtype}"
        if "bool" in self.marks:
            return "" if array.dtype.kind == "b" else f"of {array.dtype}"
        if self.below:
            return self._no_index(array, sizes)
        if not self._is_of_type(array.dtype):
            return f"of {array.dtype}"
        if not array.size:
            return ""
        if "?" in self.marks:  # of which any may be missing
            array = array[~np.isnan(array)]
            if not array.size:
                return ""
        least, most = array.min(), array.max()  # NaN where one of them is
        if "*" not in self.marks and not (np.isfinite(least) and np.isfinite(most)):
            return "that is not finite"
        if ("+" in self.marks and not least > 0) or ("0+" in self.marks and not least >= 0):
            return "that is negative, zero or NaN"
        if "++" in self.marks and not least * LARGEST > 1.0:
            return "that is not positive, or whose inverse overflows"
        largest = max(-float(least), float(most))
        if largest > LARGEST and not self.marks & {"*", "~"}:
            return f"whose squares overflow ({largest:.3g})"
        return ""

    def _is_of_type(self, dtype: np.dtype[Any]) -> bool:
        if "int" in self.marks:
            return dtype.kind in "iu"
        if dtype.kind == "f":
            return dtype.itemsize >= 4
        if dtype.kind == "b" and "truth" in self.marks:
            return True
        return "*" in self.marks or (not self.letters and dtype.kind in "iu")

    def _no_index(self, array: NDArray[Any], sizes: dict[str, int]) -> str:
        if array.dtype.kind not in "iu":
            return f"of {array.dtype}"
        inside = not array.size or (array.min() >= 0 and array.max() < sizes.get(self.below, 0))
        return "" if inside else f"that counts beyond {self.below} = {sizes.get(self.below)}"


def _require_metric(held: Mapping[str, Any], parameters: Any, rows: Any) -> None:
    """Array parameters of a metric have a number for each column, or for each pair."""
    d = rows.shape[-1]
    for name, value in (parameters or {}).items():
        array = np.asarray(value)
        shapes = ((d,), (d, d)) if isinstance(value, np.ndarray) else ((), (d,), (d, d))
        if array.dtype.kind not in "fiubU" or array.shape not in shapes:
            raise MalformedError(f"a metric with {name} of other columns than the rows")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise MalformedError(f"a metric with {name} that is not finite")


def _require_search(held: Mapping[str, Any]) -> None:
    if (held["n_neighbors"] is None) == (held["radius"] is None):
        raise MalformedError("NeighbourSearch has not one of n_neighbors and radius")
    if held["n_jobs"] is not None and abs(held["n_jobs"]) > MOST_JOBS:
        raise MalformedError("NeighbourSearch has more threads than there are numbers (n_jobs)")


def _require_reference(held: Mapping[str, Any]) -> None:
    if not held["h"] < 1.0:
        raise MalformedError("Reference has as many parameters as rows (h)")


def _require_spectrum(held: Mapping[str, Any]) -> None:
    if held["d"] < len(held["lam"]):
        raise MalformedError("Spectrum has more eigenvalues than columns")


def _require_moments(held: Mapping[str, Any]) -> None:
    if 0.0 < held["sum_w"] * LARGEST < 1.0:
        raise MalformedError("Moments has a sum_w whose inverse overflows")


def _require_stream(held: Mapping[str, Any]) -> None:
    """Batches that wait are as wide as the others."""
    d = len(held["origin"])
    if held["moments"].n_missing or (held["n_incomplete"] > 0) != (held["incomplete_w"] > 0):
        raise MalformedError("Stream has rows that are complete and are not")
    shapes = [block.values.shape for block in held["waiting"]]
    if any(n == 0 or width != d for n, width in shapes) or held["patterns"].rows.shape[1] != d + 1:
        raise MalformedError("Stream has batches of other columns")


def _require_products(name: str, A: str, means: str, held: Mapping[str, Any]) -> None:
    """Coordinates are sums of these products, and their squares must not overflow."""
    largest = [float(np.abs(held[key]).max(initial=0.0)) for key in (A, means)]
    if largest[0] * largest[1] * len(held[means]) > LARGEST:
        raise MalformedError(f"{name} has {A} and {means} whose products overflow")


def _require_processes(held: Mapping[str, Any]) -> None:
    """Observations reduce the variance at a point by no more than all of it, up to rounding."""
    support, kernel = held["support"], held["kernel"]
    k, prior = kernel.matrix(support[:PROBED], support), kernel.diagonal(support[:PROBED])
    for B in held["reductions"]:
        left = prior - np.einsum("nm,nm->n", k @ B, k)
        if not np.all(left >= -1e-3 * np.max(prior, initial=0.0)):
            raise MalformedError("GaussianProcesses has reductions beyond the variance there is")


def _require_mixture(held: Mapping[str, Any]) -> None:
    if len(held["models"]) != len(held["log_weights"]) or not held["models"]:
        raise MalformedError("MixtureOfLinearGaussians has other weights than models")
    if len({model.d for model in held["models"]}) != 1:
        raise MalformedError("MixtureOfLinearGaussians has models of other columns")


def _require_graph(held: Mapping[str, Any]) -> None:
    """Neighbours must be nodes: compiled code does not check them."""
    indptr, indices, lengths = (held.get(name) for name in ("indptr", "indices", "lengths"))
    arrays = [a for a in (indptr, indices, lengths) if isinstance(a, np.ndarray) and a.ndim == 1]
    if len(arrays) < 3 or len(arrays[0]) < 1 or len(arrays[1]) != len(arrays[2]):
        raise MalformedError("Graph has arrays that do not fit each other")
    starts, nodes, n = arrays[0], arrays[1], len(arrays[0]) - 1
    whole = starts[0] == 0 and starts[-1] == len(nodes) and bool(np.all(np.diff(starts) >= 0))
    if not whole or (len(nodes) and not (nodes.min() >= 0 and nodes.max() < n)):
        raise MalformedError("Graph has neighbours that are no nodes")


# Types -----------------------------------------------------------------------------------------


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type; numbers of NumPy count as those of Python."""
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if hint is None or hint is NoneType:
        return value is None
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _holds(value, inner)
    if origin is not None:
        return _fits_series(value, origin, inner)
    if hint in PLAIN:
        return PLAIN[hint](value)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _fits_series(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if origin is Callable or not isinstance(origin, type):
        return origin is not Callable
    held: Any = value
    if not isinstance(value, origin) or isinstance(value, str):
        return False
    if issubclass(origin, Mapping):
        keys, items = inner
        return all(fits(key, keys) and fits(item, items) for key, item in held.items())
    if origin is tuple and not (len(inner) == 2 and inner[1] is Ellipsis):
        return len(held) == len(inner) and all(map(fits, held, inner))
    if issubclass(origin, Sequence | set | frozenset):
        return all(fits(item, inner[0]) for item in held)
    return True


def _holds(array: Any, inner: tuple[Any, ...]) -> bool:
    """Whether an array is of the type that NDArray[...] names."""
    named = get_args(inner[1]) if len(inner) == 2 else ()
    if not named or not isinstance(named[0], type):
        return True
    for family, kinds in KINDS_OF_TYPE.items():
        if issubclass(named[0], family):
            return array.dtype.kind in kinds
    return True


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


PLAIN: dict[Any, Callable[[Any], bool]] = {
    bool: _is_bool,
    int: lambda value: isinstance(value, Integral) and not _is_bool(value),
    float: lambda value: isinstance(value, Real) and not _is_bool(value),
    str: lambda value: isinstance(value, str),
}

# What `schema` cannot express.
FURTHER: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "GowerMap": partial(_require_products, "GowerMap", "A", "means"),
    "RowDistances": lambda held: _require_metric(held, held["params"], held["rows"]),
    "Neighbours": lambda held: _require_metric(held, held["search"].metric_params, held["rows"]),
    "NeighbourSearch": _require_search,
    "Reference": _require_reference,
    "GaussianProcesses": _require_processes,
    "Graph": _require_graph,
    "LandmarkMap": partial(_require_products, "LandmarkMap", "coefficients", "means"),
    "MixtureOfLinearGaussians": _require_mixture,
    "Moments": _require_moments,
    "Stream": _require_stream,
    "Spectrum": _require_spectrum,
}


def _require_bounds(held: Mapping[str, Any], _: Mapping[str, Any]) -> None:
    """Bounds of imputed values must have a number between them."""
    low, high = held["bounds_"]
    if not np.all((low <= high) & (low < np.inf) & (high > -np.inf)):
        raise MalformedError("bounds between which there is no number (bounds_)")


def _require_classes(held: Mapping[str, Any], _: Mapping[str, Any]) -> None:
    models = held.get("models_")
    kinds = [kind_of(type(model)) for model in models] if isinstance(models, list) else []
    if len(kinds) != len(held["classes_"]) or not all(
        k and k.name in ("PPCA", "FactorAnalysis") for k in kinds
    ):
        raise MalformedError("PPCAClassifier has other models than classes")
    prior = held["class_prior_"]
    if abs(float(prior.sum()) - 1.0) > 1e-6:
        raise MalformedError("PPCAClassifier has probabilities that are none (class_prior_)")


def _require_kept_rows(held: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Affinities of new rows are to those of the fit."""
    given = parameters.get("affinity")
    if isinstance(given, str) and given.startswith("precomputed"):
        needed = ["_weights"] if given != "precomputed" else []
    else:
        needed = ["_rows_", "gamma_"] if given == "rbf" else ["_rows_", "_neighbours", "_weights"]
    for name in needed:
        if held.get(name) is None:
            raise MalformedError(f"LaplacianEigenmaps has no {name}")


def _require_rotation(held: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    rotated = parameters.get("rotation") is not None and "model_" in held
    if rotated and held.get("rotation_") is None:
        raise MalformedError("FactorAnalysis has no rotation_")


def _require_neighbours(held: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    if parameters.get("affinity") == "rows" and held.get("_neighbours") is None:
        raise MalformedError("StructurePreservingEmbedding has no _neighbours")


def _require_distances(held: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    given = parameters.get("metric")
    is_given = isinstance(given, str) and given.startswith("precomputed")
    is_plain = kind_name(held.get("model_")) == "AffineMap"
    if not is_given and not is_plain and held.get("distances_") is None:
        raise MalformedError("ClassicalMDS has no distances_")


def _require_ridge(held: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    preimage, kernel = parameters.get("preimage"), parameters.get("kernel")
    inverse = parameters.get("fit_inverse_transform")
    regresses = inverse if isinstance(preimage, str) and preimage == "auto" else preimage == "ridge"
    if not fits(regresses, bool) or (regresses and held.get("_ridge") is None):
        raise MalformedError("KernelPCA has no _ridge")
    if isinstance(kernel, np.ndarray):
        raise MalformedError("KernelPCA has an array as kernel")


def kind_name(value: Any) -> str:
    kind = kind_of(type(value))
    return "" if kind is None else kind.name


FURTHER_ATTRIBUTES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], None]] = {
    "ClassicalMDS": _require_distances,
    "FactorAnalysis": _require_rotation,
    "KernelPCA": _require_ridge,
    "LaplacianEigenmaps": _require_kept_rows,
    "LowRankImputer": _require_bounds,
    "PPCAClassifier": _require_classes,
    "StructurePreservingEmbedding": _require_neighbours,
}
