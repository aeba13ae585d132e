"""Rotations of standardised loadings: the units of the columns do not matter to them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from eigengap import FactorAnalysis, confidence_intervals
from eigengap.exceptions import UnitsWarning
from eigengap.fitting.gaussian.rotation import METHODS, rotate

TIGHT = {"tol": 1e-10, "max_iter": 5000}
UNITS = np.array([1e-4, 3e3, 1.0, 0.02, 7e5, 12.0, 1e-2, 40.0, 5.0])  # of the columns
# Fits of the same rows in other units stop within their tolerance of one maximum, and a rotation
# within 1e-9 of its own: 1e-6 is a hundred times more, and units that matter change loadings by 0.1
# and more.
ATOL = 1e-6

rotations = pytest.mark.parametrize("rotation", METHODS)
standardised = pytest.mark.parametrize(
    "how",
    [{"kaiser": True}, {"scale": True}, {"kaiser": True, "scale": True}],
    ids=["kaiser", "scale", "both"],
)


def three_groups(seed: int = 0, n: int = 400) -> np.ndarray:
    """Columns of three correlated factors, each group of another strength, with cross loadings."""
    rng = np.random.default_rng(seed)
    phi = np.array([[1.0, 0.4, 0.2], [0.4, 1.0, 0.3], [0.2, 0.3, 1.0]])
    Z = rng.standard_normal((n, 3)) @ np.linalg.cholesky(phi).T
    W = 0.1 * rng.standard_normal((9, 3))
    W[np.arange(9), np.arange(9) // 3] += [1.2, 1.1, 1.0, 0.9, 0.8, 0.9, 0.6, 0.7, 0.6]
    return Z @ W.T + 0.5 * rng.standard_normal((n, 9))


def heywood() -> np.ndarray:
    """A column with more in common with two others than a factor of theirs can have."""
    X = three_groups(1)
    X[:, 4] = X[:, 3] + X[:, 5] + 0.3 * np.random.default_rng(4).standard_normal(len(X))
    return X


def constant() -> np.ndarray:
    X = three_groups(2)
    X[:, 7] = 3.7
    return X


def missing() -> np.ndarray:
    X = three_groups(3)
    X[np.random.default_rng(3).random(X.shape) < 0.1] = np.nan
    return X


TABLES = {"plain": three_groups, "heywood": heywood, "constant": constant, "missing": missing}
HEYWOOD = {three_groups: (), heywood: (4,), constant: (7,), missing: ()}
tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def sizes(X: np.ndarray) -> np.ndarray:
    """Standard deviations of the observed values; 1 for a constant column."""
    sd = np.nanstd(X, axis=0)
    return np.where(np.nanmax(X, axis=0) > np.nanmin(X, axis=0), sd, 1.0)


@tables
@standardised
@rotations
def test_units_do_not_matter(rotation, how, table):
    X = table()
    plain = FactorAnalysis(3, rotation=rotation, **how, **TIGHT).fit(X)
    other = FactorAnalysis(3, rotation=rotation, **how, **TIGHT).fit(X * UNITS)
    sd = sizes(X)[:, None]
    assert plain.heywood_ == other.heywood_
    assert set(HEYWOOD[table]) <= set(plain.heywood_)
    assert_allclose(other.loadings_ / UNITS[:, None] / sd, plain.loadings_ / sd, atol=ATOL)
    assert_allclose(other.factor_correlation_, plain.factor_correlation_, atol=ATOL)
    assert_allclose(other.transform(X * UNITS), plain.transform(X), atol=100 * ATOL)


@tables
@rotations
def test_scaling_rotates_as_the_standardised_table(rotation, table):
    X = table()
    sd = sizes(X)
    scaled = FactorAnalysis(3, rotation=rotation, scale=True, **TIGHT).fit(X * UNITS)
    plain = FactorAnalysis(3, rotation=rotation, **TIGHT).fit((X - np.nanmean(X, axis=0)) / sd)
    assert_allclose(scaled.loadings_ / (sd * UNITS)[:, None], plain.loadings_, atol=ATOL)
    assert_allclose(scaled.factor_correlation_, plain.factor_correlation_, atol=ATOL)


@rotations
def test_without_scale_and_kaiser_the_rotation_is_of_data_units(rotation):
    X = three_groups() * UNITS
    with pytest.warns(UnitsWarning, match="columns 0, 1, .* hardly count: .*kaiser=True"):
        model = FactorAnalysis(3, rotation=rotation).fit(X)
    expected = rotate(model.model_.W, rotation, normalize=False)
    assert_array_equal(model.loadings_, expected.loadings)


@rotations
def test_columns_of_like_size_and_standardised_loadings_are_not_warned_of(rotation):
    X = three_groups()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnitsWarning)
        FactorAnalysis(3, rotation=rotation).fit(X * np.linspace(1.0, 3.0, 9))
        FactorAnalysis(3, rotation=rotation, kaiser=True).fit(X * UNITS)
        FactorAnalysis(3, rotation=rotation, scale=True).fit(X * UNITS)
        FactorAnalysis(1, rotation=rotation).fit(X * UNITS)  # nothing to rotate


@standardised
@rotations
def test_batches_are_rotated_as_the_whole(rotation, how):
    X = three_groups() * UNITS
    whole = FactorAnalysis(3, rotation=rotation, **how, **TIGHT).fit(X)
    batches = FactorAnalysis(3, rotation=rotation, **how, **TIGHT)
    for batch in np.array_split(X, 7):
        batches.partial_fit(batch)
    sd = X.std(axis=0)[:, None]
    assert_allclose(batches.loadings_ / sd, whole.loadings_ / sd, atol=ATOL)


@rotations
def test_student_noise_rotates_standardised_loadings(rotation):
    X = three_groups()
    how = {"distribution": "student", "degrees_of_freedom": 5.0, "kaiser": True, **TIGHT}
    plain = FactorAnalysis(3, rotation=rotation, **how).fit(X)
    other = FactorAnalysis(3, rotation=rotation, **how).fit(X * UNITS)
    assert_allclose(other.loadings_ / UNITS[:, None], plain.loadings_, atol=100 * ATOL)


@pytest.mark.parametrize("rotation", ["varimax", "promax"])
def test_intervals_of_rotated_loadings_follow_the_units(rotation):
    """Standard errors under align="axes" rotate every model anew, on the same scale as the fit."""
    X = three_groups()
    model = FactorAnalysis(3, rotation=rotation, kaiser=True, **TIGHT)
    plain, other = (
        confidence_intervals(model, rows, method="asymptotic", align="axes").loadings
        for rows in (X, X * UNITS)
    )
    # Derivatives are differences, known to about half of the digits.
    assert_allclose(other.low / UNITS[:, None], plain.low, atol=1e-4)
    assert_allclose(other.high / UNITS[:, None], plain.high, atol=1e-4)


@rotations
def test_the_unit_changes_the_rotation_and_not_the_units_of_the_loadings(rotation):
    W = np.random.default_rng(0).normal(size=(8, 3))
    unit = np.geomspace(1e-3, 1e3, 8)
    plain, other = rotate(W, rotation), rotate(W * unit[:, None], rotation, unit=unit)
    assert_allclose(other.loadings / unit[:, None], plain.loadings, atol=1e-9)
    assert_allclose(other.T, plain.T, atol=1e-9)
