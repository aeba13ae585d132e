"""What the parts of a fitted estimator hold: shapes, ranges and classes.

One entry for each field that other code relies on, in words:

- letters are the dimensions of an array, equal letters equal lengths within one value (in an
  estimator d is `n_features_in_`); no letter is a single number;
- `+` positive, `0+` not negative; arrays are of floats, but for `int`, `bool`, and `<q`, integers
  that count something of length q; `truth` floats or truth values;
- numbers are finite, and small enough for their squares to be; `~` finite is enough (variances,
  weights), `?` some may be NaN (data), `*` anything goes (bounds, traces); `++` positive, and their
  inverses as well;
- `text` a text; `none` may be None; `!` must exist, except in an estimator whose batches have not
  been fitted yet;
- `@` and names: a value or estimator of one of these kinds; `@imputer` any estimator that imputes.

A name with dots is a part of a part. What no words can say stands in `RULES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eigengap.persistence.kinds import kind_of

PROBED = 20  # points of a Gaussian process at which its variance is checked
MOST_JOBS = 1 << 31
LARGEST = float(np.sqrt(np.finfo(np.float64).max))  # in units of the data, as in fits

Table = Mapping[str, Mapping[str, str]]


def _table(text: str, **shared: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """A kind on each line, with its fields between bars; indented lines continue the one above.

    *name stands for shared fields.
    """
    table: dict[str, dict[str, str]] = {}
    for line in re.sub(r"\n +", " ", text.strip()).splitlines():
        kind, *fields = (part.strip() for part in line.split("|"))
        table[kind] = {}
        for field in fields:
            name, _, spec = field.partition(":")
            table[kind] |= shared[name[1:]] if name.startswith("*") else {name: spec.strip()}
    return table


VALUES: Table = _table("""
Neighbours | rows: n c ?
NeighbourSearch | n_neighbors: + none | radius: + none | p: +
RowDistances | rows: n c ? truth none
AffineMap | A: k d | B: d k | mean: d
Block | values: n d ? | weight: n 0+ ~ none | cell_sd: n d 0+ none
BayesianLinearGaussian | W: d q | mu: d | cov: d r r ~
ColumnMap | mean: d | scale: d +
AdditiveConstant | c: ~ | zero: 0+ ~
GowerMap | A: n q | means: n ~
Drawn | k: 0+ | keys: m * | rows: m c *
Eigenmap | Y: n q | lam: q ~
ExpectedStatistics | A: t d ~ | B: r d ~ | squares: d 0+ ~ | latent: t ~ | log_likelihood: ~
    | cells: 0+ ~
Gammas | shape: m + ~ | rate: m + ~
GaussianProcesses | noise_variance: 0+ | support: m q | weights: m d | reductions: p m m
    | pattern: d <p | mean: d | unit: d +
GeodesicMap | paths: n l 0+ | gower.A: l q | shift: q | Z: n q | unit: +
gp_kernel.Linear | variances: q 0+ none
gp_kernel.Matern32 | variance: 0+ none | lengths: q ++ none
gp_kernel.Matern52 | variance: 0+ none | lengths: q ++ none
gp_kernel.RBF | variance: 0+ none | lengths: q ++ none
StandardisedRows | given: n d ? | mean: d | unit: d + | total: 0+ ~
ObservationPattern | observed: k d bool | observed_w: d 0+ ~ | count: k 0+ ~ none
KernelFit | map.coefficients: l q | lam: q ~ | V: n q none | scores: s q none | total: ~
kernel.Laplacian | gamma: 0+ | b: *
kernel.Polynomial | gamma: ~ | degree: 0+ | coef0: ~
kernel.RBF | gamma: 0+ | b: *
kernel.Sigmoid | gamma: ~ | coef0: ~
LandmarkMap | landmarks: l c ? | means: l ~ | coefficients: l q | centre: l none
    | directions: l q none
