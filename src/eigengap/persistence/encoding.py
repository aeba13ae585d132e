"""An estimator as JSON and tensors.

Everything that is not a number, a string or None is a node of one flat list, in which each node
points only at earlier ones: shared parts are written once, and there are no cycles. What a file
cannot hold, functions above all, is refused with its place in the estimator.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnsavableError
from eigengap.persistence import nodes
from eigengap.persistence.checks import require_estimator, require_value
from eigengap.persistence.kinds import ESTIMATORS, Kind, kind_of
from eigengap.persistence.nodes import MalformedError, Node

# Parameters of the machine, not of the model: a file must not make a later fit write somewhere.
NOT_KEPT = {"checkpoint": None}
# Attributes that do not belong to the fit; scikit-learn's belong to the process that sets them.
NOT_OF_FIT = (
    "provenance_", "_metadata_request", "_skl_callbacks", "_callback_fit_ctx",
    "_parent_callback_ctx",
)  # fmt: skip
LARGEST_INTEGER = 4096  # bits
DEEPEST = 64  # nodes inside of each other
LETTERS = 120  # of a name in a message

_KEEP = '="precomputed" and keep the function in your own code'
WAYS_OUT = {
    "kernel": "Give a kernel by its name, one of eigengap.models.kernels, or fit with kernel"
    + _KEEP,
    "metric": f"Give a metric by its name, or fit with metric{_KEEP}",
    "affinity": f"Give an affinity by its name, or fit with affinity{_KEEP}",
    "estimator": "Give an estimator of eigengap",
    "fun": 'Give it by its name ("logcosh", "exp", "cube")',
}


class Encoder:
    """Nodes and tensors of one estimator."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tensors: dict[str, NDArray[Any]] = {}
        self._known: dict[int, int] = {}  # id of an object: its node
        self._alive: list[Any] = []  # so that no id is reused
        self._width = nodes.Width()
        self._open: set[int] = set()  # ids of what is being written

    def child(self, value: Any, where: str) -> Any:
        """A value inside a node: itself, or the position of its own node."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            if value.bit_length() > LARGEST_INTEGER:
                raise _unholdable(where, f"a number of {value.bit_length()} bits")
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic):
            if isinstance(value, np.str_) or nodes.is_numeric(np.asarray(value).dtype):
                return nodes.scalar_node(value)
            raise _unholdable(where, f"a {type(value).__name__}")
        key = id(value)
        if key not in self._known:
            if key in self._open:
                raise UnsavableError(
                    f"{_place(where)} holds itself, and a model file has no place for a circle"
                )
            if len(self._open) >= DEEPEST:
                raise UnsavableError(f"{_place(where)} lies inside of {DEEPEST} others")
            self._open.add(key)
            node = self._node(value, where)
            self._open.discard(key)
            self._known[key] = len(self.nodes)
            self._alive.append(value)
            self.nodes.append(node)
        return {"at": self._known[key]}

    def put(self, where: str, array: NDArray[Any]) -> str:
        """Keep a tensor under the name of its place."""
        name = where
        while name in self.tensors:  # two places may have the same name
            name += "_"
        self.tensors[name] = array
        return name

    # Nodes -----------------------------------------------------------------------------------

    def _node(self, value: Any, where: str) -> Node:
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if nodes.is_sparse(value):
            return nodes.sparse_node(value, lambda v, name: self.child(v, f"{where}.{name}"))
        if nodes.is_generator(value):
            return nodes.generator_node(value, lambda v, name: self.child(v, f"{where}.{name}"))
        library = type(value).__module__.partition(".")[0]
        if library in ("pandas", "polars", "pyarrow") and hasattr(value, "__array__"):
            # An index or a series, as a parameter that lists columns, or codes.
            return self._array(np.asarray(value), where)
        if type(value) is range:
            return {"is": "range", "items": [value.start, value.stop, value.step]}
        if type(value) in (list, tuple, set, frozenset):
            items = [self.child(item, f"{where}.{k}") for k, item in enumerate(value)]
            if type(value) in (set, frozenset):
                items.sort(key=repr)  # the same file for the same set
            return {"is": type(value).__name__, "items": items}
        if type(value) is dict:
            return {"is": "dict", "items": self._pairs(value, where)}
        cls = type(value)
        if (cls.__module__, cls.__name__) == ("eigengap.selection.rank.choice", "ReadOnly"):
            return {"is": "readonly", "items": self._pairs(dict(value), where)}
        if isinstance(value, PurePath):
            return {"is": "path", "path": str(value)}
        kind = kind_of(type(value))
        if kind is None:
            raise _unsavable(value, where)
        write = self._estimator if kind.name in ESTIMATORS else self._value
        try:
            return write(value, kind, where)
        except MalformedError as error:
            raise UnsavableError(
                f"{_place(where)} is not as eigengap makes it, and would not be read again: {error}"
            ) from None

    def _array(self, array: NDArray[Any], where: str) -> Node:
        if isinstance(array, np.ma.MaskedArray | np.matrix):
            raise _unsavable(array, where)
        if nodes.is_numeric(array.dtype):
            return nodes.array_node(array, where, self.put)
        if array.dtype.kind == "U" and self._width.takes(
            array.dtype.itemsize // 4, array.reshape(-1).tolist()
        ):
            return nodes.strings_node(array, where, self.put)
        if array.dtype.kind != "O":
            raise _unholdable(where, f"an array of {array.dtype}")
        items = array.reshape(-1).tolist()
        if all(type(item) is str for item in items):
            return nodes.strings_node(array, where, self.put)
        children = [self.child(item, f"{where}.{k}") for k, item in enumerate(items)]
        return {"is": "objects", "shape": list(array.shape), "items": children}

    def _pairs(self, value: dict[Any, Any], where: str) -> list[list[Any]]:
        return [
            [self.child(key, f"{where}.key"), self.child(item, f"{where}.{_named(key, k)}")]
            for k, (key, item) in enumerate(value.items())
        ]

    def _value(self, value: Any, kind: Kind, where: str) -> Node:
        names = kind.remade_from or tuple(field.name for field in fields(value))
        held = {name: getattr(value, name) for name in names}
        if kind.name == "Neighbours" and value.search.algorithm == "approximate":
            # Whose outcome depends on the number of threads.
            held["search"] = replace(value.search, n_jobs=int(value.index.n_jobs))
        written = {name: self.child(item, f"{where}.{name}") for name, item in held.items()}
        require_value(kind, type(value), held)
        return {"is": "value", "kind": kind.name, "version": kind.version, "fields": written}

    def _estimator(self, estimator: Any, kind: Kind, where: str) -> Node:
        at = f"{where}." if where else ""
        given = estimator.get_params(deep=False)
        kept = {name: NOT_KEPT.get(name, value) for name, value in given.items()}
        parameters = {name: self.child(value, f"{at}{name}") for name, value in kept.items()}
        held = {
            name: value
            for name, value in vars(estimator).items()
            if name not in given and name not in NOT_OF_FIT
        }
        attributes = {name: self.child(value, f"{at}{name}") for name, value in held.items()}
        require_estimator(type(estimator), held, given)
        return {
            "is": "estimator", "kind": kind.name, "version": kind.version,
            "parameters": parameters, "attributes": attributes,
        }  # fmt: skip


def _named(key: Any, k: int) -> str:
    """The name of an entry of a dict: its key where that is a plain word, else its position."""
    plain = isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w{0,60}", key, re.ASCII)
    return str(key) if plain else str(k)


def _place(where: str) -> str:
    return f"{where[:LETTERS]!r}" if where else "what is to be saved"


def _unholdable(where: str, what: str) -> UnsavableError:
    return UnsavableError(f"{_place(where)} is {what}, which a model file cannot hold")


def _unsavable(value: Any, where: str) -> UnsavableError:
    cls, parameter = type(value), where.rpartition(".")[2]
    if callable(value):
        name = getattr(value, "__name__", cls.__name__)
        what = f"a function ({name!s:.60}), and a model file holds no code"
        way_out = WAYS_OUT.get(parameter, "Give it by a name, where the parameter takes one")
    else:
        what = (
            f"a {cls.__module__}.{cls.__qualname__}, and a model file holds only what eigengap "
            "makes itself"
        )
        way_out = WAYS_OUT.get(parameter, "")
    return UnsavableError(f"{_place(where)} is {what}. {way_out}".rstrip())
