"""Memory as the system, the container and the limits of the process tell of it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

from eigengap.exceptions import DoesNotFitError
from eigengap.images import denoise_image, inpaint_image
from eigengap.images.files.files import read_image, write_image
from eigengap.runtime import memory
from eigengap.runtime.memory import require_pairs
from eigengap.sources.opening import open_source


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    with pytest.raises(DoesNotFitError, match=r"160\.0 GB .* landmarks"):
        require_pairs(100_000, "an exact fit", "use landmarks")
    monkeypatch.setattr(memory, "free_memory", lambda: 10**6)
    with pytest.raises(DoesNotFitError, match=r"needs 2 MB of memory, and 1 MB are free"):
        require_pairs(354, "a small one", "buy memory")
    require_pairs(100, "a tiny one", "none")


def test_a_container_has_less_than_its_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "ROOT", tmp_path)
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
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
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
        "from eigengap.runtime.memory import free_memory; print(free_memory())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 1 << 30 < int(done.stdout) < 4 << 30


# The size of blocks ---------------------------------------------------------------------------

MB = 1 << 20


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of two cores with 64 GB and no limits; returns where its control groups are."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/inner\n0::/\n")
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_physical", lambda: 64 << 30)
    monkeypatch.setattr(memory, "_address_space", lambda: 1 << 62)
    monkeypatch.setattr(memory, "cores", lambda: 2)
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    return tmp_path


def test_blocks_are_as_large_as_they_may_be_on_a_large_machine(machine):
    assert memory.block_bytes(32 * MB) == 32 * MB


@pytest.mark.parametrize("name", ["memory.max", "memory/inner/memory.limit_in_bytes", "asked"])
def test_blocks_follow_the_limit(machine, monkeypatch, name):
    """Of a container, in version 2 and 1, and of the user; all blocks that are held fit."""
    before = 32 * MB
    for limit in (8000 * MB, 1500 * MB, 600 * MB, 450 * MB, 300 * MB):
        if name == "asked":
            monkeypatch.setenv(memory.VARIABLE, str(limit))
        else:
            (machine / name).parent.mkdir(exist_ok=True, parents=True)
            (machine / name).write_text(f"{limit}\n")
        size = memory.block_bytes(32 * MB)
        assert MB <= size <= before
        assert size == MB or 40 * size <= limit - memory.LIBRARIES
        before = size
    assert before == MB


def test_a_file_is_read_in_blocks_that_follow_the_limit(tmp_path, machine, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros((5, 4)))
    monkeypatch.setenv(memory.VARIABLE, "600 MB")
    small = open_source(tmp_path / "x.npy").rows_per_block
    assert small == memory.block_bytes(32 * MB) // 32
    assert small < 8 * MB // 32
    assert open_source(tmp_path / "x.npy", block_bytes=32 * MB).rows_per_block == MB
    monkeypatch.delenv(memory.VARIABLE)
    assert open_source(tmp_path / "x.npy").rows_per_block == MB


@pytest.mark.parametrize(
    ("text", "count"),
    [("2GB", 2_000_000_000), ("1.5 gib", 3 << 29), ("500 MB", 500_000_000), ("7", 7), ("3k", 3000)],
)
def test_the_setting_limits_what_is_free(monkeypatch, text, count):
    assert memory.bytes_in(text) == count
    monkeypatch.setenv(memory.VARIABLE, text)
    assert memory.free_memory() <= count
    assert memory.memory_limit() <= count


@pytest.mark.parametrize("text", ["lots", "-1 GB", "2 XB", "GB"])
def test_a_setting_that_is_no_amount_is_refused(monkeypatch, text):
    monkeypatch.setenv(memory.VARIABLE, text)
    with pytest.raises(ValueError, match=r"EIGENGAP_MEMORY=.* such as 500 MB"):
        memory.free_memory()


# Small files that hold much -------------------------------------------------------------------


def test_a_table_that_is_packed_tightly_is_streamed(tmp_path, monkeypatch):
    """Its size tells nothing of its rows: they are counted before it is loaded."""
    from eigengap.cli.fitting import loaded
    from eigengap.cli.tables.table import Choice, open_table
    from eigengap.sources.reader import StreamSource

    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n3,5\n" * 100_000))
    assert path.stat().st_size < 10_000
    table = open_table(str(path), str(path), Choice())
    monkeypatch.setattr(memory, "free_memory", lambda: 3 * MB)
    source = loaded(table)
    assert isinstance(source, StreamSource)
    assert source.n_rows == 200_000


@pytest.mark.parametrize("restore", [denoise_image, lambda X: inpaint_image(X, X == 0)])
def test_a_picture_that_does_not_fit_is_refused_first(monkeypatch, restore):
    picture = np.zeros((500, 600, 3), dtype=np.uint8)
    picture[:, 300:] = 9
    monkeypatch.setattr(memory, "free_memory", lambda: 10 * MB)
    with pytest.raises(DoesNotFitError, match=r"600 x 500 pixels .* needs \d+ MB .* tiles"):
        restore(picture)


@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_a_picture_is_not_unpacked_where_it_does_not_fit(tmp_path, monkeypatch, kind):
    path = tmp_path / f"x.{kind}"
    write_image(path, np.zeros((1500, 1500, 3), dtype=np.uint8))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(memory, "free_memory", lambda: 10 * MB)
    with pytest.raises(DoesNotFitError, match=r"1500 x 1500 pixels .* needs 20 MB"):
        read_image(path)


FIT = """
import resource, sys
import eigengap as eg
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
from eigengap.sources.opening import open_source
eg.PPCA(3, max_iter=3, tol=0.0).fit(open_source(sys.argv[1]))
print(peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True], ids=["csv", "csv.gz"])
def test_a_fit_keeps_to_what_was_asked_for(tmp_path, packed):
    """In 500 MB, of which Python and the libraries take some 230; without the limit it is 700."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(50_000, 20)), 4)
    X[rng.random(X.shape) < 0.05] = np.nan
    lines = "\n".join(",".join("" if v != v else str(v) for v in row) for row in X).encode()
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    with gzip.open(path, "wb", 1) if packed else path.open("wb") as file:
        for _ in range(30):
            file.write(lines + b"\n")
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(path)],
        capture_output=True, text=True, env={**os.environ, memory.VARIABLE: "500 MB"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 500_000_000
