"""How an estimator shows itself: charts, a summary, and its display in notebooks.

A summary is a small value that a terminal and a notebook can show. Nothing is computed for it:
facts are read off the fitted attributes of whatever estimator it is.

A fitted estimator is displayed by scikit-learn's diagram with its parameters, followed by its
summary, a small scree plot and the objective at each step. The images are written by hand: they
need no package, take the colours of the page, and can be read aloud. In a terminal `repr` is
scikit-learn's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.parameters import complete
from eigengap.linalg import Array
from eigengap.registry import ESTIMATORS, entry_of, names_with
from eigengap.sources import named_columns, show
from eigengap.spectrum import Spectrum
from eigengap.wording import listed, words

MOST_COMPONENTS = 12  # in a table
MOST_NUMBERS = 8  # in a line
MOST_BARS = 16  # of a small scree plot
MOST_POINTS = 120  # of a small trace
WIDTH, HEIGHT = 190, 74  # of a small image, in pixels

HEADS = ("component", "variance", "share, %", "together, %")


class Component(NamedTuple):
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

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (name, f"{variance:.4g}", f"{share:.1f}", f"{together:.1f}")
            for name, variance, share, together in self.components
        ]

    def __str__(self) -> str:
        wide = max([len(key) for key, _ in self.facts], default=0)
        lines = [self.name, *(f"  {key:<{wide}}  {text}" for key, text in self.facts)]
        if self.components:
            rows = [HEADS, *self._cells()]
            first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
            lines.append("")
            for name, *numbers in rows:
                aligned = [n.rjust(w) for n, w in zip(numbers, others, strict=True)]
                lines.append("  " + "  ".join([name.ljust(first), *aligned]))
            lines += [f"  and {self.more} more"] if self.more else []
        return "\n".join([*lines, *(f"  ! {caution}" for caution in self.warnings)])

    __repr__ = __str__

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
            f"{self._html_components()}{cautions}</div>"
        )

    def _html_components(self) -> str:
        if not self.components:
            return ""
        cell = "text-align:right;padding:1px .8em"
        head = "".join(f"<th scope='col' style='{cell};font-weight:500'>{h}</th>" for h in HEADS)
        body = "".join(
            "<tr>" + "".join(f"<td style='{cell}'>{escape(text)}</td>" for text in row) + "</tr>"
            for row in self._cells()
        )
        more = f"<tr><td colspan='4' style='{cell}'>and {self.more} more</td></tr>"
        return (
            "<table style='border-collapse:collapse;margin:.3em 0'>"
            f"<thead><tr>{head}</tr></thead>"
            f"<tbody>{body}{more if self.more else ''}</tbody></table>"
        )


def public_name(estimator: Any) -> str:
    """What users call the class of an estimator; a class of our own may stand for another."""
    return str(getattr(type(estimator), "_public_name", type(estimator).__name__))


def summary_of(estimator: Any) -> Summary:
    """The facts of a fitted estimator."""
    model = inner(estimator)
    variance = getattr(model, "explained_variance_", None)
    share = getattr(model, "explained_variance_ratio_", None)
    components: list[Component] = []
    if variance is not None and share is not None and len(variance) == len(share):
        names = (f"{getattr(model, '_prefix', 'PC')}{k + 1}" for k in range(len(share)))
        columns = (np.asarray(variance), 100 * np.asarray(share), 100 * np.cumsum(share))
        components = list(map(Component, names, *(map(float, values) for values in columns)))
    listing = tuple(components[:MOST_COMPONENTS])
    more = len(components) - len(listing)
    facts, warnings = tuple(_facts(estimator, model)), tuple(cautions(estimator))
    return Summary(public_name(estimator), facts, listing, more, warnings)


def inner(estimator: Any) -> Any:
    """The model inside a detector, an imputer or a regressor; any other estimator itself."""
    found = getattr(estimator, "estimator_", None)
    return estimator if found is None else inner(found)


# Facts -----------------------------------------------------------------------------------------

# Attributes: how good the fit is, and parameters that it has chosen.
QUALITIES = {
    "elbo_": "evidence lower bound",
    "log_likelihood_": "log-likelihood",
    "bound_": "bound on the log-likelihood",
    "loss_": "loss",
    "residual_variance_": "residual variance of the distances",
    "goodness_of_fit_": "goodness of fit",
    "constraint_violation_": "worst violation of a distance",
}
CHOSEN = {"n_neighbors_": "neighbours", "gamma_": "gamma"}


def _facts(estimator: Any, model: Any) -> Iterator[tuple[str, str]]:
    def found(name: str) -> Any:
        return getattr(model, name, None)

    yield "fitted to", _table_size(estimator)
    if model is not estimator:
        yield "model", public_name(model)
    if (q := found("n_components_")) is not None:
        yield "components", ", ".join(map(str, q)) if isinstance(q, tuple) else str(q)
    for choice in (found("rank_choice_"), getattr(estimator, "choice_", None)):
        if choice is not None:
            yield "chosen", str(choice.summary)
    if found("scale_") is not None and found("scale"):
        yield "units", "columns divided by their standard deviations"
    if (share := found("explained_variance_ratio_")) is not None and len(share):
        yield "explained", f"{100 * float(np.sum(share)):.1f} % of the variance{_of_what(model)}"
    if (noise := found("noise_variance_")) is not None:
        low, high = float(np.min(noise)), float(np.max(noise))
        one = np.ndim(noise) == 0
        yield "noise variance", f"{low:.4g}" if one else f"from {low:.3g} to {high:.3g}"
    if np.isfinite(freedom := getattr(model, "degrees_of_freedom_", np.inf)):
        yield "Student noise", f"{freedom:.3g} degrees of freedom"
    for name, label in QUALITIES.items():
        if (value := found(name)) is not None:
            yield label, ", ".join(f"{v:.5g}" for v in np.atleast_1d(value))
    yield from _particular(estimator)
    if (trace := found("trace_")) is not None and len(trace) == 0:
        yield "fit", "in closed form"
    elif (steps := found("n_iter_")) is not None:
        text = f"{int(steps):,} step{'s' if steps != 1 else ''}"
        if (converged := found("converged_")) is not None:
            early = has_stopped_early(estimator)
            unfinished = ", stopped early on purpose" if early else ", NOT converged"
            text += ", converged" if converged else unfinished
        yield "fit", text


def _of_what(model: Any) -> str:
    """Whose variance the components explain, where it is not that of the columns themselves."""
    if getattr(model, "table_", None) is None:
        return ""
    words = " of the Gaussian variables behind the columns"
    if {"binary", "nominal"}.isdisjoint(getattr(model, "kinds_", {}).values()):
        return words
    return f"{words}; the scale of those behind binary and nominal ones is a convention"


def _particular(estimator: Any) -> Iterator[tuple[str, str]]:
    if hasattr(estimator, "kinds_"):
        kinds = Counter(estimator.kinds_.values())
        yield "kinds", ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        table = getattr(inner(estimator), "table_", None)  # None of a model of numbers
        for name, why in ({} if table is None else table.ignored()).items():
            yield "ignored", f"column {show(name)}: {why}"
    if hasattr(estimator, "classes_"):
        yield "classes", listed([show(label) for label in estimator.classes_])
    observed = _observed(estimator)
    if hasattr(estimator, "n_targets_") and observed is not None:
        known = ", ".join(_many(w) for w in observed[-estimator.n_targets_ :][:5])
        yield "targets", f"{estimator.n_targets_}, known in {known} rows"
    if hasattr(estimator, "n_mixture_"):
        weights = listed([f"{w:.2f}" for w in estimator.weights_], MOST_NUMBERS)
        yield "mixture", f"{estimator.n_mixture_} components of weight {weights}"
    if hasattr(estimator, "non_gaussianity_"):
        shown = ", ".join(f"{v:.2f}" for v in estimator.non_gaussianity_[:MOST_NUMBERS])
        more = len(estimator.non_gaussianity_) > MOST_NUMBERS
        yield "non-Gaussianity", shown + (", …" if more else "")
    for name, label in CHOSEN.items():
        value = getattr(estimator, name, None)
        if isinstance(value, int | float | np.number):
            yield label, f"{value:.4g}"
    if hasattr(estimator, "offset_") and hasattr(estimator, "alpha"):
        yield "flags", f"rows with p < {float(np.exp(estimator.offset_)):.3g}"


def _table_size(estimator: Any) -> str:
    d = int(getattr(estimator, "n_features_in_", 0))
    rows, observed = _rows(estimator), _observed(estimator)
    size = f"{d:,} column{'s' if d != 1 else ''}"
    if rows is None:
        return size
    size = f"{_many(rows)} rows × {size}"
    if observed is None:
        return size
    missing = float(np.sum(rows - observed[:d]))
    if missing < 0.5:
        return f"{size}, none of their cells missing"
    return f"{size}, {_many(missing)} cells missing ({100 * missing / (rows * d):.3g} %)"


def _models(estimator: Any) -> list[Any]:
    """The fitted models of an estimator: a classifier has one for each class."""
    return [inner(model) for model in getattr(estimator, "models_", [estimator])]


def _rows(estimator: Any) -> float | None:
    """Rows of the fit, by weight, where the estimator has kept their number."""
    rows = 0.0
    for model in _models(estimator):
        spectrum = getattr(model, "spectrum_", None)
        if isinstance(spectrum, Spectrum):
            rows += float(spectrum.sum_w)
        elif hasattr(model, "component_rows_"):
            rows += float(np.sum(model.component_rows_))
        elif hasattr(model, "embedding_"):
            rows += float(len(model.embedding_))
        else:
            return None
    return rows


def _observed(estimator: Any) -> Array | None:
    """(d,) weight of the rows in which each column is observed; a regressor's targets come last."""
    patterns: list[Any] = []
    for model in _models(estimator):
        found = getattr(model, "evidence_", None)
        patterns += found if isinstance(found, tuple) else [found]  # a mixture has several
    if any(pattern is None for pattern in patterns):
        return None
    return np.sum([pattern.observed_w for pattern in patterns], axis=0)


