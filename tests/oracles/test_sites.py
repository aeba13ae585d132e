"""Expectation propagation for rows of evidence, against quadrature, sampling and derivatives."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr

from eigengap.linalg import unpack
from eigengap.models.gaussian import integrated as quadrature
from eigengap.models.gaussian import sites
from eigengap.models.gaussian.evidence import Evidence
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.models.gaussian.sites import CellRows, SiteRows, Sites, site_posteriors
from eigengap.statistics.expected.gaussian import Constraints, Parameters
from eigengap.statistics.expected.sites import FreeScale, KeptRows, expected_of_sites


def test_what_compiling_would_save_is_that_of_a_block_and_not_of_its_pieces(monkeypatch):
    """A long table is read in pieces, none of which alone would repay it."""
    gains = []
    monkeypatch.setattr(sites.KERNELS, "pay", lambda gain: gains.append(gain) or False)
    made = table(0, n=60)
    levels = Evidence.intervals(made.rows.evidence.first[:, :3], made.rows.evidence.second[:, :3])
    rows = replace(made.rows, at=made.rows.at[:3], evidence=levels)
    for k in (60, 6):
        pieces = [slice(start, start + k) for start in range(0, 60, k)]
        monkeypatch.setattr(SiteRows, "chunks", lambda _, pieces=pieces: iter(pieces))
        expected_of_sites(KeptRows(rows), made.model, passes=3)
    assert gains == pytest.approx([gains[0]] * 11)


@pytest.fixture(params=["never", "always"], ids=["numpy", "compiled"])
def compiled(request, monkeypatch):
    monkeypatch.setenv("EIGENGAP_COMPILED", request.param)


def table(seed, n=30, q=2, noise=0.4, levels=3):
    """Rows of 3 exact columns, 3 of intervals and one of counts, a fifth missing; the model."""
    rng = np.random.default_rng(seed)
    d, at = 7, np.array([2, 3, 4, 6])
    W, delta = rng.normal(size=(d, q)) * 0.7, rng.normal(size=d) * 0.3
    psi = noise * rng.uniform(0.5, 1.5, size=d)
    U = rng.normal(size=(n, q)) @ W.T + delta + rng.normal(size=(n, d)) * np.sqrt(psi)
    missing = rng.random((n, d)) < 0.2
    M = np.ones((n, d))
    M[:, at] = 0.0
    M[missing] = 0.0
    cuts = np.array([-np.inf, *np.linspace(-1, 1, levels - 1), np.inf])
    level = np.searchsorted(cuts, U[:, at]) - 1
    first, second = cuts[level], cuts[level + 1]
    first[:, 3], second[:, 3] = rng.poisson(np.exp(U[:, 6])), 0.0
    first[missing[:, at]] = np.nan
    evidence = Evidence(np.array([0, 0, 0, 1], bool), first, second, np.full(4, np.inf))
    weight = rng.uniform(0.5, 2.0, size=n)
    rows = SiteRows(np.where(M > 0, U, 0.0), M, at, evidence, weight)
    return SimpleNamespace(rows=rows, model=Coefficients(W, delta, psi), q=q, weight=weight)


def exact_density(rows, model, i, T):
    """ln p(row i | z) at the points t (k, d)."""
    psi, total = model.psi, np.zeros(len(T))
    for j in np.flatnonzero(rows.M[i]):
        total += -0.5 * (np.log(2 * np.pi * psi[j]) + (rows.R[i, j] - T[:, j]) ** 2 / psi[j])
    for k, j in enumerate(rows.at):
        low, high = rows.evidence.first[i, k], rows.evidence.second[i, k]
        if np.isnan(low):
            continue
        sd = np.sqrt(psi[j])
        if rows.evidence.is_count[k]:
            e = np.linspace(-8, 8, 161) * sd
            log_rate = T[:, j, None] + e
            log_p = low * log_rate - np.exp(log_rate) - np.sum(np.log(np.arange(1, low + 1)))
            log_w = -0.5 * (e / sd) ** 2
            total += logsumexp(log_p + log_w, axis=1) - logsumexp(log_w)
        else:
            total += np.log(ndtr((high - T[:, j]) / sd) - ndtr((low - T[:, j]) / sd) + 1e-300)
    return total


@pytest.mark.parametrize("q", [1, 2])
def test_quadrature(q, compiled):
    """The posterior is not Gaussian: expectation propagation is close to it, not equal."""
    given = table(0, n=12, q=q)
    found, _ = site_posteriors(given.rows, given.model)
    axis = np.linspace(-7, 7, 281)
    grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), -1).reshape(-1, q)
    log_prior = -0.5 * np.sum(grid**2, axis=1) + q * np.log(
        (axis[1] - axis[0]) / np.sqrt(2 * np.pi)
    )
    T = grid @ given.model.W.T + given.model.delta
    for i in range(len(given.rows)):
        log_joint = log_prior + exact_density(given.rows, given.model, i, T)
        log_likelihood = logsumexp(log_joint)
        p = np.exp(log_joint - log_likelihood)
        mean = p @ grid
        cov = (grid - mean).T @ ((grid - mean) * p[:, None])
        assert found.log_likelihood[i] == pytest.approx(log_likelihood, abs=0.02)
        np.testing.assert_allclose(found.Z[:, i], mean, atol=0.02)
        np.testing.assert_allclose(unpack(found.S[:, i], q), cov, atol=0.04)


def test_gibbs():
    """Posterior means of q = 3 latent variables against a long run of Gibbs' sampler."""
    given = table(1, n=3, q=3)
    model, rows = given.model, given.rows
    keep = ~rows.evidence.is_count  # intervals have a closed-form conditional of u
    e = rows.evidence
    some = Evidence(e.is_count[keep], e.first[:, keep], e.second[:, keep], e.shape[keep])
    rows = SiteRows(rows.R, rows.M, rows.at[keep], some)
    found, _ = site_posteriors(rows, model)
    rng = np.random.default_rng(0)
    from scipy.stats import truncnorm

    for i in range(3):
        known = np.flatnonzero(~np.isnan(some.first[i]))
        at = rows.at[known]
        observed = np.concatenate([np.flatnonzero(rows.M[i]), at])
        Wo, psi = model.W[observed], model.psi[observed]
        cov = np.linalg.inv(np.eye(3) + Wo.T @ (Wo / psi[:, None]))
        root = np.linalg.cholesky(cov)
        chains, steps = 400, 400
        z, total = np.zeros((chains, 3)), np.zeros((chains, 3))
        exact = np.broadcast_to(rows.R[i, rows.M[i] > 0], (chains, int(rows.M[i].sum())))
        for step in range(steps):
            t = z @ model.W[at].T + model.delta[at]
            sd = np.sqrt(model.psi[at])
            low, high = (some.first[i, known] - t) / sd, (some.second[i, known] - t) / sd
            u = t + sd * truncnorm.rvs(low, high, random_state=rng)
            r = np.hstack([exact, u]) - model.delta[observed]
            z = (r / psi) @ Wo @ cov + rng.standard_normal((chains, 3)) @ root.T
            if step >= 50:
                total += z
        mean = total / (steps - 50)
        error = mean.std(axis=0) / np.sqrt(chains)
        assert np.all(np.abs(found.Z[:, i] - mean.mean(axis=0)) < 5 * error + 0.02)


