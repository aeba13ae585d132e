"""GPLVM against dense Gaussians, quadrature, finite differences and closed forms."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import eigengap
from eigengap.estimators.gplvm import GPLVM
from eigengap.fitting.autodiff import (
    bayesian_bound,
    double_precision,
    gp_kernels,
    gplvm,
    latent_rows,
    psi_statistics,
)
from eigengap.fitting.autodiff.gp_kernels import Form, logs_of
from eigengap.fitting.autodiff.gplvm import to_unit_variance
from eigengap.fitting.gp.back_constraint import back_constraint
from eigengap.fitting.gp.latent_points import Look, none_of, predictions
from eigengap.fitting.gp.latent_posterior import latent_posterior
from eigengap.fitting.gp.start import Start, observed_columns, principal_start
from eigengap.models.gp import expected
from eigengap.models.gp.gaussian_process import given_latents, given_uncertain_latents
from eigengap.models.gp.kernels import RBF, LatentKernel, Linear, Matern32, Matern52, kernel_of

KERNELS: dict[str, LatentKernel] = {
    "rbf": RBF(1.3, np.array([0.8, 1.7])),
    "linear": Linear(np.array([0.6, 1.4])),
    "rbf+linear": RBF(0.7, np.array([0.5, 1.1])) + Linear(np.array([0.3, 0.9])),
    "rbf+rbf": RBF(0.7, np.array([0.5, 1.1])) + RBF(1.2, np.array([2.0, 1.5])),
    "matern32": Matern32(1.3, np.array([0.8, 1.7])),
    "matern52+linear": Matern52(1.3, np.array([0.8, 1.7])) + Linear(0.2),
}
SMOOTH = ["rbf", "linear", "rbf+linear", "rbf+rbf"]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def swiss(n, seed=0, noise=0.05):
    """A curved sheet in five columns."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(-1.5, 1.5, n), rng.uniform(-1, 1, n)
    X = np.column_stack([np.sin(2 * t), np.cos(2 * t), h, t * h, t**2 - h])
    return X + noise * rng.normal(size=X.shape)


