"""Images in files, to arrays and back: TIFF where it holds numbers, the rest through Pillow.

What is read keeps its depth: uint8, uint16, float32 or float64, (h, w) where grey, (h, w, 3) where
in colour, (h, w, 2) and (h, w, 4) where the last channel is opacity. Palettes become the colours
that they stand for; a camera's note on how it was held is obeyed; 0 is black, also where a TIFF has
it white; colours that a TIFF multiplied by their opacity are divided by it. A file is written
completely or not at all, and over another one only where that is asked for.
"""

from __future__ import annotations

import io
import os
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DoesNotFitError, MissingExtraError, UnreadableError
from eigengap.images.files.deep import png_bytes, ppm_in_grey, sixteen_bits, with_opacity
from eigengap.images.files.tiff import (
    EXTRA,
    ORIENTATION,
    PHOTOMETRIC,
    DamagedError,
    as_observed,
    count_pages,
    elsewhere,
    is_tiff,
    opacity_is_last,
    read_tiff,
    tiff_bytes,
    trouble,
)
from eigengap.persistence.atomic import write_atomically
from eigengap.printable import bare, quoted
from eigengap.runtime.memory import require_memory
from eigengap.runtime.part_files import target_of
from eigengap.runtime.warnings import warn
from eigengap.wording import words

READABLE = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM")
SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF", ".tiff": "TIFF"}
JPEG_QUALITY = 95
NO_IMAGE = f"it is no image that can be read here. Give a file of {', '.join(READABLE)}"
# What Pillow raises of files that are damaged; its documentation does not say.
FAULTS = (OSError, SyntaxError, ValueError, EOFError, TypeError, LookupError, struct.error)
# Modes of Pillow with 8 bits or fewer, and those in which they are arrays: as they are, and where
# one colour, or the palette, is transparent.
MODES = {
    "1": ("L", "LA"), "L": ("L", "LA"), "LA": ("LA", "RGBA"), "La": ("LA", "LA"),
    "P": ("RGB", "RGBA"), "PA": ("RGBA", "RGBA"), "RGBa": ("RGBA", "RGBA"),
    **{mode: (mode, "RGBA") for mode in ("RGB", "RGBA")},
    **dict.fromkeys(("YCbCr", "CMYK", "RGBX", "HSV"), ("RGB", "RGB")),
}  # fmt: skip
_one_at_a_time = threading.Lock()


