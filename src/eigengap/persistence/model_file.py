"""Model files (.egap): a fitted estimator that outlives the process, without code in it.

A file is safetensors (`tensors`), whose header holds what is no array: the nodes of `encoding`, who
wrote it, some facts that can be read without loading, and where the model comes from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from eigengap.exceptions import CorruptFileError, NewerFormatError
from eigengap.exceptions import UnsavableError as UnsavableError
from eigengap.persistence import nodes
from eigengap.persistence.atomic import sweep
from eigengap.persistence.decoding import REFUSALS, Decoder
from eigengap.persistence.encoding import Encoder
from eigengap.persistence.kinds import ESTIMATORS, kind_of
from eigengap.persistence.nodes import MalformedError, Node, require
from eigengap.persistence.provenance import provenance_of, require_flat
from eigengap.persistence.tensors import TensorFacts, read_head, read_tensors, write_tensors
from eigengap.printable import bare

KIND = "model"
# Of what `inspect_file` shows of parameters:
DEEPEST = 6  # levels
MOST = 50  # entries of a list
MOST_AT_ALL = 10_000  # entries
LONGEST = 1000  # letters of a text


@dataclass(frozen=True)
class ModelFacts:
    """The metadata of a model file.

    Attributes
    ----------
    path : Path
    size : int
        Bytes of the file.
    format : int
        Version of the format.
    version : str
        Version of eigengap that wrote it.
    kind : str
        Class of the estimator.
    parameters : dict
        Parameters of the estimator, as JSON could have them; arrays are described.
    n_features : int or None
    feature_names : tuple of str or None
    provenance : dict
        Where the model comes from (`provenance_of`).
    tensors : tuple of (name, dtype, shape)
    summary : dict
        n_components, n_iter, converged, log_likelihood, noise_variance, where the model has them.
    """

    path: Path
    size: int
    format: int
    version: str
    kind: str
    parameters: dict[str, Any] = field(repr=False)
    n_features: int | None
    feature_names: tuple[str, ...] | None = field(repr=False)
    provenance: dict[str, Any] = field(repr=False)
    tensors: tuple[tuple[str, str, tuple[int, ...]], ...] = field(repr=False)
    summary: dict[str, Any] = field(repr=False)


def save(
    estimator: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None
) -> Path:
    """Write a fitted estimator to a model file.

    The file is there completely or not at all; what was under this name stays until it is. It holds
    numbers and names, no code, and no pickle: whoever loads it runs nothing of it.

    Parameters
    ----------
    estimator : fitted estimator of eigengap
    path : str or path-like
        Customarily with the suffix .egap. A file that is there is replaced.
    provenance : dict of str to str, int, float, bool or None, default=None
        Where the model comes from; None is `provenance_of()`, time and versions.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    UnsavableError
        The estimator is not fitted, or holds what no file can: a function as kernel or metric, an
        estimator of another package.
    OSError
        The file cannot be written; what was there is as it was.

    Notes
    -----
    The parameter `checkpoint` is not kept (it is None after loading), nor are metadata requests of
    scikit-learn. docs/model-files.md has the details.

    Examples
    --------
    >>> import tempfile, numpy as np, eigengap as eg
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> model = eg.PPCA(2).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = eg.save(model, f"{folder}/model.egap")
    ...     again = eg.load(path)
    >>> bool(np.array_equal(again.transform(X), model.transform(X)))
    True
    """
    kind = kind_of(type(estimator))
    if kind is None or kind.name not in ESTIMATORS:
        what = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
        raise UnsavableError(f"a {what} is no estimator of eigengap, and model files hold no other")
    if not _is_fitted(estimator):
        raise UnsavableError(f"this {kind.name} is not fitted: call fit before save")
    record = require_flat(provenance_of() if provenance is None else provenance)
    encoder = Encoder()
    encoder.child(estimator, "")
    from eigengap import __version__

    header = {
        "writer": __version__,
        "kind": kind.name,
        "nodes": encoder.nodes,
        "summary": _summary(estimator),
        "provenance": record,
    }
    target = Path(path)
    sweep(target)
    try:
        write_tensors(target, encoder.tensors, header, kind=KIND)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"{reason}: the model was not saved, and what was under this name is as it was"
        raise type(error)(error.errno, message, str(target)) from None
    except ValueError as error:
        raise UnsavableError(f"this {kind.name} is too large to describe: {error}") from None
    return target


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator of a model file, with the same outputs, bit for bit.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    estimator
        Fitted, with `provenance_`, the record of where it comes from.

    Raises
    ------
    CorruptFileError
        The file is damaged, or is no model file.
    NewerFormatError
        A later version of eigengap wrote it.

    Examples
    --------
    >>> import tempfile, numpy as np, eigengap as eg
    >>> model = eg.PCA(1).fit(np.eye(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = eg.load(eg.save(model, f"{folder}/m.egap", provenance={"data": "eye"}))
    >>> again.provenance_
    {'data': 'eye'}
    """
    arrays, header = read_tensors(path, kind=KIND)
    with _refusing(path):
        estimator = Decoder(arrays, str(header.get("writer"))).make(header.get("nodes"))
        kind = kind_of(type(estimator))
        if kind is None or kind.name not in ESTIMATORS or kind.name != header.get("kind"):
            raise MalformedError("it holds no estimator, or another than its header names")
        require(_is_fitted(estimator), "the estimator is not fitted")
        estimator.provenance_ = require_flat(header.get("provenance"))
    return estimator


