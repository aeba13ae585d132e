"""How much memory there is, and refusing what does not fit before it is allocated.

Methods that need the matrix of all pairs of rows end where memory does: 100 000 rows are 80 GB.
What is free is the least that anybody says: the system, the container (control groups of Linux, of
version 2 and version 1), and the limit on this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

SHARE = 0.8  # of what is free that one fit may take
_UNKNOWN = 8 << 30  # bytes, where the system does not tell
_UNLIMITED = 1 << 62
_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


class DoesNotFitError(MemoryError, ValueError):
    """The method needs more memory than there is."""


def require_pairs(n: int, what: str, way_out: str, copies: float = 2.0) -> None:
    """Refuse n x n matrices, `copies` of them in float64, that memory does not hold."""
    require_memory(copies * 8.0 * n * n, f"{what} of {n} rows", way_out)


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Refuse an allocation of `needed` bytes that memory does not hold."""
    free = free_memory()
    if needed > SHARE * free:
        raise DoesNotFitError(
            f"{what} needs {_gigabytes(needed)} of memory, and {_gigabytes(free)} are free: "
            f"{way_out}"
        )


def free_memory() -> int:
    """Bytes that this process may still allocate."""
    return min(_free_of_system(), _free_of_container(), _free_of_process())


def _free_of_system() -> int:
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return _physical()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) << 10 if "MemAvailable" in found else _physical()


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def _free_of_container() -> int:
    """The least that is left in the groups of this process and the groups around them."""
    return min(
        (_left(folder, *names) for folder, names in _groups()),
        default=_UNLIMITED,
    )


def _groups() -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Folders of the memory groups of this process, with the names that their version uses."""
    two = ("memory.max", "memory.current", "inactive_file")
    one = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    try:
        lines = (_PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    inside = {c: path for _, c, path in (line.split(":", 2) for line in lines if ":" in line)}
    for root, path, names in (
        (_CGROUP, inside.get("", "/"), two),
        (_CGROUP / "memory", inside.get("memory", "/"), one),
    ):
        parts = Path(path.lstrip("/")).parts
        # In a container the path may be that of the host, and the root then is the group itself.
        for k in range(len(parts) + 1):
            yield root.joinpath(*parts[:k]), names


def _left(folder: Path, limit: str, used: str, reclaimable: str) -> int:
    try:
        most = (folder / limit).read_text().strip()
        if not most.isdigit():  # "max"
            return _UNLIMITED
        taken = int((folder / used).read_text())
    except (OSError, ValueError):
        return _UNLIMITED
    return max(int(most) - taken + _reclaimable(folder, reclaimable), 0)


def _reclaimable(folder: Path, name: str) -> int:
    """Pages of files that were read: they count as used, and are given up for the asking."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _free_of_process() -> int:
    """What RLIMIT_AS leaves of the address space."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return _UNLIMITED
        pages = int((_PROC / "self/statm").read_text().split()[0])
        return max(most - pages * os.sysconf("SC_PAGE_SIZE"), 0)
    except (ImportError, OSError, ValueError):
        return _UNLIMITED


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
