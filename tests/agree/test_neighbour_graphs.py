"""Isomap on every pair (radius=inf) and on neighbour graphs of scikit-learn's transformers."""

import numpy as np
import pytest
import scipy.sparse
import sklearn.manifold as peer
from scipy.spatial.distance import cdist
from sklearn.neighbors import (
    KNeighborsTransformer,
    NearestNeighbors,
    RadiusNeighborsTransformer,
    kneighbors_graph,
    radius_neighbors_graph,
)
from sklearn.pipeline import make_pipeline

import eigengap as eg
from eigengap import Isomap, LaplacianEigenmaps
from eigengap.exceptions import DisconnectedError

pytestmark = pytest.mark.filterwarnings("ignore:negative eigenvalues hold")


def rows_of(n=80, d=3, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, size=(n, d))


def distances(Z):
    return cdist(Z, Z)


# Every row a neighbour ----------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["auto", "brute", "ball_tree"])
@pytest.mark.parametrize("d", [2, 20])  # SciPy's tree, scikit-learn's searches
@pytest.mark.parametrize("metric", ["minkowski", "manhattan", "nan_euclidean", "precomputed"])
def test_an_infinite_radius_takes_all_pairs(metric, d, algorithm):
    if metric in ("nan_euclidean", "precomputed") and algorithm == "ball_tree":
        algorithm = "auto"
    X = rows_of(40, d)
    D = cdist(X, X, "cityblock" if metric == "manhattan" else "euclidean")
    given = D if metric == "precomputed" else X
    model = Isomap(2, n_neighbors=None, radius=np.inf, metric=metric, neighbors_algorithm=algorithm)
    model.fit(given)
    assert model.graph_.m == 40 * 39 // 2
    np.testing.assert_allclose(model.dist_matrix_, D, atol=1e-12 * D.max())
    assert model.transform(given[:3]).shape == (3, 2)
    # Without the graph Isomap is classical scaling.
    scaled = eg.ClassicalMDS(2, metric="precomputed").fit(D).embedding_
    np.testing.assert_allclose(distances(model.embedding_), distances(scaled), atol=1e-8 * D.max())


def test_an_infinite_radius_joins_all_rows_of_laplacian_eigenmaps():
    model = LaplacianEigenmaps(2, radius=np.inf).fit(rows_of(30))
    W = model.affinity_matrix_
    np.testing.assert_array_equal(W.toarray() if scipy.sparse.issparse(W) else W, np.ones((30, 30)))


# Graphs that others have found --------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("landmarks", [None, 30])
def test_a_graph_of_neighbours_is_as_good_as_the_rows(layout, landmarks):
    X, new = rows_of(), rows_of(15, seed=1)
    finder = KNeighborsTransformer(n_neighbors=8, mode="distance").fit(X)
    graph, to_new = (finder.transform(rows).asformat(layout) for rows in (X, new))
    plain = Isomap(2, n_neighbors=8, landmarks=landmarks).fit(X)
    given = Isomap(2, n_neighbors=8, landmarks=landmarks, metric="precomputed").fit(graph)
    np.testing.assert_allclose(given.embedding_, plain.embedding_, atol=1e-9)
    np.testing.assert_allclose(given.transform(to_new), plain.transform(new), atol=1e-9)
    # A row of the fit is at the stored distance 0 of itself.
    np.testing.assert_allclose(given.transform(graph), given.embedding_, atol=1e-12)


@pytest.mark.parametrize(
    ("finder", "how"),
    [
        (KNeighborsTransformer(n_neighbors=8, mode="distance"), {"n_neighbors": 8}),
        (
            RadiusNeighborsTransformer(radius=1.5, mode="distance"),
            {"n_neighbors": None, "radius": 1.5},
        ),
    ],
    ids=["number", "radius"],
)
def test_transformers_of_neighbours_in_a_pipeline(finder, how):
    X, new = rows_of(), rows_of(15, seed=1)
    ours = make_pipeline(finder, Isomap(metric="precomputed", **how)).fit(X)
    theirs = make_pipeline(finder, peer.Isomap(metric="precomputed", **how)).fit(X)
    np.testing.assert_allclose(
        distances(ours[-1].embedding_), distances(theirs[-1].embedding_), atol=1e-8
    )
    np.testing.assert_allclose(
        distances(ours.transform(new)), distances(theirs.transform(new)), atol=1e-8
    )


@pytest.mark.parametrize("diagonal", [False, True])
def test_no_neighbour_is_taken_for_the_row_itself(diagonal):
    """kneighbors_graph stores no diagonal, KNeighborsTransformer zeros: the graph is the same."""
    X = rows_of()
    graph = kneighbors_graph(X, 6 - diagonal, mode="distance", include_self=diagonal)
    asked = 5 if diagonal else 6
    plain = Isomap(2, n_neighbors=asked - diagonal).fit(X)
    given = Isomap(2, n_neighbors=asked - diagonal, metric="precomputed").fit(graph)
    np.testing.assert_allclose(given.dist_matrix_, plain.dist_matrix_, atol=1e-12)


