"""What Isomap keeps when rows are moved, turned, scaled, reordered or repeated."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from scipy.stats import special_ortho_group
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from eigengap.estimators.isomap import Isomap
from eigengap.models.maps import geodesic


def roll(n=400, seed=0):
    rng = np.random.default_rng(seed)
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    return np.column_stack([t * np.cos(t), 21 * rng.random(n), t * np.sin(t)])


def distances(isomap):
    return cdist(isomap.embedding_, isomap.embedding_)


@pytest.fixture(params=[None, 30], ids=["all pairs", "landmarks"])
def isomap(request):
    return Isomap(2, n_neighbors=9, landmarks=request.param, random_state=0)


def test_a_fitted_row_gets_its_own_coordinates_to_the_last_digit(isomap, monkeypatch):
    X = roll()
    Z = isomap.fit_transform(X)
    np.testing.assert_array_equal(isomap.embedding_, Z)
    np.testing.assert_array_equal(isomap.transform(X), Z)
    np.testing.assert_array_equal(isomap.transform(X[[7]]), Z[[7]])
    monkeypatch.setattr(geodesic, "PIECE_BYTES", 8 * 400 * 3)  # a few rows at a time
    new = roll(50, seed=1)
    some = isomap.transform(new)
    monkeypatch.undo()
    np.testing.assert_allclose(some, isomap.transform(new), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("metric", ["minkowski", "manhattan", "cosine", "correlation"])
@pytest.mark.parametrize("algorithm", ["auto", "brute"])
def test_also_by_other_metrics_and_searches(isomap, metric, algorithm):
    X = np.random.default_rng(0).normal(size=(150, 5))
    isomap.set_params(metric=metric, neighbors_algorithm=algorithm).fit(X)
    np.testing.assert_array_equal(isomap.transform(X), isomap.embedding_)


def test_gower_and_triangulation_alone_give_a_fitted_row_its_own_coordinates(isomap):
    """Without looking whether a row is a fitted one: the formulas themselves say so."""
    X = roll()
    model = isomap.fit(X).model_
    for q in range(2):
        scale = np.abs(isomap.embedding_[:, q]).max()
        found = model.triangulated(model.paths)[:, q]
        np.testing.assert_allclose(found, isomap.embedding_[:, q], atol=1e-8 * scale)


def test_rotation_translation_and_scale(isomap):
    X = roll()
    plain = distances(isomap.fit(X))
    turn = special_ortho_group.rvs(3, random_state=0)
    moved = distances(clone(isomap).fit(5.0 * X @ turn + np.array([10.0, -20.0, 30.0])))
    np.testing.assert_allclose(moved, 5.0 * plain, atol=1e-6 * plain.max())


@pytest.mark.parametrize("c", [1e-138, 1e-90, 1e-10, 1e10, 1e80, 1e140])
def test_a_factor_of_any_size_is_a_factor_of_the_coordinates(isomap, c):
    """c X has c Z, c^2 eigenvalues, and the same residual variance."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, 3)), rng.normal(size=(5, 3))
    plain = clone(isomap).set_params(n_neighbors=8).fit(X)
    scaled = isomap.set_params(n_neighbors=8).fit(c * X)
    size = np.abs(plain.embedding_).max()
    np.testing.assert_allclose(scaled.embedding_ / c, plain.embedding_, atol=1e-12 * size)
    np.testing.assert_allclose(
        scaled.transform(c * new) / c, plain.transform(new), atol=1e-12 * size
    )
    np.testing.assert_allclose(scaled.eigenvalues_ / c / c, plain.eigenvalues_, rtol=1e-12)
    assert plain.residual_variance_ > 0.1
    np.testing.assert_allclose(scaled.residual_variance_, plain.residual_variance_, rtol=1e-12)
    np.testing.assert_allclose(
        scaled.residual_variances(4), plain.residual_variances(4), rtol=1e-10
    )
    np.testing.assert_allclose(
        scaled.reconstruction_error() / c / c, plain.reconstruction_error(), rtol=1e-11
    )


