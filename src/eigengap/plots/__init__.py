"""Charts of fitted estimators, with Altair: for notebooks, reports and printed pages.

Every function takes a fitted estimator, and the table where it is needed, and returns an Altair
chart; `estimator.plot` has those that mean something for it. `save` writes PNG, SVG, HTML and JSON.
The numbers behind the charts are in `eigengap.plots.numbers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap.plots.biplot_chart import biplot
    from eigengap.plots.circle_chart import correlation_circle
    from eigengap.plots.fill_charts import imputation
    from eigengap.plots.gap_chart import missingness
    from eigengap.plots.mixture_chart import mixture
    from eigengap.plots.noise_edge import spectrum
    from eigengap.plots.novelty_chart import novelty
    from eigengap.plots.rank_curves import rank_criteria
    from eigengap.plots.score_chart import scores
    from eigengap.plots.spectra import scree
    from eigengap.plots.step_chart import trace
    from eigengap.plots.theme import save
    from eigengap.plots.variable_charts import contributions, cos2

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
    "biplot": "biplot_chart",
    "contributions": "variable_charts",
    "correlation_circle": "circle_chart",
    "cos2": "variable_charts",
    "imputation": "fill_charts",
    "missingness": "gap_chart",
    "mixture": "mixture_chart",
    "novelty": "novelty_chart",
    "rank_criteria": "rank_curves",
    "save": "theme",
    "scores": "score_chart",
    "scree": "spectra",
    "spectrum": "noise_edge",
    "trace": "step_chart",
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
