"""The numerical tests once more, under other kernels of BLAS and NumPy than this machine takes.

`make test` ends with it. OpenBLAS holds kernels for many processors, and takes that of the one it
runs on or the one that OPENBLAS_CORETYPE names. NumPy takes wider instructions where there are any,
but for those that NPY_DISABLE_CPU_FEATURES names. Results then round as on another machine.

    python -m tests.kernels [arguments of pytest]
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping

import numpy as np
import scipy.linalg  # noqa: F401  (for its own OpenBLAS)
from threadpoolctl import threadpool_info

try:
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
except ImportError:  # NumPy 1
    from numpy.core._multiarray_umath import __cpu_dispatch__, __cpu_features__

# Kernels of OpenBLAS, simplest first, and what each needs of the processor: without it the process
# is killed (SIGILL). Nehalem runs on every x86-64 and ARMV8 on every 64-bit ARM.
KERNELS = {
    "x86_64": {"Nehalem": None, "Haswell": "AVX2", "SkylakeX": "AVX512_SKX"},
    "arm64": {"ARMV8": None},
}
MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}  # other names of the same
# Kernels that hardly differ from one of those.
FAMILY = {"Zen": "Haswell", "Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX"}

TESTS = ("tests/laws", "tests/oracles", "tests/sources")
# What lies there and computes nothing that could round: files and bytes, lines on a screen; and a
# cluster, whose numbers are those of test_dask.py.
WITHOUT_NUMBERS = (
    "tests/laws/test_progress_line.py",
    "tests/laws/test_tensor_files.py",
    "tests/sources/test_coded_memory.py",
    "tests/sources/test_dask_cluster.py",
    "tests/sources/test_decimals.py",
    "tests/sources/test_files_skipped.py",
    "tests/sources/test_files_csv.py",
    "tests/sources/test_files_formats.py",
    "tests/sources/test_files_many.py",
    "tests/sources/test_files_memory.py",
    "tests/sources/test_levels.py",
    "tests/sources/test_limits_in_text.py",
    "tests/sources/test_long_integers.py",
    "tests/sources/test_packed_stores.py",
    "tests/sources/test_separator_line.py",
    "tests/sources/test_sinks.py",
    "tests/sources/test_sinks_stream.py",
    "tests/sources/test_wide_csv.py",
)


def in_use() -> list[str]:
    """Kernels of the BLAS libraries of this process, NumPy's and SciPy's."""
    blas = (library for library in threadpool_info() if library["user_api"] == "blas")
    return [library.get("architecture", library["internal_api"]) for library in blas]


def dispatched() -> list[str]:
    """Instruction sets that NumPy takes here, beyond those it was built for."""
    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]


def described() -> str:
    """One line on what this process computes with."""
    sets = " ".join(dispatched()) or "its baseline alone"
    return f"BLAS kernels {', '.join(in_use()) or 'unknown'}; NumPy {np.__version__} with {sets}"


def others(*, every: bool, machine: str = "", used: list[str] | None = None) -> list[str]:
    """Kernels to try beside the one in use: the simplest and the widest, or every one."""
    machine = (machine or platform.machine()).lower()
    known = KERNELS.get(MACHINES.get(machine, machine), {})
    able = [name for name, needs in known.items() if needs is None or __cpu_features__.get(needs)]
    asked = able if every else list(dict.fromkeys([*able[:1], *able[-1:]]))
    own = {FAMILY.get(name, name) for name in (in_use() if used is None else used)}
    return [name for name in asked if name not in own]


def surroundings(kernel: str | None) -> dict[str, str]:
    """Variables that make a process take a kernel; the widest sets of NumPy stay for the widest."""
    found = {}
    if kernel is not None:
        found["OPENBLAS_CORETYPE"] = kernel
    if kernel != "SkylakeX" and dispatched():
        found["NPY_DISABLE_CPU_FEATURES"] = " ".join(dispatched())
    return found


def runs(*, every: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Names of runs, and variables for each. Where BLAS takes no other kernel, NumPy alone does."""
    chosen = [kernel for kernel in others(every=every) if _takes(kernel)]
    for kernel in chosen:
        yield f"kernel {kernel}", surroundings(kernel)
    if not chosen and dispatched():
        yield "NumPy plain", surroundings(None)


def _takes(kernel: str) -> bool:
    """Whether a new process uses this kernel (MKL and Accelerate do not), and can multiply.

    NumPy 2.5.4 brings an OpenBLAS whose Haswell kernel, asked for by name, writes beyond its
    buffer: a plain product of 500 rows ends the process. Nothing can be tested under it.
    """
    ended = _run("' '.join(in_use()) if multiplies() else ''", surroundings(kernel))
    if ended.returncode:
        print(f"kernel {kernel:9}skipped: a product of NumPy's fails under it")
    return ended.returncode == 0 and kernel in ended.stdout.split()


def multiplies() -> bool:
    """Whether products of small integers, which are exact, come out right."""
    A = np.arange(500 * 700).reshape(500, 700) % 7 - 3.0
    return bool(np.array_equal(A @ A.T, np.einsum("ij,kj->ik", A, A)))


def _says(expression: str, variables: Mapping[str, str]) -> str:
    """An expression of this module, in a process with these variables."""
    ended = _run(expression, variables)
    ended.check_returncode()
    return ended.stdout


def _run(expression: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"from tests.kernels import *; print({expression})"]
    env = os.environ | variables
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False, text=True)


def main(arguments: list[str]) -> int:
    options = [*arguments, *(f"--ignore={path}" for path in WITHOUT_NUMBERS)]
    name = ""
    for name, variables in runs(every=bool(os.environ.get("EIGENGAP_REQUIRE_ALL"))):
        print(f"{name:16}{_says('described()', variables)}", end="", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *options, *TESTS]
        ended = subprocess.run(command, env=os.environ | variables, check=False).returncode
        if ended:
            given = " ".join(f"{key}={value!r}" for key, value in variables.items())
            print(f"To try again: {given} {sys.executable} -m pytest --last-failed")
            return ended
    if not name:
        print(f"{'other kernels':16}skipped: {', '.join(in_use())} is the only one to be had here")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
