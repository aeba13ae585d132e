"""What a fitted model predicts once the uncertainty of its parameters is counted in.

Maximum likelihood takes its estimates for the truth, so that its intervals are too narrow on small
tables. Three corrections, each of order (parameters / cells):

- the noise variance is estimated from residuals that were made small by the fit: it is divided by
  the degrees of freedom left instead of the number of cells, and, being uncertain itself, predicts
  like Student's t with nu degrees of freedom, whose variance is larger by nu / (nu - 2). Where
  cells have an error of known size besides, that of a site for instance, this is true of the sum;
- w_j and mu_j of the cell to be predicted are uncertain with covariance V_j, the inverse of the
  information about them (`information`): E[z~^T V_j z~] is added, z~ = (z, 1);
- so are those of the observed values from which z was inferred. The error dw~_j^T z~ in feature j
  acts as noise of variance E[z~^T V_j z~] and moves z by S w_j / psi_j times itself; an error of
  psi_j moves it by its relative size times the residual.

Loadings that are mostly error make z look better known than it is: the information is computed at
loadings shrunk by what their own uncertainty explains of them.

This is the delta method around the estimate (Little and Rubin 2019, section 9.1, has the Gaussian
without latent variables). Means are those of the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigengap.linalg import Array, pack, pack_outer, packed_size, twice_off_diagonal, unpack
from eigengap.models.gaussian import noiseless as near_exact
from eigengap.models.gaussian.information import Information, Noise, ObservationPattern, information
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.posterior import (
    NEARLY_EXACT,
    RowPosteriors,
    projected_variance,
    square_roots,
)
from eigengap.models.gaussian.spread import MixtureSpread, Spreads, StudentSpread
from eigengap.models.gaussian.student import StudentLinearGaussian

# Least share of the cells (or of a column's) that is left as degrees of freedom, however many
# parameters there are, and least degrees of freedom of a noise variance: beyond these bounds the
# expansion is not valid, and intervals are wide anyway.
LEAST_LEFT = 0.1
LEAST_DEGREES = 3.0
LEAST_DRAWN = 1e-3  # of a noise variance that is drawn, relative to that of a cell

# Residuals of a column, beyond those that its parameters take, up to which its noise variance is
# judged by those of the others too, and what they count for.
FEW_RESIDUALS = 10.0
PRIOR_RESIDUALS = 3.0

# How often the information is found anew at loadings shrunk by their uncertainty, and the least
# share of its strength that a component keeps.
SHRINKAGES = 2
LEAST_STRENGTH = 0.05

FEW_ROWS = 30  # in which a column is observed, below which PlugIn does not take it for known
CHUNK_CELLS = 1 << 16  # rows x features that are held at a time


@dataclass(frozen=True, eq=False)
class Predictive(Spreads):
    """A linear-Gaussian model and how uncertain its parameters are."""

    model: LinearGaussian
    noise: Array  # (d,) expected noise variance, larger than psi
    degrees: Array  # (d,) of freedom of each noise variance, `known` included
    covariances: Array  # ((q + 1)(q + 2) / 2, d) packed covariance of (w_j, mu_j)
    kind: Noise
    known: Array | float = 0.0  # (d,) noise variance that cells have besides one of their column

    @classmethod
    def of(cls, model: LinearGaussian, pattern: ObservationPattern) -> Predictive:
        """The uncertainty of a maximum likelihood fit to `pattern`.

        Where there is no noise, `knows_uncertainty` is False: parameters are taken for known.
        """
        if pattern.noise == "isotropic":
            model = _with_noise_of_its_own(model)
        if np.any(model.psi + pattern.known <= 0.0):
            certain = np.zeros((packed_size(model.q + 1), model.d))
            return cls(model, model.psi, np.full(model.d, np.inf), certain, pattern.noise)
        left = _share_left(pattern, model.q)
        known = pattern.known if pattern.noise == "diagonal" else 0.0
        degrees = _degrees(information(model, pattern), left, pattern.noise)
        noise = _shrunk_noise(model, pattern, (model.psi + known) / left - known)
        noise = (noise + known) / (1.0 - 2.0 / degrees) - known
        wider = LinearGaussian(W=model.W, mu=model.mu, psi=noise)
        total = noise + pattern.known
        prior = _prior_precision(wider, total)
        covariances = _parameter_covariances(wider, pattern, prior)
        for _ in range(SHRINKAGES):
            shrunk = _shrunk(wider, covariances, total)
            covariances = _parameter_covariances(shrunk, pattern, prior)
        return cls(model, noise, degrees, covariances, pattern.noise, known)

    def conditional(self, X: ArrayLike, cell_sd: Array | None = None) -> tuple[Array, Array]:
        """Mean and variance of every value given the observed values of its row: (n, d), (n, d).

        Observed values are returned as they are, with variance 0.
        """
        rows = np.asarray(X)
        if not self.knows_uncertainty:
            return self.model.conditional(rows, cell_sd)
        mean, variance = self._of_unit_rows(rows, cell_sd)
        incomplete = np.isnan(rows).any(axis=1)
        factors = self.model.variance_factors(rows[incomplete])
        if factors is not None:
            variance[incomplete] *= factors[:, None]
        variance[~np.isnan(rows)] = 0.0
        return mean, variance

    def spread(self, X: ArrayLike, cell_sd: Array | None = None) -> StudentSpread:
        """The distribution of every value given the observed values of its row.

        Gaussian; of multivariate t rows it is t with nu + p degrees of freedom, p values observed.
        """
        rows = np.asarray(X)
        if not isinstance(self.model, StudentLinearGaussian):
            return StudentSpread.gaussian(*self.conditional(rows, cell_sd))
        if self.knows_uncertainty:
            mean, variance = self._of_unit_rows(rows, cell_sd)
        else:
            mean, variance = self.model.gaussian.conditional(rows)
        observed = ~np.isnan(rows)
        scale = np.sqrt(variance / self.model.row_weights(rows)[:, None])
        degrees = self.model.nu + observed.sum(axis=1, keepdims=True)
        return StudentSpread(mean, np.where(observed, 0.0, scale), degrees)

    def _of_unit_rows(
        self, rows: NDArray[np.floating], cell_sd: Array | None
    ) -> tuple[Array, Array]:
        """`conditional`, of rows whose scale is 1."""
        mean = self.model.conditional_mean(rows, cell_sd)
        variance = np.zeros(mean.shape)
        incomplete = np.isnan(rows).any(axis=1)
        exact = incomplete & self._has_exact_cells(rows, cell_sd)
        for i in np.flatnonzero(exact):
            variance[i] = self._variance_near_exact(
                rows[i], None if cell_sd is None else cell_sd[i]
            )
        others = np.flatnonzero(incomplete & ~exact)
        deviations = np.zeros(rows.shape) if cell_sd is None else cell_sd
        for part in self._posteriors(rows[others], None if cell_sd is None else cell_sd[others]):
            at = others[part.at]
            variance[at] = self._variance(rows[at], part, deviations[at])
        variance[~np.isnan(rows)] = 0.0
        return mean, variance

    def draw(self, rng: np.random.Generator) -> LinearGaussian:
        """A model whose parameters are drawn from their distribution around the estimate."""
        model = self.model
        if not np.any(self.covariances):
            return model
        root = square_roots(unpack(self.covariances.T, model.q + 1))
        error = (root @ rng.standard_normal((model.d, model.q + 1, 1)))[:, :, 0]
        psi = self.noise
        if self.kind != "given":  # with what is known a scaled inverse chi-square
            degrees = self.degrees[: 1 if self.kind == "isotropic" else model.d]
            total = (self.noise + self.known) * (degrees - 2.0) / rng.chisquare(degrees)
            psi = np.maximum(total - self.known, LEAST_DRAWN * total)
        return replace(model, W=model.W + error[:, :-1], mu=model.mu + error[:, -1], psi=psi)

    @property
    def knows_uncertainty(self) -> bool:
        """Whether the uncertainty of the parameters is counted in.

        Not where the fit leaves no residual to judge it by, nor where noise is given and there are
        no loadings.
        """
        return bool(np.any(self.covariances) or not np.array_equal(self.noise, self.model.psi))

    # ---------------------------------------------------------------------------------------

    @property
    def _cell_noise(self) -> Array:
        """(d,) noise variance of a typical cell, to which `degrees` belong."""
        return self.noise + self.known

    def _has_exact_cells(self, X: NDArray[np.floating], cell_sd: Array | None) -> NDArray[np.bool_]:
        """(n,) rows with an observed cell of too little noise for products."""
        noise = self.noise if cell_sd is None else self.noise + cell_sd**2
        signal = np.einsum("jq,jq->j", self.model.W, self.model.W)
        little = (signal > NEARLY_EXACT * noise) | (noise <= 0.0)
        return np.asarray(np.any(little & ~np.isnan(X), axis=1))

    def _variance_near_exact(self, x: NDArray[np.floating], cell_sd: Array | None) -> Array:
        """(d,) as `_variance`, for one row with cells of (almost) no noise.

        An error in cell j moves z by K_j times itself, K = S W^T Psi^-1: finite where psi_j is 0.
        """
        W, o = self.model.W, ~np.isnan(x)
        noise = self.noise[o] if cell_sd is None else self.noise[o] + cell_sd[o] ** 2
        cells = near_exact.Cells(W[o], noise, self.model.unit[o])
        K_transposed, S, _ = cells.posterior(np.eye(len(noise)))
        z = (x[o] - self.model.mu[o]) @ K_transposed
        moments = _second_moments(z[None], pack(S)[:, None])
        from_parameters = (twice_off_diagonal(self.covariances.T) @ moments)[:, 0]
        typical = self._cell_noise[o]
        learned = np.divide(typical, noise, out=np.zeros(len(noise)), where=noise > 0)
        residual = (x[o] - self.model.mu[o] - W[o] @ z) * learned
        acting = from_parameters[o] + residual**2 * (2.0 / self.degrees[o])
        wider = S + (K_transposed.T * acting) @ K_transposed
        from_z = np.einsum("ja,ab,jb->j", W, wider, W)
        return np.asarray(from_z + from_parameters + self.noise)

    def _posteriors(
        self, X: NDArray[np.floating], cell_sd: Array | None
    ) -> Iterator[RowPosteriors]:
        """Posteriors under the wider noise, in parts small enough for (rows, features) tables."""
        wider = LinearGaussian(W=self.model.W, mu=self.model.mu, psi=self.noise)
        for part in wider.row_posteriors(X, cell_sd):
            yield from part.pieces(max(64, CHUNK_CELLS // max(self.model.d, 1)))

    def _variance(self, X: NDArray[np.floating], part: RowPosteriors, cell_sd: Array) -> Array:
        """(c, d) for rows X (c, d) and their posteriors."""
        W, q = self.model.W, self.model.q
        S = np.broadcast_to(part.S, (len(part.S), len(X)))
        observed = ~np.isnan(X).T  # (d, c)
        from_parameters = twice_off_diagonal(self.covariances.T) @ _second_moments(part.mean, S)
        residual = np.where(observed, X.T - self.model.mu[:, None] - W @ part.Z, 0.0)
        noise = self.noise[:, None] + cell_sd.T**2  # what is known of it is not uncertain
        noise = np.where(observed, noise, 1.0)  # which may be 0 where nothing is observed
        of_weights = (residual / noise * (self._cell_noise[:, None] / noise)) ** 2
        of_weights *= (2.0 / self.degrees)[:, None]
        acting = np.where(observed, from_parameters / noise / noise + of_weights, 0.0)
        G = unpack((pack_outer(W).T @ acting).T, q)  # (c, q, q)
        full = unpack(S.T, q)
        wider = S + pack(full @ G @ full).T
        return np.asarray((projected_variance(W, wider) + from_parameters).T + self.noise)


@dataclass(frozen=True, eq=False)
class MixturePredictive(Spreads):
    """A mixture and how uncertain the parameters of its components are.

    Given the responsibilities, each component is a linear-Gaussian model that was fitted to its own
    share of the rows. The weights are drawn from their posterior under a flat prior, a Dirichlet
    distribution; the responsibilities themselves are taken for known.
    """

    model: MixtureOfLinearGaussians
    components: tuple[Predictive, ...]  # (K,)
    sum_w: Array  # (K,) rows of each component, by weight and responsibility

    @classmethod
    def of(
        cls, model: MixtureOfLinearGaussians, patterns: Sequence[ObservationPattern], sum_w: Array
    ) -> MixturePredictive:
        """The uncertainty of a maximum likelihood fit, component by component."""
        components = map(Predictive.of, model.models, patterns)
        return cls(model=model, components=tuple(components), sum_w=sum_w)

    def conditional(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of every value given the observed values of its row: (n, d), (n, d).

        By the law of total variance over the components. Observed values are returned as they are,
        with variance 0.
        """
        resp = self.model.responsibilities(X).T[:, :, None]  # (K, n, 1)
        parts = [component.conditional(X) for component in self.components]
        mean = sum(r * m for r, (m, _) in zip(resp, parts, strict=True))
        variance = sum(r * (v + (m - mean) ** 2) for r, (m, v) in zip(resp, parts, strict=True))
        observed = ~np.isnan(np.asarray(X))
        return np.where(observed, X, mean), np.where(observed, 0.0, variance)

    def spread(self, X: ArrayLike) -> MixtureSpread:
        """The distribution of every value given the observed values of its row."""
        resp = self.model.responsibilities(X).T[:, :, None]
        parts = (StudentSpread.gaussian(*each.conditional(X)) for each in self.components)
        return MixtureSpread(resp, tuple(parts))

    def draw(self, rng: np.random.Generator) -> MixtureOfLinearGaussians:
        """A mixture whose parameters are drawn from their distribution around the estimate."""
        weights = rng.dirichlet(self.sum_w + 1.0)
        models = [component.draw(rng) for component in self.components]
        return MixtureOfLinearGaussians(np.log(np.maximum(weights, 1e-300)), models)


