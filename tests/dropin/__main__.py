"""`make test-dropin`: scikit-learn's own tests with our classes in their place."""

import os
import sys
from pathlib import Path

import pytest
import sklearn
from tests.dropin.plugin import CLASSES

# Seeds and options of scikit-learn's conftest, so that every run is the same run.
FIXED = {
    "SKLEARN_SEED": "42",
    "SKLEARN_TESTS_GLOBAL_RANDOM_SEED": "42",
    "SKLEARN_RUN_FLOAT32_TESTS": "0",
    "SKLEARN_SKIP_NETWORK_TESTS": "1",
    "SKLEARN_WARNINGS_AS_ERRORS": "0",
}


def main(arguments: list[str]) -> int:
    os.environ |= FIXED
    home = Path(sklearn.__file__).parent
    given = [str(home / path) for path in CLASSES]
    # Neither our configuration nor our conftest: scikit-learn's own is found beside its tests.
    plain = ["-c", os.devnull, f"--rootdir={home}", "-p", "no:cacheprovider", "-q", "-W", "ignore"]
    return pytest.main([*plain, "-p", "tests.dropin.plugin", *arguments, *given])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
