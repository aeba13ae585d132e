"""Posteriors of the latent variables of rows, as values.

`RowPosteriors` is what every computation of posteriors returns, whichever way it takes, and what
E-steps, densities and imputations are made from. `Posterior` is what users get of a whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from eigengap.exceptions import SingularModelError
from eigengap.linalg import Array, packed_size, unpack
from eigengap.wording import words


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
                f"{self.q} components leave directions without variance (row "
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


def square_roots(S: Array) -> Array:
    """Matrices L with L L^T = S for a stack of covariances (u, q, q), singular ones included."""
    try:
        return np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    except np.linalg.LinAlgError:  # a zero variance, in the limit of no noise
        lam, U = np.linalg.eigh(S)
        return np.asarray(U * np.sqrt(np.maximum(lam, 0.0))[:, None, :])


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
