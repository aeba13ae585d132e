"""Kernels as values: names of scikit-learn, and a base for kernels of your own."""

from eigengap.exceptions import KernelOverflowError
from eigengap.models.kernels.functions import (
    RBF,
    Cosine,
    Function,
    Kernel,
    Laplacian,
    Linear,
    NoRealPowerError,
    Polynomial,
    Precomputed,
    Sigmoid,
    about_mean,
    named,
)

__all__ = [
    "RBF",
    "Cosine",
    "Function",
    "Kernel",
    "KernelOverflowError",
    "Laplacian",
    "Linear",
    "NoRealPowerError",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "about_mean",
    "named",
]
