"""Parallel analysis (Horn 1965): components that exceed the spectrum of noise.

The k-th eigenvalue of the correlations is kept as long as it is larger than all but a few of the
k-th eigenvalues of tables of the same size whose columns are independent. For Gaussian columns
those need no table: the eigenvalues of a Wishart matrix of n degrees of freedom in d dimensions
are the squared singular values of a bidiagonal matrix of independent chi variables (Dumitriu and
Edelman 2002), which costs d random numbers and no pass over the data.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from eigengap.linalg import Array
from eigengap.spectrum import Spectrum

LEVEL = 0.95  # share of the noise tables that a component has to exceed
DRAWS = (40, 200)  # fewest and most noise tables; the larger they are the less they differ
CELLS = 20_000  # draws times dimension that are worth their time


def noise_shares(n: float, d: int, most: int, level: float = LEVEL) -> Array:
    """(most,) quantiles of the share of the variance that the k-th component of noise explains.

    n rows are those that are left when the mean is taken off; the generator is always the same.
    """
    return _noise_shares(float(n), d, most, level).copy()


@lru_cache(maxsize=64)
def _noise_shares(n: float, d: int, most: int, level: float) -> Array:
    rng = np.random.default_rng(0)
    size = int(min(n, d))
    draws = int(np.clip(CELLS // size, *DRAWS))
    shares = np.array([wishart_eigenvalues(n, d, rng, most) for _ in range(draws)])
    return np.asarray(np.quantile(shares, level, axis=0))


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


def standing_out(spectrum: Spectrum, shares: Array) -> tuple[int, dict[int, float]]:
    """How many leading components exceed those of noise, and share over noise's share by k."""
    if spectrum.total <= 0.0:
        return 0, {}
    explained = spectrum.lam[: len(shares)] / spectrum.total
    ratio = explained / shares[: len(explained)]
    below = np.flatnonzero(ratio <= 1.0)
    count = int(below[0]) if len(below) else len(ratio)
    return count, {k + 1: float(value) for k, value in enumerate(ratio)}
