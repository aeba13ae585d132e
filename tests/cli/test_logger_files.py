"""CSV as loggers write it: what is proposed is right, and no row is lost or invented."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import as_csv, cells
from tests.cli.running import call

from eigengap.cli.narration import rounded_by, with_sd

FIT = ("-k", "1", "-q")
HEADER = "time,a,b,c,d"


def timed() -> list[str]:
    """Rows with the time in front."""
    return [f"2024-01-01 00:{i:02d}:00,{','.join(row)}" for i, row in enumerate(cells())]


def write(*lines: str) -> None:
    Path("log.csv").write_text("\n".join([*lines, ""]))


def proposed(said: str) -> list[str]:
    return shlex.split(said.rpartition(", pass ")[2].replace(" and ", " "))


@pytest.mark.parametrize(
    "above",
    [["# HOBO", "# roof, north"], ["HOBO", "Serial: 5, 1.2"], ["HOBO", "roof, north", "# x"]],
    ids=["comments", "plain", "both"],
)
def test_naming_a_column_does_not_hide_the_way_past_what_is_above(
    folder: Path, above: list[str]
) -> None:
    """It is told before the column is said not to be there, and leads to the bare table."""
    rows = timed()
    if any(line.startswith("#") for line in above):
        rows[20:20] = ["# pause"]
    write(*above, HEADER, *rows)
    ran = call("impute", "log.csv", "--ignore", "time", *FIT)
    assert ran.code == 4
    options = proposed(ran.err)
    write(HEADER, *timed())
    bare = call("impute", "log.csv", "--ignore", "time", *FIT)
    write(*above, HEADER, *rows)
    found = call("impute", "log.csv", "--ignore", "time", *FIT, *options)
    assert found.text.endswith(bare.text)


def test_neither_does_a_model(model: Path) -> None:
    Path("log.csv").write_bytes(b"Logger\nSite, roof\n" + as_csv(cells()))
    ran = call("impute", "log.csv", "--model", "m.egap", "-q")
    assert "pass --skip-rows 2\n" in ran.err


def test_lines_of_units_and_labels_are_no_missing_cells(folder: Path) -> None:
    """Read as missing they would come out as rows of means."""
    write('"TOA5","x"', HEADER, "TS,degC,%,hPa,m", ",Avg,Smp,Avg,Avg", *timed())
    ran = call("fit", "log.csv", "--skip-rows", "1", "--ignore", "time", *FIT)
    assert ran.code == 5
    assert "lines 3 and 4 hold text where others hold numbers" in ran.err
    assert "Take them out" in ran.err
    assert "--na" not in ran.err


def test_codes_that_fill_the_first_row_are_no_labels(folder: Path) -> None:
    """For they occur again."""
    rows = cells()
    rows[0] = ["?"] * 4
    rows[9][0] = rows[19][1] = rows[5][2] = rows[7][3] = "?"
    Path("t.csv").write_bytes(as_csv(rows))
    said = call("fit", "t.csv", *FIT).err
    assert 'at once: --na "?"' in said
    assert "Take" not in said


@pytest.mark.parametrize(
    ("above", "options", "way"),
    [
        (
            ["# HOBO", "#" + HEADER],
            ("--comment", "#"),
            'take "#" off that line or pass --skip-rows 1',
        ),
        (["#" + HEADER], ("--comment", "#"), 'take "#" off that line or leave out --comment'),
        (["HOBO", HEADER], ("--skip-rows", "2"), "pass --skip-rows 1"),
    ],
    ids=["comment", "first", "skipped"],
)
def test_names_that_are_passed_over_are_told_and_no_row_becomes_a_header(
    folder: Path, above: list[str], options: tuple[str, ...], way: str
) -> None:
    write(*above, *timed())
    ran = call("fit", "log.csv", "--ignore", "0", "-k", "1", *options, "-o", "m.egap")
    assert f"Read    {len(timed())} rows x 4 numeric" in ran.err
    assert (
        f"Line {len(above) + 1} looks like a row and not like names. Line {len(above)} " in ran.err
    )
    assert f": if these are names, {way}" in ran.err
    by_name = call("fit", "log.csv", "--ignore", "time", *options)
    assert by_name.code == 2
    assert way in by_name.err


def test_comments_behind_cells_are_told_to_stand_alone(folder: Path) -> None:
    rows = timed()
    rows[0] = rows[0] + "  # ok"
    write(HEADER, *rows)
    told = "comments stand on lines of their own"
    assert told in call("fit", "log.csv", "--comment", "#", "--ignore", "time", *FIT).err
    write(HEADER, rows[0] + ", so far", *rows[1:])
    assert told.capitalize() in call("fit", "log.csv", "--ignore", "time", *FIT).err


def test_values_are_told_as_far_as_their_deviations_go(model: Path) -> None:
    """1020, expected 1019 ± 0.41 would be 2.4 deviations and not 4.4."""
    for value, sd in ((1020.4968, 0.41), (-3.25, 1.9), (5e12, 2e9), (3e-7, 1e-9), (12.0, 400.0)):
        value_told, sd_told = with_sd(value, sd).replace("−", "-").split(" ± ")
        assert abs(float(value_told) - value) <= 0.05 * sd
        assert float(sd_told) == pytest.approx(sd, rel=0.05)
    assert (rounded_by(1019.0, 0.42), with_sd(3.0, 0.0)) == ("1019.00", "3 ± 0")
    rows = [[cell and f"{float(cell) + 1000:.3f}" for cell in row] for row in cells()]
    rows[17][2] = "1005"
    Path("t.csv").write_bytes(as_csv(rows))
    assert call("fit", "t.csv", "-k", "2", "-o", "t.egap", "-q").code == 0
    said = call("score", "t.egap", "t.csv").err
    observed, expected, sd, deviations = re.search(
        r"18 .* c = (\S+), expected (\S+) ± (\S+) \((\S+) sd above", said
    ).groups()
    assert observed == "1005"
    assert (1005 - float(expected)) / float(sd) == pytest.approx(float(deviations), rel=0.05)