def _many(count: float) -> str:
    """A number of rows or cells, which weights may have made no whole one."""
    return f"{count:,.0f}" if abs(count - round(count)) < 1e-6 * max(count, 1) else f"{count:,.6g}"


def cautions(estimator: Any) -> Iterator[str]:
    """What makes the numbers of a fit mean less than they seem to."""
    model = inner(estimator)
    if not getattr(model, "converged_", True) and not has_stopped_early(estimator):
        yield (
            f"the fit did not converge: raise {words().parameter('max_iter')}, "
            f"or {words().parameter('tol')}"
        )
    height = getattr(model, "log_likelihood_", None)
    if height is not None and np.ndim(height) == 0 and height == np.inf:
        yield "the likelihood has no bound: no noise is left besides the components"
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
    """Columns by name where these are known; beyond those of X there are a regressor's targets.

    Of columns of several kinds they are the variables behind them.
    """
    table = getattr(inner(estimator), "table_", None)
    names = getattr(estimator, "feature_names_in_", None)
    if table is not None and (table.names is not None or names is None):
        return named_columns(table.underlying_names, at)
    if table is not None:  # of bare numbers, fitted inside: one variable for each
        at = [table.used[j] for j in at]
    d = int(estimator.n_features_in_)
    features, targets = [j for j in at if j < d], [j - d for j in at if j >= d]
    known = None if names is None else list(map(str, names))
    parts = [named_columns(known, features)] if features else []
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
            if name in entry_of(self._estimator).charts:
                raise AttributeError(
                    f"the chart {name!r} is of numbers, and this {type(self._estimator).__name__} "
                    "was fitted to columns of several kinds; explain(X) names unexpected cells of "
                    "any kind"
                )
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


