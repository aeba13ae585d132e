"""Equations as MathML, by docutils' own converter.

Every current browser sets MathML by itself, so that pages need no script, no font and no network;
GitHub sets the same dollar signs with its own renderer.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math-block">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    tex = node.astext()
    try:
        mathml = tex2mathml(tex, as_block=as_block)
    except MathError as error:
        raise SphinxError(f"{node.source}: {error} in {tex!r}") from error
    # Entities of HTML that MathML shares; spaces between tags would show in some browsers.
    return re.sub(r">\s+<", "><", mathml)
