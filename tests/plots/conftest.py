"""Tables and fits that the tests of charts share."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from tests.plots.foreign import HOSTILE

import eigengap as eg


@pytest.fixture(scope="session")
def wine() -> pd.DataFrame:
    return load_wine(as_frame=True).data


@pytest.fixture(scope="session")
def iris() -> pd.DataFrame:
    return load_iris(as_frame=True).data


@pytest.fixture(scope="session")
def biopsies() -> pd.DataFrame:
    """The shipped table, with id and diagnosis beside its features and 16 real gaps."""
    with (resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv").open() as file:
        return pd.read_csv(file)


@pytest.fixture(scope="session")
def features(biopsies: pd.DataFrame) -> pd.DataFrame:
    return biopsies.drop(columns=["id", "diagnosis"])


@pytest.fixture(scope="session")
def truth() -> np.ndarray:
    """300 rows of 8 columns, of three components and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * [3.0, 2.0, 1.5] @ rng.normal(size=(3, 8))
    X = X + 0.5 * rng.normal(size=X.shape)
    X.setflags(write=False)  # pandas 2 writes into the array that a frame was made of
    return X


@pytest.fixture(scope="session")
def incomplete(truth: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(1)
    X = np.where(rng.random(truth.shape) < 0.15, np.nan, truth)
    X[0] = truth[0]
    X.setflags(write=False)
    return X


@pytest.fixture(scope="session")
def pca(wine: pd.DataFrame) -> eg.PCA:
    return eg.PCA(scale=True).fit(wine)


@pytest.fixture(scope="session")
def ppca(incomplete: np.ndarray) -> eg.PPCA:
    return eg.PPCA(3).fit(incomplete)


@pytest.fixture(scope="session")
def hostile(incomplete: np.ndarray) -> pd.DataFrame:
    """A table whose column names are meant to break charts."""
    return pd.DataFrame(incomplete, columns=HOSTILE[: incomplete.shape[1]])
