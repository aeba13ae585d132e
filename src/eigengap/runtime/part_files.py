"""Files on their way to a name: under another one in the same folder until they are complete.

A process that is killed leaves its part behind. The next one that writes to the same name removes
it, if nobody can be writing to it: a writer holds a lock (flock) on its part for as long as it
lives, and the system releases it. Some network file systems keep locks to one machine, so a part
of another machine has to be a day old besides.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import time
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_ISDIR

try:
    import fcntl
except ImportError:  # Windows, which removes no file that is open
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".part"
LONGEST = 50  # letters of a file's name in that of its part, for names have a largest length
STALE = 86_400.0  # seconds after which another machine's part is taken for debris


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file itself where `path` is a link to it: a rename would replace the link."""
    target = os.path.realpath(path)
    if os.path.islink(target):  # links that lead to one another, and to no file
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return Path(target)


class Part:
    """A new file, or folder, beside `target`, which is this process's until it is released."""

    def __init__(self, target: Path, *, is_folder: bool = False) -> None:
        self.number = -1  # of the open file; -1 where folders cannot be opened
        self._target = target
        sweep(target)
        while not self._create(is_folder):  # else somebody has swept it before it was locked
            self.release()

    def _create(self, is_folder: bool) -> bool:
        name = f".{self._target.name[:LONGEST]}.{_machine()}-{secrets.token_hex(6)}{SUFFIX}"
        self.path = self._target.with_name(name)
        if is_folder:
            os.mkdir(self.path)
            with suppress(PermissionError):  # Windows
                self.number = os.open(self.path, os.O_RDONLY)
        else:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self.number = os.open(self.path, flags, 0o666)
        if self.number < 0 or fcntl is None:
            return True
        with suppress(OSError):  # there are no locks on this file system
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.number))
        except FileNotFoundError:
            return False

    def publish(self) -> None:
        """Give it the name of the target, in one step."""
        if fcntl is None:  # where no open file can be renamed either
            self.release()
        os.replace(self.path, self._target)

    def remove(self) -> None:
        """Remove it from the disk, if it is there."""
        _remove(self.path)

    def release(self) -> None:
        """Let go of the lock; the part is published by now, or removed."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        self.release()


def sweep(target: Path) -> None:
    """Remove what processes that were killed have left beside `target`, and nothing else."""
    name = re.escape(f".{target.name[:LONGEST]}.")
    pattern = re.compile(rf"{name}(?:([0-9a-f]+)-)?[0-9a-f]+{re.escape(SUFFIX)}", re.DOTALL)
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            found = pattern.fullmatch(entry.name)
            if found is not None:
                with suppress(OSError):
                    _remove_dead(Path(entry.path), found[1] == _machine())


def _remove_dead(part: Path, is_ours: bool) -> None:
    """Remove a part that no process holds; OSError where one does, or nobody knows."""
    number = os.open(part, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        status = os.fstat(number)
        old = time.time() - status.st_mtime > STALE and not S_ISDIR(status.st_mode)
        if not (is_ours or old):
            return
        if fcntl is not None:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(part)
            return
    finally:
        os.close(number)
    _remove(part)


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


@cache
def _machine() -> str:
    """This machine since it was started: locks of its own processes are known to it."""
    try:
        known = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        known = str(uuid.getnode())
    return hashlib.sha256(known.encode()).hexdigest()[:8]