@dataclass(frozen=True, eq=False)
class PlugIn(Spreads):
    """A model whose parameters are taken for known, but for columns observed in few rows.

    The uncertainty of parameters is found at a maximum of the likelihood. Far from one it is beyond
    all measure: on WDBC, 30 % missing, 18 factors, standard deviations are 6 times those of the
    model itself after 10 steps of EM, 1.1 times at the end. A fit that is stopped early plugs its
    parameters in instead, which costs little where there are many rows for each factor.
    """

    model: LinearGaussian
    evidence: ObservationPattern | None = None

    def conditional(self, X: Array, cell_sd: Array | None = None) -> tuple[Array, Array]:
        mean, variance = self.model.conditional(X, cell_sd)
        if self._few.any():
            _, wider = self._uncertain.conditional(X, cell_sd)
            variance = np.where(self._few, np.maximum(variance, wider), variance)
        return mean, variance

    def draw(self, rng: np.random.Generator) -> LinearGaussian:
        few = self._few
        if not few.any():
            return self.model
        drawn = self._uncertain.draw(rng)
        return replace(
            self.model,
            W=np.where(few[:, None], drawn.W, self.model.W),
            mu=np.where(few, drawn.mu, self.model.mu),
            psi=np.where(few, drawn.psi, self.model.psi),
        )

    @cached_property
    def _few(self) -> NDArray[np.bool_]:
        """(d,) columns of which too few values can be held out to calibrate their intervals."""
        if self.evidence is None:
            return np.zeros(self.model.d, dtype=bool)
        return self.evidence.observed_w < FEW_ROWS

    @cached_property
    def _uncertain(self) -> Predictive:
        assert self.evidence is not None
        return Predictive.of(self.model, self.evidence)


