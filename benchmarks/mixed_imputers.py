"""Peers of LowRankImputer on mixed tables: functions from an incomplete table to an answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.mixed_tables import Incomplete


@dataclass
class Answer:
    """What a method imputes, in codes."""

    values: np.ndarray  # (n, d)
    probabilities: dict[int, np.ndarray] = field(default_factory=dict)  # (n, K) by column
    low: np.ndarray | None = None  # (n, d) ends of 95 % intervals
    high: np.ndarray | None = None


SEED = 73  # of values held out within: not those that the benchmark holds out

Impute = Callable[[Incomplete], Answer]

# What peers raise on tables that are small for them
FAILURES = (ValueError, TypeError, IndexError, KeyError, RuntimeError, np.linalg.LinAlgError)


def ours(given: Incomplete, **parameters: Any) -> Answer:
    """LowRankImputer with its defaults, on the data frame as it is."""
    from eigengap.estimators.imputer import LowRankImputer

    table = given.table
    imputer = LowRankImputer(**parameters).fit(given.frame)
    filled = imputer.impute(given.frame)
    low, high = imputer.intervals(given.frame)
    found, kinds = {}, getattr(imputer, "kinds_", {})
    if any(kind in ("binary", "nominal", "ordinal") for kind in kinds.values()):
        names = list(given.frame.columns)
        for name, p in imputer.level_probabilities(given.frame).items():
            j = names.index(name)
            levels = table.levels[j]
            if levels is None:
                continue
            in_codes = np.zeros((len(p), len(levels)))
            for k, level in enumerate(imputer.levels_[name]):
                in_codes[:, levels.index(level)] = p[:, k]
            found[j] = in_codes
    ends = (table.coded(low), table.coded(high))
    return Answer(table.coded(filled), found, *ends)


def median_and_mode(given: Incomplete) -> Answer:
    X = given.codes
    values, found = X.copy(), {}
    low, high = X.copy(), X.copy()
    for j, levels in enumerate(given.table.levels):
        missing = np.isnan(X[:, j])
        observed = X[~missing, j]
        if levels is None:
            values[missing, j] = np.median(observed)
            low[missing, j], high[missing, j] = np.quantile(observed, [0.025, 0.975])
        else:
            counts = np.bincount(observed.astype(int), minlength=len(levels))
            values[missing, j] = float(np.argmax(counts))
            found[j] = np.tile((counts + 0.5) / np.sum(counts + 0.5), (len(X), 1))
    return Answer(values, found, low, high)


# Encodings ----------------------------------------------------------------------------------------


def _one_hot(given: Incomplete) -> tuple[np.ndarray, list[slice]]:
    """(n, D) levels by indicators (one for two levels), and where each column is."""
    parts, where, at = [], [], 0
    for x, levels in zip(given.codes.T, given.table.levels, strict=True):
        if levels is None or len(levels) == 2:
            part = x[:, None]
        else:
            part = (x[:, None] == np.arange(len(levels))).astype(float)
            part[np.isnan(x)] = np.nan
            part = part[:, _varies(part)]
        parts.append(part)
        where.append(slice(at, at + part.shape[1]))
        at += part.shape[1]
    return np.concatenate(parts, axis=1), where


def _varies(part: np.ndarray) -> np.ndarray:
    return np.nansum(part, axis=0) > 0


def _from_one_hot(filled: np.ndarray, where: list[slice], given: Incomplete) -> Answer:
    """The level of the largest indicator, and indicators cut off at 0 and 1 for probabilities."""
    values, found = given.codes.copy(), {}
    for j, (levels, own) in enumerate(zip(given.table.levels, where, strict=True)):
        missing, x = np.isnan(values[:, j]), filled[:, own]
        if levels is None:
            values[missing, j] = x[missing, 0]
            continue
        if len(levels) == 2:
            p = np.clip(np.column_stack([1 - x[:, 0], x[:, 0]]), 0.01, 0.99)
        else:
            full = np.full((len(x), len(levels)), 1e-3)
            seen = np.unique(given.codes[~missing, j]).astype(int)
            full[:, seen] = np.clip(x, 1e-3, 1.0)
            p = full / full.sum(axis=1, keepdims=True)
        values[missing, j] = np.argmax(p[missing], axis=1)
        found[j] = p
    return Answer(values, found)


# Peers --------------------------------------------------------------------------------------------


def iterative(given: Incomplete) -> Answer:
    """IterativeImputer with its defaults on indicators of the levels."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    X, where = _one_hot(given)
    filled = np.asarray(IterativeImputer(random_state=0).fit_transform(X))
    return _from_one_hot(filled, where, given)


def famd(given: Incomplete) -> Answer:
    """Regularised iterative FAMD (Audigier, Husson and Josse 2016), written from the paper.

    The number of components, up to 5, by a tenth of the values held out.
    """
    X, where = _indicators(given)
    is_level = np.concatenate(
        [np.full(own.stop - own.start, levels is not None)
         for levels, own in zip(given.table.levels, where, strict=True)]
    )  # fmt: skip
    hidden = np.random.default_rng(SEED).random(given.codes.shape) < 0.1
    spread = np.concatenate(
        [np.repeat(hidden[:, [j]], own.stop - own.start, axis=1) for j, own in enumerate(where)],
        axis=1,
    ) & ~np.isnan(X)
    scale = np.nanstd(X, axis=0)
    scale[scale == 0] = 1.0
    errors = []
    most = min(5, X.shape[1] - 2)
    for q in range(1, most + 1):
        filled = _famd(np.where(spread, np.nan, X), is_level, q)
        errors.append(np.mean((((filled - X) / scale)[spread]) ** 2))
    filled = _famd(X, is_level, int(np.argmin(errors)) + 1)
    return _from_indicators(filled, where, given)


