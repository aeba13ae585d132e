"""Moments of Gaussians times evidence, and expectation propagation on many rows, by numba.

`tilt` computes what `models.gaussian.evidence.Evidence.tilted` does. `evaluate` makes of the sites
of a row, and of its posterior, the tilted moments and the sites that these propose. `sweep` visits
the sites of a row one after another and takes each change into the row's posterior at once, by a
rank-one update, so that a few sweeps settle where sites that move together overshoot.

All three go through one column of LANES rows at a time. What a loop needs lies in one array at
constant offsets, and exponentials and the normal distribution are polynomials, so that LLVM makes
SIMD of every loop over `r`; what polynomials do not reach is done cell by cell.

Importing this module imports numba and compiles: only `eigengap.compiled.choice` does so.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from eigengap.compiled.cache import compile_cached, part

Array = NDArray[np.float64]

LANES = 128
U = np.uint64  # indices: LLVM does not vectorise over signed ones, which may wrap
LANE = np.uint64(LANES)

# The closed form of an interval keeps ten digits up to here: its normal distribution comes from
# erfcx, which loses none in the tail. `models.gaussian.evidence` says why it is left at all.
TAIL, NARROW, NEGLIGIBLE = 6.0, 0.3, 74.0
LARGEST = 37.0  # bounds beyond: the density is below 1e-297
STEEP = 3.5  # fall of the logarithm of the density up to which few nodes do
FEW, FEW_WEIGHTS = np.polynomial.legendre.leggauss(8)
MANY, MANY_WEIGHTS = np.polynomial.legendre.leggauss(32)
FEW, FEW_WEIGHTS = (FEW + 1.0) / 2.0, FEW_WEIGHTS / 2.0
MANY, MANY_WEIGHTS = (MANY + 1.0) / 2.0, MANY_WEIGHTS / 2.0
MOST_NEWTON, LARGEST_STEP, LARGEST_LOG = 60, 2.0, 700.0
MOST_REACH, CLOSE = 40, 1.01
LEAST_LEFT, LARGEST_SITE = 1e-13, 1e30  # precision, which no cell has
SMALL, STIRLING = 0.1, 15.0  # as in `models.gaussian.evidence`
TOGETHER = 8  # masses whose product is taken before its logarithm

ROOT_HALF, LOG_ROOT_2PI = math.sqrt(0.5), 0.5 * math.log(2.0 * math.pi)
DENSITY = math.exp(-LOG_ROOT_2PI)

_part, _inlined = part(), part(forceinline=True)

# exp(r) for |r| <= ln(2) / 2, and 2^k by the bits of k + 1.5 * 2^52.
TAYLOR = tuple(1.0 / math.factorial(k) for k in range(14))
ROUND, TO_LOG2 = 1.5 * 2.0**52, 1.0 / math.log(2.0)
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


@_inlined
def _exp(x: float) -> float:
    """For x between -700 and 700."""
    y = x * TO_LOG2 + ROUND
    k = y - ROUND
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = TAYLOR[13]
    p = p * r + TAYLOR[12]
    p = p * r + TAYLOR[11]
    p = p * r + TAYLOR[10]
    p = p * r + TAYLOR[9]
    p = p * r + TAYLOR[8]
    p = p * r + TAYLOR[7]
    p = p * r + TAYLOR[6]
    p = p * r + TAYLOR[5]
    p = p * r + TAYLOR[4]
    p = p * r + TAYLOR[3]
    p = p * r + TAYLOR[2]
    p = p * r + TAYLOR[1]
    p = p * r + TAYLOR[0]
    power = np.int64((np.float64(y).view(np.int64) + np.int64(1023)) << np.int64(52))
    return p * power.view(np.float64)


def _chebyshev() -> tuple[float, ...]:
    """(1 + 2x) erfcx(x) / 2 in t = (x - k) / (x + k): Shepherd and Laframboise (1981)."""
    t = np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    x = CENTRE_OF_ERFCX * (1.0 + t) / (1.0 - t)
    fitted = np.polynomial.chebyshev.chebfit(t, 0.5 * (1.0 + 2.0 * x) * erfcx(x), 20)
    return tuple(np.polynomial.chebyshev.cheb2poly(fitted).tolist())


CENTRE_OF_ERFCX = 3.75
ERFCX = _chebyshev()


@_inlined
def _half_erfcx(x: float) -> float:
    """erfcx(x / sqrt(2)) / 2 for x >= 0: the upper tail of N(0, 1) over exp(-x^2 / 2)."""
    x = x * ROOT_HALF
    t = (x - CENTRE_OF_ERFCX) / (x + CENTRE_OF_ERFCX)
    p = ERFCX[20]
    p = p * t + ERFCX[19]
    p = p * t + ERFCX[18]
    p = p * t + ERFCX[17]
    p = p * t + ERFCX[16]
    p = p * t + ERFCX[15]
    p = p * t + ERFCX[14]
    p = p * t + ERFCX[13]
    p = p * t + ERFCX[12]
    p = p * t + ERFCX[11]
    p = p * t + ERFCX[10]
    p = p * t + ERFCX[9]
    p = p * t + ERFCX[8]
    p = p * t + ERFCX[7]
    p = p * t + ERFCX[6]
    p = p * t + ERFCX[5]
    p = p * t + ERFCX[4]
    p = p * t + ERFCX[3]
    p = p * t + ERFCX[2]
    p = p * t + ERFCX[1]
    p = p * t + ERFCX[0]
    return p / (1.0 + 2.0 * x)


# Tilted moments ---------------------------------------------------------------------------------

# Where the LANES values of each quantity lie.
LOWER, UPPER, A, V = U(0), U(LANES), U(2 * LANES), U(3 * LANES)  # evidence, and its Gaussian
MASS, LOG_MASS, MEAN, VARIANCE = (U(k * LANES) for k in range(4, 8))  # the answer: mass exp(log)
HARD, MODE, SLOPE, PEAK, RATE, REACH = (U(k * LANES) for k in range(8, 14))
SUM0, SUM1, SUM2 = (U(k * LANES) for k in range(14, 17))
T, T_VARIANCE, TAU, NU, SPREAD, LEFT = (U(k * LANES) for k in range(17, 23))
EVIDENCE, PRODUCT, CHANGE, MOVING, SHRINK, PULL, BY_TAU = (U(k * LANES) for k in range(23, 30))
QUANTITIES = 30


@_part
def _integrated(near: float, far: float) -> tuple[float, float, float]:
    """Moments of N(0, 1) on (near, far], |near| <= |far|, about the near end."""
    outward = max(near, 0.0)
    width = min(far - near, NEGLIGIBLE / (math.sqrt(outward**2 + NEGLIGIBLE) + outward))
    is_flat = width * (outward + width) < STEEP
    nodes, weights = (FEW, FEW_WEIGHTS) if is_flat else (MANY, MANY_WEIGHTS)
    mass, first, second = 0.0, 0.0, 0.0
    for k in range(len(nodes)):
        s = width * nodes[k]
        density = math.exp(-s * (near + s / 2.0)) * weights[k]
        mass += density
        first += density * s
        second += density * s**2
    offset = first / mass
    log_mass = math.log(mass * width) - 0.5 * near**2 - LOG_ROOT_2PI
    return log_mass, near + offset, second / mass - offset**2


@_part
def _intervals(G: Array) -> None:
    """LOWER < u <= UPPER."""
    for r in range(LANE):
        a, v = G[A + r], G[V + r]
        sd = math.sqrt(v)
        lower, upper = (G[LOWER + r] - a) / sd, (G[UPPER + r] - a) / sd
        mirrored = abs(lower) > abs(upper)  # then -x lies on the side of the upper tail
        near = -upper if mirrored else lower
        far = -lower if mirrored else upper
        G[HARD + r] = 1.0 if near > TAIL else (1.0 if far - near < NARROW else 0.0)
        near = min(max(near, -LARGEST), LARGEST)
        far = min(max(far, -LARGEST), LARGEST)
        of_near, of_far = _exp(-0.5 * near * near), _exp(-0.5 * far * far)
        above = of_near * _half_erfcx(abs(near))
        above = above if near >= 0.0 else 1.0 - above
        mass = above - of_far * _half_erfcx(far)
        at_near, at_far = DENSITY * of_near / mass, DENSITY * of_far / mass
        mean = at_near - at_far
        share = 1.0 + near * at_near - far * at_far - mean * mean
        G[MASS + r], G[LOG_MASS + r] = mass, 0.0
        G[MEAN + r] = a - sd * mean if mirrored else a + sd * mean
        G[VARIANCE + r] = v * share
    for r in range(LANE):
        if G[HARD + r] != 0.0:
            a, sd = G[A + r], math.sqrt(G[V + r])
            lower, upper = (G[LOWER + r] - a) / sd, (G[UPPER + r] - a) / sd
            if abs(lower) > abs(upper):
                log_mass, mean, share = _integrated(-upper, -lower)
                mean = -mean
            else:
                log_mass, mean, share = _integrated(lower, upper)
            G[MASS + r], G[LOG_MASS + r] = 1.0, log_mass
            G[MEAN + r], G[VARIANCE + r] = a + sd * mean, G[V + r] * share


# What the logarithm of the joint density has fallen by at s from its mode, and its derivative.
# The rate is the mean there, or its `_share` where there is a shape; `slope` is
# what Newton's method has left of it. LLVM makes SIMD of a loop only without the other's branch.


@_inlined
def _poisson_fall(s: float, rate: float, slope: float, v: float) -> tuple[float, float]:
    power = _exp(s)
    p = TAYLOR[11]
    p = p * s + TAYLOR[10]
    p = p * s + TAYLOR[9]
    p = p * s + TAYLOR[8]
    p = p * s + TAYLOR[7]
    p = p * s + TAYLOR[6]
    p = p * s + TAYLOR[5]
    p = p * s + TAYLOR[4]
    p = p * s + TAYLOR[3]
    p = p * s + TAYLOR[2]
    beyond = p * s * s if abs(s) < SMALL else power - 1.0 - s
    return rate * beyond + s * (0.5 * s / v - slope), rate * (beyond + s) + s / v - slope


@_inlined
def _binomial_fall(
    s: float, rate: float, slope: float, v: float, total: float
) -> tuple[float, float]:
    # `models.gaussian.evidence` says why: a share above 1/2 is given by the other one, negative.
    p, t = abs(rate), s if rate >= 0.0 else -s
    grown = math.expm1(min(t, LARGEST_LOG))
    evidence = total * (math.log1p(p * grown) + max(t - LARGEST_LOG, 0.0) - p * t)
    by = total * p * ((1.0 - p) * grown / (1.0 + p * grown))
    fall = evidence + s * (0.5 * s / v - slope)
    return fall, (by if rate >= 0.0 else -by) + s / v - slope


@_inlined
def _share(mean: float, shape: float) -> float:
    """mean / (mean + shape), or where it is above 1/2 what is left of it to 1, negative."""
    return mean / (mean + shape) if mean <= shape else -shape / (mean + shape)


@_part
def _log_gamma_rest(x: float) -> float:
    """ln Gamma(x) - (x ln x - x), as `models.gaussian.evidence` does."""
    if x < STIRLING:
        return math.lgamma(x) - x * math.log(x) + x
    w = 1.0 / (x * x)
    series = (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w / 1680.0))) / x
    return LOG_ROOT_2PI - 0.5 * math.log(x) + series


@_part
def _log_density(y: float, log_mean: float, shape: float) -> float:
    """ln p(y) of a count of this mean: its largest value, less what it has fallen by."""
    is_poisson = math.isinf(shape)
    log_mean = min(log_mean, LARGEST_LOG)
    if y == 0.0:
        mean = math.exp(log_mean)
        return -mean if is_poisson else -shape * math.log1p(mean / shape)
    s = log_mean - math.log(y)
    largest = -_log_gamma_rest(y) - math.log(y)
    if is_poisson:
        return largest - _poisson_fall(max(s, -LARGEST_LOG), y, 0.0, math.inf)[0]
    largest += _log_gamma_rest(y + shape) - _log_gamma_rest(shape)
    return largest - _binomial_fall(s, _share(y, shape), 0.0, math.inf, y + shape)[0]


@_part
def _start(a: float, v: float, y: float, log_size: float, is_poisson: bool) -> float:
    """Where to look for the mode, as `models.gaussian.evidence.Counts._mode` does."""
    x = a + log_size
    log_y = math.log(y) if y > 0.0 else -math.inf
    if not is_poisson:
        return a
    if x > log_y:
        return min(x, math.log(max(y + max(x, 0.0) / v, 1.0))) - log_size
    return max(x, min(log_y - 1.0, x + 0.6 * v * y)) - log_size


@_part
def _counts(G: Array, shape: float) -> None:
    """LOWER is y, of mean exp(u + UPPER): the mode by Newton's method, integrals about it."""
    is_poisson = math.isinf(shape)
    for r in range(LANE):
        G[MODE + r] = _start(G[A + r], G[V + r], G[LOWER + r], G[UPPER + r], is_poisson)
    for _ in range(MOST_NEWTON):
        for r in range(LANE):
            at, a, v, y = G[MODE + r], G[A + r], G[V + r], G[LOWER + r]
            mean = _exp(min(max(at + G[UPPER + r], -LARGEST_LOG), LARGEST_LOG))
            weight = 1.0 / (1.0 + mean / shape)
            slope = (y - mean) * weight - (at - a) / v
            step = slope / (mean * weight * weight * (1.0 + y / shape) + 1.0 / v)
            G[MODE + r] = at + min(max(step, -LARGEST_STEP), LARGEST_STEP)
            G[HARD + r] = abs(step)
        largest = 0.0
        for r in range(LANE):
            largest = max(largest, G[HARD + r])  # NaN, a missing value, is passed over
        if largest < 1e-10:
            break
    for r in range(LANE):
        at, y, v = G[MODE + r], G[LOWER + r], G[V + r]
        mean = _exp(min(max(at + G[UPPER + r], -LARGEST_LOG), LARGEST_LOG))
        G[RATE + r] = mean if is_poisson else _share(mean, shape)
        # What Newton's method has left of the slope, zero where it has converged.
        G[SLOPE + r] = (y - mean) / (1.0 + mean / shape) - (at - G[A + r]) / v
        G[SUM0 + r], G[SUM1 + r], G[SUM2 + r] = 0.0, 0.0, 0.0
    for side in (-1.0, 1.0):
        _reach(G, shape, side)
        for k in range(len(MANY)):
            _add_node(G, shape, MANY[k], MANY_WEIGHTS[k])
    for r in range(LANE):
        at, y, v = G[MODE + r], G[LOWER + r], G[V + r]
        value = _log_density(y, at + G[UPPER + r], shape) - LOG_ROOT_2PI - 0.5 * math.log(v)
        value -= 0.5 * (at - G[A + r]) ** 2 / v
        offset = G[SUM1 + r] / G[SUM0 + r]
        G[MASS + r], G[LOG_MASS + r] = 1.0, value + math.log(G[SUM0 + r])
        G[MEAN + r] = at + offset
        G[VARIANCE + r] = G[SUM2 + r] / G[SUM0 + r] - offset * offset


