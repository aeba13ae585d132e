"""Laws of BayesianPCA and MixturePPCA fitted to columns of every kind."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import estimator_checks

import eigengap as eg
from eigengap.columns import Continuous, Ordinal
from eigengap.exceptions import NoiseFloorWarning, UnknownLevelError

KINDS = {"visits": "count", "stage": Ordinal(order=["low", "mid", "high"]), "id": "ignored"}
MODELS = {
    "bayesian": eg.BayesianPCA(columns=KINDS),
    "mixture": eg.MixturePPCA(2, [1, 0], noise="diagonal", columns=KINDS, random_state=0, tol=1e-6),
}


def table(n=150, seed=0, missing=0.12):
    """A column of each kind in two clusters with a latent variable, and an identifier."""
    rng = np.random.default_rng(seed)
    z, of = rng.normal(size=n), np.where(np.arange(n) % 3 == 0, 1.0, -1.0)

    def u(sign=1.0):
        """The clusters lie apart along another direction than the latent variable's."""
        return sign * z + 1.3 * of + 0.8 * rng.normal(size=n)

    X = pd.DataFrame(
        {
            "real": u(),
            "other": 3.0 - 20.0 * u(-1.0),
            "income": np.exp(8.0 + 0.5 * u()),
            "visits": rng.poisson(np.exp(1.0 + 0.4 * u())).astype(float),
            "stage": np.array(["low", "mid", "high"])[np.digitize(u(), [-1.0, 1.0])],
            "flag": np.where(u() > 0.4, "yes", "no"),
            "region": np.array(["n", "e", "s"])[np.digitize(u(), [-1.0, 0.6])],
            "score": np.digitize(u(), [-1.5, 0.0, 1.5]).astype(float),
        }
    ).mask(rng.random((n, 8)) < missing)
    return X.assign(id=[f"row {i}" for i in range(n)])


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return clone(MODELS[request.param]).fit(table())


@pytest.fixture(scope="module")
def mixture():
    return clone(MODELS["mixture"]).fit(table())


# Columns of plain numbers ---------------------------------------------------------------------


def numbers(n=300, d=8):
    rng = np.random.default_rng(1)
    of = np.arange(n) % 3 == 0
    W = rng.normal(size=(2, 2, d))
    Z = rng.normal(size=(n, 2))
    X = np.where(of[:, None], Z @ W[0] + 4.0, Z @ W[1]) + 0.8 * rng.normal(size=(n, d))
    X = X * 10.0 ** rng.uniform(-2, 2, size=d) + 3.0
    X[rng.random(X.shape) < 0.15] = np.nan
    return X


@pytest.mark.parametrize(
    "model",
    [
        eg.BayesianPCA(3, tol=1e-9),
        eg.BayesianPCA(3, noise="diagonal", tol=1e-9),
        eg.MixturePPCA(2, 2, tol=1e-9, random_state=0),
        eg.MixturePPCA(2, [1, 2], shared_noise=True, tol=1e-9, random_state=0),
    ],
    ids=repr,
)
def test_identity_maps_are_the_fit_to_standardised_numbers(model):
    """The fits end within their tolerance of the same point: 1e-8 of a log-likelihood."""
    X = numbers()
    plain = clone(model).set_params(scale=True).fit(X)
    mixed = clone(model).set_params(columns=dict.fromkeys(range(8), Continuous("identity"))).fit(X)
    assert mixed.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-8)
    assert mixed.n_components_ == plain.n_components_
    np.testing.assert_allclose(mixed.noise_variance_, plain.noise_variance_, rtol=1e-5)
    np.testing.assert_allclose(mixed.score_samples(X), plain.score_samples(X), atol=1e-5)
    sd = np.nanstd(X, axis=0)
    for one, two in zip(mixed.intervals(X), plain.intervals(X), strict=True):
        np.testing.assert_allclose(one / sd, two / sd, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(mixed.explain(X).p, plain.explain(X).p, atol=1e-4)
    if hasattr(plain, "predict_proba"):
        np.testing.assert_allclose(mixed.predict_proba(X), plain.predict_proba(X), atol=1e-5)
        assert mixed.n_parameters_ == plain.n_parameters_
        assert mixed.bic(X) == pytest.approx(plain.bic(X), rel=1e-8)
    else:
        assert mixed.elbo_ == pytest.approx(plain.elbo_, rel=1e-8)


# Rows and columns -----------------------------------------------------------------------------


def test_scores_of_the_rows_sum_to_the_log_likelihood(fitted):
    X = table()
    assert fitted.converged_
    assert np.sum(fitted.score_samples(X)) == pytest.approx(fitted.log_likelihood_, rel=1e-8)


def test_rows_do_not_depend_on_each_other(fitted):
    X = table()
    some = X.iloc[40:47]
    np.testing.assert_allclose(fitted.transform(some), fitted.transform(X)[40:47], atol=1e-4)
    np.testing.assert_allclose(
        fitted.score_samples(some), fitted.score_samples(X)[40:47], atol=1e-6
    )


def test_rows_without_values_and_unit_weights_change_nothing(fitted):
    X = table()
    empty = X.iloc[:5].mask(np.ones((5, X.shape[1]), dtype=bool))
    longer = pd.concat([X.iloc[:30], empty, X.iloc[30:]], ignore_index=True)
    other = clone(fitted).fit(longer, sample_weight=np.ones(len(longer)))
    # An empty row counts in the weights of a mixture; nothing else is learned from it.
    assert other.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-2)
    np.testing.assert_allclose(other.get_covariance(), fitted.get_covariance(), atol=1e-2)
    np.testing.assert_allclose(other.score_samples(longer)[30:35], 0.0, atol=1e-12)


