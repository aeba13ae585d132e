"""What the parts of a fitted estimator hold: shapes, ranges, and which class stands where.

One line for each field that other code relies on. A line is words:

- letters are the dimensions of an array, equal letters equal lengths within one value (in an
  estimator d is `n_features_in_`); no letter is a single number;
- `+` positive, `0+` not negative; arrays are of floats, but for `int`, `bool`, and `<q`, integers
  that count something of length q; `truth` floats or truth values;
- numbers are finite, and small enough for their squares to be; `~` finite is enough (variances,
  weights), `?` some may be NaN (data), `*` anything goes (bounds, traces); `++` positive, and their
  inverses as well;
- `text` a text; `none` may be None; `!` must be there, but in an estimator whose batches have not
  been fitted yet;
- `@` and names: a value or estimator of one of these kinds; `@imputer` any estimator that imputes.

A name with dots is a part of a part.
"""

from __future__ import annotations

from collections.abc import Mapping

Table = Mapping[str, Mapping[str, str]]

VALUES: Table = {
    "_neighbours.Neighbours": {"rows": "n c ?"},
    "_neighbours.Search": {"n_neighbors": "+ none", "radius": "+ none", "p": "+"},
    "_distances.RowDistances": {"rows": "n c ? truth none"},
    "affine.AffineMap": {"A": "k d", "B": "d k", "mean": "d"},
    "base.Block": {"values": "n d ?", "weight": "n 0+ ~ none", "cell_sd": "n d 0+ none"},
    "bayesian.BayesianLinearGaussian": {"W": "d q", "mu": "d", "cov": "d r r ~"},
    "columns.ColumnMap": {"mean": "d", "scale": "d +"},
    "distances.AdditiveConstant": {"c": "~", "zero": "0+ ~"},
    "distances.GowerMap": {"A": "n q", "means": "n ~"},
    "drawn.Drawn": {"k": "0+", "keys": "m *", "rows": "m c *"},
    "eigenmap.Eigenmap": {"Y": "n q", "lam": "q ~"},
    "expected.Expected": {
        "A": "t d ~",
        "B": "r d ~",
        "squares": "d 0+ ~",
        "latent": "t ~",
        "log_likelihood": "~",
        "cells": "0+ ~",
    },
    "gamma.Gammas": {"shape": "m + ~", "rate": "m + ~"},
    "gaussian_process.GaussianProcesses": {
        "noise_variance": "0+",
        "support": "m q",
        "weights": "m d",
        "reductions": "p m m",
        "pattern": "d <p",
        "mean": "d",
        "unit": "d +",
    },
    "geodesic.GeodesicMap": {
        "paths": "n l 0+",
        "gower.A": "l q",
        "shift": "q",
        "Z": "n q",
        "unit": "+",
    },
    "gp_kernels.Linear": {"variances": "q 0+ none"},
    "gp_kernels.Matern32": {"variance": "0+ none", "lengths": "q ++ none"},
    "gp_kernels.Matern52": {"variance": "0+ none", "lengths": "q ++ none"},
    "gp_kernels.RBF": {"variance": "0+ none", "lengths": "q ++ none"},
    "gplvm_start.Standard": {"given": "n d ?", "mean": "d", "unit": "d +", "total": "0+ ~"},
    "information.Evidence": {"seen": "k d bool", "seen_w": "d 0+ ~", "count": "k 0+ ~ none"},
    "kernel.KernelFit": {
        "map.coefficients": "l q",
        "lam": "q ~",
        "V": "n q none",
        "scores": "s q none",
        "total": "~",
    },
    "kernels.Laplacian": {"gamma": "0+", "b": "*"},
    "kernels.Polynomial": {"gamma": "~", "degree": "0+", "coef0": "~"},
    "kernels.RBF": {"gamma": "0+", "b": "*"},
    "kernels.Sigmoid": {"gamma": "~", "coef0": "~"},
    "landmark.LandmarkMap": {
        "landmarks": "l c ?",
        "means": "l ~",
        "coefficients": "l q",
        "centre": "l none",
        "directions": "l q none",
    },
    "laplacian.LaplacianFit": {"Y": "n q", "lam": "q ~", "residuals": "q ~"},
    "laplacian_weights.EdgeWeights": {"sigma": "n + none", "reach": "n 0+ * none", "t": "+ none"},
    "linear_gaussian.LinearGaussian": {"W": "d q", "mu": "d", "psi": "d 0+ ~"},
    "loop.Trace": {"objective": "n *", "change": "n *", "seconds": "n *"},
    "maximise.Parameters": {"W": "d q", "delta": "d", "psi": "d 0+ ~"},
    "mixture.MixtureOfLinearGaussians": {"log_weights": "k *"},
    "moments.ColumnMoments": {
        "counts": "d 0+ int",
        "sum_w": "d 0+ ~",
        "mean": "d",
        "m2": "d 0+ ~",
        "n_rows": "0+",
        "tail": "d none",
    },
    "moments.ColumnRange": {"low": "d *", "high": "d *"},
    "moments.Moments": {
        "sum_w": "0+ ~",
        "mean": "d",
        "scatter": "d d ~",
        "n_rows": "0+",
        "n_gaps": "0+",
        "tail": "d none",
    },
    "network.Network": {"theta": "t", "mean": "d", "unit": "d +"},
    "online.Stream": {
        "origin": "d",
        "moments.mean": "d",
        "columns.mean": "d",
        "extent.low": "d *",
        "kept.values": "k d ?",
        "n_gappy": "0+",
        "gappy_w": "0+ ~",
        "n_waiting": "0+",
    },
    "online_em.Settled": {
        "units.shift": "d",
        "parameters.W": "d q",
        "expected.squares": "d 0+ ~",
    },
    "online_em.Units": {"shift": "d", "base": "d +", "common": "d +", "variance": "d 0+ ~"},
    "online_rows.Kept": {"values": "k d ?", "weight": "k 0+ ~"},
    "perceptron.Perceptron": {"W0": "d q", "W1": "d h", "b1": "h", "W2": "h q", "b2": "q"},
    "preimage.RidgePreimage": {"points": "n q", "dual": "n d ~", "mean": "d"},
    "reference.Reference": {"n": "+ *", "n_seen": "+ *", "h": "0+", "nu_1": "+ *", "q": "0+",
                            "pooled": "0+"},
    "rotation.Rotation": {"loadings": "d q", "T": "q q", "phi": "q q"},
    "signed_spectrum.SignedSpectrum": {"lam": "m ~", "positive": "0+ ~", "rank": "0+ none"},
    "spectrum.Spectrum": {"lam": "m 0+ ~", "total": "0+ ~", "sum_w": "++ ~", "d": "0+"},
    "structure.Structure": {"longest": "m *  none", "margin": "~", "cap": "*"},
    "student.StudentLinearGaussian": {"W": "d q", "mu": "d", "psi": "d 0+ ~", "nu": "+ *"},
    "whitening.Whitening": {
        "map": "@affine.AffineMap columns.ColumnMap",
        "map.mean": "d",
        "model.W": "d q",
        "variance": "v 0+ ~",
        "unit": "d +",
        "rank": "0+",
    },
}  # fmt: skip

