"""Wide CSV, read as one long column of cells.

pyarrow's work for a column of one piece of the file is that of some hundred cells. A piece of a
gene-expression table has 20 000 columns of twenty rows, so its separators are made line ends, and
the one column that results is cut into rows again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.files.csv.dialect import Dialect
from eigengap.sources.files.csv.rows import QUOTE, outside_quotes

NEWLINE = 10


def wide_rows(
    chunk: bytes, dialect: Dialect, chosen: Sequence[int], block_size: int
) -> NDArray[Any] | None:
    """The chosen columns of whole rows; None where a cell or a row is none that all rows share."""
    import pyarrow as pa
    from pyarrow import csv

    lines = _plain_lines(chunk, dialect.newline)
    if lines is None:
        return None
    letters = np.frombuffer(bytearray(lines), dtype=np.uint8)
    ends = _cell_ends(letters, lines, dialect)
    if ends is None:
        return None
    _blank_out(letters, ends, chosen)
    letters[ends] = NEWLINE
    quoted = QUOTE in lines
    try:
        table = csv.read_csv(
            pa.py_buffer(letters),
            read_options=csv.ReadOptions(
                column_names=["cell"], block_size=len(letters) + 1 if quoted else block_size
            ),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator, newlines_in_values=quoted, ignore_empty_lines=False
            ),
            convert_options=dialect.cells.to_arrow({"cell": pa.float64()}),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != ends.size:
        return None
    cells: NDArray[Any] = table.column(0).to_numpy().reshape(ends.shape)
    return cells if len(chosen) == ends.shape[1] and _ascend(chosen) else cells[:, list(chosen)]


def _plain_lines(chunk: bytes, newline: bytes) -> bytes | None:
    """Lines that all end with one newline, and none of them empty."""
    lines = chunk.replace(b"\r\n", b"\n") if newline == b"\n" else chunk.replace(b"\r", b"\n")
    if b"\r" in lines:
        return None
    if b"\n\n" in lines or lines.startswith(b"\n"):
        if QUOTE in lines:
            return None
        lines = re.sub(rb"\n+", b"\n", lines).lstrip(b"\n")
    return lines if lines.endswith(b"\n") or not lines else lines + b"\n"


def _cell_ends(letters: NDArray[Any], lines: bytes, dialect: Dialect) -> NDArray[Any] | None:
    """Where the cells end, (rows, columns); None where a row has more of them or fewer."""
    separator = ord(dialect.separator)
    ends: NDArray[Any] = np.flatnonzero((letters == separator) | (letters == NEWLINE))
    if QUOTE in lines:
        ends = outside_quotes(lines, ends)
    if len(ends) % dialect.n_columns:
        return None
    ends = ends.reshape(-1, dialect.n_columns)
    even = (letters[ends[:, :-1]] == separator).all() and (letters[ends[:, -1]] == NEWLINE).all()
    return ends if even else None


def _blank_out(letters: NDArray[Any], ends: NDArray[Any], chosen: Sequence[int]) -> None:
    """Zeros over the cells of the other columns, which may hold text."""
    other = np.setdiff1d(np.arange(ends.shape[1]), chosen)
    if not len(other):
        return
    starts = np.append(0, ends.ravel()[:-1] + 1).reshape(ends.shape)
    inside = np.zeros(len(letters), dtype=np.int8)  # +1 where such a cell begins, -1 at its end
    inside[starts[:, other]] += 1
    inside[ends[:, other]] -= 1  # an empty cell ends where it begins
    letters[np.cumsum(inside, dtype=np.int8).view(bool)] = ord("0")


def _ascend(chosen: Sequence[int]) -> bool:
    return all(j == k for j, k in enumerate(chosen))
