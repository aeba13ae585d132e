"""CSV as people write it: T31 of the scorecard, dialects, gaps, and whatever bytes there are."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv import reader as csv_reader
from eigengap.sources.files.csv.cells import MISSING_TEXTS, Cells
from eigengap.sources.files.csv.rows import last_row_end, row_chunks
from eigengap.sources.opening import open_source

nan = np.nan


@pytest.fixture
def csv(tmp_path):
    def written(content: str | bytes, **options):
        path = tmp_path / "x.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return open_source(path, **options)

    return written


def refused(csv, content: str | bytes, **options) -> str:
    with pytest.raises(UnreadableError) as caught:
        csv(content, **options).collect()
    assert "x.csv" in str(caught.value)
    return str(caught.value)


# T31 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        b"a,b\r\n1,2\r\n3,4\r\n",
        b"a,b\r1,2\r3,4\r",
        b"a,b\n1,2\n3,4",
        b"\n\na,b\n\n1,2\n\n3,4\n\n",
        b"a;b\n1;2\n3;4\n",
        b"a\tb\n1\t2\n3\t4\n",
        b"a|b\n1|2\n3|4\n",
        b'"a","b"\n"1","2"\n"3","4"\n',
        b"a,b\n 1 , 2\n3,+4\n",
        b"a,b\n1e0,2.\n.3e1,4E+0\n",
    ],
    ids=[
        "bom",
        "crlf",
        "cr",
        "no-end",
        "blank-lines",
        "semicolon",
        "tab",
        "bar",
        "quoted",
        "spaces",
        "exponents",
    ],
)
def test_the_same_table_in_many_dialects(csv, content):
    source = csv(content)
    assert source.names == ("a", "b")
    np.testing.assert_array_equal(source.collect(), [[1, 2], [3, 4]])


def test_a_newline_in_quotes_is_no_end_of_a_row(csv):
    source = csv('"depth\nin m",note,b\n1,"two\nlines",2\n3,"a ""b"" c\n",4\n', columns=[0, 2])
    assert source.names == ("depth\nin m", "b")
    np.testing.assert_array_equal(source.collect(), [[1, 2], [3, 4]])


def test_a_duplicate_header_is_refused_with_a_way_out(csv):
    message = refused(csv, "a,b,a\n1,2,3\n")
    assert 'line 1 names 2 columns "a" (positions 0, 2)' in message
    assert "columns=[0, 1]" in message
    np.testing.assert_array_equal(csv("a,b,a\n1,2,3\n", columns=[0, 1]).collect(), [[1, 2]])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("1,2,3", r"line 5 has 3 cells, and the header has 2: \"1,2,3\"\. Put cells"),
        ("1", r"line 5 has 1 cell, and the header has 2: \"1\"\. Complete"),
    ],
    ids=["long", "short"],
)
def test_a_ragged_row_is_refused_with_its_line(csv, row, told):
    with pytest.raises(UnreadableError, match=told):
        csv(f"a,b\n1,2\n3,4\n5,6\n{row}\n7,8\n")


def test_row_names_of_r_are_told(csv):
    assert "as R writes them" in refused(csv, '"a","b"\n"1",1,2\n"2",3,4\n')


def test_decimal_comma_where_semicolons_part_the_cells(csv):
    source = csv("a;b\n1,5;2\n-3,25e1;,5\n")
    np.testing.assert_array_equal(source.collect(), [[1.5, 2], [-32.5, 0.5]])
    np.testing.assert_array_equal(csv("1,5;2,5\n3,5;4,5\n").collect(), [[1.5, 2.5], [3.5, 4.5]])


@pytest.mark.parametrize("content", ['a,b\n"1,5",2\n', "a\tb\n1,5\t2\n"], ids=["comma", "tab"])
def test_decimal_comma_elsewhere_is_told(csv, content):
    assert "looks like a decimal comma" in refused(csv, content)


def test_two_decimal_marks_are_told(csv):
    assert "line 2 has a decimal comma (1,5) and line 3 a decimal point (2.5)" in refused(
        csv, "a;b\n1,5;2\n2.5;3\n"
    )


def test_a_text_cell_is_refused_with_line_column_value_and_way_out(csv):
    content = "x,V6\n" + "1,2\n" * 30 + "1,?\n" + "1,2\n" * 30 + "3,?\n"
    message = refused(csv, content)
    assert '"V6" (text among numbers, e.g. "?" at line 32)' in message
    assert 'missing_values="?"' in message
    values = csv(content, missing_values="?").collect()
    assert np.isnan(values).sum() == 2
    assert np.isnan(values[30, 1])
    np.testing.assert_array_equal(csv(content, columns=["x"]).collect()[:, 0], values[:, 0])


def test_text_late_in_a_file_is_found_while_reading(csv):
    lines = [f"{i},{i}.5" for i in range(50_000)]
    lines[44_321] = "44321,oops"
    source = csv("\n".join(["a,b", *lines]), block_rows=1000)
    with pytest.raises(UnreadableError) as caught:
        source.observed()
    assert 'line 44323, column "b" holds text, "oops"' in str(caught.value)
    assert 'missing_values="oops"' in str(caught.value)
    assert 'columns=["a"]' in str(caught.value)


def test_a_ragged_row_late_in_a_file(csv):
    lines = ['1,"two\nlines",3'] * 30_000
    lines[29_000] += ",4"
    with pytest.raises(UnreadableError, match="line 58002 has 4 cells, and the header has 3"):
        csv("\n".join(["a,b,c", *lines]), columns=["a", "c"]).observed()


def test_text_columns_are_told_together(csv):
    message = refused(csv, "id,name,x,y\nA1,Bob,1,2\nA2,Eve,3,4\n")
    assert '"id" (text, e.g. "A1" at line 2), "name" (text, e.g. "Bob" at line 2)' in message
    assert 'columns=["x", "y"]' in message


def test_a_column_without_name_is_not_taken_for_a_feature(csv):
    content = ",a,b\n0,1,2\n1,3,4\n"
    assert "row numbers that pandas and R write" in refused(csv, content)
    np.testing.assert_array_equal(csv(content, columns=["a", "b"]).collect(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(csv(content, columns=[0]).collect(), [[0], [1]])


# Headers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "names", "rows"),
    [
        ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("1,\n3,4\n", None, [[1, nan], [3, 4]]),
        ("1,x\n3,4\n", ("1", "x"), [[3, 4]]),
        ('"2001","2002"\n3,4\n', ("2001", "2002"), [[3, 4]]),
        ('"1","2"\n"3","4"\n', None, [[1, 2], [3, 4]]),
        ("5\n6\n", None, [[5], [6]]),
        ("a\n6\n", ("a",), [[6]]),
        ("a,b\nNA,4\n", ("a", "b"), [[nan, 4]]),
        ("NA,NaN\n3,4\n", None, [[nan, nan], [3, 4]]),
    ],
    ids=[
        "numbers",
        "gap",
        "mixed",
        "quoted-numbers",
        "all-quoted",
        "single",
        "single-named",
        "gap-below",
        "only-gaps",
    ],
)
def test_line_one_is_a_header_unless_it_is_all_numbers(csv, content, names, rows):
    source = csv(content)
    assert source.names == names
    np.testing.assert_array_equal(source.collect(), rows)


def test_names_are_utf8(csv):
    assert csv("Größe,température\n1,2\n").names == ("Größe", "température")
    assert "not UTF-8" in refused(csv, "Größe,b\n1,2\n".encode("latin-1"))
    assert "UTF-16" in refused(csv, "a,b\n1,2\n".encode("utf-16"))


@pytest.mark.parametrize("content", ["a,b\n", "a,b", "\n\n", "\ufeff"])
def test_a_table_without_rows_is_told(csv, content):
    assert "0 sample(s)" in refused(csv, content)


# Cells ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [*sorted(MISSING_TEXTS), " NA", "NA ", '""', '" "'])
def test_spellings_of_missing(csv, gap):
    np.testing.assert_array_equal(csv(f"a,b\n1,{gap}\n3,4\n").collect(), [[1, nan], [3, 4]])


def test_the_spellings_are_those_of_pandas():
    from pandas._libs.parsers import STR_NA_VALUES

    assert MISSING_TEXTS == STR_NA_VALUES


@pytest.mark.parametrize(
    ("missing_values", "expected"),
    [
        ("?", [nan, -999, 1]),
        (["?", -999], [nan, nan, 1]),
        ({"?", "-999"}, [nan, nan, 1]),
        (np.array([-999.0]), None),
    ],
    ids=["text", "both", "text-number", "array"],
)
def test_missing_values(csv, missing_values, expected):
    content = "a,b\n?,0\n-999,0\n1,0\n"
    if expected is None:
        assert "missing_values" in refused(csv, content, missing_values=missing_values)
        return
    found = csv(content, missing_values=missing_values).collect()[:, 0]
    np.testing.assert_array_equal(found, expected)


def test_missing_values_need_not_be_ascii(csv):
    np.testing.assert_array_equal(csv("a\n1\nß\n", missing_values="ß").collect(), [[1], [nan]])


def test_truth_is_one(csv):
    content = "a,b\nTrue,1\nfalse,2\nTRUE,3\n"
    np.testing.assert_array_equal(csv(content).collect()[:, 0], [1, 0, 1])


def test_infinity_is_told(csv):
    for cell in ("inf", "-Infinity", "1e999"):
        assert "infinity" in refused(csv, f"a,b\n1,2\n3,{cell}\n")


def test_a_quote_that_is_never_closed_is_told(csv):
    assert "never closed" in refused(csv, 'a,b\n1,2\n3,"4\n5,6\n')


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress], ids=["gzip", "bz2"])
def test_compressed(csv, packed):
    np.testing.assert_array_equal(csv(packed(b"a,b\n1,2\n")).collect(), [[1, 2]])


def test_numbers_read_back_exactly(csv):
    X = np.random.default_rng(0).normal(size=(300, 5)) * 10.0 ** np.arange(-200, 300, 100)
    content = "\n".join(",".join(map(repr, row)) for row in X.tolist())
    np.testing.assert_array_equal(csv(content).collect(), X)


def test_rows_much_longer_than_what_is_looked_at_first(csv, monkeypatch):
    monkeypatch.setattr(csv_reader, "HEAD_BYTES", 16)
    X = np.arange(300.0).reshape(3, 100)
    content = ",".join(f"column{j}" for j in range(100)) + "\n"
    content += "\n".join(",".join(map(str, row)) for row in X.tolist())
    np.testing.assert_array_equal(csv(content).collect(), X)


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
def test_chunks_of_any_size_give_the_same_rows(csv, monkeypatch, size):
    monkeypatch.setattr(csv_reader, "MOST_CHUNK", size)
    monkeypatch.setattr(csv_reader, "LEAST_CHUNK", size)
    rows = "".join(f'{i},"q\n{i}",NA\n{i},x"y, {i}.5\n' for i in range(40))
    source = csv("a,t,b\r\n" + rows, columns=["b", "a"])
    expected = [[b, i] for i in range(40) for b in (nan, i + 0.5)]
    np.testing.assert_array_equal(source.collect(), expected)


# Cutting -------------------------------------------------------------------------------------

PIECES = st.sampled_from([b"1", b"x", b",", b"\n", b'"', b'""', b'"a\nb"', b'"a,""b"', b"\r\n"])


@given(st.lists(PIECES, max_size=40).map(b"".join), st.integers(1, 30))
@example(b'5"\n6"\n"a\nb"\n', 2)
def test_a_row_is_never_cut(content, size):
    stream = io.BytesIO(content)
    cut, found = [], row_chunks(stream.read, size, b"\n", "x.csv")
    if _outside_quotes(content):
        cut = [chunk for chunk, _ in found]
        assert b"".join(cut) == content
    else:
        with pytest.raises(UnreadableError, match="never closed"):
            cut.extend(chunk for chunk, _ in found)
    at = 0
    for chunk in cut[:-1]:
        at += len(chunk)
        assert _outside_quotes(content[:at])


def _outside_quotes(text: bytes) -> bool:
    """Letter by letter: a quote opens at the beginning of a field, two of them are a letter."""
    inside, begins, i = False, True, 0
    while i < len(text):
        letter = text[i : i + 1]
        if inside and text[i : i + 2] == b'""':
            i += 2
            continue
        if letter == b'"' and (inside or begins):
            inside, begins = not inside, False
        else:
            begins = not inside and letter in b",;\t|\r\n"
        i += 1
    return not inside


def test_where_rows_end():
    assert last_row_end(b'1,2\n3,"a\nb', b"\n") == 4
    assert last_row_end(b'1,2\n3,"a\nb"\n4', b"\n") == 12
    assert last_row_end(b'"a\nb\nc', b"\n") == 0


# Whatever bytes there are --------------------------------------------------------------------

CELLS = st.one_of(
    st.sampled_from(["1", "-2.5", "3e2", "", "NA", "nan", " 4", "5 ", '"6"', "?", "abc", "True"]),
    st.sampled_from(["1,5", "inf", '"a\nb"', '"', '""', "1_000", "0x1", "١", "1.2.3", "+7", "-"]),
    st.text(max_size=4),
)
PLAIN = st.sampled_from(["1", "-2.5", "3e2", "0.1", "", "NA", "nan", " 4", "5 ", '"6"', "+7", ".5"])


@st.composite
def grids(draw):
    """Numbers and gaps, with one cell among them that may be anything."""
    d, n = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    grid = draw(st.lists(st.lists(PLAIN, min_size=d, max_size=d), min_size=n, max_size=n))
    if draw(st.booleans()):
        grid[draw(st.integers(0, n - 1))][draw(st.integers(0, d - 1))] = draw(CELLS)
    return grid


TABLES = st.builds(
    lambda rows, sep, end, bom: bom + end.join(sep.join(row) for row in rows),
    st.one_of(grids(), st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=8)),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\ufeff"]),
).map(lambda text: text.encode("utf-8", "surrogatepass"))


def read(path: Path, content: bytes) -> np.ndarray | None:
    """What is read of these bytes, None where they are refused, as they may be."""
    path.write_bytes(content)
    try:
        return np.asarray(open_source(path).collect())
    except (ValueError, OSError) as error:
        told = str(error)
    assert str(path) in told
    return None


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.one_of(TABLES, st.binary(max_size=60)))
def test_any_bytes_are_read_or_refused_by_name(tmp_path, content):
    read(tmp_path / "x.csv", content)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(grids())
@example([["1", "", "x"]])
def test_what_is_read_is_what_pandas_reads(tmp_path, grid):
    names = [f"n{j}" for j in range(len(grid[0]))]
    content = "\n".join(",".join(row) for row in [names, *grid]).encode()
    ours = read(tmp_path / "x.csv", content)
    if ours is None:
        return
    theirs = pd.read_csv(io.BytesIO(content), index_col=False)
    # A word of truth among numbers or gaps makes text or objects of a column there.
    numbers = theirs.map(lambda cell: Cells().number(cell) if isinstance(cell, str) else cell)
    np.testing.assert_allclose(ours, numbers.to_numpy(dtype=float), rtol=1e-15)


# Rows are counted ----------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("again", [False, True])
def test_rows_that_the_parser_loses_are_read_again_or_told(csv, monkeypatch, newline, again):
    """A pass once came out short by three of the pieces that pyarrow's threads parse."""
    parsed = csv_reader.CsvReader._parsed

    def lossy(self, chunk, as_text, in_one=False):
        table = parsed(self, chunk, as_text, in_one)
        return table if in_one and not again else table.slice(0, 1)

    content = newline.join(["a,b", "", "1,2", "3,4", "5,6", ""])
    monkeypatch.setattr(csv_reader.CsvReader, "_parsed", lossy)
    if again:
        assert "rows were lost" in refused(csv, content)
    else:
        np.testing.assert_array_equal(csv(content).collect(), [[1, 2], [3, 4], [5, 6]])


