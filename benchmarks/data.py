"""Data sets of the benchmarks, each from a fixed seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits


@dataclass(frozen=True, eq=False)
class Incomplete:
    """A table with gaps whose true cells are known."""

    name: str
    X: np.ndarray  # (n, d), NaN where a cell is hidden
    truth: np.ndarray  # (n, d)
    q: int


def linear_gaussian(n: int, d: int, q: int, *, noise: np.ndarray | float = 0.5) -> np.ndarray:
    """(n, d) rows W z + mu + e, the columns of W falling in length from 2 to 0.7."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(d, q)) * np.linspace(2, 0.7, q)
    Z = rng.normal(size=(n, q))
    mu = 3 * rng.normal(size=d)
    return Z @ W.T + mu + noise * rng.normal(size=(n, d))


def factors(n: int, d: int, q: int) -> np.ndarray:
    """The same with noise of standard deviation 0.3 to 2 by column, as factor analysis has it."""
    return linear_gaussian(n, d, q, noise=np.random.default_rng(1).uniform(0.3, 2.0, size=d))


def digits() -> np.ndarray:
    """(1797, 61) handwritten digits, standardised, constant pixels left out."""
    X = load_digits().data
    X = X[:, X.std(axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def hide(name: str, truth: np.ndarray, q: int, share: float) -> Incomplete:
    """Hide cells at random."""
    hidden = np.random.default_rng(2).random(truth.shape) < share
    n, d = truth.shape
    name = f"{name}{n} x {d}, q {q}, {share:.0%} missing"
    return Incomplete(name, np.where(hidden, np.nan, truth), truth, q)


def tall() -> Incomplete:
    return hide("", linear_gaussian(10_000, 100, 10), 10, 0.2)


def wide() -> Incomplete:
    return hide("", linear_gaussian(2_000, 1_000, 20), 20, 0.3)


def digits_with_missing() -> Incomplete:
    return hide("digits ", digits(), 10, 0.3)


def small() -> Incomplete:
    return hide("", linear_gaussian(1_000, 50, 5), 5, 0.1)
