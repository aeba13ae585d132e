"""PPCARegressor beside principal component, partial least squares and ridge regression.

R2 on held-out rows over 5 folds. Where there are gaps in X the peers see columns filled by means or
by IterativeImputer. Numbers of components of PCR and PLS by inner cross-validation, as ours.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.decomposition import PCA
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.table import Row

MISSING = (0.0, 0.2)
RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27)


def run(quick: bool = False) -> list[Row]:
    warnings.simplefilter("ignore")
    names = list(tables())[:: 2 if quick else 1]
    return [row for name in names for share in MISSING for row in _case(name, share, quick)]


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(X, y) by name."""
    wdbc, wine = load_breast_cancer().data, load_wine().data
    rng = np.random.default_rng(0)
    found = {
        "diabetes": load_diabetes(return_X_y=True),
        "WDBC, last column": (wdbc[:, :-1], wdbc[:, -1]),
        "wine, proline": (wine[:, :-1], wine[:, -1]),
    }
    for n, d, q, noise in [(100, 30, 3, 0.5), (60, 100, 4, 1.0)]:
        W = rng.normal(size=(d + 1, q))
        table = rng.normal(size=(n, q)) @ W.T + noise * rng.normal(size=(n, d + 1))
        found[f"low rank, {n} x {d}, q {q}"] = table[:, :d], table[:, d]
    X = rng.normal(size=(200, 15))
    found["independent columns, 200 x 15"] = X, 0.5 * X @ rng.normal(size=15) + rng.normal(size=200)
    return found


def _case(name: str, share: float, quick: bool) -> list[Row]:
    print(f"{name}, {share:.0%} missing", file=sys.stderr, flush=True)
    X, y = tables()[name]
    X = np.where(np.random.default_rng(4).random(X.shape) < share, np.nan, X)
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    ours = _measure(_ours("auto"), X, y, folds)
    peers = {"ours by parallel analysis": _by_parallel_analysis, **_peers(X, share, quick)}
    return [
        _row(f"{name}, {share:.0%} missing", ours, peer, _measure(make, X, y, folds))
        for peer, make in peers.items()
    ]


def _ours(n_components: Any) -> Callable[[], Any]:
    def make() -> Any:
        from eigengap.estimators.regressor import PPCARegressor

        return PPCARegressor(n_components)

    return make


def _by_parallel_analysis() -> Any:
    from eigengap import FactorAnalysis
    from eigengap.estimators.regressor import PPCARegressor

    return PPCARegressor(estimator=FactorAnalysis(scale=True))


def _peers(X: np.ndarray, share: float, quick: bool) -> dict[str, Callable[[], Any]]:
    ranks = [q for q in RANKS if q <= min(X.shape[1], int(0.6 * len(X)))]
    models = {
        "PCR": GridSearchCV(
            make_pipeline(StandardScaler(), PCA(), LinearRegression()),
            {"pca__n_components": ranks},
        ),
        "PLS": GridSearchCV(PLSRegression(), {"n_components": ranks}),
        "BayesianRidge": make_pipeline(StandardScaler(), BayesianRidge()),
    }
    fillers: dict[str, Any] = {"": None}
    if share:
        fillers = {" after means": SimpleImputer()}
        if not quick:
            fillers[" after IterativeImputer"] = IterativeImputer(random_state=0)
    return {
        name + how: _cloner(model if filler is None else make_pipeline(filler, model))
        for how, filler in fillers.items()
        for name, model in models.items()
    }


def _cloner(model: Any) -> Callable[[], Any]:
    return lambda: clone(model)


def _measure(
    make: Callable[[], Any], X: np.ndarray, y: np.ndarray, folds: list[Any]
) -> dict[str, Any]:
    predicted, seconds = np.empty(len(y)), 0.0
    covered: list[float] = []
    for train, test in folds:
        start = time.perf_counter()
        model = make().fit(X[train], y[train])
        seconds += time.perf_counter() - start
        predicted[test] = np.ravel(model.predict(X[test]))
        if hasattr(model, "estimator_") and hasattr(model, "n_targets_"):
            mean, std = model.predict(X[test], return_std=True)
            covered.extend(np.abs(y[test] - mean) < 1.96 * std)
    r2 = 1 - np.sum((y - predicted) ** 2) / np.sum((y - y.mean()) ** 2)
    coverage = 100 * float(np.mean(covered)) if covered else None
    return {"r2": float(r2), "seconds": seconds / len(folds), "coverage": coverage}


def _row(case: str, ours: dict[str, Any], peer: str, theirs: dict[str, Any]) -> Row:
    return {
        "case": case,
        "measure": "R2 on held-out rows",
        "unit": "",
        "ours": ours["r2"],
        "peer": peer,
        "theirs": theirs["r2"],
        "ratio": None,
        "bound": False,
        "target": None,
        "met": None,
        "note": f"95 % intervals cover {ours['coverage']:.1f} %; a fit takes "
        f"{ours['seconds']:.2f} s against {theirs['seconds']:.2f}",
        "detail": {"ours": ours, "theirs": theirs},
    }
