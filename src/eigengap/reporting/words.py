"""Numbers, and lists of names, as the report writes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite, log10

NARROW = "\u202f"  # between groups of three digits
MINUS = "\u2212"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(n: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(0, "row"), count(12345, "row")
    ('1 row', '0 rows', '12\\u202f345 rows')
    """
    return f"{whole(n)} {noun if n == 1 else noun + 's'}"


def whole(n: int) -> str:
    """A whole number, its digits in groups of three from 10 000 on."""
    text = f"{abs(n):,}".replace(",", NARROW) if abs(n) >= 10_000 else str(abs(n))
    return (MINUS if n < 0 else "") + text


def number(value: float, digits: int = 3) -> str:
    """A measured number to some significant digits.

    >>> number(-14.1184, 4), number(0.000123456), number(123456.7), number(float("nan"))
    ('−14.12', '0.000123', '123\\u202f457', 'n/a')
    """
    if not isfinite(value):
        return "n/a" if value != value else (MINUS if value < 0 else "") + "∞"
    if value == 0:
        return "0"
    size = floor(log10(abs(value)))
    if size >= 9 or size < -5:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.replace('-', MINUS)} × 10{str(int(power)).translate(RAISED)}"
    places = max(digits - 1 - size, 0)
    if places == 0 and abs(value) >= 10_000:
        return whole(round(value))
    return f"{value:.{places}f}".replace("-", MINUS)


def brief(value: float) -> str:
    """A cell as it was written: four digits, and no zeros after them.

    >>> brief(0.301), brief(-400.0), brief(27.0512)
    ('0.301', '−400', '27.05')
    """
    text = number(value, 4)
    return text.rstrip("0").rstrip(".") if "." in text and "×" not in text else text


def fixed(value: float, places: int = 2) -> str:
    """A number to some decimals, as correlations are written.

    >>> fixed(-0.123), fixed(-0.0001)
    ('−0.12', '0.00')
    """
    if not isfinite(value):
        return "n/a"
    text = f"{value:.{places}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", MINUS)


def percent(share: float) -> str:
    """A share in per cent: two digits, more only where they distinguish a value from 0 or 100.

    >>> percent(0.0025), percent(0.12), percent(0.9999), percent(1 - 1e-9), percent(0.00001)
    ('0.25 %', '12 %', '99.99 %', '100 %', '< 0.01 %')
    """
    value = 100 * share
    if not isfinite(value):
        return "n/a"
    if abs(value - 100) < 0.005:
        return "100 %"
    if 0 < value < 0.01:
        return "< 0.01 %"
    if 99.5 <= value < 100 or 0 < value < 1:
        return f"{value:.2f} %"
    return f"{value:.1f} %".replace(".0 %", " %") if value < 10 else f"{value:.0f} %"


def p_value(p: float) -> str:
    """A probability as papers write it.

    >>> p_value(0.2), p_value(0.0123), p_value(1e-9)
    ('0.20', '0.012', '< 0.0001')
    """
    if p < 1e-4:
        return "< 0.0001"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.2g}"


def p_is(p: float) -> str:
    """As a sentence has it.

    >>> p_is(0.2), p_is(1e-9)
    ('p = 0.20', 'p < 0.0001')
    """
    value = p_value(p)
    return f"p {value}" if value.startswith("<") else f"p = {value}"


def listing(names: Sequence[str], most: int = 5) -> str:
    """Names as a phrase, the last of very many left out.

    >>> listing(["a"]), listing(["a", "b"]), listing(["a", "b", "c"], most=2)
    ('a', 'a and b', 'a, b and 1 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {whole(len(names) - most)} more"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