OF_NUMBERS = ("mixture", "novelty")  # charts that fits to columns of several kinds lack


def charts_of(estimator: Any) -> tuple[str, ...]:
    """Names of the charts that an estimator has, sorted."""
    lacks = OF_NUMBERS if getattr(inner(estimator), "table_", None) is not None else ()
    return tuple(sorted(set(entry_of(estimator).charts).difference(lacks)))


require_fitted = check_is_fitted  # for charts, which do not know scikit-learn


# Notebooks -------------------------------------------------------------------------------------


class Shown:
    """`plot`, `summary()` and the display in notebooks; completes docstrings."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("eigengap."):
            complete(cls)

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
        for image in (_scree(inner(estimator)), _trace(estimator))
        if image
    )
    facts = replace(summary_of(estimator), components=(), more=0)
    return (
        "<div class='eigengap-repr' style='display:flex;flex-wrap:wrap;gap:1.2em 2em;"
        f"margin-top:.8em;align-items:flex-start'>{facts._repr_html_()}"
        f"<div style='display:flex;gap:1.2em'>{images}</div></div>"
    )


def _scree(model: Any) -> str:
    """The eigenvalues as bars: an SVG, empty where there are none."""
    found = getattr(getattr(model, "spectrum_", None), "lam", None)
    for name in ("eigenvalues_", "explained_variance_"):
        found = getattr(model, name, None) if found is None else found
    lam = np.atleast_1d(np.asarray([] if found is None else found, dtype=float))
    if len(lam) < 2 or not np.all(np.isfinite(lam)) or lam.max() <= 0.0:
        return ""
    q = getattr(model, "n_components_", len(lam))
    kept = int(q) if np.ndim(q) == 0 else len(lam)
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


def _trace(estimator: Any) -> str:
    """The objective over the steps as a line: an SVG, empty where there are none."""
    model = inner(estimator)
    trace = getattr(model, "trace_", None)
    if trace is None or len(trace) < 2:
        return ""
    value = objective_of(model)
    if not np.all(np.isfinite(value)):
        return ""
    kept = np.unique(np.linspace(0, len(value) - 1, MOST_POINTS).round().astype(int))
    low, size = float(np.min(value)), float(np.ptp(value)) or 1.0
    x = kept / (len(value) - 1) * (WIDTH - 6) + 3
    y = HEIGHT - 4 - (value[kept] - low) / size * (HEIGHT - 10)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    drawn = (
        f"<polyline points='{line}' fill='none' stroke='currentColor' stroke-width='1.6' "
        f"stroke-opacity='.85'/><circle cx='{x[-1]:.1f}' cy='{y[-1]:.1f}' r='2.6' "
        "fill='currentColor'/>"
    )
    converged = None if has_stopped_early(estimator) else getattr(model, "converged_", None)
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
