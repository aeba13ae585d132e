"""Pictures in files, to arrays and back: PNG, JPEG and TIFF through Pillow.

What is read keeps its depth: uint8, uint16 or float32, (h, w) where grey, (h, w, 3) where in
colour, (h, w, 2) and (h, w, 4) where the last channel is opacity. Palettes become the colours that
they stand for; a camera's note on how it was held is obeyed. A file is written completely or not at
all, and over another one only where that is asked for.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.extras import MissingExtraError
from eigengap.images.deep import plain_tiff, png_bytes, sixteen_bits, tiff_bytes
from eigengap.persistence.atomic import write_atomically
from eigengap.sources.reader import UnreadableError
from eigengap.warn import warn

READABLE = ("PNG", "JPEG", "TIFF", "BMP", "GIF", "WEBP", "PPM")
SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF", ".tiff": "TIFF"}
JPEG_QUALITY = 95
KEPT = ("L", "LA", "RGB", "RGBA")  # modes of Pillow that are arrays of bytes as they stand


def read_image(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The picture in a file, as an array.

    Parameters
    ----------
    path : str or path
        A PNG, JPEG, TIFF, BMP, GIF, WebP or PPM file. Of several pages the first is read.

    Returns
    -------
    array of shape (h, w) or (h, w, c)
        uint8; uint16 where the file holds 16 bits a sample; float32 where it holds floats (TIFF),
        NaN included. c is 2 (grey, opacity), 3 (red, green, blue) or 4 (with opacity).

    Raises
    ------
    UnreadableError
        The file is no picture, is damaged, or is of a kind that has no such array.
    FileNotFoundError, PermissionError, IsADirectoryError
        As opening any file.
    """
    Image = _pillow()
    where = os.fspath(path)
    data = Path(path).read_bytes()

    def opened() -> Any:
        return Image.open(io.BytesIO(data), formats=READABLE)

    plain = plain_tiff(data)  # among them kinds that Pillow has no place for: floats in colour
    if plain is not None:
        return plain
    try:
        with opened() as picture:
            if getattr(picture, "n_frames", 1) > 1 and picture.format != "MPO":
                warn(f"{where} holds {picture.n_frames} pictures; the first is read", UserWarning)
                picture.seek(0)
            return _upright(_array(picture, opened, where), picture)
    except UnreadableError:
        raise
    except Image.UnidentifiedImageError:
        raise UnreadableError(
            where, "it is no picture that can be read here. Give a PNG, JPEG or TIFF file"
        ) from None
    except Image.DecompressionBombError as error:
        raise UnreadableError(
            where, f"{error}. If you trust it raise PIL.Image.MAX_IMAGE_PIXELS"
        ) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise UnreadableError(where, f"the picture in it is damaged ({error})") from error


def _array(picture: Any, opened: Callable[[], Any], where: str) -> NDArray[Any]:
    """The samples as they are stored."""
    rawmode = _rawmode(picture)
    if ";16" in rawmode and picture.mode in ("RGB", "RGBA"):
        return sixteen_bits(opened, rawmode)
    mode = picture.mode
    if mode.startswith("I;16"):
        return np.asarray(picture).astype(np.uint16)
    if mode == "F":
        return np.asarray(picture).astype(np.float32)
    if mode == "I":
        return _whole_numbers(np.asarray(picture), where)
    if mode in ("P", "PA"):
        mode = "RGBA" if "transparency" in picture.info or mode == "PA" else "RGB"
        return np.array(picture.convert(mode))
    if mode == "1":
        return np.array(picture.convert("L"))
    if mode in KEPT:
        if "transparency" in picture.info:  # one colour that is to be seen through
            return np.array(picture.convert("LA" if mode == "L" else "RGBA"))
        return np.array(picture)
    if mode in ("YCbCr", "CMYK", "RGBX", "RGBa", "La", "HSV"):
        return np.array(picture.convert({"RGBa": "RGBA", "La": "LA"}.get(mode, "RGB")))
    raise UnreadableError(where, f"its colours are {mode}; save it as grey or RGB first")


def _rawmode(picture: Any) -> str:
    if not picture.tile:
        return ""
    args = picture.tile[0].args
    return str(args[0] if isinstance(args, tuple) else args)


