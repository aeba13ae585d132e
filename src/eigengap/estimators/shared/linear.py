"""What PCA, PPCA, FactorAnalysis and BayesianPCA share: a linear-Gaussian `model_`.

A subclass turns its parameters into a `FitSpec`. Fitted attributes are read off `model_`,
`projection_` and `spectrum_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from numbers import Integral
from operator import itemgetter
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    NamedComponents,
    as_fitted,
    limited,
    most_components,
    not_converged,
    progress_of,
    require_rank,
    seed_of,
)
from eigengap.estimators.shared.density import (
    NUMERIC_ONLY,
    DensityEstimator,
    warn_of_constants,
    warn_of_few,
    warn_of_units,
    warn_of_unlinked,
)
from eigengap.estimators.shared.sklearn_compat import _fit_context
from eigengap.estimators.shared.transformer import as_latents, decoded
from eigengap.exceptions import HeavyTailsWarning, NoiseFloorWarning, UnboundedLikelihoodWarning
from eigengap.fitting.columns.fit import LEAST_PSI, fit_column_model
from eigengap.fitting.gaussian.column_scale import column_scale
from eigengap.fitting.gaussian.noise import MultivariateT, Specification
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit, pattern_of
from eigengap.fitting.optimise.loop import silenced
from eigengap.linalg import Array
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.information import Noise, ObservationPattern
from eigengap.models.gaussian.predictive import Predictive
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.models.maps.affine import AffineMap
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.selection.coded_table import CodedTable
from eigengap.selection.columns import rank_of_source
from eigengap.selection.rank import RankChoice, automatic_rank, rank_for_fraction, reaching
from eigengap.sources import Source, named_columns
from eigengap.spectrum import Spectrum
from eigengap.statistics.expected.student import least_degrees
from eigengap.statistics.first_look import skewed_columns
from eigengap.statistics.moments import ColumnMoments
from eigengap.wording import counted, words

NO_VARIANCE = 2.0  # degrees of freedom up to which a t density has none


@dataclass(frozen=True)
class FitSpec:
    """What the parameters of an estimator ask of a fit."""

    solve: Callable[[Source, EMOptions], Solved]  # rows, in units of `scale`, to a fit
    tol: float
    n_init: int = 1
    noise: Noise = "isotropic"  # what is learned of it
    noise_variance: float | None = None
    fit_mean: bool = True
    loading_precision: float = 0.0
    robust: bool = False  # whether scale=True divides by robust scales
    promises_density: bool = True  # PCA is mostly used for its axes, which need none
    prunes: bool = False  # whether the fit removes components that the data do not determine

    def specification(self) -> Specification:
        """The model asked for, with Gaussian noise."""
        return Specification(
            noise="diagonal" if self.noise == "diagonal" else "isotropic",
            noise_variance=self.noise_variance,
            fit_mean=self.fit_mean,
            loading_precision=self.loading_precision,
        )

    @property
    def shares_noise(self) -> bool:
        """Whether columns of very different size are a mistake."""
        return self.noise == "isotropic" and self.promises_density


class LinearGaussianEstimator(NamedComponents, DensityEstimator):
    """Base class; subclasses give `_spec()`."""

    is_float32_ = False  # whether the rows of the fit were

    model_: Any  # LinearGaussian, or ColumnModel of columns of several kinds
    projection_: AffineMap  # onto the principal axes, in standardised units where scale=True
    spectrum_: Spectrum  # in standardised units where scale=True
    # Which values were observed: the uncertainty of the parameters depends on it.
    evidence_: ObservationPattern

    def _spec(self) -> FitSpec:
        raise NotImplementedError

    # Fitting -------------------------------------------------------------------------------

    def _column_scale(self, source: Source, origin: Array | float = 0.0) -> Array:
        spec = self._spec()
        robust = spec.robust or source.has_cell_sd
        return column_scale(source, robust=robust, origin=origin, fit_mean=spec.fit_mean)

    def _fit_rows(self, rows: Source, checkpointer: FileCheckpointer | None = None) -> Solved:
        with self._options(checkpointer) as options:
            return self._spec().solve(rows, options)

    @contextmanager
    def _options(self, checkpointer: FileCheckpointer | None) -> Iterator[EMOptions]:
        spec = self._spec()
        # A single start is not random, and leaves a generator as it was.
        seed = self._seed(checkpointer) if spec.n_init > 1 else 0
        with progress_of(self, checkpointer) as watch:
            yield EMOptions(
                tol=spec.tol, max_iter=self.max_iter, n_init=spec.n_init, seed=seed, watch=watch
            )

    def _require_for_kinds(self, cell_sd: Any) -> None:
        super()._require_for_kinds(cell_sd)
        spec = self._spec()
        if spec.robust:
            raise ValueError(
                f'distribution="student" {NUMERIC_ONLY}: levels and counts have no scale of a row'
            )
        if not spec.fit_mean:
            raise ValueError(f"fit_mean=False {NUMERIC_ONLY}: columns of other kinds have no 0")
        given = spec.noise_variance
        if given is not None and given < LEAST_PSI:
            raise ValueError(
                f"noise_variance={given:g} is too small for columns of several kinds: it is that "
                f"of Gaussian variables of variance 1, and must be at least {LEAST_PSI:g}"
            )

    def _fit_coded(
        self, source: Source, table: CodedTable, checkpointer: FileCheckpointer | None
    ) -> SolvedColumns:
        spec = self._spec().specification()
        asked = "auto" if self.n_components is None else self.n_components
        with self._options(checkpointer) as options:
            return fit_columns_asked(source, table.columns, options, spec, asked, self._held_out())

    def _held_out(self) -> int:
        """The seed of the values that are held out for n_components="auto": 0, or random_state."""
        given = getattr(self, "random_state", None)
        return 0 if given is None else seed_of(given)

    def _keep_coded(self, source: Source, fit: SolvedColumns) -> None:
        model, found, choice = fit
        for name in ("_batches", "evidence_"):  # of an earlier fit to numbers
            self.__dict__.pop(name, None)
        self.is_float32_ = source.dtype == np.float32
        self.knows_cell_sd_ = False
        self._keep_fit((found, choice), None)
        self.model_ = model
        assert self.table_ is not None
        source = self.table_.shown(source)
        warn_of_unlinked(source)
        if self._spec().noise == "diagonal":
            warn_of_few(source, found.model.q)
        else:
            variance = source.reduce(ColumnMoments.of).variance
            has_u = np.array(self.table_.columns.widths) > 0  # one level has none, and no noise
            warn_of_constants(source, np.where(has_u, variance, 1.0))
        self._finish(source, found)

    def _keep(self, source: Source, fit: Solved, unit: Array | None) -> None:
        spec = self._spec()
        found, _ = fit
        self.__dict__.pop("_batches", None)  # of an earlier partial_fit
        self.is_float32_ = source.dtype == np.float32
        self.knows_cell_sd_ = source.has_cell_sd
        self._keep_fit(fit, unit)
        self.evidence_ = pattern_of(source, found, spec.noise, spec.fit_mean)
        warn_of_unlinked(source)
        if spec.shares_noise and unit is None:
            warn_of_units(source, found.model.psi)
        if spec.shares_noise:
            warn_of_constants(source, source.reduce(ColumnMoments.of).variance)
        if spec.noise == "diagonal":
            warn_of_few(source, found.model.q)
        self._finish(source, found)

    def _keep_fit(self, solved: Solved, unit: Array | None) -> None:
        """Attributes that follow from the fit alone."""
        fit, choice = solved
        self.__dict__.pop("rank_choice_", None)  # of an earlier fit that had to choose
        if choice is not None:
            self.rank_choice_ = choice
        self.scale_ = unit
        self.model_ = fit.model if unit is None else fit.model.rescaled(unit)
        self.projection_ = AffineMap(A=fit.axes.T, B=fit.axes, mean=fit.model.mu)
        self.spectrum_ = fit.spectrum
        self.log_likelihood_ = fit.log_likelihood - log_jacobian(fit, unit)
        self.converged_ = fit.converged
        self.n_iter_ = max(fit.n_iter, 1)
        self.trace_ = fit.trace
        self._warn_of_fit(fit)

    def _warn_of_fit(self, fit: GaussianFit) -> None:
        spec = self._spec()
        varies = fit.spectrum.total > 0.0
        if not varies:
            warn(
                "all rows are equal, so there is no variance to explain"
                + words().either(": explained_variance_ratio_ is zero"),
                UserWarning,
            )
        if fit.at_floor and spec.noise == "isotropic" and varies:
            causes = [] if spec.prunes else ["there are more components than the data determine"]
            causes.append("the data have no noise")
            if self.table_ is None and not getattr(self, "scale", False):
                scale = words().parameter("scale", True)
                causes.append(f"columns differ too much in size ({scale} helps)")
            warn(
                "the noise variance fell to its floor, so that standard deviations of imputed "
                f"values mean little: {', or '.join(causes)}",
                NoiseFloorWarning,
            )
        if spec.promises_density and np.isposinf(fit.log_likelihood) and varies:
            warn(
                "the likelihood has no bound: the components leave no noise in the rows of the "
                "fit, so that score_samples and standard deviations of imputed values mean "
                "nothing. " + ways_to_noise(fit.model.q, fit.spectrum.sum_w).capitalize(),
                UnboundedLikelihoodWarning,
            )
        if not fit.converged:
            name = type(self).__name__
            if self.table_ is None or fit.n_iter >= self.max_iter:
                warn(not_converged(name, fit, self.max_iter), ConvergenceWarning)
            else:
                warn(columns_not_converged(name, fit.n_iter), ConvergenceWarning)

    def _finish(self, source: Source, fit: GaussianFit) -> None:
        """What a subclass adds to the model that was fitted to these rows, in data units."""

    # Latent variables ----------------------------------------------------------------------

    def transform(self, X: Any, *, cell_sd: Any = None) -> Array:
        """Posterior means E[z | x] of the latent variables: (n_samples, n_components_).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a missing value; a row without any observed value is at 0, the prior mean.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value: a noisy one counts less.
        """
        check_is_fitted(self, "model_")
        return self._map(X, self.model_.posterior_mean, cell_sd)

    def inverse_transform(self, X: Any) -> Array:
        """Rows W z + mu at the latent coordinates X: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        return self._rows_at(self._latents(X), self.model_.W)

    def _rows_at(self, Z: Array, W: Array) -> Any:
        """Rows W z + mu: of columns of several kinds, what these are most probably there."""
        model, table = self.model_, self.table_
        if table is None:
            return decoded(Z, lambda Z: Z @ W.T + model.mu)
        U = decoded(Z, lambda Z: Z @ W.T + model.mu)
        return table.rows(model.at(U).astype(Z.dtype, copy=False))

    def _latents(self, X: Any) -> Array:
        """Latent coordinates (n, q) as the caller gives them back to `inverse_transform`."""
        Z = as_latents(X, self.n_components_, "components")
        return self._impute_latents(Z) if np.isnan(Z).any() else Z

    def _impute_latents(self, Z: Array) -> Array:
        """Missing coordinates at their prior mean: they are independent of the others."""
        return np.nan_to_num(Z, nan=0.0)

    # The density ---------------------------------------------------------------------------

    def get_precision(self) -> Array:
        """Inverse of `get_covariance`, through the small matrix: (n_features, n_features)."""
        check_is_fitted(self, "model_")
        return self.model_.precision()

    def _predictive(self) -> Any:
        return Predictive.of(self.model_, self.evidence_)

    def _uncertainty(self) -> Any:
        predictive = self.predictive_
        if not self._spec().promises_density and not np.any(predictive.noise > 0.0):
            warn(
                "the components leave no noise in the rows of the fit, so that standard deviations "
                "of imputed values leave out the uncertainty of the parameters. "
                + ways_to_noise(self.model_.q, self.spectrum_.sum_w).capitalize(),
                UnboundedLikelihoodWarning,
            )
        return predictive

    # Fitted attributes ---------------------------------------------------------------------
    #
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


