"""Known mixtures for ICA, and how far an unmixing is from them."""

from __future__ import annotations

import numpy as np

KINDS = {
    "sub": ("uniform",),
    "super": ("laplace",),
    "mixed": ("uniform", "laplace", "exponential", "student", "binary"),
}


def sources(kind: str, n: int, q: int, seed: int) -> np.ndarray:
    """Independent sources (n, q) of mean 0 and variance 1."""
    rng = np.random.default_rng(seed)
    draw = {
        "uniform": lambda: rng.uniform(-1, 1, n),
        "laplace": lambda: rng.laplace(size=n),
        "exponential": lambda: rng.exponential(size=n),
        "student": lambda: rng.standard_t(5, n),
        "binary": lambda: rng.choice([-1.0, 1.0], n),
    }
    names = KINDS[kind]
    S = np.column_stack([draw[names[k % len(names)]]() for k in range(q)])
    return (S - S.mean(axis=0)) / S.std(axis=0)


def mixture(kind: str, n: int, q: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mixed rows X = S A' and the square mixing matrix A."""
    A = np.random.default_rng(1000 + seed).standard_normal((q, q))
    return sources(kind, n, q, seed) @ A.T, A


def amari(P: np.ndarray) -> float:
    """Amari's index of unmixing times mixing (q, q): 0 for a scaled permutation, 1 at worst.

    Amari, Cichocki and Yang (1996), divided by 2 q (q - 1).
    """
    P, q = np.abs(P), len(P)
    rows = np.sum(P / P.max(axis=1, keepdims=True)) - q
    columns = np.sum(P / P.max(axis=0)) - q
    return float((rows + columns) / (2 * q * (q - 1)))


def matched(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Rows of A in the order and with the signs of those of B that they resemble most."""
    A1 = A / np.linalg.norm(A, axis=1, keepdims=True)
    B1 = B / np.linalg.norm(B, axis=1, keepdims=True)
    cosines = B1 @ A1.T
    order = np.argmax(np.abs(cosines), axis=1)
    assert len(set(order)) == len(order)
    return A[order] * np.sign(cosines[np.arange(len(B)), order])[:, None]
