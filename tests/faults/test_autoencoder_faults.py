"""Autoencoders on bad and ugly input: an error that names it, a warning, or the right answer."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from eigengap.estimators.autoencoder import Autoencoder
from eigengap.estimators.ppca import PPCA
from eigengap.exceptions import DoesNotFitError

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
    scores = model.score_samples(A)
    assert scores[-1] == PPCA(2).fit(X).score_samples(A)[-1] == 0.0
    assert not np.signbit(scores[-1])
    assert_allclose(model.score(A), np.mean(scores[:-1]), rtol=1e-12)
    assert model.score(A[-1:]) == 0.0


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
    with pytest.warns(UserWarning, match="n_components=6 codes are more than the 4 columns"):
        model = Autoencoder(6, hidden=(50,), max_iter=10, random_state=0).fit(X)
    assert model.transform(X).shape == (100, 6)
    assert np.isfinite(model.reconstruct(X)).all()
    one = Autoencoder(2, denoising=0.1, **SMALL).fit(X[:, :1])  # without a word
    assert np.isfinite(one.transform(X[:, :1])).all()


@pytest.mark.parametrize("polish", [False, True])
@pytest.mark.parametrize(("activation", "rate"), [("relu", 1000.0), ("tanh", 3.0), ("gelu", 1e200)])
def test_an_exploding_rate_is_told_and_the_best_weights_are_kept(X, polish, activation, rate):
    """Whether the loss overflows, or stays finite but far above where it began."""
    way_out = f"exploded in .* learning_rate={rate:g}, .* say learning_rate={rate / 10:g}"
    with pytest.warns(ConvergenceWarning, match=re.escape(way_out).replace(r"\.\*", ".*")):
        model = Autoencoder(
            2, hidden=(8,), activation=activation, learning_rate=rate, polish=polish, max_iter=60,
            random_state=0,
        ).fit(X)  # fmt: skip
    assert not model.converged_
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
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("factor", [1e-200, 1e-120, 1e6, 1e120, 1e200])
def test_the_unit_of_the_table_does_not_matter(X, scale, factor):
    """T5: squares that leave the range of floating point are never formed.

    Steps carry rounding on.
    """
    A = X.copy()
    A[::7, 1] = np.nan
    whole = Autoencoder(2, scale=scale, **SMALL).fit(A)
    scaled = Autoencoder(2, scale=scale, **SMALL).fit(A * factor)
    assert np.ptp(scaled.transform(A * factor)) > 1.0
    assert_allclose(scaled.transform(A * factor), whole.transform(A), atol=1e-4)
    assert_allclose(scaled.impute(A * factor) / factor, whole.impute(A), atol=1e-4)
    assert_allclose(scaled.noise_std_ / factor, whole.noise_std_, rtol=1e-4)
    assert_allclose(scaled.score(A * factor), whole.score(A), rtol=1e-4)


@pytest.mark.parametrize("scale", [True, False])
def test_numbers_at_the_end_of_the_range_are_refused(X, scale):
    for factor in (1e300, 1e-300):
        with pytest.raises(ValueError, match=r"column 0 varies by .* rescale"):
            Autoencoder(2, scale=scale, **SMALL).fit(X * factor)


@quiet
def test_new_numbers_that_overflow_are_named(X):
    model = Autoencoder(2, **SMALL).fit(X)
    far = X[:5].copy()
    far[3] = 1.5e308
    for of in (model.transform, model.reconstruct, model.score_samples):
        with pytest.raises(ValueError, match="row 3 has cells so large"):
            of(far)
    with pytest.raises(ValueError, match="row 1 has coordinates so large"):
        model.inverse_transform(np.array([[0.0, 0.0], [1.5e308, -1.5e308]]))
    with pytest.raises(ValueError, match="-inf at row 1, column 1: infinite values"):
        model.inverse_transform(np.array([[0.0, 0.0], [1.0, -np.inf]]))


def test_networks_that_memory_does_not_hold_are_refused_before(X):
    """T29."""
    with pytest.raises(DoesNotFitError, match=r"of 20000\d+ weights .* GB .* narrower layers"):
        Autoencoder(2, hidden=(10**6, 10**6)).fit(X)


def test_steps_that_memory_does_not_hold_are_left_out(X, monkeypatch):
    """L-BFGS remembers forty copies of the weights: left out, or refused where it was asked for."""
    from eigengap.fitting.autoencoder import fit as network_memory
    from eigengap.runtime import memory

    size = 4 * 8 + 8 * 2 + 2 * 8 + 8 * 4 + 8 + 2 + 8 + 4 + 4 * 2 + 2 * 4
    room = int(8 * size * 20 / network_memory.SHARE)
    monkeypatch.setattr(network_memory, "free_memory", lambda: room)
    model = Autoencoder(2, hidden=(8,), max_iter=3, patience=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="3 passes and 0 further steps"):
        model.fit(X)
    monkeypatch.setattr(memory, "free_memory", lambda: room)
    with pytest.raises(DoesNotFitError, match="or polish=False"):
        model.set_params(polish=True).fit(X)


def test_decay_that_leaves_nothing_is_told(X):
    with pytest.warns(UserWarning, match="weight_decay=1000 leaves next to nothing"):
        model = Autoencoder(2, hidden=(8,), weight_decay=1e3, random_state=0).fit(X)
    assert np.ptp(model.reconstruct(X), axis=0).max() < 1e-3
    assert np.isfinite(model.transform(X)).all()


def test_sparse_tables_are_refused_with_a_way_out(X):
    with pytest.raises(ValueError, match="toarray"):
        Autoencoder(2).fit(csr_array(np.abs(X)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": (4, 0)}, "positive integers"),
        ({"hidden": (2.5,)}, "positive integers"),
        ({"hidden": 16}, r"for one layer write hidden=\(16,\)"),
        ({"shortcut": False, "init": "pca"}, "linear path"),
        ({"activation": "sine"}, "activation"),
        ({"denoising": 1.0}, "denoising"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
    ],
    ids=[
        "width0",
        "width-half",
        "number",
        "no-place",
        "activation",
        "denoising",
        "rate",
        "fraction",
    ],
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
