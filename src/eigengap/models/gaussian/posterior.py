"""Posteriors of the latent variables of rows: as values, and of many rows by matrix products.

For a row with observed values o and residual r = x_o - mu_o (Tipping and Bishop 1999, Eq. 6, with a
noise variance per feature and the missing values left out):

    P = I + W_o^T Psi_o^-1 W_o,   S = P^-1,   z = S W_o^T Psi_o^-1 r
    -2 ln p(x_o) = sum_o (ln 2 pi psi_j + r_j^2 / psi_j) + ln|P| - z^T P z

Each sum over o is linear in per-feature coefficients; one product with the mask and one with the
values give them for all rows. Another noise model supplies other coefficients to the same code.

Where value (i, j) has a known measurement error s_ij, its noise variance is v_ij = psi_j + s_ij^2:
the precisions V_ij = 1 / v_ij, 0 where missing, take the place of the mask over psi. They change
with psi, hence are computed in each pass, for a chunk at a time that stays in the cache.

`RowPosteriors` is what every computation of posteriors returns, whichever way it takes, and what
E-steps, densities and imputations are made from. `Posterior` is what users get of a whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log, pi
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from eigengap.compiled import factorise
from eigengap.exceptions import SingularModelError
from eigengap.linalg import (
    Array,
    pack_outer,
    packed_diagonal,
    packed_size,
    twice_off_diagonal,
    unpack,
)
from eigengap.models.gaussian.observed_rows import Chunk, ObservedRows, Scratch
from eigengap.wording import counted, words

# Beyond this signal to noise, or this distance of the mean from the rows' shift in units of the
# noise, r^T Psi^-1 r - z^T P z is a small difference of large numbers. It is then computed from the
# residuals, and z refined by them: a few more products of size n d q.
CANCELS, FAR = 1e3, 1e3
REFINEMENTS = 5  # at most; each gains a factor of about 1 / (eps snr^2)
# w^T w / psi beyond which these products lose about half of their digits: `noiseless` takes over.
NEARLY_EXACT = 1e7

LOG_RANGE = 600.0  # |ln| of a product of variances that neither over- nor underflows


@dataclass(frozen=True, eq=False)
class RowPosteriors:
    """z_i | x_i of some rows, c of them, rows innermost.

    The covariances depend on which values are observed, not on the values: where all rows share
    their pattern there is one covariance, u = 1; else u = c. K = q (q + 1) / 2.

    With finite `nu` the rows are multivariate t: row i is Gaussian given a precision u_i ~
    Gamma(nu / 2, nu / 2) that multiplies all of its variances (`student`). Z, S, `log_norm` and
    `distance` are then those of the Gaussian with u_i = 1.
    """

    at: NDArray[np.intp]  # (c,) positions of the rows in their table
    Z: Array  # (q, c) means
    S: Array  # (K, u) packed covariances
    log_norm: Array  # (u,) ln |2 pi C_oo|; -inf where C_oo is singular
    distance: Array  # (c,) squared Mahalanobis distance r^T C_oo^-1 r; inf off a singular plane
    row_cells: NDArray[np.intp]  # (c,) observed values
    V: Array | None = None  # (c, d) precisions of values with measurement errors, 0 where missing
    nu: float = inf  # degrees of freedom

    @property
    def q(self) -> int:
        return len(self.Z)

    @property
    def mean(self) -> Array:
        """(c, q)."""
        return self.Z.T

    def covariances(self) -> Array:
        """(u, q, q)."""
        return unpack(self.S.T, self.q)

    @property
    def log_density(self) -> Array:
        """(c,) ln p of the observed values."""
        if self.nu == inf:
            return np.asarray(-0.5 * (self.log_norm + self.distance))
        constant = _log_gamma_ratios(int(np.max(self.row_cells, initial=0)), self.nu)
        tail = (self.nu + self.row_cells) * np.log1p(self.distance / self.nu)
        return np.asarray(constant[self.row_cells] - 0.5 * (self.log_norm + tail))

    @property
    def has_density(self) -> bool:
        """Whether C_oo is regular."""
        return bool(np.all(self.log_norm > -inf))

    def require_density(self) -> None:
        if not self.has_density:
            raise SingularModelError(
                "the model has no density: its noise variance is zero where its "
                f"{counted(self.q, 'component', 'leave')} directions without variance (row "
                f"{words().number(int(self.at[0]))}). "
                f"{'Fit fewer components, or give' if self.q else 'Give'} "
                f"{words().model('PPCA')} a {words().parameter('noise_variance')} above 0"
            )

    @property
    def expected_u(self) -> Array:
        """(c,) E[u | x] = (nu + p) / (nu + distance) of p observed values: the row's weight."""
        return np.asarray((self.nu + self.row_cells) / (self.nu + self.distance))

    @property
    def variance_factor(self) -> Array | None:
        """(c,) E[1 / u | x], by which variances given the row are larger; None where it is 1.

        (nu + distance) / (nu + p - 2): a row far out is less sure of its missing values. Infinite
        for nu + p <= 2.
        """
        if self.nu == inf:
            return None
        self.require_density()
        left = self.nu + self.row_cells - 2.0
        finite = (self.nu + self.distance) / np.where(left > 0, left, 1.0)
        return np.where(left > 0, finite, inf)

    def draw_errors(self, W: Array, psi: Array, rng: np.random.Generator) -> Array:
        """(c, d) draws of x - E[x] given the observed values, for loadings W and noise psi."""
        c = len(self.at)
        u = None
        if self.nu < inf and (np.any(W) or np.any(psi)):  # without any variance, none is multiplied
            self.require_density()
            u = rng.gamma((self.nu + self.row_cells) / 2) * 2 / (self.nu + self.distance)
        z = (square_roots(self.covariances()) @ rng.standard_normal((c, self.q, 1)))[:, :, 0]
        errors = z @ W.T + rng.standard_normal((c, len(W))) * np.sqrt(psi)
        return errors if u is None else errors / np.sqrt(u)[:, None]

    def pieces(self, step: int) -> Iterable[RowPosteriors]:
        """At most `step` rows at a time."""
        if len(self.at) <= step:
            yield self
            return
        shared = self.S.shape[1] == 1
        for start in range(0, len(self.at), step):
            rows = slice(start, start + step)
            yield replace(
                self,
                at=self.at[rows],
                Z=self.Z[:, rows],
                S=self.S if shared else self.S[:, rows],
                log_norm=self.log_norm if shared else self.log_norm[rows],
                distance=self.distance[rows],
                row_cells=self.row_cells[rows],
                V=None if self.V is None else self.V[rows],
            )

    @staticmethod
    def joined(parts: Sequence[RowPosteriors]) -> RowPosteriors:
        """All rows of a table in their order, from parts without V."""
        order = np.argsort(np.concatenate([part.at for part in parts]))

        def along(name: str) -> Any:
            values = [(getattr(part, name), len(part.at)) for part in parts]
            wide = [np.broadcast_to(v, (*v.shape[:-1], c)) for v, c in values]
            return np.concatenate(wide, axis=-1)[..., order]

        names: Any = ("at", "Z", "S", "log_norm", "distance", "row_cells")
        return replace(parts[0], **{name: along(name) for name in names})


