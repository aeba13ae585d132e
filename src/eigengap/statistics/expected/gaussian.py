"""EM for a linear-Gaussian model: the sums of the E-step, and the M-step made of them.

With z~ = (z, 1) and W~ = (W, mu), the expected complete-data log-likelihood of feature j is a
weighted least-squares problem over the rows in which it is observed (T&B 1999, Appendix B; with
missing values, Ilin and Raiko 2010, section 4.3), so it needs only

    A_j = sum_i w_i m_ij E[z~_i z~_i^T],  B_j = sum_i w_i m_ij r_ij E[z~_i],  sum_i w_i m_ij r_ij^2

and the M-step of all features is d small linear systems A_j w~_j = B_j. PPCA pools the residual
variances, factor analysis keeps them apart; the rest is the same code. r is x measured from a fixed
shift. The posteriors of z behind the expectations are in `models.gaussian.posterior`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

import numpy as np

from eigengap.compiled import factorise
from eigengap.linalg import Array, pack, packed_diagonal, packed_size, unpack
from eigengap.models.gaussian.observed_rows import Chunk, ObservedRows, Scratch
from eigengap.models.gaussian.posterior import (
    BlockCoefficients,
    Coefficients,
    RowPosteriors,
    times_packed,
)
from eigengap.statistics.additive import Additive

scratch = Scratch()


# The E-step -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Expected(Additive):
    """Sums over rows; they merge by addition. K~ = (q + 1)(q + 2) / 2, packed triangles of z~ z~^T.

    The triangle's last row belongs to the constant 1, so A = [zz packed | z | 1].
    """

    A: Array  # (K~, d)
    B: Array  # (q + 1, d)
    squares: Array  # (d,)
    latent: Array  # (K~,) sum_i w_i E[z~ z~^T], over all rows
    log_likelihood: float
    cells: float  # weighted number of observed values

    @classmethod
    def of(cls, rows: ObservedRows, coefficients: Coefficients, passes: int = 1) -> Expected:
        """Statistics of one block under the current parameters: an E-step."""
        sums, block = Sums(rows, coefficients.q), BlockCoefficients.of(rows, coefficients)
        for chunk in rows.chunks(coefficients.q):
            sums.add(chunk, block.posteriors(chunk, passes, scratch), chunk.weight)
        return sums.expected(rows.squares, rows.cells)

    @property
    def q(self) -> int:
        return len(self.B) - 1

    @property
    def sum_w(self) -> float:
        return float(self.latent[-1])

    def observed(self) -> Array:
        """(d,) weighted number of rows in which each feature is observed."""
        return np.asarray(self.A[-1])

    def latent_moments(self) -> tuple[Array, Array]:
        """Mean (q,) and covariance (q, q) of z over the rows, posterior covariance included."""
        full = unpack(self.latent, self.q + 1) / self.sum_w
        mean = full[-1, :-1]
        return mean, full[:-1, :-1] - np.outer(mean, mean)


class Sums:
    """The sums of one block while its chunks are read."""

    def __init__(self, rows: ObservedRows, q: int) -> None:
        self._rows = rows
        size = packed_size(q + 1)
        self._A = np.zeros((size, len(rows.incomplete)))
        self._B = np.zeros((q + 1, rows.d))
        self._latent = np.zeros(size)
        self._log_likelihood = 0.0

    def add(
        self, chunk: Chunk, part: RowPosteriors, w: Array | None, u: Array | None = None
    ) -> tuple[Array, Array]:
        """One chunk, its rows counted w (c,) times.

        Where a row has precision u (c,), expected, given which z has covariance S / u (multivariate
        t), the sums are of E[u z~ z~^T] and of E[u z~]. Where values have measurement errors, those
        of A and B are weighted by their precisions V. Returns the weighted E[z~ z~^T], valid until
        the next chunk, and the weighted E[z~].
        """
        log_density = part.log_density
        self._log_likelihood += float(np.sum(log_density) if w is None else log_density @ w)
        E = expected_products(part.Z, part.S, w, u)  # (K~, number of mask rows)
        wu = w if u is None else u if w is None else w * u
        z = np.vstack([part.Z, np.ones((1, part.Z.shape[1]))])  # (q + 1, c)
        z = z if wu is None else z * wu
        self._latent += E @ np.ones(E.shape[1])
        self._A += _times(E, chunk.M if part.V is None else part.V)
        self._B += _times(z, chunk.R if part.V is None else part.V * chunk.R)
        return E, z

    def expected(self, squares: Array, cells: float) -> Expected:
        """With the weighted column sums of R^2 (d,) and number of observed values."""
        rows = self._rows
        A = np.empty((len(self._latent), rows.d))
        A[:, rows.incomplete] = self._A
        A[:, rows.complete_columns()] = self._latent[:, None]  # the sum over all rows
        return Expected(
            A=A,
            B=self._B,
            squares=squares,
            latent=self._latent,
            log_likelihood=self._log_likelihood,
            cells=cells,
        )


def expected_products(Z: Array, S: Array, w: Array | None, u: Array | None = None) -> Array:
    """Weighted E[z~ z~^T], packed: (K~, c), or summed over the rows of a shared pattern (K~, 1).

    With u (c,) E[u z~ z~^T] = [S + u z z^T | u z | u]: the covariance S / u times u is S again.
    """
    (q, c), K = Z.shape, len(S)
    E = scratch.array("products", (K + q + 1, S.shape[1]))
    uZ = Z if u is None else Z * u
    if S.shape[1] == c:
        for i in range(q):
            row = slice(i * (i + 1) // 2, (i + 1) * (i + 2) // 2)
            np.multiply(uZ[i], Z[: i + 1], out=E[row])
            E[row] += S[row]
        E[K : K + q] = uZ
        E[K + q] = 1.0 if u is None else u
        if w is not None:
            E *= w
        return E
    weighted = uZ if w is None else uZ * w
    count = float(c) if w is None else float(np.sum(w))
    E[:K] = count * S + pack(weighted @ Z.T)[:, None]
    E[K : K + q, 0] = weighted.sum(axis=1)
    E[K + q] = count if u is None else np.sum(u if w is None else u * w)
    return E


def _times(left: Array, rows: object) -> Array:
    """left @ rows with rows dense of any float type, or sparse."""
    if isinstance(rows, np.ndarray):
        return left @ rows.astype(np.float64, copy=False)
    return np.ascontiguousarray((rows.T @ left.T).T)  # type: ignore[attr-defined]


# Statistics in other coordinates ----------------------------------------------------------------
#
# Statistics that are kept while the model moves on must follow it: z~ = (z, 1) becomes T z~ where
# the latent axes are moved, and a column r becomes a r + b where its unit or its origin is.


def times(expected: Expected, factor: float) -> Expected:
    """Every row counted `factor` times."""
    return Expected(**{name: factor * value for name, value in vars(expected).items()})


def in_other_latents(expected: Expected, mean: Array, root: Array) -> Expected:
    """The statistics of z' with z = mean + root z': mean (q,), root (q, q) regular."""
    q = expected.q
    inverse = np.linalg.inv(root)
    T = np.eye(q + 1)
    T[:q, :q] = inverse
    T[:q, q] = -inverse @ mean
    A = T @ unpack(np.ascontiguousarray(expected.A.T), q + 1) @ T.T  # (d, q + 1, q + 1)
    return replace(
        expected,
        A=np.ascontiguousarray(pack(A).T),
        B=T @ expected.B,
        latent=pack(T @ unpack(expected.latent, q + 1) @ T.T),
    )


def in_other_units(expected: Expected, a: Array, b: Array | float) -> Expected:
    """The statistics of a r + b, column by column: a, b (d,)."""
    # The last row of each triangle is sum w m E[(z, 1)], and the last of B is sum w m r.
    ones = expected.A[-(expected.q + 1) :]
    sums = expected.B[-1]
    return replace(
        expected,
        B=a * expected.B + b * ones,
        squares=a**2 * expected.squares + 2.0 * a * b * sums + b**2 * ones[-1],
    )


# The M-step -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Parameters(Coefficients):
    """A linear-Gaussian model in the making: an M-step leaves it, the next E-step takes it."""

    nu: float = inf  # degrees of freedom; finite for multivariate t


@dataclass(frozen=True, eq=False)
class Constraints:
    """What the M-step may change.

    Attributes
    ----------
    noise : "isotropic" pools the noise variance (PPCA), "diagonal" has one per feature (FA)
    floor : (d,) least noise variance, far below the data's but safe for products
    fixed_noise : the noise variance, where it is given and not learned
    fit_mean : whether mu is learned; if not it stays at the rows' shift
    loading_precision : of the prior W_jk ~ N(0, 1 / precision), one number or one per column (q,);
        0 is maximum likelihood
    fixed_nu : degrees of freedom, where they are given and not learned
    least_nu : fewest degrees of freedom that may be learned
    """

    noise: Literal["isotropic", "diagonal"]
    floor: Array
    fixed_noise: float | None = None
    fit_mean: bool = True
    loading_precision: float | Array = 0.0
    fixed_nu: float | None = None
    least_nu: float = 1.0

    @property
    def has_prior(self) -> bool:
        return bool(np.any(self.loading_precision))


def maximise(expected: Expected, current: Parameters, how: Constraints) -> Parameters:
    """One M-step. `current` supplies the noise that weighs the prior against the data."""
    return maximise_together([expected], [current], [how])[0]


def maximise_together(
    expected: Sequence[Expected], current: Sequence[Parameters], how: Sequence[Constraints]
) -> list[Parameters]:
    """The M-step of models that share one noise; they may differ in rank and prior."""
    fits = [regress(*each) for each in zip(expected, current, how, strict=True)]
    psi = noise_variances(
        residual=np.sum([residual for _, _, residual in fits], axis=0),
        cells=float(np.sum([e.cells for e in expected])),
        observed=np.sum([e.observed() for e in expected], axis=0),
        how=how[0],
    )
    updated = []
    for (W, delta, _), e, h in zip(fits, expected, how, strict=True):
        W, delta = (W, delta) if h.has_prior else expand(e, W, delta, h)
        updated.append(Parameters(W=W, delta=delta, psi=psi))
    return updated


def regularised(expected: Expected, current: Parameters, rows: float) -> Expected:
    """The statistics with `rows` more rows, each feature of which is as the current model has it.

    A feature that is hardly ever observed leaves its regression without a solution; with a
    vanishing weight on such rows it keeps its current parameters. The expected log-likelihood of
    the added rows is largest at the current parameters, so that an M-step on the sum still never
    lowers the likelihood, and has the same fixed points.
    """
    share = rows / expected.sum_w
    latent = unpack(expected.latent, expected.q + 1) * share  # of the added rows
    both = np.column_stack([current.W, current.delta])  # (d, q + 1)
    B = latent @ both.T
    signal = np.einsum("kd,dk->d", B, both)
    return replace(
        expected,
        A=expected.A + share * expected.latent[:, None],
        B=expected.B + B,
        squares=expected.squares + signal + rows * current.psi,
        cells=expected.cells + rows * len(both),
    )


def log_prior(parameters: Parameters, how: Constraints) -> float:
    """ln p(W) up to a constant: what MAP adds to the log-likelihood."""
    if not how.has_prior:
        return 0.0
    return -0.5 * float(np.sum(how.loading_precision * parameters.W**2))


def regress(
    expected: Expected, current: Parameters, how: Constraints
) -> tuple[Array, Array, Array]:
    """W (d, q), delta (d,) and the expected sum of squared residuals (d,) that they leave."""
    q = expected.q
    size = q + 1 if how.fit_mean else q
    A = expected.A[: packed_size(size)].copy()  # without the mean: the leading triangle
    B = np.ascontiguousarray(expected.B[:size])
    if how.has_prior:
        precision = np.broadcast_to(how.loading_precision, (q,))[:, None]
        A[packed_diagonal(q)] += precision * current.psi
    solution, _ = factorise(A, B, passes=1)  # (size, d)
    W = np.ascontiguousarray(solution[:q].T)
    delta = solution[q].copy() if how.fit_mean else np.zeros(len(W))
    residual = expected.squares - np.einsum("kd,kd->d", solution, B)
    if how.has_prior:
        # (A + prior) w = B, so sum E[(r - w^T z)^2] = squares - w^T B - w^T prior w.
        residual = residual - current.psi * np.sum(how.loading_precision * W**2, axis=1)
    return W, delta, residual


def gradient(
    expected: Expected, current: Parameters, how: Constraints, observed: Array | None = None
) -> Parameters:
    """Derivatives of the observed-data log-likelihood, and of the prior, by each parameter.

    By Fisher's identity they are those of the expected complete-data log-likelihood, which
    `expected` makes under the current parameters. `observed` (d,) counts the observed values of
    each feature where the sums are weighted by more than that.
    """
    both = np.vstack([current.W.T, current.delta])  # (q + 1, d)
    left = expected.B - times_packed(expected.A, both)
    squares = expected.squares - np.einsum("kd,kd->d", both, expected.B + left)
    by_W = (left[:-1] / current.psi).T - how.loading_precision * current.W
    cells = expected.observed() if observed is None else observed
    by_psi = 0.5 * (squares / current.psi - cells) / current.psi
    return Parameters(W=by_W, delta=left[-1] / current.psi, psi=by_psi, nu=0.0)


def noise_variances(residual: Array, cells: float, observed: Array, how: Constraints) -> Array:
    """psi (d,): expected squared residuals per observed value, pooled or by feature."""
    if how.fixed_noise is not None:
        return np.asarray(np.maximum(how.fixed_noise, how.floor))
    if how.noise == "isotropic":
        return np.asarray(np.maximum(float(np.sum(residual)) / cells, how.floor))
    return np.asarray(np.maximum(residual / observed, how.floor))


def expand(
    expected: Expected,
    W: Array,
    delta: Array,
    how: Constraints,
    precision: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Parameter-expanded EM (Liu, Rubin and Wu 1998): free the mean and covariance of z, fold back.

    The larger model z ~ N(zbar, V) has the same observed-data likelihood after mu += W zbar and
    W <- W chol(V); fitting it corrects, in one step, what plain EM corrects over many.

    `precision` are those of Gaussian priors of each w_j and mu_j, (d,) both, with which the larger
    model has a prior too: that of what it is folded back to. n rows whose z have mean m and
    covariance V^ then ask for

        (n I + W^T D W) zbar = n m - W^T D mu          D, L: diagonal, of mu_j and of w_j
        n V + V (W^T L W) V = n (V^ + (m - zbar)(m - zbar)^T)

    one after the other (Meng and Rubin 1993). At a maximum of the posterior zbar = 0 and V = I.
    """
    mean, V = expected.latent_moments()
    if not how.fit_mean:
        return W @ np.linalg.cholesky(V + np.outer(mean, mean)), delta
    if precision is None:
        return W @ np.linalg.cholesky(V), delta + W @ mean
    n, (of_W, of_mean) = expected.sum_w, precision
    pulled = W.T * of_mean
    zbar = np.linalg.solve(n * np.eye(len(mean)) + pulled @ W, n * mean - pulled @ delta)
    root = np.linalg.cholesky(V + np.outer(mean - zbar, mean - zbar))
    # V = root X root^T, where X has the eigenvectors of root^T W^T L W root, and n x + x^2 nu = n.
    nu, vectors = np.linalg.eigh(root.T @ (W.T * of_W) @ W @ root)
    x = 2.0 / (1.0 + np.sqrt(1.0 + 4.0 * np.maximum(nu, 0.0) / n))
    half = root @ vectors
    return W @ np.linalg.cholesky((half * x) @ half.T), delta + W @ zbar
