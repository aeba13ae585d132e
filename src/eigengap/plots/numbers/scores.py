"""Scores of rows: linear maps, 95 % regions of incomplete rows, the plane of a mixture.

What a linear estimator does to a row, in the units of its fit:

    t = A y,   y = (x - mean) / unit,   y ~ L t + the rest,   Cov(y) = W W^T + diag(psi)

unit is 1, or the standard deviations of the columns where scale=True. PCA has A = U^T and L = U;
PPCA and factor analysis have A = W^T C^-1, the posterior mean, and L = W (rotated). An incomplete
row has the t of its conditional mean, for E[z | observed] = A E[y | observed].

PPCA, factor analysis and their kin have the posterior z | observed ~ N(m, S), and their scores are
m. PCA's score of a row is t = U^T y, known but for the missing values u of the row, which given the
observed ones have covariance W_u S W_u^T + diag(psi_u):

    Cov(t | observed) = B S B^T + U_u^T diag(psi_u) U_u,   B = U_u^T W_u,

so that a complete row has no uncertainty at all.

A mixture has latents of its own in every component. Its rows are shown in a plane that all
components share: the axes are the leading left singular vectors of
[sqrt(pi_k) W_k, sqrt(pi_k) (mu_k - mu)], what the components explain within themselves and how far
they lie apart, the noise left aside; in units of the fit. Rows are projected with their missing
values at their expected values, components as Gaussians.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from eigengap.estimators.shared.display import public_name
from eigengap.linalg import Array, sign_rule
from eigengap.models.columns.model import ColumnModel
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.posterior import Posterior
from eigengap.models.maps.affine import AffineMap
from eigengap.plots.numbers.names import component_names, labels
from eigengap.plots.numbers.rows import Look, all_rows, bare, inner
from eigengap.plots.numbers.subject import Subject
from eigengap.registry import entry_of, names_with

OUTLINE = 33  # points of an ellipse, the last one the first
CHUNK = 4096  # rows whose covariances are held together
MOST_AXES = 6  # that can be looked at in the report


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
        density = density.gaussian
        unit = np.ones(density.d) if model.scale_ is None else np.asarray(model.scale_)
        standard = density.rescaled(1.0 / unit, -density.mu / unit)
        if entry_of(model).name == "PCA":
            scale = model._whitening() if model.whiten else np.ones(model.n_components_)
            U = model.components_.T
            return LinearView(U.T / scale[:, None], U * scale, density.mu, unit, standard)
        A = standard.encoder().A
        if hasattr(model, "rotation_"):  # factors
            A = model.rotation_.T.T @ A
        return LinearView(A, model.loadings_ / unit[:, None], density.mu, unit, standard)
    if isinstance(density, ColumnModel):  # of the u behind the columns
        u = density.gaussian
        centred = u.rescaled(np.ones(u.d), -u.mu)
        A = centred.encoder().A
        if hasattr(model, "rotation_"):
            A = model.rotation_.T.T @ A
        return LinearView(A, np.asarray(model.loadings_), u.mu, np.ones(u.d), centred)
    if isinstance(density, AffineMap):  # ICA, classical scaling of Euclidean rows
        d = len(density.mean)
        known = getattr(model, "density_", None)
        inside = None if known is None else known.gaussian.rescaled(np.ones(d), -known.mu)
        return LinearView(density.A, density.B, density.mean, np.ones(d), inside)
    return None


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


# Scores and their regions ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScoreEllipses:
    """Regions that hold the scores of some rows with a given probability."""

    at: NDArray[np.intp]  # (e,) which of the rows
    centre: Array  # (e, k)
    cov: Array  # (e, k, k) of the k plotted coordinates
    level: float

    def outlines(self, points: int = OUTLINE) -> Array:
        """(e, points, 2) of the ellipses of two coordinates."""
        radius = np.sqrt(special.chdtri(2, 1.0 - self.level))
        angle = np.linspace(0.0, 2.0 * np.pi, points)
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
    return _scores(estimator, all_rows(X, estimator).X)


def _scores(estimator: Any, values: Array) -> Array:
    return np.asarray(bare(inner(estimator)).transform(values), dtype=np.float64)


def score_covariances(estimator: Any, X: Any) -> Iterator[tuple[slice, Array]]:
    """How sure the scores of rows are: covariances (c, q, q), chunk by chunk.

    None come from an estimator without posteriors.
    """
    X, model = all_rows(X, estimator).X, inner(estimator)
    is_pca = entry_of(model).name == "PCA"
    for start in range(0, len(X), CHUNK):
        rows = slice(start, min(start + CHUNK, len(X)))
        posterior = bare(model).posterior(X[rows]) if hasattr(model, "posterior") else None
        if not isinstance(posterior, Posterior):
            return
        yield rows, np.asarray(_pca_cov(model, X[rows], posterior) if is_pca else posterior.cov)


def score_names(estimator: Any, q: int) -> list[str]:
    """PC1, PC2, ... as the estimator calls its coordinates."""
    try:
        found = component_names(inner(estimator))
    except (AttributeError, ValueError):
        found = []
    return found if len(found) == q else [f"{k + 1}" for k in range(q)]


def check_axes(axes: Any, q: int, name: str) -> tuple[int, ...]:
    """Positions of the components asked for, which are counted from 1."""
    asked = tuple(axes) if np.ndim(axes) else (axes,)
    wrong = [a for a in asked if isinstance(a, bool) or int(a) != a or not 1 <= a <= q]
    if wrong or not asked:
        has = f"{q} component{'s' if q != 1 else ''}, counted from 1"
        raise ValueError(f"axes={axes!r}: {name} has {has}")
    return tuple(int(a) - 1 for a in asked)


def score_ellipses(
    estimator: Any, X: Any, axes: tuple[int, ...] = (0, 1), *, level: float = 0.95, most: int = 200
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
    is_pca = entry_of(model).name == "PCA"
    cov = _pca_cov(model, X[incomplete], posterior) if is_pca else posterior.cov
    at = np.array(axes)
    cov = np.asarray(cov)[:, at[:, None], at]
    widest = np.argsort(-np.linalg.det(cov) if len(axes) > 1 else -cov[:, 0, 0], kind="stable")
    kept = np.sort(widest[:most])
    centre = _scores(estimator, X[incomplete[kept]])[:, axes]
    return ScoreEllipses(incomplete[kept], centre, cov[kept], level)


def _pca_cov(model: Any, X: Array, posterior: Posterior) -> Array:
    view = linear_view(model)
    assert view is not None
    assert view.density is not None
    W, psi = view.density.W, view.density.psi
    found = np.empty((len(X), view.A.shape[0], view.A.shape[0]))
    for i, missing in enumerate(np.isnan(X)):
        A = view.A[:, missing]
        B = A @ W[missing]
        found[i] = B @ posterior.cov[i] @ B.T + (A * psi[missing]) @ A.T
    return found


# Mixtures --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows and components of a mixture along some of its axes."""

    points: Array  # (m, 2)
    resp: Array  # (m, K)
    ellipses: ScoreEllipses  # (K,) of the components
    weights: Array  # (K,)
    names: list[str]
    share: Array  # (2,) of the variance that the axes have shown, noise aside


