"""The role behind single backticks, and the promise that every public name is in the reference.

Docstrings write `PCA` and `X`; the first becomes a link to its page, the second plain code.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError

import eigengap
import eigengap.columns
import eigengap.exceptions
import eigengap.images
import eigengap.plots

ROOMS = ("columns", "exceptions", "images", "plots")  # public as modules
# Results and models are listed with their modules; pages call them by the class alone.
_PAGE = (Path(__file__).parents[1] / "api.rst.in").read_text(encoding="utf-8")
DOTTED = {
    name.rpartition(".")[2]: name
    for name in re.findall(r"^   ([a-z_]+(?:\.\w+)+)$", _PAGE, flags=re.M)
    if not name.startswith(("images.", "plots."))
}
PUBLIC = frozenset([*eigengap.__all__, *eigengap.images.__all__, *ROOMS, *DOTTED])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_role("eigengap-name", _role)
    app.connect("builder-inited", _complete, priority=100)  # before the gallery is run
    app.connect("source-read", _module_in_title)
    app.connect("doctree-read", _link_literals)
    app.connect("missing-reference", _nearest)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _plain, priority=900)  # after numpydoc
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """`PCA`, `eigengap.PCA` and `PCA.fit` as links where they are public; anything else as code."""
    return [_linked(nodes.literal(rawtext, text))], []


def _linked(code: nodes.literal) -> nodes.Node:
    short = re.sub(r"\(.*\)$", "", code.astext().removeprefix("eigengap.").removeprefix("eg."))
    first, dot, rest = short.partition(".")
    if first not in PUBLIC or not re.fullmatch(r"[\w.]+", short):
        return code
    short = DOTTED.get(first, first) + dot + rest
    return addnodes.pending_xref(
        code.rawsource,
        code,
        refdomain="py",
        reftype="obj",
        reftarget=f"eigengap.{short}",
        refexplicit=True,
        guessed=True,
    )


def _nearest(app: Sphinx, env: Any, node: addnodes.pending_xref, code: nodes.Node) -> Any:
    """`PCA.mean_` has no entry of its own: the class tells of it. Else it stays plain code."""
    if not node.get("guessed"):
        return None
    name = node["reftarget"].removeprefix("eigengap.")
    page = node.get("refdoc", env.docname)
    domain = env.get_domain("py")
    for target in (f"eigengap.images.{name}", f"eigengap.{name.rpartition('.')[0]}"):
        found = domain.resolve_xref(env, page, app.builder, "obj", target, node, code)
        if found is not None:
            return found
    return code


def _link_literals(app: Sphinx, doctree: nodes.document) -> None:
    """In Markdown pages too: code that is a public name, outside titles and links."""
    barred = (nodes.reference, nodes.title, addnodes.pending_xref, nodes.comment)
    for code in list(doctree.findall(nodes.literal)):
        around, inside = code.parent, False
        while around is not None and not inside:
            inside, around = isinstance(around, barred), around.parent
        if not inside and type(code) is nodes.literal and "download" not in code["classes"]:
            code.replace_self(_linked(code.deepcopy()))


def _module_in_title(app: Sphinx, docname: str, source: list[str]) -> None:
    """The page of plots.save is called that, beside that of save."""
    if found := re.fullmatch(r"auto_api/eigengap\.(\w+\.\w+)", docname):
        title = found[1].replace("_", r"\_")
        body = re.sub(r"\A.+\n=+\n", "", source[0])
        source[0] = f"{title}\n{'=' * len(title)}\n{body}"


def _complete(app: Sphinx) -> None:
    """Fail where api.rst leaves out a public name, or has one that is gone."""
    page = (app.srcdir / "api.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (?:eigengap\.)?(?:images\.)?([\w.]+)$", page, flags=re.M))
    public = {*eigengap.__all__, *eigengap.images.__all__} - set(ROOMS)
    public |= {f"plots.{name}" for name in eigengap.plots.__all__}
    public |= {f"exceptions.{n}" for n, c in vars(eigengap.exceptions).items() if _is_public(n, c)}
    if missing := sorted(public - listed):
        raise SphinxError(f"docs/api.rst does not list {', '.join(missing)}")
    if gone := sorted(name for name in listed - public if not _exists(name)):
        raise SphinxError(f"docs/api.rst lists {', '.join(gone)}, which are not public")


def _is_public(name: str, value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")


def _exists(name: str) -> bool:
    """Whether it is a class, listed with its module."""
    module, _, cls = name.rpartition(".")
    return bool(module) and hasattr(import_module(f"eigengap.{module}"), cls)


def _skip(app, what, name, obj, skip, options):
    """Leave out fields, which the class docstring tells, and requests for metadata."""
    if re.fullmatch(r"set_\w+_request", name) or not getattr(obj, "__doc__", None):
        return True
    return None


_UNDERSCORE = re.compile(r"(?<![`\\\w])([A-Za-z]\w*)_(?![\w`])")


def _plain(app, what, name, obj, options, lines) -> None:
    """Docstrings are written to be read as text: mean_ is a name, |x| a length, *.csv a pattern."""
    for k, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..", "+", "=")):
            continue
        parts = re.split(r"(``.*?``|`[^`]*`)", line)  # what stands in backticks is code already
        parts[::2] = [_escaped(part) for part in parts[::2]]
        lines[k] = "".join(parts)


def _escaped(text: str) -> str:
    text = re.sub(r"\bdocs/([\w-]+)\.md", r":doc:`/\1`", text)  # the page, by its title
    text = _UNDERSCORE.sub(r"\1\\_", text)
    text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return re.sub(r"(?<![*\\\w])\*(?=[\w.])(?!\w+\*)", r"\\*", text)
