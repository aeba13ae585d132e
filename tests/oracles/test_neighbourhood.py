"""Neighbourhood graphs against brute force, scikit-learn's joining of components and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.graph import _fix_connected_components

from eigengap.fitting.graph import neighbourhood
from eigengap.fitting.graph.neighbourhood import bridged, in_words, undirected
from eigengap.fitting.graph.neighbours import Neighbours, Search
from eigengap.models.maps.graph import Graph


def rows_of(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def brute(X, k):
    """(n, n) distances to the k nearest other rows, NaN elsewhere."""
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    near = np.argsort(D, axis=1, kind="stable")[:, :k]
    found = np.full(D.shape, np.nan)
    np.put_along_axis(found, near, np.take_along_axis(D, near, axis=1), axis=1)
    return found


def dense(nearest):
    found = np.full(nearest.shape, np.nan)
    rows = np.repeat(np.arange(nearest.shape[0]), np.diff(nearest.indptr))
    found[rows, nearest.indices] = nearest.data
    return found


@pytest.mark.parametrize("d", [3, 30])
@pytest.mark.parametrize("algorithm", ["auto", "brute", "kd_tree", "ball_tree"])
def test_exact_neighbours(d, algorithm):
    X = rows_of(200, d)
    found = Neighbours.of(Search(n_neighbors=6, algorithm=algorithm), X).among()
    np.testing.assert_allclose(dense(found), brute(X, 6), rtol=1e-12)


@pytest.mark.parametrize("algorithm", ["auto", "brute"])
def test_neighbours_of_new_rows(algorithm):
    X, new = rows_of(100, 3), rows_of(20, 3, seed=1)
    found = Neighbours.of(Search(n_neighbors=1, algorithm=algorithm), X).of_new(new)
    D = cdist(new, X)
    np.testing.assert_array_equal(found.indices, np.argmin(D, axis=1))
    np.testing.assert_allclose(found.data, D.min(axis=1), rtol=1e-12)


@pytest.mark.parametrize("algorithm", ["auto", "brute"])
def test_neighbours_within_a_radius(algorithm):
    X = rows_of(100, 3)
    found = dense(Neighbours.of(Search(None, 0.8, algorithm=algorithm), X).among())
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    np.testing.assert_allclose(found, np.where(D <= 0.8, D, np.nan), rtol=1e-12)


@pytest.mark.slow  # half a minute in which pynndescent is compiled
def test_approximate_neighbours_have_exact_lengths_whatever_the_offset():
    X = rows_of(2000, 20)
    exact = dense(Neighbours.of(Search(n_neighbors=8), X).among())
    for offset in (0.0, 1e6):
        moved = Neighbours.of(Search(n_neighbors=8, algorithm="approximate"), X + offset)
        found = dense(moved.among())
        both = ~np.isnan(found) & ~np.isnan(exact)
        assert both.sum() >= 0.95 * 8 * len(X)
        np.testing.assert_allclose(found[both], exact[both], rtol=1e-6 if offset else 1e-12)
        new = moved.of_new(X[:50] + offset)
        assert new.shape == (50, 2000)
        found_itself = new.indices.reshape(50, 8)[:, 0] == np.arange(50)
        assert np.mean(found_itself) >= 0.9


def test_rows_that_coincide_are_neighbours_at_length_zero():
    X = np.repeat(rows_of(10, 2), 5, axis=0)
    for algorithm in ("auto", "brute"):
        graph = undirected(Neighbours.of(Search(n_neighbors=3, algorithm=algorithm), X).among())
        assert graph.components[0] == 10
        assert np.all(graph.lengths == 0.0)
        assert np.all(graph.degrees >= 3)


@pytest.mark.parametrize("d", [3, 30])
@pytest.mark.parametrize("algorithm", ["auto", "brute", "ball_tree"])
def test_an_offset_costs_no_digits(d, algorithm):
    X = rows_of(100, d)
    search = Search(n_neighbors=6, algorithm=algorithm)
    moved = X + 2.0**26
    X = moved - 2.0**26
    np.testing.assert_allclose(dense(Neighbours.of(search, moved).among()), brute(X, 6), rtol=1e-12)
    np.testing.assert_allclose(
        dense(Neighbours.of(search, moved[10:]).of_new(moved[:10])),
        dense(Neighbours.of(search, X[10:]).of_new(X[:10])),
        rtol=1e-12,
    )


def test_union_and_mutual():
    X = rows_of(60, 2)
    nearest = Neighbours.of(Search(n_neighbors=4), X).among()
    A = ~np.isnan(brute(X, 4))
    D = cdist(X, X)
    for how, expected in (("union", A | A.T), ("mutual", A & A.T)):
        graph = undirected(nearest, how)
        np.testing.assert_allclose(graph.csr().toarray(), np.where(expected, D, 0.0), rtol=1e-12)
        low, high, lengths = graph.edges
        assert graph.m == len(low) == expected.sum() // 2
        assert np.all(low < high)
        np.testing.assert_allclose(lengths, D[low, high], rtol=1e-12)


def test_repeated_edges_count_once_by_the_shortest():
    i, j = np.array([0, 1, 1, 2]), np.array([1, 0, 1, 0])
    graph = Graph.of_edges(4, i, j, np.array([3.0, 2.0, 1.0, 0.0]))
    np.testing.assert_array_equal(graph.indptr, [0, 2, 3, 4, 4])
    np.testing.assert_array_equal(graph.indices, [1, 2, 0, 0])
    np.testing.assert_array_equal(graph.lengths, [2.0, 0.0, 2.0, 0.0])
    assert graph.components[0] == 2


@pytest.mark.parametrize("piece", [1 << 22, 64])
def test_components_are_joined_as_in_scikit_learn(piece, monkeypatch):
    monkeypatch.setattr(neighbourhood, "PIECE", piece)
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(m, 3)) + 20.0 * k for k, m in enumerate([30, 8, 25, 12])])
    X = X[rng.permutation(len(X))]
    neighbours = Neighbours.of(Search(n_neighbors=4), X)
    graph = undirected(neighbours.among())
    assert graph.components[0] == 4
    assert in_words(graph) == "4 components of 30, 25, 12 and 8 rows"
    joined = bridged(graph, neighbours.pairs)
    theirs = kneighbors_graph(X, 4, mode="distance")
    count, labels = scipy.sparse.csgraph.connected_components(theirs)
    theirs = _fix_connected_components(X, theirs, count, labels, mode="distance")
    theirs = theirs.maximum(theirs.T).toarray()
    np.testing.assert_allclose(joined.csr().toarray(), theirs, rtol=1e-12)
    assert joined.components[0] == 1
    assert bridged(joined, neighbours.pairs) is joined
