"""What the fits of a GPLVM start from: a standardised table, latents, inducing points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gp.back_constraint import Back, BackMap
from eigengap.fitting.graph.duplicate_rows import Rows
from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array, sign_rule
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import LatentKernel

MOST_ROWS = 5000  # among which inducing points are sought
PERTURBED = 0.5  # standard deviation of what is added for a further start
LEAST = 1e-3  # share of the variance that a dimension without any is said to have
NOISE = 0.01  # variance at the start, in units of the variance of the data
FLOOR = 1e-8  # of the noise variance, in the same


@dataclass(frozen=True, eq=False)
class Standard:
    """A table about its mean, in units in which its columns have variance 1, all or on average."""

    given: Array  # (n, d) as it was
    mean: Array  # (d,)
    unit: Array  # (d,) all equal where columns are not scaled one by one
    total: float  # sum of the variances of the columns, before

    @property
    def Y(self) -> Array:
        return self.of(self.given)

    def of(self, values: Array) -> Array:
        """Other rows in the same units."""
        return np.asarray((values - self.mean) / self.unit)


def standardise(values: Array, by_column: bool) -> Standard:
    """Of a table (n, d) in which NaN marks a missing value and every column has a value.

    The unit of a column of one value is the median of the others'.
    """
    given = np.array(values, dtype=np.float64)
    observed = ~np.isnan(given)
    count = np.sum(observed, axis=0)
    first = given[np.argmax(observed, axis=0), np.arange(given.shape[1])]
    with np.errstate(over="ignore", invalid="ignore"):
        # About a value of the column first: an offset would take the digits of the mean.
        mean = first + np.sum(np.where(observed, given - first, 0.0), axis=0) / count
        off = np.where(observed, given - mean, 0.0)
        off -= np.sum(off, axis=0) / count
        variance = np.sum(np.where(observed, off * off, 0.0), axis=0) / count
        # What a column of equal values leaves is rounding.
        variance = np.where(np.sqrt(variance) <= 1e-15 * np.abs(mean), 0.0, variance)
        total = float(np.sum(variance))
        size = np.sqrt(variance if by_column else np.full_like(variance, np.mean(variance)))
    varies = size > 0.0
    usual = float(np.median(size[varies])) if varies.any() else 1.0
    return Standard(given, mean, np.where(varies, size, usual), total)


def principal_start(complete: Array, q: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Principal components of a standardised, imputed table, each of unit variance: (n, q).

    And the share of the variance along each (q,). These are the latents of probabilistic PCA but
    for their scale. Dimensions beyond the rank of the table start at random.
    """
    n = len(complete)
    U, values, _ = np.linalg.svd(complete - np.mean(complete, axis=0), full_matrices=False)
    lam = values**2
    r = min(q, int(np.count_nonzero(lam > 1e-12 * max(lam[0], 1e-300))), n - 1)
    Z = rng.normal(size=(n, q))
    Z[:, :r] = U[:, :r] * sign_rule(U[:, :r])
    shares = np.full(q, LEAST)
    shares[:r] = np.maximum(lam[:r] / np.sum(lam), LEAST) if r else LEAST
    return _standard_columns(Z), shares


