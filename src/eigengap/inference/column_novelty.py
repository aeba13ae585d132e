"""How improbable a row with columns of every kind is, and which of its cells make it so.

The statistic is that of `models.columns.deviance`, with the reference distributions of
`models.gaussian.reference`: a cell of evidence costs as many parameters as a value of u does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np

from eigengap.inference import novelty
from eigengap.inference.novelty import Explanation, NoveltyStatistics, OddCell, Statistic
from eigengap.linalg import Array
from eigengap.models.columns.deviance import deviances
from eigengap.models.columns.model import ColumnModel
from eigengap.models.gaussian.reference import Reference
from eigengap.selection.coded_table import CodedTable
from eigengap.sources import Source
from eigengap.statistics.expected.fitted import NoiseRatio

ROWS = 1 << 14  # that are looked at together


def log_p(values: Array, model: ColumnModel, law: Reference) -> Array:
    """ln p of D2 of every row of coded values: (n,)."""
    found = deviances(model.columns, model.gaussian, values)
    return law.log_p_D2(found.D2, found.dof)


def parts_of(values: Array, model: ColumnModel) -> Array:
    """(n, 6) what `statistics_of` makes the statistics of."""
    found = deviances(model.columns, model.gaussian, values)
    of_u = novelty.parts_of(model.columns.exact(values), model.gaussian)
    return np.column_stack([found.D2, found.dof, of_u])


def statistics_of(parts: Array, law: Reference) -> NoveltyStatistics:
    """D2 over all cells; T2 and SPE over those of columns that always give their u."""
    D2, dof = parts[:, 0], parts[:, 1]
    of_u = novelty.statistics_of(parts[:, 2:], law)
    return replace(of_u, D2=Statistic(D2, dof, law.log_p_D2(D2, dof)))


def reference_of(model: ColumnModel, source: Source) -> Reference:
    """The reference distributions, from the rows of the fit."""
    ratio = source.reduce(partial(_ratios, model))
    return Reference.of(model.gaussian, source.observed().sum_w, ratio.observed_w, ratio.mean)


def _ratios(model: ColumnModel, block: Any) -> NoiseRatio:
    """Var(u_j | the other cells) / psi_j over the cells of each u."""
    values, psi = block.values, model.gaussian.psi
    w = np.ones(len(values)) if block.weight is None else block.weight
    sums = np.zeros((2, model.columns.width))
    for start in range(0, len(values), ROWS):
        some = slice(start, start + ROWS)
        observed = w[some, None] * (model.columns.encode(values[some]).observed > 0)
        sums[0] += observed.sum(axis=0)
        for _, own, _, cov in model.given_the_others(values[some]):
            variance = np.diagonal(cov, axis1=1, axis2=2) + psi[own]  # of u
            sums[1, own] += np.sum(observed[:, own] * variance, axis=0) / psi[own]
    return NoiseRatio(*sums)


def explain(
    values: Array,
    k: int,
    table: CodedTable,
    labels: Sequence[Any],
    model: ColumnModel,
    law: Reference,
) -> list[Explanation]:
    """The k cells of each row that make it improbable.

    Of each row the cell is removed that is the least probable given the others, then the same of
    what is left.
    """
    values = np.array(values, dtype=np.float64)
    before = np.exp(log_p(values, model, law))
    found: list[list[OddCell]] = [[] for _ in values]
    names = [table.key(j) for j in table.used]
    kinds = table.described()
    for _ in range(min(k, values.shape[1])):
        p, expected = model.surprises(values)
        worst = np.argmin(np.where(np.isnan(p), inf, p), axis=1)
        for i in np.flatnonzero(~np.isnan(p).all(axis=1)).tolist():
            j = int(worst[i])
            value, typical = (table.cell(j, float(each[i, j])) for each in (values, expected))
            kind, tail = kinds[names[j]], float(p[i, j])
            found[i].append(OddCell(str(names[j]), value, typical, kind=kind, p=tail))
            values[i, j] = nan
    after = np.exp(log_p(values, model, law))
    return [
        Explanation(i, labels[i], float(before[i]), tuple(cells), float(after[i]))
        for i, cells in enumerate(found)
    ]
