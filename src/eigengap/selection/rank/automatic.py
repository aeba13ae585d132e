"""The number of components that n_components="auto" takes.

Parallel analysis of the correlations against Gaussian noise (`noise_spectrum`), at least as many as
lie above a cliff in the spectrum, and from there on deflated parallel analysis (`deflation`), which
finds what strong components hide. Without noise it is the rank; there is always one. The same for
PCA, PPCA and factor analysis, and no matter in which units the columns are. Complete data need one
pass and no fit; with missing values there are as many fits as deflation takes rounds, commonly one
or two. docs/rank.md has the evidence for it.
"""

from __future__ import annotations

import numpy as np

from eigengap.selection.rank.choice import Curve, RankChoice
from eigengap.selection.rank.deflation import (
    complete_remainder,
    deflated_rank,
    incomplete_remainder,
)
from eigengap.selection.rank.information import largest_rank
from eigengap.selection.rank.noise_spectrum import LEVEL, noise_shares, standing_out
from eigengap.sources import Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.imputed_correlation import Standardised

PLAIN = "parallel_analysis"
NAME = "deflated_parallel_analysis"
CLIFF = 10.0
COLUMNS = 3  # for each component of deflation: with fewer a factor analysis fits whatever there is
LABEL = f"k-th eigenvalue over the {LEVEL:.0%} quantile of noise"
LEFT = f"largest eigenvalue beyond q over the {LEVEL:.0%} quantile of noise"


def automatic_rank(source: Source, *, fit_mean: bool = True, most: int | None = None) -> RankChoice:
    """At least 1 and at most `most` components, by deflated parallel analysis."""
    table = Standardised.of(source, fit_mean=fit_mean)
    limit = largest_rank(source.n_features, table.sum_w)
    plain, curve = parallel_analysis(table.spectrum(), limit, fit_mean=fit_mean)
    count, left = deflated(source, table, plain, limit, fit_mean=fit_mean)
    cliff = before_a_cliff(table.spectrum(), table.sum_w - (1.0 if fit_mean else 0.0))
    kept = max(min(count, limit if most is None else most), 1)
    return RankChoice(
        n_components=kept,
        criteria={PLAIN: plain, NAME: count},
        curves={PLAIN: curve, NAME: left or curve},  # without deflation the plain count decides
        summary=_of_cliff(kept) if plain < cliff == kept else _words(plain, count, kept, left),
        not_applied={},
    )


def parallel_analysis(spectrum: Spectrum, most: int, *, fit_mean: bool = True) -> tuple[int, Curve]:
    """Leading components of a correlation spectrum that Gaussian noise does not explain.

    Where the table is of low rank up to rounding there is no noise to compare with, and the rank
    itself is the answer.
    """
    rows = spectrum.sum_w - (1.0 if fit_mean else 0.0)
    if spectrum.d < 2 or rows < 2:
        return 0, Curve.of({}, "above 1", LABEL)
    shares = noise_shares(rows, spectrum.d, min(most, spectrum.d, int(rows)))
    count, values = standing_out(spectrum, shares)
    return (_noiseless_rank(spectrum, rows) or count), Curve.of(values, "above 1", LABEL)


def deflated(
    source: Source, table: Standardised, first: int, most: int, *, fit_mean: bool = True
) -> tuple[int, Curve]:
    """Further components, beyond the `first` that parallel analysis finds, by deflation."""
    rows = table.sum_w - (1.0 if fit_mean else 0.0)
    first = max(first, min(before_a_cliff(table.spectrum(), rows), most))
    most = min(most, table.d // COLUMNS)
    if first == 0 or first >= most:
        return first, Curve.of({}, "above 1", LEFT)
    if source.has_missing:
        remainder = incomplete_remainder(source, table.sum_w)
    else:
        remainder = complete_remainder(table)
    count, values = deflated_rank(remainder, rows, table.d, first, most)
    return count, Curve.of(values, "above 1", LEFT)


def before_a_cliff(spectrum: Spectrum, rows: float) -> int:
    """Components before the last drop of CLIFF times, in the first half of the spectrum; or 0.

    Deflation gives up beyond one component for three columns, and a column that is almost all
    signal says little of its noise. Eigenvalues of noise, and those of real tables that were
    looked at, fall by less than 7 times from one to the next (docs/rank.md).
    """
    lam = spectrum.lam
    half = min(int(min(rows, spectrum.d) // 2), len(lam) - 1)
    if half < 1 or lam[0] <= 0.0:
        return 0
    steep = lam[:half] > CLIFF * lam[1 : half + 1]
    is_there = lam[:half] > 1e-12 * lam[0]  # below it is rounding, which falls anyhow
    return int(np.max(np.flatnonzero(steep & is_there), initial=-1)) + 1


def _of_cliff(kept: int) -> str:
    return f"k = {kept}: the next eigenvalue is less than a {CLIFF:.0f}th of the last that is kept"


def _noiseless_rank(spectrum: Spectrum, rows: float) -> int:
    """The rank where it is at most half of what the shape allows; 0 where it is more."""
    lam = spectrum.lam
    rank = int((lam > 1e-12 * lam[0]).sum()) if len(lam) else 0
    return rank if 2 * rank <= min(rows, spectrum.d) else 0


def _words(plain: int, count: int, kept: int, left: Curve) -> str:
    if count == 0:
        return (
            f"k = {kept}: no component exceeds the noise level (parallel analysis); 1 is the fewest"
        )
    if count > kept:
        return f"k = {kept}: the most possible; {count} components exceed the noise level"
    how = "parallel analysis" if plain == count else f"{plain} before, {count} after deflation"
    exceed = "component exceeds" if kept == 1 else f"{kept} components exceed"
    words = f"k = {kept}: the first {exceed} the noise level ({how})"
    if left.get(kept, 2.0) <= 1.0:
        words += f"; the next reaches {100 * left[kept]:.0f} % of that level"
    elif len(left):
        words += "; the residual is not pure noise, however many are removed"
    return words