def test_a_factor_that_is_a_power_of_two_costs_no_digit(isomap):
    X = roll(200)
    plain, scaled = clone(isomap).fit(X), isomap.fit(2.0**300 * X)
    np.testing.assert_array_equal(scaled.embedding_, 2.0**300 * plain.embedding_)
    assert scaled.residual_variance_ == plain.residual_variance_


@pytest.mark.parametrize("c", [1e-130, 1e-10, 1.0, 1e10])
def test_equal_distances_that_coordinates_do_not_have_leave_all_variance(c):
    isomap = Isomap(2, n_neighbors=19, metric="precomputed").fit(c * (1.0 - np.eye(20)))
    assert isomap.residual_variance_ == 1.0


def test_coordinates_that_were_handed_out_may_be_changed(isomap):
    X, new = roll(), roll(20, seed=1)
    Z = isomap.fit_transform(X)
    before = isomap.transform(new), isomap.transform(X), Z.copy()
    Z *= 2.0
    isomap.embedding_ -= 1.0
    np.testing.assert_array_equal(isomap.transform(new), before[0])
    np.testing.assert_array_equal(isomap.transform(X), before[1])
    np.testing.assert_array_equal(before[1], before[2])


def test_a_new_row_far_along_a_line_is_placed_on_it():
    """Squares of such distances alone would lose the digits in which they differ."""
    X = np.linspace(0.0, 1.0, 33)[:, None]
    isomap = Isomap(1, n_neighbors=2).fit(X)
    far = 2.0**40
    np.testing.assert_allclose(
        np.abs(isomap.transform([[far]])[0, 0] - isomap.embedding_[-1, 0]), far - 1.0, rtol=1e-9
    )


def test_order_of_rows():
    X = roll()
    order = np.random.default_rng(1).permutation(len(X))
    plain, shuffled = Isomap(n_neighbors=9).fit(X), Isomap(n_neighbors=9).fit(X[order])
    np.testing.assert_allclose(
        shuffled.dist_matrix_, plain.dist_matrix_[np.ix_(order, order)], rtol=1e-12
    )
    np.testing.assert_allclose(shuffled.embedding_, plain.embedding_[order], atol=1e-6)


def test_an_offset_of_1e8_costs_the_digits_that_it_takes(isomap):
    X = np.round(roll() * 2.0**20) / 2.0**20
    moved = X + 2.0**27
    X = moved - 2.0**27  # the rows that such numbers can hold
    plain, far = clone(isomap).fit(X), isomap.fit(moved)
    np.testing.assert_allclose(far.embedding_, plain.embedding_, atol=1e-7)
    np.testing.assert_array_equal(far.transform(moved[:9]), far.embedding_[:9])


def test_float32(isomap):
    X = roll().astype(np.float32)
    Z = isomap.fit_transform(X)
    assert Z.dtype == np.float32
    assert isomap.transform(X).dtype == np.float32
    wide = clone(isomap).fit_transform(X.astype(np.float64))
    assert wide.dtype == np.float64
    np.testing.assert_allclose(Z, wide, rtol=1e-6)
    np.testing.assert_array_equal(isomap.transform(X), Z)


def test_repeated_rows_coincide(isomap):
    """Edges of length 0 are edges: scipy.sparse would lose them in a sum."""
    X = np.repeat(roll(150), 3, axis=0)
    Z = isomap.set_params(n_neighbors=12).fit_transform(X)
    assert isomap.n_connected_components_ == 1
    np.testing.assert_allclose(Z[0::3], Z[1::3], atol=1e-7)
    np.testing.assert_allclose(Z[0::3], Z[2::3], atol=1e-7)
    np.testing.assert_allclose(isomap.transform(X), Z, atol=1e-7)
    once = Isomap(n_neighbors=5).fit(X[::3])
    np.testing.assert_allclose(
        Isomap(n_neighbors=17).fit(X).dist_matrix_[::3, ::3], once.dist_matrix_, rtol=0.2
    )


