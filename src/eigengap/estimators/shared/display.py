"""How an estimator shows itself: charts, a summary, and its display in notebooks.

A summary is a small value that a terminal and a notebook can show. Nothing is computed for it:
facts are read off the fitted attributes of whatever estimator it is.

A fitted estimator is displayed by scikit-learn's diagram with its parameters, followed by its
summary, a small scree plot and the objective at each step. The images are written by hand: they
need no package, take the colours of the page, and can be read aloud. In a terminal `repr` is
scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from eigengap.linalg import Array
from eigengap.registry import ESTIMATORS, entry_of, names_with
from eigengap.sources import quote, show
from eigengap.spectrum import Spectrum
from eigengap.wording import words

MOST_COMPONENTS = 12  # in a table
MOST_NAMED = 5  # columns or classes in a line
MOST_BARS = 16  # of a small scree plot
WIDTH, HEIGHT = 190, 74  # of a small image, in pixels


@dataclass(frozen=True)
class Component:
    """A line of the table of components."""

    name: str
    variance: float
    share: float  # of the total, in per cent
    together: float  # up to here


@dataclass(frozen=True)
class Summary:
    """Facts about a fitted estimator; str() is a text, a notebook shows a table."""

    name: str
    facts: tuple[tuple[str, str], ...]
    components: tuple[Component, ...] = ()
    more: int = 0  # components that are not listed
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        wide = max([len(key) for key, _ in self.facts], default=0)
        lines = [self.name, *(f"  {key:<{wide}}  {text}" for key, text in self.facts)]
        if self.components:
            lines += ["", *_table(self)]
        lines += [f"  ! {caution}" for caution in self.warnings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left;font-weight:500;padding:1px 1em 1px 0;"
            f"vertical-align:top'>{escape(key)}</th><td style='text-align:left;padding:1px 0'>"
            f"{escape(text)}</td></tr>"
            for key, text in self.facts
        )
        cautions = "".join(
            f"<p style='margin:.3em 0'>⚠ {escape(text)}</p>" for text in self.warnings
        )
        return (
            "<div class='eigengap-summary' style='font-family:system-ui,sans-serif;font-size:13px;"
            f"line-height:1.45'><strong>{escape(self.name)}</strong>"
            f"<table style='border-collapse:collapse;margin:.3em 0'>{rows}</table>"
            f"{_html_table(self)}{cautions}</div>"
        )


def public_name(estimator: Any) -> str:
    """What users call the class of an estimator; a class of our own may stand for another."""
    return str(getattr(type(estimator), "_public_name", type(estimator).__name__))


def summary_of(estimator: Any) -> Summary:
    """The facts of a fitted estimator."""
    components, more = _components(estimator)
    return Summary(
        public_name(estimator),
        tuple(_facts(estimator)),
        components,
        more,
        tuple(cautions(estimator)),
    )


# Facts -----------------------------------------------------------------------------------------


def _facts(estimator: Any) -> Iterator[tuple[str, str]]:
    model = _inner(estimator)
    yield "fitted to", _table_size(estimator)
    if model is not estimator:
        yield "model", public_name(model)
    yield from _size(estimator, model)
    yield from _quality(model)
    yield from _particular(estimator)
    yield from _convergence(estimator, model)


def _table_size(estimator: Any) -> str:
    d = int(getattr(estimator, "n_features_in_", 0))
    rows = _rows(estimator)
    size = f"{d:,} column{'s' if d != 1 else ''}"
    if rows is None:
        return size
    size = f"{_many(rows)} rows × {size}"
    observed = _observed(estimator)
    if observed is None:
        return size
    missing = float(np.sum(rows - observed[:d]))
    if missing < 0.5:
        return f"{size}, none of their cells missing"
    return f"{size}, {_many(missing)} cells missing ({100 * missing / (rows * d):.3g} %)"


def _rows(estimator: Any) -> float | None:
    """Rows of the fit, by weight, where the estimator has kept their number."""
    if hasattr(estimator, "models_"):
        parts = [_rows(model) for model in estimator.models_]
        return None if any(part is None for part in parts) else float(sum(parts))  # type: ignore[arg-type]
    model = _inner(estimator)
    spectrum = getattr(model, "spectrum_", None)
    if isinstance(spectrum, Spectrum):
        return float(spectrum.sum_w)
    if hasattr(model, "component_rows_"):
        return float(np.sum(model.component_rows_))
    if hasattr(model, "embedding_"):
        return float(len(model.embedding_))
    return None


def _observed(estimator: Any) -> Array | None:
    """(d,) weight of the rows in which each column is observed; a regressor's targets come last."""
    if hasattr(estimator, "models_"):
        known = [_observed(model) for model in estimator.models_]
    else:
        found = getattr(_inner(estimator), "evidence_", None)
        parts = found if isinstance(found, tuple) else (found,)  # of a mixture, for each component
        known = [None if part is None else part.observed_w for part in parts]
    given = [part for part in known if part is not None]
    return np.sum(given, axis=0) if given and len(given) == len(known) else None


