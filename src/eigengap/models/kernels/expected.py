"""Kernels of rows with missing values: E[k(x, y)] given what was observed of x and of y.

Under a linear-Gaussian model the missing values of a row are Gaussian given its observed ones, with
mean a and covariance A (0 on observed values). For two independent rows and the Gaussian kernel

    E[b exp(-gamma |x - y|^2)] = b |M|^-1/2 exp(-gamma (a_x - a_y)' M^-1 (a_x - a_y)),
    M = I + 2 gamma (A_x + A_y)

(the Gaussian integral; Girard, Rasmussen, Quinonero-Candela and Murray-Smith 2003 use it for
Gaussian processes). For the linear kernel it is a_x' a_y. A row with itself is no pair of
independent rows: E k(x, x) = b, and |a|^2 + tr A. The matrix of all pairs is an average of kernel
matrices of completed tables, hence positive. M is d x d and there is one for each pair of patterns
of missing values: `work` is their cost, and `MOST_WORK` is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.kernels.functions import RBF, Kernel, Linear, Rows, squares

MOST_WORK = 4e10  # multiplications: pairs of patterns times d^3, and pairs of rows times d^2
FEW_PAIRS = 64  # of rows of two patterns, up to which they are not worth a product of their own
_STACK_BYTES = 1 << 24  # of d x d matrices that are held at a time


@dataclass(frozen=True, eq=False)
class ExpectedKernel(Kernel):
    """E[k(x, y) | observed values] of rows with missing values (NaN), k Gaussian or linear."""

    kernel: RBF | Linear
    model: LinearGaussian

    def matrix(self, X: Rows, Y: Rows, out: Array | None = None) -> Array:
        """Of rows of two tables that are all independent of each other."""
        if isinstance(self.kernel, Linear):
            return self.kernel.matrix(self._means(X), self._means(Y), out)
        work = self.work(X, Y)
        if work > MOST_WORK:
            raise ValueError(
                f"the expected kernel of rows with so many missing patterns takes {work:.1e} "
                f"multiplications, above the limit of {MOST_WORK:.0e} (pairs of patterns times "
                "n_features^3, and pairs of rows with missing values times n_features^2): impute "
                "them first, make_pipeline(LowRankImputer(), KernelPCA(...)), or use landmarks"
            )
        x = self._gaussians(X)
        y = x if Y is X else self._gaussians(Y)
        K = self.kernel.matrix(x.mean, y.mean, out)  # right where both rows are complete
        step = max(1, _STACK_BYTES // (8 * x.mean.shape[1] ** 2))
        for p in range(len(x.cov)):
            first = p if y is x else 0  # the other half is the mirror of this
            for start in range(first, len(y.cov), step):
                some = np.arange(start, min(start + step, len(y.cov)))
                chosen = some if x.has_missing[p] else some[y.has_missing[some]]
                if len(chosen):
                    self._put_patterns(self.kernel, K, x, p, y, chosen)
        return K

    def diagonal(self, X: Rows) -> Array:
        if isinstance(self.kernel, RBF):
            return self.kernel.diagonal(X)
        x = self._gaussians(X)
        origin = 0.0 if self.kernel.origin is None else self.kernel.origin
        return np.asarray(squares(x.mean - origin) + np.trace(x.cov, axis1=1, axis2=2)[x.pattern])

    def work(self, X: Array, Y: Array) -> float:
        """Multiplications that `matrix` takes, roughly."""
        if isinstance(self.kernel, Linear):
            return 0.0
        missing = np.isnan(X), np.isnan(Y)
        patterns = [len(np.unique(mask, axis=0)) for mask in missing]
        rows = [int(np.count_nonzero(mask.any(axis=1))) for mask in missing]
        d = int(X.shape[1])
        pairs = len(X) * rows[1] + len(Y) * rows[0]
        return float(patterns[0] * patterns[1] * d**3 + pairs * d**2)

    def _put_patterns(
        self, kernel: RBF, K: Array, x: _Gaussians, p: int, y: _Gaussians, some: NDArray[np.intp]
    ) -> None:
        """The rows of x of pattern p against the rows of y of some patterns, in K."""
        mine = x.rows[p]
        M = np.eye(x.mean.shape[1]) + 2.0 * kernel.gamma * (x.cov[p] + y.cov[some])  # (u, d, d)
        root = np.linalg.cholesky(M)
        size = kernel.b / np.prod(np.einsum("ujj->uj", root), axis=1)  # b |M|^-1/2
        inverse = np.linalg.inv(root)  # |L^-1 (a_x - a_y)|^2 is the quadratic form of M = L L'
        few = np.array([len(y.rows[r]) * len(mine) <= FEW_PAIRS for r in some])
        for v in np.flatnonzero(~few):
            theirs = y.rows[some[v]]
            to = inverse[v].T
            block = RBF(kernel.gamma, float(size[v])).matrix(
                (x.mean[mine] - self.model.mu) @ to, (y.mean[theirs] - self.model.mu) @ to
            )
            _put_both(K, mine, theirs, block, mirror=y is x)
        if few.any():
            apiece = [y.rows[r] for r in some[few]]
            theirs = np.concatenate(apiece)
            u = np.repeat(np.flatnonzero(few), [len(rows) for rows in apiece])
            for i in mine:
                apart = inverse[u] @ (x.mean[i] - y.mean[theirs])[:, :, None]  # (c, d, 1)
                form = np.einsum("cjk,cjk->c", apart, apart)
                block = size[u] * np.exp(-kernel.gamma * form)
                _put_both(K, np.array([i]), theirs, block[None, :], mirror=y is x)

    def _means(self, X: Rows) -> Array:
        return self.model.conditional_mean(X) if np.isnan(X).any() else np.asarray(X, float)

    def _gaussians(self, X: Array) -> _Gaussians:
        missing = np.isnan(X)
        patterns, first, pattern = np.unique(
            missing, axis=0, return_index=True, return_inverse=True
        )
        cov = np.zeros((len(patterns), X.shape[1], X.shape[1]))
        S = self.model.posterior(X[first]).cov  # (u, q, q)
        for u, missing in enumerate(patterns):
            W = self.model.W * missing[:, None]
            cov[u] = W @ S[u] @ W.T + np.diag(self.model.psi * missing)
        return _Gaussians(self._means(X), cov, pattern.reshape(-1), np.any(patterns, axis=1))


@dataclass(frozen=True, eq=False)
class _Gaussians:
    """Rows given what was observed of them."""

    mean: Array  # (n, d)
    cov: Array  # (u, d, d) of each pattern of missing values
    pattern: NDArray[np.intp]  # (n,)
    has_missing: NDArray[np.bool_]  # (u,)

    @cached_property
    def rows(self) -> list[NDArray[Any]]:
        """The rows of each pattern."""
        order = np.argsort(self.pattern, kind="stable")
        counts = np.bincount(self.pattern, minlength=len(self.cov))
        return np.split(order, np.cumsum(counts)[:-1])


def _put_both(
    K: Array, rows: NDArray[np.intp], columns: NDArray[np.intp], block: Array, *, mirror: bool
) -> None:
    K[np.ix_(rows, columns)] = block
    if mirror:
        K[np.ix_(columns, rows)] = block.T
