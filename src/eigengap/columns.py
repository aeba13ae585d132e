"""Kinds of columns, to name in `columns=` of an estimator.

Examples
--------
>>> from eigengap import LowRankImputer
>>> from eigengap.columns import Bounded, Ordinal
>>> imputer = LowRankImputer(columns={"humidity": Bounded(0, 100), "stage": Ordinal()})
"""

from eigengap.fitting.columns.details import with_limits
from eigengap.fitting.columns.kinds import (
    Binary,
    Bounded,
    Censored,
    Continuous,
    Count,
    Ignored,
    Nominal,
    Ordinal,
    Positive,
)

__all__ = [
    "Binary",
    "Bounded",
    "Censored",
    "Continuous",
    "Count",
    "Ignored",
    "Nominal",
    "Ordinal",
    "Positive",
    "with_limits",
]
