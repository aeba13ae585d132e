"""How much memory there is, and refusing what does not fit before it is allocated.

Methods that need the matrix of all pairs of rows end where memory does: 100 000 rows are 80 GB.
What is free is the least that anybody says: the system, the container (control groups of Linux, of
version 2 and version 1), and the limit on this process.
"""

from __future__ import annotations

import os
from pathlib import Path

from eigengap import control_groups

SHARE = 0.8  # of what is free that one fit may take
_UNKNOWN = 8 << 30  # bytes, where the system does not tell
_UNLIMITED = 1 << 62
NAMES = {  # of a limit, of what is used, and of what was only read, by version of control groups
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


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
        lines = (control_groups.PROC / "meminfo").read_text().splitlines()
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
        (_left(folder, *NAMES[version]) for folder, version in control_groups.groups("memory")),
        default=_UNLIMITED,
    )


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
        pages = int((control_groups.PROC / "self/statm").read_text().split()[0])
        return max(most - pages * os.sysconf("SC_PAGE_SIZE"), 0)
    except (ImportError, OSError, ValueError):
        return _UNLIMITED


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
