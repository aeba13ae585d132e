"""Tables that hold more than numbers: levels as codes 0, 1, ..., and back.

A `Schema` says of each column what it holds (numbers, truth values, levels, ordered levels, text
that is no set of levels, dates) and, where it has levels, which. It is learned from the table of a
fit; other tables are coded by it, and coded values go back into the caller's own types.

What a schema is learned from (`Contents`) merges, so that a table may come in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import islice
from math import nan
from numbers import Complex, Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import DataError, UnknownLevelError
from eigengap.linalg import Array
from eigengap.sources.array import F8, dense_to_float, library_of
from eigengap.sources.cells import NULLS, NUMBERS, WRITTEN, Refused, is_number, objects_to_float
from eigengap.sources.checks import (
    check_not_empty,
    check_two_dimensional,
    warn_of_rounded,
    with_missing_for,
)
from eigengap.sources.files.csv.cells import TRUTH_VALUES, Cells
from eigengap.sources.files.csv.dialect import is_date
from eigengap.sources.frames import (
    _column_to_float,
    _own_type,
    eager_frame,
    holds_whole,
    is_extension,
    is_extension_type,
    labels_of,
    long_columns,
    native_column,
)
from eigengap.sources.limits import limits_of
from eigengap.sources.wording import column, show
from eigengap.wording import words

PLAIN = Cells()
Holds = Literal["numbers", "truth", "levels", "ordered", "other"]

# Different levels of a column beyond which it is text or an identifier: each is kept, and would be
# a variable of the model.
MOST_KEPT = 10_000
MOST_WORDS = 20  # among numbers that are written as text, beyond which it is text as any other
NUMBERS_PER_WORD = 10  # different ones, from which words among them are worth a note
DATES = "its text is dates or times"  # the note of such a column
TIMES = "it holds dates or times"
NUMERALS = frozenset({"number", "digits", "code"})  # what text of files is that may be numbers
MOST_DATES = 200  # different texts that are compared with a date
MOSTLY_DATES = 0.9  # of them, from which a column holds dates


@dataclass(frozen=True)
class ColumnType:
    """What a column of a table holds."""

    name: str | None
    holds: Holds
    levels: tuple[Any, ...] = ()  # in the order of their codes
    note: str = ""  # why it is not used, where that is not what it holds
    has_limits: bool = False  # whether some of its numbers are limits, "<0.1" for instance
    odd: tuple[str, ...] = ()  # the few words among its numbers that make it text
    has_codes: bool = False  # whether its text, in a file, is digits with leading zeros

    @property
    def holds_unasked(self) -> Holds:
        """What it holds where nobody names its kind: dates in text are no levels then."""
        return "other" if self.note == DATES else self.holds

    def level(self, value: float) -> Any:
        """The caller's level of a code; a number is itself."""
        return self.levels[int(value)] if self.levels else value

    def code(
        self,
        cells: Sequence[Any],
        label: str,
        present: NDArray[np.bool_] | None = None,
        first: int = 0,
    ) -> Array:
        """Codes (n,) of cells, NaN where they are null; refuses what was not among the levels.

        Rows that are not present have any level; `first` is the number of the first row.
        """
        codes = self._codes(cells)
        unknown = np.isnan(codes) if present is None else np.isnan(codes) & present
        for i in np.flatnonzero(unknown).tolist():
            if not _is_null(cells[i]):
                raise self._unknown(cells[i], first + i, label)
        return codes

    def code_distinct(
        self,
        distinct: Sequence[Any],
        at: NDArray[Any],
        label: str,
        present: NDArray[np.bool_] | None = None,
        first: int = 0,
    ) -> Array:
        """Codes (n,) of cells given as numbers of different values, -1 where they are null."""
        codes = self._codes([*distinct, None])
        for k, cell in enumerate(distinct):
            if np.isnan(codes[k]) and not _is_null(cell):
                has_it = at == k if present is None else (at == k) & present
                rows = np.flatnonzero(has_it)
                if len(rows):
                    raise self._unknown(cell, first + int(rows[0]), label)
        return np.asarray(codes[at])

    def _codes(self, cells: Sequence[Any]) -> Array:
        place: dict[Any, float] = {level: float(k) for k, level in enumerate(self.levels)}
        try:
            return np.array([place.get(cell, nan) for cell in cells], dtype=F8)
        except TypeError:  # a cell that is not hashable, and no level
            known = [isinstance(cell, Hashable) for cell in cells]
            return np.array(
                [place.get(c, nan) if k else nan for c, k in zip(cells, known, strict=True)]
            )

    def _unknown(self, cell: Any, row: int, label: str) -> UnknownLevelError:
        return UnknownLevelError(
            f"{show(cell)} at row {words().number(row)}, column {label}, is not one of the "
            f"{len(self.levels)} levels of the fit ({_some(self.levels)}). Make it missing "
            "(NaN), or fit on rows that have it",
            row=row,
            name=self.name,
            value=str(cell),
        )


