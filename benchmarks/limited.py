"""Processes under a real limit on memory: a control group of Linux, where this may be made.

The pages of files that are read count too, and are given up when the limit is met, so that a file
larger than the limit cannot be read from the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

_ROOTS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.peak"),
)


class Group:
    """A control group; `prefix` starts a command inside it."""

    def __init__(self, folder: Path, peak: str) -> None:
        self.folder, self._peak = folder, folder / peak
        enter = f'echo $$ > {folder / "cgroup.procs"}; exec "$@"'
        self.prefix = ("sh", "-c", enter, "sh")

    @property
    def peak(self) -> int:
        """Most bytes that were charged to it, pages of files included."""
        return int(self._peak.read_text())


@contextmanager
def memory_limit(size: int) -> Iterator[Group | None]:
    """A group that may use `size` bytes; None where the system does not allow to make one."""
    made = _make(size)
    try:
        yield made
    finally:
        if made is not None:
            made.folder.rmdir()


def _make(size: int) -> Group | None:
    for root, limit, peak in _ROOTS:
        folder = root / f"eigengap-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(size))
            return Group(folder, peak)
        except OSError:
            folder.rmdir()
    return None


@contextmanager
def most_anonymous(every: float = 0.02) -> Iterator[Callable[[], float]]:
    """Megabytes of this process at their most, pages of files apart; looked at `every` seconds."""
    most, stop = [0.0], Event()

    def look() -> None:
        while not stop.wait(every):
            lines = Path("/proc/self/status").read_text().splitlines()
            found = next(line for line in lines if line.startswith("RssAnon"))
            most[0] = max(most[0], int(found.split()[1]) / 1e3)

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lambda: most[0]
    finally:
        stop.set()
        thread.join()
