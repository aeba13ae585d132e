"""Automatic relevance determination: the components that Bayesian PCA keeps (Bishop 1999)."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.gaussian.bayesian import fit_bayesian
from eigengap.fitting.gaussian.problem import EMOptions, Noise
from eigengap.selection.rank.choice import Curve
from eigengap.sources import Source

LOOSE = EMOptions(tol=1e-3, max_iter=300)


def relevant_components(source: Source, noise: Noise, most: int) -> tuple[int, Curve]:
    """How many components survive, and the mean squared loading of each that was kept.

    Components are removed from a fit that begins with a few, or with more as long as all are kept,
    and never with more than `most`.
    """
    fit = fit_bayesian(source, None, noise=noise, options=LOOSE)
    W = fit.bayesian.W  # (d, q)
    size = np.sort(np.einsum("jk,jk->k", W, W))[::-1] / len(W)
    kept = int(np.count_nonzero(size > 0.0))
    values = {k + 1: float(value) for k, value in enumerate(size[:kept])}
    curve = Curve.of(values, "higher", "mean squared loading of the k-th component")
    return min(kept, most), curve
