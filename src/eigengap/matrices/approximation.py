"""`low_rank`: the nearest matrix of low rank; where cells are missing, matrix completion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import frexp, nan
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.eigen.singular import SAFE, Matrix, Triplets, singular_triplets
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.matrices.arguments import require_rank, seed_of
from eigengap.matrices.completion import (
    Completion,
    complete_matrix,
    empty_rows_of_complete,
)
from eigengap.models.gaussian.predictive import Predictive
from eigengap.selection.rank import RankChoice, automatic_rank
from eigengap.sources import Rescaled, Source, as_source, like, warn_of_codes
from eigengap.statistics.moments import ColumnMoments, refuse_overflow

CANCELS = 1e-8  # ||X||^2 - sum of s^2, relative to ||X||^2, below which it is summed anew
FIRST_GUESS = 32  # triplets that are found first where a share of the squares is asked for
BLOCK_CELLS = 1 << 21

Rank = int | float | Literal["auto"]


@dataclass(frozen=True, eq=False)
class LowRank:
    """The matrix 1 mean' + U diag(s) Vt; np.asarray or to_array() gives it whole.

    Attributes
    ----------
    U : array of shape (n, k)
        Orthonormal columns.
    s : array of shape (k,)
        Descending, positive.
    Vt : array of shape (k, d)
        Orthonormal rows; the entry of largest modulus in each is positive.
    mean : array of shape (d,)
        Zeros unless center=True.
    error : float
        Root mean squared difference to the observed values of X. Of a complete matrix it is
        sqrt(sum of the discarded s^2 / (n d)) (Eckart and Young 1936).
    relative_error : float
        The same, relative to X - 1 mean' itself: its square is the share of the squares that is
        left out.
    gap_error : float
        Expected root mean squared error of the imputed values under the fitted density, its
        uncertainty included; NaN where X had no missing values. It is right if k is, and no means
        to choose k: for that ask `choose_rank` or `LowRankImputer`.
    compression : float
        Numbers in X for each number in the factors.
    n_iter, converged
        Of the fit with missing values.
    rank_choice : RankChoice or None
        Why k="auto" chose its number.
    """

    U: Array
    s: Array
    Vt: Array
    mean: Array
    error: float
    relative_error: float
    gap_error: float = nan
    n_iter: int = 0
    converged: bool = True
    rank_choice: RankChoice | None = None
    predictive: Predictive | None = None  # of the rows; None where X had no missing values
    missing_values: Any = nan  # what marks a missing value, besides NaN

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.U), len(self.mean)

    @property
    def rank(self) -> int:
        """k, the number of triplets."""
        return len(self.s)

    @property
    def compression(self) -> float:
        n, d = self.shape
        means = d if self.mean.any() else 0
        return n * d / (self.rank * (n + d + 1) + means)

    def to_array(self) -> Array:
        """The whole matrix (n, d)."""
        return np.asarray((self.U * self.s) @ self.Vt + self.mean)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("the matrix is made from its factors: it cannot be had without a copy")
        return self.to_array().astype(dtype or np.float64, copy=False)

    def fill(self, X: Any, return_std: bool = False) -> Any:
        """X with its missing values imputed by their expected value given the rest of the row.

        Parameters
        ----------
        X : matrix of shape (m, d)
            The matrix that was approximated, or other rows of the same kind.
        return_std : bool, default=False
            Whether to return the standard deviation of each imputed value too (0 where observed);
            the uncertainty of the parameters is in it.

        Returns
        -------
        table of X's type, or two of them
        """
        source = as_source(X, missing_values=self.missing_values)
        if not source.has_missing:
            rows = source.collect()
            filled = rows if isinstance(rows, np.ndarray) else rows.toarray()
            zeros = np.zeros(filled.shape)
            return (like(X, filled), like(X, zeros)) if return_std else like(X, filled)
        if self.predictive is None:
            raise ValueError(
                "this approximation is of a matrix without missing values, so that no density was "
                "fitted to impute others from; use eigengap.PPCA(n_components).fit(X).impute"
            )
        if source.n_features != len(self.mean):
            raise ValueError(f"X has {source.n_features} columns, expected {len(self.mean)}")
        model = self.predictive.model
        dtype = source.dtype
        if not return_std:
            filled = source.map(lambda block: model.conditional_mean(block.values))
            return like(X, filled.astype(dtype, copy=False))
        both = source.map(lambda block: np.hstack(self._mean_and_std(block.values)))
        both = both.astype(dtype, copy=False)
        return like(X, both[:, : model.d]), like(X, both[:, model.d :])

    def _mean_and_std(self, rows: Array) -> tuple[Array, Array]:
        assert self.predictive is not None
        mean, variance = self.predictive.conditional(rows)
        return mean, np.sqrt(variance)

    def __repr__(self) -> str:
        n, d = self.shape
        missing = "" if np.isnan(self.gap_error) else f", gap_error={self.gap_error:.4g}"
        return f"LowRank({n} x {d}, rank={self.rank}, error={self.error:.4g}{missing})"


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
    """The matrix of rank k nearest to X; NaN cells are filled.

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
    All columns have the same noise variance: columns in different units are better filled by
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
    if source.has_missing:
        source.require_fit(min_rows=2)
        rows = source.present()
        if np.all(rows.observed().per_column == rows.observed().rows):
            found = replace(_complete(rows, asked, center), missing_values=missing_values)
            return _with_empty_rows(source, found, center, options)
        done = complete_matrix(source, asked, center, options)
        return _of_completion(done, missing_values)
    return _complete(source, asked, center)


def _with_empty_rows(source: Source, found: LowRank, center: bool, options: EMOptions) -> LowRank:
    """The approximation of complete rows as one of all rows, 0 in those without any value."""
    known, predictive, gap_error = empty_rows_of_complete(
        source, source.present(), found.rank, center, options
    )
    U = np.zeros((len(known), found.rank))
    U[known] = found.U
    return replace(found, U=U, predictive=predictive, gap_error=gap_error)


def _complete(source: Source, asked: Rank, center: bool) -> LowRank:
    """The approximation of complete rows, by cells of a size at which squares stay in range."""
    power = _power(Matrix.of(source.collect()).largest())
    if power == 0:
        return _of_complete(source, asked, center)
    small = Rescaled(source, np.full(source.n_features, 2.0**power))
    return _times_two_to(_of_complete(small, asked, center), power)


def _power(largest: float) -> int:
    """Exponent of the power of two by which cells are divided so that squares stay in range."""
    return 0 if largest == 0.0 or 1.0 / SAFE < largest < SAFE else frexp(largest)[1] - 1


def _times_two_to(found: LowRank, power: int) -> LowRank:
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

    Where next to nothing is left, the difference of two sums says nothing of it.
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


def _of_completion(done: Completion, missing_values: Any) -> LowRank:
    return LowRank(
        U=done.U,
        s=done.s,
        Vt=done.Vt,
        mean=done.predictive.model.mu,
        error=done.error,
        relative_error=done.relative_error,
        gap_error=done.gap_error,
        n_iter=done.n_iter,
        converged=done.converged,
        rank_choice=done.rank_choice,
        predictive=done.predictive,
        missing_values=missing_values,
    )


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
