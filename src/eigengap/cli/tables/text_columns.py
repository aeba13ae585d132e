"""Features that hold text: which cells, and the option that mends it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eigengap.cli.narration import listing
from eigengap.sources import WHITE, Likeness, describe_label_rows, label_rows, likeness_of, quote

if TYPE_CHECKING:
    from eigengap.cli.tables.table import Table

MOST_ROWS = 3  # that a message names
MOST_COLUMNS = 8
MOST_CODES = 3  # different texts among numbers that may all stand for missing cells
LONGEST_CODE = 40  # characters
MOST_TEXTS = 100  # different texts of a column that are looked at
WANTED = ", and the model was fitted to numbers there"


@dataclass(frozen=True)
class Fault:
    """A feature that holds text, and what would mend it."""

    column: int
    sentence: str
    codes: tuple[str, ...] = ()  # that may stand for missing cells
    is_left_out: bool = False
    is_text: bool = False  # and no number
    by_hand: bool = False  # cells are to be written otherwise, which no option does


def faults_of_csv(table: Table, can_ignore: bool) -> list[str]:
    """A sentence for each feature in whose first rows text is found, then how to go on.

    A model that is fitted wants its columns, and none of them can be left out.
    """
    dialect = table.readers[0].dialect
    count = label_rows(dialect, table.features)
    found: dict[int, list[tuple[int, str]]] = {}  # (row, text) of each column that holds any
    numbers: Counter[int] = Counter()
    for k, row in enumerate(dialect.head[count:], count):
        for j in table.features:
            cell = row.cells[j]
            if dialect.cells.number(cell) is None:
                text = cell.strip(WHITE).encode("latin-1").decode("utf-8", "replace")
                found.setdefault(j, []).append((k + 1, text))
            elif not dialect.cells.is_missing(cell):
                numbers[j] += 1
    _require_names(table)
    message = _described(
        table, [_fault(table, j, found[j], numbers[j], can_ignore) for j in sorted(found)]
    )
    return [describe_label_rows(dialect, table.features, count), *message] if count else message


def faults_of_parquet(table: Table, can_ignore: bool) -> list[str]:
    from eigengap.cli.tables.parquet_rows import schema_of
    from eigengap.sources import foreign_kind

    schema = schema_of(table.paths[0])
    kinds = {j: foreign_kind(schema.field(j).type) for j in table.features}
    found = [
        Fault(
            j,
            f"column {quote(table.name(j))} is not numeric ({kinds[j]})"
            + (f". Leave it out: --ignore {as_argument(table, [j])}" if can_ignore else WANTED),
            is_left_out=can_ignore,
            is_text=can_ignore,
        )
        for j in table.features
        if kinds[j]
    ]
    return _described(table, found)


def _fault(
    table: Table, j: int, cells: list[tuple[int, str]], numbers: int, can_ignore: bool
) -> Fault:
    rows, texts = [str(row) for row, _ in cells], list(dict.fromkeys(text for _, text in cells))
    where = ", ".join(rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        where += f" and {len(rows) - MOST_ROWS} more"
        dialect = table.readers[0].dialect
        if not dialect.is_whole or len(table.readers) > 1:
            where += f" of the first {len(dialect.head)}"
    word = "row" if len(rows) == 1 else "rows"
    codes = _codes(texts, len(cells), numbers)
    shown = " and ".join(quote(text) for text in (codes or texts[:1]))
    holds = f"column {quote(table.name(j))} holds text in {word} {where} ({shown})"
    looks = _looks(table, texts, numbers)
    if looks and (codes or _are_most(looks, cells)):
        return _by_hand(table, j, holds, looks, codes, can_ignore)
    if codes:
        it = "it" if len(codes) == 1 else "them"
        return Fault(j, f"{holds}. Treat {it} as missing: {_as_options(codes)}", codes)
    if not can_ignore:
        return Fault(j, holds + WANTED)
    leave = f"eave it out: --ignore {as_argument(table, [j])}"
    if not numbers:
        return Fault(j, f"{holds}. L{leave}", is_left_out=True, is_text=True)
    return Fault(j, f"{holds}, among numbers. Mend them, or l{leave}", is_left_out=True)


def _looks(table: Table, texts: Sequence[str], numbers: int) -> dict[str, Likeness]:
    """The texts that look like numbers written in another way."""
    decimal = table.readers[0].dialect.cells.decimal
    found = {text: likeness_of(text, decimal) for text in texts[:MOST_TEXTS]}
    return {
        text: look for text, look in found.items() if look is not None and (look.is_sure or numbers)
    }


def _are_most(looks: dict[str, Likeness], cells: list[tuple[int, str]]) -> bool:
    """Whether more than half of the cells with text look like numbers, and not one among names."""
    return 2 * sum(text in looks for _, text in cells) > len(cells)


def _by_hand(
    table: Table,
    j: int,
    holds: str,
    looks: dict[str, Likeness],
    codes: Sequence[str],
    can_ignore: bool,
) -> Fault:
    """Cells to be written otherwise; --na, or leaving the column out, is the second choice."""
    leave = can_ignore and not codes
    text, look = next(iter(looks.items()))
    alone = f"({quote(text)})"
    message = (
        f"{holds}, which {look}" if holds.endswith(alone) else f"{holds}. {quote(text)} {look}"
    )
    words = tuple(code for code in codes if code not in looks)
    if words:
        others = " and ".join(quote(word) for word in words)
        message += f". Treat {others} as missing: {_as_options(words)}"
    elif codes:
        message += f". Or treat it as missing: {_as_options(codes)}"
    elif leave and len(table.features) > 1:
        message += f". Or leave the column out: --ignore {as_argument(table, [j])}"
    return Fault(j, message, tuple(codes), is_left_out=leave, by_hand=True)


def _codes(texts: list[str], count: int, numbers: int) -> tuple[str, ...]:
    """The texts of a column of numbers that look like words for a missing cell."""
    one = len(texts) == 1 and numbers > 0
    few = len(texts) <= MOST_CODES and numbers > count
    plain = all(text.isprintable() and len(text) <= LONGEST_CODE for text in texts)
    return tuple(texts) if (one or few) and plain else ()


def _as_options(codes: Sequence[str]) -> str:
    return " ".join(f"--na {_as_word(code)}" for code in codes)


def _as_word(text: str) -> str:
    """For a shell, in the quotes that people write."""
    word = shlex.quote(text)
    return word if word == text or set(text) & set('$`!\\"') else f'"{text}"'


def as_argument(table: Table, columns: Sequence[int]) -> str:
    """Columns as an option takes them, to be copied: by position where a name cannot be typed."""
    counts = Counter(table.names or ())
    names = []
    for j in columns:
        name = table.name(j)
        if not name.isprintable() or len(name) > 200 or counts[name] > 1:
            name = str(j)
        elif set(name) & set(',"') or name != name.strip():
            name = '"' + name.replace('"', '""') + '"'
        names.append(name)
    return shlex.quote(",".join(names))


def _described(table: Table, found: list[Fault]) -> list[str]:
    """A sentence for each, and where there are several, the options for all of them.

    Run with these options, the command finds no text in the rows that were looked at.
    """
    if found and len(found) == len(table.features) and all(fault.is_text for fault in found):
        names = listing([table.name(fault.column) for fault in found])
        return [f"no column holds numbers: {names} {'hold' if len(found) > 1 else 'holds'} text"]
    message = [fault.sentence for fault in found]
    if len(message) < 2:
        return message
    short = message[:MOST_COLUMNS]
    if len(message) > MOST_COLUMNS:
        more = len(message) - MOST_COLUMNS
        short.append(f"and {more} more column{'s' if more > 1 else ''}")
    leave = [fault.column for fault in found if fault.is_left_out]
    codes = list(dict.fromkeys(code for fault in found for code in fault.codes))
    options = [f"--ignore {as_argument(table, leave)}"] if leave else []
    options += [_as_options(codes)] if codes else []
    mends_all = all(fault.is_left_out or fault.codes for fault in found)
    if mends_all and len(leave) < len(table.features):  # else nothing would be left
        by_hand = any(fault.by_hand for fault in found)
        how = "To go on without changing cells" if by_hand else "All of it at once"
        short.append(f"{how}: {' '.join(options)}")
    return short


def _require_names(table: Table) -> None:
    """Refuse features without a name, or with another's."""
    from eigengap.cli.errors import FileTrouble, shown

    names, line = table.names, table.readers[0].dialect.first
    if names is None:
        return
    nameless = next((j for j in table.features if not names[j]), None)
    if nameless is not None:
        raise FileTrouble(
            f"{shown(table.given)}: column {nameless} (the first is 0) has no name in line {line}. "
            + (
                "It may be the row numbers that pandas and R write along; leave them out by "
                "position: --ignore 0, or keep them beside the rows: --id 0"
                if nameless == 0
                else f"Give it one there, or leave it out by position: --ignore {nameless}"
            )
        )
    counts = Counter(names[j] for j in table.features)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        at = [str(j) for j in table.features if names[j] == twice]
        raise FileTrouble(
            f"{shown(table.given)}: line {line} names {len(at)} columns {quote(twice)} (positions "
            f"{', '.join(at)}, the first being 0), and names must be unique. Rename them there, or "
            f"leave all but one out by position: --ignore {','.join(at[1:])}"
        )
