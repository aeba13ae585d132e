"""Names of coordinates: scikit-learn's for the columns of a table, PC1, PC2, ... for readers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators._sklearn_compat import _check_feature_names_in


class NamedComponents:
    """Mixin of estimators with `n_components_`; subclasses give `_prefix`."""

    _prefix = "PC"

    def get_feature_names_out(self: Any, input_features: Any = None) -> Any:
        """Names of the columns that `transform` gives, as in scikit-learn: pca0, pca1, ..."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        name = type(self).__name__.lower()
        return np.array([f"{name}{k}" for k in range(self.n_components_)], dtype=object)

    @property
    def component_names_(self: Any) -> list[str]:
        """PC1, PC2, ...: what charts, reports and the command line call the components."""
        return [f"{self._prefix}{k + 1}" for k in range(self.n_components_)]
