"""Messages name the cause, and the way out that they show works."""

import re

import numpy as np
import pytest

from eigengap import (
    ICA,
    PCA,
    PPCA,
    Autoencoder,
    ClassicalMDS,
    Isomap,
    KernelPCA,
    LaplacianEigenmaps,
    Whitener,
    embedding_quality,
    residual_variance,
)
from eigengap.matrices.decomposition import pinv

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((40, 4))


def advised(error, X):
    """X as the message says: the expression after "for instance" or "e.g."."""
    text = str(error)
    divided = re.search(r"divide that column by (1e-?\d+)", text)
    if divided:
        j = int(re.search(r"column (\d+)", text).group(1))
        return X / np.where(np.arange(X.shape[1]) == j, float(divided.group(1)), 1.0)
    found = re.search(r"for instance (\(?X.*?(?:e-?\d+))(?=[,.]|$)", text)
    assert found, text
    return eval(found.group(1), {"X": X, "numpy": np})


FAR = np.column_stack([ROWS[:, :2] * 1e-200, np.full(40, 1e10)])
UNITS = {
    "tiny": ROWS * 1e-200,
    "subnormal": ROWS * 1e-310,
    "barely tiny": ROWS * 1e-148,
    "tiny beside a far constant": FAR,
    "tiny with missing values": np.where(RNG.random((40, 4)) < 0.1, np.nan, ROWS * 1e-200),
    "huge column": ROWS * [1.0, 1e160, 1.0, 1.0],
    "huge negative": -np.abs(ROWS) * [1e155, 1.0, 1.0, 1.0],
}


@pytest.mark.parametrize("make", [PCA, PPCA, ICA, Whitener], ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", UNITS)
def test_rescaling_as_advised_works(make, name):
    X = UNITS[name]
    estimator = make() if make is Whitener else make(1)
    for _ in range(X.shape[1] + 1):  # one column at a time
        try:
            estimator.fit(X)
            return
        except ValueError as error:
            X = advised(error, X)
    pytest.fail("the advice leads nowhere")


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e-310])
def test_rescaling_distances_as_advised_works(scale):
    D = np.linalg.norm(ROWS[:, None] - ROWS, axis=2) * scale
    with pytest.raises(ValueError, match="Rescale") as told:
        ClassicalMDS(2, metric="precomputed").fit(D)
    ClassicalMDS(2, metric="precomputed").fit(advised(told.value, D))


def test_rows_that_are_not_positive_are_rescaled_as_advised():
    X = -np.abs(ROWS) * 1e153
    X[0] = 0.0
    with pytest.raises(ValueError, match="overflow") as told:
        Isomap(n_neighbors=8).fit(X)
    Isomap(n_neighbors=8).fit(advised(told.value, X))


def test_a_pseudo_inverse_that_overflows_is_rescaled_as_advised():
    X = np.diag([1e-309, 3e-309])
    with pytest.raises(ValueError, match="overflows") as told:
        pinv(X)
    assert np.all(np.isfinite(pinv(advised(told.value, X))))


def test_weights_that_overflow_are_named():
    with pytest.raises(ValueError, match="sample_weight"):
        PCA(1).fit(ROWS * 1e90, sample_weight=np.full(40, 1e200))


@pytest.mark.parametrize("landmarks", [None, 20])
def test_a_fractional_degree_is_named(landmarks):
    with pytest.raises(ValueError, match=r"degree 2\.5 .* negative.* whole degree"):
        KernelPCA(2, kernel="poly", degree=2.5, landmarks=landmarks).fit(ROWS)
    KernelPCA(2, kernel="poly", degree=2.5, landmarks=landmarks).fit(np.abs(ROWS))


def test_a_fractional_degree_is_named_for_new_rows():
    fitted = KernelPCA(2, kernel="poly", degree=2.5).fit(np.abs(ROWS))
    with pytest.raises(ValueError, match="whole degree"):
        fitted.transform(-10.0 * np.abs(ROWS))


@pytest.mark.parametrize(
    "estimator",
    [
        LaplacianEigenmaps(2, n_neighbors=5),
        LaplacianEigenmaps(2, affinity="rbf"),
        Autoencoder(1, max_iter=2, random_state=0),
    ],
    ids=["LaplacianEigenmaps", "rbf", "Autoencoder"],
)
@pytest.mark.parametrize("missing", [False, True])
def test_equal_rows_are_told(estimator, missing):
    X = np.tile([1.0, 2.0, 3.0], (30, 1))
    if missing:
        X[[3, 8], [0, 1]] = np.nan
    with pytest.warns(UserWarning, match=r"all rows (coincide|are equal)"):
        estimator.fit(X)


def test_quality_of_equal_distances_is_a_number():
    simplex = np.eye(12)  # all at the same distance
    line = np.arange(12.0)[:, None]
    point = np.zeros((12, 1))
    assert residual_variance(simplex, 3.0 * simplex) == 0.0
    assert residual_variance(simplex, line) == 1.0
    assert residual_variance(line, simplex) == 1.0
    assert residual_variance(line, point) == 1.0
    assert residual_variance(point, point) == 0.0
    found = embedding_quality(line, point, n_neighbors=3)
    assert (found.residual_variance, found.stress) == (1.0, 1.0)
