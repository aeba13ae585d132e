"""Model fit: iterations, outliers, and whether distances follow the predicted distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc, betaincinv, ndtri

from eigengap.linalg import Array
from eigengap.plots.numbers.steps import trace_numbers
from eigengap.reporting.numbers.distances import ALPHA, RowDistances
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.page import specs
from eigengap.reporting.sections.section import Figure, Grid, Section
from eigengap.reporting.words import brief, count, number, p_is, p_value, percent, whole

RARE = 0.001
SURE = 0.01  # probability by chance below which it is the far rows that depart from the law
# Probability outside of the interval of each of m order statistics where all m lie inside theirs
# with 95 % probability: equal local levels (Weine, McPeek and Abney 2023), by simulation
# to within 5 %, at 10 000 from 15 000 tables and below from more.
LOCAL_LEVELS = {
    1: 0.05, 2: 0.0265, 3: 0.0187, 5: 0.0123, 10: 0.0075, 20: 0.0047, 50: 0.00297, 100: 0.0021,
    200: 0.00167, 500: 0.00132, 2000: 0.00089, 10_000: 0.00068,
}  # fmt: skip
NEAREST = 0.01  # of its limit at which a distance is drawn where it is smaller
ROWS_PER_COLUMN = 5  # below which the rows of a fit look more ordinary than they are
MOST_STEPS = 400  # drawn
TITLE = "Model fit"


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Distances as normal scores against those of the law, with a simultaneous 95 % band.

    Where rows follow the law all points lie inside the band with 95 % probability.
    """

    expected: Array  # (k,) ascending
    found: Array  # (k,)
    low: Array
    high: Array

    @property
    def outside(self) -> int:
        """Points outside the band."""
        return int(np.sum((self.found < self.low) | (self.found > self.high)))


def local_level(m: int) -> float:
    """What the interval of each of m order statistics leaves out, both ends together."""
    size, level = np.log(list(LOCAL_LEVELS)), np.log(list(LOCAL_LEVELS.values()))
    if np.log(m) > size[-1]:
        slope = (level[-1] - level[-2]) / (size[-1] - size[-2])
        return float(np.exp(level[-1] + slope * (np.log(m) - size[-1])))
    return float(np.exp(np.interp(np.log(m), size, level)))


def quantiles(p: Array) -> Quantiles:
    """From p-values, which are uniform where rows follow the law: -Phi^-1 of both.

    The k-th of m uniform numbers in order is Beta(k, m + 1 - k).
    """
    ordered = np.sort(p[np.isfinite(p)])[::-1]
    m = len(ordered)
    k = np.arange(1, m + 1)
    out = local_level(max(m, 1)) / 2
    return Quantiles(
        expected=ndtri((k - 0.5) / m),
        found=-ndtri(np.clip(ordered, 1e-300, 1 - 1e-16)),
        low=np.asarray(ndtri(betaincinv(k, m + 1 - k, out)), dtype=np.float64),
        high=np.asarray(ndtri(betaincinv(k, m + 1 - k, 1 - out)), dtype=np.float64),
    )


def section(
    subject: Subject,
    look: Look,
    distances: RowDistances | str,
    rows: list[str],
    names: tuple[str, ...],
) -> Section:
    """Trace, T2 and SPE, Q-Q plot, and the least probable rows."""
    words, figures, grids = [], [], []
    steps = trace_figure(subject)
    words.append(_on_steps(subject))
    if steps is not None:
        figures.append(steps)
    verdict = ""
    if not isinstance(distances, str) and not np.isfinite(distances.p).any():
        distances = "No row has an observed value, so that none has a distance from the model."
    if isinstance(distances, str):
        words.append(distances)
    else:
        verdict = _on_outliers(distances, look)
        words += [verdict, _on_law(distances.p, subject, look)]
        figures += [_t2_spe(distances, rows), _qq(distances.p)]
        grids.append(_least_probable(distances, look, rows, names))
    return Section(
        "quality",
        TITLE,
        words=tuple(word for word in words if word),
        figures=tuple(figures),
        grids=tuple(grids),
        verdict=verdict,
    )


def _on_steps(subject: Subject) -> str:
    converged = subject.converged
    steps = getattr(subject.bare, "n_iter_", None)
    trace = getattr(subject.bare, "trace_", None)
    if converged is None and (steps is None or trace is None):
        return ""
    if trace is not None and len(trace.objective) == 0:
        return "The fit is a closed form: there were no steps to watch."
    said = f"The fit took {count(int(steps), 'step')}" if steps else "The fit ended"
    if converged is None:
        return f"{said}."
    return f"{said} and converged." if converged else f"{said} and did NOT converge."


