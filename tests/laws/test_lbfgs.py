"""Minimisation by L-BFGS: closed forms, the trace, the end."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.lbfgs import minimise


def rosenbrock(x):
    a, b = x
    value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
    return value, np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])


def test_a_curved_valley():
    seen = []
    found = minimise(
        rosenbrock, np.array([-1.2, 1.0]), gradient=1e-8, change=0.0, watch=seen.append
    )
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-7)
    assert found.converged
    assert found.n_iter == len(seen) == len(found.trace.objective)
    assert np.all(np.diff(found.trace.objective) <= 0)
    assert found.trace.change[-1] <= 1e-8
    assert found.trace.change[-1] == np.max(np.abs(found.gradient))


def test_too_few_steps_are_told():
    found = minimise(rosenbrock, np.array([-1.2, 1.0]), max_iter=3)
    assert not found.converged
    assert found.n_iter == 3
