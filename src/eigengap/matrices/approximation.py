"""`low_rank`: the nearest matrix of low rank; where cells are missing, matrix completion."""

from __future__ import annotations

from dataclasses import replace
from math import frexp, nan
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from eigengap.fitting.eigen.singular import SAFE, Matrix, Triplets, singular_triplets
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.matrices.completion import (
    LowRank,
    Rank,
    complete_matrix,
    empty_rows_of_complete,
    require_rank,
)
from eigengap.selection.rank import automatic_rank
from eigengap.selection.rank.choose import seed_of
from eigengap.sources import Rescaled, Source, as_source, warn_of_codes
from eigengap.statistics.moments import ColumnMoments, refuse_overflow

CANCELS = 1e-8  # ||X||^2 - sum of s^2, relative to ||X||^2, below which it is summed anew
FIRST_GUESS = 32  # triplets that are found first where a share of the squares is asked for
BLOCK_CELLS = 1 << 21


def low_rank(
    X: Any,
    k: int | float | Literal["auto"] = "auto",
    *,
    center: bool = False,
    missing_values: Any = nan,
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_init: int = 1,
    random_state: int | np.random.Generator | np.random.RandomState | None = 0,
) -> LowRank:
    """The matrix of rank k nearest to X; NaN cells are imputed.

    Without missing values it minimises the Frobenius norm ||X - L||_F over all L of rank k (with
    center=True over all L = 1 m' + rank k): the k leading singular triplets (Eckart and Young
    1936).

    With missing values, missing at random, the observed values are described by probabilistic PCA
    of k components: their exact likelihood is maximised, and row i of L is E[W z + mu | observed
    values of row i], that is W z_i + mu with

        z_i = argmin  sum over observed j of (x_ij - mu_j - w_j'z)^2 + sigma2 ||z||^2,

    least squares over the observed values with a ridge that is learned, without which a row with
    few observed values would be drawn through its noise. The ridge also draws observed values
    towards the mean, by a share sigma2 / lam of each component. Where values are missing L is
    the best guess, and `fill` puts those guesses into X.

    Parameters
    ----------
    X : matrix of shape (n, d)
        Array, scipy.sparse matrix or frame. NaN marks a missing value; the zeros of a sparse matrix
        are zeros.
    k : int, float in (0, 1) or "auto", default="auto"
        The rank; the share of the squares of X (about the mean where center=True) that must be
        kept; or the number of components that exceed the noise level (docs/rank.md).
    center : bool, default=False
        Take the mean of each column out first, and keep it with the k triplets: the
        reconstruction of PCA. With missing values in a table whose columns have different means,
        use it.
    missing_values : float or list of float, default=nan
        Values that mark a missing value, besides NaN.
    tol, max_iter, n_init, random_state
        Of the fit with missing values: see `PPCA`.

    Returns
    -------
    LowRank
        `U`, `s`, `Vt`, `mean`, `error`; np.asarray gives the matrix, `fill` the completed X with
        standard deviations.

    Notes
    -----
    All columns have the same noise variance: columns in different units are better imputed by
    `LowRankImputer`, which standardises them, or by PPCA(scale=True).

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import low_rank
    >>> X = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0])
    >>> approximation = low_rank(X, 1)
    >>> np.allclose(approximation, X), approximation.compression
    (True, 1.5)
    >>> X[0, 1] = X[2, 2] = np.nan
    >>> low_rank(X, 1).fill(X)[[0, 2], [1, 2]].round(3)
    array([1., 6.])
    """
    asked = _checked_rank(k)
    options = _options(tol, max_iter, n_init, random_state)
    source = as_source(X, missing_values=missing_values)
    warn_of_codes(source)
    if not source.has_missing:
        return _complete(source, asked, center)
    source.require_fit(min_rows=2)
    rows = source.present()
    if np.any(rows.observed().per_column != rows.observed().rows):
        found = complete_matrix(source, asked, center, options)
    else:  # complete rows, and rows without any value, which are 0
        found = _complete(rows, asked, center)
        known, predictive, gap_error = empty_rows_of_complete(
            source, rows, found.rank, center, options
        )
        U = np.zeros((len(known), found.rank))
        U[known] = found.U
        found = replace(found, U=U, predictive=predictive, gap_error=gap_error)
    return replace(found, missing_values=missing_values)


