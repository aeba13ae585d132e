"""`partial_fit`: the model of a stream of batches, of which no row need be kept.

The batches go into a `Stream`; the model is computed when it is first asked for, so that a thousand
small batches in a row cost no thousand eigendecompositions.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from eigengap.estimators.shared.base import check_features, keep_features, progress_of
from eigengap.estimators.shared.density import (
    NUMERIC_ONLY,
    warn_of_constants,
    warn_of_few,
    warn_of_units,
)
from eigengap.estimators.shared.linear import LinearGaussianEstimator, Solved
from eigengap.estimators.shared.sklearn_compat import _fit_context
from eigengap.exceptions import ContinuedFitWarning, LostDigitsWarning
from eigengap.fitting.gaussian.problem import EMOptions, GaussianFit
from eigengap.fitting.online.em import StreamSpec
from eigengap.fitting.online.rows import StreamedRows
from eigengap.fitting.online.stream import Stream, complete, taken_in, together
from eigengap.linalg import Array
from eigengap.runtime.warnings import CapturedWarning, captured, silence, warn
from eigengap.selection.rank import RankChoice
from eigengap.sources import (
    ArraySource,
    Block,
    Rescaled,
    Source,
    as_source,
    require_frequencies,
    require_unique,
    warn_of_codes,
)
from eigengap.statistics.moments import ColumnMoments
from eigengap.wording import counted

# What a fit sets; after partial_fit each is computed when it is first asked for.
SOLVED = frozenset(
    {
        "model_",
        "projection_",
        "spectrum_",
        "scale_",
        "evidence_",
        "log_likelihood_",
        "converged_",
        "n_iter_",
        "trace_",
        "rank_choice_",
        "n_samples_",
        "rotation_",
        "heywood_",
    }
)
FEWEST_LOOKED_AT = 32  # rows in which codes for missing values are looked for
ROUNDING = 1e-14  # of a variance in a covariance matrix, relative to the largest
FEW_DIGITS = 1e-9  # the same, below which fewer than seven digits are left


@dataclass(frozen=True, eq=False)
class _Batches:
    """What an estimator keeps of its batches."""

    stream: Stream
    choice: RankChoice | None = None  # of n_components, once incomplete rows are settled
    told: bool = False  # whether a warning of codes for missing values was given


def _takes_batches(estimator: Any) -> bool:
    """Whether moments are sufficient statistics for the fit."""
    if estimator._takes_kinds or estimator.table_ is not None:
        raise AttributeError(
            f"partial_fit {NUMERIC_ONLY}: kinds, levels and maps of columns are learned from the "
            "whole table. Use fit"
        )
    distribution = getattr(estimator, "distribution", "gaussian")
    if distribution == "gaussian":
        return True
    raise AttributeError(
        "partial_fit takes Gaussian noise only: how much a row counts under "
        f"distribution={distribution!r} depends on all others. Use fit, which reads files too"
    )


class PartialFit(LinearGaussianEstimator):
    """What gives PCA, PPCA and FactorAnalysis their `partial_fit`."""

    tol: float
    n_components: Any
    _batches: _Batches

    @available_if(_takes_batches)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on with another batch of rows, which need not be kept.

        After each call the fitted attributes are those of `fit` on all rows so far: exactly, to
        rounding, where rows are complete, whatever the size and order of the batches. The memory
        is that of a covariance, n_features squared, and it is refused beforehand where there is
        not enough. The model is computed when an attribute or method is first asked for.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            A batch, of any number of rows; NaN marks a missing value.

        Returns
        -------
        self

        Notes
        -----
        Incomplete rows are kept until there are 2 000 of them (or n_features, if that is more), and
        the fit is exact until then. From there on it is online EM, a chunk of that many rows at a
        time: the result depends a little on the order of the rows, not on the size of the batches;
        n_components is chosen with the first chunk, and there is no `log_likelihood_`, as past
        rows are not kept: `score` evaluates the model on rows at hand. docs/streaming.md has more.

        A batch that is refused (an infinite value, other columns) leaves everything as it was.
        `fit` begins anew. After `fit`, partial_fit goes on from the fitted mean and covariance, as
        if all its rows had been complete, and warns unless these say all of its rows.

        Examples
        --------
        >>> import numpy as np
        >>> from eigengap import PPCA
        >>> X = np.random.default_rng(0).normal(size=(1000, 5)) * [4, 3, 2, 1, 1]
        >>> model = PPCA(n_components=2)
        >>> for batch in np.array_split(X, 37):
        ...     _ = model.partial_fit(batch)
        >>> model.n_samples_seen_
        1000
        >>> bool(np.isclose(model.noise_variance_, PPCA(n_components=2).fit(X).noise_variance_))
        True
        """
        # A batch in which all weights are 0 counts for nothing; a whole table may not be like that.
        counts = sample_weight is None or bool(np.any(sample_weight))
        source = _in_memory(
            as_source(
                X,
                sample_weight=sample_weight if counts else None,
                missing_values=self.missing_values,
            )
        )
        is_first = "_batches" not in self.__dict__ and "model_" not in self.__dict__
        if is_first:
            require_unique(source.names)
            before = _Batches(Stream.empty(source.n_features, source.names))
        else:
            check_features(self, X, source)
            before = self.__dict__.get("_batches") or self._of_fit()
        self._require_components(source.n_features, before.stream)
        block = _block(source) if counts else Block(source.collect()[:0], None, None, 0)
        codes = _codes(block, before)
        after = self._taken_in(before, block)
        for code in codes:  # before anything changes, for a warning may be an error
            warn(code.message, code.category)
        if is_first:
            keep_features(self, X, source)
        elif "_batches" not in self.__dict__:
            self._warn_of_continuing()
        self._forget()
        self.is_float32_ = source.dtype == np.float32 and (is_first or self.is_float32_)
        self._batches = replace(after, told=after.told or bool(codes))
        return self

    @property
    def n_samples_seen_(self) -> int:
        """Rows of positive weight, with an observed value, that `partial_fit` has seen."""
        if "_batches" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has seen no batch: call partial_fit")
        return self._batches.stream.n_rows

    def __getattr__(self, name: str) -> Any:
        # Reached only for what is not there, or not yet.
        if name in SOLVED and "_batches" in self.__dict__ and "model_" not in self.__dict__:
            self._solve()
            if name in self.__dict__:
                return self.__dict__[name]
        if name == "log_likelihood_" and "_batches" in self.__dict__:
            raise AttributeError(
                "log_likelihood_ of all rows is not known: rows with missing values were taken in "
                "chunks and not kept. score(X) gives the mean log-likelihood of rows at hand"
            )
        return object.__getattribute__(self, name)  # raises, in a property's words if it is one

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__ or "_batches" in self.__dict__

    # What may be streamed ------------------------------------------------------------------

    def _stream_spec(self) -> StreamSpec:
        """The model asked for, as online EM wants it."""
        spec = self._spec()
        model = spec.specification()
        return StreamSpec(model, self.scale, EMOptions(tol=spec.tol, max_iter=self.max_iter))

    def _require_components(self, d: int, stream: Stream) -> None:
        if not isinstance(self.n_components, Integral):
            return
        q = int(self.n_components)
        if q > d:
            raise ValueError(f"n_components={q} must be at most {d}, the number of columns")
        if stream.settled is not None and stream.settled.q != q:
            raise ValueError(
                f"n_components={q}, but incomplete rows were taken in with {stream.settled.q} and "
                "are not kept. Set it back, or start again with a clone"
            )

    # Taking in -----------------------------------------------------------------------------

    def _of_fit(self) -> _Batches:
        """What `fit` has left to go on from: the model, in place of the moments of its rows."""
        model = self.model_
        if model.gaussian is not model or self.knows_cell_sd_:
            raise ValueError(
                "this model was fitted with Student noise or cell_sd, from which partial_fit "
                "cannot go on: begin with a clone, or call fit on all rows"
            )
        sum_w = self.spectrum_.sum_w
        names = getattr(self, "feature_names_in_", None)
        listed = None if names is None else tuple(map(str, names))
        n_rows = int(getattr(self, "n_samples_", round(sum_w)))
        return _Batches(Stream.of_model(model, n_rows, sum_w, listed))

    def _warn_of_continuing(self) -> None:
        spectrum, q = self.spectrum_, self.n_components_
        if spectrum.complete and spectrum.discarded_variance(q) <= ROUNDING * spectrum.total:
            return  # the covariance of the model is that of the rows
        warn(
            "partial_fit goes on from the model that fit has left, because fit keeps no moments: "
            f"beyond the {counted(q, 'component')} the rows of fit count as noise. Give every "
            "batch to "
            "partial_fit, the first one too, and nothing is lost",
            ContinuedFitWarning,
        )

    def _taken_in(self, before: _Batches, block: Block | None) -> _Batches:
        """With another block; None takes in those that wait."""
        choice = before.choice

        def first_fit(rows: StreamedRows, origin: Array) -> GaussianFit:
            nonlocal choice
            with silence():
                (fit, choice), unit = self._solved(rows, origin)
            return fit if unit is None else replace(fit, model=fit.model.rescaled(unit))

        if block is None:
            stream = complete(before.stream, self._stream_spec(), first_fit)
        else:
            stream = taken_in(before.stream, block, self._stream_spec(), first_fit)
        return replace(before, stream=stream, choice=choice)

    def _forget(self) -> None:
        for name in SOLVED:
            self.__dict__.pop(name, None)

    # Solving -------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Fitted attributes from the stream: all of them, or none where this fails."""
        self._batches = self._taken_in(self._batches, None)
        solved = copy(self)
        solved._solve_stream(self._batches)
        for name in SOLVED & solved.__dict__.keys():
            self.__dict__[name] = solved.__dict__[name]

    def _solve_stream(self, batches: _Batches) -> None:
        spec, stream, rows = self._spec(), batches.stream, batches.stream.rows()
        rows.require_fit(min_rows=2)
        require_frequencies(stream.sum_w)
        if stream.settled is None:
            (fit, choice), unit = self._solved(rows, stream.origin)
        else:
            unit = self._column_scale(rows, stream.origin) if self.scale else None
            how, choice = self._stream_spec(), batches.choice
            with progress_of(self) as watch:
                watched = replace(how.options, watch=watch)
                fit = stream.fit_settled(replace(how, options=watched))
        self._keep_fit((_moved(fit, stream.origin, unit), choice), unit)
        if stream.settled is not None:
            del self.log_likelihood_
        self.evidence_ = stream.evidence(spec.noise, spec.fit_mean)
        if spec.shares_noise and unit is None:
            # Twenty rows with the columns' own variances: all that units are judged by.
            sd = np.sqrt(stream.columns.variance)
            sized = ArraySource(np.tile([sd, -sd], (10, 1)), names=stream.names)
            warn_of_units(sized, fit.model.psi)
        if spec.shares_noise:
            warn_of_constants(rows, stream.columns.variance)
        if spec.noise == "diagonal":
            warn_of_few(rows, fit.model.q)
        elif stream.n_incomplete == 0:
            sd = np.sqrt(stream.columns.variance)
            _warn_of_digits(fit, sd if unit is None else sd / unit)
        self._finish(rows, fit)

    def _solved(self, rows: StreamedRows, origin: Array) -> tuple[Solved, Array | None]:
        """The fit of rows that are all kept, and the columns' scales where scale=True.

        Like the rows, it is measured from the origin.
        """
        shift = rows.reduce(ColumnMoments.of).mean if self._spec().fit_mean else -origin
        unit = self._column_scale(rows, origin) if self.scale else None
        sizes = np.ones(rows.n_features) if unit is None else unit
        fit, choice = self._fit_rows(rows.from_origin(shift, sizes))
        return (_moved(fit, shift, unit), choice), unit

    # Fitting again -------------------------------------------------------------------------

    def refitted(self, source: Source, random_state: int) -> Self:
        """The same estimator, with as many components, fitted to other rows in memory.

        Parameters
        ----------
        source : Source
        random_state : int
            Of further starts, where there are any.
        """
        again = copy(self)
        again.n_components, again.verbose = self.n_components_, False
        again.random_state = random_state
        present = source.present()
        unit = again._column_scale(present) if again.scale else None
        solved = again._fit_rows(present if unit is None else Rescaled(present, unit))
        again._keep_fit(solved, unit)
        again._finish(present, solved[0])
        return again


