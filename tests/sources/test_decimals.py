"""Decimal columns become the nearest float64, as Python's own `float(Decimal)` does."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigengap.sources.conversion import as_source
from eigengap.sources.opening import open_source

NARROW = [
    (f"decimal{bits}", most) for bits, most in ((32, 9), (64, 18)) if hasattr(pa, f"decimal{bits}")
]
WIDTHS = [*NARROW, ("decimal128", 38), ("decimal256", 76)]


def cells(precision: int, scale: int, n: int = 400) -> list[Decimal | None]:
    """Numbers of every length up to the precision, both signs, around 2^53, and nulls."""
    precision += min(scale, 0)  # or pyarrow does not make them
    rng = np.random.default_rng(precision + 100 * abs(scale))
    wholes = [0, 330, -330, *(2**53 + k for k in range(-2, 4)), *(-(2**53) - k for k in range(3))]
    for _ in range(n):
        digits = "".join(map(str, rng.integers(0, 10, int(rng.integers(1, precision + 1)))))
        wholes.append(int(rng.choice([-1, 1])) * int(digits))
    with localcontext() as context:
        context.prec = 100
        found = [Decimal(w).scaleb(-scale) for w in wholes if abs(w) < 10**precision]
    return [None if k % 7 == 3 else one for k, one in enumerate(found)]


def nearest(column: list[Decimal | None]) -> list[float]:
    return [np.nan if one is None else float(one) for one in column]


@pytest.mark.parametrize(("kind", "most"), WIDTHS)
@pytest.mark.parametrize("scale", [0, 2, 9, -3])
def test_parquet_and_arrow_tables(tmp_path, kind, most, scale):
    column = cells(most, scale)
    table = pa.table({"x": pa.array(column, getattr(pa, kind)(most, scale))})
    np.testing.assert_array_equal(as_source(table).collect()[:, 0], nearest(column))
    np.testing.assert_array_equal(
        as_source(table.slice(5, 90)).collect()[:, 0], nearest(column[5:95])
    )
    if scale < 0:
        return  # which Parquet does not have
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=100)
    np.testing.assert_array_equal(
        open_source(tmp_path / "x.parquet").collect()[:, 0], nearest(column)
    )


@pytest.mark.parametrize(("kind", "most"), WIDTHS[-2:])
@pytest.mark.parametrize("scale", [22, 23, 30, -22, -23])
def test_powers_of_ten_that_float64_does_not_hold(kind, most, scale):
    column = cells(most, scale)
    table = pa.table({"x": pa.array(column, getattr(pa, kind)(most, scale))})
    np.testing.assert_array_equal(as_source(table).collect()[:, 0], nearest(column))


@pytest.mark.parametrize(
    "make",
    [
        lambda column: pl.DataFrame({"x": pl.Series(column, dtype=pl.Decimal(20, 6))}),
        lambda column: pd.DataFrame(
            {"x": pd.array(column, dtype=pd.ArrowDtype(pa.decimal128(20, 6)))}
        ),
        lambda column: pd.DataFrame({"x": column}),
        lambda column: pa.record_batch({"x": pa.array(column, pa.decimal128(20, 6))}),
    ],
    ids=["polars", "pandas of Arrow", "pandas of objects", "pyarrow batch"],
)
def test_frames(make):
    column = cells(20, 6)
    np.testing.assert_array_equal(as_source(make(column)).collect()[:, 0], nearest(column))


def test_dictionaries_and_columns_of_nulls_alone(tmp_path):
    kind = pa.decimal128(10, 2)
    table = pa.table(
        {
            "coded": pa.array([Decimal("3.30"), None, Decimal("3.30")], kind).dictionary_encode(),
            "nothing": pa.nulls(3, kind),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    nan = np.nan
    expected = [[3.3, nan], [nan, nan], [3.3, nan]]
    np.testing.assert_array_equal(open_source(tmp_path / "x.parquet").collect(), expected)
