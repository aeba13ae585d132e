"""Clocks: minima of interleaved runs, and functions called in a process of their own.

    python -m benchmarks.timing module:function in.pickle out.pickle

is what `in_new_process` starts.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# All cores for everyone: OpenBLAS, MKL, OpenMP, numba, and rayon, which ppca_rs uses.
THREADS = {
    f"{library}_NUM_THREADS": str(CORES) for library in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")
}


class OutOfTimeError(Exception):
    """A process was still at work when its seconds were over."""


class FailedError(Exception):
    """A process ended with an error, which the message names."""


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least seconds of each, taken in turn so that all meet the same machine; one warm-up each."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
    return best


def in_new_process(
    function: str,  # "module:name"
    *args: Any,
    env: Mapping[str, str | None] | None = None,  # None removes a variable
    timeout: float | None = None,
    prefix: Sequence[str] = (),
    first_path: Path | None = None,  # where the child looks for modules before anywhere else
) -> Any:
    """function(*args) in a new Python with all cores for every library."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder, "in.pickle"), Path(folder, "out.pickle")
        given.write_bytes(pickle.dumps(args))
        # -P keeps the current folder off the path; PYTHONPATH says what is on it, in which order.
        command = [*prefix, sys.executable, "-P", "-W", "ignore", "-m", "benchmarks.timing"]
        try:
            done = subprocess.run(
                [*command, function, str(given), str(answer)],
                env=environment(env, first_path),
                cwd=ROOT,
                timeout=timeout,
                stdout=sys.stderr,
            )
        except subprocess.TimeoutExpired as error:
            raise OutOfTimeError(f"not finished after {timeout:.0f} s") from error
        if not answer.exists():
            raise FailedError(f"exit status {done.returncode}")
        result, problem = pickle.loads(answer.read_bytes())
        if problem is not None:
            raise FailedError(problem)
        return result


def environment(
    changes: Mapping[str, str | None] | None = None, first_path: Path | None = None
) -> dict[str, str]:
    """This process's variables, the modules that it sees, and the pinned threads."""
    path = [str(first_path)] if first_path else []
    path += [str(Path(entry).resolve()) for entry in sys.path if entry] + [str(ROOT)]
    env = {**os.environ, **THREADS, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}
    for name, value in (changes or {}).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def _serve(function: str, given: str, answer: str) -> None:
    """Leave (result, None), or (None, what went wrong) and the traceback on standard error."""
    module, name = function.split(":")
    args = pickle.loads(Path(given).read_bytes())
    outcome: tuple[Any, str | None]
    try:
        outcome = getattr(importlib.import_module(module), name)(*args), None
    except Exception as error:
        traceback.print_exc()
        outcome = None, f"{type(error).__name__}: {error}"
    Path(answer).write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
