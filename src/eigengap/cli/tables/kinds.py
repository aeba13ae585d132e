"""Which columns of a table hold numbers, which hold levels, and which are set aside, and why.

Numbers are found by the cells (CSV) or by the type (Parquet). Text that recurs is levels of a
category; what is different in nearly every row, or a date, is set aside: `impute` writes it as it
was. A column of numbers is set aside only where it names the rows, and always with a note.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from eigengap import sources
from eigengap.cli.errors import WrongUsage
from eigengap.cli.models import value_of
from eigengap.cli.narration import named
from eigengap.cli.tables.faults import is_limit
from eigengap.fitting.columns.kinds import (
    FEWEST_PER_LEVEL,
    MOST_LEVELS,
    WORDS,
    Censored,
    Kind,
    Ordinal,
)
from eigengap.sources import WHITE, quote

if TYPE_CHECKING:
    from eigengap.cli.tables.table import Table

NO_VALUE, CONSTANT, DATES, NAMES, PROSE = "no value", "constant", "dates", "identifier", "free text"
MOST_COUNTED = 100_000  # different texts of a column that are counted
MOST_DATES = 200  # different texts that are compared with a date
FEW_LEVELS = 12  # different cells up to which numbers and texts such as 3+ are levels together
LONG_WORDS = 3  # words of a typical cell from which it is prose
MOSTLY = 0.9  # of the cells, or of the different ones
LIMIT_SIGNS = tuple(sign.encode() for sign in "<>≤≥")
LEVEL_KINDS = ("ordinal", "binary", "nominal")
ID_NAMES = {
    "id", "index", "row", "rowid", "row_id", "rowname", "rownames", "row_names", "sample_id",
    "patient_id", "uid", "uuid", "unnamed: 0",
}  # fmt: skip
_ID_NAME = re.compile(r"(?:.*[_ .-])?id|.*[a-z]I[Dd]", re.ASCII)


@dataclass
class Texts:
    """The different texts of a column, how often each occurs, and how it is written."""

    counts: Counter[str] = field(default_factory=Counter)
    written: dict[str, bytes] = field(default_factory=dict)  # the first spelling of each

    @property
    def n(self) -> int:
        return self.counts.total()


@dataclass(frozen=True)
class Held:
    """What candidates for features hold."""

    levels: tuple[int, ...] = ()  # positions of the columns of text that are levels
    limited: tuple[int, ...] = ()  # of those of numbers among which are limits, "<0.1"
    truths: tuple[int, ...] = ()  # those among them that are true and false
    aside: Mapping[int, str] = field(default_factory=dict)  # why a column is set aside
    texts: Mapping[int, Texts] = field(default_factory=dict)  # of the columns of text
    row_numbers: tuple[int, ...] = ()  # columns of numbers that are set aside


def held(
    table: Table,
    candidates: Sequence[int],
    asked: Mapping[int, Kind],
    are_named: bool = False,
    takes_levels: bool = True,
) -> Held:
    """What these columns hold.

    `asked` are kinds that options name, whatever the cells say; no number names rows where an
    option has named the features. Limits beyond the first rows are looked for where the model
    `takes_levels`.
    """
    if table.kind == "csv":
        found = _in_csv(table, candidates, asked, takes_levels)
    elif table.kind == "parquet":
        found = _in_parquet(table, candidates, asked)
    else:
        return Held()
    aside = {j: why for j, why in found.aside.items() if j not in asked}
    levels = []
    for j in sorted({*found.levels, *(set(found.aside) & set(found.texts) & set(asked))}):
        why = None if j in asked else _why_no_levels(found.texts[j])
        if why is None:
            levels.append(j)
        else:
            aside[j] = why
    known = {*aside, *levels, *found.limited, *asked, *(candidates if are_named else ())}
    rows = tuple(j for j in candidates if j not in known and _names_rows(table, j))
    aside |= dict.fromkeys(rows, NAMES)
    truths = tuple(j for j in levels if set(found.texts[j].counts) <= {"true", "false"})
    aside = dict(sorted(aside.items()))
    return Held(tuple(levels), found.limited, truths, aside, found.texts, rows)


def _why_no_levels(texts: Texts) -> str | None:
    """Why a column of text is no category; None where it is one."""
    counts = texts.counts
    if not counts:
        return NO_VALUE
    if len(counts) == 1:
        return CONSTANT
    sample = list(counts)[:MOST_DATES]
    if sum(sources.is_date(text) for text in sample) >= MOSTLY * len(sample):
        return DATES
    if len(counts) <= MOST_LEVELS and texts.n >= FEWEST_PER_LEVEL * len(counts):
        return None
    if np.median([len(text.split()) for text in sample]) >= LONG_WORDS:
        return PROSE
    if texts.n < FEWEST_PER_LEVEL * len(counts):
        return NAMES
    return f"{len(counts)} different texts"


# Numbers that name rows ------------------------------------------------------------------------


def looks_like_id(name: str) -> bool:
    """Whether a column is called as names of rows are.

    >>> [looks_like_id(name) for name in ("id", "patient_id", "userId", "Sample ID", "acid")]
    [True, True, True, True, False]
    """
    return name.lower() in ID_NAMES or _ID_NAME.fullmatch(name) is not None or (
        name.upper() == name and _ID_NAME.fullmatch(name.lower()) is not None
    ) or name.endswith((" ID", "_ID"))  # fmt: skip


def _names_rows(table: Table, j: int) -> bool:
    """Whether whole numbers name the rows: called an id and nearly all different, or 1, 2, 3, ...

    Numbers that count up from another start (years) and ids that recur are measurements.
    """
    x = _first_numbers(table, j)
    if len(x) < 3 or np.any(x != np.round(x)):
        return False
    counts_up = x[0] in (0.0, 1.0) and bool(np.all(np.diff(x) == 1.0))
    name = table.names[j] if table.names is not None else ""
    if not name or looks_like_id(name):
        return counts_up or (bool(name) and len(np.unique(x)) >= MOSTLY * len(x))
    return False


def _first_numbers(table: Table, j: int) -> Any:
    """The observed numbers of the first rows; none where one of them is no number."""
    if table.kind == "csv":
        cells = table.readers[0].dialect.cells
        found = [cells.number(row.cells[j]) for row in table.readers[0].dialect.head]
        if None in found:
            return np.empty(0)
        x = np.array(found, dtype=np.float64)
    else:
        from eigengap.cli.tables.pieces import first_column

        x = first_column(table, j)
    return x[~np.isnan(x)]


# CSV -------------------------------------------------------------------------------------------


def _in_csv(
    table: Table, candidates: Sequence[int], asked: Mapping[int, Kind], takes_levels: bool
) -> Held:
    reader = table.readers[0]
    skip = sources.label_rows(reader.dialect, candidates)  # which are refused later
    rows = [
        row.cells for each in table.readers for row in each.dialect.head[skip * (each is reader) :]
    ]
    text, aside, limited, numbers = [], {}, [], []
    for j in candidates:
        wanted = asked.get(j)
        cells = [row[j] for row in rows]
        found = _holds(cells, reader.dialect.cells)
        if found == "numbers" and wanted is None and takes_levels:
            observed = [cell for cell in cells if not reader.dialect.cells.is_missing(cell)]
            found = "text" if sources.are_codes(observed) else found
        orders = isinstance(wanted, Ordinal) and bool(wanted.order)
        if found == "empty":
            aside[j] = NO_VALUE
        elif found == "text" or orders or (
            found == "both" and wanted is not None and wanted.word in LEVEL_KINDS
        ):  # fmt: skip
            text.append(j)
        elif isinstance(wanted, Censored) or (found == "both" and any(map(is_limit, cells))):
            limited.append(j)
        elif found == "numbers":
            numbers.append(j)
    if takes_levels and not all(each.dialect.is_whole for each in table.readers):
        limited += _with_late_limits(table, numbers)
    texts = _texts_of_csv(table, [*text, *limited])
    limited = [j for j in limited if _has_limits(texts[j].counts, reader.dialect.cells.number)]
    for j in text:  # whose cells are known now, in all rows
        if asked.get(j) is None and not texts[j].counts:
            aside[j] = NO_VALUE
    if aside and not all(each.dialect.is_whole for each in table.readers):
        later = _texts_of_csv(table, list(aside))  # a column may begin late
        for j in [j for j in aside if later[j].counts]:
            del aside[j]
    levels = tuple(j for j in text if j not in aside)
    return Held(levels=levels, limited=tuple(limited), aside=aside, texts=texts)


_LIMIT = r"^\s*(=?[<>]|≤|≥)"


def _with_late_limits(table: Table, columns: Sequence[int]) -> list[int]:
    """Columns that hold a limit in any row; no cell is parsed in a file without such signs."""
    import pyarrow.compute as pc

    found: dict[int, None] = {}
    for reader in table.readers:
        if not reader.has_any(LIMIT_SIGNS):
            continue
        for piece in reader.as_text():
            rest = [j for j in columns if j not in found]
            of = (
                j for j in rest if pc.any(pc.match_substring_regex(piece.column(j), _LIMIT)).as_py()
            )
            found |= dict.fromkeys(of)
    return list(found)


def _has_limits(texts: Iterable[str], number: Callable[[str], float | None]) -> bool:
    """Whether limits are among numbers."""
    are_limits = {text: sources.limits_of(text, number) is not None for text in texts}
    return any(are_limits.values()) and any(
        not is_limit and number(text) is not None for text, is_limit in are_limits.items()
    )


def _holds(found: Sequence[str], cells: Any) -> str:
    """ "numbers", "text", "both" or "empty"; words for a missing cell among numbers are "both"."""
    n_numbers, n_truths, texts = 0, 0, Counter[str]()
    different = set()
    for cell in found:
        if cells.is_missing(cell):
            continue
        bare = cell.strip(WHITE)
        different.add(bare)
        if bare.lower() in sources.TRUTH_VALUES:
            n_truths += 1
        elif cells.number(bare) is not None:
            n_numbers += 1
        else:
            texts[_decoded(bare.encode("latin-1"))] += 1
    if not different:
        return "empty"
    if not texts:
        return "numbers" if n_numbers else "text"  # true and false alone are two levels
    n_texts = texts.total()
    looks = sum(
        times
        for text, times in texts.items()
        if (look := sources.likeness_of(text, cells.decimal)) and (look.is_sure or n_numbers)
    )
    if 2 * looks > n_texts:  # numbers that are written in another way
        return "both"
    if n_numbers == 0:
        return "text"
    total = n_numbers + n_truths + n_texts
    recurs = len(different) <= MOST_LEVELS and total >= FEWEST_PER_LEVEL * len(different)
    if n_texts > n_numbers and (recurs or n_texts >= MOSTLY * total):
        return "text"
    is_few = recurs and len(different) <= FEW_LEVELS
    return "text" if is_few and all(re.search(r"\d", text) for text in texts) else "both"


def _texts_of_csv(table: Table, columns: Sequence[int]) -> dict[int, Texts]:
    """The different texts of columns in all rows."""
    if not columns:
        return {}
    counted: Iterable[tuple[int, Mapping[bytes, int]]]
    if all(reader.dialect.is_whole for reader in table.readers):
        heads = [row.cells for reader in table.readers for row in reader.dialect.head]
        counted = ((j, Counter(row[j].encode("latin-1") for row in heads)) for j in columns)
    else:
        counted = (
            (j, Counter({one["values"]: one["counts"] for one in chunk.value_counts().to_pylist()}))
            for reader in table.readers
            for piece in reader.as_text()
            for j in columns
            for chunk in [piece.column(j)]
        )
    return _collected(counted, columns, table.readers[0].dialect.cells)


def _collected(
    counted: Iterable[tuple[int, Mapping[bytes, int]]], columns: Sequence[int], cells: Any
) -> dict[int, Texts]:
    """Cells as bytes, counted by column, as levels without blanks around them."""
    found = {j: Texts() for j in columns}
    for j, times in counted:
        of = found[j]
        for raw, count in times.items():
            text = level_of(raw, cells)
            if text is not None and (text in of.counts or len(of.counts) < MOST_COUNTED):
                of.counts[text] += count
                of.written.setdefault(text, raw.strip())
    for of in found.values():  # true and TRUE are one level
        if {text.lower() for text in of.counts.keys() - sources.NULL_WORDS} <= {"true", "false"}:
            for text in of.counts.keys() & sources.NULL_WORDS:
                del of.counts[text], of.written[text]
            for text in list(of.counts):
                if text != text.lower():
                    of.counts[text.lower()] += of.counts.pop(text)
                    of.written.setdefault(text.lower(), of.written.pop(text))
    return found


def level_of(raw: bytes, cells: Any, *, among_truths: bool = False) -> str | None:
    """The text of a cell without blanks around it; None where it stands for a missing value."""
    letters = raw.decode("latin-1").strip(WHITE)
    is_missing = cells.is_missing if among_truths else cells.is_missing_text
    return None if is_missing(letters) else _decoded(letters.encode("latin-1"))


def _decoded(raw: bytes) -> str:
    """UTF-8, or the letters of Latin-1 in a file of that encoding."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


