"""Moments of Gaussians times evidence, and expectation propagation row by row, compiled by numba.

`tilt` computes what `models.gaussian.evidence.Evidence.tilted` does, cell by cell. `sweep` visits
the sites of a row one after another and takes each change into the row's posterior at once, by a
rank-one update, so that a few sweeps settle where sites that move together overshoot.

Importing this module imports numba and compiles: only `eigengap.compiled.choice` does so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.cache import OPTIONS, compile_cached

Array = NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])

# As in `models.gaussian.evidence`, which says why.
TAIL, NARROW, NEGLIGIBLE = 3.0, 1.0, 74.0
FEW, FEW_WEIGHTS = np.polynomial.legendre.leggauss(8)
MANY, MANY_WEIGHTS = np.polynomial.legendre.leggauss(32)
FEW, FEW_WEIGHTS = (FEW + 1.0) / 2.0, FEW_WEIGHTS / 2.0
MANY, MANY_WEIGHTS = (MANY + 1.0) / 2.0, MANY_WEIGHTS / 2.0
MOST_NEWTON, LARGEST_STEP, LARGEST_LOG, HALVINGS = 60, 2.0, 700.0, 14

ROOT_HALF, LOG_ROOT_2PI = math.sqrt(0.5), 0.5 * math.log(2.0 * math.pi)


def _part(function: F) -> F:
    compiled: F = numba.njit(**OPTIONS)(function)
    return compiled


@_part
def _truncated(lower: float, upper: float) -> tuple[float, float, float]:
    mirrored = abs(lower) > abs(upper)
    near, far = (-upper, -lower) if mirrored else (lower, upper)
    if near > TAIL or far - near < NARROW:
        outward = max(near, 0.0)
        width = min(far - near, NEGLIGIBLE / (math.sqrt(outward**2 + NEGLIGIBLE) + outward))
        nodes, weights = (MANY, MANY_WEIGHTS) if near > TAIL else (FEW, FEW_WEIGHTS)
        mass, first, second = 0.0, 0.0, 0.0
        for k in range(len(nodes)):
            s = width * nodes[k]
            density = math.exp(-s * (near + s / 2.0)) * weights[k]
            mass += density
            first += density * s
            second += density * s**2
        offset = first / mass
        log_mass = math.log(mass * width) - 0.5 * near**2 - LOG_ROOT_2PI
        mean, variance = near + offset, second / mass - offset**2
    else:
        mass = 0.5 * (math.erfc(near * ROOT_HALF) - math.erfc(far * ROOT_HALF))
        at_near = math.exp(-0.5 * near**2 - LOG_ROOT_2PI) / mass
        at_far = math.exp(-0.5 * far**2 - LOG_ROOT_2PI) / mass
        mean = at_near - at_far
        variance = 1.0 - mean**2
        if near > -math.inf:
            variance += near * at_near
        if far < math.inf:
            variance -= far * at_far
        log_mass = math.log(mass)
    return log_mass, -mean if mirrored else mean, variance


@_part
def _log_joint(y: float, size: float, r: float, u: float, a: float, v: float) -> float:
    """ln of p(y | u) N(u; a, v), without the terms that do not depend on u."""
    log_mean = min(u + size, LARGEST_LOG)
    if math.isinf(r):
        value = y * log_mean - math.exp(log_mean)
    else:
        top = max(math.log(r), log_mean)
        total = top + math.log(math.exp(math.log(r) - top) + math.exp(log_mean - top))
        value = y * log_mean - (y + r) * total
    return value - 0.5 * (u - a) ** 2 / v


@_part
def _count(a: float, v: float, y: float, size: float, r: float) -> tuple[float, float, float]:
    at = a
    for _ in range(MOST_NEWTON):
        mean = math.exp(min(at + size, LARGEST_LOG))
        weight = 1.0 / (1.0 + mean / r)
        slope, curve = (y - mean) * weight, mean * weight**2 * (1.0 + y / r)
        step = (slope - (at - a) / v) / (curve + 1.0 / v)
        at += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        if abs(step) < 1e-10:
            break
    peak = _log_joint(y, size, r, at, a, v)
    mass, first, second = 0.0, 0.0, 0.0
    for side in (-1.0, 1.0):
        inside, outside = 0.0, side * math.sqrt(NEGLIGIBLE * v)
        for _ in range(HALVINGS):
            middle = 0.5 * (inside + outside)
            if _log_joint(y, size, r, at + middle, a, v) - peak < -NEGLIGIBLE / 2.0:
                outside = middle
            else:
                inside = middle
        for k in range(len(MANY)):
            s = outside * MANY[k]
            density = math.exp(_log_joint(y, size, r, at + s, a, v) - peak)
            density *= abs(outside) * MANY_WEIGHTS[k]
            mass += density
            first += density * s
            second += density * s**2
    constant = -math.lgamma(y + 1.0) - LOG_ROOT_2PI - 0.5 * math.log(v)
    if not math.isinf(r):
        constant += math.lgamma(y + r) - math.lgamma(r) + r * math.log(r)
    offset = first / mass
    return constant + peak + math.log(mass), at + offset, second / mass - offset**2


@_part
def _tilted(
    is_count: bool, first: float, second: float, shape: float, a: float, v: float
) -> tuple[float, float, float]:
    if is_count:
        return _count(a, v, first, second, shape)
    sd = math.sqrt(v)
    log_mass, inside, share = _truncated((first - a) / sd, (second - a) / sd)
    return log_mass, a + sd * inside, v * share


def _tilt(
    is_count: NDArray[np.bool_], first: Array, second: Array, shape: Array,
    mean: Array, variance: Array, log_mass: Array, u: Array, of_u: Array, start: int, stop: int,
) -> None:  # fmt: skip
    """Fill `log_mass`, `u` and `of_u` of the rows from start to stop: (c, m) each."""
    for i in range(start, stop):
        for j in range(first.shape[1]):
            a, v = mean[i, j], variance[i, j]
            if math.isnan(first[i, j]):
                log_mass[i, j], u[i, j], of_u[i, j] = 0.0, a, v
            else:
                found = _tilted(is_count[j], first[i, j], second[i, j], shape[j], a, v)
                log_mass[i, j], u[i, j], of_u[i, j] = found


@_part
def _invert(A: Array, L: Array) -> bool:
    """A (q, q) <- its inverse, by Cholesky's factor in L."""
    q = len(A)
    for i in range(q):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                L[i, i] = math.sqrt(total)
            else:
                L[i, j] = total / L[j, j]
    for j in range(q):  # L <- L^-1, column by column
        L[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, q):
            total = 0.0
            for k in range(j, i):
                total -= L[i, k] * L[k, j]
            L[i, j] = total / L[i, i]
    for i in range(q):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, q):
                total += L[k, i] * L[k, j]
            A[i, j] = A[j, i] = total
    return True


