"""Values known by limits, against SciPy's censored fits, Kaplan and Meier, tobit, simulation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import CensoredData, multivariate_normal, norm, truncnorm

from eigengap.columns import Censored
from eigengap.fitting.columns.censored import self_consistent
from eigengap.fitting.columns.fit import fit_columns
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.models.columns.continuous import ContinuousColumn, Limits, quantile_between
from eigengap.models.columns.maps import Identity, Margin
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources import as_source

TIGHT = EMOptions(tol=1e-8)


def censored(margin=None):
    return ContinuousColumn(margin or Margin(Identity(), 0.0, 1.0), has_limits=True)


def standard(x):
    return ContinuousColumn(Margin(Identity(), float(np.nanmean(x)), float(np.nanstd(x))))


def learned(kind, values, limits):
    """Of exact values, and the limits of others."""
    none = np.full((len(values), 2), np.nan)
    cells = np.concatenate([values, np.full(len(limits), np.nan)])
    return kind.learned(cells, np.concatenate([none, limits]))


def below(limits):
    return np.column_stack([np.full(len(limits), np.nan), limits])


@pytest.mark.parametrize("transform", ["identity", "log"])
def test_the_map_is_the_censored_fit(transform):
    rng = np.random.default_rng(0)
    y = rng.normal(1.0, 0.8, size=400)
    at_least, at_most = rng.choice([0.2, 0.6], size=400), rng.uniform(1.5, 3.0, size=400)
    low, high = y < at_least, y > at_most
    inside = (rng.random(400) < 0.3) & ~(low | high)
    exact = ~(low | high | inside)
    pairs = np.column_stack([np.floor(4 * y[inside]), np.ceil(4 * y[inside])]) / 4
    limits = np.concatenate([below(at_least[low]), below(at_most[high])[:, ::-1], pairs])
    into = np.exp if transform == "log" else np.asarray
    margin = learned(Censored(transform=transform), into(y[exact]), into(limits)).margin
    data = CensoredData(
        uncensored=y[exact], left=at_least[low], right=at_most[high], interval=pairs
    )
    centre, unit = norm.fit(data)
    # SciPy's simplex stops at 1e-4 of the parameters, near 1e-8 of the likelihood.
    assert margin.centre == pytest.approx(centre, abs=1e-3)
    assert margin.unit == pytest.approx(unit, abs=1e-3)


def kaplan_meier(times, happened):
    """Times of events and the share that lives on after each."""
    at = np.unique(times[happened])
    risk = np.array([np.sum(times >= t) for t in at])
    events = np.array([np.sum((times == t) & happened) for t in at])
    return at, np.cumprod(1.0 - events / risk)


def test_the_nonparametric_estimate_is_kaplan_and_meiers():
    rng = np.random.default_rng(1)
    x, limit = np.round(rng.exponential(size=300), 2), np.round(rng.exponential(2.0, size=300), 2)
    happened = x <= limit
    at, alive = kaplan_meier(np.minimum(x, limit), happened)
    right = limit[~happened]
    # A value censored at the time of an event outlives it.
    found, mass = self_consistent(x[happened], Limits(right, np.full(len(right), np.inf)))
    share = np.array([mass[found > t].sum() for t in at])
    np.testing.assert_allclose(share, alive, atol=1e-4)
    mirrored, mass = self_consistent(-x[happened], Limits(np.full(len(right), -np.inf), -right))
    share = np.array([mass[mirrored < -t].sum() for t in at])
    # Limits from below are closed: mass at an event itself counts as before it.
    assert np.all(share <= alive + 1e-4)


def test_the_median_of_a_map_by_ranks_is_kaplan_and_meiers():
    rng = np.random.default_rng(2)
    x, limit = rng.gamma(2.0, size=2000), rng.exponential(4.0, size=2000)
    seen = x <= limit
    column = learned(Censored(transform="rank"), x[seen], below(limit[~seen])[:, ::-1])
    at, alive = kaplan_meier(np.minimum(x, limit), seen)
    for share in (0.2, 0.5, 0.7):
        found = column.quantile(share, np.zeros((1, 1)), np.ones((1, 1, 1)))[0]
        nearest = at[np.argmax(1.0 - alive >= share)]
        # Knots are interpolated: 40 of them, each of 40 values or so.
        assert found == pytest.approx(nearest, rel=0.02)


def test_a_row_with_one_censored_value_has_its_exact_likelihood():
    """A single site is no approximation."""
    rng = np.random.default_rng(3)
    W, mu, psi = rng.normal(size=(4, 2)), rng.normal(size=4), rng.uniform(0.3, 1.0, size=4)
    model = LinearGaussian(W, mu, psi)
    X = model.sample(20, rng)
    plain = standard(np.array([-1.0, 1.0]))
    columns = Columns((plain, censored(), plain, plain))
    values = np.column_stack([X, np.full((20, 2), np.nan)])
    values[:, 1] = np.nan
    values[:, 4], values[:, 5] = X[:, 1] - 0.3, X[:, 1] + 0.4
    values[::3, 4] = np.nan
    mean, variance = model.conditional(values[:, :4])
    sd = np.sqrt(variance[:, 1])
    low = np.where(np.isnan(values[:, 4]), -np.inf, values[:, 4])
    ends = [(end - mean[:, 1]) / sd for end in (low, values[:, 5])]
    expected = model.log_likelihood(values[:, :4]) + np.log(norm.cdf(ends[1]) - norm.cdf(ends[0]))
    fitted = ColumnModel(columns, model)
    np.testing.assert_allclose(fitted.log_likelihood(values), expected, rtol=1e-9)
    # So is what is said of the value itself.
    lower, upper = fitted.intervals(values, 0.8)
    for end, share in ((lower, 0.1), (upper, 0.9), (fitted.impute(values), 0.5)):
        truth = truncnorm.ppf(share, *ends, loc=mean[:, 1], scale=sd)
        np.testing.assert_allclose(end[:, 1], truth, rtol=1e-7, atol=1e-7)
    assert np.array_equal(fitted.impute(values)[:, 0], X[:, 0])


def test_limits_of_their_own_are_tobit_regression():
    rng = np.random.default_rng(4)
    n = 800
    x = rng.normal(size=n)
    y = 0.5 + 0.8 * x + 0.6 * rng.normal(size=n)
    limit = rng.choice([-0.3, 0.2, 0.8], size=n)
    cut = y < limit
    values = np.column_stack([x, np.where(cut, np.nan, y), below(np.where(cut, limit, np.nan))])
    columns = Columns((standard(x), censored()))
    C = fit_columns(as_source(values), columns, 1, TIGHT).model.covariance()

    def minus_log_likelihood(p):
        a, b, log_s = p
        s = np.exp(log_s)
        exact = norm.logpdf((y - a - b * x) / s) - log_s
        return -np.sum(np.where(cut, norm.logcdf((limit - a - b * x) / s), exact))

    _, slope, log_s = minimize(minus_log_likelihood, [0.0, 1.0, 0.0], tol=1e-10).x
    assert C[0, 1] / C[0, 0] / np.std(x) == pytest.approx(slope, rel=1e-4)
    assert np.sqrt(C[1, 1] - C[0, 1] ** 2 / C[0, 0]) == pytest.approx(np.exp(log_s), rel=1e-4)


def quadrant(x: float, y: float, rho: float) -> float:
    """P(X <= x, Y <= y) of a standard pair; SciPy's own is an integral by random points."""
    rest = np.sqrt(1 - rho**2)
    return quad(
        lambda t: np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi) * ndtr((y - rho * t) / rest),
        -10.0,
        x,
        epsabs=1e-12,
    )[0]


