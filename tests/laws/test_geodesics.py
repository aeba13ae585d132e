"""Shortest paths: compiled and by SciPy bit for bit, the laws of a metric, landmarks."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

import eigengap
from eigengap.compiled import choice
from eigengap.compiled import geodesics as compiled
from eigengap.fitting.graph.isomap import geodesics, paths_to, spread_out
from eigengap.fitting.graph.neighbourhood import bridged, undirected
from eigengap.fitting.graph.neighbours import Neighbours, Search
from eigengap.models.maps.graph import Graph

SOURCE = Path(eigengap.__file__).parents[1]


def rows_of(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def near(X, k, joined=True):
    """The graph of the k nearest neighbours."""
    neighbours = Neighbours.of(Search(n_neighbors=k), X)
    graph = undirected(neighbours.among())
    return bridged(graph, neighbours.pairs) if joined else graph


def arguments(graph):
    return graph.indptr, graph.indices, graph.lengths


def roll(n):
    rng = np.random.default_rng(1)
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    return np.column_stack([t * np.cos(t), 21 * rng.random(n), t * np.sin(t)])


def two_scales(n, small=0.5, ratio=1e-3):
    """Rows of which most are crowded together: a typical length is that of few edges."""
    crowded = int(small * n)
    return np.concatenate([ratio * rows_of(crowded, 2), rows_of(n - crowded, 2, 1)])


def drawn(n, m, lengths):
    """A graph without geometry, in which neighbours see the rest in quite different orders."""
    rng = np.random.default_rng(3)
    low, high = np.triu_indices(n, 1)
    some = np.sort(rng.choice(len(low), m, replace=False))
    return Graph.of_edges(n, low[some], high[some], lengths(rng, m))


def two_clusters():
    return np.concatenate([rows_of(70, 3), rows_of(50, 3, 1) + 40.0])


GRAPHS = {
    "roll": lambda: near(roll(700), 6),
    "many dimensions": lambda: near(rows_of(300, 30), 7),
    "heavy tails": lambda: near(np.random.default_rng(0).standard_cauchy((300, 2)), 5),
    "rows that coincide": lambda: near(np.repeat(rows_of(40, 2), 6, axis=0), 4),
    "rows that all but coincide": lambda: near(
        np.repeat(rows_of(60, 3), 5, axis=0) + 1e-12 * rows_of(300, 3, 1), 4
    ),
    "all lengths 0": lambda: near(np.zeros((60, 2)), 3),
    "two components": lambda: near(two_clusters(), 4, joined=False),
    "long bridges": lambda: near(np.concatenate([rows_of(80, 2), rows_of(80, 2) + 1e12]), 4),
    "two scales": lambda: near(two_scales(400), 6),
    "few rows apart": lambda: near(two_scales(400, 0.85, 1e-6), 6),
    "1e-12 beside 1e12": lambda: near(1e12 * two_scales(300, 0.5, 1e-24), 6),
    "lengths of all sizes": lambda: near(np.exp(5.0 * rows_of(300, 3)), 6),
    "a star": lambda: Graph.of_edges(
        300, np.zeros(299, dtype=np.int64), np.arange(1, 300), np.abs(rows_of(299, 1)[:, 0])
    ),
    "drawn": lambda: drawn(300, 1500, lambda rng, m: rng.random(m)),
    "drawn of all sizes": lambda: drawn(200, 3000, lambda rng, m: np.exp(10 * rng.normal(size=m))),
    "drawn and whole": lambda: drawn(200, 2000, lambda rng, m: rng.integers(3, size=m) + 0.0),
    "complete": lambda: near(rows_of(90, 4), 89),
    "a path": lambda: near(np.sort(rows_of(200, 1), axis=0), 1),
    "nodes alone": lambda: Graph.of_edges(
        50, np.array([3, 3, 8]), np.array([4, 8, 4]), np.array([1.0, 2.5, 1.25])
    ),
    "no edges": lambda: Graph.of_edges(
        4, np.array([], dtype=np.int64), np.array([], dtype=np.int64), np.array([])
    ),
    "one node": lambda: Graph.of_edges(1, np.array([0]), np.array([0]), np.array([1.0])),
}


def scipys(graph, indices=None):
    """SciPy itself, from the stored matrix, as a check on both of ours."""
    return dijkstra(scipy.sparse.csr_array(graph.csr()), directed=False, indices=indices)


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("name", GRAPHS)
def test_equal_to_scipy_to_the_last_digit(name, mode, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, mode)
    graph = GRAPHS[name]()
    D = compiled.all_pairs(*arguments(graph))
    expected = scipys(graph)
    np.testing.assert_array_equal(D, expected)
    sources = np.random.default_rng(0).integers(graph.n, size=7)  # some of them twice
    some = compiled.from_sources(*arguments(graph), sources)
    np.testing.assert_array_equal(some, expected[sources])


WIDTHS = {
    "wide": ((32, np.inf),),
    "narrow": ((32, 0.0), (16, np.inf)),
    "one by one": ((32, 0.0), (16, 0.0)),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("often", [0.0, 1.05, np.inf], ids=["all given up", "some", "none"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_neither_threads_nor_groups_change_a_digit(width, often, n_jobs, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "always")
    monkeypatch.setattr(compiled, "WIDTHS", WIDTHS[width])
    monkeypatch.setattr(compiled, "OFTEN", often)
    graph = near(roll(600), 5)
    np.testing.assert_array_equal(compiled.all_pairs(*arguments(graph), n_jobs), scipys(graph))


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_are_relaxed_a_few_times_at_most_whatever_the_graph(name):
    """Beyond that a group is given up: nothing but the last node can go over what is allowed."""
    graph = GRAPHS[name]()
    at = compiled._Numbered.of(*arguments(graph))
    members, starts = np.empty(graph.n, np.int32), np.empty(graph.n + 1, np.int32)
    kernels = compiled.KERNELS.load()
    count = kernels.grouped(at.indptr, at.nodes, 32, members, starts)
    degree = np.diff(graph.indptr).max(initial=0)
    D = np.empty((graph.n, graph.n))
    for g in range(count):
        often = kernels.in_groups(
            *at.graph, members, starts, g, g + 1, 128, 4.0, at.place, at.name, D
        )
        edges = np.sum(np.diff(graph.indptr)[np.isfinite(D[at.name[members[starts[g]]]])])
        allowed = 4.0 * edges + degree + graph.n // 32
        assert often * edges <= allowed + 1e-9 * edges
    np.testing.assert_array_equal(D, scipys(graph))


def test_groups_that_go_back_for_ever_are_met_among_these_graphs():
    """Otherwise the test above would say nothing."""
    graph = GRAPHS["drawn of all sizes"]()
    at = compiled._Numbered.of(*arguments(graph))
    members, starts = np.empty(graph.n, np.int32), np.empty(graph.n + 1, np.int32)
    kernels = compiled.KERNELS.load()
    kernels.grouped(at.indptr, at.nodes, 32, members, starts)
    rest = members, starts, 0, 1, 128, np.inf, at.place, at.name, np.empty((graph.n, graph.n))
    assert kernels.in_groups(*at.graph, *rest) > 10.0


@pytest.mark.parametrize(
    ("name", "expected"), [("roll", 32), ("many dimensions", 16), ("drawn of all sizes", 0)]
)
def test_width_of_groups(name, expected, monkeypatch):
    """Wide on a surface, narrow in many dimensions, none where no two nodes see the same order."""
    kernels, asked = compiled.KERNELS.load(), []

    class Watched:
        in_groups = staticmethod(kernels.in_groups)

        @staticmethod
        def grouped(indptr, nodes, lanes, *rest):
            asked.append(lanes)
            return kernels.grouped(indptr, nodes, lanes, *rest)

        @staticmethod
        def one_by_one(*rest):
            if 0 not in asked:
                asked.append(0)
            return kernels.one_by_one(*rest)

    monkeypatch.setattr(compiled.KERNELS, "loaded", Watched)
    monkeypatch.setenv(choice.VARIABLE, "always")
    compiled.all_pairs(*arguments(GRAPHS[name]()), 1)
    assert asked[-1] == expected


@pytest.mark.parametrize("window", [1, 7, 10_000])
def test_the_window_changes_no_digit(window, monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "always")
    monkeypatch.setattr(compiled, "WINDOW", window)
    graph = near(rows_of(300, 10), 6)
    np.testing.assert_array_equal(compiled.all_pairs(*arguments(graph)), scipys(graph))


def test_groups_hold_every_node_once_and_are_near():
    graph = near(roll(1000), 8)
    at = compiled._Numbered.of(*arguments(graph))
    np.testing.assert_array_equal(at.name[at.place], np.arange(1000))
    members, starts = np.empty(1000, np.int32), np.empty(1001, np.int32)
    count = compiled.KERNELS.load().grouped(at.indptr, at.nodes, 16, members, starts)
    np.testing.assert_array_equal(np.sort(members), np.arange(1000))
    sizes = np.diff(starts[: count + 1])
    assert sizes.max() <= 16
    assert sizes.mean() > 12
    D = scipys(graph)[np.ix_(at.name, at.name)]
    ends = itertools.pairwise(starts[: count + 1])
    within = np.mean([D[members[a], members[a:b]].mean() for a, b in ends])
    assert within < 0.2 * D.mean()


def test_floyd_and_warshall_agree():
    for name in ("heavy tails", "rows that coincide", "two components"):
        graph = GRAPHS[name]()
        np.testing.assert_allclose(geodesics(graph, "FW"), scipys(graph), rtol=1e-12)


points = st.integers(8, 40).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2), min_size=n, max_size=n
    )
)


@settings(deadline=None, max_examples=40)
@given(points, st.integers(1, 6), st.booleans())
def test_geodesics_are_a_metric_never_shorter_than_the_straight_line(rows, k, always):
    """Not shorter than straight lines, not longer than edges, symmetric, with triangles."""
    X = np.array(rows, dtype=float)
    graph = near(X, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(choice.VARIABLE, "always" if always else "never")
        D = compiled.all_pairs(*arguments(graph))
    slack = 1e-10 * max(float(D.max()), 1.0)
    assert np.all(np.isfinite(D))
    assert np.all(np.diag(D) == 0.0)
    np.testing.assert_allclose(D, D.T, atol=slack)
    assert np.all(cdist(X, X) - slack <= D)
    through = np.min(D[:, :, None] + D[None, :, :], axis=1)
    assert np.all(through + slack >= D)
    low, high, lengths = graph.edges
    assert np.all(D[low, high] <= lengths)


# Landmarks ----------------------------------------------------------------------------------


def test_paths_to_landmarks_are_columns_of_all_paths():
    graph = near(roll(500), 6)
    landmarks = spread_out(graph, 20, np.random.default_rng(0))
    np.testing.assert_array_equal(paths_to(graph, landmarks), scipys(graph)[landmarks].T)


@pytest.mark.parametrize("m", [1, 2, 3, 40, 500])
def test_as_many_landmarks_as_asked_for_all_different(m):
    graph = near(roll(500), 6)
    landmarks = spread_out(graph, m, np.random.default_rng(0))
    assert len(landmarks) == m
    assert np.all(np.diff(landmarks) > 0)
    again = spread_out(graph, m, np.random.default_rng(0))
    np.testing.assert_array_equal(landmarks, again)


def test_landmarks_cover_the_graph_better_than_a_draw():
    """k-means++ minimises the mean square of the distance to the nearest landmark."""
    X = np.concatenate([rows_of(950, 2), 30.0 + rows_of(50, 2, 1)])  # few rows lie far away
    graph = near(X, 8)
    D = scipys(graph)
    rng = np.random.default_rng(0)
    spread = [np.mean(D[spread_out(graph, 15, rng)].min(axis=0) ** 2) for _ in range(10)]
    drawn = [np.mean(D[rng.choice(1000, 15, replace=False)].min(axis=0) ** 2) for _ in range(10)]
    assert np.mean(spread) < 0.9 * np.mean(drawn)


def test_no_more_landmarks_are_drawn_once_every_row_coincides_with_one():
    graph = near(np.repeat(rows_of(5, 2), 10, axis=0), 12)
    landmarks = spread_out(graph, 40, np.random.default_rng(0))
    assert len(landmarks) < 40
    np.testing.assert_array_equal(np.unique(landmarks // 10), np.arange(5))


# The choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "entries", "sources", "grouped", "cached", "expected"),
    [
        (500, 5_000, 500, True, True, False),  # milliseconds
        (4_000, 30_000, 4_000, True, True, True),
        (4_000, 30_000, 4_000, True, False, False),  # compiling would take longer
        (20_000, 150_000, 20_000, True, False, True),
        (10_000, 60_000, 100, False, True, False),
        (100_000, 700_000, 200, False, True, True),
    ],
)
def test_auto_compares_the_gain_with_the_price(
    monkeypatch, n, entries, sources, grouped, cached, expected
):
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.setattr(compiled.KERNELS, "loaded", None)
    monkeypatch.setattr(choice, "is_cached", lambda module: cached)
    assert compiled._pays(n, entries, sources, grouped) is expected


def test_more_entries_than_the_kernel_can_number_go_to_scipy(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "always")
    assert not compiled._pays(10, compiled.LARGEST + 1, 10, True)


def run_python(code: str, **environment: str) -> str:
    """Standard output of `code` in a fresh interpreter."""
    kept = {k: v for k, v in os.environ.items() if k != choice.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**kept, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SMALL = """
