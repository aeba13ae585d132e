"""partial_fit against IncrementalPCA on the same batches, and under gaps against fit.

Speed: one model at the end of the stream, and one after every batch, which IncrementalPCA makes
anyway. Accuracy: eigenvalues and noise variance of what the batches leave, against PCA of all rows.
Gaps: log-likelihood of all rows after one pass, against fit on all of them at once.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.table import Row, against, limit
from benchmarks.timing import in_new_process, interleaved

Q = 10
SHAPES = {  # rows, columns, rows of a batch
    "small batches": (20_000, 100, 100),
    "tall": (40_000, 200, 1000),
    "wider": (20_000, 500, 1000),
    "large batches": (20_000, 500, 5000),
}
PEER = "IncrementalPCA"
MISSING, BATCHES = (0.1, 0.3), (10, 100, 1000)
ROWS, COLUMNS, FACTORS = 10_000, 30, 4
DEFICIT = {"random": 1e-3, "sorted": 1e-2}  # nats a row; parameters / 2 n is 0.0075


def run(quick: bool = False) -> list[Row]:
    names = ["small batches"] if quick else list(SHAPES)
    rows = [row for name in names for row in _speed(name)]
    rows += _row_by_row(1000 if quick else 5000)
    rows += _accuracy(quick)
    return rows + _missing(quick)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


# Speed --------------------------------------------------------------------------------------


def _speed(name: str) -> list[Row]:
    n, d, size = SHAPES[name]
    _say(f"{n} x {d} in batches of {size}")
    found = in_new_process(f"{__name__}:time_stream", n, d, size)
    case = f"{name}: {n} x {d}, batches of {size}, q {Q}"
    every = found["every batch"]
    return [
        against(case, "a model at the end", found["at the end"], PEER, found["peer"], target=2.0),
        against(case, "a model after every batch", every, PEER, found["peer"]),
    ]


def time_stream(n: int, d: int, size: int) -> dict[str, float]:
    from sklearn.decomposition import IncrementalPCA

    from eigengap import PCA

    X = decaying(n, d)
    cuts = range(0, n, size)

    def at_the_end() -> Any:
        model = PCA(Q)
        for i in cuts:
            model.partial_fit(X[i : i + size])
        return model.components_

    def every_batch() -> None:
        model = PCA(Q)
        for i in cuts:
            _ = model.partial_fit(X[i : i + size]).components_

    def peer() -> None:
        model = IncrementalPCA(Q)
        for i in cuts:
            model.partial_fit(X[i : i + size])

    return interleaved({"at the end": at_the_end, "every batch": every_batch, "peer": peer}, 3)


def _row_by_row(n: int) -> list[Row]:
    _say("rows one by one")
    found = in_new_process(f"{__name__}:time_rows", n)
    case = f"{n} x 100, rows one by one"
    note = f"{PEER} refuses a first batch of fewer rows than components: it gets 10 at a time"
    return [
        against(case, "seconds a row", found["ours"] / n, PEER, found["peer"] / n, note=note),
    ]


def time_rows(n: int) -> dict[str, float]:
    from sklearn.decomposition import IncrementalPCA

    from eigengap import PCA

    X = decaying(n, 100)

    def ours() -> Any:
        model = PCA(Q)
        for i in range(n):
            model.partial_fit(X[i : i + 1])
        return model.components_

    def peer() -> None:
        model = IncrementalPCA(Q)
        for i in range(0, n, Q):
            model.partial_fit(X[i : i + Q])

    return interleaved({"ours": ours, "peer": peer}, 2)


# Accuracy -----------------------------------------------------------------------------------


def _accuracy(quick: bool) -> list[Row]:
    rows = []
    for size in (20, 200) if quick else (20, 200, 2000):
        _say(f"accuracy in batches of {size}")
        found = in_new_process(f"{__name__}:compare_with_all", size)
        case = f"4000 x 50 of decaying spectrum, batches of {size}, q 5"
        for what in ("largest relative error of an eigenvalue", "relative error of sigma2"):
            row = against(case, what, found[what][0], PEER, found[what][1])
            rows.append({**row, "unit": ""})
        rows.append(
            limit(case, "relative error of sigma2", found["relative error of sigma2"][0], "", 1e-9)
        )
    return rows


def compare_with_all(size: int) -> dict[str, tuple[float, float]]:
    from sklearn.decomposition import IncrementalPCA

    from eigengap import PCA

    X, q = decaying(4000, 50), 5
    lam = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    sigma2 = np.mean(lam[q:])  # at divisor n - 1, as scikit-learn has it
    ours, peer = PCA(q), IncrementalPCA(q)
    for i in range(0, len(X), size):
        ours.partial_fit(X[i : i + size])
        peer.partial_fit(X[i : i + size])
    noise = ours.noise_variance_ * len(X) / (len(X) - 1)
    return {
        "largest relative error of an eigenvalue": (
            float(np.max(np.abs(ours.explained_variance_ / lam[:q] - 1))),
            float(np.max(np.abs(peer.explained_variance_ / lam[:q] - 1))),
        ),
        "relative error of sigma2": (
            float(abs(noise / sigma2 - 1)),
            float(abs(peer.noise_variance_ / sigma2 - 1)),
        ),
    }


# Gaps ---------------------------------------------------------------------------------------


def _missing(quick: bool) -> list[Row]:
    rows = []
    kinds = ("PPCA",) if quick else ("PPCA", "FactorAnalysis")
    for kind in kinds:
        for share in MISSING:
            for order in ("random", "sorted"):
                _say(f"{kind}, {share:.0%} missing, {order} order")
                found = in_new_process(f"{__name__}:deficits", kind, share, order)
                case = (
                    f"{kind}, {ROWS} x {COLUMNS}, q {FACTORS}, {share:.0%} of the cells missing, "
                    f"rows in {order} order"
                )
                told = ", ".join(f"{found[str(size)]:.2e} in batches of {size}" for size in BATCHES)
                note = (
                    f"{told}; fit on the first 2000 rows {found['first']:.1e}; one pass "
                    f"{found['seconds']:.2f} s, fit {found['seconds of fit']:.2f} s"
                )
                worst = max(found[str(size)] for size in BATCHES)
                what = "log-likelihood a row below fit on all"
                rows.append(limit(case, what, worst, "nats", DEFICIT[order], note=note, **found))
    return rows


def deficits(kind: str, share: float, order: str) -> dict[str, float]:
    import time

    import eigengap

    warnings.simplefilter("ignore")
    X = with_missing(ROWS, share)
    if order == "sorted":
        X = X[np.argsort(np.nan_to_num(X[:, 0]))]
    make = getattr(eigengap, kind)
    start = time.perf_counter()
    whole = make(FACTORS).fit(X)
    found = {"seconds of fit": time.perf_counter() - start}
    best = whole.score(X)
    for size in BATCHES:
        model = make(FACTORS)
        start = time.perf_counter()
        for i in range(0, len(X), size):
            model.partial_fit(X[i : i + size])
        found[str(size)] = best - model.score(X)
        found["seconds"] = time.perf_counter() - start
    found["first"] = best - make(FACTORS).fit(X[:2000]).score(X)
    return found


# Tables -------------------------------------------------------------------------------------


def decaying(n: int, d: int) -> np.ndarray:
    """Standard deviations j^-0.7 along random axes, off centre."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    spread = np.arange(1, d + 1) ** -0.7
    return (rng.standard_normal((n, d)) * spread) @ axes.T + rng.standard_normal(d)


def with_missing(n: int, share: float) -> np.ndarray:
    """Four factors of falling strength, noise of variance 1, cells missing at random."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(COLUMNS, FACTORS)) * np.linspace(2, 0.6, FACTORS)
    X = rng.normal(size=(n, FACTORS)) @ W.T + rng.normal(size=(n, COLUMNS))
    X += 3.0 * rng.normal(size=COLUMNS)
    X[rng.random(X.shape) < share] = np.nan
    return X
