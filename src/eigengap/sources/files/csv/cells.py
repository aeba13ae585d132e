"""What a cell of a CSV file means: a number, a missing value, or text.

Text that was probably meant to be a number is never read as one: 1,000 may be a thousand or one. It
is only put into words, with the way to write it (`likeness_of`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, nan
from typing import Any

from eigengap.sources.wording import quote

# The spellings of "missing" that pandas takes by default, and a cell with nothing in it.
MISSING_TEXTS = frozenset(
    {
        *("", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "<NA>", "n/a", "NULL", "null", "None"),
        *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
# Of these, words that are levels too, "None" of a survey: missing only where all else is numbers or
# truth values.
NULL_WORDS = frozenset({"NULL", "null", "None"})
WHITE = " \t\n\r\v\f"  # bytes of UTF-8 are letters here, and A0 or 85 may end one
TRUTH_VALUES = {"true": 1.0, "false": 0.0}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
# As pyarrow reads them: nan(ind) is what C writes.
_NAN = re.compile(r"[+-]?nan(?:\(\w*\))?", re.ASCII | re.IGNORECASE)
_WITH_COMMA = re.compile(r"[+-]?\d*,\d+(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Cells:
    """How numbers and missing values are written in one file."""

    asked: frozenset[str] = frozenset()  # what is missing besides MISSING_TEXTS
    decimal: str = "."

    @cached_property
    def missing(self) -> frozenset[str]:
        return MISSING_TEXTS | self.asked

    def number(self, text: str) -> float | None:
        """The number in a cell, NaN for a missing value, None for text."""
        text = text.strip(WHITE)
        if self.is_missing(text):
            return nan
        if self.decimal == "," and "." not in text:
            text = text.replace(",", ".")
        elif self.decimal == ",":
            return None
        if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text):
            return float(text)
        return TRUTH_VALUES.get(text.lower())

    def to_arrow(self, kinds: dict[str, Any]) -> Any:
        """The same to pyarrow, for columns of these types."""
        from pyarrow import csv

        return csv.ConvertOptions(
            column_types=kinds,
            include_columns=list(kinds),
            null_values=[text.encode("latin-1").decode() for text in sorted(self.missing)],
            strings_can_be_null=False,
            decimal_point=self.decimal,
            check_utf8=False,
        )

    def is_missing(self, text: str) -> bool:
        bare = text.strip(WHITE)
        return bare in self.missing or _NAN.fullmatch(bare) is not None

    def is_missing_text(self, text: str) -> bool:
        """The same in a column of text, where "None" is a level unless it is asked for."""
        bare = text.strip(WHITE)
        return self.is_missing(bare) and (bare not in NULL_WORDS or bare in self.asked)

    def needs_python(self, text: str) -> bool:
        """Whether pyarrow does not read a cell that is a number or missing value to us."""
        bare = text.strip(WHITE)
        return text not in self.missing and (bare in self.missing or bare.lower() in TRUTH_VALUES)


class EitherMark(Cells):
    """Cells of a file in which some numbers have a decimal point, and others a comma."""

    def number(self, text: str) -> float | None:
        found = super().number(text)
        return Cells(self.asked, ",").number(text) if found is None else found


def has_decimal_comma(text: str) -> bool:
    return _WITH_COMMA.fullmatch(text.strip(WHITE)) is not None


def has_decimal_point(text: str) -> bool:
    return "." in text and _NUMBER.fullmatch(text.strip(WHITE)) is not None


MINUS = "\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d"  # signs and dashes that look like one
SPACES = " \u00a0\u2007\u2009\u202f"
APOSTROPHES = "'\u2019"
MONEY = "$€£¥₹¢₽₩₪₫฿"
MULTIPLES = {"k": 10**3, "K": 10**3, "M": 10**6, "Mio": 10**6, "bn": 10**9, "B": 10**9, "G": 10**9}
LONGEST = 40  # characters
_SOME_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMMENT = re.compile(r"\s*(?:#|//|;)|\s+%(?=.)")  # behind a number; 5 % is a percentage
PARTED = {
    "_": "a number with underscores",
    SPACES: "thousands parted by spaces",
    APOSTROPHES: "thousands parted by apostrophes",
    ",": "thousands parted by commas",
}
Match = re.Match[str]
# A pattern, what it looks like, and what to write instead; the first that matches. Digits of
# another script are numbers to Python; Fortran writes 1.5D+03, accountants (12) for -12.
NOTATIONS: tuple[tuple[str, str, Callable[[Match], str]], ...] = (
    (r"[+-]?\d+(?:\.\d*)?", "a number in digits of another script", lambda m: _ascii(m[0])),
    (r"[+-]?0[xX][0-9a-fA-F]{1,12}", "a hexadecimal number", lambda m: str(int(m[0], 16))),
    (
        r"[+-]?[1-9]\d{0,2},\d{3}",
        "thousands parted by a comma, or a decimal comma",
        lambda m: f"{m[0].replace(',', '')} or {m[0].replace(',', '.')}, as meant",
    ),
    (
        r"[+-]?\d{1,3}(?:\.\d{3})+,\d+",
        "thousands parted by points, with a decimal comma",
        lambda m: m[0].replace(".", "").replace(",", "."),
    ),
    (
        r"[+-]?[1-9]\d{0,2}(?:\.\d{3}){2,}",
        "thousands parted by points",
        lambda m: m[0].replace(".", ""),
    ),
    (
        r"(?a:[+-]?(?:\d+\.?\d*|\.\d+)[dD][+-]?\d+)",
        "a number as Fortran writes it",
        lambda m: re.sub("[dD]", "e", m[0]),
    ),
    (
        rf"(?a:[<>≤≥]=?\s*({_SOME_NUMBER}))",
        "a bound and not a value",
        lambda m: f"the number to go by, for instance {m[1]}",
    ),
    (
        r"(?a:\((\d+\.?\d*|\.\d+)\))",
        "a negative number in brackets, as accountants write it",
        lambda m: f"-{m[1]}",
    ),
)


@dataclass(frozen=True)
class Likeness:
    """A likeness, and the way to write what is meant."""

    like: str  # "a percentage"
    way: str  # "write 0.05, or 5 without the sign"
    is_sure: bool = True  # else only where the other cells of the column are numbers
    is_line: bool = False  # whether it is several cells, which a reader has not parted

    def __str__(self) -> str:
        return f"looks like {self.like}: {self.way}"


def likeness_of(cell: str, decimal: str = ".") -> Likeness | None:
    """What a text resembles; None where it resembles no number.

    `decimal` is the mark in the numbers of its file.

    >>> print(likeness_of("1_000"))
    looks like a number with underscores: write 1000
    >>> print(likeness_of("5%"))
    looks like a percentage: write 0.05 or, in all of the column, 5 without the sign
    >>> print(likeness_of("1,5"))
    looks like a decimal comma: write 1.5; commas are read where cells are parted by semicolons
    >>> likeness_of("?") is likeness_of("12 Main St") is None
    True
    """
    text = cell.strip()
    if is_followed_by_comment(text):
        number = _COMMENT.split(text)[0].strip()
        return Likeness(
            "a number with a comment", f"write {number}; comments stand on lines of their own"
        )
    if not text or len(text) > LONGEST or Cells(decimal=decimal).number(text) is not None:
        return None
    if decimal == ",":
        return _among_commas(text)
    return _with_sign(text) or _in_other_notation(text) or _with_unit(text) or _several(text)


def is_followed_by_comment(cell: str) -> bool:
    """Whether a mark of comments stands behind a number."""
    number, *comment = _COMMENT.split(cell, maxsplit=1)
    pattern = _SOME_NUMBER.replace(r"\.", "[.,]")
    return bool(comment) and re.fullmatch(pattern, number.strip()) is not None


def _among_commas(text: str) -> Likeness | None:
    if re.fullmatch(r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})?", text, re.ASCII):
        return None  # a date
    if "." in text and re.fullmatch(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?", text, re.ASCII):
        return Likeness(
            "a number with points", "write all numbers of the file with a decimal comma"
        )
    found = likeness_of(text.replace(",", "."))
    return found and replace(found, way=re.sub(r"\.(?=\d)", ",", found.way))


def _with_sign(text: str) -> Likeness | None:
    """A typographic minus, a percent sign, or that of a currency."""
    if text[0] in MINUS and (number := _plain("-" + text[1:].strip())) is not None:
        return Likeness(
            f"a negative number with a typographic minus sign (U+{ord(text[0]):04X})",
            f"write {number}, with the hyphen of the keyboard",
        )
    if text[-1] in "%‰" and (number := _plain(text[:-1].strip())) is not None:
        like, whole = ("a percentage", 100) if text[-1] == "%" else ("a number per thousand", 1000)
        return Likeness(
            like,
            f"write {float(number) / whole:.15g} or, in all of the column, {number} without the "
            "sign",
        )
    signed = re.fullmatch(rf"([+-])[{MONEY}](.+)", text)
    number = _plain(signed[1] + signed[2] if signed else text.strip(MONEY + SPACES))
    if number is not None and set(text) & set(MONEY):
        return Likeness("a sum of money", f"write {number} without the sign")
    return None


def _in_other_notation(text: str) -> Likeness | None:
    for pattern, like, meant in NOTATIONS:
        if found := re.fullmatch(pattern, text):
            return Likeness(like, f"write {meant(found)}")
    for marks, like in PARTED.items():
        if (number := _joined(text, marks)) is not None:
            return Likeness(like, f"write {number}")
    if has_decimal_comma(text):
        number = text.replace(",", ".")
        return Likeness(
            "a decimal comma",
            f"write {number}; commas are read where cells are parted by semicolons",
        )
    return None


def _ascii(text: str) -> str:
    return "".join(str(int(letter)) if letter.isdecimal() else letter for letter in text)


def _with_unit(text: str) -> Likeness | None:
    found = re.fullmatch(rf"({_SOME_NUMBER})([{SPACES}]?)([^\W\d_]{{1,4}}|°[CF]?)", text)
    if found is None:
        return None
    if times := MULTIPLES.get(found[3]):
        return Likeness(
            f"a multiple of {times:,d}".replace(",", " "),
            f"write it out, {float(found[1]) * times:.15g} if that is meant",
            False,
        )
    unit = quote(found[3])[1:-1]
    is_sure = bool(found[2])  # 5 kg; 12A may be a code
    return Likeness(f"a number with a unit ({unit})", f"write {found[1]}", is_sure)


def _several(text: str) -> Likeness | None:
    """A line whose cells are parted by spaces."""
    cells = text.split()
    if len(cells) < 2 or any(Cells().number(cell) is None for cell in cells):
        return None
    return Likeness(
        f"{len(cells)} numbers parted by spaces",
        "put a comma, a semicolon or a tab between the cells of all lines",
        is_line=True,
    )


def _joined(text: str, marks: str) -> str | None:
    """A number without the marks between its digits; the groups are threes but for underscores."""
    groups = r"\d+(?:_\d+)+" if marks == "_" else rf"\d{{1,3}}(?:[{marks}]\d{{3}})+"
    if not re.fullmatch(rf"[+-]?{groups}(?:\.\d*)?", text, re.ASCII):
        return None
    return re.sub(f"[{marks}]", "", text)


def _plain(text: str) -> str | None:
    """A number as we read it, however its thousands are parted; None where it is none."""
    for marks in (",", SPACES, APOSTROPHES, "_"):
        text = _joined(text, marks) or text
    if has_decimal_comma(text):
        text = text.replace(",", ".")
    number = Cells().number(text)
    is_one = number is not None and isfinite(number)
    return text if is_one and re.match(r"[+-]?[\d.]", text) else None
