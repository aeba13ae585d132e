"""Missing data: how much, where, and which columns are missing together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrc, binom

from eigengap.linalg import Array
from eigengap.plots.numbers.rows import Look
from eigengap.reporting import specs
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import count, listing, number, percent, whole

MOST_COLUMNS = 40  # drawn
MOST_PATTERNS = 12
FEWEST_ROWS = 5  # with and without the missing value, whose means are compared
APART = 0.5  # standard deviations between means that are worth a sentence
BY_CHANCE = 0.01  # family-wise error rate of the test that columns are missing together
TITLE = "Missing data"
SURE = 4.0  # and standard errors: of very many comparisons hardly one is so by chance


@dataclass(frozen=True)
class Difference:
    """A column whose mean differs between rows in which another is missing and observed."""

    incomplete: int  # the column with missing values
    other: int
    size: float  # mean where missing less mean where observed, in pooled within-group SDs


def patterns(X: Array) -> list[tuple[tuple[int, ...], int]]:
    """Which columns are missing together, and in how many rows, the most frequent first."""
    found = Counter(tuple(np.flatnonzero(row).tolist()) for row in np.isnan(X) if row.any())
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def together(X: Array) -> tuple[tuple[int, ...], int]:
    """Columns missing at once in more rows than chance explains, and the rows: (), 0 if none.

    Were columns missing independently, the number of rows in which these (and perhaps others) are
    missing would be binomial. Of g incomplete columns any set could have been found: after
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


def differences(X: Array, numbers: list[int] | None = None) -> list[Difference]:
    """Evidence against values missing completely at random, the largest first.

    Means are compared of the columns that are `numbers`, of all by default.
    """
    observed = ~np.isnan(X)
    has_mean = np.isin(np.arange(X.shape[1]), range(X.shape[1]) if numbers is None else numbers)
    zeroed = np.where(observed, X, 0.0)
    found = []
    for j_missing in np.flatnonzero((~observed).any(axis=0)):
        groups = (~observed[:, j_missing], observed[:, j_missing])  # of rows: missing, observed
        counts = np.array([observed[rows].sum(axis=0) for rows in groups])
        enough = np.all(counts >= FEWEST_ROWS, axis=0) & has_mean
        enough[j_missing] = False
        if not enough.any():
            continue
        means = np.array([zeroed[rows].sum(axis=0) for rows in groups]) / np.maximum(counts, 1)
        squares = np.array(
            [
                np.where(observed[rows], (X[rows] - mean) ** 2, 0.0).sum(axis=0)
                for rows, mean in zip(groups, means, strict=True)
            ]
        )
        pooled = np.sqrt(squares.sum(axis=0) / np.maximum(counts.sum(axis=0) - 2, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(pooled > 0, (means[0] - means[1]) / pooled, 0.0)
            error = np.sqrt((1.0 / np.maximum(counts, 1)).sum(axis=0))
        clear = enough & (np.abs(apart) > APART) & (np.abs(apart) > SURE * error)
        found += [
            Difference(int(j_missing), int(j), float(apart[j])) for j in np.flatnonzero(clear)
        ]
    return sorted(found, key=lambda one: (-abs(one.size), one.incomplete, one.other))


def section(look: Look, names: tuple[str, ...], numbers: list[int] | None = None) -> Section:
    """The section, in few words where nothing is missing."""
    n, d, missing = look.n_rows, look.n_columns, look.missing
    if missing.cells == 0:
        sentence = f"No value is missing: {count(n, 'row')} × {count(d, 'column')}."
        return Section("missing", TITLE, words=(sentence,), verdict=sentence)
    order = np.argsort(-missing.per_column, kind="stable")
    touched = [int(j) for j in order if missing.per_column[j]]
    where = f"in {whole(len(touched))} of {whole(d)} columns"
    if len(touched) == 1:
        where = f"all in {names[touched[0]]}"
    summary = (
        f"{count(missing.cells, 'cell')} of {whole(n * d)} ({percent(missing.share)}) "
        f"{'is' if missing.cells == 1 else 'are'} missing, {where}; "
        f"{count(missing.incomplete_rows, 'row')} of {whole(n)} "
        f"{'is' if missing.incomplete_rows == 1 else 'are'} incomplete."
    )
    words = [summary]
    if missing.empty_rows:
        words.append(
            f"Nothing was observed of {count(missing.empty_rows, 'row')}; they change no estimate."
        )
    words += _on_patterns(look, names) + _on_differences(look, names, numbers)
    figures = (_per_column(look, names, touched),) if len(touched) > 1 else ()
    grids: Any = {"beside" if figures else "grids": _patterns(look, names)}
    return Section("missing", TITLE, words=tuple(words), figures=figures, verdict=summary, **grids)


def _on_patterns(look: Look, names: tuple[str, ...]) -> list[str]:
    columns, rows = together(look.X)
    if not rows:
        return []
    shown = "rows" if not look.is_sampled else "rows that are shown"
    expected = len(look.X) * float(np.prod(np.isnan(look.X[:, columns]).mean(axis=0)))
    return [
        f"Values are missing together: {listing([names[j] for j in columns])} are missing at once, "
        f"with or without others, in {whole(rows)} of the {whole(len(look.X))} {shown}; chance "
        f"would give about {number(expected, 2)}."
    ]


def _on_differences(look: Look, names: tuple[str, ...], numbers: list[int] | None) -> list[str]:
    found = differences(look.X, numbers)
    assumption = (
        "The fit assumes that values are missing at random: whether a value is observed may "
        "depend on the observed values, not on itself. The data alone cannot test this assumption."
    )
    if not found:
        return [assumption]
    first = found[0]
    side = "higher" if first.size > 0 else "lower"
    return [
        f"Values are not missing completely at random: where {names[first.incomplete]} is "
        f"missing, {names[first.other]} is {abs(first.size):.1f} standard deviations {side} on "
        "average (pooled within the two groups of rows). Means over the observed values alone "
        "would be biased; a model of all columns takes this into account.",
        assumption,
    ]


def _per_column(look: Look, names: tuple[str, ...], touched: list[int]) -> Figure:
    shown = touched[:MOST_COLUMNS]
    share = look.missing.per_column / look.n_rows
    data = specs.records(
        column=[names[j] for j in shown], missing=share[shown], cells=look.missing.per_column[shown]
    )
    some = f"The {len(shown)} columns with most missing values."
    return Figure(
        "missing-columns",
        "Missing values by column",
        f"{names[touched[0]]} has most missing values, {percent(float(share[touched[0]]))}; "
        f"{count(len(touched), 'column')} {'has' if len(touched) == 1 else 'have'} any.",
        specs.bars(
            data,
            "share of the rows",
            ".2%",
            field="missing",
            ticks=5,
            tooltip=specs.tips(column="column", cells="missing cells", missing="share|.2%"),
        ),
        "" if len(shown) == len(touched) else some,
    )


def _patterns(look: Look, names: tuple[str, ...]) -> tuple[Grid, ...]:
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
