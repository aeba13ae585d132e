"""Scores of rows, and how sure they are: 95 % regions of the scores of incomplete rows.

PPCA, factor analysis and their kin have the posterior z | observed ~ N(m, S), and their scores are
m. PCA's score of a row is t = U^T y, known but for the missing values u of the row, which given the
seen ones have covariance W_u S W_u^T + diag(psi_u):

    Cov(t | observed) = B S B^T + U_u^T diag(psi_u) U_u,   B = U_u^T W_u,

so that a complete row has no uncertainty at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from eigengap.linalg import Array
from eigengap.models.gaussian.posterior import Posterior
from eigengap.plots.numbers.linear import linear_view
from eigengap.plots.numbers.rows import all_rows, bare, inner

OUTLINE = 33  # points of an ellipse, the last one the first


@dataclass(frozen=True, eq=False)
class ScoreEllipses:
    """Regions that hold the scores of some rows with a given probability."""

    at: NDArray[np.intp]  # (e,) which of the rows
    centre: Array  # (e, k)
    cov: Array  # (e, k, k) of the k plotted coordinates
    level: float

    def outlines(self) -> Array:
        """(e, points, 2) of the ellipses of two coordinates."""
        radius = np.sqrt(special.chdtri(2, 1.0 - self.level))
        angle = np.linspace(0.0, 2.0 * np.pi, OUTLINE)
        circle = np.stack([np.cos(angle), np.sin(angle)])  # (2, p)
        lam, V = np.linalg.eigh(self.cov)
        roots = V * np.sqrt(np.maximum(lam, 0.0))[:, None, :]
        return np.asarray(self.centre[:, None, :] + radius * (roots @ circle).transpose(0, 2, 1))

    def intervals(self) -> tuple[Array, Array]:
        """(e,) ends of the intervals of the first coordinate."""
        reach = -special.ndtri((1.0 - self.level) / 2.0) * np.sqrt(self.cov[:, 0, 0])
        return self.centre[:, 0] - reach, self.centre[:, 0] + reach


def scores_of(estimator: Any, X: Any) -> Array:
    """transform(X) of rows (m, d): (m, q), float64."""
    X = all_rows(X, estimator).X
    return np.asarray(bare(inner(estimator)).transform(X), dtype=np.float64)


def score_names(estimator: Any, q: int) -> list[str]:
    """PC1, PC2, ... as the estimator calls its coordinates."""
    try:
        found = component_names(inner(estimator))
    except (AttributeError, ValueError):
        found = []
    return found if len(found) == q else [f"{k + 1}" for k in range(q)]


def component_names(estimator: Any) -> list[str]:
    """PC1, PC2, ... of an estimator of ours; what scikit-learn's and others call their columns."""
    names = getattr(estimator, "component_names_", None)
    return [str(name) for name in (estimator.get_feature_names_out() if names is None else names)]


def check_axes(axes: Any, q: int, name: str) -> tuple[int, ...]:
    """Positions of the components asked for, which are counted from 1."""
    asked = tuple(axes) if np.ndim(axes) else (axes,)
    wrong = [a for a in asked if isinstance(a, bool) or int(a) != a or not 1 <= a <= q]
    if wrong or not asked:
        has = f"{q} component{'s' if q != 1 else ''}, counted from 1"
        raise ValueError(f"axes={axes!r}: {name} has {has}")
    return tuple(int(a) - 1 for a in asked)


def score_ellipses(
    estimator: Any,
    X: Any,
    axes: tuple[int, ...] = (0, 1),
    *,
    level: float = 0.95,
    most: int = 200,
) -> ScoreEllipses | None:
    """Regions of the scores of those rows of X (m, d) that are incomplete; None if unknown.

    Of more than `most` such rows those that are least sure are taken. `axes` are positions.
    """
    X, model = all_rows(X, estimator).X, inner(estimator)
    incomplete = np.flatnonzero(np.isnan(X).any(axis=1))
    if not hasattr(model, "posterior") or len(incomplete) == 0:
        return None
    posterior = bare(model).posterior(X[incomplete])
    if not isinstance(posterior, Posterior):
        return None
    cov = _pca_cov(model, X[incomplete], posterior) if _is_pca(model) else posterior.cov
    at = np.array(axes)
    cov = np.asarray(cov)[:, at[:, None], at]
    widest = np.argsort(-np.linalg.det(cov) if len(axes) > 1 else -cov[:, 0, 0], kind="stable")
    kept = np.sort(widest[:most])
    centre = scores_of(estimator, X[incomplete[kept]])[:, axes]
    return ScoreEllipses(incomplete[kept], centre, cov[kept], level)


def _is_pca(model: Any) -> bool:
    return any(cls.__name__ == "PCA" for cls in type(model).__mro__)


def _pca_cov(model: Any, X: Array, posterior: Posterior) -> Array:
    view = linear_view(model)
    assert view is not None
    assert view.density is not None
    missing = np.isnan(X)
    W, psi = view.density.W, view.density.psi
    S = posterior.cov
    found = np.empty((len(X), view.A.shape[0], view.A.shape[0]))
    for i, gone in enumerate(missing):
        A = view.A[:, gone]
        B = A @ W[gone]
        found[i] = B @ S[i] @ B.T + (A * psi[gone]) @ A.T
    return found
