"""Rows in memory, for methods that look at all pairs of rows or go back and forth among them.

A table in memory is taken as it is. One in a file or on a cluster is read as a whole where it
fits; else rows are drawn from it at random, and that is told.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import SampledWarning
from eigengap.runtime.memory import free_memory
from eigengap.runtime.warnings import warn
from eigengap.sources import ArraySource, as_source
from eigengap.wording import words

SHARE = 0.1  # of the free memory that drawn rows may take
MOST_DRAWN = 20_000


def all_rows(X: Any, **how: Any) -> ArraySource:
    """`as_source` of X with all rows in memory; too many of them are refused."""
    source = as_source(X, **how)
    if isinstance(source, ArraySource):
        return source
    # A row of weight 0 is not read, and its weight is not wanted either.
    weight = None if source.weight is None else source.weight[source.weight > 0]
    return ArraySource(source.collect(), weight=weight, names=source.names)


def whole_table(X: Any, method: str, **how: Any) -> ArraySource:
    """`as_source` of X with its rows in memory: all of them, or a sample of those of a file."""
    source = as_source(X, **how)
    if source.fits_in_memory:
        return all_rows(source)
    source = source.present()
    rows = source.observed().rows
    k = int(min(rows, MOST_DRAWN, SHARE * free_memory() / (8 * source.n_features)))
    warn(
        f"{method} needs its rows in memory, and this table of {rows} rows and "
        f"{source.n_features} columns is too large for that: it is fitted on {k} rows drawn at "
        "random. transform takes all of them, block by block",
        SampledWarning,
    )
    # Heavy rows were drawn more often, so that those drawn count the same.
    return ArraySource(source.sample(k, np.random.default_rng(0)), names=source.names)


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
