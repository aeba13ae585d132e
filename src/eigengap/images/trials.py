"""How far off inpainted entries are, by observed ones that are held out for a trial.

A Gaussian's own standard deviations are as good as the Gaussian. So a few of the seen entries, the
judges, are kept from learning and filled as if they were missing, and all standard deviations are
multiplied by one number: that which makes 95 % intervals hold 95 % of the judges (split conformal
prediction: Lei, G'Sell, Rinaldo, Tibshirani and Wasserman 2018). Judges go the way the gaps do:
where a gap takes all channels of a pixel, or its neighbours, with it, so does a judge.

A large image has judges enough in a few windows, and what was learned without them is as good as
what all would teach. In a small one every entry is a judge in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from eigengap.images.arguments import Settings
from eigengap.images.gaussians import Gaussian
from eigengap.images.painting import Known, painted
from eigengap.linalg import Array

Bools = NDArray[np.bool_]
Window = tuple[slice, slice]
Learner = Callable[[Array], list[Gaussian]]  # from (h, w, c) with NaN

SIDE, WINDOWS = 64, 6  # pixels, and number, of the windows in which seen entries are judges
ROUNDS = 10  # in which a tenth of the seen entries each are the judges, if one is not enough
ENOUGH = 100  # judges
FEWEST = 19  # of which the worst bounds 95 % of what is to come
LEVEL, NORMAL = 0.95, 1.959964


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the judges say, and what was learned without them."""

    gaussians: list[Gaussian]
    scale: float  # of the standard deviations
    least: float  # what no standard deviation should be below; 0 where there were judges enough


def tried(known: Known, learn: Learner, how: Settings) -> Verdict:
    """Learn, try, and learn again where the judges were needed for that."""
    down, across = thickness(np.isnan(known.values))
    turn = _turns(known, min(down, how.patch), min(across, how.patch), how.rng)
    windows = _windows(turn.shape, how.rng)
    inside = np.zeros(turn.shape, dtype=bool)
    for window in windows:
        inside[window] = True
    judges = inside & (turn == 0)
    # Judges that are noisy, or smaller than the gaps, cannot show that these are better known.
    least = 1.0 if known.sigma > 0.0 or max(down, across) > how.patch else 0.0
    if np.count_nonzero(judges) >= ENOUGH:
        gaussians = learn(known.without(judges).values)
        z = _misses(known, judges, windows, gaussians, how)
        return Verdict(gaussians, max(_scale(z), least), 0.0)
    z = np.concatenate([np.empty(0), *_in_turn(known, turn, learn, how)])
    # The image has standard deviation 1: without judges nothing is known better than that.
    return Verdict(learn(known.values), max(_scale(z), least), 0.0 if len(z) >= FEWEST else 1.0)


def _turns(known: Known, height: int, width: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """(h, w, c) the round in which a seen entry is a judge, with its neighbours; -1 for others."""
    missing = np.isnan(known.values)
    h, w, c = missing.shape
    stones = (-(-h // height), -(-w // width))  # with which the image is paved
    together = rng.random((*stones, c)) < togetherness(missing)
    of_all, of_each = (rng.integers(ROUNDS, size=(*stones, k)) for k in (1, c))
    turn = np.where(together, of_all, of_each).repeat(height, axis=0).repeat(width, axis=1)[:h, :w]
    return np.where(missing | (known.doubt > 0.0), -1, turn)


def togetherness(missing: Bools) -> float:
    """How much the channels of a pixel go missing together: 0 each by itself, 1 all at once."""
    others = missing.shape[2] - 1.0
    k = missing.sum(axis=2, dtype=float)
    n_missing, n_observed = float(np.sum(k)), float(np.sum(others + 1.0 - k))
    if others == 0.0 or n_missing == 0.0 or n_observed == 0.0:
        return 0.0
    beside_missing, beside_observed = np.sum(k * (k - 1.0)), np.sum(k * (others + 1.0 - k))
    return _more_often(
        beside_missing / (n_missing * others), beside_observed / (n_observed * others)
    )


def thickness(missing: Bools) -> tuple[int, int]:
    """Pixels down and across, about, that go missing together; 1 where each goes by itself."""
    down = _run(missing[:-1], missing[1:])
    return down, _run(missing[:, :-1], missing[:, 1:])


def _run(this: Bools, updated: Bools) -> int:
    if this.all() or not this.any():
        return 1
    share = _more_often(float(np.mean(updated[this])), float(np.mean(updated[~this])))
    return round(1.0 / max(1.0 - share, 1e-3))


def _more_often(if_missing: float, if_observed: float) -> float:
    """With what probability a judge has to take another entry with it.

    That one is then as often unseen as it is beside a missing entry.
    """
    return max((if_missing - if_observed) / (1.0 - if_observed), 0.0) if if_observed < 1.0 else 0.0


def _windows(shape: tuple[int, ...], rng: np.random.Generator) -> list[Window]:
    h, w = shape[:2]
    return [
        (_stretch(h, rng), _stretch(w, rng)) for _ in range(1 if max(h, w) <= SIDE else WINDOWS)
    ]


def _stretch(length: int, rng: np.random.Generator) -> slice:
    start = int(rng.integers(max(length - SIDE, 0) + 1))
    return slice(start, min(start + SIDE, length))


def _in_turn(
    known: Known, turn: NDArray[np.intp], learn: Learner, how: Settings
) -> Iterator[Array]:
    """Errors of the judges of one round after another, as many as it takes."""
    everywhere = [(slice(None), slice(None))]
    judged, observed = 0, int(np.count_nonzero(turn >= 0))
    for one in range(ROUNDS):
        judges = turn == one
        n = int(np.count_nonzero(judges))
        if judged >= ENOUGH or n == 0 or n == observed:
            continue
        judged += n
        yield _misses(known, judges, everywhere, learn(known.without(judges).values), how)


def _misses(
    known: Known, judges: Bools, windows: list[Window], gaussians: list[Gaussian], how: Settings
) -> Array:
    """|error| in standard deviations, of every judge in every window."""
    z = [np.empty(0)]
    for window in windows:
        here = judges[window]
        if here.any():
            found = painted(known.within(window).without(here), gaussians, how)
            error = known.values[window][here] - found.mean[here]
            z.append(np.abs(error) / np.hypot(found.sd[here], known.sigma))
    return np.concatenate(z)


def _scale(z: Array) -> float:
    """What makes 95 % intervals hold 95 % of what is to come; all that was seen if that is less."""
    if len(z) == 0:
        return 1.0
    rank = min(ceil(LEVEL * (len(z) + 1)), len(z))
    return float(np.partition(z, rank - 1)[rank - 1] / NORMAL)
