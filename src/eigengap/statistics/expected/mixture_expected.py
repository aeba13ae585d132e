"""Expected statistics of a mixture: responsibilities are weights into the same sums.

Given the responsibilities, the expected complete-data log-likelihood falls apart into one weighted
linear-Gaussian problem for each component and the multinomial of the weights (Ghahramani and Hinton
1996, section 3; Tipping and Bishop 1999, "Mixtures of probabilistic principal component analysers",
Appendix C). One pass over the data does the whole E-step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eigengap.linalg import Array
from eigengap.models.gaussian.mixture_posterior import MixtureChunk, mixture_posteriors
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.row_posterior import Coefficients
from eigengap.statistics.expected.expected import Expected, Sums


@dataclass(frozen=True, eq=False)
class MixtureExpected:
    """Sums over rows; they merge by addition. w_i resp_ik is the weight of row i in component k."""

    components: tuple[Expected, ...]  # (K,)
    overlap: Array  # (K, K) sum_i w_i resp_ik resp_il
    divergence: Array  # (K,) sum_i w_i resp_ik (ln resp_ik - ln p_k(x_i))
    log_likelihood: float

    @classmethod
    def of(
        cls,
        rows: ObservedRows,
        log_weights: Array,
        coefficients: Sequence[Coefficients],
        passes: int = 1,
    ) -> MixtureExpected:
        """Statistics of one block under the current parameters: an E-step."""
        K = len(coefficients)
        sums = [Sums(rows, c.q) for c in coefficients]
        overlap, divergence = np.zeros((K, K)), np.zeros(K)
        squares = np.zeros((K, rows.d))
        log_likelihood = 0.0
        for chunk in mixture_posteriors(rows, log_weights, coefficients, passes):
            weight = None if rows.weight is None else rows.weight[chunk.rows]
            w = chunk.resp if weight is None else chunk.resp * weight  # (K, c)
            log_likelihood += float(
                np.sum(chunk.log_likelihood) if weight is None else chunk.log_likelihood @ weight
            )
            overlap += w @ chunk.resp.T
            divergence += _divergence(chunk, w)
            squares += _squares(w, rows.R[chunk.rows])
            for one, part, of_k in zip(sums, chunk.parts, w, strict=True):
                one.add(part, of_k)
        return cls(
            components=tuple(map(_expected, sums, squares)),
            overlap=overlap,
            divergence=divergence,
            log_likelihood=log_likelihood,
        )

    def merge(self, other: MixtureExpected) -> MixtureExpected:
        both = zip(self.components, other.components, strict=True)
        return MixtureExpected(
            components=tuple(mine.merge(theirs) for mine, theirs in both),
            overlap=self.overlap + other.overlap,
            divergence=self.divergence + other.divergence,
            log_likelihood=self.log_likelihood + other.log_likelihood,
        )

    def sum_w(self) -> Array:
        """(K,) rows, by weight and responsibility, of each component."""
        return np.array([component.sum_w for component in self.components])

    def similarity(self) -> Array:
        """(K, K) cosine of the responsibilities of two components: Ueda et al. 2000, Eq. 3.6."""
        length = np.sqrt(np.diag(self.overlap))
        return np.asarray(self.overlap / np.maximum(np.outer(length, length), 1e-300))

    def misfit(self) -> Array:
        """(K,) local Kullback divergence of a component from its rows: Ueda et al. 2000, Eq. 3.7.

        Nats a row of f_k ln f_k / p_k, with f_k the rows' empirical density by responsibility.
        """
        sum_w = np.maximum(self.sum_w(), 1e-300)
        return np.asarray(self.divergence / sum_w - np.log(sum_w))


def _expected(sums: Sums, squares: Array) -> Expected:
    expected = sums.expected(squares, cells=0.0)
    return replace(expected, cells=float(np.sum(expected.observed())))


def _divergence(chunk: MixtureChunk, w: Array) -> Array:
    """(K,) sum_i w_ik (ln resp_ik + energy_ik / 2)."""
    log_resp = np.log(np.maximum(chunk.resp, 1e-300))
    energy = np.stack([part.energy for part in chunk.parts])
    return np.asarray(np.einsum("kc,kc->k", w, log_resp + 0.5 * energy))


def _squares(w: Array, R: object) -> Array:
    """(K, d) weighted column sums of R^2."""
    if isinstance(R, np.ndarray):
        R = R.astype(np.float64, copy=False)
        return w @ (R * R)
    return np.asarray((R.power(2).T @ w.T).T)  # type: ignore[attr-defined]
