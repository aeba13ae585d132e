"""Charts of fitted estimators, with Altair: for notebooks, reports and printed pages.

Every function takes a fitted estimator, and the table where it is needed, and returns an Altair
chart; `estimator.plot` has those that mean something for it. `save` writes PNG, SVG, HTML and JSON.
The numbers behind the charts are in `eigengap.plots.numbers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap.plots.charts.fit import novelty as novelty
    from eigengap.plots.charts.fit import rank_criteria as rank_criteria
    from eigengap.plots.charts.fit import trace as trace
    from eigengap.plots.charts.missing import imputation as imputation
    from eigengap.plots.charts.missing import missingness as missingness
    from eigengap.plots.charts.overview import overview as overview
    from eigengap.plots.charts.scores import mixture as mixture
    from eigengap.plots.charts.scores import scores as scores
    from eigengap.plots.charts.spectra import scree as scree
    from eigengap.plots.charts.spectra import spectrum as spectrum
    from eigengap.plots.charts.variables import biplot as biplot
    from eigengap.plots.charts.variables import contributions as contributions
    from eigengap.plots.charts.variables import correlation_circle as correlation_circle
    from eigengap.plots.charts.variables import cos2 as cos2
    from eigengap.plots.theme import save as save

_CHARTS = {
    "charts.fit": ("novelty", "rank_criteria", "trace"),
    "charts.missing": ("imputation", "missingness"),
    "charts.overview": ("overview",),
    "charts.scores": ("mixture", "scores"),
    "charts.spectra": ("scree", "spectrum"),
    "charts.variables": ("biplot", "contributions", "correlation_circle", "cos2"),
    "theme": ("save",),
}
_HOME = {name: home for home, names in _CHARTS.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a chart when it is first asked for, and Altair with it."""
    if name not in _HOME:
        raise AttributeError(f"module 'eigengap.plots' has no attribute {name!r}")
    value = getattr(import_module(f"eigengap.plots.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
