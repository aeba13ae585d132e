"""The Gaussian process latent variable model as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from eigengap.estimators._base import NoiseFloorWarning
from eigengap.estimators._latents import as_latents
from eigengap.estimators._progress import ProgressLine, watch_for
from eigengap.estimators.ppca import PPCA
from eigengap.fitting.back_constraint import BackMap, Kind, back_constraint
from eigengap.fitting.dual_ppca import fit_linear
from eigengap.fitting.gplvm_start import (
    Standard,
    chosen_points,
    perturbed,
    principal_start,
    standardise,
    to_unit_variance,
)
from eigengap.fitting.latent_fit import LatentFit, Start
from eigengap.fitting.latent_points import at_given, likely_starts, most_probable
from eigengap.fitting.memory import require_memory, require_pairs
from eigengap.fitting.range import refuse_out_of_range
from eigengap.fitting.seen_columns import SeenColumns, seen_columns
from eigengap.linalg import Array
from eigengap.models.expected_gp_kernel import has_expectations
from eigengap.models.gaussian_process import GaussianProcesses
from eigengap.models.gp_kernels import LatentKernel, Linear, kernel_of
from eigengap.models.posterior import Posterior
from eigengap.sources import as_source
from eigengap.sources.base import Source
from eigengap.sources.frames import like
from eigengap.sources.sentinels import warn_of_codes
from eigengap.warn import warn

EXACT_ROWS = 500  # up to which method="auto" takes all pairs
EXACT_WORK = 8.0 * EXACT_ROWS**3  # of rows^3 times patterns of gaps
STARTS = 3  # fitted latents from which that of a new row is sought
RELEVANT = 0.01  # of the largest relevance
COPIES = 10.0  # n x n matrices that an exact fit holds


@dataclass(frozen=True, eq=False)
class _Rows:
    """Which rows of a table show a value."""

    present: Any  # indices
    count: int  # of all rows


class GPLVM(TransformerMixin, BaseEstimator):
    """Gaussian process latent variable model, exact or Bayesian, gaps welcome.

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
        `eigengap.models.gp_kernels`, which add with +; their parameters are where the fit starts.
        Every latent dimension has its own length scale.
    method : {"auto", "exact", "bayesian"}, default="auto"
        "exact" finds the latents of highest likelihood from all pairs of rows; "bayesian" a
        Gaussian for each latent, through inducing points, by a bound on the evidence (Titsias and
        Lawrence 2010), for kernels "rbf", "linear" and their sum. "auto" is exact up to 500 rows
        (fewer where gaps make every column a matrix of its own), and for Matern kernels.
    n_inducing : int, default=50
        Inducing points of method="bayesian": its cost grows with n_samples times their square.
    init : {"ppca", "isomap"} or array of shape (n_samples, n_components), default="ppca"
        Where latents start; they are brought to unit variance.
    back_constraint : {"kernel", "mlp"} or None, default=None
        Latents as a smooth function of the rows (Lawrence and Quinonero-Candela 2006), a sum of
        kernels or a perceptron of one hidden layer, which is learned in their place: rows near
        each other stay near, and `transform` is that function.
    scale : bool, default=False
        Divide every column by its standard deviation before the fit, undone in every output in
        data units. `kernel_` and `noise_variance_` are in standardised units then.
    n_init : int, default=1
        Number of starts; the first is `init`, the others are perturbed, the best is kept.
    tol : float, default=1e-6
        The fit stops where a step gains less than this, in nats per seen cell.
    max_iter : int, default=1000
        Most steps of L-BFGS.
    missing_values : float or list of float, default=nan
        Values that mark an unseen cell, besides NaN.
    random_state : int, RandomState or None, default=None
        Of inducing points, the perceptron and further starts. None is a seed of 0, so that two
        fits agree.
    verbose : bool or int, default=False
        Whether to show progress.

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
    inducing_ : array of shape (n_inducing, n_components)
        Only of the Bayesian fit.
    log_likelihood_ : float
        ln p(X | latents) of the exact fit.
    bound_ : float
        Lower bound on ln p(X) of the Bayesian fit.
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
    and one noise variance for all columns, give columns in different units scale=True.

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
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kernel": [str, LatentKernel],
        "method": [StrOptions({"auto", "exact", "bayesian"})],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"ppca", "isomap"}), "array-like"],
        "back_constraint": [StrOptions({"kernel", "mlp"}), None],
        "scale": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "missing_values": [Real, "array-like"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    model_: GaussianProcesses
    embedding_: Array
    _filler: PPCA | None  # of gaps in rows that a back constraint maps

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
        self.n_components = n_components
        self.kernel = kernel
        self.method = method
        self.n_inducing = n_inducing
        self.init = init
        self.back_constraint = back_constraint
        self.scale = scale
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.missing_values = missing_values
        self.random_state = random_state
        self.verbose = verbose

    # Fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find latents of the rows of X and functions from them to its columns.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, pandas, polars or pyarrow; NaN marks a gap.
        y : ignored

        Returns
        -------
        self
        """
        self.fit_transform(X, y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit, and the latents of the rows of X: (n_samples, n_components).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        array of shape (n_samples, n_components)
            `embedding_`, in float32 where X is.
        """
        kernel = kernel_of(self.kernel)
        source = as_source(X, missing_values=self.missing_values)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        if self.method == "exact" and not self._maybe_linear(kernel):
            self._require_pairs(source.seen().rows)
        values = _dense(source)
        present = np.flatnonzero(~np.all(np.isnan(values), axis=1))
        n = len(present)
        self._require(n)
        standard = standardise(values[present], bool(self.scale))
        refuse_out_of_range(source, standard.total, True)
        columns = seen_columns(standard.Y)
        method = self._method(kernel, columns)
        filler = PPCA("auto", scale=True).fit(source) if source.has_gaps else None
        filled = standard.Y
        if filler is not None:
            filled = standard.of(np.asarray(filler.impute(values[present]), dtype=np.float64))
        rows = _Rows(present, len(values))
        fit = self._fit_table(method, kernel, standard, columns, filled, rows)
        validate_data(self, X, reset=True, skip_check_array=True)  # only now: a fit may fail
        self._keep(fit, method, standard, columns, rows)
        self._filler = filler
        self._tell(fit, standard)
        found = self.embedding_
        return found.astype(np.float32) if source.dtype == np.float32 else found

    def _require(self, n: int) -> None:
        q = int(self.n_components)
        if n < 2:
            raise ValueError(
                f"Found array with {n} sample(s) (n_samples={n}) that show a value; at least 2 "
                "rows are needed to fit"
            )
        if q >= n:
            raise ValueError(
                f"n_components={q} must be less than the number of rows that show a value, {n} "
                f"(n_samples={n})"
            )

    @staticmethod
    def _require_pairs(n: int, patterns: int = 1) -> None:
        require_pairs(
            n, "an exact GPLVM", 'use method="bayesian", whose cost grows with the number of rows',
            copies=COPIES + patterns,
        )  # fmt: skip

    def _maybe_linear(self, kernel: LatentKernel) -> bool:
        return all(isinstance(part, Linear) for part in kernel.parts)

    def _method(self, kernel: LatentKernel, columns: SeenColumns) -> str:
        n, patterns = columns.n_rows, len(columns.groups)
        smooth = has_expectations(kernel)
        if self.method == "bayesian" and not smooth:
            raise ValueError(
                f"kernel={self.kernel!r} has no closed form for its expected values over uncertain "
                'latents, which method="bayesian" needs: take kernel="rbf", "linear" or '
                '"rbf+linear", or method="exact"'
            )
        if self.method != "auto":
            method = self.method
        elif not smooth or _is_linear(kernel, columns, self.back_constraint):
            method = "exact"
        else:
            small = n <= EXACT_ROWS and patterns * float(n) ** 3 <= EXACT_WORK
            method = "exact" if small else "bayesian"
        if method == "exact" and not _is_linear(kernel, columns, self.back_constraint):
            self._require_pairs(n, patterns)
        elif method == "bayesian":
            M, q = min(int(self.n_inducing), n), int(self.n_components)
            require_memory(
                8.0 * (4.0 * n * (columns.table.shape[1] + M + 6 * q) + 4.0 * patterns * M * M),
                f"a Bayesian GPLVM of {n} rows with {M} inducing points",
                "take fewer inducing points, or fewer rows",
            )
        return method

    def _fit_table(
        self,
        method: str,
        kernel: LatentKernel,
        standard: Standard,
        columns: SeenColumns,
        filled: Array,
        rows: _Rows,
    ) -> LatentFit:
        if method == "exact" and _is_linear(kernel, columns, self.back_constraint):
            return fit_linear(columns, int(self.n_components))
        kernel = kernel.times(1.0 if self.scale else standard.unit[0] ** -2)
        import eigengap.fitting.autodiff.engine  # noqa: F401  # JAX, or how to install it
        from eigengap.fitting.autodiff.bayesian_gplvm import fit_bayesian
        from eigengap.fitting.autodiff.gplvm import fit_exact

        rng = np.random.default_rng(self._seed())
        Z, spread = self._first_latents(filled, rows, rng)
        best: LatentFit | None = None
        for k in range(int(self.n_init)):
            at = Z if k == 0 else perturbed(Z, rng)
            back = None
            if self.back_constraint is not None:
                back = back_constraint(self.back_constraint, filled, at, rng)
            start = Start(at, spread, kernel, back=back)
            watch = watch_for(self.verbose, "GPLVM")
            options: dict[str, Any] = {
                "tol": float(self.tol), "max_iter": int(self.max_iter), "watch": watch
            }  # fmt: skip
            try:
                if method == "exact":
                    fit = fit_exact(columns, start, **options)
                else:
                    points = chosen_points(at, self._most_points(kernel), rng)
                    fit = fit_bayesian(columns, start, points, **options)
            finally:
                if isinstance(watch, ProgressLine):
                    watch.close()
            if best is None or fit.objective > best.objective:
                best = fit
        assert best is not None
        return best

    def _most_points(self, kernel: LatentKernel) -> int:
        """Functions w'z are known from as many points as there are dimensions."""
        M, q = int(self.n_inducing), int(self.n_components)
        return min(M, q) if self._maybe_linear(kernel) else M

    def _first_latents(
        self, filled: Array, rows: _Rows, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """(n, q) of unit variance, and the share of the variance along each (q,)."""
        q = int(self.n_components)
        if not isinstance(self.init, str):
            given = np.asarray(self.init, dtype=np.float64)
            if given.shape != (rows.count, q):
                raise ValueError(
                    f"init has shape {given.shape}, and latents of all rows are wanted: "
                    f"{(rows.count, q)}"
                )
            if not np.all(np.isfinite(given)):
                row, k = np.argwhere(~np.isfinite(given))[0]
                raise ValueError(f"init holds {given[row, k]} at row {row}, column {k}")
            return to_unit_variance(given[rows.present], rng)
        if self.init == "isomap":
            from eigengap.estimators.isomap import Isomap

            return to_unit_variance(np.asarray(Isomap(n_components=q).fit_transform(filled)), rng)
        return principal_start(filled, q, rng)

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _keep(
        self,
        fit: LatentFit,
        method: str,
        standard: Standard,
        columns: SeenColumns,
        rows: _Rows,
    ) -> None:
        for name in ("embedding_sd_", "log_likelihood_", "bound_", "inducing_"):
            self.__dict__.pop(name, None)
        q = fit.Z.shape[1]
        second = np.mean(fit.Z**2, axis=0) + (0.0 if fit.s is None else np.mean(fit.s, axis=0))
        slopes = fit.model.kernel.steepness(q) * second
        order = np.argsort(-slopes, kind="stable")
        total = float(np.sum(slopes))
        self.relevance_ = slopes[order] / total if total > 0.0 else np.full(q, 1.0 / q)
        self.n_relevant_ = int(np.sum(self.relevance_ >= RELEVANT * self.relevance_[0]))
        self.model_ = replace(fit.model.ordered(order), mean=standard.mean, unit=standard.unit)
        self.method_, self._scaled = method, bool(self.scale)
        # A row without any seen cell is where the prior has it.
        self.embedding_ = np.zeros((rows.count, q))
        self.embedding_[rows.present] = fit.Z[:, order]
        if fit.s is not None:
            self.embedding_sd_ = np.ones((rows.count, q))
            self.embedding_sd_[rows.present] = np.sqrt(fit.s[:, order])
            self.inducing_ = self.model_.support
        objective = fit.objective - float(np.sum(columns.seen, axis=0) @ np.log(standard.unit))
        setattr(self, "log_likelihood_" if method == "exact" else "bound_", objective)
        self.trace_, self.n_iter_ = fit.trace, max(len(fit.trace), 1)
        self.converged_ = fit.converged
        self._back: BackMap | None = fit.back
        self._order = order
        self._standard = standard
        self._present = rows.present

    def _tell(self, fit: LatentFit, standard: Standard) -> None:
        if standard.total <= 0.0:
            warn("all rows are equal, so that there is nothing for latents to tell", UserWarning)
        elif fit.at_floor:
            warn(
                "the noise variance fell to its floor, so that standard deviations mean little: "
                "there are more latent dimensions than the seen cells determine, or the data have "
                "no noise",
                NoiseFloorWarning,
            )
        if not fit.converged:
            warn(
                f"GPLVM did not converge in {len(fit.trace)} steps; raise max_iter="
                f"{self.max_iter} or tol",
                ConvergenceWarning,
            )

    # Latents of rows -----------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Latents of rows: (n_samples, n_components).

        A row that was in the fit, cell for cell, has its own. The latent of a new row is found by
        optimisation from the fitted ones at which it is most probable; or it is the back
        constraint's function of the row.

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
            Z = self._latents(Y)[0]
        return Z.astype(np.float32) if source.dtype == np.float32 else Z

    def posterior(self, X: Any) -> Posterior:
        """Posterior of the latents of every row, as Gaussians.

        Of the Bayesian fit the variational posterior, with a diagonal covariance; of the exact
        one Laplace's approximation about the most probable latent. With a back constraint the
        mean is its function of the row.

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
        Z, cov, _ = self._latents(Y, self._mapped(source, Y))
        return Posterior(Z, cov, np.arange(len(Z)))

    def score_samples(self, X: Any) -> Array:
        """How probable every row is: (n_samples,), in nats.

        Of the Bayesian fit a lower bound on ln p(x), the functions as the fit left them; of the
        exact one Laplace's approximation to ln p(x), the latent integrated out. Gaps are left out.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap.
        """
        source, Y = self._new_rows(X)
        density = self._latents(Y, self._mapped(source, Y))[2]
        return np.asarray(density - (~np.isnan(Y)) @ np.log(self.model_.unit))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples` over the rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : ignored
        """
        return float(np.mean(self.score_samples(X)))

    def _new_rows(self, X: Any) -> tuple[Source, Array]:
        check_is_fitted(self, "model_")
        source = as_source(X, missing_values=self.missing_values)
        validate_data(self, X, reset=False, skip_check_array=True)
        values = _dense(source)
        return source, self.model_.standardised(values)

    def _mapped(self, source: Source, Y: Array) -> Array | None:
        """The back constraint's latents of rows, their gaps filled; None where there is none."""
        if self._back is None:
            return None
        values = _dense(source)
        if np.isnan(values).any():
            filler = self._filler or self._late_filler()
            values = np.asarray(filler.impute(values), dtype=np.float64)
        Z = self._back.forward(self._standard.of(values))[:, self._order]
        Z[np.all(np.isnan(Y), axis=1)] = 0.0
        return Z

    def _late_filler(self) -> PPCA:
        """Of a model whose own rows had no gaps."""
        rows = self._standard.Y * self._standard.unit + self._standard.mean
        return PPCA("auto", scale=True).fit(rows)

    def _latents(self, Y: Array, known: Array | None = None) -> tuple[Array, Array, Array]:
        """Means (n, q), covariances (n, q, q) and ln p of standardised rows; means may be known."""
        fixed = np.full((len(Y), self.model_.q), np.nan) if known is None else known
        if known is None:
            self._recognise(Y, fixed)
        sought = np.isnan(fixed).any(axis=1)
        Z, q = fixed.copy(), self.model_.q
        cov, density = np.empty((len(Y), q, q)), np.empty(len(Y))
        for rows, seek in ((np.flatnonzero(sought), True), (np.flatnonzero(~sought), False)):
            if len(rows):
                found = self._of_some(Y[rows], None if seek else fixed[rows])
                Z[rows], cov[rows], density[rows] = found
        return Z, cov, density

    def _recognise(self, Y: Array, fixed: Array) -> None:
        """Put the fitted latents where a row is one of the fit, cell for cell."""
        of_fit = {row.tobytes(): i for i, row in enumerate(_canonical(self._fitted_rows()))}
        for i, row in enumerate(_canonical(Y)):
            at = of_fit.get(row.tobytes())
            if at is not None:
                fixed[i] = self.embedding_[self._present[at]]

    def _fitted_rows(self) -> Array:
        """(n, d) in the units of the processes."""
        standard = self._standard
        return self.model_.standardised(standard.given)

    def _of_some(self, Y: Array, known: Array | None) -> tuple[Array, Array, Array]:
        if self.method_ == "exact":
            if known is not None:
                points = at_given(self.model_, Y, known)
            else:
                points = most_probable(self.model_, Y, self._starts(Y))
            return points.Z, points.cov, points.log_density
        import eigengap.fitting.autodiff.engine  # noqa: F401  # JAX, or how to install it
        from eigengap.fitting.autodiff import latent_rows

        starts = self._starts(Y) if known is None else known[:, None, :]
        s = np.broadcast_to(np.mean(self.embedding_sd_[self._present] ** 2, axis=0), starts.shape)
        found = latent_rows.most_probable(self.model_, Y, starts, s, fixed_means=known is not None)
        return found.mu, found.s[:, :, None] * np.eye(self.model_.q), found.bound

    def _starts(self, Y: Array) -> Array:
        return likely_starts(self.model_, Y, self.embedding_[self._present], STARTS)

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
        mean, variance = self.model_.predict(Z.astype(np.float64))
        kind = Z.dtype
        if return_std:
            return mean.astype(kind, copy=False), np.sqrt(variance).astype(kind, copy=False)
        return mean.astype(kind, copy=False)

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Fill every gap with its expected value given what was seen of its row.

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
        values = _dense(source)
        filled, std = values.copy(), np.zeros_like(values)
        rows = np.flatnonzero(np.isnan(values).any(axis=1))
        if len(rows):
            known = self._mapped(source, Y)
            Z, cov, _ = self._latents(Y[rows], None if known is None else known[rows])
            mean, variance = self._predicted(Z, cov)
            gaps = np.isnan(values[rows])
            filled[rows] = np.where(gaps, mean, values[rows])
            std[rows] = np.where(gaps, np.sqrt(variance), 0.0)
        if source.dtype == np.float32:
            filled, std = filled.astype(np.float32), std.astype(np.float32)
        return (like(X, filled), like(X, std)) if return_std else like(X, filled)

    def _predicted(self, Z: Array, cov: Array) -> tuple[Array, Array]:
        """Mean and variance of the cells of rows whose latents are N(Z, cov)."""
        if self.method_ == "bayesian":
            return self.model_.expect(Z, np.einsum("nkk->nk", cov))
        mean, variance = self.model_.predict(Z)
        slopes = self.model_.slopes(Z)  # the functions as straight as they are at Z
        return mean, variance + np.einsum("njk,nkl,njl->nj", slopes, cov, slopes, optimize=True)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the latent dimensions: GP1, GP2, ..."""
        check_is_fitted(self, "model_")
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array([f"GP{k + 1}" for k in range(self.n_components_)], dtype=object)

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
    def _unit_variance(self) -> float:
        """Of data units, where all columns share one and figures are told in it."""
        return 1.0 if self._scaled else float(self.model_.unit[0]) ** 2

    @property
    def mean_(self) -> Array:
        return self.model_.mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _dense(source: Source) -> Array:
    """All rows in float64; zeros of a sparse table are zeros."""
    values = source.collect()
    if not isinstance(values, np.ndarray):
        n, d = values.shape
        require_memory(8.0 * n * d, f"a dense copy of {n} sparse rows", "select columns first")
        values = values.toarray()
    return np.asarray(values, dtype=np.float64)


def _is_linear(kernel: LatentKernel, columns: SeenColumns, back: str | None) -> bool:
    """Whether there is a closed form."""
    alone = all(isinstance(part, Linear) for part in kernel.parts)
    return alone and columns.is_complete and back is None


def _canonical(Y: Array) -> Array:
    """Rows whose bytes are equal where their cells are: one NaN, one zero."""
    return np.ascontiguousarray(np.where(np.isnan(Y), np.nan, Y) + 0.0)
