"""Streams: what partial_fit leaves is what fit finds in all rows, whatever the batches."""

import pickle
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import eigengap.fitting.online.em as online_em
import eigengap.fitting.online.stream as online
from eigengap import PCA, PPCA, FactorAnalysis
from eigengap.exceptions import ObjectiveFellError
from eigengap.fitting.optimise.em import ROUNDING
from eigengap.fitting.optimise.loop import ResumeState
from eigengap.linalg import principal_angles
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.statistics.expected.gaussian import (
    Expected,
    in_other_latents,
    in_other_units,
    maximise,
)

D = 6


def table(n=300, offset=0.0, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(D, 2)) * [3.0, 1.5]
    X = rng.normal(size=(n, 2)) @ W.T + rng.normal(size=(n, D)) * np.linspace(0.5, 1.0, D)
    return (X + offset).astype(dtype)


def incomplete(n, share, seed=0):
    X = table(n, seed=seed)
    X[np.random.default_rng(seed + 100).random(X.shape) < share] = np.nan
    return X


def streamed(model, X, size, weight=None, order=None):
    order = np.arange(len(X)) if order is None else order
    for start in range(0, len(X), size):
        batch = order[start : start + size]
        model.partial_fit(X[batch], sample_weight=None if weight is None else weight[batch])
    return model


def assert_same(a, b, rtol=1e-9):
    """What the fit knows; attributes of float32 rows are rounded when they are read."""
    q = a.n_components_
    assert q == b.n_components_
    np.testing.assert_allclose(a.model_.mu, b.model_.mu, rtol=rtol, atol=1e-12)
    variances = (one.spectrum_.explained_variance(q) for one in (a, b))
    np.testing.assert_allclose(*variances, rtol=rtol)
    known = ["log_likelihood_"] if hasattr(b, "log_likelihood_") else []
    assert hasattr(a, "log_likelihood_") == bool(known)
    for name in ("noise_variance_", *known):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, err_msg=name)
    size = np.max(np.abs(b.get_covariance()))
    np.testing.assert_allclose(a.get_covariance(), b.get_covariance(), atol=rtol * size)
    assert np.max(principal_angles(a.projection_.B, b.projection_.B)) < 1e-6
    assert a.spectrum_.sum_w == pytest.approx(b.spectrum_.sum_w, rel=1e-12)
    assert a.spectrum_.total == pytest.approx(b.spectrum_.total, rel=rtol)
    assert a.converged_ == b.converged_
    np.testing.assert_allclose(a.evidence_.observed_w, b.evidence_.observed_w, rtol=1e-12)
    assert (a.evidence_.noise, a.evidence_.fits_mean) == (b.evidence_.noise, b.evidence_.fits_mean)


# Complete rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100, 300])
@pytest.mark.parametrize("offset", [0.0, 1e8], ids=["centred", "offset"])
@pytest.mark.parametrize("kind", [PCA, PPCA, FactorAnalysis], ids=lambda kind: kind.__name__)
def test_batches_of_any_size_in_any_order(kind, offset, size):
    """T14 of the scorecard."""
    X = table(offset=offset)
    order = np.random.default_rng(1).permutation(len(X))
    options = {"tol": 1e-12} if kind is FactorAnalysis else {}
    model = streamed(kind(2, **options), X, size, order=order)
    assert_same(model, kind(2, **options).fit(X))
    assert model.n_samples_seen_ == len(X)


@pytest.mark.parametrize("size", [1, 7, 100, 300])
def test_single_precision(size):
    X = table(offset=1e4, dtype=np.float32)
    exact = PPCA(2).fit(X.astype(np.float64))
    assert_same(streamed(PPCA(2), X, size), exact)


