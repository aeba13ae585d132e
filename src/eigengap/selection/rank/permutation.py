"""Parallel analysis by permutation (Horn 1965; Buja and Eyuboglu 1992).

The observed values of every column are permuted among the rows in which it is observed: columns
keep their distribution and their missing values, and lose every relation. The k-th eigenvalue
counts as long as it exceeds a quantile of the k-th eigenvalues of the permuted tables. The
eigenvalues are those of the correlations, with missing values imputed by the mean, of the table and
of its permutations alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.selection.rank.choice import Curve

DRAWS = 39  # permuted tables; one of noise exceeds the second largest of them 5 times in 100
LEVEL = 0.95


def permuted_parallel_analysis(
    X: Array, most: int, rng: np.random.Generator, draws: int = DRAWS, level: float = LEVEL
) -> tuple[int, Curve]:
    """How many leading eigenvalues of X (n, d), with NaN, exceed those of its permutations."""
    observed = ~np.isnan(X)
    centred = np.where(observed, X - np.nanmean(X, axis=0), 0.0)
    with np.errstate(over="ignore"):  # what rounding leaves of a huge constant, divided to 0
        length = np.sqrt(np.sum(centred**2, axis=0))
    centred /= np.where(length > 0.0, length, 1.0)
    lam = _eigenvalues(centred, most)
    null = np.array([_eigenvalues(_permuted(centred, observed, rng), most) for _ in range(draws)])
    bound = np.quantile(null, level, axis=0, method="higher")  # an exact test, unlike a mixture
    least = np.finfo(np.float64).tiny
    ratio = lam / np.maximum(bound, least)
    ratio[lam <= 1e-12 * max(float(lam[0]), least)] = 0.0
    below = np.flatnonzero(ratio <= 1.0)
    values = {k + 1: float(value) for k, value in enumerate(ratio)}
    curve = Curve.of(values, "above 1", f"k-th eigenvalue over the {level:.0%} quantile of noise")
    return (int(below[0]) if len(below) else len(ratio)), curve


def _permuted(centred: Array, observed: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    if observed.all():
        return rng.permuted(centred, axis=0)
    # Sorting random keys permutes; keys of missing values go last and stay there.
    keys = np.where(observed, rng.random(observed.shape), 2.0)
    order = np.argsort(keys, axis=0, kind="stable")
    places = np.argsort(~observed, axis=0, kind="stable")
    out = np.zeros_like(centred)
    np.put_along_axis(out, places, np.take_along_axis(centred, order, axis=0), axis=0)
    return out


def _eigenvalues(Y: Array, most: int) -> Array:
    """(most,) largest eigenvalues of Y^T Y, descending."""
    S = Y.T @ Y if Y.shape[1] <= Y.shape[0] else Y @ Y.T
    lam = np.maximum(np.linalg.eigvalsh(S)[::-1][:most], 0.0)
    return np.asarray(np.pad(lam, (0, most - len(lam))))
