"""What the fit of an autoencoder is asked for, and what it found."""

from __future__ import annotations

from dataclasses import dataclass

from eigengap.fitting.optimise.loop import Trace, Watch
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import Network

AUTO_RATE = 5e-3


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
    noise: Array  # (d,) standard deviation of cells that the network did not see, in data units
    n_held_out: int
    epochs: int
    converged: bool
    stopped_early: bool  # by the rows held out
    diverged: bool  # whether the passes ended far above where they began
