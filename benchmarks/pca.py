"""PCA of complete tables against scikit-learn's best solver of equal accuracy, side by side.

`run()` gives one row for each shape and spectrum. The peer is the fastest of scikit-learn's solvers
among those that reach the accuracy that is asked of both: eigenvalues to 1e-10 of the largest,
1 - cos to 1e-8 (1e-4 on float32). Times are minima of interleaved runs.

    python benchmarks/pca.py [case ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA as PeerPCA

from eigengap import PCA

CASES: dict[str, tuple[tuple[int, int], str, int, tuple[str, ...]]] = {
    # name: shape, dtype, components, scikit-learn's solvers that are not hopeless there
    "tall": ((100_000, 50), "f8", 10, ("auto",)),
    "tall-500": ((20_000, 500), "f8", 20, ("auto",)),
    "small": ((1_000, 10), "f8", 10, ("auto", "full")),
    "float32": ((200_000, 100), "f4", 10, ("auto",)),
    "square": ((3_000, 3_000), "f8", 20, ("arpack", "randomized", "covariance_eigh")),
    "wide": ((500, 20_000), "f8", 20, ("arpack", "randomized")),
}
SPECTRA = ("decaying", "flat")
REPEATS = {"small": 300, "square": 2, "wide": 4}


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


def run(names: tuple[str, ...] = tuple(CASES)) -> list[dict[str, Any]]:
    """One row for each case and spectrum; ratio = peer's seconds / ours."""
    return [row for name in names for spectrum in SPECTRA for row in [_case(name, spectrum)]]


def _case(name: str, spectrum: str) -> dict[str, Any]:
    shape, dtype, q, solvers = CASES[name]
    X = table(shape, dtype, spectrum)
    lam, axes = exact(X, q)
    allowed = (1e-10, 1e-8) if dtype == "f8" else (1e-4, 1e-4)

    def peer(solver: str) -> Any:
        return PeerPCA(q, svd_solver=solver, random_state=0).fit(X)

    ours = errors(PCA(q).fit(X), lam, axes)
    accurate = [s for s in solvers if np.all(np.less(errors(peer(s), lam, axes), allowed))]
    fits = [lambda: PCA(q).fit(X)] + [lambda s=s: peer(s) for s in accurate]
    mine, *theirs = timed(fits, REPEATS.get(name, 7))
    best = int(np.argmin(theirs))
    return {
        "case": name,
        "shape": shape,
        "dtype": dtype,
        "spectrum": spectrum,
        "ours_seconds": mine,
        "peer": f"scikit-learn {accurate[best]}",
        "peer_seconds": theirs[best],
        "ratio": theirs[best] / mine,
        "eig_err": ours[0],
        "cos_err": ours[1],
    }


def main() -> None:
    for name in tuple(sys.argv[1:]) or tuple(CASES):
        for row in run((name,)):
            print(
                f"{row['case']:9} {row['shape']!s:16} {row['dtype']} {row['spectrum']:9}"
                f" {1e3 * row['ours_seconds']:9.3f} ms {row['peer']:28}"
                f" {1e3 * row['peer_seconds']:9.3f} ms  {row['ratio']:5.2f} times"
                f"  eig {row['eig_err']:.1e}  1-cos {row['cos_err']:.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
