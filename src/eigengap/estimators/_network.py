"""What an autoencoder refuses and tells: parameters, fits that went wrong, numbers too large."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from eigengap.fitting.autoencoder.fit import AutoencoderFit, AutoencoderOptions
from eigengap.linalg import Array
from eigengap.runtime.warnings import warn
from eigengap.sources import Source

NOTHING = 0.999  # loss, in units of that of the columns' means, from which on nothing is left


def widths(hidden: Any) -> tuple[int, ...]:
    """Widths of layers, as the user gives them."""
    if isinstance(hidden, Integral):
        raise ValueError(
            "hidden must be a sequence of widths, one for each layer: for one layer write "
            f"hidden=({int(hidden)},)"
        )
    for width in hidden:
        if not isinstance(width, Integral) or isinstance(width, bool) or width < 1:
            raise ValueError(
                f"hidden must hold positive integers, the widths of layers, got {width!r}"
            )
    return tuple(int(width) for width in hidden)


def start_of(init: str, has_place: bool) -> str:
    """Where weights start: principal component analysis wants a linear path to stand in."""
    if init == "auto":
        return "pca" if has_place else "random"
    if init == "pca" and not has_place:
        raise ValueError(
            'init="pca" needs a linear path to start in: use shortcut=True, hidden=(), or '
            'init="random"'
        )
    return init


def refuse_sparse(source: Source) -> None:
    if source.is_sparse:
        raise ValueError(
            "X is sparse, and the layers of a network are not; densify it with X.toarray(), or "
            "reduce it first (PCA takes sparse tables)"
        )


def refuse_overflow(found: Array, start: int, what: str) -> None:
    """Refuse rows (c, ...) of results that are not finite; `start` is the number of the first."""
    if np.isfinite(np.sum(found)):
        return
    bad = np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(axis=1))
    if len(bad):
        raise ValueError(
            f"row {start + int(bad[0])} has {what} so large that what the network makes of it "
            "overflows: leave it out"
        )


def tell_of_many_codes(q: int, d: int, denoising: float) -> None:
    if q > d and denoising == 0.0:
        warn(
            f"n_components={q} codes are more than the {d} columns, so that a network which copies "
            "its input loses nothing: take fewer, or denoising",
            UserWarning,
        )


def tell_of_fit(found: AutoencoderFit, options: AutoencoderOptions) -> None:
    """Warn of passes that exploded or were too few, and of weights that decayed to nothing."""
    rate, decay = options.learning_rate, options.weight_decay
    if found.diverged:
        warn(
            f"the loss exploded in {found.epochs} passes at learning_rate={rate:g}, and the best "
            f"weights before were kept: take a smaller one, say learning_rate={rate / 10:g}",
            ConvergenceWarning,
        )
    elif not found.converged:
        warn(
            f"Autoencoder did not converge in {found.epochs} passes and "
            f"{len(found.trace) - found.epochs} further steps (loss {found.loss:.4g}); raise "
            f"max_iter={options.max_iter} or tol",
            ConvergenceWarning,
        )
    if decay > 0.0 and found.loss > NOTHING:
        warn(
            f"weight_decay={decay:g} leaves next to nothing of the rows but the means of their "
            f"columns (loss {found.loss:.4g}, theirs is 1): take a smaller one",
            UserWarning,
        )
