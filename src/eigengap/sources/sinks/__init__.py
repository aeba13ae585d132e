"""Tables that are written block by block. `open_sink` finds the writer by the name of the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigengap.sources.sinks.base import Sink
from eigengap.sources.sinks.formats import CsvSink, Hdf5Sink, NpySink, ParquetSink, ZarrSink

SUFFIXES = ".npy, .csv, .csv.gz, .parquet, .zarr, .h5"
SINKS: dict[tuple[str, ...], type[Sink]] = {
    (".npy",): NpySink,
    (".csv", ".csv.gz"): CsvSink,
    (".parquet", ".pq"): ParquetSink,
    (".zarr",): ZarrSink,
    (".h5", ".hdf5"): Hdf5Sink,
}


def open_sink(path: Any, names: Sequence[str] | None = None, *, force: bool = False) -> Sink:
    """A file to append rows to, which has its name only once it is complete.

    Parameters
    ----------
    path : str or path-like
        Where to write; the suffix is the format: .npy, .csv, .csv.gz, .parquet, .zarr, .h5.
    names : sequence of str, default=None
        Column names. .npy has no place for them. In CSV a name that a spreadsheet would take for a
        formula gets an apostrophe in front.
    force : bool, default=False
        Whether a file of that name may be replaced; it is there until the new one is complete.

    Returns
    -------
    sink : Sink
        For a `with` block, in which `sink.append(rows)` adds rows (c, d). If the block is left by
        an exception nothing is left of what was written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from eigengap.sources.sinks import open_sink
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "scores.csv"
    >>> with open_sink(path, ["PC1", "PC2"]) as sink:
    ...     sink.append(np.array([[0.1, 2.0]]))
    ...     sink.append(np.array([[-3.0, np.nan]]))
    >>> print(path.read_text())
    PC1,PC2
    0.1,2
    -3,
    <BLANKLINE>
    >>> folder.cleanup()
    """
    target = Path(os.path.expanduser(path))
    for suffixes, sink in SINKS.items():
        if target.name.lower().endswith(suffixes):
            return sink(target, names, force)
    raise ValueError(f"{str(target)!r} ends in none of {SUFFIXES}, and the suffix gives the format")
