"""Laws of the p-values: uniform under the model, with gaps, with estimated parameters."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone

from eigengap import PPCA, FactorAnalysis, LinearGaussian
from eigengap.estimators.novelty import NoveltyDetector
from eigengap.inference.novelty import weighted_quantile
from eigengap.models.gaussian.novelty import distances
from eigengap.models.gaussian.reference import Reference


def truth(d, q, rng, isotropic=False):
    psi = np.full(d, 0.5) if isotropic else rng.uniform(0.1, 2.0, d)
    return LinearGaussian(W=rng.normal(size=(d, q)), mu=rng.normal(size=d), psi=psi)


def hide(X, share, rng):
    return np.where(rng.random(X.shape) < share, np.nan, X)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_p_values_are_uniform_under_the_model(share):
    rng = np.random.default_rng(0)
    model = truth(12, 3, rng)
    X = hide(model.sample(20_000, rng), share, rng)
    found, law = distances(model, X), Reference()
    p_T2, p_SPE = np.exp(law.log_p_T2(found)), np.exp(law.log_p_SPE(found))
    p_D2 = np.exp(law.log_p_D2(found.D2, found.observed))
    enough = found.observed > found.rank  # others have no SPE, and p = 1
    assert np.all(p_SPE[~enough] == 1.0)
    for p in (p_D2, p_T2, p_SPE[enough]):
        assert stats.kstest(p, "uniform").pvalue > 0.01
    # By pattern too: rows with few cells and rows with many are judged alike.
    few = found.observed <= np.median(found.observed)
    assert stats.kstest(p_D2[few], "uniform").pvalue > 0.01
    # T2 and SPE are independent, not only uncorrelated: the counts of a 4 x 4 table.
    table = np.histogram2d(p_T2[enough], p_SPE[enough], bins=4)[0]
    assert stats.chi2_contingency(table).pvalue > 0.01


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize(("n", "d", "q"), [(50, 10, 2), (200, 20, 5), (1000, 10, 2)])
def test_p_values_of_new_rows_are_calibrated_after_a_fit(n, d, q, share, isotropic):
    """Chi-squared alone gives 10 to 15 % below 0.05 at 50 rows, 8 to 10 % at 200 with 5 factors."""
    rng = np.random.default_rng(1)
    p = []
    for _ in range(2 if n == 1000 else 12):
        model = truth(d, q, rng, isotropic)
        detector = NoveltyDetector((PPCA if isotropic else FactorAnalysis)(q, tol=1e-4))
        detector.fit(hide(model.sample(n, rng), share, rng))
        p.append(detector.p_values(hide(model.sample(2000 if n == 1000 else 500, rng), share, rng)))
    below = np.mean(np.concatenate(p) < 0.05)
    assert 0.035 < below < 0.075, below


def test_the_unrestricted_gaussian_has_its_classical_law():
    """q = d - 1: D2 (n - d) / ((n + 1) d) ~ F(d, n - d) for a new row (Hotelling 1931)."""
    rng = np.random.default_rng(14)
    n, d = 60, 4
    model = truth(d, d - 1, rng, isotropic=True)
    detector = NoveltyDetector(PPCA(d - 1)).fit(model.sample(n, rng))
    found = detector.statistics(model.sample(200, rng)).D2
    classical = stats.f.logsf(found.value * (n - d) / ((n + 1) * d), d, n - d)
    np.testing.assert_allclose(found.log_p, classical, rtol=0.05, atol=0.02)


def test_the_law_of_estimates_tends_to_chi_squared():
    rng = np.random.default_rng(2)
    model = truth(6, 2, rng)
    found = distances(model, hide(model.sample(50, rng), 0.3, rng))
    known = Reference()
    ratio = np.full(6, 1.5)
    many = Reference.of(model, n=1e9, observed=np.full(6, 1e9), rho=ratio)
    few = Reference.of(model, n=30, observed=np.full(6, 30.0), rho=ratio)
    for name in ("log_p_T2", "log_p_SPE"):
        np.testing.assert_allclose(
            getattr(many, name)(found), getattr(known, name)(found), atol=1e-5
        )
    exact = known.log_p_D2(found.D2, found.observed)
    np.testing.assert_allclose(many.log_p_D2(found.D2, found.observed), exact, atol=1e-5)
    odd = exact < np.log(0.2)
    assert np.all(few.log_p_D2(found.D2, found.observed)[odd] > exact[odd])


def test_a_corrupted_cell_is_named():
    rng = np.random.default_rng(3)
    model = truth(8, 2, rng)
    X = model.sample(400, rng)
    names = [f"sensor {j}" for j in range(8)]
    detector = NoveltyDetector().fit(pd.DataFrame(X, columns=names))
    new = model.sample(200, rng)
    wild = rng.integers(0, 8, 200)
    _, sd = np.zeros(8), np.sqrt(1.0 / np.diag(np.linalg.inv(model.covariance())))
    new[np.arange(200), wild] += 8 * sd[wild] * rng.choice([-1, 1], 200)
    new[rng.random(new.shape) < 0.15] = np.nan
    kept = ~np.isnan(new[np.arange(200), wild])
    new, wild = new[kept], wild[kept]
    frame = pd.DataFrame(new, columns=names)
    assert np.mean(detector.predict(frame) == -1) > 0.95
    told = detector.explain(frame, k=1)
    assert np.mean([e.cells[0].column == names[j] for e, j in zip(told, wild, strict=True)]) > 0.97
    assert np.mean([e.p_value_without > 0.01 for e in told]) > 0.95
    shares = detector.contributions(frame, "D2")
    assert list(shares.columns) == names
    assert np.mean(shares.to_numpy().argmax(axis=1) == wild) > 0.8
    assert told[0].cells[0].column in str(told[0])
    assert abs(told[0].cells[0].deviation) > 4
    assert str(told[3]).startswith("row 3: ")
    found = detector.explain(frame.set_axis([f"id{i}" for i in range(len(frame))]).iloc[5:6])
    assert (found[0].row, found[0].label) == (0, "id5")
    assert str(found[0]).startswith('row 0 ("id5"): ')


def test_two_wild_cells_are_both_named():
    """Found one after the other: the first is set aside before the second is looked for."""
    rng = np.random.default_rng(4)
    model = truth(20, 2, rng)
    detector = NoveltyDetector(FactorAnalysis(2)).fit(model.sample(400, rng))
    new = model.sample(50, rng)
    sd = np.sqrt(np.diag(model.covariance()))
    new[:, 1] += 8 * sd[1]
    new[:, 5] -= 8 * sd[5]
    told = detector.explain(new, k=2)
    assert all({c.column for c in e.cells} == {"x1", "x5"} for e in told)


def test_nothing_observed_is_nothing_odd():
    rng = np.random.default_rng(5)
    X = truth(5, 1, rng).sample(60, rng)
    detector = NoveltyDetector(PPCA(1)).fit(X)
    empty = np.full((1, 5), np.nan)
    assert detector.p_values(empty)[0] == 1.0
    assert detector.predict(empty)[0] == 1
    found = detector.statistics(empty)
    assert found.D2.dof[0] == found.T2.dof[0] == found.SPE.dof[0] == 0
    assert found.T2.p_value[0] == found.SPE.p_value[0] == 1.0
    assert detector.explain(empty)[0].cells == ()
    assert "no value was observed" in str(detector.explain(empty)[0])


def test_scores_order_rows_beyond_underflow():
    rng = np.random.default_rng(6)
    X = truth(5, 1, rng).sample(5000, rng)
    detector = NoveltyDetector(PPCA(1)).fit(X)
    scores = detector.score_samples(X[:1] + np.array([[1e2], [1e3], [1e4], [1e5]]))
    assert np.all(np.isfinite(scores))
    assert np.all(np.diff(scores) < 0)
    assert detector.p_values(X[:1] + 1e5)[0] == 0.0


def test_contamination_is_a_share_of_the_training_rows():
    rng = np.random.default_rng(7)
    X = hide(truth(6, 2, rng).sample(200, rng), 0.2, rng)
    detector = NoveltyDetector(contamination=0.1).fit(X)
    assert np.sum(detector.predict(X) == -1) == 20
    np.testing.assert_array_equal(clone(detector).fit_predict(X), detector.predict(X))
    auto = NoveltyDetector(alpha=0.2).fit(X)
    assert auto.offset_ == pytest.approx(np.log(0.2))
    np.testing.assert_array_equal(auto.predict(X) == -1, auto.p_values(X) < 0.2)


def test_the_weighted_quantile_is_that_of_repeated_rows():
    rng = np.random.default_rng(8)
    values, weight = rng.normal(size=40), rng.integers(0, 4, 40)
    for share in (0.01, 0.1, 0.37, 0.5):
        assert weighted_quantile(values[weight > 0], weight[weight > 0].astype(float), share) == (
            pytest.approx(np.quantile(np.repeat(values, weight), share))
        )
        assert weighted_quantile(values, None, share) == pytest.approx(np.quantile(values, share))


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.1, 1 / 30, 1e-3])
def test_the_quantile_of_parts_of_rows_is_that_of_rows(scale):
    rng = np.random.default_rng(12)
    values, weight = rng.normal(size=40), rng.integers(0, 4, 40)
    for share in (0.0, 0.05, 0.3, 0.5, 1.0):
        assert weighted_quantile(values, scale * weight, share) == pytest.approx(
            np.quantile(np.repeat(values, weight), share), rel=1e-10, abs=1e-10
        )


@pytest.mark.parametrize("scale", [10.0, 0.1, 0.02])
def test_scaled_weights_flag_the_same_share(scale):
    X = np.random.default_rng(13).standard_normal((300, 4))
    detector = NoveltyDetector(PPCA(1), contamination=0.1)
    assert np.sum(detector.fit(X, sample_weight=np.full(300, scale)).predict(X) == -1) == 30


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(9)
    X = truth(5, 1, rng).sample(60, rng)
    weight = rng.integers(0, 4, 60)
    weighted = NoveltyDetector(PPCA(1), contamination=0.1).fit(X, sample_weight=weight)
    repeated = NoveltyDetector(PPCA(1), contamination=0.1).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X))


def test_units_do_not_matter_to_the_default():
    rng = np.random.default_rng(10)
    X = hide(truth(6, 2, rng).sample(150, rng), 0.1, rng)
    unit = 10.0 ** rng.uniform(-4, 4, 6)
    plain, other = NoveltyDetector().fit(X), NoveltyDetector().fit(X * unit)
    np.testing.assert_allclose(other.score_samples(X * unit), plain.score_samples(X), rtol=1e-3)


def test_codes_and_frames():
    rng = np.random.default_rng(11)
    X = truth(4, 1, rng).sample(80, rng)
    coded = np.where(rng.random(X.shape) < 0.1, -999.0, X)
    by_code = NoveltyDetector(PPCA(1, missing_values=-999)).fit(coded)
    by_nan = NoveltyDetector(PPCA(1)).fit(np.where(coded == -999, np.nan, coded))
    np.testing.assert_allclose(
        by_code.score_samples(coded), by_nan.score_samples(np.where(coded == -999, np.nan, coded))
    )
    frame = pl.DataFrame(X, schema=list("abcd"))
    shares = NoveltyDetector(PPCA(1)).fit(frame).contributions(frame, "SPE")
    assert isinstance(shares, pl.DataFrame)
    assert shares.columns == list("abcd")


def test_bad_arguments_are_told():
    rng = np.random.default_rng(13)
    X = truth(4, 1, rng).sample(50, rng)
    detector = NoveltyDetector(PPCA(1)).fit(X)
    with pytest.raises(ValueError, match='"D2", "T2" or "SPE"'):
        detector.contributions(X, "Q")
    with pytest.raises(ValueError, match="positive integer"):
        detector.explain(X, k=0)

    from sklearn.mixture import GaussianMixture

    with pytest.raises(ValueError, match="GaussianMixture has no linear-Gaussian density"):
        NoveltyDetector(GaussianMixture()).fit(X)
    exact = NoveltyDetector(PPCA(4)).fit(pd.DataFrame(X, columns=list("abcd")))
    with pytest.raises(ValueError, match='column "a"'):
        exact.contributions(pd.DataFrame(X, columns=list("abcd")))


def test_float32_rows_with_missing_values_are_explained_without_raw_warnings():
    X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    Y = X[:5].copy()
    Y[3, 1] = np.nan
    detector = NoveltyDetector(PPCA(1)).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        detector.explain(Y, k=1)
