"""Batched inverse, solution and log-determinant of small SPD matrices, compiled by numba.

P = L L^T, X = L^-1, P^-1 = X^T X (Golub and Van Loan, Matrix Computations, 4.2), for many matrices
at once with the matrix index innermost: every loop over `r` below runs across LANES matrices, so
that SIMD needs no shuffles and a column never depends on its neighbours. Each sum over p is
computed for a 2 x 2 tile of entries and four p at a time, which halves the loads per
multiplication; an odd q is padded by a one on the diagonal.

Importing this module imports numba and compiles: only `eigengap.compiled.choice` does so.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from eigengap.compiled.cache import compile_cached, part

# 64 lanes were as fast from q = 20 on, and slower below, where the cost of starting a loop shows.
from eigengap.compiled.posterior import LANES

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# LLVM vectorises the lane loops only if indices are unsigned (a signed one may be negative and
# wrap) and rows lie a constant LANES apart (else too many overlaps would have to be excluded).
U = np.uint64
LANE = np.uint64(LANES)

MANTISSA = np.int64((1 << 52) - 1)
EXPONENT_OF_ONE = np.int64(1023 << 52)
LN2 = math.log(2.0)


_inlined = part(forceinline=True)


@_inlined
def _add_four(
    G: Array, s: Array,
    a0: int, a1: int, a2: int, a3: int, b0: int, b1: int, b2: int, b3: int,
    c0: int, c1: int, c2: int, c3: int, d0: int, d1: int, d2: int, d3: int,
) -> None:  # fmt: skip
    """s (2 x 2 tile) += rows a, b times columns c, d over four values of p; packed indices."""
    for r in range(LANE):
        x0, x1 = G[U(a0 * LANES) + r], G[U(a1 * LANES) + r]
        x2, x3 = G[U(a2 * LANES) + r], G[U(a3 * LANES) + r]
        u0, u1 = G[U(b0 * LANES) + r], G[U(b1 * LANES) + r]
        u2, u3 = G[U(b2 * LANES) + r], G[U(b3 * LANES) + r]
        y0, y1 = G[U(c0 * LANES) + r], G[U(c1 * LANES) + r]
        y2, y3 = G[U(c2 * LANES) + r], G[U(c3 * LANES) + r]
        v0, v1 = G[U(d0 * LANES) + r], G[U(d1 * LANES) + r]
        v2, v3 = G[U(d2 * LANES) + r], G[U(d3 * LANES) + r]
        s[r] += x0 * y0 + x1 * y1 + x2 * y2 + x3 * y3
        s[LANE + r] += x0 * v0 + x1 * v1 + x2 * v2 + x3 * v3
        s[U(2 * LANES) + r] += u0 * y0 + u1 * y1 + u2 * y2 + u3 * y3
        s[U(3 * LANES) + r] += u0 * v0 + u1 * v1 + u2 * v2 + u3 * v3


@_inlined
def _add_two(
    G: Array, s: Array, a0: int, a1: int, b0: int, b1: int, c0: int, c1: int, d0: int, d1: int
) -> None:
    """As `_add_four`, over two values of p."""
    for r in range(LANE):
        x0, x1 = G[U(a0 * LANES) + r], G[U(a1 * LANES) + r]
        u0, u1 = G[U(b0 * LANES) + r], G[U(b1 * LANES) + r]
        y0, y1 = G[U(c0 * LANES) + r], G[U(c1 * LANES) + r]
        v0, v1 = G[U(d0 * LANES) + r], G[U(d1 * LANES) + r]
        s[r] += x0 * y0 + x1 * y1
        s[LANE + r] += x0 * v0 + x1 * v1
        s[U(2 * LANES) + r] += u0 * y0 + u1 * y1
        s[U(3 * LANES) + r] += u0 * v0 + u1 * v1


@part()
def _cholesky(G: Array, s: Array, q: int) -> None:
    """G <- L, its diagonal replaced by reciprocals; q even."""
    for i in range(0, q, 2):
        I = i * (i + 1) // 2
        I1 = I + i + 1
        for j in range(0, i + 1, 2):
            J = j * (j + 1) // 2
            J1 = J + j + 1
            for r in range(U(4 * LANES)):
                s[r] = 0.0
            p = 0
            while p + 4 <= j:
                _add_four(
                    G, s,
                    I + p, I + p + 1, I + p + 2, I + p + 3,
                    I1 + p, I1 + p + 1, I1 + p + 2, I1 + p + 3,
                    J + p, J + p + 1, J + p + 2, J + p + 3,
                    J1 + p, J1 + p + 1, J1 + p + 2, J1 + p + 3,
                )  # fmt: skip
                p += 4
            if p < j:
                _add_two(
                    G, s, I + p, I + p + 1, I1 + p, I1 + p + 1, J + p, J + p + 1, J1 + p, J1 + p + 1
                )
            if j < i:
                _below_diagonal(G, s, (I + j) * LANES, (I1 + j) * LANES, J + j, J1 + j)
            else:
                _on_diagonal(G, s, (I + i) * LANES, (I1 + i) * LANES)


@_inlined
def _below_diagonal(G: Array, s: Array, upper: int, lower: int, J: int, J1: int) -> None:
    for r in range(LANE):
        d0, l, d1 = G[U(J * LANES) + r], G[U(J1 * LANES) + r], G[U((J1 + 1) * LANES) + r]
        x = (G[U(upper) + r] - s[r]) * d0
        u = (G[U(lower) + r] - s[U(2 * LANES) + r]) * d0
        G[U(upper) + r] = x
        G[U(lower) + r] = u
        G[U(upper + LANES) + r] = (G[U(upper + LANES) + r] - s[LANE + r] - x * l) * d1
        G[U(lower + LANES) + r] = (G[U(lower + LANES) + r] - s[U(3 * LANES) + r] - u * l) * d1


@_inlined
def _on_diagonal(G: Array, s: Array, upper: int, lower: int) -> None:
    for r in range(LANE):
        d0 = 1.0 / math.sqrt(G[U(upper) + r] - s[r])
        l = (G[U(lower) + r] - s[U(2 * LANES) + r]) * d0
        G[U(upper) + r] = d0
        G[U(lower) + r] = l
        G[U(lower + LANES) + r] = 1.0 / math.sqrt(
            G[U(lower + LANES) + r] - s[U(3 * LANES) + r] - l * l
        )


@part()
def _invert_triangle(G: Array, s: Array, q: int) -> None:
    """G <- X = L^-1 row by row: X_ij = -X_ii sum_{j <= p < i} L_ip X_pj."""
    for i in range(0, q, 2):
        I = i * (i + 1) // 2
        I1 = I + i + 1
        i0, i1 = U((I + i) * LANES), U((I1 + i) * LANES)
        for r in range(LANE):
            G[i1 + r] = -G[i1 + r] * G[i0 + r] * G[i1 + LANE + r]
        for j in range(0, i, 2):
            J = j * (j + 1) // 2
            J1 = J + j + 1
            j0, j1 = U((J + j) * LANES), U((J1 + j) * LANES)
            upper, lower = U((I + j) * LANES), U((I1 + j) * LANES)
            for r in range(LANE):
                d0, l, d1 = G[j0 + r], G[j1 + r], G[j1 + LANE + r]
                s[r] = G[upper + r] * d0 + G[upper + LANE + r] * l
                s[LANE + r] = G[upper + LANE + r] * d1
                s[U(2 * LANES) + r] = G[lower + r] * d0 + G[lower + LANE + r] * l
                s[U(3 * LANES) + r] = G[lower + LANE + r] * d1
            p = j + 2
            while p + 4 <= i:
                k0 = p * (p + 1) // 2 + j
                k1 = k0 + p + 1
                k2 = k1 + p + 2
                k3 = k2 + p + 3
                _add_four(
                    G, s,
                    I + p, I + p + 1, I + p + 2, I + p + 3,
                    I1 + p, I1 + p + 1, I1 + p + 2, I1 + p + 3,
                    k0, k1, k2, k3, k0 + 1, k1 + 1, k2 + 1, k3 + 1,
                )  # fmt: skip
                p += 4
            if p < i:
                k0 = p * (p + 1) // 2 + j
                k1 = k0 + p + 1
                _add_two(G, s, I + p, I + p + 1, I1 + p, I1 + p + 1, k0, k1, k0 + 1, k1 + 1)
            for r in range(LANE):
                d0, l, d1 = G[i0 + r], G[i1 + r], G[i1 + LANE + r]
                G[upper + r] = -d0 * s[r]
                G[upper + LANE + r] = -d0 * s[LANE + r]
                G[lower + r] = -(l * s[r] + d1 * s[U(2 * LANES) + r])
                G[lower + LANE + r] = -(l * s[LANE + r] + d1 * s[U(3 * LANES) + r])


@part()
def _multiply_triangles(G: Array, s: Array, q: int) -> None:
    """G <- X^T X row by row: (i, j) needs only the rows p >= i of X, still there."""
    for i in range(0, q, 2):
        I = i * (i + 1) // 2
        I1 = I + i + 1
        i0, i1 = U((I + i) * LANES), U((I1 + i) * LANES)
        for j in range(0, i + 1, 2):
            upper, lower = U((I + j) * LANES), U((I1 + j) * LANES)
            for r in range(LANE):
                s[r] = G[i0 + r] * G[upper + r] + G[i1 + r] * G[lower + r]
                s[U(2 * LANES) + r] = G[i1 + LANE + r] * G[lower + r]
                s[U(3 * LANES) + r] = G[i1 + LANE + r] * G[lower + LANE + r]
            if j < i:  # on the diagonal this entry lies above it and has no place
                for r in range(LANE):
                    s[LANE + r] = G[i0 + r] * G[upper + LANE + r] + G[i1 + r] * G[lower + LANE + r]
            p = i + 2
            while p + 4 <= q:
                t0 = p * (p + 1) // 2
                t1 = t0 + p + 1
                t2 = t1 + p + 2
                t3 = t2 + p + 3
                _add_four(
                    G, s,
                    t0 + i, t1 + i, t2 + i, t3 + i,
                    t0 + i + 1, t1 + i + 1, t2 + i + 1, t3 + i + 1,
                    t0 + j, t1 + j, t2 + j, t3 + j,
                    t0 + j + 1, t1 + j + 1, t2 + j + 1, t3 + j + 1,
                )  # fmt: skip
                p += 4
            if p < q:
                t0 = p * (p + 1) // 2
                t1 = t0 + p + 1
                _add_two(
                    G, s,
                    t0 + i, t1 + i, t0 + i + 1, t1 + i + 1,
                    t0 + j, t1 + j, t0 + j + 1, t1 + j + 1,
                )  # fmt: skip
            for r in range(LANE):
                G[upper + r] = s[r]
                G[lower + r] = s[U(2 * LANES) + r]
                G[lower + LANE + r] = s[U(3 * LANES) + r]
            if j < i:
                for r in range(LANE):
                    G[upper + LANE + r] = s[LANE + r]


@part()
def _solve(G: Array, b: Array, y: Array, s: Array, q: int) -> None:
    """b <- X^T (X b)."""
    for i in range(q):
        for r in range(LANE):
            s[r] = 0.0
        for p in range(i + 1):
            k, l = U((i * (i + 1) // 2 + p) * LANES), U(p * LANES)
            for r in range(LANE):
                s[r] += G[k + r] * b[l + r]
        for r in range(LANE):
            y[U(i * LANES) + r] = s[r]
    for i in range(q):
        for r in range(LANE):
            s[r] = 0.0
        for p in range(i, q):
            k, l = U((p * (p + 1) // 2 + i) * LANES), U(p * LANES)
            for r in range(LANE):
                s[r] += G[k + r] * y[l + r]
        for r in range(LANE):
            b[U(i * LANES) + r] = s[r]


@part()
def _log_diagonal(
    G: Array, bits: Ints, m: Array, m_bits: Ints, e: Ints, fine: Array, q: int
) -> None:
    """Product m of the mantissas and sum e of the exponents of the reciprocal diagonal.

    ln prod = ln m + e ln 2 is the sum of the logarithms with one logarithm a matrix. A reciprocal
    root lies within 1e-155 .. 1e162, so it is never subnormal; the mantissas' product stays below
    2^q. fine becomes NaN where a pivot was not a positive finite number.
    """
    for r in range(LANE):
        m[r] = 1.0
        e[r] = 0
        fine[r] = 0.0
    mantissa = m_bits.view(np.float64)
    for i in range(q):
        k = U((i * (i + 1) // 2 + i) * LANES)
        for r in range(LANE):
            m_bits[r] = (bits[k + r] & MANTISSA) | EXPONENT_OF_ONE
            e[r] += (bits[k + r] >> 52) - 1023
        for r in range(LANE):
            m[r] *= mantissa[r]
        for r in range(LANE):
            # NaN stays, a zero pivot gives inf - inf, an infinite one 1/0 - 1/0
            fine[r] += (G[k + r] - G[k + r]) + (1.0 / G[k + r] - 1.0 / G[k + r])


def _factorise_columns(P: Array, b: Array, z: Array, log_det: Array, start: int, stop: int) -> int:
    """Work on the columns start .. stop - 1; the first that is not positive definite, or -1."""
    q = b.shape[0]
    K = P.shape[0]
    even = q + q % 2
    padded = even * (even + 1) // 2
    G = np.empty(padded * LANES)
    bits = G.view(np.int64)
    s = np.empty(4 * LANES)
    rhs = np.zeros(q * LANES)
    y = np.empty(q * LANES)
    m = np.empty(LANES)
    fine = np.empty(LANES)
    m_bits = np.empty(LANES, np.int64)
    e = np.empty(LANES, np.int64)
    bad = -1
    for first in range(start, stop, LANES):
        width = min(LANES, stop - first)
        for k in range(K):
            for r in range(width):
                G[k * LANES + r] = P[k, first + r]
        for i in range(q):
            for r in range(width):
                rhs[i * LANES + r] = b[i, first + r]
        if width < LANES:  # unit matrices in the lanes to spare
            for k in range(K):
                for r in range(width, LANES):
                    G[k * LANES + r] = 0.0
            for i in range(q):
                k = i * (i + 1) // 2 + i
                for r in range(width, LANES):
                    G[k * LANES + r] = 1.0
        if even > q:
            for k in range(K * LANES, padded * LANES):
                G[k] = 0.0
            for r in range(LANES):
                G[(padded - 1) * LANES + r] = 1.0
        _cholesky(G, s, even)
        _log_diagonal(G, bits, m, m_bits, e, fine, q)
        for r in range(width):
            log_det[first + r] = -2.0 * (math.log(m[r]) + LN2 * e[r])
            if bad < 0 and fine[r] != 0.0:  # also true of NaN
                bad = first + r
        if bad >= 0:
            return bad
        _invert_triangle(G, s, even)
        _solve(G, rhs, y, s, q)
        _multiply_triangles(G, s, even)
        for k in range(K):
            for r in range(width):
                P[k, first + r] = G[k * LANES + r]
        for i in range(q):
            for r in range(width):
                z[i, first + r] = rhs[i * LANES + r]
    return -1


_matrix, _vector = numba.float64[:, ::1], numba.float64[::1]
factorise_columns, cache_index = compile_cached(
    _factorise_columns, (_matrix, _matrix, _matrix, _vector, numba.int64, numba.int64)
)
