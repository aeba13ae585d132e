"""PCA, its probabilistic family and the classics beside it, for data with holes.

Public names are loaded when first used, so that `import eigengap` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap.comparison.compare import Comparison, compare
    from eigengap.comparison.embedding import (
        EmbeddingQuality,
        continuity,
        embedding_quality,
        neighbour_recall,
        residual_variance,
        trustworthiness,
    )
    from eigengap.comparison.likelihood_ratio import LikelihoodRatioTest, likelihood_ratio_test
    from eigengap.comparison.procrustes import Alignment, align, procrustes_distance
    from eigengap.estimators._base import (
        ConstantColumnWarning,
        FewCellsWarning,
        ForgottenCellSdWarning,
        NoiseFloorWarning,
        UnboundedLikelihoodWarning,
        UnitsWarning,
        UnlinkedColumnsWarning,
    )
    from eigengap.estimators._manifold import DisconnectedWarning, UncertainNeighboursWarning
    from eigengap.estimators._noise import HeavyTailsWarning
    from eigengap.estimators._partial import ContinuedFitWarning, LostDigitsWarning
    from eigengap.estimators._whole import SampledWarning
    from eigengap.estimators.autoencoder import Autoencoder
    from eigengap.estimators.bayesian_pca import BayesianPCA
    from eigengap.estimators.classical_mds import ClassicalMDS, NegativeEigenvaluesWarning
    from eigengap.estimators.classifier import PPCAClassifier
    from eigengap.estimators.factor_analysis import FactorAnalysis, HeywoodWarning
    from eigengap.estimators.gplvm import GPLVM
    from eigengap.estimators.ica import ICA, GaussianComponentsWarning, NotWhiteWarning
    from eigengap.estimators.imputer import LowRankImputer
    from eigengap.estimators.intervals import confidence_intervals
    from eigengap.estimators.isomap import Isomap
    from eigengap.estimators.kernel_pca import KernelPCA, KernelWarning
    from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps
    from eigengap.estimators.mixture_ppca import DroppedComponentWarning, MixturePPCA
    from eigengap.estimators.novelty import NoveltyDetector
    from eigengap.estimators.pca import PCA
    from eigengap.estimators.ppca import PPCA
    from eigengap.estimators.regressor import PPCARegressor
    from eigengap.estimators.structure_preserving import (
        StructurePreservingEmbedding,
        StructureWarning,
    )
    from eigengap.estimators.unfolding import MaximumVarianceUnfolding
    from eigengap.estimators.whitener import RankDeficientWarning, Whitener
    from eigengap.fitting.gaussian.whitening import RankError
    from eigengap.fitting.graph.neighbourhood import DisconnectedError
    from eigengap.fitting.ica.whitening import NoSignalError
    from eigengap.images.denoising import denoise_image
    from eigengap.images.impulses import WildEntriesWarning
    from eigengap.images.inpainting import inpaint_image
    from eigengap.images.restored import Restored
    from eigengap.inference.intervals import Intervals
    from eigengap.inference.pooling import Pooled, pool
    from eigengap.matrices.approximation import LowRank, low_rank
    from eigengap.matrices.decomposition import SVD, svd
    from eigengap.matrices.pseudo_inverse import pinv
    from eigengap.models.gaussian.bayesian import BayesianLinearGaussian
    from eigengap.models.gaussian.linear_gaussian import LinearGaussian, SingularModelError
    from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
    from eigengap.models.gaussian.posterior import Posterior
    from eigengap.models.gaussian.predictive import Predictive
    from eigengap.models.gaussian.student import StudentLinearGaussian
    from eigengap.models.gp.gaussian_process import GaussianProcesses
    from eigengap.models.maps.affine import AffineMap
    from eigengap.models.maps.distances import GowerMap
    from eigengap.models.maps.eigenmap import Eigenmap
    from eigengap.models.maps.geodesic import GeodesicMap
    from eigengap.models.maps.graph import Graph
    from eigengap.models.maps.landmark import LandmarkMap
    from eigengap.models.network.autoencoder import Network
    from eigengap.persistence.checkpoint import (
        Checkpoint,
        CheckpointMismatchError,
        CheckpointWarning,
    )
    from eigengap.persistence.encoding import UnsavableError
    from eigengap.persistence.model_file import ModelFacts, load, save
    from eigengap.persistence.tensors import CorruptFileError, NewerFormatError
    from eigengap.reporting import report
    from eigengap.runtime.extras import MissingExtraError
    from eigengap.runtime.memory import DoesNotFitError
    from eigengap.selection.rank.choice import RankChoice
    from eigengap.selection.rank.choose import choose_rank
    from eigengap.sources.dask import ClusterError
    from eigengap.sources.fields.reader import RereadWarning
    from eigengap.sources.fields.table import FieldSource
    from eigengap.sources.opening import PartitionColumnWarning, open_source
    from eigengap.sources.reader import UnreadableError
    from eigengap.sources.sentinels import SentinelWarning
    from eigengap.sources.sinks import open_sink
    from eigengap.sources.streaming import stream
    from eigengap.spectrum import Spectrum

__version__ = "0.1.0"

__all__ = [
    "GPLVM",
    "ICA",
    "PCA",
    "PPCA",
    "SVD",
    "AffineMap",
    "Alignment",
    "Autoencoder",
    "BayesianLinearGaussian",
    "BayesianPCA",
    "Checkpoint",
    "CheckpointMismatchError",
    "CheckpointWarning",
    "ClassicalMDS",
    "ClusterError",
    "Comparison",
    "ConstantColumnWarning",
    "ContinuedFitWarning",
    "CorruptFileError",
    "DisconnectedError",
    "DisconnectedWarning",
    "DoesNotFitError",
    "DroppedComponentWarning",
    "Eigenmap",
    "EmbeddingQuality",
    "FactorAnalysis",
    "FewCellsWarning",
    "FieldSource",
    "ForgottenCellSdWarning",
    "GaussianComponentsWarning",
    "GaussianProcesses",
    "GeodesicMap",
    "GowerMap",
    "Graph",
    "HeavyTailsWarning",
    "HeywoodWarning",
    "Intervals",
    "Isomap",
    "KernelPCA",
    "KernelWarning",
    "LandmarkMap",
    "LaplacianEigenmaps",
    "LikelihoodRatioTest",
    "LinearGaussian",
    "LostDigitsWarning",
    "LowRank",
    "LowRankImputer",
    "MaximumVarianceUnfolding",
    "MissingExtraError",
    "MixtureOfLinearGaussians",
    "MixturePPCA",
    "ModelFacts",
    "NegativeEigenvaluesWarning",
    "Network",
    "NewerFormatError",
    "NoSignalError",
    "NoiseFloorWarning",
    "NotWhiteWarning",
    "NoveltyDetector",
    "PPCAClassifier",
    "PPCARegressor",
    "PartitionColumnWarning",
    "Pooled",
    "Posterior",
    "Predictive",
    "RankChoice",
    "RankDeficientWarning",
    "RankError",
    "RereadWarning",
    "Restored",
    "SampledWarning",
    "SentinelWarning",
    "SingularModelError",
    "Spectrum",
    "StructurePreservingEmbedding",
    "StructureWarning",
    "StudentLinearGaussian",
    "UnboundedLikelihoodWarning",
    "UncertainNeighboursWarning",
    "UnitsWarning",
    "UnlinkedColumnsWarning",
    "UnreadableError",
    "UnsavableError",
    "Whitener",
    "WildEntriesWarning",
    "align",
    "choose_rank",
    "compare",
    "confidence_intervals",
    "continuity",
    "denoise_image",
    "embedding_quality",
    "inpaint_image",
    "likelihood_ratio_test",
    "load",
    "low_rank",
    "neighbour_recall",
    "open_sink",
    "open_source",
    "pinv",
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
    "AffineMap": "eigengap.models.maps.affine",
    "Alignment": "eigengap.comparison.procrustes",
    "Autoencoder": "eigengap.estimators.autoencoder",
    "BayesianLinearGaussian": "eigengap.models.gaussian.bayesian",
    "BayesianPCA": "eigengap.estimators.bayesian_pca",
    "Checkpoint": "eigengap.persistence.checkpoint",
    "CheckpointMismatchError": "eigengap.persistence.checkpoint",
    "CheckpointWarning": "eigengap.persistence.checkpoint",
    "ConstantColumnWarning": "eigengap.estimators._base",
    "ClassicalMDS": "eigengap.estimators.classical_mds",
    "ClusterError": "eigengap.sources.dask",
    "Comparison": "eigengap.comparison.compare",
    "ContinuedFitWarning": "eigengap.estimators._partial",
    "CorruptFileError": "eigengap.persistence.tensors",
    "DisconnectedError": "eigengap.fitting.graph.neighbourhood",
    "DisconnectedWarning": "eigengap.estimators._manifold",
    "DoesNotFitError": "eigengap.runtime.memory",
    "DroppedComponentWarning": "eigengap.estimators.mixture_ppca",
    "Eigenmap": "eigengap.models.maps.eigenmap",
    "EmbeddingQuality": "eigengap.comparison.embedding",
    "FactorAnalysis": "eigengap.estimators.factor_analysis",
    "FewCellsWarning": "eigengap.estimators._base",
    "FieldSource": "eigengap.sources.fields.table",
    "ForgottenCellSdWarning": "eigengap.estimators._base",
    "GPLVM": "eigengap.estimators.gplvm",
    "GaussianComponentsWarning": "eigengap.estimators.ica",
    "GaussianProcesses": "eigengap.models.gp.gaussian_process",
    "GeodesicMap": "eigengap.models.maps.geodesic",
    "GowerMap": "eigengap.models.maps.distances",
    "Graph": "eigengap.models.maps.graph",
    "HeavyTailsWarning": "eigengap.estimators._noise",
    "HeywoodWarning": "eigengap.estimators.factor_analysis",
    "ICA": "eigengap.estimators.ica",
    "Intervals": "eigengap.inference.intervals",
    "Isomap": "eigengap.estimators.isomap",
    "KernelPCA": "eigengap.estimators.kernel_pca",
    "KernelWarning": "eigengap.estimators.kernel_pca",
    "LandmarkMap": "eigengap.models.maps.landmark",
    "LaplacianEigenmaps": "eigengap.estimators.laplacian_eigenmaps",
    "LikelihoodRatioTest": "eigengap.comparison.likelihood_ratio",
    "LinearGaussian": "eigengap.models.gaussian.linear_gaussian",
    "LostDigitsWarning": "eigengap.estimators._partial",
    "LowRank": "eigengap.matrices.approximation",
    "LowRankImputer": "eigengap.estimators.imputer",
    "MaximumVarianceUnfolding": "eigengap.estimators.unfolding",
    "MissingExtraError": "eigengap.runtime.extras",
    "MixtureOfLinearGaussians": "eigengap.models.gaussian.mixture",
    "MixturePPCA": "eigengap.estimators.mixture_ppca",
    "ModelFacts": "eigengap.persistence.model_file",
    "NegativeEigenvaluesWarning": "eigengap.estimators.classical_mds",
    "Network": "eigengap.models.network.autoencoder",
    "NewerFormatError": "eigengap.persistence.tensors",
    "NoSignalError": "eigengap.fitting.ica.whitening",
    "NoiseFloorWarning": "eigengap.estimators._base",
    "NotWhiteWarning": "eigengap.estimators.ica",
    "NoveltyDetector": "eigengap.estimators.novelty",
    "PCA": "eigengap.estimators.pca",
    "PPCA": "eigengap.estimators.ppca",
    "PPCAClassifier": "eigengap.estimators.classifier",
    "PPCARegressor": "eigengap.estimators.regressor",
    "PartitionColumnWarning": "eigengap.sources.opening",
    "Pooled": "eigengap.inference.pooling",
    "Posterior": "eigengap.models.gaussian.posterior",
    "Predictive": "eigengap.models.gaussian.predictive",
    "RankChoice": "eigengap.selection.rank.choice",
    "RankDeficientWarning": "eigengap.estimators.whitener",
    "RankError": "eigengap.fitting.gaussian.whitening",
    "RereadWarning": "eigengap.sources.fields.reader",
    "Restored": "eigengap.images.restored",
    "SVD": "eigengap.matrices.decomposition",
    "SampledWarning": "eigengap.estimators._whole",
    "SentinelWarning": "eigengap.sources.sentinels",
    "SingularModelError": "eigengap.models.gaussian.linear_gaussian",
    "Spectrum": "eigengap.spectrum",
    "StructurePreservingEmbedding": "eigengap.estimators.structure_preserving",
    "StructureWarning": "eigengap.estimators.structure_preserving",
    "StudentLinearGaussian": "eigengap.models.gaussian.student",
    "UnboundedLikelihoodWarning": "eigengap.estimators._base",
    "UncertainNeighboursWarning": "eigengap.estimators._manifold",
    "UnitsWarning": "eigengap.estimators._base",
    "UnlinkedColumnsWarning": "eigengap.estimators._base",
    "UnreadableError": "eigengap.sources.reader",
    "UnsavableError": "eigengap.persistence.encoding",
    "Whitener": "eigengap.estimators.whitener",
    "WildEntriesWarning": "eigengap.images.impulses",
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
    "pinv": "eigengap.matrices.pseudo_inverse",
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
    if name == "plots":  # a room whose functions are public under its own name
        return import_module("eigengap.plots")
    if name not in _HOME:
        raise AttributeError(f"module 'eigengap' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "plots"])
