"""Columns of every kind against components, those of the fit and others besides (supplementary).

The formulas are in `eigengap.inference.associations`; here they are asked of a fitted estimator and
a table. Contributions of columns are shares of what the components explain: with r^2 the squared
correlation of a column of numbers and eta^2 the correlation ratio of one of levels,

    contribution of column j to component k   100 v_j r2_jk / sum_j v_j r2_jk

as in FAMD, where the sum is the eigenvalue (Pages 2004); v_j is 1, and the variance of the column
where a fit of numbers did not standardise them. They are those of PCA on complete rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from eigengap.estimators.shared.display import public_name, require_fitted
from eigengap.fitting.columns.kinds import Ignored, kinds_of
from eigengap.fitting.columns.survey import Survey
from eigengap.inference.associations import LevelScores, correlation
from eigengap.linalg import Array
from eigengap.models.columns.column import Column, LevelColumn
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.plots.numbers.columns import one_column
from eigengap.plots.numbers.names import distinct, in_columns, names_of
from eigengap.plots.numbers.rows import MOST_READ, Table, coded_table, inner, table_of
from eigengap.plots.numbers.scores import (
    ScoreEllipses,
    check_axes,
    linear_view,
    score_covariances,
    score_names,
    scores_of,
)
from eigengap.sources import (
    ArraySource,
    ColumnType,
    Schema,
    as_weight,
    eager_frame,
    labels_of,
    library_of,
    new_frame,
    quote,
    selected,
)

Scale = Literal["model", "data"]
Region = Literal["rows", "barycentre"]
ORDERED = ("ordinal", "binary")  # kinds whose levels have a number
SIGNIFICANT = 0.05
MOST_SHOWN = 12  # lines of a printed table


@dataclass(frozen=True, eq=False)
class Categories:
    """The levels of columns among the scores: L levels, q components.

    Attributes
    ----------
    column : tuple of str
        The column of each level.
    level : tuple of str
    supplementary : array (L,) of bool
    weight : array (L,)
        Rows that have the level, or the sum of their weights.
    coordinates : array (L, q)
        Barycentre: the mean score of these rows; NaN of a level that no row has.
    cov : array (L, q, q)
        Covariance of the rows of a level, the uncertainty of their scores included.
    cov_barycentre : array (L, q, q)
        Covariance of the barycentre as an estimate of the mean score of the level.
    v_test : array (L, q)
        How far the barycentre lies from the mean of all rows, in standard deviations of what it
        would be if the level were drawn at random: beyond 2 is more than chance, at about 5 %.
    p_value : array (L, q)
        Of the correlation of being of the level with the score.
    estimate : array (L, q)
        Barycentre less the plain mean of the barycentres of its column.
    """

    column: tuple[str, ...]
    level: tuple[str, ...]
    supplementary: NDArray[np.bool_]
    weight: Array
    coordinates: Array
    cov: Array
    cov_barycentre: Array
    v_test: Array
    p_value: Array
    estimate: Array
    components: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The levels, with their column where the level alone would not be clear: sex=female."""
        plain = [level.casefold() for level in self.level]
        twice = {level for level in plain if plain.count(level) > 1}
        unclear = [
            level in twice or level in TRUTH or not any(map(str.isalpha, level)) for level in plain
        ]
        of_column = {c for c, u in zip(self.column, unclear, strict=True) if u}
        return [
            f"{c}={level}" if c in of_column else level
            for c, level in zip(self.column, self.level, strict=True)
        ]

    def ellipses(
        self, axes: Any = (1, 2), *, level: float = 0.95, of: Region = "rows"
    ) -> ScoreEllipses:
        """Regions along two components, counted from 1: `outlines()` has their lines.

        Parameters
        ----------
        axes : pair of int, default=(1, 2)
        level : float in (0, 1), default=0.95
        of : {"rows", "barycentre"}, default="rows"
            Where a row of the level lies with that probability, if the rows are Gaussian
            (concentration ellipse), or where the mean of the level lies (confidence ellipse).
        """
        if of not in get_args(Region):
            raise ValueError(f'of must be "rows" or "barycentre", got {of!r}')
        pair = list(check_axes(axes, len(self.components), "the fit"))
        cov = (self.cov if of == "rows" else self.cov_barycentre)[:, pair][:, :, pair]
        at = np.flatnonzero(np.isfinite(cov).all(axis=(1, 2)))
        return ScoreEllipses(at, self.coordinates[at][:, pair], cov[at], level)

    def to_frame(self) -> Any:
        """One line for each level, as a pandas (or polars) frame."""
        found: dict[str, Any] = {
            "column": list(self.column),
            "level": list(self.level),
            "supplementary": self.supplementary,
            "weight": self.weight,
        }
        for k, name in enumerate(self.components):
            found[name] = self.coordinates[:, k]
        for k, name in enumerate(self.components):
            found[f"v_test {name}"] = self.v_test[:, k]
        return new_frame(found)