SPELLINGS_OF_NAN = [
    *("NAN", "-NAN", "nAn", "+nan", "nan(ind)", "-nan(ind)", "NaN(0x7ff)", "nan()", " NAN "),
    *("nan(", "nan(a b)", "nan (ind)", "nanx", "xnan", "nan(\u00e9)", "--nan"),
]


@pytest.mark.parametrize(
    ("text", "width"),
    [
        *((text, 2) for text in SPELLINGS_OF_NAN),
        *((text, csv_reader.WIDE) for text in SPELLINGS_OF_NAN[:2]),
        *(
            pytest.param(text, csv_reader.WIDE, marks=pytest.mark.slow)
            for text in SPELLINGS_OF_NAN[2:]
        ),
    ],
)
def test_a_spelling_of_nan_means_the_same_in_every_row(csv, text, width):
    """pyarrow reads most rows, and the first ones are read here."""
    found = set()
    for at in (3, 1500):
        lines = [",".join(["1"] * width)] * 1600
        lines[at] = ",".join([text, *["1"] * (width - 1)])
        header = ",".join(f"c{j}" for j in range(width))
        try:
            values = csv("\n".join([header, *lines]) + "\n").collect()
        except UnreadableError:
            found.add("text")
        else:
            assert np.isnan(values[at, 0])
            assert np.isnan(values).sum() == 1
            found.add("missing")
    assert len(found) == 1


