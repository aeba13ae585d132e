"""What a cell that is no number was probably meant to be, and how to write it as one.

Such a cell is never read as the number: 1,000 may be a thousand or one. It is only put into words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from eigengap.sources.files.csv.cells import Cells, has_decimal_comma
from eigengap.sources.wording import quote

MINUS = "\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d"  # signs and dashes that look like one
SPACES = " \u00a0\u2007\u2009\u202f"
MONEY = "$€£¥₹¢₽₩₪₫฿"
MULTIPLES = {"k": 10**3, "K": 10**3, "M": 10**6, "Mio": 10**6, "bn": 10**9, "B": 10**9, "G": 10**9}
LONGEST = 40  # characters
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_COMMENT = re.compile(r"\s*(?:#|//|;)|\s+%(?=.)")  # behind a number; 5 % is a percentage


@dataclass(frozen=True)
class Likeness:
    """A likeness, and the way to write what is meant."""

    like: str  # "a percentage"
    way: str  # "write 0.05, or 5 without the sign"
    is_sure: bool = True  # else only where the other cells of the column are numbers

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
    for likeness in (
        _minus, _digits, _hexadecimal, _percentage, _money, _parted, _decimal_comma, _exponent,
        _bound, _in_brackets, _with_unit, _several,
    ):  # fmt: skip
        found = likeness(text)
        if found is not None:
            return found
    return None


def is_followed_by_comment(cell: str) -> bool:
    """Whether a mark of comments stands behind a number."""
    number, *comment = _COMMENT.split(cell, maxsplit=1)
    return (
        bool(comment) and re.fullmatch(_NUMBER.replace(r"\.", "[.,]"), number.strip()) is not None
    )


def _among_commas(text: str) -> Likeness | None:
    if re.fullmatch(r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})?", text, re.ASCII):
        return None  # a date
    if "." in text and re.fullmatch(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?", text, re.ASCII):
        return Likeness(
            "a number with points", "write all numbers of the file with a decimal comma"
        )
    found = likeness_of(text.replace(",", "."))
    if found is None:
        return None
    return replace(found, way=re.sub(r"\.(?=\d)", ",", found.way))


def _minus(text: str) -> Likeness | None:
    if text[0] not in MINUS:
        return None
    number = _plain("-" + text[1:].strip())
    if number is None:
        return None
    sign = f"U+{ord(text[0]):04X}"
    return Likeness(
        f"a negative number with a typographic minus sign ({sign})",
        f"write {number}, with the hyphen of the keyboard",
    )


def _digits(text: str) -> Likeness | None:
    """Digits of another script, which Python reads and a table of numbers should not hold."""
    if text.isascii() or not re.fullmatch(r"[+-]?\d+(?:\.\d*)?", text):
        return None
    number = "".join(str(int(letter)) if letter.isdecimal() else letter for letter in text)
    return Likeness("a number in digits of another script", f"write {number}")


def _hexadecimal(text: str) -> Likeness | None:
    if not re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]{1,12}", text):
        return None
    return Likeness("a hexadecimal number", f"write {int(text, 16)}")


def _percentage(text: str) -> Likeness | None:
    number = _plain(text[:-1].strip()) if text[-1] in "%‰" else None
    if number is None:
        return None
    share = float(number) / (100.0 if text[-1] == "%" else 1000.0)
    return Likeness(
        "a percentage" if text[-1] == "%" else "a number per thousand",
        f"write {share:.15g} or, in all of the column, {number} without the sign",
    )


def _money(text: str) -> Likeness | None:
    bare = text.strip(MONEY + SPACES)
    signed = re.fullmatch(rf"([+-])[{MONEY}](.+)", text)
    number = _plain(signed[1] + signed[2] if signed else bare)
    if number is None or not set(text) & set(MONEY):
        return None
    return Likeness("a sum of money", f"write {number} without the sign")


def _parted(text: str) -> Likeness | None:
    """Thousands set apart: by underscores, spaces, apostrophes, commas or points."""
    for marks, word in (
        ("_", "a number with underscores"),
        (SPACES, "thousands parted by spaces"),
        ("'\u2019", "thousands parted by apostrophes"),
    ):
        number = _joined(text, marks)
        if number is not None:
            return Likeness(word, f"write {number}")
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", text):
        whole, part = text.replace(",", ""), text.replace(",", ".")
        return Likeness(
            "thousands parted by a comma, or a decimal comma", f"write {whole} or {part}, as meant"
        )
    number = _joined(text, ",")
    if number is not None:
        return Likeness("thousands parted by commas", f"write {number}")
    if re.fullmatch(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+", text):
        number = text.replace(".", "").replace(",", ".")
        return Likeness("thousands parted by points, with a decimal comma", f"write {number}")
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}(?:\.\d{3}){2,}", text):
        return Likeness("thousands parted by points", f"write {text.replace('.', '')}")
    return None


def _joined(text: str, marks: str) -> str | None:
    """A number without the marks between its digits; the groups are threes but for underscores."""
    group = r"\d+" if marks == "_" else r"\d{3}"
    if not re.fullmatch(rf"[+-]?\d{{1,3}}\d*(?:[{marks}]{group})+(?:\.\d*)?", text, re.ASCII):
        return None
    if marks != "_" and not re.match(rf"[+-]?\d{{1,3}}[{marks}]", text):
        return None
    return re.sub(f"[{marks}]", "", text)


def _decimal_comma(text: str) -> Likeness | None:
    if not has_decimal_comma(text):
        return None
    return Likeness(
        "a decimal comma",
        f"write {text.replace(',', '.')}; commas are read where cells are parted by semicolons",
    )


def _exponent(text: str) -> Likeness | None:
    """1.5D+03 as Fortran writes it."""
    if not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)[dD][+-]?\d+", text, re.ASCII):
        return None
    return Likeness("a number as Fortran writes it", f"write {re.sub('[dD]', 'e', text)}")


def _bound(text: str) -> Likeness | None:
    found = re.fullmatch(rf"(?:[<>≤≥]=?)\s*({_NUMBER})", text, re.ASCII)
    if found is None:
        return None
    return Likeness(
        "a bound and not a value", f"write the number to go by, for instance {found[1]}"
    )


def _in_brackets(text: str) -> Likeness | None:
    found = re.fullmatch(r"\((\d+\.?\d*|\.\d+)\)", text, re.ASCII)
    if found is None:
        return None
    return Likeness("a negative number in brackets, as accountants write it", f"write -{found[1]}")


def _with_unit(text: str) -> Likeness | None:
    found = re.fullmatch(rf"({_NUMBER})([{SPACES}]?)([^\W\d_]{{1,4}}|°[CF]?)", text)
    if found is None:
        return None
    is_sure = bool(found[2])  # 5 kg; 12A may be a code
    if found[3] in MULTIPLES:
        times = MULTIPLES[found[3]]
        return Likeness(
            f"a multiple of {times:,d}".replace(",", " "),
            f"write it out, {float(found[1]) * times:.15g} if that is meant",
            False,
        )
    return Likeness(f"a number with a unit ({quote(found[3])[1:-1]})", f"write {found[1]}", is_sure)


def _several(text: str) -> Likeness | None:
    """A line whose cells are parted by spaces."""
    cells = text.split()
    if len(cells) < 2 or any(Cells().number(cell) is None for cell in cells):
        return None
    return Likeness(
        f"{len(cells)} numbers parted by spaces",
        "put a comma, a semicolon or a tab between the cells of all lines",
    )


def _plain(text: str) -> str | None:
    """A number as we read it, however its thousands are parted; None where it is none."""
    for marks in (",", SPACES, "'\u2019", "_"):
        text = _joined(text, marks) or text
    if has_decimal_comma(text):
        text = text.replace(",", ".")
    number = Cells().number(text)
    is_one = number is not None and number == number and abs(number) != float("inf")
    return text if is_one and re.match(r"[+-]?[\d.]", text) else None
