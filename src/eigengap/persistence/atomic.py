"""Files that are there completely or not at all.

The bytes go to a temporary file in the same folder, to the disk (fsync), and under their name by
one rename: whoever looks, and whenever the power fails, sees the old file or the new one.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from eigengap.printable import bare

SUFFIX = ".part"
LONGEST = 50  # letters of a file's name in that of its part, for names have a largest length
STALE = 60.0  # seconds after which a part that nobody has written to is what a crash has left


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Put `data` under `path`, or leave what is there as it was and raise OSError."""
    target = _target(path)
    part = _part(target)
    try:
        _write_through(part, data, _mode_of(target))
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(target.parent)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that nothing can be written to, before work is done for it."""
    target = _target(path)
    part = _part(target)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
        target.exists()  # whether the name is one at all
        _write_through(part, b"\0", None)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise type(error)(
            error.errno, f"cannot write {bare(path)}: {reason}. Give another path"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


def sweep(path: str | os.PathLike[str]) -> None:
    """Remove what a process that was killed in the middle of writing has left beside `path`."""
    target = _target(path)
    with suppress(OSError):
        for part in target.parent.glob(f".{_literal(target.name[:LONGEST])}.*{SUFFIX}"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > STALE:
                    part.unlink()


def _target(path: str | os.PathLike[str]) -> Path:
    """The file itself where `path` is a link to it: a rename would replace the link."""
    return Path(os.path.realpath(path))


def _part(target: Path) -> Path:
    return target.with_name(f".{target.name[:LONGEST]}.{secrets.token_hex(6)}{SUFFIX}")


def _mode_of(target: Path) -> int | None:
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        return None


def _write_through(part: Path, data: bytes, mode: int | None) -> None:
    """Write a new file to the disk; its mode is that of the umask, or the one given."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the rename last; where folders cannot be synchronised the system does it in time."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _literal(name: str) -> str:
    """The name as a pattern of glob that matches it alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
