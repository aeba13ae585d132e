"""Control groups of Linux: the limits of a container, in version 2 and version 1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import ceil, inf
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PROC = Path("/proc")


def groups(controller: str) -> Iterator[tuple[Path, int]]:
    """Folders of the groups of this process and of the groups around them, with their version.

    In a container the path may be that of the host, and the root then is the group itself.
    """
    inside = dict(_own())
    for root, of, version in (
        (ROOT, "", 2),
        (ROOT / "unified", "", 2),  # beside version 1, on systems that have both
        (ROOT / controller, controller, 1),
    ):
        parts = Path(inside.get(of, "/").lstrip("/")).parts
        for k in range(len(parts) + 1):
            yield root.joinpath(*parts[:k]), version


def _own() -> Iterator[tuple[str, str]]:
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


def cpu_quota() -> float:
    """Cores' worth of time that the container grants, rounded up; infinite without a limit."""
    return _cpu_quota(ROOT, PROC)


@cache  # asked for in every pass over a table, and part of what a container is started with
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