LaplacianFit | Y: n q | lam: q ~ | residuals: q ~
EdgeWeights | sigma: n + none | reach: n 0+ * none | t: + none
LinearGaussian | W: d q | mu: d | psi: d 0+ ~
Trace | objective: n * | change: n * | seconds: n *
Parameters | W: d q | delta: d | psi: d 0+ ~
MixtureOfLinearGaussians | log_weights: k *
ColumnMoments | counts: d 0+ int | sum_w: d 0+ ~ | mean: d | m2: d 0+ ~ | n_rows: 0+
    | tail: d none
ColumnRange | low: d * | high: d *
Moments | sum_w: 0+ ~ | mean: d | scatter: d d ~ | n_rows: 0+ | n_missing: 0+ | tail: d none
Network | theta: t | mean: d | unit: d +
Stream | origin: d | moments.mean: d | columns.mean: d | extent.low: d * | kept.values: k d ?
    | n_incomplete: 0+ | incomplete_w: 0+ ~ | n_waiting: 0+
SettledStream | units.shift: d | parameters.W: d q | expected.squares: d 0+ ~
StreamUnits | shift: d | base: d + | common: d + | variance: d 0+ ~
RecentRows | values: k d ? | weight: k 0+ ~
Perceptron | W0: d q | W1: d h | b1: h | W2: h q | b2: q
RidgePreimage | points: n q | dual: n d ~ | mean: d
Reference | n: + * | n_observed: + * | h: 0+ | nu_1: + * | q: 0+ | pooled: 0+
Rotation | loadings: d q | T: q q | phi: q q
SignedSpectrum | lam: m ~ | positive: 0+ ~ | rank: 0+ none
Spectrum | lam: m 0+ ~ | total: 0+ ~ | sum_w: ++ ~ | d: 0+
Structure | longest: m * none | margin: ~ | cap: *
StudentLinearGaussian | W: d q | mu: d | psi: d 0+ ~ | nu: + *
Whitening | map: @AffineMap ColumnMap | map.mean: d | model.W: d q | variance: v 0+ ~ | unit: d +
    | rank: 0+
""")

_SHARED = _table("""
linear | scale_: ! d + none | model_: ! @LinearGaussian StudentLinearGaussian ColumnModel
    | model_.W: u q | projection_: ! @AffineMap | projection_.A: q u | spectrum_: ! @Spectrum
    | evidence_: @ObservationPattern | evidence_.observed: p d bool | rotation_: none @Rotation
    | rotation_.loadings: u q | table_: none @CodedTable | _batches: @Batches
    | _batches.stream.origin: d
rows | _filler: ! none @PPCA | _filled_sd: n 0+ none | embedding_: ! n q
""")

ESTIMATORS: Table = _table(
    """
Autoencoder | model_: ! @Network | noise_std_: d 0+
BayesianPCA | *linear | bayesian_: ! @BayesianLinearGaussian
ClassicalMDS | embedding_: ! n q | present_: ! p <n none | model_: ! @AffineMap GowerMap
    | spectrum_: ! @SignedSpectrum | constant_: ! none @AdditiveConstant
    | density_: none @LinearGaussian | distances_: none @RowDistances
    | distances_.rows: r d ? truth none | model_.means: r ~
ColumnMeans | mean_: ! d | degrees_: ! d + | scale_: ! d 0+
FactorAnalysis | *linear
GPLVM | *rows | method_: ! text | model_: ! @GaussianProcesses | model_.support: m q
    | _predictive: ! @GaussianProcesses | _predictive.support: m q | relevance_: q ~
    | _only.embedding_sd_: n q 0+ ? | _order: ! q <q | _present: ! p <n
    | _standard: ! @StandardisedRows | _standard.given: p d ?
    | _back: ! none @Perceptron LandmarkMap | _back.coefficients: b q | _back.landmarks: b d ?
    | _back.W0: d q
