"""The rows themselves: scores, colours, and the table that is linked with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eigengap.plots.numbers.dates import in_words, is_none
from eigengap.reporting.numbers.colours import Colour, asked_colour
from eigengap.reporting.numbers.distances import RowDistances
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.reading import Label
from eigengap.reporting.page.payload import cells_shown, colours_of, payload
from eigengap.reporting.sections.scores import Scores
from eigengap.reporting.sections.section import Section
from eigengap.reporting.words import clean, count, distinct, percent, whole
from eigengap.runtime.hashing import row_hashes
from eigengap.sources import quote

ELLIPSES = 20  # of the least certain rows, where none are selected
LONGEST = 24  # characters of a row's own name
TITLE = "The rows"


@dataclass(frozen=True, eq=False)
class Samples:
    """The section, and what the page's script works on."""

    section: Section
    rows: dict[str, Any]
    note: str
    features_note: str
    caption: str
    glance: str


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
    weight: Any,
    given: Colour | None,
    start: str,
) -> Samples:
    """All that the section on rows needs."""
    label_names = distinct([*names, *(label.name for label in labels)])[len(names) :]
    shown = cells_shown(look, weight)
    if start in names:  # asked for, and hence at hand
        shown = sorted({*shown, names.index(start)})
    colours = colours_of(labels, label_names, scores, given)
    beside = [(name, label.values) for name, label in zip(label_names, labels, strict=True)]
    beside.sort(key=lambda pair: not _names_rows(Label(pair[0], pair[1])))
    rows = payload(look, scores, distances, names, shown, colours, beside, start)
    rows["names"] = row_names(look, labels)
    if len(scores.axes) == 1:  # a strip: up is nothing but room
        spread = row_hashes(0, len(look.at), 0) >> np.uint64(40)
        rows["jitter"] = [round(float(u) / 2**24, 3) for u in spread]
    words = [_on_rows(look), scores.how, _on_separation(scores, colours)]
    features_note = ""
    if len(shown) < look.n_columns:
        features_note = (
            f"The {whole(len(shown))} of {whole(look.n_columns)} columns that the components show "
            "best are at hand here."
        )
    return Samples(
        section=Section("samples", TITLE, words=tuple(word for word in words if word)),
        rows=rows,
        note=_note(scores),
        features_note=features_note,
        caption=f"{count(len(look.at), 'row')}; rows are counted from {look.first_row}",
        glance=_glance(look, scores),
    )


def _on_rows(look: Look) -> str:
    if not look.is_sampled:
        return f"All {count(look.n_rows, 'row')} are shown."
    return (
        f"{whole(len(look.at))} of {count(look.n_rows, 'row')} are shown, drawn at random, the "
        "same ones each time."
    )


def _glance(look: Look, scores: Scores) -> str:
    by = " and ".join(scores.axes[:2])
    return f"{'' if look.is_sampled else 'All '}{count(len(look.at), 'row')} by {by}."


def _note(scores: Scores) -> str:
    if scores.cov is None or len(scores.axes) < 2:
        return "Each point is a row."
    return (
        f"Each point is a row. Ellipses are 95 % regions of the rows that are selected, or of "
        f"those that are incomplete: at most {ELLIPSES}, of which least is known."
    )


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
    found = [
        (*over, colour, scores.axes[k])
        for colour in colours
        if colour.is_category
        and not (scores.part is not None and colour.name == "most probable component")
        for k in range(min(2, len(scores.axes)))
        if (over := _separated(scores.Z[:, k], colour)) is not None
    ]
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


def _separated(z: Any, colour: Colour) -> tuple[float, int] | None:
    """Share of the variance between categories, and the rows that have one.

    None where fewer than two categories are left.
    """
    codes = np.asarray(colour.codes)
    known = np.isfinite(z) & (codes != colour.missing)
    if len(np.unique(codes[known])) < 2:
        return None
    return separation(z[known], tuple(codes[known])), int(known.sum())


def _names_rows(label: Label) -> bool:
    values = [value for value in label.values if not is_none(value)]
    return (
        len(values) > 1
        and len({str(value) for value in values}) > 0.9 * len(values)
        and not any(isinstance(value, float) and value != int(value) for value in values)
    )
