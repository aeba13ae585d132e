"""The contents of a model file as JSON, without making its objects."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from numpy.typing import NDArray

from eigengap.persistence import array_nodes
from eigengap.persistence.array_nodes import MalformedError, Node
from eigengap.persistence.tensors import TensorFacts

DEEPEST = 6  # levels that are shown
MOST = 50  # entries of a list that are shown
LONGEST = 1000  # letters of a text


class Description:
    """The estimator that is the last node of a file."""

    def __init__(
        self,
        nodes: Any,
        tensors: tuple[TensorFacts, ...],
        read: Callable[[], dict[str, NDArray[Any]]],
    ) -> None:
        if not isinstance(nodes, list) or not nodes or not isinstance(nodes[-1], dict):
            raise MalformedError("it holds nothing")
        self._nodes, self._root, self._read = nodes, nodes[-1], read
        self._tensors = {tensor.name: tensor for tensor in tensors}
        if self._root.get("is") != "estimator" or not isinstance(self._root.get("kind"), str):
            raise MalformedError("it holds no estimator")
        self._remaining = 10_000  # entries that are shown at all

    @property
    def kind(self) -> str:
        return str(self._root["kind"])

    def parameters(self) -> dict[str, Any]:
        given = self._part("parameters")
        return {name: self._shown(value, 0) for name, value in sorted(given.items())}

    def n_features(self) -> int | None:
        count = self._shown(self._part("attributes").get("n_features_in_"), 0)
        return count if isinstance(count, int) else None

    def feature_names(self) -> tuple[str, ...] | None:
        given = self._part("attributes").get("feature_names_in_")
        if given is None:
            return None
        node = self._node(given, len(self._nodes) - 1)
        if "text" not in node:
            return tuple(array_nodes.strings_in(node, _no_tensor))
        tensors = self._read()
        return tuple(array_nodes.strings_in(node, lambda name: tensors[name]))

    def _part(self, name: str) -> dict[str, Any]:
        part = self._root.get(name)
        if not isinstance(part, dict):
            raise MalformedError(f"an estimator without {name}")
        return part

    def _node(self, given: Any, before: int) -> Node:
        at = given.get("at") if isinstance(given, dict) else None
        if type(at) is not int or not 0 <= at < before or not isinstance(self._nodes[at], dict):
            raise MalformedError("a part that points at nothing before it")
        node: Node = self._nodes[at]
        return node

    def _shown(self, given: Any, depth: int) -> Any:
        """A value as JSON has it, as far as it is short."""
        self._remaining -= 1
        if given is None or type(given) in (bool, int, float):
            return _finite(given)
        if isinstance(given, str):
            return given if len(given) <= LONGEST else f"{given[:LONGEST]}..."
        if not isinstance(given, dict):
            raise MalformedError("a value that is none")
        if "float" in given or "text" in given:
            return str(given.get("float", given.get("text")))[:LONGEST]
        if "scalar" in given:
            return _finite(array_nodes.scalar_of(given).item())
        if depth >= DEEPEST or self._remaining <= 0:
            return "..."
        return self._of_node(self._node(given, len(self._nodes)), depth + 1)

    def _of_node(self, node: Node, depth: int) -> Any:
        what, items = node.get("is"), node.get("items")
        if what in ("list", "tuple", "set", "frozenset") and isinstance(items, list):
            shown = [self._shown(item, depth) for item in items[:MOST]]
            return [*shown, "..."] if len(items) > MOST else shown
        if what in ("dict", "readonly") and isinstance(items, list):
            return {str(self._shown(k, depth)): self._shown(v, depth) for k, v in items[:MOST]}
        if what == "path":
            return str(node.get("path"))
        if what in ("value", "estimator"):
            inner = node.get("fields" if what == "value" else "parameters")
            if not isinstance(inner, dict):
                raise MalformedError(f"a {what} that is none")
            parts = {name: self._shown(value, depth) for name, value in inner.items()}
            return {"kind": str(node.get("kind")), **parts}
        if what == "array" and node.get("tensor") in self._tensors:
            tensor = self._tensors[node["tensor"]]
            size = " x ".join(map(str, tensor.shape)) or "one number"
            return f"array of {node.get('dtype', tensor.dtype)!s:.20}, {size}"
        return {
            "strings": "array of texts",
            "objects": "array of objects",
            "random": "generator",
        }.get(str(what), f"{what!s:.40}")


def _finite(value: Any) -> Any:
    """A number, or the text of what JSON has no number for."""
    if value is None or isinstance(value, bool | int):
        return value
    return value if isinstance(value, float) and isfinite(value) else repr(value)


def _no_tensor(name: Any) -> NDArray[Any]:
    raise MalformedError("names of columns that are not in the header")