def _with_noise_of_its_own(model: LinearGaussian) -> LinearGaussian:
    """The same density with one component fewer, where there are as many as features.

    W W^T of full rank is W' W'^T + lam I in d - 1 components, lam its smallest eigenvalue: the
    uncertainty of the density is then that of parameters of a model with noise.
    """
    if model.q < model.d or np.any(model.psi > 0.0) or not model.d:
        return model
    U, s, _ = np.linalg.svd(model.W / model.unit[:, None])
    if s[-1] <= s[0] * model.d * np.finfo(np.float64).eps:  # singular: there is no noise
        return model
    W = U[:, :-1] * np.sqrt((s[:-1] - s[-1]) * (s[:-1] + s[-1]))
    return replace(model, W=W * model.unit[:, None], psi=(s[-1] * model.unit) ** 2)


def _share_left(pattern: ObservationPattern, q: int) -> Array:
    """(d,) degrees of freedom left for the noise, relative to the number of observed values."""
    observed_w, d = pattern.observed_w, len(pattern.observed_w)
    means = 1 if pattern.fits_mean else 0
    if pattern.noise == "given":
        return np.ones(d)
    if pattern.noise == "diagonal":
        return np.asarray(np.maximum(1.0 - (q + means) / observed_w, LEAST_LEFT))
    parameters = d * q - q * (q - 1) / 2 + d * means
    return np.full(d, max(1.0 - parameters / float(np.sum(observed_w)), LEAST_LEFT))


