"""Cases that need what pip cannot bring, and slow ones, are skipped by name with their reason.

With EIGENGAP_REQUIRE_ALL set (`make test-all`) slow cases run, and a case that cannot run fails.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from tests.kernels import described

REQUIRE_ALL = bool(os.environ.get("EIGENGAP_REQUIRE_ALL"))


DEBIAN = {  # packages that bring those of R
    "pcaMethods": "r-bioc-pcamethods",
    "FactoMineR": "r-cran-factominer",
    "psych": "r-cran-psych",
}


@cache
def why_no_r(package: str = "pcaMethods") -> str | None:
    """Why R with this package cannot be used here; None where it can."""
    if shutil.which("Rscript") is None:
        return f"Rscript is not installed (Debian: apt install r-base-core {DEBIAN[package]})"
    asks = f'quit(status = !requireNamespace("{package}", quietly = TRUE))'
    answer = subprocess.run(["Rscript", "-e", asks], capture_output=True, check=False)
    if answer.returncode != 0:
        return f"R lacks the package {package} (Debian: apt install {DEBIAN[package]})"
    return None


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@cache
def find_browser() -> str | None:
    """The Chromium of the system; EIGENGAP_BROWSER names another."""
    named = os.environ.get("EIGENGAP_BROWSER")
    return named or next((path for name in BROWSERS if (path := shutil.which(name))), None)


@cache
def why_no_browser() -> str | None:
    """Why no page can be opened here; None where one can."""
    if find_spec("playwright") is None:
        return "playwright is not installed (pip install playwright)"
    if find_browser() is None:
        return "Chromium is not installed (Debian: apt install chromium)"
    return None


def pytest_configure() -> None:
    # A shell lets its background jobs, and all that they start, ignore Ctrl-C: tests send it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return described()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slow") and not REQUIRE_ALL:
        pytest.skip("slow: runs with `make test-all`")
    for marker, why_not in (("needs_r", why_no_r), ("needs_browser", why_no_browser)):
        found = item.get_closest_marker(marker)
        reason = why_not(*found.args) if found else None
        if reason and REQUIRE_ALL:
            pytest.fail(f"EIGENGAP_REQUIRE_ALL is set, but {reason}", pytrace=False)
        if reason:
            pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The Chromium of the system, opened once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield opened
        opened.close()
