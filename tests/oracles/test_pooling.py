"""Rubin's rules against the formulas of mice::pool, by hand and by simulation."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import t as student

from eigengap import FactorAnalysis
from eigengap.estimators.imputer import LowRankImputer
from eigengap.inference.pooling import pool

Q = [Fraction(11, 10), Fraction(13, 10), Fraction(12, 10), Fraction(10, 10), Fraction(14, 10)]
U = [Fraction(4, 100), Fraction(5, 100), Fraction(4, 100), Fraction(6, 100), Fraction(6, 100)]


def by_hand(df_complete):
    """mice's pool.scalar and barnard.rubin in exact arithmetic: van Buuren (2018), section 2.3."""
    m = len(Q)
    qbar, ubar = sum(Q) / m, sum(U) / m
    b = sum((q - qbar) ** 2 for q in Q) / (m - 1)
    t = ubar + (m + 1) * b / m
    r = Fraction(m + 1, m) * b / ubar
    lam = Fraction(m + 1, m) * b / t
    dfold = (m - 1) / lam**2
    if df_complete is None:
        df = dfold
    else:
        dfobs = Fraction(df_complete + 1, df_complete + 3) * df_complete * (1 - lam)
        df = dfold * dfobs / (dfold + dfobs)
    fmi = (r + 2 / (df + 3)) / (r + 1)
    return [float(x) for x in (qbar, ubar, b, t, df, fmi)]


@pytest.mark.parametrize("df_complete", [None, 3, 20, 1000])
def test_the_formulas_of_mice(df_complete):
    given = {} if df_complete is None else {"df_complete": df_complete}
    pooled = pool([float(q) for q in Q], [float(u) for u in U], **given)
    found = [
        pooled.estimate, pooled.within, pooled.between, pooled.variance, pooled.df,
        pooled.fraction_missing,
    ]  # fmt: skip
    np.testing.assert_allclose(found, by_hand(df_complete), rtol=1e-12)
    assert pooled.n_imputations == 5


def test_intervals_and_p_values_are_those_of_the_t_distribution():
    pooled = pool([float(q) for q in Q], [float(u) for u in U], df_complete=20)
    low, high = pooled.interval(0.9)
    reach = student.ppf(0.95, pooled.df) * np.sqrt(pooled.variance)
    np.testing.assert_allclose([low, high], [1.2 - reach, 1.2 + reach], rtol=1e-12)
    # The hypothesis at the end of a 90 % interval has p = 0.1.
    assert pooled.p_value(high) == pytest.approx(0.1)
    assert pooled.p_value(pooled.estimate) == 1.0


def test_vectors_and_matrices_give_what_their_parts_give():
    rng = np.random.default_rng(0)
    estimates = rng.normal(size=(7, 3))
    roots = rng.normal(size=(7, 3, 3))
    matrices = roots @ roots.transpose(0, 2, 1)
    variances = np.diagonal(matrices, axis1=1, axis2=2)
    whole = pool(estimates, matrices, df_complete=30)
    for j in range(3):
        part = pool(estimates[:, j], variances[:, j], df_complete=30)
        assert whole.variance[j] == pytest.approx(float(part.variance))
        assert whole.df[j] == pytest.approx(float(part.df))
        assert pool(estimates, variances, df_complete=30).df[j] == pytest.approx(float(part.df))
    np.testing.assert_allclose(np.diag(whole.covariance), whole.variance)
    between = np.cov(estimates.T)
    np.testing.assert_allclose(whole.covariance, matrices.mean(axis=0) + (1 + 1 / 7) * between)


def test_without_missing_pooling_changes_nothing():
    pooled = pool([2.0, 2.0, 2.0], [0.25, 0.25, 0.25], df_complete=18)
    assert pooled.std == pytest.approx(0.5)
    assert pooled.df == pytest.approx(18 * 19 / 21)  # Barnard and Rubin's, at lambda = 0
    assert np.isinf(pool([2.0, 2.0, 2.0], [0.25] * 3).df)
    assert pool([2.0, 2.0, 2.0], [0.25] * 3).interval()[1] == pytest.approx(2 + 1.959964 * 0.5)


