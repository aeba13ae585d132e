"""What a fitted GPLVM says of rows, old and new: no fitting here."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._latents import as_latents, decoded
from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import NamedComponents, source_of_new
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.inner import imputing_model
from eigengap.fitting.gp.back_constraint import BackMap
from eigengap.fitting.gp.latent_points import likely_starts, most_probable, none_of
from eigengap.fitting.gp.latent_posterior import LatentPosterior, latent_posterior
from eigengap.fitting.gp.start import Standard
from eigengap.fitting.graph.duplicate_rows import Rows, found_among, row_hashes
from eigengap.linalg import Array
from eigengap.models.gaussian.posterior import Posterior
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import LatentKernel
from eigengap.runtime.memory import require_memory
from eigengap.sources import Source, column, like

STARTS = 3  # fitted latents from which that of a new row is sought
LARGEST = 1e100  # standard deviations from the mean, whose squares stay within float64

# Attributes that only one of the two methods has, and what the other has in their place.
_ONLY = {
    "embedding_sd_": ("bayesian", "posterior(X).std has those of any rows"),
    "inducing_": ("bayesian", "the exact fit has all rows in their place"),
    "bound_": ("bayesian", "the exact fit has log_likelihood_"),
    "log_likelihood_": ("exact", "the Bayesian fit has a lower bound on it, bound_"),
}


class PlacesRows(NamedComponents, Shown, TransformerMixin, BaseEstimator):
    """Base class of `GPLVM`, whose fit leaves behind what is named here."""

    _prefix = "GP"

    missing_values: Any
    model_: GaussianProcesses
    embedding_: Array
    method_: str
    _only: dict[str, Any]  # attributes that one of the methods has
    _predictive: GaussianProcesses  # the same with the noise of new cells
    _scaled: bool
    _back: BackMap | None
    _order: Any  # of the latent coordinates
    _standard: Standard  # with the rows that were fitted
    _present: Rows  # which rows of the table these are
    _filler: PPCA | None  # of gaps in rows that a back constraint maps

    # Latents of rows -----------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Latents of rows: (n_samples, n_components).

        A row that was in the fit, cell for cell, has its own. The latent of a new row is found by
        optimisation from the fitted ones at which it is most probable: the most probable one, or
        the mean of the best Gaussian (Bayesian); or it is the back constraint's function of the
        row. Where a row may belong to several places `posterior` has the mean over them all.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap; a row without any seen cell is at 0, the prior mean.

        Returns
        -------
        array of shape (n_samples, n_components)
        """
        source, Y = self._new_rows(X)
        Z = self._mapped(source, Y)
        if Z is None:
            own = self._own(Y)
            Z = np.zeros((len(Y), self.model_.q))
            Z[own >= 0] = self.embedding_[self._present[own[own >= 0]]]
            new = np.flatnonzero((own < 0) & ~np.all(np.isnan(Y), axis=1))
            if len(new):
                Z[new] = self._sought(Y[new])
        return Z.astype(np.float32) if source.dtype == np.float32 else Z

    def posterior(self, X: Any) -> Posterior:
        """Mean and covariance of the latent of every row given its seen cells.

        Over all the places where the row may be: where these are several, the mean lies between
        them and the covariance spans them, and `transform` has the best of them alone. For a row
        of a Bayesian fit the Gaussian that the fit found for it; for one of an exact fit the
        other rows are what it is placed by. With a back constraint the mean is its function of
        the row, and the covariance is about that.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap.

        Returns
        -------
        Posterior
            `mean` (n_samples, n_components), `cov`, `std`.
        """
        source, Y = self._new_rows(X)
        own, known = self._own(Y), self._mapped(source, Y)
        mean, cov = np.empty((len(Y), self.model_.q)), np.empty((len(Y), *2 * (self.model_.q,)))
        fitted = own >= 0 if self.method_ == "bayesian" else np.zeros(len(Y), dtype=bool)
        at = self._present[own[fitted]]
        mean[fitted] = self.embedding_[at]
        if fitted.any():
            cov[fitted] = self._only["embedding_sd_"][at][:, :, None] ** 2 * np.eye(self.model_.q)
        sought = np.flatnonzero(~fitted)
        if len(sought):
            found = self._found(Y[sought], own[sought])
            mean[sought], cov[sought] = found.mean, found.cov
            if known is not None:
                off = found.mean - known[sought]
                mean[sought] = known[sought]
                cov[sought] += off[:, :, None] * off[:, None, :]
        return Posterior(mean, cov, np.arange(len(Y)))

    def score_samples(self, X: Any) -> Array:
        """ln p(x) of every row, its latent integrated out: (n_samples,), in nats.

        By importance sampling, with the functions as the fit left them. A row of an exact fit is
        judged by the other rows. Gaps are left out.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap.
        """
        _, Y = self._new_rows(X)
        density = self._found(Y, self._own(Y)).log_density
        return np.asarray(density - (~np.isnan(Y)) @ np.log(self.model_.unit))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples` over the rows that have an observed value; 0 where none has.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : ignored
        """
        scores = self.score_samples(X)
        observed = ~np.isnan(self._new_rows(X)[1]).all(axis=1)
        return float(np.mean(scores[observed])) if observed.any() else 0.0

    def _new_rows(self, X: Any) -> tuple[Source, Array]:
        check_is_fitted(self, "model_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        with np.errstate(over="ignore"):
            Y = self.model_.standardised(dense(source))
        far = np.abs(Y) > LARGEST
        if far.any():
            row, j = np.argwhere(far)[0]
            raise ValueError(
                f"row {row} is more than {LARGEST:.0e} standard deviations from the fitted rows in "
                f"column {column(source.names, int(j))}, and the square of that overflows: look "
                "for a code for missing cells, or for other units"
            )
        return source, Y

    def _own(self, Y: Array) -> Rows:
        """Which row of the fit each row is, cell for cell, or -1."""
        fitted = self.model_.standardised(self._standard.given)
        return found_among(row_hashes(Y), row_hashes(fitted))

    def _found(self, Y: Array, own: Rows) -> LatentPosterior:
        """The posterior of latents of standardised rows."""
        # Only an exact fit has a point of its support for each row that can be left out.
        each = self.method_ == "exact" and len(self.model_.support) == len(self._present)
        return latent_posterior(
            self._predictive, Y, self.embedding_[self._present], own if each else none_of(len(Y))
        )

    def _sought(self, Y: Array) -> Array:
        """(n, q) the best latents of new rows."""
        starts = likely_starts(self._predictive, Y, self.embedding_[self._present], STARTS)
        if self.method_ == "exact":
            return most_probable(self._predictive, Y, starts)
        import eigengap.fitting.autodiff.engine  # noqa: F401  # JAX, or how to install it
        from eigengap.fitting.autodiff import latent_rows

        s = np.mean(self._only["embedding_sd_"][self._present] ** 2, axis=0)
        return latent_rows.most_probable(
            self.model_, Y, starts, np.broadcast_to(s, starts.shape)
        ).mu

    def _mapped(self, source: Source, Y: Array) -> Array | None:
        """The back constraint's latents of rows, their gaps filled; None where there is none."""
        if self._back is None:
            return None
        values = dense(source)
        if np.isnan(values).any():
            filler = self._filler or imputing_model(self._standard.given, self)
            values = np.asarray(filler.impute(values), dtype=np.float64)
        Z = self._back.forward(self._standard.of(values))[:, self._order]
        Z[np.all(np.isnan(Y), axis=1)] = 0.0
        return np.asarray(Z)

    # Back to data --------------------------------------------------------------------------

    def inverse_transform(self, X: Any, return_std: bool = False) -> Any:
        """Rows at the latents X: (n_samples, n_features).

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
        return_std : bool, default=False
            Whether to return the standard deviations of cells there too: of the functions and the
            noise.

        Returns
        -------
        rows : array of shape (n_samples, n_features)
        std : array of the same shape
            Only if return_std.
        """
        check_is_fitted(self, "model_")
        Z = as_latents(X, self.model_.q, "latent dimensions")
        if not np.all(np.isfinite(Z)):
            row, k = np.argwhere(~np.isfinite(Z))[0]
            raise ValueError(f"inverse_transform got {Z[row, k]} at row {row}, column {k}")
        found = decoded(Z, self._mean_and_std)
        d = self.n_features_in_
        return (found[:, :d], found[:, d:]) if return_std else found[:, :d]

    def _mean_and_std(self, Z: Array) -> Array:
        """(n, 2 d) at the latents Z: expected cells, then their standard deviations."""
        mean, variance = self._predictive.predict(Z.astype(np.float64))
        return np.hstack([mean, np.sqrt(variance)])

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Fill every gap with its expected value given what was seen of its row.

        Over all the places in latent space where the row may be.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap.
        return_std : bool, default=False
            Whether to return the standard deviations too.

        Returns
        -------
        filled : table of X's type
            Seen cells are as they were.
        std : table of X's type
            Standard deviation of each filled cell, 0 for seen cells: of the latent, the functions
            and the noise together. Only if return_std.
        """
        source, Y = self._new_rows(X)
        values = dense(source)
        filled, std = values.copy(), np.zeros_like(values)
        rows = np.flatnonzero(np.isnan(values).any(axis=1))
        if len(rows):
            mean, variance = self._expected(Y[rows])
            missing = np.isnan(values[rows])
            filled[rows] = np.where(missing, mean, values[rows])
            std[rows] = np.where(missing, np.sqrt(variance), 0.0)
        if source.dtype == np.float32:
            filled, std = filled.astype(np.float32), std.astype(np.float32)
        return (like(X, filled), like(X, std)) if return_std else like(X, filled)

    def _expected(self, Y: Array) -> tuple[Array, Array]:
        """Mean and variance (n, d) of the cells of standardised rows, in data units."""
        own, model = self._own(Y), self.model_
        mean, variance = np.empty(Y.shape), np.empty(Y.shape)
        fitted = own >= 0 if self.method_ == "bayesian" else np.zeros(len(Y), dtype=bool)
        if fitted.any():
            at = self._present[own[fitted]]
            s = self._only["embedding_sd_"][at] ** 2
            mean[fitted], variance[fitted] = model.expect(self.embedding_[at], s)
        if not fitted.all():
            found = self._found(Y[~fitted], own[~fitted])
            mean[~fitted] = found.cells * model.unit + model.mean
            variance[~fitted] = found.variance * model.unit**2
        return mean, variance

    # Fitted attributes ---------------------------------------------------------------------

    @property
    def n_components_(self) -> int:
        return self.model_.q

    @property
    def kernel_(self) -> LatentKernel:
        return self.model_.kernel.times(self._unit_variance)

    @property
    def noise_variance_(self) -> float:
        return self.model_.noise_variance * self._unit_variance

    @property
    def cell_noise_variance_(self) -> float:
        return self._predictive.noise_variance * self._unit_variance

    @property
    def _unit_variance(self) -> float:
        """Of data units, where all columns share one and figures are told in it."""
        return 1.0 if self._scaled else float(self.model_.unit[0]) ** 2

    @property
    def mean_(self) -> Array:
        return self.model_.mean

    @property
    def embedding_sd_(self) -> Array:
        return self._of_one_method("embedding_sd_")

    @property
    def inducing_(self) -> Array:
        return self._of_one_method("inducing_")

    @property
    def bound_(self) -> float:
        return self._of_one_method("bound_")

    @property
    def log_likelihood_(self) -> float:
        return self._of_one_method("log_likelihood_")

    def _of_one_method(self, name: str) -> Any:
        only = self.__dict__.get("_only")
        if only is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: fit has {name}")
        if name not in only:
            method, way_out = _ONLY[name]
            raise AttributeError(
                f'{name} is of method="{method}", and this fit was by method="{self.method_}": '
                f"{way_out}"
            )
        return only[name]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def dense(source: Source) -> Array:
    """All rows in float64; zeros of a sparse table are zeros."""
    values = source.collect()
    if not isinstance(values, np.ndarray):
        n, d = values.shape
        require_memory(8.0 * n * d, f"a dense copy of {n} sparse rows", "select columns first")
        values = values.toarray()
    return np.asarray(values, dtype=np.float64)
