"""How the real command ends: codes, pipes, signals, full disks, terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import as_csv, cells
from tests.cli.running import call, command, environment, run

import eigengap
from eigengap.persistence.tensors import read_tensors

REQUIRE_ALL = bool(os.environ.get("EIGENGAP_REQUIRE_ALL"))


def test_version_and_help_and_codes_of_wrong_usage(folder: Path) -> None:
    ran = run("--version", cwd=folder)
    assert (ran.code, ran.text, ran.err) == (0, f"eigengap {eigengap.__version__}\n", "")
    helped = call("--help")
    assert helped.code == 0
    assert all(word in helped.text for word in ("fit", "impute", "Exit codes: 0 done"))
    for wrong in (
        ("fitt", "table.csv"), ("fit",), ("fit", "table.csv", "--nope"),
        ("fit", "table.csv", "-k", "1.5"),
        ("fit", "table.csv", "-m", "nope"), ("fit", "table.csv", "--set", "tolx=1"),
        ("fit", "table.csv", "--set", "tol=x"), ("fit", "table.csv", "--ignore", "z"),
        ("transform", "table.csv", "m.egap"), ("fit", "-", "-o", "-", "--json"),
    ):  # fmt: skip
        ran = call(*wrong)
        assert ran.code == 2, (wrong, ran.err)
    assert "Did you mean tol?" in call("fit", "table.csv", "--set", "tolx=1").err
    assert sorted(os.listdir()) == ["table.csv"]


def test_nothing_is_overwritten_without_force_and_before_the_work(model: Path) -> None:
    before = model.read_bytes()
    Path("out.csv").write_text("precious")
    Path("report.html").write_text("precious")
    Path("empty.csv").touch()
    for arguments in (
        ("fit", "empty.csv", "-o", "m.egap"),  # told before the data are looked at
        ("transform", "m.egap", "table.csv", "-o", "out.csv"),
        ("impute", "table.csv", "--model", "m.egap", "-o", "out.csv"),
        ("score", "m.egap", "table.csv", "-o", "out.csv"),
        ("report", "m.egap", "table.csv"),
    ):
        ran = call(*arguments)
        assert ran.code == 3, ran.err
        assert "--force" in ran.err
    assert model.read_bytes() == before
    assert Path("out.csv").read_text() == Path("report.html").read_text() == "precious"
    assert call("transform", "m.egap", "table.csv", "-o", "out.csv", "--force").code == 0
    assert Path("out.csv").read_text().startswith("PC1,PC2")
    away = call("fit", "table.csv", "-o", "n.egap", "--checkpoint", "nofolder/x")
    assert away.code == 4
    assert "there is no folder nofolder" in away.err
    for bad, code in (("nofolder/x.csv", 4), ("x.xyz", 2), (".", 4), ("/dev/null", 4)):
        assert call("transform", "m.egap", "table.csv", "-o", bad, "--force").code == code


def test_errors_are_json_too_where_json_is_asked_for(model: Path) -> None:
    ran = call("transform", "m.egap", "nowhere.csv", "-o", "o.csv", "--json")
    told = json.loads(ran.out)
    assert told["exit_code"] == ran.code == 4
    assert "nowhere.csv" in told["error"]
    for arguments in (
        ("inspect", "table.csv"),
        ("inspect", "none.egap"),
        ("score", "none.egap", "table.csv"),
    ):
        assert call(*arguments).code == 4


def test_an_unforeseen_error_is_one_line_and_a_traceback_on_demand(folder, monkeypatch) -> None:
    from eigengap.cli import fitting

    monkeypatch.setattr(fitting, "fitted", lambda *_: {}["no such key"])
    ran = call("fit", "table.csv")
    assert ran.code == 70
    assert ran.err.count("\n") == 1
    assert "eigengap doctor" in ran.err
    monkeypatch.setenv("EIGENGAP_DEBUG", "1")
    with pytest.raises(AssertionError, match="Traceback"):  # which `call` looks for
        call("fit", "table.csv")


def test_a_pipeline_of_three(folder: Path) -> None:
    """A table in, a model through a pipe, scores out; narration is not in the way."""
    line = " | ".join(
        " ".join(map(repr, command(*part)))
        for part in (("fit", "-", "-k", "2", "-o", "-"), ("transform", "-", "table.csv"))
    )
    done = subprocess.run(
        ["sh", "-c", f"cat table.csv | {line}"], capture_output=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"PC1,PC2\n")
    assert done.stdout.count(b"\n") == 41
    said = done.stderr.decode()
    assert not set(said) & {"\x1b", "\r"}  # no terminal, no colour, no progress
    labels = {re.match(r"(\w+) ", line)[1] for line in said.splitlines()}
    assert labels == {"Read", "Fit", "Wrote"}


@pytest.fixture
def long_table(model: Path) -> Path:
    Path("long.csv").write_bytes(as_csv(cells(8_000)))
    return model


@pytest.mark.parametrize(
    "unbuffered",
    [pytest.param("", id="buffered", marks=pytest.mark.slow), pytest.param("1", id="unbuffered")],
)
def test_a_reader_that_goes_away_ends_it_quietly(long_table: Path, unbuffered: str) -> None:
    process = subprocess.Popen(
        command("impute", "long.csv", "--model", "m.egap"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED=unbuffered),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"a,b,c,d\n"
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--help",), id="help"),
        pytest.param(("transform", "m.egap", "table.csv"), id="rows", marks=pytest.mark.slow),
    ],
)
def test_a_full_standard_output_is_told(model: Path, arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*arguments), stdout=full, stderr=subprocess.PIPE, env=environment(), check=False
        )
    assert done.returncode == 4
    assert b"standard output cannot be written to: No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_a_full_disk_leaves_nothing_half_written(long_table: Path, tmp_path_factory) -> None:
    disk = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        if REQUIRE_ALL:
            pytest.fail("EIGENGAP_REQUIRE_ALL is set, but a tmpfs cannot be mounted here")
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        (disk / "f.csv").write_text("old")
        for name in ("f.csv", "f.parquet"):
            target = str(disk / name)
            ran = call("impute", "long.csv", "--model", "m.egap", "-o", target, "--force")
            assert ran.code == 4, ran.err
            assert target in ran.err
            assert "No space left on device" in ran.err
        assert os.listdir(disk) == ["f.csv"]
        assert (disk / "f.csv").read_text() == "old"
        (disk / "filler").write_bytes(b"x" * (60 << 10))
        ran = call("fit", "table.csv", "-o", str(disk / "m.egap"))
        assert ran.code == 4, ran.err
        assert "No space left on device" in ran.err
        assert sorted(os.listdir(disk)) == ["f.csv", "filler"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        pytest.param(signal.SIGINT, 1, "Interrupted", id="ctrl-c"),
        pytest.param(signal.SIGTERM, 143, "Terminated", id="terminated", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_fit_says_so_and_leaves_a_checkpoint_to_go_on_from(
    folder: Path, number: int, code: int, word: str
) -> None:
    """F13."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    X[rng.random(X.shape) < 0.3] = np.nan
    np.save("x.npy", X)
    forever = ("--set", "n_init=2000")
    fit = ("fit", "x.npy", "-k", "5", *forever, "--checkpoint", "fit.egck")
    ended, err = 0, b"Nothing was written"
    for patience in (1.5, 6, 20):  # a busy machine may not have taken a step
        if b"Nothing was written" in err:
            ended, err = _interrupted(fit, number, patience)
    assert ended == code, err
    assert f"{word}. The fit ended after".encode() in err
    assert b"run the same command again" in err
    assert b"Traceback" not in err
    arrays, header = read_tensors("fit.egck", kind="checkpoint")  # whole, and of this fit
    assert header["identity"]["parameters"]["n_init"] == "2000"
    assert arrays
    assert sorted(os.listdir()) == ["fit.egck", "table.csv", "x.npy"]
    other = call("fit", "x.npy", "-k", "4", "--checkpoint", "fit.egck")
    assert other.code == 3, other.err
    assert "of another fit" in other.err


