"""Bayesian PCA and mixtures of columns of every kind, against quadrature and numeric fits."""

from math import inf

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm, poisson
from sklearn.metrics import adjusted_rand_score

import eigengap as eg
from eigengap.fitting.columns.bayesian import SiteBayesianProblem, fit_bayesian_columns
from eigengap.fitting.columns.classes import shared_columns
from eigengap.fitting.columns.fit import SiteProblem
from eigengap.fitting.columns.mixture import SiteMixtureProblem, fit_column_mixture
from eigengap.fitting.gaussian.bayesian import BROAD
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.mixture.fit import MixtureOptions
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.maps import Identity, Margin
from eigengap.models.columns.mixture import ColumnMixture
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.sources import as_source
from eigengap.statistics.expected.mixture import MixtureParameters

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
CUTS = (np.array([-inf, -0.6, 0.7, inf]), np.array([-inf, 0.1, inf]))
IDENTITY = ContinuousColumn(Margin(Identity(), 0.0, 1.0))


def standard(x):
    return ContinuousColumn(Margin(Identity(), float(np.nanmean(x)), float(np.nanstd(x))))


def shares(x):
    return np.bincount(x[~np.isnan(x)].astype(int)).astype(float)


def ordinal(x):
    return OrdinalColumn.of_shares(shares(x))


def nominal(x):
    return NominalColumn.of_counts(shares(x))


# A mixture of one latent variable by quadrature ----------------------------------------------


def two_ordinals_and_a_number():
    """Columns with thresholds CUTS and a number that is its own u, behind two components."""
    models = [
        LinearGaussian(W=[[0.8], [0.9], [-0.7]], mu=[0.5, 0.3, -0.6], psi=[0.5, 1.0, 0.4]),
        LinearGaussian(W=[[0.5], [-1.0], [0.6]], mu=[-0.7, -0.2, 0.8], psi=[0.3, 1.0, 0.7]),
    ]
    mixture = MixtureOfLinearGaussians(np.log([0.6, 0.4]), models)
    columns = Columns((*(OrdinalColumn(np.arange(len(c) - 1.0), c) for c in CUTS), IDENTITY))
    return ColumnMixture(columns, mixture)


def by_quadrature(mixture, X):
    """ln p(x_o, z, k) (n, K, nodes), weights of the nodes included; z at NODES."""
    joint = np.zeros((len(X), mixture.K, len(NODES)))
    for k, (weight, model) in enumerate(zip(mixture.weights, mixture.models, strict=True)):
        t = model.W @ NODES[None, :] + model.mu[:, None]  # (3, nodes)
        sd = np.sqrt(model.psi)
        joint[:, k] = np.log(weight * WEIGHTS)
        for i, x in enumerate(X):
            for j, cuts in enumerate(CUTS):
                if not np.isnan(x[j]):
                    low, high = ((cuts[int(x[j]) + s] - t[j]) / sd[j] for s in (0, 1))
                    joint[i, k] += np.log(np.maximum(norm.cdf(high) - norm.cdf(low), 1e-300))
            if not np.isnan(x[2]):
                joint[i, k] += norm.logpdf(x[2], t[2], sd[2])
    return joint


