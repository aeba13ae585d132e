"""Compiling by numba, with what was compiled kept on disk for the next process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

# numpy's error model: a zero pivot gives inf, found afterwards, rather than a branch that would
# forbid SIMD. "contract" allows fused multiply-add; NaN and infinities keep their meaning.
OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}


F = TypeVar("F", bound=Callable[..., Any])


def part(**how: Any) -> Callable[[F], F]:
    """Decorator of a function that kernels of its module call: it is compiled with them."""
    return cast("Callable[[F], F]", numba.njit(**how, **OPTIONS))


def compile_cached(function: Callable[..., Any], signature: Any) -> tuple[Any, Path | None]:
    """The compiled function and the index file of its cache, None where there is no cache.

    numba itself looks for a writable place: NUMBA_CACHE_DIR, the __pycache__ next to the source,
    the user's cache directory; it raises RuntimeError where it finds none. A cache that fails (full
    disk, damaged file) must not stop a fit either.
    """
    compiled = numba.njit(nogil=True, **OPTIONS)(function)
    try:
        _require_place(function)
        compiled.enable_caching()
        compiled.compile(signature)
        return compiled, Path(compiled._cache._cache_file._index_path)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError):
        compiled = numba.njit(nogil=True, **OPTIONS)(function)
        compiled.compile(signature)
        return compiled, None


def _require_place(function: Callable[..., Any]) -> None:
    """Refuse a cache that numba would put into a new folder "~", for want of a home."""
    if os.path.expanduser("~") != "~" or {"XDG_CACHE_HOME", "NUMBA_CACHE_DIR"} & set(os.environ):
        return
    folder = Path(function.__code__.co_filename).parent
    pycache = folder / "__pycache__"
    if not os.access(pycache if pycache.exists() else folder, os.W_OK | os.X_OK):
        raise RuntimeError("there is no place for a cache")
