"""Three-phase flow through a pipe as gamma rays see it, simulated after Bishop and James (1993).

Oil, water and gas share the unit disc that is the cross-section of a pipe, by fractions of its
area that are drawn evenly from all that sum to one. They flow in one of three configurations:

    homogeneous  mixed, so that every path meets them by their fractions
    stratified   in flat layers, water below oil below gas
    annular      in rings, gas inside oil inside water

Six beams cross the disc, three vertical and three horizontal; dual-energy gamma rays tell how much
oil and how much water each of them meets. These twelve path lengths, with a little noise, are the
columns; two fractions are what varies within each configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

CONFIGURATIONS = ("homogeneous", "stratified", "annular")
OFFSETS = np.array([-0.6, 0.0, 0.45])  # of the beams from the centre of the pipe
NOISE = 0.02  # standard deviation of a path length, in radii


@dataclass(frozen=True, eq=False)
class Flow:
    X: np.ndarray  # (n, 12) path lengths: oil and water of each beam in turn
    label: np.ndarray  # (n,) index into CONFIGURATIONS
    fractions: np.ndarray  # (n, 3) oil, water, gas


def oil_flow(n: int = 1000, seed: int = 0, noise: float = NOISE) -> Flow:
    rng = np.random.default_rng(seed)
    fractions = rng.dirichlet(np.ones(3), size=n)
    label = np.arange(n) % len(CONFIGURATIONS)
    paths = (_homogeneous, _stratified, _annular)
    X = np.array([paths[k](*f) for k, f in zip(label, fractions, strict=True)])
    return Flow(X + noise * rng.normal(size=X.shape), label, fractions)


def _homogeneous(oil: float, water: float, gas: float) -> np.ndarray:
    chords = 2.0 * np.sqrt(1.0 - OFFSETS**2)
    each = np.column_stack([oil * chords, water * chords])
    return np.concatenate([each, each]).ravel()


def _stratified(oil: float, water: float, gas: float) -> np.ndarray:
    low, high = _level(water), _level(water + oil)
    half = np.sqrt(1.0 - OFFSETS**2)
    in_water = np.clip(low, -half, half) + half  # of vertical beams
    in_oil = np.clip(high, -half, half) - np.clip(low, -half, half)
    upright = np.column_stack([in_oil, in_water])
    # A horizontal beam lies in one layer.
    level = np.column_stack(
        [2.0 * half * ((low <= OFFSETS) & (high > OFFSETS)), 2.0 * half * (low > OFFSETS)]
    )
    return np.concatenate([upright, level]).ravel()


def _annular(oil: float, water: float, gas: float) -> np.ndarray:
    def inside(radius: float) -> np.ndarray:
        return 2.0 * np.sqrt(np.maximum(radius**2 - OFFSETS**2, 0.0))

    of_gas, of_both, of_all = inside(np.sqrt(gas)), inside(np.sqrt(gas + oil)), inside(1.0)
    each = np.column_stack([of_both - of_gas, of_all - of_both])
    return np.concatenate([each, each]).ravel()


def _level(share: float) -> float:
    """Height below which a share of the unit disc lies."""

    def less(h: float) -> float:
        return (np.arcsin(h) + h * np.sqrt(1.0 - h * h)) / np.pi + 0.5 - share

    return brentq(less, -1.0, 1.0)
