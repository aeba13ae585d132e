"""Arrays, their scalars, sparse matrices and random generators, as JSON that points at tensors.

An array comes back with its type, its byte order, the order of its axes in memory (on which the
last bit of a matrix product depends) and whether it may be written to; a generator with its state,
so that what it draws next is what it would have drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.persistence.tensors import CODES

Node = dict[str, Any]
Put = Callable[[str, NDArray[Any]], str]  # keeps a tensor, and gives its name
Get = Callable[[Any], NDArray[Any]]  # the tensor of that name

NUMBERS = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[mM]8(\[\d{0,6}[A-Za-z]{1,7}\])?)")
TEXTS = re.compile(r"[<>]U(\d{1,9})")
PER_LETTER = 256  # bytes that arrays of strings of one width may take for each letter in them
SPARE_TEXT = 1 << 24  # bytes that all of them together may take beyond that
LONG = 1 << 20  # letters from which strings lie among the tensors and not in the header
ROWS = ("data", "indices", "indptr")
# The arrays of a sparse matrix, by its format.
SPARSE = {
    "bsr": ROWS, "csc": ROWS, "csr": ROWS,
    "coo": ("data", "row", "col"), "dia": ("data", "offsets"),
}  # fmt: skip


class MalformedError(ValueError):
    """The contents of a file cannot be what eigengap wrote."""


def require(holds: Any, wrong: str) -> None:
    if not holds:
        raise MalformedError(wrong)


# Arrays of numbers -----------------------------------------------------------------------------


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether tensors hold it, as it is or by its bits."""
    return NUMBERS.fullmatch(dtype.str) is not None


def array_node(array: NDArray[Any], where: str, put: Put) -> Node:
    node: Node = {"is": "array"}
    # Axes from the slowest to the fastest, unless that is their own order, or none has.
    long = [stride for stride, n in zip(array.strides, array.shape, strict=True) if n > 1]
    axes = sorted(range(array.ndim), key=lambda k: -array.strides[k])
    is_mixed = not array.flags.c_contiguous and all(stride > 0 for stride in long)
    if is_mixed and axes != list(range(array.ndim)):
        node["axes"] = axes
        array = array.transpose(axes)
    if not array.flags.writeable:
        node["frozen"] = True
    if array.dtype.name not in CODES or array.dtype.byteorder == ">":
        node["dtype"] = array.dtype.str
    # A type that tensors have, of the same numbers or of the bits of them.
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    if plain.dtype.kind == "c":  # with the two parts of each number as a last axis
        plain = np.stack([plain.real, plain.imag], axis=-1)
    elif plain.dtype.kind in "mM":
        plain = plain.view(np.int64)
    node["tensor"] = put(where, plain)
    return node


def array_of(node: Node, get: Get) -> NDArray[Any]:
    array = get(node.get("tensor"))
    if "dtype" in node:
        array = _from_bits(array, node["dtype"])
    if "axes" in node:
        axes, own = node["axes"], range(array.ndim)
        is_order = isinstance(axes, list) and sorted(map(repr, axes)) == sorted(map(repr, own))
        require(is_order, f"axes {axes!s:.40} of an array of {array.ndim} dimensions")
        array = array.transpose(np.argsort(axes))
    if node.get("frozen") is True:
        array.flags.writeable = False
    return array


def _from_bits(array: NDArray[Any], text: Any) -> NDArray[Any]:
    dtype = numeric_dtype(text)
    little = dtype.newbyteorder("<")
    shape = array.shape
    if dtype.kind == "c":
        fits = array.ndim and shape[-1] == 2 and array.dtype.itemsize * 2 == dtype.itemsize
        shape = shape[:-1]
    else:
        fits = array.dtype == (np.int64 if dtype.kind in "mM" else little)
    require(fits, f"an array {array.shape} of {array.dtype} for {text}")
    return array.view(little).reshape(shape).astype(dtype, copy=False)


def numeric_dtype(text: Any) -> np.dtype[Any]:
    """The type that a file names, if it is one of numbers."""
    try:
        if NUMBERS.fullmatch(text) is not None:
            dtype: np.dtype[Any] = np.dtype(text)
            return dtype
    except TypeError:  # no text, or no unit of time
        pass
    raise MalformedError(f"no type of numbers: {text!s:.40}")


# Arrays of strings -----------------------------------------------------------------------------


class Width:
    """What arrays of strings take beyond their letters, which a small file could make anything."""

    def __init__(self) -> None:
        self._spare = SPARE_TEXT

    def takes(self, width: int, items: list[str]) -> bool:
        """Whether an array of these strings is still within bounds."""
        self._spare -= max(4 * width * len(items) - PER_LETTER * sum(map(len, items)), 0)
        return self._spare >= 0


