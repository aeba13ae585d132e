"""How far a row lies from a linear-Gaussian model, and which of its values contribute.

Let o be the p observed values of a row, r = x_o - mu_o, z and S the posterior mean and covariance
of its latents, G = W_o^T Psi_o^-1 W_o = S^-1 - I, b = W_o^T Psi_o^-1 r = S^-1 z. Under the model
the squared Mahalanobis distance splits into two independent chi-squared variables,

    D2  = r^T C_oo^-1 r                     = T2 + SPE          ~ chi2(p)
    T2  = b^T (G + G^2)^+ b                 = z^T (I - S)^+ z   ~ chi2(rank G)
    SPE = r^T Psi_o^-1 r - b^T G^+ b        = e^T Psi_o^-1 e    ~ chi2(p - rank G)

with e = r - W_o (I - S)^+ z, what the nearest point of the model's plane (in units of the noise)
leaves over. T2 is Hotelling's statistic of the latents: extreme along the components. SPE is the
squared prediction error (Jackson and Mudholkar 1979): far from what they describe. Missing values
change o, and with it the degrees of freedom, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eigengap.exceptions import SingularModelError
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.posterior import RowPosteriors, projected_variance

Name = Literal["D2", "T2", "SPE"]

# 1 - s, with s an eigenvalue of S, is the share of a latent direction's prior variance that the
# observed values resolve; below this, or below the rounding of S, they do not inform on it.
UNRESOLVED = 1e-12

# Noise below this share of a column's variance leaves no digits in (x_j - w_j^T z) / psi_j.
NO_NOISE = 1e-12


@dataclass(frozen=True, eq=False)
class Distances:
    """The two parts of the squared distances of n rows, and their degrees of freedom."""

    T2: Array  # (n,)
    SPE: Array  # (n,)
    observed: NDArray[np.intp]  # (n,) p
    rank: NDArray[np.intp]  # (n,) of G

    @property
    def D2(self) -> Array:
        return self.T2 + self.SPE


def squared_distance(model: LinearGaussian, X: Array) -> Array:
    """D2 of every row of X: (n,); 0 where nothing was observed."""
    D2 = np.empty(len(X))
    for part in model.row_posteriors(X):
        part.require_density()
        D2[part.at] = part.distance
    return D2


def distances(model: LinearGaussian, X: Array) -> Distances:
    """T2, SPE and their degrees of freedom for every row of X (n, d)."""
    n = len(X)
    found = Distances(np.empty(n), np.empty(n), np.empty(n, np.intp), np.empty(n, np.intp))
    for part in _parts(model, X):
        plane = _nearest(part)
        E = part.residual(plane.Z)
        p = part.posteriors.row_cells
        found.T2[part.at] = plane.T2
        # As many latents as cells explain any row: what is left over is rounding.
        found.SPE[part.at] = np.where(
            plane.rank < p, np.einsum("ij,ij,j->i", E, E, 1.0 / part.psi), 0.0
        )
        found.observed[part.at], found.rank[part.at] = p, plane.rank
    return found


def contributions(model: LinearGaussian, X: Array, of: Name) -> Array:
    """Share of every cell in a statistic of its row: (n, d), 0 where missing, summing to it.

    D2: r_j (C_oo^-1 r)_j. T2: r_j (Psi_o^-1 W_o (G + G^2)^+ b)_j. SPE: e_j^2 / psi_j. The first two
    may be negative: such a value makes its row less extreme than the others alone would.
    """
    require_noise(model)
    shares = np.zeros(X.shape)
    for part in _parts(model, X):
        if of == "D2":
            shares[part.at] = part.R * part.residual(part.posteriors.mean) / part.psi
        elif of == "SPE":
            shares[part.at] = part.residual(_nearest(part).Z) ** 2 / part.psi
        else:
            explained = (_nearest(part).Z - part.posteriors.mean) @ part.W.T  # W S (I - S)^+ z
            shares[part.at] = part.R * explained / part.psi
    return shares


def given_the_others(model: LinearGaussian, X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of every value given the *other* observed values of its row.

    x_j - (C_oo^-1 r)_j / (C_oo^-1)_jj and (C_oo^-1)_jj^-1/2, for all cells at once. The squared
    deviation of x_j in these units is by how much D2 would fall had the value been missing (Alcala
    and Qin 2009 call it the reconstruction-based contribution).
    """
    require_noise(model)
    mean, sd = np.empty(X.shape), np.empty(X.shape)
    for part in _parts(model, X):
        from_z = projected_variance(part.W, part.posteriors.S).T  # (c or 1, d) w_j^T S w_j
        variance = np.where(part.observed, part.psi / (1.0 - _explained(part)), part.psi + from_z)
        deviation = part.residual(part.posteriors.mean) * variance / part.psi
        from_mean = np.where(part.observed, part.R - deviation, part.posteriors.mean @ part.W.T)
        mean[part.at], sd[part.at] = from_mean + model.mu, np.sqrt(variance)
    return mean, sd


