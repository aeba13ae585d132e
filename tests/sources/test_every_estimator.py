"""Every estimator on every kind of table: the same numbers, and as many passes as are told.

The table in memory is the oracle; docs/scaling.md states the passes.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.tolerance import assert_same_optimum

import eigengap as eg
from eigengap import registry
from eigengap.fitting.gaussian import factor_covariance
from eigengap.fitting.gaussian import noise as gaussian_em

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N, D = 240, 8


def table(missing: bool) -> np.ndarray:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 3)) @ rng.normal(size=(3, D)) + 0.3 * rng.normal(size=(N, D)) + 4.0
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def frame(X):
    import pandas

    return pandas.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


def npy(X, folder):
    np.save(folder / "table.npy", X)
    return eg.open_source(folder / "table.npy", block_rows=37)


def npz(X, folder):
    np.savez(folder / "table.npz", table=X)
    return eg.open_source(folder / "table.npz", block_rows=37)


def csv(X, folder):
    frame(X).to_csv(folder / "table.csv", index=False)
    return eg.open_source(folder / "table.csv", block_rows=37)


def csv_gz(X, folder):
    frame(X).to_csv(folder / "table.csv.gz", index=False)
    return eg.open_source(folder / "table.csv.gz", block_rows=37)


def parquet(X, folder):
    frame(X).to_parquet(folder / "table.parquet", row_group_size=50)
    return eg.open_source(folder / "table.parquet", block_rows=37)


def many(X, folder):
    for k, part in enumerate(np.array_split(X, 3)):
        np.save(folder / f"part-{k}.npy", part)
    return eg.open_source(folder / "part-*.npy", block_rows=37)


def hdf5(X, folder):
    import h5py

    with h5py.File(folder / "table.h5", "w") as file:
        file["table"] = X
    return eg.open_source(folder / "table.h5", block_rows=37)


def zarr(X, folder):
    import zarr

    zarr.save_array(str(folder / "table.zarr"), X)
    return eg.open_source(folder / "table.zarr", block_rows=37)


def field(X, folder):
    import xarray

    grid = X.reshape(N, 2, D // 2)
    xarray.DataArray(grid, dims=("time", "lat", "lon"), name="x").to_netcdf(
        folder / "field.nc", engine="h5netcdf"
    )
    return eg.open_source(folder / "field.nc", sample_dim="time", block_rows=37)


def dask_array(X, folder):
    import dask.array

    return dask.array.from_array(X, chunks=(50, 3))


def dask_frame(X, folder):
    import dask.dataframe

    return dask.dataframe.from_pandas(frame(X), npartitions=4)


def blocks(X, folder):
    from eigengap.sources.conversion import as_source

    return as_source(X, block_rows=7)


SOURCES = {
    make.__name__: make
    for make in (
        blocks, npy, npz, csv, csv_gz, parquet, many, hdf5, zarr, field, dask_array, dask_frame,
    )
}  # fmt: skip

ESTIMATORS = {
    "PCA": lambda: eg.PCA(3),
    "PCA-scaled": lambda: eg.PCA(3, scale=True),
    "PPCA": lambda: eg.PPCA(3),
    "PPCA-auto": lambda: eg.PPCA(),
    "PPCA-student": lambda: eg.PPCA(3, distribution="student"),
    # With 3 factors it is a Heywood case, whose optimum is known to few digits: a covariance of
    # condition number 1e7.
    "FactorAnalysis": lambda: eg.FactorAnalysis(2),
    "FactorAnalysis-columns": lambda: eg.FactorAnalysis(2, columns="auto", tol=1e-7),
    "PPCA-columns": lambda: eg.PPCA(2, columns="auto", tol=1e-7),
    "BayesianPCA": lambda: eg.BayesianPCA(4),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 2, random_state=0, max_iter=60, tol=1e-9),
    "Whitener": lambda: eg.Whitener(),
    "KernelPCA": lambda: eg.KernelPCA(3),
    "ClassicalMDS": lambda: eg.ClassicalMDS(2),
    "Isomap": lambda: eg.Isomap(2, n_neighbors=8),
    "LaplacianEigenmaps": lambda: eg.LaplacianEigenmaps(2),
    "NoveltyDetector": lambda: eg.NoveltyDetector(eg.PPCA(2)),
    "LowRankImputer": lambda: eg.LowRankImputer(eg.PPCA(2)),
}
# Iterative on complete rows too.
ITERATIVE = {
    *("PPCA-student", "FactorAnalysis", "BayesianPCA", "MixturePPCA"),
    *("FactorAnalysis-columns", "PPCA-columns"),
}
COVARIANT = {"PCA", "PCA-scaled", "PPCA", "PPCA-auto", "FactorAnalysis", "BayesianPCA"}


def answers(model, X) -> dict[str, np.ndarray]:
    """What a model says of a table, whatever kind of table that is."""
    found = {}
    if hasattr(model, "get_covariance"):
        found["covariance"] = model.get_covariance()
    if hasattr(model, "transform"):
        found["transform"] = model.transform(X)
    if hasattr(model, "score_samples"):
        found["score_samples"] = model.score_samples(X)
    if hasattr(model, "impute"):
        filled, sd = model.impute(X, return_std=True)
        found |= {"filled": filled, "sd": sd}
    return {name: np.asarray(value).reshape(len(value), -1) for name, value in found.items()}


@pytest.fixture(scope="module")
def in_memory():
    """Answers of each estimator fitted in memory, each fitted once."""
    known: dict[tuple[str, bool], dict[str, np.ndarray]] = {}

    def of(name: str, missing: bool) -> dict[str, np.ndarray]:
        if (name, missing) not in known:
            X = table(missing)
            known[name, missing] = answers(ESTIMATORS[name]().fit(X), X)
        return known[name, missing]

    return of


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_numbers_are_those_of_the_table_in_memory(name, kind, missing, in_memory, tmp_path):
    X = SOURCES[kind](table(missing), tmp_path)
    found = answers(ESTIMATORS[name]().fit(X), X)
    wanted = in_memory(name, missing)
    assert found.keys() == wanted.keys()
    for what, value in wanted.items():
        if missing or name in ITERATIVE:
            assert_same_optimum(found[what], value, what)
            continue
        size = np.max(np.abs(value))
        np.testing.assert_allclose(found[what], value, atol=1e-10 * size, rtol=1e-9, err_msg=what)


# passes = n_iter_ times a, plus b
PASSES = {
    ("PCA", False): (0, 1),
    ("PCA-scaled", False): (0, 2),
    ("PPCA", False): (0, 1),
    ("FactorAnalysis", False): (0, 1),
    ("Whitener", False): (0, 1),
    ("PCA", True): (1, 3),
    ("PPCA", True): (1, 3),
    ("FactorAnalysis", True): (1, 3),
}


@pytest.mark.parametrize(("name", "missing"), PASSES)
def test_passes_over_a_file_are_as_told(name, missing, tmp_path, monkeypatch):
    # A small table, and one of few columns whose covariance has several optima, has more starts.
    monkeypatch.setattr(gaussian_em, "CHEAP_CELLS", 0)
    monkeypatch.setattr(factor_covariance, "LISTED", 0)
    source = npy(table(missing), tmp_path)
    model = ESTIMATORS[name]().fit(source)
    per_step, first = PASSES[name, missing]
    assert source.passes == per_step * model.n_iter_ + first


def test_kernels_of_what_does_not_fit_are_fitted_on_a_sample_that_is_told(tmp_path, monkeypatch):
    source = npy(table(missing=True), tmp_path)
    monkeypatch.setattr(type(source), "fits_in_memory", False)
    monkeypatch.setattr("eigengap.estimators.shared.transformer.MOST_DRAWN", 100)
    with pytest.warns(eg.exceptions.SampledWarning, match=r"KernelPCA.*240 rows.*on 100 rows"):
        model = eg.KernelPCA(2).fit(source)
    assert model.transform(source).shape == (N, 2)


def test_rows_whose_columns_are_not_those_of_the_fit_are_refused(tmp_path):
    X = table(missing=False)
    model = eg.PCA(2).fit(csv(X, tmp_path))
    assert list(model.feature_names_in_) == [f"c{j}" for j in range(D)]
    frame(X)[[f"c{j}" for j in reversed(range(D))]].to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match=r"in another order.*open_source\(path, columns="):
        model.transform(tmp_path / "other.csv")
    turned = eg.open_source(tmp_path / "other.csv", columns=list(model.feature_names_in_))
    np.testing.assert_allclose(model.transform(turned), model.transform(frame(X)))
    frame(X).rename(columns={"c3": "weight"}).to_csv(tmp_path / "third.csv", index=False)
    with pytest.raises(ValueError, match=r'has not seen "weight"'):
        model.transform(tmp_path / "third.csv")
    np.save(tmp_path / "narrow.npy", X[:, :5])
    with pytest.raises(ValueError, match="X has 5 features, but PCA is expecting 8"):
        model.transform(tmp_path / "narrow.npy")


FROM_A_PATH = {
    "ICA": lambda: eg.ICA(2, random_state=0),
    "MaximumVarianceUnfolding": lambda: eg.MaximumVarianceUnfolding(2, max_iter=3),
    "StructurePreservingEmbedding": lambda: eg.StructurePreservingEmbedding(
        2, n_init=1, max_iter=2
    ),
    "GPLVM": lambda: eg.GPLVM(1, kernel="linear"),
    "Autoencoder": lambda: eg.Autoencoder(2, max_iter=3, random_state=0),
}


FROM_A_PATH |= {
    entry.name: getattr(eg, entry.name)
    for entry in registry.ESTIMATORS
    if entry.name not in (*ESTIMATORS, *FROM_A_PATH) and not entry.target
}


@pytest.mark.parametrize("name", FROM_A_PATH)
def test_the_others_take_a_path_too(name, tmp_path):
    """One block, so that also those agree whose steps follow the blocks."""
    X = table(missing=False)[:60]
    frame(X).to_csv(tmp_path / "table.csv", index=False)
    model, memory = (FROM_A_PATH[name]().fit(rows) for rows in (tmp_path / "table.csv", frame(X)))
    assert list(model.feature_names_in_) == [f"c{j}" for j in range(D)]
    wanted = memory.transform(frame(X))
    np.testing.assert_allclose(
        model.transform(tmp_path / "table.csv"), wanted, atol=1e-7 * np.max(np.abs(wanted))
    )


def test_every_transformer_is_tried_on_a_path():
    known = {name.split("-")[0] for name in (*ESTIMATORS, *FROM_A_PATH)}
    transformers = {name for name in eg.__all__ if hasattr(getattr(eg, name), "fit_transform")}
    assert transformers <= known
