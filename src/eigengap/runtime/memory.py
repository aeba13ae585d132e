"""How much memory and how many cores this process may use; what does not fit is refused early.

Methods that need the matrix of all pairs of rows are limited by memory: 100 000 rows take 80 GB.
Free memory is the least that any limit leaves: the system's, the container's (Linux control groups,
version 2 and version 1), that of the process, and the user's EIGENGAP_MEMORY. Cores are limited by
affinity and by the container's quota.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from math import ceil, inf
from pathlib import Path

from eigengap.exceptions import DoesNotFitError

VARIABLE = "EIGENGAP_MEMORY"  # most bytes that this process is to use, such as "2 GB"
SHARE = 0.8  # of free memory that one fit may take
LEAST_BLOCK = 1 << 20  # bytes, below which the work on a block is not worth its overhead
# Memory that a fit of a file takes, in blocks: some 8 for reading, and for each thread 10 (PPCA) to
# 16 (mixtures) for preparing and computing, all measured. They get half of what Python and the
# libraries leave; the rest is for cached blocks and everything else.
BLOCKS_OF_READING, BLOCKS_OF_THREAD, MOST_THREADS = 8, 16, 8
LIBRARIES = 256 << 20  # bytes
_UNKNOWN = 8 << 30  # bytes, where the system does not report its memory
_UNLIMITED = 1 << 62
ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")
NAMES = {  # files of a control group: limit, usage, and the reclaimable entry of memory.stat
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def require_pairs(n: int, what: str, way_out: str, copies: float = 2.0) -> None:
    """Refuse n x n matrices, `copies` of them in float64, that do not fit into memory."""
    require_memory(copies * 8.0 * n * n, f"{what} of {n} rows", way_out)


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Refuse an allocation of `needed` bytes that does not fit into memory."""
    free = free_memory()
    if needed > SHARE * free:
        raise DoesNotFitError(
            f"{what} needs {_gigabytes(needed)} of memory, and {_gigabytes(free)} are free: "
            f"{way_out}"
        )


def free_memory() -> int:
    """Bytes that this process may still allocate."""
    return min(
        _free_of_system(),
        min((_free_in(*group) for group in groups("memory")), default=_UNLIMITED),
        _free_of(_address_space(), 0),
        _free_of(_user_limit(), 1),
    )


def memory_limit() -> int:
    """Bytes that this process may allocate in all, including those in use."""
    container = min((_limit(*group) for group in groups("memory")), default=_UNLIMITED)
    return min(_physical(), container, _address_space(), _user_limit())


def block_bytes(most: int) -> int:
    """Size of the blocks in which a table is read: `most`, or less where memory is short.

    It follows the limit, not what is free just now, and is a power of two: rounding depends on the
    blocks, and the next run on the same machine has to give the same result.
    """
    held = BLOCKS_OF_READING + BLOCKS_OF_THREAD * min(cores(), MOST_THREADS)
    size = most
    while size > LEAST_BLOCK and held * size > 0.5 * (memory_limit() - LIBRARIES):
        size //= 2
    return size


def cores() -> int:
    """Cores that this process may use: by its affinity, and by the quota of its container."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return int(min(count, cpu_quota()))


def bytes_in(text: str) -> int:
    """A number of bytes as people write it.

    >>> bytes_in("500 MB"), bytes_in("1.5GiB"), bytes_in("2000")
    (500000000, 1610612736, 2000)
    """
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgt])(i?)b?|b)?", text.strip(), re.I)
    if found is None:
        raise ValueError(
            f"{VARIABLE}={text!r} is no amount of memory: give bytes, or a number with a unit such "
            "as 500 MB, 2 GB or 1.5 GiB"
        )
    number, unit, binary = found.groups()
    power = 0 if unit is None else "kmgt".index(unit.lower()) + 1
    return int(float(number) * (1024 if binary else 1000) ** power)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


# The system, the process and the user ------------------------------------------------------------


def _free_of_system() -> int:
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
    except OSError:
        return _physical()
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) << 10 if "MemAvailable" in found else _physical()


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def _address_space() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return _UNLIMITED
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return _UNLIMITED if most == resource.RLIM_INFINITY else most


def _user_limit() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    return bytes_in(text) if text else _UNLIMITED


def _free_of(limit: int, which: int) -> int:
    """What is left of a limit on this process's address space (which = 0) or memory (1)."""
    if limit == _UNLIMITED:
        return limit
    try:
        pages = int((PROC / "self/statm").read_text().split()[which])
    except (OSError, ValueError, IndexError):
        return limit  # the system does not report it: nothing is known to be used
    return max(limit - pages * os.sysconf("SC_PAGE_SIZE"), 0)


# Control groups of Linux: the limits of a container ----------------------------------------------


def groups(controller: str) -> Iterator[tuple[Path, int]]:
    """Folders of the groups of this process and of the groups around them, with their version.

    In a container the path may be that of the host, and the root then is the group itself.
    """
    own = dict(_own_groups())
    for root, of, version in (
        (ROOT, "", 2),
        (ROOT / "unified", "", 2),  # next to version 1, on systems that have both
        (ROOT / controller, controller, 1),
    ):
        parts = Path(own.get(of, "/").lstrip("/")).parts
        for k in range(len(parts) + 1):
            yield root.joinpath(*parts[:k]), version


def _own_groups() -> Iterator[tuple[str, str]]:
    """Controllers ("" for version 2), each with the path of the group of this process."""
    try:
        lines = (PROC / "self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.count(":") >= 2:
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                yield controller, path


def _limit(folder: Path, version: int) -> int:
    try:
        return int((folder / NAMES[version][0]).read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return _UNLIMITED


def _free_in(folder: Path, version: int) -> int:
    """What a group leaves; pages of files that were read count as used, but are reclaimable."""
    _, usage, reclaimable = NAMES[version]
    try:
        used = int((folder / usage).read_text())
    except (OSError, ValueError):
        return _UNLIMITED
    try:
        lines = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
        used -= next((int(line[1]) for line in lines if line[0] == reclaimable), 0)
    except (OSError, ValueError, IndexError):
        pass
    return max(_limit(folder, version) - used, 0)


def cpu_quota() -> float:
    """Cores' worth of time that the container grants, rounded up; infinite without a limit."""
    return _cpu_quota(ROOT, PROC)


@cache  # asked for in every pass over a table, and fixed when a container is started
def _cpu_quota(root: Path, proc: Path) -> float:
    return min((_granted(*group) for group in groups("cpu")), default=inf)


def _granted(folder: Path, version: int) -> float:
    try:
        if version == 2:
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return max(ceil(int(quota) / int(period)), 1) if int(quota) > 0 else inf
    except (OSError, ValueError):  # no such file, or "max"
        return inf
