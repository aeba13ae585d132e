"""ICA finds sources that are known: complete, with gaps, in noise, and out of saddles."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from tests.mixtures import amari, mixture, sources

from eigengap.estimators.ica import ICA
from eigengap.fitting.ica.fit import fit_rotation
from eigengap.fitting.ica.steps import rotated_pairs
from eigengap.fitting.ica.whitening import no_whitening, white_scores
from eigengap.sources.conversion import as_source
from eigengap.statistics.nonlinearity import LogCosh
from eigengap.statistics.score_moments import ScoreBlock

ALL = ("sub", "super", "mixed")


@pytest.mark.parametrize("kind", ALL)
def test_as_good_as_fastica_over_seeds(kind):
    ours, theirs = [], []
    for seed in range(10):
        X, A = mixture(kind, 2000, 6, seed)
        ours.append(amari(ICA().fit(X).components_ @ A))
        peer = FastICA(tol=1e-10, max_iter=1000, random_state=0).fit(X)
        theirs.append(amari(peer.components_ @ A))
    assert np.mean(ours) <= np.mean(theirs) + 1e-5
    assert np.max(ours) < 0.05


def noisy(kind: str, seed: int, n=8000, d=20, q=5, snr=1.0):
    """Rows of q sources in d columns under white noise; snr is of the variances of all cells."""
    rng = np.random.default_rng(200 + seed)
    B = rng.standard_normal((d, q)) * np.linspace(1.0, 0.5, q)
    X = sources(kind, n, q, seed) @ B.T
    sigma2 = np.sum(B**2) / d / snr
    return X + rng.standard_normal((n, d)) * np.sqrt(sigma2), B, sigma2


@pytest.mark.parametrize("kind", ALL)
def test_noise_taken_off_recovers_the_mixing_better(kind):
    """Whitening with its noise bends the mixing matrix; PPCA's noise taken off does not."""
    plain, aware = [], []
    for seed in range(5):
        X, B, _ = noisy(kind, seed)
        plain.append(amari(np.linalg.pinv(ICA(5).fit(X).mixing_) @ B))
        aware.append(amari(np.linalg.pinv(ICA(5, noise="isotropic").fit(X).mixing_) @ B))
    assert np.mean(aware) < 0.7 * np.mean(plain)


def test_noise_aware_mixing_has_the_scale_of_the_sources():
    X, B, sigma2 = noisy("super", 1)
    ica = ICA(5, noise="isotropic").fit(X)
    np.testing.assert_allclose(np.sum(ica.mixing_**2), np.sum(B**2), rtol=0.05)
    C = np.cov(X.T, bias=True)
    np.testing.assert_allclose(
        ica.mixing_ @ ica.mixing_.T + sigma2 * np.eye(20), C, atol=0.1 * C.max()
    )


def test_noise_aware_transform_is_the_best_linear_estimate():
    """Posterior mean under the model: B'(B B' + sigma2 I)^-1 (x - mean)."""
    X, _, _ = noisy("mixed", 2)
    ica = ICA(5, noise="isotropic").fit(X)
    B, sigma2 = ica.mixing_, float(ica.density_.psi[0])
    A = B.T @ np.linalg.inv(B @ B.T + sigma2 * np.eye(20))
    np.testing.assert_allclose(ica.components_, A, atol=1e-10)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(("d", "share"), [(5, 0.05), (8, 0.1), (20, 0.3)])
def test_missing_cost_little(kind, d, share):
    rng = np.random.default_rng(7)
    B = rng.standard_normal((d, 5))
    X = sources(kind, 5000, 5, seed=8) @ B.T
    if d > 5:
        X += 0.1 * rng.standard_normal(X.shape)
    complete = amari(ICA(5).fit(X).components_ @ B)
    X[rng.random(X.shape) < share] = np.nan
    assert amari(ICA(5).fit(X).components_ @ B) < 1.5 * complete + 0.005


def test_all_components_of_a_square_mixture_with_missing():
    """PPCA has one component less than columns then, and the Gaussian is free all the same."""
    X, A = mixture("super", 5000, 4, seed=1)
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    ica = ICA().fit(X)
    assert ica.n_components_ == 4
    assert amari(ica.components_ @ A) < 0.03


def test_a_saddle_is_left():
    """A grid turned by 45 degrees: at its own axes the gradient is zero by symmetry."""
    grid = np.array(np.meshgrid(np.arange(21.0), np.arange(21.0))).reshape(2, -1).T - 10
    grid /= grid.std()
    diamond = grid @ np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    found = fit_rotation(white_scores(as_source(diamond), no_whitening(2))[0], 2)
    assert found.escapes == 1
    assert amari(found.R @ np.array([[1.0, 1.0], [1.0, -1.0]])) < 1e-6


def test_pairs_are_turned_only_where_it_helps():
    S = sources("mixed", 2000, 6, seed=9)
    half = np.sqrt(0.5) * np.array([[1.0, 1.0], [1.0, -1.0]])
    assert rotated_pairs(ScoreBlock(S, None), np.eye(6), LogCosh()) is None
    R = np.eye(6)
    R[np.ix_([1, 4], [1, 4])] = half
    turned = rotated_pairs(ScoreBlock(S, None), R, LogCosh())
    assert turned is not None
    assert amari(turned) < 1e-12


def test_real_signals_converge():
    """Digits: the fixed point alone needs hundreds of steps, and scikit-learn's gives up early."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    ica = ICA(20, tol=1e-8).fit(X)
    assert ica.converged_
    assert ica.n_iter_ < 120
