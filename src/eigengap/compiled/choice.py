"""Whether compiled kernels repay their price, and the kernels once it has been paid.

EIGENGAP_COMPILED = auto | always | never. Under auto the expected seconds of the NumPy twin are
compared with the price of importing numba and of compiling, or of loading what an earlier process
compiled and left on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import platform
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from eigengap.runtime.user_cache import user_cache

VARIABLE = "EIGENGAP_COMPILED"
MODES = ("auto", "always", "never")
PRICE_OF_LOADING = 0.7  # seconds: import numba, read the cache


class Kernels:
    """The compiled functions of one module of this folder, loaded at their first use."""

    def __init__(self, module: str, compiling: float) -> None:
        self.module = module
        self.compiling = compiling  # seconds: import numba, compile
        self.loaded: Any = None
        self._new_lock()
        if hasattr(os, "register_at_fork"):  # a thread of the parent may have held the lock
            os.register_at_fork(after_in_child=self._new_lock)

    def _new_lock(self) -> None:
        self._lock = threading.Lock()

    def pay(self, gain: float) -> bool:
        """Whether to use them where that saves `gain` seconds."""
        asked = os.environ.get(VARIABLE, "auto")
        if asked not in MODES:
            raise ValueError(
                f"{VARIABLE}={asked!r}: set it to one of {', '.join(MODES)}, or unset it"
            )
        if asked != "auto":
            return asked == "always"
        if self.loaded is not None:
            return gain > 0
        if gain < PRICE_OF_LOADING or numba_version() is None:
            return False
        return gain > self.compiling or is_cached(self.module)

    def load(self) -> Any:
        """The module; the first call pays the price."""
        with self._lock:
            if self.loaded is None:
                module = importlib.import_module(f"eigengap.compiled.{self.module}")
                if module.cache_index is not None:
                    _leave_marker(module.cache_index, self.module)
                self.loaded = module
            return self.loaded


# What an earlier process compiled is found by a marker of ours, for numba's own index cannot be
# read without importing numba. A marker that errs costs seconds, never a wrong result.


def is_cached(module: str) -> bool:
    """Whether that module, compiled by this numba for this processor, is on disk."""
    for marker in _markers(module):
        try:
            if Path(json.loads(marker.read_text())["index"]).is_file():
                return True
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return False


@cache
def numba_version() -> str | None:
    import importlib.metadata  # slow to import, and small work never comes here

    try:
        return importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        return None


def _leave_marker(index: Path, module: str) -> None:
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
