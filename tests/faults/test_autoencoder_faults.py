"""Autoencoders on bad and ugly input: an error that names it, a warning, or the right answer."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from eigengap.estimators.autoencoder import Autoencoder

SMALL = {"hidden": (8,), "max_iter": 15, "random_state": 0}
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    t = rng.normal(size=(100, 2))
    return np.column_stack([t, t[:, 0] ** 2, t.sum(axis=1)])


@quiet
@pytest.mark.parametrize("scale", [True, False])
def test_constant_columns_come_back_as_they_are(X, scale):
    """T7."""
    A = np.column_stack([X, np.full(len(X), 7.5)])
    model = Autoencoder(2, scale=scale, **SMALL).fit(A)
    assert np.all(model.reconstruct(A)[:, 4] == 7.5)
    assert np.all(model.inverse_transform(np.ones((3, 2)))[:, 4] == 7.5)
    other = A.copy()
    other[:, 4] = 9.0
    assert np.array_equal(model.transform(other), model.transform(A))
    A[3, 4] = np.nan
    assert model.impute(A)[3, 4] == 7.5


@quiet
def test_a_constant_table():
    """T6."""
    A = np.full((30, 3), 2.0)
    model = Autoencoder(2, **SMALL).fit(A)
    assert np.array_equal(model.reconstruct(A), A)
    assert np.isfinite(model.transform(A)).all()
    assert model.loss_ == 0.0


@quiet
def test_an_offset_costs_nothing(X):
    """T1."""
    A = np.round(X, 6)
    here, there = Autoencoder(2, **SMALL).fit(A), Autoencoder(2, **SMALL).fit(A + 1e8)
    assert_allclose(there.loss_, here.loss_, rtol=1e-4)
    assert_allclose(there.transform(A + 1e8), here.transform(A), atol=1e-3)


@quiet
def test_a_row_without_any_value(X):
    """T22: it changes nothing but the order of rows, has a code, and no error."""
    A = np.vstack([X, np.full(4, np.nan)])
    model = Autoencoder(2, **SMALL).fit(A)
    assert np.isfinite(model.transform(A)).all()
    assert np.isfinite(model.impute(A)).all()
    assert model.score_samples(A)[-1] == 0.0


@quiet
@pytest.mark.parametrize("n", [2, 3, 5, 19, 20])
def test_few_rows(n):
    A = np.random.default_rng(n).normal(size=(n, 3))
    model = Autoencoder(1, **SMALL).fit(A)
    assert model.n_held_out_ == (5 if n >= 20 else 0)
    assert np.isfinite(model.transform(A)).all()
    assert np.isfinite(model.noise_std_).all()


def test_one_row_is_refused():
    """T8."""
    with pytest.raises(ValueError, match="at least 2"):
        Autoencoder(1).fit(np.ones((1, 3)))


@quiet
def test_more_codes_and_wider_layers_than_columns(X):
    model = Autoencoder(6, hidden=(50,), max_iter=10, random_state=0).fit(X)
    assert model.transform(X).shape == (100, 6)
    assert np.isfinite(model.reconstruct(X)).all()
    one = Autoencoder(2, **SMALL).fit(X[:, :1])
    assert np.isfinite(one.transform(X[:, :1])).all()


@pytest.mark.parametrize("polish", [False, True])
def test_an_exploding_rate_is_told_and_the_best_weights_are_kept(X, polish):
    with pytest.warns(ConvergenceWarning, match="exploded after .* learning_rate=1000.0"):
        model = Autoencoder(
            2, hidden=(8,), activation="relu", learning_rate=1000.0, polish=polish, max_iter=20,
            random_state=0,
        ).fit(X)  # fmt: skip
    start = Autoencoder(2, hidden=(), random_state=0).fit(X)
    assert -model.score(X) < 1.2 * -start.score(X)  # no worse than PCA, where it began


def test_infinity_and_text_are_named(X):
    """T18."""
    A = X.copy()
    A[4, 2] = np.inf
    with pytest.raises(ValueError, match="row 4, column 2"):
        Autoencoder(2, **SMALL).fit(A)
    with pytest.raises(ValueError, match="b"):
        Autoencoder(2).fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


def test_a_column_without_any_value(X):
    """T21."""
    A = X.copy()
    A[:, 1] = np.nan
    with pytest.raises(ValueError, match="no value in column 1"):
        Autoencoder(2, **SMALL).fit(A)


@quiet
def test_large_and_small_numbers(X):
    """T5."""
    whole = Autoencoder(2, **SMALL).fit(X)
    for factor in (1e120, 1e-120):
        scaled = Autoencoder(2, **SMALL).fit(X * factor)
        assert_allclose(scaled.transform(X * factor), whole.transform(X), atol=1e-6)
    with pytest.raises(ValueError, match="rescale"):
        Autoencoder(2, **SMALL).fit(X * 1e300)
    with pytest.raises(ValueError, match="rescale"):
        Autoencoder(2, **SMALL).fit(X * 1e-300)


def test_sparse_tables_are_refused_with_a_way_out(X):
    with pytest.raises(ValueError, match="toarray"):
        Autoencoder(2).fit(csr_array(np.abs(X)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": (4, 0)}, "positive integers"),
        ({"hidden": (2.5,)}, "positive integers"),
        ({"shortcut": False, "init": "pca"}, "linear path"),
        ({"activation": "sine"}, "activation"),
        ({"denoising": 1.0}, "denoising"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
    ],
    ids=["width0", "width-half", "no-place", "activation", "denoising", "rate", "fraction"],
)
def test_what_parameters_are_refused(X, change, message):
    with pytest.raises(ValueError, match=message):
        Autoencoder(2, **{**SMALL, **change}).fit(X)


def test_a_failed_fit_leaves_nothing_behind(X):
    model = Autoencoder(2, hidden=(0,))
    with pytest.raises(ValueError, match="hidden"):
        model.fit(X)
    with pytest.raises(NotFittedError):
        model.transform(X)


@quiet
def test_codes_of_the_wrong_shape(X):
    model = Autoencoder(2, **SMALL).fit(X)
    with pytest.raises(ValueError, match="each of the 2 codes"):
        model.inverse_transform(np.zeros((3, 3)))
    filled = model.inverse_transform(np.array([[np.nan, 1.0]]))
    assert np.array_equal(filled, model.inverse_transform(np.array([[0.0, 1.0]])))
