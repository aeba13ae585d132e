"""Warnings that point at the line of the caller's own file.

How many frames lie between that line and ours depends on who calls: an estimator by itself, inside
an imputer, a pipeline, a cross-validation. So frames are looked at and not counted.
"""

from __future__ import annotations

import sys
import warnings

BETWEEN = {"eigengap", "sklearn", "joblib", "contextlib"}  # packages that call on a user's behalf


def warn(message: str, category: type[Warning]) -> None:
    """warnings.warn, from the first frame outside eigengap, scikit-learn and its joblib."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get("__name__", "")).partition(".")[0]
