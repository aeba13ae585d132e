"""CSV as people have it: T31, T32, cells that keep their text, memory that does not grow."""

from __future__ import annotations

import csv
import io
import shlex
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import NAMES, as_csv, cells
from tests.cli.running import call

from eigengap.cli.tables import pieces

FIT = ("fit", "t.csv", "-k", "1", "-o", "m.egap")
FILL = ("impute", "t.csv", "-k", "1", "-q")


BOM = b"\xef\xbb\xbf"


def parsed(text: bytes, separator: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline=""), delimiter=separator))


@pytest.mark.parametrize(
    ("end", "mark"),
    [
        pytest.param("\n", BOM, id="lf-bom"),
        pytest.param("\r\n", b"", id="crlf-bare"),
        pytest.param("\r", b"", id="cr-bare"),
        pytest.param("\r\n", BOM, id="crlf-bom", marks=pytest.mark.slow),
        pytest.param("\r", BOM, id="cr-bom", marks=pytest.mark.slow),
    ],
)
def test_line_ends_and_a_bom_stay(folder: Path, end: str, mark: bytes) -> None:
    """Unix, Windows and old Macs; but for them the bytes are the same, with and without a header
    and where quotes are needed."""
    for names, rows in (
        (NAMES, cells()),
        (None, cells()),
        ([*NAMES, "e"], [[*row, '"x, y"'] for row in cells()]),
    ):
        arguments = ("--ignore", "e") if names and len(names) > 4 else ()
        Path("t.csv").write_bytes(as_csv(rows, names))
        plain = call(*FILL, *arguments).out
        Path("t.csv").write_bytes(mark + as_csv(rows, names, newline=end))
        ran = call(*FILL, *arguments)
        assert ran.code == 0, ran.err
        assert ran.out == mark + plain.replace(b"\n", end.encode())
        assert call(*FILL, *arguments, "-o", "f.csv", "--force").code == 0
        assert Path("f.csv").read_bytes() == ran.out


def test_semicolons_and_decimal_commas_stay(folder: Path) -> None:
    rows = [[cell.replace(".", ",") for cell in row] for row in cells()]
    Path("t.csv").write_bytes(as_csv(rows, separator=";"))
    filled = parsed(call(*FILL).out, ";")
    Path("t.csv").write_bytes(as_csv(cells()))
    assert [[cell.replace(",", ".") for cell in row] for row in filled] == parsed(call(*FILL).out)


def test_observed_cells_keep_their_text_and_missing_are_filled(folder: Path) -> None:
    odd = {(0, 0): "+1.50", (1, 1): "1e0", (2, 2): "00.3", (5, 3): " 2 ", (6, 0): "-0.0"}
    rows = [[odd.get((i, j), cell) for j, cell in enumerate(row)] for i, row in enumerate(cells())]
    notes = [f'"says ""{i}"", and\nmore"' for i in range(40)]
    both = [[note, *row] for note, row in zip(notes, rows, strict=True)]
    Path("t.csv").write_bytes(as_csv(both, ["note", *NAMES]))
    header, *filled = parsed(call(*FILL, "--ignore", "note").out)
    assert header == ["note", *NAMES]
    for i, (before, after) in enumerate(zip(rows, filled, strict=True)):
        assert after[0] == f'says "{i}", and\nmore'
        for cell, new in zip(before, after[1:], strict=True):
            assert new == cell if cell else np.isfinite(float(new))


