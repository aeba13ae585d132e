"""What a new user meets: import, first fit, memory, an install that nobody may write to."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.table import Row, check, limit
from benchmarks.timing import FailedError, environment, in_new_process

IMPORT_SECONDS = 0.15
FIRST_FIT_SECONDS = 1.0
TIMES_DATA = 5.0
MEGABYTE = 1e6


def run(quick: bool = False) -> list[Row]:
    repeats = 3 if quick else 9
    parts: list[tuple[str, Callable[[], list[Row]]]] = [
        ("import", lambda: _imports(repeats)),
        ("first fit", lambda: _first_fit(repeats)),
        ("memory", _memory),
        ("read-only install", _read_only),
    ]
    rows = []
    for name, part in parts:
        print(name, file=sys.stderr, flush=True)
        rows += part()
    return rows


# Import --------------------------------------------------------------------------------------


def _imports(repeats: int) -> list[Row]:
    found = [_import_seconds() for _ in range(repeats)]
    numpy, package, estimator = (statistics.median(f[k] for f in found) for k in range(3))
    note = f"median of {repeats}; numpy {numpy:.3f} s; then eigengap.PPCA {estimator:.2f} s more"
    return [limit("import eigengap", "beyond import numpy", package, "s", IMPORT_SECONDS, note)]


def _import_seconds() -> list[float]:
    """import numpy, import eigengap after it, and the first touch of an estimator after that."""
    code = (
        "from time import perf_counter as t; a = t(); import numpy; b = t(); import eigengap; "
        "c = t(); eigengap.PPCA; d = t(); print(b - a, c - b, d - c)"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


# First fit -----------------------------------------------------------------------------------


def _first_fit(repeats: int) -> list[Row]:
    case = data.small()
    found = []
    for _ in range(repeats):
        with _empty_caches() as env:
            found.append(in_new_process(f"{__name__}:first_fit", case.X, case.q, env=env))
    first = statistics.median(f["first"] for f in found)
    second = statistics.median(f["second"] for f in found)
    note = f"median of {repeats}, empty caches; the second fit {second:.3f} s"
    measure = "first fit of a process, beyond imports"
    return [limit(case.name, measure, first, "s", FIRST_FIT_SECONDS, note)]


def first_fit(X: np.ndarray, q: int) -> dict[str, float]:
    import scipy.linalg  # noqa: F401
    import sklearn.base  # noqa: F401

    from eigengap.estimators.ppca import PPCA

    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        PPCA(q).fit(X)
        seconds.append(time.perf_counter() - start)
    return {"first": seconds[0], "second": seconds[1]}


@contextmanager
def _empty_caches() -> Iterator[dict[str, str | None]]:
    """Nothing compiled is found: numba's folder and the user's cache are new and empty."""
    with tempfile.TemporaryDirectory() as folder:
        yield {
            "NUMBA_CACHE_DIR": str(Path(folder, "numba")),
            "XDG_CACHE_HOME": folder,
            "EIGENGAP_COMPILED": None,
        }


# Memory --------------------------------------------------------------------------------------


def _memory() -> list[Row]:
    case = data.tall()
    size = case.X.nbytes / MEGABYTE
    rows = []
    for words, kernel in (("nothing compiled", "never"), ("compiled kernel at hand", "always")):
        env = {"EIGENGAP_COMPILED": kernel}
        in_new_process(f"{__name__}:peak_resident", case.X[:500], case.q, env=env)  # compiles
        allocated = in_new_process(f"{__name__}:peak_allocated", case.X, case.q, env=env)
        resident = in_new_process(f"{__name__}:peak_resident", case.X, case.q, env=env)
        label = f"{case.name} ({words})"
        for measure, peak in (
            ("peak allocated by the fit (tracemalloc)", allocated),
            ("peak resident memory beyond the process before the fit", resident),
        ):
            times = peak / size
            note = f"{peak:.0f} MB; the data are {size:.0f} MB"
            rows.append(limit(label, measure, times, "times the data", TIMES_DATA, note))
    return rows


def peak_allocated(X: np.ndarray, q: int) -> float:
    """Megabytes, without X itself."""
    import tracemalloc

    estimator = _warm(X, q)
    tracemalloc.start()
    estimator.fit(X)
    return tracemalloc.get_traced_memory()[1] / MEGABYTE


def peak_resident(X: np.ndarray, q: int) -> float:
    """Megabytes by which the high-water mark exceeds that before the fit."""
    estimator = _warm(X, q)
    before = _high_water()
    estimator.fit(X)
    return (_high_water() - before) / MEGABYTE


def _warm(X: np.ndarray, q: int) -> Any:
    """An estimator after a small fit: code that is loaded once is not memory of the fit."""
    from eigengap import PPCA

    PPCA(q).fit(X[:200])
    return PPCA(q)


def _high_water() -> int:
    """Bytes. On Linux from /proc, for there ru_maxrss begins at the parent's size."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


