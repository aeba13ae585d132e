"""Counts, against quadrature, Newton's method for generalised linear models, and simulation."""

import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp
from scipy.stats import nbinom, norm, poisson

import eigengap as eg
from eigengap.columns import Count
from eigengap.compiled.choice import Kernels
from eigengap.exceptions import DataError
from eigengap.fitting.columns.counts import Sizes, learned_dispersion
from eigengap.fitting.columns.fit import fit_column_model, fit_columns
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.maps import Identity, Margin
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.evidence import Counts, Evidence
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources import as_source

PLAIN = ContinuousColumn(Margin(Identity(), 0.0, 1.0))


def drawn(rng, mean, dispersion=0.0):
    rate = mean * rng.gamma(1 / dispersion, dispersion, len(mean)) if dispersion else mean
    return rng.poisson(rate).astype(float)


@pytest.mark.parametrize("dispersion", [0.0, 0.7])
def test_one_count_has_its_exact_likelihood(dispersion):
    """A row with one site is no approximation: a Gaussian mixture of counts, by quadrature."""
    rng = np.random.default_rng(0)
    W, psi = np.array([[0.8], [0.6]]), np.array([0.3, 0.4])
    model = LinearGaussian(W, np.array([0.2, 1.0]), psi)
    X = model.sample(6, rng)
    sizes = rng.uniform(0.5, 3.0, size=6)
    X[:, 1] = drawn(rng, sizes * np.exp(X[:, 1]), dispersion)
    columns = Columns((PLAIN, CountColumn(dispersion, has_size=True)))
    found = ColumnModel(columns, model).log_likelihood(np.column_stack([X, np.log(sizes)]))
    alone = np.column_stack([X[:, 0], np.full(6, np.nan)])
    mean, variance = model.conditional(alone)
    for i in range(6):
        y, centre, sd = X[i, 1], mean[i, 1], np.sqrt(variance[i, 1])

        def density(u, y=y, size=sizes[i], centre=centre, sd=sd):
            m = size * np.exp(u)
            r = 1 / dispersion if dispersion else 1.0
            p = nbinom.pmf(y, r, r / (r + m)) if dispersion else poisson.pmf(y, m)
            return p * norm.pdf(u, centre, sd)

        mass = quad(density, centre - 10 * sd, centre + 10 * sd, epsabs=1e-14, limit=200)[0]
        expected = model.log_likelihood(alone[i : i + 1])[0] + np.log(mass)
        assert found[i] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("shape", [0.5, 14.0, 16.0, 1e4, 1e8, 1e12, 1e15])
@pytest.mark.parametrize("y", [0, 1, 7, 500])
def test_a_dispersion_near_zero_loses_no_digits(shape, y):
    """Gamma(r + y) / Gamma(r) as a product: its logarithms are huge, and nearly the same."""
    u = np.array([-20.0, -1.0, 0.0, 2.0, 8.0])
    counts = Counts(np.full(5, float(y)), np.zeros(5), np.full(5, shape))
    rising = np.sum(np.log1p(np.arange(y) / shape))
    of_mean = y * u - (y + shape) * np.log1p(np.exp(u) / shape)
    expected = rising + of_mean - gammaln(y + 1.0)
    size = 1.0 + y * np.abs(u) + np.exp(u) + gammaln(y + 1.0)  # of the terms
    assert np.all(np.abs(counts.log_density(u) - expected) <= 1e-13 * size)


LARGE = [1e6, 1e9, 1e12, 5e15, 2.0**53]


@pytest.mark.parametrize("y", LARGE)
@pytest.mark.parametrize("shape", [np.inf, 0.3, 1.0, 1e4, 1e10])
def test_densities_of_large_counts_keep_their_digits(y, shape):
    """Against decimals of fifty digits."""
    u = np.log(y) + np.array([-3.0, -1e-6, 0.0, 1e-9, 0.5])
    counts = Counts(np.full(5, y), np.zeros(5), np.full(5, shape))
    with localcontext(prec=60):
        expected = [float(log_probability(y, each, shape)) for each in u.tolist()]
    # A rounding of u moves the density by its slope.
    rounding = 1e-15 * np.abs(u * np.minimum(y, shape) * np.expm1(u - np.log(y)))
    assert np.all(np.abs(counts.log_density(u) - expected) <= 1e-11 + 10.0 * rounding)


