"""Rubin's rules against the formulas of mice::pool, by hand and by simulation."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import t as student

from eigengap import PPCA
from eigengap.pooling import pool

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


def test_without_gaps_pooling_changes_nothing():
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


def slope(table):
    """Least squares of the last column on the others: first coefficient and its variance."""
    A = np.column_stack([table[:, :-1], np.ones(len(table))])
    beta, *_ = np.linalg.lstsq(A, table[:, -1], rcond=None)
    residual = table[:, -1] - A @ beta
    s2 = residual @ residual / (len(A) - A.shape[1])
    return beta[0], s2 * np.linalg.inv(A.T @ A)[0, 0]


def test_pooled_intervals_of_a_regression_coefficient_cover():
    """120 tables of 100 x 5, a quarter missing: 95 % intervals, against the truth.

    120 tables at 95 % cover 0.90 to 0.99 with probability above 0.99. Taking one filled table for
    the truth must cover less: that is what pooling is for.
    """
    d, q = 5, 4  # q = d - 1: an unrestricted Gaussian, so that the imputation model is right
    root = np.random.default_rng(2).normal(size=(d, d)) + 1.5 * np.eye(d)
    C = root @ root.T
    truth = np.linalg.solve(C[:-1, :-1], C[:-1, -1])[0]
    pooled_hits, naive_hits = 0, 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(100, d)) @ root.T
        X[rng.random(X.shape) < 0.25] = np.nan
        model = PPCA(q, tol=1e-4).fit(X)
        results = [slope(t) for t in model.sample_imputations(X, 10, random_state=seed)]
        low, high = pool(*zip(*results, strict=True), df_complete=95).interval()
        pooled_hits += low <= truth <= high
        beta, variance = slope(model.impute(X))
        naive_hits += abs(beta - truth) <= student.ppf(0.975, 95) * np.sqrt(variance)
    assert 0.90 <= pooled_hits / 120 <= 0.99
    assert naive_hits / 120 < 0.85
