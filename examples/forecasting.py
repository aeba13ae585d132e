"""Forecasting with PPCARegressor on lagged windows: a series with gaps, twelve steps at once.

Monthly sea surface temperatures of the El Nino region, 1950 to 2010 (shipped with statsmodels),
with 10 % of the months hidden. A row of X is the last 24 months, a row of Y the next 12; the joint
model of all 36 gives every horizon at once, with its standard deviation, whatever is missing.
Windows overlap, so that their rows are not independent as the model has it: intervals are a little
narrow.

Run: python examples/forecasting.py
"""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm

from eigengap import PPCARegressor

PAST, AHEAD = 24, 12
TEST_YEARS = 15
COMPONENTS = 16  # what "auto" finds by cross-validation on the 12 months ahead, in half a minute


def series() -> np.ndarray:
    """(732,) degrees Celsius, month by month."""
    table = sm.datasets.elnino.load_pandas().data
    return table.to_numpy(dtype=float)[:, 1:].ravel()


def with_missing(values: np.ndarray, share: float) -> np.ndarray:
    hidden = np.random.default_rng(0).random(len(values)) < share
    return np.where(hidden, np.nan, values)


def windows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every PAST months in a row, and the AHEAD months that follow."""
    rows = np.lib.stride_tricks.sliding_window_view(values, PAST + AHEAD)
    return rows[:, :PAST], rows[:, PAST:]


def seasonal_naive(past: np.ndarray) -> np.ndarray:
    """The same month of the last year in which it was seen; the mean where it never was."""
    years = past.reshape(len(past), -1, 12)[:, ::-1]  # latest first
    latest = years[:, 0]
    for earlier in years.transpose(1, 0, 2)[1:]:
        latest = np.where(np.isnan(latest), earlier, latest)
    return np.where(np.isnan(latest), np.nanmean(past), latest)


def main() -> dict[str, float]:
    truth = series()
    observed = with_missing(truth, 0.1)
    cut = len(truth) - 12 * TEST_YEARS
    model = PPCARegressor(COMPONENTS).fit(*windows(observed[:cut]))

    past, _ = windows(observed[cut - PAST :])
    _, future = windows(truth[cut - PAST :])
    mean, std = model.predict(past, return_std=True)
    naive = seasonal_naive(past)

    print(f"{model.n_components_} components; {np.isnan(past).mean():.0%} of the past is missing\n")
    print("months ahead   RMSE   seasonal naive   95 % intervals cover   mean sd")
    for h in (0, 2, 5, 11):
        error, by_naive = mean[:, h] - future[:, h], naive[:, h] - future[:, h]
        cover = np.mean(np.abs(error) < 1.96 * std[:, h])
        print(
            f"{h + 1:12d} {_rmse(error):6.2f} {_rmse(by_naive):16.2f} {cover:22.0%} "
            f"{std[:, h].mean():9.2f}"
        )
    result = {
        "rmse": _rmse(mean - future),
        "naive": _rmse(naive - future),
        "coverage": float(np.mean(np.abs(mean - future) < 1.96 * std)),
    }
    print(
        f"\nall horizons: RMSE {result['rmse']:.2f} °C against {result['naive']:.2f} of the "
        f"seasonal naive forecast; 95 % intervals cover {result['coverage']:.0%}"
    )
    return result


def _rmse(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(error**2)))


if __name__ == "__main__":
    main()
