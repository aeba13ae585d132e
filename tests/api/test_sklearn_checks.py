"""Every check that scikit-learn has for an estimator, also those it does not run by itself.

T30 of the reliability scorecard. Nothing is expected to fail, and nothing is skipped: the check
under array API dispatch, which needs an environment variable before SciPy is loaded, runs in a
process of its own.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from functools import partial

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import has_fit_parameter

import eigengap
from eigengap import registry

ESTIMATORS = [getattr(eigengap, entry.name) for entry in registry.ESTIMATORS]
TRANSFORMERS = [kind for kind in ESTIMATORS if hasattr(kind, "transform")]
NEEDS_ENVIRONMENT = "check_array_api_input"

# Fewer steps for what takes many, as in scikit-learn's own run of the checks; `make test-all` takes
# the defaults.
FEWER_STEPS = {
    eigengap.StructurePreservingEmbedding: {"n_init": 1, "max_iter": 4},
    eigengap.MaximumVarianceUnfolding: {"max_iter": 4},
    eigengap.GPLVM: {"max_iter": 30},
    eigengap.Autoencoder: {"max_iter": 20},
}


# Of these, `make test` runs what is most often broken, and `make test-all` every check.
AMONG_SLOW = (
    "check_estimators_pickle",
    "check_estimators_overwrite_params",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_get_feature_names_out_error",
    "check_n_features_in",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_param_validation",
    "check_set_output_transform_pandas",
    "check_transformer_general",
)


def marks_of(estimator, check):
    is_slow = type(estimator) in FEWER_STEPS and name_of(check) not in AMONG_SLOW
    return [pytest.mark.slow] if is_slow else []


def made(kind):
    return kind() if os.environ.get("EIGENGAP_REQUIRE_ALL") else kind(**FEWER_STEPS.get(kind, {}))


# For other kinds of estimators, or parts of other checks: they take more than (name, estimator),
# or return at once for a transformer without targets.
FOREIGN_PREFIXES = (
    "check_class_weight",
    "check_classifier",
    "check_cluster",
    "check_decision",
    "check_outlier",
    "check_regressor",
    "check_supervised",
)
OF_TRANSFORMERS = (
    "check_get_feature_names_out",
    "check_global_",
    "check_set_output",
    "check_transformer",
)
OF_WEIGHTS = ("check_all_zero_sample_weights", "check_sample_weight")
FOREIGN = {
    "check_array_api_input",  # runs below; the others of this family are for arrays of other
    "check_array_api_input_and_values",  # libraries, which the estimators do not claim to take
    "check_array_api_mixed_inputs",
    "check_array_api_same_namespace",
    "check_estimator",  # runs the others
    "check_estimators_data_not_an_array",  # takes data: part of others
    "check_estimators_nan_inf",  # for estimators that refuse NaN
    "check_estimators_partial_fit_n_features",  # yielded where there is a partial_fit
    "check_fit_non_negative",  # for estimators of positive data
    "check_is_fitted",  # utilities that the module imports
    "check_non_transformer_estimators_n_iter",
    "check_nonsquare_error",  # for pairwise input
    "check_requires_y_none",  # for estimators that need y
    "check_sparsify_coefficients",  # there is no sparsify
    "check_transformers_unfitted_stateless",  # for transformers that need no fit
}


def name_of(check) -> str:
    return check.func.__name__ if isinstance(check, partial) else check.__name__


def yielded(estimator):
    """(estimator, check) pairs that scikit-learn itself would run."""
    pairs = estimator_checks_generator(estimator)
    return [pair for pair in pairs if name_of(pair[1]) != NEEDS_ENVIRONMENT]


def not_yielded(estimator):
    """Checks of scikit-learn's module that fit an estimator but that it leaves out."""
    known = {name_of(check) for _, check in yielded(estimator)} | FOREIGN
    foreign = FOREIGN_PREFIXES + (() if hasattr(estimator, "transform") else OF_TRANSFORMERS)
    foreign += () if has_fit_parameter(estimator, "sample_weight") else OF_WEIGHTS
    return [
        check
        for name, check in inspect.getmembers(estimator_checks, inspect.isfunction)
        if name.startswith("check_")
        and check.__module__ == estimator_checks.__name__
        and not name.startswith(foreign)
        and name not in known
    ]


def label(value) -> str:
    if isinstance(value, partial):
        options = [f"{key}={setting}" for key, setting in value.keywords.items()]
        return "-".join([name_of(value), *options])
    return getattr(value, "__name__", type(value).__name__)


def listed_by_default():
    defaults = [
        pytest.param(
            estimator,
            check,
            id=f"{type(estimator).__name__}-{label(check)}",
            marks=marks_of(estimator, check),
        )
        for kind in ESTIMATORS
        for estimator, check in yielded(made(kind))
    ]
    return (
        defaults
        + [
            pytest.param(estimator, check, id=f"{type(estimator).__name__}-student-{label(check)}")
            for kind in (eigengap.PPCA, eigengap.FactorAnalysis)
            for estimator, check in yielded(kind(1, distribution="student", tol=1e-8))
        ]
        + [
            pytest.param(estimator, check, id=f"{type(estimator).__name__}-columns-{label(check)}")
            for kind in (eigengap.PPCA, eigengap.FactorAnalysis)
            for estimator, check in yielded(kind(1, columns="auto", tol=1e-8))
        ]
    )


def left_out_by_default():
    return [
        pytest.param(
            kind, check, id=f"{kind.__name__}-{label(check)}", marks=marks_of(kind(), check)
        )
        for kind in ESTIMATORS
        for check in not_yielded(kind())
    ]


@pytest.mark.parametrize(("estimator", "check"), listed_by_default())
def test_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("kind", "check"), left_out_by_default())
def test_check_that_is_not_run_by_default(kind, check):
    check(kind.__name__, made(kind))


@pytest.mark.parametrize("kind", TRANSFORMERS, ids=lambda kind: kind.__name__)
def test_the_left_out_checks_are_found(kind):
    found = {name_of(check) for check in not_yielded(kind())}
    assert found >= {
        "check_dataframe_column_names_consistency",
        "check_get_feature_names_out_error",
        "check_global_output_transform_pandas",
        "check_global_set_output_transform_polars",
        "check_inplace_ensure_writeable",
        "check_param_validation",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
    }


UNDER_DISPATCH = """
import sys

import eigengap
from sklearn.utils.estimator_checks import check_array_api_input

for name in sys.argv[1:]:
    estimator = getattr(eigengap, name)()
    if "n_components" in estimator.get_params():
        estimator.set_params(n_components=2)
    check_array_api_input(
        name, estimator, array_namespace="numpy", expect_only_array_outputs=False
    )
    print(name)
"""


@pytest.mark.slow
def test_array_api_dispatch_changes_nothing():
    """The one check that scikit-learn skips unless SCIPY_ARRAY_API is set at the start.

    Its data have rank 8 in 10 columns, and it asks for `score`: with all 8 components, PCA's
    default, they have no density and `score` says so, hence n_components=2.
    """
    names = [kind.__name__ for kind in ESTIMATORS]
    done = subprocess.run(
        [sys.executable, "-c", UNDER_DISPATCH, *names],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == names