def test_likelihood_and_answers_are_those_of_quadrature():
    """Two sites and a number for one latent variable; what is left is expectation propagation's.

    Its log-likelihoods of rows are within 1e-3 of the integral here, and what follows from them.
    """
    model = two_ordinals_and_a_number()
    rng = np.random.default_rng(0)
    X, labels = model.sample(60, rng)
    assert set(labels) == {0, 1}
    X[rng.random(X.shape) < 0.3] = np.nan
    joint = by_quadrature(model.gaussian, X)
    log_likelihood = logsumexp(joint, axis=(1, 2))
    np.testing.assert_allclose(model.log_likelihood(X), log_likelihood, atol=2e-3)
    posterior = np.exp(joint - log_likelihood[:, None, None])  # (n, K, nodes)
    np.testing.assert_allclose(model.responsibilities(X), posterior.sum(axis=2), atol=2e-3)
    coordinates = posterior @ NODES
    np.testing.assert_allclose(model.local_coordinates(X), coordinates, atol=2e-3)

    models = model.gaussian.models
    for j, cuts in enumerate(CUTS):
        t = np.stack([m.W[j] * NODES + m.mu[j] for m in models])  # (K, nodes)
        sd = np.sqrt([m.psi[j] for m in models])[:, None]
        of_level = np.diff(norm.cdf((cuts[:, None, None] - t) / sd), axis=0)  # (levels, K, nodes)
        exact = np.einsum("nkz,lkz->nl", posterior, of_level)
        missing = np.isnan(X[:, j])
        assert missing.any()
        np.testing.assert_allclose(
            model.level_probabilities(X, j)[missing], exact[missing], atol=4e-3
        )
    missing = np.isnan(X[:, 2])
    t = np.stack([m.W[2] * NODES + m.mu[2] for m in models])
    sd = np.sqrt([m.psi[2] for m in models])[:, None]
    ends = model.intervals(X, 0.9)
    for end, share in ((ends[0], 0.05), (model.impute(X), 0.5), (ends[1], 0.95)):
        below = norm.cdf((end[:, 2, None, None] - t) / sd)
        np.testing.assert_allclose(
            np.sum(posterior * below, axis=(1, 2))[missing], share, atol=5e-3
        )
    scores = model.log_scores(X, np.where(missing[:, None], 0.4, X))
    exact = np.sum(posterior * norm.pdf(0.4, t, sd), axis=(1, 2))
    np.testing.assert_allclose(scores[missing, 2], np.log(exact)[missing], atol=3e-2)


def test_without_latent_variables_nothing_is_approximate():
    """Cells are then independent given the component: latent class analysis, by hand."""
    models = [
        LinearGaussian(W=np.zeros((3, 0)), mu=m.mu, psi=m.psi)
        for m in two_ordinals_and_a_number().gaussian.models
    ]
    gaussian = MixtureOfLinearGaussians(np.log([0.6, 0.4]), models)
    model = ColumnMixture(two_ordinals_and_a_number().columns, gaussian)
    X, _ = model.sample(40, np.random.default_rng(1))
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    flat = MixtureOfLinearGaussians(
        gaussian.log_weights,
        [LinearGaussian(W=np.zeros((3, 1)), mu=m.mu, psi=m.psi) for m in models],
    )
    exact = logsumexp(by_quadrature(flat, X), axis=(1, 2))
    np.testing.assert_allclose(model.log_likelihood(X), exact, atol=1e-12)


@pytest.mark.parametrize("mean", [1.0, 6.0])
def test_counts_of_a_mixture_have_its_quantiles(mean):
    column = CountColumn()
    resp = np.array([[0.3, 0.7], [0.9, 0.1]])
    means = np.array([[[mean], [mean]], [[mean + 1.5], [mean - 1.0]]])
    cov = np.array([0.3, 0.1])[:, None, None, None] * np.ones((2, 2, 1, 1))
    # A fine grid: what is averaged is a staircase where the mean is large.
    grid = np.linspace(-8.0, 8.0, 4001)
    weights = norm.pdf(grid) / norm.pdf(grid).sum()
    u = means[:, :, 0, None] + np.sqrt(cov[:, :, 0, 0, None]) * grid  # (K, c, nodes)
    for share in (0.05, 0.5, 0.95):
        found = column.mixed_quantile(share, resp, means, cov)
        for i, y in enumerate(found):
            at, before = (
                sum(resp[i, k] * (weights @ poisson.cdf(c, np.exp(u[k, i]))) for k in range(2))
                for c in (y, y - 1)
            )
            # Large counts go by a log-normal, whose probabilities hold to 0.005.
            slack = 0.0 if mean < 3.0 else 0.005
            assert before - slack < share <= at + slack


# Numeric fits --------------------------------------------------------------------------------


