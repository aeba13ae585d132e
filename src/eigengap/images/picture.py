"""A picture as it was given, in the form that it is worked on, and back.

Inside it is (h, w, c) float64 with NaN where an entry is missing, opacity set aside, centred and
scaled by the mean and the standard deviation of what was seen: what is done to it then does not
depend on the unit of the intensities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

TYPES = ("uint8", "uint16", "float32", "float64")


@dataclass(frozen=True, eq=False)
class Picture:
    """What was given."""

    given: NDArray[Any]  # (h, w) or (h, w, c)
    values: Array  # (h, w, c') without opacity; NaN where missing, else (x - centre) / unit
    centre: float
    unit: float  # 0 < unit; 1 where all seen entries are the same
    is_flat: bool  # whether they are

    @property
    def missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    @property
    def shape(self) -> tuple[int, int, int]:
        h, w, c = self.values.shape
        return h, w, c

    def restored(self, values: Array, keep_seen: bool = False) -> NDArray[Any]:
        """Worked-on values (h, w, c') in the shape, type and range of what was given.

        `keep_seen` puts back the seen entries to the last bit.
        """
        values = values * self.unit + self.centre
        if self.given.dtype.kind == "u":
            values = np.clip(np.rint(values), 0, np.iinfo(self.given.dtype).max)
        result = values.astype(self.given.dtype)
        if keep_seen:
            before = self.given[..., None] if self.given.ndim == 2 else self.given
            result = np.where(self.missing, result, before[..., : result.shape[2]])
        return self._with_opacity(result, self.given)

    def spread(self, sd: Array) -> NDArray[np.float32]:
        """Standard deviations (h, w, c') in the units of what was given; 0 for opacity."""
        in_units = (sd * self.unit).astype(np.float32)
        return self._with_opacity(in_units, np.zeros(self.given.shape, np.float32))

    def _with_opacity(self, values: NDArray[Any], whole: NDArray[Any]) -> NDArray[Any]:
        if self.given.ndim == 2:
            return values[..., 0]
        result = whole.copy()
        result[..., : values.shape[2]] = values
        return result


def as_picture(image: Any, mask: Any, opacity: bool | None) -> Picture:
    """Check what was given; `mask` is True where an entry, or a whole pixel, is missing."""
    if isinstance(image, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(image)
        mask = hidden if mask is None else hidden | _per_entry(mask, image.shape)
        image = image.filled(0)
    given = np.asarray(image)
    _require_shape(given)
    _require_type(given)
    has_opacity = given.ndim == 3 and given.shape[2] in (2, 4) if opacity is None else opacity
    if has_opacity and (given.ndim == 2 or given.shape[2] == 1):
        raise ValueError(f"opacity=True, but an image of shape {given.shape} has no such channel")
    values = given[..., None] if given.ndim == 2 else given
    gaps = np.zeros(values.shape, bool) if mask is None else _per_entry(mask, given.shape)
    if given.dtype.kind == "f":
        gaps = gaps | np.isnan(values)
        _require_finite(values, gaps)
    if has_opacity:
        values, gaps = values[..., :-1], gaps[..., :-1]
    if gaps.all():
        raise ValueError(
            "every entry of the image is missing: there is nothing to learn from. A mask is True "
            "where an entry is MISSING; if yours is True where it was seen, give ~mask"
        )
    unseen = np.flatnonzero(gaps.all(axis=(0, 1)))
    if len(unseen):
        raise ValueError(
            f"channel {unseen[0]} is missing throughout, and nothing tells its intensities: "
            "leave it out"
        )
    work = values.astype(np.float64)
    seen = work[~gaps]
    centre, unit = float(np.mean(seen)), float(np.std(seen))
    is_flat = bool(np.all(seen == seen[0]))
    if is_flat:
        centre, unit = float(seen[0]), 1.0
    work = np.where(gaps, np.nan, (work - centre) / unit)
    return Picture(given, work, centre, unit, is_flat)


def _require_shape(given: NDArray[Any]) -> None:
    if given.ndim not in (2, 3):
        raise ValueError(
            f"an image has the shape (h, w) or (h, w, c), not {given.shape}: restore the pictures "
            "of a stack one by one, and give a line of samples to PPCA as a table of windows"
        )
    if (given.ndim == 3 and given.shape[2] == 0) or min(given.shape[:2]) < 2:
        raise ValueError(
            f"an image of shape {given.shape} has no patches: 2 x 2 pixels are the least"
        )


def _require_type(given: NDArray[Any]) -> None:
    if given.dtype.name in TYPES:
        return
    way_out = {
        "b": "scale it to 0 .. 255 and give uint8, or give it as float64",
        "c": "give its real and imaginary parts as the two channels of a float64 array, with "
        "opacity=False",
        "i": "give uint8, uint16 or float64: image.astype(...)",
        "u": "give uint8, uint16 or float64: image.astype(...)",
        "f": "give float32 or float64: image.astype(...)",
    }.get(given.dtype.kind, "give numbers")
    raise TypeError(f"an image of type {given.dtype} is not restored here: {way_out}")


def _require_finite(values: NDArray[Any], gaps: NDArray[np.bool_]) -> None:
    infinite = np.isinf(values) & ~gaps
    if infinite.any():
        y, x, channel = np.argwhere(infinite)[0]
        raise ValueError(
            f"the image is infinite at row {y}, column {x}, channel {channel} "
            f"({int(infinite.sum())} such entries): put NaN there to have them filled"
        )


def _per_entry(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(h, w, c) True where missing."""
    array = np.asarray(mask)
    if array.shape not in (shape, shape[:2], (*shape[:2], 1)):
        whole = "" if len(shape) == 2 else f" (entries) or {shape[:2]} (whole pixels)"
        raise ValueError(f"the mask has shape {array.shape}; it has to be {shape}{whole}")
    if array.dtype != bool:
        if array.dtype.kind not in "iu" or not set(np.unique(array)) <= {0, 1, 255}:
            raise TypeError(
                f"the mask is of type {array.dtype}; give booleans, True where an entry is missing "
                "(whole numbers may be 0 where seen, and 1 or 255 where missing)"
            )
        array = array != 0
    wide = array[..., None] if array.ndim == 2 else array
    channels = 1 if len(shape) == 2 else shape[2]
    return np.array(np.broadcast_to(wide, (*shape[:2], channels)))