@dataclass(frozen=True, eq=False)
class Associations:
    """Columns against components: d columns, q components.

    Attributes
    ----------
    columns, kinds : tuple of str
        Names and kinds, those of the fit first.
    supplementary : array (d,) of bool
        Columns that are not of the fit.
    components : tuple of str
    weight : array (d,)
        Rows in which the column is observed, or the sum of their weights; all figures of the column
        are of these rows.
    r : array (d, q)
        Correlation with the score; NaN of levels without an order. Of ordered levels it is that of
        their numbers.
    r2 : array (d, q)
        Squared correlation of a column of numbers, correlation ratio (eta squared) of one with
        levels: the share of the variance of the scores that the column explains.
    p_value : array (d, q)
        That there is no association: Student's t, or the F test of the analysis of variance.
    contributions : array (d, q)
        Share of the column in the component, in per cent; NaN of supplementary ones. Sums to 100.
    categories : Categories
    """

    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    supplementary: NDArray[np.bool_]
    components: tuple[str, ...]
    weight: Array
    r: Array
    r2: Array
    p_value: Array
    contributions: Array
    categories: Categories

    @property
    def has_levels(self) -> NDArray[np.bool_]:
        """(d,) whether r2 is a correlation ratio."""
        return np.isin(self.columns, list(dict.fromkeys(self.categories.column)))

    def to_frame(self) -> Any:
        """One line for each column, as a pandas (or polars) frame."""
        found: dict[str, Any] = {
            "column": list(self.columns),
            "kind": list(self.kinds),
            "supplementary": self.supplementary,
            "weight": self.weight,
        }
        for what, values in (("r", self.r), ("r2", self.r2), ("p", self.p_value)):
            for k, name in enumerate(self.components):
                found[f"{what} {name}"] = values[:, k]
        for k, name in enumerate(self.components):
            found[f"contribution {name}"] = self.contributions[:, k]
        return new_frame(found)

    def describe(self, component: int = 1, alpha: float = SIGNIFICANT) -> Any:
        """What describes a component, most significant first: as FactoMineR's `dimdesc`.

        Parameters
        ----------
        component : int, default=1
            Counted from 1.
        alpha : float in (0, 1], default=0.05
            Largest p-value, of each test alone.

        Returns
        -------
        frame
            One line for each column of numbers (its correlation), column with levels (its eta
            squared) and level (barycentre less the mean of its column's).
        """
        (k,) = check_axes(component, len(self.components), "the fit")
        own, levels = self.categories, self.has_levels
        lines = [
            (
                name,
                "",
                "eta2" if levels[j] else "correlation",
                float(self.r2[j, k] if levels[j] else self.r[j, k]),
                float(self.p_value[j, k]),
            )
            for j, name in enumerate(self.columns)
        ]
        lines += [
            (c, level, "estimate", float(own.estimate[i, k]), float(own.p_value[i, k]))
            for i, (c, level) in enumerate(zip(own.column, own.level, strict=True))
        ]
        kept = sorted((line for line in lines if line[4] <= alpha), key=lambda line: line[4])
        heads = ("column", "level", "measure", "value", "p_value")
        return new_frame({head: [line[i] for line in kept] for i, head in enumerate(heads)})

    def __str__(self) -> str:
        heads = ["column", "kind", *self.components, "contributions, %"]
        order = np.argsort(-np.nansum(self.r2, axis=1), kind="stable")[:MOST_SHOWN]
        lines = [heads]
        for j in order.tolist():
            share = self.contributions[j]
            lines.append(
                [
                    self.columns[j] + (" (supplementary)" if self.supplementary[j] else ""),
                    self.kinds[j],
                    *(f"{v:.2f}" for v in self.r2[j].tolist()),
                    "" if self.supplementary[j] else " ".join(f"{v:.1f}" for v in share.tolist()),
                ]
            )
        title = "Squared correlations and correlation ratios of columns and components"
        left = len(self.columns) - len(order)
        return "\n".join([title, *in_columns(lines), *([f"  and {left} more"] if left else [])])

    __repr__ = __str__