def numeric_table(seed=0, n=300):
    rng = np.random.default_rng(seed)
    X = 1.5 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(n, 8))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, Columns(tuple(standard(x) for x in X.T))


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_bayesian_pca_of_plain_numbers(noise):
    """The same fixed point on rows without sites; fits end within their tolerance of it.

    The log-likelihood is that of the predictive density, which no fit maximises: a step of 1e-9
    moves it by so much per row and not by its square.
    """
    X, columns = numeric_table()
    model, fit = fit_bayesian_columns(
        as_source(X), columns, 3, noise=noise, options=EMOptions(tol=1e-9)
    )
    expected = eg.BayesianPCA(3, noise=noise, scale=True, tol=1e-9).fit(X)
    assert fit.converged
    assert fit.elbo == pytest.approx(expected.elbo_, rel=1e-8)
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood_, rel=1e-8)
    np.testing.assert_allclose(model.impute(X), expected.impute(X), atol=1e-6)
    missing = np.isnan(X)
    low, high = model.intervals(X, 0.95)
    _, sd = expected.impute(X, return_std=True)
    half = norm.ppf(0.975) * sd
    np.testing.assert_allclose((high - low)[missing] / 2.0, half[missing], rtol=1e-6)


def clusters_of_numbers(n=400, missing=0.2):
    rng = np.random.default_rng(1)
    of = rng.random(n) < 0.4
    W = rng.normal(size=(2, 2, 12))
    Z = rng.normal(size=(n, 2))
    X = np.where(of[:, None], Z @ W[0] + 4.0, Z @ W[1]) + 0.8 * rng.normal(size=(n, 12))
    X[rng.random(X.shape) < missing] = np.nan
    return X, of


@pytest.mark.parametrize("shared_noise", [False, True])
@pytest.mark.parametrize(
    ("noise", "ranks"),
    [
        ("isotropic", (2, 2)),
        ("isotropic", (1, 2)),
        ("isotropic", None),
        ("diagonal", (2, 2)),
        ("diagonal", (1, 2)),
    ],
)
def test_mixtures_of_plain_numbers(noise, shared_noise, ranks):
    """The same maximum of the same likelihood, from starts that may differ.

    Where ARD adds latent dimensions until a noise variance is at its floor they are not the same:
    that of columns of every kind is higher.
    """
    X, _ = clusters_of_numbers()
    columns = Columns(tuple(standard(x) for x in X.T))
    model, fit = fit_column_mixture(
        as_source(X),
        columns,
        2,
        ranks,
        noise,
        shared_noise=shared_noise,
        options=MixtureOptions(tol=1e-8),
    )
    expected = eg.MixturePPCA(
        2,
        "auto" if ranks is None else list(ranks),
        noise=noise,
        shared_noise=shared_noise,
        scale=True,
        tol=1e-8,
        random_state=0,
    ).fit(X)
    assert fit.converged
    assert model.ranks == expected.n_components_
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood_, rel=1e-8)
    np.testing.assert_allclose(model.responsibilities(X), expected.predict_proba(X), atol=1e-5)
    # Medians are not means where a cell is of several components; most are of one.
    clear = expected.predict_proba(X).max(axis=1) > 1.0 - 1e-9
    assert clear.mean() > 0.5
    np.testing.assert_allclose(model.impute(X)[clear], expected.impute(X)[clear], atol=1e-4)


# Convergence ---------------------------------------------------------------------------------


def mixed_table(seed, n=200, missing=0.15):
    """Numbers, ordered, yes or no, names and counts, in two clusters."""
    rng = np.random.default_rng(seed)
    of = rng.random(n) < 0.4
    W = rng.normal(size=(1, 10))
    U = (
        rng.normal(size=(n, 1)) @ W
        + 2.0 * of[:, None] * np.sign(W)
        + 0.7 * rng.normal(size=(n, 10))
    )
    X = U.copy()
    for j in (2, 3, 4):
        X[:, j] = np.digitize(U[:, j], [-1.0, 0.5, 2.0])
    for j in (5, 6):
        X[:, j] = U[:, j] > 0.5
    for j in (7, 8):
        X[:, j] = np.digitize(U[:, j], [0.0, 1.0])
    X[:, 9] = rng.poisson(np.exp(np.clip(U[:, 9], -3, 3)))
    X[rng.random(X.shape) < missing] = np.nan
    made = [standard] * 2 + [ordinal] * 5 + [nominal] * 2 + [lambda x: CountColumn()]
    return X, Columns(tuple(make(x) for make, x in zip(made, X.T, strict=True))), of


