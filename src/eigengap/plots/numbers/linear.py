"""What a linear estimator does to a row, in the units of its fit.

    t = A y,   y = (x - mean) / unit,   y ~ L t + the rest,   Cov(y) = W W^T + diag(psi)

unit is 1, or the standard deviations of the columns where scale=True. PCA has A = U^T and L = U;
PPCA and factor analysis have A = W^T C^-1, the posterior mean, and L = W (rotated). An incomplete
row has the t of its conditional mean, for E[z | observed] = A E[y | observed].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.maps.affine import AffineMap
from eigengap.plots.numbers.rows import inner
from eigengap.registry import entry_of, names_with


@dataclass(frozen=True, eq=False)
class LinearView:
    """The map of an estimator from rows to scores, and back."""

    A: Array  # (q, d)
    L: Array  # (d, q)
    mean: Array  # (d,) in data units
    unit: Array  # (d,)
    density: LinearGaussian | None  # of y, its mean 0; None where there is none

    def covariances(self) -> tuple[Array, Array]:
        """Cov(y, t) (d, q) and Cov(t) (q, q) under the density; no d x d matrix is formed."""
        if self.density is None:
            raise ValueError("the estimator has no density; give the complete table X")
        W, psi = self.density.W, self.density.psi
        with_scores = W @ (W.T @ self.A.T) + psi[:, None] * self.A.T
        return with_scores, self.A @ with_scores


def linear_view(estimator: Any) -> LinearView | None:
    """The linear map of a fitted estimator with loadings; None where it keeps none."""
    model = inner(estimator)
    density = getattr(model, "model_", None)
    if isinstance(density, LinearGaussian):
        return _of_density(model, density.gaussian)
    if isinstance(density, AffineMap):  # ICA, classical scaling of Euclidean rows
        d = len(density.mean)
        known = getattr(model, "density_", None)
        centred = None if known is None else known.gaussian.rescaled(np.ones(d), -known.mu)
        return LinearView(density.A, density.B, density.mean, np.ones(d), centred)
    return None


def _of_density(model: Any, density: LinearGaussian) -> LinearView:
    unit = np.ones(density.d) if model.scale_ is None else np.asarray(model.scale_)
    standard = density.rescaled(1.0 / unit, -density.mu / unit)
    if entry_of(model).name == "PCA":
        spread = model._whitening() if model.whiten else np.ones(model.n_components_)
        U = model.components_.T
        return LinearView(U.T / spread[:, None], U * spread, density.mu, unit, standard)
    A = standard.encoder().A
    if hasattr(model, "rotation_"):  # factors
        A = model.rotation_.T.T @ A
    return LinearView(A, model.loadings_ / unit[:, None], density.mu, unit, standard)


def orthonormal_axes(estimator: Any) -> Array | None:
    """U (d, q) in units of the fit where the components are orthogonal directions, else None."""
    model = inner(estimator)
    projection = getattr(model, "projection_", None)
    if projection is None or hasattr(model, "rotation_"):
        return None
    return np.asarray(projection.A.T)


def require_linear(estimator: Any, chart: str) -> LinearView:
    """The linear map, or an error in words."""
    view = linear_view(estimator)
    if view is None:
        raise AttributeError(
            f"{public_name(estimator)} has no {chart}: it keeps no loadings of the columns. "
            f"{names_with('biplot')} have one"
        )
    return view