@_part
def _reach(G: Array, shape: float, side: float) -> None:
    """How far from the mode the density is negligible: Newton's method from outside.

    The fall is convex, so that no step goes too far. The evidence only narrows the Gaussian, which
    gives the first bound; that of a Poisson count above its mode, whose fall is exponential, the
    second.
    """
    half = NEGLIGIBLE / 2.0
    for r in range(LANE):
        s = math.sqrt(NEGLIGIBLE * G[V + r])
        if math.isinf(shape) and side > 0.0:
            s = min(s, math.log1p(half / G[RATE + r] + s))
        G[REACH + r] = side * s
    for _ in range(MOST_REACH):
        if math.isinf(shape):
            for r in range(LANE):
                s = G[REACH + r]
                fall, by = _poisson_fall(s, G[RATE + r], G[SLOPE + r], G[V + r])
                G[REACH + r] = s - (fall - half) / by if fall > CLOSE * half else s
                G[HARD + r] = fall
        else:
            for r in range(LANE):
                s, total = G[REACH + r], G[LOWER + r] + shape
                fall, by = _binomial_fall(s, G[RATE + r], G[SLOPE + r], G[V + r], total)
                G[REACH + r] = s - (fall - half) / by if fall > CLOSE * half else s
                G[HARD + r] = fall
        largest = 0.0
        for r in range(LANE):
            largest = max(largest, G[HARD + r])  # NaN, a missing value, is passed over
        if largest <= CLOSE * half:
            break


