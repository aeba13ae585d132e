"""Arrays in files: which one is meant, whether its size is plausible, what its numbers mean.

Packed numbers and missing values are declared by attributes of an HDF5 dataset or a Zarr array, in
the CF conventions and the NetCDF User Guide (attribute conventions):

    value = stored * scale_factor + add_offset,

missing where what is stored is `_FillValue` or `missing_value`. `_Unsigned` gives integers the
other sign, for formats that have no such type. NetCDF 4 is HDF5, and xarray writes Zarr in the same
way, so that a plain reader meets these attributes. Codes are compared in the type of what is
stored: no float32 is the double 1e20. What is packed becomes float64.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite, prod
from struct import error as StructError
from struct import unpack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.printable import quoted
from eigengap.runtime.memory import require_memory
from eigengap.sources.array import F4, F8
from eigengap.sources.checks import is_long, resolve_columns
from eigengap.sources.reader import FileReader
from eigengap.sources.wording import quote, show
from eigengap.wording import words

MOST_NAMED = 12
SMALL = 1 << 30  # bytes that are read in seconds, whatever the file is
MOST = 1000  # bytes of table for each byte of the file


class ArrayReader(FileReader):
    """One two-dimensional array of a file."""

    _d: int  # columns that are stored
    _chosen: list[int] | None  # those of them that are read; None for all

    def _describe(
        self,
        stored: np.dtype[Any],
        shape: tuple[int, ...],
        columns: Any,
        labels: tuple[str, ...] | None = None,
        packing: Packing | None = None,
    ) -> None:
        """Set what a reader reports of its table."""
        self.dtype = float_type(self.where, stored, shape) if packing is None else packing.dtype
        self.long = is_long(stored) and not (packing is not None and packing.is_scaled)
        self.n_rows, self._d = map(int, shape)
        self._chosen = None if columns is None else resolve_columns(columns, labels, self._d)
        self.n_features = self._d if self._chosen is None else len(self._chosen)
        self.names = labels
        if labels is not None and self._chosen is not None:
            self.names = tuple(labels[j] for j in self._chosen)


def choose_member(where: str, shapes: Mapping[str, tuple[int, ...]], member: str | None) -> str:
    """Name of the table to read among arrays of these shapes: `member`, else the only 2-D one."""
    if member is not None:
        found = next((m for m in (member, member.strip("/"), "/" + member) if m in shapes), None)
        if found is None:
            close = get_close_matches(member, list(shapes), n=1)
            hint = f"; did you mean {quote(close[0])}?" if close else ""
            raise UnreadableError(
                where, f"it has no array {quote(member)}{hint} It holds {listed(shapes)}"
            )
        return found
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(tables) == 1:
        return tables[0]
    example = tables[0] if tables else "name"
    raise UnreadableError(
        where,
        f"it has {len(tables) or 'no'} two-dimensional arrays; it holds {listed(shapes)}."
        + (
            f" Say which one after the path: {words().path(f'{where}::{example}')}"
            if tables
            else ""
        ),
    )


def listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    if not shapes:
        return "no array at all"
    shown = [f"{quote(name)} {shape}" for name, shape in list(shapes.items())[:MOST_NAMED]]
    more = f" and {len(shapes) - MOST_NAMED} more" if len(shapes) > MOST_NAMED else ""
    return ", ".join(shown) + more


def float_type(where: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.dtype[Any]:
    """float32 for float32, float64 for every other real number; all else is refused."""
    if dtype.kind not in "fiub":
        raise UnreadableError(
            where,
            f"it holds {dtype}, not real numbers. Write it anew as float64, e.g. "
            "table.astype(float)",
        )
    if len(shape) != 2:
        raise UnreadableError(
            where,
            f"it has {len(shape)} dimension{'s' * (len(shape) != 1)}, shape {shape}, and a table "
            "has two: rows and columns. Reshape it, e.g. table.reshape(len(table), -1)",
        )
    return F4 if dtype.kind == "f" and dtype.itemsize == 4 else F8


def names_from(attribute: Any, d: int) -> tuple[str, ...] | None:
    """Column names in the attribute "columns" of an array, where they fit it."""
    if attribute is None or isinstance(attribute, str | bytes):
        return None
    try:
        names = tuple(n.decode() if isinstance(n, bytes) else n for n in attribute)
    except (TypeError, UnicodeDecodeError):
        return None
    return names if len(names) == d and all(isinstance(n, str) for n in names) else None


def require_plausible(where: str, claimed: int, stored: int) -> None:
    """Refuse a table of `claimed` bytes in a file of `stored` bytes that is mostly not there.

    Chunked formats need not store a chunk that holds only the fill value, so that a file of a
    kilobyte can claim a terabyte, and reading it would not end. Real tables are not compressed a
    thousandfold: deflate cannot do more, and others do so for constants only.

    >>> require_plausible("a.h5", 8_000_000_000, 50_000_000)
    >>> require_plausible("a.h5", 800_000_000_000, 1_400)
    Traceback (most recent call last):
    ...
    eigengap.exceptions.UnreadableError: "a.h5": it claims 800 GB of numbers and takes 1.4 kB...
    """
    if claimed > max(SMALL, MOST * stored):
        raise UnreadableError(
            where,
            f"it claims {_size(claimed)} of numbers and takes {_size(stored)}: nearly all of them "
            "were never written, and are fill values. Keep the rows that were written, or, if all "
            "of them are meant, pass the array itself or a Dask array of it",
        )


def require_chunk(where: str, lengths: Sequence[int] | None, itemsize: int) -> None:
    """Refuse chunks that memory does not hold: one is decoded as a whole."""
    if lengths is not None:
        way_out = "write the file in smaller chunks, or read it on a machine with more memory"
        require_memory(float(prod(lengths)) * itemsize, f"a chunk of {quoted(where)}", way_out)


def _size(count: int) -> str:
    """Bytes in three digits.

    >>> _size(1_400), _size(10**30)
    ('1.4 kB', '1e+18 TB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


CODES = ("_FillValue", "missing_value")
FACTORS = ("scale_factor", "add_offset")
UNSIGNED = "_Unsigned"
ATTRIBUTES = (*CODES, *FACTORS, UNSIGNED)
MOST_CODES = 64  # numbers of one attribute: every cell is compared with each
SPELLED = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}  # in JSON
WAY_OUT = "Correct the attribute or remove it, or read the numbers yourself and pass the array"


