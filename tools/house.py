"""How large the package is, and how far a fit walks through it.

    python tools/house.py

prints lines and files below src, and for a few fits with missing values how many of our files and
functions run, and how deep our frames lie on the stack. A call is counted once kernels are
compiled, by a profiler that sees every Python thread of the process.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

SOURCE = Path(__file__).parents[1] / "src" / "eigengap"
sys.path.insert(0, str(SOURCE.parent))


@dataclass
class Walk:
    """What ran of the package during a call."""

    files: set[str] = field(default_factory=set)
    functions: set[tuple[str, str, int]] = field(default_factory=set)
    depth: int = 0  # frames of the package on one stack

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not _is_ours(frame):
            return
        code = frame.f_code
        self.files.add(code.co_filename)
        self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        depth, above = 0, frame
        while above is not None:
            depth += _is_ours(above)
            above = above.f_back
        self.depth = max(self.depth, depth)


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(str(SOURCE)) and not code.co_name.startswith("<module")


def walk(call: Callable[[], Any]) -> Walk:
    """Run the call twice, the second time under the profiler: modules are loaded by then."""
    call()
    found = Walk()
    threading.setprofile(found.profile)
    sys.setprofile(found.profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def fits() -> Iterable[tuple[str, Callable[[], Any]]]:
    """Fits of a table with missing values, as in docs/project/architecture.md."""
    import eigengap as eg

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10)) @ rng.normal(size=(10, 30)) + rng.normal(size=(400, 30))
    X[rng.random(X.shape) < 0.2] = np.nan
    yield "PPCA(10).fit", lambda: eg.PPCA(10).fit(X)
    yield "FactorAnalysis(3).fit", lambda: eg.FactorAnalysis(3).fit(X)
    yield "MixturePPCA(2, 3).fit", lambda: eg.MixturePPCA(2, 3, random_state=0).fit(X)
    yield "LowRankImputer().fit", lambda: eg.LowRankImputer().fit(X)


def print_size() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    folders = {path.parent for path in files}
    largest = max(folders, key=lambda folder: len(list(folder.glob("*.py"))))
    helpers = [p for p in (SOURCE / "estimators").rglob("_*.py") if p.name != "__init__.py"]
    print(f"lines below src                      {lines}")
    print(f"files                                {len(files)}")
    where = largest.relative_to(SOURCE)
    print(f"largest folder                       {len(list(largest.glob('*.py')))} ({where})")
    print(f"underscore helpers in estimators     {len(helpers)}")


def main() -> None:
    print_size()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in fits():
            found = walk(call)
            print(
                f"{name:36} {len(found.files)} files, {len(found.functions)} functions, "
                f"{found.depth} frames deep"
            )


if __name__ == "__main__":
    main()
