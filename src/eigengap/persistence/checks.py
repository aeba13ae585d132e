"""Whether values are such as eigengap makes them: the right fields, of the right types and shapes.

The types are those that the classes declare; shapes and ranges that other code relies on stand in
the table below. The same checks hold when a file is written and when it is read, so that nothing
can be saved that would not be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from eigengap.persistence.kinds import Kind

# Arrays that must agree: each letter stands for one number within a value.
SHAPES: Mapping[str, Mapping[str, str]] = {
    "affine.AffineMap": {"A": "k d", "B": "d k", "mean": "d"},
    "columns.ColumnMap": {"mean": "d", "scale": "d"},
    "distances.GowerMap": {"A": "n q", "means": "n"},
    "drawn.Drawn": {"keys": "m", "rows": "m d"},
    "eigenmap.Eigenmap": {"Y": "n q", "lam": "q"},
    "expected.Expected": {"squares": "d"},
    "gamma.Gammas": {"shape": "m", "rate": "m"},
    "gaussian_process.GaussianProcesses": {
        "support": "m q",
        "weights": "m d",
        "reductions": "p m m",
        "pattern": "d",
        "mean": "d",
        "unit": "d",
    },
    "information.Evidence": {"seen": "k d", "seen_w": "d"},
    "landmark.LandmarkMap": {"coefficients": "l q", "means": "l"},
    "loop.Trace": {"objective": "n", "change": "n", "seconds": "n"},
    "maximise.Parameters": {"W": "d q", "delta": "d", "psi": "d"},
    "moments.ColumnMoments": {"counts": "d", "sum_w": "d", "mean": "d", "m2": "d"},
    "moments.ColumnRange": {"low": "d", "high": "d"},
    "moments.Moments": {"mean": "d", "scatter": "d d"},
    "online_rows.Kept": {"values": "k d", "weight": "k"},
    "perceptron.Perceptron": {"W0": "d q", "W1": "d h", "b1": "h", "W2": "h q", "b2": "q"},
    "rotation.Rotation": {"loadings": "d q", "T": "q q", "phi": "q q"},
}
# Arrays without NaN or infinity, and those of them without a negative number.
FINITE: Mapping[str, tuple[str, ...]] = {
    "affine.AffineMap": ("A", "B", "mean"),
    "spectrum.Spectrum": ("lam",),
}
NOT_NEGATIVE: Mapping[str, tuple[str, ...]] = {"spectrum.Spectrum": ("lam",)}
KINDS_OF_TYPE = {np.bool_: "b", np.integer: "iu", np.floating: "fiub"}
_FOUND: dict[type[Any], Mapping[str, Any]] = {}


class WrongValueError(ValueError):
    """A value is not such as eigengap makes it."""


def require_value(kind: Kind, cls: type[Any], held: Mapping[str, Any]) -> None:
    """Refuse fields of other types or shapes than the class has."""
    hints = _hints(cls)
    for name, value in held.items():
        if name in hints and not fits(value, hints[name]):
            raise WrongValueError(f"{kind.name} has a {type(value).__name__} as {name}")
    _require_shapes(kind, held)
    _require_ranges(kind, held)
    if kind.name == "graph.Graph":
        _require_graph(held)


def require_estimator(cls: type[Any], held: Mapping[str, Any]) -> None:
    """Refuse attributes of other types than the class says, or that do not fit each other."""
    hints = _hints(cls)
    for name, value in held.items():
        if name in hints and not fits(value, hints[name]):
            raise WrongValueError(f"{cls.__name__} has a {type(value).__name__} as {name}")
    names, count = held.get("feature_names_in_"), held.get("n_features_in_")
    if count is not None and not (fits(count, int) and count >= 0):
        raise WrongValueError("a number of columns that is none")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (count,)):
        raise WrongValueError("names of columns that are not as many as the columns")
    for name in ("n_iter_", "n_components_", "log_likelihood_", "converged_"):
        if isinstance(held.get(name), str):
            raise WrongValueError(f"{cls.__name__} has a text as {name}")
    scale = held.get("scale_")
    if isinstance(scale, np.ndarray) and not (np.all(np.isfinite(scale)) and np.all(scale > 0)):
        raise WrongValueError(f"{cls.__name__} has units of columns that are none (scale_)")
    d = getattr(held.get("model_"), "d", None)
    if d is not None and count is not None and d != count:
        raise WrongValueError(f"a model of {d} columns for a table of {count}")


def _hints(cls: type[Any]) -> Mapping[str, Any]:
    """Declared types, which take longer to find than to use."""
    if cls not in _FOUND:
        _FOUND[cls] = get_type_hints(cls)
    return _FOUND[cls]


def _require_shapes(kind: Kind, held: Mapping[str, Any]) -> None:
    sizes: dict[str, int] = {}
    for name, letters in SHAPES.get(kind.name, {}).items():
        array = held.get(name)
        if not isinstance(array, np.ndarray):
            continue
        wanted = letters.split()
        if array.ndim != len(wanted) or any(
            sizes.setdefault(letter, n) != n for letter, n in zip(wanted, array.shape, strict=True)
        ):
            known = ", ".join(f"{letter} = {n}" for letter, n in sizes.items())
            raise WrongValueError(
                f"{kind.name} has a {name} of shape {array.shape} for ({', '.join(wanted)}), "
                f"{known}"
            )


def _require_ranges(kind: Kind, held: Mapping[str, Any]) -> None:
    for name in FINITE.get(kind.name, ()):
        if not np.all(np.isfinite(held[name])):
            raise WrongValueError(f"{kind.name} has a {name} that is not finite")
    for name in NOT_NEGATIVE.get(kind.name, ()):
        if np.any(held[name] < 0):
            raise WrongValueError(f"{kind.name} has a negative {name}")
    is_spectrum = kind.name == "spectrum.Spectrum"
    if is_spectrum and not (held["sum_w"] > 0 and held["d"] >= len(held["lam"])):
        raise WrongValueError("spectrum.Spectrum has counts that no table has")


def _require_graph(held: Mapping[str, Any]) -> None:
    """Neighbours must be nodes: compiled code looks them up without asking."""
    indptr, indices, lengths = (held.get(name) for name in ("indptr", "indices", "lengths"))
    arrays = [a for a in (indptr, indices, lengths) if isinstance(a, np.ndarray) and a.ndim == 1]
    if len(arrays) < 3 or len(arrays[0]) < 1 or len(arrays[1]) != len(arrays[2]):
        raise WrongValueError("graph.Graph has arrays that do not fit each other")
    starts, nodes, n = arrays[0], arrays[1], len(arrays[0]) - 1
    whole = starts[0] == 0 and starts[-1] == len(nodes) and bool(np.all(np.diff(starts) >= 0))
    if not whole or (len(nodes) and not (nodes.min() >= 0 and nodes.max() < n)):
        raise WrongValueError("graph.Graph has neighbours that are no nodes")


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
