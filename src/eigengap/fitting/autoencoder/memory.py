"""What a network takes of memory while it is trained, asked before its weights are drawn."""

from __future__ import annotations

from eigengap.fitting.optimise.lbfgs import MEMORY
from eigengap.models.network.autoencoder import Architecture
from eigengap.runtime.memory import SHARE, free_memory, require_memory

COPIES = 14  # of the weights: best ones, gradient, Adam's two moments, and what a step makes anew
ACTIVATIONS = 4  # arrays of a layer's width that the gradient of some rows keeps


def require_network(arch: Architecture, rows: int, polish: bool) -> None:
    """Refuse weights, and layers of so many rows, that memory does not hold."""
    widths = 2.0 * sum(arch.hidden) + 2.0 * arch.inputs + arch.d + arch.q
    weights = 8.0 * arch.size * (COPIES + (_of_polish() if polish else 0))
    require_memory(
        weights + 8.0 * ACTIVATIONS * rows * widths,
        f"a network of {arch.size} weights (hidden={arch.hidden}, {arch.d} columns)",
        "take narrower layers" + (", or polish=False" if polish else ""),
    )


def polish_fits(arch: Architecture) -> bool:
    """Whether memory holds the steps and gradients that L-BFGS remembers."""
    return 8.0 * arch.size * (COPIES + _of_polish()) <= SHARE * free_memory()


def _of_polish() -> int:
    return 2 * MEMORY + COPIES  # pairs, and SciPy's work space
