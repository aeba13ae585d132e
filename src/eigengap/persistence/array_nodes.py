"""Arrays, their scalars and sparse matrices, as JSON that points at tensors.

An array comes back with its type, its byte order, the order of its axes in memory (on which the
last bit of a matrix product depends) and whether it may be written to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.persistence.tensors import CODES

Node = dict[str, Any]
Put = Callable[[str, NDArray[Any]], str]  # keeps a tensor, and says under which name
Get = Callable[[Any], NDArray[Any]]  # the tensor of that name

NUMBERS = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[mM]8(\[\d{0,6}[A-Za-z]{1,7}\])?)")
TEXTS = re.compile(r"[<>]U(\d{1,9})")
PER_LETTER = 256  # bytes that arrays of strings of one width may take for each letter in them
SPARE_TEXT = 1 << 24  # bytes that all of them together may take beyond that
SPARSE = ("bsr", "coo", "csc", "csr", "dia")
LONG = 1 << 20  # letters from which strings lie among the tensors and not in the header


class MalformedError(ValueError):
    """What a file says cannot be what eigengap wrote."""


# Arrays of numbers -----------------------------------------------------------------------------


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether tensors hold it, as it is or by its bits."""
    return NUMBERS.fullmatch(dtype.str) is not None


def array_node(array: NDArray[Any], where: str, put: Put) -> Node:
    node: Node = {"is": "array"}
    axes = _order_in_memory(array)
    if axes is not None:
        node["axes"] = axes
        array = array.transpose(axes)
    if not array.flags.writeable:
        node["frozen"] = True
    name = array.dtype.name
    if name not in CODES or array.dtype.byteorder == ">":
        node["dtype"] = array.dtype.str
    node["tensor"] = put(where, _by_bits(array))
    return node


def array_of(node: Node, get: Get) -> NDArray[Any]:
    array = get(node.get("tensor"))
    if "dtype" in node:
        array = _from_bits(array, node["dtype"])
    if "axes" in node:
        axes = node["axes"]
        if not isinstance(axes, list) or sorted(map(repr, axes)) != sorted(
            map(repr, range(array.ndim))
        ):
            raise MalformedError(f"axes {axes!s:.40} of an array of {array.ndim} dimensions")
        array = array.transpose(np.argsort(axes))
    if node.get("frozen") is True:
        array.flags.writeable = False
    return array


def _order_in_memory(array: NDArray[Any]) -> list[int] | None:
    """Axes from the slowest to the fastest; None where that is their own order, or none has."""
    long = [stride for stride, n in zip(array.strides, array.shape, strict=True) if n > 1]
    if array.flags.c_contiguous or any(stride <= 0 for stride in long):
        return None
    axes = sorted(range(array.ndim), key=lambda k: -array.strides[k])
    return None if axes == list(range(array.ndim)) else axes


