"""The folder for files that can be made again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path | None:
    """eigengap's cache folder (EIGENGAP_CACHE_DIR, or the user's); None without a home folder."""
    given = os.environ.get("EIGENGAP_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if base:
        return Path(base) / "eigengap"
    try:
        home = Path.home()
    except RuntimeError:  # a container without HOME and without an entry for the user
        return None
    parts = {"win32": ("AppData", "Local"), "darwin": ("Library", "Caches")}
    return home.joinpath(*parts.get(sys.platform, (".cache",)), "eigengap")
