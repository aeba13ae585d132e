"""What every estimator shares: parameters, columns, names, tags, blocks of rows, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from eigengap import __version__
from eigengap.estimators.shared.progress import progress_line
from eigengap.estimators.shared.sklearn_compat import (
    Interval,
    _check_feature_names_in,
    _get_feature_names,
)
from eigengap.exceptions import OverflowingCellError
from eigengap.fitting.columns.details import Limited, with_limits
from eigengap.fitting.gaussian.problem import LOST_IN_SUMS, GaussianFit
from eigengap.fitting.optimise.loop import Checkpointer, Silent, Watch
from eigengap.linalg import Array
from eigengap.persistence.atomic import require_writable
from eigengap.persistence.checkpoint import Checkpoint, FileCheckpointer
from eigengap.persistence.fingerprint import fingerprint
from eigengap.persistence.kinds import kind_of
from eigengap.printable import bare
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import (
    Block,
    FieldSource,
    Source,
    as_source,
    check_two_dimensional,
    field_like,
    in_memory_table,
    is_field,
    is_field_path,
    library_of,
    like,
    quote,
    require_unique,
)
from eigengap.wording import words

DENSE_BYTES = 64 << 20  # of a sparse table that are made dense at a time
LARGEST_CELL = 1e140  # beyond which squares, in units of small noise, leave float64
MOST_NAMED = 5  # columns in one message
SAME_CELLS = (
    " Another field has other cells without a value: give the DataArray itself, or "
    "source.same_columns(X) with the source of the fit."
)

# Parameters -----------------------------------------------------------------------------------

NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
AT_LEAST_ONE = [Interval(Integral, 1, None, closed="left")]


def keep_parameters(estimator: Any, given: dict[str, Any]) -> None:
    """Set the parameters of `__init__`, its locals(), as they were given."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


def require_count(name: str, value: Any, what: str) -> None:
    """Refuse to draw no rows or tables, or a fraction of one."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(
            f"{name}, the number of {what} to draw, must be a positive integer, got {value!r}"
        )


def most_components(source: Source) -> int:
    """The most that can be asked for: as many as rows, and as columns."""
    return int(min(source.observed().count, source.n_features))


def require_rank(q: int, source: Source) -> None:
    """Refuse more components than rows or columns."""
    most = most_components(source)
    if q > most:
        raise ValueError(
            f"{words().parameter('n_components', q)} must be at most {most}, the smaller of "
            "the number of rows "
            f"({source.observed().count:g}) and of columns ({source.n_features})"
        )


def require_components(q: int | float, source: Source, svd_solver: str) -> None:
    """Refuse what scikit-learn's solver of that name refuses, in its words."""
    most = most_components(source)
    bound = f"min(n_samples, n_features)={most} with svd_solver="
    if svd_solver == "arpack" and q == most:
        raise ValueError(
            f"{words().parameter('n_components', q)} must be strictly less than "
            f"{bound}'arpack'; 'full' finds all"
        )
    least = 1 if svd_solver in ("arpack", "randomized") else 0
    if not least <= q <= most:
        named = "full" if svd_solver == "auto" else svd_solver
        raise ValueError(
            f"{words().parameter('n_components', q)} must be between {least} and "
            f"{bound}{named!r}: at most {most}, the "
            f"smaller of the number of rows ({source.observed().count:g}) and of columns "
            f"({source.n_features})"
        )