# Parquet ---------------------------------------------------------------------------------------


def _in_parquet(table: Table, candidates: Sequence[int], asked: Mapping[int, Kind]) -> Held:
    import pyarrow as pa

    text, aside = [], {}
    for j in candidates:
        kind = table.schema.field(j).type
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if (
            pa.types.is_boolean(kind)
            or pa.types.is_string(value)
            or pa.types.is_large_string(value)
        ):
            text.append(j)
        elif pa.types.is_temporal(kind):
            aside[j] = DATES
        elif pa.types.is_null(kind):
            aside[j] = NO_VALUE
        elif sources.foreign_kind(kind) is not None:
            aside[j] = str(kind)
    texts = _texts_of_parquet(table, text)
    of_levels = {j for j, kind in asked.items() if kind.word in LEVEL_KINDS}
    limited = tuple(j for j in text if j not in of_levels and _are_limits(texts[j].counts))
    levels = tuple(j for j in text if j not in limited)
    return Held(levels=levels, limited=limited, aside=aside, texts=texts)


def _are_limits(texts: Iterable[str]) -> bool:
    """Whether text is numbers and limits and nothing else, and both occur."""
    are = {sources.limits_of(text) is not None for text in texts if not sources.is_number(text)}
    return are == {True} and any(map(sources.is_number, texts))


