"""A table before any model: what kind every column is, and what it holds.

Counts, moments, extremes, different values and duplicates are of all rows (`TableFacts`, which
merges over blocks); quantiles, histograms and outliers are of at most 100 000 rows, the same ones
however the table is stored. Outliers are values beyond Tukey's (1977) outer fences, three ranges of
the quartiles beyond these, both as they are and on the scale on which the column is modelled: the
logarithm of a column that is log-normal, so that its long tail is none.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.columns.kinds import Ignored, Kind, Ordinal, kinds_of
from eigengap.fitting.columns.survey import Survey
from eigengap.linalg import Array
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.maps import Log
from eigengap.plots.numbers.names import distinct, in_columns
from eigengap.plots.numbers.rows import MOST_READ
from eigengap.selection.coded_table import schema_as_asked
from eigengap.sources import (
    ArraySource,
    ColumnType,
    Schema,
    Source,
    in_memory_table,
    library_of,
    native_column,
    new_frame,
    open_table,
)
from eigengap.statistics.overview import Distinct, TableFacts

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the quantiles
FENCE = 3.0  # ranges of the quartiles beyond these
BINS = 20  # of a histogram, at most
MOST_LEVELS = 10  # that are listed
SKEWED = 1.0  # skewness from which a column is called skewed
MUCH_MISSING = 0.5
FAR = 1e6  # of a value at the open end of a range, a logarithm of 0
PILED = 0.05  # share of the cells at the least or largest value that is worth a word


@dataclass(frozen=True, eq=False)
class ColumnOverview:
    """What one column of a table holds.

    Attributes
    ----------
    name : str
    kind : "continuous", "ordinal", ..., "ignored"
    why : the reason for it, in words
    observed, missing : numbers of cells
    different : different values among the observed; an estimate beyond 2 048
    same_as : names of the other columns that hold the same in every row
    mean, sd, skewness : of numbers, else NaN
    quantiles : array (5,) at 5, 25, 50, 75 and 95 %
    least, largest : of numbers, else NaN
    share_least, share_largest : share of the observed cells that hold these
    outliers : values beyond the outer fences, of the rows that were read
    levels : pairs of a level and its number of cells, the first 10; of ordered levels in their
        order, of others the most frequent first; empty for a column of other numbers
    more_levels, more_cells : levels beyond these, and their cells
    edges, counts : array (b + 1,) and (b,), a histogram of numbers; its bars are equally wide on
        the scale of `scale`
    scale : "linear", or "log" where the column is modelled by its logarithm
    is_read : whether its cells were looked at; free text and dates of files are not
    """

    name: str
    kind: str
    why: str
    observed: int
    missing: int
    different: int
    same_as: tuple[str, ...] = ()
    mean: float = nan
    sd: float = nan
    skewness: float = nan
    quantiles: Array | None = None
    least: float = nan
    largest: float = nan
    share_least: float = nan
    share_largest: float = nan
    outliers: int = 0
    levels: tuple[tuple[str, int], ...] = ()
    more_levels: int = 0
    more_cells: int = 0
    edges: Array | None = None
    counts: NDArray[np.int64] | None = None
    scale: str = "linear"
    is_read: bool = True

    @property
    def share_missing(self) -> float:
        return self.missing / max(self.observed + self.missing, 1)

    @property
    def is_constant(self) -> bool:
        """Whether all observed values are the same one, of two or more."""
        return self.different == 1 and self.observed > 1

    @property
    def is_numeric(self) -> bool:
        return self.quantiles is not None

    @property
    def cautions(self) -> tuple[str, ...]:
        """What an analyst should know of it before a model, in words."""
        said = []
        if not self.is_read:
            return ("not read",)
        if self.observed == 0:
            said.append("no value is observed")
        elif self.is_constant:
            said.append("is constant")
        if self.same_as:
            said.append(f"holds the same as {', '.join(self.same_as)}")
        if self.observed > 0 and self.share_missing > MUCH_MISSING:
            said.append(f"{100 * self.share_missing:.0f} % missing")
        if abs(self.skewness) > SKEWED and not self.levels and self.different > 2:
            said.append(f"skewed to the {'right' if self.skewness > 0 else 'left'}")
        for share, value in (
            (self.share_least, self.least),
            (self.share_largest, self.largest),
        ):
            if PILED <= share < 1.0 and not self.levels:
                said.append(f"{100 * share:.0f} % are {value:g}")
        if self.outliers:
            said.append(f"{self.outliers} outlier{'s' if self.outliers > 1 else ''}")
        return tuple(said)

    @property
    def described(self) -> str:
        """The values in a line: quantiles of numbers, or levels with their shares."""
        if self.levels and self.kind != "ignored":
            cells = max(self.observed, 1)
            listed = [f"{level} {100 * count / cells:.0f} %" for level, count in self.levels[:4]]
            left = len(self.levels) - 4 + self.more_levels
            return ", ".join(listed) + (f", {left} more" if left > 0 else "")
        if self.quantiles is None or not self.observed:
            return f"{self.different} different" if self.observed else ""
        low, _, middle, _, high = (f"{q:.4g}" for q in self.quantiles)
        return f"{middle} ({low} to {high})"


@dataclass(frozen=True, eq=False)
class Overview:
    """What the columns of a table hold.

    Attributes
    ----------
    columns : tuple of ColumnOverview
    rows, incomplete_rows, empty_rows : int
    duplicate_rows : rows that repeat an earlier one in every cell that was read; an estimate beyond
        a million different rows
    read : rows of which quantiles, histograms and outliers are
    """

    columns: tuple[ColumnOverview, ...]
    rows: int
    incomplete_rows: int
    empty_rows: int
    duplicate_rows: int
    read: int

    def to_frame(self) -> Any:
        """One line for each column, as a pandas (or polars) frame."""
        fields = ("name", "kind", "why", "observed", "missing", "different")
        found: dict[str, Any] = {f: [getattr(c, f) for c in self.columns] for f in fields}
        found["constant"] = [c.is_constant for c in self.columns]
        found["same_as"] = [", ".join(c.same_as) for c in self.columns]
        for name in ("mean", "sd", "skewness", "least"):
            found[name] = [getattr(c, name) for c in self.columns]
        for k, share in enumerate(SHARES):
            found[f"q{100 * share:02.0f}"] = [
                nan if c.quantiles is None else float(c.quantiles[k]) for c in self.columns
            ]
        for name in ("largest", "share_least", "share_largest", "outliers"):
            found[name] = [getattr(c, name) for c in self.columns]
        found["values"] = [c.described for c in self.columns]
        return new_frame(found)

    def __str__(self) -> str:
        heads = ("column", "kind", "missing", "values", "")
        lines = [
            (
                c.name,
                c.kind,
                f"{100 * c.share_missing:.3g} %" if c.missing else "",
                c.described,
                "; ".join(c.cautions),
            )
            for c in self.columns
        ]
        said = [f"{self.rows:,} rows × {len(self.columns)} columns"]
        for count, what in (
            (self.incomplete_rows, "incomplete"),
            (self.empty_rows, "without any value"),
            (self.duplicate_rows, "duplicates of earlier ones"),
        ):
            if count:
                said.append(f"{count:,} {what}")
        return "\n".join([", ".join(said), *in_columns([heads, *lines])])

    __repr__ = __str__


def overview(
    X: Any, columns: str | Mapping[Any, Any] = "auto", missing_values: Any = nan
) -> Overview:
    """What every column of a table holds: kind, missing values, distribution, what is unusual.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        Data frame, array, path of a CSV or Parquet file, or Dask frame.
    columns : "auto" or mapping of columns to kinds, default="auto"
        As in `LowRankImputer`.
    missing_values : float or list of float, default=nan
        Numbers that mark a missing value, besides NaN.

    Returns
    -------
    Overview
        Printed as a table; `to_frame()` has one line for each column, `columns` has every figure.

    Notes
    -----
    Skewness is the third central moment over the cube of the standard deviation, sd has divisor
    n - 1. Outliers lie beyond the quartiles by more than three times their range (Tukey 1977), as
    they are and on the scale on which the column is modelled: of a log-normal column the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import eigengap as eg
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"income": np.exp(rng.normal(10, 1, 200)).round()})
    >>> table["answer"] = rng.choice(["no", "yes"], 200, p=[0.3, 0.7])
    >>> table.loc[::10, "answer"] = None
    >>> print(eg.overview(table))
    200 rows × 2 columns, 20 incomplete
      column  kind        missing  values
      income  continuous           2.312e+04 (5042 to 1.064e+05)  skewed to the right
      answer  binary      10 %     yes 74 %, no 26 %
    """
    table = open_table(X, missing_values=missing_values)
    schema = table.schema()
    schema, wanted = schema_as_asked(schema, {} if isinstance(columns, str) else columns)
    source = table.source(schema, range(len(schema.columns)))
    kinds = kinds_of(Survey.of(source), schema.columns, wanted)
    others = [j for j, own in enumerate(schema.columns) if own.holds == "other"]
    read = [j for j in range(len(schema.columns)) if j not in others]
    if others and in_memory_table(X):  # coded too, for different values and duplicate rows
        values = np.array(source.collect(), dtype=np.float64)
        missing = schema.missing_cells(X)
        for j in others:
            values[:, j] = _coded(X, j, missing[:, j])
        source, read = ArraySource(values), read + others
    elif others:
        source = table.columns_of(source, schema.ignoring(others), read)
    return overview_of(source, schema, kinds, asked=tuple(wanted), read=sorted(read))


def overview_of(
    source: Source,
    schema: Schema,
    kinds: Sequence[Kind],
    asked: Sequence[int] = (),
    read: Sequence[int] | None = None,
) -> Overview:
    """Of coded values: numbers, codes of levels, NaN where missing.

    `asked` are the positions of columns whose kind the caller named, `read` those of the columns
    that the source has (all by default).
    """
    facts = source.reduce(TableFacts.of)
    of_quantiles = min(facts.rows, MOST_READ)
    rows = source.sample(of_quantiles, np.random.default_rng(0))
    d = len(schema.columns)
    names = distinct(schema.names or (f"x{j}" for j in range(d)))
    place = {j: k for k, j in enumerate(range(d) if read is None else read)}
    types = [schema.columns[j] for j in place]
    known = [names[j] for j in place]
    columns = []
    for j, kind in enumerate(kinds):
        if j in place:
            k = place[j]
            columns.append(_column(facts, k, known, types, kind, rows[:, k], j in asked))
        else:
            why = "as asked" if j in asked else _why(kind, schema.columns[j], 0)
            columns.append(ColumnOverview(names[j], kind.word, why, 0, 0, 0, is_read=False))
    return Overview(
        columns=tuple(columns),
        rows=facts.rows,
        incomplete_rows=facts.incomplete_rows,
        empty_rows=facts.empty_rows,
        duplicate_rows=facts.duplicate_rows,
        read=of_quantiles,
    )


def _column(
    facts: TableFacts,
    j: int,
    names: Sequence[str],
    types: Sequence[ColumnType],
    kind: Kind,
    sample: Array,
    is_asked: bool,
) -> ColumnOverview:
    own, values = types[j], facts.values[j]
    observed = int(facts.moments.n[j])
    same = [
        names[i]
        for i in np.flatnonzero(facts.prints == facts.prints[j]).tolist()
        if i != j and observed and types[i].levels == own.levels
    ]
    plain = ColumnOverview(
        name=names[j],
        kind=kind.word,
        why="as asked" if is_asked else _why(kind, own, values.different),
        observed=observed,
        missing=facts.rows - observed,
        different=values.different,
        same_as=tuple(same),
    )
    if own.levels or kind.word in ("ordinal", "binary", "nominal"):
        plain = _with_levels(plain, own, values, kind)
    return _with_numbers(plain, facts, j, kind, sample) if own.holds == "numbers" else plain


def _why(kind: Kind, own: ColumnType, different: int) -> str:
    """What an automatic choice of a kind rests on."""
    if isinstance(kind, Ignored):
        return kind.why
    if own.holds == "truth":
        return "truth values"
    if own.holds == "ordered":
        return f"an ordered categorical of {different} levels"
    if own.holds == "levels":
        return f"{different} levels that repeat"
    if kind.word == "binary":
        return "two different numbers"
    return f"{different} whole numbers that repeat" if isinstance(kind, Ordinal) else "numbers"


def _with_levels(
    plain: ColumnOverview, own: ColumnType, values: Distinct, kind: Kind
) -> ColumnOverview:
    has_order = kind.word == "ordinal" or own.holds in ("ordered", "numbers")
    frequent = np.lexsort((values.values, -values.counts))[:MOST_LEVELS]
    if has_order:
        frequent = frequent[np.argsort(values.values[frequent])]
    codes, counts = values.values[frequent].tolist(), values.counts[frequent].tolist()
    levels = distinct(f"{own.level(x):g}" if not own.levels else own.level(x) for x in codes)
    return replace(
        plain,
        levels=tuple(zip(levels, counts, strict=True)),
        more_levels=plain.different - len(levels),
        more_cells=plain.observed - sum(counts),
    )


def _with_numbers(
    plain: ColumnOverview, facts: TableFacts, j: int, kind: Kind, sample: Array
) -> ColumnOverview:
    x = np.sort(sample[~np.isnan(sample)])
    moments, extremes = facts.moments, facts.extremes
    n = max(plain.observed, 1)
    found = replace(
        plain,
        mean=float(moments.mean[j]) if plain.observed else nan,
        sd=float(moments.sd[j]),
        skewness=float(moments.skewness[j]),
        quantiles=np.quantile(x, SHARES) if len(x) else np.full(len(SHARES), nan),
        least=float(extremes.least[j]),
        largest=float(extremes.largest[j]),
        share_least=float(extremes.at_least[j]) / n,
        share_largest=float(extremes.at_largest[j]) / n,
    )
    if not len(x) or plain.levels or isinstance(kind, Ignored):
        return found
    y, is_log = _modelled(x, kind)
    edges = _edges(x, is_log)
    return replace(
        found,
        outliers=int(np.count_nonzero(_beyond(x) & _beyond(y))),
        edges=edges,
        counts=np.histogram(x, edges)[0].astype(np.int64),
        scale="log" if is_log else "linear",
    )


def _beyond(y: Array) -> NDArray[np.bool_]:
    """(n,) whether each value lies beyond the outer fences; none where half of them are equal."""
    q1, q3 = np.quantile(y, [0.25, 0.75])
    reach = FENCE * (q3 - q1) if q3 > q1 else np.inf
    return np.asarray((y < q1 - reach) | (y > q3 + reach))


def _modelled(x: Array, kind: Kind) -> tuple[Array, bool]:
    """The values (n,) on the scale on which their column is modelled; whether it is a logarithm."""
    if kind.word == "count":
        return np.sqrt(x), False  # the variance of the root of a Poisson count is about 1 / 4
    if kind.fault(x, has_levels=False) is not None:
        return x, False
    column = kind.learned(x)
    if not isinstance(column, ContinuousColumn):
        return x, False
    family = column.margin.family
    is_log = isinstance(family, Log) and family.lower == 0.0 and x[0] > 0.0
    with np.errstate(divide="ignore"):
        return np.nan_to_num(family.forward(x), posinf=FAR, neginf=-FAR), is_log


def _edges(x: Array, is_log: bool) -> Array:
    """Edges of equally wide bars for sorted values: one for each of few whole numbers."""
    low, high = float(x[0]), float(x[-1])
    if low == high:
        return np.array([low - 0.5, high + 0.5])
    if is_log:
        return np.asarray(np.geomspace(low, high, _bars(np.log(x)) + 1))
    if high - low < BINS and np.all(x == np.round(x)):
        return np.arange(low - 0.5, high + 1.0)
    return np.linspace(low, high, _bars(x) + 1)


def _bars(y: Array) -> int:
    """How many: by Freedman and Diaconis's (1981) width, at least Sturges's number."""
    n, (q1, q3) = len(y), np.quantile(y, [0.25, 0.75])
    least = int(np.ceil(np.log2(n))) + 1
    width = 2.0 * (q3 - q1) * n ** (-1.0 / 3.0)
    wanted = (y[-1] - y[0]) / width if width > 0.0 else least
    return int(np.clip(np.ceil(wanted), min(least, BINS), BINS))


def _coded(X: Any, j: int, missing: NDArray[np.bool_]) -> Array:
    """Numbers (n,) for the cells of a column of anything: the same for equal ones."""
    if library_of(X) is None:
        cells = list(np.asarray(X, dtype=object)[:, j])
    else:
        column = native_column(X, j)
        cells = list(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())
    known: dict[Any, float] = {}
    found = np.full(len(cells), nan)
    for i in np.flatnonzero(~missing):
        cell = cells[i] if isinstance(cells[i], Hashable) else repr(cells[i])
        found[i] = known.setdefault(cell, float(len(known)))
    return found
