"""Independent component analysis as a scikit-learn estimator."""

from __future__ import annotations

from functools import partial
from math import nan
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.pca import PCA
from eigengap.estimators.shared.base import (
    as_fitted,
    keep_features,
    keep_parameters,
    progress_of,
    source_of_new,
)
from eigengap.estimators.shared.density import warn_of_unlinked
from eigengap.estimators.shared.sklearn_compat import Interval, Options, StrOptions, _fit_context
from eigengap.estimators.shared.transformer import (
    COMPONENTS,
    COUNT,
    Transformer,
    as_latents,
    decoded,
)
from eigengap.exceptions import GaussianComponentsWarning, NotWhiteWarning
from eigengap.fitting.gaussian.problem import GaussianFit
from eigengap.fitting.ica.fit import ICAOptions, RotationFit, fit_rotation, in_order
from eigengap.fitting.ica.whitening import (
    Whitening,
    no_whitening,
    pca_whitening,
    ppca_whitening,
    white_scores,
)
from eigengap.fitting.optimise.loop import Trace
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.maps.affine import AffineMap
from eigengap.runtime.warnings import warn
from eigengap.sources import Block, Source, as_source, require_frequencies, warn_of_codes
from eigengap.statistics.first_look import look_first
from eigengap.statistics.nonlinearity import Cube, Gauss, Given, LogCosh, Nonlinearity
from eigengap.statistics.score_moments import SecondMoment
from eigengap.wording import counted, words

NO_MISSING = (
    "whiten=False takes rows as they are: impute missing values first (PPCA and LowRankImputer "
    "do), or leave whiten out"
)
WHITE_ENOUGH = 0.1  # largest deviation of a covariance from I that still passes for white


