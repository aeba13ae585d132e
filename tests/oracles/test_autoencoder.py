"""Autoencoders against PCA, finite differences, and what they claim of held-out rows and cells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, make_swiss_roll

import eigengap
from eigengap.estimators.autoencoder import Autoencoder
from eigengap.fitting.autodiff import double_precision
from eigengap.fitting.autodiff.autoencoder import Adam, _value_and_gradient
from eigengap.fitting.autoencoder.fit import random_weights
from eigengap.fitting.autoencoder.rows import HeldOut, Monitor, Monitored
from eigengap.linalg import principal_angles
from eigengap.models.network.autoencoder import ACTIVATIONS, Architecture, Network
from eigengap.sources.conversion import as_source

# Fits here are as short as their tests allow.
pytestmark = pytest.mark.filterwarnings("ignore:Autoencoder did not converge")


def spectrum(decades, n=500, d=30, seed=0):
    """Rows whose standard deviations fall by so many decades, turned, with an offset."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * 10.0 ** np.linspace(0, -decades, d) @ Q + 5.0


# The linear network is PCA (Baldi and Hornik 1989) -------------------------------------------


@pytest.mark.parametrize("init", ["random", "pca"])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("decades", [0.5, 4.0])
def test_a_linear_autoencoder_spans_the_principal_subspace(init, scale, decades):
    """Eigenvalues fall by up to eight decades; from a random start it is the optimiser's doing."""
    X, q = spectrum(decades), 4
    model = Autoencoder(
        q, hidden=(), init=init, scale=scale, early_stopping=False, random_state=0
    ).fit(X)
    pca = eigengap.PCA(q, scale=scale, whiten=True).fit(X)
    decoder = model.model_.parts.decoder[0][0]  # (q, d), in standardised units
    assert principal_angles(decoder.T, pca.components_.T)[0] < 1e-6
    assert model.converged_
    assert_allclose(model.reconstruction_error_, pca.reconstruction_error(), rtol=1e-8)
    # Codes are whitened scores, at divisor n.
    scores = pca.transform(X) * np.sqrt(len(X) / (len(X) - 1))
    assert_allclose(np.abs(model.transform(X)), np.abs(scores), atol=1e-4)


def test_early_stopping_does_not_spoil_the_subspace():
    """The start is the principal subspace of all rows; held-out rows let L-BFGS go no worse."""
    X = spectrum(0.5, n=2000)
    model = Autoencoder(3, hidden=(), random_state=0).fit(X)
    pca = eigengap.PCA(3, scale=True).fit(X)
    assert -model.score(X) < 1.01 * pca.reconstruction_error() / X.shape[1]
    assert model.n_held_out_ == 200


@pytest.mark.parametrize("early_stopping", [False, True])
@pytest.mark.parametrize("decay", [0.02, 0.1, 0.3])
def test_decay_shrinks_a_linear_autoencoder_as_the_closed_form_says(decay, early_stopping):
    """Kunin et al. (2019): of variance l a share of max(0, 1 - decay d / (2 l)) comes back."""
    X, q = spectrum(0.7, n=2000, d=10), 4
    model = Autoencoder(
        q, hidden=(), init="random", weight_decay=decay, early_stopping=early_stopping,
        random_state=0,
    ).fit(X)  # fmt: skip
    if early_stopping:
        held = HeldOut.of(len(X), 0.1, int(np.random.RandomState(0).randint(2**31 - 1)))
        train = X[~held.among(next(iter(as_source(X)._blocks())))]
    else:
        train = X
    x = (train - X.mean(axis=0)) / X.std(axis=0)
    lam, U = np.linalg.eigh(x.T @ x / len(x))
    lam, U = lam[::-1][:q], U[:, ::-1][:, :q]
    kept = np.maximum(1.0 - decay * 10 / (2.0 * lam), 0.0)
    again = (model.reconstruct(train) - X.mean(axis=0)) / X.std(axis=0)
    tolerance = 0.05 if early_stopping else 1e-3
    centre = again.mean(axis=0)
    expected = (x - x.mean(axis=0)) @ (U * kept) @ U.T
    assert_allclose(again - centre, expected, atol=tolerance * np.abs(x).max())


