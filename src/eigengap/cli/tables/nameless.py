"""A CSV file without names, though one might think that it has some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigengap.sources import BOM, quote

if TYPE_CHECKING:
    from eigengap.cli.tables.table import Table


def on_names(table: Table) -> str | None:
    """Why the first line is no header, and which line above it may be; None where all is plain."""
    if table.kind != "csv" or table.names is not None:
        return None
    dialect = table.readers[0].dialect
    first = dialect.head[0]
    message = []
    if any(dialect.cells.number(cell) is None for cell in first.cells):
        message.append(f"Line {first.line} looks like a row and not like names")
    if dialect.n_columns > 1 and (above := _names_above(table)):
        message.append(above)
    return ". ".join(message) or None


def _names_above(table: Table) -> str | None:
    """What to do about a line above the table that has as many cells, none of them a number."""
    reader, mark = table.readers[0], table.skipped.mark
    dialect = reader.dialect
    lines = reader.above().removeprefix(BOM).split(dialect.newline)
    last = max((k for k, line in enumerate(lines) if line.strip()), default=0)  # the first is 0
    cells = lines[last].decode("latin-1").strip("\r").split(dialect.separator)
    if len(cells) != dialect.n_columns or any(
        dialect.cells.number(one) is not None for one in cells
    ):
        return None
    text = lines[last].decode("utf-8", "replace").strip()
    ways = [f"pass --skip-rows {last}"] if last else []
    if mark is not None and text.startswith(mark):
        ways = [f"take {quote(mark)} off that line", *ways]
        ways[-1] += " and no --comment" if last else " or leave out --comment"
    return (
        f"Line {last + 1} has as many cells, {quote(text)}: if these are names, {' or '.join(ways)}"
    )
