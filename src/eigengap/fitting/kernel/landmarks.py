"""Kernel PCA on landmarks: the Nystroem approximation, in one pass over any source.

Williams and Seeger (2001), "Using the Nystroem method to speed up kernel machines": rows are
projected, in feature space, onto the span of m landmarks; PCA of the projected rows needs their
m x m scatter alone. The trace of what the projection leaves out is summed on the way, and bounds
what every eigenvalue is low by. With all rows as landmarks nothing is left out.

Landmarks are drawn from a sample of the rows: far from each other in feature space (k-means++,
Arthur and Vassilvitskii 2007), by their ridge leverage (Alaoui and Mahoney 2015, Musco and Musco
2017), uniformly, or they are the centroids of k-means (Zhang, Tsang and Kwok 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import log
from typing import Any, Literal

import numpy as np

from eigengap.exceptions import KernelOverflowError
from eigengap.fitting.kernel.fit import (
    PCA_LIKE,
    ROUNDING,
    Convention,
    KernelFit,
    Wanted,
    cleaned,
    components_for,
    fit_kernel_pca,
    landmark_map,
)
from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.linalg import Array, sign_rule
from eigengap.models.kernels.expected import ExpectedKernel
from eigengap.models.kernels.functions import Kernel, Rows, about_mean
from eigengap.sources.base import Source
from eigengap.statistics.landmark_moments import LandmarkFeatures, LandmarkMoments

Choice = Literal["kmeans++", "kmeans", "leverage", "uniform"]

SAMPLE_ROWS = 10_000  # from which landmarks are chosen, and at least:
ROWS_PER_LANDMARK = 5
NEGATIVE = 1e-8  # relative to the largest eigenvalue: more than rounding leaves
SAMPLE_BYTES = 1 << 28
MOST_FEATURES = 2000  # columns up to which kernels with explicit features go by their scatter


def fit_rows(
    source: Source,
    kernel: Kernel,
    wanted: Wanted,
    *,
    convention: Convention,
    landmarks: int | None,
    how: Choice,
    rng: Callable[[], np.random.Generator],
    own: Callable[[Source], Rows],
    solver: Literal["auto", "dense"],
    n_jobs: int | None,
) -> KernelFit:
    """By explicit features where they are few, on so many landmarks, or from all pairs.

    `own` gives the rows that a fit of all pairs keeps.
    """
    d, n = source.n_features, source.observed().rows
    if kernel.features(d) is not None and d <= min(n, MOST_FEATURES):
        found = fit_in_feature_space(source, kernel, wanted, convention=convention, n_jobs=n_jobs)
        return with_eigenvectors(found, source, n_jobs)
    if landmarks is not None and landmarks < n:
        expected = kernel if isinstance(kernel, ExpectedKernel) else None
        chosen = choose_landmarks(
            source,
            kernel if expected is None else expected.kernel,
            landmarks,
            how,
            rng(),
            None if expected is None else expected.model.conditional_mean,
        )
        return fit_on_landmarks(
            source, kernel, chosen, wanted, convention=convention, n_jobs=n_jobs
        )
    rows = own(source)
    return fit_kernel_pca(
        about_mean(kernel, rows) if convention.centred else kernel,
        rows.astype(np.float64, copy=False),
        wanted,
        w=source.weight,
        convention=convention,
        solver=solver,
        n_jobs=n_jobs,
    )


def fit_on_landmarks(
    source: Source, kernel: Kernel, landmarks: Rows, wanted: Wanted, **how: Any
) -> KernelFit:
    """Kernel PCA of all rows of the source, by their kernel with landmarks (m, d); as `_fit`."""
    return _fit(source, whitened(kernel, landmarks), wanted, **how)


def fit_in_feature_space(source: Source, kernel: Kernel, wanted: Wanted, **how: Any) -> KernelFit:
    """Kernel PCA where phi_j(x) = k(x, e_j): the unit vectors are landmarks that span it all."""
    d = source.n_features
    assert kernel.features(d) == d
    return _fit(source, LandmarkFeatures(kernel, np.eye(d), None), wanted, **how)


def whitened(kernel: Kernel, landmarks: Rows) -> LandmarkFeatures:
    """Orthonormal coordinates of the span of the landmarks in feature space."""
    s, Q = np.linalg.eigh(kernel.matrix(landmarks, landmarks))
    if s[0] < -NEGATIVE * max(float(s[-1]), 0.0):
        raise ValueError(
            f"the kernel matrix of the landmarks has negative eigenvalues ({s[0]:.3g}, the largest "
            f"is {s[-1]:.3g}), and an approximation by landmarks is of positive kernels only: use "
            "another kernel, or landmarks=None on a sample of the rows"
        )
    kept = s > max(ROUNDING, len(s) * np.finfo(np.float64).eps) * max(float(s[-1]), 0.0)
    if not kept.any():
        raise ValueError("the kernel of the landmarks is 0 throughout: there is nothing to learn")
    return LandmarkFeatures(kernel, landmarks, Q[:, kept] / np.sqrt(s[kept]))


def _fit(
    source: Source,
    at: LandmarkFeatures,
    wanted: Wanted,
    *,
    convention: Convention = PCA_LIKE,
    n_jobs: int | None = None,
) -> KernelFit:
    moments = source.reduce(partial(LandmarkMoments.of, at=at, n_jobs=n_jobs))
    features = moments.features
    scatter = features.scatter if convention.centred else features.second_moment
    if not np.all(np.isfinite(scatter)):
        raise KernelOverflowError
    lam, U = np.linalg.eigh(scatter)
    lam, U = lam[::-1], U[:, ::-1]
    U = U * sign_rule(U)
    total = float(np.trace(scatter)) + moments.residual
    q = len(lam) if wanted is None else components_for(lam, wanted, total)
    most = int(min(features.n_rows, wanted)) if isinstance(wanted, int) else q
    # The moments are centred before they are squared: nothing has cancelled.
    lam, U = cleaned(lam[:q], 0.0, len(lam)), U[:, :q]
    if most > q:  # more than there are features: axes without variance
        lam = np.concatenate([lam, np.zeros(most - q)])
        U = np.hstack([U, np.zeros((len(U), most - q))])
    A = U * (lam > 0.0) if at.T is None else at.T @ (U * (lam > 0.0))
    centre = moments.kernel_mean if at.T is None else at.T @ features.mean
    model = landmark_map(at.landmarks, at.kernel, A, lam, moments.kernel_mean, centre, convention)
    complete = q >= len(scatter)
    fit = KernelFit(model, lam, total, None, 0.0, complete, residual=moments.residual)
    return fit if wanted is not None else fit.truncated(fit.rank)


def with_eigenvectors(fit: KernelFit, source: Source, n_jobs: int | None = None) -> KernelFit:
    """The fit with the eigenvectors (n, q) of its rows, and signs by theirs: one more pass.

    As they come from the matrix of all pairs, so that the signs do not depend on the route.
    """
    scores = source.map(lambda block: fit.map.forward(block.values, n_jobs))
    lengths = np.sqrt(np.einsum("ij,ij->j", scores, scores))
    V = scores / np.where(lengths > 0.0, lengths, 1.0)
    sign = sign_rule(V)
    at = fit.map
    directions = None if at.directions is None else at.directions * sign
    flipped = replace(at, coefficients=at.coefficients * sign, directions=directions)
    return replace(fit, map=flipped, V=V * sign)


# Choosing landmarks -------------------------------------------------------------------------


def choose_landmarks(
    source: Source,
    kernel: Kernel,
    m: int,
    how: Choice,
    rng: np.random.Generator,
    impute: Callable[[Array], Array] | None = None,
) -> Array:
    """m landmarks (m, d) for the rows of the source; fewer where fewer rows differ.

    `impute` completes rows with missing values, so that landmarks have none.
    """
    n = source.observed().rows
    fits = max(SAMPLE_BYTES // (8 * source.n_features), 2 * m)
    rows = m if how == "uniform" else min(max(SAMPLE_ROWS, ROWS_PER_LANDMARK * m), fits)
    sample = source.sample(min(n, rows), rng)
    if impute is not None:
        sample = impute(sample)
    if len(sample) <= m:
        return sample
    if how == "kmeans":
        labels = kmeans(sample, np.ones(len(sample)), m, rng)
        order = np.argsort(labels, kind="stable")
        starts = np.searchsorted(labels[order], np.arange(labels.max() + 1))
        sums = np.add.reduceat(sample[order], starts, axis=0)
        return np.asarray(sums / np.bincount(labels)[:, None])
    if how == "leverage":
        return _by_leverage(sample, kernel, m, rng)
    return sample[spread_out(sample, kernel, m, rng)]


def spread_out(X: Array, kernel: Kernel, m: int, rng: np.random.Generator) -> list[int]:
    """m rows, each drawn by its squared distance in feature space to the nearest before it."""
    own = kernel.diagonal(X)
    nearest = np.full(len(X), np.inf)
    drawn = int(rng.integers(len(X)))
    chosen: list[int] = []
    while True:
        chosen.append(drawn)
        to = own + own[drawn] - 2.0 * kernel.matrix(X, X[drawn : drawn + 1])[:, 0]
        nearest = np.minimum(nearest, np.where(to > 1e-12 * (own + own[drawn]), to, 0.0))
        nearest[drawn] = 0.0
        passed = np.cumsum(nearest)
        if len(chosen) == m or passed[-1] <= 0.0:
            return chosen
        drawn = int(np.searchsorted(passed, rng.random() * passed[-1], side="right"))


def _by_leverage(X: Array, kernel: Kernel, m: int, rng: np.random.Generator) -> Array:
    """Rows drawn by l_i = [K (K + ridge I)^-1]_ii, of a pilot's approximation of K.

    The ridge is the mean of the eigenvalues that so few landmarks must miss (Musco and Musco
    2017): those beyond m / ln m.
    """
    pilot = whitened(kernel, X[rng.choice(len(X), m, replace=False)])
    assert pilot.T is not None
    F = kernel.matrix(X, pilot.landmarks) @ pilot.T  # (n, r)
    missed = np.maximum(kernel.diagonal(X) - np.einsum("ij,ij->i", F, F), 0.0)
    lam, U = np.linalg.eigh(F.T @ F)
    k = max(1, int(m / max(log(m), 1.0)))
    ridge = (float(np.sum(lam[::-1][k:])) + float(np.sum(missed))) / k
    if ridge <= 0.0:
        return X[rng.choice(len(X), m, replace=False)]
    spanned = np.einsum("ij,j->i", (F @ U) ** 2, 1.0 / (np.maximum(lam, 0.0) + ridge))
    leverage = np.minimum(spanned + missed / ridge, 1.0)
    enough = min(m, int(np.count_nonzero(leverage)))
    return X[rng.choice(len(X), enough, replace=False, p=leverage / np.sum(leverage))]
