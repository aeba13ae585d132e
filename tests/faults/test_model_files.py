"""Model files that are cut, flipped, forged, of tomorrow, or killed half-way (F4, F8 to F11)."""

from __future__ import annotations

import ast
import errno
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model_files import answers, case, difference, frame

import eigengap as eg
from eigengap.exceptions import CorruptFileError, DoesNotFitError, NewerFormatError
from eigengap.persistence.model_file import inspect_file, load, save
from eigengap.persistence.tensors import FORMAT, read_tensors, write_tensors

REFUSED = (CorruptFileError, NewerFormatError)


@cache
def original():
    return eg.PPCA(2, random_state=np.random.RandomState(0)).fit(frame(missing=0.1))


@pytest.fixture
def file(tmp_path) -> Path:
    return save(original(), tmp_path / "model.egap", provenance={"data": "x.csv"})


def refused_or_whole(path: Path) -> bool:
    """Whether a file is refused; if it is not, it holds what was saved."""
    try:
        facts = inspect_file(path)
        assert facts.kind == "PPCA"
        assert facts.feature_names == tuple(frame().columns)
    except REFUSED:
        pass
    try:
        loaded = load(path)
    except REFUSED:
        return True
    assert difference(held(original()), held(loaded)) == ""
    return False


def held(estimator) -> dict:
    mine = {name: value for name, value in vars(estimator).items() if name != "provenance_"}
    return dict(sorted(mine.items()))