import sys
import numpy as np
from eigengap.estimators.isomap import Isomap
Isomap().fit(np.random.default_rng(0).normal(size=(300, 3)))
print("numba" in sys.modules)
"""


def test_small_work_never_imports_numba():
    assert run_python(SMALL) == "False"


def test_a_second_process_loads_what_the_first_compiled():
    compiled.KERNELS.load()
    code = """
    from eigengap.compiled import choice, geodesics, geodesics_numba
    kernels = (geodesics_numba.grouped, geodesics_numba.in_groups, geodesics_numba.one_by_one)
    hits = [sum(k.stats.cache_hits.values()) for k in kernels]
    print(choice.is_cached(geodesics.KERNELS.module), hits)
    """
    assert run_python(code) == "True [1, 1, 1]"


def test_markers_of_two_kernels_are_two(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    index = tmp_path / "kernel.nbi"
    index.write_bytes(b"")
    choice._leave_marker(index, compiled.KERNELS.module)
    assert choice.is_cached(compiled.KERNELS.module)
    assert not choice.is_cached("posterior_numba")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forked_children_work_after_the_parent_has_had_threads():
    code = """
    import multiprocessing
    import numpy as np
    from eigengap.compiled import geodesics
    from eigengap.models.maps.graph import Graph
    i = np.arange(399)
    g = Graph.of_edges(400, i, i + 1, np.ones(399))
    truth = np.abs(np.arange(400)[:, None] - np.arange(400))
    def one(_):
        return np.array_equal(geodesics.all_pairs(g.indptr, g.indices, g.lengths, 2), truth)
    assert one(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(all(pool.map_async(one, range(8)).get(timeout=60)), one(0))
    """
    assert run_python(code, **{choice.VARIABLE: "always"}) == "True True"