def _log_gamma_ratios(most: int, nu: float) -> Array:
    """ln Gamma((nu + p) / 2) - ln Gamma(nu / 2) - p / 2 ln(nu / 2) for p = 0..most.

    By Gamma(x + 1) = x Gamma(x), a sum of ln(1 + k / nu): no difference of large numbers.
    """
    ratios = np.zeros(most + 1)
    steps = np.log1p(np.arange(max(most - 1, 0)) / nu)  # from p to p + 2
    ratios[2::2] = np.cumsum(steps[::2])
    if most >= 1:
        half = nu / 2
        if nu < 1e3:
            first = gammaln(half + 0.5) - gammaln(half) - 0.5 * np.log(half)
        else:  # Tricomi and Erdelyi 1951
            first = -1 / (8 * half) + (1 / half) ** 3 / 192
        ratios[1] = first
        ratios[3::2] = first + np.cumsum(steps[1::2])
    return ratios


def square_roots(S: Array) -> Array:
    """Matrices L with L L^T = S for a stack of covariances (u, q, q), singular ones included."""
    try:
        return np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    except np.linalg.LinAlgError:  # a zero variance, in the limit of no noise
        lam, U = np.linalg.eigh(S)
        return np.asarray(U * np.sqrt(np.maximum(lam, 0.0))[:, None, :])


