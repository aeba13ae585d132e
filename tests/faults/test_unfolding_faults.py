"""What unfolding does with input that it cannot take, or can hardly take."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators.unfolding import MaximumVarianceUnfolding
from eigengap.exceptions import DisconnectedError, DisconnectedWarning, DoesNotFitError
from eigengap.fitting.sdp.unfolding import unfold
from eigengap.fitting.sdp.unfolding_landmarks import choose_landmarks

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3))
APART = np.vstack([RNG.normal(size=(15, 2)), RNG.normal(size=(15, 2)) + 100.0])


# Graphs that fall apart, and fits that fail ---------------------------------------------------


def test_a_graph_that_falls_apart_is_bridged_with_a_warning():
    with pytest.warns(DisconnectedWarning, match="2 components of 15 and 15 rows"):
        model = MaximumVarianceUnfolding(n_neighbors=4).fit(APART)
    assert model.n_connected_components_ == 2
    assert np.ptp(model.embedding_[:, 0]) > 100.0
    # The bridge is a hundred times as long as the edges, which keep their lengths all the same.
    i, j, lengths = model.graph_.edges
    Z = unfold(model.graph_).Z
    off = np.sum((Z[i] - Z[j]) ** 2, axis=1) / lengths**2 - 1.0
    assert np.sqrt(np.mean(off[lengths < 10.0] ** 2)) < 0.02
    assert model.constraint_violation_ < 0.02


def test_or_refused():
    with pytest.raises(DisconnectedError, match="2 components"):
        MaximumVarianceUnfolding(n_neighbors=4, disconnected="error").fit(APART)


def test_rows_that_all_coincide_have_no_variance():
    with pytest.warns(UserWarning, match="all rows coincide"):
        model = MaximumVarianceUnfolding(n_neighbors=3).fit(np.ones((8, 2)))
    assert np.array_equal(model.embedding_, np.zeros((8, 2)))


def test_too_few_steps_are_told():
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = MaximumVarianceUnfolding(max_iter=1).fit(ROWS)
    assert not model.converged_


@pytest.mark.parametrize(
    ("neighbours", "says"),
    [({"n_neighbors": None}, "got neither"), ({"radius": 2.0}, "needs n_neighbors=None")],
    ids=["neither", "both"],
)
def test_neighbours_are_counted_or_within_a_radius(neighbours, says):
    with pytest.raises(ValueError, match=says):
        MaximumVarianceUnfolding(**neighbours).fit(ROWS)


def test_more_neighbours_than_rows():
    with pytest.raises(ValueError, match="n_neighbors=30 must be smaller"):
        MaximumVarianceUnfolding(n_neighbors=30).fit(ROWS)


def test_a_new_row_out_of_reach_is_named():
    model = MaximumVarianceUnfolding(n_neighbors=None, radius=3.0).fit(ROWS)
    with pytest.raises(ValueError, match=r"row 1 has no fitted row within radius=3"):
        model.transform(np.vstack([ROWS[:1], [[100.0, 0.0, 0.0]]]))


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr("eigengap.runtime.memory.free_memory", lambda: 10_000_000)
    with pytest.raises(DoesNotFitError, match=r"unfolding 3000 rows .* needs .* MB of memory"):
        MaximumVarianceUnfolding().fit(np.random.default_rng(1).normal(size=(3000, 2)))


def test_nor_do_landmarks_where_there_is_no_memory_at_all(monkeypatch):
    monkeypatch.setattr("eigengap.runtime.memory.free_memory", lambda: 100_000)
    with pytest.raises(DoesNotFitError, match=r"unfolding 400 rows .* needs"):
        MaximumVarianceUnfolding(landmarks=50).fit(np.random.default_rng(1).normal(size=(400, 2)))


def test_a_fit_that_fails_leaves_nothing_behind():
    model = MaximumVarianceUnfolding(n_neighbors=4, disconnected="error")
    with pytest.raises(DisconnectedError):
        model.fit(APART)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_nothing_of_an_earlier_fit_remains():
    model = MaximumVarianceUnfolding(landmarks=20, n_neighbors=8).fit(ROWS)
    assert len(model.landmarks_) == 20
    model.set_params(landmarks=None).fit(ROWS)
    assert not hasattr(model, "landmarks_")


# Rows that coincide, parts without landmarks ---------------------------------------------------


def test_more_equal_rows_than_neighbours_are_one_point():
    rows = np.vstack([ROWS, np.repeat(ROWS[:1], 20, axis=0)])
    model = MaximumVarianceUnfolding(n_neighbors=4).fit(rows)
    same = model.embedding_[np.r_[0, 30:50]]
    assert np.array_equal(same, np.repeat(same[:1], 21, axis=0))
    assert np.array_equal(model.transform(rows), model.embedding_)


def test_equal_rows_are_one_point_on_landmarks_too():
    rows = np.vstack([ROWS, ROWS])
    model = MaximumVarianceUnfolding(n_neighbors=6, landmarks=15).fit(rows)
    assert np.array_equal(model.embedding_[:30], model.embedding_[30:])
    assert np.array_equal(model.transform(rows), model.embedding_)
    assert np.isfinite([model.constraint_violation_, model.constraint_violation_rms_]).all()


def test_all_rows_equal_on_landmarks():
    with pytest.warns(UserWarning, match="all rows coincide"):
        model = MaximumVarianceUnfolding(n_neighbors=3, landmarks=5).fit(np.ones((12, 2)))
    assert np.array_equal(model.embedding_, np.zeros((12, 2)))


def test_every_part_has_landmarks_of_its_own():
    rng = np.random.default_rng(3)
    few = rng.normal(size=(8, 2)) + 50.0
    rows = np.vstack([rng.normal(size=(300, 2)), few])
    with pytest.warns(DisconnectedWarning):
        model = MaximumVarianceUnfolding(n_neighbors=6, landmarks=20).fit(rows)
    assert np.sum(model.landmarks_ >= 300) >= 4
    # No point of the small part lies upon another, nor among the others.
    Z = model.embedding_
    assert np.min(np.ptp(Z[300:], axis=0)) > 0.1 * np.min(np.ptp(few, axis=0))
    assert np.linalg.norm(np.mean(Z[300:], axis=0) - np.mean(Z[:300], axis=0)) > 20.0


@pytest.mark.parametrize("least", [1, 4])
def test_landmarks_are_as_many_as_asked_and_some_of_every_component(least):
    labels = np.repeat(np.arange(4), [100, 50, 3, 1]).astype(np.int32)
    found = choose_landmarks(labels, 20, least, np.random.default_rng(0))
    counts = np.bincount(labels[found], minlength=4)
    assert np.all(np.diff(found) > 0)
    assert np.all(counts >= np.minimum(least, [100, 50, 3, 1]))
    assert 20 <= len(found) <= 20 + 4 * least
    one = choose_landmarks(np.zeros(100, dtype=np.int32), 20, least, np.random.default_rng(0))
    assert len(one) == 20


def test_coordinates_without_variance_are_told():
    with pytest.warns(UserWarning, match=r"only 3 of the 6 coordinates have variance"):
        Z = MaximumVarianceUnfolding(6, n_neighbors=3).fit_transform(ROWS[:4])
    assert np.array_equal(Z[:, 3:], np.zeros((4, 3)))


def test_rows_that_nearly_coincide_are_reported_in_the_unit_of_the_others():
    rng = np.random.default_rng(4)
    rows = np.vstack([ROWS[:15], ROWS[:15] + 1e-9 * rng.normal(size=(15, 3))])
    model = MaximumVarianceUnfolding(n_neighbors=6).fit(rows)
    assert model.constraint_violation_ < 1e-2
    near = np.linalg.norm(model.embedding_[:15] - model.embedding_[15:], axis=1)
    assert np.max(near) < 0.05


def test_distances_that_no_points_have_are_told():
    D = 1.0 - np.eye(12)
    D[0, 1] = D[1, 0] = 5.0  # more than the way round
    model = MaximumVarianceUnfolding(n_neighbors=11, metric="precomputed")
    with pytest.warns(ConvergenceWarning, match="no points keep all these distances"):
        model.fit(D)
    assert model.duality_gap_ == np.inf
    assert model.constraint_violation_ > 0.5


# Size ------------------------------------------------------------------------------------------


def test_a_hundred_thousand_rows_are_placed_by_landmarks(monkeypatch):
    """T29: no row by itself, and what the landmarks need is asked for before it is taken."""
    asked = []

    def too_much(needed, what, way_out):
        asked.append(what)
        raise DoesNotFitError(what)

    monkeypatch.setattr("eigengap.fitting.sdp.unfolding_landmarks.require_memory", too_much)
    rows = np.random.default_rng(0).uniform(size=(100_000, 2))
    with pytest.raises(DoesNotFitError):
        MaximumVarianceUnfolding().fit(rows)
    assert asked == ["100000 rows by 300 landmarks"]


# Copies ----------------------------------------------------------------------------------------


def test_clones_and_pickles():
    model = MaximumVarianceUnfolding(1, n_neighbors=4, constraint="at_most", tol=1e-3).fit(ROWS)
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(ROWS + 0.01), model.transform(ROWS + 0.01))


def test_no_fit_gives_a_warning_of_numpy():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for scale in (1e-139, 1.0, 1e148):
            MaximumVarianceUnfolding(n_neighbors=4).fit(scale * ROWS)
            MaximumVarianceUnfolding(n_neighbors=4, landmarks=10).fit(scale * ROWS)
