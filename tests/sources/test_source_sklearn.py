"""scikit-learn's own checks of input validation, on an estimator that does nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import estimator_checks as checks

from eigengap.sources.conversion import as_source


class Centring(TransformerMixin, BaseEstimator):
    """Subtracts the weighted mean of what is seen."""

    def fit(self, X, y=None, sample_weight=None):
        source = as_source(X, sample_weight=sample_weight)
        source.require_fit()
        values = source.collect()
        values = values.toarray() if source.is_sparse else values
        weight = source.map(
            lambda block: np.ones(block.n_rows) if block.weight is None else block.weight
        )
        self.n_features_in_ = source.n_features
        self.mean_ = np.average(np.nan_to_num(values), axis=0, weights=weight)
        return self

    def transform(self, X):
        values = as_source(X).collect()
        return (values.toarray() if not isinstance(values, np.ndarray) else values) - self.mean_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


# By name: older versions of scikit-learn lack some.
CHECKS = (
    "check_complex_data",
    "check_dtype_object",
    "check_estimators_empty_data_messages",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_f_contiguous_array_estimator",
    "check_readonly_memmap_input",
    "check_positive_only_tag_during_fit",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_all_zero_sample_weights_error",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
)


@pytest.mark.parametrize("check", [name for name in CHECKS if hasattr(checks, name)])
def test_scikit_learn_check(check):
    getattr(checks, check)("Centring", Centring())