def _whole_numbers(values: NDArray[Any], where: str) -> NDArray[Any]:
    """32-bit samples are kept where 16 bits hold them."""
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise UnreadableError(
            where,
            f"its samples run from {low} to {high}, beyond 16 bits; read it with another package "
            "and give the array as float64",
        )
    return values.astype(np.uint16)


def _upright(pixels: NDArray[Any], picture: Any) -> NDArray[Any]:
    """Turned and mirrored as the camera's note on its orientation (EXIF 274) says."""
    turns: dict[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: np.swapaxes(a, 0, 1),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: np.rot90(np.swapaxes(a, 0, 1), 2),
        8: np.rot90,
    }
    # Pillow has turned a TIFF already by the time it is loaded, and taken the note away.
    turn = turns.get(picture.getexif().get(274, 1))
    return np.ascontiguousarray(turn(pixels) if turn else pixels)


def write_image(path: str | os.PathLike[str], array: Any, *, force: bool = False) -> None:
    """Write an array as a picture; the suffix tells the format.

    Parameters
    ----------
    path : str or path
        Ends in .png, .jpg, .jpeg, .tif or .tiff.
    array : array of shape (h, w) or (h, w, c)
        uint8 (any format), uint16 (PNG, TIFF), float32 or float64 (TIFF, as float32); c is 1 to 4,
        an even c ends in opacity, for which JPEG has no place.
    force : bool, default=False
        Whether to replace a file that is there.

    Raises
    ------
    FileExistsError
        There is a file of that name, and force is False.
    ValueError
        The format cannot hold the array: the message says which can.
    """
    target = Path(path).expanduser()
    form = format_of(path)
    pixels = pixels_for(array, form, os.fspath(path))
    if target.exists() and not force:
        raise FileExistsError(f"{path} exists; name another file, or replace it with force=True")
    write_atomically(target, _encoded(pixels, form))


def format_of(path: str | os.PathLike[str]) -> str:
    """PNG, JPEG or TIFF, by the suffix; any other is refused."""
    form = SUFFIXES.get(Path(path).suffix.lower())
    if form is None:
        raise ValueError(
            f"{os.fspath(path)} ends in none of {', '.join(SUFFIXES)}, and the suffix tells "
            "what to write"
        )
    return form


def pixels_for(array: Any, form: str, where: str) -> NDArray[Any]:
    """The array, if the format holds it."""
    pixels = np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] > 4):
        raise ValueError(
            f"{where}: an array of shape {np.shape(array)} is no picture; "
            "give (h, w) or (h, w, c) with c up to 4"
        )
    if 0 in pixels.shape:
        raise ValueError(f"{where}: an array of shape {pixels.shape} has no pixels")
    if pixels.dtype == bool:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype == np.float64:
        pixels = pixels.astype(np.float32)
    if pixels.dtype not in (np.uint8, np.uint16, np.float32):
        raise ValueError(
            f"{where}: samples of type {pixels.dtype} have no place in a picture; "
            "give uint8, uint16 or (for TIFF) float32"
        )
    if pixels.dtype == np.float32 and form != "TIFF":
        raise ValueError(
            f"{where}: {form} holds whole numbers. Name a .tif file, which keeps floats, or scale "
            "the array to 0 .. 255 and give uint8"
        )
    if form == "JPEG" and pixels.dtype != np.uint8:
        raise ValueError(f"{where}: JPEG holds 8 bits a sample. Name a .png or .tif file")
    if form == "JPEG" and pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        raise ValueError(
            f"{where}: JPEG has no place for the opacity channel. Name a .png or .tif file, or "
            "give array[..., :-1]"
        )
    return pixels


def _encoded(pixels: NDArray[Any], form: str) -> bytes:
    if form == "TIFF":
        return tiff_bytes(pixels)
    if pixels.dtype == np.uint16:
        return png_bytes(pixels)
    buffer = io.BytesIO()
    picture = _pillow().fromarray(np.ascontiguousarray(pixels))
    if form == "JPEG":
        picture.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        picture.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("reading and writing pictures", "pillow", "cli") from None
    return Image
