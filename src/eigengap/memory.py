"""Refusing what does not fit in memory, with the gigabytes it would take, before it is allocated.

Methods that need the matrix of all pairs of rows end where memory does: 100 000 rows are 80 GB.
"""

from __future__ import annotations

import os
from pathlib import Path

SHARE = 0.8  # of what is free that one fit may take
_UNKNOWN = 8 << 30  # bytes, where the system does not tell
_CGROUP = Path("/sys/fs/cgroup")  # the limit of a container (Linux, version 2 and version 1)


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
    """Bytes that this process may still allocate, by what system and container say."""
    return min(_free_of_system(), _free_of_container())


def _free_of_system() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
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
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = (_CGROUP / limit).read_text().strip()
            if most.isdigit():
                return max(int(most) - int((_CGROUP / used).read_text()), 0)
        except (OSError, ValueError):
            continue
    return 1 << 62


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