def test_two_censored_columns_are_nearly_the_bivariate_maximum():
    """Rows with two sites: expectation propagation is close to the likelihood, not equal."""
    rng = np.random.default_rng(5)
    n, rho = 1500, 0.6
    U = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n)
    limit = rng.choice([-0.8, 0.0], size=(n, 2))
    cut = limit > U
    limits = np.where(cut, limit, np.nan)
    details = np.column_stack([below(limits[:, 0]), below(limits[:, 1])])
    values = np.column_stack([np.where(cut, np.nan, U), details])
    C = fit_columns(as_source(values), Columns((censored(), censored())), 1).model.covariance()
    both = cut.all(axis=1)

    def minus_log_likelihood(p):
        m, s, r = p[:2], np.exp(p[2:4]), np.tanh(p[4])
        cov = np.outer(s, s) * np.array([[1, r], [r, 1]])
        total = multivariate_normal.logpdf(U[~cut.any(axis=1)], m, cov).sum()
        for j in (0, 1):
            at = cut[:, j] & ~both
            other = U[at, 1 - j]
            z = (other - m[1 - j]) / s[1 - j]
            mean, sd = m[j] + r * s[j] * z, s[j] * np.sqrt(1 - r**2)
            total += np.sum(norm.logpdf(z) - p[3 - j] + norm.logcdf((limit[at, j] - mean) / sd))
        pairs, times = np.unique(limit[both], axis=0, return_counts=True)
        return -total - times @ np.log([quadrant(*((q - m) / s), r) for q in pairs])

    best = minimize(minus_log_likelihood, np.zeros(5), method="L-BFGS-B").x
    found = C[0, 1] / np.sqrt(C[0, 0] * C[1, 1])
    assert found == pytest.approx(np.tanh(best[4]), abs=0.01)
    np.testing.assert_allclose(np.sqrt(np.diag(C)), np.exp(best[2:4]), rtol=0.01)


