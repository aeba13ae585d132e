"""The classes that a model file can name.

A file names "LinearGaussian"; this table maps the name to the class, wherever it has moved. Other
names are refused, so that no file can make the package load or call anything else. Some classes
belong to rooms above this one; they are loaded by name, and only by these names.

Classes may change later. A new field or parameter has a default, which older files get. For any
other change the kind gets another `upgrade`: a function from the fields of version i, as the file
has them, to those of version i + 1. A file with a higher version of a kind than this table knows is
refused as one of a later eigengap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from eigengap import registry

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

    def upgraded(self, given: Fields, version: int) -> Fields:
        """Fields of an earlier version as they are now."""
        for upgrade in self.upgrades[version - 1 :]:
            given = upgrade(given)
        return given

    def load(self) -> type[Any]:
        found: type[Any] = getattr(import_module(self.home), self.qualname)
        return found


def _renaming(**former: str) -> Upgrade:
    return lambda fields: {former.get(name, name): value for name, value in fields.items()}


def _isotropic(parameters: Fields) -> Fields:
    """ICA's noise="ppca" of version 1 names the structure of the noise since."""
    noise = parameters.get("noise")
    return {**parameters, "noise": "isotropic" if noise == "ppca" else noise}


# Parameters and fields that had another name in version 1 of their kind.
_UPGRADES: dict[str, tuple[Upgrade, ...]] = {
    "PPCA": (_renaming(noise="distribution", method="solver"),),
    "FactorAnalysis": (_renaming(noise="distribution"),),
    "StoppedFactorAnalysis": (_renaming(noise="distribution"),),
    "LaplacianEigenmaps": (_renaming(graph="symmetrize"),),
    "ICA": (_isotropic,),
    "ObservationPattern": (_renaming(seen="observed", seen_w="observed_w"),),
    "Architecture": (_renaming(sees_gaps="sees_missing"),),
    "Reference": (_renaming(n_seen="n_observed"),),
    "Moments": (_renaming(n_gaps="n_missing"),),
    "Stream": (_renaming(n_gappy="n_incomplete", gappy_w="incomplete_w"),),
}

_ESTIMATORS = {
    **{entry.name: f"estimators.{entry.module}:{entry.name}" for entry in registry.ESTIMATORS},
    # Models that LowRankImputer tries, and no one else.
    "StoppedFactorAnalysis": "estimators.shared.inner:StoppedFactorAnalysis",
    "ColumnMeans": "estimators.shared.inner:ColumnMeans",
}

