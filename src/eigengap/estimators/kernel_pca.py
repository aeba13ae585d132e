"""Kernel PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    as_fitted,
    check_features,
    keep_features,
    keep_parameters,
)
from eigengap.estimators.shared.inner import imputing_model
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions, _fit_context
from eigengap.estimators.shared.transformer import (
    COMPONENTS,
    COUNT,
    Transformer,
    as_latents,
    decoded,
    whole_table,
)
from eigengap.exceptions import KernelWarning
from eigengap.fitting.kernel import preimage as preimages
from eigengap.fitting.kernel.bandwidth import held_out_gamma, median_gamma, some_rows
from eigengap.fitting.kernel.fit import (
    Convention,
    KernelFit,
    Scaling,
    neighbours,
    require_kernel_matrix,
    require_no_missing,
)
from eigengap.fitting.kernel.landmarks import Choice, fit_rows
from eigengap.linalg import Array
from eigengap.models import kernels
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.kernels.expected import ExpectedKernel
from eigengap.models.kernels.functions import Kernel, dense
from eigengap.models.maps.landmark import LandmarkMap
from eigengap.runtime.warnings import warn
from eigengap.selection.rank.spectral import largest_eigengap
from eigengap.sources import ArraySource, Source, as_source, warn_of_codes
from eigengap.spectrum import Spectrum
from eigengap.statistics.moments import refuse_out_of_range

NAMES = {"linear", "poly", "rbf", "laplacian", "sigmoid", "cosine", "precomputed"}
WIDTHS = ("rbf", "laplacian")  # kernels of a distance, which have b, c and a bandwidth
EXACT_ROWS = 10_000  # up to which landmarks="auto" takes all pairs
AUTO_LANDMARKS = 1000
AUTO_COMPONENTS = 50  # most that n_components="auto" takes
ISOLATED = 1e-3  # sum of a row's kernel with all others, below which no row is near another


class KernelPCA(Transformer):
    """Kernel principal component analysis, exact or on landmarks.

    Principal components in the feature space of a kernel (Schoelkopf, Smola and Mueller 1998). The
    linear and the Gaussian kernel accept missing values. Takes scikit-learn's parameters under
    their names.

    Parameters
    ----------
    n_components : int, float in (0, 1), "auto" or None, default=None
        Number of components; the share of the variance in feature space that they must explain;
        as many as come before the largest drop of the eigenspectrum (of at most 50); or None for
        all that have variance.
    kernel : {"linear", "poly", "rbf", "laplacian", "sigmoid", "cosine", "precomputed"}, \