OPTIONS = {
    "PCA of all": (PCA, {}),
    "PCA of a share": (PCA, {"n_components": 0.8}),
    "PCA by evidence": (PCA, {"n_components": "mle"}),
    "PCA by parallel analysis": (PCA, {"n_components": "auto", "scale": True}),
    "PCA by svd": (PCA, {"n_components": 3, "svd_solver": "full", "whiten": True}),
    "PCA by iteration": (PCA, {"n_components": 1, "svd_solver": "arpack"}),
    "PPCA by parallel analysis": (PPCA, {}),
    "PPCA of a share": (PPCA, {"n_components": 0.8, "scale": True}),
    "PPCA without a mean": (PPCA, {"n_components": 2, "fit_mean": False}),
    "PPCA of known noise": (PPCA, {"n_components": 2, "noise_variance": 0.3}),
    "PPCA with a prior": (PPCA, {"n_components": 2, "loading_precision": 2.0, "tol": 1e-10}),
    "PPCA by EM": (PPCA, {"n_components": 2, "solver": "em", "tol": 1e-10}),
    "factors by parallel analysis": (FactorAnalysis, {"tol": 1e-12}),
    "factors, rotated": (
        FactorAnalysis,
        {"n_components": 2, "rotation": "varimax", "scale": True, "tol": 1e-12},
    ),
}


@pytest.mark.parametrize("name", list(OPTIONS))
def test_every_option_that_moments_can_answer(name):
    kind, options = OPTIONS[name]
    X = table(offset=3.0)
    model, whole = streamed(kind(**options), X, 41), kind(**options).fit(X)
    assert_same(model, whole)
    np.testing.assert_allclose(model.transform(X[:5]), whole.transform(X[:5]), atol=1e-6)
    assert hasattr(model, "rank_choice_") == hasattr(whole, "rank_choice_")


def test_weights_are_frequencies():
    X = table(60)
    w = np.random.default_rng(0).integers(0, 4, len(X))
    model = streamed(PPCA(2), X, 7, weight=w.astype(float))
    assert_same(model, PPCA(2).fit(np.repeat(X, w, axis=0)))
    assert model.n_samples_seen_ == np.count_nonzero(w)


def test_sparse_and_dense_batches():
    X = np.where(np.random.default_rng(0).random((200, D)) < 0.6, 0.0, table(200))
    model = PPCA(2).partial_fit(scipy.sparse.csr_array(X[:50])).partial_fit(X[50:120])
    model.partial_fit(scipy.sparse.csr_array(X[120:]))
    other = PPCA(2).partial_fit(X[:120]).partial_fit(scipy.sparse.csr_array(X[120:]))
    assert_same(model, PPCA(2).fit(X))
    assert_same(other, PPCA(2).fit(X))


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 30)) + 5.0
    model, whole = streamed(PCA(), X, 3), PCA().fit(X)
    assert_same(model, whole)
    assert model.n_components_ == 7  # n - 1
    assert_same(streamed(PPCA(2), X, 3), PPCA(2).fit(X))


def test_rows_without_noise_have_none():
    X = np.random.default_rng(0).normal(size=(100, 2)) @ np.ones((2, D)) * [1, 2, 3, 4, 5, 6.0]
    X[:, 0] = 7.0
    model = streamed(PCA(), X, 9)
    assert model.n_components_ == 1
    assert streamed(PPCA(1), X, 9).noise_variance_ == 0.0


def test_equals_fit_after_every_batch():
    X = table(40)
    model = PCA(2)
    for end in range(10, 41, 10):
        model.partial_fit(X[end - 10 : end])
        assert_same(model, PCA(2).fit(X[:end]))
        assert model.n_samples_ == end


# When what is there -------------------------------------------------------------------------


def test_models_are_computed_when_they_are_asked_for():
    model = PCA(2).partial_fit(table(50))
    check_is_fitted(model)
    assert "model_" not in vars(model)
    check_is_fitted(model, "model_")
    first = model.model_
    assert model.model_ is first
    model.partial_fit(table(50, seed=1))
    assert "model_" not in vars(model)
    assert model.model_ is not first


