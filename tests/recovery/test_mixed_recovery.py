"""Tables simulated from factor analysis behind columns of several kinds, imputed by default."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from eigengap import FactorAnalysis, LowRankImputer
from eigengap.columns import Count

NUMBERS = ["a", "b", "c", "d"]
SKEWED = ["c", "d"]


def simulated(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Two Gaussian, two log-normal columns, ratings, truth values and text by two factors."""
    rng = np.random.default_rng(seed)
    W = np.array([[0.8, 0.3, 0.8, 0.3, 0.7, 0.5, -0.6], [0.2, 0.8, -0.3, 0.8, 0.4, -0.6, 0.6]])
    u = rng.normal(size=(n, 2)) @ W
    u += rng.normal(size=u.shape) * np.sqrt(np.maximum(1.0 - (W**2).sum(axis=0), 0.1))
    table = pd.DataFrame(
        {
            "a": 10.0 + 3.0 * u[:, 0],
            "b": u[:, 1],
            "c": np.exp(1.2 * u[:, 2]),
            "d": 100.0 * np.exp(1.2 * u[:, 3]),
            "rating": 1.0 + np.digitize(u[:, 4], [-0.8, 0.0, 0.8]),
            "flag": np.where(u[:, 5] > 0.3, "yes", "no"),
            "region": np.array(["north", "east", "south"])[np.digitize(u[:, 6], [-0.4, 0.4])],
        }
    )
    hidden = rng.random(table.shape) < 0.2
    hidden[hidden.all(axis=1), 0] = False
    return table, hidden


@pytest.mark.parametrize(("n", "seeds"), [(100, 6), pytest.param(400, 2, marks=pytest.mark.slow)])
def test_intervals_cover_and_levels_are_better_than_the_most_frequent(n, seeds):
    inside, top, right, at_mode = [], [], [], []
    for seed in range(seeds):
        table, hidden = simulated(n, seed)
        incomplete = table.mask(hidden)
        imputer = LowRankImputer().fit(incomplete)
        low, high = imputer.intervals(incomplete)
        for name in NUMBERS:
            at = hidden[:, table.columns.get_loc(name)]
            truth = table[name][at]
            covered = (truth >= low[name][at]) & (truth <= high[name][at])
            inside.extend(covered)
            if name in SKEWED:
                top.extend(covered[truth >= table[name].quantile(0.9)])
        imputed = imputer.impute(incomplete)
        assert not imputed.isna().any().any()
        for name in ("rating", "flag", "region"):
            at = hidden[:, table.columns.get_loc(name)]
            right.extend(imputed[name][at] == table[name][at])
            at_mode.extend(incomplete[name].mode()[0] == table[name][at])
    # Three standard errors of a share, beyond 93 to 97 %
    margin = 3.0 * np.sqrt(0.95 * 0.05 / len(inside))
    assert 0.93 - margin <= np.mean(inside) <= 0.97 + margin
    assert np.mean(top) >= 0.85 - 3.0 * np.sqrt(0.85 * 0.15 / len(top))
    assert np.mean(right) > np.mean(at_mode) + 0.05


def test_a_map_is_chosen_for_skewed_numbers_and_none_for_gaussian_ones():
    table, hidden = simulated(400, 3)
    numbers = table[NUMBERS].mask(hidden[:, :4])
    skewed = LowRankImputer().fit(numbers)
    assert "behind columns" in skewed.choice_.summary
    gaussian, mapped = skewed.choice_.losses
    assert mapped < 0.9 * gaussian
    assert skewed.kinds_ == dict.fromkeys(NUMBERS, "continuous")
    low, _ = skewed.intervals(numbers, 0.999)
    assert low[SKEWED].min().min() > 0.0
    logs = numbers.assign(c=np.log(numbers["c"]), d=np.log(numbers["d"]))
    plain = LowRankImputer().fit(logs)
    assert set(plain.kinds_.values()) == {"gaussian"}
    as_numbers = LowRankImputer(columns="numeric").fit(logs)
    np.testing.assert_array_equal(plain.transform(logs), as_numbers.transform(logs))


def with_zeros_and_counts(seed: int, n: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    """Two predictors, three columns by them: a third of each is hidden, mostly where a is large."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    t = 0.6 * a + 0.4 * b
    u = t[:, None] + 0.7 * rng.normal(size=(n, 2))
    rate = rng.gamma(0.5, 2.0, size=n) * np.exp(0.8 * t - 0.6)
    table = pd.DataFrame(
        {
            "a": a,
            "b": b + 0.5 * a,
            "zeros": np.maximum(np.exp(0.8 * u[:, 0]) - 1.7, 0.0),
            "skewed": np.exp(0.8 * u[:, 1]),
            "counts": rng.poisson(rate).astype(float),
        }
    )
    hidden = np.zeros(table.shape, dtype=bool)
    hidden[:, 2:] = rng.random((n, 3)) < 0.7 / (1.0 + np.exp(1.0 - 1.2 * a))[:, None]
    return table, hidden


@pytest.mark.parametrize("count", ["auto", pytest.param("count", marks=pytest.mark.slow)])
def test_draws_of_zero_heavy_columns_and_counts_have_their_mean_and_their_size(count):
    kinds = "auto" if count == "auto" else {"counts": Count()}
    drawn, truth, error = ({name: [] for name in ("zeros", "skewed", "counts")} for _ in range(3))
    for seed in range(3):
        table, hidden = with_zeros_and_counts(seed)
        incomplete = table.mask(hidden)
        model = FactorAnalysis(2, columns=kinds).fit(incomplete)
        draws = list(model.sample_imputations(incomplete, 20, random_state=0))
        _, high = model.intervals(incomplete, 0.99)
        for name in drawn:
            at = hidden[:, table.columns.get_loc(name)]
            each = np.array([draw[name][at].mean() for draw in draws])
            drawn[name].append(each.mean())
            truth[name].append(table[name][at].mean())
            error[name].append(np.hypot(each.std(), table[name][at].std() / np.sqrt(at.sum())))
            assert max(draw[name][at].max() for draw in draws) <= 10.0 * table[name].max()
            assert high[name][at].max() <= 10.0 * table[name].max()
    for name in drawn:
        allowed = 3.0 * np.sqrt(np.sum(np.square(error[name])))
        assert abs(np.sum(drawn[name]) - np.sum(truth[name])) <= allowed
        assert 0.7 <= np.sum(drawn[name]) / np.sum(truth[name]) <= 1.5