TRUTH = ("yes", "no", "true", "false", "other", "none", "unknown")


def associations(
    estimator: Any,
    X: Any,
    extra: Any = None,
    *,
    scale: Scale = "model",
    sample_weight: Any = None,
) -> Associations:
    """Columns and their levels against the components: FAMD's and MCA's tables for any embedding.

    Parameters
    ----------
    estimator : fitted estimator with `transform`
        One fitted with `columns=` has columns of every kind; to any other all are numbers.
    X : table of shape (n_samples, n_features)
        Rows of the columns of the fit, new ones or those of the fit; a frame may have others.
    extra : list of column names of X, or table of n_samples rows, default=None
        Supplementary columns, of numbers or levels, which the fit did not use.
    scale : {"model", "data"}, default="model"
        Whether numbers are taken on the scale on which the fit models their column, a logarithm for
        instance, or as they are. To a fit of numbers they are the same.
    sample_weight : array of shape (n_samples,), default=None

    Returns
    -------
    Associations
        `columns`, `r`, `r2`, `p_value`, `contributions`; `categories` with barycentres, ellipses
        and v-tests; `describe(component)`; `to_frame()`.

    Notes
    -----
    A score is what `transform` gives: of a density, the mean of the posterior given the observed
    values of the row. Missing values of a column are left out of its own figures, and of no
    other's. Columns under a logarithm or another map enter `r` by the Gaussian u behind them
    (`scale`), cells that give u only between limits, counts and atoms, by its mean given the cell.
    Of more than 100 000 rows a sample is taken.

    Examples
    --------
    >>> import numpy as np
    >>> import eigengap as eg
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True)
    >>> species = iris.target_names[iris.target]
    >>> found = eg.associations(eg.PCA(2, scale=True).fit(iris.data), iris.data, extra=species)
    >>> np.nansum(found.contributions, axis=0).round(1).tolist()  # of the columns of the fit
    [100.0, 100.0]
    >>> found.categories.level
    ('setosa', 'versicolor', 'virginica')
    >>> found.categories.coordinates[:, 0].round(1).tolist()
    [-2.2, 0.5, 1.7]
    >>> found.r2[-1].round(2).tolist()  # the species' share of the variance of the scores
    [0.93, 0.17]
    """
    require_fitted(estimator)
    if scale not in get_args(Scale):
        raise ValueError(f'scale must be "model" or "data", got {scale!r}')
    table = table_of(X, estimator, most=MOST_READ)
    weight = as_weight(sample_weight, table.n)
    weight = None if weight is None else weight[table.at]
    given = _of_fit(estimator, table)
    if extra is not None:
        given += _of_extra(X, extra, table, coded_table(estimator) is not None)
    T = scores_of(estimator, table)
    if T.shape[1] == 0:
        raise ValueError(f"{public_name(estimator)} has no component to associate columns with")
    unsure = _mean_covariances(estimator, table, given, weight)
    found = [
        _Found.of(each, T, mean, weight, scale) for each, mean in zip(given, unsure, strict=True)
    ]
    names = tuple(score_names(estimator, T.shape[1]))
    return _collected(given, found, names, _inertia(estimator, table))


@dataclass(frozen=True, eq=False)
class _Given:
    """A column in the rows that are read."""

    name: str
    kind: str
    values: Array  # (m,) numbers, or numbers of levels
    on_scale: Array  # (m,) numbers on the scale of the model
    levels: tuple[str, ...] = ()
    codes: NDArray[np.intp] | None = None  # (m,) of levels, -1 where missing
    is_extra: bool = False


@dataclass(frozen=True, eq=False)
class _Found:
    weight: float
    r: Array  # (q,)
    r2: Array
    p_value: Array
    levels: LevelScores | None

    @classmethod
    def of(
        cls, given: _Given, T: Array, unsure: Array | None, weight: Array | None, scale: Scale
    ) -> _Found:
        of_numbers = given.values if scale == "data" else given.on_scale
        r, p, N = correlation(of_numbers, T, weight)
        if given.codes is None:
            return cls(N, r, r**2, p, None)
        found = LevelScores.of(given.codes, len(given.levels), T, unsure, weight)
        if given.kind not in ORDERED:
            r = np.full(len(r), np.nan)
        return cls(N, r, found.eta2, found.p_value, found)