@dataclass(frozen=True)
class Contents:
    """What cells of a column hold, as far as it matters for its type: small, and mergeable.

    `levels` are the different values, None where they are more than MOST_KEPT or not known.
    """

    held: Holds | None  # by the type of the column; None where only its cells can tell
    categories: tuple[Any, ...] = ()  # of the type
    levels: frozenset[Any] | None = frozenset()
    classes: frozenset[str] = frozenset()  # as `_class_of` has them; unhashable, and null words
    words: frozenset[Any] | None = frozenset()  # text that is no number; None for many
    is_unread: bool = False  # numbers whose text, and so whose levels, was not looked at

    @classmethod
    def of(cls, held: Holds | None, cells: Any, label: str) -> Contents:
        """Of cells of any type; `held` is what the type says."""
        if held in ("numbers", "other", "truth"):
            return cls(held)
        distinct = _distinct(cells)
        if held is not None:
            return cls(held, tuple(_categories(cells)), _bounded(distinct))
        types = set(map(type, distinct))
        if any(issubclass(kind, Complex) and not issubclass(kind, Real) for kind in types):
            raise ValueError(f"Complex data not supported: column {label}")
        classes = frozenset(map(_class_of, types))
        if not all(issubclass(kind, Hashable) for kind in types):
            return cls(None, classes=classes | {"unhashable"}, levels=None)
        texts = [cell for cell in distinct if isinstance(cell, str)]
        words, more = _words_among(texts, is_number)
        return cls(None, (), _bounded(distinct), classes | more, words)

    @classmethod
    def of_numbers(cls, are_null: bool = False) -> Contents:
        """Of cells of text that were read as numbers at once; of null ones as null."""
        classes = frozenset({"null" if are_null else "number"})
        return cls(None, (), None, classes, is_unread=True)

    @classmethod
    def of_texts(cls, texts: Collection[str], number: Callable[[str], float | None]) -> Contents:
        """Of cells of a file in which numbers and truth values are text too.

        Words for a missing value ("None", to `number` NaN) are levels if any other cell is text.
        """
        others = [text for text in texts if (x := number(text)) is None or x == x]
        words, more = _words_among(others, lambda text: number(text) is not None, number)
        classes = {"text"} if words is None or words or "limit" in more else set()
        if not classes and all(map(_is_digits, others)):
            classes = {"code" if any(map(is_padded, others)) else "digits"} if others else set()
        elif not classes:
            truth = {text.strip().lower() in TRUTH_VALUES for text in others}
            classes = {"truth" if one else "number" for one in truth}
        if len(others) < len(texts):
            classes.add("null")
        return cls(None, (), _bounded(texts), frozenset(classes) | more, words)

    def merge(self, other: Contents) -> Contents:
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        held, categories = self.held, self.categories
        if self.held != other.held:
            both = {self.held, other.held}
            if both != {"numbers", "truth"}:
                raise ValueError("the column is of different types in different parts of the table")
            held = "numbers"
        if self.categories != other.categories:
            if held == "ordered":
                raise ValueError(
                    "its ordered categories are not the same in all parts of the table"
                )
            categories = tuple(_sorted({*self.categories, *other.categories}))
        known = self.levels is not None and other.levels is not None
        some = self.words is not None and other.words is not None
        return Contents(
            held,
            categories,
            _bounded(self.levels | other.levels) if known else None,  # type: ignore[operator]
            self.classes | other.classes,
            _bounded(self.words | other.words, MOST_WORDS) if some else None,  # type: ignore[operator]
            self.is_unread or other.is_unread,
        )

    @property
    def is_late(self) -> bool:
        """Whether cells that were read as numbers turned out to have text that matters."""
        return self.is_unread and bool(self.classes & {"text", "code"})

    @property
    def is_settled(self) -> bool:
        """Whether no further cell can change anything: text that is no set of levels."""
        is_text = "text" in self.classes and not self.is_unread
        return is_text and self.levels is None and self.words is None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known: no cell is observed, and the type says nothing."""
        return self.held is None and not self.classes

    def column(self, name: str | None) -> ColumnType:
        held, classes = self.held, self.classes
        if held is None and self._are_limits():
            return ColumnType(name, "numbers", has_limits=True)
        classes = classes - {"numeral", "limit", "null"}
        has_codes = held is None and "code" in classes and classes <= {"code", "digits"}
        if held is None and classes == {"truth"}:
            held = "truth"
        if held is None and classes <= {"truth", "odd number", *NUMERALS} and not has_codes:
            held = "numbers"
        are_times = held == "other" or classes == {"date"}
        if held is None and classes & {"object", "date", "unhashable", "odd number"}:
            held = "other"
        if held in ("numbers", "other"):
            return ColumnType(name, held, note=TIMES if are_times else "")
        if held == "truth":
            return ColumnType(name, held, (False, True))
        note = self._note()
        odd = tuple(sorted(map(str, self.words))) if note and self.words else ()
        if self.levels is None:
            note = note or f"more than {MOST_KEPT} different values are names, not levels"
            return ColumnType(name, "other", note=note, odd=odd, has_codes=has_codes)
        if held is not None:
            order = [level for level in self.categories if level in self.levels]
            return ColumnType(name, held, tuple(order))
        levels = tuple(_sorted(self.levels))
        if _are_dates(levels):
            return ColumnType(name, "levels", levels, DATES)
        return ColumnType(name, "levels", levels, note, odd=odd, has_codes=has_codes)

    def _are_limits(self) -> bool:
        """Whether all text is numbers and limits, and both occur."""
        others = self.classes - {"text", "numeral", "limit", "null", *NUMERALS}
        is_plain = self.words == frozenset() and "limit" in self.classes and not others
        return is_plain and bool(self.classes & {"numeral", *NUMERALS})

    def _note(self) -> str:
        """About a few words among many numbers that are text because of them."""
        if not self.words:
            return ""
        numbers = MOST_KEPT if self.levels is None else len(self.levels) - len(self.words)
        if numbers < NUMBERS_PER_WORD * len(self.words):
            return ""
        if any(isinstance(level, str) and is_padded(level) for level in self.levels or ()):
            return ""  # 00501 is a code, and so is what stands among such
        word = show(min(self.words))
        return f"it holds numbers and text such as {word}; make the text missing, or a number"


@dataclass(frozen=True)
class Schema:
    """The columns of a table."""

    columns: tuple[ColumnType, ...]
    missing: tuple[float, ...] = ()  # numbers that stand for a missing value
    missing_texts: tuple[str, ...] = ()  # text of files that does

    @classmethod
    def of(
        cls, X: Any, missing: Sequence[float] = (), present: NDArray[np.bool_] | None = None
    ) -> Schema:
        """Learned from a frame, or a 2-d array of objects: from the rows that are present."""
        names, found = contents_of(X, present)
        if library_of(X) is not None:
            check_not_empty((len(eager_frame(X)), len(names)))
        learned = (each.column(name) for name, each in zip(names, found, strict=True))
        return cls(tuple(learned), tuple(missing))

    def only(self, columns: Sequence[int]) -> Schema:
        """Of some of the columns."""
        return replace(self, columns=tuple(self.columns[j] for j in columns))

    def _with(self, columns: Collection[int], **changes: Any) -> Schema:
        pairs = enumerate(self.columns)
        found = (replace(own, **changes) if j in columns else own for j, own in pairs)
        return replace(self, columns=tuple(found))

    def ignoring(self, columns: Collection[int]) -> Schema:
        """With some columns that are not looked at."""
        return self._with(columns, holds="other", levels=(), has_limits=False)

    def with_numbers(self, columns: Collection[int]) -> Schema:
        """With some columns, where they hold codes with leading zeros, read as numbers."""
        some = [j for j in columns if self.columns[j].has_codes]
        return self._with(some, holds="numbers", levels=(), note="", has_codes=False)

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        names = tuple(each.name for each in self.columns if each.name is not None)
        return names if len(names) == len(self.columns) else None

    @property
    def limited(self) -> list[int]:
        """Columns of which some numbers are limits."""
        return [j for j, own in enumerate(self.columns) if own.has_limits]

    @property
    def coded_names(self) -> tuple[str, ...] | None:
        """Of the columns of `code_with_limits`."""
        names = self.names
        if names is None:
            return None
        ends = [f"{names[j]} ({end} limit)" for j in self.limited for end in ("lower", "upper")]
        return (*names, *ends)

    def in_order(self, orders: Mapping[int, Callable[[Sequence[Any]], tuple[Any, ...]]]) -> Schema:
        """With the levels of some columns in another order."""
        columns = list(self.columns)
        for j, order in orders.items():
            if columns[j].levels:
                columns[j] = replace(columns[j], levels=order(columns[j].levels))
        return replace(self, columns=tuple(columns))

    def missing_cells(self, X: Any) -> NDArray[np.bool_]:
        """(n, d) which cells are missing, in columns of every type."""
        found = np.isnan(self.code(X))
        _, read = _columns_of(X)
        for j, own in enumerate(self.columns):
            if own.holds == "other":
                found[:, j] = [_is_null(cell) for cell in _listed(read[j][1])]
        return found

    def code(
        self, X: Any, present: NDArray[np.bool_] | None = None, first: int = 0
    ) -> NDArray[np.float64]:
        """Values (n, d) of a table with these columns: numbers, and codes of levels.

        Columns that hold neither are NaN, and so may be rows that are not present. The rows of X
        are those from `first` on of a larger table.
        """
        _, read = _columns_of(X)
        if len(read) != len(self.columns):
            raise ValueError(f"expected {len(self.columns)} columns, got {len(read)}")
        n = len(read[0][1]) if read else 0
        values = np.empty((n, len(read)), order="F")
        for j, (own, (_, cells)) in enumerate(zip(self.columns, read, strict=True)):
            label = column(self.names, j)
            if own.has_limits:
                values[:, j] = _with_limits(cells, label, first)[:, 0]
            else:
                values[:, j] = self._coded(own, cells, label, present, first)
        if self.missing:
            numbers = [j for j, own in enumerate(self.columns) if own.holds == "numbers"]
            values[:, numbers] = with_missing_for(values[:, numbers], self.missing)
        return values

    def code_with_limits(
        self, X: Any, present: NDArray[np.bool_] | None = None, first: int = 0
    ) -> NDArray[np.float64]:
        """`code`, and behind it lower and upper limits of the columns that have some: (n, d + 2 m).

        A limit is NaN where there is none, and so is the value of a cell that has one.
        """
        values = self.code(X, present, first)
        if not self.limited:
            return values
        _, read = _columns_of(X)
        ends = [_with_limits(read[j][1], "", first)[:, 1:] for j in self.limited]
        return np.asfortranarray(np.hstack([values, *ends]))

    def warn_of_rounded(self, X: Any, values: NDArray[Any], first: int = 0) -> None:
        """Warn of whole numbers of a frame that its coded values do not have exactly.

        As levels, two of them may have become one. Arrays warn when they become float64.
        """
        if library_of(X) is not None:
            are_numbers = np.array([own.holds == "numbers" for own in self.columns], bool)
            long = long_columns(eager_frame(X)) & are_numbers
            warn_of_rounded(values[:, : len(long)], long, self.names, first)

    def decode(self, X: Any, values: Array, imputed: NDArray[np.bool_]) -> Any:
        """X with its missing values imputed: levels for codes, in X's own types."""
        if library_of(X) is not None:
            return _frame_like(X, self.columns, values, imputed)
        if all(own.holds == "numbers" for own in self.columns):
            single = isinstance(X, np.ndarray) and X.dtype == np.float32
            return values.astype(np.float32) if single else values
        table = _array(X).astype(object)
        for j, own in enumerate(self.columns):
            if own.has_limits:
                table[:, j] = values[:, j]
                continue
            cells = _imputed(own, table[:, j].tolist(), values[:, j], imputed[:, j])
            for i in np.flatnonzero(imputed[:, j]):
                table[i, j] = cells[i]
        return table

    @staticmethod
    def _coded(
        own: ColumnType, cells: Any, label: str, present: NDArray[np.bool_] | None, first: int
    ) -> Array:
        if own.holds == "other":
            return np.full(len(cells), np.nan)
        if own.holds != "numbers":
            encoded = _encoded(cells)
            if encoded is not None:
                return own.code_distinct(*encoded, label, present, first)
            return own.code(_listed(cells), label, present, first)
        found = _numbers(cells, label)
        if isinstance(found, Refused):
            row, way = first + found.row, "Make it missing (NaN), or numbers as in the fit"
            if found.kind == WRITTEN:
                way = "Convert the column to numbers"
            raise DataError(
                f"column {label} held numbers in the fit, and now holds {found.kind}: "
                f"{found.example} at row {words().number(row)}. {way}",
                row=row,
                name=own.name,
            )
        return np.asarray(found, dtype=F8)