def _shrunk_noise(model: LinearGaussian, pattern: ObservationPattern, noise: Array) -> Array:
    """(d,) noise variances, those of columns with few observed values shrunk to a typical share.

    w_j, mu_j and psi_j fit q + 1 values exactly, whatever the noise was, so that psi_j alone is no
    estimate where hardly more were observed.
    """
    if pattern.noise != "diagonal":
        return noise
    residuals = pattern.observed_w - model.q - (1 if pattern.fits_mean else 0)
    few = residuals < FEW_RESIDUALS
    if not few.any() or few.all():
        return noise
    variance = model.variances()
    typical = float(np.median((noise / variance)[~few])) * variance
    own = np.maximum(residuals, 0.0)
    shrunk = (PRIOR_RESIDUALS * typical + own * noise) / (PRIOR_RESIDUALS + own)
    return np.where(few, np.maximum(shrunk, noise), noise)


def _degrees(known: Information, left: Array, kind: Noise) -> Array:
    """(d,) degrees of freedom of each noise variance."""
    if kind == "given":
        return np.full(len(left), np.inf)
    worth = known.noise if kind == "diagonal" else np.full(len(left), np.sum(known.noise))
    return np.asarray(np.maximum(worth * left, LEAST_DEGREES))


def _prior_precision(model: LinearGaussian, noise: Array) -> Array:
    """(d, q + 1, q + 1) of (w_j, mu_j), as little as bounds what the data do not determine.

    A component that they do not determine is held to load a feature, in units of its noise, as it
    loads features on average (the prior of automatic relevance determination); a mean to lie
    within the feature's own standard deviation. Loadings that are all zero are infinitely well
    known by this.
    """
    q = model.q
    strength, T = np.linalg.eigh(model.W.T @ (model.W / noise[:, None]))
    least = LEAST_STRENGTH * float(np.sum(strength)) / max(q, 1)
    typical = np.maximum(strength, least) / model.d
    prior = np.zeros((model.d, q + 1, q + 1))
    prior[:, :q, :q] = np.inf
    if np.any(typical > 0):
        prior[:, :q, :q] = (T / np.maximum(typical, 1e-300)) @ T.T / noise[:, None, None]
    prior[:, q, q] = 1.0 / (model.variances() - model.psi + noise)
    return prior


