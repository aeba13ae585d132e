"""Correlations of a table imputed by its column means, and their spectrum.

With y = (x - mean) / unit on the observed values and 0 elsewhere, unit chosen so that every column
of y has mean square 1, R = sum_i w_i y_i y_i^T / sum_w is the correlation matrix where nothing is
missing. Where cells are missing at random, columns that are not related still give independent
entries of mean 0 and variance 1, so that noise has the spectrum that it has without missing values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import Block, Rows, Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.additive import Additive
from eigengap.statistics.moments import ColumnMoments

PIECE_BYTES = 1 << 23  # of dense cells in float64 at a time
LARGEST_SIDE = 20_000  # of a square matrix that is formed and diagonalised


@dataclass(frozen=True, eq=False)
class ImputedScatter(Additive):
    """sum_i w_i y_i y_i^T (d, d); scatters merge by addition."""

    value: Array

    @classmethod
    def of(cls, block: Block, shift: Array, unit: Array) -> ImputedScatter:
        n, d = block.values.shape
        total = np.zeros((d, d))
        root = None if block.weight is None else np.sqrt(block.weight)[:, None]
        for rows in _slices(n, d):
            y = standardised(block.values[rows], shift, unit)
            y = y if root is None else y * root[rows]
            total += y.T @ y
        return cls(total)


def standardised(values: Rows, shift: Array, unit: Array) -> Array:
    """y (c, d): standardised observed values, 0 where missing."""
    dense: NDArray[Any] = values if isinstance(values, np.ndarray) else values.toarray()
    y = (dense - shift) / unit
    return np.nan_to_num(y, copy=False, nan=0.0)


@dataclass(frozen=True, eq=False)
class Standardised:
    """A mean-imputed, standardised table, by its correlations or, where it is wide, its rows.

    Columns without variance are left out: they have no correlation. So are those whose squares
    overflow, which fits refuse.
    """

    d: int  # columns that vary
    sum_w: float
    R: Array | None  # (d, d) correlations
    Y: Array | None  # (n, d) rows times sqrt(w / sum_w), of a wide table

    @classmethod
    def of(cls, source: Source, *, fit_mean: bool = True) -> Standardised:
        """fit_mean=False measures cells from 0 instead of their mean."""
        columns = source.reduce(ColumnMoments.of)
        sum_w = source.observed().sum_w
        shift = columns.mean if fit_mean else np.zeros(len(columns.mean))
        with np.errstate(over="ignore"):  # such a column is left out
            squares = columns.m2 + columns.sum_w * (columns.mean - shift) ** 2
        varies = (squares > 0) & (squares < np.inf)
        unit = np.where(varies, np.sqrt(np.where(varies, squares, 0.0) / sum_w), np.inf)
        d, n = source.n_features, source.n_rows
        if min(d, n or d) > LARGEST_SIDE:
            raise ValueError(
                f"both sides of this table are longer than {LARGEST_SIDE}: its whole spectrum, "
                "from which the number of components is chosen, is out of reach. Give n_components"
            )
        if n is None or d <= n:
            scatter = source.reduce(partial(ImputedScatter.of, shift=shift, unit=unit)).value
            return cls(int(varies.sum()), sum_w, scatter[np.ix_(varies, varies)] / sum_w, None)
        root = source.map(_root_weights)[:, None] / np.sqrt(sum_w)
        Y = standardised(source.collect(), shift, unit)[:, varies] * root
        return cls(int(varies.sum()), sum_w, None, Y)

    def eigenvalues(self) -> Array:
        """Those of the correlations, descending, as many as the smaller side."""
        if self.R is not None:
            lam = np.linalg.eigvalsh(self.R)
        else:
            assert self.Y is not None
            lam = np.linalg.eigvalsh(self.Y @ self.Y.T)
        return np.asarray(np.maximum(lam[::-1][: self.d], 0.0))

    def eigenpairs(self, scale: Array, q: int) -> tuple[Array, Array]:
        """All eigenvalues of diag(scale) R diag(scale), descending, and q eigenvectors (d, q)."""
        if self.R is not None:
            lam, U = np.linalg.eigh(self.R * scale * scale[:, None])
            return np.maximum(lam[::-1], 0.0), U[:, ::-1][:, :q]
        assert self.Y is not None
        y = self.Y * scale
        lam, V = np.linalg.eigh(y @ y.T)
        lam = np.maximum(lam[::-1][: self.d], 0.0)
        return lam, y.T @ V[:, ::-1][:, :q] / np.sqrt(np.maximum(lam[:q], 1e-300))

    def spectrum(self) -> Spectrum:
        """The eigenvalues, with their sum, the number of columns that vary."""
        return Spectrum(self.eigenvalues(), float(self.d), self.sum_w, self.d, complete=True)


def _root_weights(block: Block) -> Array:
    return np.ones(block.n_rows) if block.weight is None else np.sqrt(block.weight)


def _slices(length: int, across: int) -> Iterator[slice]:
    """Cuts of `length` lines of `across` cells each into pieces of bounded size."""
    step = max(64, PIECE_BYTES // (8 * max(across, 1)))
    return (slice(i, min(i + step, length)) for i in range(0, length, step))
