"""PPCAClassifier beside scikit-learn's Gaussian classifiers, with and without gaps.

Error on held-out rows and log-loss over 5 folds. Where there are gaps the peers, which refuse NaN,
see columns filled with their means; with equal gaps in training and new rows for all.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.table import Row

MISSING = (0.0, 0.2, 0.5)
Make = Callable[[], Any]


def run(quick: bool = False) -> list[Row]:
    warnings.simplefilter("ignore")
    tables = {"WDBC": load_breast_cancer(return_X_y=True), "digits": load_digits(return_X_y=True)}
    missing = MISSING[:2] if quick else MISSING
    return [
        row
        for name, (X, y) in tables.items()
        for share in missing
        for row in _case(name, X, y, share)
    ]


def _case(name: str, X: np.ndarray, y: np.ndarray, share: float) -> list[Row]:
    print(f"{name}, {share:.0%} missing", file=sys.stderr, flush=True)
    X = X[:, X.std(axis=0) > 0]
    X = np.where(np.random.default_rng(3).random(X.shape) < share, np.nan, X)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    ours = _measure(_ours("isotropic"), X, y, folds)
    case = f"{name}, {share:.0%} missing"
    rows = []
    peers = _peers()
    if len(np.unique(y)) == 2:  # ten classes take minutes, and pixels constant in one decide there
        peers["PPCAClassifier, diagonal noise"] = _ours("diagonal")
    for peer, make in peers.items():
        rows.append(_row(case, ours, peer, _measure(make, X, y, folds)))
    return rows


def _ours(noise: str) -> Make:
    def make() -> Any:
        from eigengap.estimators.classifier import PPCAClassifier

        return PPCAClassifier(noise=noise, tol=1e-4)

    return make


def _peers() -> dict[str, Make]:
    def filled(model: Callable[[], Any]) -> Make:
        return lambda: make_pipeline(SimpleImputer(), StandardScaler(), model())

    return {
        "QDA": filled(QuadraticDiscriminantAnalysis),
        "QDA, shrunk 0.1": filled(lambda: QuadraticDiscriminantAnalysis(reg_param=0.1)),
        "LDA": filled(LinearDiscriminantAnalysis),
        "GaussianNB": filled(GaussianNB),
    }


def _measure(make: Make, X: np.ndarray, y: np.ndarray, folds: list[Any]) -> dict[str, Any]:
    wrong, loss, seconds = 0, 0.0, 0.0
    try:
        for train, test in folds:
            start = time.perf_counter()
            model = make().fit(X[train], y[train])
            seconds += time.perf_counter() - start
            proba = model.predict_proba(X[test])
            wrong += int(np.sum(model.classes_[proba.argmax(axis=1)] != y[test]))
            loss += log_loss(y[test], proba, labels=model.classes_) * len(test)
    except (np.linalg.LinAlgError, ValueError) as error:  # QDA on classes of low rank
        return {"error": None, "why": str(error).split(".")[0]}
    return {"error": 100 * wrong / len(y), "loss": loss / len(y), "seconds": seconds / len(folds)}


def _row(case: str, ours: dict[str, Any], peer: str, theirs: dict[str, Any]) -> Row:
    failed = theirs["error"] is None
    note = (
        theirs["why"]
        if failed
        else f"log-loss {ours['loss']:.3f} against {theirs['loss']:.3f}; a fit takes "
        f"{ours['seconds']:.2f} s against {theirs['seconds']:.2f}"
    )
    return {
        "case": case,
        "measure": "held-out rows classified wrongly",
        "unit": "%",
        "ours": ours["error"],
        "peer": peer,
        "theirs": theirs["error"],
        "ratio": None if failed or not ours["error"] else theirs["error"] / ours["error"],
        "bound": False,
        "target": None,
        "met": None,
        "note": note,
        "detail": {"ours": ours, "theirs": theirs},
    }
