"""A fitted model shares no memory with what it was fitted to: the caller may reuse the arrays."""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from tests.model_files import FULL, INCOMPLETE, WORDS, answers, curve, difference, distances

import eigengap as eg
from eigengap.registry import BY_NAME, ESTIMATORS
from eigengap.runtime.warnings import silence

FEW_STEPS: dict[str, dict[str, Any]] = {
    "GPLVM": {"max_iter": 2},
    "Autoencoder": {"hidden": (4,), "max_iter": 2},
    "MaximumVarianceUnfolding": {"n_neighbors": 4, "max_iter": 2},
    "StructurePreservingEmbedding": {"n_neighbors": 3, "max_iter": 2},
    "Isomap": {"n_neighbors": 8},
    "LaplacianEigenmaps": {"n_neighbors": 8},
    "PPCARegressor": {"n_components": 1},
    "PPCAClassifier": {"n_components": 1},
}
CURVED = ("MaximumVarianceUnfolding", "StructurePreservingEmbedding")
SPARSE = csr_array(np.where(FULL > 2.0, FULL, 0.0))
MORE: dict[str, tuple[str, dict[str, Any], Any]] = {
    "PCA, sparse": ("PCA", {"n_components": 2}, SPARSE),
    "PPCA, Student noise": ("PPCA", {"n_components": 1, "distribution": "student"}, INCOMPLETE),
    "KernelPCA, sparse": ("KernelPCA", {"n_components": 2}, SPARSE),
    "KernelPCA, RBF": ("KernelPCA", {"n_components": 2, "kernel": "rbf"}, FULL),
    "KernelPCA, inverse": (
        "KernelPCA",
        {"n_components": 2, "kernel": "rbf", "fit_inverse_transform": True, "preimage": "ridge"},
        FULL,
    ),
    "KernelPCA, landmarks": (
        "KernelPCA",
        {"n_components": 2, "kernel": "rbf", "landmarks": 40},
        FULL,
    ),
    "KernelPCA, precomputed": ("KernelPCA", {"kernel": "precomputed"}, FULL @ FULL.T),
    "ClassicalMDS, metric": ("ClassicalMDS", {"metric": "manhattan"}, FULL),
    "ClassicalMDS, precomputed": ("ClassicalMDS", {"metric": "precomputed"}, distances()),
    "Isomap, brute": ("Isomap", {"n_neighbors": 8, "neighbors_algorithm": "brute"}, FULL),
    "Isomap, precomputed": ("Isomap", {"n_neighbors": 8, "metric": "precomputed"}, distances()),
    "Isomap, wide": ("Isomap", {"n_neighbors": 8}, np.hstack([FULL, FULL**2, FULL**3])),
    "LaplacianEigenmaps, RBF": ("LaplacianEigenmaps", {"affinity": "rbf"}, FULL),
    "LaplacianEigenmaps, precomputed": (
        "LaplacianEigenmaps",
        {"affinity": "precomputed"},
        csr_array(np.exp(-distances())),
    ),
}
TABLES = {"complete": FULL, "missing": INCOMPLETE, "frame": pd.DataFrame(INCOMPLETE)}
CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    f"{entry.name}, {kind}": (
        entry.name,
        FEW_STEPS.get(entry.name, {}),
        curve(20) if entry.name in CURVED else X,
    )
    for entry in ESTIMATORS
    for kind, X in TABLES.items()
    if not (entry.name in CURVED and kind != "complete")
} | MORE


def overwritten(given: Any) -> None:
    """Overwrite an input in place, as a caller does who reuses a buffer."""
    if isinstance(given, csr_array):
        given.data[:] = given.data[::-1].copy() + 1.0
    elif isinstance(given, pd.DataFrame):
        given.iloc[:, :] = 7.0
    elif given.dtype.kind == "f":
        given[...] = 7.0
    else:
        given[...] = given[0]


@pytest.mark.parametrize("name", CASES)
def test_overwriting_the_inputs_changes_no_output(name):
    kind, parameters, table = CASES[name]
    estimator = getattr(eg, kind)(**parameters)
    takes = inspect.signature(estimator.fit).parameters
    n, target = table.shape[0], BY_NAME[kind].target
    given: dict[str, Any] = {"X": table.copy()}
    if target:
        given["y"] = WORDS.copy() if target == "class" else FULL[:, 0].copy()
    if "sample_weight" in takes:
        given["sample_weight"] = np.arange(1.0, n + 1.0)
    if "cell_sd" in takes and "distribution" not in parameters:
        given["cell_sd"] = np.random.default_rng(0).random(table.shape)
    with silence():
        estimator.fit(**given)
        before = deepcopy(estimator)
        for value in given.values():
            overwritten(value)
        after = deepcopy(estimator)
    assert difference(answers(before, table.copy()), answers(after, table.copy())) == ""


@pytest.mark.parametrize("wrap", [np.asarray, pd.Series])
@pytest.mark.parametrize("X", [FULL, INCOMPLETE], ids=["complete", "missing"])
@pytest.mark.parametrize("estimator", [eg.PCA(2), eg.PPCA(1), eg.FactorAnalysis(1)], ids=str)
def test_a_batch_and_its_weights_may_be_reused_for_the_next(estimator, X, wrap):
    estimator = clone(estimator)
    w = np.random.default_rng(0).random(len(X)) + 0.1
    rows, weights = np.empty((10, X.shape[1])), np.empty(10)
    with silence():
        for start in range(0, len(X), 10):
            rows[:], weights[:] = X[start : start + 10], w[start : start + 10]
            estimator.partial_fit(rows, sample_weight=wrap(weights))
        rows[:], weights[:] = 0.0, 1.0
        whole = clone(estimator).fit(X, sample_weight=w)
    np.testing.assert_allclose(estimator.mean_, whole.mean_, rtol=1e-4)
    np.testing.assert_allclose(estimator.get_covariance(), whole.get_covariance(), rtol=1e-3)


W = np.arange(1.0, 6.0)
PARAMETERS: dict[str, tuple[Any, np.ndarray, str]] = {
    "PPCAClassifier": (lambda a: eg.PPCAClassifier(1, priors=a), np.full(3, 1 / 3), "priors"),
    "ICA": (lambda a: eg.ICA(2, w_init=a, random_state=0), np.eye(2), "w_init"),
    "GPLVM": (lambda a: eg.GPLVM(2, init=a, max_iter=2), FULL[:, :2].copy(), "init"),
    "Isomap": (
        lambda a: eg.Isomap(n_neighbors=8, metric="minkowski", metric_params={"w": a}),
        W.copy(),
        "metric_params",
    ),
    "ClassicalMDS": (
        lambda a: eg.ClassicalMDS(metric="minkowski", metric_params={"w": a}),
        W.copy(),
        "metric_params",
    ),
    "LaplacianEigenmaps": (
        lambda a: eg.LaplacianEigenmaps(n_neighbors=8, metric="minkowski", metric_params={"w": a}),
        W.copy(),
        "metric_params",
    ),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_overwriting_an_array_parameter_changes_no_fit(name):
    make, array, parameter = PARAMETERS[name]
    target = [WORDS] if name == "PPCAClassifier" else []
    rows = FULL + 0.01 * np.arange(5.0) ** 2
    with silence():
        estimator = make(array).fit(FULL, *target)
        before = deepcopy(estimator)
        array[...] = array.ravel()[0]
        array[0] += 3.0
        found = [answers(deepcopy(model), rows) for model in (before, estimator)]
    for answer in found:
        answer.pop(f"vars.{parameter}")
    assert difference(*found) == ""