def test_names_that_are_formulas_are_made_harmless_and_numbers_are_not_touched(folder) -> None:
    """T32."""
    names = ["=1+1", "+b", "-c", "@d"]
    Path("t.csv").write_bytes(as_csv(cells(), names))
    header, *filled = parsed(call(*FILL).out)
    assert header == [f"'{name}" for name in names]
    negative = [cell for row in cells() for cell in row if cell.startswith("-")]
    written = [cell for row in filled for cell in row]
    assert negative
    assert all(cell in written for cell in negative)
    assert call(*FIT).code == 0
    assert call("transform", "m.egap", "t.csv").code == 0


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (as_csv(cells(), ["a", "a", "c", "d"]), 4, ["line 1 names 2 columns", "--ignore 1"]),
        (as_csv([*cells()[:3], ["1", "2", "3", "4", "5"]]), 4, ["line 5 has 5 cells"]),
        (as_csv([*cells()[:3], ["1", "2"]]), 4, ["line 5 has 2 cells"]),
        (
            as_csv([*cells(), ["?", "1", "2", "3"]]), 5,
            ['"a" holds text in row 41 ("?")', '--na "?"'],
        ),
        (
            as_csv([[f"{k} kg", *row[1:]] for k, row in enumerate(cells())]), 5,
            ['"a" holds text in rows 1, 2, 3 and 37 more ("0 kg")', "--ignore a"],
        ),
        (  # only the first rows are looked at, and the count says so
            as_csv([[f"{k} kg", *row[1:]] for k, row in enumerate(cells() * 40)]), 5,
            ['"a" holds text in rows 1, 2, 3 and 997 more of the first 1000 ("0 kg")'],
        ),
        (
            as_csv([*(cells() * 30), ["x y", "1", "2", "3"]]), 5,
            ["line 1202", '--na "x y"', "--ignore"],
        ),
        (as_csv([*cells(), ["inf", "1", "2", "3"]]), 5, ["inf at row 41", '"a"']),
        (as_csv([["", ""] for _ in cells()], ["a", "b"]), 5, ['used: "a" (no value), "b"']),
        (as_csv([['"1,5"', *row[1:]] for row in cells()]), 5, ["decimal comma", "semicolons"]),
        (b"", 4, ["it is empty"]),
        (b"a,b\n", 4, ["no rows"]),
        (b"a,b\n1,2\n", 5, ["at least 2 rows"]),
        (b"\x00\x01\x02", 4, ["of no format"]),
        ("a,b\n1,2\n".encode("utf-16"), 4, ["UTF-16", "iconv"]),
        (as_csv([["0", *row] for row in cells()], ["", *NAMES]), 4, ["has no name", "--ignore 0"]),
        (as_csv(cells()) + b'"', 4, ["quote"]),
    ],
    ids=["twice", "long", "short", "mark", "text", "much-text", "late", "inf", "unseen", "comma",
         "empty", "header", "one", "binary", "utf16", "nameless", "open-quote"],
)  # fmt: skip
def test_bad_tables_are_told_with_the_place_and_the_option(folder, content, code, says) -> None:
    """T31."""
    Path("t.csv").write_bytes(content)
    ran = call(*FIT)
    assert ran.code == code, ran.err
    assert ran.err.count("Error: ") == 1
    for words in says:
        assert words in ran.err
    for python in ("missing_values", "columns=", "n_components", "scale=True"):
        assert python not in ran.err
    assert sorted(path.name for path in Path().iterdir()) == ["t.csv", "table.csv"]


def test_text_in_the_second_of_two_files_is_told_with_its_name(folder: Path) -> None:
    Path("p1.csv").write_bytes(as_csv(cells()))
    Path("p2.csv").write_bytes(as_csv([*cells()[:3], ["oops", "1", "2", "3"]]))
    ran = call("impute", "p*.csv", "-k", "1")
    assert ran.code == 5
    assert ran.out == b""
    assert all(words in ran.err for words in ("p2.csv", '"oops" at line 5', '--na "oops"'))


