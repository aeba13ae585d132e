"""CSV with tens of thousands of columns, as gene-expression tables have them."""

from __future__ import annotations

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap.exceptions import UnreadableError
from eigengap.sources.checks import resolve_columns
from eigengap.sources.files.csv.cells import MISSING_TEXTS
from eigengap.sources.files.csv.dialect import find_dialect
from eigengap.sources.files.csv.reader import CsvReader, wide_rows
from eigengap.sources.opening import open_source
from eigengap.sources.sinks import open_sink


def expression(d: int, n: int = 3) -> np.ndarray:
    X = np.round(np.random.default_rng(d).normal(size=(n, d)), 4)
    X[0, ::7] = np.nan
    return X


def text_of(X: np.ndarray, separator: str, quotes: bool = False, ids: bool = False) -> bytes:
    """The table as R or pandas write it, with or without a column of names of rows."""
    mark = '"' if quotes else ""
    names = [f"{mark}gene {j}{mark}" for j in range(X.shape[1])]
    lines = [separator.join([f"{mark}sample{mark}"] * ids + names)]
    for i, row in enumerate(X):
        cells = ["NA" if np.isnan(value) else repr(float(value)) for value in row]
        lines.append(separator.join([f"{mark}S{i}{mark}"] * ids + cells))
    return "\n".join(lines).encode() + b"\n"


@pytest.fixture
def no_columns_one_by_one(monkeypatch):
    """Reading must not fall back to one column of pyarrow for each column of the file."""

    def parsed(*_):
        raise AssertionError("a wide table was parsed column by column")

    monkeypatch.setattr(CsvReader, "_parsed", parsed)


@pytest.mark.usefixtures("no_columns_one_by_one")
@pytest.mark.parametrize("quotes", [False, True])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_twenty_thousand_columns_are_read(tmp_path, separator, quotes):
    X = expression(20_000)
    path = tmp_path / "expression.csv"
    path.write_bytes(text_of(X, separator, quotes))
    source = open_source(path)
    assert source.names[-1] == "gene 19999"
    np.testing.assert_array_equal(source.collect(), X)


@pytest.mark.usefixtures("no_columns_one_by_one")
def test_sixty_thousand_columns_are_read_from_gzip(tmp_path):
    X = expression(60_000)
    path = tmp_path / "expression.csv.gz"
    path.write_bytes(gzip.compress(text_of(X, ",", quotes=True), 1))
    np.testing.assert_array_equal(open_source(path).collect(), X)


@pytest.mark.usefixtures("no_columns_one_by_one")
@pytest.mark.parametrize("quotes", [False, True])
def test_names_of_rows_are_left_out(tmp_path, quotes):
    X = expression(20_000)
    path = tmp_path / "expression.tsv"
    path.write_bytes(text_of(X, "\t", quotes, ids=True))
    with pytest.raises(UnreadableError, match='not numeric: "sample"'):
        open_source(path)
    names = [f"gene {j}" for j in range(20_000)]
    np.testing.assert_array_equal(open_source(path, columns=names).collect(), X)
    few = open_source(path, columns=[5, "gene 17"])
    np.testing.assert_array_equal(few.collect(), X[:, [4, 17]])


@pytest.mark.usefixtures("no_columns_one_by_one")
def test_a_wrong_separator_may_occur_in_names(tmp_path):
    X = expression(20_000)
    text = text_of(X, "\t", quotes=True).replace(b'"gene 19000"', b'"beta, short; or|not"')
    path = tmp_path / "expression.tsv"
    path.write_bytes(text)
    source = open_source(path)
    assert source.names[19_000] == "beta, short; or|not"
    np.testing.assert_array_equal(source.collect(), X)


