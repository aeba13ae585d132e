"""What the fits of a GPLVM start from: a standardised table, latents, inducing points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.mixture.kmeans import kmeans
from eigengap.linalg import Array, sign_rule

MOST_ROWS = 5000  # among which inducing points are sought
PERTURBED = 0.5  # standard deviation of what is added for a further start
LEAST = 1e-3  # share of the variance that a dimension without any is said to have


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
    """Of a table (n, d) in which NaN marks a gap and every column shows a value.

    A column of one value does not tell its unit, and has the median of the others'.
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


def principal_start(filled: Array, q: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Principal components of a standardised, filled table, each of unit variance: (n, q).

    And the share of the variance along each (q,). These are the latents of probabilistic PCA but
    for their scale. Dimensions beyond the rank of the table start at random.
    """
    n = len(filled)
    U, values, _ = np.linalg.svd(filled - np.mean(filled, axis=0), full_matrices=False)
    lam = values**2
    r = min(q, int(np.count_nonzero(lam > 1e-12 * max(lam[0], 1e-300))), n - 1)
    Z = rng.normal(size=(n, q))
    Z[:, :r] = U[:, :r] * sign_rule(U[:, :r])
    spread = np.full(q, LEAST)
    spread[:r] = np.maximum(lam[:r] / np.sum(lam), LEAST) if r else LEAST
    return _standard_columns(Z), spread


def to_unit_variance(Z: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Given latents with every column of mean 0 and variance 1; and the share of the variance."""
    variance = np.var(Z, axis=0)
    flat = variance <= 1e-20 * max(float(np.max(variance)), 1e-280)
    Z = np.where(flat, rng.normal(size=Z.shape), Z)
    total = float(np.sum(variance))
    spread = np.maximum(variance / total, LEAST) if total > 0.0 else np.full(len(variance), LEAST)
    return _standard_columns(Z), spread


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
