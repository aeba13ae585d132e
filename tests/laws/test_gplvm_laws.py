"""What must hold of a GPLVM whatever the data."""

import pickle
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from benchmarks.oil_flow import oil_flow

import eigengap
from eigengap.estimators.gplvm import GPLVM
from eigengap.fitting.gp.latent_posterior import FittedLatents
from eigengap.models.gp.kernels import RBF, Linear

pytestmark = pytest.mark.filterwarnings("ignore:GPLVM did not converge")

# Few steps, and few shapes: every shape is compiled once.
EXACT = {"n_components": 2, "max_iter": 60, "tol": 1e-5}
BAYESIAN = {**EXACT, "method": "bayesian", "n_inducing": 10}
METHODS = {"exact": EXACT, "bayesian": BAYESIAN}


def sheet(n=40, seed=0, noise=0.05):
    """A curved sheet in five columns."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(-1.5, 1.5, n), rng.uniform(-1, 1, n)
    X = np.column_stack([np.sin(2 * t), np.cos(2 * t), h, t * h, t**2 - h])
    return X + noise * rng.normal(size=X.shape)


def with_missing(X, share=0.1, seed=1):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def value_of(model):
    return model.log_likelihood_ if model.method_ == "exact" else model.bound_


@pytest.fixture(scope="module", params=METHODS)
def fitted(request):
    X = sheet()
    return GPLVM(**METHODS[request.param]).fit(X), X


@pytest.fixture(scope="module", params=METHODS)
def incomplete(request):
    X = with_missing(sheet())
    return GPLVM(**METHODS[request.param]).fit(X), X


# The fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_numbers(method):
    X = sheet()
    first, second = (GPLVM(**METHODS[method], random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    assert value_of(first) == value_of(second)


def test_the_objective_rises(fitted):
    model, _ = fitted
    assert np.all(np.diff(model.trace_.objective) > -1e-6)
    assert model.trace_.objective[-1] > model.trace_.objective[0] + 10.0


def test_scale_of_the_data_scales_the_answer(fitted):
    """By a power of two, which rounds nothing: the very same latents."""
    model, X = fitted
    other = GPLVM(**METHODS[model.method_]).fit(8.0 * X)
    np.testing.assert_array_equal(other.embedding_, model.embedding_)
    assert other.noise_variance_ == pytest.approx(64.0 * model.noise_variance_, rel=1e-12)
    assert value_of(other) == pytest.approx(value_of(model) - X.size * np.log(8.0), rel=1e-9)
    np.testing.assert_allclose(
        other.inverse_transform(model.embedding_),
        8.0 * model.inverse_transform(model.embedding_),
        atol=1e-8,
    )


def test_scaled_columns_do_not_depend_on_their_units():
    X = sheet()
    units = np.array([1.0, 2.0, 0.25, 16.0, 1.0])
    first = GPLVM(**EXACT, scale=True).fit(X)
    second = GPLVM(**EXACT, scale=True).fit(X * units)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    np.testing.assert_allclose(
        second.inverse_transform(first.embedding_),
        first.inverse_transform(first.embedding_) * units,
        atol=1e-8,
    )


def test_rows_in_another_order_are_the_same_rows():
    """After few steps: later, rounding leads the search elsewhere."""
    X, order = sheet(), np.random.default_rng(0).permutation(40)
    few = {**EXACT, "max_iter": 10}
    first, second = GPLVM(**few).fit(X), GPLVM(**few).fit(X[order])
    np.testing.assert_allclose(second.embedding_, first.embedding_[order], atol=1e-5)


def test_latents_have_the_scale_of_the_prior():
    Z = GPLVM(**EXACT).fit(sheet()).embedding_
    np.testing.assert_allclose(np.mean(Z, axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.mean(Z**2, axis=0), 1, rtol=1e-8)


def test_more_starts_are_never_worse():
    X = sheet()
    one, three = GPLVM(**EXACT).fit(X), GPLVM(**EXACT, n_init=3, random_state=0).fit(X)
    assert three.log_likelihood_ >= one.log_likelihood_


def test_relevance_is_a_share_in_falling_order(fitted):
    model, _ = fitted
    assert np.sum(model.relevance_) == pytest.approx(1.0)
    assert np.all(np.diff(model.relevance_) <= 0.0)
    # For one RBF kernel: the variance of latents over squared length scales.
    second = np.mean(model.embedding_**2, axis=0)
    if model.method_ == "bayesian":
        second = second + np.mean(model.embedding_sd_**2, axis=0)
    share = second / model.kernel_.lengths_of(2) ** 2
    np.testing.assert_allclose(model.relevance_, share / share.sum(), rtol=1e-10)


@pytest.mark.slow
def test_the_bayesian_fit_drops_dimensions_that_are_not_needed():
    """A curve has one dimension, whatever was asked for."""
    t = np.random.default_rng(0).uniform(-1, 1, 60)
    X = np.column_stack([np.sin(2 * t), np.cos(2 * t), t, t**2, np.exp(t)])
    X += 0.05 * np.random.default_rng(1).normal(size=X.shape)
    model = GPLVM(3, method="bayesian", n_inducing=10, max_iter=300).fit(X)
    assert model.n_relevant_ == 1
    rank = np.argsort(np.argsort(model.embedding_[:, 0]))
    assert abs(np.corrcoef(rank, np.argsort(np.argsort(t)))[0, 1]) > 0.98


@pytest.mark.parametrize("init", ["isomap", "array"])
def test_other_starts(init):
    X = sheet()
    given = X[:, [2, 0]] if init == "array" else init
    model = GPLVM(**{**EXACT, "max_iter": 3}, init=given).fit(X)
    assert np.all(np.isfinite(model.embedding_))
    if init == "array":  # after few steps it is still where it started, order and scale apart
        near = np.abs(np.corrcoef(model.embedding_.T, given.T)[:2, 2:])
        assert np.all(np.max(near, axis=1) > 0.7)


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param("matern32", marks=pytest.mark.slow),
        "linear+rbf",
        pytest.param(RBF(1.0, [0.5, 2.0]) + RBF(0.5, 3.0), marks=pytest.mark.slow),
        Linear(0.3),
    ],
    ids=["matern32", "linear+rbf", "two widths", "linear value"],
)
def test_every_kernel_fits_and_predicts(kernel):
    X = sheet()
    model = GPLVM(**EXACT, kernel=kernel).fit(X)
    error = np.mean((model.inverse_transform(model.embedding_) - X) ** 2)
    assert error < 0.5 * np.mean(np.var(X, axis=0))
    assert np.all(np.isfinite(model.transform(sheet(6, seed=4))))


# Latents of rows ----------------------------------------------------------------------------


def test_rows_of_the_fit_have_their_own_latents(incomplete):
    model, X = incomplete
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-12)
    np.testing.assert_allclose(model.transform(X[5:9]), model.embedding_[5:9], atol=1e-12)
    np.testing.assert_array_equal(GPLVM(**METHODS[model.method_]).fit_transform(X),
                                  model.embedding_)  # fmt: skip


@pytest.mark.filterwarnings("ignore:the noise variance fell")
@pytest.mark.parametrize("method", METHODS)
def test_rows_of_the_fit_are_not_sought(method, monkeypatch):
    """They are recognised, equal ones among them: nothing is left to optimise."""
    X = sheet()
    X[20:] = X[:20]
    model = GPLVM(**METHODS[method])
    Z = model.fit_transform(X)
    np.testing.assert_array_equal(Z[20:], Z[:20])
    monkeypatch.setattr(FittedLatents, "_most_probable", None)
    np.testing.assert_array_equal(model.transform(X), Z)
    np.testing.assert_array_equal(model.transform(X[::-1]), Z[::-1])


@pytest.mark.slow
def test_rows_near_those_of_the_fit_have_latents_near_theirs(fitted):
    """Found by optimisation, for they are not recognised: the stated tolerance."""
    model, X = fitted
    near = model.transform(X + 1e-9)
    assert np.median(np.abs(near - model.embedding_)) < 0.05
    assert np.quantile(np.abs(near - model.embedding_), 0.9) < 0.3


def test_every_row_is_by_itself(incomplete):
    """Latents of new rows do not depend on the others that come with them."""
    model, _ = incomplete
    new = with_missing(sheet(9, seed=5), seed=6)
    together = model.transform(new)
    apart = np.vstack([model.transform(new[i : i + 1]) for i in range(9)])
    np.testing.assert_allclose(apart, together, atol=1e-6)


def test_a_row_without_any_observed_cell_is_at_the_prior(incomplete):
    model, _ = incomplete
    post = model.posterior(np.full((2, 5), np.nan))
    np.testing.assert_allclose(post.mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(post.cov, np.broadcast_to(np.eye(2), (2, 2, 2)), atol=1e-5)
    np.testing.assert_allclose(model.transform(np.full((1, 5), np.nan)), 0.0, atol=1e-6)


def test_fewer_cells_are_less_sure(fitted):
    model, _ = fitted
    new = sheet(12, seed=7)
    hidden = new.copy()
    hidden[:, :3] = np.nan
    assert np.mean(model.posterior(hidden).std) > np.mean(model.posterior(new).std)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("exact", "kernel"),
        ("exact", "mlp"),
        pytest.param("bayesian", "kernel", marks=pytest.mark.slow),
        pytest.param("bayesian", "mlp", marks=pytest.mark.slow),
    ],
)
def test_back_constrained_latents_are_a_function_of_the_row(method, kind):
    X = sheet()
    few = {**METHODS[method], "max_iter": 30}
    model = GPLVM(**few, back_constraint=kind)
    Z = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), Z, atol=1e-9)
    np.testing.assert_allclose(model.transform(X + 1e-7), Z, atol=1e-4)  # it is continuous
    new = sheet(7, seed=5)
    np.testing.assert_allclose(model.posterior(new).mean, model.transform(new), atol=1e-12)
    assert np.all(model.posterior(new).std > 0.0)
    new[0, :2] = np.nan
    assert np.all(np.isfinite(model.transform(new)))


def test_attributes_of_the_other_method_say_what_to_take(fitted):
    model, _ = fitted
    others = {
        "exact": {"embedding_sd_": r"posterior\(X\)\.std", "inducing_": "all rows",
                  "bound_": "log_likelihood_"},
        "bayesian": {"log_likelihood_": "bound_"},
    }  # fmt: skip
    for name, way_out in others[model.method_].items():
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=way_out):
            getattr(model, name)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = GPLVM().bound_


# Back to data -------------------------------------------------------------------------------


def test_imputing_leaves_observed_cells_alone(incomplete):
    model, X = incomplete
    filled, std = model.impute(X, return_std=True)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    np.testing.assert_array_equal(std[observed], 0.0)
    assert np.all(np.isfinite(filled))
    assert np.all(std[~observed] >= np.sqrt(model.noise_variance_) * 0.999)
    np.testing.assert_array_equal(model.impute(X), filled)


@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_intervals_cover_however_little_was_observed(method):
    """95 % intervals of hidden cells of new rows of a curve, with 1 to 4 of 5 cells seen."""
    t = np.random.default_rng(0).uniform(-1.5, 1.5, 260)
    X = np.column_stack([np.sin(2 * t), np.cos(2 * t), t, t**2, np.exp(t) / 2])
    X += 0.05 * np.random.default_rng(1).normal(size=X.shape)
    model = GPLVM(1, method=method, n_inducing=15, max_iter=400, tol=1e-5).fit(X[:60])
    truth, rng = X[60:], np.random.default_rng(2)
    for observed in (1, 2, 4):
        hidden = truth.copy()
        for row in hidden:
            row[rng.permutation(5)[observed:]] = np.nan
        filled, std = model.impute(hidden, return_std=True)
        missing = np.isnan(hidden)
        # One table: over several the means are those of docs/gplvm.md.
        covered = np.mean(np.abs(filled - truth)[missing] < 1.96 * std[missing])
        assert covered > 0.87, (observed, covered)


@pytest.mark.slow
def test_imputing_knows_of_curves():
    """Hidden cells of a curved sheet, nearer than by linear PPCA with as many dimensions."""
    truth = sheet(80, noise=0.03)
    X = with_missing(truth, 0.15)
    missing = np.isnan(X)
    model = GPLVM(2, method="bayesian", n_inducing=20, max_iter=300).fit(X)
    ours = np.sqrt(np.mean((model.impute(X) - truth)[missing] ** 2))
    linear = np.sqrt(np.mean((eigengap.PPCA(2).fit(X).impute(X) - truth)[missing] ** 2))
    assert ours < 0.75 * linear


def test_rows_come_back_from_their_latents(fitted):
    model, X = fitted
    rows, std = model.inverse_transform(model.embedding_, return_std=True)
    assert np.mean((rows - X) ** 2) < 0.3 * np.mean(np.var(X, axis=0))
    assert np.all(std >= np.sqrt(model.noise_variance_) * 0.999)
    far = model.inverse_transform(np.full((1, 2), 1e3), return_std=True)
    np.testing.assert_allclose(far[0][0], model.mean_, atol=1e-6)  # where nothing is known
    assert np.all(far[1] > std.max())


def test_frames_come_back_as_frames(incomplete):
    model, X = incomplete
    frame = pd.DataFrame(X, columns=list("abcde"), index=range(10, 50))
    refit = GPLVM(**METHODS[model.method_]).fit(frame)
    filled = refit.impute(frame)
    assert list(filled.columns) == list("abcde")
    assert list(filled.index) == list(frame.index)
    np.testing.assert_allclose(refit.embedding_, model.embedding_, atol=1e-5)


def test_float32_gives_float32():
    X = sheet().astype(np.float32)
    model = GPLVM(**EXACT)
    assert model.fit_transform(X).dtype == np.float32
    assert model.transform(X[:3]).dtype == np.float32
    assert model.inverse_transform(model.transform(X[:3])).dtype == np.float32
    assert model.embedding_.dtype == np.float64


def test_a_row_without_any_observed_cell_changes_nothing():
    X = sheet()
    with_empty = np.insert(X, 7, np.nan, axis=0)
    alone, joined = GPLVM(**EXACT).fit(X), GPLVM(**EXACT).fit(with_empty)
    np.testing.assert_allclose(joined.embedding_[7], 0.0)
    np.testing.assert_allclose(np.delete(joined.embedding_, 7, axis=0), alone.embedding_)
    assert joined.log_likelihood_ == pytest.approx(alone.log_likelihood_)


# What it is for -----------------------------------------------------------------------------


def test_configurations_of_flow_come_apart():
    """Fewer rows have a nearest neighbour of another configuration than in PCA's plane."""
    flow = oil_flow(120)

    def errors(Z):
        D = np.sum((Z[:, None] - Z[None]) ** 2, axis=2) + 1e9 * np.eye(len(Z))
        return int(np.sum(flow.label[np.argmin(D, axis=1)] != flow.label))

    model = GPLVM(2, max_iter=150, tol=1e-5).fit(flow.X)
    assert errors(model.embedding_) < 0.5 * errors(eigengap.PCA(2).fit_transform(flow.X))


def test_the_callers_jax_stays_as_it_was():
    GPLVM(**{**EXACT, "max_iter": 2}).fit(sheet())
    assert jnp.ones(2).dtype == jnp.float32


WITHOUT_JAX = """
import pickle, sys
import numpy as np
sys.modules["jax"] = None
model, X = pickle.load(sys.stdin.buffer)
rows, std = model.inverse_transform(model.embedding_, return_std=True)
model.transform(X + 0.01), model.impute(np.where(X > 1.2, np.nan, X)), model.score(X)
from eigengap.estimators.gplvm import GPLVM
GPLVM(2, kernel="linear").fit(X)
try:
    GPLVM(2).fit(X)
except ImportError as error:
    print(type(error).__name__, error)
sys.stdout.flush()
"""


def test_without_jax_a_fitted_model_predicts_and_a_fit_says_what_to_install():
    X = sheet()
    given = pickle.dumps((GPLVM(**EXACT).fit(X), X))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_JAX], input=given, capture_output=True
    )
    assert ran.returncode == 0, ran.stderr.decode()
    said = ran.stdout.decode()
    assert "MissingExtraError" in said
    assert 'pip install "eigengap[autodiff]"' in said
