"""What points can be coloured by: categories and numbers, from columns of any kind.

A column of few different values is a category, one of many numbers or dates a scale, and one in
which nearly every value is different names the rows: it is shown beside them and colours nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from eigengap.plots.numbers.dates import days_of, in_words, is_none
from eigengap.reporting.words import clean, distinct
from eigengap.sources import quote

MOST_LEVELS = 8  # colours that can be distinguished, by the colour-blind too
FEW_NUMBERS = 8  # different whole numbers that are still categories
NAMING = 0.5  # share of different values from which a text names rows
OTHER = "(other)"
MISSING = "(missing)"


@dataclass(frozen=True)
class Colour:
    """A column, as categories or as a scale."""

    name: str
    levels: tuple[str, ...] = ()  # of a category; empty for a scale
    codes: tuple[int, ...] = ()  # (m,) positions in levels
    values: tuple[float | None, ...] = ()  # (m,) of a scale
    note: str = ""
    dates: bool = False  # whether values are days since 1970-01-01
    missing: int = -1  # position in levels of rows without a value; -1 where all have one

    @property
    def is_category(self) -> bool:
        return bool(self.levels)


def colour_of(name: str, values: Sequence[Any], *, asked: bool = False) -> Colour | None:
    """A column as a colour; None where it only names the rows, or says nothing.

    Numbers of rows are a scale where they are asked for by name.
    """
    observed = [value for value in values if not is_none(value)]
    if not observed:
        return None
    if all(_is_number(value) for value in observed):
        kinds = {float(value) for value in observed}
        whole = all(kind == int(kind) for kind in kinds)
        if whole and len(kinds) <= FEW_NUMBERS:
            return _category(name, [None if is_none(v) else f"{int(v)}" for v in values], int)
        if whole and len(kinds) > 0.8 * len(observed) and len(observed) > 20 and not asked:
            return None  # numbers of the rows
        return Colour(name, values=tuple(None if is_none(v) else float(v) for v in values))
    days = days_of(values)
    if days is not None and len({day for day in days if day is not None}) > MOST_LEVELS:
        return Colour(name, values=days, dates=True)
    texts = [None if is_none(value) else clean(in_words(value)) for value in values]
    different = len({text for text in texts if text is not None})
    if different > NAMING * len(observed) and different > MOST_LEVELS:
        return None
    return _category(name, texts, str)


def asked_colour(name: str, values: Sequence[Any]) -> Colour:
    """A column that the caller wants to see as a colour; ValueError where it cannot be one."""
    found = colour_of(clean(name), values, asked=True)
    if found is not None:
        return found
    observed = [str(value) for value in values if not is_none(value)]
    if not observed:
        raise ValueError(f"color={quote(name)} holds no value in the rows that are shown")
    raise ValueError(
        f"color={quote(name)} has {len(set(observed))} different texts in {len(observed)} rows: it "
        "names rows, and so many colours cannot be distinguished. Give a column of fewer "
        "categories, of numbers or of dates"
    )


def _category(name: str, texts: Sequence[str | None], order: Any) -> Colour:
    counts = Counter(text for text in texts if text is not None)
    levels = sorted(counts, key=lambda text: (order(text), text))
    note = ""
    if len(levels) > MOST_LEVELS:
        most = sorted(counts, key=lambda text: (-counts[text], text))[: MOST_LEVELS - 1]
        left = len(levels) - len(most)
        note = f"{left} rarer values of {name} are together as “other”."
        levels = sorted(most, key=lambda text: (order(text), text))
        texts = [text if text is None or text in set(most) else OTHER for text in texts]
        levels.append(OTHER)
    places = {level: k for k, level in enumerate(levels)}
    missing = len(levels) if any(text is None for text in texts) else -1
    if missing >= 0:
        levels.append(MISSING)
    codes = tuple(missing if text is None else places[text] for text in texts)
    return Colour(name, distinct(levels), codes, note=note, missing=missing)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Integral) and not isinstance(value, bool)
