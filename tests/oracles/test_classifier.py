"""PPCAClassifier against Bayes' rule by brute force and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.mixture import GaussianMixture
from tests import dense

from eigengap import Autoencoder, FactorAnalysis
from eigengap.estimators.classifier import PPCAClassifier
from eigengap.exceptions import NoiseFloorWarning


def iris(share=0.0, seed=0):
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(seed)
    return np.where(rng.random(X.shape) < share, np.nan, X), y


def log_joint(classifier, X):
    """ln pi_k N(x_o | mu_k, C_k) in the units of the data, one dense Gaussian a row and class."""
    unit = 1.0 if classifier.scale_ is None else classifier.scale_
    columns = []
    for prior, model in zip(classifier.class_prior_, classifier.models_, strict=True):
        C = (
            model.get_covariance() * np.outer(unit, unit)
            if np.ndim(unit)
            else model.get_covariance()
        )
        columns.append(np.log(prior) + dense.log_likelihood(X, model.mean_ * unit, C))
    return np.column_stack(columns)


@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_bayes_rule_by_brute_force(noise, scale, share):
    X, y = iris(share)
    X[0] = np.nan  # nothing seen: the prior
    classifier = PPCAClassifier(1, noise=noise, scale=scale, tol=1e-4).fit(X, y)
    joint = log_joint(classifier, X)
    evidence = np.logaddexp.reduce(joint, axis=1)
    posterior = np.exp(joint - evidence[:, None])
    np.testing.assert_allclose(classifier.predict_proba(X), posterior, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(classifier.score_samples(X), evidence, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(classifier.decision_function(X), joint, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(classifier.predict(X), joint.argmax(axis=1))
    np.testing.assert_allclose(classifier.predict_proba(X[:1])[0], classifier.class_prior_)


def test_all_components_but_one_are_quadratic_discriminant_analysis():
    X, y = iris()
    ours = PPCAClassifier(3).fit(X, y)
    theirs = QuadraticDiscriminantAnalysis().fit(X, y)
    for k, model in enumerate(ours.models_):
        ml = np.cov(X[y == k].T, bias=True)
        np.testing.assert_allclose(
            model.get_covariance() * np.outer(ours.scale_, ours.scale_), ml, rtol=1e-8, atol=1e-12
        )
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_two_classes_decide_by_log_odds_and_strings_are_labels():
    X, y = iris(0.1)
    names = np.array(["setosa", "versicolor"])[y[:100]]
    classifier = PPCAClassifier(1).fit(X[:100], names)
    assert list(classifier.classes_) == ["setosa", "versicolor"]
    log_odds = classifier.decision_function(X[:100])
    assert log_odds.shape == (100,)
    proba = classifier.predict_log_proba(X[:100])
    np.testing.assert_allclose(log_odds, proba[:, 1] - proba[:, 0], rtol=1e-9, atol=1e-9)
    assert classifier.score(X[:100], names) == 1.0


def test_given_priors_shift_the_posterior_by_their_ratio():
    X, y = iris()
    learned = PPCAClassifier(1).fit(X, y)
    prior = np.array([0.1, 0.2, 0.7])
    given = PPCAClassifier(1, priors=prior).fit(X, y)
    shifted = learned.predict_log_proba(X) + np.log(prior * 3)
    shifted -= np.logaddexp.reduce(shifted, axis=1)[:, None]
    np.testing.assert_allclose(given.predict_log_proba(X), shifted, rtol=1e-7, atol=1e-9)
    never = PPCAClassifier(1, priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert set(never.predict(X)) == {0, 1}


def test_weights_are_repeated_rows():
    X, y = iris(0.1)
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    weighted = PPCAClassifier(1, tol=1e-9).fit(X, y, sample_weight=weight)
    repeated = PPCAClassifier(1, tol=1e-9).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(weighted.class_prior_, repeated.class_prior_)


def test_a_class_of_weight_zero_is_absent():
    X, y = iris()
    classifier = PPCAClassifier(1).fit(X, y, sample_weight=(y != 1).astype(float))
    assert list(classifier.classes_) == [0, 2]


def test_units_do_not_matter():
    X, y = iris(0.2)
    unit = np.array([1e-3, 1.0, 1e4, 10.0])
    plain, other = PPCAClassifier(2).fit(X, y), PPCAClassifier(2).fit(X * unit, y)
    np.testing.assert_allclose(other.predict_proba(X * unit), plain.predict_proba(X), atol=1e-6)
    jacobian = ~np.isnan(X) @ np.log(unit)
    np.testing.assert_allclose(
        other.score_samples(X * unit), plain.score_samples(X) - jacobian, atol=1e-4
    )


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, scipy.sparse.csr_array])
def test_tables_of_any_kind(table):
    X, y = iris()
    named = {pd.DataFrame: {"columns": list("abcd")}, pl.DataFrame: {"schema": list("abcd")}}
    given = table(X, **named.get(table, {}))
    labels = pd.Series(y) if table is pd.DataFrame else y
    np.testing.assert_allclose(
        PPCAClassifier(1).fit(given, labels).predict_proba(given),
        PPCAClassifier(1).fit(X, y).predict_proba(X),
        atol=1e-8,
    )


def test_any_density_per_class():
    X, y = iris()
    classifier = PPCAClassifier(estimator=GaussianMixture(2, random_state=0)).fit(X, y)
    assert classifier.score(X, y) > 0.95
    assert isinstance(classifier.models_[0], GaussianMixture)
    by_factors = PPCAClassifier(estimator=FactorAnalysis(1)).fit(X, y)
    np.testing.assert_allclose(
        by_factors.decision_function(X),
        PPCAClassifier(1, noise="diagonal").fit(X, y).decision_function(X),
        rtol=1e-6,
    )
    with pytest.raises(ValueError, match="n_components=2 has no effect"):
        PPCAClassifier(2, estimator=FactorAnalysis(1)).fit(X, y)


def test_a_class_that_is_too_small_is_named():
    X, y = iris()
    few = np.r_[0:50, 50:54, 100:150]
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    with pytest.raises(
        ValueError, match='class "versicolor" has 4 rows, too few for n_components=3'
    ):
        PPCAClassifier(3).fit(X[few], names[few])
    adapted = PPCAClassifier().fit(X[few], names[few])
    assert adapted.models_[1].n_components_ < 3
    one = np.r_[0:50, 50:51, 100:150]
    with pytest.raises(ValueError, match=r'class "versicolor" has 1 row\(s\)'):
        PPCAClassifier().fit(X[one], names[one])
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame.loc[y == 2, "c"] = np.nan
    with pytest.raises(ValueError, match='class "virginica" has no value in column "c"'):
        PPCAClassifier().fit(frame, names)


def test_a_class_on_a_line_takes_the_noise_of_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.repeat(["a", "b"], 30)
    X[30:, 1:] = 0.0
    with pytest.warns(NoiseFloorWarning, match='class "b"'):
        classifier = PPCAClassifier(scale=False).fit(X, y)
    noise = classifier.models_[0].noise_variance_
    assert classifier.models_[1].noise_variance_ == pytest.approx(noise)
    assert np.isfinite(classifier.decision_function(X)).all()
    with pytest.raises(ValueError, match='class "b" has no density'):
        PPCAClassifier(1, scale=False).fit(X, y)


def test_bad_priors_are_told():
    X, y = iris()
    with pytest.raises(ValueError, match="there are 3 classes: 0, 1, 2"):
        PPCAClassifier(1, priors=[0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="sum to 1"):
        PPCAClassifier(1, priors=[0.5, 0.5, 0.5]).fit(X, y)
    with pytest.raises(ValueError, match="y contains NaN"):
        PPCAClassifier(1).fit(X, np.where(y == 0, np.nan, y))


def test_a_fit_that_fails_leaves_the_earlier_one():
    X, y = iris()
    classifier = PPCAClassifier(1).fit(X, y)
    before = classifier.predict_proba(X)
    with pytest.raises(ValueError, match="too few"):
        classifier.fit(np.ones((3, 2)), [0, 1, 2])
    np.testing.assert_array_equal(classifier.predict_proba(X), before)


def test_a_class_needs_a_density_and_an_autoencoder_is_none():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(ValueError, match="Autoencoder is no density"):
        PPCAClassifier(estimator=Autoencoder(1)).fit(X, y)
