"""Laws of the autoencoder as its users see it."""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from eigengap.estimators.autoencoder import Autoencoder
from eigengap.fitting.autoencoder.rows import HeldOut, Standard, TrainingBlocks, shuffled_batches
from eigengap.sources.conversion import as_source

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SMALL = {"hidden": (8,), "max_iter": 15, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    t = rng.normal(size=(200, 2))
    return np.column_stack([t, t[:, 0] ** 2, t[:, 0] * t[:, 1]]) + 0.05 * rng.normal(size=(200, 4))


@pytest.fixture(scope="module")
def incomplete(X):
    return np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)


def test_transform_is_fit_transform(X, incomplete):
    for rows in (X, incomplete):
        model = Autoencoder(2, **SMALL)
        assert np.array_equal(model.fit_transform(rows), model.transform(rows))
        assert np.array_equal(
            model.inverse_transform(model.transform(rows)), model.reconstruct(rows)
        )


def test_the_same_seed_gives_the_same_numbers(incomplete):
    a, b = (Autoencoder(2, denoising=0.2, **SMALL).fit(incomplete) for _ in range(2))
    assert np.array_equal(a.model_.theta, b.model_.theta)
    assert np.array_equal(a.trace_.objective, b.trace_.objective)
    other = Autoencoder(2, denoising=0.2, **{**SMALL, "random_state": 1}).fit(incomplete)
    assert not np.array_equal(a.model_.theta, other.model_.theta)


def test_codes_are_white_and_in_order(X):
    model = Autoencoder(2, early_stopping=False, **SMALL).fit(X)
    Z = model.transform(X)
    assert_allclose(Z.mean(axis=0), 0.0, atol=1e-9)
    assert_allclose(np.cov(Z.T, bias=True), np.eye(2), atol=1e-9)


def test_units_and_offsets_of_columns_do_not_matter(incomplete):
    """scale=True: the standardised table is the same."""
    unit, offset = np.array([1e-3, 1.0, 50.0, 1e4]), np.array([0.0, -7.0, 3.0, 1e3])
    a, b = (Autoencoder(2, **SMALL).fit(rows) for rows in (incomplete, incomplete * unit + offset))
    assert_allclose(b.transform(incomplete * unit + offset), a.transform(incomplete), atol=1e-5)
    assert_allclose(b.noise_std_, a.noise_std_ * unit, rtol=1e-5)


def test_polishing_lowers_the_training_loss(X):
    options = {"hidden": (8,), "max_iter": 40, "early_stopping": False, "random_state": 0}
    rough = Autoencoder(2, polish=False, **options).fit(X)
    fine = Autoencoder(2, polish=True, **options).fit(X)
    assert fine.loss_ < rough.loss_
    assert fine.n_iter_ > fine.n_epochs_ == rough.n_epochs_
    assert rough.n_iter_ == rough.n_epochs_
    assert np.all(np.diff(fine.trace_.objective[fine.n_epochs_ :]) <= 0.0)


def test_early_stopping_keeps_the_best_weights(X):
    """Patience ends the fit after so many passes of which none was the best: by its own rule."""
    patience = 10
    model = Autoencoder(
        2, hidden=(16,), learning_rate=0.05, polish=False, max_iter=1000, patience=patience,
        tol=0.0, random_state=3,
    ).fit(X)  # fmt: skip
    curve = model.validation_curve_
    assert model.stopped_early_
    assert len(curve) == model.n_epochs_
    assert np.argmin(curve) == len(curve) - 1 - patience
    held = HeldOut.of(len(X), 0.1, _seed(3))
    chosen = held.among(next(iter(_blocks(X))))
    assert chosen.sum() == model.n_held_out_ == 20
    assert_allclose(-model.score(X[chosen]), curve.min(), rtol=1e-9)


def test_without_early_stopping_no_row_is_held_out(X):
    model = Autoencoder(2, early_stopping=False, **SMALL).fit(X)
    assert model.n_held_out_ == 0
    assert len(model.validation_curve_) == 0
    assert not model.stopped_early_


