"""`stream`: the method of the whole table, block by block, in order, into a file."""

from __future__ import annotations

import os
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA as TheirPCA

from eigengap import PPCA, PPCARegressor
from eigengap.runtime.warnings import warn
from eigengap.sources import streaming
from eigengap.sources.opening import open_source
from eigengap.sources.streaming import stream

N, D = 300, 5
NAMES = [f"x{j}" for j in range(D)]


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) @ rng.normal(size=(2, D)) + 0.1 * rng.normal(size=(N, D))
    X[rng.random((N, D)) < 0.1] = np.nan
    return X


@pytest.fixture
def table(tmp_path, X):
    path = tmp_path / "in.parquet"
    columns = {name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate(NAMES)}
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def model(X):
    return PPCA(2).fit(pd.DataFrame(X, columns=NAMES))


@pytest.mark.parametrize("to", ["out.parquet", "out.csv", "out.npy", "out.zarr", "out.h5"])
@pytest.mark.parametrize("block_rows", [7, 1000])
def test_transform(tmp_path, X, table, model, to, block_rows):
    path = stream(model.transform, open_source(table, block_rows=block_rows), tmp_path / to)
    assert path == tmp_path / to
    written = open_source(path)
    np.testing.assert_allclose(
        written.collect(), model.transform(pd.DataFrame(X, columns=NAMES)), rtol=1e-12
    )
    names = list(model.get_feature_names_out())
    assert written.names == (None if to == "out.npy" else tuple(names))


def test_paths_in_and_out_are_text_or_paths(tmp_path, table, model):
    stream(model.transform, str(table), str(tmp_path / "out.csv"))
    assert open_source(tmp_path / "out.csv").observed().rows == N


def test_impute_has_the_names_of_its_input_and_sd_beside_it(tmp_path, X, table, model):
    source = open_source(table, block_rows=40)
    method = partial(model.impute, return_std=True)
    stream(method, source, tmp_path / "out.parquet")
    written = open_source(tmp_path / "out.parquet")
    assert written.names == (*NAMES, *(f"{name}_sd" for name in NAMES))
    filled, sd = method(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_allclose(written.collect(), np.hstack([filled, sd]), rtol=1e-12)


def test_one_number_a_row_is_a_column_named_after_the_method(tmp_path, X, table, model):
    stream(model.score_samples, table, tmp_path / "out.csv")
    written = open_source(tmp_path / "out.csv")
    assert written.names == ("score_samples",)
    scores = model.score_samples(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_allclose(written.collect()[:, 0], scores, atol=1e-11)


def test_a_pair_of_numbers_a_row(tmp_path, X, table):
    model = PPCARegressor(2).fit(pd.DataFrame(X, columns=NAMES), np.nansum(X, axis=1))
    stream(partial(model.predict, return_std=True), table, tmp_path / "out.csv")
    assert open_source(tmp_path / "out.csv").names == ("predict", "predict_sd")


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (lambda X: np.asarray(X)[:, :2], ("y0", "y1")),
        (lambda X: np.asarray(X), tuple(NAMES)),
        (lambda X: X[["x3", "x1"]], ("x3", "x1")),
        (lambda X: np.asarray(X)[:, 0], ("y",)),
    ],
    ids=["other", "as-many", "frame", "flat"],
)
def test_names_of_any_function(tmp_path, table, method, names):
    stream(method, table, tmp_path / "out.csv")
    assert open_source(tmp_path / "out.csv").names == names


def test_names_may_be_given(tmp_path, table, model):
    stream(model.transform, table, tmp_path / "out.csv", columns_out=["u", "v"])
    assert open_source(tmp_path / "out.csv").names == ("u", "v")
    method = partial(model.impute, return_std=True)
    stream(method, table, tmp_path / "more.csv", columns_out=["a", "b", "c", "d", "e"])
    assert open_source(tmp_path / "more.csv").names[4:6] == ("e", "a_sd")
    with pytest.raises(ValueError, match="columns_out has 3 names, and there are 2 columns"):
        stream(model.transform, table, tmp_path / "bad.csv", columns_out=["u", "v", "w"])
    assert not (tmp_path / "bad.csv").exists()


@pytest.mark.parametrize("library", ["pandas", "polars", None])
def test_blocks_with_names_are_frames(tmp_path, X, library, monkeypatch):
    """So that scikit-learn's comparison of names with those of the fit holds."""
    monkeypatch.setattr(streaming, "_frame_library", lambda: library)
    complete = pd.DataFrame(np.nan_to_num(X), columns=NAMES)
    complete.to_csv(tmp_path / "in.csv", index=False)
    theirs = TheirPCA(2).fit(complete)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if library else "ignore")
        stream(theirs.transform, tmp_path / "in.csv", tmp_path / "out.csv")
    written = open_source(tmp_path / "out.csv")
    assert written.names == ("pca0", "pca1")
    np.testing.assert_allclose(written.collect(), theirs.transform(complete), atol=1e-12)


