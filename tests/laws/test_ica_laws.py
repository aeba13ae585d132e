"""Laws of ICA as its users see it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from sklearn.base import clone
from tests.mixtures import amari, matched, mixture, sources
from threadpoolctl import threadpool_limits

from eigengap.estimators.ica import ICA
from eigengap.fitting.ica.fit import ICAOptions, fit_rotation, in_order, sample_sizes
from eigengap.fitting.ica.whitening import no_whitening, white_scores
from eigengap.sources.conversion import as_source
from eigengap.statistics.nonlinearity import LogCosh
from eigengap.statistics.score_moments import (
    Evaluation,
    ScoreBlock,
    ScoreMoments,
    ScoreSample,
    places,
)


def wide(kind="mixed", n=2000, d=7, q=4, seed=0, noise=0.0):
    """Rows of q sources in d columns, with an offset."""
    rng = np.random.default_rng(100 + seed)
    B = rng.standard_normal((d, q))
    rows = sources(kind, n, q, seed) @ B.T + rng.standard_normal(d) * 5
    return rows + noise * rng.standard_normal(rows.shape)


def test_sources_have_unit_variance_and_no_correlation():
    X = wide()
    S = ICA(4).fit_transform(X)
    assert_allclose(S.T @ S / len(S), np.eye(4), atol=1e-10)
    assert_allclose(S.mean(axis=0), 0.0, atol=1e-12)


def test_going_there_and_back():
    X = wide()
    ica = ICA(4).fit(X)
    assert_allclose(ica.inverse_transform(ica.transform(X)), X, atol=1e-10)
    assert_allclose(ica.components_ @ ica.mixing_, np.eye(4), atol=1e-10)
    assert_allclose(ica.mixing_, np.linalg.pinv(ica.components_), atol=1e-10)


def test_the_gradient_is_as_small_as_asked():
    X = wide()
    for tol in (1e-3, 1e-6, 1e-10):
        ica = ICA(4, tol=tol).fit(X)
        S = ica.transform(X)
        T = np.tanh(S)
        G = T.T @ S / len(S)
        s = np.sign(np.mean(1 - T**2, axis=0) - np.diag(G))
        gradient = (s[:, None] * G - (s[:, None] * G).T) / 2
        assert ica.converged_
        assert ica.gradient_ <= tol
        assert np.abs(gradient).max() <= tol
        assert_allclose(ica.non_gaussianity_, np.mean(1 - T**2, axis=0) - np.diag(G), atol=10 * tol)


def test_components_are_ordered_by_the_variance_they_explain():
    ica = ICA().fit(wide())
    explained = np.sum(ica.mixing_**2, axis=0)
    assert np.all(np.diff(explained) < 0)
    largest = np.argmax(np.abs(ica.mixing_), axis=0)
    assert np.all(ica.mixing_[largest, np.arange(ica.n_components_)] > 0)


def test_components_of_white_rows_are_ordered_by_how_far_from_gaussian_they_are():
    R = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    found = in_order(R, np.eye(3) * 2.0, np.array([0.1, -0.3, 0.2]))
    assert found.order.tolist() == [1, 2, 0]
    assert_allclose(found.mixing, 2 * found.R.T, atol=1e-12)


@pytest.mark.parametrize("start", [0, 1, "w_init"])
def test_where_it_starts_does_not_matter(start):
    X = wide()
    expected = ICA(4, tol=1e-9).fit(X).mixing_
    how = {"w_init": np.eye(4)[::-1] + 0.1} if start == "w_init" else {"random_state": start}
    assert_allclose(ICA(4, tol=1e-9, **how).fit(X).mixing_, expected, atol=1e-6)


def test_a_generator_gives_other_starts_and_an_integer_the_same():
    X = wide()
    a, b = (ICA(4, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(a.mixing_, b.mixing_)


@pytest.mark.parametrize("n", [700, 12_000])
def test_rows_in_another_order_give_the_same(n):
    """12 000 rows of 3 sources begin on a sample, which goes by what rows hold."""
    assert bool(sample_sizes(n, 3)) == (n > 8000)
    X, _ = mixture("mixed", n, 3, seed=4)
    shuffled = np.random.default_rng(1).permutation(n)
    ica = ICA().fit(X)
    assert_allclose(ICA().fit(X[shuffled]).mixing_, ica.mixing_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [600, 9000])
def test_a_weight_is_a_repeated_row(n):
    X, _ = mixture("mixed", n, 3, seed=5)
    w = np.random.default_rng(2).integers(0, 4, n)
    weighted = ICA(tol=1e-10).fit(X, sample_weight=w)
    repeated = ICA(tol=1e-10).fit(np.repeat(X, w, axis=0))
    assert_allclose(weighted.mixing_, repeated.mixing_, rtol=1e-8, atol=1e-8)
    assert_allclose(weighted.whitening_, repeated.whitening_, rtol=1e-10)


def test_an_invertible_map_of_the_rows_maps_the_mixing():
    """The sources do not depend on the units or the axes in which rows are measured."""
    X, _ = mixture("mixed", 2000, 4, seed=6)
    M = np.random.default_rng(3).standard_normal((4, 4)) * [1, 10, 0.1, 1]
    a, b = ICA(tol=1e-10).fit(X), ICA(tol=1e-10).fit(X @ M.T + 7.0)
    mapped = (M @ a.mixing_).T
    assert_allclose(matched(mapped, b.mixing_.T), b.mixing_.T, atol=1e-6)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_offsets_change_nothing(offset):
    X = wide()
    assert_allclose(ICA(4).fit(X + offset).mixing_, ICA(4).fit(X).mixing_, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_units_change_nothing(unit):
    X = wide()
    assert_allclose(ICA(4).fit(X * unit).mixing_ / unit, ICA(4).fit(X).mixing_, atol=1e-8)


def test_float32_in_float32_out():
    X = wide()
    single = ICA(4).fit(X.astype(np.float32))
    assert_allclose(single.mixing_, ICA(4).fit(X).mixing_, atol=1e-4)
    S = single.transform(X.astype(np.float32))
    assert S.dtype == np.float32
    assert single.inverse_transform(S).dtype == np.float32
    assert_allclose(S.std(axis=0), 1.0, atol=1e-5)


def test_large_float32_tables_are_whitened_well():
    """Their products are summed in float32 over a thousand rows."""
    X, _ = mixture("super", 30_000, 8, seed=1)
    S = ICA().fit_transform((X + 30).astype(np.float32)).astype(np.float64)
    assert_allclose(S.T @ S / len(S), np.eye(8), atol=2e-4)


def test_sparse_frames_and_arrays_agree():
    X = np.where(np.abs(wide()) < 2.0, 0.0, wide())
    expected = ICA(4).fit(X)
    sparse = ICA(4).fit(scipy.sparse.csr_array(X))
    assert_allclose(sparse.mixing_, expected.mixing_, atol=1e-8)
    assert_allclose(sparse.transform(scipy.sparse.csr_array(X)), expected.transform(X), atol=1e-8)
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    out = clone(expected).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["ica0", "ica1", "ica2", "ica3"]
    assert_allclose(out.to_numpy(), expected.transform(X), atol=1e-8)


def test_the_density_of_complete_rows_is_not_asked():
    """A complete row is transformed alike by a fit with and without gaps elsewhere."""
    X = wide(noise=0.05)
    holes = X.copy()
    holes[np.random.default_rng(4).random(X.shape) < 0.1] = np.nan
    ica = ICA(4).fit(holes)
    assert_allclose(ica.transform(X), (X - ica.mean_) @ ica.components_.T, atol=1e-10)
    both = ica.transform(np.vstack([X[:5], holes[:5]]))
    assert np.isfinite(both).all()
    assert_allclose(both[:5], ica.transform(X[:5]), atol=1e-10)


def test_missing_fill_by_the_conditional_mean():
    X = wide(noise=0.05)
    X[::3, 2] = np.nan
    ica = ICA(4).fit(X)
    filled = ica.density_.conditional_mean(X)
    assert_allclose(ica.transform(X), (filled - ica.mean_) @ ica.components_.T, atol=1e-10)


# The statistic ------------------------------------------------------------------------------


@pytest.mark.parametrize("block_rows", [1, 7, 100, 999])
def test_blocks_and_threads_change_rounding_only(block_rows):
    Z = sources("mixed", 1000, 3, seed=1)
    whole = fit_rotation(white_scores(as_source(Z), no_whitening(3))[0], 3)
    cut = fit_rotation(white_scores(as_source(Z, block_rows=block_rows), no_whitening(3))[0], 3)
    assert_allclose(cut.R, whole.R, atol=1e-10)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_nothing(threads):
    X, _ = mixture("super", 30_000, 4, seed=2)
    expected = ICA().fit(X).mixing_
    with threadpool_limits(threads):
        assert_allclose(ICA().fit(X).mixing_, expected, rtol=1e-10, atol=1e-10)


def test_moments_merge():
    rng = np.random.default_rng(0)
    Z, w = rng.standard_normal((500, 3)), rng.uniform(0, 2, 500)
    R, how = np.linalg.qr(rng.standard_normal((3, 3)))[0], Evaluation(LogCosh(), with_spread=True)
    whole = ScoreMoments.of(ScoreBlock(Z, w), R, how)
    parts = [ScoreMoments.of(ScoreBlock(Z[a:b], w[a:b]), R, how) for a, b in ((0, 99), (99, 500))]
    merged = parts[0].merge(parts[1])
    for name in ("sum_w", "cross", "slope", "spread"):
        assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-12, atol=1e-10)


def test_samples_merge_and_are_nested():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    place = places(X)
    whole = ScoreSample.of(ScoreBlock(X, None, place), 0.3)
    parts = [
        ScoreSample.of(ScoreBlock(X[a:b], None, place[a:b]), 0.3)
        for a, b in ((0, 400), (400, 1000))
    ]
    np.testing.assert_array_equal(parts[0].merge(parts[1]).Z, whole.Z)
    assert 250 < len(whole.Z) < 350
    np.testing.assert_array_equal(whole.first(50).Z, whole.Z[:50])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_places_look_uniform_and_go_by_content(dtype):
    rng = np.random.default_rng(1)
    for X in (rng.standard_normal((20_000, 5)), rng.integers(0, 9, (20_000, 12))):
        X = X.astype(dtype)
        place = places(X)
        assert place.min() >= 0
        assert place.max() < 1
        assert_allclose(np.histogram(place, bins=10, range=(0, 1))[0], 2000, atol=250)
        shuffled = rng.permutation(len(X))
        np.testing.assert_array_equal(places(X[shuffled]), place[shuffled])
        sparse = places(scipy.sparse.csr_array(X))
        np.testing.assert_array_equal(places(scipy.sparse.csr_array(X[shuffled])), sparse[shuffled])


@pytest.mark.parametrize("n", [4000, 40_000])
def test_few_different_rows(n):
    """Three coins: eight different rows, of which a sample by content may hold none."""
    S = np.random.default_rng(5).choice([-1.0, 1.0], size=(n, 3))
    A = np.array([[2.0, 1.0, 0.0], [0.0, 1.5, 1.0], [0.5, 0.0, 1.0]])
    ica = ICA().fit(S @ A.T)
    assert ica.converged_
    assert amari(ica.components_ @ A) < 0.02


def test_passes_are_few_on_model_true_rows():
    """The samples do the seeking: all rows are read a handful of times."""
    X, _ = mixture("super", 50_000, 5, seed=3)
    source = as_source(X - X.mean(axis=0))
    lam, U = np.linalg.eigh(np.cov(X.T, bias=True))
    rows = as_source((X - X.mean(axis=0)) @ (U / np.sqrt(lam)))
    found = fit_rotation(white_scores(rows, no_whitening(5))[0], 5, options=ICAOptions(tol=1e-6))
    assert found.converged
    assert rows.passes <= 10
    assert source.passes == 0


def test_no_warning_where_there_is_nothing_to_tell():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ICA(4).fit(wide())
