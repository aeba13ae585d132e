"""The private names of scikit-learn that estimators use: no other module imports one."""

from sklearn.base import _fit_context as _fit_context
from sklearn.utils._param_validation import HasMethods as HasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import Options as Options
from sklearn.utils._param_validation import RealNotInt as RealNotInt
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils._repr_html.estimator import _VisualBlock as _VisualBlock
from sklearn.utils._set_output import _get_output_config as _get_output_config
from sklearn.utils.validation import _check_feature_names_in as _check_feature_names_in
from sklearn.utils.validation import _check_y as _check_y
from sklearn.utils.validation import _get_feature_names as _get_feature_names
