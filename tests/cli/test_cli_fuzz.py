"""Any bytes for a table: never a traceback, never a wrong success.

What a command writes is held against a parse of the input by Python's own csv module.
"""

from __future__ import annotations

import csv
import io
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.conftest import as_csv, cells
from tests.cli.running import Ran, call

CODES = {0, 2, 4, 5}
MISSING = ("", "NA", "nan", "NULL", "?")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
BRISK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@contextmanager
def somewhere() -> Iterator[Path]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def filled(content: bytes, *options: str) -> Ran:
    """impute of the content, in a folder of its own in which nothing is left behind."""
    with somewhere() as folder:
        (folder / "t.csv").write_bytes(content)
        ran = call("impute", "t.csv", "-k", "1", "--set", "max_iter=20", "-q", *options)
        assert os.listdir(folder) == ["t.csv"]
    assert ran.code in CODES, (ran.code, ran.err)
    assert (ran.code == 0) == (ran.err == "" or not ran.err.startswith(("Error", "Usage")))
    return ran


def rows_of(content: bytes, separator: str = ",") -> list[list[str]]:
    text = content.decode("utf-8-sig")
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row]


# Tables that are right -----------------------------------------------------------------------

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: f"{x:.6g}")
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\x00\r"),
    min_size=1,
    max_size=12,
).filter(lambda name: name.strip() == name and name not in MISSING)


@st.composite
def tables(draw) -> tuple[list[str], list[list[str]], list[bool], str, str, bool, bool]:
    """Names, cells, which columns are text, separator, line end, quotes everywhere, a mark."""
    d, n = draw(st.integers(2, 5)), draw(st.integers(4, 12))
    names = draw(st.lists(NAMES, min_size=d, max_size=d, unique=True))
    is_text = [False, False, *draw(st.lists(st.booleans(), min_size=d - 2, max_size=d - 2))]
    cell = [
        NAMES if text else st.one_of(NUMBERS, NUMBERS, st.sampled_from(MISSING)) for text in is_text
    ]
    rows = [[draw(one) for one in cell] for _ in range(n)]
    for j, text in enumerate(is_text):  # every feature shows something, and varies
        if not text:
            rows[0][j], rows[1][j], rows[2][j] = str(j), str(j + 1.5), "-3"
    separator = draw(st.sampled_from([",", ",", ";", "\t"]))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return names, rows, is_text, separator, newline, draw(st.booleans()), draw(st.booleans())


@given(tables())
@settings(BRISK, max_examples=15)
def test_a_table_of_any_look_comes_back_with_its_missing_filled(table) -> None:
    comes_back_filled(table)


@pytest.mark.slow
@given(tables())
@settings(BRISK, max_examples=100)
def test_many_tables_of_any_look_come_back_with_their_missing_filled(table) -> None:
    comes_back_filled(table)


def comes_back_filled(table) -> None:
    names, rows, is_text, separator, newline, quotes, mark = table
    written = io.StringIO(newline="")
    how = csv.QUOTE_ALL if quotes else csv.QUOTE_MINIMAL
    csv.writer(written, delimiter=separator, lineterminator=newline, quoting=how).writerows(
        [names, *rows]
    )
    content = (b"\xef\xbb\xbf" if mark else b"") + written.getvalue().encode()
    ignored = [
        part
        for j, text in enumerate(is_text)
        if text
        for part in ("--ignore", '"' + names[j].replace('"', '""') + '"')
    ]
    ran = filled(content, "--na", "?", *ignored)
    if ran.code != 0:  # a look that cannot be told apart is refused, not misread
        assert ran.out == b""
        return
    header, *out = rows_of(ran.out, separator)
    assert header == [f"'{name}" if name.startswith(FORMULA) else name for name in names]
    assert len(out) == len(rows)
    for before, after in zip(rows, out, strict=True):
        for cell, new, text in zip(before, after, is_text, strict=True):
            if text or cell not in MISSING:
                assert new == cell
            else:
                assert math.isfinite(float(new.replace(",", ".")))


# Bytes that are anything ----------------------------------------------------------------------

BASE = as_csv(cells(12))
PIECES = st.sampled_from(
    [b",", b"\n", b'"', b"\r\n", b";", b"\x00", b"\xff", b"?", b"1e400", b"-", b"=", b"a", b"\xc3",
     b"inf", b"nan", b"1.5", b"''", b"\t", b" ", b"1,5", b"PK\x03\x04", b"PAR1", b"\x93NUMPY"]
)  # fmt: skip


@st.composite
def damaged(draw) -> bytes:
    content = bytearray(BASE)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        content[at : at + draw(st.integers(0, 6))] = draw(PIECES)
    return bytes(content)


ANYTHING = st.one_of(
    damaged(), damaged(), st.lists(PIECES, max_size=30).map(b"".join), st.binary(max_size=60)
)


@given(ANYTHING)
@BRISK
def test_damaged_and_random_bytes_are_filled_rightly_or_refused(content: bytes) -> None:
    ran = filled(content)
    if ran.code != 0:
        assert ran.out == b""
        return
    separator = max(",;\t|", key=lambda one: ran.out.decode("latin-1").count(one))
    before = rows_of(content.decode("latin-1").encode(), separator)
    after = rows_of(ran.out.decode("latin-1").encode(), separator)
    assert len(after) == len(before)
    for old, new in zip(before[1:], after[1:], strict=True):
        assert len(old) == len(new)
        for cell, found in zip(old, new, strict=True):
            assert found == cell or math.isfinite(float(found.replace(",", ".")))
            if found != cell:  # only what is no number may have been filled
                assert not cell.strip().replace(".", "", 1).lstrip("+-").isdecimal()


@given(st.binary(max_size=200), st.integers(0, 2**16))
@settings(BRISK, max_examples=40)
def test_any_bytes_for_a_model_are_refused(fitted_once: bytes, junk: bytes, at: int) -> None:
    content = bytearray(fitted_once)
    at %= len(content)
    content[at : at + len(junk)] = junk
    with somewhere() as folder:
        (folder / "t.csv").write_bytes(BASE)
        (folder / "m.egap").write_bytes(bytes(content) if at % 2 else junk)
        changed = (folder / "m.egap").read_bytes() != fitted_once
        ran = call("transform", "m.egap", "t.csv", "-q")
        inspected = call("inspect", "m.egap", "-q")
    assert ran.code == (4 if changed else 0), ran.err
    assert inspected.code in (0, 4)