# Read-only install ---------------------------------------------------------------------------


def _read_only() -> list[Row]:
    case = "package folder and home without write permission"
    prefix = _bound_by_permissions()
    if prefix is None:
        note = "root may write anywhere: needs setpriv (apt install util-linux) or another user"
        return [check(case, "fit", None, note)]
    return [_read_only_row(case, prefix, kernel) for kernel in ("auto", "always")]


def _bound_by_permissions() -> list[str] | None:
    """A command under which permissions bind: root loses the right to override them."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        return None
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--"]


def _read_only_row(case: str, prefix: list[str], kernel: str) -> Row:
    import eigengap

    measure = f"fit, EIGENGAP_COMPILED={kernel}"
    table = data.small()
    with tempfile.TemporaryDirectory() as folder:
        site, home = Path(folder, "site"), Path(folder, "home")
        home.mkdir()
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(eigengap.__file__).parent, site / "eigengap", ignore=ignored)
        _write_protect(site, home)
        env = {"HOME": str(home), "XDG_CACHE_HOME": None, "NUMBA_CACHE_DIR": None}
        env["EIGENGAP_COMPILED"] = kernel
        try:
            found = in_new_process(
                f"{__name__}:fit_where_nothing_is_writable", table.X, table.q, str(home),
                env=env, prefix=prefix, first_path=site,
            )  # fmt: skip
        except FailedError as error:
            return check(case, measure, False, str(error))
        finally:
            _write_protect(site, home, protect=False)
    here = in_new_process(f"{__name__}:fitted_likelihood", table.X, table.q)
    same = abs(found["log_likelihood"] - here) < 1e-6 * abs(here)
    moved = found["package"] == str(site / "eigengap")
    protected = not any(found["writable"].values())
    note = f"{found['seconds']:.2f} s; likelihood as from the usual install: {same}"
    if not (moved and protected):
        return check(case, measure, None, f"the folder was not write-protected: {found}")
    return check(case, measure, same, note, **found)


def fit_where_nothing_is_writable(X: np.ndarray, q: int, home: str) -> dict[str, Any]:
    import eigengap

    package = Path(eigengap.__file__).parent
    start = time.perf_counter()
    log_likelihood = fitted_likelihood(X, q)
    seconds = time.perf_counter() - start
    folders = {"package": package, "compiled": package / "compiled", "home": Path(home)}
    return {
        "package": str(package),
        "writable": {name: _can_write(folder) for name, folder in folders.items()},
        "seconds": seconds,
        "log_likelihood": log_likelihood,
    }


def fitted_likelihood(X: np.ndarray, q: int) -> float:
    from eigengap import PPCA

    return float(PPCA(q).fit(X).log_likelihood_)


def _can_write(folder: Path) -> bool:
    probe = folder / "probe"
    try:
        probe.write_text("")
    except OSError:
        return False
    probe.unlink()
    return True


def _write_protect(*folders: Path, protect: bool = True) -> None:
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode & ~0o222 if protect else mode | 0o200)
