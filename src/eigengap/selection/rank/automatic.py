"""The number of components that n_components="auto" takes.

Parallel analysis of the correlations against Gaussian noise (`parallel`), at least as many as lie
above a cliff in the spectrum, and from there on deflated parallel analysis, which finds what strong
components hide. Without noise it is the rank; there is always one. The same for PCA, PPCA and
factor analysis, and no matter in which units the columns are. Complete data need one pass and no
fit; with missing values there are as many fits as deflation takes rounds, commonly one or two.
docs/rank.md has the evidence for it.

Parallel analysis takes all variance for noise, so that strong components hide weaker ones.
Deflation (Dobriban and Owen 2019) takes out q components, gives every column a noise variance of
its own, and compares what is left, (n - q) x (d - q) numbers, with noise of that size, until
nothing is left that exceeds the noise level. In many real tables something always does: small
eigenvalues that are significant and endless. Then the count of plain parallel analysis stands.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from eigengap.fitting.gaussian.fit import fit_factor_analysis
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.rank.choice import Curve, RankChoice
from eigengap.selection.rank.parallel import LEVEL, leading, noise_shares, parallel_analysis
from eigengap.selection.rank.search import largest_rank
from eigengap.sources import Block, Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.imputed_correlation import ImputedScatter, Standardised

PLAIN = "parallel_analysis"
NAME = "deflated_parallel_analysis"
CLIFF = 10.0
COLUMNS = 3  # for each component of deflation: with fewer a factor analysis fits whatever there is
LEFT = f"largest eigenvalue beyond q over the {LEVEL:.0%} quantile of noise"

LOOSE = EMOptions(tol=1e-2, max_iter=50)
ROUNDS = 10  # of principal factors
SETTLED = 0.02  # change of ln psi at which they end
LEAST_NOISE = 0.005  # share of a column's variance: below it solutions are improper
AHEAD = 20  # components that may be added at once
LONGEST = 5  # rounds of deflation; a table that is components and noise takes two or three


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
        summary=_words(plain, count, kept, left, by_cliff=plain < cliff == kept),
        not_applied={},
    )


def deflated(
    source: Source, table: Standardised, first: int, most: int, *, fit_mean: bool = True
) -> tuple[int, Curve]:
    """Further components, beyond the `first` that parallel analysis finds, by deflation.

    They count if what is left in the end is noise. Where it is not, after a few rounds or at `most`
    components, no number of components separates this table from noise, and `first` is as good as
    any. The curve holds, for each q at which the remainder was looked at, its first share over that
    of noise.
    """
    rows, d = table.sum_w - (1.0 if fit_mean else 0.0), table.d
    first = max(first, min(before_a_cliff(table.spectrum(), rows), most))
    most = min(most, d // COLUMNS)
    if first == 0 or first >= most:
        return first, Curve.of({}, "above 1", LEFT)
    remainder = incomplete_remainder if source.has_missing else complete_remainder
    q, found = first, 0
    left: dict[int, float] = {}
    for _ in range(LONGEST):
        lam = remainder(source, table, q)
        total = float(np.sum(lam))
        ahead = min(max(most - q, 1), AHEAD, d - q, int(rows - q), len(lam))
        if ahead < 1 or total <= 1e-9:
            found = 0
            break
        ratio = lam[:ahead] / total / noise_shares(rows - q, d - q, ahead)
        left[q] = float(ratio[0])
        found = leading(ratio)
        if found == 0 or q >= most:
            break
        q = min(q + found, most)
    return (first if found else q), Curve.of(left, "above 1", LEFT)


def complete_remainder(_source: Source, table: Standardised, q: int) -> Array:
    """Eigenvalues of the table in units of its noise, descending, with q components taken out.

    Those beyond the q-th of Psi^-1/2 R Psi^-1/2, R the correlations (or, of a wide table, the
    rows), with Psi found by iterated principal factors.
    """
    psi = np.ones(table.d)
    for _ in range(ROUNDS):
        lam, U = table.eigenpairs(1.0 / np.sqrt(psi), q)
        # W = Psi^1/2 U (Lam - I)^1/2 (Lawley and Maxwell 1971)
        W2 = psi * np.sum(U**2 * np.maximum(lam[:q] - 1.0, 0.0), axis=1)
        updated = np.maximum(1.0 - W2, LEAST_NOISE)
        change = float(np.max(np.abs(np.log(updated / psi))))
        psi = updated
        if change < SETTLED:
            break
    return lam[q:]


def incomplete_remainder(source: Source, table: Standardised, q: int) -> Array:
    """The same with missing values, from a factor analysis by EM.

    The spectrum of the observed residuals x - E[W z + mu | x], in units of their standard deviation
    and 0 where values are missing; where the model is right they are noise in d - q directions, and
    smaller in the rest.
    """
    model = fit_factor_analysis(source, q, options=LOOSE).model
    unit = np.sqrt(np.maximum(model.psi, 1e-12 * model.variances()))
    scatter = source.reduce(partial(_residual_scatter, model, unit)).value
    lam = np.linalg.eigvalsh(scatter)[::-1]
    return np.asarray(np.maximum(lam[: max(source.n_features - q, 0)], 0.0)) / table.sum_w


def _residual_scatter(model: LinearGaussian, unit: Array, block: Block) -> ImputedScatter:
    values = np.asarray(block.values, dtype=np.float64)
    expected = model.posterior_mean(values) @ model.W.T
    y = np.nan_to_num((values - model.mu - expected) / unit, nan=0.0)
    y = y if block.weight is None else y * np.sqrt(block.weight)[:, None]
    return ImputedScatter(y.T @ y)


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


def _words(plain: int, count: int, kept: int, left: Curve, by_cliff: bool) -> str:
    if by_cliff:
        return (
            f"k = {kept}: the next eigenvalue is less than a {CLIFF:.0f}th of the last that is kept"
        )
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
