"""The M-step of a mixture: each component by its own statistics, weights by their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eigengap.linalg import Array
from eigengap.statistics.expected.maximise import (
    Constraints,
    Parameters,
    anchored,
    maximise,
    maximise_together,
)
from eigengap.statistics.expected.mixture_expected import MixtureExpected

# Weight, in rows per row of the component, of rows that are as the current model has them: they
# hold a feature in place that no row of the component shows, and are lost in rounding elsewhere.
ANCHOR = 1e-10


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
) -> MixtureParameters:
    """One M-step: T&B 1999 (mixtures), Eqs. 22 to 25 in the form of Appendix C, and its kin."""
    sums = [
        anchored(e, c, ANCHOR * e.sum_w)
        for e, c in zip(expected.components, current.components, strict=True)
    ]
    if shared_noise:
        components = maximise_together(sums, current.components, how)
    else:
        components = [maximise(*each) for each in zip(sums, current.components, how, strict=True)]
    sum_w = expected.sum_w()
    return MixtureParameters(np.log(sum_w / np.sum(sum_w)), tuple(components))
