"""Whether values have the fields, types and shapes that eigengap gives them.

Types are declared by the classes; `schema` lists what else other code relies on. The same checks
are made when a file is written and when it is read, so that nothing can be saved that cannot be
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from eigengap.persistence.kinds import Kind
from eigengap.persistence.nodes import MalformedError, require
from eigengap.persistence.schema import ESTIMATORS, LARGEST, RULES, VALUES, Held, kind_name

KINDS_OF_TYPE = {np.bool_: "b", np.integer: "iu", np.floating: "fiub"}


def require_value(kind: Kind, cls: type[Any], held: Mapping[str, Any]) -> None:
    """Refuse fields of other types or shapes than the class has."""
    _require_types(kind.name, cls, held)
    _require_schema(kind.name, VALUES.get(kind.name, {}), held, {}, complete=False)
    _require_rules(kind.name, held, {})


def require_estimator(
    cls: type[Any], held: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    """Refuse attributes of other types than the class declares, or that do not fit each other."""
    owner = cls.__name__
    _require_types(owner, cls, held)
    names, count = held.get("feature_names_in_"), held.get("n_features_in_")
    if count is None:
        require(not held or owner == "ColumnMeans", f"{owner} has no n_features_in_")
    else:
        require(fits(count, int) and count >= 0, "a number of columns that is none")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (count,)):
        raise MalformedError("names of columns that are not as many as the columns")
    for name in ("n_iter_", "n_components_", "log_likelihood_", "converged_"):
        require(not isinstance(held.get(name), str), f"{owner} has a text as {name}")
    sizes = {} if count is None else {"d": int(count)}
    complete = bool(held) and "_batches" not in held
    _require_schema(owner, ESTIMATORS.get(owner, {}), held, sizes, complete=complete)
    if held:
        _require_rules(owner, held, parameters)
    for name in ("model_", "core_", "_back", "_gap_model", "estimator_"):
        d = getattr(held.get(name), "d", None)
        if isinstance(d, int) and count is not None:
            require(d == count, f"a model of {d} columns for a table of {count}")


_hints = cache(get_type_hints)  # which takes longer than the checks


def _require_types(owner: str, cls: type[Any], held: Mapping[str, Any]) -> None:
    hints = _hints(cls)  # type: ignore[arg-type]
    for name, value in held.items():
        if name in hints and not fits(value, hints[name]):
            raise MalformedError(f"{owner} has a {type(value).__name__} as {name}")


def _require_rules(owner: str, held: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    for wrong, holds in RULES.get(owner, {}).items():
        require(holds(Held(held), Held(parameters)), f"{owner} has {wrong}")


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
        spec = _spec(line)
        there, value = _part(held, path)
        if not there or (value is None and "none" in spec.marks):
            require(there or not complete or "!" not in spec.marks, f"{owner} has no {path}")
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
        parts = value if isinstance(value, dict) else {}
        if name not in parts and not hasattr(value, name):
            return False, None
        value = parts[name] if name in parts else getattr(value, name)
    return True, value


class Spec:
    """An entry of `schema`."""

    def __init__(self, line: str) -> None:
        plain, _, kinds = line.partition("@")
        words = plain.split()
        self.marks, self.kinds = frozenset(words), frozenset(kinds.split())
        self.letters = tuple(word for word in words if word.isalnum() and len(word) == 1)
        # The letter of what integers count, or nothing.
        self.below = next((word[1:] for word in words if word.startswith("<")), "")

    def fault(self, value: Any, sizes: dict[str, int]) -> str:
        """What is wrong with a value, to be said after its name."""
        other = f"as a {type(value).__name__}"
        if "text" in self.marks:
            return "" if isinstance(value, str) else other
        if self.kinds:
            name = kind_name(value)
            imputes = "imputer" in self.kinds and name and hasattr(type(value), "impute")
            return "" if name in self.kinds or imputes else other
        if not isinstance(value, np.ndarray):
            if hasattr(value, "indptr") and "int" not in self.marks:
                # Sparse rows, whose parts were checked as they were made.
                return self._other_shape(tuple(map(int, value.shape)), sizes)
            if isinstance(value, bool | str) or not isinstance(value, Real):
                return other
            if isinstance(value, int) and value.bit_length() > 63:
                return f"as a number of {value.bit_length()} bits"
            value = np.asarray(value)
        return self._other_shape(value.shape, sizes) or self._other_numbers(value, sizes)

    def _other_shape(self, shape: tuple[int, ...], sizes: dict[str, int]) -> str:
        fits_all = len(shape) == len(self.letters) and all(
            n == (int(letter) if letter.isdigit() else sizes.setdefault(letter, n))
            for letter, n in zip(self.letters, shape, strict=True)
        )
        known = [f"{letter} = {n}" for letter, n in sizes.items() if letter in self.letters]
        wanted = ", ".join([f"({', '.join(self.letters)})", *known])
        return "" if fits_all else f"of shape {shape} for {wanted}"

    def _other_numbers(self, array: NDArray[Any], sizes: dict[str, int]) -> str:
        if not self._is_of_type(array.dtype):
            return f"of {array.dtype}"
        if array.dtype.kind not in "fiub" or "bool" in self.marks:
            return ""
        if "?" in self.marks:  # of which any may be missing
            array = array[~np.isnan(array)]
        if not array.size:
            return ""
        least, most = array.min(), array.max()  # NaN where one of them is
        if self.below:
            count = sizes.get(self.below, 0)
            is_index = least >= 0 and most < count
            return "" if is_index else f"that counts beyond {self.below} = {count}"
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
        if dtype.kind not in "fiub":
            return "*" in self.marks
        if "bool" in self.marks:
            return dtype.kind == "b"
        if "int" in self.marks or self.below:
            return dtype.kind in "iu"
        if dtype.kind == "f":
            return dtype.itemsize >= 4
        if dtype.kind == "b" and "truth" in self.marks:
            return True
        return "*" in self.marks or (not self.letters and dtype.kind in "iu")


_spec = cache(Spec)


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
        named = get_args(inner[1]) if len(inner) == 2 else ()  # of NDArray[...]
        family = named[0] if named and isinstance(named[0], type) else object
        kinds = [k for kind, k in KINDS_OF_TYPE.items() if issubclass(family, kind)]
        return isinstance(value, np.ndarray) and (not kinds or value.dtype.kind in kinds[0])
    if origin is not None:
        return _fits_series(value, origin, inner)
    if hint in PLAIN:
        return isinstance(value, PLAIN[hint]) and (
            hint is bool or not isinstance(value, PLAIN[bool])
        )
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


PLAIN: dict[Any, Any] = {bool: bool | np.bool_, int: Integral, float: Real, str: str}
