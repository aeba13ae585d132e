"""The command line from the shell's point of view: whole processes, from start to exit.

Help, `fit` and `report` of the shipped table, and a large CSV file with gaps that is filled and
written again, beside an R script (pcaMethods) and a Python script (pandas and scikit-learn's
IterativeImputer) that do the same.
"""

from __future__ import annotations

import csv
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.peers import why_not
from benchmarks.table import Row, against, limit
from benchmarks.timing import environment

HELP_SECONDS = 0.2
SHIPPED_SECONDS = 6.0
TIMES_FASTER = 5.0
TIMEOUT = 600.0  # seconds that a peer gets
EIGENGAP = (sys.executable, "-P", "-m", "eigengap")

R = """
suppressMessages(library(pcaMethods))
args <- commandArgs(TRUE)
read <- if (requireNamespace("data.table", quietly = TRUE)) {
  function(path) as.data.frame(data.table::fread(path))
} else function(path) read.csv(path)
table <- read(args[1])
X <- as.matrix(table[, -1])
fit <- pca(X, method = "ppca", nPcs = as.integer(args[3]), scale = "uv", center = TRUE, seed = 1)
table[, -1] <- completeObs(fit)
write.csv(table, args[2], row.names = FALSE)
"""

PYTHON = """
import sys
import pandas
from sklearn.experimental import enable_iterative_imputer
from sklearn.impute import IterativeImputer
table = pandas.read_csv(sys.argv[1])
features = table.columns[1:]
table[features] = IterativeImputer(random_state=0).fit_transform(table[features])
table.to_csv(sys.argv[2], index=False)
"""


def run(quick: bool = False) -> list[Row]:
    repeats = 3 if quick else 9
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [_help(repeats, folder), _shipped(3 if quick else 5, folder)]
        n, d = (2000, 20) if quick else (100_000, 50)
        return [*rows, *_filling(n, d, folder)]


# Small things --------------------------------------------------------------------------------


def _help(repeats: int, folder: Path) -> Row:
    seconds = [_seconds((*EIGENGAP, "--help"), folder) for _ in range(repeats)]
    version = [_seconds((*EIGENGAP, "--version"), folder) for _ in range(repeats)]
    bare = statistics.median(_seconds((sys.executable, "-c", ""), folder) for _ in range(repeats))
    note = (
        f"median of {repeats}; --version {statistics.median(version):.3f} s; "
        f"python -c '' {bare:.3f} s"
    )
    middle = statistics.median(seconds)
    return limit("eigengap --help", "a new process", middle, "s", HELP_SECONDS, note)


def _shipped(repeats: int, folder: Path) -> Row:
    with resources.as_file(
        resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
    ) as path:
        table = folder / "table.csv"
        shutil.copy(path, table)
    fit = (*EIGENGAP, "fit", "table.csv", "--id", "id", "--ignore", "diagnosis", "--force", "-q")
    report = (*EIGENGAP, "report", "model.egap", "table.csv", "--force", "-q")
    found = [(_seconds(fit, folder), _seconds(report, folder)) for _ in range(repeats)]
    both = statistics.median(a + b for a, b in found)
    parts = [statistics.median(pair[k] for pair in found) for k in (0, 1)]
    size = (folder / "report.html").stat().st_size / 1e6
    note = (
        f"median of {repeats}; fit {parts[0]:.2f} s, report {parts[1]:.2f} s; "
        f"report.html {size:.2f} MB"
    )
    measure = "fit and report, two new processes"
    return limit("699 x 9, 16 gaps", measure, both, "s", SHIPPED_SECONDS, note)


# A large file --------------------------------------------------------------------------------


def _filling(n: int, d: int, folder: Path) -> list[Row]:
    truth = _write_table(n, d, folder / "in.csv")
    ours_at = folder / "ours.csv"
    ours = _seconds(
        (
            *EIGENGAP,
            "impute",
            "in.csv",
            "-m",
            "ppca",
            "--id",
            "id",
            "-k",
            "5",
            "-o",
            "ours.csv",
            "-q",
        ),
        folder,
    )
    error = _error(ours_at, truth)
    size = (folder / "in.csv").stat().st_size / 1e6
    case = f"{n} x {d} CSV ({size:.0f} MB), 10 % of the cells missing"
    rows = []
    for peer, start, why in _peers(folder):
        if why is not None:
            rows.append(against(case, "filled, end to end", ours, peer, None, note=why))
            continue
        target = folder / "theirs.csv"
        target.unlink(missing_ok=True)
        try:
            theirs = _seconds((*start, "in.csv", "theirs.csv", "5"), folder)
        except subprocess.TimeoutExpired:
            note = f"rmse of the filled cells {error:.3f}; not finished after {TIMEOUT:.0f} s"
            rows.append(
                against(
                    case,
                    "filled, end to end",
                    ours,
                    peer,
                    TIMEOUT,
                    target=TIMES_FASTER,
                    bound=True,
                    note=note,
                )
            )
            continue
        note = f"rmse of the filled cells {error:.3f}, {peer} {_error(target, truth):.3f}"
        rows.append(
            against(case, "filled, end to end", ours, peer, theirs, target=TIMES_FASTER, note=note)
        )
    return rows


def _peers(folder: Path) -> list[tuple[str, tuple[str, ...], str | None]]:
    (folder / "fill.R").write_text(R)
    (folder / "fill.py").write_text(PYTHON)
    return [
        ("R pcaMethods", ("Rscript", "fill.R"), why_not("pcaMethods")),
        (
            "pandas and IterativeImputer",
            (sys.executable, "fill.py"),
            None if find_spec("pandas") else "not installed: pip install pandas",
        ),
    ]


def _write_table(n: int, d: int, path: Path) -> np.ndarray:
    """Five directions and noise, four decimals, a tenth of the cells gone; what was there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d)) + 0.5 * rng.normal(size=(n, d))
    X = np.round(X, 4)
    gone = rng.random(X.shape) < 0.1
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *(f"v{j}" for j in range(d))])
        for i, (row, hidden) in enumerate(zip(X.tolist(), gone.tolist(), strict=True)):
            writer.writerow([i, *("" if h else v for v, h in zip(row, hidden, strict=True))])
    return np.where(gone, X, np.nan)


def _error(path: Path, truth: np.ndarray) -> float:
    """Root mean squared error of the cells that were gone."""
    filled = np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(1, truth.shape[1] + 1))
    assert filled.shape == truth.shape
    return float(np.sqrt(np.nanmean((filled - truth) ** 2)))


def _seconds(command: tuple[str, ...], folder: Path) -> float:
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=TIMEOUT
    )
    took = time.perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return took
