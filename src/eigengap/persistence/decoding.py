"""An estimator from JSON and tensors, by the table of kinds and nothing else.

Nodes are decoded in their order; each may point only at earlier ones. Values get their fields bit
for bit: the constructor of a class runs once for its checks, and its result is thrown away.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import NewerFormatError
from eigengap.persistence import nodes
from eigengap.persistence.checks import require_estimator, require_value
from eigengap.persistence.encoding import DEEPEST, NOT_KEPT
from eigengap.persistence.kinds import ESTIMATORS, VALUES, Kind, named
from eigengap.persistence.nodes import MalformedError, Node, require

LARGEST = 10_000_000  # nodes, shared ones counted at every use
REUSED = 16  # values that one array may be part of, on average
SMALL = 1 << 16  # bytes of arrays that do not count
TENSOR = re.compile(r"\w+(\.\w+)*", re.ASCII)  # model_.W: no path to anywhere
FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
SERIES: dict[str, Callable[[list[Any]], Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset,
}  # fmt: skip
# What constructors raise for arguments that they do not accept.
REFUSALS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


class Decoder:
    """Makes the objects of one file."""

    def __init__(self, tensors: dict[str, NDArray[Any]], writer: str) -> None:
        for name in tensors:
            require(TENSOR.fullmatch(name), f"a tensor named {name!r:.60}")
        self._tensors = tensors
        self._writer = writer  # version of eigengap
        self._used: set[str] = set()
        self._width = nodes.Width()
        self._allowed = REUSED * (sum(array.nbytes for array in tensors.values()) + SMALL)  # bytes
        self._made: list[Any] = []
        self._size: list[int] = []
        self._depth: list[int] = []

    def make(self, given: Any) -> Any:
        """The last object, of which all others are parts."""
        if not isinstance(given, list) or not given:
            raise MalformedError("it holds nothing")
        for node in given:
            require(isinstance(node, dict), "a node that is none")
            self._parts: list[int] = []
            made = self._of(node)
            self._count()
            self._made.append(made)
        require(self._used == set(self._tensors), "it holds tensors that belong to nothing")
        return self._made[-1]

    def child(self, given: Any) -> Any:
        if given is None or type(given) in (bool, int, float, str):
            return given
        if isinstance(given, dict) and "at" in given:
            at = given["at"]
            if type(at) is not int or not 0 <= at < len(self._made):
                raise MalformedError("a part that points at nothing before it")
            self._parts.append(at)
            return self._made[at]
        if isinstance(given, dict) and given.get("float") in FLOATS:
            return FLOATS[given["float"]]
        if isinstance(given, dict) and ("scalar" in given or "text" in given):
            return nodes.scalar_of(given)
        raise MalformedError("a value that is none")

    def tensor(self, name: Any) -> NDArray[Any]:
        if not isinstance(name, str) or name not in self._tensors:
            raise MalformedError(f"no tensor {name!s:.60}")
        # Each of two might be another copy.
        require(name not in self._used, f"two arrays of one tensor {name:.60}")
        self._used.add(name)
        return self._tensors[name]

    def _count(self) -> None:
        """Refuse a file that is small only because it repeats itself."""
        size = 1 + sum(self._size[at] for at in self._parts)
        depth = 1 + max((self._depth[at] for at in self._parts), default=0)
        require(size <= LARGEST and depth <= DEEPEST, "parts inside of parts beyond all measure")
        self._size.append(size)
        self._depth.append(depth)

    # Nodes -----------------------------------------------------------------------------------

    def _of(self, node: Node) -> Any:
        what = str(node.get("is"))
        if what == "array":
            return nodes.array_of(node, self.tensor)
        if what == "strings":
            return nodes.strings_of(node, self.tensor, self._width)
        if what == "sparse":
            return nodes.sparse_of(node, self.child)
        if what == "random":
            return nodes.generator_of(node, self.child)
        if what == "path" and isinstance(node.get("path"), str):
            return Path(node["path"])
        if what == "value":
            return self._value(node)
        if what == "estimator":
            return self._estimator(node)
        items = node.get("items")
        if not isinstance(items, list):
            raise MalformedError(f"a node of no known kind, or without its items ({what:.40})")
        if what == "range":
            is_range = len(items) == 3 and all(type(n) is int for n in items) and items[2]
            require(is_range, "a range that is none")
            return range(*items)
        try:
            if what in ("dict", "readonly"):
                is_dict = all(isinstance(pair, list) and len(pair) == 2 for pair in items)
                require(is_dict, "a dict that is none")
                pairs = {self.child(key): self.child(item) for key, item in items}
                return pairs if what == "dict" else _read_only(pairs)
            found = [self.child(item) for item in items]
            if what in SERIES:
                return SERIES[what](found)
        except TypeError:
            raise MalformedError("a set or a dict of what none holds") from None
        require(what == "objects", f"a node of no known kind ({what:.40})")
        array = np.empty(len(found), dtype=object)
        return nodes.filled(array, found, nodes.shape_of(node.get("shape")))

    # Values ----------------------------------------------------------------------------------

    def _value(self, node: Node) -> Any:
        kind = self._kind(node, VALUES)
        cls = kind.load()
        given = self._fields(node, "fields", kind)
        names = kind.remade_from or tuple(field.name for field in fields(cls))
        self._require_known(given, names, f"field of {kind.name}")
        held = {name: self.child(given[name]) for name in names if name in given}
        # Very many values might be checked, or grown, from the same arrays.
        self._allowed -= sum(v.nbytes for v in held.values() if isinstance(v, np.ndarray))
        require(self._allowed >= 0, "the same arrays in too many values")
        for field in fields(cls):
            if field.name in names and field.name not in held:
                default, factory = field.default, field.default_factory
                is_optional = default is not MISSING or factory is not MISSING
                require(is_optional, f"a {kind.name} without {field.name}")
                held[field.name] = default if factory is MISSING else factory()
        with _refusing(kind):
            require_value(kind, cls, held)
            checked = cls.of(**held) if kind.remade_from else cls(**held)
        if kind.remade_from:
            return checked
        made = object.__new__(cls)
        for name, value in held.items():
            object.__setattr__(made, name, value)
        return made

    def _estimator(self, node: Node) -> Any:
        kind = self._kind(node, ESTIMATORS)
        cls = kind.load()
        parameters = self._fields(node, "parameters", kind)
        known = set(inspect.signature(cls).parameters)
        self._require_known(parameters, known, f"parameter of {kind.name}")
        for name, value in NOT_KEPT.items():
            is_default = parameters.get(name, value) == value
            require(is_default, f"a {kind.name} with {name}, which no file keeps")
        given = {name: self.child(value) for name, value in parameters.items()}
        estimator = cls(**given)
        attributes = node.get("attributes")
        if not isinstance(attributes, dict):
            raise MalformedError("an estimator without attributes")
        held = {name: self.child(value) for name, value in attributes.items()}
        for name in held:
            _require_attribute(cls, name, known)
        with _refusing(kind):
            require_estimator(cls, held, given)
            estimator.__dict__.update(held)
            if "_batches" in held:  # which are fitted when they are asked, by these parameters
                estimator._validate_params()
        return estimator

    def _kind(self, node: Node, among: Mapping[str, Kind]) -> Kind:
        name, version = node.get("kind"), node.get("version")
        kind = named(name, among) if isinstance(name, str) else None
        if kind is None:
            raise self._newer(f"it holds a {name!s:.60}, which this version does not know")
        if type(version) is not int or version < 1:
            raise MalformedError(f"a {name} of no version")
        if version > kind.version:
            raise self._newer(
                f"it holds a {name} of version {version}, and this version of eigengap knows up to "
                f"{kind.version}"
            )
        return kind

    def _fields(self, node: Node, what: str, kind: Kind) -> dict[str, Any]:
        given = node.get(what)
        if not isinstance(given, dict):
            raise MalformedError(f"a {kind.name} without {what}")
        return kind.upgraded(given, node["version"])

    def _require_known(self, given: Mapping[str, Any], known: Any, what: str) -> None:
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise self._newer(f"{unknown[0]!r:.60} is no {what} in this version of eigengap")

    def _newer(self, what: str) -> NewerFormatError:
        from eigengap import __version__

        versions = f"eigengap {self._writer:.40} wrote it, and this is {__version__}"
        return NewerFormatError(f"{what}; {versions}. Install that one")


def _read_only(pairs: dict[Any, Any]) -> Any:
    from eigengap.selection.rank.choice import ReadOnly

    return ReadOnly(pairs)


@contextmanager
def _refusing(kind: Kind) -> Iterator[None]:
    """Errors of checks and constructors mean that the file is none of ours."""
    try:
        yield
    except MalformedError:
        raise
    except REFUSALS as error:
        raise MalformedError(f"{kind.name} cannot be made of it: {error!s:.200}") from None


def _require_attribute(cls: type[Any], name: str, parameters: set[str]) -> None:
    """Refuse a name that would hide a method or a property, or is none of a fit."""
    of_fit = name.isidentifier() and (name.startswith("_") or name.endswith("_"))
    if not of_fit or name.startswith("__") or name in parameters:
        raise MalformedError(f"an attribute {name!r:.60}")
    there = inspect.getattr_static(cls, name, None)
    plain = there is None or isinstance(there, bool | int | float | str | tuple)
    if not plain or (there is not None and not name.endswith("_")):
        raise MalformedError(f"an attribute {name!r:.60} in place of what {cls.__name__} does")