def _many(count: float) -> str:
    """A number of rows or cells, which weights may have made no whole one."""
    return f"{count:,.0f}" if abs(count - round(count)) < 1e-6 * max(count, 1) else f"{count:,.6g}"


def _size(estimator: Any, model: Any) -> Iterator[tuple[str, str]]:
    q = getattr(model, "n_components_", None)
    if q is not None:
        yield "components", ", ".join(map(str, q)) if isinstance(q, tuple) else str(q)
    choice = getattr(model, "rank_choice_", None)
    if choice is not None:
        yield "chosen", choice.summary
    picked = getattr(estimator, "choice_", None)
    if picked is not None:
        yield "chosen", str(picked.summary)
    scaled = getattr(model, "scale_", None)
    if scaled is not None and getattr(model, "scale", False):
        yield "units", "columns divided by their standard deviations"


def _quality(model: Any) -> Iterator[tuple[str, str]]:
    share = getattr(model, "explained_variance_ratio_", None)
    if share is not None and len(share):
        yield "explained", f"{100 * float(np.sum(share)):.1f} % of the variance"
    noise = getattr(model, "noise_variance_", None)
    if noise is not None:
        yield "noise variance", _noise(np.asarray(noise, dtype=float))
    freedom = getattr(model, "degrees_of_freedom_", np.inf)
    if np.isfinite(freedom):
        yield "Student noise", f"{freedom:.3g} degrees of freedom"
    for name, label in (
        ("elbo_", "evidence lower bound"),
        ("log_likelihood_", "log-likelihood"),
        ("bound_", "bound on the log-likelihood"),
        ("loss_", "loss"),
        ("residual_variance_", "residual variance of the distances"),
        ("goodness_of_fit_", "goodness of fit"),
        ("constraint_violation_", "worst violation of a distance"),
    ):
        value = getattr(model, name, None)
        if value is not None:
            yield label, ", ".join(f"{v:.5g}" for v in np.atleast_1d(value))


def _noise(noise: Any) -> str:
    if noise.ndim == 0:
        return f"{float(noise):.4g}"
    return f"from {float(noise.min()):.3g} to {float(noise.max()):.3g}"


def _particular(estimator: Any) -> Iterator[tuple[str, str]]:
    if hasattr(estimator, "classes_"):
        named = [show(label) for label in estimator.classes_[:MOST_NAMED]]
        more = len(estimator.classes_) - len(named)
        yield "classes", ", ".join(named) + (f" and {more} more" if more > 0 else "")
    observed = _observed(estimator)
    if hasattr(estimator, "n_targets_") and observed is not None:
        known = ", ".join(_many(w) for w in observed[-estimator.n_targets_ :][:MOST_NAMED])
        yield "targets", f"{estimator.n_targets_}, known in {known} rows"
    if hasattr(estimator, "n_mixture_"):
        weights = ", ".join(f"{w:.2f}" for w in estimator.weights_[:8])
        more = estimator.n_mixture_ - 8
        yield (
            "mixture",
            f"{estimator.n_mixture_} components of weight {weights}"
            + (f" and {more} more" if more > 0 else ""),
        )
    if hasattr(estimator, "non_gaussianity_"):
        shown = ", ".join(f"{v:.2f}" for v in estimator.non_gaussianity_[:8])
        yield "non-Gaussianity", shown + (", …" if len(estimator.non_gaussianity_) > 8 else "")
    for name, label in (("n_neighbors_", "neighbours"), ("gamma_", "gamma")):
        value = getattr(estimator, name, None)
        if isinstance(value, int | float | np.number):
            yield label, f"{value:.4g}"
    if hasattr(estimator, "offset_") and hasattr(estimator, "alpha"):
        p = float(np.exp(estimator.offset_))
        yield "flags", f"rows with p < {p:.3g}"


