"""Parallel analysis (Horn 1965): components that exceed the spectrum of noise.

The k-th eigenvalue of the correlations is kept as long as it is larger than all but a few of the
k-th eigenvalues of tables of the same size whose columns are independent. For Gaussian columns
those need no table: the eigenvalues of a Wishart matrix of n degrees of freedom in d dimensions
are the squared singular values of a bidiagonal matrix of independent chi variables (Dumitriu and
Edelman 2002), which costs d random numbers and no pass over the data. For columns of any
distribution they are those of permutations of the table (Buja and Eyuboglu 1992).

Parallel analysis takes all variance for noise, so that strong components hide weaker ones.
Deflation (Dobriban and Owen 2019) takes out q components, gives every column a noise variance of
its own, and compares what is left, (n - q) x (d - q) numbers, with noise of that size, until
nothing is left that exceeds the noise level. In many real tables something always does: small
eigenvalues that are significant and endless. Then the count of plain parallel analysis stands.

n_components="auto" takes the count of parallel analysis against Gaussian noise, at least as many as
lie above a cliff in the spectrum, and from there on deflates. Without noise it is the rank; there
is always one. The same for PCA, PPCA and factor analysis, and no matter in which units the columns
are. Complete data need one pass and no fit; with missing values there are as many fits as deflation
takes rounds, commonly one or two. docs/rank.md has the evidence for it.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from eigengap.fitting.gaussian.fit import fit_factor_analysis
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.selection.rank.choice import Curve, RankChoice
from eigengap.selection.rank.search import largest_rank
from eigengap.sources import Block, Source
from eigengap.spectrum import Spectrum
from eigengap.statistics.imputed_correlation import ImputedScatter, Standardised

LEVEL = 0.95  # share of the noise tables that a component has to exceed
DRAWS = (40, 200)  # fewest and most noise tables; the larger they are the less they differ
CELLS = 20_000  # draws times dimension that are worth their time
PERMUTED = 39  # permuted tables; one of noise exceeds the second largest of them 5 times in 100
LABEL = f"k-th eigenvalue over the {LEVEL:.0%} quantile of noise"
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
    signal determines its noise poorly. Eigenvalues of noise, and those of real tables that were
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
        words += "; the residual is not pure noise, however many components are removed"
    return words


# Against noise, and permutations ------------------------------------------------------------------


@lru_cache(maxsize=64)
def noise_shares(n: float, d: int, most: int) -> Array:
    """(most,) quantiles of the share of the variance that the k-th component of noise explains.

    n rows are those that are left when the mean is taken off; the generator is always the same.
    """
    rng = np.random.default_rng(0)
    draws = int(np.clip(CELLS // int(min(n, d)), *DRAWS))
    shares = np.array([wishart_eigenvalues(n, d, rng, most) for _ in range(draws)])
    quantiles = np.asarray(np.quantile(shares, LEVEL, axis=0))
    quantiles.flags.writeable = False  # all callers share it
    return quantiles


def leading(ratio: Array) -> int:
    """How many there are before the first that does not exceed 1."""
    below = np.flatnonzero(ratio <= 1.0)
    return int(below[0]) if len(below) else len(ratio)


def wishart_eigenvalues(n: float, d: int, rng: np.random.Generator, most: int) -> Array:
    """(most,) largest eigenvalues of a Wishart matrix, descending, as shares of its trace."""
    import scipy.linalg

    short, long = int(min(n, d)), float(max(n, d))
    a2 = rng.chisquare(long - np.arange(short))  # squared diagonal of the bidiagonal matrix
    b2 = rng.chisquare(np.arange(short - 1, 0, -1.0)) if short > 1 else np.empty(0)
    diagonal = a2 + np.concatenate([[0.0], b2])
    between = np.sqrt(a2[:-1] * b2)
    if 4 * most < short:  # bisection for the few that are wanted, QR for all
        lam = scipy.linalg.eigvalsh_tridiagonal(
            diagonal, between, select="i", select_range=(short - most, short - 1)
        )
    else:
        lam = scipy.linalg.eigvalsh_tridiagonal(diagonal, between)[-most:]
    padded = np.zeros(most)
    padded[: len(lam)] = lam[::-1]
    return padded / float(np.sum(diagonal))


def parallel_analysis(spectrum: Spectrum, most: int, *, fit_mean: bool = True) -> tuple[int, Curve]:
    """Leading components of a correlation spectrum that Gaussian noise does not explain.

    Where the table is of low rank up to rounding there is no noise to compare with, and the rank
    itself is the answer.
    """
    rows = spectrum.sum_w - (1.0 if fit_mean else 0.0)
    if spectrum.d < 2 or rows < 2:
        return 0, Curve.of({}, "above 1", LABEL)
    shares = noise_shares(rows, spectrum.d, min(most, spectrum.d, int(rows)))
    lam = spectrum.lam
    explained = lam[: len(shares)] / spectrum.total if spectrum.total > 0.0 else np.empty(0)
    ratio = explained / shares[: len(explained)]
    rank = int((lam > 1e-12 * lam[0]).sum()) if len(lam) else 0
    noiseless = 2 * rank <= min(rows, spectrum.d)  # at most half of what the shape allows
    count = rank if rank and noiseless else leading(ratio)
    return count, Curve.from_first(ratio, "above 1", LABEL)


def permuted_parallel_analysis(X: Array, most: int, rng: np.random.Generator) -> tuple[int, Curve]:
    """How many leading eigenvalues of X (n, d), with NaN, exceed those of its permutations.

    The observed values of every column are permuted among the rows in which it is observed: columns
    keep their distribution and their missing values, and lose every relation. The eigenvalues are
    those of the correlations, with missing values imputed by the mean, of the table and of its
    permutations alike.
    """
    observed = ~np.isnan(X)
    centred = np.where(observed, X - np.nanmean(X, axis=0), 0.0)
    with np.errstate(over="ignore"):  # what rounding leaves of a huge constant, divided to 0
        length = np.sqrt(np.sum(centred**2, axis=0))
    centred /= np.where(length > 0.0, length, 1.0)
    lam = _eigenvalues(centred, most)
    null = np.array(
        [_eigenvalues(_permuted(centred, observed, rng), most) for _ in range(PERMUTED)]
    )
    bound = np.quantile(null, LEVEL, axis=0, method="higher")  # an exact test, unlike a mixture
    least = np.finfo(np.float64).tiny
    ratio = lam / np.maximum(bound, least)
    ratio[lam <= 1e-12 * max(float(lam[0]), least)] = 0.0
    return leading(ratio), Curve.from_first(ratio, "above 1", LABEL)


def _permuted(centred: Array, observed: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    if observed.all():
        return rng.permuted(centred, axis=0)
    # Sorting random keys permutes; keys of missing values go last and stay there.
    keys = np.where(observed, rng.random(observed.shape), 2.0)
    order = np.argsort(keys, axis=0, kind="stable")
    places = np.argsort(~observed, axis=0, kind="stable")
    out = np.zeros_like(centred)
    np.put_along_axis(out, places, np.take_along_axis(centred, order, axis=0), axis=0)
    return out


def _eigenvalues(Y: Array, most: int) -> Array:
    """(most,) largest eigenvalues of Y^T Y, descending."""
    S = Y.T @ Y if Y.shape[1] <= Y.shape[0] else Y @ Y.T
    lam = np.maximum(np.linalg.eigvalsh(S)[::-1][:most], 0.0)
    return np.asarray(np.pad(lam, (0, most - len(lam))))