def log_probability(y, u, shape):
    y, log_mean = Decimal(y), Decimal(u)
    if np.isinf(shape):
        return y * log_mean - log_mean.exp() - log_gamma(y + 1)
    r, mean = Decimal(shape), log_mean.exp()
    rising = log_gamma(y + r) - log_gamma(r) - log_gamma(y + 1)
    return rising + r * (r / (r + mean)).ln() + y * (mean / (r + mean)).ln()


def log_gamma(x):
    """By Stirling's series, where it is as good as exact."""
    if x < 1000:
        return Decimal(float(gammaln(float(x))))
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    return (x - Decimal("0.5")) * x.ln() - x + Decimal(0.5 * np.log(2.0 * np.pi)) + series


@pytest.mark.parametrize("y", LARGE[1:])
@pytest.mark.parametrize("shape", [1.0, 50.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_sites_of_large_counts_do_not_depend_on_their_size(y, shape, compiled):
    """Far above its shape a count is y = G exp(u) / shape with G ~ Gamma(shape)."""
    at = np.array([-1.0, 0.0, 2.0])
    a, v, known = at + np.log(y), np.full(3, 2.0), np.zeros((1, 3))
    evidence = Evidence(np.ones(3, dtype=bool), known + y, known, np.full(3, shape))
    if compiled:
        found = [np.empty((1, 3)) for _ in range(3)]
        cells = (evidence.is_count, evidence.first, evidence.second, evidence.shape)
        kernels = Kernels("sites_numba", compiling=0.0).load()
        kernels.tilt(*cells, a[None], v[None], *found, 0, 1)
    else:
        found = evidence.tilted(a[None], v[None])
    log_mass, mean, variance = (x[0] for x in found)

    x = np.linspace(-9.0, 12.0, 20_001)  # u - ln y
    density = np.exp(shape * (np.log(shape) - x - np.exp(-x)) - gammaln(shape))
    with np.errstate(under="ignore"):
        weight = density * norm.pdf(x, at[:, None], np.sqrt(2.0)) * (x[1] - x[0])
    mass, first = weight.sum(axis=1), weight @ x
    near = 1e-8 + 100.0 * shape / y
    np.testing.assert_allclose(log_mass + np.log(y), np.log(mass), atol=near)
    np.testing.assert_allclose(mean - np.log(y), first / mass, atol=near)
    expected = weight @ x**2 / mass - (first / mass) ** 2
    np.testing.assert_allclose(variance, expected, atol=near)


def test_one_count_however_large_leaves_a_fit_that_converges_in_silence():
    rng = np.random.default_rng(0)
    z = rng.normal(size=200)
    X = np.column_stack([*(z + 0.5 * rng.normal(size=(3, 200))), 1.0 + 0.5 * z])
    X[:, 3] = rng.poisson(np.exp(X[:, 3]))
    ends = []
    for largest in (1e12, 5e15, 2.0**53):
        X[3, 3] = largest
        model = eg.FactorAnalysis(1, columns={3: "count"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X)
            model.explain(X)
        assert model.converged_
        ends.append(model.log_likelihood_)
    assert ends == sorted(ends, reverse=True)


def test_a_count_beyond_whole_numbers_is_refused():
    X = np.column_stack([np.arange(20.0), np.arange(20.0) % 7, np.arange(20.0) % 3])
    model = eg.FactorAnalysis(1, columns={1: "count", 2: "continuous"}).fit(X)
    X[4, 1] = 2.0**54
    with pytest.raises(DataError, match=r"2\^53.* at row 4"):
        model.fit(X)
    with pytest.raises(DataError, match="at row 4, column 1"):
        model.transform(X)


def test_a_dispersion_near_zero_is_poisson():
    """To first order in 1 / shape, in the moments of u too."""
    y, mean, variance = np.array([0.0, 3.0, 40.0]), np.array([0.5, 1.0, 3.0]), np.full(3, 0.4)
    of = [Counts(y, np.zeros(3), np.full(3, r)).tilted(mean, variance) for r in (1e13, np.inf)]
    for near, exact in zip(*of, strict=True):
        assert near == pytest.approx(exact, rel=1e-9)


def test_several_counts_of_known_loadings_against_quadrature():
    rng = np.random.default_rng(1)
    W, mu, psi = rng.normal(size=(5, 1)) * 0.6, rng.normal(size=5) + 1.0, np.full(5, 0.1)
    model = LinearGaussian(W, mu, psi)
    Y = np.stack([drawn(rng, np.exp(u), 0.3) for u in model.sample(15, rng)])
    columns = Columns(tuple(CountColumn(0.3) for _ in range(5)))
    found = ColumnModel(columns, model).log_likelihood(Y)
    z, nodes = np.linspace(-7, 7, 301), np.linspace(-7, 7, 121)
    weight = norm.logpdf(z) + np.log(z[1] - z[0])
    of_noise = norm.logpdf(nodes) + np.log(nodes[1] - nodes[0])
    r = 1 / 0.3
    for i in range(15):
        total = weight.copy()
        for j in range(5):
            u = mu[j] + W[j, 0] * z[:, None] + np.sqrt(psi[j]) * nodes
            log_p = nbinom.logpmf(Y[i, j], r, r / (r + np.exp(u)))
            total += logsumexp(log_p + of_noise, axis=1)
        assert found[i] == pytest.approx(logsumexp(total), abs=0.005)


def newton(x, y, offset, shape):
    """Intercept and slope of a Poisson or negative binomial regression with a log link."""
    A, b = np.column_stack([np.ones(len(x)), x]), np.array([np.log(y.mean()), 0.0])
    for _ in range(50):
        m = np.exp(A @ b + offset)
        w = 1.0 / (1.0 + m / shape)
        slope = A.T @ ((y - m) * w)
        curve = A.T @ (A * (m * w)[:, None])
        b += np.linalg.solve(curve, slope)
    assert np.max(np.abs(slope)) < 1e-8
    return b


@pytest.mark.parametrize("dispersion", [0.0, 0.5])
def test_known_scores_give_the_generalised_linear_model(dispersion):
    """The score of a row is known where many exact columns give it; sizes are its offset."""
    rng = np.random.default_rng(2)
    n = 1500
    x, size = rng.normal(size=n), np.exp(rng.normal(0.0, 0.5, size=n))
    y = drawn(rng, size * np.exp(1.0 + 0.5 * x), dispersion)
    tight = x[:, None] + 0.02 * rng.normal(size=(n, 4))
    columns = Columns((*(PLAIN for _ in range(4)), CountColumn(dispersion, has_size=True)))
    values = np.column_stack([tight, y, np.log(size)])
    model = fit_columns(as_source(values), columns, 1).model
    expected = newton(x, y, np.log(size), 1 / dispersion if dispersion else np.inf)
    slope = model.W[4, 0] / np.mean(model.W[:4, 0])
    # Half of the noise variance of u, at its floor or near it, is taken from the intercept.
    assert slope == pytest.approx(expected[1], abs=0.01)
    centre = model.mu[4] - slope * np.mean(model.mu[:4]) + model.psi[4] / 2
    assert centre == pytest.approx(expected[0], abs=0.01)


@pytest.mark.parametrize(("mean", "variance", "dispersion"), [(0.0, 0.3, 2.0), (5.0, 0.3, 1.0)])
def test_the_dispersion_has_the_largest_likelihood(mean, variance, dispersion):
    rng = np.random.default_rng(3)
    y = drawn(rng, np.exp(rng.normal(mean, np.sqrt(variance), size=1500)), dispersion)
    found = learned_dispersion(y)
    values, times = np.unique(y, return_counts=True)
    nodes = np.linspace(-6, 6, 401)
    of_nodes = norm.logpdf(nodes) + np.log(nodes[1] - nodes[0])

    def minus(p, at=None):
        r = np.exp(-p[2]) if at is None else 1 / at
        m = np.exp(p[0] + np.exp(p[1] / 2) * nodes)
        log_p = nbinom.logpmf(values[:, None], r, r / (r + m))
        return -times @ logsumexp(log_p + of_nodes, axis=1)

    start = [mean, np.log(variance), np.log(dispersion)]
    best = minimize(minus, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-5})
    at_found = minimize(
        minus, best.x[:2], (found,), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-5}
    )
    assert at_found.fun - best.fun < 0.01  # nats, of 1 500 cells
    assert found == pytest.approx(np.exp(best.x[2]), rel=0.05)


def test_poisson_counts_need_no_dispersion():
    rng = np.random.default_rng(4)
    for mean, variance in ((0.0, 0.01), (1.0, 0.5), (4.0, 1.0)):
        y = drawn(rng, np.exp(rng.normal(mean, np.sqrt(variance), size=1000)))
        assert learned_dispersion(y) == 0.0
    assert learned_dispersion(np.zeros(100)) == 0.0
    sizes = rng.normal(0.0, 1.5, size=1000)  # sizes that are known are no dispersion
    assert learned_dispersion(drawn(rng, np.exp(1.0 + sizes)), sizes) == 0.0


def test_sizes_are_totals_relative_to_an_average_row():
    rng = np.random.default_rng(5)
    share, size = rng.dirichlet(np.ones(30)), np.exp(rng.normal(size=400))
    Y = rng.poisson(2000 * size[:, None] * share).astype(float)
    missing = rng.random(Y.shape) < 0.3
    Y[missing] = np.nan
    Y = np.column_stack([Y, size])
    total = Sizes.total(np.arange(30), Y).log_size(Y)
    # Totals of 1 400 counts or so each, but for the smallest rows.
    np.testing.assert_allclose(total - total.mean(), np.log(size / size.mean()), atol=0.8)
    assert np.corrcoef(total, np.log(size))[0, 1] > 0.999
    exposure = Sizes(np.array([30]), None).log_size(Y)
    np.testing.assert_allclose(exposure, np.log(size))
    assert np.isnan(Sizes.total(np.arange(30), Y).log_size(np.full((1, 31), np.nan)))[0]


def test_rows_of_any_size_have_the_same_composition():
    """A size is an offset: rows that were counted longer say the same of u, more precisely."""
    rng = np.random.default_rng(6)
    n, d = 600, 8
    W, mu = rng.normal(size=(d, 1)) * 0.7, rng.normal(size=d) + 2.0
    U = rng.normal(size=(n, 1)) @ W.T + mu + 0.2 * rng.normal(size=(n, d))
    size = np.exp(rng.normal(0.0, 1.0, size=n))
    Y = rng.poisson(size[:, None] * np.exp(U)).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    log_size = np.log(size)[:, None]
    columns = Columns(tuple(CountColumn(0.0, has_size=True) for _ in range(d)))
    values = np.column_stack([Y, np.repeat(log_size, d, axis=1)])
    fit = fit_columns(as_source(values), columns, 1)
    found = fit.model.W[:, 0] * np.sign(fit.model.W[:, 0] @ W[:, 0])
    np.testing.assert_allclose(found, W[:, 0], atol=0.12)
    np.testing.assert_allclose(fit.model.mu, mu, atol=0.12)
    # Imputed counts are those of the row's size.
    model = ColumnModel(columns, fit.model)
    missing = np.isnan(Y)
    low, high = model.intervals(values, 0.9)
    truth = rng.poisson(size[:, None] * np.exp(U))
    inside = ((low <= truth) & (truth <= high))[missing]
    assert 0.86 < inside.mean() < 0.98  # of whole numbers: wider than they were asked to be
    assert (
        np.corrcoef(np.log1p(model.impute(values)[missing]), np.log1p(truth[missing]))[0, 1] > 0.9
    )


def test_a_score_is_the_probability_of_the_count():
    column = CountColumn(0.4, has_size=True).given(np.full((3, 1), np.log(2.0)))
    mean, cov = np.array([[0.1], [1.0], [2.0]]), np.full((3, 1, 1), 0.3)
    y = np.array([0.0, 3.0, 20.0])
    found = np.exp(column.log_score(y, mean, cov))
    for i in range(3):

        def density(u, i=i):
            m, r = 2.0 * np.exp(u), 2.5
            log_p = gammaln(y[i] + r) - gammaln(r) - gammaln(y[i] + 1)
            log_p += r * np.log(r / (r + m)) + y[i] * np.log(m / (r + m))
            return np.exp(log_p) * norm.pdf(u, mean[i, 0], np.sqrt(0.3))

        assert found[i] == pytest.approx(quad(density, -6, 9)[0], rel=1e-6)


@pytest.mark.parametrize("dispersion", [0.0, 0.3])
@pytest.mark.parametrize("mean", [2.0, 5.0, 9.0, 13.8])
def test_scores_of_large_counts_are_integrals_too(mean, dispersion):
    """Poisson counts of a large mean lie between the nodes of a rule with fixed nodes."""
    column, variance = CountColumn(dispersion), np.array([0.01, 0.3, 2.0])
    for off in (-1.0, 0.3, 2.0):
        y = np.round(np.exp(mean + off * np.sqrt(variance)))
        found = column.log_score(y, np.full((3, 1), mean), variance[:, None, None])
        for i in range(3):
            u = mean + np.sqrt(variance[i]) * np.linspace(-9.0, 9.0, 400_001)
            m, r = np.exp(u), 1.0 / max(dispersion, 1e-9)
            log_p = nbinom.logpmf(y[i], r, r / (r + m)) if dispersion else poisson.logpmf(y[i], m)
            log_p = log_p + norm.logpdf(u, mean, np.sqrt(variance[i]))
            assert found[i] == pytest.approx(logsumexp(log_p) + np.log(u[1] - u[0]), abs=1e-5)


def test_what_a_count_is_asked_for():
    assert Count(dispersion=0.5).learned(np.arange(5.0)).dispersion == 0.5
    with pytest.raises(ValueError, match="dispersion must be"):
        Count(dispersion=-1.0)
    with pytest.raises(ValueError, match="dispersion must be"):
        Count(dispersion="some")


def test_a_noise_that_vanishes_is_found():
    """Poisson counts without further noise: EM alone approaches a psi of zero for ever."""
    rng = np.random.default_rng(7)
    W, mu = 0.6 * rng.normal(size=(6, 1)), rng.normal(size=6) + 2.0
    Y = rng.poisson(np.exp(rng.normal(size=(150, 1)) @ W.T + mu)).astype(float)
    columns = Columns(tuple(CountColumn() for _ in range(6)))
    fit = fit_columns(as_source(Y), columns, 1, EMOptions(tol=1e-4, max_iter=300))
    assert fit.converged
    assert np.median(fit.model.psi) < 0.01
    again = fit_columns(as_source(Y), columns, 1, EMOptions(tol=1e-6, max_iter=2000))
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, abs=0.1)


