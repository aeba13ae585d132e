"""EM for a mixture: responsibilities are weights into the sums of the linear-Gaussian model.

Given the responsibilities, the expected complete-data log-likelihood falls apart into one weighted
linear-Gaussian problem for each component and the multinomial of the weights (Ghahramani and Hinton
1996, section 3; Tipping and Bishop 1999, "Mixtures of probabilistic principal component analysers",
Appendix C). One pass over the data does the whole E-step; in the M-step each component goes by its
own statistics, the weights by their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eigengap.linalg import Array
from eigengap.models.gaussian.mixture import Posteriors, mixture_posteriors
from eigengap.models.gaussian.observed_rows import ObservedRows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    Sums,
    maximise_together,
    regularised,
)

MStep = Callable[
    [Sequence[Expected], Sequence[Parameters], Sequence[Constraints]], list[Parameters]
]

# Weight, in rows per row of the component, of rows that are as the current model has them: they
# hold a feature in place that no row of the component shows, and are lost in rounding elsewhere.
REGULARISING = 1e-10


@dataclass(frozen=True, eq=False)
class MixtureExpected(Additive):
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
        found = mixture_posteriors(rows, log_weights, coefficients, passes)
        for chunk, parts, resp, of_rows in found:
            w = resp if chunk.weight is None else resp * chunk.weight  # (K, c)
            log_likelihood += float(
                np.sum(of_rows) if chunk.weight is None else of_rows @ chunk.weight
            )
            overlap += w @ resp.T
            divergence += _divergence(parts, resp, w)
            squares += _squares(w, chunk.R)
            for one, part, of_k in zip(sums, parts, w, strict=True):
                one.add(chunk, part, of_k)
        return cls(
            components=tuple(map(_expected, sums, squares)),
            overlap=overlap,
            divergence=divergence,
            log_likelihood=log_likelihood,
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


def _divergence(parts: Posteriors, resp: Array, w: Array) -> Array:
    """(K,) sum_i w_ik (ln resp_ik - ln p_k(x_i))."""
    log_resp = np.log(np.maximum(resp, 1e-300))
    log_density = np.stack([part.log_density for part in parts])
    return np.asarray(np.einsum("kc,kc->k", w, log_resp - log_density))


def _squares(w: Array, R: object) -> Array:
    """(K, d) weighted column sums of R^2."""
    if isinstance(R, np.ndarray):
        R = R.astype(np.float64, copy=False)
        return w @ (R * R)
    return np.asarray((R.power(2).T @ w.T).T)  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class MixtureParameters:
    """A mixture in the making, in the units of the rows."""

    log_weights: Array  # (K,)
    components: tuple[Parameters, ...]  # (K,)

    @property
    def K(self) -> int:
        return len(self.components)

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(int(c.W.shape[1]) for c in self.components)


def maximise_mixture(
    expected: MixtureExpected,
    current: MixtureParameters,
    how: Sequence[Constraints],  # (K,)
    shared_noise: bool,
    maximise_together: MStep = maximise_together,  # of components with the same noise
) -> MixtureParameters:
    """One M-step: T&B 1999 (mixtures), Eqs. 22 to 25 in the form of Appendix C, and its kin."""
    sums = [
        regularised(e, c, REGULARISING * e.sum_w)
        for e, c in zip(expected.components, current.components, strict=True)
    ]
    if shared_noise:
        components = maximise_together(sums, current.components, how)
    else:
        each = zip(sums, current.components, how, strict=True)
        components = [maximise_together([e], [c], [h])[0] for e, c, h in each]
    sum_w = expected.sum_w()
    return MixtureParameters(np.log(sum_w / np.sum(sum_w)), tuple(components))
