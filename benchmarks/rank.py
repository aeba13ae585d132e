"""How often each criterion finds the number of components of simulated tables.

Signals are measured in units of the detection edge: a component of variance l beside noise of
variance 1 can be told from noise only if l exceeds sqrt(d / n), with cells missing sqrt(d / n) / p
where p is the share seen (Baik, Ben Arous and Peche 2005). The weakest component stands at `signal`
times the edge and the strongest five times higher. Noise is equal in all columns, or differs by a
factor of ten.

Costly criteria (cross-validation, relevance, BIC where it needs fits) see the first tables of every
case, the others all; kEstimate of pcaMethods, which takes up to twenty seconds a table, sees those
of at most 12 columns and signals of 3 and 20 edges. Shares are compared on the same tables only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.peers import why_not
from benchmarks.table import Row, against

SHAPES = ((100, 10, 2), (500, 12, 3), (1000, 20, 5), (100, 40, 3), (60, 150, 3))
SIGNALS = (1.5, 3.0, 6.0, 20.0)
MISSING = (0.0, 0.2, 0.5)
NOISES = {"equal noise": 1.0, "noise by column": 10.0}
SPREAD = 5.0
TABLES = {False: 10, True: 2}  # by quick
COSTLY_TABLES = {False: 2, True: 1}
WIDEST_PEER = 12
PEER_SIGNALS = (3.0, 20.0)

CHEAP = (
    "deflated_parallel_analysis",
    "parallel_analysis",
    "permuted_parallel_analysis",
    "eigengap",
    "tolerance",
    "bartlett",
    "minka",
    "gavish_donoho",
)
COSTLY = ("cross_validation", "ard")
DEFAULT = CHEAP[0]
MOST = 12  # components that the costly criteria go to

Hits = dict[str, dict[int, bool]]  # criterion -> table -> whether it was right


def simulate(
    n: int, d: int, q: int, signal: float, missing: float, ratio: float, rng: np.random.Generator
) -> np.ndarray:
    """A table of q components in noise of mean variance 1, with `gaps` of its cells missing."""
    psi = np.exp(rng.uniform(-0.5, 0.5, d) * np.log(ratio))
    U = np.linalg.qr(rng.normal(size=(d, q)))[0]
    size = signal * np.sqrt(d / n) / (1.0 - missing) * np.geomspace(1.0, SPREAD, q)
    noise = rng.normal(size=(n, d)) * np.sqrt(psi / psi.mean())
    X = rng.normal(size=(n, q)) @ (U * np.sqrt(size)).T + noise
    X[rng.random((n, d)) < missing] = np.nan
    return X


def run(quick: bool = False) -> list[Row]:
    signals = SIGNALS[1::2] if quick else SIGNALS
    shapes = SHAPES[:2] if quick else SHAPES
    peer = "is left out of a quick run" if quick else why_not("pcaMethods")
    rows: list[Row] = []
    every: dict[str, list[Hits]] = defaultdict(list)
    for noise, ratio in NOISES.items():
        for missing in MISSING:
            cases: list[Hits] = []
            for shape in shapes:
                for signal in signals:
                    cases.append(_case(shape, signal, missing, ratio, quick, peer is None))
                    every[f"signal {signal:g}"].append(cases[-1])
                print(f"  {noise}, {missing:.0%} gaps, {shape}", file=sys.stderr, flush=True)
            rows += _rows(f"{noise}, {missing:.0%} gaps", cases)
            every[noise] += cases
            every["whole grid"] += cases
    for case in (*NOISES, *(f"signal {s:g}" for s in signals), "whole grid"):
        rows += _rows(case, every[case], decides=case == "whole grid")
    if peer is not None:
        rows[-1]["note"] += f" (pcaMethods {peer})"
    return rows


def _case(
    shape: tuple[int, int, int], signal: float, missing: float, ratio: float, quick: bool, r: bool
) -> Hits:
    """Every criterion on the tables of one case."""
    from eigengap.selection.rank.choice import vote
    from eigengap.selection.rank.choose import choose_rank

    n, d, q = shape
    hits: Hits = defaultdict(dict)
    tables = [
        simulate(n, d, q, signal, missing, ratio, np.random.default_rng(seed))
        for seed in range(TABLES[quick])
    ]
    costly = COSTLY_TABLES[quick]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, X in enumerate(tables):
            names = CHEAP if missing else (*CHEAP, "bic")
            picks = dict(choose_rank(X, criteria=names).criteria)
            if i < costly:
                more = COSTLY if not missing else (*COSTLY, "bic")
                picks |= choose_rank(X, criteria=more, max_rank=MOST).criteria
                picks["majority of all"] = vote(picks)
                diagonal = choose_rank(X, criteria=["bic"], noise="diagonal", max_rank=MOST)
                picks["bic, factor analysis"] = diagonal.criteria["bic"]
            if not missing and n >= d:
                picks['scikit-learn "mle"'] = _mle(X)
            for name, pick in picks.items():
                hits[name][i] = max(pick, 1) == q
    if r and d <= WIDEST_PEER and signal in PEER_SIGNALS:
        for i, X in enumerate(tables[:costly]):
            pick = k_estimate(X)
            if pick is not None:  # it refuses some tables, which is no wrong answer
                hits["pcaMethods kEstimate"][i] = pick == q
    return hits


def _rows(case: str, cases: list[Hits], decides: bool = False) -> list[Row]:
    """One row a criterion: its share of hits beside the default's on the same tables."""
    rows = []
    for name in sorted({name for hits in cases for name in hits} - {DEFAULT}):
        ours, theirs = [], []
        for hits in cases:
            for i, hit in hits.get(name, {}).items():
                ours.append(hits[DEFAULT][i])
                theirs.append(hit)
        row = against(case, "exact hits", 100 * np.mean(ours), name, 100 * np.mean(theirs))
        if decides:
            best = np.mean(ours) >= np.mean(theirs)
            row |= {"target": "the default is the best", "met": "yes" if best else "no"}
        rows.append({**row, "unit": "%", "note": f"{len(ours)} tables"})
    return rows


def _mle(X: np.ndarray) -> int:
    from sklearn.decomposition import PCA

    return int(PCA(n_components="mle", svd_solver="full").fit(X).n_components_)


R_SCRIPT = """
suppressMessages(library(pcaMethods))
args <- commandArgs(TRUE); folder <- args[1]; most <- as.integer(args[2])
shape <- as.integer(args[3:4])
X <- matrix(readBin(file.path(folder, "X"), "double", shape[1] * shape[2]), shape[1])
X[is.nan(X)] <- NA
found <- kEstimate(X, method = "ppca", evalPcs = 1:most, segs = 3, nruncv = 1, em = "q2",
                   allVariables = TRUE, verbose = FALSE)
writeLines(as.character(found$bestNPcs), file.path(folder, "out"))
"""


def k_estimate(X: np.ndarray) -> int | None:
    """pcaMethods' kEstimate by ppca, Q2, 3 segments, up to 8 components; None where it fails.

    Rows in which nothing was seen are left out, for it refuses them.
    """
    X = X[~np.isnan(X).all(axis=1)]
    n, d = X.shape
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "X").write_bytes(np.asfortranarray(X, dtype="<f8").tobytes(order="F"))
        Path(folder, "script.R").write_text(R_SCRIPT)
        command = ["Rscript", str(Path(folder, "script.R")), folder, str(min(8, d - 1))]
        try:
            done = subprocess.run([*command, str(n), str(d)], capture_output=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None
        return None if done.returncode else int(Path(folder, "out").read_text())
