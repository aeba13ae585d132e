"""The page: templates, styles, scripts and data as one HTML file that asks nobody for anything.

A strict policy stands in its head: nothing is loaded from anywhere, and only the page's own style
and scripts, known by their SHA-256, count. Vega runs its expressions by an interpreter, so that
`eval` stays forbidden. Should a name from a user's file ever become markup, it would still be dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import eigengap
from eigengap.exceptions import MissingExtraError
from eigengap.plots.page import escaped_json, policy, require_closed, source_of
from eigengap.reporting.page import theme
from eigengap.reporting.page.bundle import SCHEMA, vega
from eigengap.reporting.sections.samples import ELLIPSES, Samples
from eigengap.reporting.sections.section import Section
from eigengap.reporting.words import MINUS, NARROW

SCRIPTS = ("charts", "scores", "rows", "start")
LOCALE = {
    "decimal": ".",
    "thousands": NARROW,
    "grouping": [3],
    "currency": ["", ""],
    "minus": MINUS,
}


def page(
    sections: Sequence[Section],
    samples: Samples | None,
    *,
    title: str,
    subtitle: str,
    created: str,
) -> str:
    """The whole file as text."""
    css = theme.stylesheet() + _static("report.css")
    bundle, script = vega(), own_script()
    require_closed(bundle, script, css)
    return _template().render(
        policy=policy((bundle, script), source_of(css)),
        version=eigengap.__version__,
        title=title,
        subtitle=subtitle,
        created=created,
        sections=sections,
        css=_safe(css),
        vega=_safe(bundle),
        script=_safe(script),
        data=_safe(escaped_json(_data(sections, samples))),
        glance_note="" if samples is None else samples.glance,
        n_axes=0 if samples is None else len(samples.rows["axes"]),
        scores_note="" if samples is None else samples.note,
        features_note="" if samples is None else samples.features_note,
        rows_caption="" if samples is None else samples.caption,
    )


def own_script() -> str:
    """The page's own script, of several files that share their names and nobody else's."""
    parts = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'


def _data(sections: Sequence[Section], samples: Samples | None) -> dict[str, Any]:
    charts = {
        f"chart-{figure.id}": figure.spec for section in sections for figure in section.figures
    }
    found = next((part for part in sections if part.id == "samples"), None)
    return {
        "schema": SCHEMA,
        "config": theme.config(),
        "charts": charts,
        "rows": None if samples is None else samples.rows,
        "finding": " ".join(found.words) if found is not None else "",
        "kinds": theme.kinds(),
        "shapes": list(theme.SHAPES),
        "glyphs": list(theme.GLYPHS),
        "ramp": list(theme.RAMP),
        "ellipses": ELLIPSES,
        "locale": LOCALE,
    }


def _static(name: str) -> str:
    return (resources.files("eigengap.reporting") / "static" / name).read_text(encoding="utf-8")


def _safe(text: str) -> Any:
    """Text of our own, not to be escaped."""
    from markupsafe import Markup

    return Markup(text)


@cache
def _template() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("the report", "jinja2", "cli") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("eigengap.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("report.html.j2")
