"""What can be fitted can be saved: the checks of model files refuse nothing that a fit leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.model_files import curve, distances, table

import eigengap as eg
from eigengap.persistence.model_file import load, save
from eigengap.registry import ESTIMATORS
from eigengap.runtime.warnings import silence

FULL, INCOMPLETE = table(), table(missing=0.15)
TABLES = {
    "complete": FULL,
    "missing": INCOMPLETE,
    "float32": FULL.astype(np.float32),
    "integers": (10 * FULL).astype(int),
    "constant": np.where(np.arange(5) == 2, 1.0, FULL),
    "collinear": np.column_stack([FULL[:, :4], FULL[:, 0] + FULL[:, 1]]),
    "wide": table(10, 30),
    "equal rows": np.repeat(FULL[:10], 4, axis=0),
    "sparse": csr_array(np.where(FULL > 2.0, FULL, 0.0)),
    "tiny": 1e-140 * FULL,
    "large": 1e140 * FULL,
    "far": FULL + 1e8,
    "two rows": FULL[:2],
    "one column": FULL[:, :1],
}
SLOW = ("MaximumVarianceUnfolding", "StructurePreservingEmbedding")
CLASSES = [
    getattr(eg, entry.name)
    for entry in ESTIMATORS
    if not (entry.target or entry.extra or entry.name in SLOW)
]
METRICS = ("manhattan", "cosine", "jaccard", "hamming", "seuclidean", "mahalanobis", "canberra")
Fit = Callable[[], Any]


def options() -> Iterator[tuple[str, Fit]]:
    """Fits of other parameters than the default ones."""
    for metric, cls in product(METRICS, (eg.ClassicalMDS, eg.Isomap, eg.LaplacianEigenmaps)):
        how = {} if cls is eg.ClassicalMDS else {"n_neighbors": 8}
        yield f"{cls.__name__} {metric}", lambda c=cls, m=metric, h=how: c(metric=m, **h).fit(FULL)
    for kernel, more in product(
        ("linear", "rbf", "poly", "cosine", "laplacian"),
        (
            {"landmarks": 10},
            {"center": False},
            {"fit_inverse_transform": True},
            {"preimage": "ridge"},
        ),
    ):
        told = f"KernelPCA {kernel} {next(iter(more))}"
        yield told, lambda k=kernel, m=more: eg.KernelPCA(2, kernel=k, **m).fit(FULL)
    for correction, weighted in product((None, "cailliez", "lingoes"), (False, True)):
        weight = np.arange(40.0) if weighted else None
        yield (
            f"ClassicalMDS {correction} {weighted}",
            lambda c=correction, w=weight: eg.ClassicalMDS(metric="manhattan", correction=c).fit(
                FULL, sample_weight=w
            ),
        )
    for algorithm, near in product(("brute", "ball_tree"), ({"radius": 4.0}, {"landmarks": 10})):
        how = {"n_neighbors": None if "radius" in near else 8, **near}
        yield (
            f"Isomap {algorithm} {near}",
            lambda a=algorithm, h=how: eg.Isomap(neighbors_algorithm=a, **h).fit(FULL),
        )
    for method, X in product(
        ("zca", "cholesky", "zca-cor", "normalise", "centre"), (FULL, INCOMPLETE)
    ):
        yield f"Whitener {method}", lambda m=method, X=X: eg.Whitener(method=m).fit(X)
    for affinity in ("rbf", "precomputed"):
        X = np.exp(-distances()) if affinity == "precomputed" else FULL
        yield (
            f"LaplacianEigenmaps {affinity}",
            lambda a=affinity, X=X: eg.LaplacianEigenmaps(affinity=a).fit(X),
        )
    for cls, columns in product((eg.PPCA, eg.FactorAnalysis), ("auto", {0: "ordinal"})):
        for name, X in (("whole", np.round(INCOMPLETE)), ("missing", INCOMPLETE)):
            if columns == "auto" or name == "whole":
                yield (
                    f"{cls.__name__} {columns} {name}",
                    lambda c=cls, k=columns, X=X: c(1, columns=k).fit(X),
                )
    yield "rotation", lambda: eg.FactorAnalysis(2, columns="auto", rotation="promax").fit(FULL)
    yield "partial_fit", lambda: eg.FactorAnalysis(1).partial_fit(FULL)
    yield "unfolding", lambda: eg.MaximumVarianceUnfolding(n_neighbors=4, max_iter=2).fit(curve(30))


FITS: dict[str, Fit] = {
    **{
        f"{cls.__name__} {name}": lambda cls=cls, X=X: cls().fit(X)
        for cls, (name, X) in product(CLASSES, TABLES.items())
    },
    **dict(options()),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_saved_and_loaded(name, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    try:
        with silence():
            model = FITS[name]()
    except ValueError:
        return  # no fit, which other tests are about
    again = load(save(model, tmp_path / "m.egap"))
    assert type(again) is type(model)