def _complete(source: Source, asked: Rank, center: bool) -> LowRank:
    """The approximation of complete rows, by cells of a size at which squares stay in range."""
    largest = Matrix.of(source.collect()).largest()
    if largest == 0.0 or 1.0 / SAFE < largest < SAFE:
        return _of_complete(source, asked, center)
    power = frexp(largest)[1] - 1
    small = Rescaled(source, np.full(source.n_features, 2.0**power))
    found = _of_complete(small, asked, center)
    with np.errstate(over="ignore"):
        s, mean, error = (np.ldexp(value, power) for value in (found.s, found.mean, found.error))
    refuse_overflow(float(s[0]))
    return replace(found, s=s, mean=mean, error=float(error))


def _of_complete(source: Source, asked: Rank, center: bool) -> LowRank:
    mean = source.reduce(ColumnMoments.of).mean if center else np.zeros(source.n_features)
    matrix = Matrix.of(source.collect(), mean if center else None)
    n, d = matrix.shape
    choice = None
    if asked == "auto":
        choice = automatic_rank(source, fit_mean=center)
        number, found = choice.n_components, None
    elif isinstance(asked, int):
        number, found = require_rank(asked, n, d), None
    else:
        number, found = _rank_for_share(matrix, float(asked))
    triplets = singular_triplets(matrix, number) if found is None else found
    left = _left_over(matrix, triplets, number)
    cells = float(np.sqrt(n * d))
    return LowRank(
        U=triplets.U[:, :number],
        s=triplets.s[:number],
        Vt=np.ascontiguousarray(triplets.V[:, :number].T),
        mean=mean,
        error=left / cells,
        relative_error=left / triplets.norm if triplets.norm > 0.0 else 0.0,
        rank_choice=choice,
    )


def _rank_for_share(matrix: Matrix, share: float) -> tuple[int, Triplets]:
    """Fewest triplets that keep `share` of the squares, found by doubling their number."""
    most = min(matrix.shape)
    tried = min(FIRST_GUESS, most)
    while True:
        found = singular_triplets(matrix, None if 2 * tried > most else tried)
        if found.norm == 0.0:
            return 1, found
        kept = np.cumsum((found.s / found.norm) ** 2)
        reached = np.flatnonzero(kept >= share)
        if len(reached) or len(found.s) == most:
            return (int(reached[0]) + 1 if len(reached) else most), found
        tried *= 2


def _left_over(matrix: Matrix, found: Triplets, k: int) -> float:
    """||X - L||_F: the discarded singular values where they are known or the sum of all squares.

    Where next to nothing is left, the difference of two sums does not determine it.
    """
    if len(found.s) == min(matrix.shape):
        return found.discarded(k)
    if found.norm == 0.0:
        return 0.0
    shares = (found.s / found.norm) ** 2
    rest = 1.0 - float(np.sum(shares[:k]))
    if rest > CANCELS:
        return found.norm * float(np.sqrt(rest))
    return _difference(matrix, found, k)


def _difference(matrix: Matrix, found: Triplets, k: int) -> float:
    """||X - L||_F cell by cell, some rows at a time."""
    n, d = matrix.shape
    scores, V = found.U[:, :k] * found.s[:k], found.V[:, :k]
    step = max(1, BLOCK_CELLS // d)
    parts = []
    for start in range(0, n, step):
        rows = slice(start, start + step)
        X = Matrix(matrix.X[rows], matrix.mean).dense()
        parts.append(np.linalg.norm(X - scores[rows] @ V.T))
    return float(np.linalg.norm(parts))


def _checked_rank(k: Any) -> Rank:
    if isinstance(k, str) and k == "auto":
        return "auto"
    if isinstance(k, Integral) and not isinstance(k, bool) and int(k) >= 1:
        return int(k)
    if isinstance(k, Real) and not isinstance(k, Integral) and 0.0 < float(k) < 1.0:
        return float(k)
    raise ValueError(
        f'k is {k!r}; it has to be a whole number of at least 1, a share between 0 and 1, or "auto"'
    )


def _options(tol: float, max_iter: int, n_init: int, random_state: Any) -> EMOptions:
    for name, value in (("max_iter", max_iter), ("n_init", n_init)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} is {value!r}; it has to be a whole number of at least 1")
    if not isinstance(tol, Real) or not tol > 0.0:
        raise ValueError(f"tol is {tol!r}; it has to be a positive number")
    seed = 0 if n_init == 1 else seed_of(random_state)  # a single start is not random
    return EMOptions(tol=float(tol), max_iter=int(max_iter), n_init=int(n_init), seed=seed)
