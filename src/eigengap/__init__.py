"""PCA, its probabilistic family and related methods, for data with missing values.

Estimators, functions and the few values that users write down are public here, and loaded when
first used, so that `import eigengap` costs nothing. Errors and warnings are in
`eigengap.exceptions`, charts in `eigengap.plots`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap import exceptions, plots
    from eigengap.comparison.compare import compare
    from eigengap.comparison.embedding import (
        continuity,
        embedding_quality,
        neighbour_recall,
        residual_variance,
        trustworthiness,
    )
    from eigengap.comparison.likelihood_ratio import likelihood_ratio_test
    from eigengap.comparison.procrustes import align, procrustes_distance
    from eigengap.estimators.autoencoder import Autoencoder
    from eigengap.estimators.bayesian_pca import BayesianPCA
    from eigengap.estimators.classical_mds import ClassicalMDS
    from eigengap.estimators.classifier import PPCAClassifier
    from eigengap.estimators.factor_analysis import FactorAnalysis
    from eigengap.estimators.gplvm import GPLVM
    from eigengap.estimators.ica import ICA
    from eigengap.estimators.imputer import LowRankImputer
    from eigengap.estimators.intervals import confidence_intervals
    from eigengap.estimators.isomap import Isomap
    from eigengap.estimators.kernel_pca import KernelPCA
    from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps
    from eigengap.estimators.mixture_ppca import MixturePPCA
    from eigengap.estimators.novelty import NoveltyDetector
    from eigengap.estimators.pca import PCA
    from eigengap.estimators.ppca import PPCA
    from eigengap.estimators.regressor import PPCARegressor
    from eigengap.estimators.structure_preserving import StructurePreservingEmbedding
    from eigengap.estimators.unfolding import MaximumVarianceUnfolding
    from eigengap.estimators.whitener import Whitener
    from eigengap.images.denoising import denoise_image
    from eigengap.images.inpainting import inpaint_image
    from eigengap.inference.pooling import pool
    from eigengap.matrices.approximation import low_rank
    from eigengap.matrices.decomposition import pinv, svd
    from eigengap.models.gaussian.linear_gaussian import LinearGaussian
    from eigengap.persistence.checkpoint import Checkpoint
    from eigengap.persistence.model_file import load, save
    from eigengap.reporting import report
    from eigengap.selection.rank.choose import choose_rank
    from eigengap.sources.opening import open_source
    from eigengap.sources.sinks import open_sink
    from eigengap.sources.streaming import stream

__version__ = "0.1.0"

__all__ = [
    "GPLVM",
    "ICA",
    "PCA",
    "PPCA",
    "Autoencoder",
    "BayesianPCA",
    "Checkpoint",
    "ClassicalMDS",
    "FactorAnalysis",
    "Isomap",
    "KernelPCA",
    "LaplacianEigenmaps",
    "LinearGaussian",
    "LowRankImputer",
    "MaximumVarianceUnfolding",
    "MixturePPCA",
    "NoveltyDetector",
    "PPCAClassifier",
    "PPCARegressor",
    "StructurePreservingEmbedding",
    "Whitener",
    "align",
    "choose_rank",
    "compare",
    "confidence_intervals",
    "continuity",
    "denoise_image",
    "embedding_quality",
    "exceptions",
    "inpaint_image",
    "likelihood_ratio_test",
    "load",
    "low_rank",
    "neighbour_recall",
    "open_sink",
    "open_source",
    "pinv",
    "plots",
    "pool",
    "procrustes_distance",
    "report",
    "residual_variance",
    "save",
    "stream",
    "svd",
    "trustworthiness",
]

_HOME = {
    "Autoencoder": "eigengap.estimators.autoencoder",
    "BayesianPCA": "eigengap.estimators.bayesian_pca",
    "Checkpoint": "eigengap.persistence.checkpoint",
    "ClassicalMDS": "eigengap.estimators.classical_mds",
    "FactorAnalysis": "eigengap.estimators.factor_analysis",
    "GPLVM": "eigengap.estimators.gplvm",
    "ICA": "eigengap.estimators.ica",
    "Isomap": "eigengap.estimators.isomap",
    "KernelPCA": "eigengap.estimators.kernel_pca",
    "LaplacianEigenmaps": "eigengap.estimators.laplacian_eigenmaps",
    "LinearGaussian": "eigengap.models.gaussian.linear_gaussian",
    "LowRankImputer": "eigengap.estimators.imputer",
    "MaximumVarianceUnfolding": "eigengap.estimators.unfolding",
    "MixturePPCA": "eigengap.estimators.mixture_ppca",
    "NoveltyDetector": "eigengap.estimators.novelty",
    "PCA": "eigengap.estimators.pca",
    "PPCA": "eigengap.estimators.ppca",
    "PPCAClassifier": "eigengap.estimators.classifier",
    "PPCARegressor": "eigengap.estimators.regressor",
    "StructurePreservingEmbedding": "eigengap.estimators.structure_preserving",
    "Whitener": "eigengap.estimators.whitener",
    "align": "eigengap.comparison.procrustes",
    "choose_rank": "eigengap.selection.rank.choose",
    "compare": "eigengap.comparison.compare",
    "confidence_intervals": "eigengap.estimators.intervals",
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


def __getattr__(name: str) -> Any:
    """Load a public name from its home (PEP 562); the second time it is found without this."""
    if name in ("exceptions", "plots"):
        return import_module(f"eigengap.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'eigengap' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
