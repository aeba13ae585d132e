"""Descent on an augmented Lagrangian where the objective has no minimum, or no scale of its own."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse

from eigengap import StructurePreservingEmbedding
from eigengap.exceptions import StructureWarning
from eigengap.fitting.sdp.descent import _Memory, descend
from eigengap.fitting.sdp.metric import Metrics
from eigengap.fitting.sdp.problem import Affinity, Penalty, Problem, Variance


@pytest.fixture(autouse=True)
def every_warning_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def soft_path(n, cap):
    """The variance of n points in a row whose steps may be 1 long, at a price beyond."""
    i = np.arange(n - 1)
    combine = scipy.sparse.csr_array(scipy.sparse.eye_array(n - 1))
    none, ones = np.full(n - 1, -np.inf), np.ones(n - 1)
    return Problem(n, i, i + 1, Variance(np.ones(n)), none, ones, combine, cap=cap)


def fiedler(n):
    """lambda_2 of the Laplacian of a path of n nodes."""
    return 4.0 * np.sin(np.pi / (2 * n)) ** 2


def descent(problem, V, *, weight=1.0, slope=1e-4, max_steps=2000):
    penalty = Penalty(problem, np.zeros(len(problem.bounds[0])), weight)
    return descend(Metrics.of(problem, V.shape[1]), penalty, V, slope=slope, max_steps=max_steps)


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
def test_a_price_below_the_gain_ends_the_descent_at_finite_points(share, r):
    """Tr K exceeds cap sum_e D_e along lambda_2's eigenvector where cap < 1 / lambda_2."""
    n = 8
    V = np.random.default_rng(0).normal(size=(n, r))
    found = descent(soft_path(n, share / fiedler(n)), V)
    assert found.unbounded
    assert not found.finished
    assert np.isfinite(found.V).all()
    assert np.isfinite(found.slope)


@pytest.mark.parametrize("share", [1.2, 10.0])
def test_a_price_above_the_gain_bounds_it(share):
    """Then points lie on a line, and its steps are lengthened by what the price does not keep."""
    n = 8
    V = np.random.default_rng(0).normal(size=(n, 2))
    found = descent(soft_path(n, share / fiedler(n)), V, slope=1e-6)
    assert found.finished
    assert not found.unbounded
    assert found.slope <= 1e-6
    assert np.linalg.svd(found.Y, compute_uv=False)[1] < 1e-2


def star_problem(leaves):
    """Affinity of a star at tr K = n, where a centre at the origin leaves nothing to gain."""
    n = leaves + 1
    A = np.zeros((n, n))
    A[0, 1:] = A[1:, 0] = 1.0
    i, j = np.zeros(leaves, dtype=np.int64), np.arange(1, n)
    none = scipy.sparse.csr_array((0, leaves))
    return Problem(
        n, i, j, Affinity(scipy.sparse.csr_array(A)), np.empty(0), np.empty(0), none, total=1.0
    )


@pytest.mark.parametrize("centre", [0.0, 1e-170, 1e-155, 1e-120, 1e-30])
def test_a_gradient_below_rounding_counts_as_none(centre):
    """C Y and the gradient vanish together with the centre: their ratio says nothing."""
    problem = star_problem(4)
    ring = np.sqrt(5 / 4) * np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    V = np.vstack([[[centre, 0.0]], ring])
    found = descent(problem, V, weight=10.0)
    assert found.finished
    assert found.steps == 0
    np.testing.assert_allclose(found.Y[1:], ring, atol=1e-15)


@pytest.mark.parametrize("size", [1e-160, 1e-100, 1.0, 1e100, 1e160])
def test_the_memory_of_curvature_has_no_unit(size):
    """Pairs tell the Hessian: the length of the step that showed it cancels."""

    class Plain:
        def solve(self, G):
            return G

    rng = np.random.default_rng(1)
    H = np.diag([1.0, 4.0, 9.0])
    steps = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    memory = _Memory(Plain())
    for step in steps:
        memory.learn(size * step[:, None], size * (H @ step[:, None]))
    newest = steps[-1][:, None]  # the secant equation holds for the last pair
    np.testing.assert_allclose(memory.times_inverse(H @ newest), newest, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("graph", ["nearest_neighbors", "threshold"])
@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("nodes", [6, 12])
def test_a_low_price_of_the_structure_is_no_overflow(graph, C, nodes):
    A = np.diag(np.ones(nodes - 1, dtype=int), 1)
    model = StructurePreservingEmbedding(2, affinity="precomputed", graph=graph, C=C)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)
        model.fit(A + A.T)
    assert np.isfinite(model.embedding_).all()
    # Edges are at most 1 long, and missing that by some is what a low price buys; not by decades.
    assert np.abs(model.embedding_).max() < 10 * nodes
