"""Fitted estimators of every kind, what they can be asked for, and equality to the last bit."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

import eigengap as eg
from eigengap import registry
from eigengap.models import kernels
from eigengap.models.gp import kernels as gp_kernels
from eigengap.runtime.warnings import silence

NOT_ASKED = {"partial_fit", "set_output", "get_params", "get_metadata_routing", "plot"}


def table(n: int = 40, d: int = 5, *, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d)) + 2.0
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
        X[np.isnan(X).all(axis=1), 0] = 1.0
    return X


def frame(n: int = 40, d: int = 5, **how: Any) -> pd.DataFrame:
    names = ["a", "b.c", 'd"e', "</script>", "ä\n\u202e", *(f"x{j}" for j in range(d - 5))]
    return pd.DataFrame(table(n, d, **how), columns=names[:d])


def curve(n: int = 40, d: int = 3) -> np.ndarray:
    t = np.linspace(0.0, 3.0, n)
    rows = np.column_stack([np.cos(t), np.sin(t), 0.2 * t])
    more = np.random.default_rng(0).normal(size=(n, max(d - 3, 0))) * 0.01
    return np.hstack([rows, more])[:, :d]


def distances(n: int = 20) -> np.ndarray:
    rows = table(n)
    return np.sqrt(((rows[:, None] - rows) ** 2).sum(axis=2))


def _streamed(estimator: Any, X: np.ndarray, parts: int = 5) -> Any:
    for batch in np.array_split(X, parts):
        estimator.partial_fit(batch)
    return estimator


def _neighbours() -> scipy.sparse.csr_array:
    D = distances()
    D[np.argsort(np.argsort(D, axis=1), axis=1) > 6] = 0.0
    return scipy.sparse.csr_array(np.maximum(D, D.T))


FULL, INCOMPLETE, WORDS = (
    table(),
    table(missing=0.15),
    np.array(["no", "maybe", "yes"])[np.arange(40) % 3],
)
WEIGHT = np.arange(1.0, 41.0)
SPARSE = scipy.sparse.random_array((40, 8), density=0.4, rng=0, format="csr")
WIDE = table(40, 15)  # beyond SciPy's tree

# Name: the estimator fitted, and rows that it is asked about.
CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "PCA": lambda: (eg.PCA().fit(FULL), FULL),
    "PCA-whiten-frame": lambda: (eg.PCA(2, whiten=True).fit(frame()), frame()),
    "PCA-gaps-scale": lambda: (eg.PCA(2, scale=True).fit(INCOMPLETE), INCOMPLETE),
    "PCA-sparse": lambda: (eg.PCA(2).fit(SPARSE), SPARSE),
    "PCA-float32": lambda: (eg.PCA(2).fit(FULL.astype("f4")), FULL.astype("f4")),
    "PCA-stream": lambda: (_streamed(eg.PCA(2), FULL), FULL),
    "PCA-stream-short": lambda: (eg.PCA(1).partial_fit(FULL), FULL),
    "PPCA-auto": lambda: (eg.PPCA("auto").fit(FULL), FULL),
    "PPCA-gaps-frame": lambda: (eg.PPCA(2, scale=True).fit(frame(missing=0.1)), frame(missing=0.1)),
    "PPCA-student": lambda: (eg.PPCA(1, distribution="student").fit(INCOMPLETE), INCOMPLETE),
    "PPCA-cell-sd": lambda: (
        eg.PPCA(1).fit(INCOMPLETE, cell_sd=np.full(INCOMPLETE.shape, 0.1)),
        INCOMPLETE,
    ),
    "PPCA-weights": lambda: (
        eg.PPCA(2, n_init=2, random_state=np.random.RandomState(3)).fit(
            INCOMPLETE, sample_weight=WEIGHT
        ),
        INCOMPLETE,
    ),
    "PPCA-stream-gaps": lambda: (_streamed(eg.PPCA(2), INCOMPLETE), INCOMPLETE),
    "PPCA-stream-settled": lambda: (_streamed(eg.PPCA(1), table(2300, missing=0.2)), INCOMPLETE),
    "PPCA-set-output": lambda: (eg.PPCA(2).fit(frame()).set_output(transform="pandas"), frame()),
    "FactorAnalysis": lambda: (eg.FactorAnalysis(1, rotation="varimax").fit(FULL), FULL),
    "FactorAnalysis-oblique": lambda: (
        eg.FactorAnalysis(2, rotation="oblimin").fit(table(60, 7, missing=0.1)),
        table(60, 7, missing=0.1),
    ),
    "FactorAnalysis-stream": lambda: (_streamed(eg.FactorAnalysis(1), INCOMPLETE), INCOMPLETE),
    "BayesianPCA": lambda: (eg.BayesianPCA(3).fit(INCOMPLETE), INCOMPLETE),
    "BayesianPCA-diagonal": lambda: (eg.BayesianPCA(2, noise="diagonal").fit(FULL), FULL),
    "MixturePPCA": lambda: (eg.MixturePPCA(2, 1, random_state=0).fit(INCOMPLETE), INCOMPLETE),
    "ICA": lambda: (eg.ICA(2, random_state=0).fit(FULL), FULL),
    "ICA-gaps": lambda: (eg.ICA(2, random_state=0, max_iter=20).fit(INCOMPLETE), INCOMPLETE),
    "ClassicalMDS": lambda: (eg.ClassicalMDS(2).fit(FULL), FULL),
    "ClassicalMDS-metric": lambda: (eg.ClassicalMDS(2, metric="seuclidean").fit(FULL), FULL),
    "ClassicalMDS-given": lambda: (
        eg.ClassicalMDS(2, metric="precomputed").fit(distances()),
        distances(),
    ),
    "ClassicalMDS-gaps": lambda: (eg.ClassicalMDS(2).fit(INCOMPLETE), INCOMPLETE),
    "ClassicalMDS-boolean": lambda: (
        eg.ClassicalMDS(2, metric="jaccard").fit((FULL > 2.0).astype(float)),
        (FULL > 2.0).astype(float),
    ),
    "ClassicalMDS-weights": lambda: (
        eg.ClassicalMDS(2, metric="manhattan", correction="cailliez").fit(
            FULL, sample_weight=WEIGHT - 1.0
        ),
        FULL,
    ),
    "Whitener": lambda: (eg.Whitener().fit(FULL), FULL),
    "Whitener-zca-gaps": lambda: (eg.Whitener(method="zca").fit(INCOMPLETE), INCOMPLETE),
    "KernelPCA-linear": lambda: (eg.KernelPCA(2).fit(SPARSE), SPARSE),
    "KernelPCA-rbf": lambda: (
        eg.KernelPCA(2, kernel="rbf", fit_inverse_transform=True, preimage="ridge").fit(FULL),
        FULL,
    ),
    "KernelPCA-gaps": lambda: (eg.KernelPCA(2, kernel="rbf").fit(INCOMPLETE), INCOMPLETE),
    "KernelPCA-landmarks": lambda: (
        eg.KernelPCA(2, kernel="laplacian", landmarks=10, random_state=0).fit(FULL),
        FULL,
    ),
    "KernelPCA-object": lambda: (eg.KernelPCA(2, kernel=kernels.Polynomial(0.2)).fit(FULL), FULL),
    "KernelPCA-given": lambda: (
        eg.KernelPCA(2, kernel="precomputed").fit(FULL @ FULL.T),
        FULL @ FULL.T,
    ),
    "Isomap": lambda: (eg.Isomap(n_neighbors=6).fit(curve()), curve(50)),
    "Isomap-wide": lambda: (eg.Isomap(n_neighbors=8).fit(WIDE), WIDE + 0.01),
    "Isomap-radius": lambda: (eg.Isomap(n_neighbors=None, radius=0.5).fit(curve()), curve(50)),
    "Isomap-landmarks": lambda: (
        eg.Isomap(n_neighbors=6, landmarks=10, random_state=0).fit(curve()),
        curve(50),
    ),
    "Isomap-metric": lambda: (
        eg.Isomap(n_neighbors=8, metric="manhattan", metric_params={"w": np.arange(1.0, 6.0)}).fit(
            FULL
        ),
        FULL + 0.01,
    ),
    "Isomap-mahalanobis": lambda: (
        eg.Isomap(n_neighbors=8, metric="mahalanobis", neighbors_algorithm="brute").fit(FULL),
        FULL + 0.01,
    ),
    "Isomap-gaps": lambda: (eg.Isomap(n_neighbors=8).fit(INCOMPLETE), INCOMPLETE),
    "Isomap-skips": lambda: (
        eg.Isomap(n_neighbors=8, metric="nan_euclidean").fit(INCOMPLETE),
        INCOMPLETE,
    ),
    "Isomap-ball": lambda: (
        eg.Isomap(n_neighbors=8, neighbors_algorithm="ball_tree").fit(WIDE),
        WIDE + 0.01,
    ),
    "Isomap-approximate": lambda: (
        eg.Isomap(n_neighbors=8, neighbors_algorithm="approximate", random_state=0).fit(WIDE),
        WIDE + 0.01,
    ),
    "Isomap-given": lambda: (
        eg.Isomap(n_neighbors=8, metric="precomputed").fit(distances()),
        distances(),
    ),
    "LaplacianEigenmaps": lambda: (eg.LaplacianEigenmaps(n_neighbors=8).fit(FULL), FULL + 0.01),
    "LaplacianEigenmaps-heat": lambda: (
        eg.LaplacianEigenmaps(n_neighbors=8, weights="heat", bandwidth="local").fit(INCOMPLETE),
        INCOMPLETE,
    ),
    "LaplacianEigenmaps-radius": lambda: (
        eg.LaplacianEigenmaps(n_neighbors=None, radius=3.0).fit(FULL),
        FULL + 0.01,
    ),
    "LaplacianEigenmaps-rbf": lambda: (
        eg.LaplacianEigenmaps(affinity="rbf").fit(frame()),
        frame(),
    ),
    "LaplacianEigenmaps-given": lambda: (
        eg.LaplacianEigenmaps(affinity="precomputed").fit(_neighbours()),
        _neighbours(),
    ),
    "MaximumVarianceUnfolding": lambda: (
        eg.MaximumVarianceUnfolding(n_neighbors=4, max_iter=5).fit(curve(25)),
        curve(30),
    ),
    "StructurePreservingEmbedding": lambda: (
        eg.StructurePreservingEmbedding(n_neighbors=3, max_iter=2).fit(curve(20)),
        curve(20),
    ),
    "GPLVM": lambda: (eg.GPLVM(2, kernel="linear").fit(FULL), FULL),
    "GPLVM-rbf": lambda: (
        eg.GPLVM(
            1, kernel=gp_kernels.RBF() + gp_kernels.Linear(), max_iter=3, back_constraint="mlp"
        ).fit(table(15, missing=0.1)),
        table(15, missing=0.1)[:4],
    ),
    "GPLVM-bayesian": lambda: (
        eg.GPLVM(1, kernel="rbf", method="bayesian", n_inducing=4, max_iter=2).fit(table(15)),
        table(15)[:4],
    ),
    "GPLVM-kernel": lambda: (
        eg.GPLVM(1, kernel="matern52", max_iter=2, back_constraint="kernel").fit(table(12)),
        table(12)[:4],
    ),
    "Autoencoder": lambda: (eg.Autoencoder(2, hidden=(4,), max_iter=3).fit(INCOMPLETE), INCOMPLETE),
    "PPCAClassifier": lambda: (
        eg.PPCAClassifier(1).fit(frame(missing=0.1), WORDS),
        frame(missing=0.1),
    ),
    "PPCAClassifier-objects": lambda: (
        eg.PPCAClassifier(1, scale=True).fit(INCOMPLETE, WORDS.astype(object)),
        INCOMPLETE,
    ),
    "PPCAClassifier-diagonal": lambda: (
        eg.PPCAClassifier(1, noise="diagonal").fit(INCOMPLETE, WORDS),
        INCOMPLETE,
    ),
    "PPCARegressor": lambda: (
        eg.PPCARegressor(2).fit(INCOMPLETE[:, :3], FULL[:, 3:]),
        INCOMPLETE[:, :3],
    ),
    "PPCARegressor-auto": lambda: (
        eg.PPCARegressor().fit(FULL[:, :4], FULL[:, 4]),
        INCOMPLETE[:, :4],
    ),
    "NoveltyDetector": lambda: (eg.NoveltyDetector().fit(frame(missing=0.1)), frame(missing=0.1)),
    "NoveltyDetector-given": lambda: (eg.NoveltyDetector(eg.PPCA(1)).fit(INCOMPLETE), INCOMPLETE),
    "LowRankImputer": lambda: (eg.LowRankImputer().fit(frame(missing=0.2)), frame(missing=0.2)),
    "LowRankImputer-thorough": lambda: (
        eg.LowRankImputer("thorough", bounds={"a": (0, None)}, integers=["a"]).fit(
            frame(missing=0.2)
        ),
        frame(missing=0.2),
    ),
    "LowRankImputer-list": lambda: (
        eg.LowRankImputer([eg.PPCA(1), eg.FactorAnalysis(1)], add_indicator=True).fit(INCOMPLETE),
        INCOMPLETE,
    ),
    "LowRankImputer-means": lambda: (
        eg.LowRankImputer().fit(np.random.default_rng(0).normal(size=(30, 4))),
        INCOMPLETE[:, :4],
    ),
}


def _by_default(entry: registry.Estimator) -> tuple[Any, Any]:
    target = {"class": [WORDS], "number": [FULL[:, 0]], "": []}[entry.target]
    return getattr(eg, entry.name)().fit(FULL, *target), FULL


CASES |= {
    entry.name: partial(_by_default, entry)
    for entry in registry.ESTIMATORS
    if entry.name not in {name.partition("-")[0] for name in CASES}
}
SLOW = (
    "GPLVM-rbf",
    "GPLVM-bayesian",
    "GPLVM-kernel",
    "Isomap-approximate",
    "LowRankImputer-thorough",
)


@cache
def case(name: str) -> tuple[Any, Any]:
    with silence():
        return CASES[name]()


# What can be asked ---------------------------------------------------------------------------


def answers(estimator: Any, X: Any) -> dict[str, Any]:
    """Every output method on X, and every fitted attribute; an error counts as its words."""
    with silence():
        found = {name: _asked(estimator, name, X) for name in _methods(estimator)}
        for name in dir(type(estimator)):
            if name.endswith("_") and not name.startswith("_"):
                found[name] = _or_words(lambda name=name: getattr(estimator, name))
    held = {name: value for name, value in vars(estimator).items() if name != "provenance_"}
    return found | {f"vars.{name}": value for name, value in held.items()}


def _methods(estimator: Any) -> list[str]:
    """Names of methods that need nothing but rows, or nothing at all."""
    found = []
    for name in dir(estimator):
        if name.startswith(("_", "fit", "set_")) or name.endswith("_") or name in NOT_ASKED:
            continue
        if callable(inspect.getattr_static(type(estimator), name, None)) or name == "row_weights":
            found.append(name)
    return found


def _asked(estimator: Any, name: str, X: Any) -> Any:
    method = getattr(estimator, name)
    takes = inspect.signature(method).parameters
    given: dict[str, Any] = {}
    if "random_state" in takes:
        given["random_state"] = 0
    if "return_std" in takes:
        given["return_std"] = True
    if "m" in takes:
        given["m"] = 2
    if name == "inverse_transform":
        return _or_words(lambda: method(np.asarray(estimator.transform(X)), **given))
    if name == "score" and hasattr(estimator, "predict") and "y" in takes:
        return _or_words(lambda: method(X, estimator.predict(X)))
    if "X" in takes:
        given["X"] = X
    return _or_words(lambda: _listed(method(**given)))


def _listed(value: Any) -> Any:
    return list(value) if inspect.isgenerator(value) else value


def _or_words(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# Equality ------------------------------------------------------------------------------------


def difference(a: Any, b: Any, where: str = "") -> str:
    """Where two answers differ, in any bit; nothing where they do not."""
    if a is b:
        return ""
    if type(a) is not type(b):
        return f"{where}: {type(a).__name__} and {type(b).__name__}"
    if isinstance(a, np.ndarray):
        return _array_difference(a, b, where)
    if scipy.sparse.issparse(a):
        parts = ("data", "indices", "indptr")
        return difference(a.shape, b.shape, where) or _first(
            difference(getattr(a, p), getattr(b, p), f"{where}.{p}") for p in parts
        )
    if isinstance(a, np.generic):
        return _array_difference(np.asarray(a), np.asarray(b), where)
    if isinstance(a, pd.DataFrame | pd.Series):
        pd.testing.assert_frame_equal(pd.DataFrame(a), pd.DataFrame(b), check_exact=True)
        return ""
    if isinstance(a, float):
        # A file writes "nan" for a number of Python's: the other bits of a NaN mean nothing.
        return "" if a == b or (a != a and b != b) else f"{where}: {a}, {b}"
    if isinstance(a, np.random.RandomState | np.random.Generator):
        return difference(*(_state(g) for g in (a, b)), f"{where}.state")
    if dataclasses.is_dataclass(a):
        # Seconds are those of a stream's fit; an approximate search is told its threads in a file.
        skipped = ("seconds", "n_jobs")
        names = [f.name for f in dataclasses.fields(a) if f.name not in skipped]
        return _first(difference(getattr(a, n), getattr(b, n), f"{where}.{n}") for n in names)
    if isinstance(a, Mapping):
        return difference(list(a), list(b), f"{where}.keys") or _first(
            difference(a[key], b[key], f"{where}[{key!r}]") for key in a
        )
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return f"{where}: {len(a)} and {len(b)} entries"
        pairs = enumerate(zip(a, b, strict=True))
        return _first(difference(x, y, f"{where}[{k}]") for k, (x, y) in pairs)
    if hasattr(a, "get_params"):
        return difference(_held(a), _held(b), where)
    if type(a).__module__.startswith(("sklearn", "scipy.spatial", "pynndescent", "eigengap")):
        return ""  # searches, which what they find tells apart
    return "" if a == b else f"{where}: {a!r:.60} and {b!r:.60}"


def _held(estimator: Any) -> dict[str, Any]:
    held = {k: v for k, v in vars(estimator).items() if k not in ("checkpoint", "provenance_")}
    return dict(sorted(held.items()))


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def _first(found: Any) -> str:
    return next((words for words in found if words), "")


def _array_difference(a: np.ndarray, b: np.ndarray, where: str) -> str:
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{where}: {a.dtype} {a.shape} and {b.dtype} {b.shape}"
    if a.flags.writeable != b.flags.writeable:
        return f"{where}: one can be written to"
    if a.dtype == object:
        return difference(a.tolist(), b.tolist(), where)
    return "" if a.tobytes() == b.tobytes() else f"{where}: other values"
