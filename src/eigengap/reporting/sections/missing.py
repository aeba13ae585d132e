"""What was not seen: how much, where, and whether gaps come together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, binom

from eigengap.linalg import Array
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.page import specs
from eigengap.reporting.sections.section import Figure, Grid, Section
from eigengap.reporting.words import count, listing, number, percent, whole

MOST_COLUMNS = 40  # drawn
MOST_PATTERNS = 12
FEWEST_ROWS = 5  # with and without a gap, between which a mean is compared
APART = 0.5  # standard deviations between means that are worth a sentence
BY_CHANCE = 0.01  # probability that gaps at random are said to come together
TITLE = "What was not seen"
SURE = 4.0  # and standard errors: of very many comparisons hardly one is so by chance


@dataclass(frozen=True)
class Telling:
    """A column that differs between rows in which another was seen and in which it was not."""

    gap: int  # the column with the gaps
    by: int
    difference: float  # mean where unseen less mean where seen, in standard deviations


def patterns(X: Array) -> list[tuple[tuple[int, ...], int]]:
    """Which columns are missing together, and in how many rows, the most frequent first."""
    missing = np.isnan(X)
    found = Counter(tuple(np.flatnonzero(row)) for row in missing if row.any())
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [(tuple(int(j) for j in columns), rows) for columns, rows in ordered]


def together(X: Array) -> tuple[tuple[int, ...], int]:
    """Columns missing at once in more rows than chance explains, and the rows: (), 0 if none.

    Were gaps of columns independent, the number of rows in which these (and perhaps others) are
    missing would be binomial. Of g columns with gaps any set could have been found: after
    Bonferroni the probability of a set of s is multiplied by C(g, s) 2^(s-1), whose inverses sum to
    less than 1 over all sets.
    """
    missing = np.isnan(X)
    share = missing.mean(axis=0)
    g = int(np.count_nonzero(share))
    for columns, exactly in patterns(X):
        if len(columns) < 2 or exactly < 3:
            continue
        rows = int(np.count_nonzero(missing[:, columns].all(axis=1)))
        chance = float(np.prod(share[list(columns)]))
        sets = binom(g, len(columns)) * 2.0 ** (len(columns) - 1)
        by_chance = float(sets * bdtrc(rows - 1, len(X), chance))
        if rows > 2.0 * len(X) * chance and by_chance < BY_CHANCE:
            return columns, rows
    return (), 0


def tellings(X: Array) -> list[Telling]:
    """Where gaps are not completely at random, the clearest first."""
    observed = ~np.isnan(X)
    filled = np.where(observed, X, 0.0)
    found = []
    for gap in np.flatnonzero((~observed).any(axis=0)):
        without, within = ~observed[:, gap], observed[:, gap]
        counts = np.array([(observed & rows[:, None]).sum(axis=0) for rows in (without, within)])
        enough = np.all(counts >= FEWEST_ROWS, axis=0)
        enough[gap] = False
        if not enough.any():
            continue
        sums = np.array([filled[rows].sum(axis=0) for rows in (without, within)])
        means = sums / np.maximum(counts, 1)
        squares = np.array(
            [
                np.where(observed[rows], (X[rows] - mean) ** 2, 0.0).sum(axis=0)
                for rows, mean in zip((without, within), means, strict=True)
            ]
        )
        pooled = np.sqrt(squares.sum(axis=0) / np.maximum(counts.sum(axis=0) - 2, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(pooled > 0, (means[0] - means[1]) / pooled, 0.0)
            error = np.sqrt((1.0 / np.maximum(counts, 1)).sum(axis=0))
        clear = enough & (np.abs(apart) > APART) & (np.abs(apart) > SURE * error)
        found += [Telling(int(gap), int(j), float(apart[j])) for j in np.flatnonzero(clear)]
    return sorted(found, key=lambda telling: (-abs(telling.difference), telling.gap, telling.by))


def section(look: Look, names: tuple[str, ...]) -> Section:
    """The section, in few words where nothing is missing."""
    n, d, missing = look.n_rows, look.n_columns, look.missing
    if missing.cells == 0:
        sentence = f"Every cell was seen: {count(n, 'row')} × {count(d, 'column')}, no gaps."
        return Section("missing", TITLE, words=(sentence,), verdict=sentence)
    order = np.argsort(-missing.per_column, kind="stable")
    touched = [int(j) for j in order if missing.per_column[j]]
    where = (
        f"all in {names[touched[0]]}"
        if len(touched) == 1
        else f"in {whole(len(touched))} of {whole(d)} columns"
    )
    summary = (
        f"{count(missing.cells, 'cell')} of {whole(n * d)} ({percent(missing.share)}) "
        f"{'is' if missing.cells == 1 else 'are'} missing, {where}; "
        f"{count(missing.incomplete_rows, 'row')} of {whole(n)} "
        f"{'has' if missing.incomplete_rows == 1 else 'have'} a gap."
    )
    words = [summary]
    if missing.empty_rows:
        words.append(
            f"Nothing was observed of {count(missing.empty_rows, 'row')}; they change no estimate."
        )
    words += _on_patterns(look, names) + _on_tellings(look, names)
    figures = (_per_column(look, names, touched),) if len(touched) > 1 else ()
    return Section(
        "missing",
        TITLE,
        words=tuple(words),
        figures=figures,
        grids=() if figures else _grids(look, names),
        beside=_grids(look, names) if figures else (),
        verdict=summary,
    )


def _on_patterns(look: Look, names: tuple[str, ...]) -> list[str]:
    columns, rows = together(look.X)
    if not rows:
        return []
    shown = "rows" if not look.is_sampled else "rows that are shown"
    expected = len(look.X) * float(np.prod(np.isnan(look.X[:, columns]).mean(axis=0)))
    return [
        f"Gaps come together: {listing([names[j] for j in columns])} are missing at once, with or "
        f"without others, in {whole(rows)} of the {whole(len(look.X))} {shown}; chance would give "
        f"about {number(expected, 2)}."
    ]


def _on_tellings(look: Look, names: tuple[str, ...]) -> list[str]:
    found = tellings(look.X)
    assumption = (
        "The fit takes gaps to be missing at random: whether a cell was seen may depend on the "
        "cells that were seen, not on its own value. No table can show that of itself."
    )
    if not found:
        return [assumption]
    first = found[0]
    side = "higher" if first.difference > 0 else "lower"
    return [
        f"Gaps are not scattered blindly: where {names[first.gap]} is missing, {names[first.by]} "
        f"is {abs(first.difference):.1f} standard deviations {side} on average. "
        "Means over the seen cells alone would be off; a model of all columns takes it into "
        "account.",
        assumption,
    ]


def _per_column(look: Look, names: tuple[str, ...], touched: list[int]) -> Figure:
    shown = touched[:MOST_COLUMNS]
    share = look.missing.per_column / look.n_rows
    data = specs.records(
        column=[names[j] for j in shown],
        missing=[share[j] for j in shown],
        cells=[look.missing.per_column[j] for j in shown],
    )
    most = touched[0]
    note = "" if len(shown) == len(touched) else f"The {len(shown)} columns with most gaps."
    spec = specs.chart(
        data,
        [
            {
                "mark": {"type": "bar", "color": specs.MAIN, "cornerRadiusEnd": 2},
                "encoding": {
                    "y": specs.axis("column", "", "nominal", sort=None),
                    "x": specs.axis(
                        "missing", "share of the rows", axis={"format": "%", "tickCount": 5}
                    ),
                    "tooltip": [
                        {"field": "column", "title": "column"},
                        {"field": "cells", "title": "missing cells"},
                        {"field": "missing", "title": "share", "format": ".2%"},
                    ],
                },
            }
        ],
        height=max(80, 18 * len(shown) + 20),
    )
    return Figure(
        "missing-columns",
        "Gaps of each column",
        f"{names[most]} has most gaps, {percent(float(share[most]))} of its cells; "
        f"{count(len(touched), 'column')} {'has' if len(touched) == 1 else 'have'} any.",
        spec,
        note,
    )


def _grids(look: Look, names: tuple[str, ...]) -> tuple[Grid, ...]:
    found = patterns(look.X)
    if len(found) < 2:
        return ()
    shown = found[:MOST_PATTERNS]
    rows = tuple((listing([names[j] for j in columns], 8), whole(k)) for columns, k in shown)
    of = "the rows" if not look.is_sampled else f"the {whole(len(look.X))} rows that are shown"
    more = len(found) - len(shown)
    return (
        Grid(
            f"Which columns are missing together, among {of}",
            ("missing", "rows"),
            rows,
            (False, True),
            note=f"{count(more, 'rarer pattern')} not listed." if more else "",
        ),
    )
