"""What every estimator shows of itself: charts, a summary, and how a notebook displays it.

A fitted estimator is displayed by scikit-learn's diagram with its parameters, followed by what was
fitted, a small scree plot and the way of the objective to its end. The pictures are written by
hand: they need no package, take the colours of the page, and can be read aloud. In a terminal
`repr` is scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._plot import Plots
from eigengap.estimators._summary import (
    Summary,
    _inner,
    has_stopped_early,
    objective_of,
    public_name,
    summary_of,
)

MOST_BARS = 16
WIDTH, HEIGHT = 190, 74


class Shown:
    """`plot`, `summary()` and the display in notebooks."""

    @property
    def plot(self) -> Plots:
        """Charts of the fitted estimator: `estimator.plot.scree()` and others; needs Altair."""
        return Plots(self)

    def summary(self) -> Summary:
        """What was fitted: rows, columns, gaps, components, noise, convergence.

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
    pictures = "".join(
        f"<div style='flex:none'>{picture}</div>"
        for picture in (mini_scree(estimator), mini_trace(estimator))
        if picture
    )
    return (
        "<div class='eigengap-repr' style='display:flex;flex-wrap:wrap;gap:1.2em 2em;"
        "margin-top:.8em;align-items:flex-start'>"
        f"{_without_components(summary_of(estimator))._repr_html_()}"
        f"<div style='display:flex;gap:1.2em'>{pictures}</div></div>"
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
    told = (
        f"Scree plot: {len(lam)} eigenvalues{more}, from {lam[0]:.3g} down to {lam[-1]:.3g}; "
        f"{kept} component{'s' if kept != 1 else ''} kept (dark)"
    )
    if lam[0] <= lam[-1]:
        told = f"Eigenvalues, rising: {len(lam)}{more}, from {lam[0]:.3g} to {lam[-1]:.3g}"
    return _picture(bars, told, "scree")


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
    told = f"Objective over {len(value)} steps{state}: from {value[0]:.5g} to {value[-1]:.5g}"
    return _picture(drawn, told, "convergence")


def _picture(drawn: str, told: str, caption: str) -> str:
    text = escape(told, quote=True)
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
