"""Files that are written completely or not at all.

The bytes go to a temporary file in the same folder, to the disk (fsync), and get their name by one
rename: at any time, and after a power failure, there is either the old file or the new one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eigengap.printable import bare
from eigengap.runtime import part_files
from eigengap.runtime.part_files import Part, sync_folder, target_of


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`, or leave what is there unchanged and raise OSError."""
    target = target_of(path)
    mode = None
    with suppress(OSError):
        mode = target.stat().st_mode & 0o7777
    with _part_of(target) as part:
        try:
            _write_through(part, data, mode)
            part.publish()
        except OSError as error:  # which names the part, or no file where the disk is full
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    sync_folder(target.parent)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written to, before work is done for it."""
    try:
        target = target_of(path)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
        target.exists()  # whether the name is valid
        with _part_of(target) as part:
            _write_through(part, b"\0", None)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise type(error)(
            error.errno, f"cannot write {bare(path)}: {reason}. Give another path"
        ) from None


@contextmanager
def _part_of(target: Path) -> Iterator[Part]:
    part = Part(target)
    try:
        yield part
    finally:
        with suppress(OSError):
            part.remove()  # unless it was renamed
        part.release()


def sweep(path: str | os.PathLike[str]) -> None:
    """Remove the parts of `path` that killed processes left behind."""
    with suppress(OSError):
        part_files.sweep(target_of(path))


def _write_through(part: Part, data: bytes, mode: int | None) -> None:
    """Write to the disk, with the given mode or that of the umask."""
    with os.fdopen(part.number, "wb", closefd=False) as file:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