@_part
def _add_node(G: Array, shape: float, node: float, weight: float) -> None:
    if math.isinf(shape):
        for r in range(LANE):
            s = G[REACH + r] * node
            fall, _ = _poisson_fall(s, G[RATE + r], G[SLOPE + r], G[V + r])
            G[HARD + r] = fall
    else:
        for r in range(LANE):
            s, total = G[REACH + r] * node, G[LOWER + r] + shape
            fall, _ = _binomial_fall(s, G[RATE + r], G[SLOPE + r], G[V + r], total)
            G[HARD + r] = fall
    for r in range(LANE):
        reach = G[REACH + r]
        s = reach * node
        density = _exp(-min(max(G[HARD + r], -LARGEST_LOG), LARGEST_LOG)) * abs(reach) * weight
        G[SUM0 + r] += density
        G[SUM1 + r] += density * s
        G[SUM2 + r] += density * s * s


@_part
def _tilted(G: Array, is_count: bool, shape: float) -> None:
    """MASS to VARIANCE of the lanes; those of a missing cell mean nothing."""
    if is_count:
        _counts(G, shape)
    else:
        _intervals(G)


def _tilt(
    is_count: NDArray[np.bool_], first: Array, second: Array, shape: Array,
    mean: Array, variance: Array, log_mass: Array, u: Array, of_u: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill `log_mass`, `u` and `of_u` of the rows from start to stop: (c, m) each."""
    G = np.ones(QUANTITIES * LANES)
    for at in range(start, stop, LANES):
        end = min(at + LANES, stop)
        for j in range(first.shape[1]):
            for i in range(at, end):
                r = U(i - at)
                G[LOWER + r], G[UPPER + r] = first[i, j], second[i, j]
                G[A + r], G[V + r] = mean[i, j], variance[i, j]
            _tilted(G, is_count[j], shape[j])
            for i in range(at, end):
                r = U(i - at)
                if math.isnan(first[i, j]):
                    log_mass[i, j], u[i, j], of_u[i, j] = 0.0, mean[i, j], variance[i, j]
                else:
                    log_mass[i, j] = math.log(G[MASS + r]) + G[LOG_MASS + r]
                    u[i, j], of_u[i, j] = G[MEAN + r], G[VARIANCE + r]


# Sites ------------------------------------------------------------------------------------------


@_inlined
def _to_cavity(G: Array, psi: float) -> None:
    """A and V from T, T_VARIANCE, TAU and NU."""
    for r in range(LANE):
        v = G[T_VARIANCE + r]
        left = max(1.0 - G[TAU + r] * v, LEAST_LEFT)
        G[LEFT + r] = left
        G[SPREAD + r] = v / left
        G[A + r] = (G[T + r] - v * G[NU + r]) / left
        G[V + r] = v / left + psi


def _evaluate(
    is_count: NDArray[np.bool_], first: Array, second: Array, shape: Array,
    psi: Array, tau: Array, nu: Array, mean: Array, variance: Array, gain: Array,
    new_tau: Array, new_nu: Array, evidence: Array, change: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """`models.gaussian.sites` for rows from start to stop; (m, c) each, the last two (c,).

    `mean` and `variance` are those of t, and become those of u.
    """
    m = first.shape[0]
    G = np.zeros(QUANTITIES * LANES)
    for at in range(start, stop, LANES):
        size = U(min(LANES, stop - at))
        lane0 = U(at)
        for r in range(LANE):
            G[EVIDENCE + r], G[PRODUCT + r], G[CHANGE + r] = 0.0, 1.0, 0.0
            G[LOWER + r], G[UPPER + r] = np.nan, np.nan
        for j in range(m):
            for r in range(size):
                i = lane0 + r
                G[LOWER + r], G[UPPER + r] = first[j, i], second[j, i]
                G[T + r], G[T_VARIANCE + r] = mean[j, i], variance[j, i]
                G[TAU + r], G[NU + r] = tau[j, i], nu[j, i]
            _to_cavity(G, psi[j])
            _tilted(G, is_count[j], shape[j])
            for r in range(LANE):
                known = G[LOWER + r] == G[LOWER + r]
                a, total, b = G[A + r], G[V + r], G[SPREAD + r]
                t, v, old_tau, old_nu = G[T + r], G[T_VARIANCE + r], G[TAU + r], G[NU + r]
                u, of_u, left = G[MEAN + r], G[VARIANCE + r], G[LEFT + r]
                g, h = (u - a) / total, (1.0 - of_u / total) / total
                scale = total / (psi[j] + b * (of_u / total))  # 1 / (1 - b h)
                to_tau, to_nu = h * scale, (g + a * h) * scale
                is_finite = abs(to_tau) + abs(to_nu) < LARGEST_SITE  # else the site stays
                to_tau = to_tau if is_finite else old_tau
                to_nu = to_nu if is_finite else old_nu
                pull = abs(to_nu - old_nu - (to_tau - old_tau) * t) * math.sqrt(v)
                moved = max(pull, abs(to_tau - old_tau) * v)
                of_site = 0.5 * (old_nu * (2.0 * a + b * old_nu) - old_tau * a * a) * left
                mass = G[MASS + r]
                G[EVIDENCE + r] += G[LOG_MASS + r] - of_site if known else 0.0
                G[PRODUCT + r] *= mass * mass / left if known else 1.0
                G[CHANGE + r] = max(G[CHANGE + r], moved) if known else G[CHANGE + r]
                G[MEAN + r] = u if known else 0.0
                G[VARIANCE + r] = of_u if known else 0.0
                G[SHRINK + r] = of_u / (total * left) if known else 0.0
                G[BY_TAU + r] = to_tau if known else 0.0
                G[PULL + r] = to_nu if known else 0.0
            for r in range(size):
                i = lane0 + r
                mean[j, i], variance[j, i] = G[MEAN + r], G[VARIANCE + r]
                gain[j, i] = G[SHRINK + r]
                new_tau[j, i], new_nu[j, i] = G[BY_TAU + r], G[PULL + r]
            if j % TOGETHER == TOGETHER - 1 or j == m - 1:
                for r in range(size):
                    G[EVIDENCE + r] += 0.5 * math.log(G[PRODUCT + r])
                    G[PRODUCT + r] = 1.0
        for r in range(size):
            evidence[lane0 + r], change[lane0 + r] = G[EVIDENCE + r], G[CHANGE + r]


def _sweep(
    is_count: NDArray[np.bool_], first: Array, second: Array, shape: Array,
    both: Array, psi: Array, tau: Array, nu: Array, Z: Array, S: Array,
    settled: float, most: int, start: int, stop: int,
) -> None:  # fmt: skip
    """Settle tau and nu (m, c) of the rows from start to stop, by at most so many sweeps.

    `both` (m, q + 1) is (w, delta). Z (q, c) and S (K, c), packed, are the posteriors at these
    sites, and follow them. A row that has settled stays as it is, whatever its neighbours do.
    """
    m, q = both.shape[0], both.shape[1] - 1
    K = q * (q + 1) // 2
    G = np.zeros(QUANTITIES * LANES)
    z, s, P = np.zeros(q * LANES), np.zeros(q * LANES), np.zeros(K * LANES)
    for at in range(start, stop, LANES):
        size = min(LANES, stop - at)
        for r in range(LANES):
            G[MOVING + U(r)] = 1.0 if r < size else 0.0
            G[LOWER + U(r)] = np.nan
        for k in range(q):
            for r in range(size):
                z[k * LANES + r] = Z[k, at + r]
        for k in range(K):
            for r in range(size):
                P[k * LANES + r] = S[k, at + r]
        for _ in range(most):
            for r in range(LANE):
                G[CHANGE + r] = 0.0
            for j in range(m):
                for r in range(size):
                    x = U(r)
                    G[LOWER + x], G[UPPER + x] = first[j, at + r], second[j, at + r]
                    G[TAU + x], G[NU + x] = tau[j, at + r], nu[j, at + r]
                _project(G, z, s, P, both[j], q)
                _to_cavity(G, psi[j])
                _tilted(G, is_count[j], shape[j])
                for r in range(LANE):
                    known = G[LOWER + r] == G[LOWER + r]
                    moves = (G[MOVING + r] if known else 0.0) > 0.0
                    a, total, b, v = G[A + r], G[V + r], G[SPREAD + r], G[T_VARIANCE + r]
                    g = (G[MEAN + r] - a) / total
                    h = (1.0 - G[VARIANCE + r] / total) / total
                    scale = total / (psi[j] + b * (G[VARIANCE + r] / total))
                    by_tau = h * scale - G[TAU + r]
                    by_nu = (g + a * h) * scale - G[NU + r]
                    is_finite = abs(by_tau) + abs(by_nu) < LARGEST_SITE
                    by_nu = (by_nu if is_finite else 0.0) if moves else 0.0
                    by_tau = (by_tau if is_finite else 0.0) if moves else 0.0
                    pull = by_nu - by_tau * G[T + r]
                    moved = max(abs(by_tau) * v, abs(pull) * math.sqrt(v))
                    G[CHANGE + r] = max(G[CHANGE + r], moved if moves else 0.0)
                    G[TAU + r] += by_tau
                    G[NU + r] += by_nu
                    shrink = 1.0 / (1.0 + by_tau * v)
                    G[PULL + r] = shrink * pull if moves else 0.0
                    G[BY_TAU + r] = shrink * by_tau if moves else 0.0
                for r in range(size):
                    tau[j, at + r], nu[j, at + r] = G[TAU + U(r)], G[NU + U(r)]
                _follow(G, z, s, P, q)
            moving = False
            for r in range(LANE):
                if not G[CHANGE + r] > settled:
                    G[MOVING + r] = 0.0
                moving |= G[MOVING + r] > 0.0
            if not moving:
                break
        for k in range(q):
            for r in range(size):
                Z[k, at + r] = z[k * LANES + r]
        for k in range(K):
            for r in range(size):
                S[k, at + r] = P[k * LANES + r]


@_part
def _project(G: Array, z: Array, s: Array, P: Array, both: Array, q: int) -> None:
    """T and T_VARIANCE of t = w^T z + delta, and s = S w."""
    for r in range(LANE):
        G[T + r], G[T_VARIANCE + r] = both[q], 0.0
    for k in range(q * LANES):
        s[k] = 0.0
    for a in range(q):
        own, of_a = both[a], U(a * LANES)
        for b in range(a):
            other, of_b, at = both[b], U(b * LANES), U((a * (a + 1) // 2 + b) * LANES)
            for r in range(LANE):
                s[of_a + r] += P[at + r] * other
                s[of_b + r] += P[at + r] * own
        at = U((a * (a + 3) // 2) * LANES)
        for r in range(LANE):
            s[of_a + r] += P[at + r] * own
            G[T + r] += own * z[of_a + r]
    for a in range(q):
        own, of_a = both[a], U(a * LANES)
        for r in range(LANE):
            G[T_VARIANCE + r] += own * s[of_a + r]


@_part
def _follow(G: Array, z: Array, s: Array, P: Array, q: int) -> None:
    """The posteriors after a change of one site."""
    for a in range(q):
        of_a = U(a * LANES)
        for r in range(LANE):
            z[of_a + r] += G[PULL + r] * s[of_a + r]
        for b in range(a + 1):
            of_b, at = U(b * LANES), U((a * (a + 1) // 2 + b) * LANES)
            for r in range(LANE):
                P[at + r] -= G[BY_TAU + r] * s[of_a + r] * s[of_b + r]


_flags, _one, _two = numba.bool_[::1], numba.float64[::1], numba.float64[:, ::1]
_evidence = (_flags, _two, _two, _one)
_span = (numba.int64, numba.int64)
tilt, cache_index = compile_cached(
    _tilt, numba.void(*_evidence, _two, _two, _two, _two, _two, *_span)
)
evaluate, _ = compile_cached(
    _evaluate,
    numba.void(*_evidence, _one, *(7 * (_two,)), _one, _one, *_span),
)
sweep, _ = compile_cached(
    _sweep,
    numba.void(*_evidence, _two, _one, *(4 * (_two,)), numba.float64, numba.int64, *_span),
)
