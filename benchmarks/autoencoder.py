"""Autoencoders: held-out error against PCA and scikit-learn's MLPRegressor(X, X), and its time.

The peer is the network that scikit-learn's users build by hand: MLPRegressor fitted to give its
input back, with the same layers and standardised columns, at the best of six settings that were
tried on digits (early stopping, which goes by R^2, ends far too soon where columns are constant).
Both are asked for rows that neither has seen, and the time is that of our shortest fit that is as
good. Then gaps: digits with 30 % of the cells missing, filled by each model.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.table import Row, against, limit
from benchmarks.timing import in_new_process

SEEDS = (0, 1, 2)
HIDDEN = (128, 64)


def run(quick: bool = False) -> list[Row]:
    return [*_curved(quick), *_linear(), *_missing(quick)]


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to judge."""
    from sklearn.datasets import load_digits, make_swiss_roll

    X = (
        load_digits().data
        if name == "digits"
        else make_swiss_roll(3000, noise=0.2, random_state=0)[0]
    )
    X = X[np.random.default_rng(0).permutation(len(X))]
    cut = int(0.75 * len(X))
    return X[:cut], X[cut:]


# Curved data ----------------------------------------------------------------------------------


def _curved(quick: bool) -> list[Row]:
    rows = []
    cases = [("swiss roll", 2), ("digits", 2), ("digits", 5), ("digits", 10)]
    for name, q in cases[1:2] if quick else cases:
        _say(f"{name}, q {q}")
        found = in_new_process(f"{__name__}:compare", name, q, SEEDS[:1] if quick else SEEDS)
        case = f"{name}, q {q}, held-out rows"
        ours, theirs, pca = found["ours"], found["peer"], found["pca"]
        rows.append({
            **against(case, "mean squared error, standardised", ours["error"], "PCA", pca,
                      target=1.0, note=f"without shortcut {found['plain']['error']:.3f}"),
            "unit": "",
        })  # fmt: skip
        rows.append({
            **against(case, "mean squared error, standardised", ours["error"],
                      "scikit-learn MLPRegressor(X, X)", theirs["error"], target=1.0), "unit": "",
        })  # fmt: skip
        rows.append(
            against(case, "time to the peer's error", found["seconds_to_peer"],
                    "scikit-learn MLPRegressor(X, X)", theirs["seconds"], target=1.0,
                    note=f"whole fit {ours['seconds']:.1f} s; compiling, once a process and shape, "
                    f"left out: {found['compiling']:.1f} s"),
        )  # fmt: skip
    return rows