def rows_with(X: Any, j: int, texts: Collection[str]) -> tuple[list[int], list[str]]:
    """Rows of a table of which column j holds one of some texts, and these texts."""
    cells = enumerate(_listed(_columns_of(X)[1][j][1]))
    found = [(i, cell) for i, cell in cells if isinstance(cell, str) and cell in texts]
    return [i for i, _ in found], [cell for _, cell in found]


def first_texts(X: Any, j: int, most: int) -> list[str]:
    """The first different texts of column j."""
    texts = (cell for cell in _listed(_columns_of(X)[1][j][1]) if isinstance(cell, str))
    return list(islice(dict.fromkeys(texts), most))


def contents_of(
    X: Any, present: NDArray[np.bool_] | None = None
) -> tuple[list[str | None], list[Contents]]:
    """Names of the columns of a table, and what they hold in the rows that are present."""
    names, read = _columns_of(X)
    labels = None if None in names else names
    found = []
    for j, (held, cells) in enumerate(read):
        label = column(labels, j)  # type: ignore[arg-type]
        if present is not None and held not in ("numbers", "truth", "other"):
            cells = (
                cells[present] if isinstance(cells, np.ndarray) else cells.filter(present.tolist())
            )
        found.append(Contents.of(held, cells, label))
    return names, found


