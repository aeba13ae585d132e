"""What transformers share: parameters, tags, a table in memory, coordinates that come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from eigengap.estimators.shared.base import NamedComponents, seed_of
from eigengap.estimators.shared.display import Shown
from eigengap.estimators.shared.parameters import COUNT as COUNT
from eigengap.estimators.shared.sklearn_compat import Interval, RealNotInt, StrOptions
from eigengap.exceptions import SampledWarning
from eigengap.linalg import Array
from eigengap.runtime.memory import free_memory, require_memory
from eigengap.runtime.warnings import warn
from eigengap.sources import ArraySource, Source, as_source, in_memory
from eigengap.wording import words

# Constraints on parameters that several classes have, for scikit-learn's validation.
FRACTION = Interval(RealNotInt, 0, 1, closed="neither")
COMPONENTS = [COUNT, FRACTION, StrOptions({"auto"}), None]

SHARE = 0.1  # of the free memory that a sample of rows may take
MOST_DRAWN = 20_000  # rows of a sample: methods of all pairs take no more


class Transformer(NamedComponents, Shown, TransformerMixin, BaseEstimator):
    """Base class of the estimators that are no Gaussian densities."""

    # Tags; a class may make them properties, where they depend on its parameters.
    _accepts_missing: Any = True
    _accepts_sparse: Any = True
    _is_pairwise: Any = False  # whether X holds pairs of points, not rows
    _is_positive: Any = False  # whether X must not be negative

    def _seed(self, fixed: bool = True) -> int:
        """A seed from `random_state`; where it is None, 0 if `fixed` and otherwise a random one."""
        if self.random_state is None and fixed:
            return 0
        return seed_of(self.random_state)

    def _forget(self, *names: str) -> None:
        """Delete attributes of an earlier fit, which this one may not have."""
        for name in names:
            self.__dict__.pop(name, None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._accepts_missing
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.pairwise = self._is_pairwise
        tags.input_tags.positive_only = self._is_positive
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# Rows in memory ------------------------------------------------------------------------------


def whole_table(X: Any, method: str, **how: Any) -> ArraySource:
    """`as_source` of X with its rows in memory: all of them, or a random sample of a large file."""
    source = as_source(X, **how)
    if source.fits_in_memory:
        return in_memory(source)
    source = source.present()
    rows = source.observed().rows
    k = int(min(rows, MOST_DRAWN, SHARE * free_memory() / (8 * source.n_features)))
    warn(
        f"{method} needs its rows in memory, and this table of {rows} rows and "
        f"{source.n_features} columns is too large for that: it is fitted on {k} rows drawn at "
        "random. transform takes all of them, block by block",
        SampledWarning,
    )
    # Heavy rows are drawn more often, so that the sample has equal weights.
    return ArraySource(source.sample(k, np.random.default_rng(0)), names=source.names)


def dense_rows(source: Source, way_out: str = "select fewer columns first (PCA)") -> Array:
    """All rows in a float64 array of our own; zeros of a sparse table are zeros."""
    values = source.collect()
    if not isinstance(values, np.ndarray):
        n, d = values.shape
        require_memory(8.0 * n * d, f"a dense copy of {n} sparse rows", way_out)
        values = values.toarray()
    return np.array(values, dtype=np.float64)


def warn_of_empty_rows(
    rows: NDArray[np.intp], are_placed: bool, category: type[Warning] = UserWarning
) -> None:
    """Rows without any observed value take no part in a fit; are they placed all the same?"""
    one = len(rows) == 1
    first = f"row {words().number(int(rows[0]))}{'' if one else ' first'}"
    warn(
        f"{len(rows)} {'row has' if one else 'rows have'} no observed value ({first}), and "
        f"{'takes' if one else 'take'} no part in the fit: coordinates of such a row are "
        f"{'a guess' if are_placed else 'NaN'}",
        category,
    )


# Coordinates given to `inverse_transform` ----------------------------------------------------


def as_latents(X: Any, count: int, what: str, allow_nan: bool = True) -> Array:
    """X (n, count) in float64, or float32 where it is; `what` the columns are, for a message."""
    Z = np.asarray(X)
    if Z.dtype != np.float32:
        Z = Z.astype(np.float64, copy=False)
    if Z.ndim != 2 or Z.shape[1] != count:
        raise ValueError(
            f"inverse_transform expects one column for each of the {count} {what}, as transform "
            f"returns them, got shape {Z.shape}"
        )
    bad = np.isinf(Z) if allow_nan else ~np.isfinite(Z)
    if bad.any():
        i, k = map(int, np.argwhere(bad)[0])
        raise ValueError(
            f"inverse_transform got {Z[i, k]} at row {i}, column {k}: "
            f"{'infinite' if allow_nan else 'missing and infinite'} values are not accepted"
        )
    return Z


def decoded(Z: Array, decode: Callable[[Array], Array]) -> Array:
    """Rows at the latents Z, in the dtype of Z; a row that overflows is an error with its number.

    A NaN in a row of Z may leave one in the decoded row.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        rows = decode(Z).astype(Z.dtype, copy=False)
        total = np.sum(rows)
    if not np.isfinite(total):
        bad = ~np.isfinite(rows).all(axis=1) & np.isfinite(Z).all(axis=1)
        if bad.any():
            raise ValueError(
                f"row {int(np.argmax(bad))} has coordinates so large that inverse_transform "
                f"overflows {Z.dtype}: leave it out"
            )
    return rows
