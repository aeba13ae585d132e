"""PPCA of complete tables: the closed form against EM as n, d and q grow.

002 section 4.1 found EM faster than the closed form on a table of 699 x 9, though "not always".
Here both are ours, and both maximise the same likelihood.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from importlib import resources

import numpy as np

from benchmarks import data
from benchmarks.table import Row, against
from benchmarks.timing import interleaved

N = (500, 2_000, 8_000, 32_000)  # at d = 50, q = 5
D = (10, 30, 100, 300, 1_000)  # at n = 2 000, q = 5
Q = (1, 2, 5, 10, 20, 40)  # at n = 2 000, d = 100


def run(quick: bool = False) -> list[Row]:
    return [_row(*case, repeats=2 if quick else 7) for case in _cases(quick)]


def _cases(quick: bool) -> Iterator[tuple[str, np.ndarray, int]]:
    yield "breast cancer, complete rows", breast_cancer(), 3
    for n in N[:2] if quick else N:
        yield "n grows", data.linear_gaussian(n, 50, 5), 5
    for d in D[:3] if quick else D:
        yield "d grows", data.linear_gaussian(2_000, d, 5), 5
    for q in Q[:3] if quick else Q:
        yield "q grows", data.linear_gaussian(2_000, 100, 40), q


def breast_cancer() -> np.ndarray:
    """(683, 9) the rows without gaps of the table that the package carries."""
    path = resources.files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
    with path.open() as lines:
        X = np.genfromtxt(lines, delimiter=",", skip_header=1, usecols=range(1, 10))
    return X[~np.isnan(X).any(axis=1)]


def _row(group: str, X: np.ndarray, q: int, repeats: int) -> Row:
    from eigengap import PPCA

    n, d = X.shape
    print(f"{group}: {n} x {d}, q {q}", file=sys.stderr, flush=True)
    closed = PPCA(q, method="closed_form")
    em = PPCA(q, method="em")
    times = interleaved({"closed": partial(closed.fit, X), "em": partial(em.fit, X)}, repeats)
    apart = (closed.log_likelihood_ - em.log_likelihood_) / n
    return against(
        f"{group}: {n} x {d}, q {q}",
        "closed form against EM",
        times["closed"],
        "eigengap, method=em",
        times["em"],
        note=f"{em.n_iter_} steps of EM; EM ends {apart:.1e} nats/row below",
        group=group, n=n, d=d, q=q, steps=em.n_iter_, short_of_closed_form=apart,
    )  # fmt: skip
