"""Laws of labelled fields: samples are rows, cells are columns, and the way back is exact."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap import PCA, PPCA
from eigengap.sources.conversion import as_source
from eigengap.sources.fields.places import is_field
from eigengap.sources.fields.reader import LARGEST_CHUNK, steps
from eigengap.sources.fields.table import field_like, field_source

DAYS = np.datetime64("2001-01-01", "ns") + np.arange(400) * np.timedelta64(1, "D")


def sea(n=60, lat=3, lon=5, missing=0.2, land=((0, 1), (2, 4)), seed=0):
    """A field of rank 2 with noise, clouds and land."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, lat * lon)) * 3.0
    X += 0.3 * rng.normal(size=X.shape) + 280.0
    X[rng.random(X.shape) < missing] = np.nan
    field = xr.DataArray(
        X.reshape(n, lat, lon),
        dims=("time", "lat", "lon"),
        coords={
            "time": DAYS[:n],
            "lat": ("lat", np.linspace(-10.5, 10.5, lat), {"units": "degrees_north"}),
            "lon": 20.0 + 5.0 * np.arange(lon),
            "area": (("lat", "lon"), rng.random((lat, lon))),
            "month": ("time", np.arange(n) % 12),
            "height": 2.0,
        },
        name="sst",
        attrs={"units": "K", "long_name": "sea surface temperature"},
    )
    for i, j in land:
        field[:, i, j] = np.nan
    return field


def table_of(field, sample_dim="time"):
    """The table by xarray's own stacking, columns without any value dropped."""
    others = [dim for dim in field.dims if dim != sample_dim]
    stacked = field.stack(cell=others).transpose(sample_dim, "cell")
    return stacked.dropna("cell", how="all")


