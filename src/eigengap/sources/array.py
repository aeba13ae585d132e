"""Tables in memory: ndarray, masked array, scipy.sparse, lists of rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.sources.base import (
    Block,
    ObservedCells,
    Rows,
    Source,
    dense_rows,
    empty_rows,
    least_keys,
    seed_of,
)
from eigengap.sources.blocked import BlockedSource, merge_stream
from eigengap.sources.cells import WRITTEN, Refused, objects_to_float, refusal
from eigengap.sources.checks import (
    EXACT,
    RESHAPE,
    check_not_empty,
    check_sparse_finite,
    check_two_dimensional,
    count_missing,
    is_long,
    resolve_columns,
    warn_of_rounded,
    warn_rounded,
)
from eigengap.sources.wording import show
from eigengap.wording import words

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
BLOCK_BYTES = 16 << 20  # several threads have one each; fits cut further to fit the cache
ROW_BLOCK_BYTES = 1 << 20  # where rows are made of rows: some five such tables are held meanwhile
LEAST_ROWS = 1024  # of these, or rows with the same missing values would rarely share a block


class ArraySource(BlockedSource):
    """A table (n, d) in memory, cut into blocks of consecutive rows that are views of it.

    Validating is not a pass: `passes` counts `reduce` and `map`.
    """

    def __init__(
        self,
        values: Rows,
        *,
        weight: Array | None = None,
        cell_sd: Array | None = None,
        names: tuple[str, ...] | None = None,
        block_bytes: int = BLOCK_BYTES,
        block_rows: int | None = None,
    ) -> None:
        check_not_empty(values.shape)
        self.n_rows: int
        self.n_rows, self.n_features = values.shape
        self.is_sparse = not isinstance(values, np.ndarray)
        self.dtype = values.dtype
        self.names = names
        self.passes = 0
        self.weight = weight
        self.cell_sd = cell_sd
        self.has_cell_sd = cell_sd is not None
        self._values = values
        if self.is_sparse:
            check_sparse_finite(values)
        self.has_missing: bool = not self.is_sparse and count_missing(values, names) > 0
        self._kept: tuple[Block, ...] | None = None
        self.rows_per_block = _rows_per_block(values, block_bytes, block_rows)

    def _blocks(self) -> Iterable[Block]:
        if not self.has_missing:
            return self._cut(self.rows_per_block)
        if self._kept is None:  # views of the table; what is kept are their masks
            self._kept = tuple(self._cut(self.rows_per_block))
        return self._kept

    def _row_blocks(self) -> Iterator[Block]:
        most = max(1, ROW_BLOCK_BYTES // (F8.itemsize * self.n_features))
        return self._cut(min(self.rows_per_block, max(most, LEAST_ROWS)))

    def _cut(self, step: int) -> Iterator[Block]:
        n = self.n_rows
        for start in range(0, n, step):
            stop = min(start + step, n)
            weight = None if self.weight is None else self.weight[start:stop]
            cell_sd = None if self.cell_sd is None else self.cell_sd[start:stop]
            yield Block(_rows(self._values, start, stop), weight, cell_sd, start)

    def sample(self, k: int, rng: np.random.Generator) -> Array:
        """k distinct rows; weights are frequencies, so a heavy row is drawn more often."""
        present = self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))
        if not 0 <= k <= present:
            raise ValueError(f"cannot draw {k} distinct rows from {present}")
        at, _ = least_keys(k, seed_of(rng), 0, self.n_rows, self.weight)
        return dense_rows(self._values, at)

    def collect(self) -> Rows:
        return self._values

    def collect_cell_sd(self) -> Array | None:
        return self.cell_sd

    def present(self) -> ArraySource:
        kept = np.flatnonzero(self.is_present())
        return self if len(kept) in (0, self.n_rows) else self.only(kept)

    def is_present(self) -> NDArray[np.bool_]:
        """Which rows have a positive weight and an observed value: (n,)."""
        found = np.ones(self.n_rows, dtype=bool) if self.weight is None else self.weight > 0
        if self.has_missing:
            found[empty_rows(self._values)] = False
        return found

    def only(self, rows: NDArray[np.intp]) -> ArraySource:
        """Some of the rows."""
        return ArraySource(
            self._values[rows],
            weight=None if self.weight is None else self.weight[rows],
            cell_sd=None if self.cell_sd is None else self.cell_sd[rows],
            names=self.names,
        )

    def observed(self) -> ObservedCells:
        return self._observed

    @cached_property
    def _observed(self) -> ObservedCells:
        if self.has_missing:
            return merge_stream(map(ObservedCells.of, self._blocks()))
        w = self.weight
        rows = self.n_rows if w is None else int(np.count_nonzero(w))
        sum_w = float(rows) if w is None else float(np.sum(w))
        return ObservedCells(rows, sum_w, np.full(self.n_features, rows, dtype=np.intp))


# What kind of container X is. A class is recognised by the package that it comes from, so that none
# of these packages is imported for the sake of looking.
FRAMES = frozenset({"pandas", "polars", "pyarrow", "modin", "cudf", "narwhals"})
DASK = frozenset({"dask", "dask_expr"})


def library_of(X: Any, libraries: frozenset[str] = FRAMES) -> str | None:
    """Name of the data-frame library that X comes from, None where it is not of one."""
    roots = (base.__module__.partition(".")[0] for base in type(X).__mro__)
    return next((root for root in roots if root in libraries), None)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return library_of(X, DASK) is not None


def is_field(X: Any) -> bool:
    """Whether X is a DataArray or Dataset of xarray."""
    return any(
        base.__name__ in ("DataArray", "Dataset") and base.__module__.partition(".")[0] == "xarray"
        for base in type(X).__mro__
    )


def is_sparse(X: Any) -> bool:
    """Whether X is of scipy.sparse."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(X))