# Name in files: where its class lies below eigengap.
_VALUES = {
    "Spectrum": "spectrum:Spectrum",
    "ImputationChoice": "selection.imputation:ImputationChoice",
    "Trial": "selection.imputation:Trial",
    "AffineMap": "models.maps.affine:AffineMap",
    "BayesianLinearGaussian": "models.gaussian.bayesian:BayesianLinearGaussian",
    "ColumnMap": "models.maps.affine:ColumnMap",
    "AdditiveConstant": "models.maps.distances:AdditiveConstant",
    "GowerMap": "models.maps.distances:GowerMap",
    "Eigenmap": "models.maps.eigenmap:Eigenmap",
    "ExpectedKernel": "models.kernels.expected:ExpectedKernel",
    "Gammas": "models.gaussian.bayesian:Gammas",
    "GaussianProcesses": "models.gp.gaussian_process:GaussianProcesses",
    "GeodesicMap": "models.maps.geodesic:GeodesicMap",
    "gp_kernel.Linear": "models.gp.kernels:Linear",
    "gp_kernel.Matern32": "models.gp.kernels:Matern32",
    "gp_kernel.Matern52": "models.gp.kernels:Matern52",
    "gp_kernel.RBF": "models.gp.kernels:RBF",
    "gp_kernel.Sum": "models.gp.kernels:Sum",
    "Graph": "models.maps.graph:Graph",
    "ObservationPattern": "models.gaussian.information:ObservationPattern",
    "kernel.RBF": "models.kernels.functions:RBF",
    "kernel.Cosine": "models.kernels.functions:Cosine",
    "kernel.Laplacian": "models.kernels.functions:Laplacian",
    "kernel.Linear": "models.kernels.functions:Linear",
    "kernel.Polynomial": "models.kernels.functions:Polynomial",
    "kernel.Precomputed": "models.kernels.functions:Precomputed",
    "kernel.Sigmoid": "models.kernels.functions:Sigmoid",
    "LandmarkMap": "models.maps.landmark:LandmarkMap",
    "LinearGaussian": "models.gaussian.linear_gaussian:LinearGaussian",
    "MixtureOfLinearGaussians": "models.gaussian.mixture:MixtureOfLinearGaussians",
    "Architecture": "models.network.autoencoder:Architecture",
    "Network": "models.network.autoencoder:Network",
    "Perceptron": "models.network.autoencoder:Perceptron",
    "Reference": "models.gaussian.reference:Reference",
    "StudentLinearGaussian": "models.gaussian.student:StudentLinearGaussian",
    "Curve": "selection.rank.choice:Curve",
    "RankChoice": "selection.rank.choice:RankChoice",
    "ExpectedStatistics": "statistics.expected.gaussian:Expected",
    "Parameters": "statistics.expected.gaussian:Parameters",
    "ColumnMoments": "statistics.moments:ColumnMoments",
    "ColumnRange": "statistics.moments:ColumnRange",
    "Moments": "statistics.moments:Moments",
    "Block": "sources.base:Block",
    "Drawn": "sources.base:Drawn",
    "StandardisedRows": "fitting.gp.start:Standard",
    "KernelFit": "fitting.kernel.fit:KernelFit",
    "LaplacianFit": "fitting.laplacian.fit:LaplacianFit",
    "EdgeWeights": "fitting.laplacian.weights:EdgeWeights",
    "Trace": "fitting.optimise.loop:Trace",
    "Stream": "fitting.online.stream:Stream",
    "SettledStream": "fitting.online.em:Settled",
    "StreamUnits": "fitting.online.em:StreamUnits",
    "RecentRows": "fitting.online.rows:Kept",
    "RidgePreimage": "fitting.kernel.preimage:RidgePreimage",
    "Rotation": "fitting.gaussian.rotation:Rotation",
    "SignedSpectrum": "fitting.eigen.signed_spectrum:SignedSpectrum",
    "Structure": "fitting.sdp.structure:Structure",
    "CodedTable": "selection.coded_table:CodedTable",
    "Schema": "sources.levels:Schema",
    "ColumnType": "sources.levels:ColumnType",
    "ColumnModel": "models.columns.model:ColumnModel",
    "Columns": "models.columns.table:Columns",
    "RowSizes": "fitting.columns.counts:Sizes",
    "ContinuousColumn": "models.columns.continuous:ContinuousColumn",
    "OrdinalColumn": "models.columns.ordinal:OrdinalColumn",
    "NominalColumn": "models.columns.nominal:NominalColumn",
    "CountColumn": "models.columns.count:CountColumn",
    "ColumnMargin": "models.columns.maps:Margin",
    "margin.Identity": "models.columns.maps:Identity",
    "margin.Log": "models.columns.maps:Log",
    "margin.Logit": "models.columns.maps:Logit",
    "margin.YeoJohnson": "models.columns.maps:YeoJohnson",
    "ColumnMixture": "models.columns.mixture:ColumnMixture",
    "Predictive": "models.gaussian.predictive:Predictive",
    "MixturePredictive": "models.gaussian.predictive:MixturePredictive",
    **{
        f"kind.{name}": f"fitting.columns.kinds:{name}"
        for name in (
            "Continuous",
            "Positive",
            "Bounded",
            "Censored",
            "Ordinal",
            "Binary",
            "Nominal",
            "Count",
            "Ignored",
        )
    },
    "Whitening": "fitting.gaussian.whitening:Whitening",
    "RowDistances": "fitting.graph.distances:RowDistances",
    "NeighbourSearch": "fitting.graph.neighbours:Search",
    "Neighbours": "fitting.graph.neighbours:Neighbours",
    "Batches": "estimators.shared.partial:_Batches",
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
# Trees and searches of other packages are grown again from the rows, to the same ones.
_REMADE = {"Neighbours": ("search", "rows")}


def _kinds(table: Mapping[str, str]) -> Mapping[str, Kind]:
    kinds = {}
    for name, where in table.items():
        home, _, qualname = where.partition(":")
        upgrades, remade = _UPGRADES.get(name, ()), _REMADE.get(name, ())
        kinds[name] = Kind(name, f"eigengap.{home}", qualname, upgrades, remade)
    return MappingProxyType(kinds)


ESTIMATORS, VALUES = _kinds(_ESTIMATORS), _kinds(_VALUES)
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
