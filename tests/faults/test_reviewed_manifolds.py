"""Cases that reviewers of the non-linear methods found; each went wrong once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

import eigengap as eg


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_one_figure_takes_one_size_of_neighbourhood():
    X = normal(40, 3)
    for figure in (eg.trustworthiness, eg.continuity, eg.neighbour_recall):
        with pytest.raises(ValueError, match=r"one integer here, got .* embedding_quality takes"):
            figure(X, X[:, :2], n_neighbors=[5, 10])


def test_quality_says_which_distances_it_compared():
    X = normal(40, 3)
    assert "euclidean distances: residual" in repr(eg.embedding_quality(X, X[:, :2]))
    D = np.abs(X[:, None, 0] - X[:, 0])
    assert "given distances: residual" in repr(eg.embedding_quality(X, X[:, :2], distances=D))
    with pytest.raises(ValueError, match="residual_variance_"):
        eg.embedding_quality(X, X[:, :2], distances=D[:, :5])


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e160, 1e200])
def test_quality_of_distances_whose_squares_leave_the_range_is_refused(size):
    X, Z = normal(60, 30), normal(60, 2, seed=1)
    incomplete = np.where(normal(60, 30, seed=2) < -1.3, np.nan, X)
    for far, near in ((X * size, Z), (X, Z * size), (incomplete * size, Z)):
        with pytest.raises(ValueError, match="flow: the largest range of a column is"):
            eg.trustworthiness(far, near)


def sized(message):
    """The number that a message names, in the sentence before the advice."""
    return float(message.split(". Rescale")[0].split()[-1])


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_what_a_message_calls_the_largest_is_the_largest(size):
    X = normal(60, 30) * size
    ranges = np.ptp(X, axis=0).max()
    for call in (
        lambda: eg.trustworthiness(X, X[:, :2]),
        lambda: eg.trustworthiness(np.where(normal(60, 30, seed=2) < -1.3, np.nan, X), X[:, :2]),
        lambda: eg.Isomap(2).fit(X),
        lambda: eg.LaplacianEigenmaps(2).fit(X),
    ):
        with pytest.raises(ValueError, match="squared distances between rows") as caught:
            call()
        assert "the largest range of a column is" in str(caught.value)
        assert 0.8 * ranges <= sized(str(caught.value)) <= 1.005 * ranges
    D = np.abs(X[:, None, 0] - X[:, 0])
    with pytest.raises(ValueError, match=r"squares of these distances .* the largest is") as caught:
        eg.Isomap(2, metric="precomputed").fit(D)
    assert sized(str(caught.value)) == pytest.approx(D.max(), rel=0.005)
    gram = np.diag(np.full(20, 1e305 if size > 1.0 else 1e-305))
    with pytest.raises(ValueError, match=r"inner products are too .* the largest abs") as caught:
        eg.ClassicalMDS(2, metric="gram").fit(gram)
    assert "distances" not in str(caught.value)


def test_a_range_beyond_float64_is_not_called_infinite():
    X = normal(40, 3)
    X[0, 0], X[1, 0] = 1.5e308, -1.5e308
    with pytest.raises(ValueError, match=r"column is more than 1\.79e\+308\. .* X / 1e300"):
        eg.Isomap(2).fit(X)


def test_new_rows_that_are_too_large_are_named_by_their_values():
    X = normal(60, 3)
    with pytest.raises(ValueError, match="the largest absolute value is") as caught:
        eg.Isomap(2).fit(X).transform(X[:5] * 1e200)
    assert sized(str(caught.value)) == pytest.approx(np.abs(X[:5] * 1e200).max(), rel=0.005)


def test_squared_distances_are_squared():
    X = normal(60, 8)
    far, near = pdist(X, "sqeuclidean"), pdist(X[:, :2])
    expected = 1.0 - np.corrcoef(far, near)[0, 1] ** 2
    found = eg.residual_variance(X, X[:, :2], metric="sqeuclidean")
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_points_on_a_line_are_not_mirrored_unless_they_may_be():
    line = np.array([[0.0], [1.0], [3.0]])
    assert eg.procrustes_distance(line, -line) < 1e-12
    laid = eg.align(line, -line, reflection=False)
    assert laid.scale == 0.0
    assert laid.disparity == 1.0


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_shape_knows_no_size(size):
    A, B = normal(40, 3), normal(40, 3, seed=1)
    found = eg.procrustes_distance(A * size, B)
    np.testing.assert_allclose(found, eg.procrustes_distance(A, B), rtol=1e-10)


@pytest.mark.parametrize("kind", [eg.Isomap, eg.LaplacianEigenmaps], ids=["isomap", "laplacian"])
def test_names_of_several_types_are_refused_before_the_work(kind, monkeypatch):
    frame = pd.DataFrame(normal(30, 3), columns=["a", 1, "b"])
    model = kind(2, n_neighbors=8)
    monkeypatch.setattr(kind, "_fit_rows", lambda *_: pytest.fail("it was fitted"))
    with pytest.raises(TypeError, match="feature names"):
        model.fit(frame)


def test_linear_latents_of_many_rows_need_no_pairs():
    X = normal(20_000, 2) @ normal(2, 6) + 0.1 * normal(20_000, 6, seed=1)
    model = eg.GPLVM(2, kernel="linear").fit(X)
    assert model.model_.support.shape == (2, 2)
    filled = X[:20].copy()
    filled[:, 0] = np.nan
    found, sd = model.impute(filled, return_std=True)
    assert np.mean(np.abs(found[:, 0] - X[:20, 0]) < 3.0 * sd[:, 0]) >= 0.9
