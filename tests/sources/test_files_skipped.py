"""Lines of CSV that are no rows: what stands above a table, and comments. pandas is the oracle."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigengap.exceptions import UnreadableError
from eigengap.sources.files.csv.rows import (
    SkippedLines,
    SkippingStream,
)
from eigengap.sources.opening import open_source

ABOVE = '# logger 5" of, "north\n# begun; 2024\n'


def body(n: int = 200, newline: str = "\n") -> str:
    X = np.random.default_rng(0).normal(size=(n, 3)).round(3)
    return pd.DataFrame(X, columns=list("abc")).to_csv(index=False, lineterminator=newline)


@given(
    lines=st.lists(
        st.sampled_from(
            [
                b"#x",
                b"1,2",
                b"",
                b"a#",
                b"##",
                b"  #x\t",
                b" \t# y",
                b"\t#N/A\t3",
                b"#N/A,3",
                b"#NA?",
            ]
        ),
        max_size=8,
    ),
    newline=st.sampled_from([b"\n", b"\r\n"]),
    first=st.integers(0, 4),
    mark=st.sampled_from([None, "#"]),
    size=st.integers(1, 20),
)
@settings(max_examples=200, deadline=None)
def test_lines_aside_are_empty_and_all_others_as_they_were(
    lines: list[bytes], newline: bytes, first: int, mark: str | None, size: int
) -> None:
    """However the stream is cut. Blanks may stand before a mark; where there are further tabs, the
    first may part cells. #N/A is a missing cell."""
    stream = SkippingStream(io.BytesIO(newline.join(lines)), SkippedLines(first, mark))
    found = b"".join(iter(lambda: stream.read(size), b""))
    comments = (b"#x", b"##", b"  #x\t", b" \t# y", b"#NA?")
    gone = [i < first or (mark and line in comments) for i, line in enumerate(lines)]
    expected = [b"" if aside else line for aside, line in zip(gone, lines, strict=True)]
    assert found == newline.join(expected)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "bom"])
@pytest.mark.parametrize("how", [{"skip_rows": 2}, {"comment": "#"}], ids=["skip", "comment"])
@pytest.mark.parametrize("packed", [False, True], ids=["text", "gzip"])
def test_a_table_below_other_lines_is_read_as_if_it_stood_alone(
    tmp_path: Path, newline: str, mark: bytes, how: dict[str, object], packed: bool
) -> None:
    text = mark + (ABOVE.replace("\n", newline) + body(newline=newline)).encode()
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    source = open_source(path, **how, block_rows=64)
    assert source.names == ("a", "b", "c")
    np.testing.assert_array_equal(source.collect(), pd.read_csv(io.StringIO(body())))


def test_comments_between_rows_are_no_rows_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    lines = [*ABOVE.splitlines(), *body().splitlines()]
    lines[100:100] = ["# a pause", "#", "# of two, lines"]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([*lines, "# the end"]))
    expected = pd.read_csv(path, comment="#")
    np.testing.assert_array_equal(open_source(path, comment="#").collect(), expected)
    lines[150] = "1,x,3"
    path.write_text("\n".join(lines))
    with pytest.raises(UnreadableError, match=r'"b" .*at line 151'):
        open_source(path, comment="#")
    lines[150:] = ["1,2,3"] * 2000 + ["1,2"]
    path.write_text("\n".join(lines))
    with pytest.raises(UnreadableError, match="line 2151 has 2 cells"):
        open_source(path, comment="#").collect()


