"""Checkpoints: an interrupted fit resumes where it was, and ends with the same numbers.

`fitting.optimise.loop` reports every run of a fit; `FileCheckpointer` writes them to a file now and
then, and returns them to a later fit of the same model to the same data.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import CheckpointMismatchError, CheckpointWarning, CorruptFileError
from eigengap.fitting.optimise.loop import ResumeState, State, Steps, Trace
from eigengap.persistence.atomic import require_writable, sweep
from eigengap.persistence.kinds import ESTIMATORS
from eigengap.persistence.tensors import read_tensors, write_tensors
from eigengap.printable import bare
from eigengap.runtime.warnings import warn
from eigengap.wording import words

KIND = "checkpoint"
EVERY = 30.0  # seconds
OF_NUMBERS = (ArithmeticError, ValueError, LookupError, TypeError)  # not of disks and clusters
SHARE = 0.05  # of the time that may go into writing


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit saves its state, and how often.

    Parameters
    ----------
    path : str or path-like
        The file. One fit uses it at a time; it is removed when the fit has converged.
    every : float, default=30.0
        Seconds between two writings, at least; more where writing would take more than a twentieth
        of the time. 0 writes after every step.

    Examples
    --------
    >>> from eigengap.persistence.checkpoint import Checkpoint
    >>> Checkpoint("fit.egck", every=600).every
    600
    """

    path: str | os.PathLike[str]
    every: float = EVERY

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"path must be a str or path-like, got {self.path!r}")
        if not (isfinite(self.every) and self.every >= 0):
            raise ValueError(f"every, the seconds between writings, must be >= 0, got {self.every}")

    @classmethod
    def of(cls, given: str | os.PathLike[str] | Checkpoint) -> Checkpoint:
        return given if isinstance(given, Checkpoint) else cls(given)


class _Run:
    """One run of the loop, as far as it has come.

    State and number of steps are one value, so that an interrupt cannot separate them.
    """

    def __init__(self, start: State) -> None:
        self.start = _shapes(start)
        self.steps = Steps()
        self.now: tuple[State, int, bool] = (start, 0, False)  # state, steps until it, done

    def resume_state(self) -> ResumeState:
        state, count, done = self.now
        return ResumeState(state, self.steps.trace(count), done)

    def arrays(self) -> dict[str, NDArray[Any]]:
        now = self.resume_state()
        trace = np.stack([now.trace.objective, now.trace.change, now.trace.seconds])
        return {"trace": trace, **{f"state.{name}": value for name, value in now.state.items()}}

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> _Run:
        run = cls({})
        run.start = facts["start"]
        run.steps = Steps(Trace(*arrays.pop("trace")))
        state = {name.removeprefix("state."): value for name, value in arrays.items()}
        run.now = (state, len(run.steps), bool(facts["done"]))
        return run


