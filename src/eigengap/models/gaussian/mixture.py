"""A mixture of linear-Gaussian models as an immutable value.

    p(x) = sum_k pi_k N(x | mu_k, W_k W_k^T + diag(psi_k))

Mixtures of probabilistic PCA have psi_k = sigma2_k (1, ..., 1) (Tipping and Bishop 1999), mixtures
of factor analysers any psi_k (Ghahramani and Hinton 1996). Components may differ in rank. NaN marks
a missing value; every method marginalises over it exactly, under each component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigengap.linalg import Array, packed_size
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import Chunk, ObservedRows, prepare_rows
from eigengap.models.gaussian.posterior import (
    BlockCoefficients,
    Coefficients,
    Posterior,
    RowPosteriors,
    is_nearly_exact,
    projected_variance,
)

Posteriors = tuple[RowPosteriors, ...]  # (K,) of the same rows, under each component


@dataclass(frozen=True, eq=False)
class MixturePosterior:
    """Posterior of the component of each row and, given that, of z.

    Attributes
    ----------
    resp : (n, K) responsibilities, the posterior of the component
    components : K posteriors of z, one for each component, given that the row is of it
    """

    resp: Array
    components: tuple[Posterior, ...]

    def __len__(self) -> int:
        return len(self.resp)


@dataclass(frozen=True, eq=False)
class MixtureOfLinearGaussians:
    """p(x) = sum_k pi_k p_k(x), every p_k a `LinearGaussian`.

    Parameters
    ----------
    log_weights : array of shape (K,)
        ln pi_k, up to a common constant: they are normalised.
    models : sequence of K LinearGaussian
        The components, of the same features.

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import LinearGaussian
    >>> from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
    >>> left = LinearGaussian(W=[[1.0], [1.0]], mu=[-4.0, -4.0], psi=[0.1, 0.1])
    >>> right = LinearGaussian(W=[[1.0], [-1.0]], mu=[4.0, 4.0], psi=[0.1, 0.1])
    >>> mixture = MixtureOfLinearGaussians(np.log([0.5, 0.5]), [left, right])
    >>> mean, variance = mixture.conditional(np.array([[5.0, np.nan]]))
    >>> mean.round(2)
    array([[5.  , 3.09]])
    """

    log_weights: Array
    models: Sequence[LinearGaussian]

    def __post_init__(self) -> None:
        log_weights = np.array(self.log_weights, dtype=np.float64, copy=True)
        models = tuple(self.models)
        if len(models) == 0 or log_weights.shape != (len(models),):
            raise ValueError(
                f"a mixture needs one weight for each component, got {log_weights.shape} weights "
                f"and {len(models)} components"
            )
        if len({model.d for model in models}) > 1:
            raise ValueError(
                "the components differ in their number of features: "
                f"{[model.d for model in models]}"
            )
        largest = float(np.max(log_weights))
        if not np.isfinite(largest):
            raise ValueError(f"log_weights {log_weights} are not weights of a mixture")
        log_weights -= largest + np.log(np.sum(np.exp(log_weights - largest)))
        log_weights.flags.writeable = False
        object.__setattr__(self, "log_weights", log_weights)
        object.__setattr__(self, "models", models)

    @property
    def d(self) -> int:
        return self.models[0].d

    @property
    def K(self) -> int:
        return len(self.models)

    @property
    def weights(self) -> Array:
        """pi (K,)."""
        return np.exp(self.log_weights)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Number of latent dimensions of each component."""
        return tuple(model.q for model in self.models)

    # Which component a row is of, and where in it -------------------------------------------

    def log_likelihood(self, X: ArrayLike) -> Array:
        """ln p(observed part of x) for every row: (n,); 0 for a row without observed values."""
        X = self._rows(X)
        result = np.empty(len(X))
        for parts, _, log_likelihood in self._posteriors(X):
            result[parts[0].at] = log_likelihood
        return result

    def responsibilities(self, X: ArrayLike) -> Array:
        """p(k | observed part of x) for every row and component: (n, K)."""
        X = self._rows(X)
        resp = np.empty((len(X), self.K))
        for parts, of_part, _ in self._posteriors(X):
            resp[parts[0].at] = of_part.T
        return resp

    def posterior(self, X: ArrayLike) -> MixturePosterior:
        """Component and z of every row: T&B 1999 (mixtures), Eqs. 21 and 26."""
        X = self._rows(X)
        return MixturePosterior(
            resp=self.responsibilities(X),
            components=tuple(model.posterior(X) for model in self.models),
        )

    def local_coordinates(self, X: ArrayLike) -> Array:
        """resp_k E[z | x, k] of all components side by side: (n, sum of ranks).

        The posterior mean of the latent vector that holds z in the block of the row's component
        and 0 in the others.
        """
        X = self._rows(X)
        ends = np.cumsum((0, *self.ranks))
        coordinates = np.empty((len(X), ends[-1]))
        for parts, resp, _ in self._posteriors(X):
            for k, part in enumerate(parts):
                coordinates[part.at, ends[k] : ends[k + 1]] = part.mean * resp[k][:, None]
        return coordinates

    # The missing values given the observed ones -------------------------------------------

    def conditional(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of every value given the observed values of its row: (n, d), (n, d).

        By the law of total variance: the mean over the components of their variances plus the
        variance of their means. Observed values are returned as they are, with variance 0.
        """
        X = self._rows(X)
        mean, variance = np.empty(X.shape), np.empty(X.shape)
        for parts, resp, _ in self._posteriors(X):
            means = self._means(parts)  # (K, c, d)
            overall = np.einsum("kc,kcd->cd", resp, means)
            total = np.einsum("kc,kcd->cd", resp, (means - overall) ** 2)
            for model, part, r in zip(self.models, parts, resp, strict=True):
                total += r[:, None] * (projected_variance(model.W, part.S).T + model.psi)
            mean[parts[0].at], variance[parts[0].at] = overall, total
        observed = ~np.isnan(X)
        np.copyto(mean, X, where=observed)
        variance[observed] = 0.0
        return mean, variance

    def conditional_mean(self, X: ArrayLike) -> Array:
        """E[x | observed values]: (n, d), observed values as they are."""
        X = self._rows(X)
        return np.where(np.isnan(X), self.denoised(X), X)

    def denoised(self, X: ArrayLike) -> Array:
        """E[W z + mu | observed values], over components and z: (n, d)."""
        X = self._rows(X)
        mean = np.empty(X.shape)
        for parts, resp, _ in self._posteriors(X):
            mean[parts[0].at] = np.einsum("kc,kcd->cd", resp, self._means(parts))
        return mean

    def project(self, X: ArrayLike) -> Array:
        """The nearest point on the plane of the row's most responsible component: (n, d)."""
        return self._by_component(X, lambda model, rows: model.project(rows))

    def sample_conditional(self, X: ArrayLike, rng: np.random.Generator) -> Array:
        """One draw of the missing values given the observed ones: (n, d), these as they are."""
        X = self._rows(X)
        labels = drawn_components(self.responsibilities(X), rng)
        return self._by_component(X, lambda m, rows: m.sample_conditional(rows, rng), labels)

    def given(self, x: ArrayLike) -> MixtureOfLinearGaussians:
        """The mixture of the missing values of one row given its observed ones: a mixture again."""
        row = self._rows(np.asarray(x, dtype=np.float64)[None, :])
        log_joint = self.log_weights + np.array([m.log_likelihood(row)[0] for m in self.models])
        return MixtureOfLinearGaussians(log_joint, [model.given(row[0]) for model in self.models])

    def marginal(self, columns: ArrayLike) -> MixtureOfLinearGaussians:
        """The mixture of some of the features, in the order asked for."""
        return self._of([model.marginal(columns) for model in self.models])

    # Draws, moments, forms ------------------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.intp]]:
        """n independent rows (n, d) and the component (n,) that each was drawn from."""
        labels = rng.choice(self.K, size=n, p=self.weights)
        X = np.empty((n, self.d))
        for k, model in enumerate(self.models):
            at = np.flatnonzero(labels == k)
            X[at] = model.sample(len(at), rng)
        return X, labels

    def mean(self) -> Array:
        """sum_k pi_k mu_k: (d,)."""
        return np.asarray(self.weights @ np.stack([model.mu for model in self.models]))

    def covariance(self) -> Array:
        """Covariance of the whole mixture, within and between the components: (d, d)."""
        mean = self.mean()
        C = np.zeros((self.d, self.d))
        for weight, model in zip(self.weights, self.models, strict=True):
            C += weight * (model.covariance() + np.outer(model.mu - mean, model.mu - mean))
        return C

    def rescaled(self, scale: Array, shift: Array | float = 0.0) -> MixtureOfLinearGaussians:
        """The mixture of scale * x + shift, column by column."""
        return self._of([model.rescaled(scale, shift) for model in self.models])

    def canonical(self) -> MixtureOfLinearGaussians:
        """The same density, components in canonical form and by falling weight."""
        order = np.argsort(-self.log_weights, kind="stable")
        models = [self.models[k].canonical() for k in order]
        return MixtureOfLinearGaussians(self.log_weights[order], models)

    # ----------------------------------------------------------------------------------------

    def _of(self, models: Sequence[LinearGaussian]) -> MixtureOfLinearGaussians:
        return MixtureOfLinearGaussians(self.log_weights, models)

    def _rows(self, X: ArrayLike) -> NDArray[Any]:
        return self.models[0]._rows(X)

    def _means(self, parts: Posteriors) -> Array:
        """E[x | observed values, k], of the observed values too: (K, c, d)."""
        both = zip(self.models, parts, strict=True)
        return np.stack([part.mean @ model.W.T + model.mu for model, part in both])

    def _by_component(
        self,
        X: ArrayLike,
        fn: Callable[[LinearGaussian, Array], Array],
        labels: NDArray[np.intp] | None = None,
    ) -> Array:
        """fn(component, its rows); rows go to the most responsible one unless labels are given."""
        X = self._rows(X)
        if labels is None:
            labels = np.argmax(self.responsibilities(X), axis=1)
        result = np.empty(X.shape)
        for k, model in enumerate(self.models):
            at = np.flatnonzero(labels == k)
            if len(at):
                result[at] = fn(model, X[at])
        return result

    def _posteriors(self, X: NDArray[Any]) -> Iterator[tuple[Posteriors, Array, Array]]:
        """All rows under all components, in parts: see `mixture_posteriors`."""
        if len(X) == 0:
            return
        if any(is_nearly_exact(model.W, model.psi) for model in self.models):
            # Where a component has (almost) no noise: each takes care of its own limits.
            by_model = [list(model.row_posteriors(X)) for model in self.models]
            for part in chain(*by_model):
                part.require_density()
            parts = tuple(map(RowPosteriors.joined, by_model))
            yield parts, *_of_parts(self.log_weights, parts)
            return
        shift = self.mean()
        rows = prepare_rows(X, None, shift, None, max(self.ranks))
        coefficients = [Coefficients(m.W, m.mu - shift, m.psi) for m in self.models]
        found = mixture_posteriors(rows, self.log_weights, coefficients)
        yield from ((parts, resp, log_likelihood) for _, parts, resp, log_likelihood in found)


def mixture_posteriors(
    rows: ObservedRows, log_weights: Array, coefficients: Sequence[Coefficients], passes: int = 1
) -> Iterator[tuple[Chunk, Posteriors, Array, Array]]:
    """Posteriors of all rows of a block under every component of a mixture, chunk by chunk.

    Yields the c rows of a chunk, their K posteriors, their responsibilities (K, c),

        resp_ik = pi_k p_k(x_i) / sum_l pi_l p_l(x_i)

    (Tipping and Bishop 1999, "Mixtures of probabilistic principal component analysers", Eq. 21),
    and their log-likelihoods (c,).
    """
    blocks = [BlockCoefficients.of(rows, c) for c in coefficients]
    # Rank of one model whose packed precisions take as much room as those of all components.
    joint_rank = isqrt(2 * sum(packed_size(c.q) for c in coefficients)) + 1
    for chunk in rows.chunks(joint_rank):
        parts = tuple(block.posteriors(chunk, passes) for block in blocks)
        yield chunk, parts, *_of_parts(log_weights, parts)


def _of_parts(log_weights: Array, parts: Posteriors) -> tuple[Array, Array]:
    return responsibilities(log_weights, np.stack([part.log_density for part in parts]))


def responsibilities(log_weights: Array, log_density: Array) -> tuple[Array, Array]:
    """Responsibilities (K, c) and log-likelihoods (c,) from those of the components (K, c)."""
    log_joint = log_weights[:, None] + log_density
    largest = log_joint.max(axis=0)
    resp = np.exp(log_joint - largest)
    total = resp.sum(axis=0)
    resp /= total
    return resp, largest + np.log(total)


def drawn_components(resp: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """One component for each row, by its responsibilities (n, K): (n,)."""
    passed = rng.random(len(resp))[:, None] >= np.cumsum(resp, axis=1)
    return np.asarray(np.minimum(passed.sum(axis=1), resp.shape[1] - 1), dtype=np.intp)
