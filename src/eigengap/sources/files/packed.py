"""Packed numbers and missing values, as attributes of an HDF5 dataset or a Zarr array declare them.

The CF conventions and the NetCDF User Guide (attribute conventions):

    value = stored * scale_factor + add_offset,

missing where what is stored is `_FillValue` or `missing_value`. `_Unsigned` gives integers the
other sign, for formats that have no such type. NetCDF 4 is HDF5, and xarray writes Zarr in the same
way, so that a plain reader meets these attributes. Codes are compared in the type of what is
stored: no float32 is the double 1e20. What is packed becomes float64.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from struct import error as StructError
from struct import unpack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import UnreadableError
from eigengap.sources.array import F4, F8
from eigengap.sources.wording import show

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
