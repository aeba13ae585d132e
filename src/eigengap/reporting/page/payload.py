"""What the page's own script works on: rows, scores, colours and cells as short JSON columns.

Everything is stored by column and rounded to what a screen shows. Names are values, never keys:
nothing in a user's file can change what the script does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.plots.numbers.dates import in_words, is_none
from eigengap.reporting.numbers.colours import Colour, colour_of
from eigengap.reporting.numbers.distances import RowDistances
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.reading import Label
from eigengap.reporting.page.specs import rounded
from eigengap.reporting.sections.scores import Scores
from eigengap.reporting.words import clean, whole

MOST_CELLS = 60_000  # of the features that are embedded
MOST_SHARED = 60  # covariances below which they are stored once and not by row
MOST_TEXTS = 4  # columns of text beside a row


def cells_shown(look: Look, weight: Array) -> list[int]:
    """Features whose cells are embedded: those of most weight, in the table's order."""
    room = max(MOST_CELLS // max(len(look.X), 1), 8)
    if look.n_columns <= room:
        return list(range(look.n_columns))
    kept = np.argsort(-weight, kind="stable")[:room]
    return [int(j) for j in np.sort(kept)]


def colours_of(
    labels: tuple[Label, ...], names: tuple[str, ...], scores: Scores, given: Colour | None
) -> list[Colour]:
    """What points can be coloured by beside the features themselves."""
    found: list[Colour] = [] if given is None else [given]
    if scores.part is not None:
        parts = [f"component {whole(int(k) + 1)}" for k in scores.part]
        mixture = colour_of("most probable component", parts)
        found += [] if mixture is None else [mixture]
    for label, name in zip(labels, names, strict=True):
        colour = colour_of(name, label.values)
        if colour is not None and all(colour.name != other.name for other in found):
            found.append(colour)
    return sorted(found, key=lambda colour: not colour.is_category)  # as a start, categories


def payload(
    look: Look,
    scores: Scores,
    distances: RowDistances | str,
    names: tuple[str, ...],
    shown: list[int],
    colours: list[Colour],
    labels: list[tuple[str, tuple[Any, ...]]],
    start: str,
) -> dict[str, Any]:
    """The JSON of the interactive part."""
    missing = np.isnan(look.X).sum(axis=1)
    return {
        "rows": [int(i) for i in look.numbers],
        "first": look.first_row,
        "axes": list(scores.axes),
        "scores": [_column(scores.Z[:, k]) for k in range(scores.Z.shape[1])],
        "cov": _covariances(scores.cov),
        "features": [
            {
                "name": names[j],
                "mean": rounded(float(look.mean[j])),
                "sd": rounded(float(look.sd[j])),
                "values": _column(look.X[:, j], 4),
            }
            for j in shown
        ],
        "colours": [_colour(colour) for colour in colours],
        "labels": [
            {"name": name, "values": [_text(value) for value in values]}
            for name, values in labels[:MOST_TEXTS]
        ],
        "missing": [int(k) for k in missing] if missing.any() else [],
        "p": [] if isinstance(distances, str) else _column(distances.p, 3),
        "start": start,
    }


def _column(values: Array, digits: int = 4) -> list[float | int | None]:
    return [rounded(float(value), digits) for value in values]


def _colour(colour: Colour) -> dict[str, Any]:
    if colour.is_category:
        return {
            "name": colour.name,
            "levels": list(colour.levels),
            "codes": list(colour.codes),
            "note": colour.note,
        }
    digits = 9 if colour.dates else 4
    values = [None if v is None else rounded(v, digits) for v in colour.values]
    return {"name": colour.name, "values": values, **({"dates": True} if colour.dates else {})}


def _covariances(cov: Array | None) -> dict[str, Any] | None:
    """Lower triangles, once for rows that share theirs; null for rows without."""
    if cov is None:
        return None
    lower = np.tril_indices(cov.shape[1])
    flat = cov[:, lower[0], lower[1]]
    keys: dict[tuple[float | int | None, ...], int] = {}
    of = []
    for row in flat:
        key = tuple(rounded(float(value), 3) for value in row)
        of.append(-1 if None in key else keys.setdefault(key, len(keys)))
    return {"kinds": [list(key) for key in keys], "of": of}


def _text(value: Any) -> str:
    return "" if is_none(value) else clean(in_words(value), 40)
