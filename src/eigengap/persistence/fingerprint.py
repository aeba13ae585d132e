"""What a table is known again by: the same for an array, a file or a cluster, however it is cut."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.sources.base import Source

ROWS = 64  # that are looked at cell by cell


def fingerprint(source: Source) -> dict[str, Any]:
    """Facts of a table, to be compared one by one; of JSON.

    Counts of all of it, and a checksum of a few rows drawn always alike: it tells tables apart that
    were mixed up, not one changed cell among millions.
    """
    seen = source.seen()
    rows = source.sample(min(ROWS, seen.rows), np.random.default_rng(0))
    facts = {
        "rows": seen.rows,
        "sum of weights": f"{seen.sum_w:.12g}",  # as sums by block differ
        "columns": source.n_features,
        "column names": None if source.names is None else _texts(source.names),
        "seen cells of the columns": _sha256(np.asarray(seen.per_column, dtype="<i8").tobytes()),
        "values": _cells(rows),
        "cell_sd": None,
    }
    cell_sd = source.collect_cell_sd() if source.has_cell_sd else None
    if cell_sd is not None:
        some = np.linspace(0, len(cell_sd) - 1, min(ROWS, len(cell_sd))).astype(np.intp)
        facts["cell_sd"] = _cells(cell_sd[some])
    return facts


def _texts(names: tuple[str, ...]) -> str:
    return _sha256("\0".join(names).encode(errors="backslashreplace"))


def _cells(rows: NDArray[Any]) -> str:
    """Checksum of cells by their values: all NaN are alike, and so are 0 and -0."""
    values = np.array(rows, dtype="<f8", order="C")
    values[np.isnan(values)] = np.nan
    values += 0.0
    return _sha256(values.tobytes())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
