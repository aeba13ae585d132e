"""Structure preserving embedding: graphs that come back, against cvxpy + Clarabel and others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.manifold import SpectralEmbedding
from sklearn.neighbors import kneighbors_graph, radius_neighbors_graph

from eigengap.estimators.structure_preserving import StructurePreservingEmbedding
from eigengap.exceptions import StructureWarning
from eigengap.fitting.sdp.problem import Affinity
from eigengap.fitting.sdp.structure import Structure, embed, read_back, shares
from eigengap.fitting.sdp.unfolding import unfold
from eigengap.models.maps.graph import Graph


def graph(n, edges):
    A = np.zeros((n, n), dtype=int)
    for i, j in edges:
        A[i, j] = A[j, i] = 1
    return A


def path(n):
    return graph(n, [(k, k + 1) for k in range(n - 1)])


def cycle(n):
    return graph(n, [(k, (k + 1) % n) for k in range(n)])


def grid(a, b):
    across = [(i * b + j, i * b + j + 1) for i in range(a) for j in range(b - 1)]
    return graph(
        a * b, across + [(i * b + j, i * b + b + j) for i in range(a - 1) for j in range(b)]
    )


def tree(depth):
    n = 2 ** (depth + 1) - 1
    return graph(n, [(i, c) for i in range(n) for c in (2 * i + 1, 2 * i + 2) if c < n])


def bipartite(a, b):
    return graph(a + b, [(i, a + j) for i in range(a) for j in range(b)])


def moebius(n):
    return np.maximum(cycle(2 * n), graph(2 * n, [(i, i + n) for i in range(n)]))


def fullerene():
    """The twenty nodes of a dodecahedron: the smallest carbon cage."""
    outer = [(k, (k + 1) % 5) for k in range(5)]
    spokes = [(k, 5 + 2 * k) for k in range(5)]
    middle = [(5 + k, 5 + (k + 1) % 10) for k in range(10)]
    inner = [(5 + 2 * k + 1, 15 + k) for k in range(5)]
    return graph(
        20, outer + spokes + middle + inner + [(15 + k, 15 + (k + 1) % 5) for k in range(5)]
    )


# Reading back, by brute force --------------------------------------------------------------------


def nearest(Y, degrees):
    """The degrees[i] nearest nodes of every i, one by one."""
    n = len(Y)
    found = np.zeros((n, n), dtype=bool)
    for i in range(n):
        order = sorted(range(n), key=lambda j: (j == i, np.sum((Y[i] - Y[j]) ** 2)))
        found[i, order[: degrees[i]]] = True
    return found


@pytest.mark.parametrize(
    ("A", "q", "kind"),
    [
        pytest.param(path(12), 1, "nearest_neighbors", id="path-1"),
        pytest.param(path(12), 1, "threshold", id="path-1-threshold"),
        pytest.param(cycle(20), 2, "nearest_neighbors", id="cycle-2"),
        pytest.param(cycle(20), 2, "threshold", id="cycle-2-threshold"),
        pytest.param(grid(4, 5), 2, "nearest_neighbors", id="grid-2"),
        pytest.param(grid(4, 5), 2, "threshold", id="grid-2-threshold"),
        pytest.param(tree(2), 2, "nearest_neighbors", id="tree-2"),
        pytest.param(tree(3), 2, "threshold", id="tree-2-threshold"),
        pytest.param(bipartite(2, 3), 3, "nearest_neighbors", id="bipartite-3"),
        pytest.param(moebius(8), 3, "nearest_neighbors", id="moebius-3"),
        pytest.param(fullerene(), 3, "nearest_neighbors", id="fullerene-3"),
        pytest.param(np.kron(np.eye(2, dtype=int), cycle(7)), 2, "nearest_neighbors", id="two-2"),
        pytest.param(np.kron(np.eye(2, dtype=int), cycle(7)), 2, "threshold", id="two-2-threshold"),
    ],
)
def test_the_graph_comes_back(A, q, kind):
    model = StructurePreservingEmbedding(q, affinity="precomputed", graph=kind).fit(A)
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)
    Z = model.embedding_
    assert Z.shape == (len(A), q)
    if kind == "threshold":
        D = np.linalg.norm(Z[:, None] - Z[None], axis=2)
        back = (model.threshold_ >= D) & ~np.eye(len(A), dtype=bool)
    else:
        back = nearest(Z, A.sum(axis=1))
    assert np.array_equal(back, A.astype(bool))
    assert np.array_equal(model.reconstruct_graph().toarray(), A.astype(bool))


def test_a_sparse_matrix_is_the_same_graph():
    dense, sparse = (
        StructurePreservingEmbedding(2, affinity="precomputed", random_state=0).fit_transform(A)
        for A in (cycle(10), scipy.sparse.csr_array(cycle(10)))
    )
    assert np.array_equal(dense, sparse)


def test_the_neighbours_of_planar_points_come_back_from_their_graph_alone():
    X = np.random.default_rng(0).uniform(size=(50, 2))
    A = kneighbors_graph(X, 5).toarray()
    model = StructurePreservingEmbedding(2, affinity="precomputed", directed=True).fit(A)
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)
    assert np.array_equal(kneighbors_graph(model.embedding_, 5).toarray(), A)


# Rows ------------------------------------------------------------------------------------------


def test_neighbours_of_rows_come_back():
    X = np.random.default_rng(1).uniform(size=(50, 2))
    model = StructurePreservingEmbedding(2, n_neighbors=4).fit(X)
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)
    again = kneighbors_graph(model.embedding_, 4).toarray()
    assert np.array_equal(again, kneighbors_graph(X, 4).toarray())
    i, j = np.nonzero(again)
    aim = np.linalg.norm(X[i] - X[j], axis=1)
    assert np.all(np.linalg.norm(model.embedding_[i] - model.embedding_[j], axis=1) < 1.05 * aim)


def test_pairs_within_a_threshold_come_back():
    X = np.random.default_rng(2).uniform(size=(50, 2))
    model = StructurePreservingEmbedding(2, graph="threshold", radius=0.25).fit(X)
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)
    again = radius_neighbors_graph(model.embedding_, model.threshold_).toarray()
    assert np.array_equal(again, radius_neighbors_graph(X, 0.25).toarray())


def test_new_rows_are_placed_and_fitted_ones_stay():
    X = np.random.default_rng(3).uniform(size=(50, 2))
    model = StructurePreservingEmbedding(2, n_neighbors=4).fit(X)
    assert np.array_equal(model.transform(X), model.embedding_)
    new = X[:1] + 1e-4
    near = np.linalg.norm(model.embedding_ - model.transform(new), axis=1)
    assert np.argmin(near) == 0


# Others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("A", [moebius(8), tree(3)], ids=["moebius", "tree"])
def test_spectral_embedding_and_unfolding_give_less_back(A):
    degrees = A.sum(axis=1)
    ours = StructurePreservingEmbedding(3, affinity="precomputed").fit(A)
    spectral = SpectralEmbedding(3, affinity="precomputed", random_state=0).fit_transform(A)
    i, j = np.nonzero(np.triu(A))
    unfolded = unfold(Graph.of_edges(len(A), i, j, np.ones(len(i)))).Z[:, :3]
    others = [np.mean(nearest(Y, degrees)[A.astype(bool)]) for Y in (spectral, unfolded)]
    assert ours.edges_recovered_ == 1.0
    assert max(others) < 0.95


def test_more_dimensions_hold_what_the_plane_cannot():
    star = bipartite(1, 7)
    with pytest.warns(StructureWarning, match="n_components=2"):
        StructurePreservingEmbedding(2, affinity="precomputed").fit(star)
    model = StructurePreservingEmbedding(3, affinity="precomputed").fit(star)
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)


def test_more_starts_find_what_the_first_ones_miss():
    model = StructurePreservingEmbedding(2, affinity="precomputed", n_init=20).fit(bipartite(1, 5))
    assert (model.edges_recovered_, model.false_edges_) == (1.0, 0.0)
    Z = model.embedding_
    assert np.array_equal(nearest(Z, np.array([5, 1, 1, 1, 1, 1])), bipartite(1, 5).astype(bool))


@pytest.mark.parametrize("kind", ["nearest_neighbors", "threshold"])
def test_shares_are_those_of_brute_force_where_the_graph_does_not_fit(kind):
    A = bipartite(1, 8)
    model = StructurePreservingEmbedding(2, affinity="precomputed", graph=kind, n_init=1)
    with pytest.warns(StructureWarning):
        Z = model.fit_transform(A)
    if kind == "threshold":
        D = np.linalg.norm(Z[:, None] - Z[None], axis=2)
        back = (model.threshold_ >= D) & ~np.eye(len(A), dtype=bool)
    else:
        back = nearest(Z, A.sum(axis=1))
        back |= back.T
    found = np.sum(back & (A == 1)) / np.sum(A)
    false = np.sum(back & (A == 0)) / np.sum(back)
    assert model.edges_recovered_ == pytest.approx(found)
    assert model.false_edges_ == pytest.approx(false)
    assert np.array_equal(model.recovered_graph_.toarray(), back)


# The semidefinite program ------------------------------------------------------------------------


def triples(A):
    n = len(A)
    return [
        (i, j, m)
        for i in range(n)
        for j in np.flatnonzero(A[i])
        for m in np.flatnonzero(A[i] == 0)
        if m != i
    ]


def by_clarabel(A, margin, cap):
    import cvxpy as cp

    n = len(A)
    K = cp.Variable((n, n), PSD=True)

    def D(a, b):
        return K[a, a] + K[b, b] - 2 * K[a, b]

    room = cp.hstack([D(i, m) - D(i, j) - margin for i, j, m in triples(A)])
    keeps = [cp.sum(K) == 0, cp.trace(K) == n]
    gain = cp.trace(K @ A.astype(float))
    if np.isfinite(cap):
        gain = gain - cap * cp.sum(cp.pos(-room))
    else:
        keeps.append(room >= 0)
    program = cp.Problem(cp.Maximize(gain), keeps)
    program.solve(solver=cp.CLARABEL)
    return program.value


@pytest.mark.parametrize("cap", [np.inf, 0.3], ids=["hard", "priced"])
@pytest.mark.parametrize("A", [path(8), moebius(4)], ids=["path", "moebius"])
def test_at_full_rank_it_is_what_an_interior_point_method_finds(A, cap):
    margin, n = 0.5, len(A)
    i, j = np.nonzero(np.triu(A))
    pattern = scipy.sparse.csr_array(A.astype(bool))
    structure = Structure(n, "nearest_neighbors", pattern, (i, j), None, margin, cap)
    gain = Affinity(scipy.sparse.csr_array(A.astype(float)))
    start = np.random.default_rng(0).normal(size=(n, n - 1))
    found = embed(structure, gain, start, total=1.0, tol=1e-4)
    D = np.sum((found.Y[:, None] - found.Y[None]) ** 2, axis=2)
    slack = sum(max(0.0, D[i, j] + margin - D[i, m]) for i, j, m in triples(A))
    value = found.gain - (cap * slack if np.isfinite(cap) else 0.0)
    assert np.sum(found.Y**2) == pytest.approx(n, rel=1e-3)
    assert slack < 1e-2 or np.isfinite(cap)
    assert value == pytest.approx(by_clarabel(A, margin, cap), rel=1e-3)


def test_reading_back_counts_ties_against_the_graph():
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    lopsided = graph(4, [(0, 1), (1, 2)])  # 2 is as near to 3 as to 1
    i, j = np.nonzero(np.triu(lopsided))
    pattern = scipy.sparse.csr_array(lopsided.astype(bool))
    structure = Structure(4, "nearest_neighbors", pattern, (i, j), None, 0.1)
    found, false = shares(pattern, read_back(structure, square))
    assert found < 1.0
    assert false > 0.0
