"""Do 95 % intervals for hidden cells cover 95 %? Simulated tables, small ones too, and real ones.

`coverage(estimator, n, d, q, missing)` draws tables from a linear-Gaussian model, hides cells at
random, fits the estimator to the rest, and counts how many hidden cells lie within
`filled +- 1.96 std` as `impute(X, return_std=True)` gives them.

    python -m benchmarks.calibration [--quick] [--plot FOLDER]

prints the figures and draws them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import clone

from benchmarks import real_tables
from benchmarks.table import Row, check
from eigengap import PPCA, BayesianPCA, FactorAnalysis, LowRankImputer
from eigengap.models.gaussian.predictive import PlugIn

LEVEL = 0.95
SIMULATED = (94.0, 96.0)  # % that has to be covered
REAL = (92.0, 98.0)  # of every column
LEFT = 80.0  # % at which the plot begins; what lies below is drawn there

# n, d, q, share missing, noise; small tables first.
GRID: tuple[tuple[int, int, int, float, float | str], ...] = (
    (30, 10, 2, 0.2, 0.5),
    (50, 20, 5, 0.1, 0.5),
    (50, 20, 5, 0.3, 0.5),
    (50, 20, 5, 0.3, 2.0),
    (50, 20, 5, 0.3, "diagonal"),
    (100, 200, 5, 0.3, 1.0),
    (200, 50, 10, 0.5, 0.5),
    (200, 50, 10, 0.5, "diagonal"),
    (1000, 20, 5, 0.1, 0.5),
    (1000, 20, 5, 0.5, "diagonal"),
)
REAL_TABLES = ("breast cancer", "WDBC", "digits", "airquality")


@dataclass(frozen=True)
class Coverage:
    """Share of hidden cells inside their intervals."""

    percent: float
    error: float  # standard error of `percent`, over tables
    width: float  # mean standard deviation claimed, beside the root mean squared error made
    cells: int

    def __str__(self) -> str:
        return f"{self.percent:.1f} +- {self.error:.1f} %, std / error {self.width:.2f}"


def simulate(
    n: int, d: int, q: int, noise: float | str, seed: int
) -> tuple[np.ndarray, np.random.Generator]:
    """(n, d) rows W z + mu + e, columns of W falling from 2 to 0.7; and the generator, used on.

    `noise` is the standard deviation of e, or "diagonal": 0.3 to 2, another for every column.
    """
    rng = np.random.default_rng(seed)
    sd = rng.uniform(0.3, 2.0, size=d) if noise == "diagonal" else float(noise)
    W = rng.normal(size=(d, q)) * np.linspace(2, 0.7, q)
    mu = 3 * rng.normal(size=d)
    return rng.normal(size=(n, q)) @ W.T + mu + sd * rng.normal(size=(n, d)), rng


def coverage(
    estimator: Any,
    n: int,
    d: int,
    q: int,
    missing: float,
    seeds: int | Iterable[int] = 20,
    noise: float | str = 0.5,
    level: float = LEVEL,
) -> Coverage:
    """Of hidden cells of simulated tables, under an estimator that has `impute(return_std=True)`.

    >>> from eigengap import PPCA
    >>> found = coverage(PPCA(5), 1000, 20, 5, missing=0.1, seeds=2)
    >>> 93 < found.percent < 97
    True
    """
    tables = []
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        X, _ = simulate(n, d, q, noise, seed)
        hidden = real_tables.hide_share(X, missing, seed)
        tables.append(scores(estimator, X, hidden)[hidden])
    return summary(tables, level)


def scores(estimator: Any, X: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """(n, d, 2) error of every hidden cell and the standard deviation claimed for it."""
    incomplete = np.where(hidden, np.nan, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(estimator).fit(incomplete)
        filled, std = fitted.impute(incomplete, return_std=True)
    return np.stack([np.where(hidden, filled - X, 0.0), np.where(hidden, std, 0.0)], axis=-1)


def summary(tables: Sequence[np.ndarray], level: float = LEVEL) -> Coverage:
    """Coverage from (cells, 2) arrays of errors and claimed standard deviations, one per table."""
    z = norm.ppf(0.5 + level / 2)
    inside = [100 * np.mean(np.abs(t[:, 0]) <= z * t[:, 1]) for t in tables]
    cells = np.concatenate(tables)
    made = float(np.sqrt(np.mean(cells[:, 0] ** 2)))
    return Coverage(
        percent=float(np.mean(inside)),
        error=float(np.std(inside, ddof=1) / np.sqrt(len(inside))) if len(inside) > 1 else np.nan,
        width=float(np.sqrt(np.mean(cells[:, 1] ** 2))) / made if made else np.nan,
        cells=len(cells),
    )


def coverage_by_column(
    estimator: Any, X: np.ndarray, missing: float, seeds: int | Iterable[int] = 20
) -> np.ndarray:
    """(d,) % of hidden cells of each column covered, on a real table."""
    z = norm.ppf(0.5 + LEVEL / 2)
    inside, counts = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        hidden = real_tables.hide_share(X, missing, seed)
        error, std = np.moveaxis(scores(estimator, X, hidden), -1, 0)
        inside += np.sum((np.abs(error) <= z * std) & hidden, axis=0)
        counts += hidden.sum(axis=0)
    return np.asarray(100 * inside / np.maximum(counts, 1))


# The grid --------------------------------------------------------------------------------------


class PlugInPPCA(PPCA):
    """PPCA that takes its parameters for certain: what the others are to be better than."""

    @property
    def predictive_(self) -> Any:
        return PlugIn(self.model_)


CONTESTANTS: dict[str, Callable[[int], Any]] = {  # q -> estimator; some choose their own rank
    "PPCA": lambda q: PPCA(q),
    "FactorAnalysis": lambda q: FactorAnalysis(q),
    "BayesianPCA": lambda q: BayesianPCA(),
    "LowRankImputer": lambda q: LowRankImputer(),
    "PPCA, plug-in": lambda q: PlugInPPCA(q),
}


def run(quick: bool = False, names: Sequence[str] | None = None) -> list[Row]:
    makers = {k: v for k, v in CONTESTANTS.items() if names is None or k in names}
    return [*_simulated(makers, quick), *_real(makers, quick)]


def _simulated(makers: dict[str, Callable[[int], Any]], quick: bool) -> list[Row]:
    rows = []
    for n, d, q, missing, noise in GRID[:4] if quick else GRID:
        for name, make in makers.items():
            if name.startswith("PPCA") and noise == "diagonal":
                continue  # the model is wrong there
            seeds = max(10, min(40, 40_000 // (n * d))) // (4 if quick else 1)
            found = coverage(make(q), n, d, q, missing, max(seeds, 2), noise)
            kind = "noise by column" if noise == "diagonal" else f"noise {noise:g}"
            case = f"{n} x {d}, q {q}, {missing:.0%} missing, {kind}"
            rows.append(_row(case, name, found))
            _say(f"{case}: {name}: {found}")
    return rows


def _row(case: str, name: str, found: Coverage) -> Row:
    low, high = SIMULATED
    row = check(
        case,
        f"{name}: hidden cells in their 95 % intervals",
        low <= found.percent <= high,
        note=f"+- {found.error:.1f}; claimed / made error {found.width:.2f}",
        estimator=name,
        **vars(found),
    )
    return {**row, "ours": found.percent, "unit": "%", "target": f"{low:g} to {high:g} %"}


def _real(makers: dict[str, Callable[[int], Any]], quick: bool) -> list[Row]:
    rows = []
    for table_name in REAL_TABLES[:1] if quick else REAL_TABLES:
        table = real_tables.TABLES[table_name]()
        for name, make in makers.items():
            if name == "PPCA, plug-in":
                continue
            seeds = 3 if quick or table_name == "digits" else 20
            q = min(10, (table.X.shape[1] - 1) // 2)
            estimator = make(q)
            if "scale" in estimator.get_params():
                estimator.set_params(scale=True)
            percent = coverage_by_column(estimator, table.X, 0.1, seeds)
            row = _real_row(table, name, percent)
            rows.append(row)
            _say(f"{row['case']}: {name}: {row['ours']:.1f} %; {row['note']}")
    return rows


def _real_row(table: real_tables.Table, name: str, percent: np.ndarray) -> Row:
    low, high = REAL
    outside = np.flatnonzero((percent < low) | (percent > high))
    listed = ", ".join(f"{table.columns[j]} {percent[j]:.0f}" for j in outside)
    n, d = table.X.shape
    row = check(
        f"{table.name} {n} x {d}, 10 % missing",
        f"{name}: the same, by column",
        len(outside) == 0,
        note=f"{percent.min():.0f} to {percent.max():.0f} %; outside: {listed or 'none'}",
        estimator=name,
        by_column=dict(zip(table.columns, percent.tolist(), strict=True)),
    )
    return {
        **row,
        "ours": float(np.mean(percent)),
        "unit": "%",
        "target": f"every column {low:g} to {high:g} %",
    }


# The plot --------------------------------------------------------------------------------------


def plot(rows: Sequence[Row], path: Path) -> None:
    """Coverage of every case over the band asked for, a dot per column of real ones: SVG or PNG."""
    import altair as alt

    simulated = [
        {
            "case": r["case"],
            "estimator": r["detail"]["estimator"],
            "percent": r["detail"]["percent"],
            "low": r["detail"]["percent"] - 2 * r["detail"]["error"],
            "high": r["detail"]["percent"] + 2 * r["detail"]["error"],
        }
        for r in rows
        if "percent" in r["detail"]
    ]
    by_column = [
        {"case": r["case"], "estimator": r["detail"]["estimator"], "percent": percent}
        for r in rows
        for percent in r["detail"].get("by_column", {}).values()
    ]
    upper = _panel(alt, simulated, SIMULATED, "Simulated tables, with two standard errors")
    lower = _panel(alt, by_column, REAL, "Real tables, a dot for each column")
    chart = alt.vconcat(*(panel for panel in (upper, lower) if panel is not None))
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.configure_axis(labelLimit=400).save(str(path), scale_factor=1.5)


def _panel(alt: Any, values: list[dict[str, Any]], band: tuple[float, float], title: str) -> Any:
    if not values:
        return None
    scale = alt.Scale(domain=[LEFT, 100], zero=False, clamp=True)
    x = alt.X("percent:Q", title="% inside 95 % intervals", scale=scale)
    dots = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("case:N", sort=list(dict.fromkeys(v["case"] for v in values)), title=None),
        yOffset=alt.YOffset("estimator:N", sort=list(CONTESTANTS)),
        color=alt.Color("estimator:N", sort=list(CONTESTANTS), title=None),
    )
    ends = alt.Data(values=[{"low": band[0], "high": band[1]}])
    layers = [
        alt.Chart(ends).mark_rect(opacity=0.15, color="green").encode(
            x=alt.X("low:Q", scale=scale, title=""), x2="high:Q"
        ),
        dots.mark_circle(size=45, opacity=0.8).encode(x=x),
    ]  # fmt: skip
    if "low" in values[0]:
        layers.append(dots.mark_rule().encode(x=alt.X("low:Q", scale=scale, title=""), x2="high:Q"))
    return alt.layer(*layers).properties(title=title, width=460, height=alt.Step(9))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", help="an estimator; may be repeated")
    parser.add_argument("--plot", type=Path, help="file to draw to, .svg or .png")
    given = parser.parse_args()
    results = run(given.quick, given.only)
    if given.plot:
        plot(results, given.plot)
