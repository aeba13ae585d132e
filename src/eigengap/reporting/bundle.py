"""Vega, Vega-Lite and Vega-Embed as one script, to be put into the page.

vl-convert has them and bundles them, in some five seconds; so what it made is kept beside this
file (static/vega.md). `python -m eigengap.reporting.bundle` makes it anew.
"""

from __future__ import annotations

import gzip
from importlib import resources

VEGA_LITE = "6.1"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name; nothing is fetched
KEPT = "vega.js.gz"


def vega() -> str:
    """The script that is kept."""
    packed = (resources.files("eigengap.reporting") / "static" / KEPT).read_bytes()
    return gzip.decompress(packed).decode()


def made_anew() -> str:
    """The script that the installed vl-convert bundles."""
    import vl_convert

    return str(vl_convert.javascript_bundle(vl_version=VEGA_LITE))  # type: ignore[call-arg]


def main() -> None:
    """Keep what vl-convert bundles now."""
    from pathlib import Path

    path = Path(__file__).parent / "static" / KEPT
    path.write_bytes(gzip.compress(made_anew().encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
