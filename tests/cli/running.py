"""Two ways to run a command: in a process of its own, and quickly in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from eigengap.cli.app import run as run_here

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


def environment(**changes: str) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED", "EIGENGAP_DEBUG"}
    }
    return {**inherited, **ONE_THREAD, "PYTHONIOENCODING": "utf-8", **changes}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "eigengap", *arguments]


def run(*arguments: str, cwd: Path, stdin: bytes | None = None, **changes: str) -> Ran:
    """The real command in a process of its own."""
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**changes),
        input=b"" if stdin is None else stdin,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def call(*arguments: str, stdin: bytes = b"") -> Ran:
    """The same code in this process, in its current folder."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(sys, "stdin", given)
        patch.setattr(sys, "argv", ["eigengap", *arguments])
        code = run_here(list(arguments))
        out.flush()
    ran = Ran(code, out.buffer.getvalue(), err.getvalue())
    assert "Traceback" not in ran.err, ran.err
    return ran
