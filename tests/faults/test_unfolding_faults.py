"""What unfolding and structure preserving embedding do with input that they cannot take."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators._manifold import DisconnectedWarning
from eigengap.estimators.structure_preserving import (
    StructurePreservingEmbedding,
    StructureWarning,
)
from eigengap.estimators.unfolding import MaximumVarianceUnfolding
from eigengap.fitting.memory import DoesNotFitError
from eigengap.fitting.neighbourhood import DisconnectedError

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3))
APART = np.vstack([RNG.normal(size=(15, 2)), RNG.normal(size=(15, 2)) + 100.0])


def adjacency(n, edges):
    A = np.zeros((n, n))
    for i, j in edges:
        A[i, j] = A[j, i] = 1.0
    return A


PATH = adjacency(6, [(k, k + 1) for k in range(5)])


# Unfolding -------------------------------------------------------------------------------------


def test_a_graph_that_falls_apart_is_bridged_with_a_warning():
    with pytest.warns(DisconnectedWarning, match="2 components of 15 and 15 rows"):
        model = MaximumVarianceUnfolding(n_neighbors=4).fit(APART)
    assert model.n_connected_components_ == 2
    assert np.ptp(model.embedding_[:, 0]) > 100.0


def test_or_refused():
    with pytest.raises(DisconnectedError, match="2 components"):
        MaximumVarianceUnfolding(n_neighbors=4, disconnected="error").fit(APART)


def test_rows_that_all_coincide_have_no_variance():
    model = MaximumVarianceUnfolding(n_neighbors=3).fit(np.ones((8, 2)))
    assert np.array_equal(model.embedding_, np.zeros((8, 2)))


def test_too_few_steps_are_told():
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = MaximumVarianceUnfolding(max_iter=1).fit(ROWS)
    assert not model.converged_


@pytest.mark.parametrize(
    "neighbours", [{"n_neighbors": None}, {"radius": 2.0}], ids=["neither", "both"]
)
def test_neighbours_are_counted_or_within_a_radius(neighbours):
    with pytest.raises(ValueError, match="exactly one of n_neighbors and radius"):
        MaximumVarianceUnfolding(**neighbours).fit(ROWS)


def test_more_neighbours_than_rows():
    with pytest.raises(ValueError, match="n_neighbors=30 must be smaller"):
        MaximumVarianceUnfolding(n_neighbors=30).fit(ROWS)


def test_a_new_row_out_of_reach_is_named():
    model = MaximumVarianceUnfolding(n_neighbors=None, radius=3.0).fit(ROWS)
    with pytest.raises(ValueError, match=r"row 1 has no fitted row within radius=3"):
        model.transform(np.vstack([ROWS[:1], [[100.0, 0.0, 0.0]]]))


def test_what_does_not_fit_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr("eigengap.fitting.memory.free_memory", lambda: 10_000_000)
    with pytest.raises(DoesNotFitError, match=r"unfolding 3000 rows .* needs .* MB of memory"):
        MaximumVarianceUnfolding().fit(np.random.default_rng(1).normal(size=(3000, 2)))


def test_nor_do_landmarks_where_there_is_no_memory_at_all(monkeypatch):
    monkeypatch.setattr("eigengap.fitting.memory.free_memory", lambda: 100_000)
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


# Graphs ----------------------------------------------------------------------------------------


def of_graph(**options):
    return StructurePreservingEmbedding(affinity="precomputed", **options)


def changed(i, j, value):
    A = PATH.copy()
    A[i, j] = value
    return A


@pytest.mark.parametrize(
    ("A", "says"),
    [
        (changed(0, 3, 1.0), r"not symmetric: row 0, column 3 and row 3, column 0"),
        (changed(1, 2, 0.5), r"holds 0.5 at row 1, column 2: structure knows no weights"),
        (changed(1, 2, -1.0), r"holds -1.0 at row 1, column 2: an edge has no negative weight"),
        (changed(2, 2, 1.0), r"row 2, column 2: no node is its own neighbour"),
        (changed(4, 1, np.nan), r"(nan|NaN) at row 4, column 1"),
        (np.zeros((5, 5)), "the graph has no edges"),
        (PATH[:4], "square, got 4 rows and 6 columns"),
    ],
    ids=["asymmetric", "weighted", "negative", "loop", "nan", "empty", "oblong"],
)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_what_is_no_adjacency_matrix_is_refused_by_place(A, says, sparse):
    with pytest.raises(ValueError, match=says):
        of_graph().fit(scipy.sparse.csr_array(A) if sparse else A)


def test_isolated_nodes_keep_to_themselves():
    A = adjacency(7, [(0, 1), (1, 2), (2, 3), (3, 4)])
    for kind in ("nearest_neighbors", "threshold"):
        model = of_graph(graph=kind).fit(A)
        assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)
        assert model.n_connected_components_ == 3


@pytest.mark.parametrize("kind", ["nearest_neighbors", "threshold"])
def test_a_complete_graph_has_nothing_to_tell_apart(kind):
    model = of_graph(graph=kind).fit(np.ones((6, 6)) - np.eye(6))
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)


def test_a_graph_that_the_plane_cannot_hold_is_told():
    star = adjacency(8, [(0, k) for k in range(1, 8)])
    with pytest.warns(StructureWarning, match=r"n_components=2 may be too few"):
        model = of_graph().fit(star)
    assert model.edges_recovered_ < 1.0 or model.false_edges_ > 0.0


def test_a_bare_graph_has_no_transform():
    model = of_graph().fit(PATH)
    assert not hasattr(model, "transform")
    with pytest.raises(AttributeError, match="transform") as told:
        model.transform(PATH)
    assert "a new node has no place" in str(told.value.__cause__)


def test_directions_belong_to_nearest_neighbours():
    with pytest.raises(ValueError, match="pairs within a threshold have no direction"):
        of_graph(graph="threshold", directed=True).fit(PATH)


def test_a_threshold_of_rows_has_to_be_given():
    with pytest.raises(ValueError, match="needs radius"):
        StructurePreservingEmbedding(graph="threshold").fit(ROWS)
    with pytest.raises(ValueError, match="radius=1 belongs to graph='threshold'"):
        StructurePreservingEmbedding(radius=1.0).fit(ROWS)


def test_a_threshold_that_no_pair_keeps():
    with pytest.raises(ValueError, match=r"no two rows are within radius=1e-06"):
        StructurePreservingEmbedding(graph="threshold", radius=1e-6).fit(ROWS)


def test_rows_that_coincide():
    rows = np.vstack([ROWS[:10], ROWS[:3]])
    model = StructurePreservingEmbedding(3, n_neighbors=3, max_iter=5).fit(rows)
    assert np.all(np.isfinite(model.embedding_))
