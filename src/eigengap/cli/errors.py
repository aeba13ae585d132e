"""Errors that a user can mend: one sentence, a way out, an exit code of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from eigengap.printable import quoted

INTERRUPTED, USAGE, IN_THE_WAY, FILE, DATA, EXTRA, INTERNAL = 1, 2, 3, 4, 5, 6, 70
CLOSED_PIPE = 141  # exit code in a shell of a command whose reader closed the pipe
TERMINATED = 143
# The extra that brings a package.
EXTRAS = {
    **dict.fromkeys(("pyarrow", "altair", "vl_convert", "jinja2", "rich", "PIL"), "cli"),
    "h5py": "files", "zarr": "files", "dask": "dask", "distributed": "dask", "xarray": "xarray",
    "jax": "autodiff",
}  # fmt: skip


class CommandError(click.ClickException):
    """An error in the words of the command line."""


class FileInTheWay(CommandError):
    exit_code = IN_THE_WAY


class FileTrouble(CommandError):
    exit_code = FILE


class Unfittable(CommandError):
    exit_code = DATA


class MissingExtra(CommandError):
    exit_code = EXTRA


class WrongUsage(CommandError):
    exit_code = USAGE


# By the names of classes, so that nothing is imported to look at an error; the first that fits.
KINDS: dict[str, type[CommandError]] = {
    "MissingExtraError": MissingExtra,
    "InvalidParameterError": WrongUsage,  # scikit-learn's
    "CheckpointMismatchError": FileInTheWay,
    **dict.fromkeys(
        ("UnreadableError", "CorruptFileError", "NewerFormatError", "ClusterError"), FileTrouble
    ),
    **dict.fromkeys(("ValueError", "MemoryError", "LinAlgError", "ArithmeticError"), Unfittable),
}


def command_error(error: BaseException) -> CommandError | None:
    """An error of the library as one of the command line; None where it is nobody's but ours."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, OSError):
        return _of_system(error)
    names = {base.__name__ for base in type(error).__mro__}
    kind = next((kind for name, kind in KINDS.items() if name in names), None)
    root = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and kind is None and root in EXTRAS:
        return MissingExtra(
            f"this needs {root}, which is not installed. Install it with: "
            f'pip install "eigengap[{EXTRAS[root]}]"'
        )
    if isinstance(error, ValueError) and "null byte" in str(error):
        return WrongUsage("the name of a file holds a null byte")
    if kind is FileTrouble and getattr(error, "in_cells", False):
        kind = Unfittable  # the file is whole, and its cells are no numbers
    return None if kind is None else kind(str(error).strip() or type(error).__name__)


def _of_system(error: OSError) -> CommandError:
    if error.errno is None or (error.filename is None and error.strerror is None):
        return FileTrouble(str(error))  # worded by us, with the path in it
    path = "" if error.filename is None else f"{shown(error.filename)}: "
    kind = FileInTheWay if isinstance(error, FileExistsError) else FileTrouble
    return kind(f"{path}{error.strerror}")


def shown(path: Any) -> str:
    """A path for a message: bare where it is plain, in quotes and escaped where it is not."""
    text = os.fsdecode(path) if isinstance(path, str | bytes | Path) else str(path)
    if text == "-":
        return "standard input"
    plain = text.isprintable() and not set(text) & set(" \"'`$\\;&|<>*?()[]{}!#")
    return text if plain else quoted(text)