@dataclass(frozen=True)
class Packing:
    """How stored numbers become values."""

    stored: np.dtype[Any]  # in the byte order of the machine
    meant: np.dtype[Any]  # the same, or of the other sign
    codes: tuple[Any, ...] = ()  # of `meant`, that stand for missing values
    scale: float | None = None
    offset: float | None = None

    @classmethod
    def of(cls, where: str, dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> Packing | None:
        """What the attributes declare of real numbers of this type; None where that is nothing."""
        found = {k: attributes[k] for k in ATTRIBUTES if attributes.get(k) is not None}
        stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("=")
        meant = _meant(where, stored, found.pop(UNSIGNED, None))
        truth = dtype.kind == "b"
        numbers = {k: _numbers(where, k, v, truth and k in CODES) for k, v in found.items()}
        given = [code for name in CODES for code in numbers.get(name, ())]
        codes = [_as_stored(code, stored, meant) for code in given]
        scale, offset = (_factor(where, name, numbers.get(name)) for name in FACTORS)
        packing = cls(
            stored, meant, tuple(code for code in codes if code is not None), scale, offset
        )
        return None if packing == cls(stored, stored) else packing

    @property
    def is_scaled(self) -> bool:
        return self.scale is not None or self.offset is not None

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 where that is stored and not scaled, else float64."""
        return F4 if self.stored == F4 and not self.is_scaled else F8

    def decode(self, raw: NDArray[Any]) -> NDArray[Any]:
        """The values of stored numbers, NaN where they are missing; a new array.

        >>> packing = Packing.of("a.h5", np.dtype("i2"), {"_FillValue": -99, "scale_factor": 0.5})
        >>> packing.decode(np.array([4, -99, 7], dtype="i2"))
        array([2. , nan, 3.5])
        """
        read = raw.astype(self.stored, copy=False).view(self.meant)
        values = read.astype(self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # infinity is refused later
            if self.scale is not None:
                values *= self.scale
            if self.offset is not None:
                values += self.offset
        for code in self.codes:
            values[read == code] = np.nan
        return values


def decoded_fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """`_FillValue` of a Zarr array of floats, which xarray writes as the bytes of a double."""
    if not isinstance(value, str) or dtype.kind != "f":
        return value
    if value in SPELLED:
        return SPELLED[value]
    try:
        return unpack("<d", b64decode(value, validate=True))[0]
    except (ValueError, StructError):
        return value


def _meant(where: str, stored: np.dtype[Any], unsigned: Any) -> np.dtype[Any]:
    if unsigned is None or stored.kind not in "iu":
        return stored
    value = unsigned
    if isinstance(value, np.ndarray | list | tuple) and np.size(value) == 1:
        value = np.ravel(value)[0]
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    if text.lower() not in ("true", "false"):
        raise _refused(where, UNSIGNED, unsigned, 'neither "true" nor "false"')
    return np.dtype(f"{'u' if text.lower() == 'true' else 'i'}{stored.itemsize}")


def _numbers(where: str, name: str, value: Any, truth: bool) -> list[int | float]:
    """The numbers of an attribute, a scalar or a list of a few; of truth values where these are."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in ("fiub" if truth else "fiu"):
            raise _refused(where, name, value, "not a number")
        found = np.ravel(value).tolist()
    else:
        found = list(value) if isinstance(value, list | tuple) else [value]
    if not found or len(found) > MOST_CODES:
        raise _refused(where, name, value, f"{len(found) or 'no'} numbers")
    for one in found:
        is_truth = isinstance(one, bool)
        if (is_truth and not truth) or not isinstance(one, int | float | np.floating):
            raise _refused(where, name, value, "not a number")
    return [int(one) if isinstance(one, int) else float(one) for one in found]


def _factor(where: str, name: str, found: list[int | float] | None) -> float | None:
    if found is None:
        return None
    if len(found) != 1:
        raise _refused(where, name, found, f"{len(found)} numbers, and one is needed")
    try:
        factor = float(found[0])
    except OverflowError:
        factor = np.inf
    if not isfinite(factor):
        raise _refused(where, name, found[0], "not finite")
    return factor


def _as_stored(code: int | float, stored: np.dtype[Any], meant: np.dtype[Any]) -> Any:
    """The code in the type of the cells; None where no cell can be equal to it."""
    if stored.kind == "f":
        with np.errstate(over="ignore"):
            try:
                cast = stored.type(code)
            except OverflowError:
                return None
        fits = not np.isnan(cast) and (np.isfinite(cast) or not isfinite(code))
        return cast if fits else None
    if isinstance(code, float) and not code.is_integer():
        return None  # NaN and infinity too
    whole = int(code)
    for kind in (stored, meant):
        if np.iinfo(kind).min <= whole <= np.iinfo(kind).max:
            return np.array(whole, dtype=kind).view(meant)[()]
    return None


def _refused(where: str, name: str, value: Any, what: str) -> UnreadableError:
    shown = show(value.decode("latin-1") if isinstance(value, bytes) else value)
    return UnreadableError(where, f"its attribute {name} is {shown}: {what}. {WAY_OUT}")
