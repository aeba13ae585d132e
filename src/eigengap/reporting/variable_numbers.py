"""Columns against components: what the section on variables is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.plots.numbers.linear import linear_view
from eigengap.plots.numbers.rows import Table
from eigengap.plots.numbers.variables import correlations, variable_contributions
from eigengap.reporting.look import Look
from eigengap.reporting.subject import Subject


@dataclass(frozen=True, eq=False)
class Variables:
    """Columns against components."""

    r: Array  # (d, q) correlations
    contributions: Array | None  # (d, q) per cent; None where the map is not linear
    axes: tuple[str, ...]

    @property
    def cos2(self) -> Array:
        """(d,) share of a column's variance that the components show together, at most 1."""
        return np.minimum((self.r**2).sum(axis=1), 1.0)


def variables_of(subject: Subject, look: Look) -> Variables | None:
    """None for a mixture, and where rows have no columns."""
    if subject.mixture is not None or subject.is_pairwise or not look.n_columns:
        return None
    table = Table(look.X, look.at, look.n_rows, look.gaps.per_column, None)
    r = correlations(subject.bare, table)
    linear = linear_view(subject.bare) is not None
    parts = variable_contributions(subject.bare) if linear else None
    return Variables(r, parts, subject.axis_names(r.shape[1]))
