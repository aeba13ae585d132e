"""The report: one HTML file about a fitted estimator and its table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["report"]


def report(
    estimator: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    color: Any = None,
    title: str | None = None,
    max_rows: int = 2000,
    first_row: int = 0,
    provenance: Mapping[str, Any] | None = None,
    random_state: int = 0,
) -> Path:
    """Write what a fitted estimator found in a table: one HTML file that opens anywhere, offline.

    It shows in words and charts what is missing, how many components there are and what they are
    made of, where the rows lie (brush them, and the table and the columns follow), how well
    missing values are imputed, how well the model fits, and how to reproduce it.

    Parameters
    ----------
    estimator : fitted PCA, PPCA, FactorAnalysis, MixturePPCA, Isomap, ...
        Every estimator that places rows; what means nothing for one of them is left out, with a
        sentence. It is not changed. Of a Pipeline the last step is reported, on the table that the
        steps before it make of X.
    X : table of shape (n_samples, n_features)
        Array, frame, path, source or Dask collection, as for `fit`. Columns of a frame or file
        that the fit did not use, text included, serve to colour and to name the rows.
    path : str or path-like
        The file to write, as a whole or not at all; replaced where it is there.
    color : str or array-like of shape (n_samples,), default=None
        Column, or values, by which the points are coloured at first.
    title : str, default=None
    max_rows : int, default=2000
        Most rows that the file holds. Of a longer table so many are drawn at random, and the page
        states what is of all rows and what is of those.
    first_row : int, default=0
        What the first row is called: 0 as in Python, 1 as `eigengap score` and spreadsheets count.
    provenance : mapping, default=None
        Where the data came from, to be shown: command, file, SHA-256, time
        (`eigengap.persistence.provenance.provenance_of`). None takes what a loaded model carries.
    random_state : int, default=0
        Of the rows that are drawn and the values that are held out.

    Returns
    -------
    Path
        Of the file.

    Notes
    -----
    The same estimator, table and provenance give the same bytes. No text of the table can run: it
    is escaped, and the page's policy forbids everything but its own scripts.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from eigengap import PPCA
    >>> from eigengap.reporting import report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = report(PPCA(2).fit(X), X, Path(folder) / "report.html")
    ...     print(written.name, written.stat().st_size < 3_000_000)
    report.html True
    """
    from eigengap.persistence.atomic import require_writable, write_atomically
    from eigengap.plots.numbers.rows import count_of
    from eigengap.reporting.compose import compose

    max_rows = count_of("max_rows, the rows to be shown,", max_rows)
    first_row = count_of("first_row", first_row, least=0)
    seed = count_of("random_state", random_state, least=0)
    target = Path(os.fspath(path))
    require_writable(target)
    html = compose(estimator, X, color, title, max_rows, first_row, seed, provenance)
    write_atomically(target, html.encode("utf-8", "replace"))
    return target
