"""What may stand in a model file: the one table of classes that a file can name.

A file says "LinearGaussian"; this table says which class that is, wherever it has moved. A name
that is not here is refused, so that no file can make the package load or call anything else.
Classes lie in rooms above this one too; they are loaded by name, and only by these names.

What a class may become later is thought of here. A field or parameter that is new has a default,
which files from before get. For any other change the kind gets another `upgrade`: a function from
the fields of version i, as they stand in the file, to those of version i + 1. A file whose kind has
a higher version than this table knows is refused as one of a later eigengap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

Fields = dict[str, Any]
Upgrade = Callable[[Fields], Fields]


@dataclass(frozen=True)
class Kind:
    """A class that a file may hold."""

    name: str  # in files; it stays when the class moves or is renamed
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


# Name in files: where its class lies below eigengap.
_VALUES = {
    "Spectrum": "spectrum:Spectrum",
    "ImputationChoice": "imputation:ImputationChoice",
    "Trial": "imputation:Trial",
    "AffineMap": "models.affine:AffineMap",
    "BayesianLinearGaussian": "models.bayesian:BayesianLinearGaussian",
    "ColumnMap": "models.columns:ColumnMap",
    "AdditiveConstant": "models.distances:AdditiveConstant",
    "GowerMap": "models.distances:GowerMap",
    "Eigenmap": "models.eigenmap:Eigenmap",
    "ExpectedKernel": "models.expected_kernel:ExpectedKernel",
    "Gammas": "models.gamma:Gammas",
    "GaussianProcesses": "models.gaussian_process:GaussianProcesses",
    "GeodesicMap": "models.geodesic:GeodesicMap",
    "gp_kernel.Linear": "models.gp_kernels:Linear",
    "gp_kernel.Matern32": "models.gp_kernels:Matern32",
    "gp_kernel.Matern52": "models.gp_kernels:Matern52",
    "gp_kernel.RBF": "models.gp_kernels:RBF",
    "gp_kernel.Sum": "models.gp_kernels:Sum",
    "Graph": "models.graph:Graph",
    "ObservationPattern": "models.information:Evidence",
    "kernel.RBF": "models.kernels:RBF",
    "kernel.Cosine": "models.kernels:Cosine",
    "kernel.Laplacian": "models.kernels:Laplacian",
    "kernel.Linear": "models.kernels:Linear",
    "kernel.Polynomial": "models.kernels:Polynomial",
    "kernel.Precomputed": "models.kernels:Precomputed",
    "kernel.Sigmoid": "models.kernels:Sigmoid",
    "LandmarkMap": "models.landmark:LandmarkMap",
    "LinearGaussian": "models.linear_gaussian:LinearGaussian",
    "MixtureOfLinearGaussians": "models.mixture:MixtureOfLinearGaussians",
    "Architecture": "models.network:Architecture",
    "Network": "models.network:Network",
    "Perceptron": "models.perceptron:Perceptron",
    "Reference": "models.reference:Reference",
    "StudentLinearGaussian": "models.student:StudentLinearGaussian",
    "Curve": "rank.choice:Curve",
    "RankChoice": "rank.choice:RankChoice",
    "ExpectedStatistics": "statistics.expected:Expected",
    "Parameters": "statistics.maximise:Parameters",
    "ColumnMoments": "statistics.moments:ColumnMoments",
    "ColumnRange": "statistics.moments:ColumnRange",
    "Moments": "statistics.moments:Moments",
    "Block": "sources.base:Block",
    "Drawn": "sources.drawn:Drawn",
    "StandardisedRows": "fitting.gplvm_start:Standard",
    "KernelFit": "fitting.kernel:KernelFit",
    "LaplacianFit": "fitting.laplacian:LaplacianFit",
    "EdgeWeights": "fitting.laplacian_weights:EdgeWeights",
    "Trace": "fitting.loop:Trace",
    "Stream": "fitting.online:Stream",
    "SettledStream": "fitting.online_em:Settled",
    "StreamUnits": "fitting.online_em:Units",
    "RecentRows": "fitting.online_rows:Kept",
    "RidgePreimage": "fitting.preimage:RidgePreimage",
    "Rotation": "fitting.rotation:Rotation",
    "SignedSpectrum": "fitting.signed_spectrum:SignedSpectrum",
    "Structure": "fitting.structure:Structure",
    "Whitening": "fitting.whitening:Whitening",
    "RowDistances": "estimators._distances:RowDistances",
    "NeighbourSearch": "estimators._neighbours:Search",
    "Batches": "estimators._partial:_Batches",
}

# Files of format 1 named a value by module and class: "linear_gaussian.LinearGaussian". The class
# alone is its name since; these had another one.
_FORMER = {
    "information.Evidence": "ObservationPattern",
    "_neighbours.Search": "NeighbourSearch",
    "_partial._Batches": "Batches",
    "gplvm_start.Standard": "StandardisedRows",
    "online_rows.Kept": "RecentRows",
    "online_em.Settled": "SettledStream",
    "online_em.Units": "StreamUnits",
    "expected.Expected": "ExpectedStatistics",
}


def _values() -> list[Kind]:
    kinds = []
    for name, where in _VALUES.items():
        home, _, qualname = where.partition(":")
        kinds.append(Kind(name, f"eigengap.{home}", qualname))
    # Trees and searches of other packages are grown again from the rows, to the same ones.
    grown = Kind(
        "Neighbours",
        "eigengap.estimators._neighbours",
        "Neighbours",
        remade_from=("search", "rows"),
    )
    return [*kinds, grown]


ESTIMATORS = MappingProxyType({kind.name: kind for kind in _estimators()})
VALUES = MappingProxyType({kind.name: kind for kind in _values()})
_BY_CLASS = {(k.home, k.qualname): k for k in (*ESTIMATORS.values(), *VALUES.values())}


def named(name: str, among: Mapping[str, Kind]) -> Kind | None:
    """The kind that a file of this or an earlier version means."""
    if name in among or "." not in name:
        return among.get(name)
    module, _, cls = name.partition(".")
    family = {"kernels": "kernel.", "gp_kernels": "gp_kernel."}.get(module, "")
    return among.get(_FORMER.get(name, family + cls))


def kind_of(cls: type[Any]) -> Kind | None:
    """The kind of a class; None of one that files do not hold, a subclass of a kind included."""
    return _BY_CLASS.get((cls.__module__, cls.__qualname__))
