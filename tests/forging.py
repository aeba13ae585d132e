"""Forged model files: descriptions and arrays changed at random, with every checksum put right."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from eigengap.exceptions import CorruptFileError, DoesNotFitError, NewerFormatError
from eigengap.persistence.model_file import load, save
from eigengap.persistence.tensors import read_tensors, write_tensors
from eigengap.runtime.warnings import silence
from tests.model_files import case

REFUSED = (CorruptFileError, NewerFormatError, DoesNotFitError)
ASKED = (
    "transform",
    "impute",
    "score_samples",
    "predict",
    "predict_proba",
    "decision_function",
    "reconstruct",
    "score",
    "inverse_transform",
)
PATIENCE = ("max_iter", "n_init")  # a million of them are an order, if a foolish one
LEAVES: tuple[Any, ...] = (
    None, True, False, "", "x", 0, 1, -1, 3, 10**6, -(10**18), 1 << 62, 10**40,
    0.0, -0.5, 1e-320, 1e308, -1e308,
    {"float": "nan"}, {"float": "inf"}, {"float": "-inf"},
)  # fmt: skip


@dataclass
class File:
    """What stands in a model file."""

    nodes: list[Any]
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def copied(self) -> File:
        header = copy.deepcopy(self.header)
        return File(header["nodes"], header, {k: v.copy() for k, v in self.arrays.items()})


def read(path: Path, kind: str = "model") -> File:
    arrays, header = read_tensors(path, kind=kind)
    return File(header.get("nodes", []), header, arrays)


def write(file: File, path: Path, kind: str = "model") -> None:
    write_tensors(path, file.arrays, file.header, kind=kind)


# Changes -----------------------------------------------------------------------------------------


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of every dict and list, as what holds it and under which key."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in list(keys):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def change_a_leaf(file: File, rng: np.random.Generator) -> str:
    found = [
        p
        for p in places(file.nodes)
        if not isinstance(p[0][p[1]], dict | list) and p[1] not in PATIENCE
    ]
    holder, key = found[rng.integers(len(found))]
    new = LEAVES[rng.integers(len(LEAVES))]
    told = f"{key!r}: {holder[key]!r:.40} -> {new!r}"
    holder[key] = new
    return told


def drop_an_entry(file: File, rng: np.random.Generator) -> str:
    found = list(places(file.nodes))
    holder, key = found[rng.integers(len(found))]
    told = f"without {key!r}: {holder[key]!r:.60}"
    del holder[key]
    return told


def exchange_two_entries(file: File, rng: np.random.Generator) -> str:
    """Values of one node under each other's names, or in each other's places."""
    some = [node for node in file.nodes if isinstance(node, dict)]
    node = some[rng.integers(len(some))]
    held = node.get("fields") or node.get("attributes") or node
    if len(held) < 2:
        return drop_an_entry(file, rng)
    a, b = rng.choice(list(held), size=2, replace=False)
    held[a], held[b] = held[b], held[a]
    return f"{a} and {b} exchanged"


def point_elsewhere(file: File, rng: np.random.Generator) -> str:
    found = [p for p in places(file.nodes) if p[1] == "at"]
    if not found:
        return change_a_leaf(file, rng)
    holder, key = found[rng.integers(len(found))]
    new = int(rng.integers(len(file.nodes)))
    told = f"at {holder[key]} -> {new}"
    holder[key] = new
    return told


def change_numbers(file: File, rng: np.random.Generator) -> str:
    name, array = an_array(file, rng)
    values = [0, 1, -1, 1e300, -1e300, 1e-300, np.nan, np.inf, -np.inf, 1 << 40, 127, -128]
    value = values[rng.integers(len(values))]
    if array.dtype.kind == "b":
        value = bool(rng.integers(2))
    elif array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = 0 if not np.isfinite(value) else value
        value = int(min(max(int(value), limits.min), limits.max))
    one = rng.random() < 0.5 and array.size
    with np.errstate(over="ignore"):
        if one:
            array.reshape(-1)[rng.integers(array.size)] = value
        else:
            array[...] = value
    return f"{name}: {'one number' if one else 'all'} {value}"


def change_signs(file: File, rng: np.random.Generator) -> str:
    name, array = an_array(file, rng)
    if array.dtype.kind in "bu":
        return change_numbers(file, rng)
    np.negative(array, out=array)
    return f"{name}: negated"


def change_a_shape(file: File, rng: np.random.Generator) -> str:
    name, array = an_array(file, rng)
    ways: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
        lambda a: a[:-1],
        lambda a: a[:0],
        lambda a: a[..., :-1],
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: a[None],
        lambda a: a[..., None],
        lambda a: np.concatenate([a, a]),
        lambda a: np.concatenate([a, a], axis=-1),
        lambda a: a.reshape(-1)[:1].reshape(()),
    )
    try:
        new = ways[rng.integers(len(ways))](array)
    except (ValueError, IndexError):
        new = array.reshape(-1)
    file.arrays[name] = np.ascontiguousarray(new).reshape(new.shape)
    return f"{name}: {array.shape} -> {new.shape}"


def change_a_type(file: File, rng: np.random.Generator) -> str:
    name, array = an_array(file, rng)
    types = ("f4", "f8", "f2", "i8", "u1", "?", "i4")
    dtype = types[rng.integers(len(types))]
    with np.errstate(all="ignore"):
        file.arrays[name] = array.astype(dtype)
    return f"{name}: {array.dtype} -> {dtype}"


def share_a_tensor(file: File, rng: np.random.Generator) -> str:
    some = [node for node in file.nodes if isinstance(node, dict) and "tensor" in node]
    if len(some) < 2:
        return change_numbers(file, rng)
    a, b = rng.choice(len(some), size=2, replace=False)
    some[a]["tensor"] = some[b]["tensor"]
    file.arrays = {k: v for k, v in file.arrays.items() if k in {n["tensor"] for n in some}}
    return f"two nodes of {some[b]['tensor']}"


def an_array(file: File, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    name = sorted(file.arrays)[rng.integers(len(file.arrays))]
    return name, file.arrays[name]


CHANGES = (
    change_a_leaf, change_a_leaf, drop_an_entry, exchange_two_entries, point_elsewhere,
    change_numbers, change_numbers, change_signs, change_a_shape, change_a_type, share_a_tensor,
)  # fmt: skip


def forged(file: File, rng: np.random.Generator) -> tuple[File, str]:
    """One change, and what it is."""
    new = file.copied()
    return new, CHANGES[rng.integers(len(CHANGES))](new, rng)


# Verdicts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Original:
    file: File
    rows: Any
    answers: dict[str, Any]  # arrays, or the error that was raised


@cache
def original(name: str, folder: Path) -> Original:
    estimator, X = case(name)
    path = save(estimator, folder / "original.egap", provenance={})
    rows = X[:6] if X.shape[1] != X.shape[0] else X
    loaded = load(path)
    found = {method: answer(loaded, method, rows) for method in ASKED if hasattr(loaded, method)}
    return Original(read(path), rows, found)


def answer(estimator: Any, method: str, rows: Any) -> Any:
    """What a method says, as floats; or the error."""
    try:
        with silence(), np.errstate(all="ignore"):
            if method == "inverse_transform":
                found = estimator.inverse_transform(estimator.transform(rows))
            elif method == "score" and hasattr(estimator, "predict"):
                found = estimator.score(rows, estimator.predict(rows))
            else:
                found = getattr(estimator, method)(rows)
    except Exception as error:
        return error
    if scipy.sparse.issparse(found):
        found = found.toarray()
    found = np.asarray(found)
    return found.astype(float) if found.dtype.kind in "fiub" else np.zeros(found.shape)


def fault(found: Any, expected: Any) -> str:
    """What is wrong with an answer: nothing where it is finite, or an error in words of ours."""
    if isinstance(found, Exception):
        return "" if isinstance(expected, Exception) or is_in_words(found) else told(found)
    if isinstance(expected, Exception):
        return ""
    if np.all(np.isfinite(found)) or not np.all(np.isfinite(expected)):
        return ""
    return f"{int((~np.isfinite(found)).sum())} of {found.size} not finite"


def is_in_words(error: Exception) -> bool:
    """Whether it is a ValueError that the package, or scikit-learn's checks, raise on purpose."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if Path(last.filename).name == "_available_if.py":  # no method for these parameters
        return True
    ours = any(part in last.filename for part in ("eigengap", "sklearn"))
    return isinstance(error, ValueError) and ours and (last.line or "").startswith("raise")


def told(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = Path(last.filename)
    return f"{type(error).__name__}: {error!s:.80} ({where.parent.name}/{where.name}:{last.lineno})"


def faults(path: Path, before: Original) -> str | None:
    """What is wrong with a file: None where it is refused, nothing where its answers are sound."""
    try:
        with silence(), np.errstate(all="ignore"):
            loaded = load(path)
    except REFUSED:
        return None
    except Exception as error:
        return f"load: {told(error)}"
    for method, expected in before.answers.items():
        wrong = fault(answer(loaded, method, before.rows), expected)
        if wrong:
            return f"{method}: {wrong}"
    return ""