def trace_figure(subject: Subject) -> Figure | None:
    """The objective at every step."""
    try:
        steps = trace_numbers(subject.bare)
    except (AttributeError, ValueError):  # none, or a closed form
        return None
    objective = steps.objective
    if len(objective) < 2 or not np.isfinite(objective).any():
        return None
    k = np.arange(len(objective))
    shown = (
        k
        if len(k) <= MOST_STEPS
        else np.unique(np.geomspace(1, len(k), MOST_STEPS).astype(int)) - 1
    )
    gain = float(objective[-1] - objective[0])
    last = float(objective[-1] - objective[-2])
    return Figure(
        "trace",
        "Steps of the fit",
        f"The {steps.what} {'rose' if gain >= 0 else 'fell'} by {number(abs(gain))} over "
        f"{count(len(objective), 'step')}, in the last one by {number(abs(last), 2)}.",
        specs.chart(
            specs.records(digits=12, step=shown + 1, objective=objective[shown]),
            [
                {
                    "mark": {"type": "line", "color": specs.MAIN, "point": len(shown) < 60},
                    "encoding": {
                        "x": specs.axis("step", "step", scale={"nice": False}),
                        "y": specs.axis("objective", steps.what, scale={"zero": False}),
                        "tooltip": [
                            {"field": "step", "title": "step"},
                            {"field": "objective", "title": steps.what},
                        ],
                    },
                }
            ],
        ),
    )


def _on_outliers(distances: RowDistances, look: Look) -> str:
    p = distances.p[np.isfinite(distances.p)]
    low, rare = int(np.sum(p < ALPHA)), int(np.sum(p < RARE))
    of = f"the {whole(len(p))} rows shown" if look.is_sampled else count(len(p), "row")
    words = f"{whole(low)} of {of} ({percent(low / len(p))}) have p < {ALPHA:g}"
    expected = RARE * len(p)
    chance = float(bdtrc(rare - 1, len(p), RARE)) if rare else 1.0
    if chance < local_level(len(p)) / 2:  # so that points leave the band of the Q-Q plot as well
        return (
            f"{words}, and {whole(rare)} p < {RARE:g}, where {number(expected, 2)} "
            f"would be expected (binomial test: {p_is(chance)}): there are outliers, or tails "
            "heavier than a Gaussian’s."
        )
    return f"{words}; of new rows {percent(ALPHA)} are to be expected."


def tail_is_heavy(p: Array) -> bool:
    """Whether clearly more rows than expected are improbable, and more than chance explains."""
    low = int(np.sum(p < ALPHA))
    return low > 1.5 * ALPHA * len(p) and bool(bdtrc(low - 1, len(p), ALPHA) < SURE)


def follows_law(p: Array) -> bool:
    """Whether all points of the Q-Q plot lie inside its simultaneous 95 % band."""
    return quantiles(p).outside == 0


def _on_law(p: Array, subject: Subject, look: Look) -> str:
    known = p[np.isfinite(p)]
    if follows_law(known):
        return (
            "Distances from the model are compatible with the distribution that it predicts: all "
            f"{whole(len(known))} lie inside a simultaneous 95 % band (Q–Q plot)."
        )
    if tail_is_heavy(known):
        low = int(np.sum(known < ALPHA))
        return (
            f"Far rows are farther than the model predicts: {whole(low)} rows have p < {ALPHA:g}, "
            f"where {number(ALPHA * len(known), 2)} would be expected. p-values and intervals are "
            f"approximate. {_on_student_noise(subject)}"
        )
    closer = bool(np.median(known) > 0.5)
    if closer and look.n_rows < ROWS_PER_COLUMN * look.n_columns:
        return (
            "The rows lie closer to the model than new ones would: with "
            f"{count(look.n_rows, 'row')} for {count(look.n_columns, 'column')} the model "
            "overfits them."
        )
    unequal = "" if subject.entry.noise == "diagonal" else "noise that differs between columns, "
    if closer:
        return (
            "Distances depart from the distribution that the model predicts: most rows are closer "
            "to the model than Gaussian rows would be. Outliers that widen the noise, "
            f"{unequal}groups of rows, and values that are counts or rounded can each do that; "
            "distances alone do not show which."
        )
    return (
        "Distances depart from the distribution that the model predicts: most rows are farther "
        f"from the model than Gaussian rows would be. Curved relations, {unequal}and groups of "
        "rows can each do that; distances alone do not show which."
    )


def _on_student_noise(subject: Subject) -> str:
    if subject.student is not None:
        return "Its Student noise expects such rows, and they have moved the fit little."
    whose = "" if subject.entry.has_student_noise else "PPCA with "
    return (
        f'{whose}Student noise (distribution="student") would keep such rows from moving the fit.'
    )


