"""An estimator from JSON and tensors, by the table of kinds and nothing else.

Nodes are decoded in their order; each may point only at earlier ones. Values get their fields bit
for bit: the constructor of a class runs once for its checks, and its result is thrown away.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import NewerFormatError
from eigengap.persistence import array_nodes, generator_nodes
from eigengap.persistence.array_nodes import MalformedError, Node
from eigengap.persistence.checks import require_estimator, require_value
from eigengap.persistence.encoding import DEEPEST, NOT_KEPT
from eigengap.persistence.kinds import ESTIMATORS, VALUES, Kind, named

LARGEST = 10_000_000  # nodes, shared ones counted at every use
REUSED = 16  # values that one array may be part of, on average
SMALL = 1 << 16  # bytes of arrays that do not count
TENSOR = re.compile(r"\w+(\.\w+)*", re.ASCII)  # model_.W: no path to anywhere
FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
# What constructors raise for arguments that they do not accept.
REFUSALS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


class Decoder:
    """Makes the objects of one file."""

    def __init__(self, tensors: dict[str, NDArray[Any]], writer: str) -> None:
        for name in tensors:
            if TENSOR.fullmatch(name) is None:
                raise MalformedError(f"a tensor named {name!r:.60}")
        self._tensors = tensors
        self._writer = writer  # version of eigengap
        self._used: set[str] = set()
        self._width = array_nodes.Width()
        self._allowed = REUSED * (sum(array.nbytes for array in tensors.values()) + SMALL)  # bytes
        self._made: list[Any] = []
        self._size: list[int] = []
        self._depth: list[int] = []

    def make(self, nodes: Any) -> Any:
        """The last object, of which all others are parts."""
        if not isinstance(nodes, list) or not nodes:
            raise MalformedError("it holds nothing")
        for node in nodes:
            if not isinstance(node, dict):
                raise MalformedError("a node that is none")
            self._parts: list[int] = []
            made = self._of(node)
            self._count()
            self._made.append(made)
        if self._used != set(self._tensors):
            raise MalformedError("it holds tensors that belong to nothing")
        return self._made[-1]

    def child(self, given: Any) -> Any:
        if given is None or type(given) in (bool, int, float, str):
            return given
        if not isinstance(given, dict):
            raise MalformedError("a value that is none")
        if "at" in given:
            at = given["at"]
            if type(at) is not int or not 0 <= at < len(self._made):
                raise MalformedError("a part that points at nothing before it")
            self._parts.append(at)
            return self._made[at]
        if "float" in given:
            if given["float"] not in FLOATS:
                raise MalformedError("a number that is none")
            return FLOATS[given["float"]]
        if "scalar" in given or "text" in given:
            return array_nodes.scalar_of(given)
        raise MalformedError("a value that is none")

    def tensor(self, name: Any) -> NDArray[Any]:
        if not isinstance(name, str) or name not in self._tensors:
            raise MalformedError(f"no tensor {name!s:.60}")
        if name in self._used:  # of which each might be another copy
            raise MalformedError(f"two arrays of one tensor {name!s:.60}")
        self._used.add(name)
        return self._tensors[name]

    def _count(self) -> None:
        """Refuse a file that is small only because it repeats itself."""
        size = 1 + sum(self._size[at] for at in self._parts)
        depth = 1 + max((self._depth[at] for at in self._parts), default=0)
        if size > LARGEST or depth > DEEPEST:
            raise MalformedError("parts inside of parts beyond all measure")
        self._size.append(size)
        self._depth.append(depth)

    # Nodes -----------------------------------------------------------------------------------

    def _of(self, node: Node) -> Any:
        what = node.get("is")
        if what == "array":
            return array_nodes.array_of(node, self.tensor)
        if what == "strings":
            return array_nodes.strings_of(node, self.tensor, self._width)
        if what == "objects":
            return self._objects(node)
        if what == "sparse":
            return array_nodes.sparse_of(node, self.child)
        if what == "random":
            return generator_nodes.generator_of(node, self.child)
        if what in ("list", "tuple", "set", "frozenset"):
            return self._series(node, what)
        if what == "range":
            return self._range(node)
        if what in ("dict", "readonly"):
            return self._mapping(node, what)
        if what == "path" and isinstance(node.get("path"), str):
            return Path(node["path"])
        if what == "value":
            return self._value(node)
        if what == "estimator":
            return self._estimator(node)
        raise MalformedError(f"a node of no known kind ({what!s:.40})")

    def _objects(self, node: Node) -> NDArray[Any]:
        items, shape = self._items(node), array_nodes.shape_of(node.get("shape"))
        if int(np.prod(shape, dtype=np.int64)) != len(items):
            raise MalformedError(f"{len(items)} objects for an array of shape {shape}")
        array = np.empty(len(items), dtype=object)
        for k, item in enumerate(items):
            array[k] = item
        return array.reshape(shape)

    def _items(self, node: Node) -> list[Any]:
        items = node.get("items")
        if not isinstance(items, list):
            raise MalformedError("a list that is none")
        return [self.child(item) for item in items]

    def _series(self, node: Node, what: str) -> Any:
        items = self._items(node)
        try:
            return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[what](items)
        except TypeError:
            raise MalformedError("a set of what no set holds") from None

    def _range(self, node: Node) -> range:
        ends = node.get("items")
        if not isinstance(ends, list) or len(ends) != 3 or not all(type(n) is int for n in ends):
            raise MalformedError("a range that is none")
        if ends[2] == 0:
            raise MalformedError("a range without steps")
        return range(*ends)

    def _mapping(self, node: Node, what: str) -> Any:
        pairs = node.get("items")
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            raise MalformedError("a dict that is none")
        try:
            found = {self.child(key): self.child(item) for key, item in pairs}
        except TypeError:
            raise MalformedError("a dict with keys that are none") from None
        if what == "dict":
            return found
        from eigengap.selection.rank.choice import ReadOnly

        return ReadOnly(found)

    # Values ----------------------------------------------------------------------------------

    def _value(self, node: Node) -> Any:
        kind = self._kind(node, VALUES)
        cls = kind.load()
        given = self._fields(node, "fields", kind)
        names = kind.remade_from or tuple(field.name for field in fields(cls))
        self._require_known(set(given), set(names), f"field of {kind.name}")
        held = {name: self.child(given[name]) for name in names if name in given}
        self._charge(held)
        for field in fields(cls):
            if field.name in names and field.name not in held:
                held[field.name] = _default(field, kind)
        try:
            require_value(kind, cls, held)
            checked = cls.of(**held) if kind.remade_from else cls(**held)
        except MalformedError:
            raise
        except REFUSALS as error:
            raise MalformedError(f"{kind.name} cannot be made of it: {error!s:.200}") from None
        return checked if kind.remade_from else _as_given(cls, held)

    def _charge(self, held: dict[str, Any]) -> None:
        """Refuse a file in which very many values are checked, or grown, from the same arrays."""
        self._allowed -= sum(v.nbytes for v in held.values() if isinstance(v, np.ndarray))
        if self._allowed < 0:
            raise MalformedError("the same arrays in too many values")

    def _estimator(self, node: Node) -> Any:
        kind = self._kind(node, ESTIMATORS)
        cls = kind.load()
        parameters = self._fields(node, "parameters", kind)
        known = set(inspect.signature(cls).parameters)
        self._require_known(set(parameters), known, f"parameter of {kind.name}")
        for name, value in NOT_KEPT.items():
            if parameters.get(name, value) != value:
                raise MalformedError(f"a {kind.name} with {name}, which no file keeps")
        given = {name: self.child(value) for name, value in parameters.items()}
        estimator = cls(**given)
        attributes = node.get("attributes")
        if not isinstance(attributes, dict):
            raise MalformedError("an estimator without attributes")
        held = {name: self.child(value) for name, value in attributes.items()}
        for name in held:
            _require_attribute(cls, name, known)
        try:
            require_estimator(cls, held, given)
        except MalformedError:
            raise
        except REFUSALS as error:
            raise MalformedError(f"{kind.name} cannot be made of it: {error!s:.200}") from None
        estimator.__dict__.update(held)
        if "_batches" in held:  # which are fitted when they are asked, by these parameters
            _require_parameters(estimator)
        return estimator

    def _kind(self, node: Node, among: Mapping[str, Kind]) -> Kind:
        name = node.get("kind")
        kind = named(name, among) if isinstance(name, str) else None
        if kind is None:
            raise NewerFormatError(
                f"it holds a {name!s:.60}, which this version of eigengap does not know; "
                f"{self._written_by()}"
            )
        version = node.get("version")
        if type(version) is not int or version < 1:
            raise MalformedError(f"a {name} of no version")
        if version > kind.version:
            raise NewerFormatError(
                f"it holds a {name} of version {version}, and this version of eigengap knows up to "
                f"{kind.version}; {self._written_by()}"
            )
        return kind

    def _fields(self, node: Node, what: str, kind: Kind) -> dict[str, Any]:
        given = node.get(what)
        if not isinstance(given, dict):
            raise MalformedError(f"a {kind.name} without {what}")
        for upgrade in kind.upgrades[node["version"] - 1 :]:
            given = upgrade(given)
        return given

    def _require_known(self, given: set[str], known: set[str], what: str) -> None:
        unknown = sorted(given - known)
        if unknown:
            raise NewerFormatError(
                f"{unknown[0]!r:.60} is no {what} in this version of eigengap; {self._written_by()}"
            )

    def _written_by(self) -> str:
        from eigengap import __version__

        return f"eigengap {self._writer:.40} wrote it, and this is {__version__}. Install that one"


def _default(field: Any, kind: Kind) -> Any:
    """Of a field that the file does not have."""
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise MalformedError(f"a {kind.name} without {field.name}")


def _as_given(cls: type[Any], held: dict[str, Any]) -> Any:
    """An instance with exactly these fields."""
    made = object.__new__(cls)
    for name, value in held.items():
        object.__setattr__(made, name, value)
    return made


def _require_parameters(estimator: Any) -> None:
    """Refuse parameters that the estimator's own fit would."""
    try:
        estimator._validate_params()
    except REFUSALS as error:
        raise MalformedError(f"{error!s:.200}") from None


def _require_attribute(cls: type[Any], name: str, parameters: set[str]) -> None:
    """Refuse a name that would hide a method or a property, or is none of a fit."""
    of_fit = name.isidentifier() and (name.startswith("_") or name.endswith("_"))
    if not of_fit or name.startswith("__") or name in parameters:
        raise MalformedError(f"an attribute {name!r:.60}")
    there = inspect.getattr_static(cls, name, None)
    plain = there is None or isinstance(there, bool | int | float | str | tuple)
    if not plain or (there is not None and not name.endswith("_")):
        raise MalformedError(f"an attribute {name!r:.60} in place of what {cls.__name__} does")
