"""What the fit of an autoencoder is asked for, and what it found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.autoencoder.rows import Standard
from eigengap.fitting.optimise.lbfgs import MEMORY
from eigengap.fitting.optimise.loop import Trace, Watch
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import Architecture, Network
from eigengap.runtime.memory import SHARE, free_memory, require_memory
from eigengap.sources.base import Source

AUTO_RATE = 5e-3
COPIES = 14  # of the weights: best ones, gradient, Adam's two moments, and what a step makes anew
OF_POLISH = 2 * MEMORY + COPIES  # the same of L-BFGS: pairs, and SciPy's work space
ACTIVATIONS = 4  # arrays of a layer's width that the gradient of some rows keeps
ROWS = 2000  # that principal axes come from: a start need not be exact
RECTIFIERS = ("relu", "gelu", "elu", "softplus")  # which let about half of their input through


@dataclass(frozen=True)
class AutoencoderOptions:
    """How to fit."""

    hidden: tuple[int, ...] = (128, 64)
    activation: str = "gelu"
    shortcut: bool = True
    init: str = "pca"  # or "random"
    denoising: float = 0.0  # share of the cells hidden at every step
    weight_decay: float = 0.0
    scale: bool = True
    batch_size: int | None = None  # None chooses
    learning_rate: float = AUTO_RATE
    validation_fraction: float = 0.1  # 0 holds out nothing
    patience: int = 30
    max_iter: int = 500
    tol: float = 1e-4
    polish: bool | None = None
    seed: int = 0
    watch: Watch | None = None


@dataclass(frozen=True, eq=False)
class AutoencoderFit:
    """A fitted network and how it came about."""

    network: Network
    trace: Trace  # objective: training loss of each pass, then of each step of L-BFGS
    validation: Array  # (k,) loss of the rows held out after each of those; empty without
    loss: float  # of the training rows, at the end
    noise: (
        Array  # (d,) standard deviation of cells that were hidden from the network, in data units
    )
    n_held_out: int
    epochs: int
    converged: bool
    stopped_early: bool  # by the rows held out
    diverged: bool  # whether the passes ended far above where they began


# Memory ----------------------------------------------------------------------------------------


def require_network(arch: Architecture, rows: int, polish: bool) -> None:
    """Refuse weights, and layers of so many rows, that memory does not hold."""
    widths = 2.0 * sum(arch.hidden) + 2.0 * arch.inputs + arch.d + arch.q
    weights = 8.0 * arch.size * (COPIES + (OF_POLISH if polish else 0))
    require_memory(
        weights + 8.0 * ACTIVATIONS * rows * widths,
        f"a network of {arch.size} weights (hidden={arch.hidden}, {arch.d} columns)",
        "take narrower layers" + (", or polish=False" if polish else ""),
    )


def polish_fits(arch: Architecture) -> bool:
    """Whether memory holds the steps and gradients that L-BFGS remembers."""
    return 8.0 * arch.size * (COPIES + OF_POLISH) <= SHARE * free_memory()


# Start -----------------------------------------------------------------------------------------


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

    A missing value counts as the mean of its column, which shortens the deviations a little.
    """
    n = source.observed().rows
    rows = source.sample(min(n, max(ROWS, 5 * q)), rng)
    x = np.nan_to_num((rows - standard.mean) / standard.unit, nan=0.0)
    _, s, Vt = np.linalg.svd(x - np.mean(x, axis=0), full_matrices=False)
    s, Vt = s[:q], Vt[:q]
    varies = s > 1e-10 * max(float(s[0]), 1e-300)
    return Vt[varies].T, s[varies] / np.sqrt(len(x))


def principal_weights(arch: Architecture, theta: Array, U: Array, sd: Array) -> Array:
    """Random weights theta made those of principal component analysis, as far as it goes.

    The linear path (or the only layer) holds the whitened axes, and the last layers next to it
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
