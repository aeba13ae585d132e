"""What is wrong with columns, and the option that mends it: text, no names, a constant."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import numpy as np

from eigengap import sources
from eigengap.cli.errors import FileTrouble, shown
from eigengap.cli.narration import Narrator, figure, listing
from eigengap.sources import quote

if TYPE_CHECKING:
    from eigengap.cli.tables.table import Table

MOST_ROWS = 3  # that a message names
MOST_COLUMNS = 8
MOST_CODES = 3  # different texts among numbers that may all stand for missing cells
LONGEST_CODE = 40  # characters
MOST_TEXTS = 100  # different texts of a column that are looked at
MOST_LOOKED_AT = 10_000  # rows whose skewness is computed
FEWEST_OF_SKEW = 20  # values that have one
DECADES, SKEWED = 100.0, 2.0  # largest over least value, and skewness, that are worth a note
DIGITS = 15  # of which float64 keeps all
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
    count = sources.label_rows(dialect, table.features)
    columns = sorted({*table.numbers, *table.limited})
    found: dict[int, list[tuple[int, str]]] = {}  # (row, text) of each column that holds any
    numbers: Counter[int] = Counter()
    for k, row in enumerate(dialect.head[count:], count):
        for j in columns:
            cell = row.cells[j]
            if j in table.limited and is_limit(cell):
                numbers[j] += 1
            elif dialect.cells.number(cell) is None:
                text = cell.strip(sources.WHITE).encode("latin-1").decode("utf-8", "replace")
                found.setdefault(j, []).append((k + 1, text))
            elif not dialect.cells.is_missing(cell):
                numbers[j] += 1
    _require_names(table)
    faults = [_fault(table, j, found[j], numbers[j], can_ignore) for j in sorted(found)]
    labels = [sources.describe_label_rows(dialect, table.features, count)] if count else []
    return [*labels, *_described(table, faults)]


def has_numbers(table: Table, j: int) -> bool:
    """Whether there is a number among the first cells of a column."""
    if table.kind != "csv":
        return table.kind != "parquet" or sources.foreign_kind(table.schema.field(j).type) is None
    texts = [row.cells[j] for reader in table.readers for row in reader.dialect.head]
    cells = table.readers[0].dialect.cells
    return any(not cells.is_missing(text) and cells.number(text) is not None for text in texts)


def is_limit(cell: str) -> bool:
    """Whether a cell, a letter for each byte, says that a value is below or above a number."""
    text = cell.encode("latin-1").decode("utf-8", "replace")
    return sources.limits_of(text) is not None


def faults_of_parquet(table: Table, can_ignore: bool) -> list[str]:
    kinds = {j: sources.foreign_kind(table.schema.field(j).type) for j in table.numbers}
    found = [
        Fault(
            j,
            f"column {quote(table.name(j))} is not numeric ({kinds[j]})"
            + (f". Leave it out: --ignore {as_argument(table, [j])}" if can_ignore else WANTED),
            is_left_out=can_ignore,
            is_text=can_ignore,
        )
        for j in table.numbers
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
    # Few texts among numbers may be words for a missing cell.
    few = 1 if numbers <= len(cells) else MOST_CODES
    plain = all(text.isprintable() and len(text) <= LONGEST_CODE for text in texts)
    codes = tuple(texts) if plain and numbers and len(texts) <= few else ()
    examples = " and ".join(quote(text) for text in (codes or texts[:1]))
    holds = f"column {quote(table.name(j))} holds text in {word} {where} ({examples})"
    # Texts that look like numbers written in another way.
    decimal = table.readers[0].dialect.cells.decimal
    found = {text: sources.likeness_of(text, decimal) for text in texts[:MOST_TEXTS]}
    looks = {text: look for text, look in found.items() if look and (look.is_sure or numbers)}
    compared = [text for _, text in cells if text in found]
    if looks and (codes or 2 * sum(text in looks for text in compared) > len(compared)):
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


def _by_hand(
    table: Table, j: int, holds: str, looks: dict[str, Any], codes: Sequence[str], can_ignore: bool
) -> Fault:
    """Cells to be written otherwise; --na, or leaving the column out, is the second choice."""
    leave = can_ignore and not codes
    text, look = next(iter(looks.items()))
    is_alone = holds.endswith(f"({quote(text)})")
    message = f"{holds}, which {look}" if is_alone else f"{holds}. {quote(text)} {look}"
    words = tuple(code for code in codes if code not in looks)
    if words:
        others = " and ".join(quote(word) for word in words)
        message += f". Treat {others} as missing: {_as_options(words)}"
    elif codes:
        message += f". Or treat it as missing: {_as_options(codes)}"
    elif leave and len(table.features) > 1:
        message += f". Or leave the column out: --ignore {as_argument(table, [j])}"
    if j in table.unused_limits:
        message += (
            ". Models of columns of every kind use it as a limit: -m low-rank without --numeric, "
            "for instance"
        )
    return Fault(j, message, tuple(codes), is_left_out=leave, by_hand=True)


def _as_options(codes: Sequence[str]) -> str:
    """For a shell, in the quotes that people write."""
    words = []
    for code in codes:
        word = shlex.quote(code)
        words.append(word if word == code or set(code) & set('$`!\\"') else f'"{code}"')
    return " ".join(f"--na {word}" for word in words)


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
    names, line = table.names, table.readers[0].dialect.first
    if names is None:
        return
    nameless = next((j for j in table.features if not names[j]), None)
    if nameless is not None:
        raise FileTrouble(
            f"{shown(table.given)}: column {nameless} (the first is 0) has no name in line {line}. "
            + (
                "It may be the row numbers that pandas and R write along; leave them out by "
                "position: --ignore 0, or keep them as row names: --id 0"
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


# Names -------------------------------------------------------------------------------------


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
    lines = reader.above().removeprefix(sources.BOM).split(dialect.newline)
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


# Constant columns --------------------------------------------------------------------------


def report_constant(table: Table, source: Any, narrator: Narrator) -> None:
    """Name the features that are constant, and those among them that rounding made so."""
    from eigengap.statistics.moments import ColumnMoments

    moments = source.reduce(ColumnMoments.of)
    numbers = set(table.numbers)
    at = [k for k, j in enumerate(table.features) if j in numbers and moments.variance[k] == 0.0]
    if not at:
        return
    rounded = _rounded(table, [k for k in at if _may_be_rounded(table, k, moments.mean[k])])
    same = [k for k in at if k not in rounded]
    if len(at) == len(table.features):  # the fit reports that all rows are equal
        same = []
    for which, what in ((same, "constant"), (rounded, "constant after rounding to float64")):
        columns = [table.features[k] for k in which]
        are, it = ("are", "them") if len(columns) > 1 else ("is", "it")
        if columns:
            narrator.note(
                f"{listing([table.name(j) for j in columns])} {are} {what} and cannot distinguish "
                f"rows; leave {it} out: --ignore {as_argument(table, columns)}"
            )


def report_skewed(table: Table, source: Any, narrator: Narrator, takes_kinds: bool) -> None:
    """Name positive features over decades, which no Gaussian describes, and what to do."""
    n = min(source.observed().rows, MOST_LOOKED_AT)
    rows = source.sample(n, np.random.default_rng(0))
    found = []
    for j, x in zip(table.features, np.asarray(rows).T, strict=True):
        x = x[~np.isnan(x)]
        if len(x) < FEWEST_OF_SKEW or np.min(x) <= 0.0 or np.max(x) < DECADES * np.min(x):
            continue
        centred = x - np.mean(x)
        if np.mean(centred**3) > SKEWED * np.mean(centred**2) ** 1.5:
            found.append((j, float(np.min(x)), float(np.max(x))))
    if not found:
        return
    names = [table.name(j) for j, *_ in found]
    (_, low, high), more = found[0], len(found) > 1
    kinds = ",".join(f"{name}=positive" for name in names[:MOST_COLUMNS])
    way = f"--kinds {shlex.quote(kinds)}, without --numeric," if takes_kinds else "its logarithm"
    narrator.note(
        f"{listing(names)} {'span' if more else 'spans'} decades ({figure(low)} to {figure(high)}"
        f"{' the first' if more else ''}) and {'are' if more else 'is'} skewed, which a Gaussian "
        f"is not: it may impute values below 0; {way} describes {'them' if more else 'it'} better"
    )


def _may_be_rounded(table: Table, k: int, value: float) -> bool:
    """Whether feature k may hold different numbers that are all read as `value`."""
    if abs(value) >= sources.EXACT:
        return True
    j = table.features[k]
    if table.kind == "csv":
        cells = (row.cells[j] for reader in table.readers for row in reader.dialect.head)
        return any(sum(map(str.isdigit, cell)) > DIGITS for cell in cells)
    if table.kind == "parquet":
        return "decimal" in str(table.schema.field(j).type)
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
