"""The number of threads follows affinity and the container's quota, not the machine's cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from eigengap import KernelPCA
from eigengap.runtime import memory, threads
from eigengap.runtime.threads import threads_for, workers_for

MANY = 64  # cores of the machine, where a container has fewer


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of many cores with control groups that the test writes."""
    monkeypatch.setattr(os, "cpu_count", lambda: MANY)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MANY)), raising=False)
    (tmp_path / "proc/self").mkdir(parents=True)
    monkeypatch.setattr(memory, "ROOT", tmp_path / "groups")
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")

    def written(cgroup: str, files: dict[str, str]) -> None:
        (tmp_path / "proc/self/cgroup").write_text(cgroup)
        for name, text in files.items():
            path = tmp_path / "groups" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    return written


V1 = "3:cpu,cpuacct:{path}\n7:memory:/elsewhere\n"


def cfs(quota: int, period: int, at: str = "cpu") -> dict[str, str]:
    """A quota as version 1 writes it."""
    return {f"{at}/cpu.cfs_quota_us": str(quota), f"{at}/cpu.cfs_period_us": str(period)}


@pytest.mark.parametrize(
    ("cgroup", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "200000 100000"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000"}, 2),
        ("0::/\n", {"cpu.max": "5000 100000"}, 1),
        ("0::/\n", {"cpu.max": "max 100000"}, MANY),
        ("0::/a/b\n", {"a/b/cpu.max": "800000 100000", "a/cpu.max": "300000 100000"}, 3),
        ("0::/of/the/host\n", {"cpu.max": "400000 100000"}, 4),
        ("0::/\n", {}, MANY),
        ("0::/\n", {"cpu.max": "nonsense"}, MANY),
        ("1:name=systemd:/\n0::/\n", {"unified/cpu.max": "300000 100000"}, 3),
        (V1.format(path="/"), cfs(500_000, 100_000), 5),
        (V1.format(path="/"), cfs(-1, 100_000), MANY),
        (V1.format(path="/docker/x"), cfs(-1, 100_000) | cfs(250_000, 50_000, "cpu/docker/x"), 5),
    ],
)
def test_a_container_grants_so_many_cores(machine, cgroup, files, cores):
    machine(cgroup, files)
    assert memory.cores() == cores
    assert threads_for(-1) == cores
    assert threads_for(-2) == max(cores - 1, 1)
    assert threads_for(3) == 3
    assert workers_for(-1) == cores


def test_affinity_and_quota_both_count(machine, monkeypatch):
    machine("0::/\n", {"cpu.max": "500000 100000"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7}, raising=False)
    assert memory.cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert memory.cores() == 5


def test_an_estimator_asked_for_all_cores_takes_those_of_the_container(machine, monkeypatch):
    machine("0::/\n", {"cpu.max": "300000 100000"})
    asked = []
    pools = threads.ThreadPoolExecutor

    def pool(max_workers, *args, **kwargs):
        asked.append(max_workers)
        return pools(max_workers, *args, **kwargs)

    monkeypatch.setattr("eigengap.runtime.threads.ThreadPoolExecutor", pool)
    X = np.random.default_rng(0).normal(size=(700, 4))
    KernelPCA(2, kernel="rbf", n_jobs=-1).fit(X)
    assert asked
    assert set(asked) == {3}


def test_no_threads_at_all_is_no_answer():
    with pytest.raises(ValueError, match="n_jobs=0"):
        workers_for(0)


PROGRAM = """
import json, os
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
import numpy as np
from eigengap.runtime.memory import cores
from eigengap.runtime.threads import (_executor, allowed_threads, libraries, sharing, threads_for,
                                      workers_for)
with sharing():
    inside = max(library.num_threads for library in libraries())
print(json.dumps([cores(), threads_for(-1), workers_for(-1), allowed_threads(), inside,
                  _executor()._max_workers]))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_a_process_that_is_bound_to_one_core_uses_one():
    free = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=free)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1] * 6


def test_blas_is_held_to_the_quota_during_a_pass(machine):
    most = max(library.num_threads for library in threads.libraries())
    machine("0::/\n", {"cpu.max": "100000 100000"})
    with threads.sharing():
        assert all(library.num_threads == 1 for library in threads.libraries())
    assert max(library.num_threads for library in threads.libraries()) == most
