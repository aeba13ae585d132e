"""The batched SPD kernel and its NumPy twin against LAPACK, matrix by matrix."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import eigengap
from eigengap.compiled import choice, factorise, posterior
from eigengap.runtime import threads

SIZES = [0, 1, 2, 5, 17, 40]
SOURCE = Path(eigengap.__file__).parents[1]


@pytest.fixture(params=["never", "always"])
def either(request, monkeypatch):
    """Run a test on the twin and on the compiled kernel."""
    monkeypatch.setenv(choice.VARIABLE, request.param)
    return request.param


def spd(q: int, c: int, condition: float = 10.0, scale: float = 1.0, seed: int = 0):
    """c matrices (c, q, q) with eigenvalues spread evenly in the logarithm over `condition`."""
    rng = np.random.default_rng([seed, q, c])
    Q = np.linalg.qr(rng.normal(size=(c, q, q)))[0]
    lam = scale * condition ** -np.linspace(0, 1, q)
    A = (Q * lam) @ np.swapaxes(Q, 1, 2)
    return (A + np.swapaxes(A, 1, 2)) / 2, rng.normal(size=(q, c))


def pack(A):
    i, j = np.tril_indices(A.shape[1])
    return np.ascontiguousarray(A[:, i, j].T)


def run_python(code: str, **environment: str) -> str:
    """Standard output of `code` in a fresh interpreter."""
    kept = {k: v for k, v in os.environ.items() if k != choice.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**kept, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# 6000 columns: several blocks of lanes, the last one partial
SETUP = """
import numpy as np
from eigengap.compiled import factorise
rng = np.random.default_rng(0)
q, c = 7, 6000
A = rng.normal(size=(c, 2 * q, q))
A = np.swapaxes(A, 1, 2) @ A + np.eye(q)
i, j = np.tril_indices(q)
P0, b = np.ascontiguousarray(A[:, i, j].T), rng.normal(size=(q, c))
truth = np.linalg.inv(A)[:, i, j].T
"""


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("q", SIZES)
@pytest.mark.parametrize("c", [1, 300])
def test_agrees_with_lapack(q, c):
    A, b = spd(q, c)
    P, kept = pack(A), b.copy()
    z, log_det = factorise(P, b)
    np.testing.assert_array_equal(b, kept)
    assert z.shape == (q, c)
    np.testing.assert_allclose(P, pack(np.linalg.inv(A)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(z, np.linalg.solve(A, b.T[:, :, None])[:, :, 0].T, atol=2e-13)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(A)[1], rtol=1e-13, atol=1e-13)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("q", [2, 5, 17, 40])
@pytest.mark.parametrize("condition", [1e4, 1e8])
def test_error_grows_no_faster_than_the_condition_number(q, condition):
    A, b = spd(q, 50, condition)
    P = pack(A)
    z, log_det = factorise(P, b)
    bound = 50 * np.finfo(float).eps * condition
    inverse = np.linalg.inv(A)
    size = np.linalg.norm(inverse, 2, axis=(1, 2))
    assert (np.abs(P - pack(inverse)) <= bound * size).all()
    exact = np.linalg.solve(A, b.T[:, :, None])[:, :, 0].T
    assert (np.abs(z - exact) <= bound * size * np.linalg.norm(b, axis=0)).all()
    np.testing.assert_allclose(log_det, np.linalg.slogdet(A)[1], atol=bound, rtol=0)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("scale", [1e14, 1e-14, 1e300, 1e-300])
def test_log_determinant_neither_overflows_nor_underflows(scale):
    q = 40
    A, b = spd(q, 3)
    P = pack(A * scale)
    _, log_det = factorise(P, b)
    expected = np.linalg.slogdet(A)[1] + q * np.log(scale)
    np.testing.assert_allclose(log_det, expected, rtol=1e-13)
    np.testing.assert_allclose(P * scale, pack(np.linalg.inv(A)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("q", SIZES)
def test_twin_and_kernel_agree(q, monkeypatch):
    A, b = spd(q, 257)
    results = []
    for mode in ("never", "always"):
        monkeypatch.setenv(choice.VARIABLE, mode)
        P = pack(A)
        results.append((P, *factorise(P, b)))
    for twin, compiled in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, twin, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("q", [1, 2, 5, 17])
@pytest.mark.parametrize("fault", ["negative", "zero", "nan", "inf", "indefinite"])
def test_a_matrix_that_is_not_positive_definite_is_named(q, fault):
    A, b = spd(q, 700)
    for column in (333, 600):
        if fault == "indefinite":
            A[column, -1, -1] = -1e-3
        elif fault == "zero":
            A[column] = 0.0
        else:
            A[column, 0, 0] = {"negative": -1.0, "nan": np.nan, "inf": np.inf}[fault]
    with pytest.raises(np.linalg.LinAlgError, match=r"^matrix 333 of 700 is not positive definite"):
        factorise(pack(A), b)


@pytest.mark.usefixtures("either")
def test_nan_below_the_diagonal_is_found():
    A, b = spd(5, 10)
    P = pack(A)
    P[3, 4] = np.nan  # entry (2, 0) of matrix 4
    with pytest.raises(np.linalg.LinAlgError, match="matrix 4 of 10"):
        factorise(P, b)


@pytest.mark.usefixtures("either")
def test_a_column_does_not_depend_on_its_neighbours_or_on_threads(monkeypatch):
    A, b = spd(6, 5000)
    whole = pack(A)
    monkeypatch.setattr(threads, "allowed_threads", lambda: 1)
    z, log_det = factorise(whole, b)
    monkeypatch.setattr(threads, "allowed_threads", lambda: 2)
    shared = pack(A)
    z2, log_det2 = factorise(shared, b)
    np.testing.assert_array_equal(whole, shared)
    np.testing.assert_array_equal(z, z2)
    np.testing.assert_array_equal(log_det, log_det2)
    part = pack(A[1111:1234])
    z3, log_det3 = factorise(part, b[:, 1111:1234])
    np.testing.assert_array_equal(part, whole[:, 1111:1234])
    np.testing.assert_array_equal(z3, z[:, 1111:1234])
    np.testing.assert_array_equal(log_det3, log_det[1111:1234])


def test_no_columns(either):
    z, log_det = factorise(np.empty((6, 0)), np.empty((3, 0)))
    assert z.shape == (3, 0)
    assert log_det.shape == (0,)


@pytest.mark.parametrize(
    ("P", "b", "error"),
    [
        (np.ones((3, 4)), np.ones((3, 4)), ValueError),
        (np.ones((1, 4)), np.ones((1, 5)), ValueError),
        (np.ones((4, 1)).T, np.ones(4), ValueError),
        (np.ones((4, 3)).T, np.ones((2, 4)), ValueError),
        (np.ones((1, 4), np.float32), np.ones((1, 4)), TypeError),
    ],
)
def test_wrong_input_is_refused(P, b, error):
    with pytest.raises(error):
        factorise(P, b)


# --- the choice -------------------------------------------------------------------------------


def test_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "sometimes")
    with pytest.raises(ValueError, match=r"EIGENGAP_COMPILED='sometimes'.*auto, always, never"):
        factorise(np.ones((1, 1)), np.ones((1, 1)))


@pytest.mark.parametrize(
    ("q", "c", "passes", "cached", "expected"),
    [
        (5, 500, 50, True, False),  # a small table: milliseconds
        (10, 10_000, 100, True, True),  # seconds in NumPy, and the cache is there
        (10, 10_000, 100, False, False),  # compiling would take longer
        (40, 5_000, 100, False, True),  # half a minute in NumPy
    ],
)
def test_auto_compares_the_gain_with_the_price(monkeypatch, q, c, passes, cached, expected):
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.setattr(posterior.KERNELS, "loaded", None)
    monkeypatch.setattr(choice, "is_cached", lambda module: cached)
    assert posterior.KERNELS.pay(posterior.saved_seconds(q, c) * passes) is expected


def test_small_work_never_imports_numba():
    code = SETUP + "factorise(P0, b, passes=50)\nimport sys\nprint('numba' in sys.modules)"
    assert run_python(code) == "False"


def test_marker_is_left_and_found_and_distrusted_when_the_cache_is_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not choice.is_cached(posterior.KERNELS.module)
    index = tmp_path / "kernel.nbi"
    index.write_bytes(b"")
    choice._leave_marker(index, posterior.KERNELS.module)
    assert choice.is_cached(posterior.KERNELS.module)
    index.unlink()
    assert not choice.is_cached(posterior.KERNELS.module)
    for marker in tmp_path.glob("*.json"):
        marker.write_text("{")
    assert not choice.is_cached(posterior.KERNELS.module)


@pytest.fixture(scope="module")
def always():
    """The environment of a process that uses the kernel, compiled once for this module."""
    posterior.KERNELS.load()
    return {choice.VARIABLE: "always"}


def test_a_second_process_loads_what_the_first_compiled(always):
    code = """
    from eigengap.compiled import choice, posterior, posterior_numba
    hits = sum(posterior_numba.factorise_columns.stats.cache_hits.values())
    print(choice.is_cached(posterior.KERNELS.module), hits)
    """
    assert run_python(code, **always) == "True 1"


@pytest.fixture
def twice(tmp_path, monkeypatch):
    """A function in a package whose __pycache__ cannot be written, and the user's cache."""
    numba = pytest.importorskip("numba")
    home = tmp_path / "home"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__pycache__").write_text("a file where the directory should be")
    source = package / "twice.py"
    source.write_text("def twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("twice", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice, home, (numba.float64,)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG directories")
