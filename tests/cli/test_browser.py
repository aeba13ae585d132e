"""`--open`: a browser is asked once, its noise is kept away, and where there is none it is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import environment, run

pytestmark = pytest.mark.skipif(
    sys.platform in ("darwin", "win32"), reason="the system itself opens pages there"
)

SHOW = """
from eigengap.cli.commands.report import show_page
from eigengap.cli.narration import Narrator
show_page("r.html", Narrator())
"""
NONE = "No browser was found; open r.html yourself"


def launcher(name: str, script: str) -> dict[str, str]:
    """Variables under which programs are looked for in one folder alone."""
    folder = Path("bin")
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder.resolve()}", "BROWSER": ""}


@pytest.mark.parametrize(
    ("name", "script", "display", "is_opened"),
    [
        ("xdg-open", 'echo noise >&2; echo "$1" > asked; exit 0', ":9", True),
        ("xdg-open", 'echo noise >&2; echo "$1" > asked; exec /bin/sleep 30', ":9", True),
        ("xdg-open", "echo no method available for opening >&2; exit 3", ":9", False),
        ("xdg-open", "echo no method available for opening >&2; exit 3", "", False),
        ("w3m", "echo noise >&2; exit 0", "", False),
        ("other", "exit 0", "", False),
    ],
    ids=["opens", "stays open", "finds none", "no display", "in the terminal", "nothing there"],
)
def test_a_page_is_opened_or_not(
    folder: Path, name: str, script: str, display: str, is_opened: bool
) -> None:
    variables = {"DISPLAY": display, "WAYLAND_DISPLAY": "", "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=environment(**launcher(name, script), **variables),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ("" if is_opened else f"Note    {NONE}\n")
    assert done.stdout == ""
    if is_opened:
        assert Path("asked").read_text().strip() == Path("r.html").resolve().as_uri()


def test_a_report_is_written_where_it_cannot_be_opened(model: Path) -> None:
    variables = launcher("xdg-open", "echo no method available for opening >&2; exit 3")
    arguments = ("report", "m.egap", "table.csv", "-o", "r.html", "--open")
    ran = run(*arguments, cwd=Path.cwd(), DISPLAY=":9", **variables)
    assert ran.code == 0, ran.err
    assert Path("r.html").exists()
    assert [line[:5] for line in ran.err.splitlines()] == ["Wrote", "Note "]
    assert NONE in ran.err