def select_columns(X: Any, columns: Any) -> NDArray[Any]:
    """The chosen columns of an array or list of rows, before anything is asked of the others."""
    array = X if np.ma.isMaskedArray(X) else _to_ndarray(X)
    check_two_dimensional(array)
    return np.asanyarray(array[:, resolve_columns(columns, None, array.shape[1])])


def dense_to_float(X: Any) -> NDArray[Any]:
    """X as a native float32 or float64 ndarray (n, d), itself where it is one; mask becomes NaN."""
    if type(X) is np.ndarray and X.dtype in (F4, F8) and X.ndim == 2 and X.flags.aligned:
        return X
    if np.ma.isMaskedArray(X):
        return _masked_to_float(X)
    array = _to_ndarray(X)
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported\n{array}\n")
    if array.dtype.names is not None:
        raise ValueError(
            "Input X is a structured array; make it two-dimensional with "
            "numpy.lib.recfunctions.structured_to_unstructured(X)"
        )
    check_two_dimensional(array)
    if kind in "fiub":
        with np.errstate(over="ignore"):  # too large for float64 becomes inf, refused later
            floats = array.astype(F4 if kind == "f" and array.itemsize == 4 else F8, copy=False)
        warn_of_rounded(floats, is_long(array.dtype), None)
        return floats if floats.flags.aligned else floats.copy()
    check_not_empty(array.shape)
    if kind == "O":
        return _objects_to_float(array)
    if kind in "mM":
        raise ValueError(
            f"{words().table} holds dates or times ({array.dtype}), e.g. {show(array[0, 0])} at "
            f"row {words().number(0)}, column 0; convert them to numbers first"
        )
    return _objects_to_float(array.astype(object))  # text


