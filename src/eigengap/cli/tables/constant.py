"""Columns that are constant: in the file, or only once their numbers are rounded to float64."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from eigengap.cli.narration import Narrator, listing
from eigengap.cli.tables.table import Table
from eigengap.sources import EXACT

DIGITS = 15  # of which float64 keeps all


def report_constant(table: Table, source: Any, narrator: Narrator) -> None:
    """Name the features that are constant, and those among them that rounding made so."""
    from eigengap.statistics.moments import ColumnMoments

    moments = source.reduce(ColumnMoments.of)
    at = [k for k in range(len(table.features)) if moments.variance[k] == 0.0]
    if not at:
        return
    rounded = _rounded(table, [k for k in at if _may_be_rounded(table, k, moments.mean[k])])
    same = [table.features[k] for k in at if k not in rounded]
    if same and len(at) < len(table.features):  # else the fit says that all rows are equal
        narrator.note(_sentence(table, same, "constant"))
    if rounded:
        columns = [table.features[k] for k in rounded]
        narrator.note(_sentence(table, columns, "constant after rounding to float64"))


def _sentence(table: Table, columns: Sequence[int], what: str) -> str:
    from eigengap.cli.tables.text_columns import as_argument

    are, it = ("are", "them") if len(columns) > 1 else ("is", "it")
    return (
        f"{listing([table.name(j) for j in columns])} {are} {what} and cannot distinguish rows; "
        f"leave {it} out: --ignore {as_argument(table, columns)}"
    )


def _may_be_rounded(table: Table, k: int, value: float) -> bool:
    """Whether feature k may hold different numbers that are all read as `value`."""
    if abs(value) >= EXACT:
        return True
    j = table.features[k]
    if table.kind == "csv":
        cells = (row.cells[j] for reader in table.readers for row in reader.dialect.head)
        return any(sum(map(str.isdigit, cell)) > DIGITS for cell in cells)
    if table.kind == "parquet":
        from eigengap.cli.tables.parquet_rows import schema_of

        return "decimal" in str(schema_of(table.paths[0]).field(j).type)
    return False


def _rounded(table: Table, wanted: Sequence[int]) -> list[int]:
    """Those of the wanted features, all constant in float64, whose numbers differ in the file."""
    if not wanted:
        return []
    if table.kind not in ("csv", "parquet"):  # whose integers are at hand as float64 alone
        long = getattr(getattr(table.source(), "reader", None), "long", False)
        return [k for k in wanted if np.broadcast_to(long, len(table.features))[k]]
    import pyarrow as pa

    from eigengap.cli.tables.pieces import pieces

    mark = table.readers[0].dialect.cells.decimal if table.kind == "csv" else "."
    found: dict[int, set[Any]] = {k: set() for k in wanted}
    for piece in pieces(table):
        for k, numbers in found.items():
            if len(numbers) < 2:
                observed = pa.array(~np.isnan(piece.values[:, k]))
                cells = piece.columns.column(table.features[k]).filter(observed)
                numbers |= {_exact(cell, mark) for cell in cells.unique().to_pylist()}
        if all(len(numbers) > 1 for numbers in found.values()):
            break
    return [k for k, numbers in found.items() if len(numbers) > 1]


def _exact(cell: Any, mark: str) -> Any:
    """The number of a cell, to all of its digits.

    >>> _exact(b"1,50", ",") == _exact(b" 1,5", ","), _exact(b"TRUE", "."), _exact(3, ".")
    (True, 'true', 3)
    """
    if not isinstance(cell, bytes):
        return cell
    text = cell.decode("latin-1").strip().lower().replace(mark, ".")
    try:
        return Decimal(text)
    except InvalidOperation:
        return text
