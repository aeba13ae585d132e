"""What a killed writer leaves behind is swept by the next one; what a living one writes is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import eigengap as eg
from eigengap.images.files.files import write_image
from eigengap.persistence.atomic import require_writable, write_atomically
from eigengap.sources.opening import open_source
from eigengap.sources.sinks import open_sink
from eigengap.sources.streaming import stream

KINDS = ["npy", "csv", "csv.gz", "parquet", "zarr", "h5"]
ROWS = np.arange(200_000.0).reshape(-1, 2)

# Writes rows, says so, and waits to be killed or told to end.
WRITER = """
import sys
import numpy as np
from eigengap.sources.sinks import base, open_sink
base.GATHERED = 1
with open_sink(sys.argv[1], ["a", "b"], force=True) as sink:
    sink.append(np.arange(200_000.0).reshape(-1, 2))
    print("written", flush=True)
    sys.stdin.readline()
"""


def writer(path: Path) -> subprocess.Popen:
    started = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline() == "written\n"
    return started


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def parts(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".part"))


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr"])
def test_the_next_run_removes_what_a_killed_one_left(tmp_path, kind):
    path = tmp_path / f"scores.{kind}"
    dead, living = writer(path), writer(path)
    kill(dead)
    assert len(parts(tmp_path)) == 2
    other = tmp_path / f".other.{kind}.0123456789ab.part"  # of another output
    other.write_bytes(b"")
    with open_sink(path, ["a", "b"]) as sink:
        sink.append(ROWS[:5])
    kept = parts(tmp_path)
    assert len(kept) == 2
    assert other.name in kept
    assert living.communicate("end\n")[1] is None  # it writes on to its own part
    assert living.returncode == 0
    assert parts(tmp_path) == [other.name]
    np.testing.assert_array_equal(open_source(path).collect(), ROWS)


def test_a_file_written_at_once_sweeps_too(tmp_path):
    path = tmp_path / "report.npy"
    kill(writer(path))
    assert len(parts(tmp_path)) == 1
    write_atomically(path, b"whole")
    assert os.listdir(tmp_path) == ["report.npy"]
    assert path.read_bytes() == b"whole"


def test_many_kills_leave_no_more_than_one_part(tmp_path):
    path = tmp_path / "scores.npy"
    for _ in range(3):
        kill(writer(path))
        assert len(parts(tmp_path)) == 1


@pytest.mark.parametrize(("age", "kept"), [(3600.0, True), (100_000.0, False)])
def test_parts_of_another_machine_have_to_be_old(tmp_path, age, kept):
    """Some network file systems do not tell of locks on other machines."""
    foreign = tmp_path / ".scores.npy.00000000-0123456789ab.part"
    foreign.write_bytes(b"rows")
    then = time.time() - age
    os.utime(foreign, (then, then))
    with open_sink(tmp_path / "scores.npy") as sink:
        sink.append(ROWS[:5])
    assert foreign.exists() == kept


def test_a_part_swept_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    part_files = pytest.importorskip("eigengap.runtime.part_files")
    fcntl = pytest.importorskip("fcntl")
    lock, swept = fcntl.flock, []

    def late(number, how):
        if not swept:
            swept.extend(tmp_path.glob(".*.part"))
            swept[0].unlink()
        lock(number, how)

    monkeypatch.setattr(part_files.fcntl, "flock", late)
    write_atomically(tmp_path / "x", b"whole")
    assert len(swept) == 1
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"whole"


def test_a_file_system_without_locks_is_written_to_and_not_swept(tmp_path, monkeypatch):
    part_files = pytest.importorskip("eigengap.runtime.part_files")
    kill(writer(tmp_path / "x.npy"))

    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(part_files.fcntl, "flock", none)
    with open_sink(tmp_path / "x.npy") as sink:
        sink.append(ROWS)
    assert len(parts(tmp_path)) == 1
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), ROWS)


@pytest.mark.parametrize("kind", [*KINDS, "egap", "html", "png", "checkpoint"])
def test_links_that_lead_nowhere_are_refused_and_kept(tmp_path, kind):
    first, second = tmp_path / f"first.{kind}", tmp_path / f"second.{kind}"
    first.symlink_to(second)
    second.symlink_to(first)
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = eg.PPCA(2).fit(X)
    write = {
        "egap": lambda: eg.save(model, first),
        "html": lambda: eg.report(model, X, first),
        "png": lambda: write_image(first, np.zeros((4, 4), dtype=np.uint8)),
        "checkpoint": lambda: eg.PPCA(2, checkpoint=first).fit(np.where(X > 1, np.nan, X)),
    }.get(kind, lambda: stream(model.transform, X, first))
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write()
    with pytest.raises(OSError, match=r"cannot write .* Too many levels"):
        require_writable(first)
    assert first.is_symlink()
    assert second.is_symlink()
    assert sorted(os.listdir(tmp_path)) == [first.name, second.name]


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path):
    (tmp_path / "link.npy").symlink_to(tmp_path / "file.npy")
    with open_sink(tmp_path / "link.npy") as sink:
        sink.append(ROWS[:5])
    assert (tmp_path / "link.npy").is_symlink()
    np.testing.assert_array_equal(np.load(tmp_path / "file.npy"), ROWS[:5])
