"""Where the rows lie, and how sure that is.

PPCA, factor analysis and Bayesian PCA have a posterior: its mean is the place and its covariance
the uncertainty. The scores of PCA are exact for a complete row, and vary with the uncertainty of
imputed values. A mixture has latents of its own for every component; its rows are shown on
axes that all components share. Everything else is what `transform` says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.plots.numbers.clusters import mixture_numbers
from eigengap.plots.numbers.scores import score_ellipses
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject

MOST_AXES = 6  # that can be looked at


@dataclass(frozen=True, eq=False)
class Scores:
    """Coordinates of the rows that are shown."""

    Z: Array  # (m, r)
    axes: tuple[str, ...]  # (r,) names
    cov: Array | None  # (m, r, r) covariance of every place, NaN where none is known
    how: str  # a sentence on what the coordinates are
    part: NDArray[np.intp] | None = None  # (m,) most probable component of a mixture


def scores_of(subject: Subject, look: Look) -> Scores:
    """Of every row that is shown, at most MOST_AXES coordinates."""
    if subject.mixture is not None:
        return _of_mixture(subject, subject.mixture, look)
    if subject.kind == "PCA" and subject.gaussian is not None:
        return _of_pca(subject, look)
    if subject.gaussian is not None and hasattr(subject.bare, "posterior"):
        posterior = subject.bare.posterior(look.X)
        r = min(posterior.mean.shape[1], MOST_AXES)
        return Scores(
            np.asarray(posterior.mean[:, :r]),
            subject.axis_names(posterior.mean.shape[1])[:r],
            np.asarray(posterior.cov[:, :r, :r]),
            "A point is the expected place of a row given its observed values"
            + ("; an ellipse covers the true place with a probability of 95 %." if r > 1 else "."),
        )
    Z = _embedded(subject, look)
    r = min(Z.shape[1], MOST_AXES)
    names = subject.axis_names(Z.shape[1])[:r]
    return Scores(Z[:, :r], names, None, f"A point is where {subject.kind} puts a row.")


def _embedded(subject: Subject, look: Look) -> Array:
    known = getattr(subject.bare, "embedding_", None)
    if subject.is_pairwise:
        if known is None or len(known) != look.n_rows:
            raise ValueError(
                f"this {subject.kind} was fitted to pairs of rows, of which the report can show "
                "those of the fit: give it the table that it was fitted to"
            )
        return np.asarray(known, dtype=np.float64)[look.at]
    return np.asarray(subject.bare.transform(look.X), dtype=np.float64)


def _of_pca(subject: Subject, look: Look) -> Scores:
    Z = np.asarray(subject.bare.transform(look.X), dtype=np.float64)
    q = Z.shape[1]
    r = min(q, MOST_AXES)
    how = "A point is the projection of a row onto the principal axes."
    cov = None
    regions = score_ellipses(subject.bare, look.X, tuple(range(r)), most=len(Z))
    if regions is not None:
        cov = np.full((len(Z), r, r), np.nan)
        cov[regions.at] = regions.cov
        how += (
            " Missing values were imputed by their conditional expectation, and an ellipse covers "
            "the true place with a probability of 95 %."
        )
    return Scores(Z[:, :r], subject.axis_names(q)[:r], cov, how)


def _of_mixture(subject: Subject, model: MixtureOfLinearGaussians, look: Look) -> Scores:
    r = min(MOST_AXES, model.d, sum(model.ranks) + model.K)
    found = mixture_numbers(subject.bare, look.X, tuple(range(r)))
    return Scores(
        found.points,
        tuple(f"Axis {k + 1}" for k in range(r)),
        None,
        "A mixture has axes of its own in every component; here all rows lie on the axes that show "
        "most of how the components differ, within and from each other, missing "
        "values imputed by their conditional expectation.",
        np.argmax(found.resp, axis=1),
    )