def _interrupted(fit: tuple[str, ...], number: int, patience: float) -> tuple[int, bytes]:
    process = subprocess.Popen(
        command(*fit), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(b"Read")
    time.sleep(patience)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_a_terminal_gets_colour_and_progress(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 30))
    X[rng.random(X.shape) < 0.3] = np.nan
    np.save("x.npy", X)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command("fit", "x.npy", "-k", "5", "--set", "tol=0", "--set", "max_iter=150"),
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env=environment(TERM="xterm-256color", COLUMNS="100"),
    )
    os.close(follower)
    text = _all_of(leader)
    assert process.wait(60) == 0
    assert re.search(r"step \d+, objective -?\d", text)
    assert "left" in text
    assert "\x1b[1;36mRead" in text
    assert text.rstrip().splitlines()[-1].startswith("\x1b[1;36mNext")


def _all_of(terminal: int) -> str:
    observed = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            chunk = b""
        if not chunk:
            os.close(terminal)
            return observed.decode()
        observed += chunk


def test_no_color_is_respected_even_where_colour_is_forced(monkeypatch, capsys) -> None:
    from eigengap.cli.narration import Narrator

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Narrator().say("Read", "3 rows")
    colour = re.compile(r"\x1b\[[\d;]*3\dm")
    assert colour.search(capsys.readouterr().err)
    monkeypatch.setenv("NO_COLOR", "1")
    Narrator().say("Read", "3 rows")
    said = capsys.readouterr().err
    assert "3 rows" in said
    assert not colour.search(said)


@pytest.mark.parametrize("module", ["click", "pyarrow"])
def test_without_the_extra_it_says_what_to_install(folder: Path, module: str) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv = ['eigengap', 'fit', 'table.csv']\n"
        "from eigengap.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 6, done.stderr
    assert 'pip install "eigengap[' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name",
    ["\nnew line.csv", "$(rm -rf x).csv", "-dash.csv", "x" * 200 + ".csv", "\u202egnp.csv"],
    ids=["newline", "shell", "dash", "long", "bidi"],
)
def test_hostile_names_of_files_and_columns(folder: Path, name: str) -> None:
    names = ["a\nb", "</script>", "\x1b[31mred", "\u202ex" + "y" * 500]
    quoted = ['"' + one.replace('"', '""') + '"' for one in names]
    Path(name).write_bytes(as_csv(cells(), quoted))
    ran = call("fit", "--", name)
    assert ran.code == 0, ran.err
    scored = call("score", "model.egap", "--", name)
    assert scored.code == 0, scored.err
    for said in (ran.err, scored.err, call("inspect", "model.egap").text):
        assert "\x1b" not in said
        assert "\u202e" not in said
        assert max(map(len, said.splitlines())) < 4000
    filled = call("impute", "-q", "--model", "model.egap", "--", name)
    assert filled.code == 0, filled.err
