"""Many files as one table, and what a path may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.paths import find_files
from eigengap.sources.opening import open_source


@pytest.fixture
def runs(tmp_path) -> Path:
    for k, rows in ((1, 3), (2, 5), (10, 2)):
        X = 100.0 * k + np.arange(2.0 * rows).reshape(rows, 2)
        lines = "\n".join(f"{a},{b}" for a, b in X.tolist())
        (tmp_path / f"run{k}.csv").write_text(f"x,y\n{lines}\n")
        np.save(tmp_path / f"run{k}.npy", X)
        pq.write_table(pa.table({"x": X[:, 0], "y": X[:, 1]}), tmp_path / f"run{k}.parquet")
    return tmp_path


FIRST = np.concatenate([100 * k + np.arange(0, 2.0 * n, 2) for k, n in ((1, 3), (2, 5), (10, 2))])


@pytest.mark.parametrize("kind", ["csv", "npy", "parquet"])
@pytest.mark.parametrize("block_rows", [1, 4, 100])
def test_a_glob_is_one_table_with_two_before_ten(runs, kind, block_rows):
    source = open_source(runs / f"run*.{kind}", block_rows=block_rows)
    assert source.n_rows == (None if kind == "csv" else 10)
    assert source.names == (None if kind == "npy" else ("x", "y"))
    for _ in range(2):
        np.testing.assert_array_equal(source.collect()[:, 0], FIRST)
    sizes = source.map(lambda block: np.array([block.n_rows]))
    assert set(sizes[:-1]) <= {block_rows}


def test_a_list_keeps_its_order_and_formats_may_differ(runs):
    paths = [runs / "run10.csv", str(runs / "run2.parquet")]
    source = open_source(paths, columns=["y"])
    np.testing.assert_array_equal(source.collect()[:2, 0], [1001, 1003])
    assert source.observed().rows == 7
    assert "and 1 more file" in source.reader.where


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_the_place_of_a_row_is_a_file_and_the_row_in_it(runs, kind):
    source = open_source(runs / f"run*.{kind}")
    source.observed()
    places = [source.reader.place(row) for row in (0, 2, 3, 7, 8, 9)]
    expected = [("run1", 0), ("run1", 2), ("run2", 0), ("run2", 4), ("run10", 0), ("run10", 1)]
    for place, (name, row) in zip(places, expected, strict=True):
        assert place == f'row {row} of "{runs / name}.{kind}"'


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("x,z", 'column 1 is "z" instead of "y"'),
        ("y,x", 'column 0 is "y" instead of "x"'),
        ("x,y,z", "3 instead of 2"),
        ("1,2", "only one of them has column names"),
    ],
    ids=["name", "order", "count", "nameless"],
)
def test_the_file_that_differs_is_named(runs, header, told):
    width = header.count(",") + 1
    (runs / "run11.csv").write_text(f"{header}\n{','.join('5' * width)}\n")
    with pytest.raises(UnreadableError) as caught:
        open_source(runs / "*.csv")
    message = str(caught.value)
    assert message.startswith(f'"{runs}/run11.csv": its columns are not those of "{runs}/run1.csv"')
    assert told in message


def test_columns_by_name_make_one_table_of_files_in_another_order(runs):
    (runs / "run11.csv").write_text("y,extra,x\n2,3,1\n")
    source = open_source(runs / "*.csv", columns=["x", "y"])
    np.testing.assert_array_equal(source.collect()[-1], [1, 2])


def test_widths_without_names(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    np.save(tmp_path / "b.npy", np.ones((2, 4)))
    with pytest.raises(UnreadableError, match=r"b\.npy.*4 instead of 3"):
        open_source(tmp_path / "*.npy")


def test_mixed_precision_is_double(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3), dtype=np.float32))
    np.save(tmp_path / "b.npy", np.ones((2, 3)))
    source = open_source(tmp_path / "*.npy")
    assert source.dtype == np.float64
    assert source.collect().dtype == np.float64


def test_bytes_of_all_files_are_counted(runs):
    source = open_source(runs / "*.npy")
    source.observed()
    assert source.bytes_read == sum(path.stat().st_size for path in runs.glob("*.npy"))


def test_home_is_expanded(runs, monkeypatch):
    monkeypatch.setenv("HOME", str(runs))
    assert open_source("~/run1.csv").collect().shape == (3, 2)
    assert open_source("~/run*.csv").observed().rows == 10


def test_a_name_with_letters_of_a_glob_is_itself(tmp_path):
    (tmp_path / "a[1].csv").write_text("x\n1\n")
    assert open_source(tmp_path / "a[1].csv").collect() == 1


def test_a_missing_file_is_told_with_names_that_are_close(runs):
    with pytest.raises(FileNotFoundError, match=r'RUN2\.csv" does not exist; did you mean "run2'):
        open_source(runs / "RUN2.csv")
    with pytest.raises(FileNotFoundError, match="nor does its folder"):
        open_source(runs / "nowhere" / "x.csv")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        open_source(runs / "q*.csv")
    with pytest.raises(FileNotFoundError, match="address on a network"):
        open_source("s3://bucket/x.parquet")
    with pytest.raises(ValueError, match="empty"):
        open_source([])


def test_a_folder_of_other_files_is_told_with_a_glob(tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(UnreadableError, match=r'it is a folder.*/\*\.csv"'):
        open_source(tmp_path)


def test_addresses(runs):
    found = find_files(f"{runs}/run*.npy::inner")
    assert [address.path.name for address in found] == ["run1.npy", "run2.npy", "run10.npy"]
    assert {address.member for address in found} == {"inner"}


COMMA, POINT, WHOLE = "a;b\n1,5;2\n2,5;3\n", "a;b\n4;2\n1.500;2\n", "a;b\n7;8\n9;10\n"


def write(folder, *contents) -> Path:
    for k, content in enumerate(contents):
        (folder / f"i-{k}.csv").write_text(content)
    return folder / "i-*.csv"


@pytest.mark.parametrize(
    ("contents", "other", "first"),
    [
        ((COMMA, POINT), "1.csv: line 3 point (1.500)", "0.csv line 2 comma (1,5)"),
        ((POINT, COMMA), "1.csv: line 2 comma (1,5)", "0.csv line 3 point (1.500)"),
        ((WHOLE, COMMA, WHOLE, POINT), "3.csv: line 3 point (1.500)", "1.csv line 2 comma (1,5)"),
        ((COMMA, POINT.replace(";", ",")), "1.csv: line 3 point (1.500)", "0.csv line 2 comma"),
        ((COMMA, POINT.replace(";", "\t")), "1.csv: line 3 point (1.500)", "0.csv line 2 comma"),
    ],
    ids=["comma first", "point first", "after whole numbers", "between commas", "between tabs"],
)
@pytest.mark.parametrize("as_list", [False, True], ids=["glob", "list"])
def test_decimal_marks_that_differ_are_refused(tmp_path, contents, other, first, as_list):
    path = write(tmp_path, *contents)
    with pytest.raises(UnreadableError) as caught:
        open_source(sorted(tmp_path.iterdir()) if as_list else path)
    message = str(caught.value)
    plain = message.replace(f"{tmp_path}/i-", "").replace('"', "").replace("has a decimal ", "")
    assert plain.startswith(other)
    assert f"and in {first}" in plain
    assert "write the numbers of all files in one way" in message


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
@pytest.mark.parametrize("mark", [",", "."])
def test_a_file_that_shows_no_decimal_mark_follows_the_others(tmp_path, order, mark):
    """Also where numbers that are not whole come after the rows that are looked at first."""
    late = WHOLE + "1;1\n" * 1500 + f"0{mark}25;0\n"
    contents = [WHOLE, late, COMMA.replace(",", mark)]
    found = open_source(write(tmp_path, *(contents[k] for k in order))).collect()
    assert found.shape == (1507, 2)
    assert {0.25, 1.5, 2.5} <= set(found[:, 0])


def test_the_other_mark_further_on_is_refused(tmp_path):
    late = WHOLE + "1;1\n" * 1500 + "1.500;0\n"
    source = open_source(write(tmp_path, late, COMMA))
    with pytest.raises(UnreadableError, match=r'i-0.csv": line 1504, .*"1.500"'):
        source.collect()


@pytest.mark.parametrize("separator", [",", "\t", "|"])
def test_whole_numbers_between_other_separators_follow_too(tmp_path, separator):
    source = open_source(write(tmp_path, WHOLE.replace(";", separator), COMMA))
    np.testing.assert_array_equal(source.collect(), [[7, 8], [9, 10], [1.5, 2], [2.5, 3]])


def test_a_code_for_missing_cells_shows_no_decimal_mark(tmp_path):
    contents = ("a;b\n-999.0;2\n7;3\n", "a;b\n1,5;-999.0\n2,5;3\n")
    source = open_source(write(tmp_path, *contents), missing_values="-999.0")
    nan = np.nan
    np.testing.assert_array_equal(source.collect(), [[nan, 2], [7, 3], [1.5, nan], [2.5, 3]])
