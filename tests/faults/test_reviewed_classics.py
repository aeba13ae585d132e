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
    with pytest.warns(eg.KernelWarning, match="smallest value that it tried"):
        eg.KernelPCA(8, kernel="rbf", gamma="cv", random_state=0).fit(X)


def test_solving_for_a_y_with_gaps_is_refused():
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
