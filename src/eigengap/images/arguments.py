"""What `denoise_image` and `inpaint_image` ask of their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

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


def settings(
    shape: tuple[int, int, int],
    patch: Any,
    stride: Any,
    model: Any,
    n_mixture: Any,
    n_components: Any,
    random_state: Any,
) -> Settings:
    """Check; a patch that is larger than the picture shrinks to it."""
    side = min(_whole(patch, "patch", 2), *shape[:2])
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
            raise ValueError(f"n_components = {rank} is more than the {entries} entries of a patch")
    return Settings(
        patch=side,
        stride=step,
        model=model,
        n_mixture=1 if model == "ppca" else _whole(n_mixture, "n_mixture", 1),
        rank=rank,
        rng=_generator(random_state),
    )


def noise_of(sigma: Any, name: str = "sigma") -> float:
    """A standard deviation that was given."""
    if isinstance(sigma, Real) and not isinstance(sigma, bool):
        value = float(sigma)
        if isfinite(value) and value >= 0.0:
            return value
    raise ValueError(
        f"{name} is {sigma!r}; it is a standard deviation in the units of the image, not negative"
    )


def _whole(value: Any, name: str, least: int, more: str = "") -> int:
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    raise ValueError(f"{name} is {value!r}; it has to be a whole number from {least} up{more}")


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    return np.random.default_rng(random_state)