def test_the_order_of_columns_is_that_of_outputs(fitted):
    X = table()
    order = ["flag", "visits", "real", "score", "id", "other", "region", "income", "stage"]
    other = clone(fitted).fit(X[order])
    assert list(other.kinds_) == order
    assert other.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-2)
    assert list(other.impute(X[order])) == order


# Answers --------------------------------------------------------------------------------------


def test_observed_values_stay_and_missing_ones_are_imputed_in_range(fitted):
    X = table()
    imputed, std = fitted.impute(X, return_std=True)
    low, high = fitted.intervals(X, 0.9)
    for each in (imputed, low, high, *fitted.sample_imputations(X, 2, random_state=0)):
        observed = X.notna()
        assert each.notna().all(axis=None)
        assert each[observed].equals(X[observed])
        assert (each["income"] > 0).all()
        assert (each["visits"] == each["visits"].round()).all()
        assert (each["visits"] >= 0).all()
        assert set(each["stage"]) <= {"low", "mid", "high"}
    for name in ("real", "income", "visits"):
        missing = X[name].isna()
        assert (low[name] <= imputed[name])[missing].all()
        assert (imputed[name] <= high[name])[missing].all()
    assert (std["real"] > 0).equals(X["real"].isna())
    assert (std["region"].isna() == X["region"].isna()).all()


def test_probabilities_are_those_of_levels(fitted):
    X = table()
    found = fitted.level_probabilities(X)
    assert list(found) == list(fitted.levels_) == ["stage", "flag", "region", "score"]
    imputed = fitted.impute(X)
    for name, p in found.items():
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        levels = np.array(fitted.levels_[name])
        for k, level in enumerate(levels):
            assert np.all((p[:, k] == 1.0)[X[name] == level])
        if fitted.kinds_[name] in ("binary", "nominal"):  # else the median
            assert list(imputed[name]) == list(levels[np.argmax(p, axis=1)])


def test_draws_have_the_probabilities_of_levels_and_the_quantiles_of_numbers(fitted):
    X = table(n=12, seed=3)
    X.loc[:, ["real", "region", "income"]] = np.nan
    tables = list(fitted.sample_imputations(X, 120, random_state=0))
    p = fitted.level_probabilities(X)["region"]
    drawn = np.stack([t["region"] for t in tables])
    for k, level in enumerate(fitted.levels_["region"]):
        # Parameters are drawn anew for each table: averages over rows vary with them.
        np.testing.assert_allclose((drawn == level).mean(axis=0), p[:, k], atol=0.2)
        assert (drawn == level).mean() == pytest.approx(p[:, k].mean(), abs=0.06)
    low, high = fitted.intervals(X, 0.8)
    drawn = np.stack([t["real"] for t in tables])
    inside = ((low["real"].to_numpy() <= drawn) & (drawn <= high["real"].to_numpy())).mean()
    assert inside == pytest.approx(0.8, abs=0.05)


def test_surprises_are_those_of_values_that_are_hidden(fitted):
    X = table(40, seed=4)
    found = fitted.explain(X)
    for name in ("real", "income"):
        hidden = X.assign(**{name: np.nan})
        for i in np.flatnonzero(X[name].notna())[:8].tolist():
            p, x, row = found.p[name].iloc[i], X[name].iloc[i], hidden.iloc[[i]]
            low, high = (end[name].iloc[0] for end in fitted.intervals(row, 1.0 - p * 0.99))
            assert low <= x <= high
            if p < 0.98:
                low, high = (end[name].iloc[0] for end in fitted.intervals(row, 1.0 - p * 1.01))
                assert not low < x < high
    for name in ("flag", "region"):
        q = fitted.level_probabilities(X.assign(**{name: None}).astype({name: object}))[name]
        for i in np.flatnonzero(X[name].notna()).tolist():
            k = fitted.levels_[name].index(X[name].iloc[i])
            assert found.p[name].iloc[i] == pytest.approx(q[i, k], rel=1e-3)


