"""Vega, Vega-Lite and Vega-Embed as one script, to be put into the page.

vl-convert has them, and bundles them in some five seconds. What it has bundled is kept in the
user's cache for the next report, with its checksum; a cache that cannot be read or written costs
those seconds again and nothing else.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from eigengap.exceptions import MissingExtraError
from eigengap.persistence.atomic import write_atomically
from eigengap.runtime.user_cache import user_cache

VEGA_LITE = "6.1"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is fetched


def vega() -> str:
    """The script, from the cache or bundled now."""
    try:
        maker = f"vl-convert-{version('vl-convert-python')}"
    except ModuleNotFoundError:
        raise MissingExtraError("the report", "vl-convert-python", "cli") from None
    folder = user_cache()
    if folder is None:
        return bundled()
    kept = folder / f"vega-lite-{VEGA_LITE}-{maker}.js"
    found = _read(kept)
    if found is None:
        found = bundled()
        with suppress(OSError):  # a home that is read-only, a full disk: no cache then
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(kept, f"{_digest(found)}\n{found}".encode())
    return found


def bundled() -> str:
    """The script that the installed vl-convert makes."""
    import vl_convert

    return str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))  # type: ignore[call-arg]


def _read(path: Path) -> str | None:
    """What was kept, if it is whole."""
    try:
        digest, _, script = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return script if digest == _digest(script) else None


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