def _moved(fit: GaussianFit, shift: Array, unit: Array | None) -> GaussianFit:
    """The fit of rows that lie further by `shift`, in units of the data."""
    by = shift if unit is None else shift / unit
    return replace(fit, model=fit.model.rescaled(np.ones(len(by)), by))


def _in_memory(source: Source) -> ArraySource:
    if not isinstance(source, ArraySource):
        raise ValueError(
            "partial_fit takes a batch that is in memory, such as an array or a frame; give a "
            "file, or what else is read block by block, to fit"
        )
    return source


def _block(source: ArraySource) -> Block:
    """A batch as one block, without rows of weight 0 or without any observed value."""
    values, weight, kept = source.collect(), source.weight, source.is_present()
    if not kept.all():
        values, weight = values[kept], None if weight is None else weight[kept]
    return Block(values, weight, None, 0)


def _codes(block: Block, batches: _Batches) -> list[CapturedWarning]:
    """Warnings of codes for missing values, once in a stream.

    A look costs more than a small batch, so there is one whenever the rows have doubled.
    """
    before = batches.stream.n_rows
    after = before + block.n_rows
    if batches.told or after < FEWEST_LOOKED_AT or after.bit_length() == before.bit_length():
        return []
    waiting = batches.stream.waiting
    if waiting and isinstance(block.values, np.ndarray):
        block = together([*waiting, block])
    with captured() as found:
        warn_of_codes(ArraySource(block.values, names=batches.stream.names))
    return found


