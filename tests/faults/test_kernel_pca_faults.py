"""Kernel PCA on bad and ugly input: an error that names it, a warning, or the right answer."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.decomposition
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import eigengap
from eigengap.estimators.kernel_pca import KernelPCA
from eigengap.exceptions import DoesNotFitError, KernelWarning
from eigengap.models import kernels


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 4))


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "sigmoid"])
def test_too_many_rows_for_all_pairs_are_refused_before_allocating(name):
    """T29."""
    A = np.zeros((100_000, 2))
    with pytest.raises(DoesNotFitError, match=r"100000 rows needs \d+\.\d GB .*landmarks="):
        KernelPCA(2, kernel=name).fit(A)


def test_kernels_with_explicit_features_need_no_pairs():
    A = np.random.default_rng(0).normal(size=(100_000, 3)) + 1.0
    for name in ("linear", "cosine"):
        assert KernelPCA(2, kernel=name).fit(A).eigenvalues_.shape == (2,)


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
@pytest.mark.parametrize("landmarks", [None, 20])
def test_an_offset_does_not_destroy_distances(X, name, landmarks):
    """T1."""
    A = np.round(X, 6)
    options = {"kernel": name, "gamma": 0.3, "landmarks": landmarks, "random_state": 0}
    here, there = KernelPCA(3, **options).fit(A), KernelPCA(3, **options).fit(A + 1e8)
    np.testing.assert_allclose(there.eigenvalues_, here.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(there.transform(A + 1e8), here.transform(A), atol=1e-6)


def test_far_clusters_keep_their_distances():
    """No single shift helps here: differences are formed pair by pair."""
    rng = np.random.default_rng(1)
    A = np.round(rng.normal(size=(30, 2)), 3)
    A[15:] += 1e8
    D = np.sum((A[:, None] - A) ** 2, axis=2)
    np.testing.assert_allclose(kernels.RBF(0.5).matrix(A, A), np.exp(-0.5 * D), atol=1e-7)
    with_outlier = np.vstack([A[:15], [[1e12, 0.0]]])
    D = np.sum((with_outlier[:, None] - with_outlier) ** 2, axis=2)
    found = kernels.RBF(0.5).matrix(with_outlier, with_outlier)
    np.testing.assert_allclose(found, np.exp(-0.5 * D), atol=1e-12)


def test_float32_rows_have_a_float64_matrix(X):
    A = (X + 100.0).astype(np.float32)
    single, double = (
        KernelPCA(3, kernel="rbf").fit(A),
        KernelPCA(3, kernel="rbf").fit(A.astype(float)),
    )
    # Rounded at the end: a matrix of float32 would lose half of its digits to the offset.
    np.testing.assert_array_equal(single.eigenvalues_, double.eigenvalues_.astype(np.float32))
    assert single.transform(A).dtype == np.float32
    assert single.fit_transform(A).dtype == np.float32


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "cosine", "laplacian"])
def test_a_constant_table_is_told(name):
    """T6."""
    with pytest.warns(KernelWarning, match="all rows are the same"):
        scores = KernelPCA(2, kernel=name).fit_transform(np.full((10, 3), 7.5))
    assert np.all(scores == 0.0)


@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
def test_huge_values_are_refused(X, name):
    """T5."""
    with pytest.raises(ValueError, match=r"[Rr]escale"):
        KernelPCA(2, kernel=name).fit(X * 1e300)
    model = KernelPCA(2, kernel=name).fit(X)
    if name != "linear":  # whose scores of huge rows are huge, and right
        with pytest.raises(ValueError, match="overflows"):
            model.transform(X * 1e300)


def test_tiny_values_are_right_or_refused(X):
    """T5: a kernel without a unit of its own does not mind; squares of 1e-300 are 0."""
    same = KernelPCA(2, kernel="cosine").fit(X * 1e-300).eigenvalues_
    np.testing.assert_allclose(same, KernelPCA(2, kernel="cosine").fit(X).eigenvalues_, rtol=1e-9)
    with pytest.raises(ValueError, match="underflow"):
        KernelPCA(2).fit(X * 1e-300)


def test_one_row_is_refused():
    """T8."""
    with pytest.raises(ValueError, match="at least 2"):
        KernelPCA(kernel="rbf").fit([[1.0, 2.0]])


def test_repeated_rows_and_rank_deficiency(X):
    twice = np.vstack([X, X])
    once = KernelPCA(kernel="rbf", gamma=0.2).fit(X)
    model = KernelPCA(kernel="rbf", gamma=0.2).fit(twice)
    assert model.n_components_ == once.n_components_ == len(X) - 1
    np.testing.assert_allclose(model.eigenvalues_, 2 * once.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(model.transform(X), once.transform(X), atol=1e-6)
    with pytest.warns(KernelWarning, match="only 4 of 6 components have variance"):
        scores = KernelPCA(6).fit_transform(X)
    assert scores.shape == (40, 6)
    assert np.all(scores[:, 4:] == 0.0)
    assert KernelPCA(6, remove_zero_eig=True).fit(X).n_components_ == 4
    assert KernelPCA().fit(X).n_components_ == 4
    flat = np.random.default_rng(2).normal(size=(8, 2)) @ np.ones((2, 30))  # n < d, rank 1
    assert KernelPCA().fit(flat).n_components_ == 1


def test_noise_is_not_blown_up():
    """Axes beyond the rank have no scores, of new rows either."""
    rng = np.random.default_rng(3)
    A = np.repeat(rng.normal(size=(3, 2)), 10, axis=0)
    with pytest.warns(KernelWarning, match="only 2 of 5"):
        model = KernelPCA(5, kernel="rbf").fit(A)
    scores = model.transform(rng.normal(size=(20, 2)))
    assert np.all(scores[:, 2:] == 0.0)
    assert np.all(np.abs(scores) < 2.0)


def test_an_indefinite_kernel_is_told_and_its_positive_part_taken(X):
    K = X @ X.T - 3.0 * np.outer(X[:, 0], X[:, 0])
    H = np.eye(40) - 1 / 40
    lam = np.linalg.eigvalsh(H @ K @ H)
    with pytest.warns(KernelWarning, match=r"negative eigenvalue of -"):
        model = KernelPCA(kernel="precomputed").fit(K)
    np.testing.assert_allclose(model.eigenvalues_, lam[::-1][:3], rtol=1e-9)
    assert np.all(np.isfinite(model.transform(K)))


def test_an_indefinite_kernel_is_told_where_few_of_many_are_found():
    A = np.random.default_rng(4).normal(size=(700, 4))
    with pytest.warns(KernelWarning, match="not positive"):
        KernelPCA(2, kernel="sigmoid", gamma=0.5, coef0=-1.0).fit(A)


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
@pytest.mark.parametrize("n", [40, 700])  # LAPACK, Lanczos
def test_axes_of_negative_eigenvalues_are_refused(n, solver):
    """3 positive eigenvalues, 1 negative: the 4th by size is 0, the n-th is negative."""
    A = np.random.default_rng(5).normal(size=(n, 4))
    K = A @ A.T - 3.0 * np.outer(A[:, 0], A[:, 0])
    how = {"kernel": "precomputed", "eigen_solver": solver}
    with pytest.raises(ValueError, match=r"significant negative eigenvalues.*n_components=3"):
        KernelPCA(n, **how).fit(K)
    for asked in (3, None):
        with pytest.warns(KernelWarning, match="not positive"):
            assert KernelPCA(asked, **how).fit(K).n_components_ == 3


def test_a_distance_is_no_kernel(X):
    D = np.linalg.norm(X[:, None] - X, axis=2)
    with pytest.raises(ValueError, match=r"no axis belongs to it.*ClassicalMDS"):
        KernelPCA(2, kernel="precomputed").fit(D)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
@pytest.mark.parametrize("how", [{}, {"n_components": 2, "remove_zero_eig": True}], ids=str)
def test_rows_that_are_all_equal_have_no_component(kernel, how):
    rows = np.full((10, 10), 7.5)
    with pytest.warns(KernelWarning, match="all rows are the same"):
        model = KernelPCA(kernel=kernel, **how).fit(rows)
    assert model.n_components_ == 0
    assert model.transform(rows[:3]).shape == (3, 0)


def test_rows_that_do_not_see_each_other_are_told(X):
    with pytest.warns(KernelWarning, match=r"gamma=1e\+06 is so large.*'median'"):
        KernelPCA(2, kernel="rbf", gamma=1e6).fit(X)


def test_a_bad_kernel_matrix_is_refused_by_cell(X):
    K = X @ X.T
    K[3, 7] += 1.0
    with pytest.raises(ValueError, match=r"not symmetric: .* row 3, column 7, .* row 7, column 3"):
        KernelPCA(2, kernel="precomputed").fit(K)
    K[3, 7] = np.nan
    with pytest.raises(ValueError, match=r"kernel of rows 3 and 7 is missing"):
        KernelPCA(2, kernel="precomputed").fit(K)
    with pytest.raises(ValueError, match="square matrix"):
        KernelPCA(2, kernel="precomputed").fit(X)
    with pytest.raises(ValueError, match="landmarks has no use"):
        KernelPCA(2, kernel="precomputed", landmarks=5).fit(X @ X.T)
    with pytest.raises(ValueError, match="no rows of data"):
        KernelPCA(2, kernel="precomputed", fit_inverse_transform=True).fit(X @ X.T)


@pytest.mark.parametrize("name", ["poly", "cosine", "laplacian", "sigmoid"])
def test_missing_are_refused_with_a_way_out_where_there_is_no_expected_kernel(X, name):
    holes = X.copy()
    holes[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN \(1 cells\).*LowRankImputer"):
        KernelPCA(2, kernel=name).fit(holes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KernelPCA(2, kernel=name).fit(X)
        with pytest.raises(ValueError, match="LowRankImputer"):
            model.transform(holes)
        way_out = make_pipeline(eigengap.LowRankImputer(), KernelPCA(2, kernel=name))
        assert np.all(np.isfinite(way_out.fit_transform(holes)))


def test_too_many_patterns_of_missing_are_refused(monkeypatch, X):
    from eigengap.models.kernels import expected as expected_kernel

    holes = X.copy()
    holes[np.random.default_rng(5).random(X.shape) < 0.2] = np.nan
    monkeypatch.setattr(expected_kernel, "MOST_WORK", 1e3)
    with pytest.raises(ValueError, match=r"missing patterns takes .*LowRankImputer"):
        KernelPCA(2, kernel="rbf").fit(holes)


def test_infinity_is_refused_by_cell(X):
    """T18."""
    X[5, 2] = np.inf
    with pytest.raises(ValueError, match="row 5, column 2"):
        KernelPCA(kernel="rbf").fit(X)


def test_contradictions_are_refused(X):
    with pytest.raises(ValueError, match=r"either c=2.0 or gamma=1.0"):
        KernelPCA(kernel="rbf", c=2.0, gamma=1.0).fit(X)
    with pytest.raises(ValueError, match="b and c belong to"):
        KernelPCA(kernel="poly", c=2.0).fit(X)
    with pytest.raises(ValueError, match="give a number"):
        KernelPCA(kernel="poly", gamma="median").fit(X)
    with pytest.raises(ValueError, match="needs a number of components, not n_components=None"):
        KernelPCA(kernel="rbf", gamma="cv").fit(X)
    with pytest.raises(ValueError, match="takes 'median'"):
        KernelPCA(2, kernel="laplacian", gamma="cv").fit(X)
    model = KernelPCA(2, kernel="poly", preimage="fixed_point").fit(X)
    with pytest.raises(NotFittedError, match="fit_inverse_transform=True"):
        model.inverse_transform(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="one column for each of the 2 components"):
        KernelPCA(2, preimage="fixed_point").fit(X).inverse_transform(X)
    with pytest.raises(AttributeError, match="on landmarks the rows are not kept"):
        _ = KernelPCA(2, kernel="rbf", landmarks=9).fit(X).eigenvectors_


def test_a_code_for_missing_is_told():
    """T19."""
    A = np.random.default_rng(6).normal(size=(200, 3))
    A[::20, 1] = -999.0
    with pytest.warns(UserWarning, match="missing_values=-999"):
        KernelPCA(2).fit(A)
    taken = KernelPCA(2, missing_values=-999).fit(A)
    A[::20, 1] = np.nan
    np.testing.assert_allclose(taken.eigenvalues_, KernelPCA(2).fit(A).eigenvalues_)


def test_frames_in_and_out(X):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit(frame)
    out = model.transform(frame)
    assert list(out.columns) == ["kernelpca0", "kernelpca1"]
    plain = KernelPCA(2, kernel="rbf").fit(X)
    np.testing.assert_allclose(out, plain.transform(X))
    named = pl.DataFrame(X, schema=list("abcd"))
    np.testing.assert_allclose(clone(plain).fit(named).transform(named), plain.transform(X))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"a": "z"}))


def test_one_import_is_enough(X):
    """Every parameter of scikit-learn's class is ours, with its default."""
    theirs = sklearn.decomposition.KernelPCA().get_params()
    ours = KernelPCA().get_params()
    assert {name: ours[name] for name in theirs} == theirs


