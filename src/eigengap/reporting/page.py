"""The page: templates, styles, scripts and data as one HTML file that asks nobody for anything.

A strict policy stands in its head: nothing is loaded from anywhere, and only the page's own style
and scripts, known by their SHA-256, count. Vega runs its expressions by an interpreter, so that
`eval` stays forbidden. Should a name from a user's file ever become markup, it would still be dead.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

import eigengap
from eigengap.extras import MissingExtraError
from eigengap.reporting import theme
from eigengap.reporting.bundle import SCHEMA, vega
from eigengap.reporting.samples import ELLIPSES, Samples
from eigengap.reporting.section import Section
from eigengap.reporting.words import MINUS, NARROW

SCRIPTS = ("charts", "scores", "rows", "start")
LOCALE = {
    "decimal": ".",
    "thousands": NARROW,
    "grouping": [3],
    "currency": ["", ""],
    "minus": MINUS,
}

# In JSON and in scripts: what could end the element, or begin a comment in it. The two separators
# are new lines to some parsers of JavaScript.
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


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
    for text in (bundle, script, css):
        if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
            raise RuntimeError("a script or style of the report would end its own element")
    return _template().render(
        policy=policy(scripts=(bundle, script), style=css),
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


def policy(scripts: Sequence[str], style: str) -> str:
    """The Content-Security-Policy: nothing, but these scripts and this style."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'sha256-{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def escaped_json(value: Any) -> str:
    """JSON that no parser of HTML takes for anything else.

    >>> escaped_json({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter, escape in ESCAPES.items():
        text = text.replace(letter, escape)
    return text.encode("utf-8", "replace").decode()


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


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


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
