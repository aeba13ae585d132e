"""Minimisation by L-BFGS: closed forms, the trace, the end."""

from __future__ import annotations

import numpy as np
import pytest

from eigengap.fitting.optimise.lbfgs import minimise


def rosenbrock(x):
    a, b = x
    value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
    return value, np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])


def test_a_curved_valley():
    observed = []
    found = minimise(
        rosenbrock, np.array([-1.2, 1.0]), gradient=1e-8, change=0.0, watch=observed.append
    )
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-7)
    assert found.converged
    assert found.n_iter == len(observed) == len(found.trace.objective)
    assert np.all(np.diff(found.trace.objective) <= 0)
    assert found.trace.change[-1] <= 1e-8
    assert found.trace.change[-1] == np.max(np.abs(found.gradient))


def test_too_few_steps_are_told():
    found = minimise(rosenbrock, np.array([-1.2, 1.0]), max_iter=3)
    assert not found.converged
    assert found.n_iter == 3


def log_barrier(x):
    """Least at 1, NaN where an entry is negative."""
    with np.errstate(all="ignore"):
        return float(np.sum(x - np.log(x))), 1 - 1 / x


def exponential(x):
    """Least at 0, inf beyond 709."""
    with np.errstate(over="ignore"):
        return float(np.sum(np.exp(x) - x)), np.exp(x) - 1


def cliff(x):
    """A quadratic function, least at 3, of which nothing is known beyond 4."""
    if np.any(x > 4):
        return np.nan, np.full_like(x, np.nan)
    return float(np.sum((x - 3) ** 2)), 2 * (x - 3)


def edge(x):
    """The same with a value where the slope is unknown: an overflow on the way back."""
    value, slope = float(np.sum((x - 3) ** 2)), 2 * (x - 3)
    return value, np.where(x > 4, np.inf, slope)


@pytest.mark.parametrize(
    ("function", "start", "end"),
    [
        pytest.param(log_barrier, [1e-3, 50.0], 1.0, id="log"),
        pytest.param(log_barrier, [1e-8, 1e-8, 1e8], 1.0, id="log of far ends"),
        pytest.param(exponential, [-800.0, 3.0], 0.0, id="exponential"),
        pytest.param(exponential, [-1e6, -1.0], 0.0, id="exponential from afar"),
        pytest.param(cliff, [-1e4, 2.5], 3.0, id="cliff"),
        pytest.param(edge, [-1e4, 2.5], 3.0, id="edge"),
    ],
)
def test_trial_points_that_are_not_finite_turn_the_search_back(function, start, end):
    found = minimise(function, np.array(start), gradient=1e-7, change=0.0)
    assert np.all(np.abs(found.gradient) <= 1e-7)  # and all functions bend by 1 to 2 at the end
    np.testing.assert_allclose(found.x, end, atol=2e-7)
    assert np.isfinite(found.trace.objective).all()
    assert found.converged


def test_a_start_that_is_not_finite_is_where_it_ends():
    found = minimise(cliff, np.array([5.0]))
    assert not found.converged
    np.testing.assert_array_equal(found.x, [5.0])
    assert np.isnan(found.value)


def test_slopes_too_steep_to_be_squared_leave_the_start():
    def steep(x):
        return float(np.sum(x * x)) * 1e-10, x * 1e160

    found = minimise(steep, np.array([1.0, 2.0]))
    assert not found.converged
    np.testing.assert_array_equal(found.x, [1.0, 2.0])
    assert found.value == pytest.approx(5e-10)
