"""The examples run, and find what the docs say of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def _example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_forecasting_beats_the_seasonal_naive_forecast(capsys):
    found = _example("forecasting").main()
    assert found["rmse"] < 0.75 * found["naive"]
    assert 0.87 < found["coverage"] < 0.99
    assert "95 % intervals cover" in capsys.readouterr().out


def test_mixed_tables(capsys):
    """docs/mixed-data.md: penguins' sex, the elephant's sleep, incomes that stay positive."""
    found = _example("mixed_tables").main()
    assert found["sex"] > 0.8
    assert 0.0 < found["elephant"] < 1.0
    assert 0.93 < found["covered"] < 0.99
    assert found["least"] > 0.0
    assert found["negative"] > 0
    assert "Squared correlations" in capsys.readouterr().out
