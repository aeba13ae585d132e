"""From every row of a table to one row of an output, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eigengap.cli.errors import shown
from eigengap.cli.narration import Narrator, listing, many, size
from eigengap.cli.progress import counting_rows
from eigengap.cli.tables.outputs import NUMBERS, form_of, open_output
from eigengap.cli.tables.pieces import Piece, pieces
from eigengap.cli.tables.table import Table

Columns = Sequence[Any]  # arrays of numbers or of text, one for each name


def write_rows(
    table: Table,
    names: Sequence[str],
    of: Callable[[Piece, Table], Columns],
    output: str | None,
    force: bool,
    narrator: Narrator,
) -> None:
    """Write ids and `of` of every piece beside them; without an output `of` sees all pieces."""
    import pyarrow as pa

    if output is None:
        with narrator.hearing(), counting_rows(narrator, "Reading", None) as done:
            for piece in pieces(table):
                of(piece, table)
                done(piece.n_rows)
        return
    ids = list(table.ids)
    if ids and form_of(output) == NUMBERS:
        narrator.note(f"{listing([table.name(j) for j in ids])} cannot stand in {shown(output)}")
        ids = []
    header = unique(
        [*(table.name(j) if table.names is None else table.names[j] for j in ids), *names]
    )
    with (
        narrator.hearing(),
        open_output(output, header, force) as sink,
        counting_rows(narrator, "Writing", None) as done,
    ):
        for piece in pieces(table):
            columns = of(piece, table)
            arrays = [pa.array(np.asarray(column)) for column in columns]
            kept = [piece.columns.column(j) for j in ids]
            sink.write(pa.Table.from_arrays([*kept, *arrays], [str(k) for k in range(len(header))]))
            done(piece.n_rows)
        rows = sink.n_rows
    report_output(output, rows, len(header), narrator)


def report_output(output: str, rows: int, columns: int, narrator: Narrator) -> None:
    if output == "-":
        narrator.say("Wrote", f"{many(rows, 'row')} to standard output", rows=rows, wrote="-")
        return
    path = os.path.expanduser(output)
    count = os.path.getsize(path) if os.path.isfile(path) else None
    message = "" if count is None else f" ({size(count)})"
    narrator.say(
        "Wrote",
        f"{shown(output)}{message}: {many(rows, 'row')} x {many(columns, 'column')}",
        rows=rows,
        wrote=output,
        bytes=count,
    )


def unique(names: Sequence[str]) -> list[str]:
    """The names, later ones changed where they occur twice.

    >>> unique(["PC1", "PC1", "PC2"])
    ['PC1', 'PC1_2', 'PC2']
    """
    found: dict[str, None] = {}
    for name in names:
        new, k = name, 2
        while new in found:
            new, k = f"{name}_{k}", k + 1
        found[new] = None
    return list(found)