_LINEAR = {
    "scale_": "! d + none",
    "model_": "! @linear_gaussian.LinearGaussian student.StudentLinearGaussian",
    "model_.W": "d q",
    "projection_": "! @affine.AffineMap",
    "projection_.A": "q d",
    "spectrum_": "! @spectrum.Spectrum",
    "evidence_": "@information.Evidence",
    "evidence_.seen": "p d bool",
    "rotation_": "none @rotation.Rotation",
    "rotation_.loadings": "d q",
    "_batches": "@_partial._Batches",
    "_batches.stream.origin": "d",
}
_ROWS = {
    "_filler": "! none @PPCA",
    "_filled_sd": "n 0+ none",
    "embedding_": "! n q",
}

ESTIMATORS: Table = {
    "Autoencoder": {"model_": "! @network.Network", "noise_std_": "d 0+"},
    "BayesianPCA": {**_LINEAR, "bayesian_": "! @bayesian.BayesianLinearGaussian"},
    "ClassicalMDS": {
        "embedding_": "! n q",
        "present_": "! p <n none",
        "model_": "! @affine.AffineMap distances.GowerMap",
        "spectrum_": "! @signed_spectrum.SignedSpectrum",
        "constant_": "! none @distances.AdditiveConstant",
        "density_": "none @linear_gaussian.LinearGaussian",
        "distances_": "none @_distances.RowDistances",
        "distances_.rows": "r d ? truth none",
        "model_.means": "r ~",
    },
    "ColumnMeans": {"mean_": "! d", "degrees_": "! d +", "scale_": "! d 0+"},
    "FactorAnalysis": _LINEAR,
    "GPLVM": {
        **_ROWS,
        "method_": "! text",
        "model_": "! @gaussian_process.GaussianProcesses",
        "model_.support": "m q",
        "_predictive": "! @gaussian_process.GaussianProcesses",
        "_predictive.support": "m q",
        "relevance_": "q ~",
        "_order": "! q <q",
        "_present": "! p <n",
        "_standard": "! @gplvm_start.Standard",
        "_standard.given": "p d ?",
        "_back": "! none @perceptron.Perceptron landmark.LandmarkMap",
        "_back.coefficients": "b q",
        "_back.landmarks": "b d ?",
        "_back.W0": "d q",
    },
    "ICA": {
        "model_": "! @affine.AffineMap",
        "model_.A": "k d",
        "density_": "! none @linear_gaussian.LinearGaussian",
        "whitening_": "k d",
    },
    "Isomap": {
        **_ROWS,
        "_neighbours": "! @_neighbours.Neighbours",
        "_neighbours.rows": "n d ?",
        "graph_": "! @graph.Graph",
        "model_": "! @geodesic.GeodesicMap",
        "model_.Z": "n q",
        "landmarks_": "! l <n none",
    },
    "KernelPCA": {
        "_fit_": "! @kernel.KernelFit",
        "X_fit_": "n d ?",
        "model_": "! @landmark.LandmarkMap",
        "model_.coefficients": "l q",
        "model_.landmarks": "l d ?",
        "kernel_": "! @kernels.RBF kernels.Cosine kernels.Laplacian kernels.Linear "
        "kernels.Polynomial kernels.Precomputed kernels.Sigmoid expected_kernel.ExpectedKernel",
        "_gap_model": "! none @linear_gaussian.LinearGaussian",
        "_ridge": "none @preimage.RidgePreimage",
        "_ridge.points": "n q",
        "_ridge.mean": "d",
    },
    "LaplacianEigenmaps": {
        **_ROWS,
        "_neighbours": "none @_neighbours.Neighbours",
        "_neighbours.rows": "n d ?",
        "_rows_": "n d ? none",
        "_W": "! n n",
        "_prints": "! n b int",
        "_weights": "none @laplacian_weights.EdgeWeights",
        "_weights.reach": "n 0+ * none",
        "_diagonal": "! n 0+",
        "_fit_": "! @laplacian.LaplacianFit",
        "model_": "! @eigenmap.Eigenmap",
        "model_.Y": "n q",
    },
    "LowRankImputer": {
        "estimator_": "! @imputer",
        "std_factors_": "! d 0+",
        "whole_": "! d bool",
        "bounds_": "! 2 d *",
        "indicator_features_": "! f <d",
    },
    "MaximumVarianceUnfolding": {
        **_ROWS,
        "_neighbours": "! @_neighbours.Neighbours",
        "_neighbours.rows": "n d ?",
        "graph_": "! @graph.Graph",
    },
    "MixturePPCA": {
        "scale_": "! d + none",
        "model_": "! @mixture.MixtureOfLinearGaussians",
        "component_rows_": "k 0+",
    },
    "NoveltyDetector": {
        "core_": "! @linear_gaussian.LinearGaussian student.StudentLinearGaussian",
        "core_.W": "d q",
        "estimator_": "! @FactorAnalysis PPCA PCA BayesianPCA StoppedFactorAnalysis",
        "reference_": "! @reference.Reference",
        "offset_": "! *",
    },
    "PCA": _LINEAR,
    "PPCA": _LINEAR,
    "PPCAClassifier": {
        "classes_": "! k *",
        "class_prior_": "! k 0+",
        "scale_": "! d + none",
    },
    "PPCARegressor": {"estimator_": "! @FactorAnalysis PPCA", "n_targets_": "! +"},
    "StoppedFactorAnalysis": _LINEAR,
    "StructurePreservingEmbedding": {
        **_ROWS,
        "_neighbours": "none @_neighbours.Neighbours",
        "_neighbours.rows": "n d ?",
        "_structure": "! @structure.Structure",
        "_structure.neighbours": "n n",
        "_unit": "! +",
    },
    "Whitener": {
        "result_": "! @whitening.Whitening",
        "result_.unit": "d +",
    },
}
