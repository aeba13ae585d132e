"""What newcomers and reviewers of the linear and kernel classics found, kept."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_circles

import eigengap as eg

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["matrices", "mds", "ica", "kernel-pca"])
def test_the_first_example_of_a_page_runs_as_printed(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, page, "exec"), {})


def test_one_triangle_of_distances_is_told_the_right_way_out():
    """The mean of both triangles halved every distance."""
    D = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    for half in (np.triu(D), np.tril(D)):
        with pytest.raises(ValueError, match=r"One triangle is empty: pass X \+ X\.T"):
            eg.ClassicalMDS(1, metric="precomputed").fit(half)
    D[0, 1] += 1.0
    with pytest.raises(ValueError, match=r"the mean of both, \(X \+ X\.T\) / 2"):
        eg.ClassicalMDS(1, metric="precomputed").fit(D)


def test_a_whitening_that_did_not_converge_is_told_why():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5))
    X = np.hstack([X, X[:, :2] + 1e-4 * rng.normal(size=(300, 2))])
    X[rng.random(X.shape) < 0.2] = np.nan
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = eg.Whitener(method="zca").fit(X)
    told = " ".join(str(w.message) for w in caught)
    assert not model.converged_
    assert "nearly collinear" in told
    assert "raise max_iter" not in told


def test_a_bandwidth_at_the_end_of_its_grid_is_told():
    X, _ = make_circles(200, noise=0.05, factor=0.4, random_state=0)
    with pytest.warns(eg.exceptions.KernelWarning, match="smallest value that it tried"):
        eg.KernelPCA(8, kernel="rbf", gamma="cv", random_state=0).fit(X)


def test_solving_for_a_y_with_missing_is_refused():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    y[7] = np.nan
    with pytest.raises(ValueError, match="NaN at row 7"):
        eg.svd(X).solve(y)


def test_completing_a_wide_matrix_is_told_of_the_transpose():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 200)) + 0.4 * rng.normal(size=(30, 200))
    X[rng.random(X.shape) < 0.5] = np.nan
    with pytest.warns(UserWarning, match=r"low_rank\(X\.T, k\)"):
        eg.low_rank(X, 8, center=True, max_iter=50)


def test_moments_of_many_pieces_are_not_all_held():
    """All moments of a long block at 1000 landmarks took 1.4 GB."""
    import tracemalloc

    X = np.random.default_rng(3).normal(size=(60_000, 4))
    model = eg.KernelPCA(3, kernel="rbf", landmarks=600, random_state=0, n_jobs=1)
    model.fit(X[:2000])  # loads what is loaded lazily
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


# What a hostile analyst found ----------------------------------------------------------------


@pytest.mark.parametrize("small", [1e-10, 1e-11])
def test_few_triplets_of_a_graded_tall_matrix_keep_their_digits(small):
    """Squared, they lost them all; the rank was wrong and said to be exact."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(2000, 60)))[0]
    V = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    X = (U * np.r_[1, np.full(9, small), np.zeros(50)]) @ V.T
    found = eg.svd(X, 10)
    np.testing.assert_allclose(found.s[1:], small, rtol=1e-3)
    assert found.rank == 10
    expected = np.linalg.pinv(X, rcond=small / 10)
    np.testing.assert_allclose(eg.pinv(X, 10), expected, atol=1e-3 * np.abs(expected).max())


def test_a_zero_matrix_of_any_size_has_its_decomposition_at_once():
    import scipy.sparse

    U, s, Vt = eg.svd(scipy.sparse.csr_array((100_000, 100_000)), 2)
    assert not s.any()
    assert U.shape == (100_000, 2)
    np.testing.assert_array_equal(Vt @ Vt.T, np.eye(2))


@pytest.mark.parametrize("kind", ["cailliez", "lingoes"])
def test_additive_constants_do_not_depend_on_units(kind):
    """From 1e76 on they were 0, silently."""
    from scipy.spatial.distance import pdist, squareform

    D = squareform(pdist(np.random.default_rng(0).normal(size=(40, 6)), "cityblock"))
    plain, huge = (
        eg.ClassicalMDS(2, metric="precomputed", correction=kind).fit(D * u) for u in (1.0, 1e100)
    )
    power = 1 if kind == "cailliez" else 2
    assert huge.additive_constant_ / 1e100**power == pytest.approx(plain.additive_constant_)
    assert huge.negative_share_ < 1e-10


