"""The reliability scorecard, one test a row, on the estimators themselves.

Each docstring is the row: what goes in, what is expected. Subspaces are compared by principal
angles, models by covariance. T19 (a code for missing values that nobody declared) has its own file.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from tests import dense
from threadpoolctl import threadpool_limits

from eigengap import PCA, PPCA, FactorAnalysis, LinearGaussian
from eigengap.exceptions import SingularModelError
from eigengap.fitting.gaussian.noise import fit_by_em
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.linalg import principal_angles
from eigengap.sources.conversion import as_source

ALL = [PCA, PPCA, FactorAnalysis]
ISOTROPIC = [PCA, PPCA]
TIGHT = {"tol": 1e-11, "max_iter": 20_000}

every = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
isotropic = pytest.mark.parametrize("kind", ISOTROPIC, ids=lambda kind: kind.__name__)


def correlated(n=200, d=6, q=2, seed=0, noise=0.5):
    """Rows of q strong directions and noise."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(3.0, 1.5, q)
    X = rng.normal(size=(n, q)) * strength @ rng.normal(size=(q, d))
    return X + noise * rng.normal(size=(n, d)) + rng.normal(size=d)


def incomplete(n=200, d=6, q=2, missing=0.2, seed=0, noise=0.5):
    X = correlated(n, d, q, seed, noise)
    X[np.random.default_rng(seed + 1).random(X.shape) < missing] = np.nan
    return X


def axis_parallel(n=1000):
    return np.random.default_rng(1).normal(size=(n, 5)) * np.sqrt([25.0, 16.0, 9.0, 4.0, 1.0])


def eigenvalues(model):
    return np.linalg.eigvalsh(model.get_covariance())


def ml_covariance(X):
    """At divisor n, by the definition."""
    R = X - X.mean(axis=0)
    return R.T @ R / len(X)


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e8])
@every
def test_t01_offset(kind, offset):
    """N(0, diag(25,16,9,4,1)), n = 1000, plus offset 0, 1e6, 1e8: eigenvalues as at offset 0,
    rtol 1e-6.
    """
    X = axis_parallel()
    near = kind(n_components=2, tol=1e-9).fit(X)
    far = kind(n_components=2, tol=1e-9).fit(X + offset)
    assert_allclose(far.explained_variance_, near.explained_variance_, rtol=1e-6)
    assert_allclose(eigenvalues(far), eigenvalues(near), rtol=1e-6)
    if kind is not FactorAnalysis:
        exact = np.linalg.eigvalsh(ml_covariance(X))[::-1]
        assert_allclose(far.spectrum_.lam[:2], exact[:2], rtol=1e-6)
        assert_allclose(far.noise_variance_, exact[2:].mean(), rtol=1e-6)


@every
def test_t02_offset_in_float32(kind):
    """T1 in float32, offset 1e4: rtol 1e-3 against float64 of the same data."""
    X = (axis_parallel() + 1e4).astype(np.float32)
    single = kind(n_components=2).fit(X)
    double = kind(n_components=2).fit(X.astype(np.float64))
    assert_allclose(single.explained_variance_, double.explained_variance_, rtol=1e-3)
    assert_allclose(eigenvalues(single), eigenvalues(double), rtol=1e-3)


@pytest.mark.parametrize("start", [1e6, 1e7], ids=["NumAcc3", "NumAcc4"])
@isotropic
def test_t03_numacc(kind, start):
    """NIST NumAcc3, NumAcc4 columns: sd 0.1, rtol 1e-8."""
    column = start + np.array([0.2, *[0.1, 0.3] * 500])
    model = kind(n_components=1).fit(column[:, None])
    assert_allclose(np.sqrt(model.explained_variance_), [0.1], rtol=1e-8)
    assert_allclose(model.mean_, [start + 0.2], rtol=1e-15)