# Many rows at once ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What each feature adds to the posterior of a row in which it is observed.

    The model is x = W z + delta + noise(psi), x measured from the rows' shift; w~ = (w, delta).
    """

    W: Array  # (d, q)
    delta: Array  # (d,) mean - shift
    psi: Array  # (d,)

    is_known: ClassVar[bool] = True

    @property
    def q(self) -> int:
        return int(self.W.shape[1])

    @property
    def augmented(self) -> Array:
        """(d, q + 1) w~."""
        return np.column_stack([self.W, self.delta])

    @cached_property
    def on_values(self) -> Array:
        """(d, q + 1) w~ / psi."""
        return self.augmented / self.psi[:, None]

    @cached_property
    def on_mask(self) -> Array:
        """(d, K + q + 2): w~ w~^T / psi packed, which is w w^T | w delta | delta^2; ln 2 pi psi."""
        return np.column_stack([self.products / self.psi[:, None], np.log(2 * pi * self.psi)])

    @property
    def products(self) -> Array:
        """(d, K + q + 1) w~ w~^T packed."""
        return pack_outer(self.augmented)


@dataclass(frozen=True, eq=False)
class UncertainCoefficients(Coefficients):
    """Those of uncertain (w_j, delta_j): E[w~ w~^T] in place of w~ w~^T (Bishop 1999)."""

    covariances: Array  # (K + q + 1, d) packed, of each (w_j, delta_j)

    is_known: ClassVar[bool] = False

    @property
    def products(self) -> Array:
        return super().products + self.covariances.T


@dataclass(frozen=True, eq=False)
class BlockCoefficients:
    """A model's coefficients as the rows of one block use them."""

    model: Coefficients
    on_incomplete: Array  # (g, K + q + 2) of the columns with missing values in the block
    on_complete: Array  # (K + q + 2,) summed over the others
    cancels: bool  # whether distances must come from residuals
    together: int  # variances that can be multiplied before a logarithm is taken

    @classmethod
    def of(cls, rows: ObservedRows, model: Coefficients) -> BlockCoefficients:
        least = model.psi + rows.least_known
        signal = np.einsum("jq,jq->j", model.W, model.W)
        small = (signal / CANCELS > least) | (np.abs(model.delta) / FAR > np.sqrt(least))
        cancels = model.is_known and bool(np.any(small))
        if rows.known is not None:
            largest = rows.largest_known + float(np.max(model.psi, initial=0.0))
            log_size = max(-log(np.min(least, initial=1.0)), log(largest), 1e-9)
            together = max(1, min(16, rows.d, int(LOG_RANGE / log_size)))
            return cls(model, np.empty((0, 0)), np.empty(0), cancels, together)
        on_incomplete = model.on_mask[rows.incomplete]
        on_complete = model.on_mask[rows.complete_columns()].sum(axis=0)
        return cls(model, on_incomplete, on_complete, cancels, together=1)

    def posteriors(
        self, chunk: Chunk, passes: int = 1, scratch: Scratch | None = None
    ) -> RowPosteriors:
        """Posteriors of one of the chunks of the block.

        `passes` is how often the caller expects to do this: it decides whether compiling pays.
        With `scratch` the covariances are valid until the next chunk is asked for.
        """
        model, q, K = self.model, self.model.q, packed_size(self.model.q)
        # Over the observed values of each row: `sums` (K + q + 1 or more, u) of w~ w~^T / psi,
        # packed, and `projected` (q + 1, c) of w~ r / psi. u = c, or 1 where rows share a pattern.
        if chunk.known is None:
            V = None
            shape = self.on_incomplete.shape[1], chunk.M.shape[0]
            out = None if scratch is None else scratch.array("sums", shape)
            sums = product(self.on_incomplete, chunk.M, out)
            if self.on_complete.any():
                sums += self.on_complete[:, None]
            projected = product(model.on_values, chunk.R)
            log_noise, squares = sums[-1], _row_squares(chunk, model.psi)
        else:
            V, log_noise = self._precisions(chunk)
            VR = V * chunk.R
            sums = product(model.products, V)
            projected = product(model.augmented, VR)
            squares = np.einsum("ij,ij->i", VR, chunk.R)
        S, b = sums[:K], projected[:q] - sums[K : K + q]
        S[packed_diagonal(q)] += 1.0  # S is still P, and becomes its inverse
        if S.shape[1] == b.shape[1]:
            Z, log_det = factorise(S, b, passes=passes)
        else:
            _, log_det = factorise(S, np.zeros((q, 1)), passes=passes)
            Z = unpack(S[:, 0], q) @ b
        distance = sums[K + q] - 2.0 * projected[q] - np.einsum("qc,qc->c", b, Z) + squares
        if self.cancels:
            inverse_noise = chunk.mask() / model.psi if V is None else V
            residuals = chunk.values() - model.delta
            Z, distance = from_residuals(residuals, inverse_noise, model.W, S, Z)
        log_norm = log_det + log_noise
        return RowPosteriors(chunk.at, Z, S, log_norm, distance, chunk.row_cells, V)

    def _precisions(self, chunk: Chunk) -> tuple[Array, Array]:
        """V (c, d), and the sums of ln 2 pi v over the observed values of each row (c,)."""
        v = chunk.M * self.model.psi
        v += chunk.known
        # Logarithms are expensive: variances are multiplied first. v is 1 where missing.
        width = v.shape[1] // self.together
        slab = v[:, :width].copy()
        for k in range(1, self.together):
            slab *= v[:, k * width : (k + 1) * width]
        rest = v[:, self.together * width :]
        log_noise = np.log(slab).sum(axis=1) + np.log(rest).sum(axis=1)
        log_noise += chunk.row_cells * log(2 * pi)
        return np.divide(chunk.M, v, out=v), log_noise


