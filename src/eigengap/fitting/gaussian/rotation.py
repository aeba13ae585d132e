"""Rotation of factor loadings towards simple structure.

Loadings W (d, q) are determined up to the choice of latent axes. With T (q, q) whose columns have
unit length, the factors z* = T' z have the correlations phi = T' T, and

    loadings = W inv(T)',    loadings phi loadings' = W W'.

For an orthogonal rotation inv(T)' = T and phi = I. This is the convention of Jennrich (2002) and of
R's GPArotation; R's `varimax` and `promax` return inv(T)' as `rotmat`.

T depends on the units of the features: where these are measured in units of their own, it is found
from W with each row divided by the feature's unit (its standard deviation: loadings of the
correlation matrix, as R's `factanal` has them) and applied to W.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array, sign_rule

Method = Literal["varimax", "quartimax", "promax", "oblimin"]
METHODS: tuple[Method, ...] = ("varimax", "quartimax", "promax", "oblimin")


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rotated loadings, W inv(T)', with the factors in the order of the variance they explain.

    The variance that factor k explains is (phi L' L)_kk, the sum of squares of its column where the
    factors are uncorrelated. The entry of largest modulus in each column is positive. Both are
    judged in the units in which T was found.

    Attributes
    ----------
    loadings : (d, q)
    T : (q, q), columns of unit length; orthogonal unless the method is oblique
    phi : (q, q) correlations of the rotated factors, T' T
    converged : whether the criterion became stationary
    """

    loadings: Array
    T: Array
    phi: Array
    converged: bool


def rotate(
    W: Array,
    method: Method | None,
    *,
    unit: Array | None = None,
    normalize: bool = True,
    power: float = 4.0,
    gamma: float = 0.0,
    tol: float = 1e-9,
    max_iter: int = 1000,
) -> Rotation:
    """Rotate the loadings W (d, q) by the named method; None leaves the axes and the order alone.

    Parameters
    ----------
    method : "varimax" (Kaiser 1958) and "quartimax" are orthogonal, "promax" (Hendrickson and White
        1964) and "oblimin" (Jennrich and Sampson 1966) oblique.
    unit : (d,) by which the rows of W are divided while T, the order and the signs of the factors
        are found; None leaves them as they are. With standard deviations these are the same for
        every scaling of the features. The loadings that are returned are in the units of W.
    normalize : Kaiser's normalisation: the criterion sees rows of unit length, so that every
        feature counts alike. R's `varimax`, `promax` and SPSS do so; scikit-learn does not.
        As in R, promax normalises only for the varimax it starts from.
    power : the exponent m of the promax target
    gamma : the parameter of direct oblimin; 0 is quartimin
    tol : norm of the criterion's gradient, for loadings scaled to unit mean square row length
    """
    if method is not None and method not in METHODS:
        raise ValueError(f"rotation {method!r} is unknown; use None or one of {', '.join(METHODS)}")
    q = W.shape[1]
    if method is None or q == 0:
        return Rotation(W, np.eye(q), np.eye(q), True)
    V = W if unit is None else W / unit[:, None]
    A = V
    if normalize:  # a feature without communality is left as it is
        lengths = np.sqrt(np.sum(V**2, axis=1, keepdims=True))
        A = V / np.where(lengths > 0.0, lengths, 1.0)
    A = A / max(float(np.sqrt(np.mean(np.sum(A**2, axis=1)))), 1e-300)  # criteria of order one
    T, converged = _orthomax(A, 1.0 if method in ("varimax", "promax") else 0.0, tol, max_iter)
    if method == "promax":
        T = T @ _promax(V @ T, power)
    elif method == "oblimin":
        T, converged = _oblimin(A, T, gamma, tol, max_iter)
    T = _in_order(V, T)
    return Rotation(_rotated(W, T), T, T.T @ T, converged)


def _in_order(V: Array, T: Array) -> Array:
    """T with the factors of V by the variance they explain, descending, signed by the sign rule."""
    loadings = _rotated(V, T)
    explained = np.sum(loadings * (loadings @ (T.T @ T)), axis=0)
    order = np.argsort(-explained, kind="stable")
    return np.asarray(T[:, order] * sign_rule(loadings[:, order]))


def _rotated(W: Array, T: Array) -> Array:
    """W inv(T)'."""
    return np.asarray(np.linalg.solve(T, W.T).T, dtype=np.float64)


def _orthomax(A: Array, gamma: float, tol: float, max_iter: int) -> tuple[Array, bool]:
    """The orthogonal T that maximises sum_k (sum_j l_jk^4 - gamma / d (sum_j l_jk^2)^2), L = A T.

    gamma = 1 is varimax, 0 quartimax. Kaiser's planar rotations find the hill, gradient projection
    its top.
    """
    d = len(A)

    def criterion(T: Array) -> tuple[float, Array]:
        L = A @ T
        pull = L**3 - gamma * L * np.mean(L**2, axis=0)
        return -0.25 * float(np.sum(L * pull)) / d, -(A.T @ pull) / d

    def tangent(T: Array, G: Array) -> Array:
        M = T.T @ G
        return G - T @ (0.5 * (M + M.T))

    def retract(T: Array) -> Array:
        left, _, right = np.linalg.svd(T)
        return np.asarray(left @ right)

    start = _planar_rotations(A, gamma)
    return _gradient_projection(start, criterion, tangent, retract, tol, max_iter)


