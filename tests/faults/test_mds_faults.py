"""Bad input to ClassicalMDS: named with its cell and a way out, never a silent wrong answer."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from eigengap.estimators.classical_mds import ClassicalMDS
from eigengap.exceptions import DoesNotFitError, NegativeEigenvaluesWarning
from eigengap.fitting.graph import distances as _distances
from eigengap.runtime import memory

pytestmark = pytest.mark.filterwarnings("ignore:negative eigenvalues hold")


def table(n=12, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def distances(n=12):
    return cdist(table(n), table(n))


def refused(X, *words, metric="precomputed", **params):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are looked at below
        ClassicalMDS(2, metric=metric, **params).fit(X)
    for word in words:
        assert word in str(caught.value), caught.value


def with_cells(X, value, *cells):
    X = X.copy()
    for cell in cells:
        X[cell] = value
    return X


def test_a_hundred_thousand_points_are_refused_before_anything_is_allocated(monkeypatch):
    """Scorecard T29."""
    monkeypatch.setattr(_distances, "pairwise_distances", None)
    monkeypatch.setattr(memory, "free_memory", lambda: 64 << 30)
    X = np.zeros((100_000, 2))
    X[:, 0] = np.arange(100_000)
    with pytest.raises(DoesNotFitError, match=r"280\.0 GB .* 68\.7 GB are free: fit a sample"):
        ClassicalMDS(2, metric="manhattan").fit(X)
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000)
    with pytest.raises(DoesNotFitError, match="classical scaling of 40 rows"):
        ClassicalMDS(2, metric="precomputed").fit(distances(40))
    assert ClassicalMDS(1).fit(X).embedding_.shape == (100_000, 1)  # Euclidean rows need no pairs


def test_a_hole_in_the_distances_is_told_by_its_pair():
    D = with_cells(distances(), np.nan, (3, 7), (7, 3))
    refused(D, "NaN", "row 3, column 7", "1 more", "Drop", "shortest way")
    names = [f"c{j}" for j in range(12)]
    refused(pd.DataFrame(D, columns=names), 'row 3, column "c7"')
    refused(with_cells(distances(), np.nan, (3, 7)), "inner product", metric="gram")


def test_codes_for_holes_are_holes():
    D = with_cells(distances(), -999.0, (3, 7), (7, 3))
    refused(D, "row 3, column 7 is not known", missing_values=-999)


def test_asymmetric_distances():
    D = with_cells(distances(), 9.0, (2, 5))
    refused(D, "not symmetric: 9 at row 2, column 5", "at row 5, column 2", "(X + X.T) / 2")
    refused(with_cells(np.eye(4), 1.0, (0, 3)), "not symmetric", metric="gram")
    nearly = distances()
    nearly[2, 5] *= 1 + 1e-12
    ClassicalMDS(2, metric="precomputed").fit(nearly)


def test_cells_are_counted_with_the_absent_points():
    w = np.ones(12)
    w[[0, 3]] = 0.0
    D = with_cells(distances(), 9.0, (4, 7), (0, 5))  # the second is of a point that is absent
    with pytest.raises(ValueError, match="9 at row 4, column 7, but"):
        ClassicalMDS(2, metric="precomputed").fit(D, sample_weight=w)
    names = [f"c{j}" for j in range(12)]
    with pytest.raises(ValueError, match='row 7, column "c4"'):
        ClassicalMDS(2, metric="precomputed").fit(pd.DataFrame(D, columns=names), sample_weight=w)


def test_asymmetry_is_found_wherever_it_is(monkeypatch):
    D = with_cells(distances(12), 9.0, (11, 4))
    from eigengap.fitting.graph import pairs

    monkeypatch.setattr(pairs, "ROWS", 5)
    refused(D, "row 4, column 11", "9 at row 11, column 4")


def test_negative_distances():
    D = with_cells(distances(), -0.5, (2, 5), (5, 2))
    refused(D, "-0.5 at row 2, column 5", 'metric="gram"')
    mds = ClassicalMDS(2, metric="precomputed").fit(distances())
    with pytest.raises(ValueError, match=r"-1 at row 1, column 3"):
        mds.transform(with_cells(distances()[:4], -1.0, (1, 3)))


def test_a_point_is_at_no_distance_of_itself():
    D = with_cells(distances(), 0.25, (4, 4))
    refused(D, "point 4 to itself is 0.25", "row 4, column 4", 'metric="gram"', "sqrt(2 - 2 s)")
    refused(np.abs(np.corrcoef(table())), "point 0 to itself is 1")


def test_pairs_must_be_square_and_new_ones_as_wide():
    refused(distances()[:5], "square", "(5, 12)", "transform")
    refused(table(), "square", "(12, 4)", metric="gram")
    mds = ClassicalMDS(2, metric="precomputed").fit(distances())
    with pytest.raises(ValueError, match="X has 5 features, but ClassicalMDS is expecting 12"):
        mds.transform(distances()[:, :5])
    with pytest.raises(ValueError, match=r"pair at row 1, column 2"):
        mds.transform(with_cells(distances(), np.nan, (1, 2)))
    with pytest.raises(ValueError, match="infinity"):
        mds.transform(with_cells(distances(), np.inf, (1, 2)))
    with pytest.raises(ValueError, match="square matrix that was given to fit"):
        mds.stress(distances()[:3])


def test_pairs_left_out_of_a_sparse_matrix_are_not_zero_distances():
    refused(sp.csr_array(distances()), "sparse", "toarray")
    mds = ClassicalMDS(2, metric="precomputed").fit(distances())
    with pytest.raises(ValueError, match="sparse"):
        mds.transform(sp.csr_array(distances()))
    gram = table() @ table().T  # where they are left out, inner products are zero
    sparse, dense = (ClassicalMDS(2, metric="gram").fit(G) for G in (sp.csr_array(gram), gram))
    np.testing.assert_allclose(sparse.embedding_, dense.embedding_)
    np.testing.assert_allclose(sparse.transform(sp.csr_array(gram)), dense.embedding_, atol=1e-9)


def test_missing_in_rows_of_another_metric():
    X = with_cells(table(), np.nan, (6, 2))
    refused(
        X,
        "row 6, column 2",
        'metric="manhattan" does not accept missing values',
        "PPCA",
        metric="manhattan",
    )
    refused(X, "row 6, column 2", metric=lambda x, y: abs(x[0] - y[0]))
    mds = ClassicalMDS(2, metric="cosine").fit(table())
    with pytest.raises(ValueError, match="row 6, column 2"):
        mds.transform(X)


def test_a_row_without_any_value_in_common():
    X = table()
    X[0, :2], X[1, 2:] = np.nan, np.nan
    refused(X, "nan for row 0 and fitted row 1", "another metric", metric="nan_euclidean")


def test_a_metric_without_a_value_is_told_by_its_rows():
    X = with_cells(table(), 1.0, 5)
    refused(X, "nan", "row 0 and fitted row 5", metric="correlation")
    mds = ClassicalMDS(2, metric="correlation").fit(table())
    with pytest.raises(ValueError, match="nan for row 5 and fitted row 0"):
        mds.transform(X)


def test_a_function_that_is_no_distance():
    refused(
        table(),
        "Negative",
        "-103.798 at row 3, column 11",
        metric=lambda x, y: float(x @ y - 100.0),
    )
    refused(table(), "to itself", metric=lambda x, y: float(np.exp(-((x - y) @ (x - y)))))


def test_parameters_of_the_metric():
    refused(table(), "takes no metric_params", metric="euclidean", metric_params={"w": 1})
    refused(distances(), "takes no metric_params", metric_params={"w": 1})
    refused(table() @ table().T, "is of distances", metric="gram", correction="lingoes")
    refused(with_cells(table(), 1.0, (slice(None), 2)), "column 2 is constant", metric="seuclidean")
    refused(table(4, 6), "singular", "metric_params", metric="mahalanobis")
    refused(table(), "'metric' parameter", metric="euclidan")
    refused(table(), "'correction' parameter", correction="additive")


def test_truth_values_are_told():
    X = np.random.default_rng(0).integers(0, 3, (12, 5)).astype(float)
    with pytest.warns(UserWarning, match="every number but 0 counts as true"):
        ClassicalMDS(1, metric="jaccard").fit(X)


def test_one_point_is_too_few():
    """Scorecard T8."""
    for metric, X in (("euclidean", table(1)), ("manhattan", table(1)), ("gram", np.ones((1, 1)))):
        refused(X, "at least 2", metric=metric)
    refused(np.zeros((1, 1)), "at least 2")
    with pytest.raises(ValueError, match=r"sums to 0\.6"):
        ClassicalMDS(2).fit(table(), sample_weight=np.full(12, 0.05))


def test_more_coordinates_than_points():
    with pytest.raises(ValueError, match="n_components=13 must be at most 12"):
        ClassicalMDS(13, metric="precomputed").fit(distances())
    with pytest.raises(ValueError, match="n_components=13 must be at most 12"):
        ClassicalMDS(13).fit(table())


def test_infinity_and_units():
    """Scorecard T5, T18."""
    refused(with_cells(distances(), np.inf, (1, 2)), "infinity", "row 1, column 2")
    refused(distances() * 1e300, "overflow", "Rescale")
    refused(distances() * 1e-300, "underflow", "Rescale")
    refused(table() * 1e300, "overflow", metric="euclidean")
    refused(table() * 1e-300, "underflow", metric="euclidean")
    refused(table() * 1e200, "overflow", metric="manhattan")


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "precomputed", "gram"])
def test_points_that_all_coincide(metric):
    """Scorecard T6."""
    X = {"precomputed": np.zeros((6, 6)), "gram": np.ones((6, 6))}.get(metric, np.ones((6, 3)))
    with pytest.warns(UserWarning, match="all points coincide"):
        mds = ClassicalMDS(2, metric=metric).fit(X)
    np.testing.assert_array_equal(mds.embedding_, 0.0)
    np.testing.assert_array_equal(mds.transform(X), 0.0)
    np.testing.assert_array_equal(mds.goodness_of_fit_, 0.0)
    assert (mds.negative_share_, mds.n_significant_) == (0.0, 0)
    with pytest.warns(UserWarning, match="all points coincide"):
        auto = ClassicalMDS("auto", metric=metric).fit(X)
    assert auto.embedding_.shape == (6, 1)


def test_coincident_points_under_a_correction():
    with pytest.warns(UserWarning, match="all points coincide"):
        mds = ClassicalMDS(1, metric="precomputed", correction="cailliez").fit(np.zeros((5, 5)))
    assert mds.additive_constant_ == 0.0


def test_points_at_distance_zero_that_differ_are_told_under_a_correction():
    D = with_cells(distances(), 0.0, (0, 1), (1, 0))
    with pytest.warns(UserWarning, match="1 pair of points at distance 0 differ"):
        ClassicalMDS(2, metric="precomputed", correction="lingoes").fit(D)


def test_an_estimate_is_called_one(monkeypatch):
    from eigengap.fitting.eigen import signed_spectrum

    monkeypatch.setattr(signed_spectrum, "EXACT", 500)
    with pytest.warns(NegativeEigenvaluesWarning, match=r"hold about \d+\.\d %"):
        mds = ClassicalMDS(2, metric="manhattan").fit(table(600))
    assert mds.spectrum_.estimated


def test_every_row_twice():
    """Scorecard T12."""
    X = table(30)
    once, twice = ClassicalMDS(2).fit(X), ClassicalMDS(2).fit(np.repeat(X, 2, axis=0))
    np.testing.assert_allclose(twice.embedding_[::2], once.embedding_, atol=1e-10)
    np.testing.assert_allclose(twice.eigenvalues_, 2 * once.eigenvalues_)


def test_negative_eigenvalues_are_told_only_where_they_matter():
    X = table(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClassicalMDS(2, metric="precomputed").fit(np.round(cdist(X, X), 3))  # rounding: 0.03 %
    with pytest.warns(NegativeEigenvaluesWarning, match=r"correction=\"cailliez\"") as caught:
        ClassicalMDS(2, metric="precomputed").fit(cdist(X, X) ** 2)
    assert caught[0].filename == __file__
    indefinite = X @ np.diag([1.0, 1.0, 1.0, -2.0]) @ X.T
    with pytest.warns(NegativeEigenvaluesWarning, match="not Euclidean"):
        mds = ClassicalMDS(2, metric="gram").fit(indefinite)
    assert mds.n_significant_ == 0  # not one is larger than the negative one
    with pytest.warns(NegativeEigenvaluesWarning, match="2 of the 2 coordinates have a smaller"):
        ClassicalMDS(2, metric="gram").fit(indefinite)


def test_inner_products_about_a_far_origin_are_told():
    """Scorecard T1: what the Gram matrix has lost cannot be had back, and rows lose nothing."""
    X = table(40) + 1e7
    with pytest.warns(UserWarning, match="inner products are so much larger"):
        ClassicalMDS(2, metric="gram").fit(X @ X.T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClassicalMDS(2, metric="gram").fit((X - 1e7 + 10.0) @ (X - 1e7 + 10.0).T)


def test_sentinels_in_rows_are_told():
    """Scorecard T19."""
    X = table(200)
    X[:10, 1] = -999.0
    with pytest.warns(UserWarning, match="missing_values=-999"):
        ClassicalMDS(2).fit(X)


def test_a_fit_under_missing_that_does_not_converge():
    """Scorecard T26."""
    X = table(60, 6)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    with pytest.warns(Warning, match="ClassicalMDS did not converge in 1 steps"):
        mds = ClassicalMDS(2, max_iter=1).fit(X)
    assert not mds.converged_


def test_coordinates_that_do_not_fit_back():
    mds = ClassicalMDS(2).fit(table())
    with pytest.raises(ValueError, match="one column for each of the 2 coordinates"):
        mds.inverse_transform(np.zeros((3, 5)))
    with pytest.raises(AttributeError):
        ClassicalMDS(2, metric="manhattan").inverse_transform(np.zeros((3, 2)))


def test_a_row_without_values_is_nan_and_said_so_where_the_metric_takes_none():
    X = np.vstack([np.random.default_rng(0).normal(size=(12, 3)), np.full((1, 3), np.nan)])
    with pytest.warns(UserWarning, match=r"1 row has no observed value \(row 12\).* are NaN"):
        Z = ClassicalMDS(2, metric="cityblock").fit_transform(X)
    assert np.isnan(Z[12]).all()
    assert np.isfinite(Z[:12]).all()