def strings_node(array: NDArray[Any], where: str, put: Put) -> Node:
    """An array of strings, of a width of its own or of objects."""
    items: list[str] = array.reshape(-1).tolist()
    node: Node = {"is": "strings", "shape": list(array.shape)}
    if array.dtype.kind == "U":
        node["dtype"] = array.dtype.str
    if not array.flags.writeable:
        node["frozen"] = True
    if sum(map(len, items)) + len(items) <= LONG:
        return node | {"items": items}
    coded = [item.encode("utf-8", "surrogatepass") for item in items]
    ends = np.cumsum([len(code) for code in coded], dtype=np.int64)
    node["text"] = put(f"{where}.text", np.frombuffer(b"".join(coded), dtype=np.uint8))
    node["ends"] = put(f"{where}.ends", ends)
    return node


def strings_of(node: Node, get: Get, width: Width) -> NDArray[Any]:
    items, dtype = strings_in(node, get), node.get("dtype", "O")
    if dtype != "O":
        found = TEXTS.fullmatch(dtype) if isinstance(dtype, str) else None
        longest = max(map(len, items), default=0)
        fits = found and longest <= int(found[1]) and width.takes(int(found[1]), items)
        require(fits, f"{len(items)} strings as an array of {dtype!s:.40}")
    array = filled(np.empty(len(items), dtype=dtype), items, shape_of(node.get("shape")))
    if node.get("frozen") is True:
        array.flags.writeable = False
    return array


