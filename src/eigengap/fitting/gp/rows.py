"""What a fitted GPLVM says of rows, fitted and new: latents, densities, expected cells.

A row that was in the fit, cell for cell, is recognised. A Bayesian fit has the Gaussian of its
latent. An exact fit judges it by the other rows: its own cells are taken out of the processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gp.latent_points import likely_starts, most_probable, none_of
from eigengap.fitting.gp.latent_posterior import LatentPosterior, latent_posterior
from eigengap.fitting.graph.duplicate_rows import Rows, found_among, row_hashes
from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses

STARTS = 3  # fitted latents from which that of a new row is optimised


@dataclass(frozen=True, eq=False)
class FittedLatents:
    """The latents of the n fitted rows, and the processes from them to the columns."""

    model: GaussianProcesses
    predictive: GaussianProcesses  # the same with the noise of new cells
    Y: Array  # (n, d) the fitted rows, standardised
    Z: Array  # (n, q) latents, or their means
    sd: Array | None  # (n, q) their standard deviations; None of an exact fit

    @cached_property
    def _hashes(self) -> NDArray[np.uint8]:
        return row_hashes(self.Y)

    def own(self, Y: Array) -> Rows:
        """(c,) the fitted row that each row Y (c, d) is, cell for cell, or -1."""
        return found_among(row_hashes(Y), self._hashes)

    def latents(self, Y: Array) -> Array:
        """(c, q) the latents of standardised rows: the fitted ones, or the most probable."""
        own = self.own(Y)
        Z = np.zeros((len(Y), self.model.q))  # the prior mean, of a row without observed values
        Z[own >= 0] = self.Z[own[own >= 0]]
        new = np.flatnonzero((own < 0) & ~np.all(np.isnan(Y), axis=1))
        if len(new):
            Z[new] = self._most_probable(Y[new])
        return Z

    def _most_probable(self, Y: Array) -> Array:
        starts = likely_starts(self.predictive, Y, self.Z, STARTS)
        if self.sd is None:
            return most_probable(self.predictive, Y, starts)
        from eigengap.fitting.autodiff import latent_rows

        s = np.broadcast_to(np.mean(self.sd**2, axis=0), starts.shape)
        return latent_rows.most_probable(self.model, Y, starts, s).mu

    def posterior(self, Y: Array) -> LatentPosterior:
        """Moments of the latents of standardised rows, over all the places where they may be."""
        # Only an exact fit has a point of its support for each row that can be left out.
        each = self.sd is None and len(self.model.support) == len(self.Z)
        own = self.own(Y) if each else none_of(len(Y))
        return latent_posterior(self.predictive, Y, self.Z, own)

    def moments(self, Y: Array, at: Array | None = None) -> tuple[Array, Array]:
        """Mean (c, q) and covariance (c, q, q) of the latents of standardised rows.

        at (c, q) are latents known otherwise, about which the covariance is then taken.
        """
        q = self.model.q
        mean, cov = np.empty((len(Y), q)), np.empty((len(Y), q, q))
        fitted, own = self._with_gaussian(Y)
        if self.sd is not None:
            mean[fitted] = self.Z[own]
            cov[fitted] = self.sd[own][:, :, None] ** 2 * np.eye(q)
        new = np.flatnonzero(~fitted)
        if len(new):
            found = self.posterior(Y[new])
            mean[new], cov[new] = found.mean, found.cov
            if at is not None:
                off = found.mean - at[new]
                mean[new] = at[new]
                cov[new] += off[:, :, None] * off[:, None, :]
        return mean, cov

    def cells(self, Y: Array) -> tuple[Array, Array]:
        """Mean and variance (c, d) of the cells of standardised rows, in data units."""
        mean, variance = np.empty(Y.shape), np.empty(Y.shape)
        fitted, own = self._with_gaussian(Y)
        if self.sd is not None and len(own):
            mean[fitted], variance[fitted] = self.model.expect(self.Z[own], self.sd[own] ** 2)
        if not fitted.all():
            found = self.posterior(Y[~fitted])
            mean[~fitted] = found.cells * self.model.unit + self.model.mean
            variance[~fitted] = found.variance * self.model.unit**2
        return mean, variance

    def _with_gaussian(self, Y: Array) -> tuple[NDArray[np.bool_], Rows]:
        """Which rows have a Gaussian of their own from the fit, and which fitted rows they are."""
        own = self.own(Y)
        fitted = own >= 0 if self.sd is not None else np.zeros(len(Y), dtype=bool)
        return fitted, own[fitted]