def test_a_graph_may_store_more_than_is_asked_for():
    X = rows_of()
    graph = kneighbors_graph(X, 12, mode="distance")
    given = Isomap(2, n_neighbors=5, metric="precomputed").fit(graph)
    np.testing.assert_allclose(given.embedding_, Isomap(2).fit(X).embedding_, atol=1e-9)
    wide = radius_neighbors_graph(X, 3.0, mode="distance")
    given = Isomap(2, n_neighbors=None, radius=2.0, metric="precomputed").fit(wide)
    plain = Isomap(2, n_neighbors=None, radius=2.0).fit(X)
    np.testing.assert_allclose(given.embedding_, plain.embedding_, atol=1e-9)


def test_a_fit_on_a_graph_comes_back_from_its_file(tmp_path):
    X = rows_of()
    finder = KNeighborsTransformer(n_neighbors=8, mode="distance").fit(X)
    model = Isomap(2, n_neighbors=8, metric="precomputed").fit(finder.transform(X))
    eg.save(model, tmp_path / "graph.egap")
    new = finder.transform(rows_of(15, seed=1))
    again = eg.load(tmp_path / "graph.egap")
    np.testing.assert_array_equal(again.transform(new), model.transform(new))


def test_a_graph_that_is_none_is_refused():
    X = rows_of(30)
    graph = kneighbors_graph(X, 5, mode="distance")
    model = Isomap(2, n_neighbors=5, metric="precomputed")
    model.fit(graph)
    with pytest.raises(ValueError, match=r"n_neighbors=6.*5 distances of row 0"):
        Isomap(2, n_neighbors=6, metric="precomputed").fit(graph)
    with pytest.raises(ValueError, match=r"n_neighbors=5.*0 distances of row 1"):
        model.transform(scipy.sparse.vstack([graph[:1], scipy.sparse.csr_array((1, 30))]))
    with pytest.raises(ValueError, match="square"):
        model.fit(graph[:20])
    for bad, says in ((np.nan, "NaN"), (-1.0, "Negative values"), (np.inf, "inf")):
        wrong = graph.copy()
        wrong.data[7] = bad
        for use in (Isomap(2, n_neighbors=5, metric="precomputed").fit, model.transform):
            with pytest.raises(ValueError, match=says):
                use(wrong)
    ball = Isomap(2, n_neighbors=None, radius=9.0, metric="precomputed").fit(graph)
    with pytest.raises(DisconnectedError, match=r"1 of 1 new rows.*leaves out"):
        ball.transform(scipy.sparse.csr_array((1, 30)))


@pytest.mark.parametrize("disconnected", ["bridge", "error"])
def test_a_graph_in_pieces_cannot_be_joined(disconnected):
    X = np.vstack([rows_of(20), rows_of(15) + 100.0])
    graph = kneighbors_graph(X, 6, mode="distance")
    model = Isomap(2, n_neighbors=5, metric="precomputed", disconnected=disconnected)
    with pytest.raises(DisconnectedError, match=r"2 components of 20 and 15 rows.*leaves out"):
        model.fit(graph)
    with pytest.raises(RuntimeError, match="number of connected components"):  # scikit-learn's
        model.fit(graph)


@pytest.mark.parametrize(
    "model",
    [
        LaplacianEigenmaps(2, n_neighbors=5, metric="precomputed"),
        eg.MaximumVarianceUnfolding(2, n_neighbors=5, metric="precomputed"),
        eg.StructurePreservingEmbedding(2, metric="precomputed"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_pairs_left_out_are_not_at_distance_0(model):
    """What needs all pairs does not take a graph for a matrix."""
    D = cdist(rows_of(30), rows_of(30))
    with pytest.raises(ValueError, match="X is sparse"):
        model.fit(scipy.sparse.csr_array(np.where(np.median(D) > D, D, 0.0)))


# scikit-learn's search ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [{}, {"metric": "manhattan"}, {"n_neighbors": None, "radius": 2.0}, {"landmarks": 20}],
    ids=str,
)
def test_the_search_is_there_as_scikit_learns(how):
    X = rows_of()
    found = Isomap(2, **how).fit(X).nbrs_
    theirs = peer.Isomap(**{k: v for k, v in how.items() if k != "landmarks"}).fit(X).nbrs_
    assert isinstance(found, NearestNeighbors)
    asked = "radius_neighbors_graph" if "radius" in how else "kneighbors_graph"
    mine, other = (getattr(one, asked)(mode="distance").toarray() for one in (found, theirs))
    np.testing.assert_allclose(mine, other)
