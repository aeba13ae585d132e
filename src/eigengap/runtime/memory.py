"""How much memory there is, and refusing what does not fit before it is allocated.

Methods that need the matrix of all pairs of rows end where memory does: 100 000 rows are 80 GB.
What is free is the least that anybody says: the system, the container (control groups of Linux, of
version 2 and version 1), the limit on this process, and the user, by EIGENGAP_MEMORY.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from eigengap.exceptions import DoesNotFitError
from eigengap.runtime import control_groups
from eigengap.runtime.blas import cores

VARIABLE = "EIGENGAP_MEMORY"  # most bytes that this process is to use, such as "2 GB"
SHARE = 0.8  # of what is free that one fit may take
LEAST_BLOCK = 1 << 20  # bytes, below which the work on a block is not worth its overhead
# Blocks' worth of memory that a fit of a file takes: some 8 of reading, and for each thread 10
# (PPCA) to 16 (mixtures) of preparing and computing, all measured; half of what Python and the
# libraries leave is for them, the rest for blocks that are kept and for whatever else there is.
BLOCKS_OF_READING, BLOCKS_OF_THREAD, MOST_THREADS = 8, 16, 8
LIBRARIES = 256 << 20  # bytes
_UNKNOWN = 8 << 30  # bytes, where the system does not tell
_UNLIMITED = 1 << 62
NAMES = {  # of a limit, of what is used, and of what was only read, by version of control groups
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


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
    return min(
        _free_of_system(), _free_of_container(), _free_of_process(), _free_of_what_was_asked()
    )


def memory_limit() -> int:
    """Bytes that this process may allocate in all, however much of them is in use."""
    return min(_physical(), _limit_of_container(), _address_space(), _asked_for())


def block_bytes(most: int) -> int:
    """Size of the blocks that a table is read in: `most`, or less where memory is short.

    By the limit and not by what is free just now, and in powers of two, for rounding follows the
    blocks: the next run on the same machine has to have the same.
    """
    held = BLOCKS_OF_READING + BLOCKS_OF_THREAD * min(cores(), MOST_THREADS)
    size = most
    while size > LEAST_BLOCK and held * size > 0.5 * (memory_limit() - LIBRARIES):
        size //= 2
    return size


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


def _limit_of_container() -> int:
    return min(
        (_most(folder, NAMES[version][0]) for folder, version in control_groups.groups("memory")),
        default=_UNLIMITED,
    )


def _most(folder: Path, limit: str) -> int:
    try:
        return int((folder / limit).read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return _UNLIMITED


def _left(folder: Path, limit: str, used: str, reclaimable: str) -> int:
    most = _most(folder, limit)
    try:
        taken = int((folder / used).read_text())
    except (OSError, ValueError):
        return _UNLIMITED
    return max(most - taken + _reclaimable(folder, reclaimable), 0)


def _reclaimable(folder: Path, name: str) -> int:
    """Pages of files that were read: they count as used, and are given up for the asking."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)
    except (OSError, ValueError, IndexError):
        return 0


def _free_of_process() -> int:
    """What RLIMIT_AS leaves of the address space."""
    most = _address_space()
    return most if most == _UNLIMITED else max(most - _used(0), 0)


def _address_space() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return _UNLIMITED
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return _UNLIMITED if most == resource.RLIM_INFINITY else most


def _free_of_what_was_asked() -> int:
    """What EIGENGAP_MEMORY leaves beside what this process holds already."""
    most = _asked_for()
    return most if most == _UNLIMITED else max(most - _used(1), 0)


def _asked_for() -> int:
    text = os.environ.get(VARIABLE, "").strip()
    return bytes_in(text) if text else _UNLIMITED


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


def _used(which: int) -> int:
    """Bytes that this process has: 0 of the address space, 1 of memory."""
    try:
        pages = int((control_groups.PROC / "self/statm").read_text().split()[which])
    except (OSError, ValueError, IndexError):
        return 0  # the system does not tell: then nothing is known to be taken
    return pages * os.sysconf("SC_PAGE_SIZE")


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"