def test_columns_are_centred_uncorrelated_and_in_order(isomap):
    Z = isomap.set_params(n_components=3).fit_transform(roll())
    scatter = Z.T @ Z
    scale = scatter[0, 0]
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(scatter - np.diag(np.diag(scatter)), 0.0, atol=1e-8 * scale)
    np.testing.assert_allclose(np.diag(scatter), isomap.eigenvalues_, rtol=1e-8)
    assert np.all(np.diff(isomap.eigenvalues_) < 0)
    assert np.all(Z[np.argmax(np.abs(Z), axis=0), np.arange(3)] > 0)


def test_more_components_leave_the_first_alone():
    X = roll()
    two, four = (Isomap(q, n_neighbors=9).fit_transform(X) for q in (2, 4))
    np.testing.assert_allclose(two, four[:, :2], atol=1e-6)


def test_seeds(isomap):
    X = roll()
    same = [clone(isomap).set_params(random_state=s).fit_transform(X) for s in (3, 3, 4)]
    np.testing.assert_array_equal(same[0], same[1])
    if isomap.landmarks is not None:
        assert not np.array_equal(same[0], same[2])
    none = [clone(isomap).set_params(random_state=None).fit_transform(X) for _ in range(2)]
    np.testing.assert_array_equal(*none)


def test_copies_and_pickles(isomap):
    X, new = roll(), roll(20, seed=2)
    isomap.fit(X)
    again = pickle.loads(pickle.dumps(isomap))
    np.testing.assert_array_equal(again.transform(new), isomap.transform(new))
    np.testing.assert_array_equal(again.embedding_, isomap.embedding_)
    assert again.residual_variance_ == isomap.residual_variance_


def test_names_frames_sparse_rows_and_pipelines(isomap):
    X = roll()
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    out = isomap.set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["isomap0", "isomap1"]
    plain = clone(isomap).set_output(transform="default").fit_transform(X)
    np.testing.assert_allclose(out.to_numpy(), plain)
    sparse = clone(isomap).set_output(transform="default")
    np.testing.assert_allclose(sparse.fit_transform(scipy.sparse.csr_array(X)), plain)
    piped = make_pipeline(StandardScaler(), clone(isomap)).fit(X)
    assert piped.transform(X[:3]).shape == (3, 2)


def test_missing_are_filled_and_new_rows_with_missing_find_their_place():
    rng = np.random.default_rng(0)
    t = rng.random((300, 2))
    X = np.column_stack([t, t.sum(axis=1), t[:, 0] - t[:, 1], np.sin(t[:, 0])])
    X += 1e-4 * rng.normal(size=X.shape)
    whole = Isomap(n_neighbors=12).fit(X)
    incomplete = X.copy()
    incomplete[rng.random(X.shape) < 0.05] = np.nan
    found = Isomap(n_neighbors=12).fit(incomplete)
    r = np.corrcoef(distances(found).ravel(), distances(whole).ravel())[0, 1]
    assert r > 0.999
    np.testing.assert_allclose(found.transform(incomplete), found.embedding_, atol=1e-6)
    new = X[:20].copy()
    new[:, 2] = np.nan
    near = np.linalg.norm(whole.transform(new) - whole.embedding_[:20], axis=1)
    assert np.median(near) < 0.02 * distances(whole).max()


def test_missing_left_out_by_the_metric(isomap):
    rng = np.random.default_rng(0)
    X = np.column_stack([roll(200), roll(200)])
    X[rng.random(X.shape) < 0.05] = np.nan
    isomap.set_params(metric="nan_euclidean").fit(X)
    np.testing.assert_array_equal(isomap.transform(X), isomap.embedding_)


def test_threads_change_nothing(isomap):
    X = roll()
    found = [clone(isomap).set_params(n_jobs=k).fit_transform(X) for k in (None, 1, 2)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_auto_landmarks_only_for_many_rows(monkeypatch):
    X = roll()
    assert Isomap(landmarks="auto", n_neighbors=9).fit(X).landmarks_ is None
    monkeypatch.setattr("eigengap.estimators.isomap.MANY", 300)
    on = Isomap(landmarks="auto", n_neighbors=9).fit(X)
    assert len(on.landmarks_) == 100
    assert on.landmark_distances_.shape == (400, 100)
    assert len(Isomap(6, landmarks="auto", n_neighbors=9).fit(X).landmarks_) == 120
