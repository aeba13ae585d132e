"""Names that a terminal would act on, and names of files that are no UTF-8."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
import zarr
from tests.cli.running import run
from tests.forging import read, write

import eigengap as eg
from eigengap.exceptions import CheckpointMismatchError, CorruptFileError, NewerFormatError
from eigengap.persistence.model_file import inspect_file, load
from eigengap.plots.theme import save
from eigengap.runtime.warnings import silence

ESCAPE = "a\x1b[31mred\x1b]0;title\x07\x9b2J\u202e"
X = np.random.default_rng(0).normal(size=(30, 4))
ESTIMATORS = (
    eg.PCA(1),
    eg.PPCA(1),
    eg.MixturePPCA(1, 1),
    eg.ICA(1),
    eg.Whitener(),
    eg.ClassicalMDS(1),
    eg.KernelPCA(1),
    eg.Isomap(n_components=1),
    eg.LaplacianEigenmaps(1),
    eg.NoveltyDetector(eg.PPCA(1)),
    eg.LowRankImputer(eg.PPCA(1)),
)


def frame(*names: str) -> pd.DataFrame:
    return pd.DataFrame(X.copy(), columns=list(names))


def said(ask: Callable[[], object]) -> str:
    """What is printed where a call fails."""
    with silence(), pytest.raises(ValueError) as raised:  # noqa: PT011, the words are looked at
        ask()
    return "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])


def is_printable(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_messages_about_columns_hold_no_escape_sequence(estimator):
    with silence():
        estimator.fit(frame(ESCAPE, "b", "c", "d"))
    ask = "score_samples" if isinstance(estimator, eg.NoveltyDetector) else "transform"
    for other in (
        frame("b", ESCAPE, "c", "d"),
        frame("x", "b", "c", "d"),
        frame(ESCAPE + "y", "b", "c", "d"),
        frame(ESCAPE, ESCAPE, "c", "d"),
        pl.DataFrame({"x": X[:, 0], ESCAPE + "z": X[:, 1], "c": X[:, 2], "d": X[:, 3]}),
    ):
        words = said(lambda other=other: getattr(estimator, ask)(other))
        assert is_printable(words)
        assert "feature names" in words or "columns named" in words
    words = said(lambda: estimator.fit(frame(ESCAPE, ESCAPE, "c", "d")))
    assert is_printable(words)
    bad = frame(ESCAPE, "b", "c", "d")
    bad.iloc[3, 0] = np.inf
    assert is_printable(said(lambda: estimator.fit(bad)))


def test_the_names_are_still_told_apart():
    model = eg.PPCA(1).fit(frame(ESCAPE, "b", "c", "d"))
    words = said(lambda: model.transform(frame("x", "b", "c", "d")))
    assert r"a\x1b[31mred" in words
    assert "Feature names unseen at fit time:\n- x" in words


def test_texts_of_a_model_file_are_printed_escaped(tmp_path):
    path = eg.save(eg.PPCA(1).fit(X), tmp_path / f"m{ESCAPE}.egap")
    whole = read(path)
    for key, value in (("kind", ESCAPE), ("writer", ESCAPE), ("nodes", [{"is": ESCAPE}])):
        changed = whole.copied()
        changed.header[key] = value
        if key == "writer":
            changed.nodes[-1]["kind"] = ESCAPE
        write(changed, path)
        with pytest.raises((CorruptFileError, NewerFormatError)) as raised:
            load(path)
        assert is_printable(str(raised.value))
        assert r"\x1b" in str(raised.value)
    write(whole.copied(), path, kind=ESCAPE)
    with pytest.raises(CorruptFileError) as raised:
        load(path)
    assert is_printable(str(raised.value))


def test_texts_of_a_checkpoint_are_printed_escaped(tmp_path):
    path = tmp_path / f"c{ESCAPE}.egck"
    incomplete = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    with silence():
        eg.PPCA(1, max_iter=2, tol=1e-12, checkpoint=path).fit(incomplete)
    changed = read(path, kind="checkpoint")
    changed.header["identity"]["estimator"] = ESCAPE
    write(changed, path, kind="checkpoint")
    with silence(), pytest.raises(CheckpointMismatchError) as raised:
        eg.PPCA(1, max_iter=3, tol=1e-12, checkpoint=path).fit(incomplete)
    assert is_printable(str(raised.value))


# Names that are no UTF-8 -------------------------------------------------------------------------

BYTES = b"caf\xe9"  # in Latin 1


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder of such a name, in which files have such names as well."""
    found = tmp_path / os.fsdecode(BYTES)
    try:
        found.mkdir()
    except (OSError, UnicodeError):
        pytest.skip("the file system takes UTF-8 alone")
    return found