@pytest.mark.parametrize("asked_first", [False, True], ids=["unsolved", "solved"])
def test_pickles_copies_and_clones(asked_first):
    X = table(200)
    model = streamed(FactorAnalysis(1), X[:100], 30)
    if asked_first:
        assert model.heywood_ == ()
    for other in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        streamed(other, X[100:], 30)
        assert_same(other, FactorAnalysis(1).fit(X), rtol=1e-6)
    assert model.n_samples_seen_ == 100
    fresh = clone(model)
    assert not hasattr(fresh, "model_")
    assert not hasattr(fresh, "n_samples_seen_")


def test_a_batch_may_be_reused_by_the_caller():
    X = table(40)
    model, buffer = PPCA(2), np.empty((4, D))
    for start in range(0, 40, 4):
        buffer[:] = X[start : start + 4]
        model.partial_fit(buffer)
    assert_same(model, PPCA(2).fit(X))


def test_fit_begins_anew():
    X = table(100)
    model = PPCA(2).partial_fit(table(80, offset=50.0, seed=3)).fit(X)
    assert_same(model, PPCA(2).fit(X))
    assert not hasattr(model, "n_samples_seen_")


def test_goes_on_from_a_fit_that_tells_all():
    X = table(100, offset=20.0)
    model = PCA().fit(X[:60]).partial_fit(X[60:])
    assert_same(model, PCA().fit(X))


def test_says_what_is_lost_where_a_fit_does_not_tell_all():
    X = table(400)
    model = PPCA(2).fit(X[:200])
    with pytest.warns(UserWarning, match="the model that fit has left"):
        model.partial_fit(X[200:])
    assert model.n_samples_seen_ == 400
    whole = PPCA(2).fit(X)
    np.testing.assert_allclose(model.mean_, whole.mean_, atol=1e-10)
    np.testing.assert_allclose(model.noise_variance_, whole.noise_variance_, rtol=0.02)
    assert np.max(principal_angles(model.projection_.B, whole.projection_.B)) < 0.05


# Gaps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PCA, PPCA, FactorAnalysis], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("size", [1, 50, 400])
def test_exact_while_rows_with_missing_are_kept(kind, size):
    X = incomplete(400, 0.1)
    model = streamed(kind(2, tol=1e-10), X, size)
    whole = kind(2, tol=1e-10).fit(X)
    assert_same(model, whole, rtol=1e-7)
    np.testing.assert_allclose(model.impute(X[:20]), whole.impute(X[:20]), atol=1e-6)
    sd, same = model.impute(X[:20], return_std=True)[1], whole.impute(X[:20], return_std=True)[1]
    np.testing.assert_allclose(sd, same, rtol=1e-4)


def test_the_number_of_components_is_chosen_under_missing():
    X = incomplete(500, 0.05)
    model, whole = streamed(PPCA(), X, 100), PPCA().fit(X)
    assert model.n_components_ == whole.n_components_
    assert streamed(PPCA(0.7), X, 100).n_components_ == PPCA(0.7).fit(X).n_components_


SETTLED = {
    "PCA": (PCA, {}),
    "PPCA": (PPCA, {}),
    "PPCA, scaled": (PPCA, {"scale": True}),
    "PPCA without a mean": (PPCA, {"fit_mean": False}),
    "PPCA with a prior": (PPCA, {"loading_precision": 1.0}),
    "PPCA of known noise": (PPCA, {"noise_variance": 0.5}),
    "factors": (FactorAnalysis, {}),
    "factors, scaled": (FactorAnalysis, {"scale": True, "rotation": "varimax"}),
}


@pytest.mark.parametrize("name", list(SETTLED))
def test_online_em_comes_near_the_fit_of_all_rows(name, monkeypatch):
    """The deficit is below what estimating costs: parameters / 2 n = 0.005 nats a row."""
    monkeypatch.setattr(online, "KEPT_ROWS", 200)
    kind, options = SETTLED[name]
    X = incomplete(2000, 0.2)
    model, whole = streamed(kind(2, **options), X, 130), kind(2, **options).fit(X)
    assert model._batches.stream.settled is not None
    assert whole.score(X) - model.score(X) < (4e-3 if "prior" in name else 1.5e-3)
    first = kind(2, **options).fit(X[:200])
    assert whole.score(X) - model.score(X) < 0.2 * (whole.score(X) - first.score(X))
    with pytest.raises(AttributeError, match="rows with missing values were taken in chunks"):
        model.log_likelihood_  # noqa: B018
    assert not hasattr(model, "log_likelihood_")
    np.testing.assert_allclose(model.evidence_.observed_w, whole.evidence_.observed_w)
    assert model.converged_