def _convergence(estimator: Any, model: Any) -> Iterator[tuple[str, str]]:
    converged = getattr(model, "converged_", None)
    trace = getattr(model, "trace_", None)
    if trace is not None and len(trace) == 0:
        yield "fit", "in closed form"
        return
    steps = getattr(model, "n_iter_", None)
    if steps is None:
        return
    text = f"{int(steps):,} step{'s' if steps != 1 else ''}"
    if converged is not None:
        early = has_stopped_early(estimator)
        unfinished = ", stopped early on purpose" if early else ", NOT converged"
        text += ", converged" if converged else unfinished
    yield "fit", text


def cautions(estimator: Any) -> Iterator[str]:
    """What makes the numbers of a fit mean less than they seem to."""
    model = _inner(estimator)
    if not getattr(model, "converged_", True) and not has_stopped_early(estimator):
        yield (
            f"the fit did not converge: raise {words().parameter('max_iter')}, "
            f"or {words().parameter('tol')}"
        )
    height = getattr(model, "log_likelihood_", None)
    if height is not None and np.ndim(height) == 0 and height == np.inf:
        yield "the likelihood has no bound: no noise is left beside the components"
    at_floor = getattr(model, "heywood_", ())
    if at_floor:
        yield f"Heywood case: the factors explain {_columns(estimator, at_floor)} entirely"
    if getattr(model, "negative_share_", 0.0) > 1e-6:
        yield f"the distances are not Euclidean: negative share {model.negative_share_:.2g}"
    if getattr(model, "n_connected_components_", 1) > 1:
        yield f"the graph had {model.n_connected_components_} parts, which were joined"
    asked = getattr(model, "n_mixture", None)
    if asked is not None and model.n_mixture_ < asked:
        yield f"{model.n_mixture_} of {asked} components are left: the others lost their rows"


def _columns(estimator: Any, at: Sequence[int]) -> str:
    """Columns by name where these are known; beyond those of X there are a regressor's targets."""
    d = int(estimator.n_features_in_)
    names = getattr(estimator, "feature_names_in_", None)
    features, targets = [j for j in at if j < d], [j - d for j in at if j >= d]
    named = [str(j) if names is None else quote(str(names[j])) for j in features[:MOST_NAMED]]
    more = f" and {len(features) - MOST_NAMED} more" if len(features) > MOST_NAMED else ""
    parts = [f"column{'s' if len(features) > 1 else ''} {', '.join(named)}{more}"] if named else []
    if targets:
        several = getattr(estimator, "n_targets_", 1) > 1
        parts.append("target " + ", ".join(map(str, targets)) if several else "the target")
    return " and ".join(parts)


# What trace and display share ------------------------------------------------------------------


def objective_of(model: Any) -> Array:
    """(k,) the objective at each step of a fit, in the units of `log_likelihood_`.

    A fit of standardised columns counts densities of these; `log_likelihood_` and `elbo_` are of
    the data as they came, which is less by the logarithm of the unit for each observed value.
    """
    value = np.asarray(model.trace_.objective, dtype=np.float64)
    unit, observed = getattr(model, "scale_", None), _observed(model)
    if unit is None or observed is None:
        return value
    return value - float(observed @ np.log(unit))


def has_stopped_early(estimator: Any) -> bool:
    """Whether a fit ended before its maximum on purpose: a model that LowRankImputer chose."""
    if getattr(estimator, "_stops_early", False):
        return True
    return hasattr(estimator, "choice_") and isinstance(estimator.estimator, str)


# Components ------------------------------------------------------------------------------------


def _components(estimator: Any) -> tuple[tuple[Component, ...], int]:
    model = _inner(estimator)
    variance = getattr(model, "explained_variance_", None)
    share = getattr(model, "explained_variance_ratio_", None)
    if variance is None or share is None or len(variance) != len(share):
        return (), 0
    prefix = getattr(model, "_prefix", "PC")
    together = np.cumsum(share)
    listed = tuple(
        Component(
            f"{prefix}{k + 1}", float(variance[k]), 100 * float(share[k]), 100 * float(together[k])
        )
        for k in range(min(len(variance), MOST_COMPONENTS))
    )
    return listed, len(variance) - len(listed)


HEADS = ("component", "variance", "share, %", "together, %")


def _cells(component: Component) -> tuple[str, ...]:
    return (
        component.name,
        f"{component.variance:.4g}",
        f"{component.share:.1f}",
        f"{component.together:.1f}",
    )


