"""Mixtures of probabilistic PCA and of factor analysers as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import log, nan
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._base import (
    SHARED_CONSTRAINTS,
    _generator,
    _on_dense,
    _standard_deviations,
    mean_score,
    require_count,
    warn_of_constants,
    warn_of_units,
    warn_of_unlinked,
)
from eigengap.estimators._checkpoint import (
    CHECKPOINT_CONSTRAINTS,
    checkpointed,
    require_checkpoint,
)
from eigengap.estimators._features import keep_features, like_input, source_of_new
from eigengap.estimators._notebook import Shown
from eigengap.estimators._progress import ProgressLine, watch_for
from eigengap.estimators._sklearn_compat import (
    Interval,
    StrOptions,
    _check_feature_names_in,
    _fit_context,
)
from eigengap.exceptions import DroppedComponentWarning, NoiseFloorWarning
from eigengap.fitting.gaussian.problem import Noise
from eigengap.fitting.mixture.fit import (
    MixtureFit,
    MixtureOptions,
    evidence_of_components,
    fit_mixture,
    n_parameters,
)
from eigengap.linalg import Array
from eigengap.models.gaussian.information import ObservationPattern
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians, MixturePosterior
from eigengap.models.gaussian.predictive import MixturePredictive
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.sources import Rescaled, Source, as_source, require_frequencies, warn_of_codes
from eigengap.statistics.first_look import look_first
from eigengap.statistics.moments import ColumnMoments
from eigengap.wording import words


class MixturePPCA(Shown, TransformerMixin, BaseEstimator):
    """Mixture of probabilistic PCA or of factor analysers, gaps welcome.

    p(x) = sum_k pi_k N(x | mu_k, W_k W_k^T + Psi_k): clusters, each with its own few directions of
    variation (Tipping and Bishop 1999, "Mixtures of probabilistic principal component analysers";
    Ghahramani and Hinton 1996). The exact likelihood of the seen cells is maximised by accelerated
    EM from k-means++ starts, with split-and-merge moves (Ueda et al. 2000).

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
        is in data units. `noise_variance_` is in standardised units.
    missing_values : float or list of float, default=nan
        Values that mark an unseen cell, besides NaN.
    tol : float, default=1e-5
        EM stops when no parameter moves by more than this (in units of its column's standard
        deviation) and the log-likelihood by no more per seen cell.
    max_iter : int, default=1000
        Most EM steps.
    random_state : int, RandomState or None, default=None
        Of the starts.
    verbose : bool or int, default=False
        Whether to show progress.
    checkpoint : str, path-like or Checkpoint, default=None
        File to which an iterative fit writes now and then what it has done, and from which a later
        call goes on if this one was interrupted; removed when the fit has converged
        (docs/checkpoints.md).

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
        The fitted density, in data units; `model_.models` are its components.
    component_rows_ : array of shape (n_mixture_,)
        Rows of each component, by weight and responsibility.
    log_likelihood_ : float
        Of all rows together; `score` gives it per row.
    trace_ : Trace
        `objective`, `change` and `seconds` (since the fit began) of the EM steps that led to the
        result.
    n_iter_, converged_

    See Also
    --------
    eigengap.PPCA, eigengap.FactorAnalysis : the case of one component.

    Notes
    -----
    `transform` gives resp_k E[z | x, k] of all components side by side, as many columns as latent
    dimensions in all: the expectation of z in the block of the row's own component and of 0 in the
    others. Coordinates of different components are not comparable, so they do not share a column,
    and with one component this is the `transform` of PPCA. Together with `predict_proba` it is all
    that `reconstruct` needs; there is no `inverse_transform`, for the coordinates alone do not say
    which component's mean to add.

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
        **SHARED_CONSTRAINTS,
        **CHECKPOINT_CONSTRAINTS,
        "n_mixture": [Interval(Integral, 1, None, closed="left")],
        "n_components": [
            Interval(Integral, 0, None, closed="left"),
            "array-like",
            StrOptions({"auto"}),
        ],
        "noise": [StrOptions({"isotropic", "diagonal"})],
        "shared_noise": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "split_merge": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    model_: MixtureOfLinearGaussians
    evidence_: tuple[ObservationPattern, ...]  # which cells each component was fitted to
    scale_: Array | None

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
    ) -> None:
        self.n_mixture = n_mixture
        self.n_components = n_components
        self.noise = noise
        self.shared_noise = shared_noise
        self.n_init = n_init
        self.split_merge = split_merge
        self.scale = scale
        self.missing_values = missing_values
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    # Fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture to the seen cells of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, sparse matrix, pandas, polars or pyarrow; NaN marks a gap.
        y : ignored
        sample_weight : array of shape (n_samples,), default=None
            Frequency of each row: an integer weight equals repeating the row.

        Returns
        -------
        self
        """
        require_checkpoint(self)
        everything = as_source(X, sample_weight=sample_weight, missing_values=self.missing_values)
        source = look_first(everything, scatter=False)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        require_frequencies(source.observed().sum_w)
        ranks = self._ranks(source)
        with checkpointed(self, source) as checkpointer:
            self._fit_source(X, source, ranks, checkpointer)
        return self

    def _fit_source(
        self, X: Any, source: Source, ranks: list[int] | None, checkpointer: FileCheckpointer | None
    ) -> None:
        unit = _standard_deviations(source) if self.scale else None
        scaled = source if unit is None else Rescaled(source, unit)
        fit = self._fit_mixture(scaled, ranks, checkpointer)
        keep_features(self, X, source)  # only now: a fit may fail
        self._keep(fit, unit)
        self.evidence_ = evidence_of_components(scaled, fit, self.noise)
        warn_of_unlinked(source)
        if self.noise == "isotropic" and unit is None:
            least = np.min([model.psi for model in fit.model.models], axis=0)
            warn_of_units(source, least)
        if self.noise == "isotropic":
            warn_of_constants(source, source.reduce(ColumnMoments.of).variance)
        self._warn(fit)

    def _ranks(self, source: Source) -> list[int] | None:
        """Ranks of the components as asked for, None where they are to be found."""
        rows, d = source.observed().count, source.n_features
        K = int(self.n_mixture)
        if rows < K:
            raise ValueError(
                f"n_mixture={K} components cannot be told apart in n_samples={rows:g} rows; ask "
                "for fewer components than rows"
            )
        if isinstance(self.n_components, str):
            return None
        if isinstance(self.n_components, Integral):
            ranks = [int(self.n_components)] * K
        else:
            ranks = _listed_ranks(self.n_components, K)
        most = int(min(rows, d))
        if max(ranks) > most:
            raise ValueError(
                f"{words().parameter('n_components', max(ranks))} must be at most {most}, the "
                "smaller of the number of "
                f"rows ({rows:g}) and of columns ({d})"
            )
        return ranks

    def _fit_mixture(
        self, source: Source, ranks: list[int] | None, checkpointer: FileCheckpointer | None
    ) -> MixtureFit:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        seed = seed if checkpointer is None else checkpointer.recall("seed", seed)
        watch = watch_for(self.verbose, type(self).__name__, checkpointer)
        options = MixtureOptions(
            tol=self.tol,
            max_iter=self.max_iter,
            n_init=self.n_init,
            split_merge=self.split_merge,
            seed=seed,
            watch=watch,
        )
        try:
            return fit_mixture(
                source,
                int(self.n_mixture),
                ranks,
                self.noise,
                shared_noise=self.shared_noise,
                options=options,
            )
        finally:
            if isinstance(watch, ProgressLine):
                watch.close()

    def _keep(self, fit: MixtureFit, unit: Array | None) -> None:
        self.scale_ = unit
        self.model_ = fit.model if unit is None else fit.model.rescaled(unit)
        self.log_likelihood_ = fit.log_likelihood
        if unit is not None:  # what standardising added
            self.log_likelihood_ -= float(fit.observed_w @ np.log(unit))
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
                "deviations of filled cells mean little there: it has more latent dimensions than "
                "its rows determine, has collapsed onto few rows, or holds a column that is "
                "constant or explained entirely. Fewer components or latent dimensions, or "
                "shared_noise=True, help",
                NoiseFloorWarning,
            )
        if not fit.converged:
            warn(
                f"{type(self).__name__} did not converge in {self.max_iter} steps (last change "
                f"{fit.trace.change[-1]:.1e}); {words().more_steps(self.max_iter)}",
                ConvergenceWarning,
            )

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.intp]:
        """Fit, and the most probable component of every row: (n_samples,)."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    # Input -------------------------------------------------------------------------------------

    def _source(self, X: Any) -> Source:
        check_is_fitted(self, "model_")
        source = source_of_new(self, X, missing_values=self.missing_values)
        return source

    def _map(self, X: Any, fn: Callable[[Array], Array]) -> Array:
        """fn over the rows of X, dense and block by block; float32 for float32."""
        source = self._source(X)
        kind = source.dtype
        return source.map(lambda block: _on_dense(block, fn).astype(kind, copy=False))

    # Which component ---------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The most probable component of every row: (n_samples,)."""
        return np.argmax(self.predict_proba(X), axis=1)

    def predict_proba(self, X: Any) -> Array:
        """Responsibilities, p(k | seen part of x): (n_samples, n_mixture_).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap; a row without any seen cell gets the weights.
        """
        check_is_fitted(self, "model_")
        source = self._source(X)
        return source.map(lambda block: _on_dense(block, self.model_.responsibilities))

    # Where in it -------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """resp_k E[z | x, k] of all components side by side: (n_samples, sum of n_components_).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks a gap.
        """
        check_is_fitted(self, "model_")
        return self._map(X, self.model_.local_coordinates)

    def posterior(self, X: Any) -> MixturePosterior:
        """Component and latent variables of every row, gaps marginalised.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.

        Returns
        -------
        MixturePosterior
            `resp` (n_samples, n_mixture_), and `components`: for each the `Posterior` of z given
            that the row is of it.
        """
        values = self._source(X).collect()
        return self.model_.posterior(values if isinstance(values, np.ndarray) else values.toarray())

    def reconstruct(self, X: Any, kind: str = "posterior") -> Any:
        """Rows as the mixture sees them without noise.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        kind : {"posterior", "optimal"}
            "posterior" is the expectation of W z + mu over components and z; "optimal" the
            projection onto the plane of the most probable component.

        Returns
        -------
        table of X's type, of shape (n_samples, n_features)
        """
        check_is_fitted(self, "model_")
        if kind not in ("posterior", "optimal"):
            raise ValueError(f'kind must be "posterior" or "optimal", got {kind!r}')
        of = self.model_.denoised if kind == "posterior" else self.model_.project
        return like_input(self, X, self._map(X, of))

    # What was not seen ---------------------------------------------------------------------------

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Fill every gap with its expected value given what was seen of its row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NaN marks an unseen cell.
        return_std : bool, default=False
            Whether to return the standard deviations too.

        Returns
        -------
        filled : table of X's type
            Seen cells are as they were.
        std : table of X's type
            Standard deviation of each filled cell, 0 for seen cells: within the components (the
            uncertainty of their parameters is in it) and between them. Only if return_std.

        Notes
        -----
        A frame comes back with floating-point columns throughout. Where several components are
        probable the cell's distribution has several modes: `sample_imputations` draws from it.
        """
        check_is_fitted(self, "model_")
        if not return_std:
            return like_input(self, X, self._map(X, self.model_.conditional_mean))
        predictive = self.predictive_
        both = self._map(X, lambda x: np.hstack(_mean_and_std(predictive, x)))
        d = self.n_features_in_
        return like_input(self, X, both[:, :d]), like_input(self, X, both[:, d:])

    def sample_imputations(self, X: Any, m: int, random_state: Any = None) -> Iterator[Any]:
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

        Yields
        ------
        table of X's type
            X with its gaps filled by one joint draw.
        """
        check_is_fitted(self, "model_")
        require_count("m", m, "tables")
        rng = _generator(random_state)
        predictive = self.predictive_

        def drawn() -> Any:
            sample = partial(predictive.draw(rng).sample_conditional, rng=rng)
            return like_input(self, X, self._map(X, sample))

        return (drawn() for _ in range(m))

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
        return self.model_.sample(n_samples, _generator(random_state))

    # How good ----------------------------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Log-likelihood of the seen part of every row: (n_samples,)."""
        source = self._source(X)
        return source.map(lambda block: _on_dense(block, self.model_.log_likelihood))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the rows that have an observed value; 0 where none has."""
        return mean_score(self._source(X), self.model_.log_likelihood)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on X, the lower the better.

        The number of rows is the mean number in which a column was seen.
        """
        rows = float(np.mean(self._source(X).reduce(ColumnMoments.of).sum_w))
        return -2.0 * float(np.sum(self.score_samples(X))) + self.n_parameters_ * log(rows)

    def aic(self, X: Any) -> float:
        """Akaike's information criterion on X, the lower the better."""
        return -2.0 * float(np.sum(self.score_samples(X))) + 2.0 * self.n_parameters_

    # Moments -----------------------------------------------------------------------------------

    def get_covariance(self) -> Array:
        """Covariance of the whole mixture, within and between components: (d, d)."""
        check_is_fitted(self, "model_")
        return self.model_.covariance()

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

    @property
    def predictive_(self) -> MixturePredictive:
        """`model_` with the uncertainty of its components' parameters."""
        return MixturePredictive.of(self.model_, self.evidence_, self.component_rows_)

    @property
    def n_mixture_(self) -> int:
        return self.model_.K

    @property
    def n_parameters_(self) -> int:
        """Free parameters of the fitted mixture."""
        return n_parameters(self.model_, self.noise, self.shared_noise)

    @property
    def weights_(self) -> Array:
        return self.model_.weights

    @property
    def means_(self) -> Array:
        return np.stack([model.mu for model in self.model_.models])

    @property
    def mean_(self) -> Array:
        """Mean of the whole mixture: (n_features,)."""
        return self.model_.mean()

    @property
    def covariances_(self) -> Array:
        return np.stack([model.covariance() for model in self.model_.models])

    @property
    def loadings_(self) -> tuple[Array, ...]:
        return tuple(model.W for model in self.model_.models)

    @property
    def n_components_(self) -> tuple[int, ...]:
        return self.model_.ranks

    @property
    def noise_variance_(self) -> Array:
        psi = np.stack([self._standardised(model).psi for model in self.model_.models])
        return psi if self.noise == "diagonal" else psi[:, 0]

    def _standardised(self, model: LinearGaussian) -> LinearGaussian:
        return model if self.scale_ is None else model.rescaled(1.0 / self.scale_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        # No classifier, but scikit-learn's check of sparse input asks this of all who have
        # predict_proba.
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


def _mean_and_std(predictive: MixturePredictive, X: Array) -> tuple[Array, Array]:
    mean, variance = predictive.conditional(X)
    return mean, np.sqrt(variance)


def _listed_ranks(asked: Any, K: int) -> list[int]:
    ranks = list(asked)
    if len(ranks) != K:
        raise ValueError(
            f"n_components lists {len(ranks)} numbers of latent dimensions for n_mixture={K} "
            "components; give one for each, or one number for all"
        )
    if not all(isinstance(q, Integral) and int(q) >= 0 for q in ranks):
        raise ValueError(f"n_components={asked!r} must list whole numbers, 0 or more")
    return [int(q) for q in ranks]