def log_jacobian(fit: GaussianFit, unit: Array | None) -> float:
    """What standardising added to the log-likelihood of the observed values."""
    return 0.0 if unit is None else float(fit.observed_w @ np.log(unit))


def ways_to_noise(q: int, rows: float) -> str:
    """What to do where q components leave no noise: so many rows always lie in them, or not.

    >>> ways_to_noise(1, 2), ways_to_noise(2, 3)
    ('add rows', 'take fewer components or add rows')
    >>> ways_to_noise(1, 50)
    'leave out columns that follow from others'
    """
    fewer = "take fewer components or " if q > 1 else ""
    return fewer + ("add rows" if rows <= q + 1 else "leave out columns that follow from others")


# How many components ----------------------------------------------------------------------------

LOOSE = 1e-3  # tolerance of fits that only compare ranks: they hardly change place from there on

T = TypeVar("T")  # a fit of q components
Solved = tuple[GaussianFit, RankChoice | None]  # and why so many components, where it was chosen
SolvedColumns = tuple[ColumnModel, GaussianFit, RankChoice | None]


def fit_asked(
    source: Source,
    options: EMOptions,
    fit: Callable[..., GaussianFit],
    asked: int | float | str,
    *,
    fit_mean: bool = True,
    most: int | None = None,
) -> Solved:
    """The fit with n_components=asked: a number, "auto", or a share of the variance.

    `fit(source, q, options=...)` is one fit. "auto" takes no more than `most` components. A share
    is looked for with loose fits, and reached with the options that were given.
    """
    if isinstance(asked, Integral):
        require_rank(int(asked), source)
        return fit(source, int(asked), options=options), None
    if isinstance(asked, str):
        choice = automatic_rank(source, fit_mean=fit_mean, most=most)
        return fit(source, choice.n_components, options=options), choice
    loose, share, most = loosened(options), float(asked), most_components(source)
    q = rank_for_fraction(lambda q: explained(fit(source, q, options=loose)), share, most)
    return fit_reaching(share, q, most, lambda q: fit(source, q, options=options)), None


