"""What a fit to columns of several kinds has besides one to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from eigengap.fitting.columns.details import with_limits
from eigengap.linalg import Array
from eigengap.selection.coded_table import CodedTable


class KindsOfColumns:
    """Base of what takes `columns`; an estimator that does not has the default.

    `_takes_kinds` decides how a table is fitted, `table_` how new ones are read.
    """

    columns: Any = "numeric"
    table_: CodedTable | None = None  # of a fit with columns other than "numeric"

    @property
    def _takes_kinds(self) -> bool:
        return not (isinstance(self.columns, str) and self.columns == "numeric")

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


class LevelProbabilities(KindsOfColumns):
    """Base of densities of columns of several kinds."""

    def level_probabilities(self: Any, X: Any) -> dict[Any, Array]:
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


def with_kinds(tags: Any) -> Any:
    """scikit-learn's tags of what takes columns of several kinds, which are dense."""
    tags.input_tags.sparse = False
    tags.input_tags.string = tags.input_tags.categorical = True
    return tags


def limited(estimator: Any, X: Any, lower: Any, upper: Any) -> Any:
    """X with limits of some of its cells, where there are any."""
    if lower is None and upper is None:
        return X
    if isinstance(estimator.columns, str) and estimator.columns == "numeric":
        raise ValueError('lower and upper go with columns of several kinds: columns="auto"')
    return with_limits(X, lower, upper)
