"""The rows themselves: scores, colours, and the table that is linked with them.

What the page's own script works on is short JSON: stored by column and rounded to what a screen
shows. Names are values, never keys: nothing in a user's file can change what the script does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigengap.linalg import Array
from eigengap.plots.numbers.colour import Colour, asked_colour, colour_of, in_words, is_none
from eigengap.plots.numbers.columns import MOST_BESIDE, Label
from eigengap.plots.numbers.names import clean, distinct
from eigengap.plots.numbers.outliers import RowDistances
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.scores import Scores
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting.specs import Section, column, rounded
from eigengap.reporting.words import count, percent, whole
from eigengap.runtime.hashing import row_hashes
from eigengap.sources import quote

MOST_CELLS = 60_000  # of the features that are embedded
ELLIPSES = 20  # of the least certain rows, where none are selected
LONGEST = 24  # characters of a row's own name
OF_MIXTURE = "most probable component"


@dataclass(frozen=True, eq=False)
class Samples:
    """The section, and what the page's script works on."""

    section: Section
    rows: dict[str, Any]
    note: str
    features_note: str
    caption: str
    glance: str


def numeric_features(subject: Subject, look: Look) -> list[int]:
    """Features that are numbers, not text or truth values."""
    coded = subject.coded
    if coded is None:
        return list(range(look.n_columns))
    return [k for k, j in enumerate(coded.used) if not coded.schema.columns[j].levels]


def level_labels(subject: Subject, look: Look, names: tuple[str, ...]) -> tuple[Label, ...]:
    """Features that are levels, in the caller's words."""
    coded = subject.coded
    if coded is None:
        return ()
    found = []
    for k, j in enumerate(coded.used):
        own = coded.schema.columns[j]
        if own.levels:
            cells = look.X[:, k].tolist()
            found.append(Label(names[k], tuple(None if x != x else own.level(x) for x in cells)))
    return tuple(found)


def row_names(look: Look, labels: tuple[Label, ...]) -> list[str]:
    """Positions, with the name that a column gives to every row where there is one."""
    own = next((label for label in labels if _names_rows(label)), None)
    if own is None:
        return [whole(int(i)) for i in look.numbers]
    return [
        f"{whole(int(i))} ({clean(in_words(value), LONGEST)})"
        for i, value in zip(look.numbers, own.values, strict=True)
    ]


def chosen_colour(
    color: Any,
    look: Look,
    labels: tuple[Label, ...],
    names: tuple[str, ...],
    features: tuple[str, ...] | None,
) -> tuple[Colour | None, str]:
    """The colour that the caller gives as values, and the name of the one to begin with."""
    if color is None:
        return None, ""
    if isinstance(color, str):
        known = [label.name for label in labels]
        if color in (features or names):
            return None, names[(features or names).index(color)]
        if color in known:
            k = known.index(color)
            found = asked_colour(color, labels[k].values)
            shown = distinct([*names, *known])[len(names) + k]
            return replace(found, name=shown), shown
        raise ValueError(
            f"color={quote(color)} is no column of X; its columns are "
            f"{', '.join(map(quote, [*names, *known][:12]))}"
        )
    dates = getattr(getattr(color, "dtype", None), "kind", "") == "M"  # tolist would make numbers
    values = color.tolist() if hasattr(color, "tolist") and not dates else list(color)
    if len(values) != look.n_rows:
        raise ValueError(
            f"color has {len(values)} values, and X has {look.n_rows} rows; give one for each row"
        )
    name = clean(getattr(color, "name", None) or "given colour")
    found = asked_colour(name, [values[i] for i in look.at])
    return found, found.name


def samples(
    look: Look,
    scores: Scores,
    distances: RowDistances | str,
    labels: tuple[Label, ...],
    names: tuple[str, ...],
    weight: Array,
    given: Colour | None,
    start: str,
    numbers: list[int],
) -> Samples:
    """All that the section on rows needs; `numbers` are the features that have a mean."""
    plain = [names[j] for j in numbers]
    label_names = distinct([*plain, *(label.name for label in labels)])[len(plain) :]
    shown = [j for j in _embedded(look, weight) if j in set(numbers)]
    if start in plain:  # asked for, and hence at hand
        shown = sorted({*shown, numbers[plain.index(start)]})
    named = [Label(name, label.values) for name, label in zip(label_names, labels, strict=True)]
    colours = _colours(named, scores, given)
    missing = np.isnan(look.X).sum(axis=1)
    rows: dict[str, Any] = {
        "rows": [int(i) for i in look.numbers],
        "first": look.first_row,
        "axes": list(scores.axes),
        "scores": [column(z) for z in scores.Z.T],
        "cov": _covariances(scores.cov),
        "features": [
            {
                "name": names[j],
                "mean": rounded(float(look.mean[j])),
                "sd": rounded(float(look.sd[j])),
                "values": column(look.X[:, j]),
            }
            for j in shown
        ],
        "colours": [_colour(colour) for colour in colours],
        "labels": [
            {
                "name": label.name,
                "values": ["" if is_none(v) else clean(in_words(v), 40) for v in label.values],
            }
            for label in sorted(named, key=lambda label: not _names_rows(label))[:MOST_BESIDE]
        ],
        "missing": [int(k) for k in missing] if missing.any() else [],
        "p": [] if isinstance(distances, str) else column(distances.p, 3),
        "start": start,
        "names": row_names(look, labels),
    }
    if len(scores.axes) == 1:  # a strip: up is nothing but room
        hashes = row_hashes(0, len(look.at), 0) >> np.uint64(40)
        rows["jitter"] = [round(float(u) / 2**24, 3) for u in hashes]
    size = count(look.n_rows, "row")
    on_rows = f"All {size} are shown."
    if look.is_sampled:
        drawn = "are shown, drawn at random, the same ones each time."
        on_rows = f"{whole(len(look.at))} of {size} {drawn}"
    words = [on_rows, scores.how, _on_separation(scores, colours)]
    features_note = ""
    if len(shown) < len(numbers):
        features_note = (
            f"The {whole(len(shown))} of {whole(len(numbers))} columns that the components show "
            "best are at hand here."
        )
    note = "Each point is a row."
    if scores.cov is not None and len(scores.axes) > 1:
        note += (
            " Ellipses are 95 % regions of the rows that are selected, or of those that are "
            f"incomplete: at most {ELLIPSES}, of which least is known."
        )
    drawn = count(len(look.at), "row")
    return Samples(
        section=Section("samples", "The rows", words=tuple(word for word in words if word)),
        rows=rows,
        note=note,
        features_note=features_note,
        caption=f"{drawn}; rows are counted from {look.first_row}",
        glance=f"{'' if look.is_sampled else 'All '}{drawn} by {' and '.join(scores.axes[:2])}.",
    )


