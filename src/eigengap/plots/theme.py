"""Light and dark, and files: PNG, SVG, HTML and JSON, without a browser."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from eigengap.exceptions import MissingExtraError
from eigengap.persistence.atomic import require_writable, write_atomically
from eigengap.plots.page import chart_page
from eigengap.plots.palette import configuration

SUFFIXES = (".png", ".svg", ".html", ".json")


def theme(chart: Any, dark: bool = False) -> Any:
    """The chart in eigengap's light or dark theme.

    Parameters
    ----------
    chart : altair chart
        Any; those of eigengap are in the light theme already.
    dark : bool, default=False

    Returns
    -------
    altair chart
        A copy; the one given is as it was.

    Examples
    --------
    >>> from eigengap import PPCA
    >>> from eigengap.plots.theme import theme
    >>> from sklearn.datasets import load_iris
    >>> chart = PPCA(2).fit(load_iris().data).plot.scree()
    >>> theme(chart, dark=True).to_dict()["config"]["background"]
    '#14181d'
    """
    from eigengap.plots._altair import alt

    copied = chart.copy(deep=False)
    copied.config = alt.Config(**configuration(dark))
    return copied


def save(chart: Any, path: Any, *, dark: bool | None = None, scale: float = 2) -> Path:
    """Write a chart to a file; what it is the name says: .png, .svg, .html or .json.

    Parameters
    ----------
    chart : altair chart
    path : str or path-like
        Replaced if it is there, as a whole or not at all.
    dark : bool, default=None
        Whether to draw it in the dark theme; None leaves the chart in the theme that it has, as
        after `theme(chart, dark=True)`, and one without any becomes light.
    scale : float, default=2
        Of a PNG: pixels for each point.

    Returns
    -------
    Path

    Notes
    -----
    HTML holds all that it needs and opens without a network; names of columns cannot run in it, and
    its Content-Security-Policy allows no script but its own. JSON is the Vega-Lite specification.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from eigengap import PPCA
    >>> from eigengap.plots.theme import save
    >>> from sklearn.datasets import load_iris
    >>> chart = PPCA(2).fit(load_iris().data).plot.scree()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(chart, Path(folder) / "scree.svg").read_text()[:4]
    '<svg'
    """
    target = Path(os.fspath(path))
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{target.name!r} does not say what to write: its name has to end in "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        )
    if not scale > 0:
        raise ValueError(f"scale, the pixels for each point, must be positive, got {scale!r}")
    require_writable(target)
    from eigengap.plots._altair import alt

    has_theme = getattr(chart, "config", alt.Undefined) is not alt.Undefined
    themed = chart if dark is None and has_theme else theme(chart, bool(dark))
    write_atomically(target, rendered(themed, suffix, scale))
    return target


def rendered(chart: Any, suffix: str, scale: float = 2) -> bytes:
    """The bytes of a file of this kind."""
    spec = chart.to_dict()
    if suffix == ".json":
        return json.dumps(spec, indent=1).encode()
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("writing images", "vl-convert-python", "cli") from error
    from eigengap.plots._altair import alt

    # The version of Vega-Lite that Altair writes, or the newest that can be drawn.
    written = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    version = written if written in known else known[-1]
    if suffix == ".html":
        bundle = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
        return chart_page(spec, str(bundle)).encode()
    how: dict[str, Any] = {"vl_version": version, "allowed_base_urls": []}  # nothing is fetched
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(spec, **how)).encode()
    return bytes(vl_convert.vegalite_to_png(spec, scale=scale, ppi=72, **how))
