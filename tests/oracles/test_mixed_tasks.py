"""Novelty, classes, regression, ranks and pooling with columns of every kind, against oracles."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest, chi2, norm, poisson

import eigengap as eg
from eigengap.columns import Bounded, Continuous
from eigengap.fitting.columns import kinds
from eigengap.fitting.columns.fit import fit_column_model
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.inference.column_novelty import log_p, reference_of
from eigengap.inference.pooling import pool
from eigengap.models.columns.continuous import ContinuousColumn
from eigengap.models.columns.count import CountColumn
from eigengap.models.columns.deviance import deviances
from eigengap.models.columns.maps import Identity, Margin
from eigengap.models.columns.model import ColumnModel
from eigengap.models.columns.nominal import NominalColumn
from eigengap.models.columns.ordinal import OrdinalColumn
from eigengap.models.columns.table import Columns
from eigengap.models.gaussian import novelty
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.sources import ArraySource

IDENTITY = Margin(Identity(), 0.0, 1.0)
COLUMN = {
    "x": ContinuousColumn(IDENTITY),
    "a": ContinuousColumn(IDENTITY, least=-0.5, below=-0.5, largest=1.2, above=1.2),
    "o": OrdinalColumn.of_shares(np.array([3.0, 5.0, 2.0, 4.0])),
    "b": OrdinalColumn.of_shares(np.array([3.0, 7.0])),
    "n": NominalColumn.of_counts(np.array([5.0, 3.0, 2.0, 1.0])),
    "c": CountColumn(),
}
KIND = {
    "x": kinds.Continuous("identity"),
    "o": kinds.Ordinal(),
    "b": kinds.Binary(),
    "n": kinds.Nominal(),
    "c": kinds.Count(),
}


def table(spec, q, n, rng, missing=0.0):
    """Columns, a model of them, and n rows that follow it."""
    columns = Columns(tuple(COLUMN[name] for name in spec))
    D = columns.width
    mu = 0.3 * rng.normal(size=D) + np.repeat(
        [kind.is_count for kind in columns.kinds], columns.widths
    )
    model = LinearGaussian(0.7 * rng.normal(size=(D, q)), mu, rng.uniform(0.3, 1.0, D))
    u = model.sample(n, rng)
    values = np.column_stack([kind.from_u(u[:, own], rng) for kind, own in columns])
    values[rng.random(values.shape) < missing] = np.nan
    return columns, model, values


# Novelty: one cell -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(COLUMN))
def test_moments_of_the_deviance_of_a_cell_by_integration(name):
    """Outcomes and their probabilities from an integral over u on a fine grid."""
    kind, rng = COLUMN[name], np.random.default_rng(1)
    mean, root = 0.4 + 0.2 * rng.normal(size=kind.width), 0.5 * rng.normal(size=(kind.width, 4))
    cov = root @ root.T + np.diag(rng.uniform(0.3, 0.8, kind.width))
    sd = np.sqrt(cov[0, 0])
    if name == "x":
        expected = 1.0 + np.log(2.0 * np.pi * sd**2), 2.0, 8.0
    else:
        if name == "a":
            r = np.linspace(-9.0, 9.0, 400_001)
            u, mass = mean[0] + sd * r, norm.pdf(r) * (r[1] - r[0])
            low, high = norm.cdf(-0.5, mean[0], sd), norm.sf(1.2, mean[0], sd)
            inner = (u > -0.5) & (u <= 1.2)
            P = np.concatenate([[low, high], mass[inner]])
            s = np.concatenate(
                [-2.0 * np.log([low, high]), -2.0 * norm.logpdf(u[inner], mean[0], sd)]
            )
        elif name == "c":
            u, share = mean[0] + sd * np.linspace(-9, 9, 2001), norm.pdf(np.linspace(-9, 9, 2001))
            P = poisson.pmf(np.arange(400)[:, None], np.exp(u)) @ (share / share.sum())
            P = np.maximum(P, 1e-300)
            s = -2.0 * np.log(P)
        else:
            P = kind.probabilities(mean[None], cov[None])[0]
            s = -2.0 * np.log(P)
        centre = P @ s / P.sum()
        expected = centre, P @ (s - centre) ** 2 / P.sum(), P @ (s - centre) ** 3 / P.sum()
    found = [part[0] for part in kind.deviance_moments(mean[None], cov[None])]
    # Those of a count come from 64 counts and a lattice: 1 % does for a level of 5 %.
    np.testing.assert_allclose(found, expected, rtol=1e-2 if name == "c" else 1e-4)


# Novelty: a row ----------------------------------------------------------------------------------


def test_rows_that_give_all_their_u_have_their_squared_distance():
    columns, model, values = table("xxxxx", 2, 200, np.random.default_rng(3), 0.3)
    found = deviances(columns, model, values)
    np.testing.assert_allclose(found.D2, novelty.squared_distance(model, values), rtol=1e-10)
    np.testing.assert_array_equal(found.dof, np.count_nonzero(~np.isnan(values), axis=1))


def test_rows_of_yes_and_no_by_quadrature():
    """With one latent variable every conditional probability is an integral over it."""
    columns = Columns((COLUMN["b"],) * 4)
    rng = np.random.default_rng(4)
    W, mu, psi = 0.8 * rng.normal(size=(4, 1)), 0.3 * rng.normal(size=4), np.full(4, 0.7)
    values = np.array(list(product([0.0, 1.0], repeat=4)))
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    yes = norm.cdf((mu + np.outer(z, W) - COLUMN["b"].thresholds[1]) / np.sqrt(psi))  # (80, 4)
    M, V, K = (np.zeros(len(values)) for _ in range(3))
    for i, row in enumerate(values):
        left = weight / weight.sum()
        for j, x in enumerate(row):
            p1 = left @ yes[:, j] / left.sum()
            P = np.array([1.0 - p1, p1])
            s = -2.0 * np.log(P)
            off = s - P @ s
            M[i] += off[int(x)]
            V[i] += P @ off**2
            K[i] += P @ off**3
            left = left * (yes[:, j] if x else 1.0 - yes[:, j])
    dof = 8.0 * V**3 / K**2
    found = deviances(columns, LinearGaussian(W, mu, psi), values)
    np.testing.assert_allclose(found.dof, dof, rtol=0.02)
    np.testing.assert_allclose(
        found.D2, np.maximum(dof + M * np.sqrt(2.0 * dof / V), 0.0), rtol=0.02
    )


def test_cells_given_the_others_are_those_of_rows_without_them():
    """Exactly where cells give u; by the sites of the others, which saw the cell, elsewhere."""
    for spec, tolerance in (("xxxxx", 1e-8), ("xxxoobbnca", 0.15)):
        columns, model, values = table(spec, 2, 60, np.random.default_rng(5), 0.2)
        fitted = ColumnModel(columns, model)
        for j, own, mean_t, cov_t in fitted.given_the_others(values):
            cov_u = cov_t + np.diag(model.psi[own])
            without = values.copy()
            without[:, j] = np.nan
            for _, k, at, mean, cov, _ in fitted._missing(without):
                if k != j:
                    continue
                sd = np.sqrt(np.diagonal(cov, axis1=1, axis2=2))
                assert np.max(np.abs(mean_t[at] - mean) / sd) < tolerance
                np.testing.assert_allclose(cov_u[at], cov, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("spec", "q"), [("xxxxoobbnn", 2), ("ooooobbbbb", 2), ("xxxoobbnca", 2)])
def test_false_alarms_at_known_parameters(spec, q, missing):
    found = []
    for seed in range(4):
        columns, model, values = table(spec, q, 3000, np.random.default_rng(seed), missing)
        one = deviances(columns, model, values)
        found.append(np.mean(chi2.sf(one.D2, np.maximum(one.dof, 1e-9))[one.dof > 0] < 0.05))
    assert 0.04 < np.mean(found) < 0.06


@pytest.mark.parametrize(
    ("n", "missing"), [(60, 0.0), (100, 0.2), (300, 0.0), (300, 0.2), (1000, 0.2)]
)
def test_false_alarms_on_new_rows_after_a_fit(n, missing):
    """4 to 6 % at 5 %: 8 fits, 2 000 new rows each; three standard errors of the mean more."""
    spec, found = "xxxxoobbnn", []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        _, _, values = table(spec, 2, n + 2000, rng, missing)
        rows, new = values[:n], values[n:]
        learned = [KIND[s].learned(x[~np.isnan(x)]) for s, x in zip(spec, rows.T, strict=True)]
        columns = Columns(tuple(learned))
        known = [k.holds(x) | np.isnan(x) for k, x in zip(learned, new.T, strict=True)]
        source = ArraySource(rows)
        model, _ = fit_column_model(source, columns, 2, EMOptions(tol=1e-4, max_iter=300))
        p = np.exp(log_p(new[np.all(known, axis=0)], model, reference_of(model, source)))
        found.append(np.mean(p < 0.05))
    allowed = 3.0 * np.std(found) / np.sqrt(len(found))
    assert 0.04 - allowed < np.mean(found) < 0.06 + allowed


# Estimators -------------------------------------------------------------------------------------

AS_THEY_ARE = {j: Continuous("identity") for j in range(6)}


def numbers(rng, n=200):
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(n, 6))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def survey(rng, n=300):
    """A table with columns of every kind behind one factor."""
    z = rng.normal(size=n)

    def noisy():
        return z + 0.6 * rng.normal(size=n)

    X = pd.DataFrame(
        {
            "height": noisy(),
            "income": np.exp(noisy()),
            "grade": pd.Categorical.from_codes(
                np.digitize(noisy(), [-0.7, 0.7]), ["low", "mid", "high"], ordered=True
            ),
            "region": np.array(["south", "west", "north"])[np.digitize(noisy(), [-0.5, 0.5])],
            "member": pd.array(noisy() > 0.2, dtype="boolean"),
            "visits": rng.poisson(np.exp(1.0 + 0.4 * noisy())),
        }
    )
    return X.mask(rng.random(X.shape) < 0.1)


def test_novelty_of_columns_without_a_map_is_that_of_numbers():
    rng = np.random.default_rng(11)
    X, new = numbers(rng), 3.0 * numbers(rng, 50)
    plain = eg.NoveltyDetector(eg.FactorAnalysis(2, tol=1e-9)).fit(X)
    kinds = eg.NoveltyDetector(eg.FactorAnalysis(2, tol=1e-9), columns=AS_THEY_ARE).fit(X)
    np.testing.assert_allclose(kinds.score_samples(new), plain.score_samples(new), rtol=1e-5)
    for name in ("D2", "T2", "SPE"):
        own, other = (getattr(one.statistics(new), name) for one in (kinds, plain))
        np.testing.assert_allclose(own.log_p, other.log_p, rtol=1e-5, atol=1e-8)
        np.testing.assert_array_equal(own.dof, other.dof)
    assert kinds.offset_ == plain.offset_


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.HeywoodWarning")
def test_novelty_finds_the_cell_that_does_not_fit_whatever_its_kind():
    rng = np.random.default_rng(12)
    X = survey(rng).dropna().reset_index(drop=True)
    columns = {"visits": "count"}
    detector = eg.NoveltyDetector(eg.FactorAnalysis(1, tol=1e-4), columns=columns).fit(X)
    scores = X["height"].to_numpy(float)
    tall, small = int(np.argmax(scores)), int(np.argmin(scores))
    wrong = {"region": "south", "member": False, "grade": "low", "income": 0.02, "visits": 60}
    for name, value in wrong.items():
        row = X.iloc[[small if name == "visits" else tall]].copy()
        row[name] = pd.Series([value], index=row.index).astype(X[name].dtype)
        before, after = detector.p_values(X.loc[row.index]), detector.p_values(row)
        assert after[0] < 0.2 * before[0]
        (found,) = detector.explain(row, k=1)
        assert found.cells[0].column == name
        assert found.cells[0].value == value
        assert found.p_value == pytest.approx(after[0])
        assert found.p_value_without > after[0]


@pytest.mark.parametrize("columns", [1, 2])
def test_classes_by_levels_are_smoothed_frequencies(columns):
    """Of one column of levels: (n_level + share_level) / (n + 1); of a copy that is missing too."""
    rng = np.random.default_rng(13)
    code = rng.integers(0, 3, 400)
    P = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.0, 0.5]])
    level = np.array([rng.choice(4, p=P[k]) for k in code])
    X = pd.DataFrame({"level": np.array(list("abcd"))[level]})
    if columns == 2:
        X["id"] = [f"row {i}" for i in range(len(X))]
    X.iloc[:20, 0] = None
    known = np.arange(400) >= 20
    counts = np.zeros((3, 4))
    np.add.at(counts, (code[known], level[known]), 1.0)
    share = counts.sum(axis=0) / counts.sum()
    given = (counts + share) / (counts.sum(axis=1, keepdims=True) + 1.0)
    prior = np.bincount(code) / len(code)
    expected = prior[:, None] * given
    expected /= expected.sum(axis=0)
    model = eg.PPCAClassifier(0, columns="auto", tol=1e-8).fit(X, code)
    new = X.iloc[[int(np.flatnonzero(known & (level == k))[0]) for k in range(4)] + [0]]
    found = model.predict_proba(new)
    # The prior of the means (`FreeScale`, N(0, 25)) takes off a little where a level is rare.
    np.testing.assert_allclose(found[:4], expected.T, atol=5e-3)
    np.testing.assert_allclose(found[4], prior, rtol=1e-12)


def test_classes_of_columns_without_a_map_are_those_of_numbers():
    """Factor analysis does not depend on units, and the shared columns only choose these."""
    rng = np.random.default_rng(21)
    y = np.repeat([0, 1, 2], 80)
    X = np.vstack([numbers(rng, 80) + rng.normal(size=6) for _ in range(3)])
    how = {"noise": "diagonal", "tol": 1e-9}
    plain = eg.PPCAClassifier(1, **how).fit(X, y)
    kinds = eg.PPCAClassifier(1, columns=AS_THEY_ARE, **how).fit(X, y)
    np.testing.assert_allclose(kinds.predict_proba(X), plain.predict_proba(X), atol=1e-4)
    np.testing.assert_allclose(kinds.score_samples(X), plain.score_samples(X), rtol=1e-3)


def test_classes_by_columns_of_every_kind():
    """Half of the columns missing: the classes are found as well as by a model that knows all."""
    rng = np.random.default_rng(14)
    code = rng.integers(0, 2, 500)

    def noisy():
        return 1.6 * code + rng.normal(size=500)

    X = pd.DataFrame(
        {
            "a": np.exp(noisy()),
            "b": np.where(noisy() > 0.8, "yes", "no"),
            "c": pd.Categorical.from_codes(
                np.digitize(noisy(), [0.0, 1.6]), ["x", "y", "z"], ordered=True
            ),
            "d": noisy(),
        }
    ).mask(rng.random((500, 4)) < 0.3)
    train, test = X.iloc[:300], X.iloc[300:]
    y = np.array(["first", "second"])[code]
    model = eg.PPCAClassifier(0, columns="auto").fit(train, y[:300])
    # The truth: independent columns given the class.
    odds = np.zeros(200)
    for name, ends in {"a": None, "d": None, "b": [0.8], "c": [0.0, 1.6]}.items():
        x = test[name]
        seen = x.notna().to_numpy()
        if ends is None:
            u = (np.log(x) if name == "a" else x).to_numpy(float)
            each = norm.logpdf(u, 1.6) - norm.logpdf(u)
        else:
            k = x.map({"no": 0, "yes": 1, "x": 0, "y": 1, "z": 2}).astype(float)
            k = k.fillna(0).astype(int).to_numpy()
            cut = np.array([-np.inf, *ends, np.inf])
            mass = [norm.cdf(cut[k + 1], m) - norm.cdf(cut[k], m) for m in (1.6, 0.0)]
            each = np.log(mass[0]) - np.log(mass[1])
        odds += np.where(seen, each, 0.0)
    best = 1.0 / (1.0 + np.exp(-odds))
    found = model.predict_proba(test)[:, 1]
    assert np.mean(np.abs(found - best)) < 0.05
    truth = code[300:]
    loss, least = (-np.mean(np.log(np.where(truth, p, 1.0 - p))) for p in (found, best))
    assert loss < least + 0.05


def test_regression_on_columns_without_a_map_is_that_of_numbers():
    rng = np.random.default_rng(15)
    table = numbers(rng)
    X, y = table[:, :5], table[:, 5]
    plain = eg.PPCARegressor(2, tol=1e-10).fit(X, y)
    columns = {j: Continuous("identity") for j in range(5)}
    target = Continuous("identity")
    kinds = eg.PPCARegressor(2, tol=1e-10, columns=columns, target_kind=target).fit(X, y)
    for own, other in zip(
        (*kinds.predict(X, return_std=True), *kinds.intervals(X, 0.8)),
        (*plain.predict(X, return_std=True), *plain.intervals(X, 0.8)),
        strict=True,
    ):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.HeywoodWarning")
def test_regression_of_a_positive_target():
    """Intervals cover, lie in its range, and are longer above; the mean is that of a log-normal."""
    rng = np.random.default_rng(16)
    z = rng.normal(size=1200)
    X = pd.DataFrame(
        {
            "a": z + 0.5 * rng.normal(size=1200),
            "b": np.where(z + 0.5 * rng.normal(size=1200) > 0, "yes", "no"),
            "c": z + 0.5 * rng.normal(size=1200),
        }
    ).mask(rng.random((1200, 3)) < 0.15)
    y = np.exp(z + 0.5 * rng.normal(size=1200))
    model = eg.PPCARegressor(1, columns="auto", target_kind="positive").fit(X[:600], y[:600])
    low, high = model.intervals(X[600:], level=0.9)
    middle = model.estimator_.table_.columns.kinds[-1]
    assert isinstance(middle, ContinuousColumn)
    assert low.min() > 0.0
    inside = np.sum((low <= y[600:]) & (y[600:] <= high))
    assert binomtest(int(inside), 600, 0.9).pvalue > 1e-3
    mean, std = model.predict(X[600:], return_std=True)
    u_low, u_high = np.log(low), np.log(high)
    centre, sd = (u_low + u_high) / 2.0, (u_high - u_low) / (2.0 * norm.ppf(0.95))
    np.testing.assert_allclose(mean, np.exp(centre + sd**2 / 2.0), rtol=0.02)
    np.testing.assert_allclose(std, mean * np.sqrt(np.expm1(sd**2)), rtol=0.05)
    percent = eg.PPCARegressor(1, columns="auto", target_kind=Bounded(0, 200))
    low, high = percent.fit(X[:600], np.minimum(y[:600], 199.0)).intervals(X)
    assert low.min() > 0.0
    assert high.max() < 200.0


# Ranks and comparison ----------------------------------------------------------------------------


def test_the_rank_of_columns_of_every_kind():
    X = survey(np.random.default_rng(17))
    choice = eg.choose_rank(X, columns={"visits": "count"})
    assert choice.n_components == choice.criteria["cross_validation"] == 1
    curve = choice.curves["cross_validation"]
    assert curve.better == "higher"
    assert curve[1] > curve[0] + 0.1
    assert "bic" in choice.not_applied


def test_held_out_scores_are_densities_of_the_values():
    """Of log-normal columns: those of x, not of ln x."""
    rng = np.random.default_rng(18)
    X = np.exp(rng.normal(size=(600, 2)))
    logs = {j: Continuous("log") for j in range(2)}
    found = eg.compare({"maps": eg.PPCA(0, columns=logs)}, X, cv=3)
    held_out = norm.entropy()  # of ln x; its density of x is 1 / x of that, and E ln x = 0
    assert found.log_score[0] == pytest.approx(-held_out, abs=0.25)
    assert found.log_likelihood[0] == pytest.approx(-2.0 * held_out, abs=0.15)


@pytest.mark.filterwarnings("ignore::eigengap.exceptions.HeywoodWarning")
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_models_of_every_kind_side_by_side(library):
    X = survey(np.random.default_rng(19), 150)
    X = X if library == "pandas" else pl.from_pandas(X)
    kinds = {"visits": "count"}
    models = {
        "nothing": eg.PPCA(0, columns=kinds),
        "one": eg.PPCA(1, columns=kinds, tol=1e-4),
        "fewer": eg.PPCA(1, columns={**kinds, "region": "ignored"}, tol=1e-4),
        "numbers": eg.PPCA(1),
    }
    found = eg.compare(models, X, cv=3)
    assert found.best == "one"
    assert found.log_score[1] > found.log_score[0] + 3.0 * found.log_score_se[0]
    assert found.log_likelihood[1] > found.log_likelihood[0] + 3.0 * found.log_likelihood_se[0]
    assert found.rmse[1] < found.rmse[0]
    assert np.isnan(found.log_score[3])
    assert "numeric" in found.reasons["numbers"]
    assert found.reasons["fewer"] == 'leaves out "region", which others describe'
    assert np.isnan(found.log_likelihood[2])
    assert 0.85 < found.coverage[1] <= 1.0


def test_the_log_score_of_numbers_is_that_of_a_gaussian():
    rng = np.random.default_rng(20)
    X = numbers(rng)
    kinds = eg.FactorAnalysis(2, columns=AS_THEY_ARE, tol=1e-9)
    found = eg.compare({"plain": eg.FactorAnalysis(2, tol=1e-9), "kinds": kinds}, X, cv=3)
    for figure in ("log_score", "log_likelihood", "rmse"):
        plain, mapped = getattr(found, figure)
        assert plain == pytest.approx(mapped, rel=1e-4)


# Multiple imputation ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pooled_regressions_on_a_mixed_table_cover():
    """Missing at random given y, 23 % of the cells: 95 % intervals of 5 coefficients cover."""
    truth = np.array([1.0, 0.8, -0.5, 0.6, 0.3])
    inside, runs = np.zeros(5), 60
    for run in range(runs):
        rng, n = np.random.default_rng(1000 + run), 300
        z = rng.normal(size=n)
        x = 0.8 * z + 0.6 * rng.normal(size=n)
        size = 0.7 * z + 0.7 * rng.normal(size=n)
        group = np.where(0.9 * z + 0.6 * rng.normal(size=n) > 0.3, "b", "a")
        grade = np.digitize(0.8 * z + 0.6 * rng.normal(size=n), [-0.8, 0.0, 0.8]) * 1.0
        X = pd.DataFrame({"x": x, "size": size, "group": group, "grade": grade})
        X["y"] = design(X) @ truth + rng.normal(size=n)
        shown = 1.0 / (1.0 + np.exp(1.2 - 0.8 * (X["y"] - X["y"].mean())))
        for name in ("x", "size", "group", "grade"):
            X.loc[rng.random(n) < 0.9 * shown, name] = None
        columns = {name: Continuous("identity") for name in ("x", "size", "y")}
        model = eg.FactorAnalysis(2, columns=columns, tol=1e-4).fit(X)
        fits = [least_squares(table) for table in model.sample_imputations(X, 20, run)]
        low, high = pool(*zip(*fits, strict=True), df_complete=n - 5).interval()
        inside += (low <= truth) & (truth <= high)
    assert binomtest(int(inside.sum()), 5 * runs, 0.95).pvalue > 0.01
    assert inside.min() / runs > 0.95 - 3.0 * np.sqrt(0.95 * 0.05 / runs)


def design(X):
    dummy = (X["group"] == "b").astype(float)
    return np.column_stack([np.ones(len(X)), X["x"], X["size"], dummy, X["grade"]]).astype(float)


def least_squares(X):
    A, y = design(X), X["y"].to_numpy(float)
    inverse = np.linalg.inv(A.T @ A)
    slopes = inverse @ A.T @ y
    return slopes, np.sum((y - A @ slopes) ** 2) / (len(y) - 5) * np.diag(inverse)


@pytest.mark.parametrize("side", ["<", ">"])
def test_classes_and_regression_take_limits_of_one_side(side):
    """With 2 % of the values known by limits, predictions are nearly those by the values."""
    rng = np.random.default_rng(31)
    z = rng.normal(size=400)
    X = pd.DataFrame(z[:, None] + 0.5 * rng.normal(size=(400, 3)), columns=list("abc"))
    X["c"] = np.exp(X["c"])
    limit = float(np.quantile(X["c"], 0.02 if side == "<" else 0.98))
    beyond = X["c"] < limit if side == "<" else X["c"] > limit
    text = X.assign(c=X["c"].astype(object).mask(beyond, f"{side}{limit}"))
    label = (z + 0.3 * rng.normal(size=400) > 0).astype(int)
    pairs = [(eg.PPCARegressor, z, "predict"), (eg.PPCAClassifier, label, "predict_proba")]
    for estimator, y, method in pairs:
        exact, limited = (estimator(1, columns="auto").fit(one, y) for one in (X, text))
        assert limited.kinds_["c"] == "censored"
        found = np.corrcoef(
            np.ravel(getattr(exact, method)(X)), np.ravel(getattr(limited, method)(text))
        )
        assert found[0, 1] > 0.98


def test_a_class_may_have_limits_alone_in_a_column():
    rng = np.random.default_rng(32)
    y = np.arange(200) % 2
    X = pd.DataFrame({"a": rng.normal(size=200), "b": np.exp(2.0 * y + rng.normal(size=200))})
    X["b"] = X["b"].astype(object).mask(y == 0, "<2.0")
    model = eg.PPCAClassifier(1, columns="auto").fit(X, y)
    assert model.score(X, y) > 0.8
    nothing = X.assign(b=X["b"].mask(y == 0, None))
    with pytest.raises(ValueError, match='class 0 has no value in column "b"'):
        eg.PPCAClassifier(1, columns={"b": kinds.Censored()}).fit(nothing, y)
