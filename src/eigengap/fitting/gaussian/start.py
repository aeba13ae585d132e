"""Where EM starts: the leading eigenvectors of the mask-corrected, zero-filled covariance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gaussian.factor_covariance import FactorSolution, factor_optima, fit_factors
from eigengap.fitting.gaussian.problem import Units
from eigengap.linalg import Array, procrustes, sign_rule
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.sources.base import Source
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.gaussian import Constraints, Parameters
from eigengap.statistics.first_look import Linked, linked

# Up to here the d x d covariance is formed and solved exactly; beyond, subspace iteration.
DIRECT = 400
OVERSAMPLING = 8
PASSES = 5

HARDLY = 0.1  # of the rows expected under independence: so rare a pair has no known covariance
# Where more than FEW_PAIRS of all pairs are hardly ever observed, though their columns are not
# sparse, the likelihood has several maxima: so many random starts are tried besides.
FURTHER, FEW_PAIRS, SPARSE = 4, 0.01, 0.01

# Nats per row, for a column of which all is missing, by which the covariance's own likelihood may
# mistake the order of its optima; and how many of them are compared.
UNSURE, MOST_OTHERS = 0.2, 3

Group = NDArray[np.intp]  # columns
Part = tuple[Group, Array, Array]  # columns (g,), eigenvalues (k,) and eigenvectors (g, k)


@dataclass(frozen=True, eq=False)
class Starts:
    """Where a fit may start."""

    first: Parameters
    others: tuple[Parameters, ...] = ()  # other optima of the covariance that gave the first
    n_random: int = 0  # random starts that the pattern of missing values calls for
    strength: Array | None = None  # (d,) of the covariances of each column, whatever their order

    def map(self, change: Callable[[Parameters], Parameters]) -> Starts:
        return replace(
            self, first=change(self.first), others=tuple(change(each) for each in self.others)
        )


def spectral_start(
    rows: Source,  # of ObservedRows, in the fit's units
    q: int,
    units: Units,  # whose variances and weights are those of the rows
    constraints: Constraints,
    *,
    thorough: bool = True,
) -> Starts:
    """Loadings from the top q eigenpairs, noise from the variance that they leave.

    A covariance of columns that no row shows together is unknown, not zero. Columns fall into
    groups within which pairs are observed; each group starts from its own q eigenpairs, for
    loadings of zero in all but the strongest group would be a saddle that EM cannot leave.

    `thorough` looks for several optima of the covariance; a fit that goes on to another model (a
    mixture, a posterior) has no use for improper ones.
    """
    if units.d > DIRECT:
        parts = _subspaces(rows, q, units)
        return Starts(_from_eigenpairs(parts, q, units, constraints))
    sums = rows.reduce(_Sums.of)
    C = _covariance(sums.scatter.value, units)
    pairs = _Pairs.of(sums.pairs.value, units.sum_w)
    n_random = FURTHER if pairs.is_unsure else 0
    if constraints.noise == "diagonal" and 0 < q < units.d and np.all(units.variance > 0):
        solutions = _from_factors(C, q, pairs.groups, units, constraints, thorough)
    else:
        parts = [_eigenpairs(C, group, q) for group in pairs.groups]
        solutions = [_from_eigenpairs(parts, q, units, constraints)]
    first, *others = (_aligned(each, C, pairs.groups) for each in solutions)
    return Starts(first, tuple(others), n_random, np.einsum("ij,ij->i", C, C))


@dataclass(frozen=True, eq=False)
class _Sums(Additive):
    scatter: ZeroFilledProduct
    pairs: PairCounts

    @classmethod
    def of(cls, rows: ObservedRows) -> _Sums:
        return cls(ZeroFilledProduct.scatter(rows), PairCounts.of(rows))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """How columns are grouped by the pairs that are observed together."""

    groups: list[Group]  # of columns linked by pairs that are observed often enough
    is_unsure: bool  # whether pairs that matter to the likelihood are hardly ever observed

    @classmethod
    def of(cls, counts: Array, sum_w: float) -> _Pairs:
        by_chance = np.outer(np.diag(counts), np.diag(counts)) / sum_w
        known = counts > HARDLY * by_chance
        apart = linked(counts > 0)
        matters = apart[:, None] == apart  # between components nothing depends on the covariance
        rare = matters & ~known & (by_chance > SPARSE * sum_w)
        return cls(_groups(linked(known)), bool(np.mean(rare) > FEW_PAIRS))


def _groups(labels: NDArray[np.intp]) -> list[Group]:
    """The columns of each component."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _eigenpairs(C: Array, group: Group, q: int) -> Part:
    """The leading eigenpairs of a group's covariance, as many as it has up to q."""
    lam, U = np.linalg.eigh(C[np.ix_(group, group)])
    return group, lam[::-1][:q], U[:, ::-1][:, :q]