def test_samples_are_rows_of_the_table(fitted):
    drawn = fitted.sample(2000, random_state=0)
    if isinstance(drawn, tuple):
        drawn, of = drawn
        share = np.bincount(of, minlength=2) / len(of)
        np.testing.assert_allclose(share, fitted.weights_, atol=0.05)
    X = table()
    assert list(drawn) == [name for name in X if name != "id"]
    share = X["flag"].value_counts(normalize=True)["yes"]
    assert (drawn["flag"] == "yes").mean() == pytest.approx(share, abs=0.06)
    assert np.isfinite(fitted.score(drawn.assign(id="new")))


# Mixtures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_clusters_of_mixed_columns_are_found(seed):
    X = table(seed=seed)
    of = np.arange(len(X)) % 3 == 0
    model = clone(MODELS["mixture"]).set_params(n_components=1, tol=1e-4).fit(X)
    assert adjusted_rand_score(of, model.predict(X)) > 0.7


def test_responsibilities_decide(mixture):
    X = table()
    resp = mixture.predict_proba(X)
    np.testing.assert_allclose(resp.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(mixture.predict(X), np.argmax(resp, axis=1))
    assert list(mixture.fit_predict(X)) == list(mixture.predict(X))
    empty = X.iloc[:1].mask(np.ones((1, X.shape[1]), dtype=bool))
    np.testing.assert_allclose(mixture.predict_proba(empty)[0], mixture.weights_, rtol=1e-12)


def test_maps_do_not_take_clusters_for_skewness():
    """Three far clusters: maps by component leave them as Gaussian as they are."""
    rng = np.random.default_rng(0)
    of = np.arange(300) % 3
    X = 3.0 * rng.normal(size=(3, 6))[of] + rng.normal(size=(300, 1)) @ rng.normal(size=(1, 6))
    X += 0.5 * rng.normal(size=X.shape)
    X[rng.random(X.shape) < 0.1] = np.nan
    how = {"noise": "diagonal", "random_state": 0, "tol": 1e-4}
    plain = eg.MixturePPCA(3, 1, **how).fit(X)
    auto = eg.MixturePPCA(3, 1, columns="auto", **how).fit(X)
    assert adjusted_rand_score(of, auto.predict(X)) > 0.97
    assert auto.log_likelihood_ > plain.log_likelihood_ - 10.0  # powers have a price
    skewed = eg.MixturePPCA(3, 1, columns="auto", **how).fit(np.exp(X / 2.0))
    assert adjusted_rand_score(of, skewed.predict(np.exp(X / 2.0))) > 0.9


def test_parts_of_a_mixture_have_their_shapes(mixture):
    X, D = table(), len(mixture.underlying_names_)
    K, ranks = mixture.n_mixture_, mixture.n_components_
    assert sorted(ranks) == [0, 1]
    assert mixture.transform(X).shape == (len(X), 1)
    assert mixture.get_feature_names_out().shape == (1,)
    posterior = mixture.posterior(X)
    assert posterior.resp.shape == (len(X), K)
    assert [p.mean.shape[1] for p in posterior.components] == list(ranks)
    assert mixture.means_.shape == mixture.noise_variance_.shape == (K, D)
    assert [W.shape for W in mixture.loadings_] == [(D, q) for q in ranks]
    free = mixture.table_.columns.free_scale
    np.testing.assert_array_equal(mixture.noise_variance_[:, free], 1.0)
    own = int(np.sum(~free))
    assert mixture.n_parameters_ == (K - 1) + K * D + D * sum(ranks) + K * own
    assert mixture.aic(X) == pytest.approx(2 * (mixture.n_parameters_ - mixture.log_likelihood_))


def test_one_component_is_factor_analysis():
    X = table()
    one = eg.MixturePPCA(1, 1, noise="diagonal", columns=KINDS, tol=1e-7, random_state=0).fit(X)
    plain = eg.FactorAnalysis(1, columns=KINDS, tol=1e-7).fit(X)
    assert one.log_likelihood_ == pytest.approx(plain.log_likelihood_, abs=1e-3)
    np.testing.assert_allclose(one.get_covariance(), plain.get_covariance(), atol=1e-3, rtol=1e-3)
    np.testing.assert_array_equal(one.impute(X)["region"], plain.impute(X)["region"])


def test_a_component_of_a_single_level_stays_bounded():
    """One cluster has the lowest level of every item alone, another the outer two."""
    rng = np.random.default_rng(0)
    n = 200
    of = np.arange(n) % 2 == 0
    outer = np.where(rng.random((n, 5)) < 0.5, 1.0, 3.0)
    X = np.where(of[:, None], 0.0, outer)
    X[:6] = 2.0
    model = eg.MixturePPCA(2, 0, columns=dict.fromkeys(range(5), "ordinal"), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseFloorWarning)
        model.fit(X)
    assert model.converged_
    assert adjusted_rand_score(of[6:], model.predict(X)[6:]) == 1.0
    assert np.all(np.abs(model.means_) < 10.0)
    assert np.all(model.noise_variance_ < 50.0)


def test_ranks_that_are_not_given_are_found():
    X = table(300)
    model = eg.MixturePPCA(2, columns=KINDS, random_state=0, tol=1e-4).fit(X)
    assert all(1 <= q <= 4 for q in model.n_components_)
    bayesian = eg.BayesianPCA(columns=KINDS, noise="diagonal").fit(X)
    assert 1 <= bayesian.n_components_ <= 2


# Bayesian PCA ---------------------------------------------------------------------------------


def test_isotropic_noise_is_one_for_all_variables():
    model = clone(MODELS["bayesian"]).fit(table())
    assert isinstance(model.noise_variance_, float)
    np.testing.assert_allclose(model.bayesian_.noise_variance(), model.noise_variance_, rtol=1e-5)
    assert model.bayesian_.W.shape == (len(model.underlying_names_), model.n_components_)
    assert model.elbo_ < model.log_likelihood_
    assert model.trace_.objective[-1] == pytest.approx(model.elbo_, abs=1e-6)


def test_the_uncertainty_of_the_parameters_widens_intervals():
    X = table(40)
    model = eg.BayesianPCA(2, columns=KINDS).fit(X)
    _, std = model.impute(X, return_std=True)
    missing = X["real"].isna()
    plug_in = type(model.model_)(model.model_.columns, model.bayesian_.at_means())
    values = model.table_.source(X).collect()
    j = list(X).index("real")
    _, variance = plug_in.conditional(values)
    assert np.all(std["real"][missing] > np.sqrt(variance[missing, j]))


# Refusals, and what is kept -------------------------------------------------------------------


@pytest.mark.parametrize("cls", [eg.BayesianPCA, eg.MixturePPCA])
def test_what_cannot_be_fitted_is_refused(cls):
    X = table(40)
    with pytest.raises(ValueError, match="there are only 9 Gaussian"):
        cls(n_components=10, columns=KINDS).fit(X)
    with pytest.raises(ValueError, match="text"):
        cls(n_components=1).fit(X)
    model = cls(n_components=1, columns=KINDS).fit(X)
    with pytest.raises(UnknownLevelError, match="west"):
        model.transform(X.assign(region="west"))


def test_pickles_and_model_files(fitted, tmp_path):
    X = table()
    eg.save(fitted, tmp_path / "m.egap")
    for again in (pickle.loads(pickle.dumps(fitted)), eg.load(tmp_path / "m.egap")):
        pd.testing.assert_frame_equal(again.impute(X), fitted.impute(X))
        np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
        np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
        for one, two in zip(again.intervals(X), fitted.intervals(X), strict=True):
            pd.testing.assert_frame_equal(one, two)
        draws = (next(m.sample_imputations(X, 1, random_state=1)) for m in (again, fitted))
        pd.testing.assert_frame_equal(*draws)
        assert again.kinds_ == fitted.kinds_


def test_an_interrupted_fit_goes_on(fitted, tmp_path):
    X, path = table(), tmp_path / "fit.checkpoint"
    with pytest.warns(UserWarning, match="did not converge"):
        clone(fitted).set_params(max_iter=7, checkpoint=path).fit(X)
    rest = clone(fitted).set_params(checkpoint=path).fit(X)
    assert rest.converged_
    assert not path.exists()
    if isinstance(fitted, eg.BayesianPCA):  # a mixture compares its starts after fewer steps
        assert rest.log_likelihood_ == pytest.approx(fitted.log_likelihood_, abs=1e-2)


def test_a_later_fit_forgets_the_kinds(fitted):
    X = table()
    plain = X[["real", "other", "income"]]
    how = {"columns": "numeric", "n_components": 0, "scale": True}
    if isinstance(fitted, eg.BayesianPCA):
        how["n_components"] = 1
    model = clone(fitted).fit(X).set_params(**how).fit(plain)
    assert not hasattr(model, "kinds_")
    fresh = clone(fitted).set_params(**how).fit(plain)
    pd.testing.assert_frame_equal(model.impute(plain), fresh.impute(plain))


CHECKS = [
    "check_dict_unchanged",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_n_features_in",
    "check_parameters_default_constructible",
    "check_set_output_transform_pandas",
    "check_transformer_general",
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("cls", [eg.BayesianPCA, eg.MixturePPCA])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(cls, check):
    model = cls(n_components=1, columns="auto")
    getattr(estimator_checks, check)(cls.__name__, model)
