"""A progress line on standard error for `verbose`, in the manner of tqdm."""

from __future__ import annotations

import sys
from typing import TextIO

from eigengap.fitting.loop import Progress, Watch

INTERVAL = 0.1  # seconds between two updates


class ProgressLine:
    """Rewrites one line on a terminal; elsewhere prints one line at the end of a fit."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._last = -INTERVAL
        self._text = ""

    def __call__(self, progress: Progress) -> None:
        rate = progress.iteration / max(progress.seconds, 1e-9)
        self._text = (
            f"{self._label}: {progress.iteration}/{progress.max_iter} "
            f"[{progress.seconds:.1f} s, {rate:.1f} it/s, objective {progress.objective:.6g}, "
            f"change {progress.change:.1e}]"
        )
        if self._stream.isatty() and progress.seconds - self._last >= INTERVAL:
            self._last = progress.seconds
            self._stream.write("\r" + self._text)
            self._stream.flush()

    def close(self) -> None:
        if self._text:
            self._stream.write(("\r" if self._stream.isatty() else "") + self._text + "\n")
            self._stream.flush()


def watch_for(verbose: bool | int, label: str) -> Watch | None:
    """A progress line where verbose asks for one."""
    return ProgressLine(label) if verbose else None
