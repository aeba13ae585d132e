"""CSV tables whose cells keep their text, so that what was seen is written back unchanged."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, TextIO

from eigengap.cli.errors import FileTrouble, Unfittable

if TYPE_CHECKING:
    from eigengap.linalg import Array


@dataclass(frozen=True)
class TextTable:
    """Columns of text cells; an empty cell is one that was not seen."""

    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]  # one per name, all of the same length

    @property
    def n_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def numbers(self, names: Sequence[str]) -> Array:
        """The named columns as (n, d) float64, NaN where a cell is empty."""
        import numpy as np

        return np.column_stack([self._numeric(name) for name in names])

    def filled(self, cells: Mapping[tuple[int, str], str]) -> TextTable:
        """A table in which the cells at (row, name) have a new text."""
        columns = [list(column) for column in self.columns]
        for (row, name), text in cells.items():
            columns[self.names.index(name)][row] = text
        return TextTable(self.names, tuple(map(tuple, columns)))

    def _numeric(self, name: str) -> Array:
        import numpy as np

        column = self.columns[self.names.index(name)]
        numbers = np.full(len(column), np.nan)
        text_rows = []
        for row, cell in enumerate(column):
            try:
                numbers[row] = float(cell) if cell.strip() else np.nan
            except ValueError:
                text_rows.append(row)
        if text_rows:
            shown = ", ".join(str(row + 1) for row in text_rows[:5])
            more = f" and {len(text_rows) - 5} more" if len(text_rows) > 5 else ""
            raise Unfittable(
                f'column "{name}" holds text in rows {shown}{more} ("{column[text_rows[0]]}"). '
                "Leave such cells empty where the value is missing."
            )
        return numbers


def read_csv(stream: IO[bytes], name: str) -> TextTable:
    """Read a CSV file with a header line; every cell keeps the text that it had."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    content = stream.read()
    try:
        header = arrow_csv.open_csv(io.BytesIO(content)).schema.names
        options = arrow_csv.ConvertOptions(
            column_types={column: pyarrow.string() for column in header},
            strings_can_be_null=False,
        )
        table = arrow_csv.read_csv(io.BytesIO(content), convert_options=options)
    except pyarrow.ArrowInvalid as error:
        raise FileTrouble(f"{name} is not a CSV table: {error}") from error
    columns = tuple(tuple(column.to_pylist()) for column in table.columns)
    return TextTable(tuple(table.column_names), columns)


def write_csv(table: TextTable, stream: TextIO) -> None:
    """Write a table; only cells that need quotes get them."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(zip(*table.columns, strict=True))
