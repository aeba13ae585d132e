"""A table read by the workers of a Dask cluster, which see the files under the same names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from eigengap.cli.errors import FileTrouble, WrongUsage
from eigengap.cli.tables.table import Table

PATIENCE = "20s"  # for the scheduler to answer


@contextmanager
def on_cluster(address: str, table: Table) -> Iterator[Any]:
    """The features of the table as a source whose work is done by the cluster."""
    from eigengap.exceptions import MissingExtraError

    try:
        # By name: only `sources.dask` may know Dask, and it starts no clients.
        distributed = import_module("distributed")
        frames = import_module("dask.dataframe")
    except ImportError as error:
        raise MissingExtraError("--scheduler", "dask", "dask") from error
    try:
        client = distributed.Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise FileTrouble(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        yield _source(table, frames)


def _source(table: Table, frames: Any) -> Any:
    from eigengap.sources import as_source

    if table.names is None or table.kind not in ("csv", "parquet"):
        raise WrongUsage("--scheduler reads CSV and Parquet files with column names")
    if table.skipped:
        raise WrongUsage("--scheduler reads CSV without --skip-rows and --comment")
    names = [table.names[j] for j in table.features]
    paths = [os.path.abspath(path) for path in table.paths]  # workers stand in other folders
    codes = [code for code in table.missing_values if isinstance(code, float)]
    if table.kind == "parquet":
        frame = frames.read_parquet(paths, columns=names)
    else:
        reader = table.readers[0]
        packed = reader._compression
        frame = frames.read_csv(
            paths,
            usecols=names,
            sep=reader.dialect.separator,
            decimal=reader.dialect.cells.decimal,
            na_values=list(table.na),
            dtype=dict.fromkeys(names, "float64"),
            compression={"gzip": "gzip", "bz2": "bz2", "zstd": "zstd"}.get(packed),
            **({} if packed is None else {"blocksize": None}),
        )
    return as_source(frame[names], missing_values=codes)