def _indicators(given: Incomplete) -> tuple[np.ndarray, list[slice]]:
    parts, where, at = [], [], 0
    for x, levels in zip(given.codes.T, given.table.levels, strict=True):
        part = x[:, None]
        if levels is not None:
            part = (x[:, None] == np.arange(len(levels))).astype(float)
            part[np.isnan(x)] = np.nan
        parts.append(part)
        where.append(slice(at, at + part.shape[1]))
        at += part.shape[1]
    return np.concatenate(parts, axis=1), where


def _from_indicators(filled: np.ndarray, where: list[slice], given: Incomplete) -> Answer:
    values, found = given.codes.copy(), {}
    for j, (levels, own) in enumerate(zip(given.table.levels, where, strict=True)):
        missing, x = np.isnan(values[:, j]), filled[:, own]
        if levels is None:
            values[missing, j] = x[missing, 0]
        else:
            p = np.clip(x, 1e-3, 1.0)
            found[j] = p / p.sum(axis=1, keepdims=True)
            values[missing, j] = np.argmax(p[missing], axis=1)
    return Answer(values, found)


def _famd(X: np.ndarray, is_level: np.ndarray, q: int) -> np.ndarray:
    """Numbers in standard deviations, indicators over the root of their share; shrunken SVD."""
    missing = np.isnan(X)
    filled = np.where(missing, np.nanmean(X, axis=0), X)
    last = filled
    for _ in range(1000):
        mean = filled.mean(axis=0)
        unit = np.where(is_level, np.sqrt(np.maximum(mean, 1e-6)), filled.std(axis=0))
        unit = np.where(unit > 0, unit, 1.0)
        U, s, Vt = np.linalg.svd((filled - mean) / unit, full_matrices=False)
        rest = s[q:] ** 2
        noise = rest.sum() / max(len(rest), 1)
        shrunk = np.maximum(s[:q] - noise / np.maximum(s[:q], 1e-12), 0.0)
        fitted = (U[:, :q] * shrunk) @ Vt[:q] * unit + mean
        last, filled = filled, np.where(missing, fitted, X)
        if np.sum(((filled - last) / unit) ** 2) < 1e-6 * len(X):
            break
    return filled


def _copula_module() -> Any:
    """gcimpute 0.0.4 uses names that NumPy 2 took away."""
    gone = {"infty": np.inf, "Inf": np.inf, "product": np.prod, "round_": np.round}
    for name, value in gone.items():
        if not hasattr(np, name):
            setattr(np, name, value)
    import gcimpute.gaussian_copula
    import gcimpute.low_rank_gaussian_copula

    return gcimpute


def copula(given: Incomplete) -> Answer:
    """gcimpute's Gaussian copula with a full correlation matrix, on indicators of the levels."""
    module = _copula_module()
    return _by_copula(given, module.gaussian_copula.GaussianCopula)


def low_rank_copula(given: Incomplete) -> Answer:
    """gcimpute's low-rank Gaussian copula; rank 1, 2, 3, 5 or 8 by a tenth of the values."""
    module = _copula_module()

    def of(rank: int) -> Any:
        return module.low_rank_gaussian_copula.LowRankGaussianCopula(rank=rank)

    X, _ = _one_hot(given)
    hidden = (np.random.default_rng(SEED).random(X.shape) < 0.1) & ~np.isnan(X)
    unit = np.nanstd(X, axis=0)
    unit[unit == 0] = 1.0
    ranks = [q for q in (1, 2, 3, 5, 8) if q < X.shape[1] - 1]
    errors = []
    for rank in ranks:
        try:
            filled = np.asarray(of(rank).fit_transform(np.where(hidden, np.nan, X)))
            errors.append(np.mean(np.abs((filled - X) / unit)[hidden]))
        except FAILURES:
            errors.append(np.inf)
    best = ranks[int(np.argmin(errors))]
    return _by_copula(given, lambda: of(best))


def _by_copula(given: Incomplete, make: Callable[[], Any]) -> Answer:
    X, where = _one_hot(given)
    model = make()
    filled = np.asarray(model.fit_transform(X))
    answer = _from_one_hot(filled, where, given)
    answer.probabilities = {}  # it imputes levels, and says nothing of how sure it is
    return answer


def forest(given: Incomplete, trees: int = 50, rounds: int = 4) -> Answer:
    """MissForest (Stekhoven and Buehlmann 2012): forests of scikit-learn, columns in turn."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    X, levels = given.codes, given.table.levels
    missing = np.isnan(X)
    answer = median_and_mode(given)
    answer.low = answer.high = None
    values = answer.values
    order = [j for j in np.argsort(missing.sum(axis=0)) if missing[:, j].any()]
    for _ in range(rounds):
        for j in order:
            others = np.delete(values, j, axis=1)
            kind = RandomForestRegressor if levels[j] is None else RandomForestClassifier
            own = kind(n_estimators=trees, random_state=0, max_features="sqrt")
            own.fit(others[~missing[:, j]], X[~missing[:, j], j])
            values[missing[:, j], j] = own.predict(others[missing[:, j]])
            if levels[j] is not None:
                p = np.full((len(X), len(levels[j])), 1e-3)
                p[:, own.classes_.astype(int)] += own.predict_proba(others)
                answer.probabilities[j] = p / p.sum(axis=1, keepdims=True)
    return answer


METHODS: dict[str, Impute] = {
    "LowRankImputer": ours,
    "median and mode": median_and_mode,
    "IterativeImputer": iterative,
    "regularised FAMD": famd,
    "gcimpute": copula,
    "gcimpute low rank": low_rank_copula,
    "MissForest": forest,
}


def quietly(impute: Impute, given: Incomplete) -> Answer:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return impute(given)
