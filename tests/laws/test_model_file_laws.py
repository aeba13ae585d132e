"""Model files: what is loaded is what was saved, to the last bit, whatever the estimator."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import BaseEstimator, clone
from tests.model_files import CASES, FULL, INCOMPLETE, SLOW, answers, case, difference, frame, table

import eigengap as eg
from eigengap.exceptions import NewerFormatError, UnsavableError
from eigengap.models.kernels.functions import Kernel
from eigengap.models.maps.affine import AffineMap
from eigengap.persistence import decoding, kinds
from eigengap.persistence.decoding import Decoder
from eigengap.persistence.encoding import Encoder
from eigengap.persistence.model_file import inspect_file, load, save
from eigengap.persistence.nodes import MalformedError
from eigengap.persistence.provenance import provenance_of
from eigengap.persistence.tensors import read_tensors, write_tensors
from eigengap.runtime.warnings import silence
from eigengap.sources.opening import open_source

ALL = sorted(
    name
    for name in eg.__all__
    if isinstance(getattr(eg, name), type) and issubclass(getattr(eg, name), BaseEstimator)
)


def again(value):
    """A value after it was written and read, without a file in between."""
    encoder = Encoder()
    at = encoder.child([value], "value")
    nodes = json.loads(json.dumps(encoder.nodes, sort_keys=True, allow_nan=False))
    assert at == {"at": len(nodes) - 1}
    return Decoder(encoder.tensors, "now").make(nodes)[0]


EACH = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CASES]


# Estimators ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_every_public_estimator_is_a_case(name):
    """An estimator that is new fails here until files hold it."""
    assert name in kinds.ESTIMATORS
    assert any(case.partition("-")[0] == name for case in CASES)


@pytest.mark.parametrize("name", EACH)
def test_the_same_answers_to_the_last_bit(name, tmp_path):
    estimator, X = case(name)
    before = list(vars(estimator))
    path = save(estimator, tmp_path / "m.egap")
    loaded = load(path)
    assert list(vars(estimator)) == before  # saving changes nothing
    assert type(loaded) is type(estimator)
    expected, found = answers(estimator, X), answers(loaded, X)
    assert expected.keys() == found.keys()
    differ = {key: difference(expected[key], found[key], key) for key in expected}
    assert {key: words for key, words in differ.items() if words} == {}
    said = {key: answer for key, answer in expected.items() if "Error: " not in str(answer)[:40]}
    assert {"transform", "predict", "impute", "reconstruct_graph"} & said.keys()
    facts = inspect_file(path)
    assert facts.kind == type(estimator).__name__
    assert facts.n_features == estimator.n_features_in_
    assert facts.parameters.keys() == estimator.get_params(deep=False).keys()
    json.dumps([facts.parameters, facts.provenance, facts.summary], allow_nan=False)


@pytest.mark.parametrize("name", ["PCA", "PPCA-gaps-frame", "Isomap", "LowRankImputer"])
def test_a_second_file_of_a_loaded_model_is_the_first(name, tmp_path):
    estimator, _ = case(name)
    one = save(estimator, tmp_path / "1.egap", provenance={})
    two = save(load(one), tmp_path / "2.egap", provenance={})
    (a, head), (b, again_head) = (read_tensors(path, kind="model") for path in (one, two))
    assert a.keys() == b.keys()
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)
    assert len(head["nodes"]) == len(again_head["nodes"])


@pytest.mark.parametrize("cls", [eg.PCA, eg.PPCA, eg.FactorAnalysis], ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "gaps"])
@pytest.mark.parametrize("asked", [False, True], ids=["waiting", "solved"])
def test_a_stream_goes_on_as_it_would_have(cls, missing, asked, tmp_path):
    batches = np.array_split(table(90, missing=missing), 9)
    stream = cls(1)
    with silence():
        for batch in batches[:4]:
            stream.partial_fit(batch)
        if asked:
            stream.transform(batches[0])
        loaded = load(save(stream, tmp_path / "m.egap"))
        assert ("model_" in vars(loaded)) == asked
        for batch in batches[4:]:
            stream.partial_fit(batch)
            loaded.partial_fit(batch)
    expected, found = answers(stream, FULL), answers(loaded, FULL)
    assert [difference(expected[key], found[key], key) for key in expected if key in found] == [
        ""
    ] * len(expected)


def test_a_fit_after_fit_goes_on_too(tmp_path):
    model = eg.PCA().fit(FULL)
    loaded = load(save(model, tmp_path / "m.egap"))
    more = table(20, seed=5)
    expected, found = model.partial_fit(more), loaded.partial_fit(more)
    assert difference(expected.transform(FULL), found.transform(FULL)) == ""


def test_what_was_fitted_from_files_and_fields_is_concrete(tmp_path):
    np.save(tmp_path / "x.npy", FULL)
    of_file = eg.PPCA(2).fit(open_source(tmp_path / "x.npy"))
    xarray = pytest.importorskip("xarray")
    values = np.random.default_rng(0).normal(size=(30, 3, 4))
    field = xarray.DataArray(values, dims=("time", "lat", "lon"))
    of_field = eg.PPCA(2).fit(field)
    for model, X in ((of_file, FULL), (of_field, field)):
        loaded = load(save(model, tmp_path / "m.egap"))
        assert difference(model.transform(X), loaded.transform(X)) == ""
    filled, expected = loaded.impute(field), of_field.impute(field)
    assert filled.identical(expected)


ANSWERS = """
import sys
import numpy as np
from eigengap.persistence.model_file import load
X = np.load(sys.argv[1])
for path in sys.argv[2:]:
    np.save(path + ".npy", load(path).transform(X))