ICA | model_: ! @AffineMap | model_.A: k d | density_: ! none @LinearGaussian | whitening_: k d
Isomap | *rows | _neighbours: ! @Neighbours | _neighbours.rows: n d ? | graph_: ! @Graph
    | model_: ! @GeodesicMap | model_.Z: n q | landmarks_: ! l <n none
KernelPCA | _fit_: ! @KernelFit | X_fit_: n d ? | model_: ! @LandmarkMap
    | model_.coefficients: l q | model_.landmarks: l d ?
    | kernel_: ! @kernel.RBF kernel.Cosine kernel.Laplacian kernel.Linear kernel.Polynomial
      kernel.Precomputed kernel.Sigmoid ExpectedKernel
    | _gap_model: ! none @LinearGaussian | _ridge: none @RidgePreimage | _ridge.points: n q
    | _ridge.mean: d
LaplacianEigenmaps | *rows | _neighbours: none @Neighbours | _neighbours.rows: n d ?
    | _rows_: n d ? none | _W: ! n n | _prints: ! n b int | _weights: none @EdgeWeights
    | _weights.reach: n 0+ * none | _diagonal: ! n 0+ | _fit_: ! @LaplacianFit
    | model_: ! @Eigenmap | model_.Y: n q
LowRankImputer | estimator_: ! @imputer | std_factors_: ! d 0+ | whole_: ! d bool
    | bounds_: ! 2 d * | indicator_features_: ! f <d
MaximumVarianceUnfolding | *rows | _neighbours: ! @Neighbours | _neighbours.rows: n d ?
    | graph_: ! @Graph
MixturePPCA | scale_: ! d + none | model_: ! @MixtureOfLinearGaussians ColumnMixture
    | component_rows_: k 0+ | table_: none @CodedTable
NoveltyDetector | core_: ! @LinearGaussian StudentLinearGaussian ColumnModel | core_.W: u q
    | estimator_: ! @FactorAnalysis PPCA PCA BayesianPCA StoppedFactorAnalysis
    | reference_: ! @Reference | offset_: ! *
PCA | *linear
PPCA | *linear
PPCAClassifier | classes_: ! k * | class_prior_: ! k 0+ | scale_: ! d + none
    | table_: none @CodedTable
PPCARegressor | estimator_: ! @FactorAnalysis PPCA | n_targets_: ! + | table_: none @CodedTable
StoppedFactorAnalysis | *linear
StructurePreservingEmbedding | *rows | _neighbours: none @Neighbours | _neighbours.rows: n d ?
    | _structure: ! @Structure | _structure.neighbours: n n | _unit: ! +