def test_a_cell_may_be_longer_than_the_csv_module_allows(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text('a,note,b\n1,"' + "word, " * 40_000 + '",2\n3,none,4\n')
    np.testing.assert_array_equal(open_source(path, columns=["a", "b"]).collect(), [[1, 2], [3, 4]])
    with pytest.raises(UnreadableError, match='not numeric: "note"'):
        open_source(path)


def test_the_limit_of_the_csv_module_is_as_it_was(tmp_path):
    path = tmp_path / "expression.csv"
    path.write_bytes(text_of(expression(20_000), ","))
    before = csv.field_size_limit()
    open_source(path)
    assert csv.field_size_limit() == before


def test_faults_name_line_and_column(tmp_path):
    good = text_of(expression(1000, 80), ",")
    lines = good.splitlines(keepends=True)
    path = tmp_path / "expression.csv"
    path.write_bytes(b"".join([*lines[:70], lines[70].replace(b",", b",oops,", 1), *lines[71:]]))
    with pytest.raises(UnreadableError, match="line 71 has 1001 cells, and the header has 1000"):
        open_source(path).collect()
    cells = lines[70].split(b",")
    cells[234] = b"oops"
    path.write_bytes(b"".join([*lines[:70], b",".join(cells), *lines[71:]]))
    with pytest.raises(UnreadableError, match='line 71, column "gene 234" holds text, "oops"'):
        open_source(path).collect()


def test_wide_tables_are_written_and_read_back(tmp_path):
    X = expression(20_000)
    path = tmp_path / "out.csv"
    with open_sink(path, names=[f"g{j}" for j in range(20_000)]) as sink:
        sink.append(X)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == [f"g{j}" for j in range(20_000)]
    back = [[float(cell) if cell else np.nan for cell in row] for row in rows[1:]]
    np.testing.assert_array_equal(back, X)
    np.testing.assert_array_equal(open_source(path).collect(), X)


# One long column against the csv module ------------------------------------------------------

numbers = st.sampled_from(["1", "-2.5", "1e3", "", "NA", '"7"', " 4 "])
texts = st.sampled_from(
    ["", "abc", '"a b"', '"x,y"', '"two\nlines"', 'in"side', '"he said ""no"""']
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), newline=st.sampled_from(["\n", "\r\n"]), ends=st.booleans())
def test_one_long_column_is_the_same_table(data, newline, ends):
    d = data.draw(st.integers(2, 5))
    text_at = data.draw(st.integers(0, d - 1))
    row = st.tuples(*(texts if j == text_at else numbers for j in range(d)))
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    blank = data.draw(st.sampled_from(["", newline]))
    names = ",".join(f"c{j}" for j in range(d)) + newline
    body = blank + (newline + blank).join(map(",".join, rows)) + newline * ends
    dialect = find_dialect("x", (names + body).encode(), MISSING_TEXTS)
    if dialect.separator != "," or dialect.n_columns != d or not len(dialect.head):
        return  # so few rows may look like something else
    chosen = [j for j in range(d) if j != text_at]
    found = wide_rows(body.encode(), dialect, chosen, 1 << 20)
    if found is None:  # the careful reader takes over
        return
    want = [
        [dialect.cells.number(cells[j]) for j in chosen]
        for cells in csv.reader(io.StringIO(body, newline=""))
        if cells
    ]
    np.testing.assert_array_equal(found, np.array(want, dtype=float))


def test_one_long_column_is_not_taken_for_ragged_rows():
    dialect = find_dialect("x", b"a,b,c\n1,2,3\n4,5,6\n", MISSING_TEXTS)
    for body in (b"1,2\n3,4,5,6\n", b"1,2,3,4\n5,6\n", b"1,2,3\n4,5\n"):
        assert wide_rows(body, dialect, [0, 1, 2], 1 << 20) is None
    found = wide_rows(b"1,2,3\r\n\r\n4,,6", dialect, [2, 1], 1 << 20)
    np.testing.assert_array_equal(found, [[3, 2], [6, np.nan]])


# Choosing among many -------------------------------------------------------------------------


class Name(str):
    """A name that counts with how many others it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_choosing_all_columns_by_name_takes_a_step_for_each():
    d = 2000
    Name.compared = 0
    names = [Name(f"gene {j}") for j in range(d)]
    assert resolve_columns([str(name) for name in names], names, d) == list(range(d))
    assert Name.compared <= 10 * d


@pytest.mark.parametrize("choice", [["a", "b", 0], [1, "b"], ["b", "a", "b"]])
def test_a_column_is_chosen_once(choice):
    with pytest.raises(ValueError, match="more than once"):
        resolve_columns(choice, ["a", "b", "c"], 3)


def test_a_choice_that_is_no_name_is_told():
    with pytest.raises(ValueError, match="no column"):
        resolve_columns([["a"]], ["a", "b"], 2)