# Gradients and the value ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "shortcut"), [*((name, True) for name in ACTIVATIONS), ("tanh", False)]
)
def test_gradients_by_finite_differences(activation, shortcut):
    """The loss written out with NumPy's network, differentiated by hand: gaps, weights, decay."""
    rng = np.random.default_rng(1)
    arch = Architecture(4, (5, 3), 2, activation, shortcut, sees_missing=True)
    theta = random_weights(arch, rng) + 0.1 * rng.normal(size=arch.size)
    X = rng.normal(size=(7, 4))
    X[rng.random(X.shape) < 0.3] = np.nan
    hidden = rng.random(X.shape) < 0.2
    w, decay, cells = rng.random(7), 0.3, 11.0
    observed = ~np.isnan(X)

    def loss(theta):
        network = Network(arch, theta, np.zeros(4), np.ones(4))
        again = network.reconstruct(np.where(hidden, np.nan, X))
        data = np.sum(w[:, None] * np.where(observed, again - np.nan_to_num(X), 0.0) ** 2) / cells
        return data + 0.5 * decay * sum(np.sum(W * W) for W in network.parts.matrices)

    with double_precision():
        value, slope = _value_and_gradient(
            theta,
            np.nan_to_num(X),
            observed * 1.0,
            observed * ~hidden * 1.0,
            w,
            cells,
            decay,
            arch=arch,
        )
    assert_allclose(float(value), loss(theta), rtol=1e-12)
    for k in rng.choice(arch.size, 25, replace=False):
        step = np.zeros(arch.size)
        step[k] = 1e-6
        difference = (loss(theta + step) - loss(theta - step)) / 2e-6
        assert_allclose(np.asarray(slope)[k], difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_of_the_decoder_by_finite_differences(activation):
    rng = np.random.default_rng(2)
    arch = Architecture(5, (6,), 3, activation, shortcut=True, sees_missing=False)
    network = Network(arch, random_weights(arch, rng), np.zeros(5), np.ones(5))
    Z, h = rng.normal(size=(4, 3)), 1e-6
    J = network.slopes(Z)
    for k in range(3):
        step = h * np.eye(3)[k]
        difference = (network.decode(Z + step) - network.decode(Z - step)) / (2 * h)
        assert_allclose(J[:, k], difference, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("shortcut", [False, True])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_other_codes_leave_reconstructions_alone(shortcut, hidden):
    rng = np.random.default_rng(3)
    arch = Architecture(5, hidden, 2, "tanh", shortcut and bool(hidden), sees_missing=True)
    network = Network(arch, rng.normal(size=arch.size), rng.normal(size=5), rng.random(5) + 1)
    X = rng.normal(size=(50, 5))
    X[rng.random(X.shape) < 0.2] = np.nan
    T, shift = rng.normal(size=(2, 2)), rng.normal(size=2)
    other = network.recoded(T, shift)
    assert_allclose(other.encode(X), (network.encode(X) - shift) @ T, atol=1e-10)
    assert_allclose(other.reconstruct(X), network.reconstruct(X), atol=1e-9)
    Z = network.encode(X)
    white = network.canonical(Z.mean(axis=0), np.cov(Z.T, bias=True), Z)
    assert_allclose(white.reconstruct(X), network.reconstruct(X), atol=1e-8)
    assert_allclose(np.cov(white.encode(X).T, bias=True), np.eye(2), atol=1e-8)
    J = white.slopes(white.encode(X))
    moved = np.einsum("nqd,nrd->qr", J, J)
    assert abs(moved[0, 1]) < 1e-8 * moved[0, 0]
    assert moved[0, 0] >= moved[1, 1]


def test_adam_by_its_equations():
    """Kingma and Ba (2015), Algorithm 1, written out for three steps."""
    rng = np.random.default_rng(4)
    x, m, v = np.ones(3), np.zeros(3), np.zeros(3)
    adam = Adam.at(x)
    for t in (1, 2, 3):
        g = rng.normal(size=3)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        adam = adam.step(g, 0.01)
    assert_allclose(adam.x, x, rtol=1e-12)


# What curved data gain ------------------------------------------------------------------------


def held_out(X, share=0.75, seed=0):
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(share * len(X))
    return X[order[:cut]], X[order[cut:]]


def pca_error(train, test, q):
    pca = eigengap.PCA(q, scale=True).fit(train)
    apart = pca.inverse_transform(pca.transform(test)) - test
    return np.mean((apart / np.where(pca.scale_ > 0, pca.scale_, 1)) ** 2)


def test_swiss_roll_is_given_back_better_than_by_pca():
    train, test = held_out(make_swiss_roll(800, noise=0.2, random_state=0)[0])
    model = Autoencoder(2, hidden=(32, 16), max_iter=40, random_state=0).fit(train)
    assert -model.score(test) < 0.5 * pca_error(train, test, 2)


@pytest.mark.slow
@pytest.mark.parametrize("q", [2, 5, 10])
def test_digits_are_given_back_better_than_by_pca(q):
    train, test = held_out(load_digits().data)
    model = Autoencoder(q, random_state=0, max_iter=100).fit(train)
    assert -model.score(test) < 0.7 * pca_error(train, test, q)


def test_codes_of_a_bent_line_follow_it():
    """One code of a parabola is monotone along it, which PCA's first score is too; but only the
    network comes back to the parabola."""
    t = np.random.default_rng(5).uniform(-1, 1, size=400)
    X = np.column_stack([t, t**2, np.sin(3 * t)])
    model = Autoencoder(1, hidden=(12,), max_iter=100, random_state=0).fit(X)
    z = model.transform(X)[:, 0]
    rank = np.corrcoef(np.argsort(np.argsort(z)), np.argsort(np.argsort(t)))[0, 1]
    assert abs(rank) > 0.999
    assert model.loss_ < 0.01


# Gaps -------------------------------------------------------------------------------------------


def test_filling_is_better_with_denoising_and_its_deviations_are_honest():
    """Bent rows with 20 % of the cells gone; half of the rows to fit, half to judge."""
    rng = np.random.default_rng(6)
    t = rng.uniform(-2, 2, size=(800, 2))
    mixing = rng.normal(size=(2, 10))
    X = np.tanh(t @ mixing) + 0.3 * (t @ rng.normal(size=(2, 10))) ** 2
    X += 0.05 * rng.normal(size=X.shape)
    missing = rng.random(X.shape) < 0.2
    G = np.where(missing, np.nan, X)
    train, test = G[:400], G[400:]
    errors = {}
    for share in (0.0, 0.2):
        model = Autoencoder(2, hidden=(32, 16), denoising=share, max_iter=100, random_state=0).fit(
            train
        )
        filled, sd = model.impute(test, return_std=True)
        apart = (filled - X[400:]) / model.model_.unit
        errors[share] = np.sqrt(np.mean(apart[missing[400:]] ** 2))
        observed = ~missing[400:]
        assert np.array_equal(filled[observed], X[400:][observed])
        assert np.all(sd[observed] == 0.0)
        assert np.all(sd[missing[400:]] > 0.0)
    inside = np.abs(filled - X[400:])[missing[400:]] < 1.96 * sd[missing[400:]]
    assert 0.91 < inside.mean() < 0.99
    assert errors[0.2] < errors[0.0]
    ppca = eigengap.PPCA(2, scale=True).fit(train).impute(test)
    assert errors[0.2] < np.sqrt(
        np.mean(((ppca - X[400:]) / model.model_.unit)[missing[400:]] ** 2)
    )


def test_deviations_of_filled_cells_by_brute_force():
    """Every seen cell of the rows held out is hidden once; two rows at the mean over columns."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    model = Autoencoder(2, hidden=(4,), max_iter=10, random_state=0).fit(X)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    held = HeldOut.of(60, 0.1, seed)
    rows = X[held.among(next(iter(as_source(X)._blocks())))]
    assert len(rows) == model.n_held_out_ == 6
    mean, unit = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    folds = Monitor.of(Monitored(rows, np.ones(6)), 0.0, seed)._folds()
    total, times = np.zeros(5), np.zeros(rows.shape)
    for hidden in folds:
        times += hidden
        again = model.reconstruct(np.where(hidden, np.nan, rows))
        total += np.nansum(np.where(hidden, ((again - rows) / unit) ** 2, 0.0), axis=0)
    assert np.array_equal(times, ~np.isnan(rows))
    z = (rows - mean) / unit
    count = (~np.isnan(rows)).sum(axis=0)
    missed = total.sum() / np.nansum(z**2)
    expected = np.sqrt((total + 2.0 * missed * np.nanmean(z**2, axis=0)) / count) * unit
    assert_allclose(model.noise_std_, expected, rtol=1e-9)


def test_the_loss_is_that_of_the_observed_cells():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(120, 4)) @ rng.normal(size=(4, 4))
    X[rng.random(X.shape) < 0.2] = np.nan
    model = Autoencoder(2, hidden=(8,), early_stopping=False, max_iter=20, random_state=0).fit(X)
    z = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    again = (model.reconstruct(X) - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    assert_allclose(model.loss_, np.nanmean((again - z) ** 2), rtol=1e-9)
    assert_allclose(model.score_samples(X), -np.nanmean((again - z) ** 2, axis=1), rtol=1e-9)
