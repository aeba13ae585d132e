"""Parallel analysis (Horn 1965): components that exceed the spectrum of noise.

The k-th eigenvalue of the correlations is kept as long as it is larger than all but a few of the
k-th eigenvalues of tables of the same size whose columns are independent. For Gaussian columns
those need no table: the eigenvalues of a Wishart matrix of n degrees of freedom in d dimensions
are the squared singular values of a bidiagonal matrix of independent chi variables (Dumitriu and
Edelman 2002), which costs d random numbers and no pass over the data. For columns of any
distribution they are those of permutations of the table (Buja and Eyuboglu 1992).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.selection.rank.choice import Curve
from eigengap.spectrum import Spectrum

LEVEL = 0.95  # share of the noise tables that a component has to exceed
DRAWS = (40, 200)  # fewest and most noise tables; the larger they are the less they differ
CELLS = 20_000  # draws times dimension that are worth their time
PERMUTED = 39  # permuted tables; one of noise exceeds the second largest of them 5 times in 100
LABEL = f"k-th eigenvalue over the {LEVEL:.0%} quantile of noise"


@lru_cache(maxsize=64)
def noise_shares(n: float, d: int, most: int) -> Array:
    """(most,) quantiles of the share of the variance that the k-th component of noise explains.

    n rows are those that are left when the mean is taken off; the generator is always the same.
    """
    rng = np.random.default_rng(0)
    draws = int(np.clip(CELLS // int(min(n, d)), *DRAWS))
    shares = np.array([wishart_eigenvalues(n, d, rng, most) for _ in range(draws)])
    quantiles = np.asarray(np.quantile(shares, LEVEL, axis=0))
    quantiles.flags.writeable = False  # all callers share it
    return quantiles


def leading(ratio: Array) -> int:
    """How many there are before the first that does not exceed 1."""
    below = np.flatnonzero(ratio <= 1.0)
    return int(below[0]) if len(below) else len(ratio)


def wishart_eigenvalues(n: float, d: int, rng: np.random.Generator, most: int) -> Array:
    """(most,) largest eigenvalues of a Wishart matrix, descending, as shares of its trace."""
    import scipy.linalg

    short, long = int(min(n, d)), float(max(n, d))
    a2 = rng.chisquare(long - np.arange(short))  # squared diagonal of the bidiagonal matrix
    b2 = rng.chisquare(np.arange(short - 1, 0, -1.0)) if short > 1 else np.empty(0)
    diagonal = a2 + np.concatenate([[0.0], b2])
    between = np.sqrt(a2[:-1] * b2)
    if 4 * most < short:  # bisection for the few that are wanted, QR for all
        lam = scipy.linalg.eigvalsh_tridiagonal(
            diagonal, between, select="i", select_range=(short - most, short - 1)
        )
    else:
        lam = scipy.linalg.eigvalsh_tridiagonal(diagonal, between)[-most:]
    padded = np.zeros(most)
    padded[: len(lam)] = lam[::-1]
    return padded / float(np.sum(diagonal))


def parallel_analysis(spectrum: Spectrum, most: int, *, fit_mean: bool = True) -> tuple[int, Curve]:
    """Leading components of a correlation spectrum that Gaussian noise does not explain.

    Where the table is of low rank up to rounding there is no noise to compare with, and the rank
    itself is the answer.
    """
    rows = spectrum.sum_w - (1.0 if fit_mean else 0.0)
    if spectrum.d < 2 or rows < 2:
        return 0, Curve.of({}, "above 1", LABEL)
    shares = noise_shares(rows, spectrum.d, min(most, spectrum.d, int(rows)))
    lam = spectrum.lam
    explained = lam[: len(shares)] / spectrum.total if spectrum.total > 0.0 else np.empty(0)
    ratio = explained / shares[: len(explained)]
    rank = int((lam > 1e-12 * lam[0]).sum()) if len(lam) else 0
    noiseless = 2 * rank <= min(rows, spectrum.d)  # at most half of what the shape allows
    count = rank if rank and noiseless else leading(ratio)
    return count, Curve.from_first(ratio, "above 1", LABEL)


def permuted_parallel_analysis(X: Array, most: int, rng: np.random.Generator) -> tuple[int, Curve]:
    """How many leading eigenvalues of X (n, d), with NaN, exceed those of its permutations.

    The observed values of every column are permuted among the rows in which it is observed: columns
    keep their distribution and their missing values, and lose every relation. The eigenvalues are
    those of the correlations, with missing values imputed by the mean, of the table and of its
    permutations alike.
    """
    observed = ~np.isnan(X)
    centred = np.where(observed, X - np.nanmean(X, axis=0), 0.0)
    with np.errstate(over="ignore"):  # what rounding leaves of a huge constant, divided to 0
        length = np.sqrt(np.sum(centred**2, axis=0))
    centred /= np.where(length > 0.0, length, 1.0)
    lam = _eigenvalues(centred, most)
    null = np.array(
        [_eigenvalues(_permuted(centred, observed, rng), most) for _ in range(PERMUTED)]
    )
    bound = np.quantile(null, LEVEL, axis=0, method="higher")  # an exact test, unlike a mixture
    least = np.finfo(np.float64).tiny
    ratio = lam / np.maximum(bound, least)
    ratio[lam <= 1e-12 * max(float(lam[0]), least)] = 0.0
    return leading(ratio), Curve.from_first(ratio, "above 1", LABEL)


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
