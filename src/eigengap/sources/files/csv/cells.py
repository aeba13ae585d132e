"""What a cell of a CSV file means: a number, a missing value, or text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import nan
from typing import Any

# The spellings of "missing" that pandas takes by default, and a cell with nothing in it.
MISSING_TEXTS = frozenset(
    {
        *("", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "<NA>", "n/a", "NULL", "null", "None"),
        *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
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

    missing: frozenset[str] = MISSING_TEXTS
    decimal: str = "."

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

    def needs_python(self, text: str) -> bool:
        """Whether pyarrow does not read a cell that is a number or missing value to us."""
        bare = text.strip(WHITE)
        return text not in self.missing and (bare in self.missing or bare.lower() in TRUTH_VALUES)


class EitherMark(Cells):
    """Cells of a file in which some numbers have a decimal point, and others a comma."""

    def number(self, text: str) -> float | None:
        found = super().number(text)
        return Cells(self.missing, ",").number(text) if found is None else found


def has_decimal_comma(text: str) -> bool:
    return _WITH_COMMA.fullmatch(text.strip(WHITE)) is not None


def has_decimal_point(text: str) -> bool:
    return "." in text and _NUMBER.fullmatch(text.strip(WHITE)) is not None