def _texts_of_parquet(table: Table, columns: Sequence[int]) -> dict[int, Texts]:
    from eigengap.cli.tables.pieces import columns_of_parquet

    found = {j: Texts() for j in columns}
    for batch in columns_of_parquet(table, columns):
        for j, column in zip(columns, batch, strict=True):
            of = found[j]
            for one in column.value_counts().to_pylist():
                value = one["values"]
                if value is None or (isinstance(value, str) and value.strip() in table.na):
                    continue
                text = str(value).lower() if isinstance(value, bool) else value
                if text in of.counts or len(of.counts) < MOST_COUNTED:
                    of.counts[text] += one["counts"]
    return found


def written(table: Table, columns: Sequence[int]) -> dict[int, Mapping[str, bytes]]:
    """How the levels of columns are written in the first rows of a file."""
    if table.kind != "csv":
        return {}
    rows = [row.cells for reader in table.readers for row in reader.dialect.head]
    cells = table.readers[0].dialect.cells
    counted = ((j, Counter(row[j].encode("latin-1") for row in rows)) for j in columns)
    return {j: of.written for j, of in _collected(counted, columns, cells).items()}


# Options ---------------------------------------------------------------------------------------


def asked_kinds(table: Table, kinds: Sequence[str], orders: Sequence[str]) -> dict[int, Kind]:
    """Kinds that --kinds and --order name, by position."""
    found: dict[int, Kind] = {}
    for text in kinds:
        for part in _parts(text):
            name, kind = _kind(part)
            _add(found, _position(table, name, "--kinds"), kind, name, "--kinds")
    for text in orders:
        name, levels = _order(table, text)
        _add(found, _position(table, name, "--order"), Ordinal(order=levels), name, "--order")
    return found