def test_df_never_exceed_those_of_the_complete_table():
    rng = np.random.default_rng(1)
    for _ in range(50):
        pooled = pool(rng.normal(size=5) * rng.random(), rng.random(5) + 0.1, df_complete=12)
        assert 0 < pooled.df <= 12
        assert 0 <= pooled.fraction_missing <= 1


@pytest.mark.parametrize(
    ("estimates", "variances", "given", "words"),
    [
        ([1.0], [1.0], {}, "at least 2"),
        ([1.0, 2.0], [1.0, -1.0], {}, "negative"),
        ([1.0, np.nan], [1.0, 1.0], {}, "finite"),
        ([1.0, 2.0], [[1.0], [1.0]], {}, "shape"),
        ([[[1.0]]], [1.0], {}, "shape"),
        ([1.0, 2.0], [1.0, 1.0], {"df_complete": 0}, "positive"),
    ],
)
def test_what_is_wrong_is_told(estimates, variances, given, words):
    with pytest.raises(ValueError, match=words):
        pool(estimates, variances, **given)


def regression(A, y):
    """Least squares: coefficients (p,), their covariance (p, p), residual sum of squares."""
    beta, *_ = np.linalg.lstsq(A, y, rcond=None)
    rss = float(np.sum((y - A @ beta) ** 2))
    return beta, rss / (len(A) - A.shape[1]) * np.linalg.inv(A.T @ A), rss


def drawn_by_textbook(A, y, missing, rng):
    """y with its gaps drawn by Bayesian linear regression: Rubin (1987), example 5.1."""
    beta, cov, rss = regression(A[~missing], y[~missing])
    df = int(np.sum(~missing)) - A.shape[1]
    sigma2 = rss / rng.chisquare(df)
    beta = rng.multivariate_normal(beta, cov * sigma2 / (rss / df))
    return np.where(missing, A @ beta + np.sqrt(sigma2) * rng.normal(size=len(y)), y)


def test_pooled_intervals_cover_where_the_imputations_are_the_textbooks():
    """500 tables of 40 rows, half of y missing, 5 imputations: 95 % intervals of the slope.

    The standard error of the share covered is 1 %.
    """
    hits, naive = 0, 0
    for seed in range(500):
        rng = np.random.default_rng(seed)
        A = np.column_stack([rng.normal(size=40), np.ones(40)])
        y = A @ [0.7, 1.0] + rng.normal(size=40)
        missing = rng.permutation(40) < 20
        tables = [drawn_by_textbook(A, y, missing, rng) for _ in range(5)]
        fits = [regression(A, table) for table in tables]
        pooled = pool([fit[0] for fit in fits], [fit[1] for fit in fits], df_complete=38)
        low, high = pooled.interval()
        hits += low[0] <= 0.7 <= high[0]
        one = pool([fits[0][0][0]] * 2, [fits[0][1][0, 0]] * 2, df_complete=38).interval()
        naive += one[0] <= 0.7 <= one[1]
    assert 0.92 <= hits / 500 <= 0.98
    assert naive / 500 < 0.87  # one table taken for the truth: what pooling is for


def test_pooled_intervals_cover_where_the_imputations_are_ours():
    """30 tables of 60 x 5, a quarter missing: the coefficient of one column on the others.

    The imputations know that one factor is behind the columns, which the regression does not: such
    intervals are on the safe side (Meng 1994).
    """
    W = np.random.default_rng(2).normal(size=(5, 1)) + 0.5
    C = W @ W.T + np.eye(5)
    truth = np.linalg.solve(C[:-1, :-1], C[:-1, -1])[0]
    hits, naive = 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 1)) @ W.T + rng.normal(size=(60, 5))
        X[rng.random(X.shape) < 0.25] = np.nan
        imputer = LowRankImputer(FactorAnalysis(1, tol=1e-3)).fit(X)
        results = []
        for table in [*imputer.sample_imputations(X, 5, random_state=seed), imputer.transform(X)]:
            A = np.column_stack([table[:, :-1], np.ones(60)])
            beta, cov, _ = regression(A, table[:, -1])
            results.append((beta[0], cov[0, 0]))
        low, high = pool(*zip(*results[:-1], strict=True), df_complete=55).interval()
        hits += low <= truth <= high
        beta, variance = results[-1]
        naive += abs(beta - truth) <= 2.0 * np.sqrt(variance)
    assert hits >= 27
    assert naive < hits
