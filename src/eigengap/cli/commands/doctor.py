"""`eigengap doctor`: what a maintainer would ask first."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from eigengap.cli import options

BASE = ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "narwhals", "safetensors")
EXTRAS = {
    "cli": ("click", "rich", "pyarrow", "altair", "vl-convert-python", "jinja2", "pillow"),
    "files": ("pyarrow", "h5py", "zarr"),
    "dask": ("dask", "distributed"),
    "xarray": ("xarray", "zarr", "h5netcdf"),
    "autodiff": ("jax",),
    "approximate": ("pynndescent",),
}
VARIABLES = (
    "EIGENGAP_COMPILED", "EIGENGAP_DEBUG", "EIGENGAP_MEMORY", "NUMBA_CACHE_DIR", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NO_COLOR", "TMPDIR",
)  # fmt: skip


@click.command("doctor")
@options.talking
def command(narrator: Any) -> None:
    """Say what this installation has: versions, extras, threads, BLAS, memory, caches."""
    narrator.facts.update(facts())
    if not narrator.as_json:
        _print(narrator.facts)


def facts() -> dict[str, Any]:
    import eigengap
    from eigengap.runtime.memory import cores, free_memory

    return {
        "eigengap": eigengap.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in BASE},
        "extras": {
            extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()
        },
        "cores": cores(),
        "blas": _blas(),
        "memory_free": free_memory(),
        "compiled_kernels": _compiled(eigengap.__file__),
        "temporary": _temporary(),
        "terminal": {
            "stdout": sys.stdout.isatty(),
            "stderr": sys.stderr.isatty(),
            "encoding": sys.stdout.encoding,
            "TERM": os.environ.get("TERM"),
        },
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return "present" if find_spec(name.replace("-", "_")) is not None else None


def _blas() -> list[dict[str, Any]]:
    import numpy  # noqa: F401  the library has to be there to be seen
    from threadpoolctl import threadpool_info

    names = ("internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [{name: pool.get(name) for name in names} for pool in threadpool_info()]


def _temporary() -> dict[str, Any]:
    import shutil
    import tempfile

    folder = tempfile.gettempdir()
    return {"folder": folder, "free": shutil.disk_usage(folder).free}


def _compiled(package: str) -> dict[str, Any]:
    """Where numba keeps what it has compiled: it takes the first place that can be written."""
    cache = Path(package).parent / "compiled" / "__pycache__"
    own = os.environ.get("NUMBA_CACHE_DIR")
    if own is not None:
        found = sorted(Path(own).rglob("*.nbi"))
        return {"folder": own, "kernels": len(found)}
    if os.access(cache if cache.exists() else cache.parent, os.W_OK):
        return {"folder": str(cache), "kernels": len(list(cache.glob("*.nbi")))}
    return {"folder": "the cache of the user", "kernels": None}


def _print(found: dict[str, Any]) -> None:
    from eigengap.cli.errors import shown
    from eigengap.cli.narration import many, size

    _line("eigengap", f"{found['eigengap']} on Python {found['python']}, {found['platform']}")
    _line("python", shown(found["executable"]))
    _line("packages", ", ".join(f"{n} {v or 'MISSING'}" for n, v in found["packages"].items()))
    for extra, names in found["extras"].items():
        lacking = [name for name, there in names.items() if there is None]
        message = ", ".join(f"{name} {there}" for name, there in names.items() if there)
        if lacking:
            message += f"{'; ' if message else ''}without {', '.join(lacking)}: "
            message += f'pip install "eigengap[{extra}]"'
        _line(f"[{extra}]", message)
    threads = "; ".join(
        f"{b['internal_api']} {b['version'] or ''}, {many(b['num_threads'] or 0, 'thread')}"
        for b in found["blas"]
    )
    _line("threads", f"{many(found['cores'], 'core')}; {threads}")
    _line("memory", f"{size(found['memory_free'])} free for this process")
    kernels = found["compiled_kernels"]
    _line("compiled", f"{kernels['kernels']} kernels in {shown(kernels['folder'])}")
    temporary = found["temporary"]
    _line("temporary", f"{shown(temporary['folder'])}, {size(temporary['free'])} free")
    terminal = found["terminal"]
    observed = [name for name in ("stdout", "stderr") if terminal[name]]
    _line("terminal", f"{' and '.join(observed) or 'none'}, {terminal['encoding']}")
    for name, value in found["environment"].items():
        _line("set", f"{name}={shown(value)}")


def _line(label: str, text: str) -> None:
    click.echo(f"{label:<14}{text}")
