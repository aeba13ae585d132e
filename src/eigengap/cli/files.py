"""Paths that a command is given: `-`, files in the way, folders that are not there.

Everything that can be refused is refused before the work is done, not after it.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from eigengap.cli.errors import FileInTheWay, FileTrouble, WrongUsage, shown
from eigengap.cli.wording import STDIN
from eigengap.runtime.part_files import target_of

DASH = "-"
MODEL_SUFFIX = ".egap"
TEXT, COLUMNS, NUMBERS = "text", "columns", "numbers"  # what a file of a table can hold
FORMS = {
    ".csv": TEXT, ".csv.gz": TEXT, ".tsv": TEXT, ".parquet": COLUMNS, ".pq": COLUMNS,
    ".npy": NUMBERS, ".h5": NUMBERS, ".hdf5": NUMBERS, ".zarr": NUMBERS,
}  # fmt: skip


@contextmanager
def as_file(given: str, what: str) -> Iterator[str]:
    """The path itself; for `-`, of a file with all that comes in on standard input.

    A fit reads its data many times, and a pipe can be read once.
    """
    if given != DASH:
        yield given
        return
    if sys.stdin is None or sys.stdin.isatty():
        raise WrongUsage(f"{what} is -, but nothing is piped in: name a file, or pipe one in")
    with tempfile.TemporaryDirectory(prefix="eigengap-", ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, STDIN)
        try:
            with open(path, "wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        except OSError as error:
            raise FileTrouble(
                f"standard input cannot be kept in {shown(folder)}: {error.strerror}. Set TMPDIR "
                "to a folder with room for it"
            ) from error
        yield path


def check_places(
    narrator: Any,
    output: str | None,
    force: bool,
    data: str | None = None,
    model: str | None = None,
    checkpoint: str | None = None,
    bytes_of: str = "",
) -> None:
    """Refuse inputs that are not there, then outputs that cannot be written.

    The output is a table, or `bytes_of` something else, which is not for a screen.
    """
    if data is not None:
        _require_inputs(data, model)
    if output is not None:
        check_output(output, force)
        if bytes_of:
            require_no_terminal(output, bytes_of)
        else:
            form_of(output)
    if checkpoint is not None:
        check_output(checkpoint, force=True, option="--checkpoint FILE")
    if output == DASH and narrator.as_json:
        raise click.UsageError("--json wants standard output: name a file with -o")


def _require_inputs(data: str, model: str | None) -> None:
    from eigengap.sources import find_files, is_field_path

    if model is not None:
        require_one_stdin(data, model)
        if data.endswith(MODEL_SUFFIX) and not model.endswith(MODEL_SUFFIX):
            raise WrongUsage(f"the model comes first: {shown(data)} {shown(model)}")
        if model != DASH and not Path(model).exists():
            raise FileTrouble(
                f"{shown(model)} does not exist. Make it with: eigengap fit DATA -o {shown(model)}"
            )
    if data != DASH and not is_field_path(data):
        find_files(data)


def require_one_stdin(*given: str) -> None:
    if given.count(DASH) > 1:
        raise WrongUsage("only one of the inputs can be standard input (-)")


def form_of(path: str) -> str:
    """What an output can hold: text, columns of any type, or numbers alone."""
    if path == DASH:
        return TEXT
    for suffix, form in FORMS.items():
        if path.lower().endswith(suffix):
            return form
    raise WrongUsage(
        f"-o {shown(path)} ends in none of .csv, .csv.gz, .tsv, .parquet, .npy, .h5 and .zarr, "
        "and the suffix gives what to write"
    )


def check_output(path: str, force: bool, option: str = "-o FILE") -> None:
    """Refuse to write where something stands that must not be replaced, or where none can."""
    if path == DASH:
        if sys.stdout is None:
            raise FileTrouble(f"standard output is closed; name a file: {option}")
        return
    target = Path(os.path.expanduser(path))
    try:
        if target.is_dir() and target.suffix != ".zarr":
            raise FileTrouble(f"{shown(path)} is a folder; name a file: {option}")
        if target.exists() and not (target.is_file() or target.is_dir()):
            # A device or a pipe would be replaced by a file of its name.
            raise FileTrouble(f"{shown(path)} is no ordinary file; -o - is standard output")
        if target.exists() and not force:
            raise FileInTheWay(
                f"{shown(path)} exists. Overwrite it with --force, or name another: {option}"
            )
        try:
            folder = target_of(target).parent  # of the file behind links
        except OSError as error:
            raise FileTrouble(f"{shown(path)} cannot be written: {error.strerror}") from error
        if not folder.is_dir():
            raise FileTrouble(
                f"there is no folder {shown(target.parent)} to write {shown(target.name)} to"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise FileTrouble(f"the folder {shown(folder)} may not be written to")
    except ValueError as error:  # a null byte
        raise WrongUsage(f"{shown(path)} is no name of a file: {error}") from error


def check_apart(*paths: str | None) -> None:
    """Refuse to write two things to one file."""
    real = [os.path.realpath(path) for path in paths if path is not None and path != DASH]
    if len(set(real)) < len(real):
        raise WrongUsage("two outputs have the same name")


def check_not_input(path: str, data: str, what: str, option: str = "-o") -> None:
    """Refuse to put something else in place of the data, also with --force."""
    if DASH not in (path, data) and os.path.realpath(path) == os.path.realpath(data):
        raise WrongUsage(
            f"{what} would replace the data {shown(data)}; name another file with {option}"
        )


def require_no_terminal(path: str | None, what: str) -> None:
    if path == DASH and sys.stdout is not None and sys.stdout.isatty():
        raise WrongUsage(f"{what} is not for a terminal: pipe it on, or name a file with -o")


def write_whole(path: str, suffix: str, write: Callable[[str], Any]) -> int:
    """Let `write` make a file at a path, or one that goes to standard output; its bytes."""
    if path != DASH:
        target = os.path.expanduser(path)
        write(target)
        return os.path.getsize(target)
    with tempfile.TemporaryDirectory(prefix="eigengap-") as folder:
        kept = os.path.join(folder, "written" + suffix)
        write(kept)
        with open(kept, "rb") as file:
            while data := file.read(1 << 20):
                write_to_stdout(data)
        sys.stdout.buffer.flush()
        return os.path.getsize(kept)


def write_to_stdout(data: bytes) -> None:
    """All of it: where Python does not buffer (PYTHONUNBUFFERED) a write may be of a part."""
    sys.stdout.flush()
    rest = memoryview(data)
    while len(rest):
        rest = rest[sys.stdout.buffer.write(rest) or 0 :]


def stdout_trouble(error: OSError) -> FileTrouble:
    """The system's error on standard output; whatever waits to be written is given up."""
    with suppress(OSError, ValueError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    why = error.strerror or os.strerror(error.errno or errno.EIO)
    return FileTrouble(f"standard output cannot be written to: {why}")
