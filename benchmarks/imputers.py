"""Peers of LowRankImputer: each is a function from a table with gaps to a filled one.

Columns are standardised for those that are not indifferent to units (KNN, softImpute, ppca_rs,
bpca), as their users would do.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Fill = Callable[[np.ndarray], np.ndarray]  # (n, d) with NaN -> (n, d)

RANKS = (1, 2, 4, 8, 16, 32)


def standardised(fill: Fill) -> Fill:
    """The same on columns of mean 0 and standard deviation 1."""

    def filled(X: np.ndarray) -> np.ndarray:
        mean, sd = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        sd = np.where(sd > 0, sd, 1.0)
        return np.where(np.isnan(X), fill((X - mean) / sd) * sd + mean, X)

    return filled


def by_mean(X: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X)


def low_rank(X: np.ndarray) -> np.ndarray:
    from eigengap.estimators.imputer import LowRankImputer

    return np.asarray(LowRankImputer().fit_transform(X))


def low_rank_thorough(X: np.ndarray) -> np.ndarray:
    from eigengap.estimators.imputer import LowRankImputer

    return np.asarray(LowRankImputer("thorough").fit_transform(X))


def iterative(X: np.ndarray) -> np.ndarray:
    """IterativeImputer with its defaults: Bayesian ridge regressions, ten rounds."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return _quietly(lambda: IterativeImputer(random_state=0).fit_transform(X))


def miss_forest(X: np.ndarray) -> np.ndarray:
    """Chained random forests (Stekhoven and Buehlmann 2012), as scikit-learn's users run them."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    forest = RandomForestRegressor(n_estimators=50, random_state=0)
    chained = IterativeImputer(forest, max_iter=5, random_state=0)
    return _quietly(lambda: chained.fit_transform(X))


@standardised
def neighbours(X: np.ndarray) -> np.ndarray:
    """KNNImputer with its default of five neighbours."""
    from sklearn.impute import KNNImputer

    return np.asarray(KNNImputer().fit_transform(X))


@standardised
def soft_impute(X: np.ndarray) -> np.ndarray:
    """softImpute (Mazumder, Hastie and Tibshirani 2010), lambda by a tenth of the cells hidden."""
    hidden = (np.random.default_rng(0).random(X.shape) < 0.1) & ~np.isnan(X)
    largest = np.linalg.norm(np.nan_to_num(X), 2)
    grid = largest * np.geomspace(0.5, 0.005, 12)
    filled, errors = None, []
    for lam in grid:  # warm starts from large to small
        filled = _soft_fill(np.where(hidden, np.nan, X), lam, filled)
        errors.append(np.mean((filled - X)[hidden] ** 2))
        if errors[-1] > 1.1 * min(errors):
            break
    best = int(np.argmin(errors))
    filled = None
    for lam in grid[: best + 1]:
        filled = _soft_fill(X, lam, filled)
    return np.asarray(filled)


def _soft_fill(X: np.ndarray, lam: float, start: np.ndarray | None) -> np.ndarray:
    missing = np.isnan(X)
    low = np.zeros_like(X) if start is None else start
    for _ in range(200):
        U, s, Vt = np.linalg.svd(np.where(missing, low, X), full_matrices=False)
        updated = (U * np.maximum(s - lam, 0.0)) @ Vt
        moved = np.sum((updated - low) ** 2) / max(np.sum(low**2), 1e-12)
        low = updated
        if moved < 1e-6:
            break
    return low


@standardised
def ppca_rs(X: np.ndarray) -> np.ndarray:
    """ppca_rs, 50 iterations, the number of components by a tenth of the cells hidden."""
    hidden = (np.random.default_rng(0).random(X.shape) < 0.1) & ~np.isnan(X)
    ranks = [q for q in RANKS if q < X.shape[1]]
    trained = np.where(hidden, np.nan, X)
    errors = [np.mean((_ppca_rs(trained, q) - X)[hidden] ** 2) for q in ranks]
    return _ppca_rs(X, ranks[int(np.argmin(errors))])


def _ppca_rs(X: np.ndarray, q: int) -> np.ndarray:
    import ppca_rs as peer

    rows = peer.Dataset(X)
    model = peer.PPCAModel.init(q, rows)
    for _ in range(50):
        model = model.iterate(rows)
    return np.asarray(model.extrapolate(rows).numpy())


R_SCRIPT = """
suppressMessages(library(pcaMethods))
args <- commandArgs(TRUE)
folder <- args[1]; n <- as.integer(args[2]); d <- as.integer(args[3])
X <- matrix(readBin(file.path(folder, "X"), "double", n * d), n, d)
X[is.nan(X)] <- NA
start <- proc.time()[["elapsed"]]
found <- pca(X, method = "bpca", nPcs = d - 1, center = TRUE, scale = "none", verbose = FALSE)
seconds <- proc.time()[["elapsed"]] - start
writeBin(c(seconds, as.vector(completeObs(found))), file.path(folder, "out"))
"""


@standardised
def bpca(X: np.ndarray) -> np.ndarray:
    """pcaMethods' Bayesian PCA (Oba et al. 2003) with d - 1 components, as its authors advise."""
    n, d = X.shape
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "X").write_bytes(np.asfortranarray(X, dtype="<f8").tobytes(order="F"))
        Path(folder, "script.R").write_text(R_SCRIPT)
        subprocess.run(
            ["Rscript", str(Path(folder, "script.R")), folder, str(n), str(d)],
            capture_output=True,
            check=True,
        )
        values = np.fromfile(Path(folder, "out"), dtype="<f8")
    return np.asarray(values[1:].reshape(d, n).T)


def _quietly(run: Callable[[], Any]) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(run())
