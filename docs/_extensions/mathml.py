"""Equations as MathML, by docutils' own converter.

Every current browser sets MathML by itself, so that pages need no script, no font and no network;
GitHub sets the same dollar signs with its own renderer.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import accents, tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import SphinxError

_XMLNS = ' xmlns="http://www.w3.org/1998/Math/MathML"'
_NAMED = re.compile(r"&(?!lt;|gt;|amp;|quot;)\w+;")  # entities of HTML that XML lacks


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}


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
    tree = ET.fromstring(_NAMED.sub(lambda m: html.unescape(m[0]), mathml.replace(_XMLNS, "", 1)))
    _beside(tree)
    for bar in tree.iter("mo"):
        if bar.text in ("|", "‖"):  # around a value: of one length, and close to it
            bar.attrib.update(stretchy="false", lspace="0", rspace="0")
    tree.set("xmlns", "http://www.w3.org/1998/Math/MathML")
    written = ET.tostring(tree, encoding="unicode", short_empty_elements=False)
    return re.sub(r">\s+<", "><", written)  # spaces between tags would show in some browsers


def _beside(node: ET.Element) -> None:
    """Docutils sets the i of {\\hat x}_i below the x: put it at the foot, where an index stands."""
    for child in node:
        _beside(child)
    if node.tag == "munderover" and node[2].tag == "mo" and node[2].text in accents.values():
        base, below, accent = node
        letter = ET.Element("mover", accent="true")
        letter.extend((base, accent))
        node.tag, node[:] = "msub", (letter, below)
    if node.tag == "msup" and node[0].tag == "msub" and node[0][0].tag == "mover":
        (letter, below), above = node
        node.tag, node[:] = "msubsup", (letter, below, above)