def fit_columns_asked(
    source: Source,
    columns: Columns,
    options: EMOptions,
    spec: Specification,
    asked: int | float | str,
    seed: int,
) -> SolvedColumns:
    """`fit_asked` of columns of several kinds: "auto" is the number that predicts best.

    A share is of the variance of the Gaussian variables behind the columns.
    """
    choice = None

    def fit(q: int, options: EMOptions = options) -> tuple[ColumnModel, GaussianFit]:
        return fit_column_model(source, columns, q, options, spec)

    if not isinstance(asked, Integral | str):
        most = int(min(source.observed().count, columns.width))
        share, loose = float(asked), loosened(options)
        q = rank_for_fraction(lambda q: explained(fit(q, loose)[1]), share, most)
        return *fit_reaching(share, q, most, fit, itemgetter(1)), None
    if isinstance(asked, str):
        choice = rank_of_source(source, columns, seed, spec).choice()
    q = int(asked) if choice is None else choice.n_components
    require_width(q, columns)
    return *fit(q), choice


def require_width(q: int, columns: Columns) -> None:
    if q > columns.width:
        raise ValueError(
            f"n_components is {q}, but behind the columns there are only {columns.width} Gaussian "
            "variables: one for each, and K - 1 for K levels without an order"
        )


def columns_not_converged(name: str, n_iter: int) -> str:
    """Why a fit of columns of several kinds ended before it converged."""
    return (
        f"{name} stopped after {n_iter} steps before it reached its tolerance: levels that "
        "other columns separate, or columns that follow from others, leave the likelihood flat. "
        "Fewer components help"
    )