def test_derivatives_are_those_of_the_likelihood(compiled, monkeypatch):
    """Seeger 2005: with the sites settled, only the explicit dependence counts."""
    monkeypatch.setattr(sites, "SETTLED", 1e-11)
    given = table(2)
    model, d = given.model, 7

    def log_likelihood(W, delta, psi):
        found, _ = site_posteriors(given.rows, Coefficients(W, delta, psi))
        return float(found.log_likelihood @ given.weight)

    at = Parameters(model.W, model.delta, model.psi)
    expected = expected_of_sites(KeptRows(given.rows), model)
    how = Constraints("diagonal", np.zeros(d))
    by = FreeScale(np.zeros(d, bool)).gradient(expected, at, how)
    h = 1e-5
    for j in range(d):
        one = np.eye(d)[j] * h
        for k in range(given.q):
            step = np.outer(one, np.eye(given.q)[k])
            up, down = (log_likelihood(model.W + s * step, model.delta, model.psi) for s in (1, -1))
            assert by.W[j, k] == pytest.approx((up - down) / (2 * h), abs=1e-6)
        up, down = (log_likelihood(model.W, model.delta + s * one, model.psi) for s in (1, -1))
        assert by.delta[j] == pytest.approx((up - down) / (2 * h), abs=1e-6)
        up, down = (log_likelihood(model.W, model.delta, model.psi + s * one) for s in (1, -1))
        assert by.psi[j] == pytest.approx((up - down) / (2 * h), abs=1e-6)


def test_both_ways_settle_at_the_same_sites(monkeypatch):
    """All sites at once by shorter steps, or one after another."""
    given = table(3, n=200, noise=0.05, levels=5)
    found = {}
    for mode in ("never", "always"):
        monkeypatch.setenv("EIGENGAP_COMPILED", mode)
        found[mode], ends = site_posteriors(given.rows, given.model)
        assert np.all(found[mode].change <= sites.SETTLED)
        assert np.all(ends.tau >= 0)
    np.testing.assert_allclose(found["never"].Z, found["always"].Z, atol=1e-3)
    np.testing.assert_allclose(
        found["never"].log_likelihood, found["always"].log_likelihood, atol=1e-6
    )