@pytest.mark.parametrize("shift", [0, 1, -10_000, 100_000, 1_000_000])
@isotropic
def test_t04_two_close_rows(kind, shift):
    """float32 [[10001,10000],[10000,10001]] and its shifts: axis ±(1,−1)/√2."""
    X = np.array([[10001, 10000], [10000, 10001]], dtype=np.float32) + np.float32(shift)
    axis = kind(n_components=1).fit(X).projection_.A[0]  # components_ before it is rounded
    assert_allclose(np.abs(axis), np.sqrt([0.5, 0.5]), rtol=1e-12)
    assert axis[0] * axis[1] < 0


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("factor", [1e300, 1e-300, 1e-160])
@every
def test_t05_extreme_units(kind, factor, missing):
    """X·1e300, X·1e-300: same ratios, rtol 1e-12, or Err; never a silent inf."""
    X = incomplete(n=100, missing=missing)
    usual = kind(n_components=2).fit(X)
    try:
        extreme = kind(n_components=2).fit(X * factor)
    except ValueError as refused:
        error = str(refused)
    else:
        error = None
    if error is not None:
        assert "rescale the data" in error  # the way out
        return
    assert_allclose(extreme.explained_variance_ratio_, usual.explained_variance_ratio_, rtol=1e-12)
    assert np.isfinite(extreme.explained_variance_).all()
    assert np.isfinite(extreme.get_covariance()).all()


@pytest.mark.parametrize("value", [0.0, 3.3, -1e9])
@every
def test_t06_constant_table(kind, value):
    """A constant table: ratios zero with a warning, no NaN."""
    X = np.full((20, 4), value)
    with pytest.warns(UserWarning, match="rows are equal"):
        model = kind(n_components=2).fit(X)
    assert_array_equal(model.explained_variance_ratio_, np.zeros(2))
    assert_array_equal(model.mean_, X[0])
    assert_array_equal(model.transform(X), np.zeros((20, 2)))
    for table in (model.impute(X), model.reconstruct(X), model.get_covariance()):
        assert np.isfinite(table).all()


@pytest.mark.parametrize("missing", [0.0, 0.1])
@every
@pytest.mark.filterwarnings("ignore:Heywood case")
def test_t07_constant_column_with_scaling(kind, missing):
    """A constant column with scaling: Err or loading 0."""
    X = incomplete(missing=missing)
    X[:, 3] = 7.0
    model = kind(n_components=2, scale=True).fit(X)
    others = np.delete(model.loadings_, 3, axis=0)
    assert np.abs(model.loadings_[3]).max() <= 1e-12 * np.abs(others).max()
    assert np.isfinite(model.transform(X)).all()
    assert_allclose(model.mean_[3], 7.0, rtol=1e-12)


@every
def test_t08_one_row(kind):
    """n = 1: Err "at least 2"."""
    with pytest.raises(ValueError, match="at least 2"):
        kind(n_components=1).fit(np.ones((1, 3)))


@isotropic
def test_t09_as_many_components_as_columns(kind):
    """n_components = min(n, d): q = d < n: C = S, scores finite; where S is singular there is no
    density and it says so.
    """
    X = correlated(n=50, d=4)
    model = kind(n_components=4).fit(X)
    S = ml_covariance(X)
    assert_allclose(model.get_covariance(), S, rtol=1e-10, atol=1e-12)
    assert np.isfinite(model.transform(X)).all()
    assert_allclose(model.score_samples(X), dense.log_likelihood(X, X.mean(axis=0), S), rtol=1e-9)
    wide = correlated(n=4, d=9)
    singular = kind(n_components=4).fit(wide)
    assert np.isfinite(singular.transform(wide)).all()
    with pytest.raises(SingularModelError, match=r"no density.*[Ff]ewer components"):
        singular.score(wide)


@isotropic
def test_t10_noise_of_a_wide_table(kind):
    """n = 5, d = 100, q = 2: σ² = Σλ/(d−q) at divisor n."""
    X = np.random.default_rng(2).normal(size=(5, 100))
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    sigma2 = np.sum(s[2:] ** 2 / 5) / 98
    assert_allclose(kind(n_components=2).fit(X).noise_variance_, sigma2, rtol=1e-10)


