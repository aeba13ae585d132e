"""PCA and its whole probabilistic family, for data with holes.

Public names are loaded when first used, so that `import eigengap` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap.estimators._base import NoiseFloorWarning
    from eigengap.estimators.factor_analysis import FactorAnalysis, HeywoodWarning
    from eigengap.estimators.pca import PCA
    from eigengap.estimators.ppca import PPCA
    from eigengap.models.affine import AffineMap
    from eigengap.models.linear_gaussian import LinearGaussian, SingularModelError
    from eigengap.models.posterior import Posterior
    from eigengap.spectrum import Spectrum

__version__ = "0.1.0"

__all__ = [
    "PCA",
    "PPCA",
    "AffineMap",
    "FactorAnalysis",
    "HeywoodWarning",
    "LinearGaussian",
    "NoiseFloorWarning",
    "Posterior",
    "SingularModelError",
    "Spectrum",
]

_HOME = {
    "PCA": "eigengap.estimators.pca",
    "PPCA": "eigengap.estimators.ppca",
    "FactorAnalysis": "eigengap.estimators.factor_analysis",
    "HeywoodWarning": "eigengap.estimators.factor_analysis",
    "NoiseFloorWarning": "eigengap.estimators._base",
    "AffineMap": "eigengap.models.affine",
    "LinearGaussian": "eigengap.models.linear_gaussian",
    "Posterior": "eigengap.models.posterior",
    "SingularModelError": "eigengap.models.linear_gaussian",
    "Spectrum": "eigengap.spectrum",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its home (PEP 562); the second time it is found without this."""
    if name not in _HOME:
        raise AttributeError(f"module 'eigengap' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