@pytest.mark.parametrize("code", ["\u00e0", "\u00c5", "d\u00e9j\u00e0", "x\u3000\u0fa0"])
@pytest.mark.parametrize("at", [1, 1500])
def test_codes_that_end_in_a_byte_like_white_space(csv, code, at):
    lines = ["1,2"] * 1600
    lines[at] = f"{code} ,2"
    content = "\n".join(["a,b", *lines]) + "\n"
    values = csv(content, missing_values=code).collect()
    assert np.isnan(values).sum() == 1
    assert np.isnan(values[at, 0])


def test_text_that_ends_in_a_byte_like_white_space_is_shown_whole(csv):
    assert '"d\u00e9j\u00e0"' in refused(csv, "a,b\n1,2\nd\u00e9j\u00e0,3\n4,5\n")


def test_a_column_that_is_not_chosen_has_no_say_on_the_decimal_mark(csv):
    content = "a;v;b\n1,5;1.5;2\n2,5;2.5;3,25\n"
    values = csv(content, columns=["a", "b"]).collect()
    np.testing.assert_array_equal(values, [[1.5, 2.0], [2.5, 3.25]])
    np.testing.assert_array_equal(csv(content, columns=["v"]).collect(), [[1.5], [2.5]])
    without_header = "1,5;1.5;2\n2,5;2.5;3,25\n"
    values = csv(without_header, columns=[0, 2]).collect()
    np.testing.assert_array_equal(values, [[1.5, 2.0], [2.5, 3.25]])
    assert "write all numbers in one way" in refused(csv, content)
    assert "write all numbers in one way" in refused(csv, content, columns=["a", "v"])


def test_files_agree_on_the_decimal_marks_of_the_chosen_columns(tmp_path):
    (tmp_path / "x1.csv").write_text("a;v\n1,5;2.5\n2;3.5\n")
    (tmp_path / "x2.csv").write_text("a;v\n3;4.5\n4,25;5.5\n")
    values = open_source(str(tmp_path / "x*.csv"), columns=["a"]).collect()
    np.testing.assert_array_equal(values, [[1.5], [2.0], [3.0], [4.25]])
