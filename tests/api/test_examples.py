"""The forecasting example runs and says what the docs say of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "forecasting.py"


def test_forecasting_beats_the_seasonal_naive_forecast(capsys):
    spec = importlib.util.spec_from_file_location("forecasting", EXAMPLE)
    forecasting = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(forecasting)
    found = forecasting.main()
    assert found["rmse"] < 0.75 * found["naive"]
    assert 0.87 < found["coverage"] < 0.99
    assert "95 % intervals cover" in capsys.readouterr().out
