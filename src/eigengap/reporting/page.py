"""The page: templates, styles, scripts and data as one HTML file that loads nothing else.

A strict policy stands in its head: nothing is loaded from anywhere, and only the page's own style
and scripts, known by their SHA-256, count. Vega runs its expressions by an interpreter, so that
`eval` stays forbidden. Should a name from a user's file ever become markup, it would still be dead.

Vega, Vega-Lite and Vega-Embed are one script in the page. vl-convert has them, and bundles them in
some five seconds. What it has bundled is kept in the user's cache for the next report, with its
checksum; a cache that cannot be read or written costs those seconds again and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.metadata import version
from typing import Any

import eigengap
from eigengap.exceptions import MissingExtraError
from eigengap.persistence.atomic import write_atomically
from eigengap.plots.palette import DARK, FONT, LIGHT, SHAPES, Ink, axis_of, legend_of
from eigengap.plots.theme import escaped_json, policy, require_closed, source_of
from eigengap.reporting.sections.samples import ELLIPSES, Samples
from eigengap.reporting.specs import Section
from eigengap.reporting.words import MINUS, NARROW
from eigengap.runtime.user_cache import user_cache

SCRIPTS = ("charts", "scores", "rows", "start")
LOCALE = {"decimal": ".", "thousands": NARROW, "grouping": [3], "minus": MINUS}
VEGA_LITE = "6.1"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is fetched
# Rows of numbers and colours that a scale runs through; it has to be visible on white and on black.
RAMP = ("#3b4cc0", "#2a7ab8", "#22a08f", "#7fbf4d", "#e8c338")
GLYPHS = ("●", "■", "▲", "◆", "✚", "▼")  # of the first shapes
KINDS = [f"var(--k{k + 1})" for k in range(len(LIGHT.category))]  # colours of the categories


def page(
    sections: Sequence[Section], samples: Samples, *, title: str, subtitle: str, created: str
) -> str:
    """The whole file as text."""
    from markupsafe import Markup  # text of our own, not to be escaped

    css = _stylesheet() + _static("report.css")
    # The page's own script, of several files that share their names and no others.
    parts = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    bundle, script = vega(), f'(() => {{\n"use strict";\n{parts}}})();'
    require_closed(bundle, script, css)
    return _template().render(
        policy=policy((bundle, script), source_of(css)),
        version=eigengap.__version__,
        title=title,
        subtitle=subtitle,
        created=created,
        sections=sections,
        samples=samples,
        css=Markup(css),
        vega=Markup(bundle),
        script=Markup(script),
        data=Markup(escaped_json(_data(sections, samples))),
    )


def _data(sections: Sequence[Section], samples: Samples) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "config": _config(),
        "charts": {
            f"chart-{figure.id}": figure.spec for section in sections for figure in section.figures
        },
        "rows": samples.rows,
        "finding": " ".join(samples.section.words),
        "kinds": KINDS,
        "shapes": list(SHAPES[: len(GLYPHS)]),
        "glyphs": list(GLYPHS),
        "ramp": list(RAMP),
        "ellipses": ELLIPSES,
        "locale": {**LOCALE, "currency": ["", ""]},  # Vega asks for one
    }


def _static(name: str) -> str:
    return (resources.files("eigengap.reporting") / "static" / name).read_text(encoding="utf-8")


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


# Vega ------------------------------------------------------------------------------------------


def vega() -> str:
    """The script of Vega, from the cache or bundled now."""
    try:
        maker = f"vl-convert-{version('vl-convert-python')}"
    except ModuleNotFoundError:
        raise MissingExtraError("the report", "vl-convert-python", "cli") from None
    folder = user_cache()
    if folder is None:
        return bundled()
    kept = folder / f"vega-lite-{VEGA_LITE}-{maker}.js"
    with suppress(OSError, UnicodeDecodeError):
        digest, _, script = kept.read_text(encoding="utf-8").partition("\n")
        if digest == _digest(script):  # it is whole
            return script
    script = bundled()
    with suppress(OSError):  # a home that is read-only, a full disk: no cache then
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, f"{_digest(script)}\n{script}".encode())
    return script


def bundled() -> str:
    """The script that the installed vl-convert makes."""
    import vl_convert

    return str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))  # type: ignore[call-arg]


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()


# The colours of the charts as variables of the page: light, dark, and paper --------------------


def _stylesheet() -> str:
    """Variables for both themes, and the classes of the categories."""
    light, dark = (_declared(ink) for ink in (LIGHT, DARK))
    dark = f"color-scheme:dark;{dark}--card:#1a2027;--edge:#717d8a;--link:#7cc4f0"
    kinds = "".join(f".k{k + 1}{{color:{kind}}}" for k, kind in enumerate(KINDS))
    return (
        f":root{{{light}--card:#fafbfc;--edge:#8a94a0;--link:#005f99}}"
        "@media screen and (prefers-color-scheme:dark){:root:not([data-theme=light]){"
        f"{dark}}}}}@media screen{{:root[data-theme=dark]{{{dark}}}}}{kinds}"
    )


def _declared(ink: Ink) -> str:
    named = {
        "paper" if name == "background" else name: colour
        for name, colour in ink._asdict().items()
        if isinstance(colour, str)
    }
    named |= {f"k{k + 1}": colour for k, colour in enumerate(ink.category)}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())


def _config() -> dict[str, Any]:
    """Vega-Lite's configuration in the page's variables."""
    inks: dict[str, Any] = {name: f"var(--{name})" for name in Ink._fields}
    ink = Ink(**inks)
    return {
        "background": None,
        # Descriptions of marks would be expressions with foreign titles in them; the element around
        # a chart describes it in words.
        "aria": False,
        "font": FONT,
        "padding": 2,
        "view": {"stroke": None},
        "axis": {**axis_of(ink), "labelLimit": 150, "labelOverlap": "greedy"},
        "axisY": {"titleLimit": 420},
        "axisBand": {"grid": False, "ticks": False, "domain": False},
        "legend": {**legend_of(ink), "orient": "top"},
        "range": {"category": KINDS},
        "text": {"color": ink.text, "fontSize": 11.5, "font": FONT},
    }