class FileCheckpointer:
    """Keeps the runs of one fit in a file (`fitting.optimise.loop.Checkpointer`).

    `identity` identifies the fit: a dict of JSON with the keys "estimator", "version", "parameters"
    and "data", the latter two dicts again.
    """

    def __init__(self, where: Checkpoint, identity: dict[str, Any]) -> None:
        self.path, self.every = Path(where.path), where.every
        self.identity = identity
        self.remembered: dict[str, int] = {}
        self._runs: list[_Run] = []
        self._at = -1  # position of the current run
        self._dirty = False  # whether the file is out of date
        self._failed = False
        self._resumed = False  # whether this fit continues from the file
        self._file: tuple[int, int] | None = None  # ours, not one that another fit put there
        self._next = time.perf_counter() + self.every

    @classmethod
    def open(cls, where: Checkpoint, identity: dict[str, Any]) -> FileCheckpointer:
        """A checkpointer for the file, with the runs of this fit that are there already."""
        require_writable(where.path)
        sweep(where.path)
        checkpointer = cls(where, identity)
        if checkpointer.path.exists():
            checkpointer._read()
        return checkpointer

    # For the loop ----------------------------------------------------------------------------

    def begin(self, start: State) -> ResumeState | None:
        self._at += 1
        if self._at < len(self._runs):
            run = self._runs[self._at]
            if run.start == _shapes(start):
                self._resumed = True
                return run.resume_state()
            warn(
                f"the checkpoint {bare(self.path)} has taken another way than this fit from run "
                f"{self._at + 1} on; what follows is fitted anew",
                CheckpointWarning,
            )
        del self._runs[self._at :]
        self._runs.append(_Run(start))
        return None

    def keep(self, state: State, steps: Steps, *, done: bool) -> None:
        run = self._runs[self._at]
        # If it went further than before, under a larger max_iter, later runs are void.
        del self._runs[self._at + 1 :]
        run.steps = steps
        run.now = (state, len(steps), done)
        self._dirty = True
        if time.perf_counter() >= self._next:
            self.write()

    # For the fit ----------------------------------------------------------------------------

    def recall(self, name: str, value: int) -> int:
        """The number that the interrupted fit had under this name, or this one from now on."""
        return self.remembered.setdefault(name, value)

    @property
    def n_steps(self) -> int:
        return sum(run.now[1] for run in self._runs)

    def write(self) -> bool:
        """Write everything now; where that fails, warn and let the fit continue."""
        began = time.perf_counter()
        try:
            self._write()
        except OSError as error:
            if not self._failed:
                warn(f"{_unwritable(self.path, error)}. The fit goes on", CheckpointWarning)
            self._failed = True
            return False
        finally:
            now = time.perf_counter()
            pause = max(self.every, (now - began) / SHARE) if self.every > 0 else 0.0
            self._next = now + pause
        self._dirty, self._failed = False, False
        return True

    def leave(self, error: BaseException) -> None:
        """The fit ends by an exception: write its state, and note the path."""
        if self.n_steps == 0:
            return
        if self._resumed and isinstance(error, OF_NUMBERS):
            error.add_note(
                f"The fit was resumed from the checkpoint {bare(self.path)}, and may have failed "
                "because of its contents: delete it to start again"
            )
        try:
            if self._dirty:
                self._write()
        except OSError as failed:
            error.add_note(_unwritable(self.path, failed))
            return
        error.add_note(
            f"The fit ended after {self.n_steps} steps, which are kept in {bare(self.path)}. To go "
            "on from there, "
            + words().either(
                "fit again with the same data, parameters and checkpoint",
                "run the same command again",
            )
        )

    def end(self, *, converged: bool) -> None:
        """The fit is complete: remove the file, unless more steps would lead further."""
        if not converged:
            if self._dirty:
                self.write()
            return
        with suppress(OSError):
            if self._file is not None and self._file == _which(self.path):
                self.path.unlink()

    # The file --------------------------------------------------------------------------------

    def _write(self) -> None:
        arrays = {
            f"{k}.{name}": value
            for k, run in enumerate(self._runs)
            for name, value in run.arrays().items()
        }
        runs = [{"start": run.start, "done": run.now[2]} for run in self._runs]
        header = {"identity": self.identity, "remembered": self.remembered, "runs": runs}
        write_tensors(self.path, arrays, header, kind=KIND)
        self._file = _which(self.path)

    def _read(self) -> None:
        arrays, header = read_tensors(self.path, kind=KIND)
        with _refusing(self.path):
            _require_header(header)
        differences = _differences(header["identity"], self.identity)
        if differences:
            raise CheckpointMismatchError(
                f"the checkpoint {bare(self.path)} is of another fit: "
                f"{bare('; '.join(differences))}. Fit with what it was begun with to go on, or "
                "give another path, or delete it to begin anew"
            )
        with _refusing(self.path):
            parts = _parts(arrays, len(header["runs"]))
            for part, facts in zip(parts, header["runs"], strict=True):
                _require_run(part, facts["start"], done=facts["done"])
        self._runs = [_Run.of(p, facts) for p, facts in zip(parts, header["runs"], strict=True)]
        self.remembered = header["remembered"]
        self._file = _which(self.path)


