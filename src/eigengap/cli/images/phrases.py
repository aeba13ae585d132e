"""What the library says of images and arrays, said of pictures and of the options of a command.

`phrases` then does the same for what tables and pictures share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from eigengap.cli.phrases import Rule
from eigengap.runtime.warnings import captured, warn


@contextmanager
def of_options() -> Iterator[None]:
    """What is refused or warned of inside is told in the words of the command line."""
    try:
        with captured() as heard:
            yield
    except ValueError as error:
        error.args = (in_options(str(error)),)
        raise
    finally:
        for told in heard:
            warn(in_options(told.message), told.category)


def in_options(message: str) -> str:
    """The message with arrays and arguments replaced by pictures and options.

    >>> in_options("too few to learn the noise from: give sigma, its standard deviation")
    'too few to learn the noise from: give it with --sigma SD'
    >>> in_options("n_components = 90 is more than the 64 entries of a patch")
    '-k 90 is more than the 64 entries of a patch'
    >>> in_options("infinite at row 0, column 4, channel 2, counted from 0")
    'infinite at row 0, column 5, channel 3'
    """
    for pattern, instead in RULES:
        message = pattern.sub(instead, message)
    return message


def _from_one(match: re.Match[str]) -> str:
    """Places counted as people do; `phrases` counts the row."""
    channel = "" if match[3] is None else f", channel {int(match[3]) + 1}"
    return f"{match[1]}, column {int(match[2]) + 1}{channel}"


RULES: tuple[Rule, ...] = (
    (
        re.compile(r"(row \d+), column (\d+)(?:, channel (\d+))?(?:, counted from 0)?"),
        _from_one,
    ),
    (re.compile(r"^channel (\d+) is"), lambda match: f"channel {int(match[1]) + 1} is"),
    (re.compile(r"give sigma, its standard deviation"), "give it with --sigma SD"),
    (re.compile(r"n_components = (\d+) is more"), r"-k \1 is more"),
    (
        re.compile(r"read it with another package.* and give the array(?: as float64)?"),
        "convert it with another program first, to PNG, or to TIFF of 8 or 16 bits or of floats "
        "that is not compressed",
    ),
    (re.compile(r"If you trust it raise PIL.*"), "Make it smaller first"),
    (re.compile(r", or scale the array to 0 \.\. 255 and give uint8"), ""),
    (re.compile(r", or give array\[\.\.\., :-1\]"), ""),
)