"""


def test_another_process_gives_the_same_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("EIGENGAP_COMPILED", "never")  # or a kernel loaded here by an earlier test
    X = np.vstack([INCOMPLETE, INCOMPLETE[:, ::-1]])
    np.save(tmp_path / "x.npy", X)
    models = [eg.PPCA(2), eg.KernelPCA(2, kernel="rbf"), eg.Isomap(n_neighbors=8), eg.Whitener()]
    with silence():
        paths = [save(m.fit(X), tmp_path / f"{type(m).__name__}.egap") for m in models]
    given = [str(tmp_path / "x.npy"), *map(str, paths)]
    ran = subprocess.run([sys.executable, "-c", ANSWERS, *given], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    with silence():
        for model, path in zip(models, paths, strict=True):
            assert difference(model.transform(X), np.load(f"{path}.npy"), path.name) == ""


def test_a_generator_goes_on_from_where_it_was(tmp_path):
    model = eg.PPCA(2, n_init=3, random_state=np.random.RandomState(3)).fit(INCOMPLETE)
    loaded = load(save(model, tmp_path / "m.egap"))
    assert difference(model.random_state, loaded.random_state) == ""
    expected, found = model.fit(INCOMPLETE), loaded.fit(INCOMPLETE)
    assert difference(expected.model_, found.model_) == ""
    assert difference(model.random_state, loaded.random_state) == ""


def test_shared_parts_stay_shared(tmp_path):
    model, _ = case("Isomap")
    loaded = load(save(model, tmp_path / "m.egap"))
    shared = model._neighbours.rows
    arrays, _ = read_tensors(tmp_path / "m.egap", kind="model")
    assert sum(a.shape == shared.shape and np.array_equal(a, shared) for a in arrays.values()) == 1
    regressor, _ = case("KernelPCA-rbf")
    loaded = load(save(regressor, tmp_path / "m.egap"))
    assert loaded.model_ is loaded._fit_.map


def test_parameters_stay_but_those_of_the_machine(tmp_path):
    model = eg.PPCA(2, checkpoint=tmp_path / "fit.egck", max_iter=17, missing_values=[-9.0, 7])
    model.fit(FULL)
    loaded = load(save(model, tmp_path / "m.egap"))
    assert loaded.checkpoint is None
    assert loaded.get_params() == model.get_params() | {"checkpoint": None}
    assert clone(loaded).get_params() == loaded.get_params()


# What a file cannot hold -----------------------------------------------------------------------


def city(a, b):
    return float(np.sum(np.abs(a - b)))


def alike(X):
    return np.exp(-np.abs(X @ X.T))


class MyKernel(Kernel):
    def matrix(self, X, Y, out=None):
        return np.matmul(X, Y.T, out=out)

    def diagonal(self, X):
        return np.sum(X * X, axis=1)


class MyPCA(eg.PCA):
    pass


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda: eg.KernelPCA(2, kernel=np.dot).fit(FULL), "'kernel' is a function .*precomputed"),
        (lambda: eg.KernelPCA(2, kernel=MyKernel()).fit(FULL), "'kernel' is a .*MyKernel"),
        (lambda: eg.Isomap(metric=city).fit(FULL), "'metric' is a function .city.*precomputed"),
        (lambda: eg.ClassicalMDS(metric=city).fit(FULL), "'metric' is a function"),
        (lambda: eg.LaplacianEigenmaps(affinity=alike).fit(FULL), "'affinity' is a function"),
        (lambda: eg.PPCA(2), "not fitted: call fit"),
        (lambda: MyPCA(2).fit(FULL), "MyPCA is no estimator of eigengap"),
        (lambda: eg.PCA(2).fit(FULL).model_, "LinearGaussian is no estimator"),
        (lambda: 3, "int is no estimator"),
        (
            lambda: eg.NoveltyDetector(MyPCA(2)).fit(FULL),
            "'estimator' is a .*MyPCA, and a model file holds only what eigengap makes",
        ),
    ],
    ids=[
        "kernel",
        "own-kernel",
        "metric",
        "scaling-metric",
        "affinity",
        "unfitted",
        "subclass",
        "value",
        "number",
        "inner-subclass",
    ],
)
def test_what_a_file_cannot_hold_is_told_by_name(fit, words, tmp_path):
    path = tmp_path / "m.egap"
    with silence():
        estimator = fit()
    with pytest.raises(UnsavableError, match=words):
        save(estimator, path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "record", [{"a": [1]}, {"a": math.nan}, {1: "a"}, "text", {"a": 1 << 70}], ids=str
)
def test_provenance_is_flat(record, tmp_path):
    with pytest.raises((TypeError, ValueError), match="provenance"):
        save(eg.PCA(1).fit(FULL), tmp_path / "m.egap", provenance=record)


# Values of every sort --------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.text(),
    st.floats(width=32).map(np.float32),
    st.integers(-128, 127).map(np.int8),
    st.text().map(np.str_),
    st.booleans().map(np.bool_),
)
DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.timedelta64_dtypes(endianness="?"),
    hnp.unicode_string_dtypes(endianness="?", min_len=1, max_len=5),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
KEYS = st.one_of(st.none(), st.integers(), st.text(), st.tuples(st.integers(), st.text()))
THINGS = st.recursive(
    st.one_of(NUMBERS, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.frozensets(st.integers(), max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(THINGS)
@example(struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0])  # NaN, with a payload
@example(np.str_("0\0"))
def test_any_value_comes_back_as_it_was(value):
    assert difference(value, again(value)) == ""


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6).T,
        np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
        np.arange(24.0).reshape(4, 6)[::2, ::3],
        np.arange(24.0).reshape(4, 6)[:, ::-1],
        np.asfortranarray(np.arange(24.0).reshape(4, 6))[1:3],
        np.broadcast_to(np.arange(3.0), (4, 3)),
        np.array(["a", None, 3, "\ud800", 2.5], dtype=object).reshape(5, 1),
        np.array(["x" * 600_000, "y" * 600_000], dtype=object),
        np.array([b"ab", b"c"], dtype=object).astype(object)[:0],
    ],
    ids=["turned", "axes", "steps", "backwards", "part", "broadcast", "objects", "long", "empty"],
)
def test_arrays_keep_their_order_in_memory(array):
    found = again(array)
    assert difference(np.array(array), np.array(found)) == ""
    assert found.flags.writeable == array.flags.writeable
    if all(stride > 0 for stride in array.strides):
        assert np.argsort(found.strides).tolist() == np.argsort(array.strides).tolist()


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("old", [False, True], ids=["array", "matrix"])
def test_sparse_matrices(layout, old):
    make = getattr(scipy.sparse, f"{layout}_{'matrix' if old else 'array'}")
    value = make(np.diag([1.0, 0.0, 2.0]).astype(np.float32))
    found = again(value)
    assert type(found) is type(value)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found.toarray(), value.toarray())


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_draw_what_they_would_have_drawn(name):
    generator = np.random.Generator(getattr(np.random, name)(7))
    generator.integers(10, size=3, dtype=np.int32)
    generator.spawn(2)
    found = again(generator)
    old = np.random.RandomState(getattr(np.random, name)(7))
    old.normal()  # of which it keeps a second one
    as_it_was = again(old)
    assert difference(old.normal(size=5), as_it_was.normal(size=5)) == ""
    assert difference(found.normal(size=5), generator.normal(size=5)) == ""
    children = zip(found.spawn(2), generator.spawn(2), strict=True)
    assert all(a.random() == b.random() for a, b in children)


@pytest.mark.parametrize(
    "make", [pd.Index, pd.Series, pl.Series], ids=["index", "series", "polars"]
)
@pytest.mark.parametrize(
    "values", [["a", "b"], [1, 2], [0.5, np.nan]], ids=["texts", "ints", "floats"]
)
def test_columns_of_frames_become_arrays(make, values):
    found = again(make(values))
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, np.array(values))
    assert again(range(3, -9, -2)) == range(3, -9, -2)


def test_circles_are_refused():
    circle = []
    circle.append({"a": (circle,)})
    with pytest.raises(UnsavableError, match="holds itself"):
        again(circle)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnsavableError, match="lies inside of 64 others"):
        again(deep)


def test_what_stands_twice_is_written_once():
    array, names = np.zeros(3), ["a"]
    found = again({"a": array, "b": [array, names], "c": names})
    assert found["a"] is found["b"][0]
    assert found["b"][1] is found["c"]


# What comes later ------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path) -> Path:
    return save(eg.PPCA(2).fit(frame(missing=0.1)), tmp_path / "m.egap", provenance={"a": 1})


def changed(path, change):
    """The file with its header changed, checksums put right."""
    arrays, header = read_tensors(path, kind="model")
    change(header)
    write_tensors(path, arrays, header, kind="model")


def the(header, kind):
    return next(node for node in header["nodes"] if node.get("kind") == kind)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: the(h, "PPCA")["parameters"].update(depth=3), "'depth' is no parameter of PPCA"),
        (
            lambda h: the(h, "LinearGaussian")["fields"].update(skew=1),
            "'skew' is no field of LinearGaussian",
        ),
        (lambda h: the(h, "PPCA").update(kind="HPCA"), "holds a HPCA, which this version"),
        (lambda h: the(h, "PPCA").update(version=9), "PPCA of version 9"),
        (lambda h: the(h, "AffineMap").update(version=9), "AffineMap of version 9"),
    ],
    ids=["parameter", "field", "kind", "version", "value-version"],
)
def test_what_only_a_later_version_knows_is_told_as_such(change, words, file):
    changed(file, lambda header: (header.update(writer="9.1.0"), change(header)))
    with pytest.raises(NewerFormatError, match=words) as caught:
        load(file)
    assert "eigengap 9.1.0 wrote it" in str(caught.value)
    assert str(file) in str(caught.value)


def test_what_an_earlier_version_did_not_know_has_its_default(file):
    def earlier(header):
        del the(header, "PPCA")["parameters"]["verbose"]
        del the(header, "ObservationPattern")["fields"]["known"]

    changed(file, earlier)
    loaded = load(file)
    assert loaded.verbose is False
    assert loaded.evidence_.known == 0.0


def test_a_kind_that_changed_is_brought_up_to_date(monkeypatch):
    def upgrade(fields):
        return {"mean" if name == "centre" else name: value for name, value in fields.items()}

    name = "AffineMap"
    encoder = Encoder()
    encoder.child(AffineMap(np.ones((1, 2)), np.ones((2, 1)), np.zeros(2)), "map")
    node = encoder.nodes[-1]
    node["fields"]["centre"] = node["fields"].pop("mean")
    newer = kinds.Kind(name, "eigengap.models.maps.affine", "AffineMap", upgrades=(upgrade,))
    assert newer.version == 2
    monkeypatch.setattr(decoding, "VALUES", {**kinds.VALUES, name: newer})
    made = Decoder(encoder.tensors, "0.0.1").make(encoder.nodes)
    np.testing.assert_array_equal(made.mean, np.zeros(2))


def test_the_table_names_only_classes_of_ours():
    for kind in (*kinds.ESTIMATORS.values(), *kinds.VALUES.values()):
        assert kind.home.startswith("eigengap.")
        assert kinds.kind_of(kind.load()) is kind


def test_a_file_of_the_first_format_is_read():
    """It was written by eigengap 0.1.0; whatever becomes of the classes, it stays a PPCA."""
    model = load(Path(__file__).parent / "format_1.egap")
    assert model.provenance_["data"] == "the first three columns of iris"
    assert model.feature_names_in_.tolist() == ["sepal length", "sepal width", "petal length"]
    assert model.get_params()["n_components"] == 1
    W, mu, psi = model.model_.W, model.model_.mu, model.model_.psi
    C = W @ W.T + np.diag(psi)
    x = pd.DataFrame([[5.1, 3.5, np.nan]], columns=model.feature_names_in_)
    at = C[2, :2] @ np.linalg.solve(C[:2, :2], x.iloc[0, :2] - mu[:2])
    np.testing.assert_allclose(model.impute(x).iloc[0, 2], mu[2] + at, rtol=1e-10)
    np.testing.assert_allclose(mu, [5.843333, 3.057333, 3.758], rtol=1e-6)


# Looking into a file ---------------------------------------------------------------------------


def test_facts_without_loading(file):
    facts = inspect_file(file)
    assert (facts.kind, facts.n_features, facts.format) == ("PPCA", 5, 1)
    assert facts.version == eg.__version__
    assert facts.size == file.stat().st_size
    assert facts.feature_names == tuple(frame().columns)
    assert facts.provenance == {"a": 1}
    assert facts.summary["n_components"] == 2
    assert facts.summary["converged"] is True
    assert facts.parameters["missing_values"] == "nan"
    assert ("model_.W", "float64", (5, 2)) in facts.tensors
    json.dumps([facts.parameters, facts.provenance, facts.summary], allow_nan=False)


def test_very_many_names(tmp_path):
    names = [f"{'gene' * 30}{j:05d}" for j in range(9000)]
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(3, len(names))), columns=names)
    path = save(eg.PCA(1).fit(X), tmp_path / "m.egap")
    assert inspect_file(path).feature_names == tuple(names)
    assert load(path).feature_names_in_.tolist() == names


def test_where_a_model_comes_from(tmp_path):
    data = tmp_path / "x.csv"
    data.write_bytes(b"a\n1\n")
    record = provenance_of(command="eigengap fit x.csv", data=data, rows=1)
    path = save(eg.PCA(1).fit(FULL), tmp_path / "m.egap", provenance=record)
    assert load(path).provenance_ == record == inspect_file(path).provenance
    assert record["data_sha256"] == hashlib.sha256(b"a\n1\n").hexdigest()
    assert record["data_bytes"] == 4
    assert {"created", "eigengap", "python", "numpy"} <= record.keys()
    assert "data_sha256" not in provenance_of(data="no such file")
    assert "data_sha256" not in provenance_of(data="runs/*.parquet")
    assert "data_sha256" not in provenance_of(data="a\0b")
    assert save(eg.PCA(1).fit(INCOMPLETE), path)  # replaces, with a record of its own
    assert "command" not in load(path).provenance_


def test_a_crafted_repetition_is_refused():
    """Two to the power of forty parts, in forty lines."""
    nodes = [{"is": "list", "items": [1]}]
    nodes += [{"is": "list", "items": [{"at": k}, {"at": k}]} for k in range(40)]
    with pytest.raises(MalformedError, match="beyond all measure"):
        Decoder({}, "now").make(nodes)
    nodes = [{"is": "list", "items": [] if k == 0 else [{"at": k - 1}]} for k in range(1000)]
    with pytest.raises(MalformedError, match="beyond all measure"):
        Decoder({}, "now").make(nodes)
