"""F7: a disk that fills up while rows are written. The old file stays, nothing else does."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigengap.sources.opening import open_source
from eigengap.sources.sinks import base, formats, open_sink
from eigengap.sources.streaming import stream

REQUIRE_ALL = bool(os.environ.get("EIGENGAP_REQUIRE_ALL"))  # a case that cannot run fails
KINDS = ["npy", "csv", "csv.gz", "parquet", "zarr", "h5"]
SIZE = 4 << 20  # bytes of the disk


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory) -> Path:
    """A disk of some megabytes, in memory."""
    folder = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        reason = f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}"
        if REQUIRE_ALL:
            pytest.fail(f"EIGENGAP_REQUIRE_ALL is set, but {reason}", pytrace=False)
        pytest.skip(reason)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def disk(small_disk) -> Path:
    assert os.listdir(small_disk) == []
    yield small_disk
    for path in small_disk.iterdir():
        path.unlink() if path.is_file() else subprocess.run(["rm", "-r", str(path)], check=True)


def endless(rows: int = 5000):
    """Numbers that do not compress, more than the disk holds."""
    rng = np.random.default_rng(0)
    while True:
        yield rng.normal(size=(rows, 10))


def fill(path: Path, **options) -> None:
    with open_sink(path, [f"c{j}" for j in range(10)], **options) as sink:
        for rows in endless():
            sink.append(rows)


def free(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("old", [False, True], ids=["new", "replacing"])
def test_a_full_disk_is_told_with_the_path_and_nothing_is_left(disk, kind, old, monkeypatch):
    monkeypatch.setattr(base, "GATHERED", 1 << 18)
    monkeypatch.setattr(formats, "GROUP", 1 << 19)
    path = disk / f"x.{kind}"
    if old:
        with open_sink(path, ["a"]) as sink:
            sink.append(np.arange(5.0)[:, None])
    before = free(disk)
    with pytest.raises(OSError, match="nothing was written under this name") as caught:
        fill(path, force=old)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert os.listdir(disk) == ([path.name] if old else [])
    assert free(disk) == before
    if old:
        np.testing.assert_array_equal(open_source(path).collect()[:, 0], np.arange(5.0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_already(disk, kind):
    number = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    os.posix_fallocate(number, 0, free(disk))
    os.close(number)
    with (
        pytest.raises(OSError, match="No space left") as caught,
        open_sink(disk / f"x.{kind}", ["a"]) as sink,
    ):
        sink.append(np.random.default_rng(0).normal(size=(10_000, 1)))
    assert caught.value.filename == str(disk / f"x.{kind}")
    assert os.listdir(disk) == ["filler"]


def test_streaming_onto_a_full_disk(disk, tmp_path):
    np.save(tmp_path / "in.npy", np.random.default_rng(0).normal(size=(100_000, 10)))
    with pytest.raises(OSError, match="No space left") as caught:
        stream(np.asarray, tmp_path / "in.npy", disk / "out.npy")
    assert caught.value.filename == str(disk / "out.npy")
    assert os.listdir(disk) == []


LIMITED = """
import errno, os, resource, sys
import numpy as np
from eigengap.sources.sinks import base, open_sink
base.GATHERED = 1 << 18
path = sys.argv[1]
if not path.endswith((".npy", ".csv", ".gz", ".zarr")):
    import h5py, pyarrow.parquet
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
rng = np.random.default_rng(0)
try:
    with open_sink(path, ["a", "b"]) as sink:
        for _ in range(100):
            sink.append(rng.normal(size=(20_000, 2)))
except OSError as error:
    assert error.errno == errno.EFBIG, error
    assert error.filename == path, error
    print(os.listdir(os.path.dirname(path)))
"""


@pytest.mark.parametrize("kind", ["npy", "csv", "csv.gz", "parquet", "h5"])
def test_a_limit_on_the_size_of_files(tmp_path, kind):
    """The same without a disk of our own: the system refuses to write on."""
    assert hasattr(resource, "RLIMIT_FSIZE")
    path = str(tmp_path / f"x.{kind}")
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr
