"""Checkpoints changed at random, checksums put right: refused in words, or fits that end well."""

from __future__ import annotations

import copy
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.forging import (
    CHANGES,
    File,
    change_a_leaf,
    drop_an_entry,
    is_in_words,
    read,
    told,
    write,
)
from tests.model_files import table

import eigengap as eg
from eigengap.exceptions import CheckpointMismatchError, CorruptFileError, NewerFormatError
from eigengap.runtime.warnings import silence

REFUSED = (CorruptFileError, NewerFormatError, CheckpointMismatchError)
X = table(40, 5, missing=0.2)
FITS = {
    "PCA": lambda **how: eg.PCA(2, tol=1e-9, **how),
    "PPCA": lambda **how: eg.PPCA(2, n_init=2, random_state=0, tol=1e-9, **how),
    "PPCA-student": lambda **how: eg.PPCA(1, distribution="student", tol=1e-9, **how),
    "FactorAnalysis": lambda **how: eg.FactorAnalysis(1, tol=1e-9, **how),
    "BayesianPCA": lambda **how: eg.BayesianPCA(2, tol=1e-9, **how),
    "MixturePPCA": lambda **how: eg.MixturePPCA(2, 1, random_state=0, tol=1e-9, **how),
}


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@cache
def begun(name: str, folder: Path) -> File:
    """The checkpoint of a fit that had three steps a run."""
    path = folder / "fit.egck"
    with silence():
        FITS[name](max_iter=3, checkpoint=path).fit(X)
    return read(path, kind="checkpoint")


def forged(file: File, rng: np.random.Generator) -> tuple[File, str]:
    """One change of the header or of an array; its nodes are whatever the header holds."""
    header = copy.deepcopy(file.header)
    new = File([header], header, {k: v.copy() for k, v in file.arrays.items()})
    of_header = (change_a_leaf, drop_an_entry)
    ways = [way for way in CHANGES if way.__name__.startswith("change") or way in of_header]
    way = ways[rng.integers(len(ways))] if rng.random() < 0.6 else of_header[rng.integers(2)]
    return new, way(new, rng)


def fault(name: str, path: Path) -> str | None:
    """What is wrong when a fit goes on from the file: None where it is refused."""
    try:
        with silence(), np.errstate(all="ignore"):
            model = FITS[name](max_iter=6, checkpoint=path).fit(X)
            found: Any = np.asarray(model.transform(X))
    except REFUSED:
        return None
    except Exception as error:
        way_out = f"checkpoint {path}, and may have failed because of its contents: delete it"
        named = any(way_out in note for note in getattr(error, "__notes__", []))
        return "" if named or is_in_words(error) else told(error)
    return "" if np.all(np.isfinite(found)) else "not finite"


def tried(name: str, folder: Path, count: int, seed: int) -> list[str]:
    before = begun(name, folder)
    rng = np.random.default_rng([seed, list(FITS).index(name)])
    found = []
    for _ in range(count):
        file, change = forged(before, rng)
        write(file, folder / "forged.egck", kind="checkpoint")
        wrong = fault(name, folder / "forged.egck")
        found += [f"{change}: {wrong}"] if wrong else []
    return found


@pytest.mark.parametrize("name", FITS)
def test_a_forged_checkpoint_is_refused_or_goes_on(name, tmp_path):
    assert tried(name, tmp_path, 10, seed=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_many_forged_checkpoints_are_refused_or_go_on(name, tmp_path):
    assert tried(name, tmp_path, 200, seed=1) == []


@pytest.mark.parametrize("key", ["identity", "remembered", "runs"])
@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [[]], [{}], {"a": "b"}])
def test_headers_of_other_sorts(key, value, tmp_path):
    """One that is empty, and says so, has nothing to go on from."""
    file = begun("PPCA", tmp_path)
    header = {**file.header, key: value}
    path = tmp_path / "forged.egck"
    write(File([], header, file.arrays), path, kind="checkpoint")
    if (key, value) == ("remembered", {}):
        assert fault("PPCA", path) == ""
        return
    with silence(), pytest.raises(CorruptFileError, match="not a checkpoint that eigengap wrote"):
        FITS["PPCA"](max_iter=6, checkpoint=path).fit(X)
    assert path.exists()  # a file of another sort is not ours to replace
