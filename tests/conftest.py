"""Cases that need what pip cannot bring, and slow ones, are skipped by name with their reason.

With EIGENGAP_REQUIRE_ALL set (`make test-all`) slow cases run, and a case that cannot run fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

import pytest

REQUIRE_ALL = bool(os.environ.get("EIGENGAP_REQUIRE_ALL"))


@cache
def why_no_r() -> str | None:
    """Why R with pcaMethods cannot be used here; None where it can."""
    if shutil.which("Rscript") is None:
        return "Rscript is not installed (Debian: apt install r-base-core r-bioc-pcamethods)"
    asks = 'quit(status = !requireNamespace("pcaMethods", quietly = TRUE))'
    answer = subprocess.run(["Rscript", "-e", asks], capture_output=True, check=False)
    if answer.returncode != 0:
        return "R lacks the package pcaMethods (Debian: apt install r-bioc-pcamethods)"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and not REQUIRE_ALL:
        pytest.skip("slow: runs with `make test-all`")
    if item.get_closest_marker("needs_r"):
        reason = why_no_r()
        if reason and REQUIRE_ALL:
            pytest.fail(f"EIGENGAP_REQUIRE_ALL is set, but {reason}", pytrace=False)
        if reason:
            pytest.skip(reason)
