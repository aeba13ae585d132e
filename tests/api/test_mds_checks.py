"""scikit-learn's checks of ClassicalMDS by other metrics than the default."""

import pytest
from tests.api.test_sklearn_checks import label, yielded

from eigengap.estimators.classical_mds import ClassicalMDS

CASES = {
    "manhattan": ClassicalMDS(metric="manhattan"),
    "cailliez": ClassicalMDS(1, metric="manhattan", correction="cailliez"),
    "precomputed": ClassicalMDS(metric="precomputed"),
    "gram": ClassicalMDS(metric="gram"),
    "auto": ClassicalMDS("auto"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        pytest.param(estimator, check, id=f"{name}-{label(check)}")
        for name, case in CASES.items()
        for estimator, check in yielded(case)
    ],
)
def test_check(estimator, check):
    check(estimator)
