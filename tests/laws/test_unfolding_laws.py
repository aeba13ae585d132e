"""What holds for every unfolding: symmetries, new rows, gaps, the ways of naming the same thing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import pairwise_distances

from eigengap.estimators.unfolding import MaximumVarianceUnfolding
from eigengap.exceptions import UncertainNeighboursWarning
from eigengap.fitting.graph.local_weights import (
    affine_weights,
    inner_products_about,
    local_weights,
    positive_part,
)
from eigengap.fitting.sdp.unfolding import unfold
from eigengap.fitting.sdp.unfolding_landmarks import reconstruction_basis
from eigengap.runtime.warnings import silence


def surface(n, seed=0):
    """Rows of an arch of length 3 and width 1."""
    rng = np.random.default_rng(seed)
    t, h = rng.uniform(0.0, 3.0, size=n), rng.uniform(size=n)
    return np.column_stack([np.cos(t), np.sin(t), h]), np.column_stack([t, h])


X, T = surface(120)
FIT = MaximumVarianceUnfolding(n_neighbors=6, tol=1e-4).fit(X)


def gram(Z):
    return Z @ Z.T


def same(Z, aim, rel):
    return np.linalg.norm(gram(Z) - gram(aim)) <= rel * np.linalg.norm(gram(aim))


# Symmetries ------------------------------------------------------------------------------------


def test_shifts_and_rotations_change_nothing():
    Q = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    moved = MaximumVarianceUnfolding(n_neighbors=6, tol=1e-4).fit(X @ Q + [1e3, -5.0, 7.0])
    assert same(moved.embedding_, FIT.embedding_, 1e-2)


def test_a_scale_is_a_scale():
    larger = MaximumVarianceUnfolding(n_neighbors=6, tol=1e-4).fit(1e4 * X)
    assert same(larger.embedding_ / 1e4, FIT.embedding_, 1e-2)
    assert larger.constraint_violation_ == pytest.approx(FIT.constraint_violation_, rel=0.5)


def test_the_order_of_rows_is_of_no_account():
    order = np.random.default_rng(2).permutation(len(X))
    other = MaximumVarianceUnfolding(n_neighbors=6, tol=1e-4).fit(X[order])
    assert same(other.embedding_, FIT.embedding_[order], 1e-2)


def test_coordinates_are_principal_and_centred():
    Z = FIT.embedding_
    assert np.allclose(Z.mean(axis=0), 0.0, atol=1e-9)
    scatter = Z.T @ Z
    assert abs(scatter[0, 1]) < 1e-8 * scatter[0, 0]
    assert np.allclose(np.diag(scatter), FIT.eigenvalues_[:2])
    assert np.all(np.diff(FIT.eigenvalues_) <= 0.0)


def test_lengths_of_edges_are_what_the_report_says():
    found = unfold(FIT.graph_, "equal", tol=1e-5)
    i, j, lengths = FIT.graph_.edges
    off = np.abs(np.sum((found.Z[i] - found.Z[j]) ** 2, axis=1) - lengths**2)
    off /= np.maximum(lengths, np.median(lengths)) ** 2
    assert np.max(off) == pytest.approx(found.worst, rel=1e-6)
    assert np.sqrt(np.mean(off**2)) == pytest.approx(found.rms, rel=1e-6)


def normal_rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def flat_rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-5])
@pytest.mark.parametrize("constraint", ["equal", "at_most"])
@pytest.mark.parametrize(
    "rows",
    [
        normal_rows(14, 3),
        flat_rows(30, 4),
        normal_rows(25, 3, 1),
        np.tile(normal_rows(12, 2, 2), (2, 1)),
        normal_rows(30, 4, 3) * [1.0, 10.0, 0.1, 100.0],
    ],
    ids=["normal", "flat", "more rows", "repeated", "scales"],
)
def test_converged_means_that_squared_lengths_are_within_tol(rows, constraint, tol):
    """In root mean square, which is what `tol` bounds; from the graph, as a user would check."""
    model = MaximumVarianceUnfolding(n_neighbors=4, constraint=constraint, tol=tol)
    with silence():
        model.fit(rows)
        found = unfold(model.graph_, constraint, columns=model.rank_, tol=tol)
    assert model.converged_ <= (model.constraint_violation_rms_ <= tol)
    i, j, lengths = model.graph_.edges
    i, j, lengths = (part[lengths > 0.0] for part in (i, j, lengths))
    off = np.sum((found.Z[i] - found.Z[j]) ** 2, axis=1) - lengths**2
    off = np.abs(off) if constraint == "equal" else np.maximum(off, 0.0)
    off /= np.maximum(lengths, np.median(lengths)) ** 2
    if found.converged and len(np.unique(rows, axis=0)) == len(rows):
        assert np.sqrt(np.mean(off**2)) <= tol * (1.0 + 1e-6)


@pytest.mark.parametrize("constraint", ["equal", "at_most"])
def test_fits_that_are_expected_to_converge_do(constraint):
    rows = {"equal": normal_rows(14, 3), "at_most": flat_rows(30, 4)}[constraint]
    assert MaximumVarianceUnfolding(n_neighbors=4, constraint=constraint).fit(rows).converged_


def test_repeated_rows_come_to_lie_on_each_other():
    twice = np.vstack([X, X[:10]])
    Z = MaximumVarianceUnfolding(n_neighbors=6).fit_transform(twice)
    assert np.array_equal(Z[:10], Z[-10:])


def test_distances_may_be_given():
    given = MaximumVarianceUnfolding(n_neighbors=6, metric="precomputed")
    Z = given.fit_transform(pairwise_distances(X))
    assert same(Z, FIT.embedding_, 1e-2)


def test_angles_among_neighbours_are_kept_too():
    plain = MaximumVarianceUnfolding(n_neighbors=4).fit(X)
    rigid = MaximumVarianceUnfolding(n_neighbors=4, preserve_angles=True).fit(X)
    assert rigid.graph_.m > 1.5 * plain.graph_.m
    i, j, lengths = rigid.graph_.edges
    assert np.allclose(lengths, np.linalg.norm(X[i] - X[j], axis=1))
    assert np.sum(rigid.eigenvalues_) <= np.sum(plain.eigenvalues_) * (1 + 1e-3)


# New rows --------------------------------------------------------------------------------------


def test_fitted_rows_keep_their_coordinates():
    assert np.array_equal(FIT.transform(X), FIT.embedding_)


@pytest.mark.parametrize("metric", ["cosine", "correlation", "manhattan", "chebyshev"])
def test_fitted_rows_keep_their_coordinates_by_other_metrics(metric):
    rows = np.random.default_rng(8).uniform(1.0, 3.0, size=(40, 4))
    model = MaximumVarianceUnfolding(n_neighbors=5, metric=metric, tol=1e-2, max_iter=5)
    with silence():
        model.fit(rows)
    assert np.allclose(model.transform(rows), model.embedding_, rtol=0.0, atol=1e-12)
    near = model.transform(rows + 1e-3)
    assert np.max(np.abs(near)) < 2.0 * np.max(np.abs(model.embedding_))


def test_weights_stay_bounded_where_no_points_have_the_distances():
    rng = np.random.default_rng(9)
    to = rng.uniform(1.0, 2.0, size=(200, 6))
    among = rng.uniform(1.0, 2.0, size=(200, 6, 6)) * (1.0 - np.eye(6))
    G = inner_products_about(to, 0.5 * (among + among.transpose(0, 2, 1)))
    assert np.linalg.eigvalsh(G).min() < -0.1
    part = positive_part(G)
    assert np.linalg.eigvalsh(part).min() > -1e-12
    w = affine_weights(part)
    assert np.allclose(w.sum(axis=1), 1.0)
    assert np.percentile(np.abs(w).max(axis=1), 90) < 3.0


def test_rows_far_away_come_to_lie_among_their_neighbours():
    far = FIT.transform(np.vstack([X[:3] + 1e3, X[:3] - 1e9]))
    assert np.all(np.isfinite(far))
    assert np.max(np.abs(far)) < 2.0 * np.max(np.abs(FIT.embedding_))


def test_new_rows_come_to_lie_among_their_neighbours():
    new, place = surface(40, seed=5)
    inside = (place[:, 0] > 0.2) & (place[:, 0] < 2.8) & (np.abs(place[:, 1] - 0.5) < 0.4)
    A = np.column_stack([np.ones(len(T)), T])
    to_plane = np.linalg.lstsq(A, FIT.embedding_, rcond=None)[0]  # flat: an affine map
    aim = np.column_stack([np.ones(len(new)), place]) @ to_plane
    off = np.linalg.norm(FIT.transform(new) - aim, axis=1)[inside]
    assert np.median(off) < 0.05


def test_a_new_row_on_a_line_comes_to_lie_on_it():
    t = np.linspace(0.0, 1.0, 21)
    model = MaximumVarianceUnfolding(1, n_neighbors=2, tol=1e-7).fit(np.outer(t, [1.0, 2.0]))
    Z = model.embedding_[:, 0]
    slope, at = np.polyfit(t, Z, 1)
    new = np.array([0.12, 0.5, 0.77])
    found = model.transform(np.outer(new, [1.0, 2.0]))[:, 0]
    assert np.allclose(found, slope * new + at, atol=2e-3)


def test_locally_linear_weights_reproduce_what_neighbours_span():
    rng = np.random.default_rng(6)
    Y = rng.normal(size=(7, 4, 3))
    w = rng.uniform(size=(7, 4))
    w /= w.sum(axis=1, keepdims=True)
    x = np.einsum("ck,ckd->cd", w, Y)
    to = np.linalg.norm(Y - x[:, None], axis=2)
    among = np.linalg.norm(Y[:, :, None] - Y[:, None], axis=3)
    found = affine_weights(inner_products_about(to, among), ridge=1e-12)
    assert np.allclose(found, w, atol=1e-5)


def test_a_basis_shifts_with_its_landmarks_and_holds_them():
    W = local_weights(FIT._neighbours, FIT._neighbours.among(), False)
    assert np.allclose(W.sum(axis=1), 1.0)
    landmarks = np.arange(0, 120, 6)
    Q = reconstruction_basis(W, landmarks)
    assert np.allclose(Q.sum(axis=1), 1.0)
    assert np.array_equal(Q[landmarks], np.eye(len(landmarks)))
    # What is harmonic for the weights, affine functions of the rows nearly so, comes back.
    back = Q @ X[landmarks]
    assert np.median(np.abs(back - X)) < 0.1


# Gaps and types --------------------------------------------------------------------------------


def test_missing_are_filled_and_told_where_that_is_a_guess():
    holes = X.copy()
    holes[::10, 0] = np.nan
    with pytest.warns(UncertainNeighboursWarning, match="guesses"):
        Z = MaximumVarianceUnfolding(n_neighbors=6).fit_transform(holes)
    assert np.all(np.isfinite(Z))


def test_single_precision_comes_back():
    Z = MaximumVarianceUnfolding(n_neighbors=6, max_iter=10).fit_transform(X.astype(np.float32))
    assert Z.dtype == np.float32


def test_seeds_repeat():
    again = MaximumVarianceUnfolding(n_neighbors=6, tol=1e-4).fit(X)
    assert np.array_equal(again.embedding_, FIT.embedding_)
