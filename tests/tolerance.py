"""How far apart two right answers may be: from the dtype and the conditioning of what is computed.

A matrix product, a sum and a decomposition round differently on every processor: kernels add in
another order, keep a product unrounded before it is added (FMA), or spread a sum over more lanes. A
tolerance read off the screen of one machine therefore fails on the next. What holds on all of them
is a bound on the rounding itself, of four kinds here:

* a sum of n terms, in any order (`of_sum`);
* what solves equations whose matrix magnifies errors by its condition number (`of_solution`);
* the place of an optimum, which an objective that is rounded itself cannot tell apart from places
  nearby (`of_optimum`);
* the place of an optimum behind sites of expectation propagation, which settle no farther than they
  are asked to (`of_sites`).

Write `rtol=1e-10` where a defect would be off by far more than rounding and rounding by far less
than 1e-10, by a factor of a hundred on each side; use these where they come closer.
"""

from __future__ import annotations

import numpy as np

from eigengap.models.gaussian.sites import SETTLED

# By Hoeffding's inequality a sum of n roundings exceeds LIKELY sqrt(n) of them with a probability
# of 2 exp(-LIKELY^2 / 2) = 3e-14: never, in all the comparisons of all runs of the suite.
LIKELY = 8.0


def unit(dtype=np.float64) -> float:
    """The largest relative error of one rounding to nearest."""
    return float(np.finfo(dtype).eps) / 2.0


def of_sum(n: int, dtype=np.float64, *, per_term: int = 1) -> float:
    """What a sum of n terms may be off by, relative to the sum of the terms' sizes.

    The worst case is (n + k - 1) u to first order, for k roundings in each term and in any order of
    addition (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1). It takes n
    roundings that all err to one side. Those of data are as good as independent, with mean 0, and
    add up to LIKELY sqrt(n + k) u (Higham and Mary 2019, A new approach to probabilistic rounding
    error analysis). The errors of two sums of one dtype add to sqrt(2) of that, which is likely
    enough still; those of a wider dtype do not count.
    """
    return LIKELY * float(np.sqrt(n + per_term)) * unit(dtype)


def of_solution(A, dtype=np.float64) -> float:
    """What x in A x = b may be off by, relative to its size, by a stable method such as Cholesky's.

    Its rounding is that of A x, magnified by cond(A) (Higham 2002, sections 7.2 and 10.1; here with
    the likely size of rounding in place of its worst case). b' A^-1 b inherits it, and so do
    log-densities of covariance A.
    """
    return of_sum(len(A), dtype) * float(np.linalg.cond(A))


def of_optimum(dtype=np.float64, *, condition: float = 1.0) -> float:
    """What two places of one optimum may differ by, relative to their size.

    Near an optimum f(x + d) - f(x) = d'Hd / 2, and f is known to u |f| at best. A step of relative
    size sqrt(u) changes f by its rounding alone, times sqrt(condition) along a direction in which f
    is flatter than |f| / |x|^2 by the condition number of the problem. So much may lie between fits
    of the same rows in blocks, in a file or on a cluster; the objective itself agrees to `of_sum`.
    """
    return 2.0 * float(np.sqrt(2.0 * unit(dtype) * condition))


def of_sites(*, condition: float = 1.0) -> float:
    """What two fits to columns of several kinds may differ by, relative to their size.

    A site counts as settled within SETTLED standard deviations of its t. Where in there it ends
    depends on the route: compiled kernels move sites one after another, NumPy all at once, and the
    size of a block decides between them. The gradient is off by as much, and the optimum by that
    times the condition number of the problem.
    """
    return SETTLED * condition


def assert_same_optimum(
    found, wanted, what: str = "", *, condition: float = 1.0, sites: bool = False
) -> None:
    """Of fits that iterate: parameters, and what follows from them, relative to their largest."""
    off = (of_sites if sites else of_optimum)(condition=condition)
    size = float(np.nanmax(np.abs(wanted), initial=0.0))
    np.testing.assert_allclose(found, wanted, rtol=off, atol=off * size, err_msg=what)
