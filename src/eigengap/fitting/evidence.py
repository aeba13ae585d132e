"""Which cells a fit saw: what the uncertainty of its parameters is computed from."""

from __future__ import annotations

import numpy as np

from eigengap.fitting.gaussian_em import GaussianFit
from eigengap.models.information import Evidence, Noise
from eigengap.sources.base import Source
from eigengap.statistics.known_variances import KnownVariances

# Rows whose patterns are kept: as many as make the information cost some 1e7 operations. Their
# average hardly varies (25 rows and all of 200 give the same intervals to three digits).
OPERATIONS = 5e7
FEWEST, MOST = 32, 2000


def evidence_of(source: Source, fit: GaussianFit, noise: Noise, fits_mean: bool) -> Evidence:
    """The patterns of a sample of rows, the same ones at every call."""
    d, q = fit.model.W.shape
    known = source.reduce(KnownVariances.of).typical() if source.has_cell_sd else 0.0
    if not source.has_gaps:
        return Evidence(np.ones((1, d), dtype=bool), fit.seen_w, noise, fits_mean, known)
    k = int(np.clip(OPERATIONS / (d * q**2), FEWEST, MOST))
    rows = source.sample(min(k, source.seen().rows), np.random.default_rng(0))
    return Evidence(~np.isnan(rows), fit.seen_w, noise, fits_mean, known)
