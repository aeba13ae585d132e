"""Peers that fit PPCA to tables with gaps, each called as its authors mean it to be.

Every function runs in a process of its own (`timing.in_new_process`).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.referee import Model

PIP = {"ppca_rs": "ppca-rs", "pyppca": "pyppca"}
GRID = 1.1  # iterations between two snapshots grow by this factor
CONVERGED = 1e-7  # nats a row gained between two snapshots


def why_not(peer: str) -> str | None:
    """None if the peer can be run here, else what to install."""
    if peer == "pcaMethods":
        return _why_not_r()
    try:
        version(PIP[peer])
    except PackageNotFoundError:
        return f"not installed: pip install {PIP[peer]}"
    return None


def _why_not_r() -> str | None:
    if shutil.which("Rscript") is None:
        return "not installed: apt install r-base-core r-bioc-pcamethods"
    probe = subprocess.run(
        ["Rscript", "-e", 'quit(status = !requireNamespace("pcaMethods", quietly = TRUE))'],
        capture_output=True,
    )
    return "not installed: apt install r-bioc-pcamethods" if probe.returncode else None


def ppca_rs(X: np.ndarray, q: int, budget: float) -> dict[str, Any]:
    """Iterate for `budget` seconds; models at a geometric grid of iterations, taken off the clock.

    Stops before only where its own likelihood no longer moves.
    """
    import ppca_rs

    start = time.perf_counter()
    rows = ppca_rs.Dataset(X)
    model = ppca_rs.PPCAModel.init(q, rows)
    clock = time.perf_counter() - start
    steps: list[float] = []
    snapshots: list[tuple[int, float, Model]] = []
    last, updated = -np.inf, 1
    while clock < budget:
        start = time.perf_counter()
        model = model.iterate(rows)
        steps.append(time.perf_counter() - start)
        clock += steps[-1]
        if len(steps) >= updated or clock >= budget:
            updated = max(updated + 1, int(updated * GRID))
            own = model.llk(rows) / len(X)
            # isotropic_noise is a standard deviation.
            sigma2 = float(model.isotropic_noise) ** 2
            parts = Model(np.array(model.transform), np.ravel(model.mean), sigma2)
            snapshots.append((len(steps), clock, parts))
            if len(steps) > 20 and own - last < CONVERGED:
                break
            last = own
    return {"snapshots": snapshots, "step": float(np.median(steps)), "own": own}


R_SCRIPT = """
suppressMessages(library(pcaMethods))
args <- commandArgs(TRUE)
folder <- args[1]; n <- as.integer(args[2]); d <- as.integer(args[3]); q <- as.integer(args[4])
budget <- as.numeric(args[5])
X <- matrix(readBin(file.path(folder, "X"), "double", n * d), n, d)
X[is.nan(X)] <- NA  # it refuses NaN
fit <- function(threshold, most) {
  capped <- 0
  note_cap <- function(w) {
    if (grepl("max iterations", conditionMessage(w))) capped <<- 1
    invokeRestart("muffleWarning")
  }
  start <- proc.time()[["elapsed"]]
  found <- withCallingHandlers(
    pca(X, method = "ppca", nPcs = q, center = TRUE, scale = "none", seed = 1,
        threshold = threshold, maxIterations = most), warning = note_cap)
  list(found = found, seconds = proc.time()[["elapsed"]] - start, capped = capped, most = most)
}
step <- (fit(0, 15)$seconds - fit(0, 5)$seconds) / 10
most <- max(10, floor(budget / max(step, 1e-4)))
for (name in c("default", "tight")) {
  got <- if (name == "default") fit(1e-5, min(1000, most)) else fit(1e-10, most)
  numbers <- c(got$seconds, step, got$capped * got$most)
  writeBin(c(numbers, as.vector(got$found@center), as.vector(got$found@loadings)),
           file.path(folder, name))
}
"""


def pca_methods(X: np.ndarray, q: int, budget: float) -> dict[str, dict[str, Any]]:
    """ppca with its default threshold (1e-5) and with 1e-10, each within the budget.

    The clock runs inside R around pca(). It gives back axes and centre, no variances.
    """
    n, d = X.shape
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "X").write_bytes(np.asfortranarray(X, dtype="<f8").tobytes(order="F"))
        Path(folder, "script.R").write_text(R_SCRIPT)
        arguments = [folder, str(n), str(d), str(q), str(budget)]
        done = subprocess.run(
            ["Rscript", str(Path(folder, "script.R")), *arguments], capture_output=True, text=True
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise RuntimeError(next((x for x in lines if x.startswith("Error")), lines[-1]))
        return {name: _from_r(Path(folder, name), d, q) for name in ("default", "tight")}


def _from_r(path: Path, d: int, q: int) -> dict[str, Any]:
    values = np.fromfile(path, dtype="<f8")
    return {
        "seconds": float(values[0]),
        "step": float(values[1]),
        "stopped_at": int(values[2]),  # iterations, 0 if it converged by its own measure
        "mu": values[3 : 3 + d],
        "axes": values[3 + d :].reshape(q, d).T,
    }


def pyppca(X: np.ndarray, q: int) -> dict[str, Any]:
    """Its threshold is fixed (1e-4), and it has no limit of iterations."""
    from pyppca import ppca

    np.random.seed(0)  # noqa: NPY002 - it draws from the global generator
    start = time.perf_counter()
    C, _, mu, _, _ = ppca(X, q, False)
    return {"seconds": time.perf_counter() - start, "axes": np.real(C), "mu": np.ravel(mu)}
