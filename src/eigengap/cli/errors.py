"""Errors that a user can mend: one sentence, a way out, an exit code of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

INTERRUPTED, USAGE, IN_THE_WAY, FILE, DATA, EXTRA, INTERNAL = 1, 2, 3, 4, 5, 6, 70
CLOSED_PIPE = 141  # what a shell says of a command whose reader went away
TERMINATED = 143


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


def command_error(error: BaseException) -> CommandError | None:
    """An error of the library as one of the command line; None where it is nobody's but ours."""
    from eigengap.exceptions import MissingExtraError

    if isinstance(error, CommandError):
        return error
    if isinstance(error, MissingExtraError | ModuleNotFoundError):
        return _extra(error)
    if isinstance(error, OSError):
        return _of_system(error)
    if isinstance(error, ValueError) and "null byte" in str(error):
        return WrongUsage("the name of a file holds a null byte")
    kind = _kind(error)
    return None if kind is None else kind(in_words(error))


def in_words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__


def _kind(error: BaseException) -> type[CommandError] | None:
    """By the names of its classes, so that nothing is imported to look at an error."""
    names = {base.__name__ for base in type(error).__mro__}
    if "InvalidParameterError" in names:  # scikit-learn's
        return WrongUsage
    if "CheckpointMismatchError" in names:
        return FileInTheWay
    if getattr(error, "in_cells", False):
        return Unfittable  # the file is whole, and its cells are no numbers
    if names & {"UnreadableError", "CorruptFileError", "NewerFormatError", "ClusterError"}:
        return FileTrouble
    if names & {"ValueError", "MemoryError", "LinAlgError", "ArithmeticError"}:
        return Unfittable
    return None


def _extra(error: ImportError) -> CommandError | None:
    """Which extra brings a module that is not there; a module that none brings is a bug."""
    from eigengap.exceptions import MissingExtraError

    if isinstance(error, MissingExtraError):
        return MissingExtra(str(error))
    known = {
        "pyarrow": "cli", "altair": "cli", "vl_convert": "cli", "jinja2": "cli", "rich": "cli",
        "PIL": "cli",
        "h5py": "files", "zarr": "files", "dask": "dask", "distributed": "dask",
        "xarray": "xarray", "jax": "autodiff",
    }  # fmt: skip
    root = (error.name or "").partition(".")[0]
    if root not in known:
        return None
    return MissingExtra(
        f"this needs {root}, which is not installed. Install it with: "
        f'pip install "eigengap[{known[root]}]"'
    )


def _of_system(error: OSError) -> CommandError:
    if error.errno is None or (error.filename is None and error.strerror is None):
        return FileTrouble(str(error))  # worded by us, with the path in it
    path = "" if error.filename is None else f"{shown(error.filename)}: "
    kind = FileInTheWay if isinstance(error, FileExistsError) else FileTrouble
    return kind(f"{path}{error.strerror}")


def shown(path: Any) -> str:
    """A path for a message: bare where it is plain, in quotes and escaped where it is not."""
    import os

    from eigengap.printable import quoted

    text = os.fsdecode(path) if isinstance(path, str | bytes | Path) else str(path)
    if text == "-":
        return "standard input"
    plain = text.isprintable() and not set(text) & set(" \"'`$\\;&|<>*?()[]{}!#")
    return text if plain else quoted(text)
