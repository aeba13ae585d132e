"""A chart as a page of its own, and what keeps foreign text in a page from being run.

Names of columns and categories come from users' files. JSON inside a script is escaped, so that no
name can end the script; and a policy in the head of the page lets only the page's own scripts run,
known by their SHA-256, and loads nothing from anywhere.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

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