def noise_ratios(model: LinearGaussian, X: Array) -> Array:
    """Var(x_j | the other observed values) / psi_j of every value: (n, d), NaN where missing.

    At least 1; how much wider than its noise a column looks to a fit that has to infer z from the
    others.
    """
    ratios = np.empty(X.shape)
    for part in _parts(model, X):
        ratios[part.at] = np.where(part.observed, 1.0 / (1.0 - _explained(part)), np.nan)
    return ratios


def require_noise(model: LinearGaussian) -> None:
    """Refuse a model in which some feature has no noise: its contribution is not determined."""
    without = np.flatnonzero(model.psi < NO_NOISE * model._diagonal())
    if len(without):
        raise SingularModelError(
            f"the model explains feature {int(without[0])} without any noise, so that its share of "
            "a distance is not separate from that of the features which determine it. Fit fewer "
            "components"
        )


# Parts of the table ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Some rows with their posteriors."""

    posteriors: RowPosteriors
    R: Array  # (c, d) x - mu, 0 where missing
    observed: NDArray[np.bool_]  # (c, d)
    W: Array  # (d, q)
    psi: Array  # (d,) inf for 0: the residual there is of its order, and so is its square over it

    @property
    def at(self) -> NDArray[np.intp]:
        return self.posteriors.at

    def residual(self, Z: Array) -> Array:
        """(c, d) r - W z, 0 where missing."""
        return np.where(self.observed, self.R - Z @ self.W.T, 0.0)


@dataclass(frozen=True, eq=False)
class _Nearest:
    """The points of the model's plane nearest to some rows, in units of the noise."""

    Z: Array  # (c, q) (I - S)^+ z
    T2: Array  # (c,)
    rank: NDArray[np.intp]  # (c,) of G


def _parts(model: LinearGaussian, X: Array) -> Iterator[_Residuals]:
    psi = np.where(model.psi > 0.0, model.psi, np.inf)
    for part in model.row_posteriors(X):
        part.require_density()
        rows = X[part.at]
        observed = ~np.isnan(rows)
        R = np.where(observed, rows - model.mu, 0.0)
        yield _Residuals(part, R, observed, model.W, psi)


def _explained(part: _Residuals) -> Array:
    """(c, d) w_j^T S w_j / psi_j, which is 1 - psi_j (C_oo^-1)_jj, where observed; below 1."""
    share = projected_variance(part.W, part.posteriors.S).T / part.psi
    share = np.where(np.isinf(part.psi), 1.0, share)
    return np.minimum(np.where(part.observed, share, 0.0), 1.0 - NO_NOISE)


def _nearest(part: _Residuals) -> _Nearest:
    """Through the eigenvectors V of S: T2 = sum_k (v_k^T z)^2 / (1 - s_k)."""
    Z = part.posteriors.mean
    s, V = np.linalg.eigh(part.posteriors.covariances())  # (u, q) ascending, (u, q, q)
    resolved = 1.0 - s
    least = np.max(s, axis=1, keepdims=True, initial=1.0) / np.maximum(s[:, :1], 1e-300)
    rounding = np.clip(64 * np.finfo(np.float64).eps * least, UNRESOLVED, 1e-6)
    clear = resolved > rounding
    inverse = np.where(clear, 1.0 / np.where(clear, resolved, 1.0), 0.0)  # (u, q)
    along = Z @ V[0] if len(V) == 1 else np.einsum("iqk,iq->ik", V, Z)
    scaled = along * inverse
    nearest = scaled @ V[0].T if len(V) == 1 else np.einsum("iqk,ik->iq", V, scaled)
    rank = np.broadcast_to(clear.sum(axis=1), len(Z))
    return _Nearest(Z=nearest, T2=np.einsum("ik,ik->i", along, scaled), rank=rank)
