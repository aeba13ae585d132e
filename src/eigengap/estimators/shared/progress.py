"""A progress line on standard error for `verbose`, in the manner of tqdm."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf, isfinite, log
from typing import TextIO

import numpy as np

from eigengap.fitting.optimise.loop import Checkpointer, Progress

INTERVAL = 0.1  # seconds between two updates
PULSE = 1.0  # seconds after which a line is rewritten though no step has ended
RECENT = 20  # last steps, at least, from which the rest is predicted
SHARE = 0.3  # of all steps, of a long fit
WIDE = 1000  # columns of a terminal that does not report its width
FEWEST = 5  # steps that predict anything


class ProgressLine:
    """Rewrites one line on a terminal; elsewhere prints one line at the end of a fit.

    On a terminal a thread keeps the clock going while a step takes long. `checkpointer` is carried
    to the loop.
    """

    def __init__(
        self, label: str, stream: TextIO | None = None, checkpointer: Checkpointer | None = None
    ) -> None:
        self.checkpointer = checkpointer
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._lock = threading.Lock()
        self._steps: list[Progress] = []  # of this run
        self._run = 1
        self._last = -INTERVAL
        self._width = 0
        self._arrived = time.perf_counter()  # when the last step ended
        self._closed = threading.Event()
        if self._live:
            beating = (weakref.ref(self), self._closed)
            threading.Thread(target=_pulse, args=beating, name="progress", daemon=True).start()

    def __call__(self, progress: Progress) -> None:
        with self._lock:
            if self._steps and progress.iteration <= self._steps[-1].iteration:
                self._steps, self._last = [], -INTERVAL
                self._run += 1
            self._steps.append(progress)
            self._arrived = time.perf_counter()
            if self._live and progress.seconds - self._last >= INTERVAL:
                self._last = progress.seconds
                self._rewrite(self._text(0.0))

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            if self._steps:
                self._rewrite(self._text(None))
                self._stream.write("\n")
                self._stream.flush()

    def beat(self) -> None:
        """Show that time goes by where no step ends."""
        with self._lock:
            since = time.perf_counter() - self._arrived
            if since >= PULSE and not self._closed.is_set():
                self._rewrite(self._text(since) if self._steps else self._waiting(since))

    def _rewrite(self, text: str) -> None:
        if self._live:
            blank = " " * (self._width - len(text))  # what a longer text before has left
            self._width = len(text)
            text = f"\r{text}{blank}"
        self._stream.write(text)
        self._stream.flush()

    def _waiting(self, since: float) -> str:
        return f"{self._label}: before the first step [{in_words(since)}]"

    def _text(self, since: float | None) -> str:
        """The line, `since` seconds after the last step; None when the fit is over."""
        last = self._steps[-1]
        seconds = last.seconds + (since or 0.0)
        run = f"run {self._run}, " if self._run > 1 else ""
        facts = [
            in_words(seconds),
            _pace(last.iteration / max(last.seconds, 1e-9)),
            f"objective {last.objective:.6g}",
            f"change {last.change:.1e}",
        ]
        left = None if since is None else forecast(self._steps)
        if since is not None and left is not None:
            facts.append(left.after(since))
        begins = f"{self._label}: {run}{last.iteration}/{last.max_iter} "
        if since is not None:
            # A line that is broken in two cannot be rewritten: what is least missed goes first.
            room = self._columns() - len(begins) - len("[]")
            while len(facts) > 1 and len(", ".join(facts)) >= room:
                del facts[1]
        return f"{begins}[{', '.join(facts)}]"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or WIDE
        except (OSError, ValueError):
            return WIDE


def _pulse(line: weakref.ref[ProgressLine], closed: threading.Event) -> None:
    """Beat until the line is closed, or forgotten by a fit that failed before it began."""
    while not closed.wait(PULSE):
        alive = line()
        if alive is None:
            return
        alive.beat()
        del alive


@dataclass(frozen=True)
class Forecast:
    """How long a run will still take."""

    seconds: float
    by_max_iter: bool  # whether max_iter is expected to end it

    def after(self, since: float) -> str:
        """In words, `since` seconds later."""
        how = "at most" if self.by_max_iter else "about"
        return f"{how} {in_words(max(self.seconds - since, 0.0))} left"


def forecast(steps: Sequence[Progress]) -> Forecast | None:
    """When a run will end, from its recent steps; None where they are too few.

    The largest change from some step on falls by about the same factor each time, so that its
    logarithm is a line, and that line reaches tol at some step. Accelerated EM is less even than
    that: for fits of 30 to 400 steps the forecast was off by a factor of 1.2 to 4 in the median.
    """
    recent = steps[-max(RECENT, int(SHARE * len(steps))) :]
    if len(recent) < FEWEST:
        return None
    first, last = recent[0], recent[-1]
    pace = (last.seconds - first.seconds) / (last.iteration - first.iteration)
    rest, to_tol = last.max_iter - last.iteration, _steps_to_tol(recent)
    return Forecast(pace * min(rest, to_tol), by_max_iter=rest <= to_tol)


def _steps_to_tol(steps: Sequence[Progress]) -> float:
    points = [(s.iteration, log(s.change)) for s in steps if 0.0 < s.change < inf]
    tol, last = steps[-1].tol, steps[-1].iteration
    if len(points) < FEWEST or not (isfinite(tol) and tol > 0.0):
        return inf
    at, height = np.array(points).T
    height = np.maximum.accumulate(height[::-1])[::-1]
    centred = at - np.mean(at)
    slope = float(centred @ height) / float(centred @ centred)
    here = float(np.mean(height)) + slope * (last - float(np.mean(at)))  # of the line, at the end
    return inf if slope >= 0.0 else max((here - log(tol)) / -slope, 1.0)


def in_words(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60.0, seconds / 3600.0
    if minutes < 100.0:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 72.0 else f"{hours / 24.0:.0f} days"


def _pace(rate: float) -> str:
    return f"{rate:.1f} it/s" if rate >= 1.0 else f"{in_words(1.0 / rate)}/it"


_shown_by: ContextVar[Callable[..., ProgressLine] | None] = ContextVar("shown_by", default=None)


def progress_line(label: str, checkpointer: Checkpointer | None = None) -> ProgressLine:
    """What shows the progress of a fit, and carries its checkpointer."""
    return (_shown_by.get() or ProgressLine)(label, checkpointer=checkpointer)


@contextmanager
def shown_by(line: Callable[..., ProgressLine]) -> Iterator[None]:
    """Inside, `line(label, checkpointer=...)` makes what shows the progress of fits."""
    token = _shown_by.set(line)
    try:
        yield
    finally:
        _shown_by.reset(token)