@pytest.mark.parametrize(
    "options",
    [
        {"early_stopping": False},
        {"early_stopping": True},
        {"polish": False},
        {"denoising": 0.2, "learning_rate": 0.03},
        {"hidden": ()},
    ],
    ids=["all-rows", "held-out", "adam", "denoising", "linear"],
)
def test_more_decay_is_smaller_weights_and_flatter_reconstructions(X, options):
    """Sums of squares of weights before codes are rescaled, which leaves reconstructions alone."""
    weights, spread = [], []
    for decay in (0.0, 0.03, 0.3, 1e3):
        given = {"hidden": (6,), "max_iter": 200, "random_state": 0, **options}
        found = _raw_fit(X, Autoencoder(2, weight_decay=decay, **given))
        weights.append(sum(np.sum(W * W) for W in found.raw.parts.matrices))
        again = found.network.reconstruct(X)
        spread.append(np.mean(np.var(again / X.std(axis=0), axis=0)))
    assert np.all(np.diff(weights) <= 0.0)  # held-out rows may keep the start for both of two
    assert np.all(np.diff(spread) < 1e-6)
    assert weights[-1] < 0.5 * weights[-2] < weights[-2] < 0.8 * weights[0]
    assert spread[-1] < 1e-4 < 0.5 < spread[0]


@pytest.mark.parametrize("rows", [7, 64, 200])
def test_every_row_is_used_once_a_pass(X, rows):
    source = as_source(X, block_rows=rows)
    held = HeldOut.of(len(X), 0.1, 0)
    blocks = TrainingBlocks.of(source, Standard.of(source, scale=True), held)
    observed = []

    class Count:
        def merge(self, other):
            return self

    def of(block):
        for at, weight in shuffled_batches(block, 16, (0, 2, 5)):
            assert len(at) == 16
            observed.extend(block.x[at[weight > 0]].tolist())
        return Count()

    blocks.reduce(of)
    expected = ((X - X.mean(axis=0)) / X.std(axis=0))[~held.among(next(iter(_blocks(X))))]
    assert len(observed) == 180
    assert_allclose(sorted(observed), sorted(expected.tolist()))


def test_held_out_rows_do_not_depend_on_blocks(X):
    held = HeldOut.of(len(X), 0.1, 0)
    whole = held.among(next(iter(_blocks(X))))
    parts = np.concatenate([held.among(block) for block in _blocks(X, 7)])
    assert np.array_equal(whole, parts)


def test_a_table_in_blocks_is_fitted_as_well(X):
    """Rows are shuffled within blocks, so that numbers differ, but not by much."""
    whole = Autoencoder(2, hidden=(8,), max_iter=60, random_state=0).fit(X)
    blocked = Autoencoder(2, hidden=(8,), max_iter=60, random_state=0).fit(
        as_source(X, block_rows=50)
    )
    assert blocked.loss_ < 1.3 * whole.loss_ + 0.01


def test_rows_that_memory_does_not_hold_are_read_anew(X, monkeypatch):
    """Nothing is kept: more passes over the source, the same weights; no polishing."""
    from eigengap.fitting.autoencoder import rows as network_rows

    options = {"hidden": (8,), "max_iter": 5, "polish": False, "random_state": 0}
    kept, read = as_source(X, block_rows=50), as_source(X, block_rows=50)
    a = Autoencoder(2, **options).fit(kept)
    monkeypatch.setattr(network_rows, "free_memory", lambda: 1000)
    b = Autoencoder(2, **{**options, "polish": True}).fit(read)
    assert_allclose(a.model_.theta, b.model_.theta, rtol=1e-12)
    assert b.n_iter_ == b.n_epochs_ == 5