def _table(summary: Summary) -> list[str]:
    rows = [HEADS, *(_cells(component) for component in summary.components)]
    wide = [max(len(row[k]) for row in rows) for k in range(len(HEADS))]
    lines = [
        "  "
        + "  ".join(
            [row[0].ljust(wide[0]), *(c.rjust(w) for c, w in zip(row[1:], wide[1:], strict=True))]
        )
        for row in rows
    ]
    return [*lines, f"  and {summary.more} more"] if summary.more else lines


def _html_table(summary: Summary) -> str:
    if not summary.components:
        return ""
    cell = "text-align:right;padding:1px .8em"
    head = "".join(f"<th scope='col' style='{cell};font-weight:500'>{h}</th>" for h in HEADS)
    body = "".join(
        "<tr>" + "".join(f"<td style='{cell}'>{escape(text)}</td>" for text in _cells(c)) + "</tr>"
        for c in summary.components
    )
    more = f"<tr><td colspan='4' style='{cell}'>and {summary.more} more</td></tr>"
    return (
        "<table style='border-collapse:collapse;margin:.3em 0'>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}{more if summary.more else ''}</tbody></table>"
    )


def _inner(estimator: Any) -> Any:
    """The model inside a detector, an imputer or a regressor; any other estimator itself."""
    found = getattr(estimator, "estimator_", None)
    return estimator if found is None else _inner(found)


# Charts ----------------------------------------------------------------------------------------
#
# They stand above estimators and need Altair: each is found by name when it is asked for.

NAMES = tuple(sorted({name for entry in ESTIMATORS for name in entry.charts}))


class Plots:
    """Charts of one estimator: `estimator.plot.scree()` is `eigengap.plots.scree(estimator)`."""

    __slots__ = ("_estimator",)

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def __getattr__(self, name: str) -> Any:
        if name not in NAMES:
            raise AttributeError(
                f"there is no chart {name!r}; {type(self._estimator).__name__} has "
                f"{', '.join(charts_of(self._estimator))}"
            )
        if name not in charts_of(self._estimator):
            raise AttributeError(
                f"{type(self._estimator).__name__} has no {name}; {names_with(name)} have it"
            )
        draw = getattr(import_module("eigengap.plots"), name)
        if name == "missingness":  # of the table alone, with the columns of the fit
            return update_wrapper(partial(draw, estimator=self._estimator), draw)
        return update_wrapper(partial(draw, self._estimator), draw)

    def __dir__(self) -> list[str]:
        return list(charts_of(self._estimator))

    def __repr__(self) -> str:
        names = ", ".join(charts_of(self._estimator))
        return f"<charts of {type(self._estimator).__name__}: {names}>"


def charts_of(estimator: Any) -> tuple[str, ...]:
    """Names of the charts that an estimator has, sorted."""
    return tuple(sorted(entry_of(estimator).charts))


def require_fitted(estimator: Any) -> None:
    """Refuse an estimator that has not been fitted, in scikit-learn's words."""
    check_is_fitted(estimator)


# Notebooks -------------------------------------------------------------------------------------


class Shown:
    """`plot`, `summary()` and the display in notebooks."""

    @property
    def plot(self) -> Plots:
        """Charts of the fitted estimator: `estimator.plot.scree()` and others; needs Altair."""
        return Plots(self)

    def summary(self) -> Summary:
        """What was fitted: rows, columns, missing values, components, noise, convergence.

        Returns
        -------
        Summary
            str() of it is a text; a notebook shows it as a table.
        """
        check_is_fitted(self)
        return summary_of(self)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + notebook_part(self)  # type: ignore[misc]

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """scikit-learn's table of attributes; it computes all of them, and one may not exist.

        The predictive density of a degenerate fit is such a one, and nobody has asked for it here.
        """
        try:
            found = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]
        except (ArithmeticError, ValueError, np.linalg.LinAlgError):
            return ""
        for name in ("estimator_", "estimator"):
            if name in found:
                found[name]["type_name"] = public_name(found[name]["value"])
        return found

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += notebook_part(self)
        return shown


