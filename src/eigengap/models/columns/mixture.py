"""A mixture behind columns of every kind: what it says about rows, in the data's own terms.

u has the density sum_k pi_k N(mu_k, W_k W_k^T + Psi_k). A row has sites of its own under each
component, so that each is a `ColumnModel` by itself; responsibilities come from the components'
approximate likelihoods. What is predicted of a missing value is the mixture of the components'
predictions: probabilities are averaged, and medians and intervals found in the averaged cumulative
probabilities, so that an interval may span two modes and the median lie where one does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from eigengap.linalg import Array, unpack
from eigengap.models.columns.model import Answers, Asked, ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.mixture import (
    MixtureOfLinearGaussians,
    MixturePosterior,
    drawn_components,
    responsibilities,
)
from eigengap.models.gaussian.posterior import Posterior
from eigengap.models.gaussian.predictive import MixturePredictive
from eigengap.models.gaussian.sites import SitePosteriors, SiteRows, Sites

WIDEST = 10.0  # standard deviation of a u, which has one of about 1 over all rows

UnderComponents = list[tuple[SiteRows, SitePosteriors, Sites]]  # (K,)


@dataclass(frozen=True, eq=False)
class ColumnMixture(Answers):
    """Columns, and the mixture of the u behind them."""

    columns: Columns
    gaussian: MixtureOfLinearGaussians  # of u: D features
    uncertain: MixturePredictive | None = None  # how sure its parameters are

    @property
    def K(self) -> int:
        return self.gaussian.K

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.gaussian.ranks

    @property
    def weights(self) -> Array:
        return self.gaussian.weights

    @cached_property
    def components(self) -> tuple[ColumnModel, ...]:
        """(K,) the components, each as a model of the whole table."""
        models = self.gaussian.models
        known = self.uncertain.components if self.uncertain is not None else (None,) * len(models)
        return tuple(ColumnModel(self.columns, *each) for each in zip(models, known, strict=True))

    # Which component a row is of, and where in it -------------------------------------------

    def posteriors(self, values: Array) -> tuple[UnderComponents, Array, Array]:
        """Of rows (n, d) under each component, responsibilities (n, K), log-likelihoods of u."""
        found = [component.posteriors(values) for component in self.components]
        log_density = np.stack([one.log_likelihood for _, one, _ in found])
        resp, log_likelihood = responsibilities(self.gaussian.log_weights, log_density)
        return found, resp.T, log_likelihood

    def log_likelihood(self, values: Array) -> Array:
        """(n,) approximate, of what is observed of each row."""
        return self.posteriors(values)[2] + self.columns.log_slope(values)

    def responsibilities(self, values: Array) -> Array:
        """p(k | what is observed of the row): (n, K)."""
        return self.posteriors(values)[1]

    def posterior(self, values: Array) -> MixturePosterior:
        """Component and z of every row."""
        found, resp, _ = self.posteriors(values)
        of_rows = np.arange(len(values))
        return MixturePosterior(
            resp=resp,
            components=tuple(
                Posterior(one.Z.T, unpack(one.S.T, len(one.Z)), of_rows) for _, one, _ in found
            ),
        )

    def local_coordinates(self, values: Array) -> Array:
        """resp_k E[z | x, k] of all components side by side: (n, sum of ranks)."""
        found, resp, _ = self.posteriors(values)
        parts = [one.Z.T * resp[:, [k]] for k, (_, one, _) in enumerate(found)]
        return np.concatenate(parts, axis=1)

    # Missing values ------------------------------------------------------------------------

    def log_scores(self, values: Array, truth: Array) -> Array:
        """(n, d) ln of what is predicted of the true values of missing cells; NaN elsewhere."""
        resp = self.responsibilities(values)
        scores = np.stack([each.log_scores(values, truth) for each in self.components], axis=2)
        return np.asarray(logsumexp(scores, b=resp[:, None, :], axis=2))

    def sample_imputations(self, values: Array, rng: np.random.Generator) -> Array:
        """(n, d) one draw of the missing values given the observed ones."""
        labels = drawn_components(self.responsibilities(values), rng)
        filled = self.columns.values(values)
        for k, component in enumerate(self.components):
            at = np.flatnonzero(labels == k)
            if len(at):
                filled[at] = component.sample_imputations(values[at], rng)
        return filled

    def _observed(self, values: Array) -> Iterator[Asked]:
        """The others decide about the component too."""
        under = [component.posteriors(values) for component in self.components]
        for j, (column, own) in enumerate(self.columns):
            at = np.flatnonzero(~np.isnan(values[:, j]))
            if not len(at):
                continue
            kind = column.given(self.columns.details(values, j)[at])
            parts = [
                component._from_others(rows, sites, at, own)
                for component, (rows, _, sites) in zip(self.components, under, strict=True)
            ]
            mean, cov, log_density = (np.stack(part) for part in zip(*parts, strict=True))
            resp = responsibilities(self.gaussian.log_weights, log_density)[0].T
            yield Asked(kind, j, at, mean, cov, resp)

    def draw(self, rng: np.random.Generator) -> ColumnMixture:
        """The mixture with parameters drawn from their distribution around the estimate.

        That has no bound either where a component has hardly any rows: see `WIDEST`.
        """
        if self.uncertain is None:
            return self
        drawn = self.uncertain.draw(rng)
        models = []
        for each, own in zip(drawn.models, self.gaussian.models, strict=True):
            length = np.sqrt(np.einsum("dq,dq->d", each.W, each.W))
            W = each.W * np.minimum(WIDEST / np.maximum(length, 1e-300), 1.0)[:, None]
            mu = own.mu + np.clip(each.mu - own.mu, -WIDEST, WIDEST)
            psi = np.where(self.columns.free_scale, own.psi, np.minimum(each.psi, WIDEST**2))
            within = replace(each, W=W, mu=mu, psi=psi)
            models.append(self.columns.with_mean_counts(own, within))
        gaussian = MixtureOfLinearGaussians(drawn.log_weights, models)
        return replace(self, gaussian=gaussian, uncertain=None)

    sample_conditional = sample_imputations  # as densities call it

    # Rows ----------------------------------------------------------------------------------

    def denoised(self, values: Array) -> Array:
        """(n, d) values where u is at its posterior mean, observed ones too.

        The noise that a median or a level goes with is that of the most probable component.
        """
        found, resp, _ = self.posteriors(values)
        models = self.gaussian.models
        both = zip(found, models, strict=True)
        means = np.stack([one.Z.T @ model.W.T + model.mu for (_, one, _), model in both])
        U = np.einsum("nk,knd->nd", resp, means)
        labels = np.argmax(resp, axis=1)
        shown = np.empty((len(values), len(self.columns.kinds)))
        for k, component in enumerate(self.components):
            shown[labels == k] = component.at(U[labels == k])
        return shown

    def covariance(self) -> Array:
        """Of u: (D, D)."""
        return self.gaussian.covariance()

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.intp]]:
        """n independent rows (n, d) and the component (n,) that each was drawn from."""
        u, labels = self.gaussian.sample(n, rng)
        return np.column_stack([kind.from_u(u[:, own], rng) for kind, own in self.columns]), labels

    # ---------------------------------------------------------------------------------------

    def _missing(self, values: Array) -> Iterator[Asked]:
        resp = self.responsibilities(values)
        parts = [component._missing(values) for component in self.components]
        for together in zip(*parts, strict=True):
            first = together[0]
            mean = np.stack([one.mean for one in together])
            cov = _bounded(np.stack([one.cov for one in together]))
            yield Asked(first.kind, first.j, first.at, mean, cov, resp[first.at])


def _bounded(cov: Array) -> Array:
    """Covariances (K, c, width, width) with standard deviations up to WIDEST.

    The uncertainty of the parameters of a component that has hardly any rows has no bound.
    """
    sd = np.sqrt(np.einsum("kcaa->kca", cov))
    share = np.minimum(WIDEST / sd, 1.0)
    return np.asarray(cov * share[:, :, :, None] * share[:, :, None, :])