@pytest.mark.parametrize("kind", [PPCA, FactorAnalysis], ids=lambda kind: kind.__name__)
def test_with_missing_the_size_of_batches_does_not_matter(kind, monkeypatch):
    monkeypatch.setattr(online, "KEPT_ROWS", 150)
    X = incomplete(1000, 0.1)
    one, *others = (streamed(kind(2), X, size) for size in (7, 100, 333, 1000))
    for other in others:
        assert_same(other, one, rtol=1e-9)


def settled_stream(model, monkeypatch):
    """The stream of a model whose incomplete rows have gone in chunks of 100, and what is asked."""
    monkeypatch.setattr(online, "KEPT_ROWS", 100)
    model = streamed(model, incomplete(450, 0.3), 60)
    model.model_  # noqa: B018
    stream = model._batches.stream
    assert stream.settled is not None
    return stream, model._stream_spec()


ONLINE = {
    "PPCA": PPCA(2, tol=1e-10),
    "FactorAnalysis": FactorAnalysis(2, tol=1e-10),
    "scaled": PPCA(2, scale=True, tol=1e-10),
    "a prior": PPCA(2, loading_precision=1.0, tol=1e-10),
    "no mean": PPCA(2, fit_mean=False, tol=1e-10),
    "noise given": PPCA(2, noise_variance=0.5, tol=1e-10),
}


@pytest.mark.parametrize("name", ONLINE)
def test_online_em_never_lowers_its_objective(name, monkeypatch):
    """The log-likelihood of rows that are there plus the free energy of the past ones."""
    stream, spec = settled_stream(clone(ONLINE[name]), monkeypatch)
    objective = stream.fit_settled(spec).trace.objective
    assert len(objective) > 3
    assert np.all(np.diff(objective) >= -ROUNDING * np.abs(objective[0]))
    assert objective[-1] > objective[0]


def test_online_em_is_guarded(monkeypatch):
    stream, spec = settled_stream(PPCA(2, tol=1e-10), monkeypatch)

    def backwards(expected, current, how):
        after = maximise(expected, current, how)
        return replace(after, W=0.5 * after.W)

    monkeypatch.setattr(online_em, "maximise", backwards)
    with pytest.raises(ObjectiveFellError, match="fell from"):
        stream.fit_settled(spec)


def test_online_em_reports_progress_and_resumes(monkeypatch):
    stream, spec = settled_stream(PPCA(2, tol=1e-10), monkeypatch)
    whole = stream.fit_settled(spec)

    class Interrupted:
        """A callback that carries itself as checkpointer, and ends the first fit."""

        kept, steps, resumes = None, [], False

        @property
        def checkpointer(self):
            return self

        def begin(self, start):
            del start
            return self.kept if self.resumes else None

        def keep(self, state, steps, *, done):
            self.kept = ResumeState(dict(state), steps.trace(), done)

        def __call__(self, progress):
            self.steps.append(progress)
            if progress.iteration == 3 and not self.resumes:
                raise KeyboardInterrupt

    watch = Interrupted()
    watched = replace(spec, options=replace(spec.options, watch=watch))
    with pytest.raises(KeyboardInterrupt):
        stream.fit_settled(watched)
    assert {"theta", "A", "B", "latent"} <= set(watch.kept.state)
    watch.resumes = True
    resumed = stream.fit_settled(watched)
    np.testing.assert_array_equal(resumed.trace.objective, whole.trace.objective)
    np.testing.assert_array_equal(resumed.model.W, whole.model.W)
    assert [p.objective for p in watch.steps[3:]] == whole.trace.objective.tolist()