def _require_header(header: dict[str, Any]) -> None:
    """Refuse a header that no fit has written."""
    identity, remembered, runs = (header.get(k) for k in ("identity", "remembered", "runs"))
    kinds = {"estimator": str, "version": str, "parameters": dict, "data": dict}
    if not isinstance(identity, dict) or not all(
        isinstance(identity.get(key), kind) for key, kind in kinds.items()
    ):
        raise ValueError("it does not name the fit that it is of")
    if not isinstance(remembered, dict) or not all(
        type(value) is int and 0 <= value < 1 << 63 for value in remembered.values()
    ):
        raise ValueError("it remembers what is no number")
    if not isinstance(runs, list) or not all(
        isinstance(run, dict)
        and isinstance(run.get("start"), dict)
        and type(run.get("done")) is bool
        for run in runs
    ):
        raise ValueError("it has no runs")


def _parts(arrays: dict[str, NDArray[Any]], count: int) -> list[dict[str, NDArray[Any]]]:
    """The arrays of each run."""
    parts: dict[str, dict[str, NDArray[Any]]] = {str(k): {} for k in range(count)}
    for name, value in arrays.items():
        k, _, rest = name.partition(".")
        if k not in parts:
            raise ValueError("it has arrays of a run that it does not have")
        parts[k][rest] = value
    return list(parts.values())


def _require_run(part: dict[str, NDArray[Any]], start: dict[str, Any], *, done: bool) -> None:
    """Refuse a state of other arrays than the run began with.

    Lists that grow may have grown, a step may add to the state, and a finished run keeps only its
    outcome.
    """
    trace = part.get("trace")
    if trace is None or trace.dtype != np.float64 or trace.ndim != 2 or len(trace) != 3:
        raise ValueError("a run without its trace")
    begun = {f"state.{name}" for name in start}
    if len(part) < 2 or not (done or begun <= set(part)):
        raise ValueError("a state of other arrays than its start")
    grown = set()
    for name, began in start.items():
        value = part.get(f"state.{name}")
        if value is None:
            continue
        grows = isinstance(began, list) and len(began) > 2 and began[1] == 0
        shape = list(value.shape)
        if grows:
            grown.add(shape[0] if shape else -1)
            shape[:1] = [0]
        if began != [value.dtype.str, *shape]:
            raise ValueError(f"{name!r:.60} of another type or shape than at its start")
        if value.ndim and value.dtype.kind == "f" and np.any(np.isnan(value)):
            raise ValueError(f"{name!r:.60} that holds NaN")
    if len(grown) > 1:
        raise ValueError("lists that did not grow together")


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise CorruptFileError(
            f"{bare(path)} is not a checkpoint that eigengap wrote: {bare(error)}. Give another "
            "path, or delete it to begin anew"
        ) from None


def _which(path: Path) -> tuple[int, int]:
    """The identity of a file, apart from its name."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def _shapes(state: State) -> dict[str, list[Any]]:
    """Names, types and shapes, which identify a run."""
    return {name: [value.dtype.str, *value.shape] for name, value in state.items()}


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What of a fit has changed, in words."""
    found = [
        f"{key} {before[key]}, now {now[key]}"
        for key in ("estimator", "version")
        if before[key] != now[key]
    ]
    if found:
        return found
    old, new = before["parameters"], now["parameters"]
    kind, version = ESTIMATORS.get(before["estimator"]), before.get("kind_version", 1)
    if kind is not None and version in range(1, kind.version):
        old = kind.upgraded(old, version)  # by the names that they have now
    default = now.get("defaults", {})  # parameters that the file does not know came later
    for name in sorted({*old, *new}):
        was = old.get(name, default.get(name))
        if was != new.get(name):
            found.append(f"{name}={was!r}, now {new.get(name)!r}")
    old, new = before["data"], now["data"]
    for name in (name for name in new if old.get(name) != new[name]):
        is_count = not (isinstance(new[name], str) and len(new[name]) == 64)
        counts = f" ({old.get(name)}, now {new[name]})" if is_count and new[name] else ""
        found.append(f"the data differ in their {name}{counts}")
    return found


def _unwritable(path: Path, error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    old = "; the one that is there is an earlier one, and whole" if path.exists() else ""
    return f"the checkpoint {bare(path)} could not be written: {reason}{old}"
