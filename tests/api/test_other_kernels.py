"""Which kernels of BLAS the numerical tests are run on, beside the machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import kernels

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("features", "used", "few", "every"),
    [
        ([], "Nehalem", [], []),
        (["AVX2"], "Haswell", ["Nehalem"], ["Nehalem"]),
        (["AVX2"], "Zen", ["Nehalem"], ["Nehalem"]),
        (["AVX2"], "Nehalem", ["Haswell"], ["Haswell"]),
        (["AVX2", "AVX512_SKX"], "SkylakeX", ["Nehalem"], ["Nehalem", "Haswell"]),
        (["AVX2", "AVX512_SKX"], "SapphireRapids", ["Nehalem"], ["Nehalem", "Haswell"]),
        (["AVX2", "AVX512_SKX"], "Haswell", ["Nehalem", "SkylakeX"], ["Nehalem", "SkylakeX"]),
    ],
)
def test_the_simplest_and_the_widest_that_the_processor_has(
    features, used, few, every, monkeypatch
):
    monkeypatch.setattr(kernels, "__cpu_features__", dict.fromkeys(features, True))
    for machine in ("x86_64", "AMD64"):
        assert kernels.others(every=False, machine=machine, used=[used, used]) == few
        assert kernels.others(every=True, machine=machine, used=[used, used]) == every


def test_other_machines():
    assert kernels.others(every=True, machine="aarch64", used=["neoversen1"]) == ["ARMV8"]
    assert kernels.others(every=True, machine="arm64", used=["ARMV8"]) == []
    assert kernels.others(every=True, machine="riscv64", used=["generic"]) == []


def test_a_run_takes_the_kernel_that_it_is_named_for():
    for name, variables in kernels.runs(every=True):
        said = kernels._says("described()", variables)
        if name.startswith("kernel "):
            assert f"BLAS kernels {name.removeprefix('kernel ')}" in said
        if "NPY_DISABLE_CPU_FEATURES" in variables:
            assert "its baseline alone" in said


def test_where_blas_knows_no_other_kernel_numpy_alone_is_made_plain(monkeypatch):
    monkeypatch.setattr(kernels, "_takes", lambda kernel: False)
    monkeypatch.setattr(kernels, "dispatched", lambda: ["WIDE", "WIDER"])
    assert dict(kernels.runs(every=True)) == {
        "NumPy plain": {"NPY_DISABLE_CPU_FEATURES": "WIDE WIDER"}
    }


def test_a_machine_without_any_other_says_so(monkeypatch, capsys):
    monkeypatch.setattr(kernels, "runs", lambda *, every: iter(()))
    assert kernels.main([]) == 0
    assert "other kernels" in capsys.readouterr().out


def test_what_is_left_out_is_there():
    for path in (*kernels.TESTS, *kernels.WITHOUT_NUMBERS):
        assert (ROOT / path).exists(), path


def test_the_header_names_the_kernels(pytestconfig):
    lines = pytestconfig.hook.pytest_report_header(
        config=pytestconfig, start_path=ROOT, startdir=ROOT
    )
    assert any("BLAS kernels" in str(line) for line in lines)
