"""Charts of fitted estimators, with Altair: for notebooks, reports and printed pages.

Every function takes a fitted estimator, and the table where it is needed, and returns an Altair
chart; `estimator.plot` has those that mean something for it. `save` writes PNG, SVG, HTML and JSON.
The numbers behind the charts are in `eigengap.plots.numbers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap.plots.charts.biplot import biplot
    from eigengap.plots.charts.circle import correlation_circle
    from eigengap.plots.charts.imputed import imputation
    from eigengap.plots.charts.missing import missingness
    from eigengap.plots.charts.mixture import mixture
    from eigengap.plots.charts.noise_edge import spectrum
    from eigengap.plots.charts.novelty import novelty
    from eigengap.plots.charts.rank_curves import rank_criteria
    from eigengap.plots.charts.scores import scores
    from eigengap.plots.charts.spectra import scree
    from eigengap.plots.charts.steps import trace
    from eigengap.plots.charts.variables import contributions, cos2
    from eigengap.plots.theme import save

__all__ = [
    "biplot",
    "contributions",
    "correlation_circle",
    "cos2",
    "imputation",
    "missingness",
    "mixture",
    "novelty",
    "rank_criteria",
    "save",
    "scores",
    "scree",
    "spectrum",
    "trace",
]

_HOME = {
    "biplot": "charts.biplot",
    "contributions": "charts.variables",
    "correlation_circle": "charts.circle",
    "cos2": "charts.variables",
    "imputation": "charts.imputed",
    "missingness": "charts.missing",
    "mixture": "charts.mixture",
    "novelty": "charts.novelty",
    "rank_criteria": "charts.rank_curves",
    "save": "theme",
    "scores": "charts.scores",
    "scree": "charts.spectra",
    "spectrum": "charts.noise_edge",
    "trace": "charts.steps",
}


def __getattr__(name: str) -> Any:
    """Load a chart when it is first asked for, and Altair with it."""
    if name not in _HOME:
        raise AttributeError(f"module 'eigengap.plots' has no attribute {name!r}")
    value = getattr(import_module(f"eigengap.plots.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