@pytest.mark.parametrize("q", [2, 4, 6])
def test_t11_whitening_of_deficient_rank(q):
    """Rank-deficient, whiten=True: bounded scores or a rank error."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2)) @ rng.normal(size=(2, 6)) + 5.0
    Z = PCA(n_components=q, whiten=True).fit_transform(X)
    # A whitened score of a training row is at most sqrt(n - 1).
    assert np.abs(Z).max() <= np.sqrt(99) * (1 + 1e-9)
    assert_allclose(np.cov(Z[:, :2].T), np.eye(2), atol=1e-10)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@every
def test_t12_every_row_twice(kind, missing):
    """Every row twice: same axes, same 1/n eigenvalues."""
    X = incomplete(missing=missing)
    options = {"n_components": 2, "tol": 1e-10, "max_iter": 5000}
    once = kind(**options).fit(X)
    twice = kind(**options).fit(np.repeat(X, 2, axis=0))
    assert principal_angles(twice.loadings_, once.loadings_)[0] < 1e-7
    assert_allclose(twice.spectrum_.lam, once.spectrum_.lam, rtol=1e-8)
    assert_allclose(twice.get_covariance(), once.get_covariance(), rtol=1e-7, atol=1e-8)
    assert_allclose(twice.log_likelihood_, 2 * once.log_likelihood_, rtol=1e-9)


@isotropic
def test_t13_flat_spectrum(kind):
    """randn(100 000, 20), k = 1, defaults: abs cos > 1 − 1e-6 against SVD."""
    X = np.random.default_rng(4).standard_normal((100_000, 20))
    axis = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][0]
    assert abs(kind(n_components=1).fit(X).components_[0] @ axis) > 1 - 1e-6


@pytest.mark.parametrize("rows", [1, 7, 100, 300])
@every
def test_t14_blocks(kind, rows):
    """Blocks of 1, 7, 100, n rows, shuffled, complete data: mean, eigenvalues, σ² rtol 1e-9."""
    X = correlated(n=300) + 100.0
    whole = kind(n_components=2, tol=1e-11).fit(X)
    shuffled = np.random.default_rng(5).permutation(X)
    cut = kind(n_components=2, tol=1e-11).fit(as_source(shuffled, block_rows=rows))
    assert_allclose(cut.mean_, whole.mean_, rtol=1e-9)
    assert_allclose(cut.spectrum_.lam, whole.spectrum_.lam, rtol=1e-9)
    assert_allclose(cut.noise_variance_, whole.noise_variance_, rtol=1e-9)
    assert_allclose(cut.transform(as_source(X, block_rows=rows)), whole.transform(X), atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "shape", "missing"),
    [
        *((kind, (2000, 30), 0.0) for kind in ALL),
        *((kind, (60, 900), 0.0) for kind in ISOTROPIC),
        *((kind, (700, 650), 0.0) for kind in ISOTROPIC),
        *((kind, (300, 10), 0.2) for kind in ALL),
    ],
)
def test_t15_seeds_and_threads(kind, shape, missing):
    """Seeds × 1, 2 threads: aligned difference < 1e-10, same signs."""
    X = incomplete(*shape, q=3, missing=missing, seed=6, noise=2.0)
    found = []
    for seed in (0, 1, 2):
        for threads in (1, 2):
            with threadpool_limits(threads):
                model = kind(n_components=3, random_state=seed, **TIGHT).fit(X)
            found.append(model.components_)
    size = max(1.0, np.abs(found[0]).max())  # axes have length 1, but factor loadings have units
    for other in found[1:]:  # as they are, not aligned: signs are to agree too
        assert np.max(np.abs(other - found[0])) < 1e-10 * size


NUMERIC = {
    "f4": lambda X: X.astype("f4"),
    "i4": lambda X: X.astype("i4"),
    "u1": lambda X: X.astype("u1"),
    ">f8": lambda X: X.astype(">f8"),
    "object": lambda X: X.astype(object),
    "pandas Int64": lambda X: pd.DataFrame(X.astype("i8")).astype("Int64"),
    "pandas Float64": lambda X: pd.DataFrame(X).astype("Float64"),
    "polars Int16": lambda X: pl.DataFrame(X.astype("i2"), schema=list("abcdef")),
}


@pytest.mark.parametrize("how", NUMERIC)
@every
def test_t16_types_of_numbers(kind, how):
    """f4 f8 i4 u1 bool >f8 object-numeric, nullable frames, category: equal to f8; category or
    text: Err.
    """
    X = np.round(np.clip(correlated() * 8 + 100, 0, 255))  # whole numbers, exact in every type
    expected = kind(n_components=2).fit(X)
    got = kind(n_components=2).fit(NUMERIC[how](X))
    rtol = 1e-5 if how == "f4" else 1e-9
    assert_allclose(got.get_covariance(), expected.get_covariance(), rtol=rtol)
    assert_allclose(got.mean_, expected.mean_, rtol=rtol)


@every
def test_t16_truth_values(kind):
    """T16 for bool, in arrays and nullable frames."""
    X = correlated() > 0.5
    expected = kind(n_components=2).fit(X.astype(float)).get_covariance()
    for table in (X, X.astype(object), pd.DataFrame(X).astype("boolean"), pl.DataFrame(X)):
        assert_allclose(kind(n_components=2).fit(table).get_covariance(), expected, rtol=1e-9)


@every
def test_t16_nulls_are_missing(kind):
    """T16 for nullable frames with nulls: as NaN."""
    X = np.round(incomplete() * 10)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    expected = kind(n_components=2).fit(X).get_covariance()
    for table in (frame.astype("Int64"), pl.from_pandas(frame.astype("Int64"))):
        got = kind(n_components=2).fit(table).get_covariance()
        assert_allclose(got, expected, rtol=1e-9)


@every
def test_t16_categories_and_text(kind):
    """T16 for category or text: Err naming the column."""
    frame = pd.DataFrame(correlated(), columns=list("abcdef"))
    frame["c"] = pd.Categorical(["low", "high"] * 100)
    with pytest.raises(ValueError, match=r'"c" \(categorical, e.g. "low" at row 0\)'):
        kind().fit(frame)
    frame["c"] = ["x"] * 200
    with pytest.raises(ValueError, match=r'"c" \(text, e.g. "x" at row 0\)'):
        kind().fit(frame)


@every
def test_t17_masked_array(kind):
    """Masked array: mask = NaN."""
    X = incomplete()
    masked = np.ma.masked_array(np.where(np.isnan(X), 1e6, X), mask=np.isnan(X))
    expected, got = kind(n_components=2).fit(X), kind(n_components=2).fit(masked)
    assert_array_equal(got.get_covariance(), expected.get_covariance())
    assert_array_equal(got.transform(masked), expected.transform(X))
    assert_array_equal(got.impute(masked), expected.impute(X))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@every
def test_t18_infinity(kind, value):
    """±inf: Err "inf at row i, column j"."""
    X = incomplete()
    model = kind(n_components=2).fit(X)
    X[17, 4] = value
    for method in (kind(n_components=2).fit, model.transform, model.impute, model.score):
        with pytest.raises(ValueError, match=f"{value} at row 17, column 4"):
            method(X)


@every
@pytest.mark.filterwarnings("ignore:Heywood case")
def test_t20_six_points(kind):
    """tol=1e-12; x = 1..6; y = 2.1, 3.9, 6.2, 7.8, NaN, NaN; q = 1: mu (3.5, 6.94);
    C [[2.916667, 5.658333], [·, 10.997667]]; σ² 0.0042984556; log-likelihood −9.6260487815;
    rtol 1e-6.
    """
    X = np.column_stack([np.arange(1.0, 7.0), [2.1, 3.9, 6.2, 7.8, np.nan, np.nan]])
    model = kind(n_components=1, tol=1e-12).fit(X)
    assert_allclose(model.mean_, [3.5, 6.94], rtol=1e-6)
    # The closed form of monotone gaps (Anderson 1957): y given x by regression on the seen rows.
    C = np.array([[35 / 12, 0.0], [0.0, 0.0]])
    observed = X[:4] - X[:4].mean(axis=0)
    slope = observed[:, 0] @ observed[:, 1] / (observed[:, 0] @ observed[:, 0])
    rest = np.mean((observed[:, 1] - slope * observed[:, 0]) ** 2)
    C[0, 1] = C[1, 0] = slope * C[0, 0]
    C[1, 1] = rest + slope**2 * C[0, 0]
    assert_allclose(C, [[2.916667, 5.658333], [5.658333, 10.997667]], rtol=1e-6)
    assert_allclose(model.get_covariance(), C, rtol=1e-6)
    assert_allclose(model.log_likelihood_, -9.6260487815, rtol=1e-6)
    if kind is not FactorAnalysis:  # whose two noises are not determined by a 2 x 2 covariance
        assert_allclose(model.noise_variance_, 0.0042984556, rtol=1e-6)


@every
def test_t21_column_without_values(kind):
    """An all-NaN column: Err naming it."""
    X = incomplete()
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="no value in column 2: every cell is NaN"):
        kind(n_components=2).fit(X)
    with pytest.raises(ValueError, match='no value in column "height"'):
        kind(n_components=2).fit(pd.DataFrame(X, columns=["a", "b", "height", "d", "e", "f"]))


@every
def test_t22_row_without_values(kind):
    """An all-NaN row: z = 0, posterior covariance I; fit equals the fit without it."""
    X = incomplete()
    blank = np.insert(X, 40, np.nan, axis=0)
    without = kind(n_components=2, **TIGHT).fit(X)
    model = kind(n_components=2, **TIGHT).fit(blank)
    posterior = model.posterior(blank[40:41])
    assert_array_equal(posterior.mean, np.zeros((1, 2)))
    assert_allclose(posterior.cov[0], np.eye(2), atol=1e-15)
    assert_allclose(model.transform(blank)[40], np.zeros(2), atol=1e-14)
    assert_allclose(model.get_covariance(), without.get_covariance(), rtol=1e-7, atol=1e-9)
    assert_allclose(model.mean_, without.mean_, rtol=1e-7, atol=1e-9)
    assert_allclose(model.log_likelihood_, without.log_likelihood_, rtol=1e-10)
    assert_allclose(model.impute(blank)[40], model.mean_, rtol=1e-14)


@every
def test_t23_row_with_one_value(kind):
    """A row with one seen entry: finite; larger posterior variance."""
    X = incomplete()
    X[7, 1:] = np.nan
    X[7, 0] = 1.0
    X[8] = correlated()[8]
    model = kind(n_components=2).fit(X)
    posterior = model.posterior(X)
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(posterior.mean).all()
    assert np.linalg.det(posterior.cov[7]) > np.linalg.det(posterior.cov[8])
    assert np.trace(posterior.cov[7]) > np.trace(posterior.cov[8])
    assert np.isfinite(model.impute(X)[7]).all()


@pytest.mark.parametrize("q", [1, 2, 4])
def test_t24_em_is_the_closed_form(q):
    """No NaN: EM = closed form, angle < 1e-6."""
    X = correlated(n=300, q=3)
    em = PPCA(n_components=q, solver="em", **TIGHT).fit(X)
    closed = PPCA(n_components=q, solver="closed_form").fit(X)
    assert principal_angles(em.components_.T, closed.components_.T)[0] < 1e-6
    assert principal_angles(em.components_.T, PCA(n_components=q).fit(X).components_.T)[0] < 1e-6


@pytest.mark.parametrize("seed", range(3))
@every
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_t25_the_objective_never_falls(kind, seed):
    """Every EM step: objective never falls by more than 1e-9 · max(its size, number of seen
    cells).
    """
    X = incomplete(n=80, missing=0.4, seed=seed)
    model = kind(n_components=3, tol=1e-9).fit(X)
    slack = 1e-9 * max(abs(model.log_likelihood_), np.isfinite(X).sum())
    assert len(model.trace_.objective) > 5
    assert np.all(np.diff(model.trace_.objective) >= -slack)
    # What the trace says is what a dense Gaussian finds for the model after so many steps.
    reached = []
    for steps in range(1, 10):
        stopped = kind(n_components=3, tol=1e-9, max_iter=steps).fit(X)
        C = stopped.get_covariance()
        reached.append(dense.log_likelihood(X, stopped.mean_, C).sum())
        assert_allclose(stopped.log_likelihood_, reached[-1], rtol=1e-9)
    assert np.all(np.diff(reached) >= -slack)


@every
def test_t26_too_few_steps(kind):
    """max_iter = 1: ConvergenceWarning, converged_ False."""
    X = incomplete(missing=0.4)
    with pytest.warns(ConvergenceWarning, match="did not converge.*raise max_iter=1") as told:
        model = kind(n_components=2, max_iter=1).fit(X)
    assert told[0].filename == __file__  # the caller's line, not one of ours
    assert model.converged_ is False
    assert np.isfinite(model.impute(X)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kind(n_components=2).fit(X).converged_ is True


@pytest.mark.parametrize("start", ["zero", "non-principal"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize(("kind", "noise"), [(PPCA, "isotropic"), (FactorAnalysis, "diagonal")])
def test_t27_saddles(kind, noise, missing, start):
    """Start at W = 0, and at non-principal eigenvectors (002: saddles): escapes."""
    X = incomplete(n=300, missing=missing)
    best = kind(n_components=2, **TIGHT).fit(X)
    lam, U = np.linalg.eigh(best.get_covariance())
    if start == "zero":
        W, psi = np.zeros((6, 2)), np.nanvar(X, axis=0)
        psi = np.full(6, psi.mean()) if noise == "isotropic" else psi
    else:
        sigma2 = (lam.sum() - lam[1] - lam[2]) / 4
        W, psi = U[:, 1:3] * np.sqrt(np.maximum(lam[1:3] - sigma2, 0.1)), np.full(6, sigma2)
    saddle = LinearGaussian(W=W, mu=np.nanmean(X, axis=0), psi=psi)
    options = EMOptions(start=saddle, tol=1e-9, max_iter=20_000)
    fit = fit_by_em(as_source(X), 2, noise, options=options)
    assert_allclose(fit.log_likelihood, best.log_likelihood_, rtol=1e-7)
    assert principal_angles(fit.model.W, best.model_.W)[0] < 1e-4