def test_many_rows_in_little_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory is a piece, however long the table; the pieces change nothing."""
    rows = cells(10_000, share=0.05) * 12
    content = as_csv(rows)
    Path("t.csv").write_bytes(content)
    assert call("fit", "table.csv", "-k", "2", "-o", "m.egap").code == 0
    whole = call("impute", "t.csv", "--model", "m.egap", "-o", "whole.csv", "-q")
    assert whole.code == 0, whole.err
    monkeypatch.setattr(pieces, "CHUNK", 1 << 16)
    tracemalloc.start()
    assert call("impute", "t.csv", "--model", "m.egap", "-o", "f.csv", "-q").code == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(content)  # and less than the numbers alone would take
    filled, expected = parsed(Path("f.csv").read_bytes()), parsed(Path("whole.csv").read_bytes())
    assert len(filled) == 120_001
    numbers = [np.array(table[1:], dtype=float) for table in (filled, expected)]
    np.testing.assert_allclose(*numbers, rtol=1e-9, atol=1e-12)
    for before, after in zip(rows, filled[1:], strict=True):
        assert all(new == cell for cell, new in zip(before, after, strict=True) if cell)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize(
    "options", [("--skip-rows", "2"), ("--comment", "#")], ids=["skip", "comment"]
)
def test_what_stands_above_a_table_is_kept(folder: Path, options, newline: str) -> None:
    """Filled cells apart every byte is as it was; the model is that of the table alone, and the
    command that is named next can be run."""
    above = newline.join(['# logger 5" of, "north', "# begun; 2024", ""]).encode()
    bare = as_csv(cells(), newline=newline)
    Path("log.csv").write_bytes(above + bare)
    Path("bare.csv").write_bytes(bare)
    assert "--comment" in call("impute", "log.csv", "-q").err
    assert call("impute", "log.csv", "--comment", "").code == 2
    filled = call("impute", "log.csv", *options, "-k", "1", "-q")
    assert filled.out == above + call("impute", "bare.csv", "-k", "1", "-q").out
    ran = call("fit", "log.csv", *options, "-k", "1", "-o", "m.egap")
    then = shlex.split(ran.err.rstrip().rpartition("Next    eigengap ")[2])
    assert call(*(word for word in then if word != "--open"), "-q").code == 0
    scored = call("score", "m.egap", "log.csv", *options).err
    assert scored == call("score", "m.egap", "bare.csv").err


def test_comments_between_rows_are_counted_where_they_are_lost(folder: Path) -> None:
    lines = as_csv(cells()).decode().splitlines()
    lines[20:20] = ["# pause", "# of two"]
    Path("log.csv").write_text("\n".join(["# logger", *lines]))
    ran = call("impute", "log.csv", "--comment", "#", "-k", "1", "-o", "out.csv")
    assert "Note    2 comments between rows cannot stand in out.csv" in ran.err
    assert Path("out.csv").read_text().splitlines()[:2] == ["# logger", "a,b,c,d"]


def test_files_with_two_decimal_marks_are_refused(folder: Path) -> None:
    rows = [[cell.replace(".", ",") for cell in row] for row in cells()]
    Path("i-1.csv").write_bytes(as_csv(rows, separator=";"))
    Path("i-2.csv").write_bytes(as_csv(cells(), separator=";"))
    ran = call("impute", "i-*.csv", "-k", "1")
    assert ran.code == 4
    assert ran.err.startswith("Error: i-2.csv: line 2 has a decimal point")
    assert "and in i-1.csv line 2 has a decimal comma" in ran.err


def test_whole_numbers_before_decimal_commas_are_imputed_with_commas(folder: Path) -> None:
    """The output has the decimal mark of the files that show one."""
    rows = [[cell.replace(".", ",") for cell in row] for row in cells()]
    Path("i-1.csv").write_bytes(as_csv([["1", "", "3", "4"]], separator=";"))
    Path("i-2.csv").write_bytes(as_csv(rows, separator=";"))
    ran = call("impute", "i-*.csv", "-k", "1", "-q")
    assert ran.code == 0, ran.err
    filled = parsed(ran.out, ";")[1][1]
    assert "," in filled
    assert "." not in filled


def test_an_ignored_column_has_no_say_on_the_decimal_mark(folder: Path) -> None:
    rows = [[a.replace(".", ","), b.replace(".", ","), c] for a, b, c, _ in cells()]
    Path("mixed.csv").write_bytes(as_csv(rows, ("a", "b", "v"), ";"))
    ran = call("impute", "mixed.csv", "-k", "1", "--ignore", "v")
    assert ran.code == 0, ran.err
    written = [line.split(";") for line in ran.text.splitlines()[1:]]
    for row, out in zip(rows, written, strict=True):
        assert out[2] == row[2]
        for cell, found in zip(row[:2], out[:2], strict=True):
            assert found == cell if cell else "," in found
    assert "one way" in call("impute", "mixed.csv", "-k", "1").err


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a mark"])
def test_impute_keeps_the_line_that_declares_the_separator(
    folder: Path, line_end: str, begin: bytes
) -> None:
    above = begin + f"sep=;{line_end}".encode()
    text = as_csv(cells(), separator=";", newline=line_end)
    Path("excel.csv").write_bytes(above + text)
    ran = call("impute", "excel.csv", "-k", "1")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(above + text.partition(b"\n")[0] + b"\n")
    assert ran.out.count(b"sep=") == 1
    assert ran.out.count(b"\n") == (above + text).count(b"\n")


def test_na_takes_a_code_whose_last_byte_looks_like_white_space(folder: Path) -> None:
    rows = [[cell or "\u00e0" for cell in row] for row in cells()]
    Path("coded.csv").write_bytes(as_csv(rows))
    assert "\u00e0" in call("impute", "coded.csv", "-k", "1").err
    ran = call("impute", "coded.csv", "-k", "1", "--na", "\u00e0")
    assert ran.code == 0, ran.err
    assert "\u00e0" not in ran.text
