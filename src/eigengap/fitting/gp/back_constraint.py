"""Latents as a smooth function of the rows: back constraints.

Lawrence and Quinonero-Candela (2006), "Local distance preservation in the GP-LVM through back
constraints": in place of free latents the parameters of a function z = g(x) are learned, so that
rows that are near each other have latents near each other, and a new row has its latent at once.

    kernel   g(x) = A'k(x, rows), an RBF kernel of the median width
    mlp      one hidden layer of hyperbolic tangents plus a linear map
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eigengap.fitting.kernel.bandwidth import median_gamma
from eigengap.linalg import Array
from eigengap.models.kernels.functions import RBF
from eigengap.models.maps.landmark import LandmarkMap
from eigengap.models.network.autoencoder import Perceptron

Kind = Literal["kernel", "mlp"]
BackMap = LandmarkMap | Perceptron

MOST_ROWS = 300  # whose kernels are the features; evenly spaced among the rows where there are more
HIDDEN = 30
RIDGE = 1e-3  # of the start, in units of the largest eigenvalue


@dataclass(frozen=True, eq=False)
class Back:
    """Features of the rows, parameters to start from, and what is needed to map new rows."""

    kind: Kind
    features: Array  # (n, p) of the rows: latents are a function of these and of the parameters
    start: dict[str, Array]  # parameters by name that come near the wanted latents
    map: Callable[[dict[str, Array], Array, Array], BackMap]
    """Of parameters, shift and stretch: the map whose latents are (z - shift) / stretch."""


def back_constraint(kind: Kind, rows: Array, Z: Array, rng: np.random.Generator) -> Back:
    """A function of the standardised, imputed rows (n, d) that starts near the latents Z (n, q)."""
    return _by_kernel(rows, Z) if kind == "kernel" else _by_perceptron(rows, Z, rng)


def _by_kernel(rows: Array, Z: Array) -> Back:
    at = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).round().astype(int))
    landmarks = rows[at]
    kernel = RBF(median_gamma(landmarks) if len(landmarks) > 1 else 1.0)
    lam, V = np.linalg.eigh(kernel.matrix(landmarks, landmarks))
    kept = lam > 1e-8 * lam[-1]
    root = V[:, kept] / np.sqrt(lam[kept])  # features of unit covariance in the kernel's own sense
    features = kernel.matrix(rows, landmarks) @ root

    def mapped(parameters: dict[str, Array], shift: Array, stretch: Array) -> BackMap:
        coefficients = root @ parameters["A"] / stretch
        # A map of this form subtracts from the kernels, not from the coordinates: any vector of
        # kernels whose coordinates are the shift will do.
        means = np.asarray(np.linalg.lstsq(coefficients.T, shift / stretch, rcond=None)[0])
        return LandmarkMap(landmarks, kernel, means, coefficients)

    return Back("kernel", features, {"A": _ridge(features, Z)}, mapped)


def _by_perceptron(rows: Array, Z: Array, rng: np.random.Generator) -> Back:
    d = rows.shape[1]
    W1 = rng.normal(size=(d, HIDDEN)) / np.sqrt(d)
    b1 = rng.normal(size=HIDDEN)
    design = np.hstack([rows, np.tanh(rows @ W1 + b1), np.ones((len(rows), 1))])
    found = _ridge(design, Z)
    start = {"W0": found[:d], "W1": W1, "b1": b1, "W2": found[d:-1], "b2": found[-1]}

    def mapped(p: dict[str, Array], shift: Array, stretch: Array) -> BackMap:
        W2, b2 = p["W2"] / stretch, (p["b2"] - shift) / stretch
        return Perceptron(p["W0"] / stretch, p["W1"], p["b1"], W2, b2)

    return Back("mlp", rows, start, mapped)


def _ridge(design: Array, Z: Array) -> Array:
    scatter = design.T @ design
    ridge = RIDGE * np.linalg.eigvalsh(scatter)[-1]
    return np.asarray(np.linalg.solve(scatter + ridge * np.eye(len(scatter)), design.T @ Z))