def slopes(problem, theta, like, rng, h=1e-4):
    """Derivatives along random directions: by differences of the objective, and as it says."""
    at = problem.apply(theta, like)
    for _ in range(6):
        step = rng.normal(size=len(theta)) * at.slope().scale
        step[at.slope().gradient == 0.0] = 0.0  # noise that is known
        step /= np.linalg.norm(step)
        ends = [problem.apply(theta + s * h * step, like).objective for s in (-1.0, 1.0)]
        cells = problem.units.cells
        yield (ends[1] - ends[0]) / (2 * h) / cells, float(at.slope().gradient @ step)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_the_elbo_has_the_gradient_that_stops_the_fit(noise):
    X, columns, _ = mixed_table(0)
    sites = SiteProblem.of_columns(as_source(X), columns, 2)
    problem = SiteBayesianProblem.of_sites(sites, 2, noise=noise, prior=BROAD)
    start = problem.start(2)
    for theta in (problem.pack(start), problem.apply(problem.pack(start), start).image):
        for by_difference, said in slopes(problem, theta, start, np.random.default_rng(1)):
            assert said == pytest.approx(by_difference, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("shared_noise", [False, True])
@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_the_likelihood_has_the_gradient_that_stops_the_fit(noise, shared_noise):
    X, columns, _ = mixed_table(1)
    sites = SiteProblem.of_columns(as_source(X), columns, 1)
    problem = SiteMixtureProblem.of_sites(sites, 2, noise, shared_noise)
    first, rng = problem.first(1), np.random.default_rng(2)
    second = type(first)(
        0.7 * first.W, first.delta + 0.3 * rng.normal(size=first.W.shape[0]), first.psi
    )
    start = MixtureParameters(np.log([0.6, 0.4]), (first, second))
    for by_difference, said in slopes(problem, problem.pack(start), start, rng):
        assert said == pytest.approx(by_difference, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_fits_converge(seed):
    """What EM's steps may hide the gradient shows: both are within the tolerance at the end."""
    X, columns, _ = mixed_table(seed)
    _, fit = fit_bayesian_columns(
        as_source(X), columns, None, noise="diagonal", options=EMOptions(tol=1e-4)
    )
    assert fit.converged
    assert fit.trace.change[-1] <= 1e-4
    _, mixture = fit_column_mixture(
        as_source(X), columns, 2, [1, 1], "diagonal", options=MixtureOptions(tol=1e-4)
    )
    assert mixture.converged
    assert mixture.trace.change[-1] <= 1e-4


# What the models are for ---------------------------------------------------------------------


@pytest.mark.parametrize("q", [1, 2, 3])
def test_superfluous_components_of_ordinal_columns_are_removed(q):
    rng = np.random.default_rng(q)
    n, d = 500, 14
    U = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + 0.7 * rng.normal(size=(n, d))
    X = np.stack([np.digitize(u, np.quantile(u, [0.2, 0.5, 0.8])) for u in U.T], axis=1).astype(
        float
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    columns = Columns(tuple(ordinal(x) for x in X.T))
    for asked in (None, 8):
        _, fit = fit_bayesian_columns(
            as_source(X), columns, asked, noise="diagonal", options=EMOptions(tol=1e-3)
        )
        assert fit.model.q == q


def latent_classes(seed, n=500, d=8, levels=4):
    """Names that depend on the class of their row alone."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(levels, 0.5), size=(3, d))
    of = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    X = np.array([[rng.choice(levels, p=share[k, j]) for j in range(d)] for k in of], dtype=float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, of


def latent_class_em(X, K, starts=6, steps=200):
    """Latent class analysis from random starts: log-likelihood and responsibilities of the best."""
    levels, rng = int(np.nanmax(X)) + 1, np.random.default_rng(0)
    shown = (X[:, :, None] == np.arange(levels)).astype(float)
    best = (-inf, None)
    for _ in range(starts):
        resp = rng.dirichlet(np.ones(K), size=len(X))
        for _ in range(steps):
            share = np.einsum("nk,ndl->kdl", resp, shown) + 1e-9
            share /= share.sum(axis=2, keepdims=True)
            log_joint = np.log(resp.mean(axis=0)) + np.einsum("ndl,kdl->nk", shown, np.log(share))
            of_rows = logsumexp(log_joint, axis=1)
            resp = np.exp(log_joint - of_rows[:, None])
        best = max(best, (float(of_rows.sum()), resp), key=lambda each: each[0])
    return best


@pytest.mark.parametrize("seed", range(3))
def test_clusters_of_names_are_latent_classes(seed):
    """Without latent variables the model is latent class analysis, but for its weak prior."""
    X, of = latent_classes(seed)
    columns = Columns(tuple(nominal(x) for x in X.T))
    model, fit = fit_column_mixture(as_source(X), columns, 3, [0, 0, 0])
    log_likelihood, resp = latent_class_em(X, 3)
    # The prior of a level that a class hardly has costs a fraction of a nat.
    assert log_likelihood - 3.0 < fit.log_likelihood < log_likelihood + 1e-6
    found, classes = (np.argmax(r, axis=1) for r in (model.responsibilities(X), resp))
    assert adjusted_rand_score(classes, found) > 0.95
    assert adjusted_rand_score(of, found) > adjusted_rand_score(of, classes) - 0.03


# Coverage ------------------------------------------------------------------------------------


def covered(model, X, truth, level=0.95):
    """Cells of numbers that were held out, and how many of them lie in their interval."""
    low, high = model.intervals(X, level)
    held_out = np.isnan(X) & ~np.isnan(truth)
    held_out[:, [k.width != 1 or not k.is_exact for k in model.columns.kinds]] = False
    inside = (low <= truth) & (truth <= high)
    return int(held_out.sum()), int(inside[held_out].sum())


@pytest.mark.parametrize("kind", ["bayesian", "mixture"])
def test_intervals_cover(kind):
    """95 % of held-out numbers, within 2 % and what chance leaves of so many cells."""
    total = hits = 0
    for seed in range(4):
        rng = np.random.default_rng(100 + seed)
        n, d = 250, 10
        of = rng.random(n) < (0.0 if kind == "bayesian" else 0.4)
        W = rng.normal(size=(2, d))
        U = rng.normal(size=(n, 2)) @ W + 3.0 * of[:, None] * np.sign(W[0])
        U += 0.7 * rng.normal(size=(n, d))
        truth = U.copy()
        truth[:, :4] = np.stack(
            [np.digitize(u, np.quantile(u, [0.3, 0.7])) for u in U.T[:4]], axis=1
        )
        X = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
        columns = Columns(tuple((ordinal if j < 4 else standard)(x) for j, x in enumerate(X.T)))
        if kind == "bayesian":
            model, _ = fit_bayesian_columns(as_source(X), columns, None, noise="diagonal")
        else:
            model, _ = fit_column_mixture(
                as_source(X), columns, 2, [2, 2], "diagonal", options=MixtureOptions(tol=1e-4)
            )
        cells, inside = covered(model, X, truth)
        total, hits = total + cells, hits + inside
    assert total > 1000
    chance = 3.0 * np.sqrt(0.95 * 0.05 / total)
    assert 0.93 - chance < hits / total < 0.97 + chance


def test_a_class_of_one_value_has_no_say_in_the_map():
    """Its variance is rounding, the logarithm of which would decide."""
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(5.0, 1.0, 40), np.full(7, 9.1)])[:, None]
    code = np.repeat([0, 1], [40, 7])
    weight = np.concatenate([np.ones(40), [0.1, 0.7, 0.3, 1.0, 2.0, 0.9, 0.21]])
    columns = Columns((ContinuousColumn(Margin(Identity(), 0.0, 1.0)),))
    chosen = np.array([True])
    (kind,) = shared_columns(columns, values, weight, code, chosen).kinds
    assert isinstance(kind, ContinuousColumn)
    assert kind.margin.family == Identity()
    only = np.repeat([0, 1], 3)  # classes of one value each, in which a family has no likelihood
    values = np.repeat([[1.1], [2.3]], 3, axis=0)
    (kind,) = shared_columns(columns, values, weight[-6:], only, chosen).kinds
    assert isinstance(kind, ContinuousColumn)
    assert kind.margin.family == Identity()
