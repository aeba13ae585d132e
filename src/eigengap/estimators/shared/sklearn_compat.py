"""The private names of scikit-learn that estimators use: no other module imports one."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, Options, RealNotInt, StrOptions
from sklearn.utils._repr_html.estimator import _VisualBlock
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_feature_names_in, _check_y, _get_feature_names

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "RealNotInt",
    "StrOptions",
    "_VisualBlock",
    "_check_feature_names_in",
    "_check_y",
    "_fit_context",
    "_get_feature_names",
    "_get_output_config",
]
