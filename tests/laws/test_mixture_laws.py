"""Laws of the fit of a mixture, and of the statistics it is made of."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap import LinearGaussian
from eigengap.estimators.mixture_ppca import MixturePPCA
from eigengap.fitting.mixture.fit import MixtureOptions, fit_mixture
from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.fitting.mixture.moves import Move, candidate_moves, moved, with_ranks
from eigengap.fitting.mixture.problem import MixtureProblem
from eigengap.fitting.mixture.start import canonical, truncated
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources.array import ArraySource
from eigengap.sources.conversion import as_source
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    maximise,
    regularised,
)
from eigengap.statistics.expected.mixture import MixtureExpected, MixtureParameters
from eigengap.statistics.moments import ColumnMoments

seeds = st.integers(0, 2**32 - 1)


def clusters(seed=0, n=180, d=5, ranks=(1, 2, 1), apart=2.0, missing=0.2, noise=0.5):
    """A table, and the component of every row."""
    rng = np.random.default_rng(seed)
    models = [
        LinearGaussian(
            W=rng.normal(size=(d, q)), mu=apart * rng.normal(size=d), psi=np.full(d, noise**2)
        )
        for q in ranks
    ]
    X, labels = MixtureOfLinearGaussians(np.zeros(len(ranks)), models).sample(n, rng)
    X[rng.random(X.shape) < missing] = np.nan
    X[0] = np.where(np.isnan(X[0]), 0.0, X[0])
    return X, labels


def parameters(rng, d=5, ranks=(1, 2, 0)):
    components = [
        Parameters(
            W=rng.normal(size=(d, q)), delta=rng.normal(size=d), psi=rng.uniform(0.5, 2.0, d)
        )
        for q in ranks
    ]
    return MixtureParameters(np.log(rng.dirichlet(np.ones(len(ranks)))), tuple(components))


# Statistics ---------------------------------------------------------------------------------------


def e_step(X, theta, weight=None):
    coefficients = [Coefficients(c.W, c.delta, c.psi) for c in theta.components]
    rows = prepare_rows(X, weight, np.zeros(X.shape[1]), None, 2)
    return MixtureExpected.of(rows, theta.log_weights, coefficients)


def assert_same(a: MixtureExpected, b: MixtureExpected):
    np.testing.assert_allclose(a.log_likelihood, b.log_likelihood, rtol=1e-11)
    np.testing.assert_allclose(a.overlap, b.overlap, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(a.divergence, b.divergence, rtol=1e-9, atol=1e-9)
    for one, other in zip(a.components, b.components, strict=True):
        for name in ("A", "B", "squares", "latent", "cells"):
            x, y = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10 * np.abs(y).max(initial=1))


@given(seeds, st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_any_partition_gives_the_same_statistic(seed, cuts):
    rng = np.random.default_rng(seed)
    X, _ = clusters(seed, n=60)
    theta = parameters(rng)
    at = np.sort(rng.choice(np.arange(1, len(X)), cuts, replace=False))
    first, *others = (e_step(part, theta) for part in np.split(X, at))
    for part in others:
        first = first.merge(part)
    assert_same(first, e_step(X, theta))


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_responsibilities_are_weights_into_the_statistics_of_one_model(seed):
    rng = np.random.default_rng(seed)
    X, _ = clusters(seed, n=50)
    theta = parameters(rng)
    model = MixtureOfLinearGaussians(
        theta.log_weights, [LinearGaussian(c.W, c.delta, c.psi) for c in theta.components]
    )
    resp = model.responsibilities(X)
    together = e_step(X, theta)
    assert together.log_likelihood == pytest.approx(model.log_likelihood(X).sum(), rel=1e-10)
    for k, c in enumerate(theta.components):
        rows = prepare_rows(X, np.maximum(resp[:, k], 1e-300), np.zeros(5), None, 2)
        alone = Expected.of(rows, Coefficients(c.W, c.delta, c.psi))
        for name in ("A", "B", "squares", "latent", "cells"):
            x = np.asarray(getattr(together.components[k], name))
            y = np.asarray(getattr(alone, name))
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max(initial=1))


def test_weights_of_rows_are_frequencies():
    rng = np.random.default_rng(1)
    X, _ = clusters(1, n=40)
    w = rng.integers(1, 4, size=len(X))
    theta = parameters(rng)
    assert_same(e_step(X, theta, w.astype(float)), e_step(np.repeat(X, w, axis=0), theta))


def test_regularised_statistics_are_maximised_where_they_were_regularised():
    """Rows that are as the current model has them pull towards it, and to nothing else."""
    rng = np.random.default_rng(2)
    X, _ = clusters(2, n=80)
    current = parameters(rng, ranks=(2,)).components[0]
    rows = prepare_rows(X, None, np.zeros(5), None, 2)
    expected = Expected.of(rows, Coefficients(current.W, current.delta, current.psi))
    # Under a prior there is no expansion, which would move W by itself.
    how = Constraints("diagonal", np.full(5, 1e-9), loading_precision=1e-12)
    near = maximise(regularised(expected, current, 1e9), current, how)
    np.testing.assert_allclose(near.W, current.W, atol=1e-5)
    np.testing.assert_allclose(near.delta, current.delta, atol=1e-5)
    np.testing.assert_allclose(near.psi, current.psi, rtol=1e-5)
    far = maximise(regularised(expected, current, 1e-9), current, how)
    plain = maximise(expected, current, how)
    np.testing.assert_allclose(far.W, plain.W, atol=1e-7)
    np.testing.assert_allclose(far.psi, plain.psi, atol=1e-7)


# EM -----------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from(["isotropic", "diagonal"]), st.booleans())
@settings(max_examples=5, deadline=None)
def test_the_likelihood_never_falls(seed, noise, shared):
    X, _ = clusters(seed, n=90)
    options = MixtureOptions(tol=1e-4, max_iter=40, n_init=1, seed=seed % 1000)
    fit = fit_mixture(as_source(X), 3, [1, 2, 1], noise, shared_noise=shared, options=options)
    rounding = 1e-9 * max(np.abs(fit.trace.objective).max(), np.isfinite(X).sum())
    assert np.all(np.diff(fit.trace.objective) >= -rounding)
    assert fit.log_likelihood >= fit.trace.objective[0] - rounding
    assert fit.log_likelihood == pytest.approx(fit.model.log_likelihood(X).sum(), rel=1e-7)


def problem_of(X, noise="isotropic"):
    source = as_source(X)
    columns = source.reduce(ColumnMoments.of)
    return MixtureProblem.of(source, columns, 2, noise, shared_noise=False)


def test_relevance_determination_raises_its_objective_too():
    X, _ = clusters(3)
    problem = problem_of(X)
    rng = np.random.default_rng(0)
    start = parameters(rng, ranks=(3, 3))
    run = replace(problem, ard=True).run(start, MixtureOptions(tol=1e-4, max_iter=40))
    assert np.all(np.diff(run.trace.objective) >= -1e-9 * np.isfinite(X).sum())


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_packing_keeps_the_parameters(noise):
    X, _ = clusters(4)
    problem = problem_of(X, noise)
    theta = parameters(np.random.default_rng(5))
    if noise == "isotropic":
        equal = [replace(c, psi=np.full(5, c.psi[0])) for c in theta.components]
        theta = replace(theta, components=tuple(equal))
    back = problem.unpack(problem.pack(theta), theta)
    np.testing.assert_allclose(back.log_weights, theta.log_weights, atol=1e-14)
    for a, b in zip(back.components, theta.components, strict=True):
        np.testing.assert_allclose(a.W, b.W, rtol=1e-13)
        np.testing.assert_allclose(a.delta, b.delta, rtol=1e-13)
        np.testing.assert_allclose(a.psi, b.psi, rtol=1e-13)


# Starts and moves ---------------------------------------------------------------------------------


def test_k_means_finds_what_is_apart_and_leaves_no_outlier_alone():
    rng = np.random.default_rng(0)
    Y = np.concatenate([rng.normal(size=(40, 2)) + c for c in ([0, 0], [20, 0], [0, 20])])
    labels = kmeans(Y, np.ones(120), 3, np.random.default_rng(1))
    assert {len(set(labels[k * 40 : k * 40 + 40])) for k in range(3)} == {1}
    assert len(set(labels)) == 3
    with_outlier = np.vstack([Y, [[1000.0, 1000.0]]])
    sizes = np.bincount(kmeans(with_outlier, np.ones(121), 3, np.random.default_rng(1), least=5.0))
    assert sizes.min() >= 5
    equal = kmeans(np.ones((10, 2)), np.ones(10), 3, np.random.default_rng(0))
    np.testing.assert_array_equal(equal, 0)


def covariance(c: Parameters):
    return c.W @ c.W.T + np.diag(c.psi)


def test_truncating_keeps_the_variance_and_canonical_form_the_density():
    rng = np.random.default_rng(6)
    c = parameters(rng, ranks=(3,)).components[0]
    np.testing.assert_allclose(covariance(canonical(c)), covariance(c), atol=1e-12)
    cut = truncated(c, 1)
    assert cut.W.shape == (5, 1)
    np.testing.assert_allclose(np.diag(covariance(cut)), np.diag(covariance(c)), rtol=1e-12)
    grown = truncated(c, 5)
    assert grown.W.shape == (5, 5)
    assert np.linalg.matrix_rank(grown.W) == 5


def test_a_move_keeps_weights_and_first_two_moments():
    rng = np.random.default_rng(7)
    theta = parameters(rng, ranks=(4, 4, 4, 4))
    after = moved(theta, Move(a=0, b=2, c=3))
    assert np.exp(after.log_weights).sum() == pytest.approx(1.0)

    def moments(part, at):
        w = np.exp(part.log_weights[at])
        means = np.stack([part.components[k].delta for k in at])
        mean = w @ means / w.sum()
        spread = sum(
            wk * (np.diag(covariance(part.components[k])) + (part.components[k].delta - mean) ** 2)
            for wk, k in zip(w, at, strict=True)
        )
        return w.sum(), mean, spread / w.sum()

    for before, now in (([0, 2], [0]), ([3], [2, 3])):
        for x, y in zip(moments(theta, before), moments(after, now), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    assert after.components[1] is theta.components[1]


def test_ranks_go_where_they_are_needed():
    strong = [Parameters(W=np.eye(5)[:, :q] * 3, delta=np.zeros(5), psi=np.ones(5)) for q in (1, 3)]
    padded = [replace(c, W=np.column_stack([c.W, np.zeros((5, 3 - c.W.shape[1]))])) for c in strong]
    theta = MixtureParameters(np.log([0.5, 0.5]), tuple(padded))
    assert with_ranks(theta, [3, 1], 100.0).ranks == (1, 3)
    assert with_ranks(theta, [1, 3], 100.0).ranks == (1, 3)


def test_split_and_merge_leaves_a_local_optimum():
    """Two components share one cluster and one covers two: EM stays there, the move leads out."""
    rng = np.random.default_rng(9)
    centres = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])
    labels = np.repeat(np.arange(3), 60)
    X = centres[labels] + rng.normal(size=(180, 2))
    problem = problem_of(X)
    r = (X - problem.units.shift) / problem.units.unit
    bad = [r[:30].mean(axis=0), r[30:60].mean(axis=0), r[60:].mean(axis=0)]
    start = MixtureParameters(
        np.log(np.full(3, 1 / 3)),
        tuple(
            Parameters(W=np.full((2, 1), 0.1), delta=delta, psi=np.full(2, psi))
            for delta, psi in zip(bad, (0.01, 0.01, 0.5), strict=True)
        ),
    )
    options = MixtureOptions(tol=1e-5, max_iter=500)
    stuck = problem.run(start, options)
    expected = problem.expected(stuck.parameters)
    move = next(candidate_moves(expected, 1))
    led_out = problem.run(moved(stuck.parameters, move), options)
    assert led_out.objective > stuck.objective + 0.3 * len(X)
    fit = fit_mixture(as_source(X), 3, [1, 1, 1], "isotropic")
    jacobian = np.log(problem.units.unit).sum() * len(X)
    assert fit.log_likelihood == pytest.approx(led_out.objective - jacobian, abs=1e-3)


# The estimator ------------------------------------------------------------------------------------


def fitted(X, seed=0, **options):
    settings_ = {"n_mixture": 3, "n_components": [1, 2, 1], "tol": 1e-8, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return MixturePPCA(**{**settings_, **options}).fit(X)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_shift_and_scale_move_the_fit_along(noise):
    X, _ = clusters(10)
    scale = 7.0 if noise == "isotropic" else np.array([7.0, 0.01, 3.0, 100.0, 1.0])
    shift = np.array([1e3, -5.0, 0.0, 40.0, 2.0])
    one, other = fitted(X, noise=noise), fitted(X * scale + shift, noise=noise)
    np.testing.assert_allclose(other.means_, one.means_ * scale + shift, rtol=1e-4)
    np.testing.assert_allclose(
        other.predict_proba(X * scale + shift), one.predict_proba(X), atol=1e-4
    )
    filled = one.impute(X) * scale + shift
    np.testing.assert_allclose(other.impute(X * scale + shift), filled, rtol=1e-4)
    jacobian = np.sum(np.isfinite(X) * np.log(np.broadcast_to(scale, 5)))
    assert other.log_likelihood_ == pytest.approx(one.log_likelihood_ - jacobian, abs=1e-3)


def test_scale_true_is_the_fit_of_the_standardised_table_in_the_units_of_the_data():
    X, _ = clusters(11)
    X = X * np.array([1.0, 10.0, 0.1, 3.0, 1.0])
    deviations = np.nanstd(X, axis=0)
    ours, by_hand = fitted(X, scale=True), fitted(X / deviations)
    np.testing.assert_allclose(ours.means_, by_hand.means_ * deviations, rtol=1e-5)
    np.testing.assert_allclose(ours.noise_variance_, by_hand.noise_variance_, rtol=1e-5)
    np.testing.assert_allclose(ours.transform(X), by_hand.transform(X / deviations), atol=1e-5)
    assert ours.log_likelihood_ == pytest.approx(ours.score_samples(X).sum(), rel=1e-7)


def test_integer_weights_repeat_rows_and_the_order_of_rows_does_not_matter():
    X, _ = clusters(12, n=120)
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, size=len(X))
    shuffled = rng.permutation(len(X))
    settings_ = {"n_mixture": 3, "n_components": 1, "tol": 1e-9, "random_state": 3}
    weighted = MixturePPCA(**settings_).fit(X[shuffled], sample_weight=w[shuffled])
    repeated = MixturePPCA(**settings_).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
    np.testing.assert_allclose(weighted.means_, repeated.means_, atol=1e-5)
    np.testing.assert_allclose(weighted.covariances_, repeated.covariances_, atol=1e-5)
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_, rel=1e-9)


def test_a_fixed_seed_gives_the_same_fit_and_the_same_draws():
    X, _ = clusters(13)
    one, other = (MixturePPCA(3, random_state=5).fit(X) for _ in range(2))
    np.testing.assert_array_equal(one.means_, other.means_)
    assert one.n_components_ == other.n_components_
    for x, y in zip(one.sample(7, random_state=2), other.sample(7, random_state=2), strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(
        one.sample_imputations(X, 2, random_state=2),
        other.sample_imputations(X, 2, random_state=2),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def test_blocks_of_any_size_give_the_same_fit():
    X, _ = clusters(14)
    options = MixtureOptions(tol=1e-8, seed=1)
    whole = fit_mixture(as_source(X), 3, [1, 1, 1], "isotropic", options=options)
    cut = fit_mixture(ArraySource(X, block_rows=37), 3, [1, 1, 1], "isotropic", options=options)
    assert cut.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-10)
    for a, b in zip(cut.model.models, whole.model.models, strict=True):
        np.testing.assert_allclose(a.mu, b.mu, atol=1e-5)
        np.testing.assert_allclose(a.covariance(), b.covariance(), atol=1e-5)


def test_imputing_leaves_observed_cells_alone():
    X, _ = clusters(15)
    X[7] = np.nan
    model = fitted(X)
    observed = ~np.isnan(X)
    filled, std = model.impute(X, return_std=True)
    np.testing.assert_array_equal(filled[observed], X[observed])
    assert np.all(std[observed] == 0.0)
    assert np.all(std[~observed] > 0.0)
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(filled[7], model.mean_, rtol=1e-9)  # of an empty row: the mean
    np.testing.assert_allclose(model.predict_proba(X)[7], model.weights_, rtol=1e-9)
    for table in model.sample_imputations(X, 2, random_state=0):
        np.testing.assert_array_equal(table[observed], X[observed])
        assert np.isfinite(table).all()


def test_the_standard_deviation_counts_what_is_not_known_of_the_parameters():
    X, _ = clusters(16, n=60)
    model = fitted(X, n_components=1, n_mixture=2)
    missing = np.isnan(X)
    _, std = model.impute(X, return_std=True)
    plug_in = np.sqrt(model.model_.conditional(X)[1])
    assert np.all(std[missing] > plug_in[missing])


def test_tables_of_every_type_come_back_as_they_were():
    X, _ = clusters(17)
    names = ["a", "b", "c", "d", "e"]
    expected = fitted(X).impute(X)
    for table in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names, nan_to_null=True)):
        model = fitted(table)
        filled = model.impute(table)
        assert type(filled) is type(table)
        np.testing.assert_allclose(filled.to_numpy(), expected, atol=1e-6)
        assert list(model.feature_names_in_) == names
    complete = np.nan_to_num(X)
    np.testing.assert_allclose(
        fitted(scipy.sparse.csr_array(complete), n_components=1).means_,
        fitted(complete, n_components=1).means_,
        atol=1e-6,
    )


def test_coordinates_have_names():
    X, _ = clusters(18)
    model = fitted(X).set_output(transform="pandas")
    table = model.transform(X)
    assert table.shape == (len(X), sum(model.n_components_))
    first = model.n_components_[0]
    assert list(table.columns[: first + 1]) == [
        *(f"mix0_PC{c + 1}" for c in range(first)),
        "mix1_PC1",
    ]


def test_components_come_by_falling_weight_whatever_the_seed():
    X, _ = clusters(19, apart=4.0, ranks=(1, 1, 1), n=300)
    one, other = fitted(X, n_components=1), fitted(X, seed=11, n_components=1)
    assert np.all(np.diff(one.weights_) <= 0)
    np.testing.assert_allclose(one.means_, other.means_, atol=1e-4)


def test_shared_noise_is_shared():
    X, _ = clusters(20)
    model = fitted(X, shared_noise=True)
    np.testing.assert_allclose(model.noise_variance_, model.noise_variance_[0], rtol=1e-12)
    apart = fitted(X, shared_noise=False)
    assert apart.log_likelihood_ > model.log_likelihood_
    assert apart.n_parameters_ == model.n_parameters_ + 2