def names_of(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a frame; None unless all of them are text."""
    labels = labels_of(X)
    return tuple(labels) if all(isinstance(label, str) for label in labels) else None


def _columns_of(X: Any) -> tuple[list[str | None], list[tuple[Holds | None, Any]]]:
    """Names, and of each column what its type says that it holds, and its cells."""
    if library_of(X) is None:
        table = _array(X)
        held: Holds | None = None if table.dtype.kind == "O" else "numbers"
        return [None] * table.shape[1], [(held, x) for x in table.T]
    import narwhals as nw

    X = eager_frame(X)
    labels = labels_of(X)
    read: list[tuple[Holds | None, Any]] = []
    for j in range(len(labels)):
        series = nw.from_native(native_column(X, j), series_only=True)
        read.append((_held(series), series))
    return [label if isinstance(label, str) else None for label in labels], read


def _array(X: Any) -> NDArray[Any]:
    """A table (n, d) that is no frame: of floats, or of objects, masked cells as None."""
    if hasattr(X, "tocsr"):
        raise ValueError(
            "sparse input is not supported where columns are of several kinds: they need a dense "
            "table, which X.toarray() makes"
        )
    table = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    check_two_dimensional(table)
    check_not_empty(table.shape)
    if table.dtype.kind not in "OUS":
        return dense_to_float(table)
    objects = np.array(np.ma.getdata(table), dtype=object)
    objects[np.ma.getmaskarray(table)] = None
    return objects


def _held(series: Any) -> Holds | None:
    """What the type of a column says that it holds; None where only its cells can tell."""
    import narwhals as nw

    if is_extension(series.to_native()) or _is_nested_dictionary(_native_type(series)):
        return "other"
    if series.dtype == nw.Boolean:
        return "truth"
    if series.dtype.is_numeric():
        return "numbers"
    if series.dtype in (nw.Categorical, nw.Enum):
        return "ordered" if getattr(_native_type(series), "ordered", False) else "levels"
    if series.dtype in (nw.Date, nw.Datetime, nw.Duration, nw.Time):
        return "other"
    return None


def _is_nested_dictionary(kind: Any) -> bool:
    """Whether a type of Arrow is a dictionary of lists, structures or intervals: no levels."""
    kind = getattr(kind, "pyarrow_dtype", kind)
    if not hasattr(kind, "index_type"):
        return False
    return kind.value_type.num_fields > 0 or is_extension_type(kind.value_type)


def is_padded(text: str) -> bool:
    """Whether text is digits that begin with a zero, which a number would not keep: 00501.

    >>> is_padded("00501"), is_padded("0"), is_padded("0.5"), is_padded("501")
    (True, False, False, False)
    """
    bare = text.strip()
    return len(bare) > 1 and bare[0] == "0" and _is_digits(bare)


def are_codes(texts: Collection[str]) -> bool:
    """Whether cells are digits, some with leading zeros, as those of postal codes."""
    return any(map(is_padded, texts)) and all(map(_is_digits, texts))


def _is_digits(text: str) -> bool:
    return text.isascii() and text.strip().isdigit()


def _class_of(kind: type) -> str:
    if kind in (bool, np.bool_):
        return "truth"
    if issubclass(kind, date | time | timedelta):
        return "date"
    if issubclass(kind, Real | Decimal):
        return "number" if issubclass(kind, int | float | np.generic) else "odd number"
    if issubclass(kind, str | bytes):
        return "text"
    return "plain" if issubclass(kind, np.generic) else "object"


def _words_among(
    texts: Collection[str],
    is_number: Callable[[str], bool],
    number: Callable[[str], float | None] = PLAIN.number,
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Texts that are neither numbers nor limits, None where there are many; and what others are."""
    found, others = set(), set()
    for text in texts:
        if is_number(text):
            others.add("numeral")
        elif limits_of(text, number) is not None:
            others.add("limit")
        else:
            found.add(text)
            if len(found) > MOST_WORDS:
                return None, frozenset()
    return frozenset(found), frozenset(others)


def _are_dates(levels: Sequence[Any]) -> bool:
    """Whether text is dates or times, but for a few."""
    some = levels[:MOST_DATES]
    found = sum(isinstance(level, str) and is_date(level) for level in some)
    return len(some) > 0 and found >= MOSTLY_DATES * len(some)


def _bounded(levels: Collection[Any], most: int = MOST_KEPT) -> frozenset[Any] | None:
    return None if len(levels) > most else frozenset(levels)


def _sorted(levels: Collection[Any]) -> list[Any]:
    return sorted(levels, key=lambda x: (str(type(x)), x))


def _distinct(cells: Any) -> Collection[Any]:
    """The different cells that are not null; all of them where one is not hashable."""
    encoded = _encoded(cells)
    if encoded is not None:
        return [cell for cell in encoded[0] if cell is not None]
    given = _given(cells)
    try:
        return set(given)
    except TypeError:
        return given


def _encoded(cells: Any) -> tuple[list[Any], NDArray[Any]] | None:
    """Different cells of Arrow's text or dictionaries, and the number of each row's, -1 for null.

    None for any other column.
    """
    native: Any = None if isinstance(cells, np.ndarray) else cells.to_native()
    if library_of(native) != "pyarrow":
        return None
    import pyarrow as pa

    kind = native.type
    is_dictionary = pa.types.is_dictionary(kind) and not pa.types.is_nested(kind.value_type)
    if not (is_dictionary or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if isinstance(native, pa.ChunkedArray):
        native = native.combine_chunks()
    coded = native if pa.types.is_dictionary(kind) else native.dictionary_encode()
    at = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    distinct = coded.dictionary.to_pylist()
    found = np.unique(at)
    used = set(found[found >= 0].tolist())
    return [level if k in used else None for k, level in enumerate(distinct)], at


def _with_limits(cells: Any, label: str, first: int = 0) -> Array:
    """Values, lower and upper limits (n, 3) of cells that are numbers or limits."""
    encoded = _encoded(cells)
    if encoded is None:
        found = _numbers(cells, label)
        if not isinstance(found, Refused):
            return np.column_stack([found, np.full((len(found), 2), np.nan)])
        listed = _listed(cells)
        each = [None if type(cell) is not str and _is_null(cell) else cell for cell in listed]
        for i, cell in enumerate(each):
            if not isinstance(cell, (str, *NUMBERS)):
                raise _neither(cell, first + i, label)
        distinct = list(dict.fromkeys(each))
        place = {cell: k for k, cell in enumerate(distinct)}
        at = np.array([place[cell] for cell in each], dtype=np.intp)
    else:
        distinct, at = [*encoded[0], None], encoded[1]
    values = np.full((len(distinct), 3), np.nan)
    for k, cell in enumerate(distinct):
        limits = limits_of(cell) if isinstance(cell, str) else None
        if limits is not None:
            values[k, 1:] = limits
        elif is_number(cell) if isinstance(cell, str) else isinstance(cell, NUMBERS):
            values[k, 0] = nan if cell is None else float(cell)
        else:
            raise _neither(cell, first + int(np.argmax(at == k)), label)
    return np.asarray(values[at])


def _neither(cell: Any, row: int, label: str) -> ValueError:
    return ValueError(
        f"column {label} held numbers and limits in the fit, and now holds {show(cell)} at row "
        f"{words().number(row)}, which is neither. Make it missing (NaN), or a number"
    )


def _numbers(cells: Any, label: str) -> NDArray[Any] | Refused:
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "fiub":
            return np.asarray(cells, dtype=F8)
        return objects_to_float(cells.astype(object), label)
    return _column_to_float(cells, label)


def _listed(cells: Any) -> list[Any]:
    return list(cells.tolist() if isinstance(cells, np.ndarray) else cells.to_list())


def _given(cells: Any) -> list[Any]:
    return [cell for cell in _listed(cells) if type(cell) is str or not _is_null(cell)]


def _native_type(series: Any) -> Any:
    native = series.to_native()
    return native.type if library_of(native) == "pyarrow" else native.dtype


def _categories(series: Any) -> list[Any]:
    """The categories of a categorical column in their order, sorted where they are in none."""
    import narwhals as nw

    native, own = series.to_native(), _native_type(series)
    if library_of(native) == "pyarrow" and own.ordered:
        chunks = native.unify_dictionaries().chunks
        return list(chunks[0].dictionary.to_pylist()) if chunks else []
    # Categoricals of polars, and of Arrow in pandas, have no list of their own.
    has_list = hasattr(native, "iloc") and hasattr(own, "categories")
    if series.dtype == nw.Enum or has_list:
        return list(own.categories)
    return sorted(set(_given(series)))


def _is_null(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in NULLS:
        return True
    return isinstance(cell, float | np.floating) and bool(cell != cell)


def _some(levels: Sequence[Any], most: int = 6) -> str:
    shown = ", ".join(show(level) for level in levels[:most])
    return shown if len(levels) <= most else f"{shown}, ..."


def _imputed(
    own: ColumnType, cells: list[Any], values: Array, imputed: NDArray[np.bool_]
) -> list[Any]:
    """Cells with their imputed values as Python objects; whole ones where all others are."""
    at = np.flatnonzero(imputed).tolist()
    if own.holds != "numbers":
        for i, value in zip(at, values[at].tolist(), strict=True):
            cells[i] = own.level(value)
        return cells
    observed = [cell for cell in cells if not _is_null(cell)]
    are_whole = all(isinstance(cell, Integral) for cell in observed)
    if not observed:
        are_whole = all(value.is_integer() for value in values[at].tolist())
    are_decimal = bool(observed) and all(isinstance(cell, Decimal) for cell in observed)
    for i in at:
        number = float(values[i])
        if are_whole and number.is_integer():
            cells[i] = int(number)
        else:
            cells[i] = Decimal(repr(number)) if are_decimal else number
    return cells


def _frame_like(
    X: Any, columns: Sequence[ColumnType], values: Array, imputed: NDArray[np.bool_]
) -> Any:
    """The frame X with imputed cells, every column by its position and in its own type."""
    X = eager_frame(X)
    library = library_of(X)
    frame = X.clone() if library == "polars" else X.copy() if hasattr(X, "iloc") else X
    for j, own in enumerate(columns):
        if not (imputed[:, j].any() or own.has_limits):
            continue
        made = _column_like(native_column(X, j), own, values[:, j], imputed[:, j])
        if hasattr(X, "iloc"):
            frame.isetitem(j, made)  # a series: pandas would infer another type of an array
        elif library == "pyarrow":
            field = X.schema.field(j).with_type(made.type)
            frame = frame.set_column(j, field, made)
        else:
            frame = frame.replace_column(j, made.rename(X.columns[j]))
    return frame


def _can_hold(series: Any, levels: Sequence[Any], is_empty: bool) -> bool:
    """Whether the type of a column can hold these levels; `is_empty` if every cell is missing."""
    import narwhals as nw

    dtype, own = series.dtype, _native_type(series)
    if hasattr(series.to_native(), "iloc") and hasattr(own, "categories"):
        return True
    if dtype.is_numeric():
        are_numbers = all(isinstance(level, Real | np.bool_) for level in levels)
        return are_numbers and holds_whole(dtype, np.array(levels, dtype=F8))
    for kinds, held in (
        ((nw.Boolean,), bool | np.bool_),
        ((nw.String, nw.Enum), str),
        ((nw.Date, nw.Datetime), date),
        ((nw.Duration,), timedelta),
        ((nw.Time,), time),
        ((nw.Binary,), bytes),
    ):
        if dtype in kinds:
            return all(isinstance(level, held) for level in levels)
    if dtype == nw.Categorical and is_empty:
        return _can_be(levels, getattr(own, "value_type", None))
    return dtype == nw.Object or not is_empty


def _can_be(levels: Sequence[Any], kind: Any) -> bool:
    """Whether levels can be of a type of Arrow; where there is none, text."""
    if kind is None:
        return all(isinstance(level, str) for level in levels)
    import pyarrow as pa

    try:
        pa.array(levels, type=kind)
    except (TypeError, ValueError):
        return False
    return True


def _new_column(native: Any, series: Any, cells: list[Any], own: ColumnType) -> Any:
    """A column of a type that the cells determine, for that of `native` cannot hold them."""
    import narwhals as nw

    if hasattr(native, "iloc"):
        return type(native)(cells, index=native.index)
    try:
        return nw.new_series("", cells, backend=series.implementation).to_native()
    except (TypeError, ValueError):
        label = "" if own.name is None else f"{show(own.name)} "
        raise DataError(
            f"column {label}is of type {_native_type(series)}, which cannot hold all of the levels "
            f"of the fit ({_some(own.levels)}). Convert it to the type that it had there",
            name=own.name,
        ) from None


def _column_like(native: Any, own: ColumnType, values: Array, imputed: NDArray[np.bool_]) -> Any:
    """One column of a frame with its imputed cells, in floating point where its type has none."""
    import narwhals as nw

    series = nw.from_native(native, series_only=True)
    is_number = series.dtype.is_numeric() or series.dtype == nw.Boolean
    if own.holds == "numbers" and (is_number or own.has_limits):
        made = _own_type(native, values, imputed) if is_number else None
        if made is not None:
            return made
        if hasattr(native, "iloc"):
            return type(native)(values, index=native.index)
        return nw.new_series("", values, nw.Float64, backend=series.implementation).to_native()
    cells = list(series.to_list())
    is_empty = all(_is_null(cell) for cell in cells)
    cells = _imputed(own, cells, values, imputed)
    made = [cells[i] for i in np.flatnonzero(imputed).tolist()]
    if not _can_hold(series, made, is_empty):
        if is_number and all(isinstance(cell, Real | np.bool_) for cell in made):
            cells = [nan if _is_null(cell) else float(cell) for cell in cells]
        return _new_column(native, series, cells, own)
    if series.dtype.is_integer():  # Arrow makes no integers of truth values
        cells = [int(cell) if isinstance(cell, bool | np.bool_) else cell for cell in cells]
    if hasattr(native, "iloc"):
        dtype = native.dtype
        if hasattr(dtype, "categories"):
            dtype = type(dtype)(_with_levels(dtype.categories, own, cells), ordered=dtype.ordered)
        return type(native)(cells, index=native.index, dtype=dtype)
    if library_of(native) == "pyarrow":
        import pyarrow
        import pyarrow.compute

        if pyarrow.types.is_dictionary(native.type):  # with its levels in their order
            coded = native.unify_dictionaries().chunk(0).dictionary
            coded = pyarrow.array(_with_levels(coded.to_pylist(), own, cells), type=coded.type)
            at = pyarrow.compute.index_in(pyarrow.array(cells, type=coded.type), coded)
            at = at.cast(native.type.index_type)
            made = pyarrow.DictionaryArray.from_arrays(at, coded, ordered=native.type.ordered)
            return pyarrow.chunked_array([made])
        return pyarrow.chunked_array([pyarrow.array(cells, type=native.type)])
    dtype = native.dtype
    if series.dtype == nw.Enum:
        dtype = type(dtype)(_with_levels(dtype.categories, own, cells))
    return type(native)("", cells, dtype=dtype)


def _with_levels(categories: Iterable[Any], own: ColumnType, cells: Iterable[Any]) -> list[Any]:
    """The categories of a column, after those of the fit in their order if cells need one more."""
    known = list(categories)
    if all(_is_null(cell) or cell in known for cell in cells):
        return known
    levels = [own.level(float(code)) for code in range(len(own.levels))]
    return [*levels, *(each for each in known if each not in levels)]
