"""What a report is made of: sections of sentences, figures and tables, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A chart with its finding in words, for those who do not see it and those who do."""

    id: str
    title: str
    finding: str
    spec: dict[str, Any] = field(default_factory=dict)  # Vega-Lite
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...] = ()  # columns set flush right
    note: str = ""


@dataclass(frozen=True)
class Fact:
    """A number large enough to be read from across the room."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One part of the page; `left_out` says why it is empty where it is."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    warnings: tuple[str, ...] = ()  # what a reader must know before believing the rest
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    beside: tuple[Grid, ...] = ()  # narrow tables among the figures
    left_out: str = ""
    verdict: str = ""  # a sentence for the glance
