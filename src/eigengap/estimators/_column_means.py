"""Filling with the column mean: what LowRankImputer falls back on where nothing predicts better."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from eigengap.linalg import Array
from eigengap.sources import as_source


class ColumnMeans(BaseEstimator):
    """Independent Gaussian columns: a linear-Gaussian model without components.

    A new cell of a column seen in n rows follows Student's t with n - 1 degrees of freedom about
    the mean, with scale s sqrt(1 + 1 / n), s^2 at divisor n - 1.
    """

    _public_name = "column means"
    n_components_ = 0
    n_iter_ = 1

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        source = as_source(X, sample_weight=sample_weight)
        X, weight = source.collect(), source.weight
        observed = ~np.isnan(X)
        w = np.where(observed, 1.0 if weight is None else weight[:, None], 0.0)
        n = w.sum(axis=0)
        self.mean_ = np.sum(w * np.where(observed, X, 0.0), axis=0) / n
        squares = np.sum(w * np.where(observed, X - self.mean_, 0.0) ** 2, axis=0)
        self.degrees_ = np.maximum(n - 1.0, 1.0)
        self.scale_ = np.sqrt(squares / self.degrees_ * (1.0 + 1.0 / n))
        return self

    def impute(self, X: Array, return_std: bool = False) -> Any:
        filled = np.where(np.isnan(X), self.mean_, X).astype(X.dtype)
        if not return_std:
            return filled
        # Such that +- 1.96 of them are the 95 % interval of the t law.
        std = self.scale_ * student.ppf(0.975, self.degrees_) / student.ppf(0.975, np.inf)
        return filled, np.where(np.isnan(X), std, 0.0).astype(X.dtype)

    def sample_imputations(self, X: Array, m: int, random_state: Any = None) -> Iterator[Array]:
        rng = check_random_state(random_state)
        for _ in range(m):
            drawn = self.mean_ + self.scale_ * rng.standard_t(self.degrees_, size=X.shape)
            yield np.where(np.isnan(X), drawn, X).astype(X.dtype)
