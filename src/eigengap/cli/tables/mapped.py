"""From every row of a table to one row of an output, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eigengap.cli.errors import WrongUsage, shown
from eigengap.cli.files import DASH, NUMBERS, form_of
from eigengap.cli.narration import Narrator, listing, many, size
from eigengap.cli.progress import counting_rows
from eigengap.cli.tables.outputs import open_output
from eigengap.cli.tables.pieces import Piece, pieces
from eigengap.cli.tables.table import Table
from eigengap.registry import entry_of
from eigengap.sources import ArraySource

Of = Callable[[Piece], Sequence[Any]]  # arrays of numbers or of text, one for each name


def coordinates(model: Any) -> tuple[list[str], Of]:
    """Names and values of what `transform` writes."""
    entry = entry_of(model)
    if entry.target == "class":

        def classes(piece: Piece) -> Sequence[Any]:
            share = np.asarray(model.predict_proba(given(model, piece)))
            return [model.classes_[np.argmax(share, axis=1)], *share.T]

        return ["predicted", *(f"p_{label}" for label in model.classes_)], classes
    if entry.target == "number":
        names = ["predicted", "predicted_sd"]
        return names, lambda piece: model.predict(given(model, piece), return_std=True)
    if entry.next_command == "impute":
        raise WrongUsage("this model imputes missing values: eigengap impute DATA --model MODEL")
    if not hasattr(model, "transform"):
        raise WrongUsage(
            f"{type(model).__name__} has no coordinates of rows; eigengap score says how odd they "
            "are"
        )
    return list(model.component_names_), lambda piece: list(
        np.asarray(model.transform(given(model, piece))).T
    )


def given(model: Any, piece: Piece) -> Any:
    """A piece as the model wants it: with the names that it was fitted to, if any.

    The columns of a table for a model are in the model's order, whatever they are called there.
    """
    return ArraySource(piece.values, names=names_of(model))


def source_for(model: Any, table: Table) -> Any:
    """All rows as the model wants them."""
    source, names = table.source(), names_of(model)
    if names is None or source.names is None or tuple(source.names) == names:
        return source
    return ArraySource(source.collect(), names=names)


def names_of(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def write_rows(
    table: Table, names: Sequence[str], of: Of, output: str | None, force: bool, narrator: Narrator
) -> None:
    """Write ids and `of` of every piece beside them; without an output `of` sees all pieces."""
    if output is None:
        with narrator.hearing(), counting_rows(narrator, "Reading", None) as done:
            for piece in pieces(table):
                of(piece)
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
            arrays = [pa.array(np.asarray(column)) for column in of(piece)]
            kept = [piece.columns.column(j) for j in ids]
            sink.write(pa.Table.from_arrays([*kept, *arrays], [str(k) for k in range(len(header))]))
            done(piece.n_rows)
        rows = sink.n_rows
    report_output(output, rows, len(header), narrator)


def report_output(output: str, rows: int, columns: int, narrator: Narrator) -> None:
    if output == DASH:
        narrator.say("Wrote", f"{many(rows, 'row')} to standard output", rows=rows, wrote=DASH)
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
