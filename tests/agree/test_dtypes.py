"""Fitted attributes and transformed rows have the type of the rows of the fit.

As in scikit-learn, whose FactorAnalysis alone has float64 throughout.
"""

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.manifold

import eigengap as eg

HOW = {"n_components": 2, "random_state": 0}
PAIRS = {
    "PCA": (eg.PCA(2), sklearn.decomposition.PCA(2)),
    "FactorAnalysis": (eg.FactorAnalysis(2), sklearn.decomposition.FactorAnalysis(2)),
    "ICA": (eg.ICA(**HOW), sklearn.decomposition.FastICA(**HOW)),
    "KernelPCA": tuple(
        kind(2, kernel="rbf", fit_inverse_transform=True)
        for kind in (eg.KernelPCA, sklearn.decomposition.KernelPCA)
    ),
    "Isomap": (eg.Isomap(n_neighbors=8), sklearn.manifold.Isomap(n_neighbors=8)),
    "LaplacianEigenmaps": (
        eg.LaplacianEigenmaps(affinity="rbf", **HOW),
        sklearn.manifold.SpectralEmbedding(affinity="rbf", **HOW),
    ),
}
# Kept in float64 on purpose (docs/kernel-pca.md); a list.
APART = {"X_fit_", "loglike_"}
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def rows(dtype):
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(120, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(120, 6))
    return X.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PAIRS)
def test_attributes_have_the_type_of_the_rows(name, dtype):
    ours, theirs = PAIRS[name]
    X = rows(dtype)
    ours.fit(X)
    theirs.fit(X)
    public = {
        name
        for name, value in vars(theirs).items()
        if name.endswith("_") and getattr(value, "dtype", None) in FLOATS and np.ndim(value)
    } - APART
    assert public
    if name != "FactorAnalysis":
        assert {getattr(theirs, at).dtype for at in public} == {np.dtype(dtype)}
    assert {at: getattr(ours, at).dtype for at in public} == dict.fromkeys(public, np.dtype(dtype))
    assert ours.fit_transform(X).dtype == dtype
    assert ours.transform(X).dtype == dtype


@pytest.mark.parametrize("name", ["PCA", "FactorAnalysis", "KernelPCA", "Isomap"])
def test_rounding_comes_last(name, tmp_path):
    """What is computed from the fit does not see the rounded attributes; nor does a file."""
    model = PAIRS[name][0].fit(rows(np.float32))
    new = rows(np.float64)[:9] + 0.01
    scores = model.transform(new)
    assert scores.dtype == np.float64
    assert np.any(scores != scores.astype(np.float32))
    eg.save(model, tmp_path / "model.egap")
    again = eg.load(tmp_path / "model.egap")
    np.testing.assert_array_equal(again.transform(new), scores)
    attribute = {"KernelPCA": "eigenvectors_", "Isomap": "embedding_"}.get(name, "components_")
    assert getattr(again, attribute).dtype == np.float32


def test_batches_of_float64_are_not_rounded():
    X = rows(np.float32)
    single = eg.PCA(2).partial_fit(X[:60]).partial_fit(X[60:])
    assert single.components_.dtype == np.float32
    mixed = eg.PCA(2).partial_fit(X[:60]).partial_fit(X[60:].astype(np.float64))
    assert mixed.components_.dtype == np.float64
    again = single.fit(X.astype(np.float64))
    assert again.components_.dtype == np.float64