@dataclass(frozen=True, eq=False)
class Read:
    """What a file holds."""

    pixels: NDArray[Any]  # (h, w) or (h, w, c)
    has_opacity: bool  # as its last channel
    pages: int = 1
    inks: bool = False  # whether it is stored as inks (CMYK), which pixels here are not


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The image in a file, as an array.

    Parameters
    ----------
    path : str or path
        A PNG, JPEG, TIFF, BMP, GIF, WebP or PPM file. Of several pages the first is read, with a
        warning.

    Returns
    -------
    array of shape (h, w) or (h, w, c)
        uint8; uint16 where the file holds more bits a sample; float32 or float64 where it holds
        floats (TIFF), NaN included. c is 2 (grey, opacity), 3 (red, green, blue) or 4 (with
        opacity), and of TIFF any number.

    Raises
    ------
    UnreadableError
        The file is no image, is damaged, or is of a kind that has no such array: the message
        names what is in it.
    FileNotFoundError, PermissionError, IsADirectoryError
        As opening any file.
    """
    return read_file(path).pixels


def read_file(path: str | os.PathLike[str]) -> Read:
    """The first image in a file, as `read_image`, and whether its last channel is opacity."""
    Image = _pillow()
    where = os.fsdecode(path)
    data = Path(os.path.expanduser(where)).read_bytes()
    try:
        found = _read(data, where)
    except (UnreadableError, DoesNotFitError):
        raise
    except DamagedError as error:
        raise UnreadableError(where, str(error)) from None
    except MemoryError:
        raise UnreadableError(where, "the image in it needs more memory than there is") from None
    except Image.UnidentifiedImageError:
        raise UnreadableError(where, trouble(data) or NO_IMAGE) from None
    except Image.DecompressionBombError as error:
        raise UnreadableError(
            where,
            f"{error}. "
            + words().either(
                "If you trust it raise PIL.Image.MAX_IMAGE_PIXELS", "Make it smaller first"
            ),
        ) from None
    except FAULTS as error:
        raise UnreadableError(where, f"the image in it is damaged ({error})") from error
    if found.inks:
        warn(f"the colours of {bare(where)} are CMYK, and are read as RGB", UserWarning)
    if found.pages > 1:
        warn(f"{words().path(where)} holds {found.pages} images; the first is read", UserWarning)
    return found


def _read(data: bytes, where: str) -> Read:
    limit = _pillow().MAX_IMAGE_PIXELS
    tiff = read_tiff(data, None if limit is None else 2 * limit)  # where Pillow refuses, too
    if tiff is not None:
        pixels = _as_observed(tiff.pixels, tiff.photometric, tiff.extra, where)
        return Read(
            _upright(_kept(pixels, where), tiff.orientation),
            opacity_is_last(tiff.pixels, tiff.photometric, tiff.extra),
            tiff.pages,
        )
    with _in_silence(is_tiff(data)), _opened(data) as image:
        pages = count_pages(data) if is_tiff(data) else getattr(image, "n_frames", 1)
        image.seek(0)
        _require_memory(image, where)
        pixels = _array(image, data, where)
        return Read(
            # Pillow has turned a TIFF already by the time it is loaded, and taken the note away.
            _upright(pixels, image.getexif().get(ORIENTATION, 1)),
            pixels.ndim == 3 and pixels.shape[2] in (2, 4),
            1 if image.format == "MPO" else pages,  # a camera's preview of itself is no page
            inks=image.mode == "CMYK",
        )


def _require_memory(image: Any, where: str) -> None:
    """Refuse an image that memory does not hold before it is unpacked: a small file may be one."""
    w, h = image.size
    width = 1 if image.mode in ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr") else 4
    deep = 2 if ";16" in _rawmode(image) else width
    require_memory(
        3.0 * deep * h * w * len(image.getbands()),  # Pillow's pixels, ours, and those upright
        f"reading the image of {w} x {h} pixels in {quoted(where)}",
        "make it smaller with another program, or cut it into tiles",
    )


def _opened(data: bytes) -> Any:
    return _pillow().open(io.BytesIO(data), formats=READABLE)


@contextmanager
def _in_silence(silent: bool) -> Iterator[None]:
    """Pillow warns of every tag of a damaged TIFF: it is read, or an error gives the reason.

    The filters of warnings belong to the whole process, hence only where there is need, and one
    thread at a time.
    """
    if not silent:
        yield
        return
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _array(image: Any, data: bytes, where: str) -> NDArray[Any]:
    """The samples as they are stored."""
    mode, rawmode = image.mode, _rawmode(image)
    missing = image.info.get("transparency")  # one colour, or the opacities of a palette
    grey = ppm_in_grey(data, image)
    if grey is not None:
        with _opened(grey) as wide:
            return np.asarray(wide).astype(np.uint16).reshape(*image.size[::-1], 3)
    if ";16" in rawmode and mode in ("RGB", "RGBA"):
        stored = sixteen_bits(lambda: _opened(data), rawmode)
    elif mode.startswith("I") or mode == "F":
        stored = _kept(np.asarray(image), where)
    elif mode not in MODES:
        raise UnreadableError(where, f"its colours are {mode}; save it as grey or RGB first")
    else:
        plain, see_through = MODES[mode]
        return np.array(image.convert(plain if missing is None else see_through))
    if image.format == "TIFF":  # what Pillow leaves as it is stored: samples of more than 8 bits
        tags = image.tag_v2
        stored = _as_observed(stored, tags.get(PHOTOMETRIC, 0), tags.get(EXTRA, ()), where)
    return stored if missing is None else with_opacity(stored, missing)


def _as_observed(
    samples: NDArray[Any], photometric: int, extra: tuple[int, ...], where: str
) -> NDArray[Any]:
    try:
        return as_observed(samples, photometric, extra)
    except ValueError as error:
        raise UnreadableError(where, f"{error}; {elsewhere()}") from None


def _rawmode(image: Any) -> str:
    if not image.tile:
        return ""
    args = image.tile[0].args
    return str(args[0] if isinstance(args, tuple) else args)


def _kept(samples: NDArray[Any], where: str) -> NDArray[Any]:
    """Samples of the types that images have here: the narrowest that holds their kind."""
    if samples.dtype in (np.uint8, np.uint16, np.float32, np.float64):
        return samples
    if samples.dtype.kind == "f":
        return samples.astype(np.float32)  # from 16 bits
    low, high = int(samples.min()), int(samples.max())
    if low < 0 or high > 65535:
        raise UnreadableError(
            where,
            f"its samples run from {low} to {high}, and whole numbers are kept from 0 to 65535; "
            f"{elsewhere()}",
        )
    return samples.astype(np.uint16)


def _upright(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turned and mirrored by the orientation in the metadata (EXIF 274)."""
    if orientation in (2, 4, 5, 7):
        pixels = np.fliplr(pixels)
    turns = {3: 2, 4: 2, 5: 1, 6: -1, 7: -1, 8: 1}.get(orientation, 0)
    return np.ascontiguousarray(np.rot90(pixels, turns))


