"""Weights that the training of a network starts from."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.autoencoder.standard import Standard
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import Architecture
from eigengap.sources.base import Source

ROWS = 2000  # that principal axes come from: a start need not be exact
RECTIFIERS = ("relu", "gelu", "elu", "softplus")  # which let about half of their input through


def random_weights(arch: Architecture, rng: np.random.Generator) -> Array:
    """Normal weights that keep the size of what goes through, and no biases: (size,).

    Variance 1 over the number of inputs (LeCun et al. 1998), twice that where half of a layer is
    cut off (He et al. 2015).
    """
    gain = 2.0 if arch.activation in RECTIFIERS else 1.0
    arrays = [
        np.zeros(shape) if len(shape) == 1 else rng.normal(size=shape) * np.sqrt(gain / shape[0])
        for shape in arch.shapes
    ]
    return np.concatenate([np.ravel(array) for array in arrays])


def principal_axes(
    source: Source, standard: Standard, q: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Leading axes (d, r) of some standardised rows, r <= q, and standard deviations (r,) along.

    A gap counts as the mean of its column, which shortens the deviations a little.
    """
    n = source.observed().rows
    rows = source.sample(min(n, max(ROWS, 5 * q)), rng)
    x = np.nan_to_num((rows - standard.mean) / standard.unit, nan=0.0)
    _, s, Vt = np.linalg.svd(x - np.mean(x, axis=0), full_matrices=False)
    s, Vt = s[:q], Vt[:q]
    told = s > 1e-10 * max(float(s[0]), 1e-300)
    return Vt[told].T, s[told] / np.sqrt(len(x))


def principal_weights(arch: Architecture, theta: Array, U: Array, sd: Array) -> Array:
    """Random weights theta made those of principal component analysis, as far as it goes.

    The linear path (or the only layer) holds the whitened axes, and the last layers beside it
    nothing yet; codes beyond the directions that vary keep small random weights.
    """
    theta = theta.copy()
    parts, r = arch.split(theta), len(sd)  # views of theta
    if parts.A is not None and parts.B is not None:
        forth, back = parts.A, parts.B
        parts.encoder[-1][0][:] = 0.0
        parts.decoder[-1][0][:] = 0.0
    else:
        forth, back = parts.encoder[0][0][: arch.d], parts.decoder[0][0]
        parts.encoder[0][0][arch.d :] = 0.0
    forth *= 0.1
    back *= 0.1
    forth[:, :r] = U / sd
    back[:r] = (U * sd).T
    return theta
