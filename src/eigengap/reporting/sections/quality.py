"""Model fit: iterations, outliers, and whether distances follow the predicted distribution."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtrc

from eigengap.linalg import Array
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.plots.numbers.outliers import ALPHA, RowDistances, local_level, quantiles
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.spectrum import trace_numbers
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting import specs
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import brief, count, number, p_is, p_value, percent, whole

RARE = 0.001
SURE = 0.01  # probability by chance below which it is the far rows that depart from the law
NEAREST = 0.01  # of its limit at which a distance is drawn where it is smaller
ROWS_PER_COLUMN = 5  # below which the rows of a fit look more ordinary than they are
MOST_STEPS = 400  # drawn
TITLE = "Model fit"


def section(
    subject: Subject,
    look: Look,
    distances: RowDistances | str,
    rows: list[str],
    names: tuple[str, ...],
) -> Section:
    """Trace, T2 and SPE, Q-Q plot, and the least probable rows."""
    words, grids, verdict = [_on_steps(subject)], [], ""
    steps = _trace(subject)
    figures = [] if steps is None else [steps]
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


def _trace(subject: Subject) -> Figure | None:
    """The objective at every step."""
    try:
        steps = trace_numbers(subject.bare)
    except (AttributeError, ValueError):  # none, or a closed form
        return None
    objective, n = steps.objective, len(steps.objective)
    if n < 2 or not np.isfinite(objective).any():
        return None
    shown = np.arange(n)
    if n > MOST_STEPS:
        shown = np.unique(np.geomspace(1, n, MOST_STEPS).astype(int)) - 1
    gain, last = float(objective[-1] - objective[0]), float(objective[-1] - objective[-2])
    return Figure(
        "trace",
        "Steps of the fit",
        f"The {steps.what} {'rose' if gain >= 0 else 'fell'} by {number(abs(gain))} over "
        f"{count(n, 'step')}, in the last one by {number(abs(last), 2)}.",
        specs.chart(
            specs.records(digits=12, step=shown + 1, objective=objective[shown]),
            specs.layer(
                "line",
                {"color": specs.MAIN, "point": len(shown) < 60},
                x=specs.axis("step", "step", scale={"nice": False}),
                y=specs.axis("objective", steps.what, scale={"zero": False}),
                tooltip=specs.tips(step="step", objective=steps.what),
            ),
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
        whose = "" if subject.entry.has_student_noise else "PPCA with "
        advice = f'{whose}Student noise (distribution="student") would keep such rows from moving '
        advice += "the fit."
        if isinstance(subject.gaussian, StudentLinearGaussian):
            advice = "Its Student noise expects such rows, and they have moved the fit little."
        return (
            f"Far rows are farther than the model predicts: {whole(low)} rows have p < {ALPHA:g}, "
            f"where {number(ALPHA * len(known), 2)} would be expected. p-values and intervals are "
            f"approximate. {advice}"
        )
    closer = bool(np.median(known) > 0.5)
    if closer and look.n_rows < ROWS_PER_COLUMN * look.n_columns:
        return (
            "The rows lie closer to the model than new ones would: with "
            f"{count(look.n_rows, 'row')} for {count(look.n_columns, 'column')} the model "
            "overfits them."
        )
    unequal = "" if subject.entry.noise == "diagonal" else "noise that differs between columns, "
    side, causes = "farther from", f"Curved relations, {unequal}and groups of rows"
    if closer:
        side = "closer to"
        causes = f"Outliers that widen the noise, {unequal}groups of rows, and values that are "
        causes += "counts or rounded"
    return (
        f"Distances depart from the distribution that the model predicts: most rows are {side} the "
        f"model than Gaussian rows would be. {causes} can each do that; distances alone do not "
        "show which."
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
        state=np.where(distances.p[ok] < ALPHA, "p < 0.05", "ordinary"),
    )
    log: specs.Spec = {
        "scale": {"type": "log", "nice": False},
        "axis": {"values": [0.01, 0.1, 1, 10, 100, 1000, 10_000], "format": "~g"},
    }
    one, limit = [{"one": 1}], specs.axis("one", "", **log)
    spec = specs.chart(
        data,
        specs.dashed(data=one, x=limit),
        specs.dashed(data=one, y=limit),
        specs.dots(
            26,
            {"opacity": 0.7},
            x=specs.axis("along", "T² over its limit: along the components", **log),
            y=specs.axis("away", "SPE over its limit: away from them", **log),
            color=specs.either("state", None, "ordinary", "p < 0.05"),
            tooltip=specs.tips(
                row="row", along="T² over its limit|.2f", away="SPE over its limit|.2f", p="p|.2g"
            ),
        ),
        height=300,
    )
    near = int(np.sum((along < NEAREST) | (away < NEAREST)))  # the axes are logarithmic
    edge = f" {count(near, 'row')} with less than {percent(NEAREST)} of a limit "
    edge += f"{'lies' if near == 1 else 'lie'} on the edge, drawn at {NEAREST:g}."
    only_along = int(np.sum((along > 1) & ~(away > 1)))
    only_away = int(np.sum((away > 1) & ~(along > 1)))
    return Figure(
        "t2-spe",
        "T² (extreme scores) and SPE (poor fit)",
        f"{count(only_along, 'row')} exceed{'s' if only_along == 1 else ''} the limit of T² only: "
        f"extreme, but of the usual kind. {count(only_away, 'row')} "
        f"exceed{'s' if only_away == 1 else ''} that of SPE only: columns do not go together "
        "there as they do elsewhere.",
        spec,
        f"Dashed: what 5 % of ordinary new rows exceed.{edge if near else ''}",
    )


def _qq(p: Array) -> Figure:
    found = quantiles(p)
    data = specs.records(expected=found.expected, found=found.found, low=found.low, high=found.high)
    x = specs.axis("expected", "expected, as a normal score")
    low, even, y = (specs.axis(field, "found") for field in ("low", "expected", "found"))
    band = {"color": specs.SOFT, "opacity": 0.25}
    tooltip = specs.tips(expected="expected|.2f", found="found|.2f")
    spec = specs.chart(
        data,
        specs.layer("area", band, x=x, y=low, y2={"field": "high"}),
        specs.layer("line", {"color": specs.SOFT, "strokeDash": [4, 3]}, x=x, y=even),
        specs.dots(16, {"color": specs.MAIN}, x=x, y=y, tooltip=tooltip),
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
    d = distances
    why = zip(d.least_probable, d.blamed, d.expected, d.expected_sd, strict=True)
    lines = tuple(
        (
            rows[i],
            number(float(d.T2[i])),
            number(float(d.SPE[i])),
            p_value(float(d.p[i])),
            names[j],
            brief(float(look.X[i, j])),
            f"{brief(float(mean))} ± {number(float(sd), 2)}",
        )
        for i, j, mean, sd in why
        if np.isfinite(d.p[i])
    )
    return Grid(
        "The least probable rows",
        ("row", "T²", "SPE", "p", "mostly because of", "which is", "expected"),
        lines,
        (False, True, True, True, False, True, True),
        note=(
            "p: probability that an ordinary new row with the same missing values lies farther "
            "off. The value named is the one that the other values of its row make least expected, "
            "shown with what they predict."
        ),
    )
