"""Links from docs/ to the rest of the repository, written as GitHub needs them.

`../benchmarks/results/results.md` and the like have a page here that includes them; source files
are handed over as downloads, which MyST does by itself.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

PAGES = {
    "benchmarks/results/results.md": "/project/benchmarks.md",
    "CHANGELOG.md": "/project/changelog.md",
    "CONTRIBUTING.md": "/project/contributing.md",
}
_LINK = re.compile(r"\]\((?:\.\./)+([\w./-]+\.md)(#[\w-]+)?\)")
_HOME = re.compile(r"\]\(docs/([\w./-]+\.md)(#[\w-]+)?\)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _rewrite)
    app.connect("include-read", lambda app, path, doc, source: _rewrite_included(source))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _LINK.sub(_page, source[0])


def _rewrite_included(source: list[str]) -> None:
    """A file of the repository's root speaks of docs/ and of its neighbours."""
    source[0] = _HOME.sub(lambda m: f"](/{m[1]}{m[2] or ''})", source[0])
    source[0] = re.sub(r"\]\(([A-Z]+\.md)\)", lambda m: f"]({PAGES.get(m[1], m[1])})", source[0])


def _page(match: re.Match[str]) -> str:
    page = PAGES.get(match[1])
    return match[0] if page is None else f"]({page}{match[2] or ''})"
