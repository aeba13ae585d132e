"""What makes pages fit their width: which code boxes may wrap, and where code in tables may break.

Long lines of code and output wrap, by eigengap.css, and are copied as they are. Output in columns
keeps its lines and scrolls. Code in table cells breaks after punctuation and nowhere else.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_CELL = re.compile(r"<td\b.*?</td>", flags=re.S)
_CODE = re.compile(r'(?<=<span class="pre">)[^<]{16,}(?=</span>)')
_BREAK = re.compile(r"(?<=[\w;)\]])([(\[,=/])(?=.)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", _columns)
    app.connect("html-page-context", _breaks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _columns(app: Sphinx, doctree: nodes.document) -> None:
    for kind in (nodes.literal_block, nodes.doctest_block):
        for block in doctree.findall(kind):
            output = (x for x in block.astext().splitlines() if not x.startswith((">>>", "...")))
            if any(len(_GAP.findall(line)) > 1 for line in output):
                block["classes"].append("columns")


def _breaks(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    if "body" in context:
        context["body"] = _CELL.sub(lambda cell: _CODE.sub(_broken, cell[0]), context["body"])


def _broken(code: re.Match[str]) -> str:
    return _BREAK.sub(r"\1<wbr>", code[0])
