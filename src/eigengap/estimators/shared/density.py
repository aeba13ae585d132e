"""What PCA, PPCA, FactorAnalysis, BayesianPCA and MixturePPCA share: a fitted density.

Parameters go in, `model_` comes out; every output method maps a method of the model over the rows
of a source. A subclass fits rows (`_fit_rows`) and keeps the fit (`_keep`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    AcceptsMissing,
    KindsOfColumns,
    checkpointed,
    coded_of_new,
    keep_features,
    like_input,
    map_rows,
    on_dense,
    require_checkpoint,
    require_count,
    require_names,
    seed_of,
    source_of_new,
)
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.sklearn_compat import _fit_context
from eigengap.exceptions import (
    ConstantColumnWarning,
    FewCellsWarning,
    ForgottenCellSdWarning,
    UnitsWarning,
    UnlinkedColumnsWarning,
)
from eigengap.fitting.gaussian.column_scale import column_scale
from eigengap.fitting.gaussian.plan import LARGEST_DENSE
from eigengap.inference.intervals import require_level
from eigengap.inference.novelty import Surprises
from eigengap.linalg import Array
from eigengap.persistence.checkpoint import FileCheckpointer
from eigengap.runtime.warnings import warn
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import (
    Block,
    Rescaled,
    Source,
    as_source,
    named_columns,
    require_frequencies,
    warn_of_codes,
)
from eigengap.statistics.first_look import (
    constant_columns,
    far_below_noise,
    look_first,
    observed_too_seldom,
    unlinked_groups,
)
from eigengap.wording import words

NUMERIC_ONLY = 'goes with columns="numeric"'
MOST_GROUPS = 5  # of columns that one warning lists

# The predictive distribution of each fitted estimator, with the model and the pattern that it was
# prepared from: those of another fit are other objects. It is neither pickled nor written to files.
_PREPARED: WeakKeyDictionary[Any, tuple[Any, Any, Any]] = WeakKeyDictionary()


class DensityEstimator(KindsOfColumns, AcceptsMissing, Shown, TransformerMixin, BaseEstimator):
    """Base class of estimators whose `model_` is a density.

    With `columns` other than "numeric" rows are coded by `table_`, and `model_` is one of coded
    values (`models.columns`): what both kinds of models are asked for has the same names.
    """

    _takes_cell_sd = True  # whether the model takes the noise of single values
    knows_cell_sd_ = False  # whether the fit was given some
    scale_: Array | None

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to the observed values of X.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Array, masked array, sparse matrix, pandas, polars or pyarrow, a Dask array or frame, or
            the path of a file (`eigengap.open_source`); NaN marks a missing value.
        """
        self._fit(X, sample_weight)
        return self

    def _wants_scatter(self, source: Source) -> bool:
        """Whether complete rows are fitted from their d x d scatter, which the first pass finds."""
        return self._fits_scatter and not self.scale and source.n_features <= LARGEST_DENSE

    def _fit(self, X: Any, sample_weight: Any, cell_sd: Any = None) -> None:
        require_checkpoint(self)
        if self._takes_kinds:
            self._fit_kinds(X, sample_weight, cell_sd)
            return
        rows = as_source(
            X, sample_weight=sample_weight, cell_sd=cell_sd, missing_values=self.missing_values
        )
        source = look_first(rows, scatter=self._wants_scatter(rows))
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        require_frequencies(source.observed().sum_w)
        with checkpointed(self, source) as checkpointer:
            unit = self._column_scale(source) if self.scale else None
            scaled = source if unit is None else Rescaled(source, unit)
            fit = self._fit_rows(scaled, checkpointer)
            keep_features(self, X, source)  # only now: a fit may fail
            self.__dict__.pop("table_", None)  # of an earlier fit
            self._keep(source, fit, unit)

    def _fit_kinds(self, X: Any, sample_weight: Any, cell_sd: Any) -> None:
        """Fit columns of several kinds."""
        self._require_for_kinds(cell_sd)
        table, rows = CodedTable.learned(X, self.columns, sample_weight, self.missing_values)
        require_names(X)
        self._fit_table(rows.present(), table)
        keep_features(self, X, table)

    def _fit_table(self, source: Source, table: CodedTable) -> None:
        """Fit coded rows behind columns that are known."""
        require_frequencies(source.observed().sum_w)
        with checkpointed(self, source) as checkpointer:
            fit = self._fit_coded(source, table, checkpointer)
            self.n_features_in_, self.table_ = table.n_features, table
            if table.names is not None:
                self.feature_names_in_ = np.array(table.names, dtype=object)
            self._keep_coded(source, fit)

    def _require_for_kinds(self, cell_sd: Any) -> None:
        """Refuse parameters that have no meaning for columns of several kinds."""
        if cell_sd is not None:
            raise ValueError(
                f"cell_sd {NUMERIC_ONLY}: a cell of another kind has no error in units"
            )

    def _fit_coded(
        self, source: Source, table: CodedTable, checkpointer: FileCheckpointer | None
    ) -> Any:
        raise NotImplementedError

    def _keep_coded(self, source: Source, fit: Any) -> None:
        """As `_keep`, of what `_fit_coded` has found."""
        raise NotImplementedError

    _fits_scatter = True  # whether complete rows are fitted from their d x d scatter

    def _column_scale(self, source: Source) -> Array:
        """(d,) by which scale=True divides."""
        return column_scale(source)

    def _fit_rows(self, rows: Source, checkpointer: FileCheckpointer | None) -> Any:
        raise NotImplementedError

    def _keep(self, source: Source, fit: Any, unit: Array | None) -> None:
        """Set the fitted attributes in data units, and warn of what makes them mean less."""
        raise NotImplementedError

    def _seed(self, checkpointer: FileCheckpointer | None) -> int:
        """Drawn from random_state, or the one that an interrupted fit had drawn."""
        seed = seed_of(self.random_state)
        return seed if checkpointer is None else checkpointer.recall("seed", seed)

    # Input ---------------------------------------------------------------------------------

    def _source(self, X: Any, cell_sd: Any = None) -> Source:
        check_is_fitted(self, "model_")
        if cell_sd is not None and not self._takes_cell_sd:
            raise TypeError(
                f"{type(self).__name__} takes no cell_sd; PPCA and FactorAnalysis take it"
            )
        if self.table_ is not None:
            self._require_for_kinds(cell_sd)
            return coded_of_new(self, X, self.table_)
        if cell_sd is None and self.knows_cell_sd_:
            warn(
                "the model was fitted with cell_sd, and these rows come without: their cells are "
                "taken to have the model's own noise alone. Pass cell_sd here too (zeros if the "
                "cells are that good)",
                ForgottenCellSdWarning,
            )
        return source_of_new(self, X, cell_sd=cell_sd, missing_values=self.missing_values)

    def _like(self, X: Any, values: Array) -> Any:
        """Values (n, d) as the type of X: of columns of several kinds, in their own types."""
        return like_input(self, X, values) if self.table_ is None else self.table_.decode(X, values)

    def _map(self, X: Any, fn: Callable[..., Array], cell_sd: Any = None) -> Array:
        """fn(rows), or fn(rows, cell_sd), over X, block by block; float32 for float32."""
        return self._mapped(self._source(X, cell_sd), fn)

    @staticmethod
    def _mapped(source: Source, fn: Callable[..., Array]) -> Array:
        kind = source.dtype
        return source.map(lambda block: on_dense(block, fn).astype(kind, copy=False))

    # Latent variables ----------------------------------------------------------------------

    def posterior(self, X: Any, *, cell_sd: Any = None) -> Any:
        """Posterior of the latent variables of every row, missing values marginalised.

        Parameters
        ----------
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, besides the model's own noise; 0 or NaN where
            there is none.

        Returns
        -------
        Posterior
            `mean` (n_samples, n_components), `cov` (one matrix per pattern of missing values),
            `std`. Of a mixture a MixturePosterior: `resp` (n_samples, n_mixture_), and
            `components`, for each the `Posterior` of z given that the row belongs to it.
        """
        source = self._source(X, cell_sd)
        values = source.collect()
        dense = values if isinstance(values, np.ndarray) else values.toarray()
        known = source.collect_cell_sd()
        return self.model_.posterior(dense, *(() if known is None else (known,)))

    def reconstruct(self, X: Any, kind: str = "posterior", *, cell_sd: Any = None) -> Any:
        """Rows as the model expects them without noise.

        Parameters
        ----------
        kind : {"posterior", "optimal"}
            "posterior" is E[W z + mu | x], shrunk towards the mean as the noise demands; "optimal"
            is the projection onto the components (of a mixture, onto those of the most probable
            component), of least squared error.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`; with kind="posterior" only.

        Returns
        -------
        table of X's type, of shape (n_samples, n_features)
        """
        check_is_fitted(self, "model_")
        if kind not in ("posterior", "optimal"):
            raise ValueError(f'kind must be "posterior" or "optimal", got {kind!r}')
        if kind == "optimal" and cell_sd is not None:
            raise ValueError(
                'kind="optimal" is a projection, which takes no noise of cells; use '
                'kind="posterior", or leave cell_sd out'
            )
        if kind == "optimal" and self.table_ is not None:
            raise ValueError(f'kind="optimal" {NUMERIC_ONLY}; use kind="posterior"')
        of = self.model_.denoised if kind == "posterior" else self._project
        return self._like(X, self._map(X, of, cell_sd))

    def _project(self, X: Array) -> Array:
        return self.model_.project(X)

    # Missing values ------------------------------------------------------------------------

    def impute(self, X: Any, return_std: bool = False, *, cell_sd: Any = None) -> Any:
        """Impute every missing value by its expected value given the observed ones of its row.

        Parameters
        ----------
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`: a noisy one weighs less in
            the prediction of the others. It is returned as it is, like every observed value.

        Returns
        -------
        imputed : table of X's type
            Observed values are as they were.
        std : table of X's type
            Standard deviation of each imputed value, 0 for observed ones. It includes the
            uncertainty of the parameters, so that 95 % intervals cover about 95 % on small tables
            too (docs/uncertainty.md), and of a mixture that between components. Only if return_std.

        Notes
        -----
        A frame comes back with floating-point columns throughout. The means are those of `model_`.
        Where several components of a mixture are probable the distribution has several modes:
        `sample_imputations` draws from it.
        """
        check_is_fitted(self, "model_")
        if not return_std:
            return self._like(X, self._map(X, self.model_.conditional_mean, cell_sd))
        predictive = self._uncertainty()

        def mean_and_std(*rows: Array) -> Array:
            mean, variance = predictive.conditional(*rows)
            return np.hstack([mean, np.sqrt(variance)])

        imputed, std = np.hsplit(self._map(X, mean_and_std, cell_sd), 2)
        if self.table_ is not None:
            return self._like(X, imputed), self.table_.deviations(X, std)
        return self._like(X, imputed), like_input(self, X, std)

    def intervals(self, X: Any, level: float = 0.95, *, cell_sd: Any = None) -> tuple[Any, Any]:
        """Lower and upper ends of an interval for each missing value.

        Quantiles of what the model predicts given the observed values of the row, the uncertainty
        of its parameters included: with equal probability the truth lies below and above. Of
        columns of several kinds they are those of the values, as skewed as the column, and within
        its range.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Probability with which the truth lies inside.
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`.

        Returns
        -------
        low, high : tables of X's type
            Observed values are their own ends.
        """
        check_is_fitted(self, "model_")
        require_level(level)
        predictive = self._uncertainty()

        def ends(rows: Array, *known: Array) -> Array:
            return np.hstack(predictive.intervals(rows, level, *known))

        low, high = np.hsplit(self._map(X, ends, cell_sd), 2)
        return self._like(X, low), self._like(X, high)

    def level_probabilities(self, X: Any) -> dict[Any, Array]:
        """Probabilities of the levels of each column that has levels, by column: (n_samples, K).

        The order of the levels is that of `levels_`; an observed level has probability 1. Only
        where `columns` is not "numeric".
        """
        check_is_fitted(self)
        if self.table_ is None:
            raise ValueError('columns="numeric" knows no levels; fit with columns="auto"')
        found = self._map(X, self.model_.probabilities)
        levels = self.table_.levels()
        ends = np.cumsum([len(each) for each in levels.values()])
        return dict(zip(levels, np.split(found, ends, axis=1), strict=False))

    def explain(self, X: Any, *, cell_sd: Any = None) -> Surprises:
        """How improbable each observed value is given the other observed values of its row.

        A value is predicted as if it had been missing, the uncertainty of the parameters included.

        Parameters
        ----------
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`.

        Returns
        -------
        Surprises
            `p`, small for values that do not fit their rows; `expected`; `kinds`; `worst(k)` lists
            the k least probable values of each row. Where a row has one wrong value, others that
            correlate with it look improbable too: `NoveltyDetector.explain` removes them in turn.

        Examples
        --------
        >>> import numpy as np
        >>> from eigengap import PPCA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 1)) + 0.3 * rng.normal(size=(200, 4))
        >>> X[7, 2] += 4.0
        >>> found = PPCA(1).fit(X).explain(X)
        >>> int(found.p[:, 2].argmin())
        7
        >>> found.worst(1)[7][0].column
        'x2'
        """
        check_is_fitted(self, "model_")
        predictive, impute, table = self._uncertainty(), self.model_.conditional_mean, self.table_

        def of_rows(rows: Array, *known: Array) -> Array:
            p, expected = predictive.surprises(rows, *known)
            own = rows[:, : p.shape[1]]  # details of cells may follow
            missing = np.isnan(own)
            if missing.any():
                expected = np.where(missing, impute(rows, *known), expected)
            # NaN stands for what cannot be computed
            return np.hstack([np.nan_to_num(own), np.where(missing, -1.0, p), expected])

        values, p, expected = np.hsplit(map_rows(self._source(X, cell_sd), of_rows), 3)
        p[p < 0.0] = np.nan
        if table is None:
            names = [str(name) for name in getattr(self, "feature_names_in_", [])]
            names = names or [f"x{j}" for j in range(p.shape[1])]
            kinds: dict[Any, str] = dict.fromkeys(names, "continuous")
            tables = like_input(self, X, p), like_input(self, X, expected)
        else:
            kinds = table.described()
            names = [table.key(j) for j in table.used]
            tables = table.numbers(X, p), table.decode(X, expected)

        return Surprises(*tables, kinds, tuple(names), p, values, expected, table)

    def sample_imputations(
        self, X: Any, m: int, random_state: Any = None, *, cell_sd: Any = None
    ) -> Iterator[Any]:
        """Draw the missing values m times from their distribution given the observed ones.

        The parameters are drawn anew for each table, from their uncertainty, so that estimates
        from the m tables can be pooled by Rubin's rules.

        Parameters
        ----------
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`.

        Yields
        ------
        table of X's type
            X with its missing values imputed by one joint draw. Of columns of several kinds all
            draws have the same types: an integer column of 8 or 16 bits that cannot hold every
            value of its kind is floating-point in all of them.
        """
        check_is_fitted(self, "model_")
        require_count("m", m, "tables")
        rng = np.random.default_rng(seed_of(random_state))
        predictive = self._uncertainty()
        source = self._source(X, cell_sd)  # what is refused is refused before the first table
        plain = X if self.table_ is None else self.table_.for_draws(X)

        def drawn() -> Any:
            model = predictive.draw(rng)

            def sample(rows: Array, *known: Array) -> Array:
                return model.sample_conditional(rows, rng, *known)

            return self._like(plain, self._mapped(source, sample))

        return (drawn() for _ in range(m))

    @property
    def predictive_(self) -> Any:
        """`model_` with the uncertainty of its parameters, prepared once for each fit."""
        if self.table_ is not None:
            return self.model_  # which has it
        model, pattern = self.model_, self.evidence_
        kept = _PREPARED.get(self)
        if kept is None or kept[0] is not model or kept[1] is not pattern:
            kept = _PREPARED[self] = (model, pattern, self._predictive())
        return kept[2]

    def _predictive(self) -> Any:
        raise NotImplementedError

    def _uncertainty(self) -> Any:
        """`predictive_`; a class that promises no density warns where it has none to give."""
        return self.predictive_

    # The density ---------------------------------------------------------------------------

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw new rows from the fitted density: (n_samples, n_features)."""
        check_is_fitted(self, "model_")
        require_count("n_samples", n_samples, "rows")
        drawn = self._drawn_from.sample(n_samples, np.random.default_rng(seed_of(random_state)))
        return drawn if self.table_ is None else self.table_.rows(drawn)

    @property
    def _drawn_from(self) -> Any:
        return self.model_

    def score_samples(self, X: Any, *, cell_sd: Any = None) -> Array:
        """Log-likelihood of the observed values of every row: (n_samples,).

        Parameters
        ----------
        cell_sd : table of X's shape, default=None
            Known standard deviation of each value, as in `posterior`.
        """
        check_is_fitted(self, "model_")
        return map_rows(self._source(X, cell_sd), self.model_.log_likelihood)

    def score(self, X: Any, y: Any = None, *, cell_sd: Any = None) -> float:
        """Mean log-likelihood of the rows that have an observed value; 0 where none has."""
        check_is_fitted(self, "model_")

        def scored(block: Block) -> Array:
            values = block.values
            dense = isinstance(values, np.ndarray)
            observed = ~np.isnan(values).all(axis=1) if dense else np.ones(values.shape[0])
            return np.column_stack([on_dense(block, self.model_.log_likelihood), observed])

        scores, observed = self._source(X, cell_sd).map(scored).T
        return float(np.mean(scores[observed > 0])) if observed.any() else 0.0

    def get_covariance(self) -> Array:
        """Covariance of the fitted density: (n_features, n_features)."""
        check_is_fitted(self, "model_")
        return self.model_.covariance()


# Warnings of columns --------------------------------------------------------------------------


def warn_of_few(source: Source, q: int) -> None:
    """Warn of columns observed in so few rows that their loadings and noise fit them exactly."""
    few = observed_too_seldom(source, q)
    if len(few):
        counts = source.observed().per_column
        warn(
            f"too few rows show a value in {named_columns(source.names, few, counts)}: with "
            f"{q} component{'' if q == 1 else 's'} a column needs {q + 2} before its noise can be "
            "estimated. Its standard deviations are guessed from other columns",
            FewCellsWarning,
        )


def warn_of_units(source: Source, psi: Array) -> None:
    """Warn of columns that vary far less than the noise that all columns share."""
    small = far_below_noise(source, psi)
    if len(small):
        warn(
            "the noise variance, one for all columns, is far larger than the whole variance of "
            f"{named_columns(source.names, small)}: the columns differ too much "
            "in size, and standard deviations of imputed values are wrong. Use "
            f"{words().parameter('scale', True)}, or a noise that differs by column "
            f"({words().model('FactorAnalysis')})",
            UnitsWarning,
        )


def warn_of_unlinked(source: Source, d: int | None = None) -> None:
    """Warn of groups of columns, among the first d, that no row, nor a chain of rows, links."""
    groups = [group[group < d] if d is not None else group for group in unlinked_groups(source)]
    groups = [group for group in groups if len(group)]
    if len(groups) > 1:
        some = "; ".join(named_columns(source.names, group) for group in groups[:MOST_GROUPS])
        more = f"; and {len(groups) - MOST_GROUPS} more" if len(groups) > MOST_GROUPS else ""
        warn(
            f"the columns fall into {len(groups)} groups, and no row has values in more than one "
            f"({some}{more}): the data do not determine how they are related, not even the sign. "
            "Imputations of one group from another, and covariances between them, are arbitrary",
            UnlinkedColumnsWarning,
        )


def warn_of_constants(source: Source, variance: Array) -> None:
    """Warn of constant columns, in which a noise variance that all columns share finds none."""
    constant = constant_columns(source, variance)
    if len(constant):
        one, named = len(constant) == 1, named_columns(source.names, constant)
        is_, it, makes = ("is", "it", "makes") if one else ("are", "they", "make")
        warn(
            f"{named} {is_} constant: {it} {makes} the noise variance that all columns share too "
            "small, and with it standard deviations of values imputed in the other columns. "
            f"Leave {'it' if one else 'them'} out",
            ConstantColumnWarning,
        )
