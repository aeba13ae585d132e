"""`eigengap inspect`, `doctor` and `completion`: what a model file and an installation have."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from eigengap.cli import options
from eigengap.cli.errors import FileTrouble, shown
from eigengap.cli.files import as_file
from eigengap.cli.narration import listing, many, size
from eigengap.printable import bare

MOST_NAMES = 12
MOST_TENSORS = 20
LONGEST = 2000  # letters of one entry
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
SHELLS = ("bash", "zsh", "fish")


@click.command()
@options.model_file
@options.talking
def inspect(model: str, narrator: Any) -> None:
    """Say what is in MODEL: kind, columns, parameters, where it comes from.

    Only the head of the file is read, and nothing in it is run.
    """
    from eigengap.persistence.model_file import inspect_file

    with as_file(model, "MODEL") as path:
        if not Path(path).exists():
            raise FileTrouble(f"{shown(model)} does not exist")
        facts = inspect_file(path)
    names = ("size", "format", "version", "kind", "parameters", "n_features", "feature_names")
    found = {name: getattr(facts, name) for name in (*names, "summary", "provenance")}
    tensors = [{"name": n, "dtype": d, "shape": s} for n, d, s in facts.tensors]
    narrator.facts.update(path=model, **found, tensors=tensors)
    if not narrator.as_json:
        _print_model(facts, model, narrator.verbose)


def _print_model(facts: Any, model: str, verbose: bool) -> None:
    file = f"{shown(model)} ({size(facts.size)})"
    _line("File", f"{file}, format {facts.format}, by eigengap {facts.version}")
    summary = ", ".join(f"{name} {_value(value)}" for name, value in facts.summary.items())
    _line("Model", f"{facts.kind}{'; ' if summary else ''}{summary}")
    columns = f"{facts.n_features}, without names"
    if facts.feature_names is not None:
        count = len(facts.feature_names)
        names = listing(facts.feature_names, most=count if verbose else MOST_NAMES)
        columns = f"{many(count, 'column')}: {names}"
    _line("Columns", columns)
    _line("Set", ", ".join(f"{n}={_value(v)}" for n, v in facts.parameters.items()) or "nothing")
    for name, value in facts.provenance.items():
        _line("From" if name == next(iter(facts.provenance)) else "", f"{name}: {_value(value)}")
    shown_tensors = facts.tensors if verbose else facts.tensors[:MOST_TENSORS]
    for k, (name, dtype, shape) in enumerate(shown_tensors):
        shape_text = " x ".join(map(str, shape)) or "a number"
        _line("Arrays" if k == 0 else "", f"{_value(name)}: {dtype}, {shape_text}")
    if len(shown_tensors) < len(facts.tensors):
        _line("", f"and {len(facts.tensors) - len(shown_tensors)} more (-v shows all)")


def _line(label: str, text: str, width: int = 9) -> None:
    click.echo(f"{label:<{width}}{text}")


def _value(value: Any) -> str:
    """Anything that a file may hold, on one line and harmless to a terminal."""
    return bare(str(value)[:LONGEST])


@click.command()
@options.talking
def doctor(narrator: Any) -> None:
    """Say what this installation has: versions, extras, threads, BLAS, memory, caches."""
    narrator.facts.update(facts())
    if not narrator.as_json:
        _print_installation(narrator.facts)


def facts() -> dict[str, Any]:
    import numpy  # noqa: F401  the library has to be there to be seen
    from threadpoolctl import threadpool_info

    import eigengap
    from eigengap.runtime.memory import cores, free_memory

    pools = ("internal_api", "version", "num_threads", "threading_layer", "architecture")
    folder = tempfile.gettempdir()
    return {
        "eigengap": eigengap.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": _versions(BASE),
        "extras": {extra: _versions(names) for extra, names in EXTRAS.items()},
        "cores": cores(),
        "blas": [{name: pool.get(name) for name in pools} for pool in threadpool_info()],
        "memory_free": free_memory(),
        "compiled_kernels": _compiled(eigengap.__file__),
        "temporary": {"folder": folder, "free": shutil.disk_usage(folder).free},
        "terminal": {
            "stdout": sys.stdout.isatty(),
            "stderr": sys.stderr.isatty(),
            "encoding": sys.stdout.encoding,
            "TERM": os.environ.get("TERM"),
        },
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }


def _versions(names: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "present" if find_spec(name.replace("-", "_")) is not None else None
    return found


def _compiled(package: str) -> dict[str, Any]:
    """Where numba keeps what it has compiled: it takes the first place that can be written."""
    cache = Path(package).parent / "compiled" / "__pycache__"
    own = os.environ.get("NUMBA_CACHE_DIR")
    if own is not None:
        return {"folder": own, "kernels": len(list(Path(own).rglob("*.nbi")))}
    if os.access(cache if cache.exists() else cache.parent, os.W_OK):
        return {"folder": str(cache), "kernels": len(list(cache.glob("*.nbi")))}
    return {"folder": "the cache of the user", "kernels": None}


def _print_installation(found: dict[str, Any]) -> None:
    lines = [
        ("eigengap", f"{found['eigengap']} on Python {found['python']}, {found['platform']}"),
        ("python", shown(found["executable"])),
        ("packages", ", ".join(f"{n} {v or 'MISSING'}" for n, v in found["packages"].items())),
    ]
    for extra, names in found["extras"].items():
        lacking = [name for name, there in names.items() if there is None]
        message = ", ".join(f"{name} {there}" for name, there in names.items() if there)
        if lacking:
            message += f"{'; ' if message else ''}without {', '.join(lacking)}: "
            message += f'pip install "eigengap[{extra}]"'
        lines.append((f"[{extra}]", message))
    threads = "; ".join(
        f"{b['internal_api']} {b['version'] or ''}, {many(b['num_threads'] or 0, 'thread')}"
        for b in found["blas"]
    )
    kernels, temporary, terminal = (
        found[name] for name in ("compiled_kernels", "temporary", "terminal")
    )
    streams = " and ".join(name for name in ("stdout", "stderr") if terminal[name]) or "none"
    lines += [
        ("threads", f"{many(found['cores'], 'core')}; {threads}"),
        ("memory", f"{size(found['memory_free'])} free for this process"),
        ("compiled", f"{kernels['kernels']} kernels in {shown(kernels['folder'])}"),
        ("temporary", f"{shown(temporary['folder'])}, {size(temporary['free'])} free"),
        ("terminal", f"{streams}, {terminal['encoding']}"),
        *(("set", f"{name}={shown(value)}") for name, value in found["environment"].items()),
    ]
    for label, text in lines:
        _line(label, text, width=14)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash   eval "$(eigengap completion bash)"       in ~/.bashrc
    zsh    eval "$(eigengap completion zsh)"        in ~/.zshrc
    fish   eigengap completion fish | source        in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from eigengap.cli.app import app

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(app, {}, "eigengap", "_EIGENGAP_COMPLETE").source())
