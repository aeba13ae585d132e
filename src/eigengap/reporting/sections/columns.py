"""The columns of the table before any model: kinds, distributions, what is unusual."""

from __future__ import annotations

from collections import Counter

import numpy as np

from eigengap.fitting.columns.kinds import kinds_of
from eigengap.fitting.columns.survey import Survey
from eigengap.plots.numbers.overview import ColumnOverview, Overview, overview_of
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting import specs
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import brief, count, fixed, listing, percent, whole
from eigengap.sources import ArraySource, ColumnType, Schema

MOST_LINES = 40  # columns of the table and of the chart
TITLE = "Columns"


def overview_for(subject: Subject, look: Look, names: tuple[str, ...]) -> Overview:
    """What the columns of the rows that are shown hold."""
    coded = subject.coded
    if coded is not None:
        types = [coded.schema.columns[j] for j in coded.used]
        kinds = tuple(coded.kinds[j] for j in coded.used)
    else:
        types = [ColumnType(name, "numbers") for name in names]
        kinds = kinds_of(Survey.of(ArraySource(look.X)), types)
    named = tuple(
        ColumnType(name, own.holds, own.levels) for name, own in zip(names, types, strict=True)
    )
    return overview_of(ArraySource(look.X), Schema(named), kinds)


def section(subject: Subject, look: Look, names: tuple[str, ...]) -> Section:
    """One line for each column, and its distribution."""
    if subject.is_pairwise or not look.n_columns:
        why = "The model was fitted to pairs of rows; there are no columns to look at."
        return Section("columns", TITLE, left_out=why)
    found = overview_for(subject, look, names)
    words = [_on_kinds(subject, found), _on_cautions(found, look)]
    shown = found.columns[:MOST_LINES]
    left = len(found.columns) - len(shown)
    note = (
        f"{count(left, 'more column')} {'is' if left == 1 else 'are'} not listed." if left else ""
    )
    if look.is_sampled:
        note = f"Of the {whole(len(look.X))} rows that are shown. {note}".strip()
    return Section(
        "columns",
        TITLE,
        words=tuple(word for word in words if word),
        figures=(_distributions(shown, found, note),),
        grids=(_table(shown, note),),
        verdict=words[0] if subject.coded is not None else "",
    )


def _on_kinds(subject: Subject, found: Overview) -> str:
    kinds = Counter(column.kind for column in found.columns).most_common()
    listed = listing([f"{whole(n)} {kind}" for kind, n in kinds], 8)
    if subject.coded is None:
        return f"By their values the columns are {listed}; this model takes all of them as numbers."
    ignored = subject.coded.ignored()
    aside = ""
    if ignored:
        reasons = listing([f"{name} ({why})" for name, why in ignored.items()], 6)
        aside = f" Not in the model: {reasons}."
    return f"Columns are modelled by their kind: {listed}.{aside}"


def _on_cautions(found: Overview, look: Look) -> str:
    parts = [
        f"{column.name} {said}"
        for column in found.columns
        for said in column.cautions
        if said.startswith(("is constant", "holds the same", "no value"))
    ]
    if found.duplicate_rows and not look.is_sampled:
        rows = found.duplicate_rows
        parts.append(
            f"{count(rows, 'row')} {'repeats' if rows == 1 else 'repeat'} an earlier one in every "
            "column of the model"
        )
    if not parts:
        return ""
    text = "; ".join(parts[:6])
    return text[0].upper() + text[1:] + "."


def _table(shown: tuple[ColumnOverview, ...], note: str) -> Grid:
    rows = tuple(
        (
            column.name,
            column.kind,
            percent(column.share_missing) if column.missing else "0",
            whole(column.different),
            column.described,
            fixed(column.skewness) if np.isfinite(column.skewness) and not column.levels else "",
            "; ".join(column.cautions),
        )
        for column in shown
    )
    return Grid(
        "What each column holds",
        ("column", "kind", "missing", "different", "values", "skewness", "to note"),
        rows,
        (False, False, True, True, False, True, False),
        note=f"Values: median (5 % to 95 %), or levels with their share. {note}".strip(),
    )


def _distributions(shown: tuple[ColumnOverview, ...], found: Overview, note: str) -> Figure:
    """A line for each column: darker where more of its values are."""
    data: list[specs.Spec] = []
    for column in shown:
        parts = _parts(column)
        top = max((share for *_, share, _ in parts), default=1.0) or 1.0
        data += [
            {
                "column": column.name,
                "from": specs.rounded(low),
                "to": specs.rounded(high),
                "weight": specs.rounded(share / top, 3),
                "values": text,
                "share": specs.rounded(share, 3),
            }
            for low, high, share, text in parts
        ]
    skewed = [c for c in found.columns if not c.levels and abs(c.skewness) > 1.0]
    most = max(skewed, key=lambda c: abs(c.skewness), default=None)
    numbers = [c for c in found.columns if not c.levels]
    finding = "No column of numbers has a skewness beyond 1."
    if not numbers:
        finding = "All columns have levels."
    if most is not None:
        finding = (
            f"{count(len(skewed), 'column')} of numbers {'has' if len(skewed) == 1 else 'have'} a "
            f"skewness beyond 1, most of all {most.name} ({fixed(most.skewness)})."
        )
    spec = specs.chart(
        data,
        specs.layer(
            "rect",
            {"color": specs.MAIN, "stroke": "var(--paper)", "strokeWidth": 0.5},
            y=specs.BY_COLUMN,
            x=specs.axis("from", "least value or first level … largest or last", axis=None),
            x2={"field": "to"},
            opacity={
                "field": "weight",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "range": [0.06, 1]},
                "legend": None,
            },
            tooltip=specs.tips(column="column", values="values", share="share|.1%"),
        ),
        height=specs.lines_high(len(shown)),
    )
    how = (
        "From the least value of a column to its largest, or level by level: darker where more of "
        "the cells are."
    )
    return Figure(
        "distributions", "Distributions", finding, spec, f"{how} {note}".strip(), wide=True
    )


def _parts(column: ColumnOverview) -> list[tuple[float, float, float, str]]:
    """Where each bar begins and ends, from 0 to 1, its share of the cells, and what it holds."""
    cells = max(column.observed, 1)
    if column.levels:
        levels = list(column.levels)
        if column.more_levels:
            levels.append((f"{whole(column.more_levels)} more levels", column.more_cells))
        k = len(levels)
        return [(i / k, (i + 1) / k, n / cells, level) for i, (level, n) in enumerate(levels)]
    if column.edges is None or column.counts is None:
        return []
    total = max(int(column.counts.sum()), 1)
    k = len(column.counts)  # equally wide on the column's scale, which may be a logarithm
    edges = column.edges.tolist()
    return [
        (i / k, (i + 1) / k, int(n) / total, f"{brief(edges[i])} to {brief(edges[i + 1])}")
        for i, n in enumerate(column.counts.tolist())
    ]