def is_nearly_exact(W: Array, psi: Array) -> bool:
    """Whether the noise is too small, relative to the signal, for products."""
    signal = np.einsum("jq,jq->j", W, W)
    return bool(np.any(signal > NEARLY_EXACT * psi) or np.any(psi <= 0.0))


def product(coefficients: Array, rows: Any, out: Array | None = None) -> Array:
    """coefficients^T rows^T, (d, k) and (c, d) -> (k, c), C-contiguous float64.

    Dense ones are written to `out`, if given.
    """
    if isinstance(rows, np.ndarray):
        return np.matmul(coefficients.T, rows.T.astype(np.float64, copy=False), out=out)
    return np.ascontiguousarray((rows @ coefficients).T)


def _row_squares(chunk: Chunk, psi: Array) -> Array:
    """(c,) sum_j R_ij^2 / psi_j."""
    if np.all(psi == psi[0]):
        return np.asarray(chunk.row_squares / psi[0])
    if isinstance(chunk.R, np.ndarray):
        return np.asarray(np.einsum("ij,ij,j->i", chunk.R, chunk.R, 1.0 / psi, dtype=np.float64))
    return np.asarray(chunk.R.power(2) @ (1.0 / psi))


def from_residuals(
    values: Array, inverse_noise: Array, W: Array, S: Array, Z: Array
) -> tuple[Array, Array]:
    """Refined means (q, c), and (c,) sum_o (r - w^T z)^2 / psi, plus |z|^2.

    `values` (c, d) are r; `inverse_noise` (c or 1, d) is 1 / psi where observed, else 0.
    The solution of P z = b carries the rounding of b, which is of the size of the signal over the
    noise. The gradient W^T Psi^-1 (r - W z) - z, from residuals, is small and so is its rounding:
    Newton steps with it (iterative refinement) recover the lost digits.
    """
    for _ in range(REFINEMENTS):
        weighted = (values - Z.T @ W.T) * inverse_noise  # (c, d)
        step = times_packed(S, (weighted @ W).T - Z)
        Z = Z + step
        if np.max(np.abs(step), initial=0.0) <= 1e-11 * np.max(np.abs(Z), initial=1.0):
            break
    terms = (values - Z.T @ W.T) ** 2 * inverse_noise
    return Z, np.asarray(terms.sum(axis=1) + np.einsum("qc,qc->c", Z, Z))


