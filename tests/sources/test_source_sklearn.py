"""scikit-learn's own checks of input validation, on an estimator that does nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import estimator_checks as checks

from eigengap.sources import as_source


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


@pytest.mark.parametrize(
    "check",
    [
        checks.check_complex_data,
        checks.check_dtype_object,
        checks.check_estimators_empty_data_messages,
        checks.check_fit1d,
        checks.check_fit2d_1feature,
        checks.check_fit2d_1sample,
        checks.check_fit2d_predict1d,
        checks.check_f_contiguous_array_estimator,
        checks.check_readonly_memmap_input,
        checks.check_positive_only_tag_during_fit,
        checks.check_estimator_sparse_tag,
        checks.check_estimator_sparse_array,
        checks.check_estimator_sparse_matrix,
        checks.check_all_zero_sample_weights_error,
        checks.check_sample_weights_pandas_series,
        checks.check_sample_weights_not_an_array,
        checks.check_sample_weights_list,
        checks.check_sample_weights_shape,
        checks.check_sample_weights_not_overwritten,
        checks.check_sample_weight_equivalence_on_dense_data,
        checks.check_sample_weight_equivalence_on_sparse_data,
        checks.check_transformer_data_not_an_array,
        checks.check_transformer_general,
    ],
    ids=lambda check: check.__name__,
)
def test_scikit_learn_check(check):
    check("Centring", Centring())