def filled(array: NDArray[Any], items: list[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """The items, one by one, in an array of that shape."""
    fits = int(np.prod(shape, dtype=np.int64)) == len(items)
    require(fits, f"{len(items)} items for an array of shape {shape}")
    for k, item in enumerate(items):
        array[k] = item
    return array.reshape(shape)


def strings_in(node: Node, get: Get) -> list[str]:
    """The strings of a node, from the header or from the tensors."""
    items = node.get("items")
    if "items" not in node:
        items = _from_text(get(node.get("text")), get(node.get("ends")))
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise MalformedError("an array of strings that holds something else")
    return items


def _from_text(text: NDArray[Any], ends: NDArray[Any]) -> list[str]:
    whole = text.dtype == np.uint8 and ends.dtype == np.int64 and text.ndim == ends.ndim == 1
    bounds = np.concatenate([[0], ends]) if whole else np.empty(0)
    if not whole or np.any(np.diff(bounds) < 0) or bounds[-1] != len(text):
        raise MalformedError("strings whose ends do not fit their letters")
    data = text.tobytes()
    try:
        return [
            data[a:b].decode("utf-8", "surrogatepass")
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
    except UnicodeDecodeError:
        raise MalformedError("strings that are no text") from None


def shape_of(given: Any) -> tuple[int, ...]:
    is_shape = isinstance(given, list) and all(type(n) is int and n >= 0 for n in given)
    is_small = is_shape and len(given) <= 32 and np.prod(given, dtype=np.float64) <= 2**53
    require(is_small, f"no shape: {given!s:.40}")
    return tuple(given)


# Scalars ---------------------------------------------------------------------------------------


def scalar_node(value: np.generic) -> Node:
    """A number of NumPy's, by its bits: NaN and infinity are no numbers of JSON."""
    plain = np.asarray(value)
    if isinstance(value, np.str_):
        return {"text": str.__str__(value)}  # numpy's own leaves out NUL at the end
    return {"scalar": plain.dtype.str, "bits": plain.tobytes().hex()}


def scalar_of(node: Node) -> np.generic:
    if "text" in node:
        require(isinstance(node["text"], str), "a string that is none")
        return np.str_(node["text"])
    dtype = numeric_dtype(node["scalar"])
    try:
        bits = bytes.fromhex(node["bits"])
    except (KeyError, TypeError, ValueError):
        raise MalformedError("a number without its bits") from None
    require(len(bits) == dtype.itemsize, f"{len(bits)} bytes for a number of type {dtype}")
    found: np.generic = np.frombuffer(bits, dtype=dtype)[0]
    return found


# Sparse matrices -------------------------------------------------------------------------------


def is_sparse(value: Any) -> bool:
    if not type(value).__module__.startswith("scipy.sparse"):
        return False
    return getattr(value, "format", None) in SPARSE and len(getattr(value, "shape", ())) == 2


def sparse_node(value: Any, child: Callable[[Any, str], Any]) -> Node:
    """Parts of a matrix as their arrays, under their names in SciPy."""
    import scipy.sparse

    return {
        "is": "sparse",
        "format": value.format,
        "old": isinstance(value, scipy.sparse.spmatrix),  # csr_matrix, not csr_array
        "shape": list(map(int, value.shape)),
        "parts": {name: child(getattr(value, name), name) for name in SPARSE[value.format]},
    }


def sparse_of(node: Node, child: Callable[[Any], Any]) -> Any:
    import scipy.sparse

    layout, parts = node.get("format"), node.get("parts")
    if not isinstance(layout, str) or layout not in SPARSE or not isinstance(parts, dict):
        raise MalformedError(f"no format of sparse matrices: {layout!s:.40}")
    names = SPARSE[layout]
    require(set(parts) == set(names), f"a sparse matrix ({layout}) of {sorted(parts)!s:.80}")
    data, *places = (child(parts[name]) for name in names)
    if not all(isinstance(part, np.ndarray) for part in (data, *places)):
        raise MalformedError("a sparse matrix whose parts are no arrays")
    shape = shape_of(node.get("shape"))
    cls = getattr(scipy.sparse, f"{layout}_{'matrix' if node.get('old') is True else 'array'}")
    try:
        if layout == "coo":
            return cls((data, tuple(places)), shape=shape)
        made = cls((data, *places), shape=shape)
        if names is ROWS:
            made.check_format(full_check=True)  # compiled code trusts indices
            made.indices, made.indptr = places  # of their own type
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise MalformedError(f"a sparse matrix that is none ({error!s:.80})") from None
    return made


# Random generators -----------------------------------------------------------------------------

U4, U8 = np.uint32, np.uint64
# What a state holds, by the place of it: so many words of a type, an integer ("int"), or a position
# up to a number. NumPy copies a state into its C structures and checks little of it; a position
# outside of its table would be read.
STATES: dict[str, dict[str, Any]] = {
    "MT19937": {"state.key": (624, U4), "state.pos": 624},
    "PCG64": {"state.state": "int", "state.inc": "int"},
    "PCG64DXSM": {"state.state": "int", "state.inc": "int"},
    "Philox": {
        "state.counter": (4, U8), "state.key": (2, U8), "buffer": (4, U8), "buffer_pos": 4,
    },
    "SFC64": {"state.state": (4, U8)},
}  # fmt: skip


def is_generator(value: Any) -> bool:
    known = isinstance(value, np.random.Generator | np.random.RandomState)
    return known and type(_bits_of(value)).__name__ in STATES


def generator_node(value: Any, child: Callable[[Any, str], Any]) -> Node:
    old = isinstance(value, np.random.RandomState)
    state = value.get_state(legacy=False) if old else value.bit_generator.state
    node = {"is": "random", "old": old, "state": child(state, "state")}
    seeds = getattr(_bits_of(value), "seed_seq", None)
    if isinstance(seeds, np.random.SeedSequence):  # of which children are spawned
        entropy = seeds.entropy
        plain = entropy if entropy is None or isinstance(entropy, int) else list(map(int, entropy))
        kept = {
            "entropy": plain,
            "spawn_key": [int(key) for key in seeds.spawn_key],
            "pool_size": int(seeds.pool_size),
            "n_children_spawned": int(seeds.n_children_spawned),
        }
        node["seeds"] = child(kept, "seeds")
    return node


def generator_of(node: Node, child: Callable[[Any], Any]) -> Any:
    state = child(node.get("state"))
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in STATES:
        raise MalformedError(f"no generator: {name!s:.40}")
    _require_state(state, name)
    try:
        seeds = _seeds(child(node["seeds"])) if "seeds" in node else 0
        bits = getattr(np.random, name)(seeds)
        if node.get("old") is True:
            made = np.random.RandomState(bits)
            made.set_state(state)
            return made
        bits.state = state
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise MalformedError(f"a generator that is none ({error!s:.80})") from None
    return np.random.Generator(bits)


def _bits_of(value: Any) -> Any:
    return value._bit_generator if isinstance(value, np.random.RandomState) else value.bit_generator


def _seeds(given: Any) -> np.random.SeedSequence:
    names = {"entropy", "spawn_key", "pool_size", "n_children_spawned"}
    is_whole = isinstance(given, dict) and set(given) == names
    require(is_whole and isinstance(given["spawn_key"], list), "seeds without a part")
    entropy, size = given["entropy"], given["pool_size"]
    words = [] if entropy is None else entropy if isinstance(entropy, list) else [entropy]
    some = [*words, *given["spawn_key"], given["n_children_spawned"]]
    is_plain = len(some) <= 8192 and all(map(_is_integer, some))
    require(is_plain and type(size) is int and 4 <= size <= 4096, "seeds that are none")
    return np.random.SeedSequence(**given | {"spawn_key": tuple(given["spawn_key"])})


def _is_integer(value: Any) -> bool:
    return type(value) is int and value >= 0 and value.bit_length() <= 4096


def _require_state(state: dict[str, Any], name: str) -> None:
    for place, wanted in STATES[name].items():
        value: Any = state
        for part in place.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(wanted, tuple):
            count, kind = wanted
            fits = isinstance(value, np.ndarray) and value.shape == (count,) and value.dtype == kind
        else:
            fits = _is_integer(value) and (wanted == "int" or value <= wanted)
        require(fits, f"a state of {name} that is none ({place})")