def _from_eigenpairs(
    parts: Sequence[Part], q: int, units: Units, constraints: Constraints
) -> Parameters:
    """T&B 1999, Eqs. 7 and 8, kept away from W = 0 along any axis: a saddle.

    With many missing values the small eigenvalues are too small, and negative at last: the noise
    then gets a share of the variance that grows with what is missing.
    """
    d, variance = units.d, units.variance
    lam = np.concatenate([lam for _, lam, _ in parts])
    left = (float(np.sum(variance)) - float(np.sum(lam))) / max(d - len(lam), 1)
    weakest = min((float(lam[-1]) for _, lam, _ in parts if len(lam)), default=0.0)
    unsure = 0.1 * (1.0 - float(np.mean(units.share_observed))) * float(np.median(variance))
    sigma2 = max(left, 1e-3 * weakest, unsure, float(np.max(constraints.floor)))
    W = np.zeros((d, q))
    for group, lam, U in parts:
        strength = np.sqrt(np.maximum(lam - sigma2, 0.1 * np.maximum(lam, sigma2)))
        W[group, : len(lam)] = U * strength
    if constraints.noise == "diagonal":
        psi = np.maximum(variance - np.einsum("jq,jq->j", W, W), 0.1 * variance)
    else:
        psi = np.full(d, sigma2)
    return _under(constraints, W, psi)


def _from_factors(
    C: Array,
    q: int,
    groups: Sequence[Group],
    units: Units,
    constraints: Constraints,
    thorough: bool,
) -> list[Parameters]:
    """Factor analyses of the covariance itself, made positive definite: of each group its own.

    The more is missing the less a small psi of it is worth; EM leaves one only slowly. Where the
    covariance has several optima, the likelihood of the observed values may prefer another than
    the covariance does: the more, the more is missing. One group's optima are all returned.
    """
    variance, share_observed = units.variance, units.share_observed
    least = float(np.clip(0.3 * (1.0 - np.mean(share_observed)), 1e-4, 0.1))
    W, psi = np.zeros((len(C), q)), variance.copy()
    others: list[FactorSolution] = []
    for group in groups:
        lam, U = np.linalg.eigh(C[np.ix_(group, group)])
        definite = (U * np.maximum(lam, max(-lam[0], 1e-8 * lam[-1]))) @ U.T
        size = min(q, len(group) - 1)
        if thorough:
            best, *more = factor_optima(definite, size, tol=1e-3, max_iter=50)
        else:
            best, more = fit_factors(definite, size, tol=1e-3, max_iter=50, thorough=False), []
        W[group, :size], psi[group] = best.W, best.psi
        near = best.log_likelihood_per_row - UNSURE * (1.0 - float(np.min(share_observed)))
        if len(groups) == 1:
            others = [each for each in more if each.log_likelihood_per_row >= near][:MOST_OTHERS]
    solutions = [(W, psi), *((each.W, each.psi) for each in others)]
    return [_under(constraints, W, np.maximum(psi, least * variance)) for W, psi in solutions]


def _aligned(start: Parameters, C: Array, groups: Sequence[Group]) -> Parameters:
    """The start with the factors of the groups rotated to agree with what links them.

    Within a group loadings are known up to a rotation; the few rows in which columns of several
    groups are observed decide how one goes with the others. Where there is none nothing depends on
    it. Groups go by the variance that they explain, whatever the order of the columns.
    """
    if len(groups) == 1:
        return start
    W = start.W.copy()
    explained = [float(np.sum(W[group] ** 2)) for group in groups]
    first, *others = (groups[k] for k in np.argsort(explained)[::-1])
    W[first] *= sign_rule(W[first])
    done = first
    for group in others:
        W[group] *= sign_rule(W[group])
        cross = C[np.ix_(group, done)]
        if np.any(cross):
            W[group] = W[group] @ procrustes(W[group], cross @ W[done])
        done = np.concatenate([done, group])
    return replace(start, W=W)


def _under(constraints: Constraints, W: Array, psi: Array) -> Parameters:
    if constraints.fixed_noise is not None:
        psi = np.full(len(W), constraints.fixed_noise)
    return Parameters(W=W, delta=np.zeros(len(W)), psi=np.maximum(psi, constraints.floor))


def random_start(
    q: int, variance: Array, constraints: Constraints, rng: np.random.Generator
) -> Parameters:
    """Loadings at random that explain half of each column's variance."""
    d = len(variance)
    W = rng.standard_normal((d, q)) * np.sqrt(0.5 * variance / max(q, 1))[:, None]
    noise = constraints.fixed_noise
    psi = np.full(d, float(np.mean(variance)) / 2) if noise is None else np.full(d, noise)
    if noise is None and constraints.noise == "diagonal":
        psi = variance / 2
    return Parameters(W=W, delta=np.zeros(d), psi=np.maximum(psi, constraints.floor))