@contextmanager
def _refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the contents of a file name the file."""
    try:
        yield
    except NewerFormatError as error:
        raise NewerFormatError(f"{bare(path)}: {bare(error)}") from None
    except REFUSALS as error:
        raise CorruptFileError(
            f"{bare(path)} is not a model that eigengap wrote: {bare(error)}. Give another path"
        ) from None


def inspect_file(path: str | os.PathLike[str]) -> ModelFacts:
    """The metadata of a model file, without loading the model.

    Only the head of the file is read, and no estimator imported (where the names of columns take
    more than a million letters they lie behind it, and the whole file is read).

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    ModelFacts

    Examples
    --------
    >>> import tempfile, numpy as np, eigengap as eg
    >>> from eigengap.persistence.model_file import inspect_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = inspect_file(eg.save(eg.PCA(1).fit(np.eye(3)), f"{folder}/m.egap"))
    >>> facts.kind, facts.n_features, facts.summary["n_components"]
    ('PCA', 3, 1)
    """
    head = read_head(path, kind=KIND)
    header = head.header
    with _refusing(path):
        description = Description(header.get("nodes"), head.tensors)
        return ModelFacts(
            path=Path(path),
            size=head.size,
            format=head.format,
            version=str(header.get("writer")),
            kind=str(description.root["kind"]),
            parameters=description.parameters(),
            n_features=description.n_features(),
            feature_names=description.feature_names(lambda: read_tensors(path, kind=KIND)[0]),
            provenance=require_flat(header.get("provenance")),
            tensors=head.tensors,
            summary=require_flat(header.get("summary")),
        )


def _is_fitted(estimator: Any) -> bool:
    """The rule of scikit-learn, which this room does not import."""
    if hasattr(estimator, "__sklearn_is_fitted__"):
        return bool(estimator.__sklearn_is_fitted__())
    return any(
        name.endswith("_") and not name.startswith("__") and name != "provenance_"
        for name in vars(estimator)
    )


def _summary(estimator: Any) -> dict[str, Any]:
    """Facts that can be read without loading; nothing is computed for them."""
    waits = "_batches" in vars(estimator) and "model_" not in vars(estimator)
    names = ["n_samples_seen_"]
    if not waits:
        names += ["n_components_", "n_iter_", "converged_", "log_likelihood_", "noise_variance_"]
    found = {name.rstrip("_"): _plain(getattr(estimator, name, None)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _plain(value: Any) -> Any:
    """A single number or truth value, a few as text; None of anything else."""
    if isinstance(value, tuple) and len(value) <= 20:
        return ", ".join(map(str, value))
    if getattr(value, "ndim", 0) != 0:
        return None
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, int | float) and isfinite(value) else None


class Description:
    """The estimator that is the last node of a file, as JSON; its objects are not made."""

    def __init__(self, given: Any, tensors: tuple[TensorFacts, ...]) -> None:
        if not isinstance(given, list) or not given or not isinstance(given[-1], dict):
            raise MalformedError("it holds nothing")
        self.nodes, self.root = given, given[-1]
        is_estimator = self.root.get("is") == "estimator" and isinstance(self.root.get("kind"), str)
        require(is_estimator, "it holds no estimator")
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._remaining = MOST_AT_ALL

    def parameters(self) -> dict[str, Any]:
        given = self._part(self.root, "parameters")
        return {name: self._shown(value, 0) for name, value in sorted(given.items())}

    def n_features(self) -> int | None:
        count = self._shown(self._part(self.root, "attributes").get("n_features_in_"), 0)
        return count if isinstance(count, int) else None

    def feature_names(self, read: Callable[[], dict[str, Any]]) -> tuple[str, ...] | None:
        """They may lie among the arrays, which `read` reads."""
        given = self._part(self.root, "attributes").get("feature_names_in_")
        if given is None:
            return None
        node = self._node(given, len(self.nodes) - 1)
        tensors = read() if "text" in node else {}
        return tuple(nodes.strings_in(node, lambda name: tensors[name]))

    def _part(self, node: Node, name: str) -> dict[str, Any]:
        part = node.get(name)
        if not isinstance(part, dict):
            raise MalformedError(f"a {node.get('is')!s:.40} without {name}")
        return part

    def _node(self, given: Any, before: int) -> Node:
        at = given.get("at") if isinstance(given, dict) else None
        if type(at) is not int or not 0 <= at < before or not isinstance(self.nodes[at], dict):
            raise MalformedError("a part that points at nothing before it")
        node: Node = self.nodes[at]
        return node

    def _shown(self, given: Any, depth: int) -> Any:
        """A value as JSON has it, as far as it is short."""
        self._remaining -= 1
        if given is None or type(given) in (bool, int, float):
            return _finite(given)
        if isinstance(given, str):
            return given if len(given) <= LONGEST else f"{given[:LONGEST]}..."
        require(isinstance(given, dict), "a value that is none")
        if "float" in given or "text" in given:
            return str(given.get("float", given.get("text")))[:LONGEST]
        if "scalar" in given:
            return _finite(nodes.scalar_of(given).item())
        if depth >= DEEPEST or self._remaining <= 0:
            return "..."
        return self._of_node(self._node(given, len(self.nodes)), depth + 1)

    def _of_node(self, node: Node, depth: int) -> Any:
        what, items = str(node.get("is")), node.get("items")
        if what in ("list", "tuple", "set", "frozenset") and isinstance(items, list):
            shown = [self._shown(item, depth) for item in items[:MOST]]
            return [*shown, "..."] if len(items) > MOST else shown
        if what in ("dict", "readonly") and isinstance(items, list):
            return {str(self._shown(k, depth)): self._shown(v, depth) for k, v in items[:MOST]}
        if what == "path":
            return str(node.get("path"))
        if what in ("value", "estimator"):
            inner = self._part(node, "fields" if what == "value" else "parameters")
            parts = {name: self._shown(value, depth) for name, value in inner.items()}
            return {"kind": str(node.get("kind")), **parts}
        if what == "array" and node.get("tensor") in self._tensors:
            tensor = self._tensors[node["tensor"]]
            size = " x ".join(map(str, tensor.shape)) or "one number"
            return f"array of {node.get('dtype', tensor.dtype)!s:.20}, {size}"
        words = {"strings": "array of texts", "objects": "array of objects", "random": "generator"}
        return words.get(what, f"{what:.40}")


def _finite(value: Any) -> Any:
    """A number, or the text of what JSON has no number for."""
    is_number = value is None or isinstance(value, int)
    return value if is_number or (isinstance(value, float) and isfinite(value)) else repr(value)
