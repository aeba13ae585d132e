"""Several CSV files that are one table: numbers are written in one way in all of them."""

from __future__ import annotations

from collections.abc import Sequence

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv.reader import CsvReader
from eigengap.wording import words


def agree_on_decimals(readers: Sequence[CsvReader]) -> None:
    """Refuse files whose decimal marks differ: 1.500 is a thousand and a half beside 1,5.

    A file whose first rows show no mark, because all numbers are whole, follows the others.
    """
    marked = [reader for reader in readers if reader.dialect.mark is not None]
    if not marked:
        return
    first, mark = marked[0], marked[0].dialect.mark
    assert mark is not None
    for other in marked[1:]:
        if other.dialect.mark is not None and other.dialect.mark.decimal != mark.decimal:
            raise UnreadableError(
                other.where,
                f"{other.dialect.mark}, and in {words().path(first.where)} {mark}. Files that "
                "are read "
                "as one table have one decimal mark: write the numbers of all files in one way, or "
                "read the files apart",
            )
    for reader in readers:
        if reader.dialect.mark is None:
            reader.follow(mark.decimal)