def _warn_of_digits(fit: GaussianFit, sd: Array) -> None:
    """Warn of variances near the rounding of the covariance that they were taken from.

    Its entries are rounded relative to the standard deviations (d,) of their columns: a component
    of small columns keeps its digits next to a large column.
    """
    q, spectrum = fit.model.q, fit.spectrum
    if spectrum.total <= 0.0 or q == 0:
        return
    entries = float(np.sum(np.abs(fit.axes[:, q - 1]) * sd)) ** 2
    level = min(entries, float(spectrum.lam[0])) or 1.0  # 0 of constant columns alone
    share = float(spectrum.lam[q - 1]) / level
    if q < min(spectrum.d, len(spectrum.lam)):
        share = min(share, spectrum.discarded_variance(q) / float(spectrum.lam[0]))
    if share >= FEW_DIGITS:
        return
    if share > ROUNDING:
        size = f"{share:.0e} of the largest"
        digits = f"determine it to about {int(np.log10(share / ROUNDING)) + 1} digits"
    else:
        size = f"less than {ROUNDING:.0e} of the largest"
        digits = "do not determine it, nor whether it is 0"
    warn(
        f"a variance is {size}: the moments that partial_fit keeps {digits}. fit on the rows "
        "themselves gives all of them",
        LostDigitsWarning,
    )