Whitener | result_: ! @Whitening | result_.unit: d +
""",
    **_SHARED,
)

# Rules -----------------------------------------------------------------------------------------


class Held:
    """Fields of a value, attributes or parameters of an estimator; None where there is none."""

    def __init__(self, held: Mapping[str, Any]) -> None:
        self.__dict__.update(held)

    def __getattr__(self, name: str) -> Any:
        return None


def kind_name(value: Any) -> str:
    kind = kind_of(type(value))
    return "" if kind is None else kind.name


def _is_metric(parameters: Any, rows: Any) -> bool:
    """Array parameters of a metric have a finite number for each column, or for each pair."""
    d = rows.shape[-1]
    for value in (parameters or {}).values():
        array = np.asarray(value)
        shapes = ((d,), (d, d)) if isinstance(value, np.ndarray) else ((), (d,), (d, d))
        if array.dtype.kind not in "fiubU" or array.shape not in shapes:
            return False
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return False
    return True


def _fits_products(A: Any, means: Any) -> bool:
    """Coordinates are sums of these products, and their squares must not overflow."""
    largest = [float(np.abs(array).max(initial=0.0)) for array in (A, means)]
    return largest[0] * largest[1] * len(means) <= LARGEST


def _leaves_variance(v: Held, _: Held) -> bool:
    """Observations reduce the variance at a point by no more than all of it, up to rounding."""
    some = v.support[:PROBED]
    k, prior = v.kernel.matrix(some, v.support), v.kernel.diagonal(some)
    least = -1e-3 * np.max(prior, initial=0.0)
    return all(np.all(prior - np.einsum("nm,nm->n", k @ B, k) >= least) for B in v.reductions)


def _is_graph(v: Held, _: Held) -> bool:
    """Neighbours must be nodes: compiled code does not check them."""
    arrays = (v.indptr, v.indices, v.lengths)
    if not all(isinstance(array, np.ndarray) and array.ndim == 1 for array in arrays):
        return False
    if len(v.indptr) < 1 or len(v.indices) != len(v.lengths):
        return False
    is_whole = v.indptr[0] == 0 and v.indptr[-1] == len(v.indices)
    is_ordered = is_whole and np.all(np.diff(v.indptr) >= 0)
    return bool(is_ordered and np.all((v.indices >= 0) & (v.indices < len(v.indptr) - 1)))


def _has_batches(v: Held, _: Held) -> bool:
    """Batches that wait are as wide as the others."""
    d, shapes = len(v.origin), [block.values.shape for block in v.waiting]
    return v.patterns.rows.shape[1] == d + 1 and all(n and width == d for n, width in shapes)


def _has_models(v: Held, _: Held) -> bool:
    kinds = [kind_name(model) for model in v.models_] if isinstance(v.models_, list) else []
    return len(kinds) == len(v.classes_) and set(kinds) <= {"PPCA", "FactorAnalysis"}


def _has_table(v: Held, p: Held) -> bool:
    """The model of numbers has their columns; one of columns of several kinds has their table."""
    if v.model_ is None:  # batches that have not been fitted
        return True
    if kind_name(v.model_) in ("ColumnModel", "ColumnMixture"):
        same = v.table_ is not None and v.table_.columns.widths == v.model_.columns.widths
        return bool(same and v.table_.n_features == v.n_features_in_)
    return bool(v.table_ is None and v.model_.d == v.n_features_in_)


def _have_columns(v: Held, p: Held) -> bool:
    """The model of each class has the columns that all share."""
    own = None if v.table_ is None else v.table_.columns.widths
    tables = [model.table_ for model in v.models_]
    return all((None if table is None else table.columns.widths) == own for table in tables)


def _has_joint(v: Held, p: Held) -> bool:
    """The joint model has the columns of X, and then those of y."""
    joint = v.estimator_.table_
    if v.table_ is None:
        return joint is None
    own = v.table_.columns.widths
    return joint is not None and joint.columns.widths[: len(own)] == own


def _has_core(v: Held, p: Held) -> bool:
    """The model that rows are judged by has the columns of the estimator's."""
    own, table = v.core_, v.estimator_.table_
    if kind_name(own) == "ColumnModel":
        return bool(table is not None and table.columns.widths == own.columns.widths)
    return bool(table is None and own.d == v.n_features_in_)


def _has_rows(v: Held, p: Held) -> bool:
    """Affinities of new rows are to those of the fit."""
    if _is_precomputed(p.affinity):
        needed = [] if p.affinity == "precomputed" else [v._weights]
    else:
        needed = [v._rows_, *([v.gamma_] if p.affinity == "rbf" else [v._neighbours, v._weights])]
    return all(part is not None for part in needed)


def _is_precomputed(given: Any) -> bool:
    return isinstance(given, str) and given.startswith("precomputed")


def _has_ridge(v: Held, p: Held) -> bool:
    is_auto = isinstance(p.preimage, str) and p.preimage == "auto"
    regresses = p.fit_inverse_transform if is_auto else p.preimage == "ridge"
    return isinstance(regresses, bool | np.bool_) and (not regresses or v._ridge is not None)