def mixture_numbers(
    estimator: Any, X: Any, axes: tuple[int, ...] = (0, 1), level: float = 0.95
) -> Clusters:
    """Rows X (m, d) and the components of a fitted mixture, projected."""
    X = all_rows(X, estimator).X
    mixture, unit, names = _parts(estimator)
    mu = mixture.mean() / unit
    models = [model.gaussian.rescaled(1.0 / unit) for model in mixture.models]
    weights = mixture.weights
    root = np.hstack(  # of the covariance of the mixture, without its noise
        [
            np.sqrt(w) * np.column_stack([m.W, m.mu - mu])
            for w, m in zip(weights, models, strict=True)
        ]
    )
    U, s, _ = np.linalg.svd(root, full_matrices=False)
    if U.shape[1] <= max(axes):
        raise ValueError(
            f"axes={tuple(a + 1 for a in axes)}: the components of the mixture span "
            f"{U.shape[1]} direction{'s' if U.shape[1] != 1 else ''}"
        )
    P = (U * sign_rule(U))[:, list(axes)]
    imputed = mixture.conditional_mean(X) / unit
    centre = np.array([(m.mu - mu) @ P for m in models])
    B = [P.T @ m.W for m in models]
    cov = np.array([b @ b.T + (P.T * m.psi) @ P for b, m in zip(B, models, strict=True)])
    return Clusters(
        points=(imputed - mu) @ P,
        resp=np.asarray(bare(estimator).predict_proba(X)),
        ellipses=ScoreEllipses(np.arange(len(models)), centre, cov, level),
        weights=weights,
        names=names,
        share=(s[list(axes)] ** 2) / max(float(np.sum(s**2)), 1e-300),
    )