def loosened(options: EMOptions) -> EMOptions:
    """Options of fits that only compare ranks."""
    return replace(options, tol=max(options.tol, LOOSE), n_init=1, watch=silenced(options.watch))


def fit_reaching(
    share: float,
    q: int,
    most: int,
    fit: Callable[[int], T],
    of: Callable[[T], GaussianFit] = lambda found: found,  # type: ignore[assignment, return-value]
) -> T:
    """The fit of q components, or of as many more, up to `most`, as that share takes.

    q comes from loose fits, which may fall short of it. Warns where the share is out of reach.
    """
    found = reaching(fit, lambda each: explained(of(each)), q, share, most)
    last = of(found)
    if explained(last) < share and last.spectrum.total > 0.0:
        warn(
            f"{words().parameter('n_components', f'{share:g}')} of the variance is out of reach: "
            f"{counted(last.model.q, 'component', 'explain')} {explained(last):.3g}, and rows and "
            "columns allow no more",
            UserWarning,
        )
    return found


def explained(fit: GaussianFit) -> float:
    """Share of the variance that the components of a fit explain."""
    return float(np.sum(fit.spectrum.explained_ratio(fit.model.q)))


# Noise beyond one Gaussian for all rows -------------------------------------------------------


class NoisyEstimator(LinearGaussianEstimator):
    """Base class of what takes `distribution`, `degrees_of_freedom` and `cell_sd`."""

    distribution: str
    degrees_of_freedom: float | None

    def _require_for_kinds(self, cell_sd: Any) -> None:
        super()._require_for_kinds(cell_sd)
        self._student()  # refuses degrees of freedom of Gaussian noise

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        cell_sd: Any = None,
        lower: Any = None,
        upper: Any = None,
    ) -> Self:
        """Fit the model to the observed values of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, sparse matrix, pandas, polars or pyarrow, a Dask array or frame, or
            the path of a file (`eigengap.open_source`); NaN marks a missing value.
        cell_sd : table of X's shape, default=None
            Known standard deviation s_ij of each value; 0 or NaN where nothing is known. The noise
            variance of a value is then psi_j + s_ij^2, the model's own being what is left.
        lower, upper : array-like that broadcasts to X's shape, default=None
            Limits of values that are not known exactly, NaN where there is none; with columns of
            several kinds. Other methods take them by `eigengap.columns.with_limits`.
        """
        self._fit(limited(self, X, lower, upper), sample_weight, cell_sd)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, cell_sd: Any = None
    ) -> Any:
        """`fit` and then `transform`, with the same cell_sd."""
        return self.fit(X, y, sample_weight, cell_sd=cell_sd).transform(X, cell_sd=cell_sd)

    def _finish(self, source: Source, fit: GaussianFit) -> None:
        if self.distribution == "student" and self.degrees_of_freedom is None:
            warn_of_tails(source, self.degrees_of_freedom_, self.n_components_)

    def row_weights(self, X: Any) -> Array:
        """How much each row counts: (n_samples,).

        (nu + p) / (nu + delta) for a row of p observed values at the squared distance delta: about
        1 for ordinary rows, near 0 for outliers; exactly 1 under Gaussian noise.
        """
        check_is_fitted(self, "model_")
        model = self.model_
        if isinstance(model, StudentLinearGaussian):
            return self._map(X, model.row_weights)
        return self._map(X, lambda x: np.ones(len(x)))

    @property
    def degrees_of_freedom_(self) -> float:
        return self.model_.nu if isinstance(self.model_, StudentLinearGaussian) else inf

    def _student(self) -> MultivariateT | None:
        if self.distribution == "gaussian" and self.degrees_of_freedom is not None:
            raise ValueError(
                f"degrees_of_freedom={self.degrees_of_freedom} is of Student rows; set "
                'distribution="student", or leave it at None'
            )
        return MultivariateT(self.degrees_of_freedom) if self.distribution == "student" else None


def warn_of_tails(source: Source, nu: float, q: int) -> None:
    """Warn of degrees of freedom without a variance, and name columns whose logarithm may help."""
    if nu > NO_VARIANCE:
        return
    at_least = nu <= least_degrees(source.observed().sum_w, source.n_features, q) * (1.0 + 1e-6)
    skewed = skewed_columns(source)
    named = named_columns(source.names, skewed).partition(" ")[2]
    ways = f"take the logarithm of the skewed columns {named}, or " if skewed else ""
    ways += "set degrees_of_freedom to 4 or more"
    warn(
        f"the rows have such heavy tails, {nu:.2g} degrees of freedom"
        f"{' (the fewest that are tried)' if at_least else ''}, that the density has no variance: "
        "standard deviations of imputed values are huge for outliers, and infinite for rows with "
        f"few observed values. {ways[0].upper()}{ways[1:]}",
        HeavyTailsWarning,
    )