def _embedded(look: Look, weight: Array) -> list[int]:
    """Features whose cells are embedded: those of most weight, in the table's order."""
    room = max(MOST_CELLS // max(len(look.X), 1), 8)
    if look.n_columns <= room:
        return list(range(look.n_columns))
    kept = np.argsort(-weight, kind="stable")[:room]
    return [int(j) for j in np.sort(kept)]


def _colours(labels: list[Label], scores: Scores, given: Colour | None) -> list[Colour]:
    """What points can be coloured by, the features themselves aside."""
    found: list[Colour] = [] if given is None else [given]
    if scores.part is not None:
        parts = [f"component {whole(int(k) + 1)}" for k in scores.part]
        mixture = colour_of(OF_MIXTURE, parts)
        found += [] if mixture is None else [mixture]
    for label in labels:
        colour = colour_of(label.name, label.values)
        if colour is not None and all(colour.name != other.name for other in found):
            found.append(colour)
    return sorted(found, key=lambda colour: not colour.is_category)  # as a start, categories


def _colour(colour: Colour) -> dict[str, Any]:
    if colour.is_category:
        levels, codes = list(colour.levels), list(colour.codes)
        return {"name": colour.name, "levels": levels, "codes": codes, "note": colour.note}
    digits = 9 if colour.dates else 4
    values = [None if v is None else rounded(v, digits) for v in colour.values]
    return {"name": colour.name, "values": values, **({"dates": True} if colour.dates else {})}


def _covariances(cov: Array | None) -> dict[str, Any] | None:
    """Lower triangles, once for rows that share theirs; -1 for rows without."""
    if cov is None:
        return None
    lower = np.tril_indices(cov.shape[1])
    keys: dict[tuple[float | int | None, ...], int] = {}
    of = []
    for row in cov[:, lower[0], lower[1]]:
        key = tuple(column(row, 3))
        of.append(-1 if None in key else keys.setdefault(key, len(keys)))
    return {"kinds": [list(key) for key in keys], "of": of}


def separation(Z: Any, codes: tuple[int, ...]) -> float:
    """Share of the variance of a score that lies between the categories: eta squared."""
    values, groups = np.asarray(Z, dtype=np.float64), np.asarray(codes)
    total = float(np.sum((values - values.mean()) ** 2))
    within = sum(
        float(np.sum((values[groups == k] - values[groups == k].mean()) ** 2))
        for k in np.unique(groups)
    )
    return 0.0 if total <= 0.0 else 1.0 - within / total


def _on_separation(scores: Scores, colours: list[Colour]) -> str:
    """Which category the first two axes separate best, over the rows that have one."""
    found = []
    for colour in colours:
        is_mixture = scores.part is not None and colour.name == OF_MIXTURE
        codes = np.asarray(colour.codes)
        for axis, z in zip(scores.axes[:2], scores.Z.T, strict=False):
            if colour.is_category and not is_mixture:
                known = np.isfinite(z) & (codes != colour.missing)
                if len(np.unique(codes[known])) > 1:
                    share = separation(z[known], tuple(codes[known]))
                    found.append((share, int(known.sum()), colour, axis))
    if not found:
        return ""
    share, n, colour, axis = max(found, key=lambda one: one[0])
    among = "" if n == len(scores.Z) else f" among the {count(n, 'row')} that have one"
    if share < 0.25:
        return (
            f"The first axes separate no category: between the categories of {colour.name} lies "
            f"the largest share of the variance of an axis, {percent(share)}{among}."
        )
    return (
        f"{axis} separates the categories of {colour.name}: {percent(share)} of its variance lies "
        f"between them{among}."
    )


def _names_rows(label: Label) -> bool:
    values = [value for value in label.values if not is_none(value)]
    return (
        len(values) > 1
        and len({str(value) for value in values}) > 0.9 * len(values)
        and not any(isinstance(value, float) and value != int(value) for value in values)
    )
