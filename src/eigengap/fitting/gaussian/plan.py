"""Which route a PCA takes, by the shape of the table and what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from eigengap.fitting.eigen.krylov import block_width

Route = Literal["covariance", "gram", "krylov", "svd"]

# scikit-learn's solvers that ask for one route; its "arpack" and "randomized" both ask for a few
# components of a large table, which is what the Krylov route is for.
_NAMED: dict[str, Route] = {
    "full": "svd",
    "covariance_eigh": "covariance",
    "arpack": "krylov",
    "randomized": "krylov",
}
SOLVERS = ("auto", *_NAMED, *get_args(Route))

_SMALL = 64  # both sides at most: the SVD costs microseconds more and loses nothing
LARGEST_DENSE = 20_000  # side of a square matrix that is still formed and diagonalised
_EIGH = 9.0  # time of eigh of a d x d matrix, in units of d^3 multiplications of a product
_PASSES = 25.0  # blocks that a Krylov space needs on a spectrum that is neither flat nor steep
_THIN = 1.7  # how much slower a product with a thin block is, per multiplication


@dataclass(frozen=True)
class Plan:
    """The route and why it was taken."""

    route: Route
    reason: str


def plan(
    n: int | None,
    d: int,
    q: int | None,
    *,
    sparse: bool = False,
    solver: str = "auto",
    whole: bool = True,
) -> Plan:
    """Choose the route for the q leading components of an n x d table.

    n None means a number of rows not known before they are read; q None means all components or
    as many as some share of the variance needs. `solver` is "auto", a name of scikit-learn's
    `svd_solver`, or a route. `whole` is whether the table may be taken into memory, which the Gram
    matrix of a wide one needs.
    """
    if solver not in SOLVERS:
        raise ValueError(f"svd_solver is {solver!r}; it has to be one of {', '.join(SOLVERS)}")
    if solver != "auto":
        asked = _NAMED.get(solver, solver)
        if asked != "krylov":
            return Plan(asked, f"asked for: {solver}")  # type: ignore[arg-type]
        if _krylov_possible(n, d, q):
            return Plan("krylov", f"asked for: {solver}")
    if n is None:
        if d <= LARGEST_DENSE or q is None:
            return Plan("covariance", "one pass; the number of rows is not known")
        return Plan("krylov", "too many columns for their covariance")
    if max(n, d) <= _SMALL:
        return Plan("svd", "small")
    exact: Route = "covariance" if d <= n else "gram"
    if exact == "gram" and not whole:
        if _krylov_possible(n, d, q):
            return Plan("krylov", "wide, and too large to be in memory as a whole")
        if d <= LARGEST_DENSE:
            exact = "covariance"
    side, other = min(n, d), max(n, d)
    if q is None or not _krylov_possible(n, d, q):
        return Plan(exact, "most of the spectrum is wanted")
    if sparse and side > 500:
        return Plan("krylov", "sparse: products with the rows are cheap")
    dense = side * side * (other + _EIGH * side)
    krylov = _PASSES * _THIN * 4.0 * n * d * block_width(q)
    if side <= LARGEST_DENSE and dense <= krylov:
        return Plan(exact, "tall" if exact == "covariance" else "wide")
    return Plan("krylov", "both sides large, few components wanted")


def _krylov_possible(n: int | None, d: int, q: int | None) -> bool:
    """Whether a basis of several blocks fits well within the space."""
    side = d if n is None else min(n, d)
    return q is not None and q > 0 and 4 * block_width(q) <= side
