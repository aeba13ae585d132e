"""`import eigengap` and `eigengap --help` load nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import eigengap

HEAVY = {
    "altair",
    "dask",
    "distributed",
    "h5netcdf",
    "h5py",
    "jax",
    "jinja2",
    "llvmlite",
    "narwhals",
    "numba",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pynndescent",
    "safetensors",
    "scipy",
    "sklearn",
    "threadpoolctl",
    "vl_convert",
    "xarray",
    "zarr",
}

HELP = """
import runpy
sys.argv = ["eigengap", "--help"]
try:
    runpy.run_module("eigengap", run_name="__main__")
except SystemExit as exit:
    assert exit.code == 0, exit.code
"""


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    report = 'print("\\n" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))'
    ran = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}\n{report}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "code",
    ["import eigengap", "import eigengap; dir(eigengap); eigengap.__version__", HELP],
    ids=["import", "dir", "help"],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    loaded = loaded_after(code)
    assert "eigengap" in loaded
    assert not loaded & HEAVY


def test_the_check_sees_what_is_loaded() -> None:
    assert "numpy" in loaded_after("import eigengap; eigengap.LinearGaussian")


ROOMS = set(eigengap._MODULES)


@pytest.mark.parametrize("name", sorted(set(eigengap.__all__) - ROOMS))
def test_public_name_is_what_its_home_holds(name: str) -> None:
    value = getattr(eigengap, name)
    assert value.__name__ == name
    assert value.__module__ == eigengap._HOME[name]


def test_homes_and_public_names_agree() -> None:
    assert set(eigengap._HOME) | ROOMS == set(eigengap.__all__)
    assert all(getattr(eigengap, name).__name__ == f"eigengap.{name}" for name in ROOMS)
    assert set(eigengap.__all__) <= set(dir(eigengap))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'eigengap' has no attribute 'Nonsense'"):
        eigengap.Nonsense  # noqa: B018
