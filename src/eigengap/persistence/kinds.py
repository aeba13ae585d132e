"""What may stand in a model file: the one table of classes that a file can name.

A file says "linear_gaussian.LinearGaussian"; this table says which class that is. A name that is
not here is refused, so that no file can make the package load or call anything else. Classes lie in
rooms above this one too; they are loaded by name, and only by these names.

What a class may become later is thought of here. A field or parameter that is new has a default,
which files from before get. For any other change the kind gets another `upgrade`: a function from
the fields of version i, as they stand in the file, to those of version i + 1. A file whose kind has
a higher version than this table knows is refused as one of a later eigengap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

Fields = dict[str, Any]
Upgrade = Callable[[Fields], Fields]


@dataclass(frozen=True)
class Kind:
    """A class that a file may hold."""

    name: str  # in files; it stays when the class moves
    home: str  # module
    qualname: str
    upgrades: tuple[Upgrade, ...] = ()
    remade_from: tuple[str, ...] = ()  # the only fields that are kept, where `of` makes the rest

    @property
    def version(self) -> int:
        return 1 + len(self.upgrades)

    def load(self) -> type[Any]:
        found: type[Any] = getattr(import_module(self.home), self.qualname)
        return found


def _estimators() -> list[Kind]:
    homes = {
        "autoencoder": "Autoencoder",
        "bayesian_pca": "BayesianPCA",
        "classical_mds": "ClassicalMDS",
        "classifier": "PPCAClassifier",
        "factor_analysis": "FactorAnalysis",
        "gplvm": "GPLVM",
        "ica": "ICA",
        "imputer": "LowRankImputer",
        "isomap": "Isomap",
        "kernel_pca": "KernelPCA",
        "laplacian_eigenmaps": "LaplacianEigenmaps",
        "mixture_ppca": "MixturePPCA",
        "novelty": "NoveltyDetector",
        "pca": "PCA",
        "ppca": "PPCA",
        "regressor": "PPCARegressor",
        "structure_preserving": "StructurePreservingEmbedding",
        "unfolding": "MaximumVarianceUnfolding",
        "whitener": "Whitener",
        # Of our own making inside others: models that LowRankImputer tries.
        "_auto_models": "StoppedFactorAnalysis",
        "_column_means": "ColumnMeans",
    }
    return [Kind(name, f"eigengap.estimators.{home}", name) for home, name in homes.items()]


def _values() -> list[Kind]:
    homes = {
        "eigengap.spectrum": ["Spectrum"],
        "eigengap.imputation": ["ImputationChoice", "Trial"],
        "eigengap.models.affine": ["AffineMap"],
        "eigengap.models.bayesian": ["BayesianLinearGaussian"],
        "eigengap.models.columns": ["ColumnMap"],
        "eigengap.models.distances": ["AdditiveConstant", "GowerMap"],
        "eigengap.models.eigenmap": ["Eigenmap"],
        "eigengap.models.expected_kernel": ["ExpectedKernel"],
        "eigengap.models.gamma": ["Gammas"],
        "eigengap.models.gaussian_process": ["GaussianProcesses"],
        "eigengap.models.geodesic": ["GeodesicMap"],
        "eigengap.models.gp_kernels": ["Linear", "Matern32", "Matern52", "RBF", "Sum"],
        "eigengap.models.graph": ["Graph"],
        "eigengap.models.information": ["Evidence"],
        "eigengap.models.kernels": [
            "RBF",
            "Cosine",
            "Laplacian",
            "Linear",
            "Polynomial",
            "Precomputed",
            "Sigmoid",
        ],
        "eigengap.models.landmark": ["LandmarkMap"],
        "eigengap.models.linear_gaussian": ["LinearGaussian"],
        "eigengap.models.mixture": ["MixtureOfLinearGaussians"],
        "eigengap.models.network": ["Architecture", "Network"],
        "eigengap.models.perceptron": ["Perceptron"],
        "eigengap.models.reference": ["Reference"],
        "eigengap.models.student": ["StudentLinearGaussian"],
        "eigengap.rank.choice": ["Curve", "RankChoice"],
        "eigengap.statistics.expected": ["Expected"],
        "eigengap.statistics.maximise": ["Parameters"],
        "eigengap.statistics.moments": ["ColumnMoments", "ColumnRange", "Moments"],
        "eigengap.sources.base": ["Block"],
        "eigengap.sources.drawn": ["Drawn"],
        "eigengap.fitting.gplvm_start": ["Standard"],
        "eigengap.fitting.kernel": ["KernelFit"],
        "eigengap.fitting.laplacian": ["LaplacianFit"],
        "eigengap.fitting.laplacian_weights": ["EdgeWeights"],
        "eigengap.fitting.loop": ["Trace"],
        "eigengap.fitting.online": ["Stream"],
        "eigengap.fitting.online_em": ["Settled", "Units"],
        "eigengap.fitting.online_rows": ["Kept"],
        "eigengap.fitting.preimage": ["RidgePreimage"],
        "eigengap.fitting.rotation": ["Rotation"],
        "eigengap.fitting.signed_spectrum": ["SignedSpectrum"],
        "eigengap.fitting.structure": ["Structure"],
        "eigengap.fitting.whitening": ["Whitening"],
        "eigengap.estimators._distances": ["RowDistances"],
        "eigengap.estimators._neighbours": ["Search"],
        "eigengap.estimators._partial": ["_Batches"],
    }
    return [
        Kind(f"{home.rpartition('.')[2]}.{name}", home, name)
        for home, names in homes.items()
        for name in names
    ] + [
        # Trees and searches of other packages are grown again from the rows, to the same ones.
        Kind(
            "_neighbours.Neighbours",
            "eigengap.estimators._neighbours",
            "Neighbours",
            remade_from=("search", "rows"),
        )
    ]


ESTIMATORS = MappingProxyType({kind.name: kind for kind in _estimators()})
VALUES = MappingProxyType({kind.name: kind for kind in _values()})
_BY_CLASS = {(k.home, k.qualname): k for k in (*ESTIMATORS.values(), *VALUES.values())}


def kind_of(cls: type[Any]) -> Kind | None:
    """The kind of a class; None of one that files do not hold, a subclass of a kind included."""
    return _BY_CLASS.get((cls.__module__, cls.__qualname__))