# What a value, or an estimator with its parameters, must not have, and the rule that it has not.
RULES: Mapping[str, Mapping[str, Callable[[Held, Held], Any]]] = {
    "ClassicalMDS": {
        "no distances_": lambda v, p: (
            kind_name(v.model_) == "AffineMap"
            or _is_precomputed(p.metric)
            or v.distances_ is not None
        ),
    },
    **{
        name: {"a model of other columns": _has_table}
        for name in ("BayesianPCA", "MixturePPCA", "PCA", "PPCA", "StoppedFactorAnalysis")
    },
    "FactorAnalysis": {
        "a model of other columns": _has_table,
        "no rotation_": lambda v, p: None in (p.rotation, v.model_) or v.rotation_ is not None,
    },
    "CodedTable": {
        "kinds of other columns": lambda v, p: len(v.kinds) == len(v.schema.columns),
        "other columns than it uses": lambda v, p: (
            sum(kind_name(kind) != "kind.Ignored" for kind in v.kinds) == len(v.columns.kinds)
        ),
    },
    **{
        name: {"other columns than its Gaussian": lambda v, p: v.columns.width == v.gaussian.d}
        for name in ("ColumnModel", "ColumnMixture")
    },
    "GaussianProcesses": {"reductions beyond the variance there is": _leaves_variance},
    "GowerMap": {"A and means whose products overflow": lambda v, p: _fits_products(v.A, v.means)},
    "Graph": {"arrays that do not fit, or neighbours that are no nodes": _is_graph},
    "KernelPCA": {
        "no _ridge": _has_ridge,
        "an array as kernel": lambda v, p: not isinstance(p.kernel, np.ndarray),
    },
    "LandmarkMap": {"products that overflow": lambda v, p: _fits_products(v.coefficients, v.means)},
    "LaplacianEigenmaps": {"not the rows and weights of its affinity": _has_rows},
    "LowRankImputer": {
        "bounds between which there is no number (bounds_)": lambda v, p: np.all(
            (v.bounds_[0] <= v.bounds_[1]) & (v.bounds_[0] < np.inf) & (v.bounds_[1] > -np.inf)
        ),
    },
    "MixtureOfLinearGaussians": {
        "other weights than models": lambda v, p: 0 < len(v.models) == len(v.log_weights),
        "models of other columns": lambda v, p: len({model.d for model in v.models}) == 1,
    },
    "Moments": {"a sum_w whose inverse overflows": lambda v, p: not 0 < v.sum_w * LARGEST < 1},
    "Neighbours": {
        "a metric of other columns": lambda v, p: _is_metric(v.search.metric_params, v.rows)
    },
    "NeighbourSearch": {
        "not one of n_neighbors and radius": lambda v, p: (
            (v.n_neighbors is None) != (v.radius is None)
        ),
        "more threads than there are numbers": lambda v, p: abs(v.n_jobs or 0) <= MOST_JOBS,
    },
    "NoveltyDetector": {"a core_ of other columns": _has_core},
    "PPCAClassifier": {
        "other models than classes": _has_models,
        "models of other columns": _have_columns,
        "a class_prior_ of no probabilities": lambda v, p: abs(v.class_prior_.sum() - 1.0) <= 1e-6,
    },
    "PPCARegressor": {"a joint model of other columns": _has_joint},
    "Reference": {"as many parameters as rows (h)": lambda v, p: v.h < 1.0},
    "RowDistances": {"a metric of other columns": lambda v, p: _is_metric(v.params, v.rows)},
    "Spectrum": {"more eigenvalues than columns": lambda v, p: v.d >= len(v.lam)},
    "Stream": {
        "rows that are complete and are not": lambda v, p: (
            not v.moments.n_missing and (v.n_incomplete > 0) == (v.incomplete_w > 0)
        ),
        "batches of other columns": _has_batches,
    },
    "StructurePreservingEmbedding": {
        "no _neighbours": lambda v, p: p.affinity != "rows" or v._neighbours is not None
    },
}
