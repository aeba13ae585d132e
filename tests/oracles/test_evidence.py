"""Moments of a Gaussian times the evidence of a cell, against numerical integration."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma, polygamma
from scipy.stats import nbinom, norm, poisson

from eigengap.compiled.choice import Kernels
from eigengap.models.gaussian.evidence import Counts, Evidence, truncated

LOWER = [-np.inf, -40.0, -9.0, -3.1, -1.0, -1e-3, 0.0, 0.7, 2.9, 3.1, 8.0, 60.0]
WIDTH = [1e-7, 1e-3, 0.3, 0.99, 1.01, 4.0, np.inf]


def integrated(lower, upper):
    """ln of the mass of N(0, 1), mean and variance, about the end nearest to 0."""
    near = min(max(0.0, lower), upper)  # where the density is largest
    scale = 1.0 / max(abs(near), 1.0)
    low, high = max(lower, near - 40 * scale), min(upper, near + 40 * scale)

    def moment(k, centre=0.0):
        def of(x):
            return (x - near - centre) ** k * np.exp(-0.5 * (x - near) * (x + near))

        parts = [low, *(near + scale * np.arange(-38, 39, 4.0)), high]
        parts = sorted({p for p in parts if low <= p <= high})
        return sum(quad(of, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in pairwise(parts))

    mass = moment(0)
    offset = moment(1) / mass
    log_mass = np.log(mass) - 0.5 * near**2 - 0.5 * np.log(2 * np.pi)
    return log_mass, near + offset, moment(2, offset) / mass


@pytest.mark.parametrize("lower", LOWER)
@pytest.mark.parametrize("width", WIDTH)
@pytest.mark.parametrize("sign", [1, -1])
def test_intervals(lower, width, sign):
    upper = lower + width if lower > -np.inf else width - 3.0
    if upper == np.inf and lower == -np.inf:
        return
    bounds = (lower, upper) if sign == 1 else (-upper, -lower)
    log_mass, mean, variance = (float(x[0]) for x in truncated(*(np.array([b]) for b in bounds)))
    expected = integrated(lower, upper)
    assert log_mass == pytest.approx(expected[0], rel=1e-10, abs=1e-10)
    assert sign * mean == pytest.approx(expected[1], rel=1e-10, abs=1e-10)
    assert variance == pytest.approx(expected[2], rel=1e-9)


def test_a_cell_without_bounds_says_nothing():
    log_mass, mean, variance = truncated(np.array([-np.inf]), np.array([np.inf]))
    assert (log_mass[0], mean[0], variance[0]) == (0.0, 0.0, 1.0)


CASES = [
    (y, a, v, shape)
    for y in (0, 1, 7, 300)
    for a in (-2.0, 0.5, 4.0)
    for v in (1e-3, 0.4, 9.0)
    for shape in (np.inf, 0.3, 40.0)
]


@pytest.mark.parametrize(("y", "a", "v", "shape"), CASES)
def test_counts(y, a, v, shape):
    size = 0.3
    found = Counts(np.array([float(y)]), np.array([size]), np.array([shape]))
    log_mass, mean, variance = (float(x[0]) for x in found.tilted(np.array([a]), np.array([v])))
    at, sd = mean, np.sqrt(variance)

    def density(u):
        rate = np.exp(u + size)
        log_p = (
            poisson.logpmf(y, rate)
            if np.isinf(shape)
            else nbinom.logpmf(y, shape, shape / (shape + rate))
        )
        return np.exp(log_p + norm.logpdf(u, a, np.sqrt(v)) - log_mass)

    def moment(k, centre):
        ends = at + sd * np.linspace(-15, 15, 31)
        parts = pairwise(ends)
        each = [quad(lambda u: (u - centre) ** k * density(u), *p, epsabs=1e-14)[0] for p in parts]
        return sum(each)

    assert moment(0, at) == pytest.approx(1.0, abs=1e-9)
    assert moment(1, at) == pytest.approx(0.0, abs=1e-9 * sd)
    assert moment(2, at) == pytest.approx(variance, rel=1e-8)


@pytest.mark.parametrize("y", [1e6, 1e9, 1e11, 5e15])
@pytest.mark.parametrize("v", [0.01, 2.0])
def test_large_counts_give_their_u_almost_exactly(y, v):
    """exp(y u - exp(u)) / gamma(y) is the density of ln G, G ~ Gamma(y): nearly Gaussian."""
    near, spread = float(digamma(y)), float(polygamma(1, y))
    a = np.array([near - 2.0 * np.sqrt(v)])
    found = Counts(np.array([y]), np.zeros(1), np.array([np.inf])).tilted(a, np.array([v]))
    log_mass = norm.logpdf(near, a[0], np.sqrt(v + spread)) - np.log(y)
    assert found.log_mass[0] == pytest.approx(log_mass, abs=1e-6)
    assert found.mean[0] == pytest.approx(near + spread * (a[0] - near) / v, abs=1e-8)
    assert found.variance[0] == pytest.approx(1.0 / (1.0 / spread + 1.0 / v), rel=1e-3)


@pytest.mark.parametrize("large", [1.0, 1e8, 1e14])
def test_the_kernel_has_the_same_moments(large):
    rng = np.random.default_rng(0)
    c, m = 60, 5
    first = rng.normal(size=(c, m)) * 3
    second = first + rng.exponential(size=(c, m)) * rng.choice([1e-3, 1.0, 30.0], size=(c, m))
    is_count = np.array([False, False, False, True, True])
    first[:, is_count] = rng.poisson(5.0, size=(c, 2)) * large
    second[:, is_count] = rng.normal(size=(c, 2))
    first[rng.random((c, m)) < 0.2] = np.nan
    evidence = Evidence(is_count, first, second, np.array([np.inf, np.inf, np.inf, np.inf, 1.7]))
    mean, variance = rng.normal(size=(c, m)) * 2, rng.uniform(0.01, 4, size=(c, m))
    found = tuple(np.empty((c, m)) for _ in range(3))
    kernels = Kernels("sites_numba", compiling=0.0).load()
    cells = (evidence.is_count, evidence.first, evidence.second, evidence.shape)
    kernels.tilt(*cells, mean, variance, *found, 0, c)
    for own, twin in zip(found, evidence.tilted(mean, variance), strict=True):
        np.testing.assert_allclose(own, twin, rtol=1e-9, atol=1e-9)