def write_zarr(path: str) -> None:
    array = zarr.open(path, mode="w", shape=X.shape, chunks=(10, 4), dtype="f8")
    array[:] = X


def write_h5(path: str) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = X


TABLE = frame("a", "b", "c", "d")
WRITERS: dict[str, Callable[[str], object]] = {
    ".csv": lambda path: TABLE.to_csv(path, index=False),
    ".csv.gz": lambda path: TABLE.to_csv(path, index=False),
    ".parquet": TABLE.to_parquet,
    ".npy": lambda path: np.save(path, X),
    ".npz": lambda path: np.savez(path, x=X),
    ".h5": write_h5,
    ".zarr": write_zarr,
    ".nc": lambda path: xr.DataArray(X, dims=("t", "c"), name="v").to_netcdf(
        path, engine="h5netcdf"
    ),
}  # fmt: skip


@pytest.mark.parametrize("suffix", WRITERS)
def test_tables_of_any_name_are_read(suffix, folder, tmp_path):
    plain = tmp_path / f"plain{suffix}"
    WRITERS[suffix](str(plain))
    foreign = folder / (os.fsdecode(BYTES) + suffix)
    (shutil.copytree if plain.is_dir() else shutil.copy)(plain, foreign)
    for path in (foreign, str(foreign)):
        found = eg.PCA(1).fit(path)
        np.testing.assert_allclose(found.mean_, X.mean(axis=0))
    missing = folder / f"no{os.fsdecode(BYTES)}{suffix}"
    with pytest.raises(FileNotFoundError) as raised:
        eg.PCA(1).fit(missing)
    assert is_printable(str(raised.value))


def test_what_is_written_may_have_any_name(folder):
    name = os.fsdecode(BYTES)
    table = folder / f"{name}.csv"
    shutil.copy(_plain_csv(folder), table)
    model = eg.PPCA(2).fit(table)
    again = load(eg.save(model, folder / f"{name}.egap"))
    assert np.array_equal(again.transform(TABLE), model.transform(TABLE))
    assert inspect_file(folder / f"{name}.egap").kind == "PPCA"
    for suffix in (".svg", ".json"):
        assert save(model.plot.scores(table, color="a"), folder / f"{name}{suffix}").exists()
    for suffix in (".csv", ".parquet", ".npy", ".h5", ".zarr"):
        eg.stream(model.impute, table, folder / f"{name}-out{suffix}")
        again = eg.PCA(1).fit(folder / f"{name}-out{suffix}")
        np.testing.assert_allclose(again.mean_, X.mean(axis=0))


def _plain_csv(folder: Path) -> Path:
    TABLE.to_csv(folder.parent / "plain.csv", index=False)
    return folder.parent / "plain.csv"


BARE = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def named(folder: Path, end: bytes) -> str:
    return str(folder / os.fsdecode(BYTES + end))


def test_the_command_line_takes_any_name(folder):
    """In a process of its own: the system hands arguments over as bytes."""
    shutil.copy(_plain_csv(folder), named(folder, b".csv"))
    ran = run("fit", named(folder, b".csv"), "-o", named(folder, b".egap"), cwd=folder, LC_ALL="C")
    assert ran.code == 0, ran.err
    assert load(named(folder, b".egap")).provenance_["data"] == named(folder, b".csv")


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_every_command_takes_any_name(locale, folder):
    shutil.copy(_plain_csv(folder), named(folder, b".csv"))
    eg.save(eg.PPCA(2).fit(TABLE), named(folder, b".egap"))
    for call in (
        ["inspect", named(folder, b".egap")],
        ["impute", named(folder, b".csv"), "-o", named(folder, b"-out.csv")],
        ["transform", named(folder, b".egap"), named(folder, b".csv"), "-o", "-"],
        ["rank", named(folder, b".csv")],
        ["report", named(folder, b".egap"), named(folder, b".csv"), "-o", named(folder, b".html")],
    ):
        ran = run(*call, cwd=folder, LC_ALL=locale, **BARE)
        assert ran.code == 0, ran.err
        assert ran.text + ran.err  # what is printed is UTF-8, as ever