def test_landmarks_of_a_kernel_that_is_not_positive_are_refused():
    """Eigenvalues came out too large, with an error of 0."""
    X = np.random.default_rng(0).normal(size=(1500, 4))
    with pytest.raises(ValueError, match="negative eigenvalues"):
        eg.KernelPCA(2, kernel="sigmoid", landmarks=100, random_state=0).fit(X)


def test_whitening_nearly_collinear_columns_with_missing():
    """EM had stopped 53 % from the variances that PPCA finds in the same cells."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 8)) + 1e-6 * rng.normal(size=(200, 8))
    Z = F.copy()
    Z[rng.random(Z.shape) < 0.05] = np.nan
    with pytest.warns(eg.exceptions.RankDeficientWarning):
        model = eg.Whitener().fit(Z)
    expected = np.linalg.eigvalsh(np.cov(F.T))[::-1][: model.rank_]
    np.testing.assert_allclose(model.explained_variance_, expected, rtol=1e-3)
    np.testing.assert_allclose(model.transform(F).var(axis=0, ddof=1), 1.0, rtol=1e-3)


@pytest.mark.parametrize("method", ["pca", "pca-cor"])
def test_few_rows_with_missing_have_no_more_directions_than_rows(method):
    for seed in range(3):
        Y = np.random.default_rng(seed).normal(size=(6, 12))
        Y[0, 3] = Y[4, 4] = np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert eg.Whitener(method=method).fit(Y).rank_ <= 5


def test_directions_that_missing_hide_are_no_sources():
    """They came out with a variance of 4e-7 and without a word."""
    rng = np.random.default_rng(0)
    F = rng.laplace(size=(2000, 3)) @ rng.normal(size=(3, 6)) + 1e-6 * rng.normal(size=(2000, 6))
    Z = F.copy()
    Z[rng.random(Z.shape) < 0.1] = np.nan
    with pytest.warns(UserWarning, match="only 3 of 6 directions"):
        model = eg.ICA().fit(Z)
    np.testing.assert_allclose(model.transform(F).var(axis=0), 1.0, rtol=0.2)


def test_held_out_bandwidths_of_few_rows_are_refused():
    with pytest.raises(ValueError, match="gamma='median'"):
        eg.KernelPCA(1, kernel="rbf", gamma="cv").fit(np.random.default_rng(0).normal(size=(3, 4)))


def test_scores_of_fitted_rows_are_those_of_new_ones_where_lanczos_found_them():
    X = np.random.default_rng(0).normal(size=(600, 3))
    for scaling in ("pca", "eigenvalue"):
        model = eg.KernelPCA(3, kernel="rbf", gamma=0.5, scaling=scaling)
        scores = model.fit_transform(X)
        atol = 1e-10 * np.abs(scores).max()
        np.testing.assert_allclose(model.transform(X), scores, atol=atol)


def test_a_callable_that_returns_nan_is_told():
    with pytest.raises(ValueError, match="returned NaN"):
        eg.KernelPCA(1, kernel=lambda a, b: float("nan")).fit(np.eye(4))


def test_a_constant_matrix_with_a_gap_is_completed():
    X = np.full((20, 4), 3.0)
    X[0, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(eg.low_rank(X, 1).fill(X), 3.0, rtol=1e-4)


def test_tiny_columns_can_be_centred():
    X = np.random.default_rng(0).normal(size=(9, 2)) * 1e-150
    np.testing.assert_allclose(
        eg.Whitener(method="centre").fit_transform(X), X - X.mean(axis=0), rtol=1e-9
    )


def test_few_rows_do_not_lead_ica_astray():
    """From the principal axes alone it ended at 0.5203, every other start at 0.5651."""
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.exponential(size=300) for _ in range(4)])
    X = S @ rng.normal(size=(4, 4)).T
    reached = [np.abs(eg.ICA(random_state=s).fit(X).non_gaussianity_).sum() for s in (None, 0, 1)]
    assert reached[0] >= max(reached) - 1e-6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_constant_column_is_the_one_that_is_named(seed, order):
    """Its rounding was scaled up to a direction of its own, and another column was blamed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4))
    X[:, 1] = 5.0
    with pytest.warns(eg.exceptions.RankDeficientWarning, match=r"rank 3 \(column 1 follows"):
        eg.Whitener().fit(np.asarray(X, order=order))
