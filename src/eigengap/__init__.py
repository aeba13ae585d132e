"""PCA, its probabilistic family and related methods, for data with missing values.

Estimators, functions and the few values that users write down are public here, and loaded when
first used, so that `import eigengap` costs nothing. Errors and warnings are in
`eigengap.exceptions`, charts in `eigengap.plots`, kinds of columns in `eigengap.columns`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eigengap.registry import ESTIMATORS

if TYPE_CHECKING:
    from eigengap import columns as columns
    from eigengap import exceptions as exceptions
    from eigengap import plots as plots
    from eigengap.comparison.compare import compare as compare
    from eigengap.comparison.embedding import continuity as continuity
    from eigengap.comparison.embedding import embedding_quality as embedding_quality
    from eigengap.comparison.embedding import neighbour_recall as neighbour_recall
    from eigengap.comparison.embedding import residual_variance as residual_variance
    from eigengap.comparison.embedding import trustworthiness as trustworthiness
    from eigengap.comparison.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
    from eigengap.comparison.procrustes import align as align
    from eigengap.comparison.procrustes import procrustes_distance as procrustes_distance
    from eigengap.images.denoising import denoise_image as denoise_image
    from eigengap.images.inpainting import inpaint_image as inpaint_image
    from eigengap.inference.confidence import confidence_intervals as confidence_intervals
    from eigengap.inference.pooling import pool as pool
    from eigengap.matrices.approximation import low_rank as low_rank
    from eigengap.matrices.decomposition import pinv as pinv
    from eigengap.matrices.decomposition import svd as svd
    from eigengap.models.gaussian.linear_gaussian import LinearGaussian as LinearGaussian
    from eigengap.persistence.checkpoint import Checkpoint as Checkpoint
    from eigengap.persistence.model_file import load as load
    from eigengap.persistence.model_file import save as save
    from eigengap.plots.numbers.associations import associations as associations
    from eigengap.plots.numbers.overview import overview as overview
    from eigengap.registry import *  # noqa: F403, the estimators
    from eigengap.reporting import report as report
    from eigengap.selection.rank.choose import choose_rank as choose_rank
    from eigengap.sources.opening import open_source as open_source
    from eigengap.sources.sinks import open_sink as open_sink
    from eigengap.sources.streaming import stream as stream


__version__ = "0.1.0"

_HOME = {entry.name: entry.home for entry in ESTIMATORS} | {
    "Checkpoint": "eigengap.persistence.checkpoint",
    "LinearGaussian": "eigengap.models.gaussian.linear_gaussian",
    "align": "eigengap.comparison.procrustes",
    "associations": "eigengap.plots.numbers.associations",
    "choose_rank": "eigengap.selection.rank.choose",
    "compare": "eigengap.comparison.compare",
    "confidence_intervals": "eigengap.inference.confidence",
    "continuity": "eigengap.comparison.embedding",
    "denoise_image": "eigengap.images.denoising",
    "embedding_quality": "eigengap.comparison.embedding",
    "inpaint_image": "eigengap.images.inpainting",
    "likelihood_ratio_test": "eigengap.comparison.likelihood_ratio",
    "load": "eigengap.persistence.model_file",
    "low_rank": "eigengap.matrices.approximation",
    "neighbour_recall": "eigengap.comparison.embedding",
    "open_sink": "eigengap.sources.sinks",
    "open_source": "eigengap.sources.opening",
    "overview": "eigengap.plots.numbers.overview",
    "pinv": "eigengap.matrices.decomposition",
    "pool": "eigengap.inference.pooling",
    "procrustes_distance": "eigengap.comparison.procrustes",
    "report": "eigengap.reporting",
    "residual_variance": "eigengap.comparison.embedding",
    "save": "eigengap.persistence.model_file",
    "stream": "eigengap.sources.streaming",
    "svd": "eigengap.matrices.decomposition",
    "trustworthiness": "eigengap.comparison.embedding",
}
_MODULES = ("columns", "exceptions", "plots")  # public as modules
__all__ = sorted([*_HOME, *_MODULES])


def __getattr__(name: str) -> Any:
    """Load a public name from its home (PEP 562); the second time it is found without this."""
    if name in _MODULES:
        return import_module(f"eigengap.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'eigengap' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
