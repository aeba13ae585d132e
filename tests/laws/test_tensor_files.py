"""Files of arrays: what was written is read, or an error says that it is not."""

import json
import os
import pickle

import numpy as np
import pytest

from eigengap.exceptions import CorruptFileError, DoesNotFitError, NewerFormatError
from eigengap.persistence.atomic import require_writable, sweep, write_atomically
from eigengap.persistence.tensors import FORMAT, read_tensors, write_tensors

ARRAYS = {
    "W": np.random.default_rng(0).normal(size=(7, 3)),
    "turned": np.arange(12.0).reshape(3, 4).T,
    "single": np.float32([1.5, np.nan, -0.0]),
    "scalar": np.array(-np.inf),
    "flag": np.array(True),
    "count": np.array(7),
    "nothing": np.empty((0, 5)),
    "big": np.arange(4, dtype=">f8"),
}
HEADER = {"estimator": "PPCA", "nested": {"ä": [1, None, "x"]}, "share": 0.1}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.egap"
    write_tensors(path, ARRAYS, HEADER, kind="model")
    return path


def refused_or_whole(path):
    """Whether a file is refused; if it is not, it holds what was written."""
    try:
        arrays, header = read_tensors(path, kind="model")
    except (CorruptFileError, NewerFormatError):
        return True
    assert header == HEADER
    assert set(arrays) == set(ARRAYS)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    return False


def rewritten(path, change, *, at=None):
    """The file with its table of contents changed, and its length put right."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    contents = json.loads(data[8 : 8 + length])
    change(contents)
    text = json.dumps(contents).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def test_what_was_written_is_read(file):
    assert not refused_or_whole(file)
    arrays, _ = read_tensors(file, kind="model")
    assert arrays["W"].flags.writeable
    assert arrays["scalar"].shape == ()
    assert arrays["single"].dtype == np.float32
    assert np.signbit(arrays["single"][2])


def test_a_file_cut_anywhere_is_refused(file):
    data = file.read_bytes()
    for k in range(64):
        file.write_bytes(data[: len(data) * k // 64])
        assert refused_or_whole(file)
    file.write_bytes(data + b"\0")
    assert refused_or_whole(file)


def test_no_flipped_byte_goes_missing(file):
    """1 000 random ones, as the scorecard asks; a flip in white space may leave the file whole."""
    data, rng = file.read_bytes(), np.random.default_rng(0)
    refused = 0
    for at, bit in zip(rng.integers(len(data), size=1000), rng.integers(8, size=1000), strict=True):
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(bit)
        file.write_bytes(bytes(flipped))
        refused += refused_or_whole(file)
    assert refused >= 990


def test_noise_is_refused(tmp_path):
    path, rng = tmp_path / "noise", np.random.default_rng(0)
    for size in (0, 1, 7, 8, 9, 100, 10_000):
        path.write_bytes(rng.bytes(size))
        assert refused_or_whole(path)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    path = tmp_path / "model.egap"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CorruptFileError):
        read_tensors(path, kind="model")
    assert not (tmp_path / "ran").exists()


def claims_a_terabyte(contents):
    contents["W"] |= {"shape": [1 << 37], "data_offsets": [0, 1 << 40]}


def claims_a_negative_shape(contents):
    contents["W"]["shape"] = [-7, -3]


def claims_a_shape_that_overflows(contents):
    contents["W"]["shape"] = [1 << 62, 1 << 62]


def claims_text_for_an_offset(contents):
    contents["W"]["data_offsets"] = ["0", "168"]


def claims_no_type(contents):
    contents["W"]["dtype"] = "OBJECT"


def overlaps(contents):
    contents["W"]["data_offsets"] = contents["turned"]["data_offsets"]


def has_nothing_of_ours(contents):
    contents["__metadata__"] = {"format": "pt"}


def has_a_list_for_facts(contents):
    contents["__metadata__"]["eigengap"] = "[]"


def has_deep_facts(contents):
    contents["__metadata__"]["eigengap"] = "[" * 100_000


def has_another_header(contents):
    facts = json.loads(contents["__metadata__"]["eigengap"])
    facts["header"] = facts["header"].replace("PPCA", "PCA")
    contents["__metadata__"]["eigengap"] = json.dumps(facts)


def swaps_two_names(contents):
    contents["scalar"], contents["count"] = contents["count"], contents["scalar"]


@pytest.mark.parametrize(
    "change",
    [
        claims_a_terabyte,
        claims_a_negative_shape,
        claims_a_shape_that_overflows,
        claims_text_for_an_offset,
        claims_no_type,
        overlaps,
        has_nothing_of_ours,
        has_a_list_for_facts,
        has_deep_facts,
        has_another_header,
        swaps_two_names,
    ],
    ids=lambda change: change.__name__,
)
def test_a_table_of_contents_that_lies_is_refused(change, file):
    rewritten(file, change)
    with pytest.raises(CorruptFileError, match="damaged"):
        read_tensors(file, kind="model")


def test_a_table_of_contents_of_absurd_length_is_refused(file):
    data = file.read_bytes()
    for length in (1 << 40, 1 << 63, len(data), 100 << 20):
        file.write_bytes(length.to_bytes(8, "little") + data[8:])
        with pytest.raises(CorruptFileError):
            read_tensors(file, kind="model")


def test_a_file_larger_than_memory_is_refused_before_it_is_read(file):
    """A terabyte of holes, which takes no room on the disk."""

    def claims_what_is_there(contents):
        end = max(entry["data_offsets"][1] for name, entry in contents.items() if name[0] != "_")
        size = 1 << 40
        contents["zeros"] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}

    rewritten(file, claims_what_is_there)
    with file.open("r+b") as handle:
        handle.truncate(file.stat().st_size + (1 << 40))
    with pytest.raises(DoesNotFitError, match="GB"):
        read_tensors(file, kind="model")


def test_a_later_format_says_so(file):
    def later(contents):
        facts = json.loads(contents["__metadata__"]["eigengap"])
        contents["__metadata__"]["eigengap"] = json.dumps(facts | {"format": FORMAT + 1})

    rewritten(file, later)
    with pytest.raises(NewerFormatError, match=f"format {FORMAT + 1}"):
        read_tensors(file, kind="model")


def test_another_kind_says_so(file):
    with pytest.raises(CorruptFileError, match="not a checkpoint but a model"):
        read_tensors(file, kind="checkpoint")


# Under its name or not at all ----------------------------------------------------------------


def test_a_failed_writing_leaves_the_old_file_and_no_debris(monkeypatch, tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_modes_and_links_stay(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    write_atomically(path, b"old")
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    path.chmod(0o640)
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_cannot_be_written_is_told_beforehand(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path, kind in (
        (tmp_path / "nowhere" / "file", FileNotFoundError),
        (tmp_path / "file" / "file", NotADirectoryError),
        (tmp_path, IsADirectoryError),
        (tmp_path / ("n" * 300), OSError),
    ):
        with pytest.raises(kind, match="Give another path"):
            require_writable(path)
    require_writable(tmp_path / ("n" * 250))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_debris_of_the_killed_is_swept_and_nothing_else(tmp_path):
    names = [".fit[1].0a.part", ".fit[1].0b.part", ".fit1.0a.part", "fit[1]", ".fit[1].part2"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / names[1]).write_bytes(b"in use")
    sweep(tmp_path / "fit[1]")
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])