def test_a_fit_can_go_on_from_its_state(X):
    """The state is a flat dict of arrays; ten passes are five and five more."""
    from eigengap.fitting.autodiff import double_precision
    from eigengap.fitting.autodiff.autoencoder import AutoencoderOptions, _Fit
    from eigengap.fitting.optimise.loop import iterate

    options = AutoencoderOptions(hidden=(8,), denoising=0.2, seed=4)
    with double_precision():
        fit = _Fit(as_source(X), 2, options)
        straight, _, _ = iterate(fit._epoch, fit._state(fit._start()), max_iter=10)
        half, _, _ = iterate(fit._epoch, fit._state(fit._start()), max_iter=5)
        assert all(isinstance(value, np.ndarray) for value in half.values())
        resumed, _, _ = iterate(_Fit(as_source(X), 2, options)._epoch, half, max_iter=5)
    assert np.array_equal(straight["theta"], resumed["theta"])
    assert np.array_equal(straight["curve"], resumed["curve"])


def test_float32_in_float32_out(X):
    model = Autoencoder(2, **SMALL).fit(X.astype(np.float32))
    rows = X.astype(np.float32)
    for found in (model.transform(rows), model.reconstruct(rows), model.impute(rows)):
        assert found.dtype == np.float32
    double = Autoencoder(2, **SMALL).fit(rows.astype(np.float64))
    assert_allclose(model.transform(rows), double.transform(rows.astype(np.float64)), atol=1e-4)


def test_frames_come_back_as_frames(incomplete):
    frame = pd.DataFrame(incomplete, columns=list("abcd"), index=np.arange(200) + 5)
    model = Autoencoder(2, **SMALL).fit(frame)
    assert list(model.get_feature_names_out()) == ["autoencoder0", "autoencoder1"]
    filled, sd = model.impute(frame, return_std=True)
    for table in (filled, sd, model.reconstruct(frame)):
        assert list(table.columns) == list("abcd")
        assert table.index.equals(frame.index)
    assert not filled.isna().any().any()


def test_a_fitted_model_copies_and_pickles(X):
    model = Autoencoder(2, **SMALL).fit(X)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.transform(X), model.transform(X))


WITHOUT_JAX = """
import pickle, sys
sys.modules["jax"] = None
import numpy as np
from eigengap.exceptions import MissingExtraError
model, X, Z = pickle.load(open(sys.argv[1], "rb"))
assert np.array_equal(model.transform(X), Z)
model.impute(X), model.score(X), model.inverse_transform(Z)
try:
    model.fit(X)
except MissingExtraError as error:
    assert 'pip install "eigengap[autodiff]"' in str(error), error
    assert np.array_equal(model.transform(X), Z)
    print("told")
"""


def test_a_fitted_model_needs_no_jax(incomplete, tmp_path):
    model = Autoencoder(2, **SMALL).fit(incomplete)
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((model, incomplete, model.transform(incomplete))))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "told"


def test_progress_is_shown_where_asked(X, capsys):
    Autoencoder(2, verbose=True, **SMALL).fit(X)
    said = capsys.readouterr().err
    assert said.startswith("Autoencoder: ")
    Autoencoder(2, **SMALL).fit(X)
    assert capsys.readouterr().err == ""


def test_the_callers_own_precision_is_left_alone(X):
    import jax

    Autoencoder(2, **SMALL).fit(X)
    assert jax.numpy.ones(2).dtype == np.float32


def test_too_few_passes_are_told(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning, match="raise max_iter=1"):
            Autoencoder(2, hidden=(8,), max_iter=1, random_state=0).fit(X)


def _blocks(X, rows=None):
    return as_source(X, block_rows=rows)._blocks()


def _seed(random_state):
    return int(np.random.RandomState(random_state).randint(np.iinfo(np.int32).max))


def _raw_fit(X, model):
    """The fit by an estimator's options, and the network before its codes were recast."""
    from types import SimpleNamespace

    from eigengap.fitting.autodiff import double_precision
    from eigengap.fitting.autodiff.autoencoder import _Fit

    with double_precision():
        fit = _Fit(as_source(X), 2, model._options())
        observed = []
        finished = fit._finished
        fit._finished = lambda theta: observed.append(fit.network(theta)) or finished(theta)
        found = fit.run()
    return SimpleNamespace(raw=observed[0], network=found.network)