def _parameter_covariances(
    model: LinearGaussian, pattern: ObservationPattern, prior: Array
) -> Array:
    """Packed covariance ((q + 1)(q + 2) / 2, d) of each (w_j, mu_j)."""
    q = model.q
    known = information(model, pattern).loadings + prior
    covariance = np.zeros_like(known)
    first = 0 if np.all(np.isfinite(prior)) else q
    learned = slice(first, q + 1 if pattern.fits_mean else q)
    covariance[:, learned, learned] = np.linalg.inv(known[:, learned, learned])
    return np.ascontiguousarray(pack(covariance).T)


def _shrunk(model: LinearGaussian, covariances: Array, noise: Array) -> LinearGaussian:
    """The model with each component as strong as its loadings are without their errors.

    E[w w^T] = E[w] E[w]^T + V: loadings that are mostly error look like signal, and like a
    well-known z. Component by component of W^T Psi^-1 W, Psi the noise of the cells, the share of
    the strength that V explains is taken off.
    """
    q = model.q
    V = unpack(covariances.T, q + 1)[:, :q, :q]
    strength, T = np.linalg.eigh(model.W.T @ (model.W / noise[:, None]))
    along = np.einsum("ak,jab,bk->jk", T, V, T)  # (d, q) variance of w_j^T t_k
    by_chance = (1.0 / noise) @ along
    explained = np.maximum(strength, by_chance)
    by_chance = np.divide(by_chance, explained, out=np.zeros(q), where=explained > 0)
    share = np.clip(1.0 - by_chance, LEAST_STRENGTH, 1.0)
    W = (model.W @ (T * np.sqrt(share))) @ T.T
    return LinearGaussian(W=W, mu=model.mu, psi=model.psi)


def _second_moments(Z: Array, S: Array) -> Array:
    """Packed E[z~ z~^T] ((q + 1)(q + 2) / 2, c) with z~ = (z, 1)."""
    return np.concatenate([S + pack_outer(Z).T, Z.T, np.ones((1, len(Z)))])