# F8: cut and flipped ---------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_refused(file):
    data = file.read_bytes()
    for k in range(64):
        file.write_bytes(data[: len(data) * k // 64])
        assert refused_or_whole(file)
    file.write_bytes(data + b"\0")
    assert refused_or_whole(file)


def test_no_flipped_byte_goes_missing(file):
    """1 000 random ones; a flip in white space may leave the file whole."""
    data, rng = file.read_bytes(), np.random.default_rng(0)
    refused = 0
    for at, new in zip(
        rng.integers(len(data), size=1000), rng.integers(255, size=1000), strict=True
    ):
        flipped = bytearray(data)
        flipped[at] = (flipped[at] + 1 + new) % 256
        file.write_bytes(bytes(flipped))
        refused += refused_or_whole(file)
    assert refused >= 990


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_bytes_of_any_sort(tmp_path, data):
    path = save(original(), tmp_path / "model.egap")
    whole = path.read_bytes()
    a = data.draw(st.integers(0, len(whole)))
    b = data.draw(st.integers(a, min(len(whole), a + 200)))
    path.write_bytes(whole[:a] + data.draw(st.binary(max_size=200)) + whole[b:])
    refused_or_whole(path)
    path.write_bytes(data.draw(st.binary(max_size=500)))
    assert refused_or_whole(path)


# F9: forged ------------------------------------------------------------------------------------


def test_a_pickle_is_refused_and_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    path = tmp_path / "model.egap"
    for made in (Bomb(), {"__metadata__": Bomb()}):
        path.write_bytes(pickle.dumps(made))
        for read in (load, inspect_file):
            with pytest.raises(CorruptFileError, match="damaged"):
                read(path)
    assert not (tmp_path / "ran").exists()


def with_contents(path: Path, change) -> None:
    """The file with its table of contents changed, and its length put right."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    contents = json.loads(data[8 : 8 + length])
    change(contents)
    text = json.dumps(contents).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def claims_a_terabyte(contents):
    contents["model_.W"] |= {"shape": [1 << 37], "data_offsets": [0, 1 << 40]}


def claims_a_terabyte_without_offsets(contents):
    contents["model_.W"]["shape"] = [1 << 37]


def is_deep(contents):
    facts = json.loads(contents["__metadata__"]["eigengap"])
    facts["header"] = "[" * 1_000_000
    contents["__metadata__"]["eigengap"] = json.dumps(facts)


def has_a_path(contents):
    contents["../../etc/passwd"] = contents.pop("model_.W")


@pytest.mark.parametrize(
    "change",
    [claims_a_terabyte, claims_a_terabyte_without_offsets, is_deep, has_a_path],
    ids=lambda change: change.__name__,
)
def test_contents_that_lie_are_refused_before_memory_is_taken(change, file):
    with_contents(file, change)
    for read in (load, inspect_file):
        tracemalloc.start()
        try:
            with pytest.raises(CorruptFileError):
                read(file)
            assert tracemalloc.get_traced_memory()[1] < 50 << 20
        finally:
            tracemalloc.stop()


def forged(path: Path, change) -> None:
    """The file with its header and arrays changed, and every checksum put right."""
    arrays, header = read_tensors(path, kind="model")
    change(header["nodes"], header, arrays)
    write_tensors(path, arrays, header, kind="model")


def kind(nodes, name):
    return next(node for node in nodes if node.get("kind") == name)


def sort(nodes, what):
    return next(node for node in nodes if node.get("is") == what)


GAUSSIAN = "LinearGaussian"

FORGERIES = {
    "names-code": lambda n, h, a: n[-1].update(kind="os.system"),
    "names-a-module": lambda n, h, a: kind(n, GAUSSIAN).update(kind="posix.system"),
    "names-a-function": lambda n, h, a: sort(n, "dict").update({"is": "eval"}),
    "hides-a-method": lambda n, h, a: n[-1]["attributes"].update(transform=1),
    "hides-a-property": lambda n, h, a: n[-1]["attributes"].update(components_=1),
    "sets-a-class": lambda n, h, a: n[-1]["attributes"].update(__class__=1),
    "sets-the-rules": lambda n, h, a: n[-1]["attributes"].update(_parameter_constraints=1),
    "sets-a-parameter-twice": lambda n, h, a: n[-1]["attributes"].update(tol=1),
    "points-at-itself": lambda n, h, a: n[-1]["attributes"].update(x_={"at": len(n) - 1}),
    "points-ahead": lambda n, h, a: kind(n, GAUSSIAN)["fields"].update(W={"at": len(n) - 1}),
    "points-back": lambda n, h, a: n[-1]["attributes"].update(x_={"at": -1}),
    "points-at-true": lambda n, h, a: n[-1]["attributes"].update(x_={"at": True}),
    "lacks-a-field": lambda n, h, a: kind(n, GAUSSIAN)["fields"].pop("mu"),
    "has-text-for-an-array": lambda n, h, a: kind(n, GAUSSIAN)["fields"].update(mu="x"),
    "has-a-list-for-fields": lambda n, h, a: kind(n, GAUSSIAN).update(fields=[]),
    "has-no-version": lambda n, h, a: kind(n, GAUSSIAN).update(version=True),
    "has-another-shape": lambda n, h, a: a.update({"model_.W": np.ones((4, 2))}),
    "has-nan": lambda n, h, a: a.update({"model_.W": np.full((5, 2), np.nan)}),
    "has-text-for-a-number": lambda n, h, a: kind(n, "Spectrum")["fields"].update(d="3"),
    "has-fewer-names": lambda n, h, a: sort(n, "strings").update(items=["a"], shape=[1]),
    "has-numbers-for-names": lambda n, h, a: sort(n, "strings").update(items=[1, 2, 3, 4, 5]),
    "has-wide-names": lambda n, h, a: sort(n, "strings").update(dtype="<U900000000"),
    "has-a-shape-of-its-own": lambda n, h, a: sort(n, "strings").update(shape=[1 << 40, 0]),
    "has-one-tensor-more": lambda n, h, a: a.update(more=np.ones(3)),
    "lacks-a-tensor": lambda n, h, a: a.pop("model_.W"),
    "has-a-path": lambda n, h, a: a.update({"../x": np.ones(3)}),
    "has-other-axes": lambda n, h, a: sort(n, "array").update(axes=[0, 0]),
    "has-another-type": lambda n, h, a: sort(n, "array").update(dtype="O"),
    "has-a-position-outside": lambda n, h, a: _set(n, "pos", 100_000),
    "has-a-position-before": lambda n, h, a: _set(n, "pos", -5),
    "has-another-generator": lambda n, h, a: _set(n, "bit_generator", "system"),
    "has-no-nodes": lambda n, h, a: h.update(nodes=[]),
    "has-a-number-for-nodes": lambda n, h, a: h.update(nodes=3),
    "has-text-for-a-node": lambda n, h, a: n.insert(0, "x"),
    "is-of-another-kind": lambda n, h, a: h.update(kind="PCA"),
    "is-no-estimator": lambda n, h, a: n.append({"is": "list", "items": [{"at": len(n) - 1}]}),
    "has-deep-provenance": lambda n, h, a: h.update(provenance={"a": [[]]}),
    "has-no-provenance": lambda n, h, a: h.pop("provenance"),
    "is-not-fitted": lambda n, h, a: n[-1].update(attributes={}),
}  # fmt: skip


def _set(nodes, key, value) -> None:
    for node in nodes:
        if node.get("is") == "dict":
            for pair in node["items"]:
                if pair[0] == key:
                    pair[1] = value


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_is_refused_with_words(name, file):
    forged(file, FORGERIES[name])
    with pytest.raises(REFUSED, match=str(file)):
        load(file)


def test_indices_that_compiled_code_would_follow_are_looked_at(tmp_path):
    for name, tensor in (("Isomap", "graph_.indices"), ("LaplacianEigenmaps-given", "_W.indices")):
        path = save(case(name)[0], tmp_path / "m.egap")
        forged(path, lambda n, h, a, tensor=tensor: a[tensor].__setitem__(0, 1 << 20))
        with pytest.raises(CorruptFileError):
            load(path)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["at", "is", "float", "scalar", "bits", "x"]), inner),
    ),
    max_leaves=5,
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_header_of_any_sort_is_loaded_or_refused(tmp_path, data):
    """With right checksums: what is wrong in it is found by reading it."""
    path = save(original(), tmp_path / "model.egap")

    def change(nodes, header, arrays):
        holder, key = header, "nodes"
        for _ in range(data.draw(st.integers(1, 5))):
            inner = holder[key]
            if not isinstance(inner, dict | list) or not inner:
                break
            keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
            holder, key = inner, data.draw(st.sampled_from(list(keys)))
        holder[key] = data.draw(JSON)

    forged(path, change)
    for read in (load, inspect_file):
        with suppress(*REFUSED, DoesNotFitError):
            read(path)


# F10: no pickle --------------------------------------------------------------------------------

FORBIDDEN = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CALLS = {"eval", "exec", "__import__"}
# Work on its way between the processes of a cluster, as Dask itself sends it, and the name of what
# numba raises where its own cache is damaged: neither reads a file of a user's.
KNOWN = {
    "sources/dask/cluster.py": {"cloudpickle", "cloudpickle.dumps", "cloudpickle.loads"},
    "compiled/cache.py": {"pickle", "pickle.UnpicklingError"},
}


def suspicious(text: str) -> set[str]:
    """What a source uses that could run what a file holds."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & FORBIDDEN
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN:
            found.add(f"from {node.module}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {f"{node.value.id}.{node.attr}"} if node.value.id in FORBIDDEN else set()
        elif isinstance(node, ast.Name) and node.id in CALLS:
            found.add(node.id)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            no = isinstance(node.value, ast.Constant) and node.value.value is False
            found |= set() if no else {"allow_pickle"}
    return found


def test_no_pickle_and_no_code_of_files_in_the_package():
    folder, found = Path(eg.__file__).parent, {}
    words = [*FORBIDDEN, *CALLS, "allow_pickle"]
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        used = suspicious(text) if any(word in text for word in words) else set()
        if used:
            found[path.relative_to(folder).as_posix()] = used
    assert found == KNOWN


# F11: of tomorrow ------------------------------------------------------------------------------


def test_a_later_format_says_so(file):
    def later(contents):
        facts = json.loads(contents["__metadata__"]["eigengap"])
        contents["__metadata__"]["eigengap"] = json.dumps(facts | {"format": FORMAT + 1})

    with_contents(file, later)
    for read in (load, inspect_file):
        with pytest.raises(NewerFormatError, match=f"format {FORMAT + 1}.*later version"):
            read(file)


def test_a_checkpoint_is_no_model(tmp_path):
    path = tmp_path / "fit.egck"
    write_tensors(path, {"x": np.ones(2)}, {}, kind="checkpoint")
    for read in (load, inspect_file):
        with pytest.raises(CorruptFileError, match="not a model but a checkpoint"):
            read(path)


# F4, F7: killed, and without room --------------------------------------------------------------

KILLED = """
import os, random, signal, sys, time
sys.addaudithook(lambda event, given: event.startswith("pickle.") and os._exit(77))
from eigengap.persistence.model_file import inspect_file, load, save
path, parts = sys.argv[1], 0
import numpy as np
import eigengap as eg

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 10_000))
models = [eg.PCA(2).fit(X), eg.PCA(3).fit(X)]
save(models[0], path, provenance={})
assert load(path).n_components == 2
random.seed(0)
for moment in range(50):
    child = os.fork()
    if child == 0:
        while True:
            for model in models:
                save(model, path, provenance={})
    time.sleep(random.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = load(path)
    expected = models[found.n_components - 2]
    assert np.array_equal(found.components_, expected.components_)
    assert inspect_file(path).summary["n_components"] == found.n_components
    left = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".part")]
    parts += len(left) > 0
    for name in left:
        os.unlink(os.path.join(os.path.dirname(path), name))
print(parts)
"""


def test_killed_at_fifty_moments_of_saving(tmp_path):
    """The old file or the new one loads, never neither; some of the moments are half-way."""
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "model.egap")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0


def test_a_full_disk_leaves_the_old_file(file, monkeypatch):
    before = file.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=r"No space left.*what was under this name is as it was"
    ) as caught:
        save(eg.PCA(1).fit(np.eye(3)), file)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


LIMITED = """
import errno, os, resource, signal, sys
import numpy as np
import eigengap as eg
from eigengap.persistence.model_file import inspect_file, load, save
path = sys.argv[1]
save(eg.PCA(1).fit(np.eye(3)), path)
big = eg.PCA(2).fit(np.random.default_rng(0).normal(size=(10, 20_000)))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    save(big, path)
except OSError as error:
    assert error.errno == errno.EFBIG, error
    assert error.filename == path, error
    print(load(path).n_features_in_, os.listdir(os.path.dirname(path)))
"""


def test_a_limit_on_the_size_of_files(tmp_path):
    """The same without a trick: the system refuses to write on."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "m.egap")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "3 ['m.egap']"


def test_looking_into_a_file_imports_no_estimator(file):
    asks = (
        "import sys; from eigengap.persistence.model_file import inspect_file; "
        "print(inspect_file(sys.argv[1]).kind, sorted({name.partition('.')[0] for name in "
        "sys.modules} & {'sklearn', 'scipy', 'numba', 'pandas', 'jax'}), "
        "[name for name in sys.modules if 'estimators' in name])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", asks, str(file)], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "PPCA [] []", ran.stderr


@pytest.mark.parametrize(
    ("path", "error"),
    [("no/such/folder/m.egap", FileNotFoundError), ("", IsADirectoryError)],
    ids=["folder", "directory"],
)
def test_places_that_cannot_be_written_are_told(path, error, tmp_path):
    with pytest.raises(error) as caught:
        save(original(), tmp_path / path)
    assert caught.value.filename == str(tmp_path / path)
    with pytest.raises(error):
        load(tmp_path / path)


def test_answers_of_the_model_that_the_flips_are_tried_on(file):
    """So that comparing what it holds is comparing what it says."""
    expected, found = answers(original(), frame()), answers(load(file), frame())
    assert {key: difference(expected[key], found[key], key) for key in expected} == dict.fromkeys(
        expected, ""
    )


@pytest.mark.parametrize(
    ("where", "value"),
    [("scale_", 0.0), ("scale_", np.nan), ("projection_.A", np.nan), ("spectrum_.lam", -1.0)],
    ids=["no units", "units NaN", "projection NaN", "negative variance"],
)
def test_numbers_out_of_range_are_refused_whatever_the_checksum(tmp_path, where, value):
    model = eg.PPCA(2, scale=True).fit(np.random.default_rng(0).normal(size=(30, 4)))
    path = eg.save(model, tmp_path / "m.egap")
    arrays, header = read_tensors(path, kind="model")
    arrays[where] = np.full_like(arrays[where], value)
    write_tensors(path, arrays, header, kind="model")
    with pytest.raises(CorruptFileError, match="not a model that eigengap wrote"):
        eg.load(path)


def test_a_table_in_place_of_a_model_is_not_to_be_deleted(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(CorruptFileError, match="never such a file") as told:
        eg.load(path)
    assert "elete" not in str(told.value)
