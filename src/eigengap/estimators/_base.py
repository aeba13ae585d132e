"""What PCA, PPCA and FactorAnalysis share as scikit-learn estimators: no mathematics here.

Parameters go in, `model_` comes out; every output method maps a method of the model over the rows
of a source. Fitted attributes are read off `model_`, `projection_` and `spectrum_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._checkpoint import checkpointed, require_checkpoint
from eigengap.estimators._component_names import NamedComponents
from eigengap.estimators._features import as_fitted, keep_features, like_input, source_of_new
from eigengap.estimators._latents import as_latents
from eigengap.estimators._notebook import Shown
from eigengap.estimators._progress import ProgressLine, watch_for
from eigengap.estimators._sklearn_compat import Interval, RealNotInt, StrOptions, _fit_context
from eigengap.exceptions import (
    ConstantColumnWarning,
    FewCellsWarning,
    ForgottenCellSdWarning,
    NoiseFloorWarning,
    OverflowingCellError,
    UnboundedLikelihoodWarning,
    UnitsWarning,
    UnlinkedColumnsWarning,
)
from eigengap.fitting.eigen.range import refuse_overflow, refuse_tiny_columns
from eigengap.fitting.gaussian.plan import LARGEST_DENSE
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit, pattern_of
from eigengap.linalg import Array
from eigengap.models.gaussian.information import Noise, ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import Posterior
from eigengap.models.gaussian.predictive import Predictive
from eigengap.models.maps.affine import AffineMap
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.sources import (
    Block,
    Rescaled,
    Source,
    as_source,
    column,
    require_frequencies,
    warn_of_codes,
)
from eigengap.spectrum import Spectrum
from eigengap.statistics.first_look import look_first
from eigengap.statistics.moments import ColumnMoments
from eigengap.statistics.observed_together import Linked
from eigengap.wording import words

FEW_ROWS = 200  # that tell the size of the columns
DROWNED = 10.0  # noise variance over a column's own that no chance explains
DENSE_BYTES = 64 << 20  # of a sparse table that are made dense at a time
MOST_NAMED = 5  # columns in one warning
LARGEST_CELL = 1e140  # beyond which squares, in units of small noise, leave float64

# Constraints on the parameters that all three share, for scikit-learn's validation.
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [
        Interval(Integral, 0, None, closed="left"),
        Interval(RealNotInt, 0, 1, closed="neither"),
        StrOptions({"auto"}),
    ],
    "scale": ["boolean"],
    "missing_values": [Real, "array-like"],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class LinearGaussianEstimator(NamedComponents, Shown, TransformerMixin, BaseEstimator):
    """Base class; subclasses give `_fit_model(source, keeper) -> GaussianFit` and `_prefix`."""

    _prefix = "PC"
    _promises_density = True  # PCA is mostly used for its axes, which need none
    knows_cell_sd_ = False
    is_float32_ = False  # whether the rows of the fit were

    model_: LinearGaussian
    projection_: AffineMap  # onto the principal axes, in standardised units where scale=True
    spectrum_: Spectrum  # in standardised units where scale=True
    scale_: Array | None
    # Which values were observed: the uncertainty of the parameters depends on it.
    evidence_: ObservationPattern

    @property
    def _shares_noise(self) -> bool:
        """Whether columns of very different size are a mistake."""
        return False

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the seen cells of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, sparse matrix, pandas, polars or pyarrow, a Dask array or frame, or
            the path of a file (`eigengap.open_source`); NaN marks a gap.
        y : ignored
        sample_weight : array of shape (n_samples,), default=None
            Frequency of each row: an integer weight equals repeating the row.

        Returns
        -------
        self
        """
        self._fit(X, sample_weight)
        return self

    def _fit(self, X: Any, sample_weight: Any, cell_sd: Any = None) -> None:
        require_checkpoint(self)
        everything = as_source(
            X, sample_weight=sample_weight, cell_sd=cell_sd, missing_values=self.missing_values
        )
        source = look_first(everything, scatter=self._wants_scatter(everything))
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        require_frequencies(source.observed().sum_w)
        with checkpointed(self, source) as checkpointer:
            self._fit_source(X, source, checkpointer)

    def _fit_source(self, X: Any, source: Source, checkpointer: FileCheckpointer | None) -> None:
        self.__dict__.pop("rank_choice_", None)  # of an earlier fit that had to choose
        unit = self._column_sizes(source) if self.scale else None
        fit = self._fit_model(source if unit is None else Rescaled(source, unit), checkpointer)
        keep_features(self, X, source)  # only now: a fit may fail
        self._keep(fit, unit)
        self.is_float32_ = source.dtype == np.float32
        self.evidence_ = pattern_of(source, fit, self._noise_kind(), self._fits_mean())
        self.knows_cell_sd_ = source.has_cell_sd
        warn_of_unlinked(source)
        if self._shares_noise and unit is None:
            warn_of_units(source, fit.model.psi)
        if self._shares_noise and self._promises_density:
            warn_of_constants(source, source.reduce(ColumnMoments.of).variance)
        if self._noise_kind() == "diagonal":
            warn_of_few(source, fit.model.q)
        self._finish(source)

    def _finish(self, source: Source) -> None:
        """What a subclass adds to the model that was fitted to these rows, in data units."""

    def _wants_scatter(self, source: Source) -> bool:
        """Whether complete rows are fitted from their d x d scatter."""
        return not self.scale and source.n_features <= LARGEST_DENSE

    def _fit_model(
        self, source: Source, checkpointer: FileCheckpointer | None = None
    ) -> GaussianFit:
        raise NotImplementedError

    def _column_sizes(self, source: Source) -> Array:
        """(d,) by which scale=True divides."""
        return _standard_deviations(source)

    def _noise_kind(self) -> Noise:
        """What was learned of the noise."""
        return "isotropic"

    def _fits_mean(self) -> bool:
        return True

    def _keep(self, fit: GaussianFit, unit: Array | None) -> None:
        self.scale_ = unit
        self.model_ = fit.model if unit is None else fit.model.rescaled(unit)
        self.projection_ = AffineMap(A=fit.axes.T, B=fit.axes, mean=fit.model.mu)
        self.spectrum_ = fit.spectrum
        self.log_likelihood_ = fit.log_likelihood - _log_jacobian(fit, unit)
        self.converged_ = fit.converged
        self.n_iter_ = max(fit.n_iter, 1)
        self.trace_ = fit.trace
        if fit.spectrum.total <= 0.0:
            warn(
                "all rows are equal, so there is no variance to explain"
                + words().either(": explained_variance_ratio_ is zero"),
                UserWarning,
            )
        if fit.at_floor and fit.model.is_isotropic and fit.spectrum.total > 0.0:
            warn(
                "the noise variance fell to its floor, so that standard deviations of filled "
                "cells mean little: there are more components than the seen cells determine, or "
                "the data have no noise, or columns differ too much in size "
                f"({words().parameter('scale', True)} helps)",
                NoiseFloorWarning,
            )
        if self._promises_density and np.isposinf(fit.log_likelihood) and fit.spectrum.total > 0.0:
            warn(
                "the likelihood has no bound: the components leave no noise in the rows of the "
                "fit, so that score_samples and standard deviations of filled cells mean nothing. "
                + ways_to_noise(fit.model.q, fit.spectrum.sum_w).capitalize(),
                UnboundedLikelihoodWarning,
            )
        if not fit.converged:
            warn(
                _not_converged(type(self).__name__, fit, self.max_iter),
                ConvergenceWarning,
            )

    def _options(
        self, tol: float, n_init: int = 1, checkpointer: FileCheckpointer | None = None
    ) -> EMOptions:
        seed = 0  # a single start is not random, and leaves a generator as it was
        if n_init > 1:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            seed = seed if checkpointer is None else checkpointer.recall("seed", seed)
        label = type(self).__name__
        return EMOptions(
            tol=tol,
            max_iter=self.max_iter,
            n_init=n_init,
            seed=seed,
            watch=watch_for(self.verbose, label, checkpointer),
        )

    def _run(self, fit: Callable[[EMOptions], GaussianFit], options: EMOptions) -> GaussianFit:
        """The fit proper, with its progress line closed whatever happens."""
        try:
            return fit(options)
        finally:
            if isinstance(options.watch, ProgressLine):
                options.watch.close()

    # Input ---------------------------------------------------------------------------------

    def _source(self, X: Any, cell_sd: Any = None) -> Source:
        check_is_fitted(self, "model_")
        if cell_sd is None and self.knows_cell_sd_:
            warn(
                "the model was fitted with cell_sd, and these rows come without: their cells are "
                "taken to have the model's own noise alone. Pass cell_sd here too (zeros if the "
                "cells are that good)",
                ForgottenCellSdWarning,
            )
        source = source_of_new(self, X, cell_sd=cell_sd, missing_values=self.missing_values)
        return source

    def _map(self, X: Any, fn: Callable[..., Array], cell_sd: Any = None) -> Array:
        """fn(rows), or fn(rows, cell_sd), over X, dense and block by block."""
        source = self._source(X, cell_sd)
        kind = source.dtype
        return source.map(lambda block: _on_dense(block, fn).astype(kind, copy=False))

    # Output --------------------------------------------------------------------------------

    def _latents(self, X: Any) -> Array:
        """Latent coordinates (n, q) as the caller gives them back to `inverse_transform`."""
        Z = as_latents(X, self.n_components_, "components")
        return self._filled_latents(Z) if np.isnan(Z).any() else Z

    def _filled_latents(self, Z: Array) -> Array:
        """Unseen coordinates at their prior mean: they are independent of the seen ones."""
        return np.nan_to_num(Z, nan=0.0)

    def posterior(self, X: Any, *, cell_sd: Any = None) -> Posterior:
        """Posterior of the latent variables of every row, gaps marginalised.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each cell, beside the model's own noise; 0 or NaN where
            there is none.

        Returns
        -------
        Posterior
            `mean` (n_samples, n_components), `cov` (one matrix per pattern of gaps), `std`.
        """
        source = self._source(X, cell_sd)
        values = source.collect()
        dense = values if isinstance(values, np.ndarray) else values.toarray()
        return self.model_.posterior(dense, source.collect_cell_sd())

    def reconstruct(self, X: Any, kind: str = "posterior", *, cell_sd: Any = None) -> Any:
        """Rows as the model sees them without noise.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        kind : {"posterior", "optimal"}
            "posterior" is W E[z | x] + mu, drawn towards the mean as the noise demands;
            "optimal" is the projection onto the components, of least squared error (002 section
            3.4).
        cell_sd : table of X's shape, default=None
            Known standard deviation of each cell, as in `posterior`; with kind="posterior" only.

        Returns
        -------
        table of X's type, of shape (n_samples, n_features)
        """
        check_is_fitted(self, "model_")
        if kind == "posterior":
            rows = self._map(
                X,
                lambda *x: self.model_.posterior_mean(*x) @ self.model_.W.T + self.model_.mu,
                cell_sd,
            )
        elif kind == "optimal" and cell_sd is not None:
            raise ValueError(
                'kind="optimal" is a projection, which knows no noise of cells; use '
                'kind="posterior", or leave cell_sd out'
            )
        elif kind == "optimal":
            rows = self._map(X, self._project)
        else:
            raise ValueError(f'kind must be "posterior" or "optimal", got {kind!r}')
        return like_input(self, X, rows)

    def _project(self, X: Array) -> Array:
        return self.model_.project(X)

    def impute(self, X: Any, return_std: bool = False, *, cell_sd: Any = None) -> Any:
        """Fill every gap with its expected value given what was seen of its row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        return_std : bool, default=False
            Whether to return the standard deviations too.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each cell, as in `posterior`: a noisy one says less about
            the others of its row. It is returned as it is, like every seen cell.

        Returns
        -------
        filled : table of X's type
            Seen cells are as they were.
        std : table of X's type
            Standard deviation of each filled cell, 0 for seen cells; the uncertainty of the
            parameters is in it, so that 95 % intervals cover about 95 % on small tables too
            (docs/uncertainty.md). Only if return_std.

        Notes
        -----
        A frame comes back with floating-point columns throughout. The means are those of `model_`.
        """
        check_is_fitted(self, "model_")
        if not return_std:
            return like_input(self, X, self._map(X, self.model_.conditional_mean, cell_sd))
        predictive = self._uncertainty()
        both = self._map(X, lambda *x: np.hstack(_mean_and_std(predictive, *x)), cell_sd)
        d = self.n_features_in_
        return like_input(self, X, both[:, :d]), like_input(self, X, both[:, d:])

    def sample_imputations(
        self, X: Any, m: int, random_state: Any = None, *, cell_sd: Any = None
    ) -> Iterator[Any]:
        """Draw the gaps m times from their distribution given what was seen.

        The parameters are drawn anew for each table, from their uncertainty, so that estimates
        from the m tables can be pooled by Rubin's rules.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        m : int
            Number of tables.
        random_state : int, RandomState or None
        cell_sd : table of X's shape, default=None
            Known standard deviation of each cell, as in `posterior`.

        Yields
        ------
        table of X's type
            X with its gaps filled by one joint draw.
        """
        check_is_fitted(self, "model_")
        require_count("m", m, "tables")
        rng = _generator(random_state)
        predictive = self._uncertainty()

        def drawn() -> Any:
            sample = partial(_sample_conditional, predictive.draw(rng), rng)
            return like_input(self, X, self._map(X, sample, cell_sd))

        return (drawn() for _ in range(m))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw new rows from the fitted density: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        require_count("n_samples", n_samples, "rows")
        return self.model_.sample(n_samples, _generator(random_state))

    def score_samples(self, X: Any, *, cell_sd: Any = None) -> Array:
        """Log-likelihood of the seen part of every row: (n_samples,).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each cell, as in `posterior`.
        """
        check_is_fitted(self, "model_")
        source = self._source(X, cell_sd)
        return source.map(lambda block: _on_dense(block, self.model_.log_likelihood))

    def score(self, X: Any, y: Any = None, *, cell_sd: Any = None) -> float:
        """Mean log-likelihood of the rows that have an observed value; 0 where none has."""
        check_is_fitted(self, "model_")
        return mean_score(self._source(X, cell_sd), self.model_.log_likelihood)

    def get_covariance(self) -> Array:
        """Covariance of the fitted density, W W^T + diag(psi): (n_features, n_features)."""
        check_is_fitted(self, "model_")
        return self.model_.covariance()

    def get_precision(self) -> Array:
        """Inverse of `get_covariance`, through the small matrix: (n_features, n_features)."""
        check_is_fitted(self, "model_")
        return self.model_.precision()

    # Fitted attributes ---------------------------------------------------------------------

    @property
    def predictive_(self) -> Predictive:
        """`model_` with the uncertainty of its parameters."""
        return Predictive.of(self.model_, self.evidence_)

    def _uncertainty(self) -> Predictive:
        """`predictive_`, with a warning where a class that promises no density has none to give."""
        predictive = self.predictive_
        if not self._promises_density and not np.any(predictive.noise > 0.0):
            warn(
                "the components leave no noise in the rows of the fit, so that standard deviations "
                "of imputed values leave out the uncertainty of the parameters. "
                + ways_to_noise(self.model_.q, self.spectrum_.sum_w).capitalize(),
                UnboundedLikelihoodWarning,
            )
        return predictive

    # In float32 where the rows of the fit were, as scikit-learn has them; `model_`, `projection_`
    # and `spectrum_`, which everything is computed from, are float64.

    @property
    def mean_(self) -> Array:
        return as_fitted(self.model_.mu, self.is_float32_)

    @property
    def components_(self) -> Array:
        return as_fitted(self.projection_.A, self.is_float32_)

    @property
    def noise_variance_(self) -> Any:
        psi = float(self.model_.psi[0])
        return psi if self.scale_ is None else psi / float(self.scale_[0]) ** 2

    @property
    def loadings_(self) -> Array:
        return as_fitted(self.model_.W, self.is_float32_)

    @property
    def n_components_(self) -> int:
        return self.model_.q

    @property
    def explained_variance_(self) -> Array:
        return as_fitted(self.spectrum_.explained_variance(self.n_components_), self.is_float32_)

    @property
    def explained_variance_ratio_(self) -> Array:
        return as_fitted(self.spectrum_.explained_ratio(self.n_components_), self.is_float32_)

    @property
    def singular_values_(self) -> Array:
        values = np.sqrt(self.spectrum_.lam[: self.n_components_] * self.spectrum_.sum_w)
        return as_fitted(values, self.is_float32_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _on_dense(block: Block, fn: Callable[..., Array]) -> Array:
    """fn of the block's rows (and of cell_sd where there is one); a sparse block in pieces."""
    values, cell_sd = block.values, block.cell_sd
    if isinstance(values, np.ndarray):
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = fn(values) if cell_sd is None else fn(values, cell_sd)
        except OverflowingCellError as error:  # of an inner model, which knows this block alone
            raise error.after(block.start) from None
        if np.isnan(found).any():
            _refuse_overflow(values, found, block.start)
        return found
    step = max(1, DENSE_BYTES // (8 * values.shape[1]))
    parts = []
    for start in range(0, block.n_rows, step):
        rows = slice(start, start + step)
        known = () if cell_sd is None else (cell_sd[rows],)
        parts.append(fn(values[rows].toarray(), *known))
    return np.concatenate(parts)


def mean_score(source: Source, fn: Callable[..., Array]) -> float:
    """Mean of fn(rows) over the rows that have an observed value; 0 where none has."""

    def scored(block: Block) -> Array:
        values = block.values
        dense = isinstance(values, np.ndarray)
        observed = ~np.isnan(values).all(axis=1) if dense else np.ones(values.shape[0])
        return np.column_stack([_on_dense(block, fn), observed])

    scores, observed = source.map(scored).T
    return float(np.mean(scores[observed > 0])) if observed.any() else 0.0


def _mean_and_std(model: Predictive, X: Array, cell_sd: Array | None = None) -> tuple[Array, Array]:
    mean, variance = model.conditional(X, cell_sd)
    return mean, np.sqrt(variance)


def _sample_conditional(
    model: LinearGaussian, rng: np.random.Generator, X: Array, cell_sd: Array | None = None
) -> Array:
    return model.sample_conditional(X, rng, cell_sd)


def _standard_deviations(source: Source) -> Array:
    """(d,) of the seen cells; 1 for a constant column, which has no scale to be undone."""
    variance = source.reduce(ColumnMoments.of).variance
    refuse_overflow(float(np.sum(variance)), source)
    refuse_tiny_columns(source, variance)
    deviations = np.sqrt(variance)
    return np.where(deviations > 0, deviations, 1.0)


def _refuse_overflow(X: Array, found: Array, start: int) -> None:
    """Refuse rows of which nothing could be computed because a cell is too large to be squared."""
    rows = np.flatnonzero(np.isnan(found).any(axis=tuple(range(1, found.ndim))))
    for i in rows:
        j = int(np.nanargmax(np.abs(X[i]))) if not np.isnan(X[i]).all() else 0
        if abs(X[i, j]) > LARGEST_CELL:
            raise OverflowingCellError(float(X[i, j]), start + int(i), j)


def ways_to_noise(q: int, rows: float) -> str:
    """What to do where q components leave no noise: so many rows always lie in them, or not.

    >>> ways_to_noise(1, 2), ways_to_noise(2, 3)
    ('add rows', 'take fewer components or add rows')
    >>> ways_to_noise(1, 50)
    'leave out columns that follow from others'
    """
    fewer = "take fewer components or " if q > 1 else ""
    return fewer + ("add rows" if rows <= q + 1 else "leave out columns that follow from others")


def _not_converged(name: str, fit: GaussianFit, max_iter: int) -> str:
    change = float(fit.trace.change[-1])
    if np.isfinite(change) or fit.n_iter >= max_iter:
        return (
            f"{name} did not converge in {fit.n_iter} steps (last change {change:.1e}); "
            f"{words().more_steps(max_iter)}"
        )
    return (
        f"{name} gave up after {fit.n_iter} steps: the noise is so small beside the signal that "
        "the likelihood cannot be computed well enough to climb further. Fewer components help, "
        f"and {words().parameter('scale', True)} where columns differ much in size"
    )


def warn_of_few(source: Source, q: int) -> None:
    """Tell of columns seen in so few rows that their loadings and noise fit them exactly."""
    observed = source.observed()
    w = observed.per_column * (observed.sum_w / max(observed.rows, 1))  # of frequencies, about
    few = np.flatnonzero(w < q + 2)
    if len(few):
        named = ", ".join(
            f"{column(source.names, int(j))} ({observed.per_column[j]})" for j in few[:MOST_NAMED]
        )
        more = f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
        warn(
            f"too few rows show a value in column{'s' if len(few) > 1 else ''} {named}{more}: with "
            f"{q} component{'s' if q > 1 else ''} a column needs {q + 2} before its noise can be "
            "told. Its standard deviations are guessed from other columns",
            FewCellsWarning,
        )


def warn_of_units(source: Source, psi: Array) -> None:
    """Tell of columns that vary far less than the noise that all are said to have."""
    rows = source.sample(min(FEW_ROWS, source.observed().rows), np.random.default_rng(0))
    observed = np.count_nonzero(~np.isnan(rows), axis=0)
    judged = observed >= 10
    judged[judged] = np.nanmax(rows[:, judged], axis=0) > np.nanmin(rows[:, judged], axis=0)
    if not judged.any():
        return
    variance = np.zeros(len(psi))
    variance[judged] = np.nanvar(rows[:, judged], axis=0)
    drowned = np.flatnonzero((variance > 0) & (psi > DROWNED * variance))
    if len(drowned):
        warn(
            "the noise variance, one for all columns, is far larger than the whole variance of "
            f"{named_columns(source, drowned)}: the columns differ too much "
            "in size, and standard deviations of filled cells are wrong. Use "
            f"{words().parameter('scale', True)}, or a noise that differs by column "
            f"({words().model('FactorAnalysis')})",
            UnitsWarning,
        )


def warn_of_unlinked(source: Source) -> None:
    """Warn of groups of columns that no row, nor a chain of rows, shows together.

    A sample of the rows nearly always links all columns; only where it does not are all looked at.
    """
    if not source.has_missing:
        return
    rows = source.sample(min(FEW_ROWS, source.observed().rows), np.random.default_rng(0))
    if len(np.unique(Linked.of_block(Block(rows, None, None, 0)).labels)) == 1:
        return
    labels = source.reduce(Linked.of_block).labels
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if len(groups) > 1:
        some = "; ".join(named_columns(source, group) for group in groups[:MOST_NAMED])
        more = f"; and {len(groups) - MOST_NAMED} more" if len(groups) > MOST_NAMED else ""
        warn(
            f"the columns fall into {len(groups)} groups, and no row has values in more than one "
            f"({some}{more}): the data do not determine how they are related, not even the sign. "
            "Imputations of one group from another, and covariances between them, are arbitrary",
            UnlinkedColumnsWarning,
        )


def warn_of_constants(source: Source, variance: Array) -> None:
    """Warn of constant columns, in which a noise variance that all columns share finds none."""
    # One observed value is no constant, and weighs little in the noise of all.
    constant = np.flatnonzero((variance == 0.0) & (source.observed().per_column > 1))
    if 0 < len(constant) < len(variance):
        is_, it, makes = ("is", "it", "makes") if len(constant) == 1 else ("are", "they", "make")
        warn(
            f"{named_columns(source, constant)} {is_} constant: {it} {makes} the noise variance "
            "that all columns share too small, and with it standard deviations of imputed values. "
            f"Leave {'it' if len(constant) == 1 else 'them'} out",
            ConstantColumnWarning,
        )


def named_columns(source: Source, which: Sequence[int] | NDArray[np.intp]) -> str:
    """ "column a", or "columns a, b and 3 more"."""
    named = ", ".join(column(source.names, int(j)) for j in which[:MOST_NAMED])
    more = f" and {len(which) - MOST_NAMED} more" if len(which) > MOST_NAMED else ""
    return f"column{'s' if len(which) > 1 else ''} {named}{more}"


def _log_jacobian(fit: GaussianFit, unit: Array | None) -> float:
    """What standardising added to the log-likelihood, for complete and gappy data alike."""
    return 0.0 if unit is None else float(fit.observed_w @ np.log(unit))


def require_count(name: str, value: Any, what: str) -> None:
    """Refuse to draw no rows or tables, or a fraction of one."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(
            f"{name}, the number of {what} to draw, must be a positive integer, got {value!r}"
        )


def _generator(random_state: Any) -> np.random.Generator:
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)
