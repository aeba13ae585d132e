"""Where this user's programs keep what they can make again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path | None:
    """Our folder there; None where the user has no home. EIGENGAP_CACHE_DIR rules."""
    given = os.environ.get("EIGENGAP_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if base:
        return Path(base) / "eigengap"
    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry in the system's list of users: a container
        return None
    parts = {"win32": ("AppData", "Local"), "darwin": ("Library", "Caches")}
    return home.joinpath(*parts.get(sys.platform, (".cache",)), "eigengap")