callable or Kernel, default="linear"
        A callable takes two rows and returns a number, for every pair. For a function of two
        whole tables derive a class from `eigengap.models.kernels.Kernel`.
    gamma : float, "median", "auto", "cv" or None, default=None
        Of rbf, laplacian, poly and sigmoid; None is 1 / n_features. For rbf and laplacian "median"
        (and "auto", the same) takes the median distance for the kernel's length; "cv" (rbf only)
        chooses by how well pre-images predict held-out cells: for denoising, not for separating
        groups. It needs n_components to be an int.
    degree : float, default=3
    coef0 : float, default=1
        Of poly and sigmoid.
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel.
    alpha : float, default=1.0
        Ridge of the inverse transform by regression.
    fit_inverse_transform : bool, default=False
        Whether to learn the inverse transform by ridge regression. Without it there is one by
        fixed point for the linear and the rbf kernel: preimage="fixed_point".
    eigen_solver : {"auto", "dense", "arpack", "randomized"}, default="auto"
        "dense" is LAPACK; by the others the few largest eigenvalues come from block Lanczos with a
        certificate (1e-10 of the largest) and many from LAPACK.
    tol, max_iter, iterated_power
        Kept for scikit-learn's signature; the iteration stops by its certificate.
    remove_zero_eig : bool, default=False
        Whether components without variance are left out; otherwise their scores are 0.
    random_state : int, RandomState or None, default=None
        Of landmarks and of gamma.
    copy_X : bool, default=True
        Whether `X_fit_` is a copy. The data are never modified.
    n_jobs : int, default=None
        Threads; None is as many as BLAS may use.
    center : bool, default=True
        Whether to centre in feature space.
    scaling : {"pca", "eigenvalue"}, default="pca"
        "pca" gives the axes unit length, so that scores of the linear kernel are those of PCA;
        "eigenvalue" does not: its scores are sqrt(eigenvalue) times as large.
    b, c : float, default=1.0, None
        The kernel b exp(-|x - x'|^2 / c): rbf with gamma = 1 / c, times b.
    landmarks : int, "auto" or None, default=None
        None takes all pairs of rows, and refuses where memory does not hold them. A number takes
        the Nystroem approximation on so many rows, in one pass and bounded memory; "auto" does
        with 1000 where there are more than 10 000 rows.
    landmark_method : {"kmeans++", "kmeans", "leverage", "uniform"}, default="kmeans++"
    preimage : {"auto", "fixed_point", "ridge"}, default="auto"
        Of `inverse_transform`: "auto" is "ridge" if fit_inverse_transform, and otherwise none
        (NotFittedError, as in scikit-learn).

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components_,)
        Of the centred kernel matrix, descending.
    eigenvectors_ : array of shape (n_samples, n_components_)
        Without rows that were left out: of weight 0, or without an observed value. Not on
        landmarks, where rows are not kept.
    explained_variance_ratio_ : array of shape (n_components_,)
        Share of the trace of the centred kernel matrix; of a kernel with negative eigenvalues that
        is no share of a variance, and may sum to more than 1. On landmarks too low, by a factor of
        1 - landmark_error_ at the least.
    gamma_ : float
    gamma_curve_ : tuple of two arrays
        Values of gamma that "cv" tried and the mean squared error of held-out cells. Only if
        gamma="cv".
    X_fit_ : rows of the fit; not on landmarks.
    landmarks_ : array of shape (n_landmarks, n_features)
        Only on landmarks.
    landmark_error_ : float
        Share of the variance in feature space that the landmarks do not span, at most: the
        eigenvalues together are low by no more. 0 where all pairs were taken.
    X_transformed_fit_, dual_coef_
        Of the inverse transform by ridge regression.
    model_ : LandmarkMap
    kernel_ : Kernel
    n_components_, n_features_in_, feature_names_in_

    Notes
    -----
    A row with missing values (NaN) stands for all its completions under a PPCA density fitted to
    the table: kernels are expected values over them (docs/kernel-pca.md). Kernels other than linear
    and rbf do not accept missing values: put a LowRankImputer before.

    Examples
    --------
    Two rings that no straight line separates:

    >>> import numpy as np
    >>> from eigengap import KernelPCA
    >>> angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> X = np.vstack([ring, 3 * ring])
    >>> scores = KernelPCA(1, kernel="rbf", c=2.0).fit_transform(X)[:, 0]
    >>> bool(scores[:40].min() > scores[40:].max())
    True
    """

    _prefix = "KPC"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": COMPONENTS,
        "kernel": [StrOptions(NAMES), callable, Kernel],
        "gamma": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto", "median", "cv"}),
            None,
        ],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "fit_inverse_transform": ["boolean"],
        "eigen_solver": [StrOptions({"auto", "dense", "arpack", "randomized"})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [COUNT, None],
        "iterated_power": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "remove_zero_eig": ["boolean"],
        "random_state": ["random_state"],
        "copy_X": ["boolean"],
        "n_jobs": [None, Integral],
        "center": ["boolean"],
        "scaling": [StrOptions({"pca", "eigenvalue"})],
        "b": [Interval(Real, 0, None, closed="neither")],
        "c": [Interval(Real, 0, None, closed="neither"), None],
        "landmarks": [COUNT, StrOptions({"auto"}), None],
        "landmark_method": [StrOptions({"kmeans++", "kmeans", "leverage", "uniform"})],
        "preimage": [StrOptions({"auto", "fixed_point", "ridge"})],
        "missing_values": [Real, "array-like"],
    }

    is_float32_ = False  # whether the rows of the fit were

    model_: LandmarkMap
    kernel_: Kernel

    def __init__(
        self,
        n_components: int | float | str | None = None,
        *,
        kernel: Any = "linear",
        gamma: float | str | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        alpha: float = 1.0,
        fit_inverse_transform: bool = False,
        eigen_solver: str = "auto",
        tol: float = 0,
        max_iter: int | None = None,
        iterated_power: int | str = "auto",
        remove_zero_eig: bool = False,
        random_state: Any = None,
        copy_X: bool = True,
        n_jobs: int | None = None,
        center: bool = True,
        scaling: Scaling = "pca",
        b: float = 1.0,
        c: float | None = None,
        landmarks: int | str | None = None,
        landmark_method: Choice = "kmeans++",
        preimage: str = "auto",
        missing_values: Any = nan,
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the principal axes in feature space.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, sparse matrix, pandas, polars or pyarrow; with kernel="precomputed" the kernel
            matrix (n_samples, n_samples). NaN marks a missing value, for the linear and the rbf
            kernel.
        """
        self._fit(X, sample_weight)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and the scores of the rows of X: (n_samples, n_components)."""
        everything = self._fit(X, sample_weight)
        V = self._fit_.V
        weight = everything.weight
        if V is None or (weight is not None and np.any(weight != 1.0)):
            return self.transform(X)
        scores = self._fit_.scores
        if scores is None:
            scores = V * (np.sqrt(self._fit_.lam) if self.scaling == "pca" else self._fit_.lam)
        if len(scores) != everything.n_rows:  # rows without any observed value were left out
            fitted, scores = scores, np.array(self.transform(X), dtype=np.float64)
            scores[everything.is_present()] = fitted
        return as_fitted(scores, everything.dtype == np.float32)

    def _fit(self, X: Any, sample_weight: Any) -> ArraySource:
        everything = whole_table(
            X, "KernelPCA", sample_weight=sample_weight, missing_values=self.missing_values
        )
        source: Source = everything
        self._refuse_contradictions()
        if self.kernel == "precomputed":
            require_kernel_matrix(source.collect(), bool(self.center))
        else:
            source = source.present()
            source.require_fit(min_rows=2)
            warn_of_codes(source)
        self._forget("gamma_curve_", "_ridge")
        density = None
        if source.has_missing:
            if not (self.kernel in ("rbf", "linear") or _has_expectation(self.kernel)):
                raise ValueError(_no_missing(self.kernel, source))
            density = imputing_model(source).model_
        kernel = self._kernel(source, density)
        fit = self._solve(source, kernel)
        if self.kernel == "linear":
            refuse_out_of_range(source, fit.total, bool(self.center))
        if self.n_components == "auto":
            sum_w, most = source.observed().sum_w, max(len(fit.lam), 1)
            spectrum = Spectrum(fit.lam, fit.total, sum_w, most, complete=False)
            before = 1 if fit.rank < 2 else largest_eigengap(spectrum, AUTO_COMPONENTS)[0]
            fit = fit.truncated(before)
        if self.remove_zero_eig:
            fit = fit.truncated(fit.rank)
        keep_features(self, X, source)  # only now: a fit may fail
        self._fit_, self.model_, self.kernel_, self._gap_model = fit, fit.map, kernel, density
        self.is_float32_ = source.dtype == np.float32
        self._forget("X_fit_")
        if fit.V is not None:
            of_pairs = self.model_.m == len(fit.V)  # not of explicit features
            self.X_fit_ = self.model_.landmarks if of_pairs else self._own(source)
        self._warn(fit)
        if self._regresses():
            self._ridge = self._regression(source)
        return everything

    def _refuse_contradictions(self) -> None:
        narrow = self.kernel in WIDTHS if isinstance(self.kernel, str) else False
        if not narrow and (self.b != 1.0 or self.c is not None):
            raise ValueError(
                f"b and c belong to kernel='rbf' and 'laplacian', not to {self.kernel!r}"
            )
        if self.c is not None and self.gamma is not None:
            raise ValueError(f"give either c={self.c} or gamma={self.gamma!r}: gamma is 1 / c")
        if isinstance(self.gamma, str):
            if not narrow:
                raise ValueError(
                    f"gamma={self.gamma!r} is a bandwidth, which kernel={self.kernel!r} has not; "
                    "give a number (kernel='rbf' takes 'median' and 'cv', 'laplacian' 'median')"
                )
            if self.gamma == "cv" and self.kernel != "rbf":
                raise ValueError(
                    "gamma='cv' needs pre-images, which kernel='rbf' alone has; 'laplacian' takes "
                    "'median' or a number"
                )
        if self.kernel == "precomputed":
            if self.landmarks is not None:
                raise ValueError(
                    "a precomputed kernel matrix holds all pairs already: landmarks has no use"
                )
            if self.fit_inverse_transform or self.preimage != "auto":
                raise ValueError(
                    "Cannot fit_inverse_transform with a precomputed kernel: it has no rows of "
                    "data to go back to"
                )

    # The kernel ----------------------------------------------------------------------------

    def _kernel(self, source: Source, density: LinearGaussian | None) -> Kernel:
        if isinstance(self.kernel, Kernel):
            self.gamma_ = getattr(self.kernel, "gamma", None)
            kernel = self.kernel
        elif callable(self.kernel):
            self.gamma_ = None
            kernel = kernels.Function(self.kernel, self.kernel_params or {})
        else:
            self.gamma_ = self._gamma(source, density)
            kernel = kernels.named(
                self.kernel, self.gamma_, float(self.degree), float(self.coef0), float(self.b)
            )
        if density is None:
            return kernel
        if isinstance(kernel, kernels.Linear):
            kernel = kernels.Linear(density.mu) if self.center else kernel
        elif not isinstance(kernel, kernels.RBF):
            raise ValueError(_no_missing(self.kernel, source))
        return ExpectedKernel(kernel, density)

    def _gamma(self, source: Source, density: LinearGaussian | None) -> float:
        if self.c is not None:
            return 1.0 / float(self.c)
        if self.gamma is None:
            return 1.0 / source.n_features
        if not isinstance(self.gamma, str):
            return float(self.gamma)
        rng = self._generator()
        rows, w = some_rows(source, rng)
        if density is not None:
            rows = density.conditional_mean(rows)
        if self.gamma != "cv":
            return median_gamma(rows, w, "sqeuclidean" if self.kernel == "rbf" else "cityblock")
        q = self.n_components
        if not isinstance(q, Integral):
            raise ValueError(
                f"gamma='cv' needs a number of components, not n_components={q!r}; gamma='median' "
                "needs none"
            )
        gamma, grid, errors = held_out_gamma(rows, int(q), rng)
        self.gamma_curve_ = (grid, errors)
        if gamma in (grid[0], grid[-1]):
            end = "smallest" if gamma == grid[0] else "largest"
            warn(
                f"gamma='cv' chose the {end} value that it tried, {gamma:.3g}: pre-images predict "
                "held-out cells no better for a kernel of any width, so that this is no choice. "
                "Where groups are to be separated, choose gamma by that (GridSearchCV)",
                KernelWarning,
            )
        return gamma

    # The axes ------------------------------------------------------------------------------

    def _solve(self, source: Source, kernel: Kernel) -> KernelFit:
        wanted: Any = self.n_components
        if wanted == "auto":
            wanted = AUTO_COMPONENTS + 1
        elif wanted is not None:
            wanted = int(wanted) if isinstance(wanted, Integral) else float(wanted)
        landmarks: Any = self.landmarks
        if landmarks == "auto":
            landmarks = AUTO_LANDMARKS if source.observed().rows > EXACT_ROWS else None
        return fit_rows(
            source,
            kernel,
            wanted,
            convention=Convention(bool(self.center), self.scaling),
            landmarks=None if landmarks is None else int(landmarks),
            how=self.landmark_method,
            rng=self._generator,
            own=self._own,
            solver="dense" if self.eigen_solver == "dense" else "auto",
            n_jobs=self.n_jobs,
        )

    def _own(self, source: Source) -> Any:
        rows = source.collect()
        return rows.copy() if self.copy_X else rows

    def _warn(self, fit: KernelFit) -> None:
        if fit.rank == 0 and fit.lowest >= 0.0:
            warn(
                "all rows are the same in feature space, so that there is no variance to explain",
                KernelWarning,
            )
        elif isinstance(self.n_components, Integral) and fit.rank < len(fit.lam):
            warn(
                f"only {fit.rank} of {len(fit.lam)} components have variance: the scores of the "
                "others are 0 (remove_zero_eig=True leaves them out)",
                KernelWarning,
            )
        if fit.lowest < 0.0:
            warn(
                f"the kernel is not positive: it has a negative eigenvalue of {fit.lowest:.3g} "
                f"(the largest is {np.max(fit.lam, initial=0.0):.3g}), to which no axis belongs. "
                "Components are those of its positive part",
                KernelWarning,
            )
        near = neighbours(fit)
        if near is not None and near < ISOLATED:
            warn(
                f"gamma={self.gamma_:.3g} is so large that hardly a row is near another one (their "
                f"kernels with all others sum to {near:.1e} on average): components mean "
                "nothing. gamma='median' chooses one",
                KernelWarning,
            )

    # Out and back --------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Scores of rows: (n_samples, n_components).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a missing value, for the linear and the rbf kernel. With
            kernel="precomputed" the kernel of new rows with those of the fit, (n_samples,
            n_samples of the fit).
        """
        check_is_fitted(self, "model_")
        source = as_source(X, missing_values=self.missing_values)
        if source.has_missing and self.kernel == "precomputed":
            require_no_missing(source.collect())
        check_features(self, X, source)
        if source.has_missing and not (self._gap_model or _has_expectation(self.model_.kernel)):
            raise ValueError(_no_missing(self.kernel, source))
        at, kernel = self.model_, self.model_.kernel
        if source.has_missing and isinstance(kernel, kernels.Linear | kernels.RBF):
            rows = self.X_fit_ if self._fit_.V is not None else at.landmarks
            at = replace(at, kernel=ExpectedKernel(kernel, imputing_model(rows, self).model_))
        scores = source.map(lambda block: at.forward(block.values, self.n_jobs))
        return as_fitted(scores, source.dtype == np.float32)

    def inverse_transform(self, X: Any) -> Array:
        """Rows of data whose image in feature space is near the scores X: (n, n_features).

        By ridge regression or by fixed point, by `preimage`; for the linear kernel the fixed
        point is the reconstruction of PCA.
        """
        check_is_fitted(self, "model_")
        if self.preimage == "auto" and not self.fit_inverse_transform:
            raise NotFittedError(
                "there is no inverse transform without fit_inverse_transform=True: fit with it "
                "(ridge regression), or set preimage='fixed_point', which needs no fit "
                "(kernel='rbf' and 'linear')"
            )
        Z = as_latents(X, self.n_components_, "components", allow_nan=False)
        if self._regresses():
            return decoded(Z, lambda Z: self._ridge.backward(Z.astype(np.float64)))
        at = preimages.complete_map(self.model_)
        if not preimages.has_fixed_point(at.kernel):
            raise NotFittedError(
                f"kernel={self.kernel!r} has no pre-image by fixed point: fit with "
                "fit_inverse_transform=True to have one by ridge regression"
            )
        return decoded(Z, lambda Z: preimages.fixed_points(at, Z.astype(np.float64)))

    def _regresses(self) -> bool:
        if self.preimage == "auto":
            return bool(self.fit_inverse_transform)
        return self.preimage == "ridge"

    def _regression(self, source: Source) -> preimages.RidgePreimage:
        """The kernel of coordinates is that of the rows, as in scikit-learn."""
        kernel, alpha = self.kernel_, float(self.alpha)
        kernel = kernel.kernel if isinstance(kernel, ExpectedKernel) else kernel
        kernel = kernels.Linear() if isinstance(kernel, kernels.Linear) else kernel
        if self._fit_.V is None:
            at = preimages.complete_map(self.model_)
            return preimages.fit_ridge_on_landmarks(source, at, kernel, alpha)
        rows = source.collect()
        scores = self.model_.forward(rows, self.n_jobs)
        if self._gap_model is not None:
            rows = self._gap_model.conditional_mean(rows)
        return preimages.fit_ridge(dense(rows), scores, kernel, alpha, source.weight)

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(self._seed(fixed=False))

    # Fitted attributes ---------------------------------------------------------------------

    n_components_ = property(attrgetter("model_.q"))

    @property
    def n_iter_(self) -> int:
        """Products with the kernel matrix; 1 where LAPACK took it as a whole."""
        return self._fit_.passes

    @property
    def eigenvalues_(self) -> Array:
        return as_fitted(self._fit_.lam, self.is_float32_)

    @property
    def eigenvectors_(self) -> Array:
        if self._fit_.V is None:
            raise AttributeError("on landmarks the rows are not kept, and so no eigenvectors")
        return as_fitted(self._fit_.V, self.is_float32_)

    @property
    def explained_variance_ratio_(self) -> Array:
        total = self._fit_.total
        return self._fit_.lam / total if total > 0.0 else np.zeros(self.n_components_)

    @property
    def landmarks_(self) -> Any:
        if self._fit_.V is not None:
            raise AttributeError("all pairs of rows were taken, no landmarks")
        return self.model_.landmarks

    @property
    def landmark_error_(self) -> float:
        total = self._fit_.total
        return self._fit_.residual / total if total > 0.0 else 0.0

    @property
    def dual_coef_(self) -> Array:
        return as_fitted(self._ridge.dual, self.is_float32_)

    @property
    def X_transformed_fit_(self) -> Array:
        return as_fitted(self._ridge.points, self.is_float32_)

    @property
    def _accepts_missing(self) -> bool:
        return self.kernel in ("rbf", "linear")

    @property
    def _is_pairwise(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"


def _has_expectation(kernel: Any) -> bool:
    """Whether the expected kernel of rows with missing values has a closed form."""
    return isinstance(kernel, kernels.RBF | kernels.Linear)


def _no_missing(kernel: Any, source: Source) -> str:
    missing = int(np.sum(source.missing_per_column()))
    shown = repr(kernel) if isinstance(kernel, str) else getattr(kernel, "__name__", "given")
    return (
        f"Input X contains NaN ({missing} cells), and kernel {shown} has no expected value for "
        "rows with missing values: impute them first, make_pipeline(LowRankImputer(), "
        "KernelPCA(...)), or use kernel='rbf' or 'linear'"
    )