def test_many_sites_that_point_the_same_way_settle_soon(compiled, monkeypatch):
    """All at once they overshoot: 40 questions of one strong latent variable or two."""
    rng = np.random.default_rng(3)
    n, m, q = 200, 40, 2
    W = np.abs(rng.normal(size=(m, q))) * 2.0 + 1.0
    u = rng.normal(size=(n, q)) @ W.T + rng.normal(size=(n, m))
    lower, upper = np.where(u > 0, 0.0, -np.inf), np.where(u > 0, np.inf, 0.0)
    lower[rng.random((n, m)) < 0.2] = np.nan
    none = np.zeros((n, m))
    rows = SiteRows(none, none, np.arange(m), Evidence.intervals(lower, upper))
    model = Coefficients(W, np.zeros(m), np.ones(m))
    settled, of_sites = site_posteriors(rows, model)
    monkeypatch.setattr(sites, "MOST_SWEEPS", 40)
    soon, _ = site_posteriors(rows, model)
    assert np.all(soon.change <= sites.SETTLED)
    close, _ = site_posteriors(rows, model, of_sites)  # from where they settled
    np.testing.assert_allclose(soon.Z, close.Z, atol=1e-3)
    np.testing.assert_allclose(soon.log_likelihood, settled.log_likelihood, atol=1e-6)


def test_rows_do_not_depend_on_each_other(compiled):
    given = table(4)
    whole, ends = site_posteriors(given.rows, given.model)
    for some in (slice(0, 7), slice(7, 30)):
        part, _ = site_posteriors(given.rows.take(some), given.model)
        np.testing.assert_allclose(part.Z, whole.Z[:, some], atol=1e-9)
    again, _ = site_posteriors(given.rows, given.model, ends)  # starts where it ended
    np.testing.assert_allclose(again.log_likelihood, whole.log_likelihood, atol=1e-7)


def test_exact_rows_are_those_of_the_gaussian(compiled):
    rng = np.random.default_rng(5)
    W, mu, psi = rng.normal(size=(5, 2)), rng.normal(size=5), rng.uniform(0.2, 1, size=5)
    X = rng.normal(size=(20, 5))
    X[rng.random(X.shape) < 0.3] = np.nan
    none = Evidence.intervals(np.empty((20, 0)), np.empty((20, 0)))
    rows = SiteRows(np.nan_to_num(X), (~np.isnan(X)).astype(float), np.arange(0), none)
    found, ends = site_posteriors(rows, Coefficients(W, mu, psi))
    model = LinearGaussian(W, mu, psi)
    np.testing.assert_allclose(found.log_likelihood, model.log_likelihood(X), rtol=1e-10)
    np.testing.assert_allclose(found.Z.T, model.posterior_mean(X), atol=1e-10)
    assert isinstance(ends, Sites)


def test_a_step_without_any_residual_does_not_run_away():
    """Sites that have not settled may explain a column of free scale entirely."""
    given = table(6)
    d = given.model.W.shape[0]
    expected = expected_of_sites(KeptRows(given.rows), given.model)
    none = replace(expected, squares=np.zeros(d))
    at = Parameters(given.model.W, given.model.delta, np.ones(d))
    how = Constraints("diagonal", np.full(d, 1e-6))
    free, held = (FreeScale(np.full(d, flag)).maximise(none, at, how) for flag in (True, False))
    np.testing.assert_array_equal(free.psi, 1.0)
    assert np.all(np.abs(free.W) <= 2.0 * np.abs(held.W) + 1.0)


def test_derivatives_near_a_noise_of_zero_need_no_sites_that_are_settled(compiled):
    """What sites are off by is not divided by psi."""
    given = table(7, n=60, noise=1e-3)
    model, d = given.model, 7
    at = Parameters(model.W, model.delta, model.psi)
    how = Constraints("diagonal", np.zeros(d))
    by = [
        FreeScale(np.zeros(d, bool)).gradient(
            expected_of_sites(KeptRows(given.rows), model, settled=settled), at, how
        )
        for settled in (1e-4, 1e-11)
    ]
    sites_at = given.rows.at
    size = np.abs(by[1].W[sites_at]).max()
    np.testing.assert_allclose(by[0].W[sites_at], by[1].W[sites_at], atol=2e-4 * size)
    np.testing.assert_allclose(by[0].delta[sites_at], by[1].delta[sites_at], atol=2e-4 * size)


