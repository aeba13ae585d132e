"""The noise of cells about functions whose latents were chosen, not integrated out.

The exact GPLVM has one latent for each row, chosen to fit it, so that the maximum of the likelihood
takes part of the noise for signal: as if n d cells were left where r_i of those of row i went into
its latent (Neyman and Scott 1948). What new cells show is

    sigma2 * cells / (cells - sum_i r_i),      r_i = tr H_i (H_i + I)^-1,   H_i = J_i'J_i / sigma2

with J_i (observed cells, q) the slopes of the functions at z_i: r_i is q where a row determines its
latent, and less where the prior does. With a linear kernel r_i = q, and it is the factor
d / (d - q) between dual probabilistic PCA and probabilistic PCA.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigengap.linalg import Array
from eigengap.models.gp.gaussian_process import GaussianProcesses

MOST_ROWS = 2000  # that are looked at
MOST_SPENT = 0.8  # of the cells


def noise_of_cells(model: GaussianProcesses, Z: Array, observed: NDArray[np.bool_]) -> float:
    """In the model's units, for fitted latents Z (n, q) of rows observed in `observed` (n, d)."""
    some = np.unique(np.linspace(0, len(Z) - 1, min(len(Z), MOST_ROWS)).round().astype(np.intp))
    slopes = model.slopes(Z[some]) / model.unit[:, None] * observed[some, :, None]
    lam = np.linalg.eigvalsh(slopes.swapaxes(1, 2) @ slopes) / model.noise_variance
    lam = np.maximum(lam, 0.0)
    spent = float(np.sum(lam / (lam + 1.0))) / float(np.sum(observed[some]))
    return model.noise_variance / (1.0 - min(spent, MOST_SPENT))