def _of_fit(estimator: Any, table: Table) -> list[_Given]:
    """The columns of the fit."""
    X, coded = table.X, coded_table(estimator)
    if coded is None:
        named = names_of(estimator, X.shape[1])
        return [_Given(name, "continuous", x, x) for name, x in zip(named, X.T, strict=True)]
    mu, variance = _of_u(inner(estimator).model_.gaussian)
    texts = names_of(estimator)
    found = []
    for k, (fitted, at) in enumerate(coded.columns):
        j = coded.used[k]
        scored = X[:, k]
        if not isinstance(fitted, LevelColumn):
            scored = _on_scale(fitted, X[:, k], mu[at], variance[at])
        own, word = coded.schema.columns[j], coded.kinds[j].word
        found.append(_given(texts[k], word, X[:, k], scored, own, fitted))
    return found


def _of_u(model: Any) -> tuple[Array, Array]:
    """Mean and variance (D,) of the u behind columns, of a mixture over its components."""
    if not isinstance(model, MixtureOfLinearGaussians):
        return model.mu, np.sum(model.W**2, axis=1) + model.psi
    parts = [_of_u(each.gaussian) for each in model.models]
    mean = sum(w * mu for w, (mu, _) in zip(model.weights, parts, strict=True))
    square = (w * (v + mu**2) for w, (mu, v) in zip(model.weights, parts, strict=True))
    return np.asarray(mean), np.asarray(sum(square) - mean**2)


def _of_extra(X: Any, extra: Any, table: Table, is_mixed: bool) -> list[_Given]:
    """Supplementary columns."""
    rows = _as_table(X, extra)
    schema = Schema.of(rows)
    values = schema.code(rows)
    if len(values) != table.n:
        raise ValueError(
            f"extra has {len(values)} rows, and X has {table.n}: supplementary columns are of the "
            "same rows"
        )
    values = values[table.at]
    own_types = [replace(own, note="") for own in schema.columns]  # dates are levels here
    kinds = kinds_of(Survey.of(ArraySource(values)), own_types)
    plain = ["extra"] if len(schema.columns) == 1 else map("extra {}".format, range(len(kinds)))
    named = distinct(own.name or name for own, name in zip(schema.columns, plain, strict=True))
    found = []
    for name, own, kind, x in zip(named, schema.columns, kinds, values.T, strict=True):
        if isinstance(kind, Ignored):
            raise ValueError(f"column {name} cannot be supplementary: {kind.why}")
        observed = x[~np.isnan(x)]
        if not len(observed):
            raise ValueError(f"column {name} cannot be supplementary: no value of it is observed")
        if own.holds == "numbers" and not is_mixed:
            found.append(_Given(name, "continuous", x, x, is_extra=True))
            continue
        fitted = kind.learned(observed)
        is_level = isinstance(fitted, LevelColumn)
        scored = x if is_level else _on_scale(fitted, x, np.zeros(1), np.ones(1))
        found.append(replace(_given(name, kind.word, x, scored, own, fitted), is_extra=True))
    return found


def _given(
    name: str, word: str, x: Array, scored: Array, own: ColumnType, fitted: Column
) -> _Given:
    if not isinstance(fitted, LevelColumn):
        return _Given(name, word, x, scored)
    codes = np.full(len(x), -1, dtype=np.intp)
    observed = ~np.isnan(x)
    codes[observed] = fitted.code(x[observed])
    levels = (own.level(float(code)) for code in fitted.levels)
    texts = distinct(f"{level:g}" if isinstance(level, float) else level for level in levels)
    return _Given(name, word, x, scored, texts, codes)


def _on_scale(fitted: Column, x: Array, mean: Array, variance: Array) -> Array:
    """E[u | x] (m,) of a column of numbers whose u is Gaussian with this mean and variance."""
    rows = Columns((fitted,)).encode(x[:, None])
    u = np.where(rows.M > 0, rows.R, np.nan)
    shape = rows.evidence.first.shape
    alone = rows.evidence.tilted(np.full(shape, mean), np.full(shape, variance)).mean
    u[:, rows.at] = np.where(rows.evidence.informative, alone, u[:, rows.at])
    return np.asarray(u[:, 0])


