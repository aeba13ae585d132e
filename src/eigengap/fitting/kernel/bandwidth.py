"""How wide a kernel should be, from the rows alone.

The median heuristic takes the typical distance for the kernel's length. Held-out cells can do
better: kernel PCA of some rows is given others with a part of their cells at the mean, and
pre-images impute that part. The error is in units of the data, so that bandwidths can be compared.
Simpler measures fail: errors in feature space come in units that the bandwidth itself sets, so that
the widest kernel leaves the least; and rows that are reconstructed from all their cells reward a
kernel for keeping their noise.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.spatial.distance
from numpy.typing import NDArray

from eigengap.fitting.kernel.fit import fit_kernel_pca
from eigengap.fitting.kernel.preimage import fixed_points
from eigengap.linalg import Array
from eigengap.models.kernels.functions import RBF, dense
from eigengap.sources.base import Source
from eigengap.statistics.medians import medians

Metric = Literal["sqeuclidean", "cityblock"]

ROWS = 1000  # of a sample that are enough for a median
CV_ROWS = 500  # and to compare bandwidths
FOLDS, GROUPS = 2, 3  # of rows, and of cells that are held out together
IMPUTATIONS = 2  # of held-out cells, each from the one before
FACTORS = np.logspace(-2.0, 2.0, 9)  # of the median's gamma that are compared
ROUGHLY = 1e-2  # step at which a fixed point is near enough to compare
HALFWAY = 10.0**0.25  # to its neighbours, that the best of them is compared with


def some_rows(source: Source, rng: np.random.Generator) -> tuple[Array, Array | None]:
    """Rows for the choice of a bandwidth, and their weights: all of few, a sample of many."""
    if source.observed().rows > ROWS:
        return source.sample(ROWS, rng), None  # drawn by their weights
    return dense(source.collect()), source.weight


def median_gamma(X: Array, w: Array | None = None, metric: Metric = "sqeuclidean") -> float:
    """1 / (2 median |x - y|^2) over pairs that differ; with "cityblock" 1 / median |x - y|_1.

    So that exp(-gamma |x - y|^2) is a Gaussian whose standard deviation is the typical distance.
    """
    distances = scipy.spatial.distance.pdist(X, metric)
    distances[distances == 0.0] = np.nan
    of_pairs = None
    if w is not None:
        i, j = np.triu_indices(len(X), k=1)
        share = w / np.max(w)
        of_pairs = share[i] * share[j]
    middle = float(medians(distances[:, None], of_pairs)[0])
    if middle == 0.0:
        return 1.0  # all rows are equal, under every kernel
    return 1.0 / (2.0 * middle if metric == "sqeuclidean" else middle)


def held_out_gamma(X: Array, q: int, rng: np.random.Generator) -> tuple[float, Array, Array]:
    """The gamma whose pre-images impute held-out cells best; all that were tried, their errors.

    Errors are mean squares of a held-out cell less its pre-image, in the units of X.
    """
    X = X[:CV_ROWS]
    if len(X) < 2 * FOLDS:
        raise ValueError(
            f"gamma='cv' holds out rows in {FOLDS} folds, and there are {len(X)}: at least "
            f"{2 * FOLDS} are needed. Use gamma='median' or a number"
        )
    fold = rng.permutation(len(X)) % FOLDS
    group = rng.permuted(np.tile(np.arange(X.shape[1]) % GROUPS, (len(X), 1)), axis=1)
    middle = median_gamma(X)
    tried = {
        factor: _held_out_error(X, q, middle * factor, fold, group) for factor in FACTORS.tolist()
    }
    best = min(tried, key=tried.__getitem__)
    for factor in (best / HALFWAY, best * HALFWAY):
        tried[factor] = _held_out_error(X, q, middle * factor, fold, group)
    factors = np.array(sorted(tried))
    errors = np.array([tried[factor] for factor in factors])
    return middle * float(factors[np.argmin(errors)]), middle * factors, errors


def _held_out_error(
    X: Array, q: int, gamma: float, fold: NDArray[np.intp], group: NDArray[np.intp]
) -> float:
    """Mean square of held-out cells less their pre-images, every cell held out once."""
    total = 0.0
    for f in range(FOLDS):
        kept, held = X[fold != f], X[fold == f]
        at = fit_kernel_pca(RBF(gamma), kept, min(q, len(kept) - 1)).map
        for hidden in (group[fold == f] == g for g in range(GROUPS)):
            imputed = np.where(hidden, np.mean(at.landmarks, axis=0), held)
            for _ in range(IMPUTATIONS):
                found = fixed_points(at, at.forward(imputed), ROUGHLY)
                imputed = np.where(hidden, found, held)
            total += float(np.sum((imputed - held) ** 2))
    return total / X.size