def test_few_cells_of_one_latent_variable_have_their_exact_likelihood(compiled):
    """Quadrature: rows of at most six columns along one axis need no approximation."""
    given = table(0, n=12, q=1)
    at = given.rows.at[:3]
    e = given.rows.evidence
    some = Evidence(e.is_count[:3], e.first[:, :3], e.second[:, :3], e.shape[:3])
    rows = SiteRows(given.rows.R[:, :6], given.rows.M[:, :6], at, some)
    model = Coefficients(given.model.W[:6], given.model.delta[:6], given.model.psi[:6])
    found, _ = site_posteriors(rows, model)
    z = np.linspace(-8, 8, 4001)[:, None]
    log_prior = -0.5 * z[:, 0] ** 2 + np.log((z[1, 0] - z[0, 0]) / np.sqrt(2 * np.pi))
    T = z @ model.W.T + model.delta
    for i in range(12):
        exact = logsumexp(log_prior + exact_density(rows, model, i, T))
        assert found.log_likelihood[i] == pytest.approx(exact, abs=1e-8)


def test_a_poisson_count_needs_no_more_nodes_however_small_its_noise(monkeypatch):
    """It is smooth itself. The oracle is the same rule with nodes far closer."""
    rng = np.random.default_rng(0)
    n, m = 40, 3
    w, none = np.array([[0.8], [-1.2], [0.5]]), np.zeros((n, m))
    y = rng.poisson(np.exp(rng.normal(size=(n, 1)) @ w.T)).astype(float)
    evidence = Evidence(np.ones(m, dtype=bool), y, none, np.full(m, np.inf))
    cells = CellRows.of(SiteRows(none, none, np.arange(m), evidence))
    models = [Coefficients(w, np.zeros(m), np.full(m, psi)) for psi in (1e-2, 1e-4)]
    some, as_many = (len(quadrature._nodes(cells, model)) for model in models)
    assert some == as_many
    for model in models:
        settled = cells.settled(model)
        few = quadrature.integrated(cells, model, settled)
        with monkeypatch.context() as patch:
            close = np.linspace(-10.8, 10.8, 2001)
            patch.setattr(quadrature, "_nodes", lambda *_, close=close: close)
            many = quadrature.integrated(cells, model, settled)
        for name in ("log_likelihood", "Z", "S", "mean", "variance"):
            np.testing.assert_allclose(
                getattr(few, name), getattr(many, name), rtol=1e-8, atol=1e-9
            )


def test_the_derivatives_of_an_integrated_likelihood(compiled):
    given = table(8, n=20, q=1)
    e = given.rows.evidence
    some = Evidence(e.is_count[1:], e.first[:, 1:], e.second[:, 1:], e.shape[1:])
    kept = slice(1, 7)
    rows = SiteRows(given.rows.R[:, kept], given.rows.M[:, kept], given.rows.at[1:] - 1, some)
    W, delta, psi = (x[kept] for x in (given.model.W, given.model.delta, given.model.psi))

    def log_likelihood(W, delta, psi):
        return expected_of_sites(KeptRows(rows), Coefficients(W, delta, psi)).log_likelihood

    expected = expected_of_sites(KeptRows(rows), Coefficients(W, delta, psi))
    how = Constraints("diagonal", np.zeros(6))
    by = FreeScale(np.zeros(6, bool)).gradient(expected, Parameters(W, delta, psi), how)
    h = 1e-5
    for j in range(6):
        one = np.eye(6)[j] * h
        up, down = (log_likelihood(W + s * one[:, None], delta, psi) for s in (1, -1))
        assert by.W[j, 0] == pytest.approx((up - down) / (2 * h), abs=1e-5)
        up, down = (log_likelihood(W, delta + s * one, psi) for s in (1, -1))
        assert by.delta[j] == pytest.approx((up - down) / (2 * h), abs=1e-5)
        up, down = (log_likelihood(W, delta, psi + s * one) for s in (1, -1))
        assert by.psi[j] == pytest.approx((up - down) / (2 * h), abs=1e-5)


def test_cells_without_latent_variables_have_their_own_moments(compiled):
    """Where t does not vary sites need not settle, and the moments are those of the cell alone."""
    given = table(9, n=20, q=1)
    model = Coefficients(np.zeros((7, 0)), given.model.delta, given.model.psi)
    expected = expected_of_sites(KeptRows(given.rows), model)
    shape = given.rows.evidence.first.shape
    mean, psi = (np.broadcast_to(x[given.rows.at], shape) for x in (model.delta, model.psi))
    _, u, of_u = given.rows.evidence.tilted(mean, psi)
    known = given.rows.evidence.informative
    sums = given.weight @ np.where(known, u, 0.0), given.weight @ np.where(known, u**2 + of_u, 0.0)
    np.testing.assert_allclose(expected.B[-1, given.rows.at], sums[0], rtol=1e-8)
    np.testing.assert_allclose(expected.squares[given.rows.at], sums[1], rtol=1e-8)
