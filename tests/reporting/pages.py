"""A written report, taken apart by a parser that is not a browser; and names that attack it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}}{% raw %}",
    '"><svg onload=window.__pwned=1>',
    "javascript:alert(1)",
    "a.b[0]['c']\\",
    "constructor",
    "x" * 10_000,
    "<!--<script>",
    "line\nbreak\u2028\u202eturned",
)


class Parsed(HTMLParser):
    """Tags, attributes, texts, and what stands inside scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self._raw: list[Any] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._raw = [tag, dict(attrs), ""] if tag in ("script", "style") else None

    def handle_endtag(self, tag: str) -> None:
        if self._raw is not None and tag == self._raw[0]:
            self.inside.append(tuple(self._raw))
            self._raw = None

    def handle_data(self, data: str) -> None:
        if self._raw is not None:
            self._raw[2] += data
        elif data.strip():
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(next(text for _, a, text in self.inside if a.get("id") == "data"))

    def attribute(self, tag: str, **given: str) -> dict[str, str | None]:
        return next(
            a for t, a in self.tags if t == tag and all(a.get(k) == v for k, v in given.items())
        )
