"""An image as it was given, in the form that it is worked on, and restored.

Inside it is (h, w, c) float64 with NaN where an entry is missing, opacity set aside, centred and
scaled by the mean and the standard deviation of what was observed: what is done to it then does not
depend on the unit of the intensities, be it 1e-150 or 1e155.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.runtime.memory import require_memory
from eigengap.wording import words

TYPES = ("uint8", "uint16", "float32", "float64")
FLOAT32 = 1e-30, 1e30  # units of which float32 holds standard deviations, small ones too
SMALLEST = float(np.nextafter(0.0, 1.0))
DENOISING, IMPUTING = 36, 96  # bytes for each sample at the height of the work, measured
MOST_CHANNELS_FIRST, MANY_CHANNELS = 4, 16


@dataclass(frozen=True, eq=False, repr=False)
class Restored(np.lib.mixins.NDArrayOperatorsMixin):
    """A restored image: np.asarray gives it, and arithmetic and indexing are those of `image`.

    Attributes
    ----------
    image : array of the shape and type of the one given
    sd : array of the same shape
        Standard deviation of each entry, in the units of the image; 0 where it is as it was given.
        float32, or float64 where the intensities of the image are beyond what float32 holds.
    noise_sd : float
        Standard deviation of the noise, learned or given, in the units of the image.
    model : str
        What was fitted to the patches, in words.
    n_mixture : int
        Number of components.
    ranks : tuple of int
        Rank of each, by falling weight; the number of entries of a patch where it was left free.
    patch, stride : int
        Side of a patch, and pixels from one to the next.
    n_missing : int
        Entries that were imputed.
    sd_scale : float
        By what the model's own standard deviations were multiplied so that 95 % intervals of
        observed entries that were hidden for a trial cover 95 % of them; 1 where none was hidden.
    tiles : int
        Pieces in which the patches were worked on: memory does not grow with them.
    """

    image: NDArray[Any]
    sd: NDArray[np.floating]
    noise_sd: float
    model: str
    n_mixture: int
    ranks: tuple[int, ...]
    patch: int
    stride: int
    n_missing: int = 0
    sd_scale: float = 1.0
    tiles: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.image.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.image.dtype

    @property
    def ndim(self) -> int:
        return self.image.ndim

    @property
    def size(self) -> int:
        return self.image.size

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, at: Any) -> Any:
        return self.image[at]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [one.image if isinstance(one, Restored) else one for one in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(f"an array of type {np.dtype(dtype)} cannot be had without a copy")
        array = self.image if dtype is None else self.image.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        entries = "1 entry" if self.n_missing == 1 else f"{self.n_missing} entries"
        imputed = f", {entries} imputed" if self.n_missing else ""
        return f"Restored({size} {self.dtype}; {self.model}; noise sd {self.noise_sd:.3g}{imputed})"


def mixture_of(K: int, what: str) -> str:
    """A mixture of so many, in words; of one, that one.

    >>> mixture_of(1, "Gaussian"), mixture_of(16, "Gaussian")
    ('Gaussian', 'mixture of 16 Gaussians')
    """
    return what if K == 1 else f"mixture of {K} {what}s"


@dataclass(frozen=True, eq=False)
class StandardisedImage:
    """What was given."""

    given: NDArray[Any]  # (h, w) or (h, w, c)
    values: Array  # (h, w, c') without opacity; NaN where missing, else (x / power - mean) / sd
    power: float  # of two, about the largest |x|: no square of x / power overflows or vanishes
    mean: float  # of the observed values of x / power
    sd: float  # likewise; 1 where all of it is the same
    is_flat: bool  # whether it is

    @property
    def unit(self) -> float:
        """What 1 is in the units of what was given; more than 0."""
        return max(self.sd * self.power, SMALLEST)

    @property
    def missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    @property
    def shape(self) -> tuple[int, int, int]:
        h, w, c = self.values.shape
        return h, w, c

    def restored(self, values: Array, keep_observed: bool = False) -> NDArray[Any]:
        """Worked-on values (h, w, c') in the shape, type and range of what was given.

        `keep_observed` puts back the observed entries to the last bit.
        """
        result = _within(values * self.sd + self.mean, self.power, self.given.dtype)
        if keep_observed:
            before = self.given[..., None] if self.given.ndim == 2 else self.given
            result = np.where(self.missing, result, before[..., : result.shape[2]])
        return self._with_opacity(result, self.given)

    def sd_in_units(self, sd: Array) -> NDArray[np.floating]:
        """Standard deviations (h, w, c') in the units of what was given; 0 for opacity."""
        low, high = FLOAT32
        dtype = np.float32 if low < self.unit < high else np.float64
        in_units = _within(sd, self.unit, np.dtype(dtype))
        left = np.zeros(self.given.shape, dtype)
        if self.given.dtype.kind == "f":
            left[np.isnan(self.given)] = np.nan  # of opacity, which is not imputed
        return self._with_opacity(in_units, left)

    def _with_opacity(self, values: NDArray[Any], whole: NDArray[Any]) -> NDArray[Any]:
        if self.given.ndim == 2:
            return values[..., 0]
        result = whole.copy()
        result[..., : values.shape[2]] = values
        return result


def _within(values: Array, unit: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values times the unit, as the nearest that the type has."""
    with np.errstate(over="ignore"):
        in_units = values * unit
    if dtype.kind == "u":
        return np.clip(np.rint(in_units), 0, np.iinfo(dtype).max).astype(dtype)
    most = np.finfo(dtype).max
    return np.clip(in_units, -most, most).astype(dtype)


def standardised(image: Any, mask: Any, opacity: bool | None) -> StandardisedImage:
    """Check what was given; `mask` is True where an entry, or a whole pixel, is missing."""
    if isinstance(image, str | bytes | os.PathLike):
        raise TypeError(
            f"an image is an array, and {image!r} is the name of a file: read it first, with "
            "eigengap.images.read_image"
        )
    hidden = np.ma.getmaskarray(image) if isinstance(image, np.ma.MaskedArray) else None
    given = np.asarray(image if hidden is None else image.data)  # whose opacity is not touched
    _require_shape(given)
    _require_type(given)
    values = given[..., None] if given.ndim == 2 else given
    missing = np.zeros(values.shape, bool)
    for one in (hidden, mask):
        if one is not None:
            missing = missing | _per_entry(one, given.shape)
    if given.dtype.kind == "f":
        missing = missing | np.isnan(values)
    h, w, c = values.shape
    require_memory(
        float(IMPUTING if missing.any() else DENOISING) * h * w * c,
        f"restoring an image of {w} x {h} pixels with {c} channel{'s' * (c > 1)}",
        "cut it into tiles that overlap by some pixels and restore each, or make it smaller",
    )
    if _has_opacity(given, opacity):
        if opacity is None:
            _require_opacity(given, None if mask is None else _per_entry(mask, given.shape))
        values, missing = values[..., :-1], missing[..., :-1]
    if given.dtype.kind == "f":
        _require_finite(values, missing)
    _require_observed(missing, mask is not None)
    work = values.astype(np.float64)
    power = float(np.ldexp(0.5, np.frexp(np.abs(work[~missing]).max())[1]))
    scaled = np.where(missing, np.nan, work) / power  # which rounds nothing
    observed = scaled[~missing]
    is_flat = bool(np.all(observed == observed[0]))
    mean = float(observed[0] if is_flat else np.mean(observed))
    sd = 1.0 if is_flat else float(np.std(observed))
    return StandardisedImage(given, (scaled - mean) / sd, power, mean, sd, is_flat)


def _has_opacity(given: NDArray[Any], opacity: bool | None) -> bool:
    if opacity is None:
        return given.ndim == 3 and given.shape[2] in (2, 4)
    if not isinstance(opacity, bool | np.bool_):
        raise ValueError(
            f"opacity is {opacity!r}; it has to be True where the last channel is opacity, False "
            "where it is not, or None"
        )
    if opacity and (given.ndim == 2 or given.shape[2] == 1):
        raise ValueError(f"opacity=True, but an image of shape {given.shape} has no such channel")
    return bool(opacity)


def _require_opacity(given: NDArray[Any], mask: NDArray[np.bool_] | None) -> None:
    """Refuse to guess where the channel taken for opacity has missing entries; opacity has none.

    A mask of whole pixels marks it too; what it holds there is known, and stays.
    """
    missing = (
        np.isnan(given[..., -1]) if given.dtype.kind == "f" else np.zeros(given.shape[:2], bool)
    )
    if mask is not None:
        missing = missing | (mask[..., -1] & ~mask[..., :-1].all(axis=2))
    n = int(np.count_nonzero(missing))
    if n:
        c = given.shape[2]
        entries = "1 entry of it is" if n == 1 else f"{n} entries of it are"
        raise ValueError(
            f"the last of {c} channels is taken to be opacity, which stays as it is, but {entries} "
            "missing. Give opacity=False to have that channel restored like the others, or "
            "opacity=True to leave it as it is"
        )


def _require_observed(missing: NDArray[np.bool_], masked: bool) -> None:
    if missing.all():
        way_out = (
            ". A mask is True where an entry is MISSING; if yours is True where it was "
            "observed, give ~mask"
        )
        nothing = "every entry of the image is missing: there is nothing to learn from"
        raise ValueError(nothing + way_out * masked)
    empty = np.flatnonzero(missing.all(axis=(0, 1)))
    if len(empty):
        raise ValueError(
            f"channel {words().number(int(empty[0]))} is missing throughout, and nothing "
            "determines its intensities: leave it out"
        )


def _require_shape(given: NDArray[Any]) -> None:
    if given.ndim not in (2, 3):
        raise ValueError(
            f"an image has the shape (h, w) or (h, w, c), not {given.shape}: restore the images "
            "of a stack one by one, and give a line of samples to PPCA as a table of windows"
        )
    if given.ndim == 3 and given.shape[0] <= MOST_CHANNELS_FIRST < MANY_CHANNELS < given.shape[2]:
        raise ValueError(
            f"an image of shape {given.shape} seems to have its channels first: give "
            "np.moveaxis(image, 0, 2). If it does have so few rows and so many channels, give "
            "np.swapaxes(image, 0, 1), and swap what comes back"
        )
    if 0 in given.shape:
        raise ValueError(f"an image of shape {given.shape} has no entries")
    h, w = given.shape[:2]
    if min(h, w) < 2:
        raise ValueError(f"an image of {w} x {h} pixels has no patches: 2 x 2 are the least")


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


def _require_finite(values: NDArray[Any], missing: NDArray[np.bool_]) -> None:
    infinite = np.isinf(values) & ~missing
    if infinite.any():
        y, x, channel = np.argwhere(infinite)[0]
        y, x, channel = (words().number(int(place)) for place in (y, x, channel))
        of = f", channel {channel}" if values.shape[2] > 1 else ""
        count = int(infinite.sum())
        more = f", and in {count - 1} more {'place' if count == 2 else 'places'}"
        raise ValueError(
            f"the image is infinite at row {y}, column {x}{of}{words().either(', counted from 0')}"
            f"{more if count > 1 else ''}: put NaN where it is infinite to have that imputed"
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
                "(whole numbers may be 0 where observed, and 1 or 255 where missing)"
            )
        array = array != 0
    wide = array[..., None] if array.ndim == 2 else array
    channels = 1 if len(shape) == 2 else shape[2]
    return np.array(np.broadcast_to(wide, (*shape[:2], channels)))