def _by_bits(array: NDArray[Any]) -> NDArray[Any]:
    """An array of a type that tensors have, of the same numbers or of the bits of them."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    if plain.dtype.kind == "c":  # with the two parts of each number as a last axis
        return np.stack([plain.real, plain.imag], axis=-1)
    return plain.view(np.int64) if plain.dtype.kind in "mM" else plain


def _from_bits(array: NDArray[Any], text: Any) -> NDArray[Any]:
    dtype = numeric_dtype(text)
    little = dtype.newbyteorder("<")
    if dtype.kind == "c":
        if array.ndim == 0 or array.shape[-1] != 2 or array.dtype.itemsize * 2 != dtype.itemsize:
            raise MalformedError(f"an array {array.shape} of {array.dtype} for {text}")
        plain = array.view(little).reshape(array.shape[:-1])
    elif dtype.kind in "mM":
        if array.dtype != np.int64:
            raise MalformedError(f"an array of {array.dtype} for {text}")
        plain = array.view(little)
    else:
        if array.dtype != little:
            raise MalformedError(f"an array of {array.dtype} for {text}")
        plain = array
    return plain.astype(dtype, copy=False)


def numeric_dtype(text: Any) -> np.dtype[Any]:
    """The type that a file names, if it is one of numbers."""
    if not isinstance(text, str) or NUMBERS.fullmatch(text) is None:
        raise MalformedError(f"no type of numbers: {text!s:.40}")
    try:
        return np.dtype(text)
    except TypeError:
        raise MalformedError(f"no type of numbers: {text!s:.40}") from None


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
    items = strings_in(node, get)
    shape = shape_of(node.get("shape"))
    if int(np.prod(shape, dtype=np.int64)) != len(items):
        raise MalformedError(f"{len(items)} strings for an array of shape {shape}")
    array = np.empty(len(items), dtype=_text_dtype(node.get("dtype", "O"), items, width))
    array[:] = items
    array = array.reshape(shape)
    if node.get("frozen") is True:
        array.flags.writeable = False
    return array


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


def _text_dtype(text: Any, items: list[str], width: Width) -> np.dtype[Any]:
    if text == "O":
        return np.dtype(object)
    found = TEXTS.fullmatch(text) if isinstance(text, str) else None
    longest = max(map(len, items), default=0)
    if found is None or not longest <= int(found[1]) or not width.takes(int(found[1]), items):
        raise MalformedError(f"{len(items)} strings as an array of {text!s:.40}")
    return np.dtype(str(text))


def shape_of(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not all(type(n) is int and n >= 0 for n in given):
        raise MalformedError(f"no shape: {given!s:.40}")
    if len(given) > 32 or np.prod(given, dtype=np.float64) > 2**53:
        raise MalformedError(f"no shape: {given!s:.40}")
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
        if not isinstance(node["text"], str):
            raise MalformedError("a string that is none")
        return np.str_(node["text"])
    dtype = numeric_dtype(node["scalar"])
    try:
        bits = bytes.fromhex(node["bits"])
    except (KeyError, TypeError, ValueError):
        raise MalformedError("a number without its bits") from None
    if len(bits) != dtype.itemsize:
        raise MalformedError(f"{len(bits)} bytes for a number of type {dtype}")
    found: np.generic = np.frombuffer(bits, dtype=dtype)[0]
    return found


# Sparse matrices -------------------------------------------------------------------------------


def is_sparse(value: Any) -> bool:
    if not type(value).__module__.startswith("scipy.sparse"):
        return False
    import scipy.sparse

    known = scipy.sparse.issparse(value) and getattr(value, "format", None) in SPARSE
    return known and len(getattr(value, "shape", ())) == 2


def sparse_node(value: Any, child: Callable[[Any, str], Any]) -> Node:
    """Parts of a matrix as their arrays, under their names in SciPy."""
    import scipy.sparse

    names = _sparse_parts(value.format)
    return {
        "is": "sparse",
        "format": value.format,
        "old": isinstance(value, scipy.sparse.spmatrix),  # csr_matrix, not csr_array
        "shape": list(map(int, value.shape)),
        "parts": {name: child(getattr(value, name), name) for name in names},
    }


def sparse_of(node: Node, child: Callable[[Any], Any]) -> Any:
    import scipy.sparse

    layout, parts = node.get("format"), node.get("parts")
    if layout not in SPARSE or not isinstance(parts, dict):
        raise MalformedError(f"no format of sparse matrices: {layout!s:.40}")
    names = _sparse_parts(layout)
    if set(parts) != set(names):
        raise MalformedError(f"a sparse matrix ({layout}) of {sorted(parts)!s:.80}")
    found = {name: child(parts[name]) for name in names}
    if not all(isinstance(part, np.ndarray) for part in found.values()):
        raise MalformedError("a sparse matrix whose parts are no arrays")
    shape = shape_of(node.get("shape"))
    cls = getattr(scipy.sparse, f"{layout}_{'matrix' if node.get('old') is True else 'array'}")
    try:
        if layout == "coo":
            places = (found["row"], found["col"])
            made = cls((found["data"], places), shape=shape)
        elif layout == "dia":
            made = cls((found["data"], found["offsets"]), shape=shape)
        else:
            made = cls((found["data"], found["indices"], found["indptr"]), shape=shape)
            made.check_format(full_check=True)  # compiled code trusts indices
            made.indices, made.indptr = found["indices"], found["indptr"]  # of their own type
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise MalformedError(f"a sparse matrix that is none ({error!s:.80})") from None
    return made


def _sparse_parts(layout: str) -> tuple[str, ...]:
    if layout == "coo":
        return ("data", "row", "col")
    return ("data", "offsets") if layout == "dia" else ("data", "indices", "indptr")
