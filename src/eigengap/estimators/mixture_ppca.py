"""Mixtures of probabilistic PCA and of factor analysers as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import log, nan
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    AT_LEAST_ONE,
    keep_parameters,
    map_rows,
    progress_of,
    require_count,
    require_rank,
    seed_of,
)
from eigengap.estimators.shared.density import (
    DensityEstimator,
    warn_of_constants,
    warn_of_units,
    warn_of_unlinked,
)
from eigengap.estimators.shared.linear import columns_not_converged, require_width
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions, _check_feature_names_in
from eigengap.exceptions import DroppedComponentWarning, NoiseFloorWarning
from eigengap.fitting.columns.mixture import fit_column_mixture
from eigengap.fitting.gaussian.problem import Noise
from eigengap.fitting.mixture.fit import (
    MixtureFit,
    MixtureOptions,
    evidence_of_components,
    fit_mixture,
    n_parameters,
)
from eigengap.linalg import Array
from eigengap.models.columns.mixture import ColumnMixture
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.predictive import MixturePredictive
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import Rescaled, Source
from eigengap.statistics.moments import ColumnMoments
from eigengap.wording import words


class MixturePPCA(DensityEstimator):
    """Mixture of probabilistic PCA or of factor analysers that accepts missing values.

    p(x) = sum_k pi_k N(x | mu_k, W_k W_k^T + Psi_k): clusters, each with its own few directions of
    variation (Tipping and Bishop 1999, "Mixtures of probabilistic principal component analysers";
    Ghahramani and Hinton 1996). The exact likelihood of the observed values is maximised by
    accelerated EM from k-means++ starts, with split-and-merge moves (Ueda et al. 2000).

    Parameters
    ----------
    n_mixture : int, default=2
        Number of mixture components (clusters), K.
    n_components : int, list of int or "auto", default="auto"
        Latent dimensions of every component; or of each, given to the components as fits best; or
        chosen for each by automatic relevance determination, from at most 30. 0 makes a
        component spherical (or diagonal).
    noise : {"isotropic", "diagonal"}, default="isotropic"
        One noise variance for all columns (PPCA), or one for each (factor analysis).
    shared_noise : bool, default=False
        Whether all components have the same noise.
    n_init : int, default=2
        Number of k-means++ starts; they are compared loosely, the best is finished. Every other
        one clusters whitened scores.
    split_merge : int, default=5
        Candidates for a split-and-merge move that may fail in a row; 0 makes no moves. A move is
        kept only if the likelihood rises. Moves need n_mixture >= 3.
    scale : bool, default=False
        Divide every column by its standard deviation before the fit; undone in every output that
        is in data units. `noise_variance_` is in standardised units. Off by default, as in `PPCA`.
    tol : float, default=1e-5
        EM stops when no parameter moves by more than this (in units of its column's standard
        deviation) and the log-likelihood by no more per observed value.
    random_state : int, RandomState or None, default=None
        Of the starts.

    Attributes
    ----------
    weights_ : array of shape (n_mixture_,)
        pi, falling.
    means_ : array of shape (n_mixture_, n_features)
    covariances_ : array of shape (n_mixture_, n_features, n_features)
        W_k W_k^T + Psi_k, formed when asked for.
    loadings_ : tuple of arrays of shape (n_features, n_components_[k])
        W_k, in data units, columns by falling strength.
    noise_variance_ : array of shape (n_mixture_,), or (n_mixture_, n_features) if "diagonal"
    n_components_ : tuple of int
        Latent dimensions of each component.
    n_mixture_ : int
        Components in the end: one that loses its rows is started anew on rows that the others
        explain badly, and dropped, with a warning, if it dies again and again.
    model_ : MixtureOfLinearGaussians
        The fitted density, in data units; `model_.models` are its components. Of columns of several
        kinds a ColumnMixture, whose `components` are models of the columns.
    component_rows_ : array of shape (n_mixture_,)
        Rows of each component, by weight and responsibility.
    log_likelihood_ : float
        Of all rows together; `score` gives it per row.
    trace_ : Trace
        `objective`, `change` and `seconds` (since the fit began) of the EM steps that led to the
        result.
    n_iter_, converged_
    kinds_, levels_, underlying_names_, table_
        The kind of every column, the levels of those that have some, the names of the Gaussian
        variables, and the coded table behind them; only if `columns` is not "numeric".

    See Also
    --------
    eigengap.PPCA, eigengap.FactorAnalysis : the case of one component.

    Notes
    -----
    `transform` gives resp_k E[z | x, k] of all components side by side, as many columns as latent
    dimensions in all: the expectation of z in the block of the row's own component and of 0 in the
    others. Coordinates of different components are not comparable, so they do not share a column,
    and with one component this is the `transform` of PPCA. Together with `predict_proba` it is all
    that `reconstruct` needs; there is no `inverse_transform`, for coordinates alone do not
    determine which component's mean to add.

    With `columns` other than "numeric" this is a mixture behind the columns: means, covariances,
    loadings and noise are those of the Gaussian variables (`underlying_names_`), whose maps and
    thresholds all components share, and `scale` has no effect. With n_components=0 and nominal
    columns it is latent class analysis. `log_likelihood_` is approximate, by expectation
    propagation (docs/columns.md).

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap.estimators.mixture_ppca import MixturePPCA
    >>> rng = np.random.default_rng(0)
    >>> line = rng.normal(size=(200, 1)) * [1.0, 1.0, 0.0] + 0.1 * rng.normal(size=(200, 3))
    >>> other = rng.normal(size=(100, 1)) * [0.0, 1.0, -1.0] + [4.0, 0.0, 4.0]
    >>> X = np.vstack([line, other + 0.1 * rng.normal(size=(100, 3))])
    >>> X[::5, 1] = np.nan
    >>> model = MixturePPCA(n_mixture=2, n_components=1, random_state=0).fit(X)
    >>> model.weights_.round(2)
    array([0.67, 0.33])
    >>> model.predict([[np.nan, 1.0, 0.0], [4.0, np.nan, np.nan]])
    array([0, 1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_mixture": AT_LEAST_ONE,
        "n_components": [
            Interval(Integral, 0, None, closed="left"),
            "array-like",
            StrOptions({"auto"}),
        ],
        "split_merge": [Interval(Integral, 0, None, closed="left")],
    }

    _takes_cell_sd = False
    _fits_scatter = False

    model_: Any  # MixtureOfLinearGaussians, or ColumnMixture of columns of several kinds
    evidence_: tuple[ObservationPattern, ...]  # which values each component was fitted to

    def __init__(
        self,
        n_mixture: int = 2,
        n_components: int | Sequence[int] | str = "auto",
        *,
        noise: Noise = "isotropic",
        shared_noise: bool = False,
        n_init: int = 2,
        split_merge: int = 5,
        scale: bool = False,
        missing_values: Any = nan,
        tol: float = 1e-5,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: bool | int = False,
        checkpoint: Any = None,
        columns: Any = "numeric",
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    def _ranks(self, source: Source, columns: Columns | None = None) -> list[int] | None:
        """Ranks of the components as asked for, None where they are to be found."""
        rows, K = source.observed().count, int(self.n_mixture)
        if rows < K:
            raise ValueError(
                f"n_mixture={K} components cannot be distinguished in n_samples={rows:g} rows; "
                "ask for fewer components than rows"
            )
        asked = self.n_components
        if isinstance(asked, str):
            return None
        ranks = [int(asked)] * K if isinstance(asked, Integral) else list(asked)
        if len(ranks) != K:
            raise ValueError(
                f"n_components lists {len(ranks)} numbers of latent dimensions for n_mixture={K} "
                "components; give one for each, or one number for all"
            )
        if not all(isinstance(q, Integral) and int(q) >= 0 for q in ranks):
            raise ValueError(f"n_components={asked!r} must list whole numbers, 0 or more")
        if columns is None:
            require_rank(max(map(int, ranks)), source)
        else:
            require_width(max(map(int, ranks)), columns)
        return list(map(int, ranks))

    def _fit_rows(self, rows: Source, checkpointer: FileCheckpointer | None) -> MixtureFit:
        ranks, K = self._ranks(rows), int(self.n_mixture)
        with self._options(checkpointer) as options:
            shared = self.shared_noise
            return fit_mixture(rows, K, ranks, self.noise, shared_noise=shared, options=options)

    @contextmanager
    def _options(self, checkpointer: FileCheckpointer | None) -> Iterator[MixtureOptions]:
        seed = self._seed(checkpointer)
        with progress_of(self, checkpointer) as watch:
            yield MixtureOptions(
                tol=self.tol,
                max_iter=self.max_iter,
                n_init=self.n_init,
                split_merge=self.split_merge,
                seed=seed,
                watch=watch,
            )

    def _fit_coded(
        self, source: Source, table: CodedTable, checkpointer: FileCheckpointer | None
    ) -> tuple[ColumnMixture, MixtureFit]:
        ranks, K = self._ranks(source, table.columns), int(self.n_mixture)
        asked = [getattr(table.kinds[j], "transform", None) for j in table.used]
        with self._options(checkpointer) as options:
            return fit_column_mixture(
                source,
                table.columns,
                K,
                ranks,
                self.noise,
                shared_noise=self.shared_noise,
                chosen=np.array([each == "auto" for each in asked]),
                options=options,
            )

    def _keep_coded(self, source: Source, found: tuple[ColumnMixture, MixtureFit]) -> None:
        model, fit = found
        self.__dict__.pop("evidence_", None)  # of an earlier fit to numbers
        self._keep_fit(fit)
        self.scale_, self.model_ = None, model
        assert self.table_ is not None
        self.table_ = replace(self.table_, columns=model.columns)  # whose maps the fit may change
        warn_of_unlinked(source, len(model.columns.kinds))  # what comes after is no column
        self._warn(fit)

    def _keep(self, source: Source, fit: MixtureFit, unit: Array | None) -> None:
        scaled = source if unit is None else Rescaled(source, unit)
        self.scale_ = unit
        self.model_ = fit.model if unit is None else fit.model.rescaled(unit)
        self._keep_fit(fit)
        if unit is not None:  # what standardising added
            self.log_likelihood_ -= float(fit.observed_w @ np.log(unit))
        self.evidence_ = evidence_of_components(scaled, fit, self.noise)
        warn_of_unlinked(source)
        if self.noise == "isotropic" and unit is None:
            warn_of_units(source, np.min([model.psi for model in fit.model.models], axis=0))
        if self.noise == "isotropic":
            warn_of_constants(source, source.reduce(ColumnMoments.of).variance)
        self._warn(fit)

    def _keep_fit(self, fit: MixtureFit) -> None:
        self.log_likelihood_ = fit.log_likelihood
        self.converged_ = fit.converged
        self.n_iter_ = max(fit.n_iter, 1)
        self.trace_ = fit.trace
        self.component_rows_ = fit.component_sum_w

    def _warn(self, fit: MixtureFit) -> None:
        if self.n_mixture > fit.model.K:
            warn(
                f"{fit.model.K} of n_mixture={self.n_mixture} components are left: the others lost "
                "their rows, also after new starts. Fewer components, more rows, or fewer latent "
                "dimensions help",
                DroppedComponentWarning,
            )
        if fit.at_floor:
            listed = ", ".join(str(k) for k in fit.at_floor)
            warn(
                f"a noise variance fell to its floor in component {listed}, so that standard "
                "deviations of imputed values mean little there: it has more latent dimensions "
                "than its rows determine, has collapsed onto few rows, or holds a column that is "
                "constant or explained entirely. Fewer components or latent dimensions, or "
                "shared_noise=True, help",
                NoiseFloorWarning,
            )
        if not fit.converged and self.table_ is not None and fit.n_iter < self.max_iter:
            warn(columns_not_converged(type(self).__name__, fit.n_iter), ConvergenceWarning)
        elif not fit.converged:
            warn(
                f"{type(self).__name__} did not converge in {self.max_iter} steps (last change "
                f"{fit.trace.change[-1]:.1e}); {words().more_steps(self.max_iter)}",
                ConvergenceWarning,
            )

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.intp]:
        """Fit, and the most probable component of every row: (n_samples,)."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    # Which component ---------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The most probable component of every row: (n_samples,)."""
        return np.argmax(self.predict_proba(X), axis=1)

    def predict_proba(self, X: Any) -> Array:
        """Responsibilities, p(k | observed part of x): (n_samples, n_mixture_).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a missing value; a row without any observed value gets the weights.
        """
        return map_rows(self._source(X), self.model_.responsibilities)

    # Where in it -------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """resp_k E[z | x, k] of all components side by side: (n_samples, sum of n_components_)."""
        check_is_fitted(self, "model_")
        return self._map(X, self.model_.local_coordinates)

    def sample(
        self, n_samples: int = 1, random_state: Any = None
    ) -> tuple[Array, NDArray[np.intp]]:
        """Draw new rows from the fitted density.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            The component of each row. As in scikit-learn's mixtures, but the rows are in random
            order.
        """
        check_is_fitted(self, "model_")
        require_count("n_samples", n_samples, "rows")
        X, y = self.model_.sample(n_samples, np.random.default_rng(seed_of(random_state)))
        return (X if self.table_ is None else self.table_.rows(X)), y

    # How good ------------------------------------------------------------------------------

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X, the lower the better.

        The number of rows is the mean number in which a column is observed.
        """
        # Columns of details, limits of values for instance, come last.
        d = None if self.table_ is None else len(self.table_.used)
        rows = float(np.mean(self._source(X).reduce(ColumnMoments.of).sum_w[:d]))
        return -2.0 * float(np.sum(self.score_samples(X))) + self.n_parameters_ * log(rows)

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on X, the lower the better."""
        return -2.0 * float(np.sum(self.score_samples(X))) + 2.0 * self.n_parameters_

    # Moments -------------------------------------------------------------------------------

    def get_precision(self) -> Array:
        """Inverse of `get_covariance`: (n_features, n_features)."""
        return np.asarray(np.linalg.inv(self.get_covariance()))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the coordinates: mix0_PC1, ..., mix1_PC1, ..."""
        check_is_fitted(self, "model_")
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array(self.component_names_, dtype=object)

    @property
    def component_names_(self) -> list[str]:
        prefix = "PC" if self.noise == "isotropic" else "FA"
        return [
            f"mix{k}_{prefix}{c + 1}" for k, q in enumerate(self.n_components_) for c in range(q)
        ]

    # Fitted attributes -------------------------------------------------------------------------

    def _predictive(self) -> MixturePredictive:
        return MixturePredictive.of(self.model_, self.evidence_, self.component_rows_)

    n_mixture_ = property(attrgetter("model_.K"))
    weights_ = property(attrgetter("model_.weights"))
    n_components_ = property(attrgetter("model_.ranks"))

    @property
    def n_parameters_(self) -> int:
        """Free parameters of the fitted mixture, without those of the columns' maps."""
        free = 0 if self.table_ is None else int(np.sum(self.table_.columns.free_scale))
        return n_parameters(self._gaussian, self.noise, self.shared_noise, known=free)

    @property
    def _gaussian(self) -> MixtureOfLinearGaussians:
        """The mixture; of columns of several kinds that of the variables behind them."""
        model: Any = self.model_
        found: MixtureOfLinearGaussians = model if self.table_ is None else model.gaussian
        return found

    @property
    def means_(self) -> Array:
        return np.stack([model.mu for model in self._gaussian.models])

    @property
    def mean_(self) -> Array:
        """Mean of the whole mixture: (n_features,)."""
        return self._gaussian.mean()

    @property
    def covariances_(self) -> Array:
        return np.stack([model.covariance() for model in self._gaussian.models])

    @property
    def loadings_(self) -> tuple[Array, ...]:
        return tuple(model.W for model in self._gaussian.models)

    @property
    def noise_variance_(self) -> Array:
        psi = np.stack([model.psi for model in self._gaussian.models])
        psi = psi if self.scale_ is None else psi / self.scale_**2
        if self.noise == "diagonal":
            return psi
        own = np.zeros(psi.shape[1], dtype=bool)
        if self.table_ is not None:  # of the variables whose scale the data determine
            own = self.table_.columns.free_scale
        return psi[:, 0] if own.all() else psi[:, np.argmin(own)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # No classifier, but scikit-learn's check of sparse input asks this of all who have
        # predict_proba.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags
