"""What a fitted model says of rows, as named columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eigengap.cli.errors import WrongUsage
from eigengap.cli.pieces import Piece
from eigengap.cli.tables import Table

Of = Callable[[Piece, Table], Sequence[Any]]


def coordinates(model: Any) -> tuple[list[str], Of]:
    """Names and values of what `transform` writes."""
    kind = type(model).__name__
    if kind == "PPCAClassifier":
        return _classes(model)
    if kind == "PPCARegressor":
        return ["predicted", "predicted_sd"], lambda piece, table: model.predict(
            given(model, piece, table), return_std=True
        )
    if kind == "LowRankImputer":
        raise WrongUsage("this model fills gaps: eigengap impute DATA --model MODEL")
    if not hasattr(model, "transform"):
        raise WrongUsage(f"{kind} has no coordinates of rows; eigengap score says how odd they are")
    names = [str(name) for name in model.get_feature_names_out()]

    def of(piece: Piece, table: Table) -> Sequence[Any]:
        return list(np.asarray(model.transform(given(model, piece, table))).T)

    return names, of


def _classes(model: Any) -> tuple[list[str], Of]:
    names = ["predicted", *(f"p_{label}" for label in model.classes_)]

    def of(piece: Piece, table: Table) -> Sequence[Any]:
        share = np.asarray(model.predict_proba(given(model, piece, table)))
        return [model.classes_[np.argmax(share, axis=1)], *share.T]

    return names, of


def given(model: Any, piece: Piece, table: Table) -> Any:
    """A piece as the model wants it: with names if it was fitted to names."""
    has_names = hasattr(model, "feature_names_in_")
    return piece.table(table.feature_names if has_names else None)
