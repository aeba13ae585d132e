"""A progress line on standard error for `verbose`, in the manner of tqdm."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from math import inf, isfinite, log
from typing import TextIO

import numpy as np

from eigengap.fitting.loop import Keeper, Progress, Silent, Watch

INTERVAL = 0.1  # seconds between two updates
PULSE = 1.0  # seconds after which a line is rewritten though no step has ended
RECENT = 20  # steps from which the rest is foretold
FEWEST = 5


class ProgressLine:
    """Rewrites one line on a terminal; elsewhere prints one line at the end of a fit.

    On a terminal a thread keeps the clock going while a step takes long. `keeper` is carried to the
    loop (`fitting.loop.keeper_of`).
    """

    def __init__(
        self, label: str, stream: TextIO | None = None, keeper: Keeper | None = None
    ) -> None:
        self.keeper = keeper
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._lock = threading.Lock()
        self._steps: list[Progress] = []  # the recent ones of this run
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
            self._steps = [*self._steps[1 - RECENT :], progress]
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
        left = None if since is None else seconds_left(self._steps)
        if left is not None:
            facts.append(f"about {in_words(max(left - (since or 0.0), 0.0))} left")
        return f"{self._label}: {run}{last.iteration}/{last.max_iter} [{', '.join(facts)}]"


def _pulse(line: weakref.ref[ProgressLine], closed: threading.Event) -> None:
    """Beat until the line is closed, or forgotten by a fit that failed before it began."""
    while not closed.wait(PULSE):
        alive = line()
        if alive is None:
            return
        alive.beat()
        del alive


def seconds_left(steps: list[Progress]) -> float | None:
    """Time until the run ends, from its recent steps; None where they are too few to tell.

    The change of a step falls by about the same factor each time, so that its logarithm is a line,
    and that line reaches tol at some step; max_iter comes first where it rises.
    """
    if len(steps) < FEWEST:
        return None
    last = steps[-1]
    pace = (last.seconds - steps[0].seconds) / (last.iteration - steps[0].iteration)
    return pace * min(last.max_iter - last.iteration, _steps_to_tol(steps))


def _steps_to_tol(steps: list[Progress]) -> float:
    points = [(s.iteration, log(s.change)) for s in steps if 0.0 < s.change < inf]
    tol, last = steps[-1].tol, steps[-1].iteration
    if len(points) < FEWEST or not (isfinite(tol) and tol > 0.0):
        return inf
    at, height = np.array(points).T
    slope = float(np.polynomial.Polynomial.fit(at, height, 1).convert().coef[-1])
    middle = float(np.mean(height)) + slope * (last - float(np.mean(at)))  # of the line, at the end
    if slope >= 0.0:
        return inf
    return max((middle - log(tol)) / -slope, 1.0)


def in_words(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60.0, seconds / 3600.0
    if minutes < 100.0:
        return f"{minutes:.0f} min"
    return f"{hours:.0f} h" if hours < 72.0 else f"{hours / 24.0:.0f} days"


def _pace(rate: float) -> str:
    return f"{rate:.1f} it/s" if rate >= 1.0 else f"{in_words(1.0 / rate)}/it"


def watch_for(verbose: bool | int, label: str, keeper: Keeper | None = None) -> Watch | None:
    """A progress line where verbose asks for one, with the keeper where there is one."""
    if verbose:
        return ProgressLine(label, keeper=keeper)
    return None if keeper is None else Silent(keeper)