def test_offsets_do_not_matter_to_online_em(monkeypatch):
    monkeypatch.setattr(online, "KEPT_ROWS", 150)
    X = incomplete(1000, 0.2)
    near, far = streamed(PPCA(2), X, 100), streamed(PPCA(2), X + 1e6, 100)
    np.testing.assert_allclose(far.mean_ - 1e6, near.mean_, atol=1e-7)
    np.testing.assert_allclose(far.get_covariance(), near.get_covariance(), atol=1e-6)


def test_a_column_may_show_its_first_value_late():
    X = incomplete(300, 0.1) + 1e6
    X[:120, 3] = np.nan
    model = streamed(PPCA(2), X[:100], 20)
    with pytest.raises(ValueError, match="no value in column 3"):
        model.transform(X)
    assert_same(streamed(model, X[100:], 20), PPCA(2).fit(X), rtol=1e-4)


def test_rows_without_any_value_change_nothing():
    X = incomplete(200, 0.1)
    with_empty = np.concatenate([X, np.full((20, D), np.nan)])
    a, b = streamed(PPCA(2, tol=1e-10), with_empty, 30), streamed(PPCA(2, tol=1e-10), X, 30)
    np.testing.assert_allclose(a.get_covariance(), b.get_covariance(), atol=1e-7)
    assert a.n_samples_seen_ == 200


# Statistics that are kept while the model moves ---------------------------------------------


def _statistics(q=2):
    X = incomplete(50, 0.2)
    rng = np.random.default_rng(5)
    W, delta, psi = rng.normal(size=(D, q)), rng.normal(size=D), rng.uniform(0.5, 2.0, D)
    return X, W, delta, psi


def test_expected_statistics_in_other_units():
    X, W, delta, psi = _statistics()
    rng = np.random.default_rng(6)
    a, b = rng.uniform(0.5, 2.0, D), rng.normal(size=D)
    before = Expected.of(prepare_rows(X, None, np.zeros(D), None, 2), Coefficients(W, delta, psi))
    after = Expected.of(
        prepare_rows(X * a + b, None, np.zeros(D), None, 2),
        Coefficients(W * a[:, None], delta * a + b, psi * a**2),
    )
    moved = in_other_units(before, a, b)
    for name in ("A", "B", "squares", "latent"):
        np.testing.assert_allclose(getattr(moved, name), getattr(after, name), atol=1e-9)


def test_expected_statistics_of_rotated_latents():
    """For a rotation Q the model is the same with W Q, and z' = Q^T z."""
    X, W, delta, psi = _statistics()
    Q = np.linalg.qr(np.random.default_rng(7).normal(size=(2, 2)))[0]
    rows = prepare_rows(X, None, np.zeros(D), None, 2)
    before = Expected.of(rows, Coefficients(W, delta, psi))
    after = Expected.of(rows, Coefficients(W @ Q, delta, psi))
    moved = in_other_latents(before, np.zeros(2), Q)
    for name in ("A", "B", "latent"):
        np.testing.assert_allclose(getattr(moved, name), getattr(after, name), atol=1e-9)
    back = in_other_latents(
        in_other_latents(before, np.ones(2), 2 * Q), -0.5 * Q.T @ np.ones(2), 0.5 * Q.T
    )
    np.testing.assert_allclose(back.A, before.A, atol=1e-9)


def test_equivalent_rows_have_the_same_moments():
    from eigengap.fitting.online.rows import equivalent_rows
    from eigengap.sources.base import Block
    from eigengap.statistics.moments import Moments

    X = table(4)  # fewer rows than columns: a singular scatter
    moments = Moments.of(Block(X, None, None, 0))
    again = Moments.of(equivalent_rows(moments))
    assert again.sum_w == pytest.approx(moments.sum_w)
    np.testing.assert_allclose(again.mean, moments.mean, atol=1e-12)
    np.testing.assert_allclose(again.scatter, moments.scatter, atol=1e-10)
