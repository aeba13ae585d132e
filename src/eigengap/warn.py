"""Warnings that point at the line of the caller's own file.

How many frames lie between that line and ours depends on who calls: an estimator by itself, inside
an imputer, a pipeline, a cross-validation. So frames are looked at and not counted.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import joblib
import sklearn

_BETWEEN = tuple(
    os.path.dirname(os.path.abspath(path)) + os.sep
    for path in (__file__, sklearn.__file__, joblib.__file__)
)


def warn(message: str, category: type[Warning]) -> None:
    """warnings.warn, from the first frame outside eigengap, scikit-learn and its joblib."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_between(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_between(path: str) -> bool:
    return path.startswith(_BETWEEN) or path == contextlib.__file__