def times_packed(S: Array, B: Array) -> Array:
    """S_i b_i for packed symmetric matrices S (K, c or 1) and vectors B (q, c)."""
    q = len(B)
    if S.shape[1] != B.shape[1]:
        return np.asarray(unpack(S[:, 0], q) @ B)
    product = np.zeros_like(B)
    for i in range(q):
        row = S[i * (i + 1) // 2 :][: i + 1]  # (i + 1, c), entries (i, 0..i)
        product[i] += np.einsum("jc,jc->c", row, B[: i + 1])
        product[:i] += row[:i] * B[i]
    return product


def projected_variance(W: Array, S: Array) -> Array:
    """w_j^T S_i w_j for all features and packed covariances: (d, q), (K, u) -> (d, u).

    Known to rounding of w^T w. Where the observed cells determine feature j that is all there is,
    of either sign: it is 0 then.
    """
    return np.maximum(twice_off_diagonal(pack_outer(W)) @ S, 0.0)


# A whole table --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Posterior:
    """z_i | x_i ~ N(mean_i, cov_i), covariances stored once per pattern of observed values.

    Under a linear-Gaussian model the covariance depends on which values are observed, not on the
    values, so rows with the same missing values share theirs. Under Student noise z_i | x_i is a
    multivariate t, and the covariance is that of the pattern times a factor of the row.

    Attributes
    ----------
    mean : (n, q)
    pattern_cov : (u, q, q) distinct covariances
    pattern : (n,) index into `pattern_cov` of each row
    factor : (n,) by which each row's covariance differs from its pattern's, or None for 1
    """

    mean: Array
    pattern_cov: Array
    pattern: NDArray[np.intp]
    factor: Array | None = None

    @classmethod
    def of(cls, parts: Iterable[RowPosteriors], n: int, q: int) -> Posterior:
        """Of a table of n rows."""
        mean, pattern = np.empty((n, q)), np.empty(n, dtype=np.intp)
        packed, count = [np.empty((0, packed_size(q)))], 0
        factor: Array | None = None
        for part in parts:
            mean[part.at] = part.mean
            u = part.S.shape[1]
            pattern[part.at] = count + (np.arange(u) if u == len(part.at) else 0)
            packed.append(part.S.T)
            count += u
            of_rows = part.variance_factor
            if of_rows is not None:
                factor = np.empty(n) if factor is None else factor
                factor[part.at] = of_rows
        return cls(mean, unpack(np.concatenate(packed), q), pattern, factor)

    @property
    def cov(self) -> Array:
        """(n, q, q) covariance of each row, expanded."""
        cov = self.pattern_cov[self.pattern]
        return cov if self.factor is None else cov * self.factor[:, None, None]

    @property
    def std(self) -> Array:
        """(n, q) standard deviation of each latent coordinate."""
        variances: Array = np.einsum("uii->ui", self.pattern_cov)
        std = np.sqrt(variances)[self.pattern]
        return std if self.factor is None else std * np.sqrt(self.factor)[:, None]

    def __len__(self) -> int:
        return len(self.mean)
