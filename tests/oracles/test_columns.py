"""Columns of every kind, against factor analysis, tobit regression, simulation, 2 x 2 tables."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.stats import multivariate_normal, nbinom, norm, poisson

import eigengap as eg
from eigengap.fitting.columns.bayesian import fit_bayesian_columns
from eigengap.fitting.columns.fit import SiteProblem, fit_column_model, fit_columns
from eigengap.fitting.columns.learn import continuous_column
from eigengap.fitting.columns.survey import ColumnCells
from eigengap.fitting.gaussian.noise import Specification
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.maps import Identity, Log, Logit, Margin, YeoJohnson
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn
from eigengap.models.columns.table import Columns
from eigengap.sources import as_source

TIGHT = EMOptions(tol=1e-8)


def standard(x):
    return ContinuousColumn(Margin(Identity(), float(np.nanmean(x)), float(np.nanstd(x))))


def shares(x):
    return np.bincount(x[~np.isnan(x)].astype(int)).astype(float)


def correlations(model):
    C = model.covariance()
    sd = np.sqrt(np.diag(C))
    return C / np.outer(sd, sd)


def maximum_likelihood(source, columns, q, noise):
    return fit_columns(source, columns, q, spec=Specification(noise))


def variational(source, columns, q, noise):
    return fit_bayesian_columns(source, columns, q, noise=noise)[1]


def test_continuous_columns_without_a_map_are_factor_analysis():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(300, 8))
    X[rng.random(X.shape) < 0.2] = np.nan
    columns = Columns(tuple(standard(x) for x in X.T))
    fit = fit_columns(as_source(X), columns, 2, TIGHT)
    expected = eg.FactorAnalysis(2, tol=1e-8).fit(X)
    model = ColumnModel(columns, fit.model)
    assert np.sum(model.log_likelihood(X)) == pytest.approx(expected.log_likelihood_, rel=1e-10)
    np.testing.assert_allclose(model.impute(X), expected.impute(X), rtol=1e-6, atol=1e-6)


def test_a_nominal_column_of_two_levels_is_binary():
    rng = np.random.default_rng(1)
    U = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 5)) + 0.7 * rng.normal(size=(300, 5))
    X = np.column_stack([U[:, 0] > 0.2, U[:, 1:]]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    rest = tuple(standard(x) for x in X.T[1:])
    fits, models = [], []
    for first in (
        OrdinalColumn.of_shares(shares(X[:, 0])),
        NominalColumn.of_counts(shares(X[:, 0])),
    ):
        columns = Columns((first, *rest))
        fits.append(fit_columns(as_source(X), columns, 1, EMOptions(tol=1e-7)))
        models.append(ColumnModel(columns, fits[-1].model))
    assert fits[0].log_likelihood == pytest.approx(fits[1].log_likelihood, abs=1e-6)
    one, two = (model.level_probabilities(X, 0) for model in models)
    np.testing.assert_allclose(one, two, atol=1e-4)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("fit_of", [maximum_likelihood, variational])
def test_a_question_that_no_cell_is_asked_is_as_its_prior(fit_of, noise):
    """Cells that are held out may be all that had the last two levels of a column."""
    rng = np.random.default_rng(3)
    U = rng.normal(size=(200, 1)) + 0.7 * rng.normal(size=(200, 4))
    X = np.digitize(U, [-0.3, 0.6]).astype(float)
    rare = np.array([0.0, 0.0, 0.0, 2.0, 1.0])
    counted = [np.append(shares(x), [0.0, 0.0]) + rare for x in X.T]
    columns = Columns(tuple(NominalColumn.of_counts(counts) for counts in counted))
    fit = fit_of(as_source(X), columns, 1, noise)
    assert fit.converged
    W = fit.model.W.reshape(4, 4)  # of four questions by column
    np.testing.assert_allclose(W[:, 3], 0.0, atol=1e-6)
    assert np.all(np.abs(W[:, :2]) > 0.5)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_em_rests_where_the_gradient_of_the_posterior_is_zero(noise):
    """The prior of columns without a scale is that of what the larger model is folded back to.

    An expansion that leaves the prior out turns W at the maximum, step by step, for ever.
    """
    rng = np.random.default_rng(2)
    U = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 7)) + 0.8 * rng.normal(size=(120, 7))
    X = np.where(np.arange(7) % 2, np.digitize(U, [0.4]), U)
    X[rng.random(X.shape) < 0.2] = np.nan
    kinds = (
        OrdinalColumn.of_shares(shares(x)) if j % 2 else standard(x) for j, x in enumerate(X.T)
    )
    problem = replace(
        SiteProblem.of_columns(as_source(X), Columns(tuple(kinds)), 2, Specification(noise)),
        settled=1e-10,
    )
    theta = problem.pack(problem.starts().first)

    def descent(theta):
        mapped = problem.apply(theta)
        return -mapped.objective, -mapped.slope().gradient * problem.units.cells

    found = minimize(descent, theta, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    found = minimize(descent, found.x, jac=True, method="BFGS", options={"gtol": 1e-7})
    steep = np.max(np.abs(found.jac))
    moved = problem.apply(found.x).image - found.x
    # A step is the gradient times less than the inverse of the information, which exceeds 1.
    assert np.max(np.abs(moved)) < 1e-8 + steep


def test_a_censored_column_is_tobit_regression():
    rng = np.random.default_rng(2)
    x = rng.normal(size=800)
    limit = 0.2
    y = np.maximum(0.5 + 0.8 * x + 0.6 * rng.normal(size=800), limit)
    censored = ContinuousColumn(Margin(Identity(), 0.0, 1.0), least=limit, below=limit)
    table = np.column_stack([x, y])
    fit = fit_columns(as_source(table), Columns((standard(x), censored)), 1, TIGHT)
    C = fit.model.covariance()

    def minus_log_likelihood(p):
        a, b, log_s = p
        r, s, cut = y - a - b * x, np.exp(log_s), y <= limit
        return -(
            np.sum(norm.logpdf(r[~cut] / s) - log_s)
            + np.sum(norm.logcdf((limit - a - b * x[cut]) / s))
        )

    _, slope, log_s = minimize(minus_log_likelihood, [0.0, 1.0, 0.0], tol=1e-10).x
    assert C[0, 1] / C[0, 0] / np.std(x) == pytest.approx(slope, rel=1e-4)
    assert np.sqrt(C[1, 1] - C[0, 1] ** 2 / C[0, 0]) == pytest.approx(np.exp(log_s), rel=1e-4)


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.9, -0.7])
def test_a_table_of_two_by_two_has_the_tetrachoric_correlation(rho):
    rng = np.random.default_rng(3)
    U = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=2000)
    X = (U > [0.3, -0.5]).astype(float)
    columns = Columns(tuple(OrdinalColumn.of_shares(shares(x)) for x in X.T))
    fit = fit_columns(as_source(X), columns, 1, EMOptions(tol=1e-6))
    at = norm.ppf(X.mean(axis=0))
    both = np.mean(X[:, 0] * X[:, 1])
    tetrachoric = brentq(
        lambda r: multivariate_normal.cdf(at, cov=[[1, r], [r, 1]]) - both, -0.99, 0.99
    )
    # The prior that bounds loadings costs a quarter of a standard error at 0.9, less elsewhere.
    assert correlations(fit.model)[0, 1] == pytest.approx(tetrachoric, abs=0.004)


@pytest.mark.parametrize("d", [3, 5])
def test_columns_that_repeat_a_level_have_their_exact_likelihood(d):
    """Their loadings are bounded by a prior alone: along z each row is a steep step."""
    X = np.repeat(np.random.default_rng(0).normal(size=(143, 1)) > 0.0, d, axis=1).astype(float)
    columns = Columns(tuple(OrdinalColumn.of_shares(shares(x)) for x in X.T))
    fit = fit_columns(as_source(X), columns, 1)
    assert fit.converged
    z = np.linspace(-9.0, 9.0, 20_001)
    t = z[:, None] * fit.model.W[:, 0] + fit.model.mu - columns.origin
    ones, expected = int(np.sum(X[:, 0])), 0.0
    for sign, times in ((1.0, ones), (-1.0, 143 - ones)):
        joint = np.sum(norm.logcdf(sign * t / np.sqrt(fit.model.psi)), axis=1) + norm.logpdf(z)
        expected += times * np.log(np.sum(np.exp(joint)) * (z[1] - z[0]))
    assert fit.log_likelihood == pytest.approx(expected, abs=1e-5)


def ordinal_pair(rho, n=1500):
    rng = np.random.default_rng(11)
    U = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n)
    return np.column_stack([np.digitize(U[:, 0], [-0.8, 0.1, 0.9]), np.digitize(U[:, 1], [0, 1.2])])


@pytest.mark.parametrize("rho", [0.3, 0.8])
def test_two_ordinal_columns_have_the_polychoric_correlation(rho):
    X = ordinal_pair(rho)
    columns = Columns(tuple(OrdinalColumn.of_shares(shares(x)) for x in X.T))
    fit = fit_columns(as_source(X.astype(float)), columns, 1, EMOptions(tol=1e-6))
    a, b = (np.concatenate([[-9], column.thresholds[1:-1], [9]]) for column in columns.kinds)
    table = np.zeros((4, 3))
    np.add.at(table, tuple(X.T), 1)

    def minus_log_likelihood(r):
        corners = np.array(np.meshgrid(a, b, indexing="ij")).reshape(2, -1).T
        cdf = [multivariate_normal.cdf(c, cov=[[1, r], [r, 1]]) for c in corners]
        p = np.diff(np.diff(np.reshape(cdf, (5, 4)), axis=0), axis=1)
        return -np.sum(table * np.log(p))

    polychoric = minimize_scalar(minus_log_likelihood, bounds=(-0.99, 0.99), method="bounded").x
    assert correlations(fit.model)[0, 1] == pytest.approx(polychoric, abs=0.005)


@pytest.mark.needs_r("psych")
def test_pairs_of_levels_have_the_correlations_of_psych(tmp_path):
    path = tmp_path / "levels.csv"
    for X, code in (
        (ordinal_pair(0.6), "polychoric(d, correct=0)$rho[1, 2]"),
        (np.minimum(ordinal_pair(0.6), 1), "tetrachoric(d, correct=0)$rho[1, 2]"),
    ):
        np.savetxt(path, X, fmt="%d", delimiter=",", header="a,b", comments="")
        script = f"suppressMessages(library(psych)); d <- read.csv('{path}'); cat({code})"
        done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True, check=True)
        columns = Columns(tuple(OrdinalColumn.of_shares(shares(x)) for x in X.T))
        fit = fit_columns(as_source(X.astype(float)), columns, 1, EMOptions(tol=1e-6))
        assert correlations(fit.model)[0, 1] == pytest.approx(float(done.stdout), abs=0.005)


def test_ordinal_items_have_the_correlations_of_their_factors():
    rng = np.random.default_rng(4)
    n, d = 3000, 8
    W = rng.uniform(0.5, 1.5, size=(d, 1))
    U = rng.normal(size=(n, 1)) @ W.T + rng.normal(size=(n, d))
    X = np.stack([np.digitize(u, np.quantile(u, [0.2, 0.5, 0.8])) for u in U.T], axis=1).astype(
        float
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    columns = Columns(tuple(OrdinalColumn.of_shares(shares(x)) for x in X.T))
    fit = fit_columns(as_source(X), columns, 1, EMOptions(tol=1e-5))
    truth = W @ W.T + np.eye(d)
    truth /= np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    # Sampling error of a correlation is about 1 / sqrt(n).
    np.testing.assert_allclose(correlations(fit.model), truth, atol=5 / np.sqrt(n))


def test_level_probabilities_are_frequencies():
    rng = np.random.default_rng(5)
    column = NominalColumn(np.arange(4.0), np.array([2, 0, 3, 1]), np.array([0.3, -0.2, 0.1]))
    mean, root = rng.normal(size=(4, 3)), 0.6 * rng.normal(size=(4, 3, 3))
    cov = root @ root.transpose(0, 2, 1) + 0.5 * np.eye(3)
    found = column.probabilities(mean, cov)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    for i in range(4):
        u = rng.multivariate_normal(mean[i], cov[i], size=100_000)
        frequency = np.bincount(column.from_u(u, rng).astype(int), minlength=4) / len(u)
        np.testing.assert_allclose(found[i], frequency, atol=0.02)  # filtering is approximate


@pytest.mark.parametrize("share", [1e-10, 1e-17, 1e-100])
def test_a_level_of_next_to_no_weight_has_its_share(share):
    """1 - 1e-17 is 1, whose quantile is infinite."""
    for counts in ([share, 3.0, 5.0], [3.0, share, 5.0], [5.0, 3.0, share]):
        total = sum(counts)
        ordinal = OrdinalColumn.of_shares(np.array(counts))
        assert np.all(np.diff(ordinal.thresholds) > 0)
        assert np.all(np.isfinite(ordinal.thresholds[1:-1]))
        if counts[1] != share:  # between two others a share is no less than rounding
            rare = -ordinal.thresholds[2] if counts[2] == share else ordinal.thresholds[1]
            assert norm.logcdf(rare) == pytest.approx(np.log(share / total), rel=1e-9)
        nominal = NominalColumn.of_counts(np.array(counts))
        assert np.all(np.isfinite(nominal.thresholds))
        assert norm.logcdf(nominal.thresholds[-1]) == pytest.approx(np.log(share / 3.0), rel=1e-6)


def test_ordinal_probabilities_and_quantiles_agree():
    column = OrdinalColumn.of_shares(np.array([10.0, 30.0, 40.0, 20.0]))
    mean, cov = np.linspace(-2, 2, 9)[:, None], np.full((9, 1, 1), 0.5)
    below = np.cumsum(column.probabilities(mean, cov), axis=1)
    for share in (0.1, 0.5, 0.9):
        level = column.quantile(share, mean, cov).astype(int)
        at = np.arange(9)
        assert np.all(below[at, level] >= share - 1e-12)
        assert np.all((level == 0) | (below[at, level - 1] <= share + 1e-12))


@pytest.mark.parametrize("dispersion", [0.0, 0.5])
def test_quantiles_of_counts(dispersion):
    rng = np.random.default_rng(6)
    column = CountColumn(dispersion)
    # Small and large means, with a u that varies more or less than the count given u.
    mean = np.array([[0.3], [2.0], [4.2], [4.2], [7.0]])
    cov = np.array([0.4, 0.1, 0.001, 0.3, 0.5])[:, None, None]
    for i in range(len(mean)):
        u = mean[i] + np.sqrt(cov[i, 0, 0]) * rng.normal(size=(200_000, 1))
        drawn = column.from_u(u, rng)
        for share in (0.05, 0.5, 0.95):
            found = column.quantile(share, mean[i : i + 1], cov[i : i + 1])[0]
            assert np.mean(drawn <= found) >= share - 0.01
            assert np.mean(drawn < found) <= share + 0.01


@pytest.mark.parametrize("dispersion", [0.0, 0.02, 0.4])
@pytest.mark.parametrize("mean", [0.5, 2.0, 3.5, 8.0])
@pytest.mark.parametrize("variance", [0.3, pytest.param(4.0, marks=pytest.mark.slow), 9.0])
def test_tails_and_quantiles_of_counts_whose_u_varies_much(dispersion, mean, variance):
    """An average over a few nodes of u is a staircase, where the count says more than the nodes."""
    column = CountColumn(dispersion)
    m, v = np.array([[mean]]), np.array([[[variance]]])
    u = np.linspace(-9.0, 9.0, 8_001)
    weight = norm.pdf(u) / norm.pdf(u).sum()
    rate = np.exp(mean + np.sqrt(variance) * u)

    def at_most(y):
        if not dispersion:
            return float(poisson.cdf(y, rate) @ weight)
        shape = 1.0 / dispersion
        return float(nbinom.cdf(y, shape, shape / (shape + rate)) @ weight)

    for share in (0.05, 0.2, 0.42, 0.65, 0.9, 0.98):
        (y,) = column.quantile(share, m, v)
        assert at_most(y) >= share - 0.005
        assert at_most(y - 1.0) <= share + 0.005
        below, above = column.tails(np.array([y]), m, v)
        assert below[0] == pytest.approx(at_most(y), abs=2e-4)
        assert above[0] == pytest.approx(1.0 - at_most(y - 1.0), abs=2e-4)


FAMILIES = [
    Identity(),
    Log(),
    Log(-3.0),
    Logit(-5.0, 90.0),
    *(YeoJohnson(p, 1.0, 2.0) for p in (-1.0, 0.0, 0.5, 1.0, 2.0, 2.6)),
]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_families_are_increasing_and_have_inverses(family):
    x = np.linspace(0.1, 40.0, 200)
    y = family.forward(x)
    assert np.all(np.diff(y) > 0)
    np.testing.assert_allclose(family.inverse(y), x, rtol=1e-9)
    h = 1e-6
    slope = (family.forward(x + h) - family.forward(x - h)) / (2 * h)
    np.testing.assert_allclose(np.log(slope), family.log_slope(x), atol=1e-5)


TABLES = {
    "Gaussian": lambda rng: 7 + 3 * rng.normal(size=400),
    "log-normal": lambda rng: np.exp(1.2 * rng.normal(size=400)),
    "two clusters": lambda rng: np.concatenate([rng.normal(size=300), 6 + rng.normal(size=300)]),
    "many zeros": lambda rng: np.where(rng.random(500) < 0.4, 0.0, np.exp(rng.normal(size=500))),
    "heavy tails": lambda rng: rng.standard_t(2.5, size=500),
    "whole numbers": lambda rng: np.round(rng.gamma(5, 8, size=300)),
    "few": lambda rng: np.exp(rng.normal(size=12)),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_learned_column_gives_its_values_back(name):
    x = TABLES[name](np.random.default_rng(7))
    column = continuous_column(ColumnCells.of(x))
    exact, first, second = column.encode(x)
    inner = ~np.isnan(exact[:, 0])
    np.testing.assert_allclose(
        column.margin.inverse(exact[inner, 0]), x[inner], rtol=1e-6, atol=1e-6
    )
    assert np.all(np.isnan(first[inner]))
    assert np.all(~np.isnan(second[~inner]))
    # u is standard Gaussian as far as the sample tells.
    cov = np.ones((1, 1, 1))
    for share in (0.1, 0.5, 0.9):
        found = column.quantile(share, np.zeros((1, 1)), cov)[0]
        allowed = 4 * np.sqrt(share * (1 - share) / len(x))
        assert np.mean(x <= found) >= share - allowed
        assert np.mean(x < found) <= share + allowed


WHOLE = {
    "Poisson": lambda rng: rng.poisson(4.0, size=3000) + 1.0,
    "geometric": lambda rng: rng.geometric(0.2, size=3000).astype(float),
    "many zeros": lambda rng: (rng.random(3000) < 0.5) * rng.poisson(4.0, size=3000).astype(float),
    "a scale": lambda rng: np.round(14 * rng.beta(2, 2, size=3000)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_that_repeat_keep_their_shares_and_their_mean(name, weighted):
    x = WHOLE[name](np.random.default_rng(12))
    values, times = np.unique(x, return_counts=True)
    cells = ColumnCells.of(values, times.astype(float)) if weighted else ColumnCells.of(x)
    column = continuous_column(cells)
    u = norm.ppf((np.arange(100_000) + 0.5) / 100_000)  # in the place of draws
    drawn = column.from_u(u[:, None], np.random.default_rng(0))
    assert np.mean(drawn) == pytest.approx(np.mean(x), abs=0.05 * np.std(x))
    for value in values:
        assert np.mean(drawn == value) == pytest.approx(np.mean(x == value), abs=0.03)


def test_values_stay_in_their_range():
    rng = np.random.default_rng(8)
    far = np.array([[-12.0], [12.0]])
    cov = np.full((2, 1, 1), 1.0)
    positive = continuous_column(ColumnCells.of(np.exp(rng.normal(size=200))), lower=0.0)
    assert np.all(positive.value(far, cov) > 0)
    share = continuous_column(
        ColumnCells.of(100 * rng.beta(0.6, 3, size=300)), lower=0.0, upper=100.0
    )
    low, high = share.value(far, cov)
    assert 0 <= low < high <= 100


@pytest.mark.parametrize(
    "column",
    [
        ContinuousColumn(Margin(Log(2.0), 0.5, 1.3)),
        ContinuousColumn(Margin(Logit(2.0, 5.0), -0.3, 2.0)),
    ],
)
def test_values_near_an_open_end_are_as_far_out_as_the_end(column):
    """0 of a logarithm is neither infinitely far away nor nearer than 1e-30."""
    low, high = column.margin.family.range
    x = low + np.concatenate([[0.0], np.geomspace(1e-300, 1e-20, 200), np.geomspace(1e-19, 1, 200)])
    x = np.concatenate([x, high - np.geomspace(1.0, 1e-15, 50), [high]]) if high < np.inf else x
    u = column.encode(x).exact[:, 0]
    assert np.all(np.diff(u) >= 0)
    assert np.all(np.isfinite(column.log_slope(x)))
    near = np.abs(u) < 5.99  # there the map is that of the family
    np.testing.assert_allclose(u[near], column.margin.forward(x[near]))
    assert not near[0]
    assert near[200:].any()


@pytest.mark.parametrize("scale", [1e-300, 1e-155, 1e149])
@pytest.mark.parametrize("family", ["identity", "rank", "yeo-johnson", "auto"])
def test_units_however_extreme_change_nothing_but_the_values(family, scale):
    """Squares of such numbers underflow or overflow."""
    x = np.random.default_rng(3).standard_t(3, size=400)
    share, at = np.array([0.025, 0.3, 0.9]), (np.zeros((3, 1)), np.ones((3, 1, 1)))
    plain, scaled = (continuous_column(ColumnCells.of(x * s), family=family) for s in (1.0, scale))
    expected = plain.quantile(share, *at)
    # The power of a family is the minimum of a curve: known to the root of rounding.
    np.testing.assert_allclose(scaled.quantile(share, *at) / scale, expected, rtol=1e-6)
    np.testing.assert_allclose(
        scaled.log_slope(x * scale) + np.log(scale), plain.log_slope(x), atol=1e-5
    )


@pytest.mark.parametrize("how", [{"lower": 0.0}, {"family": "log"}, {}], ids=str)
@pytest.mark.parametrize("offset", [1e9, 1e12, 1e15])
def test_a_logarithm_far_from_zero_loses_no_digits(offset, how):
    """Timestamps as positive numbers: steps of their logarithm are below rounding."""
    x = offset + np.round(80 * np.random.default_rng(0).normal(size=200)) / 8
    column = continuous_column(ColumnCells.of(x), **how)
    u = column.encode(x).exact[:, 0]
    assert len(np.unique(u)) == len(np.unique(x))
    share, at = np.array([0.1, 0.5, 0.9]), (np.zeros((3, 1)), np.ones((3, 1, 1)))
    expected = offset + np.mean(x - offset) + np.std(x - offset) * norm.ppf(share)
    allowed = 0.3 * np.std(x - offset)  # a sample, with knots or without
    np.testing.assert_allclose(column.quantile(share, *at), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_one_value_between_atoms_is_not_far_from_them(unit):
    x = unit * np.repeat([0.0, 1.5, 4.0], [30, 40, 30])
    column = continuous_column(ColumnCells.of(x))
    u = np.linspace(-3, 3, 601)
    found = column.from_u(u[:, None], np.random.default_rng(0)) / unit
    assert np.all(np.diff(found) >= 0)
    assert set(found[[0, -1]]) == {0.0, 4.0}
    assert found[300] == pytest.approx(1.5)
    inside = (u > column.below) & (u < column.above)
    assert np.min(found[inside]) == pytest.approx(0.0, abs=0.05)


def test_one_whole_number_between_atoms_is_imputed_whole():
    column = continuous_column(ColumnCells.of(np.repeat([0.0, 2.0, 5.0], [30, 40, 30])))
    found = column.from_u(np.linspace(-3, 3, 601)[:, None], np.random.default_rng(0))
    assert np.all(found == np.round(found))


def zero_heavy(rng, n=600):
    """Zeros below a threshold of u, and skewed values above it."""
    return np.maximum(np.exp(1.2 * rng.normal(size=n)) - 2.5, 0.0)


def days_off(rng, n=600):
    """Whole days of two weeks, zero for most and 14 for some."""
    days = np.minimum(np.ceil(rng.exponential(6.0, size=n)), 14.0)
    return np.where(rng.random(n) < 0.85, 0.0, days)


ALONE = {
    "zero heavy": zero_heavy,
    "days off": days_off,
    "zeros and log-normal": lambda rng: (rng.random(600) < 0.2) * np.exp(rng.normal(size=600)),
    "zeros and counts": lambda rng: (
        (rng.random(600) < 0.3) * rng.negative_binomial(1, 0.15, size=600).astype(float)
    ),
    "skewed otherwise than a logarithm": lambda rng: rng.gamma(0.4, size=600),
    "log-normal": lambda rng: np.exp(1.2 * rng.normal(size=600)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ALONE)
def test_draws_of_a_column_alone_are_like_its_values(name, seed):
    """Beside an atom u is a piece of a Gaussian, whose steep map goes on in no tail."""
    x = ALONE[name](np.random.default_rng(seed))
    column = continuous_column(ColumnCells.of(x))
    u = norm.ppf((np.arange(200_000) + 0.5) / 200_000)  # in the place of draws
    drawn = column.from_u(u[:, None], np.random.default_rng(0))
    assert np.mean(drawn) == pytest.approx(np.mean(x), abs=3 * np.std(x) / np.sqrt(len(x)))
    # The 0.99 quantile of 600 values lies between their 0.98 and 0.998 quantiles.
    assert np.quantile(x, 0.98) <= np.quantile(drawn, 0.99) <= np.quantile(x, 0.998)
    assert np.quantile(drawn, 0.999) <= 3 * np.max(x)
    assert np.quantile(drawn, 0.9999) <= 6 * np.max(x)
    assert np.mean(drawn == 0.0) == pytest.approx(np.mean(x == 0.0), abs=0.001)


def test_a_log_normal_tail_beside_zeros_is_not_bounded():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(20_000) < 0.6, 0.0, np.exp(rng.normal(size=20_000)))
    column = continuous_column(ColumnCells.of(x))
    at = norm.isf(0.4 * norm.sf([3.0, 4.0, 5.0]))  # u of these scores of the values above 0
    found = np.log(column.from_u(at[:, None], rng))
    np.testing.assert_allclose(found, [3.0, 4.0, 5.0], atol=0.35)  # at 5 scores, a slope to 7 %


def test_a_share_of_the_values_beside_zeros_is_an_atom_too():
    x = np.concatenate([np.zeros(850), np.arange(1, 14).repeat(10), np.full(20, 14)])
    column = continuous_column(ColumnCells.of(x.astype(float)))
    assert (column.least, column.largest) == (0.0, 14.0)
    assert norm.sf(column.above) == pytest.approx(0.02)


@pytest.mark.parametrize("name", ["zero heavy", "days off", "zeros and counts"])
def test_a_map_beside_atoms_and_its_inverse_agree_beyond_the_data(name):
    x = ALONE[name](np.random.default_rng(4))
    column = continuous_column(ColumnCells.of(x))
    margin, inner = column.margin, x[(x > column.least) & (x < column.largest)]
    far = np.concatenate(
        [np.min(inner) * np.geomspace(0.02, 1, 9), np.max(inner) * np.geomspace(1, 3, 9)]
    )
    u = margin.forward(far)
    assert np.all(np.diff(u[:9]) > 0)
    assert np.all(np.diff(u[9:]) > 0)
    assert np.all((u > column.below) & (u < column.above))
    np.testing.assert_allclose(margin.inverse(u), far, rtol=1e-6)
    h = 1e-6 * far
    off = np.r_[0:8, 10:18]  # the last knots have two slopes
    slope = ((margin.forward(far + h) - margin.forward(far - h)) / (2 * h))[off]
    np.testing.assert_allclose(np.log(slope), margin.log_slope(far)[off], atol=1e-3)


def test_models_that_are_drawn_have_the_scale_of_a_map_beside_an_atom():
    """Few cells above many zeros leave loadings uncertain, but not the quantiles of the column."""
    rng = np.random.default_rng(9)
    z = rng.normal(size=(300, 1))
    u = z @ [[0.7, 0.6, 0.5]] + 0.7 * rng.normal(size=(300, 3))
    table = np.column_stack([u[:, :2], np.maximum(np.exp(u[:, 2]) - 2.2, 0.0)])
    zeros = continuous_column(ColumnCells.of(table[:, 2]))
    columns = Columns((standard(u[:, 0]), standard(u[:, 1]), zeros))
    model, _ = fit_column_model(as_source(table), columns, 1)
    drawn = [model.draw(rng) for _ in range(50)]
    assert np.std([each.W[2, 0] for each in drawn]) > 0.02
    expected = model.gaussian.variances()[2]
    np.testing.assert_allclose([each.gaussian.variances()[2] for each in drawn], expected)


# How improbable a value is ----------------------------------------------------------------------

MEAN, COV = np.array([[0.3], [-1.2], [0.0]]), np.array([0.5, 1.0, 2.5]).reshape(3, 1, 1)
SD = np.sqrt(COV[:, 0, 0])


def test_tails_of_a_number_are_those_of_its_u():
    column = ContinuousColumn(Margin(Log(), 0.5, 2.0))
    x = np.array([0.01, 3.0, 200.0])
    u = (np.log(x) - 0.5) / 2.0
    below = norm.cdf(u, MEAN[:, 0], SD)
    np.testing.assert_allclose(column.tails(x, MEAN, COV), [below, 1.0 - below], rtol=1e-12)
    two_sided = 2.0 * norm.cdf(-np.abs(u - MEAN[:, 0]) / SD)
    np.testing.assert_allclose(column.tail(x, MEAN, COV), two_sided, rtol=1e-12)
    far = column.tail(np.array([1e40]), MEAN[:1], COV[:1])[0]
    z = ((np.log(1e40) - 0.5) / 2.0 - 0.3) / SD[0]
    assert far == pytest.approx(2.0 * np.exp(norm.logsf(z)), rel=1e-9)


def test_tails_at_atoms_are_those_of_all_that_lies_there():
    column = ContinuousColumn(
        Margin(Identity(), 0.0, 1.0), least=-1.0, below=-1.0, largest=2.0, above=2.0
    )
    below, above = column.tails(np.array([-1.0, 2.0, 0.4]), MEAN, COV)
    np.testing.assert_allclose(below, [norm.cdf(-1.3 / SD[0]), 1.0, norm.cdf(0.4 / SD[2])])
    np.testing.assert_allclose(above, [1.0, norm.sf(3.2 / SD[1]), norm.sf(0.4 / SD[2])])


def test_tails_of_levels_are_sums_of_their_probabilities():
    column = OrdinalColumn.of_shares(np.array([3.0, 5.0, 2.0, 4.0]))
    p = column.probabilities(MEAN, COV)
    for k in range(4):
        below, above = column.tails(np.full(3, float(k)), MEAN, COV)
        np.testing.assert_allclose(below, p[:, : k + 1].sum(axis=1), rtol=1e-10)
        np.testing.assert_allclose(above, p[:, k:].sum(axis=1), rtol=1e-10)
    two = OrdinalColumn.of_shares(np.array([3.0, 5.0]))
    p = two.probabilities(MEAN, COV)
    np.testing.assert_allclose(two.tail(np.ones(3), MEAN, COV), p[:, 1], rtol=1e-12)
    three = NominalColumn.of_counts(np.array([3.0, 5.0, 4.0]))
    cov = COV[:1] * (np.eye(2) + 0.3)
    p = three.probabilities(np.zeros((1, 2)), cov)
    for k in range(3):
        assert three.tail(np.array([float(k)]), np.zeros((1, 2)), cov)[0] == p[0, k]


@pytest.mark.parametrize("dispersion", [0.0, 0.4])
@pytest.mark.parametrize("y", [0, 1, 6])
def test_tails_of_a_count_are_sums_of_integrals(dispersion, y):
    column = CountColumn(dispersion)

    def probability(k, mean, sd):
        def integrand(u):
            if dispersion:
                shape = 1.0 / dispersion
                of_count = nbinom.pmf(k, shape, shape / (shape + np.exp(u)))
            else:
                of_count = poisson.pmf(k, np.exp(u))
            return of_count * norm.pdf(u, mean, sd)

        return quad(integrand, mean - 9 * sd, mean + 9 * sd, epsabs=1e-11, limit=200)[0]

    below, above = column.tails(np.full(3, float(y)), MEAN, COV)
    for i in range(3):
        p = [probability(k, MEAN[i, 0], np.sqrt(COV[i, 0, 0])) for k in range(y + 1)]
        assert below[i] == pytest.approx(sum(p), abs=1e-6)
        assert above[i] == pytest.approx(1.0 - sum(p[:-1]), abs=1e-6)