def _planar_rotations(A: Array, gamma: float, sweeps: int = 20) -> Array:
    """Kaiser's (1958) planar rotations: each takes the best angle of its plane.

    So the criterion never falls, and a start that is stationary without being a maximum, as equal
    groups of features give, does not hold it. Disjoint planes turn together.
    """
    q = A.shape[1]
    L, T = A.copy(), np.eye(q)
    for _ in range(sweeps if q > 1 else 0):
        largest = 0.0
        for i, j in _disjoint_planes(q):
            angle = _best_angles(L[:, i], L[:, j], gamma)
            largest = max(largest, float(np.max(np.abs(angle))))
            c, s = np.cos(angle), np.sin(angle)
            for M in (L, T):
                x, y = M[:, i], M[:, j]
                M[:, i], M[:, j] = c * x + s * y, c * y - s * x
        if largest <= 1e-3:
            break
    return T


def _disjoint_planes(q: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """All planes (i, j) in rounds of disjoint ones: a round-robin tournament (Brent and Luk)."""
    players = list(range(q + q % 2))  # with an odd number one sits out each round
    half = len(players) // 2
    for _ in range(len(players) - 1):
        pairs = [
            (min(a, b), max(a, b))
            for a, b in zip(players[:half], players[: half - 1 : -1], strict=True)
            if max(a, b) < q
        ]
        yield np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])
        players.insert(1, players.pop())


def _best_angles(X: Array, Y: Array, gamma: float) -> Array:
    """Kaiser's angles (p,) for the planes spanned by the columns of X and Y (d, p).

    Zero where the criterion is flat in the plane, for there rounding alone would choose.
    """
    d = len(X)
    u, v = X**2 - Y**2, 2.0 * X * Y
    a, b = np.sum(u, axis=0), np.sum(v, axis=0)
    sine = 2.0 * (np.sum(u * v, axis=0) - gamma * a * b / d)
    cosine = np.sum(u**2 - v**2, axis=0) - gamma * (a**2 - b**2) / d
    flat = np.hypot(sine, cosine) <= 1e-14 * np.sum((X**2 + Y**2) ** 2, axis=0)
    return np.where(flat, 0.0, 0.25 * np.arctan2(sine, cosine))


def _promax(L: Array, power: float) -> Array:
    """T that takes varimax loadings L to promax: least squares on the target |L|^m sign(L).

    With M = L^+ target, the loadings are L M D, where D makes the factors' variances
    diag((M D)' (M D))^-1 one; so T = inv(M D)'.
    """
    target = np.sign(L) * np.abs(L) ** power
    M = np.linalg.lstsq(L, target, rcond=None)[0]
    if np.linalg.matrix_rank(M) < len(M):
        raise ValueError(
            "promax needs loadings of full column rank; fit fewer factors or use varimax"
        )
    T = np.linalg.inv(M).T
    return np.asarray(T / np.sqrt(np.sum(T**2, axis=0)))


def _oblimin(A: Array, start: Array, gamma: float, tol: float, max_iter: int) -> tuple[Array, bool]:
    """Direct oblimin: T with unit columns that minimises, for L = A inv(T)',

    1/4 <L^2, (I - gamma/d 11') L^2 (11' - I)>.
    """
    d = len(A)

    def criterion(T: Array) -> tuple[float, Array]:
        inverse = np.linalg.inv(T)
        L = A @ inverse.T
        squares = L**2
        crossed = np.sum(squares, axis=1, keepdims=True) - squares
        crossed = crossed - gamma * np.mean(crossed, axis=0)
        value = 0.25 * float(np.sum(squares * crossed)) / d
        return value, -(L.T @ (L * crossed) @ inverse).T / d

    def tangent(T: Array, G: Array) -> Array:
        return np.asarray(G - T * np.sum(T * G, axis=0))

    def retract(T: Array) -> Array:
        return np.asarray(T / np.sqrt(np.sum(T**2, axis=0)))

    return _gradient_projection(start, criterion, tangent, retract, tol, max_iter)


def _gradient_projection(
    T: Array,
    criterion: Callable[[Array], tuple[float, Array]],
    tangent: Callable[[Array, Array], Array],
    retract: Callable[[Array], Array],
    tol: float,
    max_iter: int,
) -> tuple[Array, bool]:
    """Minimise over a manifold of T (Jennrich 2001, 2002; Bernaards and Jennrich 2005).

    T moves against the projected gradient and is retracted. The step is Barzilai and Borwein's,
    which needs room to rise: a trial must lie below the highest of the last values (Grippo,
    Lampariello and Lucidi 1986).
    """
    f, G = criterion(T)
    slope, step, recent = tangent(T, G), 1.0, [f]
    for _ in range(max_iter):
        squared = float(np.sum(slope**2))
        if squared <= tol**2:
            return T, True
        for _ in range(40):
            trial = retract(T - step * slope)
            f_trial, G = criterion(trial)
            if f_trial <= max(recent) - 1e-4 * step * squared + 1e-15:
                break
            step *= 0.3
        else:
            return T, False
        new_slope = tangent(trial, G)
        moved, changed = trial - T, new_slope - slope
        curvature = abs(float(np.sum(moved * changed)))
        step = min(float(np.sum(moved**2)) / max(curvature, 1e-300), 1e3)
        T, slope, recent = trial, new_slope, [*recent[-4:], f_trial]
    return T, False