def _add(found: dict[int, Kind], j: int, kind: Kind, name: str, option: str) -> None:
    if option == "--order" and isinstance(found.get(j), Ordinal):
        found.pop(j)  # --kinds stage=ordinal --order stage=low<high
    if j in found:
        raise WrongUsage(f"{option} {quote(name)}: the column has a kind already")
    found[j] = kind


def _position(table: Table, name: str, option: str) -> int:
    from eigengap.cli.tables.table import position_of

    return position_of(table, name, option)


def _parts(text: str) -> list[str]:
    """Split at commas that stand neither in brackets nor in quotes.

    >>> _parts('a=bounded(0,100),b=count'), _parts('"x,y"=nominal')
    (['a=bounded(0,100)', 'b=count'], ['"x,y"=nominal'])
    """
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += (letter == "(") - (letter == ")") if not quoted else 0
        if letter == "," and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


_KIND = re.compile(r"(.*)=\s*([\w-]*)\s*(?:\((.*)\)|:(.*))?\s*", re.DOTALL)


def _kind(part: str) -> tuple[str, Kind]:
    """A column and its kind: x=bounded(0,100), or x=bounded:0:100, which needs no quotes."""
    match = _KIND.fullmatch(part)
    if match is None or not match[1].strip() or not match[2]:
        raise WrongUsage(
            f"--kinds {part}: write NAME=KIND, e.g. --kinds stage=ordinal,share=bounded:0:100"
        )
    name = match[1].strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        name = name[1:-1].replace('""', '"')
    word = match[2].lower()
    if word not in WORDS:
        close = get_close_matches(word, WORDS, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise WrongUsage(
            f"--kinds {part}: there is no kind {quote(match[2])}. {hint}Kinds are "
            f"{', '.join(WORDS)}"
        )
    values: list[Any] = []
    given: dict[str, Any] = {}
    for one in re.split(r"[,:]", match[3] or match[4] or ""):
        key, equals, value = one.rpartition("=")
        if equals:
            given[key.strip()] = value_of(value)
        elif one.strip():
            values.append(value_of(one))
    try:
        return name, WORDS[word](*values, **given)
    except ValueError as error:
        raise WrongUsage(f"--kinds {part}: {error}") from None
    except TypeError:
        what = "two bounds, e.g. bounded:0:100" if word == "bounded" else "no such parameters"
        raise WrongUsage(f"--kinds {part}: {word} takes {what}") from None


def _order(table: Table, text: str) -> tuple[str, tuple[str, ...]]:
    """A column and its levels from the lowest on: stage=low<mid<high, or low,mid,high."""
    names = table.names or ()
    at = next((k for k, letter in enumerate(text) if letter == "=" and text[:k] in names), None)
    at = text.find("=") if at is None else at
    listed = text[at + 1 :]
    parts = listed.split("<") if "<" in listed else next(csv.reader([listed]), [])
    levels = tuple(part.strip() for part in parts)
    if at < 1 or len(levels) < 2 or "" in levels:
        raise WrongUsage(
            f"--order {text}: write NAME=LEVELS from the lowest on, e.g. --order stage=low,mid,high"
        )
    if len(set(levels)) < len(levels):
        raise WrongUsage(f"--order {text}: a level is named twice")
    return text[:at].strip(), levels


def require_orders(table: Table, texts: Mapping[int, Texts], asked: Mapping[int, Kind]) -> None:
    """Refuse orders that lack a level of the table, and text that has no order."""
    for j, kind in asked.items():
        if not isinstance(kind, Ordinal) or j not in texts:
            continue
        label, levels = named(table.name(j)), list(texts[j].counts)
        option = f"--order {table.name(j)}"
        if not kind.order:
            if len(levels) < 2:
                continue
            raise WrongUsage(
                f"--kinds {table.name(j)}=ordinal: {label} holds text, which has no order of its "
                f"own. Say it from the lowest on, e.g. {option}={','.join(sorted(levels)[:4])}"
            )
        lacking = [level for level in levels if level not in kind.order]
        if lacking:
            unknown = [str(one) for one in kind.order if one not in levels]
            close = get_close_matches(lacking[0], unknown, n=1)
            hint = f" (meant by {quote(close[0])}?)" if close else ""
            raise WrongUsage(
                f"{option}: the column also holds {', '.join(map(quote, lacking[:5]))}{hint}"
            )


def counted(kinds: Sequence[str]) -> str:
    """How many columns are of each kind.

    >>> counted(["ordinal", "binary", "ordinal"])
    '2 ordinal, 1 binary'
    """
    return ", ".join(f"{count} {kind}" for kind, count in Counter(kinds).most_common())


def reasons(table: Table, most: int | None = None) -> str:
    """The columns that are set aside, and why.

    Columns with the same reason stand together.
    """
    groups: dict[str, list[str]] = {}
    for j, why in table.aside.items():
        groups.setdefault(why, []).append(named(table.name(j)))
    parts = []
    for why, names in groups.items():
        shown = names if most is None else names[:most]
        more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
        parts.append(f"{', '.join(shown)}{more} ({why})")
    return ", ".join(parts)