def to_unit_variance(Z: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Given latents with every column of mean 0 and variance 1; and the share of the variance."""
    variance = np.var(Z, axis=0)
    flat = variance <= 1e-20 * max(float(np.max(variance)), 1e-280)
    Z = np.where(flat, rng.normal(size=Z.shape), Z)
    total = float(np.sum(variance))
    shares = np.maximum(variance / total, LEAST) if total > 0.0 else np.full(len(variance), LEAST)
    return _standard_columns(Z), shares


def perturbed(Z: Array, rng: np.random.Generator) -> Array:
    """Latents for a further start."""
    return _standard_columns(Z + PERTURBED * rng.normal(size=Z.shape))


def chosen_points(Z: Array, most: int, rng: np.random.Generator) -> Array:
    """Inducing points (M, q), M at most `most`: centres of clusters of the latents Z (n, q)."""
    if len(Z) > MOST_ROWS:
        Z = Z[rng.choice(len(Z), MOST_ROWS, replace=False)]
    labels = kmeans(Z, np.ones(len(Z)), min(most, len(Z)), rng)
    M = int(labels.max()) + 1
    total = np.zeros((M, Z.shape[1]))
    np.add.at(total, labels, Z)
    return np.asarray(total / np.bincount(labels)[:, None])


def _standard_columns(Z: Array) -> Array:
    Z = Z - np.mean(Z, axis=0)
    return np.asarray(Z / np.sqrt(np.mean(Z * Z, axis=0)))


# Columns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ObservedColumns:
    """A standardised table (n, d) whose missing values are 0.

    Attributes
    ----------
    Y : (n, c) values, and a last column of zeros; where nothing is missing and d > n, a root R
        with R R' = Y Y' in their place, for columns come in only through these products
    groups : (P, n) 1 where the columns of a group were observed
    members : (P, k) columns of Y in each group, padded by the column of zeros
    counts : (P,) number of columns of the table in each group
    of_column : (d,) the group of each column of the table
    table : (n, d) the values themselves
    """

    Y: Array
    groups: Array
    members: NDArray[np.intp]
    counts: Array
    of_column: NDArray[np.intp]
    table: Array

    @property
    def n_rows(self) -> int:
        return int(self.groups.shape[1])

    @property
    def cells(self) -> float:
        """Number of observed values."""
        return float(self.counts @ np.sum(self.groups, axis=1))

    @property
    def observed(self) -> NDArray[np.bool_]:
        """(n, d) whether a cell was observed."""
        return self.groups[self.of_column].T > 0.0

    @property
    def is_complete(self) -> bool:
        return bool(self.groups.all())


def observed_columns(table: Array) -> ObservedColumns:
    """Group the columns of a table (n, d) in which NaN marks a missing value."""
    n, d = table.shape
    observed = ~np.isnan(table)
    patterns, of_column = np.unique(observed.T, axis=0, return_inverse=True)
    of_column = of_column.reshape(-1)
    counts = np.bincount(of_column)
    values = np.where(observed, table, 0.0)
    rooted = observed.all() and d > n
    Y = values
    if rooted:
        lam, V = np.linalg.eigh(values @ values.T)
        Y = V * np.sqrt(np.maximum(lam, 0.0))
    width = Y.shape[1] if rooted else int(counts.max())
    members = np.full((len(patterns), width), Y.shape[1])
    for p in range(len(patterns)):
        own = np.arange(Y.shape[1]) if rooted else np.flatnonzero(of_column == p)
        members[p, : len(own)] = own
    return ObservedColumns(
        np.column_stack([Y, np.zeros(n)]),
        patterns.astype(np.float64),
        members,
        counts.astype(np.float64),
        of_column,
        values,
    )


# The fit ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit begins."""

    Z: Array  # (n, q) of unit variance
    shares: Array  # (q,) share of the data's variance along each
    kernel: LatentKernel  # what it leaves open is chosen
    of_row: Rows  # (n,) which latent each row has: rows that are equal have one
    back: Back | None = None

    @property
    def shared(self) -> Array:
        """(u, q) one for each distinct row, the mean of its latents."""
        total = np.zeros((int(np.max(self.of_row)) + 1, self.Z.shape[1]))
        np.add.at(total, self.of_row, self.Z)
        return np.asarray(total / np.bincount(self.of_row)[:, None])


@dataclass(frozen=True, eq=False)
class LatentFit:
    """A fitted model, in standardised units."""

    model: GaussianProcesses
    Z: Array  # (n, q) latents, or their means
    s: Array | None  # (n, q) their variances, where they are uncertain
    objective: float  # log-likelihood ln p(Y | Z), or the bound on ln p(Y)
    trace: Trace  # objective: of the same, rising
    converged: bool
    at_floor: bool  # whether the noise variance fell to the least that is allowed
    back: BackMap | None = None

    def by_relevance(self) -> tuple[Rows, Array]:
        """The order (q,) of the latent dimensions, most relevant first, and their relevance (q,).

        The share of each in the prior mean square slopes times the variance of the latents.
        """
        q = self.Z.shape[1]
        second = np.mean(self.Z**2, axis=0) + (0.0 if self.s is None else np.mean(self.s, axis=0))
        slopes = self.model.kernel.steepness(q) * second
        order = np.argsort(-slopes, kind="stable")
        total = float(np.sum(slopes))
        return order, slopes[order] / total if total > 0.0 else np.full(q, 1.0 / q)