def _sweep(
    is_count: NDArray[np.bool_], first: Array, second: Array, shape: Array,
    both: Array, psi: Array, sums: Array, projected: Array, tau: Array, nu: Array,
    rows: NDArray[np.int64], settled: float, most: int, start: int, stop: int,
) -> None:  # fmt: skip
    """Settle tau and nu (c, m) of rows[start:stop].

    `sums` (K + q + 1, c) and `projected` (q + 1, c) are those of the exact cells, `both` (m, q + 1)
    is (w, delta).
    """
    m, q = both.shape[0], both.shape[1] - 1
    S, L = np.empty((q, q)), np.empty((q, q))
    z, s = np.empty(q), np.empty(q)
    for at in range(start, stop):
        i = rows[at]
        k = 0
        for a in range(q):
            z[a] = projected[a, i] - sums[q * (q + 1) // 2 + a, i]
            for b in range(a + 1):
                S[a, b] = sums[k, i]
                k += 1
            S[a, a] += 1.0
        for j in range(m):
            if tau[i, j] != 0.0 or nu[i, j] != 0.0:
                pull = nu[i, j] - tau[i, j] * both[j, q]
                for a in range(q):
                    z[a] += pull * both[j, a]
                    for b in range(a + 1):
                        S[a, b] += tau[i, j] * both[j, a] * both[j, b]
        if not _invert(S, L):
            continue
        for a in range(q):
            s[a] = 0.0
            for b in range(q):
                s[a] += S[a, b] * z[b]
        for a in range(q):
            z[a] = s[a]
        for _ in range(most):
            change = 0.0
            for j in range(m):
                if math.isnan(first[i, j]):
                    continue
                variance, mean = 0.0, both[j, q]
                for a in range(q):
                    s[a] = 0.0
                    for b in range(q):
                        s[a] += S[a, b] * both[j, b]
                    variance += both[j, a] * s[a]
                    mean += both[j, a] * z[a]
                left = 1.0 - tau[i, j] * variance
                spread, centre = variance / left, (mean - variance * nu[i, j]) / left
                total = spread + psi[j]
                _, u, of_u = _tilted(
                    is_count[j], first[i, j], second[i, j], shape[j], centre, total
                )
                g, h = (u - centre) / total, (1.0 - of_u / total) / total
                by_tau = h / (1.0 - spread * h) - tau[i, j]
                by_nu = (g + centre * h) / (1.0 - spread * h) - nu[i, j]
                pull = by_nu - by_tau * mean
                change = max(change, abs(by_tau) * variance, abs(pull) * math.sqrt(variance))
                tau[i, j] += by_tau
                nu[i, j] += by_nu
                shrink = 1.0 / (1.0 + by_tau * variance)
                for a in range(q):
                    z[a] += shrink * pull * s[a]
                    for b in range(a + 1):
                        S[a, b] -= shrink * by_tau * s[a] * s[b]
                        S[b, a] = S[a, b]
            if change <= settled:
                break


_rows = numba.float64[:, ::1]
_evidence = (numba.bool_[::1], _rows, _rows, numba.float64[::1])
_span = (numba.int64, numba.int64)
tilt, cache_index = compile_cached(
    _tilt, numba.void(*_evidence, _rows, _rows, _rows, _rows, _rows, *_span)
)
sweep, _ = compile_cached(
    _sweep,
    numba.void(
        *_evidence, _rows, numba.float64[::1], _rows, _rows, _rows, _rows,
        numba.int64[::1], numba.float64, numba.int64, *_span,
    ),
)  # fmt: skip
