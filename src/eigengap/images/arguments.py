"""What `denoise_image` and `inpaint_image` ask of their arguments."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from eigengap.wording import words

DROWNED = 1e6  # noise in standard deviations of the image, and more makes no difference
MODELS = ("mixture", "ppca")


@dataclass(frozen=True)
class Settings:
    """How to restore, checked."""

    patch: int
    stride: int
    model: str
    n_mixture: int
    rank: int | None
    rng: np.random.Generator

    def shrunk_to(self, shape: tuple[int, ...]) -> Settings:
        """The same for a smaller image of shape (h, w, c)."""
        h, w, c = shape
        side = _side(self.patch, (h, w, c))
        return replace(self, patch=side, stride=min(self.stride, side))


def settings(
    shape: tuple[int, int, int],
    patch: Any,
    stride: Any,
    model: Any,
    n_mixture: Any,
    n_components: Any,
    random_state: Any,
) -> Settings:
    """Check; an image with few patches of this side gets smaller ones."""
    side = _side(_whole(patch, "patch", 2), shape)
    step = _whole(stride, "stride", 1)
    if step > side:
        raise ValueError(
            f"stride = {step} is more than the side of a patch, {side}: pixels between the patches "
            "would be lost"
        )
    if model not in MODELS:
        raise ValueError(f"model is {model!r}; it has to be one of {', '.join(map(repr, MODELS))}")
    rank = None
    if not (isinstance(n_components, str) and n_components == "auto"):
        rank = _whole(n_components, "n_components", 1, ' or "auto"')
        entries = side * side * shape[2]
        if rank > entries:
            raise ValueError(
                f"{words().parameter('n_components', rank)} is more than the {entries} entries "
                "of a patch"
            )
    return Settings(
        patch=side,
        stride=step,
        model=model,
        n_mixture=1 if model == "ppca" else _whole(n_mixture, "n_mixture", 1),
        rank=rank,
        rng=_generator(random_state),
    )


def _side(most: int, shape: tuple[int, int, int]) -> int:
    """The largest side of which there are as many patches as entries in one: at least 2."""
    h, w, c = shape
    for side in range(min(most, h, w), 2, -1):
        if (h - side + 1) * (w - side + 1) >= side * side * c:
            return side
    return 2


def noise_of(sigma: Any) -> float:
    """A standard deviation that was given."""
    if isinstance(sigma, Real) and not isinstance(sigma, bool):
        value = float(sigma)
        if isfinite(value) and value >= 0.0:
            return value
    raise ValueError(
        f"sigma is {sigma!r}; it is a standard deviation in the units of the image, not negative"
    )


def relative(sigma: float, unit: float) -> float:
    """A standard deviation in units of the image; what drowns it does so, however much it is."""
    return min(sigma / unit, DROWNED)


def _whole(value: Any, name: str, least: int, more: str = "") -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    raise ValueError(f"{name} is {value!r}; it has to be a whole number from {least} up{more}")


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    if not isinstance(random_state, bool):
        with suppress(TypeError, ValueError):
            return np.random.default_rng(random_state)
    raise ValueError(
        f"random_state is {random_state!r}; it has to be a whole number from 0 up, a Generator, a "
        "RandomState or None"
    )