def test_above_a_table_without_a_header_and_of_one_column(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("site\n\n# x\n1.5\n# pause\n2.5\n3.5\n")
    source = open_source(path, skip_rows=2, comment="#")
    np.testing.assert_array_equal(source.collect(), [[1.5], [2.5], [3.5]])
    path.write_text("site\n1.5\n# pause\n\n3.5\n")  # an empty line may be a missing cell
    with pytest.raises(UnreadableError, match="line 4 is empty"):
        open_source(path, skip_rows=1, comment="#").collect()
    path.write_text("site\n\n1,2\n3,x\n")
    with pytest.raises(UnreadableError, match="at line 4"):
        open_source(path, skip_rows=1)


@pytest.mark.parametrize(
    ("above", "way", "how"),
    [
        (ABOVE, 'pass comment="#"', {"comment": "#"}),
        ("Logger\nSite,A,north,12\n", "pass skip_rows=2", {"skip_rows": 2}),
        ("Logger of the north\n", "pass skip_rows=1", {"skip_rows": 1}),
        ("Logger,5\n\nSite,A\n", "pass skip_rows=3", {"skip_rows": 3}),
        ("".join(f"key {i},{i}\n" for i in range(12)), "pass skip_rows=12", {"skip_rows": 12}),
        ("; north\n; roof, 5\n", 'pass comment=";"', {"comment": ";"}),
        ("  # north\n\t# roof\n", 'pass comment="#"', {"comment": "#"}),
    ],
    ids=["comments", "ragged", "one", "blank", "keys", "semicolon", "indented"],
)
def test_a_file_that_does_not_begin_with_its_table_is_told_the_way_out(
    tmp_path: Path, above: str, way: str, how: dict[str, object]
) -> None:
    """Which leads on."""
    path = tmp_path / "log.csv"
    path.write_text(above + body())
    with pytest.raises(UnreadableError, match=way):
        open_source(path)
    np.testing.assert_array_equal(
        open_source(path, **how).collect(), pd.read_csv(io.StringIO(body()))
    )


def test_other_ragged_lines_are_not_taken_for_lines_above(tmp_path: Path) -> None:
    """Names of rows, as R writes them, and a line that is short."""
    path = tmp_path / "r.csv"
    rows = [f"{i},{line}" for i, line in enumerate(body().splitlines()[1:])]
    path.write_text("\n".join(["a,b,c", *rows]))
    with pytest.raises(UnreadableError, match="Names of rows, as R writes them"):
        open_source(path)
    for short in (body() + "1,2\n", body().replace("\n", "\n1,2\n", 1)):
        path.write_text(short)
        with pytest.raises(UnreadableError, match="Complete the line"):
            open_source(path)
    path.write_text("\n".join(["a,b,c,d", *body().splitlines()[1:]]))
    with pytest.raises(UnreadableError, match="Complete the line"):
        open_source(path)


@pytest.mark.parametrize(
    ("above", "way", "how"),
    [
        ("# a\n# b, c\n", 'pass comment="#"', {"comment": "#"}),
        ("", 'pass comment="#"', {"comment": "#"}),
        (
            "Logger\nSite, roof\n# x\n",
            'skip_rows=3 and comment="#"',
            {"skip_rows": 3, "comment": "#"},
        ),
    ],
    ids=["above", "between", "both"],
)
@pytest.mark.parametrize("at", [20, 150, 1500], ids=["near", "far", "beyond"])
def test_comments_between_rows_do_not_make_the_rows_above_them_go(
    tmp_path: Path, above: str, way: str, how: dict[str, object], at: int
) -> None:
    """The option that is proposed reads every row, wherever the comments stand."""
    lines = body(2000).splitlines()
    lines[at:at] = ["# pause", "# begun again, at noon"]
    path = tmp_path / "log.csv"
    path.write_text(above + "\n".join(lines))
    if at < 1000 or not above:  # else what is above is told first, and these when they are met
        with pytest.raises(UnreadableError, match=way):
            open_source(path).collect()
    np.testing.assert_array_equal(
        open_source(path, **how).collect(), pd.read_csv(io.StringIO(body(2000)))
    )


def test_a_table_that_becomes_wider_is_not_said_to_begin_there(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(body(5) + "1,2,3,4\n" * 200)
    with pytest.raises(UnreadableError, match="line 7 has 4 cells") as told:
        open_source(path)
    assert "skip_rows" not in str(told.value)


def test_names_that_a_ragged_file_lacks_are_no_reason_to_be_silent(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("Logger\nSite, roof\n" + body())
    with pytest.raises(UnreadableError, match="pass skip_rows=2"):
        open_source(path, columns=["a", "b"])


TIMES = "2024-01-01 00:00:00,1.5,20\n2024-01-01 01:00:00,2.5,30\n2024-01-01 02:00:00,NA,10\n"


@pytest.mark.parametrize(
    ("text", "n_rows", "names"),
    [
        (TIMES, 3, None),
        ("time,a,b\n" + TIMES, 3, ("a", "b")),
        (TIMES.replace(",", ";").replace(".", ","), 3, None),
        ("north,1.5,2\nsouth,2,3\nnorth,3,4\n", 3, None),
        ("country,2001,2005\nFrance,1,2\nChad,3,4\n", 2, ("2001", "2005")),
        ("sample,400.5,401\nA,1,2\nB,3,4\n", 2, ("400.5", "401")),
        ("site,2024-01-01,2024-01-02\nA,1,2\nB,3,4\n", 2, ("2024-01-01", "2024-01-02")),
    ],
    ids=["times", "named", "commas", "recurs", "years", "wavelengths", "dates-as-names"],
)
def test_a_first_line_like_the_others_is_a_row(
    tmp_path: Path, text: str, n_rows: int, names: tuple[str, ...] | None
) -> None:
    """And names that are numbers or dates stay names."""
    path = tmp_path / "log.csv"
    path.write_text("# Logger\n" + text)
    source = open_source(path, comment="#", columns=[1, 2])
    assert source.names == names
    assert len(source.collect()) == n_rows


def test_what_cannot_be_skipped_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(body(3))
    for wrong in (True, -1, 1.5, "2"):
        with pytest.raises(ValueError, match=r"skip_rows.* must be a whole number"):
            open_source(path, skip_rows=wrong)
    for empty in ("", " ", 5):
        with pytest.raises(ValueError, match="comment must be the text"):
            open_source(path, comment=empty)
    with pytest.raises(UnreadableError, match="no line is left besides those of skip_rows=9"):
        open_source(path, skip_rows=9)
    np.save(tmp_path / "t.npy", np.ones((3, 2)))
    with pytest.raises(UnreadableError, match="skip_rows=1 is for CSV"):
        open_source(tmp_path / "t.npy", skip_rows=1)
