"""Light and dark, and files: PNG, SVG, HTML and JSON, without a browser.

Names of columns and categories come from users' files. JSON inside a script of a page is escaped,
so that no name can end the script; and a policy in the head of the page lets only the page's own
scripts run, known by their SHA-256, and loads nothing from anywhere.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from eigengap.exceptions import MissingExtraError
from eigengap.persistence.atomic import require_writable, write_atomically
from eigengap.plots.palette import configuration

SUFFIXES = (".png", ".svg", ".html", ".json")
# In JSON and in scripts: what could end the element, or begin a comment in it. The two separators
# are new lines to some parsers of JavaScript.
ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}

# The interpreter (ast) evaluates Vega's expressions without eval, which the policy forbids. "View
# source" and the editor would hand the specification to pages without this policy.
DRAW = """
const spec = JSON.parse(document.getElementById("spec").textContent);
const actions = {export: true, source: false, compiled: false, editor: false};
vegaEmbed("#chart", spec, {mode: "vega-lite", renderer: "svg", ast: true, actions})
  .catch(console.error);
"""


def theme(chart: Any, dark: bool = False) -> Any:
    """The chart in eigengap's light or dark theme.

    Parameters
    ----------
    chart : altair chart
        Any; those of eigengap are in the light theme already.
    dark : bool, default=False

    Returns
    -------
    altair chart
        A copy; the one given is as it was.

    Examples
    --------
    >>> from eigengap import PPCA
    >>> from eigengap.plots.theme import theme
    >>> from sklearn.datasets import load_iris
    >>> chart = PPCA(2).fit(load_iris().data).plot.scree()
    >>> theme(chart, dark=True).to_dict()["config"]["background"]
    '#14181d'
    """
    from eigengap.plots._altair import alt

    copied = chart.copy(deep=False)
    copied.config = alt.Config(**configuration(dark))
    return copied


def save(chart: Any, path: Any, *, dark: bool | None = None, scale: float = 2) -> Path:
    """Write a chart to a file, whose suffix gives the format: .png, .svg, .html or .json.

    Parameters
    ----------
    chart : altair chart
    path : str or path-like
        Replaced if it is there, as a whole or not at all.
    dark : bool, default=None
        Whether to draw it in the dark theme; None leaves the chart in the theme that it has, as
        after `theme(chart, dark=True)`, and one without any becomes light.
    scale : float, default=2
        Of a PNG: pixels for each point.

    Returns
    -------
    Path

    Notes
    -----
    HTML holds all that it needs and opens without a network; names of columns cannot run in it, and
    its Content-Security-Policy allows no script but its own. JSON is the Vega-Lite specification.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from eigengap import PPCA
    >>> from eigengap.plots.theme import save
    >>> from sklearn.datasets import load_iris
    >>> chart = PPCA(2).fit(load_iris().data).plot.scree()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(chart, Path(folder) / "scree.svg").read_text()[:4]
    '<svg'
    """
    target = Path(os.fspath(path))
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{target.name!r} does not name a format: its name has to end in "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        )
    if not scale > 0:
        raise ValueError(f"scale, the pixels for each point, must be positive, got {scale!r}")
    require_writable(target)
    from eigengap.plots._altair import alt

    has_theme = getattr(chart, "config", alt.Undefined) is not alt.Undefined
    themed = chart if dark is None and has_theme else theme(chart, bool(dark))
    write_atomically(target, rendered(themed, suffix, scale))
    return target


def rendered(chart: Any, suffix: str, scale: float = 2) -> bytes:
    """The bytes of a file of this kind."""
    spec = chart.to_dict()
    if suffix == ".json":
        return json.dumps(spec, indent=1).encode()
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("writing images", "vl-convert-python", "cli") from error
    from eigengap.plots._altair import alt

    # The version of Vega-Lite that Altair writes, or the newest that can be drawn.
    written = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    version = written if written in known else known[-1]
    if suffix == ".html":
        bundle = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
        return chart_page(spec, str(bundle)).encode()
    how: dict[str, Any] = {"vl_version": version, "allowed_base_urls": []}  # nothing is fetched
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec, **how)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=scale, ppi=72, **how))


# A chart as a page of its own ------------------------------------------------------------------


def chart_page(spec: dict[str, Any], bundle: str) -> str:
    """An HTML page that draws a Vega-Lite specification by `bundle`, the script of Vega-Embed."""
    require_closed(bundle)
    # Vega-Embed adds its styles as elements; a style without url() can neither run nor load.
    rules = policy((bundle, DRAW), "'unsafe-inline'") + "; img-src data: blob:"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="referrer" content="no-referrer">
<title>Chart</title>
<script>{bundle}</script>
</head>
<body>
<div id="chart"></div>
<script type="application/json" id="spec">{escaped_json(spec)}</script>
<script>{DRAW}</script>
</body>
</html>
"""


def policy(scripts: Sequence[str], style: str) -> str:
    """A Content-Security-Policy that allows nothing but these scripts and this source of style."""
    hashes = " ".join(source_of(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src {style}; "
        "base-uri 'none'; form-action 'none'"
    )


def source_of(text: str) -> str:
    """How a policy names an inline script or style: by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def escaped_json(value: Any) -> str:
    """JSON that no parser of HTML takes for anything else.

    >>> escaped_json({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter, escape in ESCAPES.items():
        text = text.replace(letter, escape)
    return text.encode("utf-8", "replace").decode()


def require_closed(*texts: str) -> None:
    """Refuse a script or style of our own that would end its element before its end."""
    for text in texts:
        if "</script" in text.lower() or "</style" in text.lower() or "<!--" in text:
            raise RuntimeError("a script or style of the page would end its own element")