def notebook_part(estimator: Any) -> str:
    """What a notebook shows below scikit-learn's diagram; nothing where there was no fit."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return ""
    images = "".join(
        f"<div style='flex:none'>{image}</div>"
        for image in (mini_scree(estimator), mini_trace(estimator))
        if image
    )
    return (
        "<div class='eigengap-repr' style='display:flex;flex-wrap:wrap;gap:1.2em 2em;"
        "margin-top:.8em;align-items:flex-start'>"
        f"{_without_components(summary_of(estimator))._repr_html_()}"
        f"<div style='display:flex;gap:1.2em'>{images}</div></div>"
    )


def mini_scree(estimator: Any) -> str:
    """The eigenvalues as bars: an SVG, empty where there are none."""
    model = _inner(estimator)
    lam, kept = _eigenvalues(model)
    if len(lam) < 2 or not np.all(np.isfinite(lam)) or lam.max() <= 0.0:
        return ""
    shown = np.maximum(lam[:MOST_BARS], 0.0) / lam.max()
    step = WIDTH / len(shown)
    bars = "".join(
        f"<rect x='{k * step + 0.15 * step:.1f}' y='{HEIGHT - h * (HEIGHT - 4):.1f}' "
        f"width='{0.7 * step:.1f}' height='{max(h * (HEIGHT - 4), 0.6):.1f}' "
        f"fill='currentColor' fill-opacity='{0.85 if k < kept else 0.25}'/>"
        for k, h in enumerate(shown)
    )
    more = f", {len(shown)} shown" if len(shown) < len(lam) else ""
    text = (
        f"Scree plot: {len(lam)} eigenvalues{more}, from {lam[0]:.3g} down to {lam[-1]:.3g}; "
        f"{kept} component{'s' if kept != 1 else ''} kept (dark)"
    )
    if lam[0] <= lam[-1]:
        text = f"Eigenvalues, rising: {len(lam)}{more}, from {lam[0]:.3g} to {lam[-1]:.3g}"
    return _image(bars, text, "scree")


def mini_trace(estimator: Any) -> str:
    """The objective over the steps as a line: an SVG, empty where there are none."""
    trace = getattr(_inner(estimator), "trace_", None)
    if trace is None or len(trace) < 2:
        return ""
    value = objective_of(_inner(estimator))
    kept = np.unique(np.linspace(0, len(value) - 1, 120).round().astype(int))
    low, high = float(np.min(value)), float(np.max(value))
    if not np.isfinite(low) or not np.isfinite(high):
        return ""
    size = (high - low) or 1.0
    x = kept / max(len(value) - 1, 1) * (WIDTH - 6) + 3
    y = HEIGHT - 4 - (value[kept] - low) / size * (HEIGHT - 10)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    drawn = (
        f"<polyline points='{line}' fill='none' stroke='currentColor' stroke-width='1.6' "
        f"stroke-opacity='.85'/><circle cx='{x[-1]:.1f}' cy='{y[-1]:.1f}' r='2.6' "
        "fill='currentColor'/>"
    )
    converged = getattr(_inner(estimator), "converged_", None)
    if has_stopped_early(estimator):
        converged = None
    state = "" if converged is None else ", converged" if converged else ", not converged"
    text = f"Objective over {len(value)} steps{state}: from {value[0]:.5g} to {value[-1]:.5g}"
    return _image(drawn, text, "convergence")


def _image(drawn: str, text: str, caption: str) -> str:
    text = escape(text, quote=True)
    return (
        "<figure style='margin:0;font-family:system-ui,sans-serif;font-size:12px'>"
        f"<svg role='img' aria-label='{text}' width='{WIDTH}' height='{HEIGHT + 2}' "
        f"viewBox='0 0 {WIDTH} {HEIGHT + 2}' xmlns='http://www.w3.org/2000/svg'>"
        f"<title>{text}</title>{drawn}"
        f"<line x1='0' y1='{HEIGHT + 1}' x2='{WIDTH}' y2='{HEIGHT + 1}' stroke='currentColor' "
        f"stroke-opacity='.4'/></svg><figcaption>{escape(caption)}</figcaption></figure>"
    )


def _eigenvalues(model: Any) -> tuple[Any, int]:
    spectrum = getattr(model, "spectrum_", None)
    found: Sequence[float] | Any = getattr(spectrum, "lam", None)
    for name in ("eigenvalues_", "explained_variance_"):
        found = getattr(model, name, None) if found is None else found
    lam = np.atleast_1d(np.asarray([] if found is None else found, dtype=float))
    q = getattr(model, "n_components_", len(lam))
    return lam, int(q) if np.ndim(q) == 0 else len(lam)


def _without_components(summary: Summary) -> Summary:
    return Summary(summary.name, summary.facts, warnings=summary.warnings)