def sparse_to_float(X: Any, positions: list[int] | None = None) -> Any:
    """Any scipy.sparse X as a canonical CSR array of float32 or float64 (n, d); X is not changed.

    Canonical: sorted column indices, no duplicates.
    """
    import scipy.sparse

    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported\n{X}\n")
    if X.ndim != 2:
        raise ValueError(f"Expected 2D input, got input with shape {X.shape}.\n{RESHAPE}")
    csr = scipy.sparse.csr_array(X)
    if positions is not None:
        csr = csr[:, positions]
    was_long = is_long(csr.dtype)
    csr = csr.astype(F4 if csr.dtype == F4 else F8, copy=False)
    if was_long and np.max(np.abs(csr.data), initial=0.0) >= EXACT:
        at = int(np.argmax(np.abs(csr.data) >= EXACT))
        row = int(np.searchsorted(csr.indptr, at, side="right")) - 1
        warn_rounded(str(int(csr.indices[at])), f"{csr.data[at]:.17g}", row)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _masked_to_float(X: Any) -> NDArray[Any]:
    data, mask = np.ma.getdata(X), np.ma.getmask(X)
    if mask is np.ma.nomask:
        return dense_to_float(data)
    if data.dtype.kind == "O" or is_long(data.dtype):  # what is under the mask need not be any
        data = data.copy()
        data[mask] = None if data.dtype.kind == "O" else 0
    floats = dense_to_float(data)
    return np.where(mask, floats.dtype.type(np.nan), floats)


def _to_ndarray(X: Any) -> NDArray[Any]:
    if isinstance(X, np.ndarray):
        return np.asarray(X)
    try:
        array = np.asarray(X)
    except ValueError:
        if isinstance(X, list | tuple) and all(hasattr(row, "__len__") for row in X):
            lengths = [len(row) for row in X]
            row = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
            if row is not None:
                raise ValueError(
                    f"The rows of X differ in length: row 0 has {lengths[0]} values, row {row} has "
                    f"{lengths[row]}"
                ) from None
        raise
    if array.dtype.kind in "US":  # a single word makes NumPy turn numbers into text
        array = np.asarray(X, dtype=object)
    return array


def _objects_to_float(array: NDArray[Any]) -> Array:
    columns = [objects_to_float(array[:, j], str(j)) for j in range(array.shape[1])]
    refused = [c for c in columns if isinstance(c, Refused)]
    if not refused:
        return np.column_stack(columns)  # type: ignore[arg-type]
    foreign = next((c for c in refused if c.is_object), None)
    if foreign is not None:  # TypeError and its words as float() has them, as scikit-learn demands
        raise TypeError(
            f"float() argument must be a string or a real number, not {foreign.kind}: "
            f"{foreign.example} at row {words().number(foreign.row)}, column {foreign.label}"
        )
    numeric = [str(j) for j, c in enumerate(columns) if not isinstance(c, Refused)]
    raise refusal(refused, numeric, {WRITTEN: "X.astype(float)"})


def _rows(values: Rows, start: int, stop: int) -> Rows:
    """Rows start to stop as a view; scipy's own slice of a CSR array would copy them."""
    if start == 0 and stop == values.shape[0]:
        return values
    if isinstance(values, np.ndarray):
        return values[start:stop]
    low, high = values.indptr[start], values.indptr[stop]
    # Set piece by piece, for the constructor copies views of a much larger array.
    part = type(values)((stop - start, values.shape[1]), dtype=values.dtype)
    part.data, part.indices = values.data[low:high], values.indices[low:high]
    part.indptr = values.indptr[start : stop + 1] - low
    part.has_canonical_format = True
    return part


def _rows_per_block(values: Rows, block_bytes: int, block_rows: int | None) -> int:
    if block_rows is not None:
        if block_rows < 1:
            raise ValueError(f"block_rows must be at least 1, got {block_rows}")
        return block_rows
    n = int(values.shape[0])
    if isinstance(values, np.ndarray):
        size = values.nbytes
    else:
        size = values.data.nbytes + values.indices.nbytes + values.indptr.nbytes
    blocks = min(n, max(1, -(-size // max(1, block_bytes))))
    return -(-n // blocks)  # blocks of nearly equal size


def in_memory(source: Source) -> ArraySource:
    """The source with all rows in memory; too many of them are refused."""
    if isinstance(source, ArraySource):
        return source
    rows, weight = source.collect(), source.weight
    if weight is not None and len(weight) != rows.shape[0]:  # files leave out rows of weight 0
        weight = weight[weight > 0]
    cell_sd = source.collect_cell_sd()
    return ArraySource(rows, weight=weight, cell_sd=cell_sd, names=source.names)
