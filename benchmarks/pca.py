"""PCA of complete tables against scikit-learn's best solver of equal accuracy, side by side.

One row for each shape and spectrum. The peer is the fastest of scikit-learn's solvers
among those that reach the accuracy that is asked of both: eigenvalues to 1e-10 of the largest,
1 - cos to 1e-8 (1e-4 on float32). Times are minima of interleaved runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA as PeerPCA

from benchmarks.table import Row, against
from eigengap import PCA

CASES: dict[str, tuple[tuple[int, int], str, int, tuple[str, ...], float]] = {
    # name: shape, dtype, components, scikit-learn's solvers that are not hopeless there, target
    "tall": ((100_000, 50), "f8", 10, ("auto",), 1 / 1.1),
    "tall-500": ((20_000, 500), "f8", 20, ("auto",), 1 / 1.1),
    "small": ((1_000, 10), "f8", 10, ("auto", "full"), 1 / 1.1),
    "float32": ((200_000, 100), "f4", 10, ("auto",), 1 / 1.1),
    "square": ((3_000, 3_000), "f8", 20, ("arpack", "randomized", "covariance_eigh"), 1.5),
    "wide": ((500, 20_000), "f8", 20, ("arpack", "randomized", "full"), 3.0),
}
SPECTRA = ("decaying", "flat")
REPEATS = {"small": 300, "square": 4, "wide": 5}


def table(shape: tuple[int, int], dtype: str, spectrum: str, seed: int = 0) -> np.ndarray:
    """Rows with standard deviations j^-0.7 along random axes and noise, or plain noise."""
    rng = np.random.default_rng(seed)
    n, d = shape
    X = rng.standard_normal(shape)
    if spectrum == "decaying":
        r = min(n, d, 200)
        axes = np.linalg.qr(rng.standard_normal((d, r)))[0]
        X *= 0.01
        X += (rng.standard_normal((n, r)) * np.arange(1, r + 1) ** -0.7) @ axes.T
    return X.astype(dtype)


def exact(X: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues at divisor n - 1 and axes (q, d), in float64 about the mean."""
    X = X - X.mean(axis=0, dtype=np.float64)
    n, d = X.shape
    if d <= n:
        lam, U = np.linalg.eigh(X.T @ X)
        return lam[::-1][:q] / (n - 1), U[:, ::-1][:, :q].T
    lam, V = np.linalg.eigh(X @ X.T)
    U = V[:, ::-1][:, :q].T @ X
    return lam[::-1][:q] / (n - 1), U / np.linalg.norm(U, axis=1, keepdims=True)


def errors(model: Any, lam: np.ndarray, axes: np.ndarray) -> tuple[float, float]:
    """Largest eigenvalue error relative to the first, and largest 1 - cos of an axis."""
    eig = np.max(np.abs(model.explained_variance_ - lam)) / lam[0]
    cos = np.abs(np.sum(model.components_.astype(np.float64) * axes, axis=1))
    cos /= np.linalg.norm(model.components_.astype(np.float64), axis=1)
    return float(eig), float(np.max(1 - cos))


def timed(runs: list[Callable[[], Any]], repeats: int) -> list[float]:
    """Minimum seconds of each, interleaved so that all meet the same machine."""
    best = [np.inf] * len(runs)
    for _ in range(repeats):
        for i, run_once in enumerate(runs):
            start = time.perf_counter()
            run_once()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def run(quick: bool = False, names: tuple[str, ...] = tuple(CASES)) -> list[Row]:
    """One row for each case and spectrum."""
    names = ("tall", "small") if quick else names
    return [_case(name, spectrum) for name in names for spectrum in SPECTRA]


def _case(name: str, spectrum: str) -> Row:
    (n, d), dtype, q, solvers, target = CASES[name]
    X = table((n, d), dtype, spectrum)
    lam, axes = exact(X, q)
    allowed = (1e-10, 1e-8) if dtype == "f8" else (1e-4, 1e-4)

    def peer(solver: str) -> Any:
        return PeerPCA(q, svd_solver=solver, random_state=0).fit(X)

    eig, cos = errors(PCA(q).fit(X), lam, axes)
    accurate = [s for s in solvers if np.all(np.less(errors(peer(s), lam, axes), allowed))]
    fits = [lambda: PCA(q).fit(X)] + [lambda s=s: peer(s) for s in accurate]
    mine, *theirs = timed(fits, REPEATS.get(name, 9))
    best = int(np.argmin(theirs))
    return against(
        f"{n} x {d} {dtype}, {q} components, {spectrum} spectrum",
        "fit",
        mine,
        f"scikit-learn {accurate[best]}",
        theirs[best],
        target=target,
        note=f"our errors: eigenvalues {eig:.0e}, 1 - cos {cos:.0e}",
    )