def seed_of(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


# Tags and names -------------------------------------------------------------------------------


class AcceptsMissing:
    """Tags of an estimator that takes missing values, sparse tables and float32."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class NamedComponents:
    """Names of the columns of `transform`; subclasses have `n_components_` and `_prefix`."""

    _prefix = "PC"

    def get_feature_names_out(self: Any, input_features: Any = None) -> Any:
        """Names of the columns that `transform` gives, as in scikit-learn: pca0, pca1, ..."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        name = type(self).__name__.lower()
        return np.array([f"{name}{k}" for k in range(self.n_components_)], dtype=object)

    @property
    def component_names_(self: Any) -> list[str]:
        """PC1, PC2, ...: what charts, reports and the command line call the components."""
        return [f"{self._prefix}{k + 1}" for k in range(self.n_components_)]


# Columns --------------------------------------------------------------------------------------
#
# scikit-learn looks at X itself. A path, a source or a Dask collection is opaque to it: there the
# source that was made of it answers.


def keep_features(estimator: BaseEstimator, X: Any, source: Source | CodedTable) -> None:
    """Remember the columns of X as those of the fit; only after it, for a fit may fail."""
    names: Any = source.names
    X = _without_limits(X)
    if in_memory_table(X):
        require_unique(names)
        with _printable():
            names = _get_feature_names(X)
    estimator.n_features_in_ = source.n_features
    if names is None:
        estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    else:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def require_names(X: Any) -> None:
    """scikit-learn's refusal of names that are none, before the work."""
    with _printable():
        table = _without_limits(X)
        if hasattr(table, "iloc") and hasattr(table, "columns"):  # narwhals has words of its own
            require_unique(tuple(map(str, table.columns)))
        _get_feature_names(table)


def _without_limits(X: Any) -> Any:
    return X.table if isinstance(X, Limited) else X


@contextmanager
def _printable() -> Iterator[None]:
    """scikit-learn's message about foreign names, without what a terminal would act on."""
    try:
        yield
    except ValueError as error:
        said = "\n".join(map(bare, str(error).split("\n")))
        if said == str(error):
            raise
        raise type(error)(said) from None


def source_of_new(estimator: BaseEstimator, X: Any, **how: Any) -> Source:
    """`as_source` of new rows, refused where their columns are not those of the fit.

    A field may have values in cells in which the fit had none, and the other way round: the columns
    of the fit are taken from it.
    """
    if is_field(X) or is_field_path(X):
        how["columns"] = list(estimator.feature_names_in_)
    source = as_source(X, **how)
    check_features(estimator, X, source)
    return source


def coded_of_new(estimator: BaseEstimator, X: Any, table: CodedTable) -> Source:
    """Coded rows of new ones, refused where their columns are not those of the fit."""
    if in_memory_table(X):
        if library_of(X) is None:
            check_two_dimensional(X if hasattr(X, "ndim") else np.asarray(X, dtype=object))
        check_names(estimator, X)
    return table.source(X)


def as_fitted(values: NDArray[Any], float32: bool) -> NDArray[Any]:
    """A fitted attribute in the type of the rows of the fit.

    It stays in float64 where float32 would overflow, or would lose a value to underflow that is
    more than rounding relative to the largest: a variance is the square of a value.
    """
    if not float32:
        return values
    size = np.abs(values[np.isfinite(values)])
    largest = float(np.max(size, initial=0.0))
    low, high = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
    lost = (size < low) & (size > np.finfo(np.float64).eps * largest)
    return values if largest > high or lost.any() else values.astype(np.float32)


def like_input(estimator: BaseEstimator, X: Any, values: NDArray[Any]) -> Any:
    """Values (n, d) as the type of X: a frame for a frame, a field for a field."""
    if isinstance(X, FieldSource):
        return X.to_field(values)
    if is_field(X) or is_field_path(X):
        return field_like(X, values, list(estimator.feature_names_in_))
    return like(X, values)


def check_features(estimator: BaseEstimator, X: Any, source: Source) -> None:
    """Refuse rows whose columns are not those of the fit."""
    if in_memory_table(X):
        require_unique(source.names)
        check_names(estimator, X)
        return
    name, d = type(estimator).__name__, estimator.n_features_in_
    if source.n_features != d:
        raise ValueError(
            f"{words().X} has {source.n_features} features, but {name} is expecting {d} "
            "features as input." + (SAME_CELLS if isinstance(source, FieldSource) else "")
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is None or source.names is None or list(fitted) == list(source.names):
        return
    unknown = [c for c in source.names if c not in set(fitted)]
    if unknown:
        listed = ", ".join(map(quote, unknown[:MOST_NAMED]))
        raise ValueError(
            f"The feature names should match those that were passed during fit: {name} has not "
            f"seen {listed}{', ...' if len(unknown) > MOST_NAMED else ''}. Choose the columns of "
            "the fit with open_source(path, columns=[...])"
        )
    raise ValueError(
        "The feature names should match those that were passed during fit: they are the same, in "
        f"another order. Use open_source(path, columns=list({name.lower()}.feature_names_in_))"
    )


def check_names(estimator: BaseEstimator, X: Any) -> None:
    """Refuse a table in memory whose columns are not those of the fit, before it is read."""
    with _printable():
        validate_data(estimator, _without_limits(X), reset=False, skip_check_array=True)


# Columns of several kinds ---------------------------------------------------------------------


def takes_kinds(columns: Any) -> bool:
    """Whether the parameter `columns` asks for more than numbers."""
    return not (isinstance(columns, str) and columns == "numeric")


class KindsOfColumns:
    """Base of what takes `columns`; an estimator that does not has the default.

    `_takes_kinds` decides how a table is fitted, `table_` how new ones are read.
    """

    columns: Any = "numeric"
    table_: CodedTable | None = None  # of a fit with columns other than "numeric"

    @property
    def _takes_kinds(self) -> bool:
        return takes_kinds(self.columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        return with_kinds(tags) if self._takes_kinds else tags

    @property
    def kinds_(self) -> dict[Any, str]:
        """The kind of every column; only where `columns` is not "numeric"."""
        return self._table("kinds_").described()

    @property
    def levels_(self) -> dict[Any, tuple[Any, ...]]:
        """The levels of every column that has some, in the order of `level_probabilities`."""
        return self._table("levels_").levels()

    @property
    def underlying_names_(self) -> tuple[str, ...]:
        """Names of the Gaussian variables behind the columns: the rows of `loadings_`."""
        return self._table("underlying_names_").underlying_names

    def _table(self, name: str) -> CodedTable:
        if self.table_ is None:
            raise AttributeError(f'{name} goes with columns other than "numeric"')
        return self.table_


def with_kinds(tags: Any) -> Any:
    """scikit-learn's tags of what takes columns of several kinds, which are dense."""
    tags.input_tags.sparse = False
    tags.input_tags.string = tags.input_tags.categorical = True
    return tags


def limited(estimator: Any, X: Any, lower: Any, upper: Any) -> Any:
    """X with limits of some of its cells, where there are any."""
    if lower is None and upper is None:
        return X
    if not takes_kinds(estimator.columns):
        raise ValueError('lower and upper go with columns of several kinds: columns="auto"')
    return with_limits(X, lower, upper)


# Rows -----------------------------------------------------------------------------------------


def on_dense(block: Block, fn: Callable[..., Array]) -> Array:
    """fn of the block's rows (and of cell_sd where there is one); a sparse block in pieces."""
    values, cell_sd = block.values, block.cell_sd
    if isinstance(values, np.ndarray):
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                found = fn(values) if cell_sd is None else fn(values, cell_sd)
        except OverflowingCellError as error:  # of an inner model, which knows this block alone
            raise error.after(block.start) from None
        if np.isnan(found).any():
            _refuse_overflow(values, found, block.start)
        return found
    step = max(1, DENSE_BYTES // (8 * values.shape[1]))
    parts = []
    for start in range(0, block.n_rows, step):
        rows = slice(start, start + step)
        known = () if cell_sd is None else (cell_sd[rows],)
        parts.append(fn(values[rows].toarray(), *known))
    return np.concatenate(parts)


def map_rows(source: Source, fn: Callable[..., Array]) -> Array:
    """fn(rows), or fn(rows, cell_sd), over a source, dense and block by block."""
    return source.map(lambda block: on_dense(block, fn))


def _refuse_overflow(X: Array, found: Array, start: int) -> None:
    """Refuse rows of which nothing could be computed because a value is too large to be squared."""
    rows = np.flatnonzero(np.isnan(found).any(axis=tuple(range(1, found.ndim))))
    for i in rows:
        j = int(np.nanargmax(np.abs(X[i]))) if not np.isnan(X[i]).all() else 0
        if abs(float(X[i, j])) > LARGEST_CELL:
            raise OverflowingCellError(float(X[i, j]), start + int(i), j)


def not_converged(name: str, fit: GaussianFit, max_iter: int) -> str:
    """Why a fit ended before it converged, and what helps."""
    change = float(fit.trace.change[-1])
    if fit.n_iter >= max_iter:
        return (
            f"{name} did not converge in {fit.n_iter} steps (last change {change:.1e}); "
            f"{words().more_steps(max_iter)}"
        )
    model = fit.model
    signal = np.einsum("jq,jq->j", model.W, model.W)
    if not np.any(signal > LOST_IN_SUMS * model.psi):
        return (
            f"{name} stopped after {fit.n_iter} steps before it reached the tolerance: what "
            "further steps would gain is lost in rounding. A larger "
            f"{words().parameter('tol')} accepts such a fit"
        )
    return (
        f"{name} gave up after {fit.n_iter} steps: the noise is so small relative to the signal "
        "that the likelihood cannot be computed well enough to climb further. Fewer components "
        f"help, and {words().parameter('scale', True)} where columns differ much in size"
    )


# Progress and checkpoints ---------------------------------------------------------------------

# Parameters that do not change the path of a fit, only how far it goes or what it reports.
FREE = frozenset({"checkpoint", "max_iter", "verbose", "copy", "n_jobs"})

LONGEST = 16  # entries of a parameter that are described one by one


@contextmanager
def progress_of(estimator: Any, checkpointer: Checkpointer | None = None) -> Iterator[Watch | None]:
    """The callback of a fit's steps, as `verbose` asks; a line is closed whatever happens."""
    if not estimator.verbose:
        yield None if checkpointer is None else Silent(checkpointer)
        return
    line = progress_line(type(estimator).__name__, checkpointer)
    try:
        yield line
    finally:
        line.close()


def require_checkpoint(estimator: Any) -> None:
    """Refuse a checkpoint that cannot be written, before the data are looked at."""
    asked = getattr(estimator, "checkpoint", None)
    if asked is not None:
        require_writable(Checkpoint.of(asked).path)


@contextmanager
def checkpointed(estimator: Any, source: Source) -> Iterator[FileCheckpointer | None]:
    """The checkpointer that the fit's callback is to carry; None where no checkpoint is asked for.

    What runs inside is a fit that sets `converged_`. If it fails or is interrupted, its state is
    written; if it has converged, the file is removed.
    """
    asked = getattr(estimator, "checkpoint", None)
    if asked is None:
        yield None
        return
    parameters = estimator.get_params(deep=False)
    identity = {
        "estimator": type(estimator).__name__,
        "version": __version__,
        "kind_version": kind.version if (kind := kind_of(type(estimator))) else 1,
        "parameters": {k: _described(v) for k, v in parameters.items() if k not in FREE},
        "defaults": {k: _described(v) for k, v in _defaults(estimator).items() if k not in FREE},
        "data": fingerprint(source),
    }
    checkpointer = FileCheckpointer.open(Checkpoint.of(asked), identity)
    try:
        yield checkpointer
    except BaseException as error:
        checkpointer.leave(error)
        raise
    checkpointer.end(converged=bool(estimator.converged_))


def _defaults(estimator: Any) -> dict[str, Any]:
    given = signature(type(estimator)).parameters.values()
    return {each.name: each.default for each in given if each.default is not Parameter.empty}


def _described(value: Any) -> Any:
    """A parameter as JSON that distinguishes it from others; a generator by its type alone."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):  # kinds of columns
        return {str(key): repr(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        entries = np.asarray(value).ravel().tolist()
        first = [_described(entry) for entry in entries[:LONGEST]]
        if len(entries) <= LONGEST:
            return first
        return [*first, f"{len(entries)} entries", repr(value)]
    if isinstance(value, int | float | np.number | np.bool_):
        return repr(value.item() if isinstance(value, np.generic) else value)
    return type(value).__name__
