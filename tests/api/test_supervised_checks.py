"""scikit-learn's checks for classifiers, regressors and outlier detectors that it leaves out.

Those that it runs by itself are in test_sklearn_checks.py; here are those of its module that it
does not yield for them, and that apply (T30 of the reliability scorecard).
"""

from __future__ import annotations

import inspect
from functools import partial

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from eigengap.estimators.classifier import PPCAClassifier
from eigengap.estimators.novelty import NoveltyDetector
from eigengap.estimators.regressor import PPCARegressor

ESTIMATORS = [PPCAClassifier, PPCARegressor, NoveltyDetector]

# Not for these kinds: transformers, other kinds of estimators than each, NaN that must be refused,
# array API dispatch, class weights and several labels a row, which the classifier does not take.
FOREIGN_PREFIXES = (
    "check_array_api",
    "check_class_weight",
    "check_cluster",
    "check_global_",
    "check_set_output",
    "check_transformer",
    "check_classifiers_multilabel",
)
FOREIGN = {
    "check_classifier_multioutput",
    "check_classifier_not_supporting_multiclass",
    "check_classifiers_predictions",  # parts of others, with arguments of their own
    "check_estimator",
    "check_estimators_data_not_an_array",
    "check_estimators_nan_inf",
    "check_estimators_partial_fit_n_features",
    "check_fit_non_negative",
    "check_get_feature_names_out_error",
    "check_is_fitted",
    "check_nonsquare_error",
    "check_outlier_corruption",
    "check_sparsify_coefficients",
}
OTHER_KINDS = {
    PPCAClassifier: ("check_outlier", "check_regressor"),
    PPCARegressor: ("check_outlier", "check_classifier"),
    NoveltyDetector: ("check_classifier", "check_regressor", "check_supervised"),
}


def name_of(check) -> str:
    return check.func.__name__ if isinstance(check, partial) else check.__name__


def label(value) -> str:
    options = [f"{k}={v}" for k, v in getattr(value, "keywords", {}).items()]
    return "-".join([name_of(value), *options])


def yielded(kind):
    pairs = estimator_checks_generator(kind())
    return [pair for pair in pairs if not name_of(pair[1]).startswith("check_array_api")]


def not_yielded(kind):
    known = {name_of(check) for _, check in yielded(kind)} | FOREIGN
    return [
        check
        for name, check in inspect.getmembers(estimator_checks, inspect.isfunction)
        if name.startswith("check_")
        and check.__module__ == estimator_checks.__name__
        and not name.startswith((*FOREIGN_PREFIXES, *OTHER_KINDS[kind]))
        and name not in known
    ]


@pytest.mark.filterwarnings("ignore")  # about tables of a few rows, which are not the point here
@pytest.mark.parametrize(
    ("kind", "check"),
    [
        pytest.param(kind, check, id=f"{kind.__name__}-{label(check)}")
        for kind in ESTIMATORS
        for check in not_yielded(kind)
    ],
)
def test_check_that_is_not_run_by_default(kind, check):
    check(kind.__name__, kind())


# Without components a fit has one maximum, which rows and their weights reach alike.
BEHIND_COLUMNS = [PPCAClassifier(0, columns="auto")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-columns-{label(check)}")
        for own in BEHIND_COLUMNS
        for estimator, check in estimator_checks_generator(own)
        if not name_of(check).startswith("check_array_api")
    ],
)
def test_check_with_columns_of_several_kinds(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_the_left_out_checks_are_found(kind):
    found = {name_of(check) for check in not_yielded(kind)}
    assert found >= {
        "check_dataframe_column_names_consistency",
        "check_inplace_ensure_writeable",
        "check_param_validation",
    }