def compare(name: str, q: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    from eigengap.estimators.autoencoder import Autoencoder
    from eigengap.estimators.pca import PCA

    train, test = table(name)
    sd = np.where(train.std(axis=0) > 0, train.std(axis=0), 1.0)
    pca = PCA(q, scale=True).fit(train)
    pca_error = np.mean(((pca.inverse_transform(pca.transform(test)) - test) / sd) ** 2)
    start = time.perf_counter()
    Autoencoder(q, random_state=0, max_iter=1).fit(train)
    compiling = time.perf_counter() - start
    peer = [_peer(train, test, q, seed) for seed in seeds]
    plain = [_ours(train, test, q, seed, shortcut=False) for seed in seeds]
    ours = [_ours(train, test, q, seed) for seed in seeds]
    goal = float(np.mean([one["error"] for one in peer]))
    return {
        "pca": float(pca_error),
        "ours": _mean(ours),
        "plain": _mean(plain),
        "peer": _mean(peer),
        "compiling": compiling,
        "seconds_to_peer": _time_to(train, test, q, seeds, goal),
    }


def _ours(train: Any, test: Any, q: int, seed: int, **options: Any) -> dict[str, float]:
    from eigengap.estimators.autoencoder import Autoencoder

    start = time.perf_counter()
    model = Autoencoder(q, hidden=HIDDEN, random_state=seed, **options).fit(train)
    return {"seconds": time.perf_counter() - start, "error": -model.score(test)}


def _peer(train: Any, test: Any, q: int, seed: int) -> dict[str, float]:
    from sklearn.neural_network import MLPRegressor
    from sklearn.preprocessing import StandardScaler

    start = time.perf_counter()
    scaler = StandardScaler().fit(train)
    x = scaler.transform(train)
    network = MLPRegressor(
        hidden_layer_sizes=(*HIDDEN, q, *HIDDEN[::-1]), activation="tanh", max_iter=200,
        learning_rate_init=3e-3, n_iter_no_change=30, random_state=seed,
    ).fit(x, x)  # fmt: skip
    seconds = time.perf_counter() - start
    y = scaler.transform(test)
    return {"seconds": seconds, "error": float(np.mean((network.predict(y) - y) ** 2))}


def _time_to(train: Any, test: Any, q: int, seeds: tuple[int, ...], goal: float) -> float:
    """Mean seconds of the shortest fit, by doubling its passes, whose error is that good."""
    from eigengap.estimators.autoencoder import Autoencoder

    needed = []
    for seed in seeds:
        passes, found = 2, None
        while found is None:
            start = time.perf_counter()
            model = Autoencoder(
                q, hidden=HIDDEN, random_state=seed, max_iter=passes, polish=False
            ).fit(train)
            seconds = time.perf_counter() - start
            if -model.score(test) <= goal or passes > 500:
                found = seconds
            passes *= 2
        needed.append(found)
    return float(np.mean(needed))


def _mean(found: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


# The linear network ---------------------------------------------------------------------------


def _linear() -> list[Row]:
    _say("linear network")
    found = in_new_process(f"{__name__}:linear")
    return [
        limit(f"linear network from a random start, 500 x 30, eigenvalues over {decades} decades",
              "largest principal angle to PCA", angle, "rad", 1e-4)
        for decades, angle in found.items()
    ]  # fmt: skip


def linear() -> dict[int, float]:
    from eigengap.estimators.autoencoder import Autoencoder
    from eigengap.estimators.pca import PCA
    from eigengap.linalg import principal_angles

    angles = {}
    for decades in (2, 8):
        rng = np.random.default_rng(0)
        Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
        X = rng.normal(size=(500, 30)) * 10.0 ** np.linspace(0, -decades / 2, 30) @ Q
        model = Autoencoder(
            5, hidden=(), init="random", scale=False, early_stopping=False, random_state=0
        ).fit(X)
        axes = PCA(5).fit(X).components_
        angles[decades] = float(principal_angles(model.model_.parts.decoder[0][0].T, axes.T)[0])
    return angles


# Gaps -----------------------------------------------------------------------------------------


def _missing(quick: bool) -> list[Row]:
    _say("digits with gaps")
    found = in_new_process(f"{__name__}:filling", 10, SEEDS[:1] if quick else SEEDS)
    case = "digits, 30 % of the cells missing, new rows, q 10"
    row = against(case, "error of filled cells (rmse in sd)", found["error"], "PPCA, best q of 5, "
                  "10, 15, 20", found["ppca"], target=1.0,
                  note=f"without denoising {found['plain']:.3f}")  # fmt: skip
    covered = against(
        case, "95 % intervals hold the truth", 100 * found["coverage"], "PPCA",
        100 * found["ppca_coverage"],
    )  # fmt: skip
    return [{**row, "unit": ""}, {**covered, "unit": "%", "ratio": None}]


def filling(q: int, seeds: tuple[int, ...]) -> dict[str, float]:
    from sklearn.datasets import load_digits

    from eigengap.estimators.autoencoder import Autoencoder
    from eigengap.estimators.ppca import PPCA

    errors: dict[str, list[float]] = {"error": [], "plain": [], "ppca": []}
    held: dict[str, list[float]] = {"coverage": [], "ppca_coverage": []}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = load_digits().data
        X = X[rng.permutation(len(X))][:, X.std(axis=0) > 0.1]
        missing = rng.random(X.shape) < 0.3
        G = np.where(missing, np.nan, X)
        sd = np.nanstd(G, axis=0)
        train, test, hidden, truth = G[:1350], G[1350:], missing[1350:], X[1350:]
        best = np.inf
        for rank in (5, 10, 15, 20):
            filled, deviation = PPCA(rank, scale=True).fit(train).impute(test, return_std=True)
            error, inside = _judged(filled, deviation, truth, hidden, sd)
            if error < best:
                best, best_inside = error, inside
        errors["ppca"].append(best)
        held["ppca_coverage"].append(best_inside)
        for key, share in (("plain", 0.0), ("error", 0.2)):
            model = Autoencoder(q, denoising=share, random_state=seed).fit(train)
            error, inside = _judged(*model.impute(test, return_std=True), truth, hidden, sd)
            errors[key].append(error)
        held["coverage"].append(inside)
    return {key: float(np.mean(values)) for key, values in {**errors, **held}.items()}


def _judged(filled: Any, deviation: Any, truth: Any, hidden: Any, sd: Any) -> tuple[float, float]:
    error = float(np.sqrt(np.mean((((filled - truth) / sd)[hidden]) ** 2)))
    inside = np.abs(filled - truth)[hidden] <= 1.96 * deviation[hidden]
    return error, float(np.mean(inside))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
