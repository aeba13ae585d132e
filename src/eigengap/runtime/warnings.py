"""Warnings that point at the line of the caller's own file, and that can be heard in silence.

How many frames lie between that line and ours depends on who calls: an estimator by itself, inside
an imputer, a pipeline, a cross-validation. So frames are looked at and not counted.

A search that fits dozens of models must keep their warnings to itself. `warnings.catch_warnings`
changes the filters of the whole process, and two threads that use it at once can leave it mute for
good; `listening` concerns the calling thread alone.
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
class Told:
    """A warning that was heard and not given out."""

    message: str
    category: type[Warning]


_listener: ContextVar[list[Told] | None] = ContextVar("listener", default=None)


def warn(message: str, category: type[Warning]) -> None:
    """warnings.warn, from the first frame outside eigengap, scikit-learn and its joblib."""
    heard = _listener.get()
    if heard is not None:
        heard.append(Told(message, category))
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def listening() -> Iterator[list[Told]]:
    """Our own warnings of what runs inside, in a list instead of given out."""
    heard: list[Told] = []
    token = _listener.set(heard)
    try:
        yield heard
    finally:
        _listener.reset(token)


@contextmanager
def silence() -> Iterator[None]:
    """Nothing that runs inside is heard: fits that only serve to compare."""
    with listening(), np.errstate(all="ignore"):
        yield


@contextmanager
def without(*categories: type[Warning]) -> Iterator[None]:
    """All warnings but those of some categories are given out, at the end."""
    with listening() as heard:
        yield
    for told in heard:
        if not issubclass(told.category, categories):
            warn(told.message, told.category)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