def test_censored_values_are_imputed_within_their_limits_and_intervals_cover():
    rng = np.random.default_rng(6)
    n, d = 1500, 6
    W = rng.normal(size=(d, 2))
    U = rng.normal(size=(n, 2)) @ W.T + 0.6 * rng.normal(size=(n, d))
    X = np.exp(0.7 * U)
    limit = rng.choice([0.5, 0.8, 1.2], size=(n, 2))
    cut = X[:, :2] < limit
    limits = np.where(cut, limit, np.nan)
    columns = Columns(
        (
            *(learned(Censored(), X[~c, j], below(limits[c, j])) for j, c in enumerate(cut.T)),
            *(Censored().learned(x) for x in X.T[2:]),
        )
    )
    values = np.full((n, d + 2 * d), np.nan)
    values[:, :d] = X
    values[:, :2][cut] = np.nan
    values[:, d + 1], values[:, d + 3] = limits.T
    fit = fit_columns(as_source(values), columns, 2)
    model = ColumnModel(columns, fit.model)
    lower, upper = model.intervals(values, 0.8)
    truth, at = X[:, :2][cut], np.nonzero(cut)
    covered = (lower[at] <= truth) & (truth <= upper[at])
    # About 900 values: 4 standard errors of a share of 0.8.
    assert abs(covered.mean() - 0.8) < 4 * np.sqrt(0.16 / len(truth))
    drawn = model.sample_imputations(values, rng)[at]
    for x in (lower[at], model.impute(values)[at], upper[at], drawn):
        assert np.all((x > 0) & (x <= limit[cut]))
    # Draws have the distribution of the truth: as many below each of its quantiles.
    for share in (0.25, 0.5, 0.75):
        assert np.mean(drawn <= np.quantile(truth, share)) == pytest.approx(share, abs=0.06)


def test_quantiles_between_limits_in_the_tails():
    lower = np.array([-np.inf, -1.0, 8.0, 30.0, -40.0, -np.inf, 2.0, -np.inf])
    upper = np.array([-9.0, 0.5, 9.0, np.inf, -38.0, np.inf, 2.0 + 1e-6, 3.0])
    for share in (1e-6, 0.1, 0.5, 0.999):
        found = quantile_between(share, lower, upper)
        np.testing.assert_allclose(found, truncnorm.ppf(share, lower, upper), rtol=1e-7)


def test_whole_numbers_stay_whole_between_limits():
    rng = np.random.default_rng(7)
    column = learned(Censored(), np.round(rng.gamma(4, 10, size=200)), below(np.full(50, 12.5)))
    given = column.given(np.array([[np.nan, 12.5], [20.2, 24.9], [7.2, 7.6]]))
    found = given.value(np.zeros((3, 1)), np.ones((3, 1, 1)))
    assert found[0] == np.round(found[0]) <= 12
    assert 21 <= found[1] == np.round(found[1]) <= 24
    assert 7.2 <= found[2] <= 7.6  # there is no whole number


def test_limits_of_a_kind_stand_for_numbers():
    kind = Censored(below=0.1, above=9.0)
    found = kind.limits(np.array([0.05, 0.1, 4.0, 9.0, np.nan]))
    expected = [[np.nan, 0.1], [np.nan, 0.1], [np.nan] * 2, [9.0, np.nan], [np.nan] * 2]
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="below must be less than above"):
        Censored(below=3.0, above=1.0)
