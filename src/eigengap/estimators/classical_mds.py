"""Classical multidimensional scaling as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from math import nan
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    as_fitted,
    check_features,
    keep_features,
    keep_parameters,
    not_converged,
    progress_of,
)
from eigengap.estimators.shared.linear import fit_asked
from eigengap.estimators.shared.sklearn_compat import StrOptions, _fit_context
from eigengap.estimators.shared.transformer import (
    COMPONENTS,
    Transformer,
    as_latents,
    decoded,
    warn_of_empty_rows,
    whole_table,
)
from eigengap.exceptions import NegativeEigenvaluesWarning
from eigengap.fitting.eigen.signed_spectrum import SignedSpectrum
from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.graph import mds, pairs
from eigengap.fitting.graph.distances import METRICS, Metric, RowDistances, as_rows
from eigengap.fitting.graph.mds import Dimensions
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.maps.affine import AffineMap
from eigengap.models.maps.distances import (
    AdditiveConstant,
    GowerMap,
    Kind,
    gram_distances,
    inner_products,
)
from eigengap.runtime.warnings import warn
from eigengap.sources import Block, Source, as_source, column, require_frequencies, warn_of_codes
from eigengap.wording import words

PAIRS = ("precomputed", "gram")
FEW_DIGITS = 0.01  # bound on the relative error of an eigenvalue that is worth a warning
TOO_NEGATIVE = 0.05  # share of the eigenvalues' moduli that is worth a warning


class ClassicalMDS(Transformer):
    """Classical multidimensional scaling, also called principal coordinates analysis.

    Finds points whose distances are, as nearly as their number of coordinates allows, those between
    the rows of a table, or those of a given matrix: coordinates are eigenvectors of the doubly
    centred matrix of inner products, each as long as the root of its eigenvalue (Torgerson 1952,
    Gower 1966). Of Euclidean distances they are the principal component scores, and computed as
    such, without the matrix of all pairs; missing values are then accepted. New points are added
    by Gower's (1968) formula.

    Parameters
    ----------
    n_components : int, float in (0, 1) or "auto", default=2
        Number of coordinates; the share of the positive eigenvalues that they must hold; or as many
        as there are significant eigenvalues: those above rounding and above the modulus of every
        negative one. Of noisy rows all are significant (`choose_rank` separates them from noise);
        where values are missing "auto" is PCA's.
    metric : str or callable, default="euclidean"
        A metric of scikit-learn's or SciPy's `pairwise_distances`, by name, or a function of two
        rows; "precomputed" where X is the square matrix of distances, "gram" where it is that of
        inner products. Every metric but "euclidean" needs memory for n x n numbers.
    metric_params : dict, default=None
        Further arguments of the metric.
    correction : {None, "cailliez", "lingoes"}, default=None
        What to do about distances that are not Euclidean: nothing; add the smallest constant c to
        them that makes them so (Cailliez 1983, R's cmdscale(add=TRUE)); or take sqrt(d^2 + 2 c)
        with the smallest such c (Lingoes 1971).
    tol : float, default=1e-6
        Tolerance of the fit with missing values.
    max_iter : int, default=1000
        Most EM steps with missing values.
    verbose : bool or int, default=False
        Whether to show the progress of a fit with missing values.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components_)
        Coordinates of the rows given to `fit`; the entry of largest modulus in each column is
        positive.
    eigenvalues_ : array of shape (n_components_,)
        Of the centred inner products: the (weighted) sums of squares of the coordinates. Where one
        is not positive, its coordinate is 0.
    negative_share_ : float
        What the negative eigenvalues hold of the sum of the moduli of all: 0, or rounding, if and
        only if the distances are Euclidean. Beyond 2500 points estimated where it is not 0: to a
        few per cent of itself where many eigenvalues make it up, to a third where few do.
    n_significant_ : int or None
        Number of significant eigenvalues; None where only the leading ones were computed and all
        of those are.
    goodness_of_fit_ : array of shape (2,)
        What the eigenvalues of the embedding hold of the sum of all moduli, and of the sum of all
        positive ones (GOF of R's cmdscale).
    additive_constant_ : float
        c of the correction, 0 without.
    n_components_ : int
    model_ : AffineMap or GowerMap
        The map from centred rows, or from inner products with the fitted points.
    spectrum_ : SignedSpectrum
        The known eigenvalues and the sums of all.
    density_ : LinearGaussian
        Of Euclidean rows: the PPCA density that imputes missing values.
    n_iter_, converged_
        Of the fit with missing values.

    Notes
    -----
    scikit-learn 1.8 has a class of this name with `n_components`, `metric` and `metric_params`, the
    same coordinates and signs, and no `transform`; it also keeps `dissimilarity_matrix_`.
    `sample_weight` counts rows: an integer weight equals repeating the row.

    Examples
    --------
    Distances by road between points on a line come back as the line:

    >>> import numpy as np
    >>> from eigengap import ClassicalMDS
    >>> x = np.array([0.0, 1.0, 3.0, 7.0])
    >>> mds = ClassicalMDS("auto", metric="precomputed").fit(np.abs(x[:, None] - x))
    >>> mds.embedding_.ravel().round(6)
    array([-2.75, -1.75,  0.25,  4.25])
    >>> mds.transform(np.abs(5.0 - x)[None, :]).round(6)
    array([[2.25]])
    """

    _prefix = "MDS"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": COMPONENTS[:-1],
        "metric": [StrOptions(set(METRICS) | set(PAIRS)), callable],
        "correction": [StrOptions({"cailliez", "lingoes"}), None],
    }

    embedding_: Array
    model_: AffineMap | GowerMap
    spectrum_: SignedSpectrum
    density_: LinearGaussian
    distances_: RowDistances
    constant_: AdditiveConstant | None
    present_: NDArray[np.intp] | None  # fitted points among those given, None where all are

    def __init__(
        self,
        n_components: int | float | str = 2,
        *,
        metric: Metric = "euclidean",
        metric_params: dict[str, Any] | None = None,
        correction: Kind | None = None,
        missing_values: Any = nan,
        tol: float = 1e-6,
        max_iter: int = 1000,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the coordinates of the rows of X, or of the points whose pairs X holds.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or square matrix of all pairs
            Array, masked array, sparse matrix, pandas, polars or pyarrow. NaN marks a missing
            value, which metric="euclidean" (through PPCA) and "nan_euclidean" accept.
        """
        self.fit_transform(X, y, sample_weight)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Fit, and the coordinates of the fitted points: (n_samples, n_components)."""
        everyone = whole_table(
            X, "ClassicalMDS", sample_weight=sample_weight, missing_values=self.missing_values
        )
        weight = np.ones(everyone.n_rows) if everyone.weight is None else everyone.weight
        if self.metric not in PAIRS and (present := everyone.is_present()).any():
            weight = np.where(present, weight, 0.0)
        if not np.all(weight == 1.0):
            require_frequencies(float(np.sum(weight)))
        more: dict[str, Any] = {}
        if self.metric in PAIRS:
            fit = self._fit_pairs(everyone, weight)
        elif self._from_rows:
            fit, more = self._fit_rows(self._checked(everyone))
        else:
            fit, more = self._fit_metric(self._checked(everyone), weight)
        keep_features(self, X, everyone)  # only now: a fit may fail
        self._forget("density_", "distances_")
        self.present_ = _present(weight)
        self.embedding_, self.model_ = fit.Z, fit.model
        self.spectrum_, self.constant_ = fit.spectrum, fit.constant
        self.n_iter_, self.converged_ = 1, True
        self.__dict__.update(more)
        if self.present_ is not None:
            self.embedding_ = self._of_everyone(everyone)
        self._warn(fit)
        return as_fitted(self.embedding_, everyone.dtype == np.float32)

    def _of_everyone(self, source: Source) -> Array:
        """Coordinates of all given points, also those without weight or observed value.

        NaN where the metric gives no distance from what was observed.
        """
        if not source.has_missing or self._from_rows:
            return self._coordinates(source)
        values = source.collect()
        used = values[:, self.present_] if self.metric in PAIRS else values
        missing = np.isnan(used)
        known = ~(missing.all(axis=1) if self._accepts_missing else missing.any(axis=1))
        rows = values[known] if self._accepts_missing else np.nan_to_num(values[known])
        found = self._coordinates(as_source(rows))
        Z = np.full((len(values), found.shape[1]), np.nan)
        Z[known] = found
        if np.any(empty := missing.all(axis=1)):
            warn_of_empty_rows(np.flatnonzero(empty), are_placed=False)
        return Z

    @property
    def _from_rows(self) -> bool:
        """Whether distances are the plain Euclidean ones, by whichever name."""
        if self.metric == "minkowski":
            given = self.metric_params or {}
            return set(given) <= {"p"} and given.get("p", 2) == 2
        return self.metric in ("euclidean", "l2")

    def _checked(self, everyone: Source) -> Source:
        """The rows of positive weight that have an observed value, checked."""
        source = everyone.present()
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        if source.has_missing and not self._accepts_missing:
            _refuse_missing(source, self.metric)
        return source

    @property
    def _accepts_missing(self) -> bool:
        return self._from_rows or self.metric == "nan_euclidean"

    def _fit_rows(self, source: Source) -> tuple[mds.ScalingFit, dict[str, Any]]:
        """A fit, and the fitted attributes that belong to its route."""
        if self.metric != "minkowski" and self.metric_params:
            raise ValueError(
                f'metric="{self.metric}" takes no metric_params, got {self.metric_params}'
            )
        asked = self._dimensions(source.observed().rows)
        if not source.has_missing:
            fit, density = mds.fit_rows(source, asked)
            return fit, {"density_": density}
        most = min(source.observed().rows, source.n_features)
        known = "auto" if asked is None else min(asked, most) if isinstance(asked, int) else asked
        with progress_of(self) as watch:
            options = EMOptions(tol=self.tol, max_iter=self.max_iter, watch=watch)
            found, _ = fit_asked(source, options, fit_ppca, known)
        if not found.converged:
            warn(not_converged("ClassicalMDS", found, self.max_iter), ConvergenceWarning)
        dimensions = asked if isinstance(asked, int) else found.model.q
        more = {"n_iter_": max(found.n_iter, 1), "converged_": found.converged}
        fit = mds.of_components(source, found, dimensions, "ppca")
        return fit, {"density_": found.model, **more}

    def _fit_metric(self, source: Source, weight: Array) -> tuple[mds.ScalingFit, dict[str, Any]]:
        n = source.observed().rows
        asked = self._dimensions(n)
        mds.require_scaling(n, self.correction, more=4.0 if self.metric == "nan_euclidean" else 1.5)
        distances = RowDistances.of(source, self.metric, deepcopy(self.metric_params))
        w = _weights(weight[weight > 0.0])
        fit = mds.fit_distances(distances.among(), asked, w, self.correction)
        return fit, {"distances_": distances}

    def _fit_pairs(self, everyone: Source, weight: Array) -> mds.ScalingFit:
        if self.metric_params:
            raise ValueError(f'metric="{self.metric}" takes no metric_params')
        if self.metric == "gram" and self.correction is not None:
            raise ValueError(
                f'correction="{self.correction}" is of distances, and inner products do not '
                'determine how far new points are; pass distances with metric="precomputed"'
            )
        if self.metric == "precomputed" and everyone.is_sparse:
            raise ValueError(
                "X is sparse, and pairs that it leaves out would be at distance 0; if they are, "
                "densify it with X.toarray()"
            )
        n, present = int(np.count_nonzero(weight)), _present(weight)
        values = everyone.collect()
        if values.shape[0] == values.shape[1]:  # if not, that is what is wrong
            mds.require_scaling(n, self.correction)
        values = _dense(values)
        if values.shape[0] != values.shape[1]:
            present = None
        elif present is not None:
            values = values[np.ix_(present, present)]
        labels = pairs.Labels(everyone.names, present)
        w = _weights(weight[weight > 0.0])
        is_gram = self.metric == "gram"
        known = (pairs.gram_matrix if is_gram else pairs.distance_matrix)(values, labels)
        if n < 2 and float(np.sum(weight)) < 2:
            raise ValueError(
                f"Found array with {n} sample(s) (n_samples={n}); at least 2 points are needed to "
                "fit"
            )
        if is_gram:
            return mds.fit_gram(known, self._dimensions(n), w)
        return mds.fit_distances(known, self._dimensions(n), w, self.correction)

    def _dimensions(self, n: int) -> Dimensions:
        """n_components as the fit takes it."""
        asked = self.n_components
        if isinstance(asked, str):
            return None
        if not isinstance(asked, Integral):
            return float(asked)
        if int(asked) > n:
            raise ValueError(
                f"{words().parameter('n_components', asked)} must be at most {n}, the number "
                f"of points (n_samples={n})"
            )
        return int(asked)

    def _warn(self, fit: mds.ScalingFit) -> None:
        """Warn of what the coordinates do not show."""
        q, spectrum = fit.Z.shape[1], fit.spectrum
        if spectrum.positive + spectrum.negative <= 0.0:
            warn("all points coincide, so that their coordinates are 0", UserWarning)
            return
        if fit.split:
            warn(
                f"{fit.split} pair{'s' if fit.split > 1 else ''} of points at distance 0 differ in "
                "their distances to others, and the correction sets them apart; transform takes a "
                "distance of 0 for the same point, and gives these points other coordinates than "
                "embedding_",
                UserWarning,
            )
        if fit.dimensions < q:
            warn(
                f"only {fit.dimensions} of the {q} leading eigenvalues are positive: the other "
                "coordinates are 0",
                UserWarning,
            )
        least = float(spectrum.lam[fit.dimensions - 1]) if fit.dimensions else 0.0
        if self.metric == "gram" and spectrum.rounding > FEW_DIGITS * least:
            warn(
                "the inner products are so much larger than the distances between the points that "
                "centring leaves few digits of the coordinates: take them about the mean of the "
                "rows, or pass the rows themselves or their distances",
                UserWarning,
            )
        share, bar = spectrum.negative_share, -spectrum.least
        drowned = int(np.sum(spectrum.lam[: fit.dimensions] <= bar))
        if share > TOO_NEGATIVE or drowned:
            about = "about " if spectrum.estimated else ""
            also = (
                f", and {drowned} of the {q} coordinates have a smaller eigenvalue than the "
                "largest negative one in modulus"
                if drowned
                else ""
            )
            way_out = (
                "their space is not Euclidean"
                if self.metric == "gram"
                else 'correction="cailliez" or "lingoes" makes the distances Euclidean'
            )
            warn(
                f"negative eigenvalues hold {about}{100 * share:.3g} % of the sum of all "
                f"moduli{also}: no points have these distances, and the embedding leaves that part "
                f"out; {way_out}",
                NegativeEigenvaluesWarning,
            )

    # Output --------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Coordinates of new points among the fitted ones (Gower 1968).

        Parameters
        ----------
        X : table of shape (n_new, n_features)
            Rows; or for metric="precomputed" and "gram" the distances to, or inner products with,
            the n_samples fitted points: (n_new, n_samples).

        Returns
        -------
        array of shape (n_new, n_components)
            Of a fitted point its own coordinates.
        """
        source = self._source(X)
        return as_fitted(self._coordinates(source), source.dtype == np.float32)

    def _source(self, X: Any) -> Source:
        check_is_fitted(self, "model_")
        source = as_source(X, missing_values=self.missing_values)
        if source.has_missing and not self._accepts_missing:
            _refuse_missing(source, self.metric)
        check_features(self, X, source)
        if self.metric == "precomputed" and source.is_sparse:
            raise ValueError("X is sparse; densify it with X.toarray()")
        return source

    def _coordinates(self, source: Source) -> Array:
        if isinstance(self.model_, AffineMap):
            return source.map(partial(mds.coordinates, model=self.model_, density=self.density_))
        gower = self.model_

        def of(block: Block) -> Array:
            if self.metric == "gram":
                G = self._of_fitted(_dense(block.values)).astype(np.float64, copy=False)
                return gower.forward(G)
            found = map(inner_products, self._distances(block))
            return np.concatenate([gower.forward(G) for G in found])

        return source.map(of)

    def _distances(self, block: Block) -> Iterator[Array]:
        """Distances of the block's points to the fitted ones, corrected."""
        if self.metric == "precomputed":
            D = pairs.new_distances(block.values, pairs.Labels(start=block.start))
            found: Any = [self._of_fitted(D)]
        else:
            found = self.distances_.to(block.values, block.start)
        yield from map(self._correct, found)

    def _of_fitted(self, G: NDArray[Any]) -> NDArray[Any]:
        """Columns of the points that were fitted, among those that were given."""
        return G if self.present_ is None else G[:, self.present_]

    @available_if(lambda self: self._from_rows)
    def inverse_transform(self, X: Any) -> Array:
        """Rows at the coordinates X, for Euclidean rows only: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        Z = as_latents(X, self.n_components_, "coordinates")
        assert isinstance(self.model_, AffineMap)
        return decoded(Z, self.model_.backward)

    def stress(self, X: Any) -> float:
        """Kruskal's stress-1 of the embedding of X: 0 where it keeps all distances.

        Parameters
        ----------
        X : table of shape (n_samples, n_features), or square matrix of all pairs
            The fitted points, as they were given to `fit`; or other rows.

        Returns
        -------
        float
            sqrt(sum (d - d')^2 / sum d^2) over all pairs, d the distances (corrected ones where
            there is a correction), d' those of the coordinates. It takes n^2 steps, but no n x n
            matrix.
        """
        source = self._source(X)
        return mds.stress(self._far_from(source), self._coordinates(source))

    def _far_from(self, source: Source) -> Callable[[slice], Array]:
        """A function from some points to their distances to all."""
        values = _dense(source.collect())
        if isinstance(self.model_, AffineMap):
            rows = self.density_.conditional_mean(values) if source.has_missing else values
            centred = rows - self.model_.mean
            return lambda some: cdist(centred[some], centred)
        if self.metric not in PAIRS:
            among = replace(self.distances_, rows=as_rows(values, self.metric))
            return lambda some: self._correct(np.concatenate(list(among.to(values[some]))))
        if values.shape[0] != values.shape[1]:
            raise ValueError(
                f"stress needs the square matrix that was given to fit, got shape {values.shape}"
            )
        if self.metric == "precomputed":
            return lambda some: self._correct(
                pairs.new_distances(values[some], pairs.Labels(start=some.start))
            )
        size = values.diagonal().astype(np.float64)
        return lambda some: gram_distances(values[some], size[some], size)

    def _correct(self, D: Array) -> Array:
        return D if self.constant_ is None else self.constant_.corrected(D)

    # Fitted attributes ---------------------------------------------------------------------

    @property
    def n_components_(self) -> int:
        return int(self.embedding_.shape[1])

    @property
    def eigenvalues_(self) -> Array:
        known = self.spectrum_.lam[: self.n_components_]
        return np.concatenate([known, np.zeros(self.n_components_ - len(known))])

    negative_share_ = property(attrgetter("spectrum_.negative_share"))

    @property
    def n_significant_(self) -> int | None:
        return self.spectrum_.significant()

    @property
    def goodness_of_fit_(self) -> Array:
        return np.array(self.spectrum_.goodness_of_fit(self.n_components_))

    @property
    def additive_constant_(self) -> float:
        return 0.0 if self.constant_ is None else self.constant_.c

    @property
    def _accepts_sparse(self) -> bool:
        return bool(self.metric != "precomputed")

    @property
    def _is_pairwise(self) -> bool:
        return self.metric in PAIRS

    @property
    def _is_positive(self) -> bool:
        return bool(self.metric == "precomputed")


def _dense(values: Any) -> NDArray[Any]:
    return values if isinstance(values, np.ndarray) else values.toarray()


def _present(weight: Array) -> NDArray[np.intp] | None:
    """Positions of the points of positive weight, None where all are."""
    return None if np.all(weight > 0.0) else np.flatnonzero(weight)


def _weights(weight: Array) -> Array | None:
    return None if np.all(weight == 1.0) else weight


def _refuse_missing(source: Source, metric: Metric) -> None:
    if metric in PAIRS:
        what = "distance" if metric == "precomputed" else "inner product"
        pairs.refuse_missing(source.collect(), pairs.Labels(source.names), what)

    def first(block: Block) -> NDArray[Any]:
        cells = np.argwhere(np.isnan(block.values))[:1]
        return cells + np.array([block.start, 0])

    i, j = map(int, source.map(first)[0])
    named = f'metric="{metric}"' if isinstance(metric, str) else "a metric of your own"
    raise ValueError(
        f"Input X contains NaN: row {i}, column {column(source.names, j)}; {named} does not "
        'accept missing values. Use metric="euclidean", which imputes them by their expected value '
        'under PPCA, or "nan_euclidean", or impute them first (LowRankImputer)'
    )
