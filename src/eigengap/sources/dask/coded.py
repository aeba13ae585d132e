"""Frames of Dask whose columns hold more than numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from eigengap.exceptions import DataError
from eigengap.sources.checks import check_not_empty, missing_codes
from eigengap.sources.coded import MixedTable
from eigengap.sources.dask import cluster, table_of, weight_of
from eigengap.sources.dask.cluster import Labels, in_words
from eigengap.sources.dask.source import DaskSource
from eigengap.sources.dask.tasks import contents
from eigengap.sources.files.paths import needed
from eigengap.sources.levels import Contents, Schema
from eigengap.sources.wording import column


class DaskTable(MixedTable):
    """A dask.dataframe: what its partitions hold is found where they lie."""

    def __init__(self, X: Any, sample_weight: Any, missing_values: Any) -> None:
        needed("A table on Dask", "dask", "dask")
        self._X, self._codes = X, missing_codes(missing_values)
        self._table = table_of(X, of_any_kind=True)
        self._weight: Any = weight_of(sample_weight, self._table)
        self.names, self.n_columns = self._table.names, self._table.n_features

    def schema(self) -> Schema:
        """One pass; with weights in one array another one, which counts the rows."""
        found = self._contents(self._weights())
        check_not_empty((sum(n for n, _ in found), self.n_columns))
        names = self.names or (None,) * self.n_columns
        columns = []
        for j, name in enumerate(names):
            try:
                held = reduce(Contents.merge, (each[j] for _, each in found))
            except ValueError as error:
                label = column(self.names, j)
                raise DataError(f"column {label}: {error}", column=j, name=name) from None
            columns.append(held.column(name))
        return Schema(tuple(columns), self._codes)

    def _weights(self) -> Sequence[Any]:
        """Of each partition, None where every row counts once."""
        parts, w = self._table.parts, self._weight
        if isinstance(w, tuple):
            return w
        if not isinstance(w, np.ndarray):
            return (None,) * len(parts)  # one weight for all rows is as good as none
        rows = [n for n, _ in self._contents((None,) * len(parts))]
        if sum(rows) != len(w):
            raise ValueError(f"sample_weight has {len(w)} entries but X has {sum(rows)} rows")
        parted = tuple(np.split(w, list(accumulate(rows))[:-1]))
        self._weight = parted
        return parted

    def _contents(self, weights: Sequence[Any]) -> list[tuple[int, list[Contents]]]:
        """Rows of each partition, and what its columns hold."""
        parts, make = self._table.parts, cluster.task(contents, "contents")
        made = [make(part, w, k) for k, (part, w) in enumerate(zip(parts, weights, strict=True))]
        labels = Labels(parts)
        for k, one in enumerate(made):
            labels[one.key] = in_words(range(k, k + 1))
        return cluster.compute(made, labels)

    def source(self, schema: Schema, used: Sequence[int]) -> DaskSource:
        own = schema.only(used)
        d = len(used) + 2 * len(own.limited)
        table = table_of(self._X, list(used), of_any_kind=True)
        table = replace(table, n_features=d, names=own.coded_names)
        return DaskSource(table, weight=self._weight, schema=own)

    def frames(self, schema: Schema) -> Iterator[Any]:
        for k in range(self._X.npartitions):
            yield self._X.get_partition(k).compute()

    def whole(self, schema: Schema) -> Any:
        return self._X.compute()
