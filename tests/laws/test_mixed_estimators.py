"""Laws of PPCA and FactorAnalysis fitted to columns of every kind."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import eigengap as eg
from eigengap.columns import Bounded, Continuous, Ordinal
from eigengap.exceptions import HeywoodWarning

ESTIMATORS = [eg.PPCA, eg.FactorAnalysis]
KINDS = {
    "share": Bounded(0, 1),
    "visits": "count",
    "stage": Ordinal(order=["low", "mid", "high"]),
    "id": "ignored",
}


def table(n=160, seed=0, missing=0.12):
    """Two latent variables behind a column of each kind, and an identifier."""
    rng = np.random.default_rng(seed)
    U = 0.9 * rng.normal(size=(n, 2)) @ rng.normal(size=(2, 9)) + 0.8 * rng.normal(size=(n, 9))
    X = pd.DataFrame(
        {
            "real": U[:, 0],
            "other": 3.0 - 20.0 * U[:, 1],
            "income": np.exp(8.0 + U[:, 2]),
            "share": 1.0 / (1.0 + np.exp(-U[:, 3])),
            "visits": rng.poisson(np.exp(1.0 + 0.4 * U[:, 4])).astype(float),
            "stage": np.array(["low", "mid", "high"])[np.digitize(U[:, 5], [-0.7, 0.6])],
            "flag": np.where(U[:, 6] > 0.4, "yes", "no"),
            "region": np.array(["n", "e", "s"])[np.digitize(U[:, 7], [-0.6, 0.6])],
            "score": np.digitize(U[:, 8], [-1.0, 0.0, 1.0]).astype(float),
        }
    ).mask(rng.random((n, 9)) < missing)
    return X.assign(id=[f"row {i}" for i in range(n)])


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda cls: cls.__name__)
def fitted(request):
    return fit(request.param, table(), 2)


def fit(cls, X, q=1, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeywoodWarning)
        return cls(q, **{"columns": KINDS, "tol": 1e-6, **how}).fit(X)


# What columns of numbers are --------------------------------------------------------------------


def numbers(n=400, d=6):
    rng = np.random.default_rng(0)
    W = np.array([[2.0, 1.5, 1.0, -1.5, 1.0, 0.5], [0.5, -1.0, 1.5, 1.0, 2.0, -1.5]])
    X = rng.normal(size=(n, 2)) @ W + rng.normal(size=(n, d))
    X = X * 10.0 ** rng.uniform(-2, 2, size=d) + 3.0
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_identity_maps_are_the_fit_to_standardised_numbers(cls):
    X = numbers()
    how = {"tol": 1e-9, "scale": True}
    plain = cls(2, **how).fit(X)
    mixed = cls(2, columns=dict.fromkeys(range(6), Continuous("identity")), **how).fit(X)
    assert mixed.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-10)
    np.testing.assert_allclose(mixed.noise_variance_, plain.noise_variance_, rtol=1e-5)
    np.testing.assert_allclose(
        mixed.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=1e-5
    )
    sd = np.nanstd(X, axis=0)
    for answer in ("impute", "reconstruct"):
        one, two = (getattr(model, answer)(X) / sd for model in (mixed, plain))
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)
    for one, two in zip(mixed.intervals(X), plain.intervals(X), strict=True):
        np.testing.assert_allclose(one / sd, two / sd, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mixed.explain(X).p, plain.explain(X).p, atol=1e-5)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_one_model_says_the_same_of_numbers_and_of_columns_with_identity_maps(cls):
    X = numbers()
    mixed = cls(2, columns=dict.fromkeys(range(6), Continuous("identity"))).fit(X)
    model = mixed.model_.gaussian.rescaled(np.nanstd(X, axis=0), np.nanmean(X, axis=0))
    sd = np.nanstd(X, axis=0)
    exact = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(mixed.transform(X), model.posterior_mean(X), **exact)
    np.testing.assert_allclose(mixed.posterior(X).cov, model.posterior(X).cov, **exact)
    np.testing.assert_allclose(mixed.impute(X) / sd, model.conditional_mean(X) / sd, **exact)
    np.testing.assert_allclose(mixed.score_samples(X), model.log_likelihood(X), **exact)
    np.testing.assert_allclose(mixed.reconstruct(X) / sd, model.denoised(X) / sd, **exact)


def test_two_levels_alone_have_a_noise_variance_by_convention():
    """PPCA and factor analysis of binary columns are then one model."""
    rng = np.random.default_rng(1)
    U = rng.normal(size=(400, 1)) @ rng.uniform(0.5, 1.5, size=(1, 6)) + rng.normal(size=(400, 6))
    X = np.where(rng.normal(size=6) / 2 < U, "yes", "no").astype(object)
    X[rng.random(X.shape) < 0.1] = None
    one, two = (fit(cls, X, columns="auto") for cls in ESTIMATORS)
    assert one.noise_variance_ == 1.0
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-6)
    np.testing.assert_allclose(one.get_covariance(), two.get_covariance(), atol=1e-3)


# Likelihood -------------------------------------------------------------------------------------


def test_scores_of_the_rows_sum_to_the_log_likelihood(fitted):
    X = table()
    assert np.sum(fitted.score_samples(X)) == pytest.approx(fitted.log_likelihood_, rel=1e-9)
    assert fitted.score(X) == pytest.approx(fitted.log_likelihood_ / len(X), rel=1e-9)


def test_a_common_noise_variance_is_a_constraint():
    X = table()
    common, own = (fit(cls, X, 1) for cls in ESTIMATORS)
    assert common.log_likelihood_ < own.log_likelihood_
    assert np.ptp(common.model_.psi) == pytest.approx(0.0, abs=1e-12)


def test_the_unit_of_a_number_is_a_constant_in_the_likelihood():
    X = table()
    scaled = X.assign(other=X["other"] / 1000.0)
    one, two = (fit(eg.PPCA, each) for each in (X, scaled))
    more = X["other"].notna().sum() * np.log(1000.0)
    assert two.log_likelihood_ - one.log_likelihood_ == pytest.approx(more, rel=1e-6)


# Rows and columns -------------------------------------------------------------------------------


def assert_same_fit(one, two, X):
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(one.get_covariance(), two.get_covariance(), atol=1e-3, rtol=1e-3)
    for name, p in one.level_probabilities(X).items():
        np.testing.assert_allclose(p, two.level_probabilities(X)[name], atol=1e-3)


def test_rows_do_not_depend_on_each_other(fitted):
    X = table()
    some = X.iloc[40:47]
    np.testing.assert_allclose(fitted.transform(some), fitted.transform(X)[40:47], atol=1e-4)
    np.testing.assert_allclose(
        fitted.score_samples(some), fitted.score_samples(X)[40:47], atol=1e-6
    )
    whole = fitted.explain(X).p.iloc[40:47]
    pd.testing.assert_frame_equal(fitted.explain(some).p, whole, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_rows_without_values_and_weights(cls):
    X = table(80)
    one = fit(cls, X)
    empty = X.iloc[:5].mask(np.ones((5, X.shape[1]), dtype=bool))
    longer = pd.concat([X.iloc[:30], empty, X.iloc[30:]], ignore_index=True)
    two = fit(cls, longer)
    assert_same_fit(one, two, X)
    assert np.all(two.score_samples(longer)[30:35] == 0.0)
    assert np.all(two.transform(longer)[30:35] == 0.0)
    weighted = cls(1, columns=KINDS, tol=1e-8).fit(longer, sample_weight=np.ones(len(longer)))
    assert_same_fit(two, weighted, X)


def test_the_order_of_columns_is_that_of_outputs(fitted):
    X = table()
    order = ["flag", "visits", "real", "score", "id", "other", "region", "income", "stage", "share"]
    other = clone(fitted).fit(X[order])
    assert other.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-3)
    assert list(other.kinds_) == order
    first, second = (
        pd.DataFrame(model.loadings_ @ model.loadings_.T, *[list(model.underlying_names_)] * 2)
        for model in (fitted, other)
    )
    names = list(fitted.underlying_names_)
    np.testing.assert_allclose(first, second.loc[names, names], atol=1e-3, rtol=1e-2)
    imputed, again = fitted.impute(X), other.impute(X[order])
    assert list(again) == order
    for name in ("real", "share"):
        sd = X[name].std()
        np.testing.assert_allclose(imputed[name] / sd, again[name] / sd, atol=1e-3)


# Outputs ----------------------------------------------------------------------------------------


def test_observed_values_stay_and_missing_ones_are_imputed_in_range(fitted):
    X = table()
    imputed, std = fitted.impute(X, return_std=True)
    low, high = fitted.intervals(X, 0.9)
    for each in (imputed, low, high, *fitted.sample_imputations(X, 2, random_state=0)):
        observed = X.notna()
        assert each.notna().all(axis=None)
        assert each[observed].equals(X[observed])
        assert (each.dtypes == X.dtypes).all()
        assert (each["income"] > 0).all()
        assert each["share"].between(0, 1).all()
        assert set(each["stage"]) <= {"low", "mid", "high"}
    assert (low[["real", "share", "visits"]] <= high[["real", "share", "visits"]]).all(axis=None)
    for name in ("real", "share"):
        assert (std[name] > 0).equals(X[name].isna())
    assert (std["region"].isna() == X["region"].isna()).all()
    rebuilt = fitted.reconstruct(X)
    assert rebuilt["id"].equals(X["id"])
    assert set(rebuilt["flag"]) <= {"yes", "no"}
    assert rebuilt["real"].std() < X["real"].std()  # shrunk, without noise


def test_probabilities_are_those_of_levels(fitted):
    X = table()
    found = fitted.level_probabilities(X)
    assert list(found) == list(fitted.levels_) == ["stage", "flag", "region", "score"]
    for name, p in found.items():
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        for k, level in enumerate(fitted.levels_[name]):
            assert np.all((p[:, k] == 1.0)[X[name] == level])


def test_inverse_transform_and_samples_are_rows(fitted):
    X = table()
    names = [name for name in X if name != "id"]
    decoded = fitted.inverse_transform(fitted.transform(X))
    assert list(decoded) == names
    pd.testing.assert_frame_equal(
        decoded.astype({"real": float}), fitted.reconstruct(X)[names], check_dtype=False
    )
    drawn = fitted.sample(4000, random_state=0)
    assert list(drawn) == names
    share = X["flag"].value_counts(normalize=True)["yes"]
    assert (drawn["flag"] == "yes").mean() == pytest.approx(share, abs=0.06)
    assert drawn["income"].median() == pytest.approx(X["income"].median(), rel=0.25)
    assert np.isfinite(fitted.score(drawn.assign(id="new")))
    again = fitted.sample(5, random_state=3)
    pd.testing.assert_frame_equal(again, fitted.sample(5, random_state=3))


def test_samples_of_arrays_are_arrays():
    X = table().drop(columns="id")
    model = fit(eg.PPCA, X.to_numpy(object), columns={7: "nominal"}, tol=1e-5)
    drawn = model.sample(6, random_state=0)
    assert drawn.dtype == object
    assert drawn.shape == (6, 9)
    assert set(drawn[:, 7]) <= {"n", "e", "s"}
    plain = fit(eg.PPCA, X[["real", "other"]].to_numpy(), 0, columns="auto", tol=1e-5)
    assert plain.sample(3, random_state=0).dtype == np.float64


def test_every_library_gets_its_own_types_and_the_same_values():
    X = table()
    imputed = fit(eg.PPCA, X).impute(X)
    for other in (pl.from_pandas(X), pa.Table.from_pandas(X, preserve_index=False)):
        model = fit(eg.PPCA, other)
        found = model.impute(other)
        assert type(found) is type(other)
        back = found.to_pandas()
        for name in ("real", "share", "income"):
            np.testing.assert_allclose(back[name], imputed[name], rtol=1e-4)
        assert type(model.sample(3)) is type(other)
        assert type(model.explain(other).p) is type(other)


def test_names_and_set_output(fitted):
    X = table()
    names = ["real", "other", "income", "share", "visits", "stage", "flag", "region=", "region="]
    assert all(a.startswith(b) for a, b in zip(fitted.underlying_names_, names, strict=False))
    assert len(fitted.underlying_names_) == len(fitted.loadings_) == 10
    prefix = type(fitted).__name__.lower()
    framed = clone(fitted).set_output(transform="pandas").fit(X).transform(X)
    assert list(framed) == list(fitted.get_feature_names_out()) == [f"{prefix}0", f"{prefix}1"]
    text = str(fitted.summary())
    assert "2 continuous" in text or "3 continuous" in text
    assert 'column "id"' in text


def test_single_precision_stays():
    X = numbers().astype(np.float32)
    model = eg.PPCA(2, columns="auto").fit(X)
    for found in (model.transform(X), model.impute(X), *model.intervals(X), model.explain(X).p):
        assert found.dtype == np.float32
    np.testing.assert_array_equal(model.impute(X)[~np.isnan(X)], X[~np.isnan(X)])


def test_codes_of_missing_values():
    X = table().drop(columns="id")
    coded = X.assign(real=X["real"].fillna(-999.0), score=X["score"].fillna(-999.0))
    kinds = {name: kind for name, kind in KINDS.items() if name != "id"}
    one = fit(eg.PPCA, X, columns=kinds)
    two = fit(eg.PPCA, coded, columns=kinds, missing_values=-999.0)
    assert one.log_likelihood_ == two.log_likelihood_
    pd.testing.assert_frame_equal(one.impute(X), two.impute(coded))


# Explanations -----------------------------------------------------------------------------------


def test_surprises_are_those_of_values_that_are_hidden_one_by_one(fitted):
    X = table(60, seed=4)
    found = fitted.explain(X)
    assert found.p.isna().equals(X.isna() | [name == "id" for name in X])
    for name in ("real", "income", "share", "visits"):
        hidden = X.assign(**{name: np.nan})
        at = np.flatnonzero(X[name].notna())[:12]
        for i in at.tolist():
            row, p, x = hidden.iloc[[i]], found.p[name].iloc[i], X[name].iloc[i]
            wide, narrow = (
                fitted.intervals(row, max(1.0 - p * by, 1e-9)) for by in (1 - 1e-3, 1 + 1e-3)
            )
            # x is an end of the interval outside of which lies p, up to a thousandth.
            assert wide[0][name].iloc[0] <= x <= wide[1][name].iloc[0]
            if p < 0.99:
                assert not narrow[0][name].iloc[0] < x < narrow[1][name].iloc[0]
        expected = fitted.impute(hidden)[name].iloc[at]
        np.testing.assert_allclose(found.expected[name].iloc[at], expected, rtol=1e-3)
    for name, levels in fitted.levels_.items():
        q = fitted.level_probabilities(X.assign(**{name: None}).astype({name: X[name].dtype}))[name]
        for i in np.flatnonzero(X[name].notna())[:20].tolist():
            k = levels.index(X[name].iloc[i])
            is_ordered = name in ("stage", "score")
            tails = q[i, : k + 1].sum(), q[i, k:].sum()
            p = min(1.0, 2.0 * min(tails)) if is_ordered else q[i, k]
            assert found.p[name].iloc[i] == pytest.approx(p, rel=1e-3)


def test_a_wrong_value_is_the_most_surprising_of_its_row():
    X = table(400, missing=0.0)
    model = fit(eg.FactorAnalysis, X, 2, tol=1e-5)
    found = model.explain(X)
    usual = found.worst(1)
    i = int(np.argsort([-cells[0].p for cells in usual])[10])  # an ordinary row
    wrong = X.copy()
    wrong.loc[i, "income"] = 1e7
    worst = model.explain(wrong).worst(2)[i]
    assert worst[0].column == "income"
    assert worst[0].kind == "continuous"
    assert worst[0].value == 1e7
    assert "income = 1e+07, expected" in str(worst[0])
    assert np.all(np.diff([cell.p for cell in worst]) >= 0)


def test_two_sided_tails_of_the_model_itself_are_uniform():
    X = table(800, seed=2, missing=0.0)
    p = fit(eg.FactorAnalysis, X, 2, tol=1e-5).explain(X).p
    for name in ("real", "other", "income"):
        for share in (0.1, 0.5):
            sd = np.sqrt(share * (1 - share) / len(X))
            assert (p[name] < share).mean() == pytest.approx(share, abs=5 * sd)


# Uncertainty ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_intervals_cover(cls):
    inside, total = np.zeros(3), np.zeros(3)
    names = ["real", "income", "share"]
    for seed in range(4):
        X = table(120, seed)
        rng = np.random.default_rng(seed)
        hidden = X[names].notna() & (rng.random((len(X), 3)) < 0.2)
        kept = X.assign(**X[names].mask(hidden))
        low, high = fit(cls, kept, 2, tol=1e-5).intervals(kept, 0.9)
        covers = (low[names] <= X[names]) & (X[names] <= high[names])
        inside += (covers & hidden).sum().to_numpy()
        total += hidden.sum().to_numpy()
    share = inside.sum() / total.sum()
    assert abs(share - 0.9) < 4 * np.sqrt(0.09 / total.sum())
    assert np.all(np.abs(inside / total - 0.9) < 5 * np.sqrt(0.09 / total))


def test_draws_have_the_uncertainty_of_the_parameters():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(14, 1)) + 0.7 * rng.normal(size=(14, 4))
    X[:3, 0] = np.nan
    model = eg.PPCA(1, columns=dict.fromkeys(range(4), Continuous("identity"))).fit(X)
    some = X[:3]
    _, std = model.impute(some, return_std=True)
    tables = np.stack(list(model.sample_imputations(some, 300, random_state=0)))
    spread = tables[:, :, 0].std(axis=0)
    alone = np.random.default_rng(0)
    alone = np.stack([model.model_.sample_imputations(some, alone) for _ in range(300)])[:, :, 0]
    assert np.all(spread > 1.05 * alone.std(axis=0))
    np.testing.assert_allclose(spread, std[:, 0], rtol=0.3)


# Parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_the_number_of_components_is_found_or_explains_a_share(cls):
    X = table(300)
    chosen = fit(cls, X, "auto", tol=1e-4)
    # One noise variance for all takes further components for columns that have less of it.
    assert 1 <= chosen.n_components_ <= (4 if cls is eg.FactorAnalysis else 7)
    assert chosen.rank_choice_.n_components == chosen.n_components_
    assert "cross-validation" in chosen.rank_choice_.summary
    share = fit(cls, X, 0.6, tol=1e-4)
    assert share.explained_variance_ratio_.sum() >= 0.6
    fewer = fit(cls, X, share.n_components_ - 1, tol=1e-4)
    assert fewer.explained_variance_ratio_.sum() < 0.6


def test_parameters_of_the_model():
    X = table()
    plain = fit(eg.PPCA, X)
    given = fit(eg.PPCA, X, noise_variance=0.5)
    assert given.noise_variance_ == pytest.approx(0.5, rel=1e-12)
    assert given.log_likelihood_ < plain.log_likelihood_
    again = fit(eg.PPCA, X, noise_variance=plain.noise_variance_)
    assert again.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-2)
    small = fit(eg.PPCA, X, loading_precision=300.0)
    assert np.sum(small.loadings_[:4] ** 2) < 0.8 * np.sum(plain.loadings_[:4] ** 2)
    more = fit(eg.PPCA, X, n_init=3, random_state=0)
    assert more.log_likelihood_ > plain.log_likelihood_ - 1e-2


@pytest.mark.parametrize("rotation", ["varimax", "oblimin"])
def test_rotations_leave_the_density(rotation):
    X = table()
    plain, rotated = (fit(eg.FactorAnalysis, X, 2, rotation=r) for r in (None, rotation))
    assert rotated.log_likelihood_ == plain.log_likelihood_
    pd.testing.assert_frame_equal(rotated.impute(X), plain.impute(X))
    one, two = (model.inverse_transform(model.transform(X)) for model in (plain, rotated))
    pd.testing.assert_frame_equal(one, two, rtol=1e-6)


# Kept -------------------------------------------------------------------------------------------


def test_pickles_and_model_files(fitted, tmp_path):
    X = table()
    eg.save(fitted, tmp_path / "m.egap")
    for again in (pickle.loads(pickle.dumps(fitted)), eg.load(tmp_path / "m.egap")):
        pd.testing.assert_frame_equal(again.impute(X), fitted.impute(X))
        np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
        np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
        pd.testing.assert_frame_equal(again.explain(X).p, fitted.explain(X).p)
        assert again.kinds_ == fitted.kinds_
        assert again.levels_ == fitted.levels_
        assert again.underlying_names_ == fitted.underlying_names_


def test_an_interrupted_fit_goes_on(tmp_path, monkeypatch):
    X, path = table(), tmp_path / "fit.checkpoint"
    how = {"columns": KINDS, "tol": 1e-6}
    whole = eg.PPCA(2, **how).fit(X)
    with pytest.warns(UserWarning, match="did not converge"):
        eg.PPCA(2, **how, max_iter=8, checkpoint=path).fit(X)
    assert path.exists()
    assert eg.PPCA(2, columns=KINDS, checkpoint=path).fit(X).converged_
    rest = eg.PPCA(2, **how, checkpoint=path).fit(X)
    assert_same_fit(whole, rest, X)
    assert not path.exists()


def test_a_later_fit_forgets_the_kinds():
    X = table()
    model = eg.PPCA(1, columns=KINDS, tol=1e-4).fit(X)
    plain = X[["real", "other", "income"]]
    model.set_params(columns="numeric").fit(plain)
    assert not hasattr(model, "kinds_")
    assert not hasattr(model, "underlying_names_")
    fresh = eg.PPCA(1, tol=1e-4).fit(plain)
    np.testing.assert_array_equal(model.impute(plain), fresh.impute(plain))
    model.set_params(columns=KINDS).fit(X)
    assert model.kinds_["flag"] == "binary"
