"""What a fitted model says of rows, as named columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eigengap.cli.errors import WrongUsage
from eigengap.cli.tables.pieces import Piece
from eigengap.cli.tables.table import Table
from eigengap.registry import entry_of

Of = Callable[[Piece, Table], Sequence[Any]]


def coordinates(model: Any) -> tuple[list[str], Of]:
    """Names and values of what `transform` writes."""
    kind = type(model).__name__
    entry = entry_of(model)
    if entry.target == "class":
        return _classes(model)
    if entry.target == "number":
        return ["predicted", "predicted_sd"], lambda piece, table: model.predict(
            given(model, piece), return_std=True
        )
    if entry.next_command == "impute":
        raise WrongUsage("this model imputes missing values: eigengap impute DATA --model MODEL")
    if not hasattr(model, "transform"):
        raise WrongUsage(f"{kind} has no coordinates of rows; eigengap score says how odd they are")
    names = list(model.component_names_)

    def of(piece: Piece, table: Table) -> Sequence[Any]:
        return list(np.asarray(model.transform(given(model, piece))).T)

    return names, of


def _classes(model: Any) -> tuple[list[str], Of]:
    names = ["predicted", *(f"p_{label}" for label in model.classes_)]

    def of(piece: Piece, table: Table) -> Sequence[Any]:
        share = np.asarray(model.predict_proba(given(model, piece)))
        return [model.classes_[np.argmax(share, axis=1)], *share.T]

    return names, of


def given(model: Any, piece: Piece) -> Any:
    """A piece as the model wants it: with the names that it was fitted to, if any.

    The columns of a table for a model are in the model's order, whatever they are called there.
    """
    return piece.table(names_of(model))


def source_for(model: Any, table: Table) -> Any:
    """All rows as the model wants them."""
    from eigengap.sources import ArraySource

    source, names = table.source(), names_of(model)
    if names is None or source.names is None or tuple(source.names) == names:
        return source
    return ArraySource(source.collect(), names=names)


def names_of(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))