def test_results_do_not_depend_on_threads_or_on_the_run(X):
    """T15."""
    rng = np.random.default_rng(7)
    A = rng.normal(size=(900, 3))
    one, two, all_ = (KernelPCA(3, kernel="rbf", n_jobs=jobs).fit(A) for jobs in (1, 2, -1))
    np.testing.assert_allclose(one.transform(A), two.transform(A), atol=1e-10)
    np.testing.assert_allclose(one.transform(A), all_.transform(A), atol=1e-10)
    runs = [
        KernelPCA(3, kernel="rbf", landmarks=50, random_state=5, n_jobs=jobs).fit(A).transform(A)
        for jobs in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_allclose(runs[0], runs[2], atol=1e-10)


def test_nothing_is_modified(X):
    K, before = X @ X.T, (X @ X.T).copy()
    for solver in ("dense", "auto"):
        KernelPCA(2, kernel="precomputed", copy_X=False, eigen_solver=solver).fit(K)
        np.testing.assert_array_equal(K, before)
    kept = KernelPCA(2, kernel="rbf", copy_X=False).fit(X)
    assert np.shares_memory(kept.X_fit_, X)
    copied = KernelPCA(2, kernel="rbf").fit(X)
    scores = copied.transform(X[:3])
    A = X[:3].copy()
    X[:] = 0.0
    np.testing.assert_array_equal(copied.transform(A), scores)


def test_refitting_leaves_nothing_behind(X):
    model = KernelPCA(2, kernel="rbf", gamma="cv", fit_inverse_transform=True).fit(X)
    model.set_params(gamma=None, fit_inverse_transform=False, landmarks=10).fit(X)
    for name in ("gamma_curve_", "X_fit_", "dual_coef_", "eigenvectors_"):
        assert not hasattr(model, name)
    assert clone(model).get_params() == model.get_params()


def test_sparse_tables_on_landmarks():
    rng = np.random.default_rng(8)
    A = rng.normal(size=(200, 6)) * (rng.random((200, 6)) < 0.4)
    options = {"kernel": "rbf", "landmarks": 30, "random_state": 0}
    dense, sparse = (KernelPCA(2, **options).fit(table) for table in (A, csr_array(A)))
    np.testing.assert_allclose(dense.transform(A), sparse.transform(csr_array(A)), atol=1e-8)