def write_image(
    path: str | os.PathLike[str],
    array: Any,
    *,
    force: bool = False,
    opacity: bool | None = None,
) -> None:
    """Write an array as an image; the suffix gives the format.

    Parameters
    ----------
    path : str or path
        Ends in .png, .jpg, .jpeg, .tif or .tiff.
    array : array of shape (h, w) or (h, w, c)
        uint8 (any format), uint16 (PNG, TIFF), float32 or float64 (TIFF); booleans become 0 and
        255. c is 1 to 4, in TIFF any number. What a masked array hides is NaN among floats, and
        whole numbers have nothing for it.
    force : bool, default=False
        Whether to replace a file that is there.
    opacity : bool, default=None
        Whether the last channel is opacity, for which JPEG has no place. None: where there are 2
        or 4. Two or four channels without it are for TIFF.

    Raises
    ------
    FileExistsError
        There is a file of that name, and force is False.
    FileNotFoundError
        There is no such folder.
    ValueError
        The format cannot hold the array: the message names one that can.
    """
    where = os.fsdecode(path)
    form = format_of(where)
    pixels, observed_through = pixels_for(array, form, where, opacity)
    target = os.path.expanduser(where)
    if os.path.exists(target) and not force:
        raise FileExistsError(
            f"{bare(where)} exists; name another file, or replace it with force=True"
        )
    if not target_of(target).parent.is_dir():
        folder, name = os.path.split(where)
        raise FileNotFoundError(f"there is no folder {folder} to write {name} to")
    try:
        write_atomically(target, _encoded(pixels, form, observed_through))
    except OSError as error:  # which names a part of the file that nobody has heard of
        raise type(error)(error.errno, error.strerror, where) from error


def format_of(path: str | os.PathLike[str]) -> str:
    """PNG, JPEG or TIFF, by the suffix; any other is refused."""
    form = SUFFIXES.get(Path(path).suffix.lower())
    if form is None:
        raise ValueError(
            f"{os.fspath(path)} ends in none of {', '.join(SUFFIXES)}, and the suffix gives "
            "what to write"
        )
    return form


def pixels_for(
    array: Any, form: str, where: str, opacity: bool | None = None
) -> tuple[NDArray[Any], bool]:
    """The array, if the format holds it, and whether its last channel is opacity."""
    where = bare(where)
    pixels = _with_nan(array, where) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3):
        raise ValueError(
            f"{where}: an array of shape {np.shape(array)} is no image; give (h, w) or (h, w, c)"
        )
    if pixels.ndim == 3 and pixels.shape[2] > 4 and form != "TIFF":
        raise ValueError(
            f"{where}: {form} holds up to 4 channels, and there are {pixels.shape[2]}. Name a .tif "
            "file"
        )
    if 0 in pixels.shape:
        raise ValueError(f"{where}: an array of shape {pixels.shape} has no pixels")
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    if pixels.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
        raise ValueError(
            f"{where}: samples of type {pixels.dtype} have no place in an image; "
            "give uint8, uint16 or (for TIFF) float32 or float64"
        )
    if pixels.dtype.kind == "f" and form != "TIFF":
        raise ValueError(
            f"{where}: {form} holds whole numbers. Name a .tif file, which keeps floats"
            + words().either(", or scale the array to 0 .. 255 and give uint8")
        )
    if form == "JPEG" and pixels.dtype != np.uint8:
        raise ValueError(f"{where}: JPEG holds 8 bits a sample. Name a .png or .tif file")
    even = pixels.ndim == 3 and pixels.shape[2] in (2, 4)
    observed_through = even if opacity is None else bool(opacity) and pixels.ndim == 3
    if even and not observed_through and form != "TIFF":
        raise ValueError(
            f"{where}: {form} holds grey and colour, and the last of {pixels.shape[2]} channels as "
            "opacity. Name a .tif file"
        )
    if form == "JPEG" and observed_through:
        raise ValueError(
            f"{where}: JPEG has no place for the opacity channel. Name a .png or .tif file"
            + words().either(", or give array[..., :-1]")
        )
    return pixels, observed_through


def _with_nan(array: np.ma.MaskedArray[Any, Any], where: str) -> NDArray[Any]:
    """What is hidden as NaN; where there is none, nothing may be."""
    if array.dtype.kind == "f":
        return np.asarray(array.filled(np.nan))
    hidden = int(np.ma.getmaskarray(array).sum())
    if hidden:
        raise ValueError(
            f"{where}: {hidden} of the {array.size} samples are hidden by a mask, which whole "
            "numbers have no place for: impute them first, with inpaint_image(array) or "
            "array.filled(0), or give float32 and name a .tif file, in which they are NaN"
        )
    return np.asarray(array.data)


def _encoded(pixels: NDArray[Any], form: str, opacity: bool) -> bytes:
    if form == "TIFF":
        return tiff_bytes(pixels, opacity)
    if pixels.dtype == np.uint16:
        return png_bytes(pixels)
    buffer = io.BytesIO()
    image = _pillow().fromarray(np.ascontiguousarray(pixels))
    if form == "JPEG":
        image.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("reading and writing images", "pillow", "cli") from None
    return Image