@pytest.mark.parametrize("dispersion", [0.0, 2.0])
def test_models_that_are_drawn_have_the_mean_count_of_the_fit(dispersion):
    """Rare counts tell their mean, and hardly how much of it is due to the variance of u."""
    rng = np.random.default_rng(8)
    z = rng.normal(size=500)
    X = z[:, None] + 0.6 * rng.normal(size=(500, 3))
    counts = drawn(rng, np.exp(z + 0.6 * rng.normal(size=500) - 1.5), dispersion)
    kinds = (PLAIN, PLAIN, PLAIN, CountColumn(dispersion))
    model, _ = fit_column_model(as_source(np.column_stack([X, counts])), Columns(kinds), 1)
    error = np.std(counts) / np.sqrt(len(counts)) / np.mean(counts)  # of ln of the mean
    assert mean_count(model) == pytest.approx(np.mean(counts), rel=3 * error)
    means = [mean_count(model.draw(rng)) for _ in range(300)]
    assert np.mean(means) == pytest.approx(mean_count(model), rel=error)
    # Errors of the mean alone, not those of the variance of u besides.
    assert np.std(np.log(means)) <= 2.0 * error


def mean_count(model):
    return np.exp(model.gaussian.mu[-1] + model.gaussian.variances()[-1] / 2.0)


def test_components_that_are_drawn_keep_their_mean_counts_but_for_errors_of_mu():
    rng = np.random.default_rng(9)
    W, mu = rng.normal(size=(2, 1)), np.array([0.3, -1.0])
    of = LinearGaussian(W, mu, np.array([0.5, 0.4]))
    apart = LinearGaussian(2.0 * W, mu + 0.1, np.array([0.6, 3.0]))
    found = Columns((PLAIN, CountColumn())).with_mean_counts(of, apart)
    means = [m.mu[1] + m.variances()[1] / 2.0 for m in (of, found)]
    assert means[1] - means[0] == pytest.approx(0.1)
    assert found.mu[0] == apart.mu[0]
