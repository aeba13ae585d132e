"""inverse_transform of what is infinite, or so large that the row overflows: refused by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import eigengap as eg

MODELS = {
    "Autoencoder": lambda: eg.Autoencoder(2, max_iter=2, polish=False, random_state=0),
    "BayesianPCA": lambda: eg.BayesianPCA(2),
    "ClassicalMDS": lambda: eg.ClassicalMDS(2),
    "FactorAnalysis": lambda: eg.FactorAnalysis(2),
    "GPLVM": lambda: eg.GPLVM(2, kernel="linear"),
    "ICA": lambda: eg.ICA(2, random_state=0),
    "KernelPCA": lambda: eg.KernelPCA(2, kernel="rbf", fit_inverse_transform=True),
    "KernelPCA-linear": lambda: eg.KernelPCA(2, preimage="fixed_point"),
    "PCA": lambda: eg.PCA(2),
    "PCA-scaled": lambda: eg.PCA(2, scale=True, whiten=True),
    "PPCA": lambda: eg.PPCA(2),
    "Whitener": lambda: eg.Whitener(),
    "Whitener-centre": lambda: eg.Whitener(method="centre"),
}


def test_every_estimator_that_goes_back_is_here():
    able = {name for name in eg.__all__ if hasattr(getattr(eg, name), "inverse_transform")}
    assert able == {name.partition("-")[0] for name in MODELS}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(40, 4))
    model = MODELS[request.param]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X), np.asarray(model.transform(X[:4]))


@pytest.fixture(autouse=True)
def every_warning_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bad", [[np.inf], [-np.inf], [np.inf, -np.inf], [np.inf, np.nan]])
def test_infinities_are_refused_by_row_and_column(fitted, bad, dtype):
    model, Z = fitted
    Z = Z.astype(dtype)
    Z[2, : len(bad)] = bad
    with pytest.raises(ValueError, match=r"inf at row 2, column 0"):
        model.inverse_transform(Z)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_overflow_are_refused_or_right(fitted, dtype):
    """The largest numbers of a dtype: their rows are finite, or the row is named."""
    model, Z = fitted
    Z = Z.astype(dtype)
    expected = model.inverse_transform(Z)
    Z[2] = np.finfo(dtype).max
    try:
        rows = model.inverse_transform(Z)
    except ValueError:
        with pytest.raises(ValueError, match="row 2"):
            model.inverse_transform(Z)
        return
    assert rows.dtype == dtype
    assert np.isfinite(rows).all()
    others = [0, 1, 3]
    near = 100 * np.finfo(dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(rows[others], expected[others], rtol=0, atol=near)
