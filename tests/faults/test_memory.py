"""Memory as the system, the container and the limits of the process tell of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eigengap import control_groups, memory
from eigengap.memory import DoesNotFitError, require_pairs


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    with pytest.raises(DoesNotFitError, match=r"160\.0 GB .* landmarks"):
        require_pairs(100_000, "an exact fit", "use landmarks")
    monkeypatch.setattr(memory, "free_memory", lambda: 10**6)
    with pytest.raises(DoesNotFitError, match=r"needs 2 MB of memory, and 1 MB are free"):
        require_pairs(354, "a small one", "buy memory")
    require_pairs(100, "a tiny one", "none")


def test_a_container_has_less_than_its_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    alone = memory.free_memory()
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert memory.free_memory() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory() > alone // 2


def test_the_groups_around_a_group_limit_it_too(monkeypatch, tmp_path):
    """Version 1 as well as version 2; what was only read can be given up."""
    proc = tmp_path / "proc" / "self"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("4:memory:/outer/inner\n0::/\n")
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    monkeypatch.setattr(control_groups, "PROC", tmp_path / "proc")
    outer, inner = tmp_path / "memory/outer", tmp_path / "memory/outer/inner"
    inner.mkdir(parents=True)
    for group, most, used, read in ((outer, 5000, 4000, 100), (inner, 3000, 2500, 1000)):
        (group / "memory.limit_in_bytes").write_text(f"{most}\n")
        (group / "memory.usage_in_bytes").write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"cache 7\ntotal_inactive_file {read}\n")
    assert memory.free_memory() == 1100
    (outer / "memory.limit_in_bytes").write_text("9000\n")
    assert memory.free_memory() == 1500


def test_a_limit_on_the_address_space_counts():
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30));"
        "from eigengap.memory import free_memory; print(free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 1 << 30 < int(done.stdout) < 4 << 30
