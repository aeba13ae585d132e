"""How far to trust it: python -m benchmarks.truth [--full] [--only SECTION] [--output DIR].

Every section is a module of this package with `run(full) -> list of rows` (`targets.figure`). The
default takes some minutes, `--full` about an hour on two cores. Writes results.json and results.md
to benchmarks/results/truth; a run that is not full or not whole writes to build/truth. What an
earlier run into the same folder has of other sections is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import table
from benchmarks.timing import ROOT

TITLES = {
    "small_tables": "Intervals of hidden cells in small, wide and half-missing tables",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(TITLES), help="may be repeated")
    parser.add_argument("--full", action="store_true", help="as many tables as the page reports")
    parser.add_argument("--output", type=Path, help="folder to write to")
    asked = parser.parse_args()
    whole = asked.full and not asked.only
    folder = asked.output or ROOT / ("benchmarks/results/truth" if whole else "build/truth")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in asked.only or list(TITLES):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small tables warn, as they should; figures are asked
            rows = import_module(f"benchmarks.truth.{name}").run(full=asked.full)
        seconds = time.perf_counter() - start
        report[name] = {"full": asked.full, "seconds": round(seconds, 1), "rows": rows}
        path.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")
        (folder / "results.md").write_text(_pages(report))
        print(table.markdown(TITLES[name], rows), end="\n\n", flush=True)
    print(f"Written: {folder}/results.md, results.json", file=sys.stderr)
    return 0


def _pages(report: dict[str, Any]) -> str:
    parts = [
        table.markdown(title, report[name]["rows"])
        for name, title in TITLES.items()
        if name in report
    ]
    return "\n\n".join(["# How far to trust it", *parts]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
