"""Warnings that point at the line of the caller's own file, and that can be captured.

How many frames lie between that line and ours depends on the caller: an estimator by itself, inside
an imputer, a pipeline, a cross-validation. So frames are inspected, not counted.

A search that fits dozens of models must keep their warnings to itself. `warnings.catch_warnings`
changes the filters of the whole process, and two threads that use it at once can silence it for
good; `captured` affects the calling thread only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

BETWEEN = {"eigengap", "sklearn", "joblib", "contextlib"}  # packages that call on a user's behalf


@dataclass(frozen=True)
class CapturedWarning:
    """A warning that was captured instead of shown."""

    message: str
    category: type[Warning]

    def reissue(self) -> None:
        """Give the warning again, to whoever captures or shows it now."""
        warn(self.message, self.category)


_capture: ContextVar[list[CapturedWarning] | None] = ContextVar("capture", default=None)


def warn(message: str, category: type[Warning]) -> None:
    """warnings.warn, from the first frame outside eigengap, scikit-learn and its joblib."""
    caught = _capture.get()
    if caught is not None:
        caught.append(CapturedWarning(message, category))
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def captured() -> Iterator[list[CapturedWarning]]:
    """Collect eigengap's own warnings in a list instead of showing them."""
    caught: list[CapturedWarning] = []
    token = _capture.set(caught)
    try:
        yield caught
    finally:
        _capture.reset(token)


@contextmanager
def silence() -> Iterator[None]:
    """Show no warnings: for fits that only serve a comparison."""
    with captured(), np.errstate(all="ignore"):
        yield


@contextmanager
def without(*categories: type[Warning]) -> Iterator[None]:
    """Show all warnings at the end, except those of some categories."""
    with captured() as caught:
        yield
    for one in caught:
        if not issubclass(one.category, categories):
            one.reissue()


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
