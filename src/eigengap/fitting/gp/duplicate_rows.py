"""Rows that are equal, cell for cell, gaps included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array

Rows = NDArray[np.intp]


def equal_rows(Y: Array) -> tuple[Rows, Rows]:
    """(u,) the first of each distinct row of Y (n, d), in order, and (n,) which of them each is."""
    places: dict[bytes, int] = {}
    of_row = np.array([places.setdefault(key, len(places)) for key in _keys(Y)], dtype=np.intp)
    return np.asarray(np.unique(of_row, return_index=True)[1]), of_row


def found_among(Y: Array, known: Array) -> Rows:
    """(n,) index of the first row of `known` (N, d) that equals each row of Y (n, d), or -1."""
    places: dict[bytes, int] = {}
    for i, key in enumerate(_keys(known)):
        places.setdefault(key, i)
    return np.array([places.get(key, -1) for key in _keys(Y)], dtype=np.intp)


def _keys(Y: Array) -> list[bytes]:
    """Bytes that are equal where cells are: one NaN, one zero."""
    same = np.ascontiguousarray(np.where(np.isnan(Y), np.nan, Y) + 0.0)
    return [row.tobytes() for row in same]