def _as_table(X: Any, extra: Any) -> Any:
    """Supplementary columns as a frame or an array of objects."""
    names = [extra] if isinstance(extra, str) else extra
    if isinstance(names, list | tuple) and names and all(isinstance(n, str) for n in names):
        if library_of(X) is None:
            columns = {name: one_column(X, name) for name in names}
            return new_frame(columns)
        X = eager_frame(X)
        known = labels_of(X)
        lacks = [name for name in names if name not in known]
        if lacks:
            raise ValueError(
                f"X has no column {quote(lacks[0])} to be supplementary; a list of text names "
                "columns of X, and values are given as an array, series or frame"
            )
        return selected(X, names)
    if hasattr(extra, "to_frame"):  # a series
        return extra.to_frame()
    if library_of(extra) is not None:
        return extra
    array = np.asarray(extra)
    return array[:, None] if array.ndim == 1 else array


def _mean_covariances(
    estimator: Any, table: Table, given: Sequence[_Given], weight: Array | None
) -> list[Array | None]:
    """Of each column with levels: mean covariance (K, q, q) of the scores of their rows."""
    sums: list[Array | None] = [None] * len(given)
    for rows, cov in score_covariances(estimator, table):
        w = np.ones(len(cov)) if weight is None else weight[rows]
        flat = w[:, None] * cov.reshape(len(cov), -1)
        for j, each in enumerate(given):
            if each.codes is None:
                continue
            codes, K = each.codes[rows], len(each.levels)
            is_level = codes[:, None] == np.arange(K)
            part = (is_level.T @ flat).reshape(K, *cov.shape[1:])
            before = sums[j]
            sums[j] = part if before is None else before + part
    means: list[Array | None] = [None] * len(given)
    for j, (each, summed) in enumerate(zip(given, sums, strict=True)):
        if summed is not None and each.codes is not None:
            kept = each.codes >= 0
            own = None if weight is None else weight[kept]
            count = np.bincount(each.codes[kept], own, minlength=len(each.levels))
            means[j] = summed / np.where(count > 0, count, np.nan)[:, None, None]
    return means


def _inertia(estimator: Any, table: Table) -> Array | None:
    """(d,) how much each column of the fit weighs in it; None where there are no loadings."""
    if coded_table(estimator) is not None:
        return np.ones(table.X.shape[1])
    if linear_view(estimator) is None:
        return None
    if getattr(inner(estimator), "scale_", None) is not None:
        return np.ones(table.X.shape[1])
    return np.nanvar(table.X, axis=0)


def _collected(
    given: Sequence[_Given],
    found: Sequence[_Found],
    components: tuple[str, ...],
    inertia: Array | None,
) -> Associations:
    r2 = np.array([each.r2 for each in found])
    is_extra = np.array([each.is_extra for each in given])
    share = np.full(r2.shape, np.nan)
    if inertia is not None:
        part = inertia[:, None] * np.nan_to_num(r2[~is_extra])
        total = part.sum(axis=0)
        share[~is_extra] = 100.0 * part / np.where(total > 0.0, total, np.nan)
    return Associations(
        columns=tuple(each.name for each in given),
        kinds=tuple(each.kind for each in given),
        supplementary=is_extra,
        components=components,
        weight=np.array([each.weight for each in found]),
        r=np.array([each.r for each in found]),
        r2=r2,
        p_value=np.array([each.p_value for each in found]),
        contributions=share,
        categories=_categories(given, found, components),
    )


def _categories(
    given: Sequence[_Given], found: Sequence[_Found], components: tuple[str, ...]
) -> Categories:
    pairs = [(g, f.levels) for g, f in zip(given, found, strict=True) if f.levels is not None]
    q = len(components)

    def joined(name: str, *shape: int) -> Array:
        parts = [np.empty((0, *shape)), *(getattr(levels, name) for _, levels in pairs)]
        return np.concatenate(parts)

    return Categories(
        column=tuple(g.name for g, _ in pairs for _ in g.levels),
        level=tuple(level for g, _ in pairs for level in g.levels),
        supplementary=np.array([g.is_extra for g, _ in pairs for _ in g.levels], dtype=bool),
        weight=joined("weight"),
        coordinates=joined("barycentre", q),
        cov=joined("cov", q, q),
        cov_barycentre=joined("cov_barycentre", q, q),
        v_test=joined("v_test", q),
        p_value=joined("p_level", q),
        estimate=joined("estimate", q),
        components=components,
    )