class ICA(Transformer):
    """Independent component analysis of sub- and super-Gaussian sources; accepts missing values.

    x = mean + B s with independent sources s of unit variance. Rows are whitened through PCA
    (where values are missing, through the density of PPCA, so that a row enters by its expected
    scores), and the rotation that makes the components most non-Gaussian is found by
    FastICA's fixed point, then by L-BFGS where that is slow. Takes the parameters of
    scikit-learn's FastICA under their names.

    Parameters
    ----------
    n_components : int, float in (0, 1), "auto" or None, default=None
        Number of components, of which there are no more than directions that vary; the share of
        the variance that they must explain; as many as exceed the noise level (docs/rank.md); None
        takes every direction that varies.
    algorithm : {"parallel", "deflation"}, default="parallel"
        Both give the components that are best jointly. Deflation, one after the other, has the
        same components where it succeeds, and adds up its errors where it does not.
    whiten : {"unit-variance", "arbitrary-variance"} or False, default="unit-variance"
        Sources of variance 1, or of sum of squares 1 as FastICA has them; False takes the rows as
        white already, centred and of covariance I.
    fun : {"logcosh", "exp", "cube"} or callable, default="logcosh"
        Derivative of the function that measures non-Gaussianity. A callable takes scores
        (n_components, n_rows) and returns its value and its derivative, this one averaged over
        the last axis or not; with sample_weight it must not be averaged.
    fun_args : dict, default=None
        "alpha" in [1, 2] for "logcosh"; keyword arguments of a callable.
    max_iter : int, default=200
        Most steps on all rows.
    tol : float, default=1e-6
        Largest entry of the relative gradient, on all rows, at which the search ends: of
        E[g(y_i) y_j] with its sign, less its transpose, halved.
    w_init : array of shape (n_components, n_components), default=None
        Rotation of the whitened scores to start from.
    whiten_solver : {"svd", "eigh"}, default="svd"
        Kept for FastICA's signature: the route goes by the shape of the table, and is accurate.
    random_state : int, RandomState or None, default=None
        None starts from the principal axes, and nothing is random. Otherwise the first rotation
        is drawn.
    noise : {"isotropic"} or None, default=None
        "isotropic" takes the rows to carry noise N(0, sigma2 I), as PPCA learns it from the
        directions that the components leave: the part without noise is whitened, the bias of noise
        is taken off every step, `mixing_` is that of the sources and `transform` gives their
        best linear estimate, drawn towards 0 as the noise demands. Needs fewer components than
        columns.

    Attributes
    ----------
    components_ : array of shape (n_components_, n_features)
        Rows that give the sources: s = components_ (x - mean_).
    mixing_ : array of shape (n_features, n_components_)
        Columns that give back rows: x = mean_ + mixing_ s. They are ordered by the variance that
        they explain, largest first; where they explain the same (white rows), by how far from
        Gaussian the component is. The entry of largest modulus in each is positive.
    mean_ : array of shape (n_features,)
    whitening_ : array of shape (n_components_, n_features)
        As in FastICA: takes rows to scores of sum of squares 1. Not there if whiten=False.
    n_components_, n_iter_, converged_
    gradient_ : float
        Largest entry of the relative gradient at the end.
    non_gaussianity_ : array of shape (n_components_,)
        E[g'(s)] - E[g(s) s], 0 for a Gaussian; under "logcosh" positive for heavy tails.
    trace_ : Trace
        Of the steps on all rows: `objective` is the sum of |non_gaussianity_|, `change` the
        gradient's largest entry, `seconds`.
    model_ : AffineMap
    density_ : LinearGaussian or None
        By which missing values are imputed.

    Notes
    -----
    The optimum is that of FastICA and of Picard with ortho=True and extended=True. If more than one
    component cannot be distinguished from a Gaussian, there is a warning: any rotation of those is
    as good. docs/ica.md has measurements.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import ICA
    >>> rng = np.random.default_rng(0)
    >>> S = np.column_stack([rng.laplace(size=2000), rng.uniform(-1, 1, size=2000)])
    >>> X = S @ np.array([[2.0, 1.0, 0.5], [0.5, 1.0, -1.0]])
    >>> ica = ICA(n_components=2).fit(X)
    >>> np.abs(np.corrcoef(ica.transform(X).T, S.T)[:2, 2:]).round(2)
    array([[1.  , 0.01],
           [0.  , 1.  ]])
    >>> ica.non_gaussianity_.round(2)
    array([ 0.15, -0.12])
    """

    _prefix = "IC"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": COMPONENTS,
        "algorithm": [StrOptions({"parallel", "deflation"})],
        "whiten": [StrOptions({"arbitrary-variance", "unit-variance"}), Options(bool, {False})],
        "fun": [StrOptions({"logcosh", "exp", "cube"}), callable],
        "fun_args": [dict, None],
        "max_iter": [COUNT],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "w_init": ["array-like", None],
        "whiten_solver": [StrOptions({"eigh", "svd"})],
        "random_state": ["random_state"],
        "noise": [StrOptions({"isotropic"}), None],
        "missing_values": [Real, "array-like"],
        "verbose": ["verbose"],
    }

    is_float32_ = False  # whether the rows of the fit were

    model_: AffineMap
    density_: LinearGaussian | None
    trace_: Trace

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        algorithm: str = "parallel",
        whiten: str | bool = "unit-variance",
        fun: Any = "logcosh",
        fun_args: dict[str, Any] | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
        w_init: Any = None,
        whiten_solver: str = "svd",
        random_state: Any = None,
        noise: str | None = None,
        missing_values: Any = nan,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the independent components of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, sparse matrix, pandas, polars or pyarrow; NaN marks a missing
            value.
        """
        everything = as_source(X, sample_weight=sample_weight, missing_values=self.missing_values)
        source = look_first(everything, scatter=True)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        sum_w = source.observed().sum_w
        require_frequencies(sum_w)
        warn_of_unlinked(source)
        fun = self._nonlinearity(weighted=sample_weight is not None)
        whitening = self._whitening(source)
        start = self._start(whitening.q)
        scores, whitening = white_scores(source, whitening)
        with progress_of(self) as watch:
            options = ICAOptions(
                fun=fun,
                tol=self.tol,
                max_iter=self.max_iter,
                start=start,
                on_samples=self.w_init is None,
                watch=watch,
            )
            found = fit_rotation(scores, whitening.q, noise=whitening.noise, options=options)
        keep_features(self, X, source)  # only now: a fit may fail
        self.is_float32_ = source.dtype == np.float32
        self._keep(whitening, found, sum_w)
        self._warn(found)
        return self

    def transform(self, X: Any) -> Array:
        """Sources components_ (x - mean_) of rows, missing values imputed by their expected value.

        Returns
        -------
        array of shape (n_samples, n_components_)
        """
        check_is_fitted(self, "model_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        S = source.map(partial(_sources_of, model=self.model_, density=self.density_))
        return as_fitted(S, source.dtype == np.float32)

    def inverse_transform(self, X: Any) -> Array:
        """Rows mean_ + mixing_ s at the sources X: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        S = as_latents(X, self.n_components_, "components")
        return decoded(S, self.model_.backward)

    @property
    def components_(self) -> Array:
        return as_fitted(self.model_.A, self.is_float32_)

    @property
    def mixing_(self) -> Array:
        return as_fitted(self.model_.B, self.is_float32_)

    @property
    def mean_(self) -> Array:
        return as_fitted(self.model_.mean, self.is_float32_)

    @property
    def n_components_(self) -> int:
        return len(self.model_.A)

    # Parameters, made precise ----------------------------------------------------------------

    def _nonlinearity(self, weighted: bool) -> Nonlinearity:
        arguments = self.fun_args or {}
        if callable(self.fun):
            given = Given(self.fun, arguments)
            if weighted and given.averages:
                raise ValueError(
                    "fun averages its derivative over rows of equal weight, which sample_weight "
                    "contradicts: let it return the derivative of every score"
                )
            return given
        alpha = arguments.get("alpha", 1.0)
        if not 1.0 <= alpha <= 2.0:
            raise ValueError(f"alpha must be in [1,2], got fun_args['alpha']={alpha!r}")
        if self.fun == "logcosh":
            return LogCosh(float(alpha))
        return Gauss() if self.fun == "exp" else Cube()

    def _whitening(self, source: Source) -> Whitening:
        self._forget("rank_choice_")
        if self.whiten is False:
            return self._as_they_are(source)
        most = int(min(source.observed().count, source.n_features))
        asked = self.n_components
        if isinstance(asked, Integral) and int(asked) > most:
            warn(
                f"{words().parameter('n_components', asked)} is more than the smaller of the "
                "number of rows and of "
                f"columns allows; {most} are looked for",
                UserWarning,
            )
            asked = most
        fit = self._gaussian_fit(source, asked)
        precision = float(np.finfo(source.dtype).eps)
        if self.noise is not None:
            return ppca_whitening(fit, precision)
        d, q = source.n_features, fit.model.q
        if source.has_missing and (asked is None or asked == d) and q == d - 1:
            q = d  # missing values limit the density to d - 1 components, and not the whitening
        whitening = pca_whitening(fit, q, precision)
        if fit.at_floor and whitening.q < q and not isinstance(asked, Integral):
            warn(
                f"only {whitening.q} of {q} directions vary by more than the least noise that "
                "incomplete rows can resolve: as many components are found",
                UserWarning,
            )
        directions = min(source.observed().rows - 1, source.n_features)
        if asked is None and not source.has_missing and whitening.q < directions:
            warn(
                f"There are some small singular values: the rows vary in {whitening.q} of "
                f"{directions} directions, and as many components are found",
                UserWarning,
            )
        if isinstance(asked, Integral) and whitening.q < int(asked):
            warn(
                f"{words().parameter('n_components', asked)}, but the rows vary in "
                f"{whitening.q} directions only: "
                f"{counted(whitening.q, 'component')} can be found",
                UserWarning,
            )
        return whitening

    def _as_they_are(self, source: Source) -> Whitening:
        if self.noise is not None:
            raise ValueError(
                'noise="isotropic" is learned with the whitening: whiten must not be False'
            )
        if source.has_missing:
            raise ValueError(NO_MISSING)
        if self.n_components is not None:
            warn("Ignoring n_components with whiten=False.", UserWarning)
        whitening = no_whitening(source.n_features)
        scores, _ = white_scores(source, whitening)
        off = scores.reduce(SecondMoment.of).mean - np.eye(whitening.q)
        if np.max(np.abs(off)) > WHITE_ENOUGH:
            warn(
                "whiten=False takes the rows as centred and of covariance I, and they are not (an "
                f"entry is off by {np.max(np.abs(off)):.2g}): a rotation cannot make them "
                "independent. Leave whiten out",
                NotWhiteWarning,
            )
        return whitening

    def _gaussian_fit(self, source: Source, asked: Any) -> GaussianFit:
        """Axes and variances by PCA; with missing values the density of PPCA."""
        d = source.n_features
        if source.has_missing and isinstance(asked, Integral) and asked == d > 1:
            asked = d - 1  # which leaves the Gaussian free already
        pca = PCA(asked, verbose=self.verbose)
        fit, choice = pca._fit_rows(source)
        if choice is not None:
            self.rank_choice_ = choice
        if not fit.converged:
            warn(
                "the density that imputes missing values did not converge; impute them first, e.g. "
                "by PPCA(max_iter=...).impute",
                ConvergenceWarning,
            )
        return fit

    def _start(self, q: int) -> Array | None:
        if self.w_init is not None:
            start = np.asarray(self.w_init, dtype=np.float64)
            if start.shape != (q, q):
                raise ValueError(f"w_init has shape {start.shape}, and has to have {(q, q)}")
            if not np.all(np.isfinite(start)) or np.linalg.matrix_rank(start) < q:
                raise ValueError("w_init has to be finite and of full rank")
            return start
        if self.random_state is None:
            return None
        return np.asarray(check_random_state(self.random_state).normal(size=(q, q)))

    # The fit ---------------------------------------------------------------------------------

    def _keep(self, whitening: Whitening, found: RotationFit, sum_w: float) -> None:
        unmixing = in_order(found.R, whitening.map.B, found.kappa)
        sd = np.sqrt(sum_w) if self.whiten == "arbitrary-variance" else 1.0  # of the sources
        self.model_ = AffineMap(
            A=unmixing.R @ whitening.estimate.A / sd,
            B=unmixing.mixing * sd,
            mean=whitening.map.mean,
        )
        self.density_ = whitening.density
        if self.whiten is not False:
            self.whitening_ = as_fitted(whitening.map.A / np.sqrt(sum_w), self.is_float32_)
        self.non_gaussianity_ = found.kappa[unmixing.order]
        self._gaussian = found.gaussian[unmixing.order]
        self.converged_ = found.converged
        self.gradient_ = found.gradient
        self.n_iter_ = max(len(found.trace), 1)
        self.trace_ = found.trace

    def _warn(self, found: RotationFit) -> None:
        if not found.converged:
            warn(
                f"ICA did not converge in {self.max_iter} steps (gradient {found.gradient:.1e}); "
                f"{words().more_steps(self.max_iter)}",
                ConvergenceWarning,
            )
            return
        unsure = np.flatnonzero(self._gaussian)
        if len(unsure) > 1:
            named = ", ".join(f"IC{k + 1}" for k in unsure[:5])
            more = f" and {len(unsure) - 5} more" if len(unsure) > 5 else ""
            warn(
                f"{named}{more} cannot be distinguished from Gaussians by these rows: among "
                "themselves they are not identified, any rotation of them is as good. Ask for "
                "fewer components, or bring more rows",
                GaussianComponentsWarning,
            )


def _sources_of(block: Block, model: AffineMap, density: LinearGaussian | None) -> Array:
    """Sources of the rows of a block, missing values imputed."""
    values = block.values
    if isinstance(values, np.ndarray) and np.isnan(values).any():
        if density is None:
            raise ValueError(NO_MISSING)
        values = density.conditional_mean(values)
    return model.forward(values)
