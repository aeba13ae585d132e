"""What structure preserving embedding does with input that it cannot take, or can hardly take."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from eigengap.estimators.structure_preserving import StructurePreservingEmbedding
from eigengap.exceptions import DoesNotFitError, StructureWarning
from eigengap.runtime.warnings import silence

ROWS = np.random.default_rng(0).normal(size=(30, 3))


def adjacency(n, edges):
    A = np.zeros((n, n))
    for i, j in edges:
        A[i, j] = A[j, i] = 1.0
    return A


PATH = adjacency(6, [(k, k + 1) for k in range(5)])


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
        (changed(1, 2, 0.5), r"holds 0.5 at row 1, column 2: structure takes no weights"),
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
    model = StructurePreservingEmbedding(3, n_neighbors=3, max_iter=5)
    with silence():
        model.fit(rows)
    Z = model.embedding_
    assert np.all(np.isfinite(Z))
    new = model.transform(rows)
    assert np.array_equal(new[3:10], Z[3:10])
    for k in range(3):  # the place of one of the two
        assert np.array_equal(new[k], new[10 + k])
        assert np.array_equal(new[k], Z[k]) or np.array_equal(new[k], Z[10 + k])


# What was meant --------------------------------------------------------------------------------


def test_a_graph_taken_for_rows_is_told():
    with pytest.warns(UserWarning, match='affinity="precomputed" takes a graph'):
        StructurePreservingEmbedding(n_neighbors=2, max_iter=1, n_init=1).fit(PATH)


def test_a_list_of_edges_is_told_how_to_become_a_matrix():
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    with pytest.raises(ValueError, match=r"a list of edges \(i, j\) becomes one by scipy"):
        of_graph().fit(edges)
    i, j = edges.T
    A = scipy.sparse.coo_array((np.ones(6), (np.r_[i, j], np.r_[j, i])), (4, 4))
    assert of_graph().fit(A).edges_recovered_ == 1.0


def test_distances_taken_for_a_graph_are_told():
    D = np.linalg.norm(ROWS[:, None] - ROWS[None], axis=2)
    with pytest.raises(ValueError, match='affinity="rows" and metric="precomputed"'):
        of_graph().fit(D)


# Size ------------------------------------------------------------------------------------------


def test_a_hundred_thousand_nodes_are_refused_at_once():
    """T29."""
    n = 100_000
    i = np.arange(n - 1)
    A = scipy.sparse.coo_array((np.ones(2 * n - 2), (np.r_[i, i + 1], np.r_[i + 1, i])), (n, n))
    with pytest.raises(DoesNotFitError, match=r"100000 nodes is that of 1.0e\+10 pairs"):
        of_graph().fit(A)
    with pytest.raises(DoesNotFitError, match="give the others to transform"):
        StructurePreservingEmbedding().fit(np.random.default_rng(0).uniform(size=(n, 2)))


def test_constraints_that_memory_does_not_hold(monkeypatch):
    monkeypatch.setattr("eigengap.runtime.memory.free_memory", lambda: 100_000)
    with pytest.raises(DoesNotFitError, match=r"30 nodes with \d+ constraints needs .* of memory"):
        StructurePreservingEmbedding().fit(ROWS)


# Copies, and fits that fail --------------------------------------------------------------------


def test_clones_and_pickles():
    model = StructurePreservingEmbedding(2, n_neighbors=3, n_init=1, max_iter=2)
    with silence():
        model.fit(ROWS)
    assert clone(model).get_params() == model.get_params()
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(ROWS + 0.01), model.transform(ROWS + 0.01))


def test_a_fit_that_fails_leaves_the_earlier_one():
    model = of_graph().fit(PATH)
    before = model.embedding_
    with pytest.raises(ValueError, match="no edges"):
        model.fit(np.zeros((4, 4)))
    assert model.embedding_ is before
    fresh = of_graph()
    with pytest.raises(ValueError, match="no edges"):
        fresh.fit(np.zeros((4, 4)))
    assert not [name for name in vars(fresh) if name.endswith("_")]
