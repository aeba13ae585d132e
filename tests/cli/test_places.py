"""Users without a home, disks that are full, and links that lead nowhere."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from tests.cli.running import call, environment

# As in a container that runs under a number which the system has no name for.
NOBODY = """
import pwd, sys

def unknown(number):
    raise KeyError(f"getpwuid(): uid not found: {number}")

pwd.getpwuid = unknown
sys.argv[0] = "eigengap"
from eigengap.cli import main
sys.exit(main())
"""


def as_nobody(*arguments: str, cwd) -> subprocess.CompletedProcess:
    without = {"HOME", "XDG_CACHE_HOME", "EIGENGAP_CACHE_DIR", "NUMBA_CACHE_DIR"}
    known = {name: value for name, value in environment().items() if name not in without}
    return subprocess.run(
        [sys.executable, "-c", NOBODY, *arguments],
        cwd=cwd, env=known, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="the list of users is another there")
@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "m.egap", "table.csv", "-o", "r.html"),
        ("demo", "-o", "filled.csv", "--report", "demo.html"),
    ],
    ids=lambda given: given[0],
)
def test_a_user_without_a_home_is_served(model, folder, arguments):
    done = as_nobody(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert not (folder / "~").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "table.csv", "-k", "1", "-o", "~/new.egap"),
        ("impute", "table.csv", "-k", "1", "-o", "~/new.csv"),
        ("impute", "~/table.csv", "-o", "new.csv"),
    ],
)
def test_a_home_that_nobody_knows_is_no_folder(folder, monkeypatch, arguments):
    pwd = pytest.importorskip("pwd")

    def unknown(number):
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    ran = call(*arguments)
    assert ran.code == 4
    assert "~" in ran.err
    assert os.listdir(folder) == ["table.csv"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("fit", "table.csv", "-k", "1"), "x.egap"),
        (("impute", "table.csv", "-k", "1"), "x.csv"),
        (("impute", "table.csv", "-k", "1"), "x.parquet"),
        (("transform", "m.egap", "table.csv"), "x.npy"),
        (("transform", "m.egap", "table.csv"), "x.zarr"),
        (("report", "m.egap", "table.csv"), "x.html"),
    ],
)
def test_an_output_that_links_to_itself_is_refused(model, folder, arguments, name, force):
    (folder / name).symlink_to(name)
    ran = call(*arguments, "-o", name, *["--force"] * force)
    assert ran.code == 4
    assert f"{name} cannot be written: Too many levels of symbolic links" in ran.err
    assert (folder / name).is_symlink()


def test_a_full_disk_is_told_of_the_report_and_not_of_standard_output(model, folder, monkeypatch):
    sync, files = os.fsync, []

    def full(number):
        files.append(number)
        if len(files) > 1:  # the first one tries whether the folder can be written to
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(number)

    monkeypatch.setattr(os, "fsync", full)
    ran = call("report", "m.egap", "table.csv", "-o", "r.html")
    assert len(files) > 1
    assert ran.code == 4
    assert "r.html: No space left on device" in ran.err
    assert "standard output" not in ran.err
    assert sorted(os.listdir(folder)) == ["m.egap", "table.csv"]
