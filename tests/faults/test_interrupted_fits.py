"""Fits that are killed, interrupted, or meet a full disk, in processes of their own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import eigengap as eg
from eigengap.exceptions import CheckpointWarning
from eigengap.persistence.checkpoint import Checkpoint, FileCheckpointer
from eigengap.persistence.tensors import read_tensors

# A fit of some fifty steps that says when each ends, and leaves time to kill it.
FIT = """
import json, sys, time
import numpy as np
import eigengap as eg
from eigengap.persistence.checkpoint import Checkpoint, FileCheckpointer

def slowed(keeper, *args, keep=FileCheckpointer.keep, **kwargs):
    print("step", flush=True)
    time.sleep(0.01)
    keep(keeper, *args, **kwargs)

FileCheckpointer.keep = slowed
path, every = sys.argv[1], float(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 6)) @ rng.normal(size=(6, 20)) + rng.normal(size=(100, 20))
X[rng.random(X.shape) < 0.6] = np.nan
print("begins", flush=True)
model = eg.PPCA(5, tol=1e-9, checkpoint=Checkpoint(path, every=every)).fit(X)
print(json.dumps([model.log_likelihood_.hex(), model.n_iter_]))
"""

WRITE = """
import sys
import numpy as np
from eigengap.persistence.tensors import write_tensors
print("begins", flush=True)
k = int(sys.argv[2])
while True:
    k += 1
    write_tensors(sys.argv[1], {"x": np.full(200_000, k)}, {"k": k}, kind="checkpoint")
"""


def begun(code, *args):
    """A process that runs `code` and has said that it begins."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"EIGENGAP_COMPILED": "never", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert child.stdout.readline() == "begins\n", child.communicate()[1]
    return child


def ended(child):
    """Exit code, last line of the output, and what was said on standard error."""
    out, err = child.communicate(timeout=120)
    return child.returncode, out.strip().rpartition("\n")[2], err


