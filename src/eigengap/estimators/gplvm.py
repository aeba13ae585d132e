"""The Gaussian process latent variable model as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import nan
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.ppca import PPCA
from eigengap.estimators.shared.base import (
    as_fitted,
    keep_features,
    keep_parameters,
    progress_of,
    source_of_new,
)
from eigengap.estimators.shared.inner import imputing_model
from eigengap.estimators.shared.sklearn_compat import StrOptions, _fit_context
from eigengap.estimators.shared.transformer import (
    COUNT,
    Transformer,
    as_latents,
    decoded,
    dense_rows,
    whole_table,
)
from eigengap.exceptions import NoiseFloorWarning
from eigengap.fitting.gp.back_constraint import BackMap, Kind
from eigengap.fitting.gp.dual_ppca import fit_linear
from eigengap.fitting.gp.fit import (
    best_fit,
    chosen_method,
    is_closed,
    is_linear,
    noise_of_cells,
    require_exact,
)
from eigengap.fitting.gp.latent_posterior import FittedLatents
from eigengap.fitting.gp.start import (
    LatentFit,
    ObservedColumns,
    Standard,
    observed_columns,
    standardise,
)
from eigengap.fitting.graph.duplicate_rows import Rows, distinct
from eigengap.linalg import Array
from eigengap.models.gaussian.posterior import Posterior
from eigengap.models.gp.expected import has_expectations
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import LatentKernel, kernel_of
from eigengap.runtime.warnings import warn
from eigengap.sources import Source, column, like, warn_of_codes
from eigengap.statistics.moments import refuse_out_of_range
from eigengap.wording import words

RELEVANT = 0.01  # of the largest relevance
LARGEST = 1e100  # standard deviations from the mean, whose squares stay within float64


def _of_one_method(name: str, method: str, way_out: str) -> Any:
    """An attribute that only one of the two methods has, and what the other has in its place."""

    def found(self: Any) -> Any:
        only = self.__dict__.get("_only")
        if only is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: fit has {name}")
        if name not in only:
            raise AttributeError(
                f'{name} is of method="{method}", and this fit was by method="{self.method_}": '
                f"{way_out}"
            )
        return only[name]

    return property(found)


class GPLVM(Transformer):
    """Gaussian process latent variable model, exact or Bayesian; accepts missing values.

    Every column is a smooth function of a few latents plus noise, x_j = f_j(z) + e, with Gaussian
    processes for the functions: probabilistic PCA with curved axes (Lawrence 2005). Needs JAX,
    `pip install "eigengap[autodiff]"`, except for the closed form of kernel="linear".

    Parameters
    ----------
    n_components : int, default=2
        Latent dimensions. With length scales of their own those that are not needed lose their
        relevance (`relevance_`), most clearly with method="bayesian".
    kernel : str or LatentKernel, default="rbf"
        "linear", "rbf", "matern32", "matern52", a sum such as "rbf+linear", or values of
        `eigengap.models.gp.kernels`, which add with +; their parameters are where the fit starts.
        Every latent dimension has its own length scale.
    method : {"auto", "exact", "bayesian"}, default="auto"
        "exact" finds the latents of highest likelihood from all pairs of rows; "bayesian" a
        Gaussian for each latent, through inducing points, by a bound on the evidence (Titsias and
        Lawrence 2010), for kernels "rbf", "linear" and their sum. "auto" is exact up to 500 rows
        (fewer where missing values give columns matrices of their own), and for Matern kernels.
    n_inducing : int, default=50
        Inducing points of method="bayesian": its cost grows with n_samples times their square.
    init : {"ppca", "isomap"} or array of shape (n_samples, n_components), default="ppca"
        Where latents start; they are brought to unit variance. The closed form of
        kernel="linear" needs no start, and looks at neither `init` nor `n_init`.
    back_constraint : {"kernel", "mlp"} or None, default=None
        Latents as a smooth function of the rows (Lawrence and Quinonero-Candela 2006), a sum of
        kernels or a perceptron of one hidden layer, which is learned in their place: rows near
        each other stay near, and `transform` is that function.
    scale : bool, default=False
        Divide every column by its standard deviation before the fit, undone in every output in
        data units. `kernel_` and `noise_variance_` are in standardised units then. A column that
        has one value only has the median of the others' standard deviations for its own. Off by
        default, as in `PPCA`, whose nonlinear form this is.
    n_init : int, default=1
        Number of starts; the first is `init`, the others are perturbed, the best is kept.
    tol : float, default=1e-6
        The fit stops where twenty steps together gain less than this, in nats per observed value.
    random_state : int, RandomState or None, default=None
        Of inducing points, the perceptron and further starts. None is a seed of 0, so that two
        fits agree.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        Latents of the rows, or the means of their posterior, the most relevant dimension first.
    embedding_sd_ : array of shape (n_samples, n_components)
        Their posterior standard deviations. Only of the Bayesian fit.
    relevance_ : array of shape (n_components,)
        Share of each dimension in the slopes of the functions: the prior mean square slope along
        it (for "rbf" variance / length scale^2) times the variance of the latents. Sums to 1.
    n_relevant_ : int
        Dimensions whose relevance is at least a hundredth of the largest.
    kernel_ : LatentKernel
    noise_variance_ : float
        In data units; of standardised columns where scale=True.
    cell_noise_variance_ : float
        That of cells in predictions. The exact fit spends degrees of freedom on its latents, which
        the maximum of the likelihood does not account for: `noise_variance_` times the number of
        observed values over the number that is left. Of the Bayesian fit `noise_variance_`.
    inducing_ : array of shape (n_inducing, n_components)
        Only of the Bayesian fit.
    log_likelihood_ : float
        ln p(X | latents). Only of the exact fit.
    bound_ : float
        Lower bound on ln p(X). Only of the Bayesian fit.
    mean_ : array of shape (n_features,)
    method_ : "exact" or "bayesian"
    trace_ : Trace
        `objective`, `change` (largest slope) and `seconds` of every step.
    n_iter_, converged_
    model_ : GaussianProcesses
        The functions as a value, of standardised columns; predicts without JAX.
    n_features_in_, feature_names_in_

    Notes
    -----
    The likelihood has many local optima; `n_init` and `init` choose among them. With one kernel
    and one noise variance for all columns, give columns in different units scale=True. Rows that
    are equal, cell for cell, have one latent.

    Examples
    --------
    A curve in five columns:

    >>> import numpy as np
    >>> from eigengap import GPLVM
    >>> t = np.linspace(-1, 1, 40)
    >>> X = np.column_stack([t, t**2, t**3, np.cos(2 * t), np.sin(2 * t)])
    >>> model = GPLVM(1, max_iter=100, tol=1e-4).fit(X)
    >>> order = np.argsort(model.embedding_[:, 0])
    >>> bool((order == np.arange(40)).all() or (order[::-1] == np.arange(40)).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [COUNT],
        "kernel": [str, LatentKernel],
        "method": [StrOptions({"auto", "exact", "bayesian"})],
        "n_inducing": [COUNT],
        "init": [StrOptions({"ppca", "isomap"}), "array-like"],
        "back_constraint": [StrOptions({"kernel", "mlp"}), None],
        "n_init": [COUNT],
    }

    _prefix = "GP"

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
    _filler: PPCA | None  # imputes rows that a back constraint maps

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: str | LatentKernel = "rbf",
        method: str = "auto",
        n_inducing: int = 50,
        init: Any = "ppca",
        back_constraint: Kind | None = None,
        scale: bool = False,
        n_init: int = 1,
        tol: float = 1e-6,
        max_iter: int = 1000,
        missing_values: Any = nan,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find latents of the rows of X and functions from them to its columns."""
        self.fit_transform(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and `embedding_`, the latents of the rows of X, in float32 where X is."""
        kernel, q = kernel_of(self.kernel), int(self.n_components)
        kernel.require_positive(q)
        source = whole_table(X, "GPLVM", missing_values=self.missing_values)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        if self.method == "exact" and not is_linear(kernel):
            require_exact(source.observed().rows)
        values = dense_rows(source)
        present = np.flatnonzero(~np.all(np.isnan(values), axis=1))
        self._require(len(present))
        standard = standardise(values[present], bool(self.scale))
        refuse_out_of_range(source, standard.total, True)
        columns = observed_columns(standard.Y)
        if self.method == "bayesian" and not has_expectations(kernel):
            raise ValueError(
                f"kernel={self.kernel!r} has no closed form for its expected values over uncertain "
                'latents, which method="bayesian" needs: take kernel="rbf", "linear" or '
                '"rbf+linear", or method="exact"'
            )
        back = self.back_constraint
        method = chosen_method(self.method, kernel, columns, back, q, int(self.n_inducing))
        imputer, complete = None, standard.Y
        if not columns.is_complete:
            imputer = imputing_model(source)
            complete = standard.of(np.asarray(imputer.impute(values[present]), dtype=np.float64))
        given = self._given_latents(len(values), present)
        if method == "exact" and is_closed(kernel, columns, back):
            fit = fit_linear(columns, q)
        else:
            fit = best_fit(
                columns,
                complete,
                distinct(standard.Y),
                kernel.times(1.0 if self.scale else standard.unit[0] ** -2),
                lambda: self._isomap(complete) if given is None else given,
                q=q,
                n_inducing=None if method == "exact" else int(self.n_inducing),
                back=back,
                n_init=int(self.n_init),
                tol=float(self.tol),
                max_iter=int(self.max_iter),
                seed=self._seed(),
                progress=partial(progress_of, self),
            )
        keep_features(self, X, source)  # only now: a fit may fail
        self._keep(fit, method, standard, columns, present, len(values))
        self._filler = imputer
        self._warn(fit, standard)
        return as_fitted(self.embedding_, source.dtype == np.float32)

    def _require(self, n: int) -> None:
        q = int(self.n_components)
        if n < 2:
            raise ValueError(
                f"Found array with {n} sample(s) (n_samples={n}) with an observed value; at least "
                "2 rows are needed to fit"
            )
        if q >= n:
            raise ValueError(
                f"{words().parameter('n_components', q)} must be less than the number of rows "
                f"with an observed value, {n} (n_samples={n})"
            )

    def _given_latents(self, n: int, present: Rows) -> Array | None:
        """(n, q) of the rows that are present, where init is an array."""
        if isinstance(self.init, str):
            return None
        given, shape = np.asarray(self.init, dtype=np.float64), (n, int(self.n_components))
        if given.shape != shape:
            raise ValueError(
                f"init has shape {given.shape}, and latents of all rows are wanted: {shape}"
            )
        if not np.all(np.isfinite(given)):
            row, k = np.argwhere(~np.isfinite(given))[0]
            raise ValueError(f"init holds {given[row, k]} at row {row}, column {k}")
        return given[present]

    def _isomap(self, complete: Array) -> Array | None:
        """(n, q) latents by Isomap where `init` asks for it."""
        if self.init != "isomap":
            return None
        from eigengap.estimators.isomap import Isomap

        return np.asarray(Isomap(n_components=int(self.n_components)).fit_transform(complete))

    def _keep(
        self,
        fit: LatentFit,
        method: str,
        standard: Standard,
        columns: ObservedColumns,
        present: Rows,
        n: int,
    ) -> None:
        q = fit.Z.shape[1]
        order, self.relevance_ = fit.by_relevance()
        self.n_relevant_ = int(np.sum(self.relevance_ >= RELEVANT * self.relevance_[0]))
        self.model_ = replace(fit.model.ordered(order), mean=standard.mean, unit=standard.unit)
        self.method_, self._scaled = method, bool(self.scale)
        noise = fit.model.noise_variance
        if fit.s is None:
            noise = noise_of_cells(self.model_, fit.Z[:, order], columns.observed)
        self._predictive = replace(self.model_, noise_variance=noise)
        # A row without any observed value is where the prior has it.
        self.embedding_ = np.zeros((n, q))
        self.embedding_[present] = fit.Z[:, order]
        objective = fit.objective - float(np.sum(columns.observed, axis=0) @ np.log(standard.unit))
        self._only = {"log_likelihood_" if method == "exact" else "bound_": objective}
        if fit.s is not None:
            sd = np.ones((n, q))
            sd[present] = np.sqrt(fit.s[:, order])
            self._only.update(embedding_sd_=sd, inducing_=self.model_.support)
        self.trace_, self.n_iter_ = fit.trace, max(len(fit.trace), 1)
        self.converged_ = fit.converged
        self._back = fit.back
        self._order = order
        self._standard = standard
        self._present = present

    def _warn(self, fit: LatentFit, standard: Standard) -> None:
        if standard.total <= 0.0:
            warn("all rows are equal, so that there is nothing to describe", UserWarning)
        elif fit.at_floor:
            warn(
                "the noise variance fell to its floor, so that standard deviations mean little: "
                "there are more latent dimensions than the observed values determine, or the data "
                "have no noise",
                NoiseFloorWarning,
            )
        if not fit.converged:
            warn(
                f"GPLVM did not converge in {len(fit.trace)} steps; "
                f"{words().more_steps(self.max_iter)}",
                ConvergenceWarning,
            )

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
            NaN marks a missing value; a row without any observed value is at 0, the prior mean.
        """
        source, Y = self._new_rows(X)
        Z = self._mapped(source, Y)
        if Z is None:
            Z = self._fitted.latents(Y)
        return as_fitted(Z, source.dtype == np.float32)

    def posterior(self, X: Any) -> Posterior:
        """Mean and covariance of the latent of every row given its observed values.

        Over all the places where the row may be: where these are several, the mean lies between
        them and the covariance spans them, and `transform` has the best of them alone. For a row
        of a Bayesian fit the Gaussian that the fit found for it; for one of an exact fit the
        other rows are what it is placed by. With a back constraint the mean is its function of
        the row, and the covariance is about that.

        Returns
        -------
        Posterior
            `mean` (n_samples, n_components), `cov`, `std`.
        """
        source, Y = self._new_rows(X)
        return Posterior(*self._fitted.moments(Y, self._mapped(source, Y)), np.arange(len(Y)))

    def score_samples(self, X: Any) -> Array:
        """ln p(x) of every row, its latent integrated out: (n_samples,), in nats.

        By importance sampling, with the functions as the fit left them. A row of an exact fit is
        judged by the other rows. Missing values are left out.
        """
        _, Y = self._new_rows(X)
        density = self._fitted.posterior(Y).log_density
        return np.asarray(density - (~np.isnan(Y)) @ np.log(self.model_.unit))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples` over the rows that have an observed value; 0 where none has."""
        scores = self.score_samples(X)
        observed = ~np.isnan(self._new_rows(X)[1]).all(axis=1)
        return float(np.mean(scores[observed])) if observed.any() else 0.0

    def _new_rows(self, X: Any) -> tuple[Source, Array]:
        check_is_fitted(self, "model_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        with np.errstate(over="ignore"):
            Y = self.model_.standardised(dense_rows(source))
        far = np.abs(Y) > LARGEST
        if far.any():
            row, j = np.argwhere(far)[0]
            raise ValueError(
                f"row {row} is more than {LARGEST:.0e} standard deviations from the fitted rows in "
                f"column {column(source.names, int(j))}, and the square of that overflows: look "
                "for a code for missing values, or for other units"
            )
        return source, Y

    @property
    def _fitted(self) -> FittedLatents:
        sd = self._only.get("embedding_sd_")
        return FittedLatents(
            self.model_,
            self._predictive,
            self.model_.standardised(self._standard.given),
            self.embedding_[self._present],
            None if sd is None else sd[self._present],
        )

    def _mapped(self, source: Source, Y: Array) -> Array | None:
        """The back constraint's latents of rows, missing values imputed; None without one."""
        if self._back is None:
            return None
        values = dense_rows(source)
        if np.isnan(values).any():
            model = self._filler or imputing_model(self._standard.given, self)
            values = np.asarray(model.impute(values), dtype=np.float64)
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
        Z = as_latents(X, self.model_.q, "latent dimensions", allow_nan=False)
        found = decoded(Z, self._mean_and_std)
        d = self.n_features_in_
        return (found[:, :d], found[:, d:]) if return_std else found[:, :d]

    def _mean_and_std(self, Z: Array) -> Array:
        """(n, 2 d) at the latents Z: expected cells, then their standard deviations."""
        mean, variance = self._predictive.predict(Z.astype(np.float64))
        return np.hstack([mean, np.sqrt(variance)])

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Impute every missing value by its expected value given the rest of its row.

        Over all the places in latent space where the row may be.

        Returns
        -------
        imputed : table of X's type
            Observed values are unchanged.
        std : table of X's type
            Standard deviation of each imputed value, 0 for observed ones: of the latent, the
            functions and the noise together. Only if return_std.
        """
        source, Y = self._new_rows(X)
        values = dense_rows(source)
        std = np.zeros_like(values)
        rows = np.flatnonzero(np.isnan(values).any(axis=1))
        if len(rows):
            mean, variance = self._fitted.cells(Y[rows])
            missing = np.isnan(values[rows])
            values[rows] = np.where(missing, mean, values[rows])
            std[rows] = np.where(missing, np.sqrt(variance), 0.0)
        float32 = source.dtype == np.float32
        imputed = like(X, as_fitted(values, float32))
        return (imputed, like(X, as_fitted(std, float32))) if return_std else imputed

    # Fitted attributes ---------------------------------------------------------------------

    n_components_ = property(attrgetter("model_.q"))

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
        """Of data units, where all columns share one and figures are given in it."""
        return 1.0 if self._scaled else float(self.model_.unit[0]) ** 2

    mean_ = property(attrgetter("model_.mean"))

    embedding_sd_ = _of_one_method(
        "embedding_sd_", "bayesian", "posterior(X).std has those of any rows"
    )
    inducing_ = _of_one_method("inducing_", "bayesian", "the exact fit has all rows in their place")
    bound_ = _of_one_method("bound_", "bayesian", "the exact fit has log_likelihood_")
    log_likelihood_ = _of_one_method(
        "log_likelihood_", "exact", "the Bayesian fit has a lower bound on it, bound_"
    )