def _t2_spe(distances: RowDistances, rows: list[str]) -> Figure:
    ok = np.flatnonzero(np.isfinite(distances.p))
    with np.errstate(divide="ignore", invalid="ignore"):
        along = distances.T2[ok] / distances.T2_limit[ok]
        away = np.where(distances.SPE[ok] > 0, distances.SPE[ok] / distances.SPE_limit[ok], np.nan)
    data = specs.records(
        row=[rows[i] for i in ok],
        along=np.maximum(along, NEAREST),
        away=np.maximum(away, NEAREST),
        p=distances.p[ok],
        odd=["p < 0.05" if odd else "ordinary" for odd in distances.p[ok] < ALPHA],
    )
    log: specs.Spec = {
        "scale": {"type": "log", "nice": False},
        "axis": {"values": [0.01, 0.1, 1, 10, 100, 1000, 10_000], "format": "~g"},
    }
    limit = {"type": "rule", "color": specs.SOFT, "strokeDash": [4, 3]}
    spec = specs.chart(
        data,
        [
            {
                "data": {"values": [{"one": 1}]},
                "mark": limit,
                "encoding": {"x": specs.axis("one", "", **log)},
            },
            {
                "data": {"values": [{"one": 1}]},
                "mark": limit,
                "encoding": {"y": specs.axis("one", "", **log)},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 26, "opacity": 0.7},
                "encoding": {
                    "x": specs.axis("along", "T² over its limit: along the components", **log),
                    "y": specs.axis("away", "SPE over its limit: away from them", **log),
                    "color": {
                        "field": "odd",
                        "type": "nominal",
                        "title": None,
                        "scale": {
                            "domain": ["ordinary", "p < 0.05"],
                            "range": [specs.MAIN, specs.OTHER],
                        },
                    },
                    "tooltip": [
                        {"field": "row", "title": "row"},
                        {"field": "along", "title": "T² over its limit", "format": ".2f"},
                        {"field": "away", "title": "SPE over its limit", "format": ".2f"},
                        {"field": "p", "title": "p", "format": ".2g"},
                    ],
                },
            },
        ],
        height=300,
    )
    only_along, only_away = (
        int(np.sum((along > 1) & ~(away > 1))),
        int(np.sum((away > 1) & ~(along > 1))),
    )
    return Figure(
        "t2-spe",
        "T² (extreme scores) and SPE (poor fit)",
        f"{count(only_along, 'row')} exceed{'s' if only_along == 1 else ''} the limit of T² only: "
        f"extreme, but of the usual kind. {count(only_away, 'row')} "
        f"exceed{'s' if only_away == 1 else ''} that of SPE only: columns do not go together "
        "there as they do elsewhere.",
        spec,
        f"Dashed: what 5 % of ordinary new rows exceed.{_on_edge(along, away)}",
    )


def _on_edge(along: Array, away: Array) -> str:
    """Rows too near to be drawn where they are, on axes of logarithms."""
    near = int(np.sum((along < NEAREST) | (away < NEAREST)))
    if not near:
        return ""
    verb = "lies" if near == 1 else "lie"
    return (
        f" {count(near, 'row')} with less than {percent(NEAREST)} of a limit {verb} on the edge, "
        f"drawn at {NEAREST:g}."
    )


def _qq(p: Array) -> Figure:
    found = quantiles(p)
    data = specs.records(expected=found.expected, found=found.found, low=found.low, high=found.high)
    x = specs.axis("expected", "expected, as a normal score")
    spec = specs.chart(
        data,
        [
            {
                "mark": {"type": "area", "color": specs.SOFT, "opacity": 0.25},
                "encoding": {"x": x, "y": specs.axis("low", "found"), "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "line", "color": specs.SOFT, "strokeDash": [4, 3]},
                "encoding": {"x": x, "y": specs.axis("expected", "found")},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 16, "color": specs.MAIN},
                "encoding": {
                    "x": x,
                    "y": specs.axis("found", "found"),
                    "tooltip": [
                        {"field": "expected", "title": "expected", "format": ".2f"},
                        {"field": "found", "title": "found", "format": ".2f"},
                    ],
                },
            },
        ],
        height=300,
    )
    m, out = len(found.found), found.outside
    which = "All points lie inside" if not out else f"{whole(out)} of {whole(m)} points lie outside"
    return Figure(
        "qq",
        "Q–Q plot of the distances",
        f"{which} the band. Where rows follow the model, it holds all points together with 95 % "
        "probability.",
        spec,
        "Squared distances from the model, by their p-values, so that incomplete rows count too.",
    )


def _least_probable(
    distances: RowDistances, look: Look, rows: list[str], names: tuple[str, ...]
) -> Grid:
    why = zip(
        distances.least_probable,
        distances.blamed,
        distances.expected,
        distances.expected_sd,
        strict=True,
    )
    lines = tuple(
        (
            rows[i],
            number(float(distances.T2[i])),
            number(float(distances.SPE[i])),
            p_value(float(distances.p[i])),
            names[j],
            brief(float(look.X[i, j])),
            f"{brief(float(mean))} ± {number(float(sd), 2)}",
        )
        for i, j, mean, sd in why
        if np.isfinite(distances.p[i])
    )
    return Grid(
        "The least probable rows",
        ("row", "T²", "SPE", "p", "mostly because of", "which is", "expected"),
        lines,
        (False, True, True, True, False, True, True),
        note=(
            "p: probability that an ordinary new row with the same missing values lies "
            "farther off. The "
            "value named is the one that the other values of its row make least expected, shown "
            "with what they predict."
        ),
    )
