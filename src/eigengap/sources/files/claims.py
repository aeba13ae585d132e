"""What a file claims to hold, against its size, before anything of it is read.

Formats of chunks need not store a chunk that holds only the fill value, so that a file of a
kilobyte can claim a terabyte, and reading it would not end. Real tables are not compressed a
thousandfold: deflate cannot do more, and others do so for constants only.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from eigengap.exceptions import UnreadableError
from eigengap.printable import quoted
from eigengap.runtime.memory import require_memory

SMALL = 1 << 30  # bytes that are read in seconds, whatever the file is
MOST = 1000  # bytes of table for each byte of the file


def require_plausible(where: str, claimed: int, stored: int) -> None:
    """Refuse a table of `claimed` bytes in a file of `stored` bytes, where it is mostly not there.

    >>> require_plausible("a.h5", 8_000_000_000, 50_000_000)
    >>> require_plausible("a.h5", 800_000_000_000, 1_400)
    Traceback (most recent call last):
    ...
    eigengap.sources.reader.UnreadableError: "a.h5": it claims 800 GB of numbers and takes 1.4 kB...
    """
    if claimed > max(SMALL, MOST * stored):
        raise UnreadableError(
            where,
            f"it claims {_size(claimed)} of numbers and takes {_size(stored)}: nearly all of them "
            "were never written, and are fill values. Keep the rows that were written, or, if all "
            "of them are meant, pass the array itself or a Dask array of it",
        )


def require_chunk(where: str, lengths: Sequence[int] | None, itemsize: int) -> None:
    """Refuse chunks that memory does not hold: one is decoded as a whole."""
    if lengths is not None:
        way_out = "write the file in smaller chunks, or read it on a machine with more memory"
        require_memory(float(prod(lengths)) * itemsize, f"a chunk of {quoted(where)}", way_out)


def _size(count: int) -> str:
    """Bytes in three digits.

    >>> _size(1_400), _size(10**30)
    ('1.4 kB', '1e+18 TB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"