def with_missing(X, share=0.2, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


# Kernels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_matrix_is_its_formula_for_each_pair(name, rng):
    Z, U = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))

    def by_hand(part, z, u):
        if isinstance(part, Linear):
            return sum(part.variances_of(2) * z * u)
        r = np.sqrt(sum(((z - u) / part.lengths_of(2)) ** 2))
        shape = {
            RBF: lambda: np.exp(-(r**2) / 2),
            Matern32: lambda: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
            Matern52: lambda: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
        }
        return part.variance * shape[type(part)]()

    kernel = KERNELS[name]
    wanted = [[sum(by_hand(part, z, u) for part in kernel.parts) for u in U] for z in Z]
    np.testing.assert_allclose(kernel.matrix(Z, U), wanted, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(Z), np.diag(kernel.matrix(Z, Z)), rtol=1e-12)
    with double_precision():
        derived = jax.jit(partial(gp_kernels.matrix, Form.of(kernel)))(logs_of(kernel, 2), Z, U)
    np.testing.assert_allclose(derived, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_slopes_of_a_kernel_are_its_differences(name, rng):
    kernel, Z, U = KERNELS[name], rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    h = 1e-6
    for k in range(2):
        step = h * np.eye(2)[k]
        numeric = (kernel.matrix(Z + step, U) - kernel.matrix(Z - step, U)) / (2 * h)
        np.testing.assert_allclose(kernel.slopes(Z, U)[:, :, k], numeric, atol=1e-8)


@pytest.mark.parametrize("name", ["rbf", "linear", "matern52+linear"])
def test_steepness_is_the_second_difference_of_the_kernel(name):
    """E f'(z)^2 = d^2 k(z, u) / dz du at z = u."""
    kernel, z, h = KERNELS[name], np.array([[0.3, -0.2]]), 1e-3
    for k in range(2):
        step = h * np.eye(2)[k]
        both = [
            kernel.matrix(z + a * step, z + b * step)[0, 0] * a * b
            for a, b in itertools.product((-1, 1), repeat=2)
        ]
        assert kernel.steepness(2)[k] == pytest.approx(sum(both) / (4 * h * h), rel=1e-2)


def test_names_and_values_make_the_same_kernel():
    by_name, by_value = kernel_of("rbf + linear"), RBF() + Linear()
    assert [type(p) for p in by_name.parts] == [type(p) for p in by_value.parts]
    with pytest.raises(ValueError, match="there is no kernel 'cubic'"):
        kernel_of("rbf+cubic")
    with pytest.raises(ValueError, match="names a kernel twice"):
        kernel_of("rbf+rbf")


# Psi statistics -----------------------------------------------------------------------------


def quadrature(mu, s, f, points=60):
    """E f(z) for z ~ N(mu, diag(s)) in two dimensions, by Gauss and Hermite."""
    x, w = np.polynomial.hermite_e.hermegauss(points)
    grid = np.array(list(itertools.product(x, x)))
    weight = np.array([a * b for a, b in itertools.product(w, w)]) / (2 * np.pi)
    return np.tensordot(weight, f(mu + np.sqrt(s) * grid), 1)


@pytest.mark.parametrize("name", SMOOTH)
def test_psi_statistics_are_expectations(name, rng):
    kernel, U = KERNELS[name], rng.normal(size=(4, 2))
    mu, s = rng.normal(size=(3, 2)), rng.uniform(0.05, 0.8, size=(3, 2))
    psi0 = expected.expected_diagonal(kernel, mu, s)
    psi1 = expected.expected_matrix(kernel, mu, s, U)
    psi2 = expected.expected_products(kernel, mu, s, U)
    for i in range(3):

        def outer(z):
            k = kernel.matrix(z, U)
            return k[:, :, None] * k[:, None, :]

        np.testing.assert_allclose(psi0[i], quadrature(mu[i], s[i], kernel.diagonal), rtol=1e-8)
        at = quadrature(mu[i], s[i], lambda z: kernel.matrix(z, U))
        np.testing.assert_allclose(psi1[i], at, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(psi2[i], quadrature(mu[i], s[i], outer), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_psi_statistics_of_the_fit_are_those_of_the_value(name, rng, monkeypatch):
    """Sums over groups of rows, in chunks that do not divide the rows."""
    kernel, U = KERNELS[name], rng.normal(size=(4, 2))
    mu, s = rng.normal(size=(11, 2)), rng.uniform(0.05, 0.8, size=(11, 2))
    groups = (rng.random((3, 11)) < 0.6).astype(float)
    form, logs = Form.of(kernel), logs_of(kernel, 2)
    monkeypatch.setattr(psi_statistics, "CHUNK", 40)
    with double_precision():
        found = jax.jit(partial(psi_statistics.sums, form))(logs, mu, s, U, groups)
    products = expected.expected_products(kernel, mu, s, U)
    np.testing.assert_allclose(
        found.psi0, groups @ expected.expected_diagonal(kernel, mu, s), rtol=1e-12
    )
    np.testing.assert_allclose(
        found.psi1, expected.expected_matrix(kernel, mu, s, U), rtol=1e-11, atol=1e-14
    )
    np.testing.assert_allclose(
        found.psi2, np.tensordot(groups, products, 1), rtol=1e-11, atol=1e-13
    )


def test_matern_has_no_expectations():
    assert not expected.has_expectations(KERNELS["matern32"])
    assert expected.has_expectations(KERNELS["rbf+linear"])


# The likelihood and the bound, and their gradients ------------------------------------------


def dense_log_likelihood(kernel, noise, Z, Y):
    """Each column a Gaussian on the rows in which it was seen, by SciPy."""
    total = 0.0
    for y in Y.T:
        observed = ~np.isnan(y)
        C = kernel.matrix(Z[observed], Z[observed]) + noise * np.eye(observed.sum())
        total += multivariate_normal(np.zeros(len(C)), C).logpdf(y[observed])
    return total


@pytest.mark.parametrize(
    ("name", "shape", "missing"),
    [
        ("rbf", (9, 4), False),
        ("rbf", (5, 8), False),  # more columns than rows go by a root of Y Y'
        ("rbf+linear", (9, 4), True),
        ("matern32", (9, 4), True),
        pytest.param("matern52+linear", (9, 4), False, marks=pytest.mark.slow),
    ],
)
def test_exact_likelihood_and_its_gradient(name, shape, missing, rng):
    """Dense Gaussians by SciPy, and their differences."""
    kernel, Z, Y = KERNELS[name], rng.normal(size=(shape[0], 2)), rng.normal(size=shape)
    Y = with_missing(Y) if missing else Y
    form = Form.of(kernel)
    logs = {**logs_of(kernel, 2), "noise": np.log(0.3 - 1e-8), "Z": Z}

    def dense(p):
        unit = (p["Z"] - p["Z"].mean(0)) / np.sqrt(np.var(p["Z"], axis=0))
        at = gp_kernels.kernel_from(form, p)
        return -dense_log_likelihood(at, 1e-8 + np.exp(p["noise"]), unit, Y)

    with double_precision():
        table = gplvm.table_of(observed_columns(Y))
        value, slopes = gplvm._value_and_slopes(
            form, None, 1.0, logs, table=table, features=jnp.arange(shape[0])
        )
    assert float(value) == pytest.approx(dense(logs), rel=1e-9)
    assert_slopes(dense, logs, slopes)


def brute_bound(kernel, noise, mu, s, U, Y):
    """Eq. 14 of Titsias and Lawrence as printed, by NumPy's expectations, column by column."""
    M, beta, total = len(U), 1.0 / noise, 0.0
    K = kernel.matrix(U, U)
    K = K + 1e-6 * np.trace(K) / M * np.eye(M)
    for y in Y.T:
        observed = ~np.isnan(y)
        n, y = observed.sum(), y[observed]
        psi0 = expected.expected_diagonal(kernel, mu[observed], s[observed]).sum()
        psi1 = expected.expected_matrix(kernel, mu[observed], s[observed], U)
        psi2 = expected.expected_products(kernel, mu[observed], s[observed], U).sum(0)
        W = beta * np.eye(n) - beta**2 * psi1 @ np.linalg.solve(beta * psi2 + K, psi1.T)
        total += 0.5 * (n * np.log(beta / (2 * np.pi)) + np.linalg.slogdet(K)[1])
        total -= 0.5 * np.linalg.slogdet(beta * psi2 + K)[1] + 0.5 * y @ W @ y
        total += 0.5 * beta * (np.trace(np.linalg.solve(K, psi2)) - psi0)
    return total - 0.5 * np.sum(mu**2 + s - 1 - np.log(s))


def bound_of(form, logs, mu, s, U, Y):
    table = gplvm.table_of(observed_columns(Y))
    at = bayesian_bound.bound(form, logs, mu, s, U, table)
    return at - bayesian_bound.divergence(mu, s)


@pytest.mark.parametrize(
    ("name", "shape", "missing"),
    [
        pytest.param("rbf", (9, 4), False, marks=pytest.mark.slow),
        pytest.param("rbf", (5, 8), False, marks=pytest.mark.slow),
        ("linear", (9, 4), True),
        pytest.param("rbf+linear", (9, 4), True, marks=pytest.mark.slow),
        pytest.param("rbf+rbf", (9, 4), False, marks=pytest.mark.slow),
    ],
)
def test_bound_and_its_gradient(name, shape, missing, rng):
    """The printed bound and its differences."""
    kernel, Y = KERNELS[name], rng.normal(size=shape)
    Y = with_missing(Y) if missing else Y
    form, n = Form.of(kernel), shape[0]
    logs = {
        **logs_of(kernel, 2),
        "noise": np.log(0.3 - 1e-8),
        "mu": rng.normal(size=(n, 2)),
        "s": np.log(rng.uniform(0.05, 0.8, size=(n, 2))),
        "U": 1.5 * rng.normal(size=(2 if form.is_linear else 3, 2)),
    }

    def printed(p):
        at = gp_kernels.kernel_from(form, p)
        noise = 1e-8 + np.exp(p["noise"])
        return brute_bound(at, noise, p["mu"], np.exp(p["s"]), p["U"], Y)

    with double_precision():
        both = jax.jit(
            jax.value_and_grad(lambda p: bound_of(form, p, p["mu"], jnp.exp(p["s"]), p["U"], Y))
        )
        value, slopes = both(logs)
    assert float(value) == pytest.approx(printed(logs), rel=1e-7)
    assert_slopes(printed, logs, slopes)


def test_bound_is_a_bound_and_tight_for_known_latents(rng):
    """With inducing points at latents that are sure, it is the log-likelihood less the prior."""
    kernel, Y, Z = KERNELS["rbf"], rng.normal(size=(8, 3)), 2 * rng.normal(size=(8, 2))
    exact = dense_log_likelihood(kernel, 0.3, Z, Y)
    sure = np.full(Z.shape, 1e-9)
    divergence = 0.5 * np.sum(Z**2 + sure - 1 - np.log(sure))
    at_all = brute_bound(kernel, 0.3, Z, sure, Z, Y) + divergence
    at_some = brute_bound(kernel, 0.3, Z, sure, Z[:4], Y) + divergence
    assert at_all == pytest.approx(exact, abs=1e-3)
    assert at_some < exact


def assert_slopes(function, parameters, slopes, h=1e-5):
    for name, value in parameters.items():
        value = np.asarray(value)
        for at in np.ndindex(value.shape):
            step = np.zeros(value.shape)
            step[at] = h
            up, down = ({**parameters, name: value + sign * step} for sign in (1, -1))
            numeric = (function(up) - function(down)) / (2 * h)
            found = float(np.asarray(slopes[name])[at])
            assert found == pytest.approx(numeric, rel=1e-5, abs=1e-5), (name, at)


@pytest.mark.slow
def test_gradients_of_back_constraints_are_differences(rng):
    Y = rng.normal(size=(9, 3))
    Z, _ = principal_start(Y, 2, rng)
    kernel, form = KERNELS["rbf"], Form.of(KERNELS["rbf"])
    for kind in ("kernel", "mlp"):
        back = back_constraint(kind, Y, Z, rng)
        logs = {**logs_of(kernel, 2), "noise": np.log(0.3), **back.start}
        with double_precision():
            table, features = gplvm.table_of(observed_columns(Y)), jnp.asarray(back.features)
            _, slopes = gplvm._value_and_slopes(
                form, kind, 1.0, logs, table=table, features=features
            )

        def dense(p, back=back):
            named = {name: np.asarray(value) for name, value in p.items()}
            raw = back.map(named, np.zeros(2), np.ones(2)).forward(Y)
            unit = (raw - raw.mean(0)) / np.sqrt(np.var(raw, axis=0))
            at = gp_kernels.kernel_from(form, named)
            return -dense_log_likelihood(at, 1e-8 + np.exp(p["noise"]), unit, Y)

        some = {name: logs[name] for name in back.start if name != "W1"}
        assert_slopes(lambda p, dense=dense, logs=logs: dense({**logs, **p}), some, slopes)


# The linear kernel --------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(30, 6), (8, 25)], ids=["tall", "wide"])
def test_linear_kernel_is_dual_ppca(shape):
    """PPCA of the transposed, centred table with its mean held at 0: the same model.

    The rows of that PPCA are the d columns, so that the noise variance is a mean over n - q
    eigenvalues of Y Y'/d.
    """
    n, d = shape
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=shape) + 5.0
    ours = GPLVM(2, kernel="linear").fit(X)
    dual = eigengap.PPCA(2, fit_mean=False).fit((X - X.mean(0)).T)
    assert ours.log_likelihood_ == pytest.approx(dual.log_likelihood_, rel=1e-10)
    assert ours.noise_variance_ == pytest.approx(dual.noise_variance_, rel=1e-10)
    C = ours.kernel_.matrix(ours.embedding_, ours.embedding_)
    np.testing.assert_allclose(C, dual.loadings_ @ dual.loadings_.T, atol=1e-9 * np.abs(C).max())


def test_linear_latents_are_scores_of_ppca():
    """Up to the scale of each coordinate; and the two noise variances count the same residue."""
    rng = np.random.default_rng(3)
    n, d, q = 40, 6, 2
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
    ours, ppca = GPLVM(q, kernel="linear").fit(X), eigengap.PPCA(q).fit(X)
    scores = ppca.transform(X)
    scores /= np.sqrt(np.mean(scores**2, axis=0))
    signs = np.sign(np.sum(scores * ours.embedding_, axis=0))
    np.testing.assert_allclose(ours.embedding_ * signs, scores, atol=1e-10)
    # Sum of discarded eigenvalues of Y'Y: n (d - q) sigma2 = d (n - q) sigma2 of the dual.
    assert n * (d - q) * ppca.noise_variance_ == pytest.approx(
        d * (n - q) * ours.noise_variance_, rel=1e-10
    )


def test_functions_of_the_closed_form_are_conditioned_on_all_rows():
    X, new = swiss(30), np.random.default_rng(0).normal(size=(4, 2))
    closed = GPLVM(2, kernel="linear").fit(X).model_
    columns = observed_columns(closed.standardised(X))
    Z = GPLVM(2, kernel="linear").fit_transform(X)
    dense = given_latents(
        closed.kernel, closed.noise_variance, Z, columns.table, columns.groups, columns.of_column
    )
    mean, variance = dense.predict(new)
    np.testing.assert_allclose(closed.standardised(closed.predict(new)[0]), mean, atol=1e-10)
    np.testing.assert_allclose(closed.predict(new)[1] / closed.unit**2, variance, atol=1e-10)


def test_optimisation_finds_the_closed_form():
    X = swiss(30)
    closed = GPLVM(2, kernel="linear").fit(X)
    Y = (X - X.mean(0)) / np.sqrt(np.mean(np.var(X, axis=0)))
    rng = np.random.default_rng(0)
    Z, spread = principal_start(Y + 0.3 * rng.normal(size=Y.shape), 2, rng)
    found = gplvm.fit_latents(
        observed_columns(Y),
        Start(Z, spread, kernel_of("linear"), np.arange(30)),
        tol=1e-13,
        max_iter=3000,
    )
    shift = X.size * np.log(np.sqrt(np.mean(np.var(X, axis=0))))
    assert found.objective - shift == pytest.approx(closed.log_likelihood_, abs=1e-5)
    unit2 = np.mean(np.var(X, axis=0))
    wanted = closed.kernel_.matrix(closed.embedding_, closed.embedding_)
    C = unit2 * found.model.kernel.matrix(found.Z, found.Z)
    np.testing.assert_allclose(C, wanted, atol=1e-4 * np.abs(wanted).max())


# Predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rbf", "matern52+linear"])
def test_exact_prediction_is_conditioning(name, rng):
    """Mean and variance of new cells by Schur complements of the joint Gaussian."""
    kernel, Z, new = KERNELS[name], rng.normal(size=(8, 2)), rng.normal(size=(3, 2))
    Y = with_missing(rng.normal(size=(8, 3)))
    columns = observed_columns(Y)
    model = given_latents(kernel, 0.2, Z, columns.table, columns.groups, columns.of_column)
    mean, variance = model.predict(new)
    for j, y in enumerate(Y.T):
        observed = ~np.isnan(y)
        K = kernel.matrix(Z[observed], Z[observed]) + 0.2 * np.eye(observed.sum())
        k = kernel.matrix(new, Z[observed])
        left = kernel.matrix(new, new) - k @ np.linalg.solve(K, k.T)
        np.testing.assert_allclose(mean[:, j], k @ np.linalg.solve(K, y[observed]), atol=1e-10)
        np.testing.assert_allclose(variance[:, j], np.diag(left) + 0.2, atol=1e-10)
    h = 1e-6
    for k in range(2):
        step = h * np.eye(2)[k]
        numeric = (model.predict(new + step)[0] - model.predict(new - step)[0]) / (2 * h)
        np.testing.assert_allclose(model.slopes(new)[:, :, k], numeric, atol=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_expected_prediction_is_a_mixture_of_predictions(name, rng):
    """Moments at an uncertain latent against quadrature over sure ones."""
    kernel, U = KERNELS[name], rng.normal(size=(5, 2))
    mu, s = rng.normal(size=(10, 2)), np.full((10, 2), 0.1)
    columns = observed_columns(with_missing(rng.normal(size=(10, 3))))
    model = given_uncertain_latents(
        kernel, 0.2, U, mu, s, columns.table, columns.groups, columns.of_column
    )
    at, spread = rng.normal(size=(1, 2)), np.array([[0.3, 0.1]])
    mean, variance = model.expect(at, spread)
    first = quadrature(at[0], spread[0], lambda z: model.predict(z)[0])
    second = quadrature(at[0], spread[0], lambda z: model.predict(z)[1] + model.predict(z)[0] ** 2)
    np.testing.assert_allclose(mean[0], first, atol=1e-8)
    np.testing.assert_allclose(variance[0], second - first**2, atol=1e-7)


def test_inducing_points_at_sure_latents_are_exact(rng):
    kernel, Z, Y = KERNELS["rbf"], 2 * rng.normal(size=(8, 2)), rng.normal(size=(8, 3))
    new, columns = rng.normal(size=(4, 2)), observed_columns(Y)
    exact = given_latents(kernel, 0.2, Z, columns.table, columns.groups, columns.of_column)
    sparse = given_uncertain_latents(
        kernel, 0.2, Z, Z, np.full(Z.shape, 1e-12), Y, columns.groups, columns.of_column
    )
    for ours, theirs in zip(sparse.predict(new), exact.predict(new), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


# Latents of new rows ------------------------------------------------------------------------


@pytest.mark.parametrize("own", [False, True], ids=["new", "of the fit"])
def test_slope_of_a_row_is_its_difference(own, rng):
    kernel = KERNELS["matern52+linear"]
    columns = observed_columns(with_missing(rng.normal(size=(8, 3))))
    model = given_latents(
        kernel, 0.2, rng.normal(size=(8, 2)), columns.table, columns.groups, columns.of_column
    )
    Y, Z, h = with_missing(rng.normal(size=(4, 3)), seed=5), rng.normal(size=(4, 2)), 1e-6
    itself = np.array([3, -1, 0, 5]) if own else none_of(4)
    at = Look.at(model, Y, Z, itself)
    for k in range(2):
        step = h * np.eye(2)[k]
        up, down = (Look.at(model, Y, Z + sign * step, itself).value for sign in (1, -1))
        np.testing.assert_allclose(at.slope[:, k], (up - down) / (2 * h), atol=1e-6)
    mean, variance = predictions(model, Z, itself)  # the value itself, from the prediction
    observed = ~np.isnan(Y)
    terms = np.log(2 * np.pi * variance) + (np.nan_to_num(Y) - mean) ** 2 / variance
    wanted = 0.5 * np.sum(np.where(observed, terms, 0.0), axis=1) + 0.5 * np.sum(Z**2, axis=1)
    np.testing.assert_allclose(at.value, wanted, rtol=1e-10)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
def test_a_row_left_out_is_a_fit_without_it(missing, rng):
    """The downdated predictions against processes that never saw the row."""
    kernel, Z, Y = KERNELS["rbf"], rng.normal(size=(8, 2)), rng.normal(size=(8, 3))
    Y = with_missing(Y) if missing else Y
    new = rng.normal(size=(4, 2))

    def processes(rows):
        columns = observed_columns(Y[rows])
        return given_latents(kernel, 0.2, Z[rows], columns.table, columns.groups, columns.of_column)

    every = processes(np.arange(8))
    for i in range(8):
        found = predictions(every, new, np.full(4, i))
        wanted = processes(np.delete(np.arange(8), i)).predict(new)
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("name", ["rbf+linear", pytest.param("rbf+rbf", marks=pytest.mark.slow)])
def test_bound_of_a_new_row_and_its_derivatives(name, rng):
    """The printed bound with q(u) held: expectations by NumPy, derivatives by differences."""
    kernel, U = KERNELS[name], 1.5 * rng.normal(size=(3, 2))
    columns = observed_columns(with_missing(rng.normal(size=(8, 3))))
    model = given_uncertain_latents(
        kernel, 0.2, U, rng.normal(size=(8, 2)), np.full((8, 2), 0.1),
        columns.table, columns.groups, columns.of_column,
    )  # fmt: skip
    Y = with_missing(rng.normal(size=(4, 3)), seed=5)
    theta = np.hstack([rng.normal(size=(4, 2)), np.log(rng.uniform(0.1, 0.6, size=(4, 2)))])

    def printed(theta):
        mu, s = theta[:, :2], np.exp(theta[:, 2:])
        psi0 = expected.expected_diagonal(kernel, mu, s)
        psi1 = expected.expected_matrix(kernel, mu, s, U)
        psi2 = expected.expected_products(kernel, mu, s, U)
        total = -0.5 * np.sum(mu**2 + s - 1 - np.log(s), axis=1)
        for j in range(3):
            w, B = model.weights[:, j], model.reductions[model.pattern[j]]
            second = np.einsum("nml,ml->n", psi2, np.outer(w, w) - B)
            off = Y[:, j] ** 2 - 2 * Y[:, j] * (psi1 @ w) + second + psi0
            total += np.where(np.isnan(Y[:, j]), 0.0, -0.5 * np.log(2 * np.pi * 0.2) - off / 0.4)
        return -total

    with double_precision():
        value, slope, bend = latent_rows._Rows.of(model, Y).look(np.arange(4), theta)
    np.testing.assert_allclose(value, printed(theta), rtol=1e-9)
    h = 1e-4
    for k in range(4):
        up, down = theta + h * np.eye(4)[k], theta - h * np.eye(4)[k]
        np.testing.assert_allclose(slope[:, k], (printed(up) - printed(down)) / (2 * h), atol=1e-5)
        with double_precision():
            rows = latent_rows._Rows.of(model, Y)
            above, below = (rows.look(np.arange(4), at)[1] for at in (up, down))
        np.testing.assert_allclose(bend[:, k], (above - below) / (2 * h), atol=1e-5)


@pytest.mark.filterwarnings("ignore:GPLVM did not converge")
@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
def test_rows_of_a_bayesian_fit_stay_where_it_left_them(missing):
    """The bound of a row has no slope at the fit's own latents: the envelope theorem.

    The rows are put back as if they were new, from elsewhere.
    """
    X = swiss(40)
    X = with_missing(X, 0.1) if missing else X
    model = GPLVM(
        2, method="bayesian", n_inducing=10, tol=1e-12, max_iter=1500, random_state=0
    ).fit(X)
    Y = model.model_.standardised(X)
    start = model.embedding_[:, None, :] + 0.05
    s = np.full(start.shape, 0.05)
    found = latent_rows.most_probable(model.model_, Y, start, s)
    np.testing.assert_allclose(found.mu, model.embedding_, atol=2e-3)
    np.testing.assert_allclose(np.sqrt(found.s), model.embedding_sd_, rtol=2e-2, atol=1e-3)


def by_grid(model, new, own=None, reach=5.0, points=301):
    """Evidence, moments of the latent and of the cells of each row, by sums over a fine grid."""
    axis = np.linspace(-reach, reach, points)
    grid = np.array(list(itertools.product(axis, axis)))
    prior = -0.5 * np.sum(grid**2, axis=1) - np.log(2 * np.pi)
    found = []
    at = predictions(model, grid, none_of(len(grid)))
    for i, x in enumerate(new):
        mean, variance = at if own is None else predictions(model, grid, np.full(len(grid), own[i]))
        terms = np.log(2 * np.pi * variance) + (np.nan_to_num(x) - mean) ** 2 / variance
        log_p = prior - 0.5 * np.sum(terms[:, ~np.isnan(x)], axis=1)
        total = np.logaddexp.reduce(log_p)
        w = np.exp(log_p - total)
        z, cells = w @ grid, w @ mean
        found.append(
            (
                total + 2 * np.log(axis[1] - axis[0]),
                z,
                np.sqrt(w @ (grid - z) ** 2),
                cells,
                np.sqrt(w @ (variance + (mean - cells) ** 2)),
            )
        )
    return [np.array(part) for part in zip(*found, strict=True)]


@pytest.mark.filterwarnings("ignore:GPLVM did not converge")
@pytest.mark.parametrize(
    ("method", "noise"),
    [
        ("exact", 0.05),
        ("exact", 0.3),
        pytest.param("bayesian", 0.05, marks=pytest.mark.slow),
        ("bayesian", 0.3),
    ],
)
def test_posterior_of_a_new_row_is_the_integral_over_its_latent(method, noise):
    """Density, latent and filled cells against a grid of latents, several modes or a ridge."""
    X, new = swiss(40, noise=noise), swiss(10, seed=9, noise=noise)
    new[0, 1] = np.nan
    new[1, [0, 2, 4]] = np.nan
    new[2, 1:] = np.nan
    new[3, :4] = np.nan
    model = GPLVM(2, method=method, n_inducing=10, max_iter=100, tol=1e-5).fit(X)
    Y = model.model_.standardised(new)
    evidence, z, spread, cells, sd = by_grid(model._predictive, Y)
    score = model.score_samples(new) + (~np.isnan(new)) @ np.log(model.model_.unit)
    np.testing.assert_allclose(score, evidence, atol=0.1)
    post = model.posterior(new)
    np.testing.assert_allclose(post.mean, z, atol=0.1)
    np.testing.assert_allclose(post.std, spread, rtol=0.1, atol=0.1)
    filled, std = model.impute(new, return_std=True)
    missing = np.isnan(new)
    unit = model.model_.unit[0]
    off = (filled - model.model_.mean) / unit - cells
    assert np.all(np.abs(off[missing]) < 0.15 * sd[missing])
    np.testing.assert_allclose(std[missing] / unit, sd[missing], rtol=0.15)


@pytest.mark.filterwarnings("ignore:GPLVM did not converge")
def test_posterior_of_a_row_of_an_exact_fit_is_from_the_other_rows():
    """Its own cells do not count twice."""
    X = with_missing(swiss(40, noise=0.2), 0.1)
    model = GPLVM(2, method="exact", max_iter=100, tol=1e-5).fit(X)
    some = np.flatnonzero(np.isnan(X).any(axis=1))[:4]
    evidence, z, spread, cells, sd = by_grid(
        model._predictive, model.model_.standardised(X[some]), some, points=151
    )
    observed = ~np.isnan(X[some])
    score = model.score_samples(X[some]) + observed @ np.log(model.model_.unit)
    np.testing.assert_allclose(score, evidence, atol=0.15)
    post = model.posterior(X[some])
    np.testing.assert_allclose(post.mean, z, atol=0.1)
    np.testing.assert_allclose(post.std, spread, rtol=0.1, atol=0.1)
    filled, std = model.impute(X[some], return_std=True)
    unit = model.model_.unit[0]
    assert np.all(np.abs((filled - model.mean_) / unit - cells)[~observed] < 0.15 * sd[~observed])
    np.testing.assert_allclose(std[~observed] / unit, sd[~observed], rtol=0.15)


def test_posterior_under_a_linear_kernel_is_ppca():
    """Many rows, so that the functions are known: a Gaussian in closed form.

    The noise of cells is corrected for the latents, the slopes are not: along a weak direction the
    density is wider than PPCA's by the difference of the noises, which is worth up to 0.23 nats.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 3)) * [2.0, 1.0, 0.5] @ rng.normal(size=(3, 6))
    X += 0.3 * rng.normal(size=X.shape)
    ours, ppca = GPLVM(3, kernel="linear").fit(X), eigengap.PPCA(3).fit(X)
    new = with_missing(X[:40] + 0.1, 0.3)
    filled, std = ours.impute(new, return_std=True)
    wanted, wanted_std = ppca.impute(new, return_std=True)
    missing = np.isnan(new)
    assert np.max(np.abs(filled - wanted)[missing] / wanted_std[missing]) < 0.15
    np.testing.assert_allclose(std[missing], wanted_std[missing], rtol=0.1)
    np.testing.assert_allclose(ours.score_samples(new), ppca.score_samples(new), atol=0.25)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:GPLVM did not converge")
def test_the_bound_of_a_new_row_is_below_its_density():
    X, new = swiss(40, noise=0.3), swiss(5, seed=9, noise=0.3)
    model = GPLVM(4, method="bayesian", n_inducing=10, max_iter=100, tol=1e-5).fit(X)
    Y = model.model_.standardised(new)
    start = np.zeros((5, 1, 4))
    bound = latent_rows.most_probable(model.model_, Y, start, np.full(start.shape, 0.1)).bound
    density = latent_posterior(model.model_, Y, model.embedding_, none_of(5)).log_density
    assert np.all(bound < density)


def test_latents_are_brought_to_unit_variance(rng):
    Z = 5 * rng.normal(size=(20, 3)) + 2
    with double_precision():
        found, shift, stretch = (np.asarray(part) for part in to_unit_variance(jnp.asarray(Z)))
    np.testing.assert_allclose(np.mean(found, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.mean(found**2, axis=0), 1, rtol=1e-9)
    np.testing.assert_allclose(found * stretch + shift, Z, atol=1e-12)
