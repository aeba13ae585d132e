"""Coverage of 95 % confidence intervals for loadings, explained and noise variance, and the mean.

Tables are drawn from a known model, fitted, and the truth is looked for in the intervals: loadings
turned onto the fit, variances sorted. A share of 300 tables has a Monte-Carlo error that the notes
tell; `met` says whether the share lies within 94 to 96 %, or so near that the error may explain it.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.table import Row, against

PARTS = ("loadings", "explained_variance", "noise_variance", "mean")
LOW, HIGH = 0.94, 0.96
N_BOOT = 200


@dataclass(frozen=True)
class Case:
    """One cell of the grid."""

    model: str  # "PPCA" or "FactorAnalysis"
    n: int
    missing: float
    method: str
    spectrum: tuple[float, ...] = (6.0, 3.0)  # variances along the axes; the noise is 1
    d: int = 8
    align: str = "rotation"
    latent: str = "gaussian"  # or "t5": rows of heavy tails

    def __str__(self) -> str:
        without = f", {self.missing:.0%} missing" if self.missing else ""
        spectrum = ", ".join(f"{lam:g}" for lam in self.spectrum)
        odd = "" if self.latent == "gaussian" else ", rows t with 5 degrees of freedom"
        axes = "" if self.align == "rotation" else ", each axis by itself"
        return f"{self.model} {self.n} x {self.d}, variances {spectrum}{without}{odd}{axes}"

    @property
    def tables(self) -> int:
        if self.method == "asymptotic":
            return 400
        return 150 if self.missing else 250


def grid() -> Iterator[Case]:
    for model in ("PPCA", "FactorAnalysis"):
        for method in ("bootstrap", "parametric", "asymptotic"):
            for n in (50, 100, 400):
                for missing in (0.0, 0.2):
                    if model == "PPCA" or n > 50:  # at 50 rows 1 fit in 5 is a Heywood case
                        yield Case(model, n, missing, method)
    for method in ("bootstrap", "asymptotic"):
        long = Case("PPCA", 400, 0.0, method)
        yield replace(long, align="axes")
        yield replace(long, spectrum=(4.0, 3.6))
        yield replace(long, spectrum=(4.0, 3.6), align="axes")
        yield replace(long, latent="t5")
        yield replace(long, spectrum=(10.0, 6.0, 3.0), d=20)
        yield replace(long, spectrum=(10.0, 6.0, 3.0), d=20, n=50)


def run(quick: bool = False) -> list[Row]:
    rows = []
    for case in grid():
        if quick and (case.n != 400 or (case.missing and case.method != "asymptotic")):
            continue
        tables, n_boot = (40, 60) if quick else (case.tables, N_BOOT)
        found = coverage(case, tables, n_boot)
        rows += [_row(case, part, found) for part in PARTS]
        shares = " ".join(f"{part} {found[part].mean():.3f}" for part in PARTS)
        print(f"{case} {case.method}: {shares} ({found['seconds']:.0f} s)", file=sys.stderr)
    return rows


def coverage(case: Case, tables: int, n_boot: int, seed: int = 0) -> dict[str, Any]:
    """Whether each interval held the truth, by table: part -> (tables, numbers)."""
    import eigengap
    from eigengap.inference.confidence import confidence_intervals

    rng = np.random.default_rng(seed)
    truth = _truth(case)
    inside: dict[str, Any] = {part: [] for part in PARTS}
    refused, start = 0, time.perf_counter()
    for number in range(tables):
        X = _rows(truth, case, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = getattr(eigengap, case.model)(len(case.spectrum)).fit(X)
            try:
                found = confidence_intervals(
                    fitted, X, method=case.method, align=case.align, n_boot=n_boot,
                    random_state=number,
                )  # fmt: skip
            except ValueError:  # a Heywood case has no asymptotic intervals, and says so
                refused += 1
                continue
        values = _values(truth, fitted, case.align)
        for part in PARTS:
            inside[part].append(getattr(found, part).covers(values[part]).ravel())
    shares = {part: np.array(inside[part], dtype=float) for part in PARTS}
    return {**shares, "refused": refused, "seconds": time.perf_counter() - start}


def _truth(case: Case) -> Any:
    from eigengap import LinearGaussian

    rng = np.random.default_rng(7)
    U = np.linalg.qr(rng.normal(size=(case.d, len(case.spectrum))))[0]
    psi = np.ones(case.d) if case.model == "PPCA" else np.linspace(0.6, 1.6, case.d)
    W = U * np.sqrt(np.array(case.spectrum) - 1.0)
    return LinearGaussian(W=W, mu=rng.normal(size=case.d), psi=psi).canonical()


def _rows(truth: Any, case: Case, rng: np.random.Generator) -> np.ndarray:
    X = truth.sample(case.n, rng)
    if case.latent == "t5":  # of the same covariance
        scale = np.sqrt(5.0 / rng.chisquare(5.0, size=(case.n, 1))) * np.sqrt(3.0 / 5.0)
        X = truth.mu + (X - truth.mu) * scale
    X[rng.random(X.shape) < case.missing] = np.nan
    return X


def _values(truth: Any, fitted: Any, align: str) -> dict[str, np.ndarray]:
    from eigengap.inference.confidence import onto, units_of

    aligned = onto(fitted.model_.W, fitted.loadings_, units_of(fitted), align)
    noise = truth.psi if np.ndim(fitted.noise_variance_) else truth.psi[:1]
    return {
        "loadings": aligned(truth.W, truth.W),
        "explained_variance": truth.principal_axes()[1],
        "noise_variance": noise,
        "mean": truth.mu,
    }


def _row(case: Case, part: str, found: dict[str, Any]) -> Row:
    inside = found[part]
    share = float(inside.mean())
    error = float(inside.mean(axis=1).std(ddof=1) / np.sqrt(len(inside)))
    refused = f"; {found['refused']} tables without intervals (Heywood)" if found["refused"] else ""
    row = against(str(case), f"{part.replace('_', ' ')}, {case.method}", None, "", None)
    return {
        **row,
        "ours": 100 * share,
        "unit": "%",
        "target": "94 to 96 %",
        "met": _met(share, error),
        "note": f"+- {100 * error:.1f} over {len(inside)} tables{refused}",
        "detail": {"seconds": found["seconds"], "error": error},
    }


def _met(share: float, error: float) -> str:
    if LOW <= share <= HIGH:
        return "yes"
    outside = max(LOW - share, share - HIGH)
    return "undecided" if outside <= 2 * error else "no"