def _covariance(scatter: Array, units: Units) -> Array:
    """The mask-corrected covariance (d, d); missing values can make it indefinite."""
    share = units.share_observed
    C = scatter.astype(np.float64) / units.sum_w / np.outer(share, share)
    C[np.diag_indices_from(C)] = units.variance
    return C


def _subspaces(rows: Source, q: int, units: Units) -> list[Part]:
    """Randomised subspace iteration (Halko, Martinsson and Tropp 2011): a start needs no more.

    Columns that nothing links are blocks of the covariance: one product serves all of them, and
    each is made orthonormal by itself. The random block is always the same one: only the further
    starts of a fit depend on its seed.
    """
    d, variance, share = units.d, units.variance, units.share_observed
    rng = np.random.default_rng(0)
    groups = _groups(rows.reduce(Linked.of).labels)
    # diag(scatter) / p^2 overstates the variance by 1 / p: take the excess off the diagonal.
    excess = variance / share - variance
    V = image = rng.standard_normal((d, min(q + OVERSAMPLING, d)))
    for _ in range(PASSES):
        V = _orthonormal(image, groups)
        of = partial(ZeroFilledProduct.of, V=V / share[:, None])
        image = rows.reduce(of).value / share[:, None] / units.sum_w - excess[:, None] * V
    parts = []
    for group in groups:
        size = min(len(group), V.shape[1])
        basis = V[group, :size]
        small = basis.T @ image[group, :size]
        lam, T = np.linalg.eigh((small + small.T) / 2)
        U = (basis @ T)[:, ::-1][:, :q]
        parts.append((group, lam[::-1][:q], U * (sign_rule(U) if len(groups) > 1 else 1.0)))
    return parts


def _orthonormal(V: Array, groups: Sequence[Group]) -> Array:
    """V (d, k) with the rows of each group orthonormal; a group of fewer columns has zeros."""
    Q = np.zeros_like(V)
    for group in groups:
        basis = np.linalg.qr(V[group])[0]
        Q[group, : basis.shape[1]] = basis
    return Q


# Sums over rows ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairCounts(Additive):
    """(d, d) weighted numbers of rows in which two columns are both observed."""

    value: Array

    @classmethod
    def of(cls, rows: ObservedRows) -> PairCounts:
        times = _row_weights(rows)
        if isinstance(rows.M, np.ndarray):
            M = rows.M  # without weights an integer up to the rows of a block: exact in float32
            among = M.T @ (M if np.all(times == 1.0) else M * times[:, None])
        else:
            among = (rows.M.T @ rows.M.multiply(times[:, None]).tocsr()).toarray()
        everywhere, at = rows.complete_columns(), rows.incomplete
        value = np.full((rows.d, rows.d), float(np.sum(times)))
        value[at] = rows.observed[at, None]
        value[:, at] = rows.observed[at]
        value[np.ix_(~everywhere, ~everywhere)] = among
        return cls(value)


@dataclass(frozen=True, eq=False)
class ZeroFilledProduct(Additive):
    """(sum_i w_i r_i r_i^T) V for V (d, k), missing values at zero: where an EM fit starts.

    With values missing at random, a product r_j r_k of centred values is observed with probability
    p_j p_k (p_j on the diagonal), so this scatter over that probability estimates the covariance
    (Lounici 2014). Its leading eigenvectors are close enough for EM to finish in tens of steps. No
    d x d matrix is formed unless V is the identity.
    """

    value: Array  # (d, k)

    @classmethod
    def of(cls, rows: ObservedRows, V: Array) -> ZeroFilledProduct:
        projected = rows.R @ V  # (c, k)
        if rows.weight is not None:
            projected = projected * rows.weight[:, None]
        return cls(np.asarray(rows.R.T @ projected))

    @classmethod
    def scatter(cls, rows: ObservedRows) -> ZeroFilledProduct:
        R = rows.R
        left = R if rows.weight is None else R * rows.weight[:, None]
        product = left.T @ R
        return cls(np.asarray(product if isinstance(product, np.ndarray) else product.toarray()))


def _row_weights(rows: ObservedRows) -> Array:
    """(u,) weight of each row of the mask: a shared pattern stands for several rows."""
    weight = np.ones(len(rows.order)) if rows.weight is None else rows.weight
    shared = [np.sum(weight[a:b]) for a, b in zip(rows.bounds[:-1], rows.bounds[1:], strict=True)]
    return np.concatenate([weight[: rows.n_unique], np.array(shared)])