def test_cache_of_a_read_only_install_goes_to_the_user(twice):
    function, home, signature = twice
    compiled, index = posterior_numba().compile_cached(function, signature)
    assert compiled(3.0) == 6.0
    assert index.is_file()
    assert home in index.parents
    for file in index.parent.iterdir():  # damaged: compile afresh
        file.write_bytes(file.read_bytes()[:5])
    compiled, index = posterior_numba().compile_cached(function, signature)
    assert compiled(3.0) == 6.0
    assert index is None


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="XDG directories")
def test_without_any_writable_place_it_still_compiles(twice):
    function, home, signature = twice
    home.write_text("a file where the directory should be")
    compiled, index = posterior_numba().compile_cached(function, signature)
    assert compiled(3.0) == 6.0
    assert index is None


def posterior_numba():
    return importlib.import_module("eigengap.compiled.posterior_numba")


# --- threads and processes ---------------------------------------------------------------------


def test_four_python_threads_at_once(always):
    code = (
        SETUP
        + """
from concurrent.futures import ThreadPoolExecutor
from eigengap.runtime import threads
threads.allowed_threads = lambda: 4
def one(_):
    P = P0.copy()
    factorise(P, b)
    return abs(P - truth).max() < 1e-12
with ThreadPoolExecutor(4) as pool:
    print(all(pool.map(one, range(200))), threads._callers)
"""
    )
    assert run_python(code, **always) == "True 0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forked_children_work_while_the_parent_has_threads(always):
    code = (
        SETUP
        + """
import multiprocessing
from eigengap.runtime import threads
threads.allowed_threads = lambda: 2
def one(_):
    P = P0.copy()
    factorise(P, b)
    return abs(P - truth).max() < 1e-12
assert one(0) and threads._pool is not None
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(pool.map_async(one, range(8)).get(timeout=60)), one(0))
"""
    )
    assert run_python(code, **always) == "True True"


def test_limits_of_threadpoolctl_are_obeyed():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(1):
        assert threads.allowed_threads() == 1


def test_numba_num_threads_is_obeyed(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert threads.allowed_threads() == 1