@st.composite
def fields(draw):
    """(field, sample_dim): one to four dimensions in any order, any pattern of unseen cells."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    dims = draw(st.permutations(["a", "b", "c", "d"]))[: len(sizes)]
    shape = tuple(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(size=shape).astype(draw(st.sampled_from(["f4", "f8"])))
    values[rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 0.8]))] = np.nan
    values.flat[0] = 1.0
    with_coords = draw(st.lists(st.sampled_from(dims), unique=True))
    coords = {dim: rng.permutation(10)[: shape[dims.index(dim)]] / 4 for dim in with_coords}
    field = xr.DataArray(values, dims=dims, coords=coords, name="x", attrs={"units": "m"})
    return field, draw(st.sampled_from(dims))


@settings(deadline=None, max_examples=50)
@given(made=fields(), block_rows=st.integers(1, 5))
def test_stacking_and_unstacking_is_the_identity(made, block_rows):
    field, sample_dim = made
    source = field_source(field, sample_dim=sample_dim, block_rows=block_rows)
    back = source.to_field(source.collect(), dim=sample_dim)
    others = [dim for dim in field.dims if dim != sample_dim]
    xr.testing.assert_identical(back, field.transpose(sample_dim, *others))
    assert back.dtype == field.dtype
    assert len(set(source.names)) == source.n_features
    never = np.isnan(field.transpose(sample_dim, *others).values).all(axis=0)
    np.testing.assert_array_equal(source.never_observed.values, never)


@settings(deadline=None, max_examples=50)
@given(made=fields())
def test_columns_are_those_of_xarrays_own_stack(made):
    field, sample_dim = made
    if field.ndim < 2:
        return
    source = field_source(field, sample_dim=sample_dim)
    np.testing.assert_array_equal(source.collect(), table_of(field, sample_dim).values)


@settings(deadline=None)
@given(
    chunks=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    rows=st.integers(1, 30),
)
def test_steps_cover_every_row_and_cut_no_chunk_that_is_not_far_too_large(chunks, rows):
    length = sum(chunks)
    cut = list(steps(iter(chunks), length, rows))
    assert [start for start, _ in cut] == [0, *(stop for _, stop in cut[:-1])]
    assert cut[-1][1] == length
    assert all(0 < stop - start <= LARGEST_CHUNK * rows for start, stop in cut)
    ends = np.cumsum(chunks).tolist()
    far_too_large = [
        (end - c, end) for end, c in zip(ends, chunks, strict=True) if c > LARGEST_CHUNK * rows
    ]
    inside = {stop for _, stop in cut} - set(ends)
    assert all(any(low < e < high for low, high in far_too_large) for e in inside)
    whole = [stop - start for start, stop in cut if stop in ends and start in {0, *ends}]
    few = pairwise(whole)
    assert far_too_large or all(a + b > rows for a, b in few)  # none that could have been joined


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("estimator", [PCA, PPCA])
def test_models_are_those_of_the_table(estimator, missing, block_rows):
    field = sea(missing=missing)
    source = field_source(field, block_rows=block_rows)
    here, there = estimator(2).fit(source), estimator(2).fit(table_of(field).values)
    assert here.n_features_in_ == 13
    assert list(here.feature_names_in_) == list(source.names)
    C = there.get_covariance()
    np.testing.assert_allclose(here.get_covariance(), C, rtol=0, atol=1e-10 * np.abs(C).max())
    np.testing.assert_allclose(here.mean_, there.mean_, rtol=1e-12)
    score = there.score_samples(table_of(field).values)
    np.testing.assert_allclose(here.score_samples(source), score, rtol=1e-9, atol=1e-9)


def test_cells_that_are_never_observed_are_kept_apart_from_missing():
    source = field_source(sea(), block_rows=7)
    assert source.n_features == 13
    assert source.has_missing is True
    assert source.never_observed.values.sum() == 2
    assert bool(source.never_observed.sel(lat=-10.5, lon=25.0))
    complete = field_source(sea(missing=0.0), block_rows=7)
    assert complete.has_missing is False
    assert complete.n_features == 13
    model = PPCA(2).fit(source)
    axes = source.to_field(model.components_)
    assert axes.dims == ("component", "lat", "lon")
    assert list(axes.component.values) == ["PC1", "PC2"]
    np.testing.assert_array_equal(np.isnan(axes[0].values), source.never_observed.values)
    assert "units" not in axes.attrs
    xr.testing.assert_identical(
        axes.coords["area"].drop_vars("height"), sea().area.drop_vars("height")
    )


def test_opening_is_one_pass_that_counts_what_is_observed_and_none_where_columns_are_given():
    source = field_source(sea(), block_rows=7)
    assert source.passes == 1
    observed = source.observed()
    assert source.passes == 1
    np.testing.assert_array_equal(
        observed.per_column, (~np.isnan(table_of(sea()).values)).sum(axis=0)
    )
    told = field_source(sea(), columns=source.names, block_rows=7)
    assert told.passes == 0
    for each in (source, told):
        PPCA(2).fit(each)
    assert source.passes == told.passes + 1


def test_a_sample_of_weight_zero_is_as_if_absent():
    field = sea()
    weight = np.tile([1.0, 0.0, 2.0], 20)
    field[:, 1, 1] = np.nan
    field[1, 1, 1] = 5.0  # seen only where the weight is 0
    source = field_source(field, sample_weight=weight, block_rows=7)
    assert source.n_features == 12
    table = table_of(field[weight > 0]).values
    there = PPCA(2).fit(table, sample_weight=weight[weight > 0])
    here = PPCA(2).fit(source)
    np.testing.assert_allclose(here.get_covariance(), there.get_covariance(), rtol=1e-9, atol=1e-10)
    back = source.to_field(source.map(lambda block: block.values))
    assert back.sizes["time"] == 40
    np.testing.assert_array_equal(back.time.values, field.time.values[weight > 0])


def test_names_are_coordinates_and_positions_where_there_are_none():
    field = xr.DataArray(
        np.ones((2, 2, 3, 1)),
        dims=("t", "lat", "level", "when"),
        coords={
            "lat": np.array([0.1, -0.0], dtype="f4"),
            "when": [np.datetime64("2001-02-03", "ns")],
        },
    )
    names = field_source(field).names
    assert names[0] == "lat=0.1, level=0, when=2001-02-03"
    assert names[-1] == "lat=0, level=2, when=2001-02-03"
    assert field_source(xr.DataArray(np.ones(4), dims="t", name="flow")).names == ("flow",)


def test_coordinates_that_differ_in_rounding_only_are_the_same_place():
    x = np.array([0.1, 0.2, 0.3])
    first = xr.DataArray(np.ones((2, 3)), dims=("t", "x"), coords={"x": x})
    second = first.assign_coords(x=[0.1, 0.2, 0.1 + 0.2])
    assert field_source(first).names == field_source(second).names


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 1.0, 2.0],
        [np.nan, np.nan, 0.0],
        ["a", "a", "a (0)"],
        ["1, y=2", "1", "2, y=1"],
        ["1", "1 ", '"1"'],
        ["", "\n", "\t"],
    ],
    ids=["twice", "nan", "text-twice", "separators", "spaces", "blank"],
)
def test_hostile_coordinates_give_unique_names(values):
    y = ["2", "2, y=2", "1"]
    field = xr.DataArray(
        np.arange(18.0).reshape(2, 3, 3), dims=("t", "x", "y"), coords={"x": values, "y": y}
    )
    source = field_source(field)
    assert len(set(source.names)) == 9
    assert all(name.isprintable() for name in source.names)
    model = PCA(1).fit(source)
    assert list(model.feature_names_in_) == list(source.names)
    xr.testing.assert_identical(source.to_field(source.collect(), dim="t"), field)
    chosen = field_source(field, columns=list(source.names[::-1]))
    np.testing.assert_array_equal(chosen.collect(), source.collect()[:, ::-1])


@pytest.mark.parametrize("dims", [("=", ", "), ("x\n", "</script>"), (0, ("a", 1))], ids=str)
def test_hostile_names_of_dimensions(dims):
    field = xr.DataArray(np.arange(12.0).reshape(2, 2, 3), dims=("t", *dims))
    source = field_source(field)
    assert len(set(source.names)) == 6
    xr.testing.assert_identical(source.to_field(source.collect(), dim="t"), field)


def test_coordinates_over_several_levels_come_back():
    field = sea(missing=0.0, land=()).stack(place=("lat", "lon"))
    source = field_source(field)
    assert source.names[0] == 'place="(-10.5, 20)"'
    xr.testing.assert_identical(source.to_field(source.collect()), field)
    along = sea(missing=0.0, land=()).stack(sample=("time", "lat")).transpose("sample", "lon")
    source = field_source(along)
    back = source.to_field(source.collect())
    xr.testing.assert_identical(back, along.drop_vars("area"))  # it lies across both
    assert back.indexes["sample"].equals(along.indexes["sample"])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("f4", "f4"),
        (">f4", "f4"),
        ("f8", "f8"),
        ("f2", "f8"),
        ("i2", "f8"),
        ("u1", "f8"),
        ("?", "f8"),
    ],
)
def test_types_of_numbers(dtype, expected):
    values = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    source = field_source(xr.DataArray(values, dims=("t", "x")))
    assert source.dtype == np.dtype(expected)
    assert source.collect().dtype == np.dtype(expected)
    assert source.collect().dtype.isnative
    np.testing.assert_array_equal(source.collect(), values.astype("f8"))


def test_in_memory_a_whole_grid_is_read_without_a_copy():
    field = sea(missing=0.0, land=())
    source = field_source(field)
    shares = []
    source.map(lambda b: shares.append(np.shares_memory(b.values, field.values)) or b.values[:, :1])
    assert shares == [True]


def test_codes_stand_for_missing_cells_of_land_too():
    field = sea().fillna(-999.0)
    source = field_source(field, missing_values=-999.0)
    assert source.names == field_source(sea()).names
    np.testing.assert_array_equal(source.collect(), table_of(sea()).values)


def test_a_variable_of_a_dataset():
    data = xr.Dataset({"sst": sea(), "ice": sea(seed=1).drop_vars("area")})
    source = field_source(data, variable="ice")
    assert source.variable == "ice"
    np.testing.assert_array_equal(source.collect(), table_of(sea(seed=1)).values)
    assert field_source(data[["sst"]]).variable == "sst"


def test_columns_choose_cells_by_name_position_or_mask():
    field = sea()
    whole = field_source(field)
    some = [whole.names[4], whole.names[0]]
    np.testing.assert_array_equal(
        field_source(field, columns=some).collect(), whole.collect()[:, [4, 0]]
    )
    first = field_source(field, columns=[0, -2])
    assert first.names == ("lat=-10.5, lon=20", "lat=10.5, lon=35")
    north = (field.lat > 0).expand_dims(lon=field.lon).drop_vars("height")
    source = field_source(field, columns=north)  # its dimensions stand the other way round
    assert field_source(field, columns=north.transpose().values).names == source.names
    assert source.names[0] == "lat=10.5, lon=20"
    assert source.n_features == 5  # land that is asked for is a column
    back = source.to_field(source.collect())
    assert bool(back.sel(lat=-10.5).isnull().all())
    xr.testing.assert_equal(back.sel(lat=10.5), field.sel(lat=10.5))


def test_single_rows_and_samples_carry_attributes_and_name():
    source = field_source(sea())
    mean = source.to_field(np.nanmean(source.collect(), axis=0))
    assert mean.dims == ("lat", "lon")
    assert mean.name == "sst"
    assert mean.attrs["units"] == "K"
    assert mean.lat.attrs["units"] == "degrees_north"
    xr.testing.assert_allclose(
        mean, sea().mean("time", keep_attrs=True).drop_vars("month", errors="ignore")
    )
    filled = source.to_field(source.collect(), name="filled")
    assert filled.name == "filled"
    xr.testing.assert_identical(filled.rename("sst"), sea())


def test_other_rows_are_labelled_as_asked():
    source = field_source(sea())
    rows = np.zeros((2, 13), dtype="f4")
    field = source.to_field(rows, dim="draw", labels=["low", "high"], name="q")
    assert (field.dims, field.dtype, field.name) == (("draw", "lat", "lon"), np.float32, "q")
    assert list(field.draw.values) == ["low", "high"]
    assert "draw" not in source.to_field(rows, dim="draw").coords
    square = field_source(sea(n=3, missing=0.0))
    axes = np.zeros((3, square.n_features))
    assert square.to_field(axes).dims[0] == "time"  # as many rows as samples
    assert square.to_field(axes, dim="component").dims[0] == "component"


def test_coordinates_that_are_called_like_a_new_dimension_give_way():
    field = sea().assign_coords(component=5).assign_coords(draw=("time", np.arange(60)))
    source = field_source(field)
    axes = source.to_field(np.zeros((2, 13)))
    assert list(axes.component.values) == ["PC1", "PC2"]
    assert source.to_series(np.zeros((60, 2)), dim="draw").dims == ("time", "draw")
    xr.testing.assert_identical(source.to_field(source.collect()), field)


def test_series_along_the_samples():
    field = sea()
    source = field_source(field)
    model = PPCA(2).fit(source)
    scores = source.to_series(model.transform(source), name="scores")
    assert scores.dims == ("time", "component")
    assert list(scores.component.values) == ["PC1", "PC2"]
    np.testing.assert_array_equal(scores.month.values, field.month.values)
    likelihood = source.to_series(model.score_samples(source))
    assert likelihood.dims == ("time",)
    assert likelihood.sel(time="2001-01-03").item() == model.score_samples(source)[2]


def test_a_new_field_has_the_columns_of_the_first_whatever_it_shows():
    source = field_source(sea())
    new = sea(n=4, seed=1, land=((1, 1), (2, 2)))
    there = source.same_columns(new.transpose("lon", "time", "lat"))
    assert there.names == source.names
    assert there.passes == 0
    flat = new.stack(cell=("lat", "lon")).transpose("time", "cell").values
    np.testing.assert_array_equal(there.collect(), flat[:, ~source.never_observed.values.ravel()])
    model = PPCA(2).fit(source)
    filled = there.to_field(there.map(lambda b: model.model_.conditional_mean(b.values)))
    np.testing.assert_array_equal(filled.time.values, new.time.values)
    assert not filled.sel(lat=0.0, lon=25.0).isnull().any()
    assert filled.sel(lat=-10.5, lon=25.0).isnull().all()
    one = source.same_columns(new.isel(time=[2]))
    np.testing.assert_array_equal(one.collect(), there.collect()[[2]])
    assert source.same_columns(there).names == source.names
    data = xr.Dataset({"sst": new, "other": new})
    np.testing.assert_array_equal(source.same_columns(data).collect(), there.collect())


@pytest.mark.parametrize("kind", ["source", "array", "dataset", "full"])
def test_values_come_back_like_what_was_given(kind):
    field = sea(land=()) if kind == "full" else sea()
    source = field_source(field)
    X = {"source": source, "dataset": field.to_dataset()}.get(kind, field)
    xr.testing.assert_identical(field_like(X, source.collect()), field)
    if kind != "source":
        xr.testing.assert_identical(field_like(X, source.collect(), source.names), field)


def test_dask_is_computed_block_by_block_and_no_chunk_twice():
    dask = pytest.importorskip("dask.array")
    field, computed = sea(), []

    def look(block, block_info=None):
        computed.append((block_info[0]["array-location"][0], block.shape))
        return block

    chunked = field.chunk(time=13, lat=2)
    data = dask.map_blocks(look, chunked.data, dtype=float, meta=np.empty((0, 0, 0)))
    lazy = chunked.copy(data=data)
    computed.clear()
    source = field_source(lazy, block_rows=8)
    assert len(computed) == 5 * 2
    assert max(shape[0] for _, shape in computed) == 13
    np.testing.assert_array_equal(source.collect(), table_of(field).values)
    assert len(computed) == 2 * 5 * 2
    model = PPCA(2).fit(source)
    there = PPCA(2).fit(table_of(field).values)
    np.testing.assert_allclose(
        model.get_covariance(), there.get_covariance(), rtol=1e-9, atol=1e-10
    )


def test_samples_drawn_at_random_are_those_of_the_table():
    source = field_source(sea(), block_rows=7)
    drawn = source.sample(9, np.random.default_rng(4))
    there = as_source(table_of(sea()).values).sample(9, np.random.default_rng(4))
    np.testing.assert_array_equal(drawn, there)


def test_a_field_is_known_without_importing_xarray():
    code = (
        "import sys, numpy; from eigengap.sources import is_field, is_field_path;"
        "assert not is_field(numpy.ones(3)) and is_field_path('a.nc');"
        "assert 'xarray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert is_field(sea())
    assert is_field(sea().to_dataset())
    assert not is_field(sea().variable)