def after(child, steps):
    """Wait until so many steps of a fit have ended; whether they did before the fit was over."""
    return all(child.stdout.readline() == "step\n" for _ in range(steps))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    code, out, err = ended(begun(FIT, tmp_path_factory.mktemp("plain") / "fit.egck", 1e6))
    assert code == 0, err
    found = json.loads(out)
    assert found[1] > 25
    return found


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.slow)], ids=["few", "many"])
def test_killed_at_random_moments_a_fit_goes_on(kills, undisturbed, tmp_path):
    """F5: kill -9, again and again; in the end the numbers are those of an undisturbed fit."""
    path, rng = tmp_path / "fit.egck", np.random.default_rng(kills)
    kept = []
    for _ in range(kills):
        child = begun(FIT, path, 0.0)
        assert after(child, 1 + int(rng.integers(2 * undisturbed[1] // (3 * kills))))
        time.sleep(rng.uniform(0.0, 0.03))
        child.kill()
        ended(child)
        if path.exists():
            kept.append(read_tensors(path, kind="checkpoint")[0]["0.trace"].shape[1])
    assert kept
    assert kept == sorted(kept)
    code, out, err = ended(begun(FIT, path, 30.0))
    assert code == 0, err
    assert json.loads(out) == undisturbed
    assert not path.exists()


def test_interrupted_from_the_keyboard_a_fit_says_where_it_is(undisturbed, tmp_path):
    """F13: it ends as Python ends, the last step is kept though no writing was due, and told."""
    path = tmp_path / "fit.egck"
    child = begun(FIT, path, 1e6)
    assert after(child, 10)
    child.send_signal(signal.SIGINT)
    code, out, err = ended(child)
    assert code == -signal.SIGINT
    assert out in ("", "step")
    assert err.count("Traceback") == 1
    assert "KeyboardInterrupt" in err
    assert f"kept in {path}" in err
    assert "fit again with the same data" in err
    steps = read_tensors(path, kind="checkpoint")[0]["0.trace"].shape[1]
    assert 9 <= steps < undisturbed[1]
    assert list(tmp_path.iterdir()) == [path]
    code, out, err = ended(begun(FIT, path, 1e6))
    assert code == 0, err
    assert json.loads(out) == undisturbed


@pytest.mark.parametrize(
    "kills", [8, pytest.param(50, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_killed_while_writing_the_old_file_or_the_new_one_is_there(kills, tmp_path):
    """F4: written without a pause and killed at random moments, never neither."""
    path, rng = tmp_path / "file", np.random.default_rng(0)
    last = 0
    for _ in range(kills):
        child = begun(WRITE, path, last)
        time.sleep(rng.uniform(0.0, 0.1))
        child.kill()
        ended(child)
        if last or path.exists():
            arrays, header = read_tensors(path, kind="checkpoint")
            assert header["k"] >= last
            np.testing.assert_array_equal(arrays["x"], header["k"])
            last = header["k"]
    assert last >= 2


# A disk that fails -------------------------------------------------------------------------


def incomplete():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8))
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


LIMITED = """
import resource, sys, warnings
import numpy as np
import eigengap as eg
from eigengap.persistence.checkpoint import Checkpoint
X = np.load(sys.argv[1])
print("begins", flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
warnings.simplefilter("always")
model = eg.PPCA(2, checkpoint=Checkpoint(sys.argv[2], every=0)).fit(X)
print(model.log_likelihood_.hex())
"""


def test_a_disk_that_takes_no_more_does_not_cost_the_fit(tmp_path):
    """The system itself refuses to write beyond 1 kB: one warning, no debris, the same numbers."""
    np.save(tmp_path / "X.npy", incomplete())
    folder = tmp_path / "folder"
    folder.mkdir()
    code, out, err = ended(begun(LIMITED, tmp_path / "X.npy", folder / "fit.egck"))
    assert code == 0, err
    assert float.fromhex(out) == pytest.approx(
        eg.PPCA(2).fit(incomplete()).log_likelihood_, rel=1e-12
    )
    assert err.count("CheckpointWarning") == 1
    assert "could not be written: File too large. The fit goes on" in err
    assert list(folder.iterdir()) == []


class FullDisk:
    """fsync fails from the k-th time on."""

    def __init__(self, monkeypatch, after):
        self.left, fsync = after, os.fsync

        def full(handle):
            self.left -= 1
            if self.left < 0:
                raise OSError(28, "No space left on device")
            fsync(handle)

        monkeypatch.setattr(os, "fsync", full)


def test_a_disk_that_fills_up_leaves_the_last_checkpoint(monkeypatch, tmp_path):
    path = tmp_path / "fit.egck"
    plain = eg.PPCA(2).fit(incomplete())
    with monkeypatch.context() as patch:
        keep, n = FileCheckpointer.keep, []

        def interrupted(checkpointer, *args, **kwargs):
            keep(checkpointer, *args, **kwargs)
            n.append(1)
            if len(n) == 6:
                raise KeyboardInterrupt

        patch.setattr(FileCheckpointer, "keep", interrupted)
        FullDisk(patch, after=2 + 2 * 3)  # the folder is tried twice, and synchronised each time
        with (
            pytest.warns(CheckpointWarning, match="an earlier one, and whole"),
            pytest.raises(KeyboardInterrupt) as stopped,
        ):
            eg.PPCA(2, checkpoint=Checkpoint(path, every=0)).fit(incomplete())
    assert "could not be written: No space left" in stopped.value.__notes__[0]
    assert 1 <= read_tensors(path, kind="checkpoint")[0]["0.trace"].shape[1] < 6
    assert list(tmp_path.iterdir()) == [path]
    resumed = eg.PPCA(2, checkpoint=path).fit(incomplete())
    assert resumed.log_likelihood_ == plain.log_likelihood_


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 72 kB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=72k", "tmpfs", str(tmp_path)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_real_disk_that_fills_up_leaves_the_last_checkpoint(monkeypatch, small_disk):
    """The state grows with what the acceleration remembers; two of them do not fit for long."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 60)) + rng.normal(size=(300, 60))
    X[rng.random(X.shape) < 0.5] = np.nan
    make, path = partial(eg.PPCA, 4, tol=1e-9), small_disk / "fit.egck"
    plain = make().fit(X)
    keep, kept = FileCheckpointer.keep, []

    def noted(checkpointer, *args, **kwargs):
        keep(checkpointer, *args, **kwargs)
        kept.append(read_tensors(path, kind="checkpoint")[0]["0.trace"].shape[1])
        assert [part.name for part in small_disk.iterdir()] == ["fit.egck"]

    monkeypatch.setattr(FileCheckpointer, "keep", noted)
    with pytest.warns(CheckpointWarning, match="No space left on device"):
        model = make(checkpoint=Checkpoint(path, every=0)).fit(X)
    assert kept[:3] == [1, 2, 3]
    assert kept[8] == kept[7] < 8  # the last that found room
    assert model.log_likelihood_ == plain.log_likelihood_
    assert list(small_disk.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_before_the_data_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "nowhere" / "fit.egck", tmp_path / "file" / "fit.egck", tmp_path):
        for estimator in (eg.PPCA(2, checkpoint=path), eg.MixturePPCA(2, 1, checkpoint=path)):
            with pytest.raises(OSError, match=r"cannot write .* Give another path"):
                estimator.fit("not even a table")


def test_a_read_only_folder_is_told(tmp_path):
    folder = tmp_path
    if os.geteuid() == 0:  # who may write anywhere but where the kernel itself keeps the files
        folder = Path("/sys/kernel")
    else:
        tmp_path.chmod(0o500)
    with pytest.raises(OSError, match=r"cannot write .*(denied|Read-only).* Give another path"):
        eg.PPCA(2, checkpoint=folder / "fit.egck").fit("not even a table")
