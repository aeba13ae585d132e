"""The line that Excel takes for the separator, `sep=;`, is above the table and no row of it."""

from __future__ import annotations

import numpy as np
import pytest

from eigengap.exceptions import UnreadableError
from eigengap.sources.opening import open_source

ROWS = [[1.0, 2.5], [np.nan, 4.0]]
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(
    ("begin", "line"), [(b"", "sep={}"), (BOM, "sep={}"), (b"", "SEP={}"), (b"", '"sep={}"')]
)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"], ids=["comma", "semi", "tab", "bar"])
def test_the_separator_is_the_one_that_is_declared(separator, line, newline, begin, tmp_path):
    lines = [line.format(separator), separator.join("ab"), f"1{separator}2.5", f"NA{separator}4"]
    path = tmp_path / "a.csv"
    path.write_bytes(begin + newline.join([*lines, ""]).encode())
    source = open_source(path)
    assert source.names == ("a", "b")
    np.testing.assert_array_equal(source.collect(), ROWS)
    path.write_bytes(begin + newline.join([lines[0], *lines[2:], ""]).encode())
    source = open_source(path)  # no header
    assert source.names is None
    np.testing.assert_array_equal(source.collect(), ROWS)


def test_decimal_commas_below_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\na;b\n1;2,5\n;4\n")
    np.testing.assert_array_equal(open_source(path).collect(), ROWS)


def test_one_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\na\n1\n2\n")
    np.testing.assert_array_equal(open_source(path).collect(), [[1.0], [2.0]])


@pytest.mark.parametrize("bad", [3, 5000])
def test_messages_have_the_line_of_the_file(bad, tmp_path):
    lines = ["sep=;", "a;b", *["1;2"] * 6000]
    lines[bad - 1] = "1;x"
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UnreadableError, match=rf"line {bad}\b.*\"x\""):
        open_source(path).collect()


def test_the_line_alone_is_no_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\n")
    with pytest.raises(UnreadableError, match="empty"):
        open_source(path)


def test_it_may_be_skipped_by_hand(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sep=;\na;b\n1;2.5\nNA;4\n")
    np.testing.assert_array_equal(open_source(path, skip_rows=1).collect(), ROWS)
