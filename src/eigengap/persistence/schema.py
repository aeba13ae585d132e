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

A name with dots is a part of a part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
linear | scale_: ! d + none | model_: ! @LinearGaussian StudentLinearGaussian | model_.W: d q
    | projection_: ! @AffineMap | projection_.A: q d | spectrum_: ! @Spectrum
    | evidence_: @ObservationPattern | evidence_.observed: p d bool | rotation_: none @Rotation
    | rotation_.loadings: d q | _batches: @Batches | _batches.stream.origin: d
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
    | _order: ! q <q | _present: ! p <n | _standard: ! @StandardisedRows | _standard.given: p d ?
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
MixturePPCA | scale_: ! d + none | model_: ! @MixtureOfLinearGaussians | component_rows_: k 0+
NoveltyDetector | core_: ! @LinearGaussian StudentLinearGaussian | core_.W: d q
    | estimator_: ! @FactorAnalysis PPCA PCA BayesianPCA StoppedFactorAnalysis
    | reference_: ! @Reference | offset_: ! *
PCA | *linear
PPCA | *linear
PPCAClassifier | classes_: ! k * | class_prior_: ! k 0+ | scale_: ! d + none
PPCARegressor | estimator_: ! @FactorAnalysis PPCA | n_targets_: ! +
StoppedFactorAnalysis | *linear
StructurePreservingEmbedding | *rows | _neighbours: none @Neighbours | _neighbours.rows: n d ?
    | _structure: ! @Structure | _structure.neighbours: n n | _unit: ! +
Whitener | result_: ! @Whitening | result_.unit: d +
""",
    **_SHARED,
)
