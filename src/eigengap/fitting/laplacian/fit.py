"""Laplacian eigenmaps: the smoothest functions on a graph, as coordinates of its nodes.

Belkin and Niyogi (2003), "Laplacian eigenmaps for dimensionality reduction and data
representation". With weights W_ij >= 0, degrees d_i = sum over j != i of W_ij, D = diag(d) and
L = D - W,

    L y = lam D y,   y' D y = 1     (normalised)        L y = lam y,   y' y = 1     (not)

minimise sum_ij W_ij (y_i - y_j)^2 / 2 = y' L y = lam. The normalised problem is that of the
symmetric matrix I - D^-1/2 W D^-1/2 with x = D^1/2 y, whose eigenvalues lie in [0, 2]; x are also
the leading eigenvectors of D^-1/2 W D^-1/2, a kernel matrix without centring: the constant y,
which centring would take away, is the first of them and is left out.

lam = 0 has as many eigenvectors as the graph has components: those that are constant on each. They
are known without any solver and kept out of it, so that rounding cannot mix them with others; the
others are found by `fitting.laplacian.solver`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eigengap.fitting.eigen.smallest import ANGLE
from eigengap.fitting.laplacian.graph import Laplacian, in_range
from eigengap.fitting.laplacian.solver import NEIGHBOURS, Solver, beyond_null
from eigengap.linalg import Array, sign_rule
from eigengap.runtime.threads import one_blas_thread
from eigengap.wording import words

__all__ = ["NEIGHBOURS", "Laplacian", "LaplacianFit", "Solver", "fit_laplacian", "null_vectors"]

TRUE = 1e-12, 1e-5  # residuals that are accepted: of the largest eigenvalue, or of the own


@dataclass(frozen=True, eq=False)
class LaplacianFit:
    """Coordinates on the nodes of a graph."""

    Y: Array  # (n, q) y' D y = 1, or y' y = 1
    lam: Array  # (q,) ascending
    residuals: Array  # (q,) |M x - lam x| of the unit vectors x = D^1/2 y
    n_components: int  # of the graph
    solver: str  # "null space", "dense", "factorised", "filtered", "elimination", "... in parts"
    certified: bool  # whether Y is as accurate as was asked for, or as rounding allows


def fit_laplacian(
    graph: Laplacian,
    q: int,
    *,
    drop_first: bool = True,
    solver: Solver = "auto",
    angle: float = ANGLE,
    seed: int = 0,
) -> LaplacianFit:
    """The q smoothest functions on the graph, without the constant one if `drop_first`."""
    n, count = graph.n, graph.components[0]
    if q + drop_first > n:
        raise ValueError(
            f"{words().parameter('n_components', q)} is too many for {n} rows (n_samples={n}): "
            f"their graph has {n - drop_first} eigenvectors"
            f"{' besides the constant one' if drop_first else ''}"
        )
    graph, power = in_range(graph)
    null = null_vectors(graph, drop_first, q)
    more = q - null.shape[1]
    used, certified = "null space", True
    Y, lam = null, np.zeros(null.shape[1])
    if more:
        with one_blas_thread():  # a second one only waits, on matrices as thin as these
            found, used = beyond_null(graph, more, solver, angle, seed)
        order = np.argsort(found.lam, kind="stable")
        Y = np.concatenate([null, found.V[:, order] / graph.root], axis=1)
        lam, certified = np.concatenate([lam, found.lam[order]]), found.certified
    residuals = graph.residuals(Y, lam)
    certified &= bool(np.all(residuals <= np.maximum(TRUE[0] * graph.bound, TRUE[1] * lam)))
    if graph.normalized:
        Y = np.ldexp(Y, -power // 2)
    else:
        lam, residuals = np.ldexp(lam, power), np.ldexp(residuals, power)
    return LaplacianFit(Y * sign_rule(Y), lam, residuals, count, used, certified)


def null_vectors(graph: Laplacian, drop_first: bool, most: int | None = None) -> Array:
    """Functions that are constant on every component, orthonormal in D: (n, c), or (n, c - 1).

    With the constant: an indicator of every component, the largest first. Without it, contrasts:
    the largest component against all others, the second against those that are left, and so on.
    The first `most` of them.
    """
    count, labels = graph.components
    volume = np.bincount(labels, weights=graph.mass, minlength=count)
    by_size = np.lexsort((np.arange(count), -np.bincount(labels, minlength=count)))
    rank = np.empty(count, dtype=np.int64)
    rank[by_size] = np.arange(count)
    place, volume = rank[labels], volume[by_size]
    wanted = count - drop_first
    wanted = wanted if most is None else min(wanted, most)
    Y = np.zeros((graph.n, wanted))
    if not drop_first:
        some = place < wanted
        Y[np.flatnonzero(some), place[some]] = 1.0 / np.sqrt(volume)[place[some]]
        return Y
    rest = np.cumsum(volume[::-1])[::-1]  # of this component and those after it
    for c in range(wanted):
        v, after = volume[c], rest[c + 1]
        Y[place == c, c] = np.sqrt(after / (v * (v + after)))
        Y[place > c, c] = -np.sqrt(v / (after * (v + after)))
    return Y
