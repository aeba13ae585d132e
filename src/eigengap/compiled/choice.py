"""Whether a compiled kernel repays its price, and the E-step's kernel once it has been paid.

EIGENGAP_COMPILED = auto | always | never. Under auto the expected seconds of the NumPy twin are
compared with the price of importing numba and of compiling, or of loading what an earlier process
compiled and left on disk. `repays` and the markers serve every kernel; the rest is the E-step's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from eigengap.compiled.posterior_numpy import LARGEST_SWEEP
from eigengap.linalg import Array
from eigengap.runtime.user_cache import user_cache

LANES = 128  # columns that the kernel takes at a time; `posterior_numba` reads it from here
VARIABLE = "EIGENGAP_COMPILED"
MODES = ("auto", "always", "never")
PRICE_OF_LOADING = 0.7  # seconds: import numba, read the cache
PRICE_OF_COMPILING = 8.0  # seconds: import numba, compile
POSTERIOR = "posterior_numba"  # the module that compiles the E-step's kernel

Kernel = Callable[[Array, Array, Array, Array, int, int], int]

_kernel: Kernel | None = None
_loading = threading.Lock()


def mode() -> str:
    asked = os.environ.get(VARIABLE, "auto")
    if asked not in MODES:
        raise ValueError(f"{VARIABLE}={asked!r}: set it to one of {', '.join(MODES)}, or unset it")
    return asked


def pays(q: int, c: int, passes: int) -> bool:
    """Whether `passes` factorisations of c matrices q x q should go to the compiled kernel."""
    asked = mode()
    if asked != "auto":
        return asked == "always"
    gain = twin_seconds(q, c) - kernel_seconds(q, c)
    if _kernel is not None:
        return gain > 0
    return repays(gain * passes, is_cached)


def repays(gain: float, cached: Callable[[], bool], compiling: float = PRICE_OF_COMPILING) -> bool:
    """Whether `gain` seconds repay loading a kernel, or compiling one that is not `cached`."""
    if gain < PRICE_OF_LOADING or numba_version() is None:
        return False
    return gain > compiling or cached()


def twin_seconds(q: int, c: int) -> float:
    """Cost of the NumPy twin, fitted to measurements (q 1 .. 80, c 1 .. 4096, one core)."""
    if q <= LARGEST_SWEEP:
        return 6.6e-5 + 9.4e-6 * q + c * (9.6e-9 + 4.6e-9 * q + 1.93e-9 * q**3)
    return 1.3e-4 + 2.3e-6 * q + c * (3.4e-7 * q + 3.9e-8 * q**2)


def kernel_seconds(q: int, c: int) -> float:
    """Cost of the loaded kernel on one core, fitted likewise; it works on whole blocks of lanes."""
    columns = -(-c // LANES) * LANES
    return 2e-5 + columns * (1.7e-8 + 1.7e-9 * q**2 + 9e-11 * q**3)


def kernel() -> Kernel:
    """The compiled kernel; the first call pays the price."""
    global _kernel
    with _loading:
        if _kernel is None:
            from eigengap.compiled import posterior_numba

            _kernel = posterior_numba.factorise_columns
            if posterior_numba.cache_index is not None:
                _leave_marker(posterior_numba.cache_index)
        return _kernel


def _forget() -> None:
    """In a forked child: a thread of the parent may have held the lock."""
    global _loading
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# What an earlier process compiled is found by a marker of ours, for numba's own index cannot be
# read without importing numba. A marker that errs costs seconds, never a wrong result.


def is_cached(module: str = POSTERIOR) -> bool:
    """Whether that module, compiled by this numba for this processor, is on disk."""
    for marker in _markers(module):
        try:
            if Path(json.loads(marker.read_text())["index"]).is_file():
                return True
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return False


def numba_version() -> str | None:
    import importlib.metadata  # slow to import, and small work never comes here

    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return None


def _leave_marker(index: Path, module: str = POSTERIOR) -> None:
    """Next to numba's cache if possible; where nothing is writable the next process compiles."""
    for marker in _markers(module):
        part = marker.with_suffix(f".{os.getpid()}")
        try:
            marker.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps({"index": str(index)}))
            os.replace(part, marker)  # never a half-written marker
            return
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink()


def _markers(module: str) -> Iterator[Path]:
    name = f"eigengap-{_key(module)}.json"
    asked = os.environ.get("NUMBA_CACHE_DIR")
    if asked:
        yield Path(asked) / name
    yield Path(__file__).parent / "__pycache__" / name
    folder = user_cache()
    if folder is not None:
        yield folder / name


def _key(module: str) -> str:
    source = Path(__file__).with_name(f"{module}.py").read_bytes()
    facts = [
        str(numba_version()),
        sys.version,
        platform.machine(),
        _processor(),
        str(os.environ.get("NUMBA_CACHE_DIR")),
    ]
    return hashlib.sha256("\n".join(facts).encode() + source).hexdigest()[:16]


def _processor() -> str:
    """Model and instruction sets, for a cache in a shared home serves one processor only."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features")))
