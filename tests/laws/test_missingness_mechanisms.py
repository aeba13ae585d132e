"""What the way in which cells went missing does to filled cells, means and intervals.

Rubin (1976): where missingness depends on what was seen only (MCAR, MAR), maximum likelihood of
the seen cells is right without a model of the missingness; where it depends on the missing values
themselves (MNAR) it is not, and nothing in the seen cells shows it. docs/guide/missing-data.md
tells it with the figures of this simulation.

30 tables of 300 rows and 6 columns with 2 components; a third of the first column is hidden, by a
coin (MCAR), by the second column, which is always seen (MAR), or by its own value (MNAR). Standard
errors over the tables are 0.004 to 0.01 of the coverage and 0.015 of the biases (in standard
deviations of the column): what must hold is asked within four of them, and what must fail by more
than ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from eigengap import PPCA

MEAN = 2.0
NOISE = 0.6
W = np.array([[1.0, 0.5], [0.9, -0.3], [2.0, -2.6], [-0.5, -0.2], [0.4, -0.6], [-0.2, 1.2]])
SD = np.sqrt(W[0] @ W[0] + NOISE**2)  # of the first column
TABLES = 30


@dataclass(frozen=True)
class Found:
    """Means over the tables, errors in standard deviations of the column."""

    coverage: float  # of 95 % intervals of the hidden cells
    fill_bias: float  # filled less true, hidden cells
    mean_bias: float  # mean_ of the column less the truth
    observed_mean_bias: float  # mean of its seen cells less the truth


def _hidden(X: np.ndarray, by: str, rng: np.random.Generator) -> np.ndarray:
    """Which rows lose their first cell: a third, and the larger the sooner unless by a coin."""
    coin = rng.random(len(X))
    if by == "MCAR":
        return coin < 1 / 3
    column = X[:, {"MAR": 1, "MNAR": 0}[by]]
    return coin < 1 / (1 + np.exp(0.9 - 2.5 * (column - MEAN) / column.std()))


@cache
def _found(by: str) -> Found:
    tables = []
    for seed in range(TABLES):
        rng = np.random.default_rng([7, seed])
        X = rng.normal(size=(300, 2)) @ W.T + MEAN + NOISE * rng.normal(size=(300, 6))
        gone = _hidden(X, by, rng)
        Y = X.copy()
        Y[gone, 0] = np.nan
        model = PPCA(n_components=2, tol=1e-5).fit(Y)
        filled, sd = model.impute(Y, return_std=True)
        error = (filled - X)[gone, 0]
        tables.append(
            [
                np.mean(abs(error) < 1.96 * sd[gone, 0]),
                error.mean() / SD,
                (model.mean_[0] - MEAN) / SD,
                (np.nanmean(Y[:, 0]) - MEAN) / SD,
            ]
        )
    return Found(*np.mean(tables, axis=0))


@pytest.mark.parametrize("by", ["MCAR", "MAR"])
def test_where_missing_depend_on_observed_cells_intervals_cover_and_nothing_is_biased(
    by: str,
) -> None:
    found = _found(by)
    assert 0.93 < found.coverage < 0.97
    assert abs(found.fill_bias) < 0.06
    assert abs(found.mean_bias) < 0.06


def test_where_missing_depend_on_another_column_the_mean_of_the_observed_cells_is_wrong() -> None:
    assert _found("MAR").observed_mean_bias < -0.2
    assert abs(_found("MCAR").observed_mean_bias) < 0.06


def test_where_missing_depend_on_the_missing_value_fills_are_biased_and_intervals_miss() -> None:
    found = _found("MNAR")
    assert found.fill_bias < -0.35
    assert found.mean_bias < -0.1
    assert found.coverage < 0.90


def test_what_was_not_observed_is_biased_less_the_better_the_observed_cells_foretell_it() -> None:
    """The only remedy that the data hold: columns that go along with the one that has the gaps."""
    assert abs(_found("MNAR").mean_bias) < 0.6 * abs(_found("MNAR").observed_mean_bias)
