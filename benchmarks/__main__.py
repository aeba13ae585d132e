"""All benchmarks in one run: python -m benchmarks [--quick] [--only NAME] [--output DIR].

Each runs in a process of its own with all cores for every library. Writes results.json and
results.md to benchmarks/results; a quick or partial run writes to build/benchmarks instead. What
an earlier run measured of the others in the same folder, on the same machine, is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import machine, table
from benchmarks.timing import ROOT, FailedError, in_new_process

TITLES = {
    "missing_ppca": "PPCA with missing values",
    "factor": "Factor analysis",
    "pca": "PCA of complete tables",
    "first_use": "First use",
    "closed_form_vs_em": "Closed form against EM (002 section 4.1)",
    "images": "Images with noise and missing pixels",
    "noise": "Noise beyond one Gaussian",
    "bayesian": "Bayesian PCA",
    "mixture": "Mixtures of PPCA",
    "imputation": "Imputation of held-out values",
    "mixed": "Columns of every kind",
    "mixed_speed": "Speed of columns of every kind",
    "calibration": "Intervals of imputed values",
    "intervals": "Confidence intervals of loadings and variances",
    "rank": "How many components",
    "novelty": "Novelty",
    "mds": "Classical scaling",
    "ica": "Independent components",
    "kernel_pca": "Kernel PCA",
    "isomap": "Isomap",
    "laplacian": "Laplacian eigenmaps",
    "unfolding": "Maximum variance unfolding",
    "gplvm": "Gaussian process latent variables",
    "autoencoder": "Autoencoder",
    "embedding_quality": "Quality of embeddings",
    "out_of_core": "Larger than memory",
    "dask_workers": "Dask",
    "streaming": "Streams",
    "command_line": "Command line",
    "classification": "Classes",
    "regression": "Regression",
}
HOW = (
    "ratio = peer's / ours. `>=`: the peer had not got there when its time was up, so that the "
    "ratio is a lower bound; `undecided`: a bound below the target. `-`: does not apply."
)


def main() -> int:
    arguments = _arguments()
    names = arguments.only or list(TITLES)
    partial = arguments.quick or arguments.only
    folder = arguments.output or ROOT / ("build/benchmarks" if partial else "benchmarks/results")
    folder.mkdir(parents=True, exist_ok=True)
    load = machine.load()  # before our own
    here = in_new_process("benchmarks.machine:describe")
    report: dict[str, Any] = {
        "machine": here,
        "quick": arguments.quick,
        "benchmarks": _kept(folder, here, arguments.quick) if arguments.only else {},
    }
    failed = False
    for name in names:
        start = time.perf_counter()
        print(f"== {TITLES[name]}", file=sys.stderr, flush=True)
        try:
            rows = in_new_process("benchmarks.__main__:run_one", name, arguments.quick)
            report["benchmarks"][name] = {
                "rows": rows,
                "seconds": time.perf_counter() - start,
                "load_before": load,
            }
        except FailedError as error:
            failed = True
            report["benchmarks"][name] = {"rows": [], "failed": str(error)}
        # After each, so that an interrupted run leaves what it had.
        _write(folder, report)
        print(_section(name, report["benchmarks"][name]), end="\n\n", flush=True)
    print(f"Written: {folder}/results.md, results.json", file=sys.stderr)
    return int(failed)


def run_one(name: str, quick: bool) -> list[table.Row]:
    """The rows of one benchmark."""
    rows: list[table.Row] = import_module(f"benchmarks.{name}").run(quick=quick)
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(TITLES), help="may be repeated")
    parser.add_argument("--quick", action="store_true", help="shorter budgets, fewer repeats")
    parser.add_argument("--output", type=Path, help="folder to write to")
    return parser.parse_args()


def _kept(folder: Path, here: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Sections of an earlier run with the same processor and versions."""
    path = folder / "results.json"
    earlier = json.loads(path.read_text()) if path.exists() else None
    if earlier is None or earlier["machine"] != here or earlier["quick"] != quick:
        return {}
    kept: dict[str, Any] = earlier["benchmarks"]
    return kept


def _write(folder: Path, report: dict[str, Any]) -> None:
    done = report["benchmarks"]
    sections = [_section(name, done[name]) for name in TITLES if name in done]
    kind = "A quick run: times are rough.\n\n" if report["quick"] else ""
    head = f"# Benchmarks\n\n{kind}{machine.words(report['machine'])}\n\n{HOW}"
    _replace(folder / "results.md", "\n\n".join([head, *sections]) + "\n")
    _replace(
        folder / "results.json",
        json.dumps(report, indent=1, default=_plain, allow_nan=False) + "\n",
    )


def _section(name: str, part: dict[str, Any]) -> str:
    if "failed" in part:
        return f"## {TITLES[name]}\n\nFailed: {part['failed']}"
    busy = machine.busy(part["load_before"])
    return table.markdown(TITLES[name], part["rows"]) + (f"\n\n{busy}" if busy else "")


def _replace(path: Path, text: str) -> None:
    part = path.with_suffix(path.suffix + ".part")
    part.write_text(text)
    os.replace(part, path)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays for JSON."""
    return value.tolist()


if __name__ == "__main__":
    sys.exit(main())