def _parts(estimator: Any) -> tuple[MixtureOfLinearGaussians, Array, list[str]]:
    """The mixture in data units, its units, and names of its components."""
    model = getattr(estimator, "model_", None)
    if isinstance(model, MixtureOfLinearGaussians):
        unit = np.ones(model.d) if estimator.scale_ is None else estimator.scale_
        return model, unit, [f"component {k}" for k in range(model.K)]
    densities = [getattr(one, "model_", None) for one in getattr(estimator, "models_", [])]
    if densities and all(isinstance(one, LinearGaussian) for one in densities):
        d = densities[0].d  # type: ignore[union-attr]
        unit = np.ones(d) if estimator.scale_ is None else np.asarray(estimator.scale_)
        models = [one.gaussian.rescaled(unit) for one in densities]  # type: ignore[union-attr]
        prior = np.log(np.maximum(estimator.class_prior_, 1e-300))
        return MixtureOfLinearGaussians(prior, models), unit, labels(estimator.classes_)
    raise AttributeError(
        f"{public_name(estimator)} has no components of a mixture. MixturePPCA and "
        "PPCAClassifier, whose classes they are, have them"
    )


# Rows of the report ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scores:
    """Coordinates of the rows that are shown."""

    Z: Array  # (m, r)
    axes: tuple[str, ...]  # (r,) names
    cov: Array | None  # (m, r, r) covariance of every place, NaN where none is known
    how: str  # a sentence on what the coordinates are
    part: NDArray[np.intp] | None = None  # (m,) most probable component of a mixture


def report_scores(subject: Subject, look: Look) -> Scores:
    """Of every row that is shown, at most MOST_AXES coordinates.

    A posterior has the place of a row as its mean and the uncertainty as its covariance; scores of
    PCA are exact for a complete row; all else is what `transform` returns.
    """
    if subject.mixture is not None:
        model = subject.mixture
        r = min(MOST_AXES, model.d, sum(model.ranks) + model.K)
        found = mixture_numbers(subject.bare, look.X, tuple(range(r)))
        return Scores(
            found.points,
            tuple(f"Axis {k + 1}" for k in range(r)),
            None,
            "A mixture has axes of its own in every component; here all rows lie on the axes that "
            "show most of how the components differ, within and from each other, missing values "
            "imputed by their conditional expectation.",
            np.argmax(found.resp, axis=1),
        )
    cov = None
    is_pca = subject.kind == "PCA" and subject.gaussian is not None
    if not is_pca and subject.gaussian is not None and hasattr(subject.bare, "posterior"):
        posterior = subject.bare.posterior(look.X)
        Z, cov = np.asarray(posterior.mean), np.asarray(posterior.cov)
        how = "A point is the expected place of a row given its observed values"
        covers = "; an ellipse covers the true place with a probability of 95 %."
        how += covers if Z.shape[1] > 1 else "."
    else:
        Z = _embedded(subject, look)
        how = f"A point is where {subject.kind} puts a row."
    r = min(Z.shape[1], MOST_AXES)
    if is_pca:
        how = "A point is the projection of a row onto the principal axes."
        regions = score_ellipses(subject.bare, look.X, tuple(range(r)), most=len(Z))
        if regions is not None:
            cov = np.full((len(Z), r, r), np.nan)
            cov[regions.at] = regions.cov
            how += (
                " Missing values were imputed by their conditional expectation, and an ellipse "
                "covers the true place with a probability of 95 %."
            )
    axes = subject.axis_names(Z.shape[1])[:r]
    return Scores(Z[:, :r], axes, None if cov is None else cov[:, :r, :r], how)


def _embedded(subject: Subject, look: Look) -> Array:
    if not subject.is_pairwise:
        return np.asarray(subject.bare.transform(look.X), dtype=np.float64)
    known = getattr(subject.bare, "embedding_", None)
    if known is None or len(known) != look.n_rows:
        raise ValueError(
            f"this {subject.kind} was fitted to pairs of rows, of which the report can show "
            "those of the fit: give it the table that it was fitted to"
        )
    return np.asarray(known, dtype=np.float64)[look.at]
