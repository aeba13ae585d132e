"""Model files changed at random, checksums put right: refused in words, or models that answer."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.forging import File, faults, forged, original, read, write
from tests.model_files import CASES, SLOW

import eigengap as eg
from eigengap.exceptions import CorruptFileError
from eigengap.persistence.model_file import inspect_file, load

# An approximate search is compiled for seconds whenever it is grown again.
TRIED = [name for name in CASES if name != "Isomap-approximate"]
QUICK = {name.partition("-")[0]: name for name in reversed(TRIED) if name not in SLOW}.values()


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def tried(name: str, folder: Path, count: int, seed: int) -> tuple[list[str], int]:
    """What was wrong with so many forgeries of a model, and how many of them were loaded."""
    before = original(name, folder)
    rng = np.random.default_rng([seed, list(CASES).index(name)])
    found, loaded = [], 0
    for _ in range(count):
        file, change = forged(before.file, rng)
        write(file, folder / "forged.egap")
        wrong = faults(folder / "forged.egap", before)
        loaded += wrong is not None
        found += [f"{change}: {wrong}"] if wrong else []
    return found, loaded


@pytest.mark.parametrize("name", QUICK)
def test_a_forged_model_is_refused_or_answers(name, tmp_path):
    assert tried(name, tmp_path, 10, seed=0)[0] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_many_forged_models_are_refused_or_answer(name, tmp_path):
    found, loaded = tried(name, tmp_path, 190, seed=1)
    assert found == []
    assert 0 < loaded < 190


# Bombs -------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path) -> Path:
    X = np.random.default_rng(0).normal(size=(30, 4))
    return eg.save(eg.PPCA(2).fit(X), tmp_path / "m.egap", provenance={})


def refused(path: Path, match: str) -> int:
    """Bytes that were allocated until the file was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match=match):
            load(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def put_first(file: File, nodes: list[dict]) -> None:
    """Nodes before all others, which point at those behind."""

    def moved(value):
        if isinstance(value, dict):
            return {
                k: v + len(nodes) if k == "at" and isinstance(v, int) else moved(v)
                for k, v in value.items()
            }
        return [moved(v) for v in value] if isinstance(value, list) else value

    file.header["nodes"] = file.nodes = nodes + moved(file.nodes)


@pytest.mark.parametrize("width", [67_108_864, 20_000_000, 300_000])
def test_wide_texts_take_no_memory(width, file):
    """Each claims up to 256 MB; together the narrow ones would take 19 MB."""
    changed = read(file)
    bomb = {"is": "strings", "items": ["a"], "shape": [1], "dtype": f"<U{width}"}
    put_first(changed, [dict(bomb) for _ in range(16)])
    write(changed, file)
    assert file.stat().st_size < 10_000
    assert refused(file, "strings as an array of") < 24 << 20


def test_texts_of_one_width_are_still_kept(tmp_path):
    """A long label among short ones makes all of them wide."""
    X, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 20
    names = np.array(["x" * 5000, *(f"class {k}" for k in range(1, 20))])
    model = eg.PPCAClassifier(1).fit(X, names[labels])
    again = load(eg.save(model, tmp_path / "m.egap"))
    assert again.classes_.dtype == model.classes_.dtype
    assert np.array_equal(again.classes_, model.classes_)


def test_one_tensor_is_no_two_arrays(file):
    """Those of another byte order would each be a copy."""
    changed = read(file)
    changed.arrays["big"] = np.ones(1_000_000)
    nodes = [{"is": "array", "tensor": "big", "dtype": ">f8"} for _ in range(100)]
    put_first(changed, nodes)
    write(changed, file)
    assert refused(file, "two arrays of one tensor") < 60 << 20


def test_one_array_is_not_checked_in_a_thousand_values(file):
    changed = read(file)
    changed.arrays["big"] = np.ones((100_000, 1))
    one = {"is": "array", "tensor": "big"}
    value = {
        "is": "value",
        "kind": "Block",
        "version": 1,
        "fields": {"values": {"at": 0}, "weight": None, "cell_sd": None, "start": 0},
    }
    put_first(changed, [one, *(dict(value) for _ in range(1000))])
    write(changed, file)
    assert refused(file, "the same arrays in too many values") < 60 << 20


# One by one --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["/tmp/anywhere.egck", {"at": 0}, True])
def test_no_file_makes_a_later_fit_write(value, file, tmp_path):
    changed = read(file)
    target = tmp_path / "written.egck"
    if isinstance(value, dict):
        put_first(changed, [{"is": "path", "path": str(target)}])
    changed.nodes[-1]["parameters"]["checkpoint"] = value
    write(changed, file)
    refused(file, "checkpoint, which no file keeps")
    assert not target.exists()


def test_nor_does_an_estimator_inside_of_another(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 4))
    path = eg.save(eg.NoveltyDetector(eg.PPCA(1)).fit(X), tmp_path / "m.egap")
    changed = read(path)
    inner = next(n for n in changed.nodes if n.get("kind") == "PPCA")
    inner["parameters"]["checkpoint"] = str(tmp_path / "written.egck")
    write(changed, path)
    refused(path, "checkpoint, which no file keeps")


@pytest.mark.parametrize("end", ["1e999", "-1", "null", '"9"', "1e10", "[]"])
def test_offsets_that_are_none(end, file):
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    contents = json.loads(data[8 : 8 + length])
    contents["model_.W"]["data_offsets"][1] = "END"
    text = json.dumps(contents).replace('"END"', end).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    for ask in (load, inspect_file):
        with pytest.raises(CorruptFileError, match="damaged"):
            ask(file)


@pytest.mark.parametrize("lacks", ["items", "shape", "text", "ends"])
def test_strings_without_a_part(lacks, tmp_path):
    import pandas as pd

    X = np.random.default_rng(0).normal(size=(5, 3000))
    names = [f"{j:03d}" * 200 for j in range(3000)] if lacks in ("text", "ends") else range(3000)
    frame = pd.DataFrame(X, columns=list(map(str, names)))
    path = eg.save(eg.PCA(1).fit(frame), tmp_path / "m.egap")
    changed = read(path)
    node = next(n for n in changed.nodes if n.get("is") == "strings")
    del node[lacks]
    write(changed, path)
    for ask in (load, inspect_file) if lacks != "shape" else (load,):
        with pytest.raises(CorruptFileError, match="not a model that eigengap wrote"):
            ask(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_no_model(tmp_path):
    """Which nobody writes to: opening it would wait for ever."""
    path = tmp_path / "m.egap"
    os.mkfifo(path)
    for ask in (load, inspect_file):
        with pytest.raises(CorruptFileError, match="a pipe or a device"):
            ask(path)