@pytest.mark.parametrize("kind", ["array", "frame", "sparse"])
def test_tables_in_memory(tmp_path, X, kind):
    X = np.nan_to_num(X)
    made = {"array": X, "frame": pd.DataFrame(X, columns=NAMES), "sparse": sp.csr_array(X)}[kind]
    model = PPCA(2).fit(X) if kind != "frame" else PPCA(2).fit(made)
    stream(model.transform, made, tmp_path / "out.npy")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model.transform(made), atol=1e-12)


def test_float32_stays(tmp_path, X):
    X = np.nan_to_num(X).astype(np.float32)
    np.save(tmp_path / "in.npy", X)
    stream(PPCA(2).fit(X).transform, tmp_path / "in.npy", tmp_path / "out.npy")
    assert np.load(tmp_path / "out.npy").dtype == np.float32


class Chatty(UserWarning):
    pass


def test_a_warning_of_every_block_is_told_once(tmp_path, table):
    def chatty(X):
        warn(f"block of {len(X)} rows", Chatty)
        return np.asarray(X)

    with pytest.warns(Chatty) as heard:
        stream(chatty, open_source(table, block_rows=90), tmp_path / "out.npy")
    assert [str(w.message) for w in heard] == [
        "block of 90 rows (the first of 4 blocks that say so)"
    ]
    assert heard[0].filename == __file__


def test_it_is_one_pass(tmp_path, table, model):
    source = open_source(table, block_rows=90)
    stream(model.transform, source, tmp_path / "out.npy")
    assert source.passes == 1


def test_a_file_may_be_replaced_by_what_is_made_of_it(tmp_path, X, table, model):
    stream(model.impute, table, table, force=True)
    written = open_source(table)
    assert not np.isnan(written.collect()).any()
    with pytest.raises(FileExistsError, match="force=True"):
        stream(model.impute, table, table)
    assert os.listdir(tmp_path) == ["in.parquet"]


@pytest.mark.parametrize("bad", ["rows", "text", "raises"])
def test_a_method_that_fails_leaves_nothing(tmp_path, table, bad):
    calls = []

    def method(X):
        calls.append(len(X))
        if len(calls) < 3:
            return np.asarray(X)
        if bad == "raises":
            raise RuntimeError("no")
        return np.asarray(X)[1:] if bad == "rows" else np.full(len(X), "a")

    expected = {"rows": "returned 89 rows for the 90 rows from 180 on", "text": "not numeric"}
    with pytest.raises((ValueError, RuntimeError), match=expected.get(bad, "no")):
        stream(method, open_source(table, block_rows=90), tmp_path / "out.csv")
    assert os.listdir(tmp_path) == ["in.parquet"]


def test_weights_are_refused(tmp_path, table, model):
    source = open_source(table, sample_weight=np.arange(float(N)))
    with pytest.raises(ValueError, match="Pass it without them"):
        stream(model.transform, source, tmp_path / "out.npy")


def test_dask(tmp_path, X, model):
    import dask
    import dask.array as da

    from eigengap.sources.dask import as_dask_source

    ours = PPCA(2).fit(X)
    lazy = da.from_array(X, chunks=(70, 3))
    with dask.config.set(scheduler="synchronous"):
        method = partial(ours.impute, return_std=True)
        stream(method, as_dask_source(lazy), tmp_path / "out.parquet")
        stream(ours.score_samples, as_dask_source(lazy), tmp_path / "scores.csv")
    written = open_source(tmp_path / "out.parquet")
    assert written.names == tuple(f"y{j}" for j in range(D)) + tuple(f"y{j}_sd" for j in range(D))
    np.testing.assert_allclose(written.collect(), np.hstack(method(X)), rtol=1e-10)
    assert open_source(tmp_path / "scores.csv").names == ("score_samples",)


def test_names_of_a_frame_that_workers_return_are_kept(tmp_path, X):
    import dask.array as da
    import pandas as pd

    def ends(rows):
        return pd.DataFrame({"low": rows.min(axis=1), "high": rows.max(axis=1)})

    X = np.nan_to_num(X)
    stream(ends, da.from_array(X, chunks=(70, 3)), tmp_path / "out.csv")
    written = open_source(tmp_path / "out.csv")
    assert written.names == ("low", "high")
    np.testing.assert_allclose(written.collect(), ends(X), rtol=1e-12)


def test_arguments_in_another_order_are_told_with_the_one_that_is_meant(tmp_path, X, table, model):
    to = tmp_path / "out.csv"
    way = r"stream\(model\.transform, X, to\) takes a function first, then the table"
    for of in (X, table, pd.DataFrame(X, columns=NAMES)):
        with pytest.raises(TypeError, match=f'X is a function, "impute": {way}'):
            stream(of, model.impute, to)
    with pytest.raises(TypeError, match="X is a function"):
        stream(table, partial(model.impute, return_std=True), to)
    with pytest.raises(TypeError, match=f"function is PPCA .* one of its methods: {way}"):
        stream(model, table, to)
    assert not to.exists()
