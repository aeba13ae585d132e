"""Maximum-likelihood factor analysis from a covariance matrix alone.

The model is C = W W' + Psi with Psi diagonal. For given Psi the best W is known (Lawley and Maxwell
1971; Joreskog 1967): with lam, U the leading eigenpairs of A = Psi^-1/2 S Psi^-1/2,

    W = Psi^1/2 U (Lam - I)^1/2,    an eigenvalue below one giving a zero column,

which leaves the profile objective, minus twice the log-likelihood per row without d ln 2 pi,

    f(Psi) = sum_j (ln psi_j + s_jj / psi_j) + sum_{k <= q, lam_k > 1} (ln lam_k - lam_k + 1).

It is minimised over theta = ln psi by Newton's method. Everything happens on the correlation scale,
so that rescaling a column of the data rescales its row of W and its psi and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import inf, log, pi

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigengap.linalg import Array, sign_rule
from eigengap.runtime.threads import one_blas_thread

Mask = NDArray[np.bool_]

EXACT_FROM_START = 150  # features; beyond it Joreskog's Hessian goes first, its steps are cheaper
IMPROPER_BELOW = 0.005  # uniqueness below which several optima are common (factanal's lower bound)
# Features up to which a better optimum is searched for, at a descent for each: than an improper
# one, and than any.
SEARCHED, LISTED = 30, 15
LOOSE, LOOSE_STEPS = 1e-3, 50  # tolerance and most steps of descents that are compared
WORTHWHILE = 1e-5  # twice the nats per row by which another optimum is to be better
DISTINCT = 0.02  # in a uniqueness, as a share of the variance: two optima, not one
LARGEST_STEP = 3.0  # in ln psi: the quadratic model is no guide a factor of twenty away
HESSIAN_CELLS = 1 << 18  # of scratch in which the sums over factors become one product
ONE_THREAD = 250  # features up to which a second BLAS thread only waits
SNAP_BELOW = 0.01  # a uniqueness as small as this may be tried at the floor in one step


@dataclass(frozen=True, eq=False)
class FactorSolution:
    """A maximum-likelihood factor analysis in canonical form.

    W' Psi^-1 W is diagonal and descending; in each column of W the entry that is largest on the
    correlation scale is positive, which no rescaling of the features can change.

    Attributes
    ----------
    W : (d, q) loadings
    psi : (d,) uniquenesses (noise variances), in the units of S
    n_iter : Newton steps taken
    converged : whether the gradient in ln psi fell below the tolerance, or C reached S itself
    log_likelihood_per_row : Gaussian, including d ln 2 pi, for S at divisor n
    heywood : features whose uniqueness lies at the floor: their noise is not identified as positive
    trace : (n_iter + 1,) log-likelihood per row at the start and after each step
    """

    W: Array
    psi: Array
    n_iter: int
    converged: bool
    log_likelihood_per_row: float
    heywood: tuple[int, ...]
    trace: Array


@dataclass(frozen=True, eq=False)
class _Problem:
    R: Array  # (d, d) correlations
    q: int
    tol: float
    lower: float  # the floor of theta
    least: float  # no objective can be lower: its value where C = R


@dataclass(frozen=True, eq=False)
class _Profile:
    """The profile objective at one theta, with what its derivatives need."""

    theta: Array  # (d,) ln psi on the correlation scale
    value: float
    gradient: Array  # (d,) with respect to theta
    lam: Array  # (k,) the leading eigenvalues above one, ascending, k <= q
    U: Array  # (d, k)
    rest: tuple[Array, Array] | None  # the other eigenpairs, where the solver gives them


_Run = tuple[_Profile, list[float]]  # the end of a descent, and its objectives


def fit_factors(
    S: Array,
    q: int,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
    floor: float = 1e-6,
    thorough: bool = True,
) -> FactorSolution:
    """Maximum-likelihood W and psi for the covariance S (d, d) with q factors, 0 <= q < d.

    Parameters
    ----------
    tol : largest entry of the projected gradient (C_jj - s_jj) / psi_j at which to stop
    floor : smallest uniqueness as a share of the variance. It bounds the likelihood where S is
        singular, and catches Heywood cases, which are reported and not fatal.
    thorough : whether to look for better optima, of up to 15 features, or 30 if it is improper

    Raises
    ------
    ValueError
        if S is not a finite square matrix, a feature has no variance, or q or floor is out of
        range.
    """
    if not 0.0 < floor < 1.0:
        raise ValueError(f"floor = {floor} must lie between 0 and 1: it is a share of the variance")
    sd = _standard_deviations(S, q)
    with one_blas_thread() if len(S) <= ONE_THREAD else nullcontext():
        return _solve_from(S / sd / sd[:, None], sd, q, tol, max_iter, floor, thorough)


def _solve_from(
    R: Array, sd: Array, q: int, tol: float, max_iter: int, floor: float, thorough: bool
) -> FactorSolution:
    """The solution for correlations R (d, d); standard deviations sd (d,) give it its units."""
    lam, V = np.linalg.eigh(R)
    singular = lam[0] < 1e-6 * lam[-1]
    least = -inf if singular else float(np.sum(np.log(lam))) + len(R)
    problem = _Problem(R, q, tol, log(floor), least)
    first, *others = _starts(lam, V, problem, ridge=0.1 if singular else 0.0)
    best = _descend(first, problem, max_iter)
    improper = _is_improper(best[0])
    if improper and not _is_perfect(best[0], problem):
        for start in others:
            best = min(best, _descend(start, problem, max_iter), key=_value)
    few = len(R) <= (SEARCHED if improper else LISTED)
    if thorough and few and q > 0 and not _is_perfect(best[0], problem):
        best = _better([*others, *_without_noise(first, problem)], best, problem, max_iter)
        if _is_improper(best[0]):
            best = _searched(best, problem, max_iter)
    return _solution(*best, problem, sd)


def factor_optima(S: Array, q: int, *, tol: float, max_iter: int) -> list[FactorSolution]:
    """The optima that `fit_factors` knows how to find, the best first; one for many features.

    Whatever S is only an estimate of may prefer another of them. Starts are Joreskog's, and with
    one feature after the other at a uniqueness of almost nothing, for most local optima are such
    (improper solutions).
    """
    sd = _standard_deviations(S, q)
    best = fit_factors(S, q, tol=tol, max_iter=max_iter)
    d = len(S)
    if d > LISTED or q == 0:
        return [best]
    R = S / sd / sd[:, None]
    lam, V = np.linalg.eigh(R)
    singular = lam[0] < 1e-6 * lam[-1]
    problem = _Problem(R, q, tol, log(1e-6), -inf)
    first, *_ = _starts(lam, V, problem, ridge=0.1 if singular else 0.0)
    with one_blas_thread():
        ends = [
            _solution(*_descend(theta, problem, max_iter), problem, sd)
            for theta in (first, *_without_noise(first, problem))
        ]
    found: list[FactorSolution] = []
    # Of several that are one the best is kept, whatever the order of the features.
    for end in sorted([best, *ends], key=lambda each: -each.log_likelihood_per_row):
        if all(np.max(np.abs(end.psi - other.psi) / sd**2) >= DISTINCT for other in found):
            found.append(end)
    return found


def _is_improper(at: _Profile) -> bool:
    return bool(np.min(at.theta) < log(IMPROPER_BELOW))


def _value(run: _Run) -> float:
    return run[0].value


def _searched(best: _Run, problem: _Problem, max_iter: int) -> _Run:
    """A better optimum, where one lies at another set of features without noise.

    Improper solutions differ in which uniquenesses vanish. Each of them in turn is put to the
    floor, or taken from it, and descended from; the best is searched from again.
    """
    while True:
        theta = best[0].theta
        at_floor = theta <= problem.lower + 1.0
        starts = []
        for j in range(len(theta)):
            moved = np.maximum(theta, log(IMPROPER_BELOW)) if at_floor[j] else theta.copy()
            moved[j] = log(0.5) if at_floor[j] else problem.lower
            starts.append(moved)
        better = _better(starts, best, problem, max_iter)
        if better is best:
            return best
        best = better


def _without_noise(theta: Array, problem: _Problem) -> list[Array]:
    """Starts like theta, with one feature after the other without noise."""
    return [np.where(np.arange(len(theta)) == j, problem.lower, theta) for j in range(len(theta))]


def _better(starts: list[Array], best: _Run, problem: _Problem, max_iter: int) -> _Run:
    """Where the best of several starts leads, if it is better than the best so far.

    Loose descents show which one it is.
    """
    loose = replace(problem, tol=max(problem.tol, LOOSE))
    runs = [_descend(start, loose, min(max_iter, LOOSE_STEPS)) for start in starts]
    end, _ = min(runs, key=_value)
    if end.value >= best[0].value - WORTHWHILE:
        return best
    return _descend(end.theta, problem, max_iter)


def _standard_deviations(S: Array, q: int) -> Array:
    if S.ndim != 2 or S.shape[0] != S.shape[1]:
        raise ValueError(f"S must be a square covariance matrix, its shape is {S.shape}")
    d = len(S)
    if not 0 <= q < d:
        raise ValueError(f"q = {q} factors for d = {d} features: q must be in 0..{d - 1}")
    if not np.all(np.isfinite(S)):
        raise ValueError("S has entries that are not finite")
    variance = np.diagonal(S)
    flat = np.flatnonzero(variance <= 0.0)
    if len(flat) > 0:
        raise ValueError(
            f"feature {flat[0]} has no variance, so its uniqueness is not defined; "
            f"drop the constant features {flat.tolist()}"
        )
    return np.sqrt(variance)


def _starts(lam: Array, V: Array, problem: _Problem, ridge: float) -> list[Array]:
    """ln psi to start from: Joreskog's choice, the same kept away from zero, and psi = 1.

    Joreskog's is psi_j = (1 - q / 2d) / (R^-1)_jj; a singular R = V Lam V' needs the ridge.
    """
    d = len(lam)
    if problem.q == 0:
        return [np.zeros(d)]
    psi = (1.0 - 0.5 * problem.q / d) * (1.0 + ridge) / (V**2 @ (1.0 / (lam + ridge)))
    joreskog = np.maximum(np.log(np.minimum(psi, 1.0)), problem.lower)
    return [joreskog, np.maximum(joreskog, log(IMPROPER_BELOW)), np.zeros(d)]


def _descend(theta: Array, problem: _Problem, max_iter: int) -> tuple[_Profile, list[float]]:
    """Descent from theta until the gradient vanishes or no step helps: its end and its objectives.

    In high dimension Joreskog's Hessian and a partial eigensolver serve as long as each step halves
    the gradient; where the model fits badly they do not, and the exact Hessian takes over.
    """
    exact = len(problem.R) <= EXACT_FROM_START
    at = _profile(theta, problem, exact)
    values = [at.value]
    while len(values) <= max_iter and not _is_solved(at, problem):
        better = _newton_step(at, problem)
        if better is None and exact:
            break
        slow = better is None or _size(better, problem) > 0.5 * _size(at, problem)
        if better is not None:
            at = better
            values.append(at.value)
        if slow and not exact:
            exact = True
            at = _profile(at.theta, problem, exact)
    return at, values


def _profile(theta: Array, problem: _Problem, exact: bool) -> _Profile:
    """f and its gradient (C_jj - s_jj) / psi_j from the leading eigenpairs of A."""
    d, q = len(theta), problem.q
    scale = np.exp(-0.5 * theta)
    A = problem.R * scale * scale[:, None]
    if exact or q == 0:
        lam, U = np.linalg.eigh(A)
    else:
        lam, U = scipy.linalg.eigh(A, subset_by_index=(d - q, d - 1), check_finite=False)
    cut = len(lam) - min(q, int(np.count_nonzero(lam > 1.0)))
    top, leading = lam[cut:], U[:, cut:]
    value = float(np.sum(theta + scale**2) + np.sum(np.log(top) - (top - 1.0)))
    gradient = 1.0 - scale**2 + leading**2 @ (top - 1.0)
    rest = (lam[:cut], U[:, :cut]) if len(lam) == d else None
    return _Profile(theta, value, gradient, top, leading, rest)


def _projected_gradient(at: _Profile, problem: _Problem) -> Array:
    """The gradient without the entries that a bound holds back.

    The upper bound psi_j <= s_jj needs no care: there the gradient is (W W')_jj >= 0.
    """
    return np.where((at.theta <= problem.lower) & (at.gradient > 0.0), 0.0, at.gradient)


def _is_solved(at: _Profile, problem: _Problem) -> bool:
    stationary = _size(at, problem) <= max(problem.tol, _rounding(at))
    return stationary or _is_perfect(at, problem)


def _is_perfect(at: _Profile, problem: _Problem) -> bool:
    """Whether C = R up to rounding: the global optimum, not unique where q is large."""
    return at.value - problem.least <= _rounding(at)


def _size(at: _Profile, problem: _Problem) -> float:
    return float(np.max(np.abs(_projected_gradient(at, problem))))


def _rounding(at: _Profile) -> float:
    """Rounding of value and gradient: both cancel terms as large as the largest eigenvalue."""
    return 8.0 * float(np.finfo(np.float64).eps) * (len(at.theta) + float(np.sum(at.lam)))


def _newton_step(at: _Profile, problem: _Problem) -> _Profile | None:
    """The first candidate that lowers the objective enough; None if rounding hides any descent."""
    for direction in _directions(at, problem):
        better = _line_search(at, direction, problem)
        if better is not None:
            return better
    return None


def _directions(at: _Profile, problem: _Problem) -> Iterator[Array]:
    """Directions in the order of their promise; the last is steepest descent."""
    g = _projected_gradient(at, problem)
    H = _hessian(at)
    heading = (at.theta < log(SNAP_BELOW)) & (g > 0.0) & (np.diagonal(H) < 2.0 * g)
    if np.any(heading):
        yield _snapped(at, H, g, heading, problem)
    yield _solve(H, g, g != 0.0)
    yield -g / np.maximum(np.abs(g), 1.0)


def _hessian(at: _Profile) -> Array:
    """The Hessian in theta, exact by perturbation of the eigenpairs (m residual, k leading):

    H = P o (sum_m lam_m u_m u_m') + sum_k (u_k u_k') o sum_m c_mk u_m u_m',
    c_mk = (1 - lam_m) (lam_k + lam_m) / (lam_k - lam_m),   o the entrywise product.

    Without the residual ones P o P, P = I - U U' (Joreskog 1967): exact where the model fits, never
    indefinite.
    """
    if at.rest is None:
        return np.asarray((np.eye(len(at.theta)) - at.U @ at.U.T) ** 2)
    lam, V = at.rest
    H = (V @ V.T) * ((V * lam) @ V.T)
    # Factors k in groups: with F = [u_k o u_m] the sums over k and m are one product F diag(c) F'.
    together = max(1, HESSIAN_CELLS // (len(V) * max(len(lam), 1)))
    for start in range(0, len(at.lam), together):
        lam_k, U = at.lam[start : start + together, None], at.U[:, start : start + together]
        gap = np.maximum(lam_k - lam, 1e-12 * lam_k)
        c = (1.0 - lam) * (lam_k + lam) / gap  # (k, m)
        F = (U[:, :, None] * V[:, None, :]).reshape(len(V), -1)
        H += (F * c.ravel()) @ F.T
    return H


def _solve(H: Array, g: Array, free: Mask) -> Array:
    """-H^-1 g on the free coordinates, a descent direction.

    An indefinite H has its negative eigenvalues turned over, so that a step leaves a saddle; the
    small ridge keeps it finite along directions in which the solution is not unique.
    """
    block = H[np.ix_(free, free)]
    ridge = 1e-10 * max(float(np.max(np.diagonal(block))), 1e-3)
    step = np.zeros_like(g)
    try:
        # numpy throughout: scipy has a thread pool of its own, and alternating the two costs more
        # than solving by LU after Cholesky has vouched for the sign
        block[np.diag_indices_from(block)] += ridge
        np.linalg.cholesky(block)
        step[free] = -np.linalg.solve(block, g[free])
    except np.linalg.LinAlgError:
        e, V = np.linalg.eigh(block)
        step[free] = -V @ ((V.T @ g[free]) / np.maximum(np.abs(e), ridge))
    return np.clip(step, -LARGEST_STEP, LARGEST_STEP)


def _snapped(at: _Profile, H: Array, g: Array, heading: Mask, problem: _Problem) -> Array:
    """A direction that sends the features heading for a Heywood case to the floor at once.

    There f is nearly linear in psi_j, so that Newton's step in ln psi_j is a mere -1; in psi_j
    itself it lands below zero where H_jj < 2 g_j. The others see psi_j change by -psi_j.
    """
    others = (g != 0.0) & ~heading
    step = _solve(H, g - H @ heading, others) if np.any(others) else np.zeros_like(g)
    step[heading] = problem.lower - at.theta[heading]
    return step


def _line_search(at: _Profile, direction: Array, problem: _Problem) -> _Profile | None:
    """Backtracking along the projected path (Bertsekas 1982), Armijo's rule.

    Where the descent drowns in rounding, a step counts if it makes the gradient smaller.
    """
    noise = _rounding(at)
    length = 1.0
    for _ in range(12):
        theta = np.clip(at.theta + length * direction, problem.lower, 0.0)
        predicted = float(at.gradient @ (theta - at.theta))
        if predicted >= 0.0:
            return None
        trial = _profile(theta, problem, at.rest is not None)
        if trial.value <= at.value + 1e-4 * predicted and trial.value < at.value:
            return trial
        if -predicted < noise and trial.value <= at.value + noise:
            return trial if _size(trial, problem) < _size(at, problem) else None
        length *= 0.4
    return None


def _solution(last: _Profile, values: list[float], problem: _Problem, sd: Array) -> FactorSolution:
    """The canonical form of the last point, back in the units of S."""
    d = len(sd)
    psi = np.exp(last.theta)
    W = np.zeros((d, problem.q))
    k = len(last.lam)
    W[:, :k] = (last.U * np.sqrt(last.lam - 1.0) * np.sqrt(psi)[:, None])[:, ::-1]
    W *= sign_rule(W)
    constant = d * log(2.0 * pi) + 2.0 * float(np.sum(np.log(sd)))
    trace = -0.5 * (constant + np.array(values))
    return FactorSolution(
        W=W * sd[:, None],
        psi=psi * sd**2,
        n_iter=len(values) - 1,
        converged=_is_solved(last, problem),
        log_likelihood_per_row=float(trace[-1]),
        heywood=tuple(int(j) for j in np.flatnonzero(last.theta <= problem.lower)),
        trace=trace,
    )
