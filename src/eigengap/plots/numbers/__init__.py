"""The numbers behind the charts: pure functions from a fitted estimator to arrays. No Altair."""

from eigengap.plots.numbers.missing import calibration, imputations, missingness_summary
from eigengap.plots.numbers.names import label, labels, names_of
from eigengap.plots.numbers.outliers import outlier_numbers
from eigengap.plots.numbers.rows import Table, table_of
from eigengap.plots.numbers.scores import (
    linear_view,
    mixture_numbers,
    score_ellipses,
    score_names,
    scores_of,
)
from eigengap.plots.numbers.spectrum import (
    MarchenkoPastur,
    against_noise,
    eigenvalues,
    trace_numbers,
)
from eigengap.plots.numbers.variables import (
    biplot_numbers,
    correlations,
    row_contributions,
    row_cos2,
    variable_contributions,
    variable_cos2,
)

__all__ = [
    "MarchenkoPastur",
    "Table",
    "against_noise",
    "biplot_numbers",
    "calibration",
    "correlations",
    "eigenvalues",
    "imputations",
    "label",
    "labels",
    "linear_view",
    "missingness_summary",
    "mixture_numbers",
    "names_of",
    "outlier_numbers",
    "row_contributions",
    "row_cos2",
    "score_ellipses",
    "score_names",
    "scores_of",
    "table_of",
    "trace_numbers",
    "variable_contributions",
    "variable_cos2",
]
