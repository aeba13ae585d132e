"""Whole numbers that float64 does not hold are rounded with a warning, wherever they come from."""

from __future__ import annotations

import warnings
from pathlib import Path

import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr

from eigengap import PCA, FactorAnalysis
from eigengap.exceptions import RoundedWarning, UnreadableError
from eigengap.sources.opening import open_source

NAMES = ["a", "b", "c"]
SMALL = np.random.default_rng(0).integers(-1000, 1000, (30, 3))
LONG = SMALL.copy()
LONG[:, 1] += 2**53 + 2001


def frame(X):
    return pd.DataFrame(X, columns=NAMES)


def masked(X):
    """The mask hides a cell whose number means nothing."""
    X = X.copy()
    X[0, 0] = 2**60 + 1
    return np.ma.masked_array(X, mask=X[0, 0] == X)


IN_MEMORY = {
    "array": np.asarray,
    "column-major": np.asfortranarray,
    "unsigned": lambda X: (X + 1000).astype(np.uint64),
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "masked": masked,
    "sparse": sp.csr_array,
    "pandas": frame,
    "pandas, mixed": lambda X: frame(X).assign(a=frame(X)["a"].astype(float)),
    "pandas, nullable": lambda X: frame(X).astype("Int64"),
    "pandas, Arrow": lambda X: frame(X).astype("int64[pyarrow]"),
    "pandas, decimals": lambda X: frame(X).astype(pd.ArrowDtype(pa.decimal128(20, 0))),
    "polars, decimals": lambda X: pl.DataFrame(frame(X)).cast(pl.Decimal(20, 0)),
    "pyarrow, decimals": lambda X: decimals(X),
    "polars": lambda X: pl.DataFrame(dict(zip(NAMES, X.T.copy(), strict=True))),
    "pyarrow": lambda X: pa.table(dict(zip(NAMES, X.T.copy(), strict=True))),
}


def decimals(X):
    table = pa.Table.from_pandas(frame(X))
    return table.cast(pa.schema([(name, pa.decimal128(20, 0)) for name in NAMES]))


def write_h5(path, X):
    with h5py.File(path, "w") as file:
        file["x"] = X


FILES = {
    "x.csv": lambda path, X: frame(X).to_csv(path, index=False),
    "x.parquet": lambda path, X: pq.write_table(pa.Table.from_pandas(frame(X)), path),
    "decimals.parquet": lambda path, X: pq.write_table(decimals(X), path),
    "x.npy": np.save,
    "x.npz": np.savez,
    "x.h5": write_h5,
    "x.zarr": lambda path, X: zarr.save_array(str(path), X),
}


def told(table) -> list[str]:
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        PCA(1).fit(table)
    found = [w for w in record if "2^53" in str(w.message)]
    assert all(w.filename == __file__ for w in found)  # also where another thread reads
    return [str(w.message) for w in found]


@pytest.mark.parametrize("name", IN_MEMORY)
def test_tables_in_memory(name):
    assert told(IN_MEMORY[name](SMALL)) == []
    (said,) = told(IN_MEMORY[name](LONG))
    assert 'column "b"' in said or "column 1" in said


@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path: Path):
    FILES[name](tmp_path / name, SMALL)
    assert told(tmp_path / name) == []
    other = tmp_path / f"long-{name}"
    FILES[name](other, LONG)
    (said,) = told(other)
    assert 'column "b"' in said or "column 1" in said


DENSE = sorted(IN_MEMORY.keys() - {"sparse"})


@pytest.mark.parametrize("kind", ["nominal", "continuous"])
@pytest.mark.parametrize("name", [*DENSE, "x.csv", "x.parquet", "Dask"])
def test_columns_of_kinds_are_rounded_with_a_warning(name, kind, tmp_path):
    """2^53 and 2^53 + 1 are one number in float64, and so one level."""

    def told_of(X):
        table = tmp_path / name
        if name == "Dask":
            table = dd.from_pandas(frame(X), npartitions=2)
        elif name in FILES:
            FILES[name](table, X)
        else:
            table = IN_MEMORY[name](X)
        how = FactorAnalysis(1, columns={1: kind}, max_iter=1)
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            how.fit(table)
        return {str(w.message) for w in record if w.category is RoundedWarning}

    levels = SMALL.copy()
    levels[:, 1] = np.arange(len(levels)) % 3
    assert told_of(levels) == set()
    levels[:, 1] += 2**53 - 1
    (said, *more) = told_of(levels)
    assert 'column "b"' in said or "column 1" in said
    assert name == "Dask" or not more  # partitions warn for themselves


def test_large_floats_are_no_whole_numbers(tmp_path: Path):
    X = SMALL * 1.5e200
    assert told(X * 1e-180) == []
    frame(X * 1e-180).to_csv(tmp_path / "x.csv", index=False)
    assert told(tmp_path / "x.csv") == []


def test_the_limit_of_the_type_marks_missing_cells():
    X = SMALL.copy()
    X[3, 1] = np.iinfo(np.int64).min
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        PCA(1, missing_values=float(np.iinfo(np.int64).min)).fit(X)
    assert not any("2^53" in str(w.message) for w in record)


@pytest.mark.parametrize("power", [16, 18, 26, 30, 300])
@pytest.mark.parametrize("width", [3, 600], ids=["narrow", "wide"])
def test_whole_numbers_of_any_length_in_csv(tmp_path, power, width):
    names = [f"c{j}" for j in range(width)]
    rows = [[10**power + 3 * i, *(i % (j + 2) for j in range(width - 1))] for i in range(30)]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        open_source(path).collect()
    assert [w.category for w in record] == [RoundedWarning]
    assert 'column "c0" holds whole numbers beyond 2^53' in str(record[0].message)
    assert len(str(record[0].message)) < 300


def test_a_whole_number_too_long_for_float64_in_csv_is_infinite(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n" + "9" * 309 + ",3\n2,2\n")
    with pytest.raises(UnreadableError, match='contains infinity: inf at row 1, column "a"'):
        PCA(1).fit(tmp_path / "x.csv")
