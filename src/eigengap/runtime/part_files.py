"""Part files: a file has a temporary name in the same folder until it is complete.

A process that is killed leaves its part behind. The next one that writes to the same name removes
it, unless another process is writing to it: a writer holds a lock (flock) on its part, which the
system releases when the process ends. Some network file systems keep locks to one machine, so a
part of another machine must also be a day old.
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
LONGEST = 50  # letters of a file's name in that of its part: names have a maximal length
STALE = 86_400.0  # seconds after which another machine's part counts as abandoned


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file itself where `path` is a link to it: a rename would replace the link."""
    target = os.path.realpath(path)
    if os.path.islink(target):  # links that lead to one another
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return Path(target)


class Part:
    """A new file or folder next to `target`, locked by this process until it is released."""

    def __init__(self, target: Path, *, is_folder: bool = False) -> None:
        self.number = -1  # file descriptor; -1 where folders cannot be opened
        self._target = target
        sweep(target)
        while not self._create(is_folder):  # else it was removed before it was locked
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
        with suppress(OSError):  # the file system has no locks
            fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.number))
        except FileNotFoundError:
            return False

    def publish(self) -> None:
        """Rename it to the target, in one step."""
        if fcntl is None:  # Windows, where no open file can be renamed
            self.release()
        os.replace(self.path, self._target)

    def remove(self) -> None:
        """Remove it from the disk, if it exists."""
        _remove(self.path)

    def release(self) -> None:
        """Release the lock, once the part is published or removed."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        self.release()


def sweep(target: Path) -> None:
    """Remove the parts of `target` that killed processes left behind, and nothing else."""
    name = re.escape(f".{target.name[:LONGEST]}.")
    pattern = re.compile(rf"{name}(?:([0-9a-f]+)-)?[0-9a-f]+{re.escape(SUFFIX)}", re.DOTALL)
    with suppress(OSError):
        for entry in os.scandir(target.parent):
            found = pattern.fullmatch(entry.name)
            if found is not None:
                with suppress(OSError):
                    _remove_dead(Path(entry.path), found[1] == _machine())


def _remove_dead(part: Path, is_ours: bool) -> None:
    """Remove a part that no process holds; OSError where one does, or may."""
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


def sync_folder(folder: Path) -> None:
    """Make a rename permanent, as far as the system can."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@cache
def _machine() -> str:
    """An identifier of this machine since its start, whose locks are visible to us."""
    try:
        known = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        known = str(uuid.getnode())
    return hashlib.sha256(known.encode()).hexdigest()[:8]
