"""Altair, or words on how to get it."""

from __future__ import annotations

from eigengap.exceptions import MissingExtraError

try:
    import altair as alt
except ImportError as error:
    raise MissingExtraError("drawing plots", "altair", "cli") from error

__all__ = ["alt"]
