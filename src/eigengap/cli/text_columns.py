"""Features that hold text: which cells, and the option that mends it."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from eigengap.sources.files.csv_cells import has_decimal_comma
from eigengap.sources.files.csv_faults import ragged
from eigengap.sources.wording import quote

if TYPE_CHECKING:
    from eigengap.cli.tables import Table

MOST_ROWS = 3  # that a message names
MOST_COLUMNS = 8


def faults_of_csv(table: Table) -> list[str]:
    """A sentence for each feature in whose first rows text is found, then how to go on."""
    reader = table.readers[0]
    dialect = reader.dialect
    _require_names(table)
    found: dict[int, list[tuple[int, str]]] = {}  # (row, text) of each column that holds any
    numbers: Counter[int] = Counter()
    for k, row in enumerate(dialect.head):
        if len(row.cells) != dialect.n_columns:
            raise ragged(reader.where, row, dialect)
        for j in table.features:
            cell = row.cells[j]
            if dialect.cells.number(cell) is None:
                text = cell.strip().encode("latin-1").decode("utf-8", "replace")
                found.setdefault(j, []).append((k + 1, text))
            elif not dialect.cells.is_gap(cell):
                numbers[j] += 1
    told = [_sentence(table, j, cells, numbers[j]) for j, cells in found.items()]
    return _shortened(table, told, list(found))


def faults_of_parquet(table: Table) -> list[str]:
    from eigengap.cli.parquet_rows import schema_of
    from eigengap.sources.files.columns import foreign_kind

    schema = schema_of(table.paths[0])
    kinds = {j: foreign_kind(schema.field(j).type) for j in table.features}
    foreign = [j for j in table.features if kinds[j]]
    told = [
        f"column {quote(table.name(j))} is not numeric ({kinds[j]}). {_leave_out(table, j)}"
        for j in foreign
    ]
    return _shortened(table, told, foreign)


def _sentence(table: Table, j: int, cells: list[tuple[int, str]], numbers: int) -> str:
    rows, texts = [str(row) for row, _ in cells], {text for _, text in cells}
    where = ", ".join(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        where += f" and {len(rows) - MOST_ROWS} more"
    word = "row" if len(rows) == 1 else "rows"
    first = cells[0][1]
    holds = f"column {quote(table.name(j))} holds text in {word} {where} ({quote(first)})"
    if has_decimal_comma(first):
        return (
            f"{holds}, which looks like a decimal comma; those are read where cells are parted by "
            "semicolons"
        )
    if numbers and len(texts) == 1:
        return f"{holds}. Treat it as missing: --na {_as_word(first)}"
    if not numbers:
        return f"{holds}. {_leave_out(table, j)}"
    return f"{holds}, among numbers. Mend them, or {_leave_out(table, j).lower()}"


def _as_word(text: str) -> str:
    """For a shell, in the quotes that people write."""
    return quote(text) if not set(text) & set('$`!\\"') else shlex.quote(text)


def _leave_out(table: Table, j: int) -> str:
    return f"Leave it out: --ignore {_argument(table, [j])}"


def _argument(table: Table, columns: list[int]) -> str:
    names = [table.name(j) for j in columns]
    return shlex.quote(",".join(f'"{name}"' if "," in name else name for name in names))


def _shortened(table: Table, told: list[str], columns: list[int]) -> list[str]:
    if len(told) <= 2:
        return told
    leave = [j for j, sentence in zip(columns, told, strict=True) if "--ignore" in sentence]
    short = told[:MOST_COLUMNS]
    if len(told) > MOST_COLUMNS:
        short.append(f"and {len(told) - MOST_COLUMNS} more columns")
    if len(leave) > 1:
        short.append(f"Leave out all that are text: --ignore {_argument(table, leave)}")
    return short


def _require_names(table: Table) -> None:
    """Refuse features without a name, or with another's."""
    from eigengap.cli.errors import FileTrouble, shown

    names = table.names
    if names is None:
        return
    nameless = next((j for j in table.features if not names[j]), None)
    if nameless is not None:
        raise FileTrouble(
            f"{shown(table.given)}: column {nameless} (the first is 0) has no name in line 1. It "
            "may be the row numbers that pandas and R write along; leave them out by position: "
            f"--ignore {nameless}, or keep them beside the rows: --id {nameless}"
        )
    counts = Counter(names[j] for j in table.features)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        at = [str(j) for j in table.features if names[j] == twice]
        raise FileTrouble(
            f"{shown(table.given)}: line 1 names {len(at)} columns {quote(twice)} (positions "
            f"{', '.join(at)}, the first being 0), and names must be unique. Rename them there, or "
            f"leave all but one out by position: --ignore {','.join(at[1:])}"
        )
