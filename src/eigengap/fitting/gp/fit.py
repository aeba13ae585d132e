"""The route of a GPLVM fit: which method, from which starts, and the noise of new cells.

The exact GPLVM has one latent for each row, chosen to fit it and not integrated out, so that the
maximum of the likelihood takes part of the noise for signal: as if n d cells were left where r_i of
those of row i went into its latent (Neyman and Scott 1948). What new cells show is

    sigma2 * cells / (cells - sum_i r_i),      r_i = tr H_i (H_i + I)^-1,   H_i = J_i'J_i / sigma2

with J_i (observed cells, q) the slopes of the functions at z_i: r_i is q where a row determines its
latent, and less where the prior does. With a linear kernel r_i = q, and it is the factor
d / (d - q) between dual probabilistic PCA and probabilistic PCA.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gp.back_constraint import Kind, back_constraint
from eigengap.fitting.gp.start import (
    LatentFit,
    ObservedColumns,
    Start,
    chosen_points,
    perturbed,
    principal_start,
    to_unit_variance,
)
from eigengap.fitting.graph.duplicate_rows import Rows
from eigengap.fitting.optimise.loop import Watch
from eigengap.linalg import Array
from eigengap.models.gp.expected import has_expectations
from eigengap.models.gp.gaussian_process import GaussianProcesses
from eigengap.models.gp.kernels import LatentKernel, Linear
from eigengap.runtime.memory import require_memory, require_pairs

EXACT_ROWS = 500  # up to which "auto" takes all pairs
EXACT_WORK = 8.0 * EXACT_ROWS**3  # of rows^3 times patterns of missing values
COPIES = 10.0  # n x n matrices that an exact fit holds
MOST_ROWS = 2000  # whose degrees of freedom are counted
MOST_SPENT = 0.8  # of the cells


def is_linear(kernel: LatentKernel) -> bool:
    return all(isinstance(part, Linear) for part in kernel.parts)


def is_closed(kernel: LatentKernel, columns: ObservedColumns, back: Kind | None) -> bool:
    """Whether the exact fit has a closed form."""
    return is_linear(kernel) and columns.is_complete and back is None


def require_exact(n: int, patterns: int = 1) -> None:
    """Refuse an exact fit of so many rows, and patterns of missing values, that is too large."""
    require_pairs(
        n, "an exact GPLVM", 'use method="bayesian", whose cost grows with the number of rows',
        copies=COPIES + patterns,
    )  # fmt: skip


def chosen_method(
    asked: str,
    kernel: LatentKernel,
    columns: ObservedColumns,
    back: Kind | None,
    q: int,
    n_inducing: int,
) -> str:
    """ "exact" or "bayesian", as asked or by "auto"; refused where memory does not hold it."""
    n, patterns = columns.n_rows, len(columns.groups)
    closed = is_closed(kernel, columns, back)
    small = n <= EXACT_ROWS and patterns * float(n) ** 3 <= EXACT_WORK
    exact = asked == "exact" or (
        asked == "auto" and (closed or small or not has_expectations(kernel))
    )
    if not exact:
        M = min(n_inducing, n)
        require_memory(
            8.0 * (4.0 * n * (columns.table.shape[1] + M + 6 * q) + 4.0 * patterns * M * M),
            f"a Bayesian GPLVM of {n} rows with {M} inducing points",
            "take fewer inducing points, or fewer rows",
        )
    elif not closed:
        require_exact(n, patterns)
    return "exact" if exact else "bayesian"


def best_fit(
    columns: ObservedColumns,
    complete: Array,  # (n, d) the table with its missing values imputed
    of_row: Rows,  # (n,) which latent each row has
    kernel: LatentKernel,
    given: Callable[[], Array | None],  # (n, q) where latents start; None is principal components
    *,
    q: int,
    n_inducing: int | None,  # None is an exact fit
    back: Kind | None,
    n_init: int,
    tol: float,
    max_iter: int,
    seed: int,
    progress: Callable[[], AbstractContextManager[Watch | None]],
) -> LatentFit:
    """The best of n_init fits, all but the first from perturbed latents."""
    from eigengap.fitting.autodiff.gplvm import fit_latents

    rng = np.random.default_rng(seed)
    first = given()
    Z, shares = principal_start(complete, q, rng) if first is None else to_unit_variance(first, rng)

    def fitted(k: int) -> LatentFit:
        at = Z if k == 0 else perturbed(Z, rng)
        constraint = None if back is None else back_constraint(back, complete, at, rng)
        start = Start(at, shares, kernel, of_row, constraint)
        points = None
        if n_inducing is not None:  # functions w'z are known from the unit vectors
            points = np.eye(q) if is_linear(kernel) else chosen_points(at, n_inducing, rng)
        with progress() as watch:
            return fit_latents(columns, start, points, tol=tol, max_iter=max_iter, watch=watch)

    return max(map(fitted, range(n_init)), key=attrgetter("objective"))


def noise_of_cells(model: GaussianProcesses, Z: Array, observed: NDArray[np.bool_]) -> float:
    """In the model's units, for fitted latents Z (n, q) of rows observed in `observed` (n, d)."""
    some = np.unique(np.linspace(0, len(Z) - 1, min(len(Z), MOST_ROWS)).round().astype(np.intp))
    slopes = model.slopes(Z[some]) / model.unit[:, None] * observed[some, :, None]
    lam = np.linalg.eigvalsh(slopes.swapaxes(1, 2) @ slopes) / model.noise_variance
    lam = np.maximum(lam, 0.0)
    spent = float(np.sum(lam / (lam + 1.0))) / float(np.sum(observed[some]))
    return model.noise_variance / (1.0 - min(spent, MOST_SPENT))
