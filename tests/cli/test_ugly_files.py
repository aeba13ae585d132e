"""Ugly tables on the command line: what is noted of them, what is refused, and by what name."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import NAMES, as_csv, cells
from tests.cli.running import call

import eigengap as eg

FIT = ("fit", "t.csv", "-k", "1", "-o", "t.egap", "--force")


def table(rows: list[list[str]], names=NAMES, name: str = "t.csv") -> None:
    Path(name).write_bytes(as_csv(rows, names))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a  b\n1.5  2\n2.5  3\n", "looks like 2 numbers parted by spaces: put a comma"),
        ("a,b\nx,y\nz,y\n", 't.csv: no column can be used: "a" (identifier), "b" (constant)'),
        ("a\nx\nz\n", 't.csv: no column can be used: "a" (identifier)'),
        ("d;x\n1 kg;1,5\n2 kg;1,6\n", 'row 1, 2 ("1 kg"), which looks like a number with a unit'),
        ("i,a,b\n,m,kg\n1,2,3\n2,3,4\n", 'line 2 holds text where others hold numbers ("m", "kg")'),
    ],
    ids=["spaces", "text", "one", "dates", "units"],
)
def test_tables_that_are_none_yet_are_told_what_is_wrong(
    folder: Path, text: str, said: str
) -> None:
    """And not to leave out all that there is, nor to call units missing."""
    Path("t.csv").write_text(text)
    ran = call(*FIT)
    assert ran.code == 5
    assert said.replace("row 1", "rows 1") in ran.err
    assert ("--ignore" in ran.err) == ("a unit" in said)
    assert "--na" not in ran.err


def test_a_name_that_occurs_twice_does_not_shut_the_way_to_the_next_command(folder: Path) -> None:
    """The fit left one of them out by position; its model says how to find the other."""
    table([[*row, row[0]] for row in cells()], [*NAMES, "b"])
    ran = call(*FIT, "--ignore", "4")
    then = shlex.split(ran.err.rstrip().rpartition("Next    eigengap ")[2])
    assert then[-2:] == ["--columns", "0,1,2,3"]
    refused = call("score", "t.egap", "t.csv")
    assert refused.code == 4
    options = shlex.split(refused.err.rstrip().rpartition(": ")[2])
    assert options == then[-2:]
    assert call("score", "t.egap", "t.csv", *options).code == 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("command", ["fit", "impute"])
def test_truth_values_and_constant_columns_are_told_by_name(
    folder: Path, command: str, form: str
) -> None:
    """Each in one Note; and not where there are none."""
    words = (("TRUE", "7"), ("FALSE", "7"))
    table([[*row, *words[i % 2]] for i, row in enumerate(cells())], [*NAMES, "alive", "batch"])
    if form == "parquet":
        from pyarrow import csv, parquet

        parquet.write_table(csv.read_csv("t.csv"), "t.parquet")
    out = f"out.{'egap' if command == 'fit' else form}"
    ran = call(command, f"t.{form}", "-k", "1", "-o", out, "--numeric")
    assert ran.code == 0, ran.err
    notes = [line[8:] for line in ran.err.splitlines() if line.startswith("Note")]
    notes = [note for note in notes if not note.startswith("imputed values lie outside")]
    assert notes == [
        "true and false in alive are read as 1 and 0",
        "batch is constant and cannot distinguish rows; leave it out: --ignore batch",
    ]
    assert "Note" not in call("fit", f"t.{form}", "--ignore", "alive,batch", "-o", "m.egap").err


# Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "tabel.csv", "-o", "m.egap"),
        ("impute", "tabel.csv", "-o", "table.csv"),
        ("impute", "table.csv", "--model", "no.egap", "-o", "m.egap"),
        ("transform", "m.egap", "tabel.csv", "-o", "table.csv"),
        ("transform", "no.egap", "table.csv", "-o", "table.csv"),
        ("score", "m.egap", "tabel.csv", "-o", "table.csv"),
        ("report", "m.egap", "tabel.csv", "-o", "table.csv"),
    ],
    ids=["fit", "impute", "model", "transform", "no-model", "score", "report"],
)
def test_an_input_that_is_not_there_is_told_before_an_output_that_is(
    model: Path, arguments: tuple[str, ...]
) -> None:
    ran = call(*arguments)
    assert ran.code == 4
    missing = "no.egap" if "no.egap" in arguments else "tabel.csv"
    assert ran.err.startswith(f"Error: {missing} does not exist")


def test_plain_names_of_files_are_bare_and_others_in_quotes(folder: Path) -> None:
    """Whoever says it: the command, or the library below."""
    Path("bad.csv").write_text("a,b\n1,2\n3\n")
    Path("my bad.csv").write_text("a,b\n1,2\n3\n")
    Path("other.csv").write_text("x,y\n1,2\n")
    Path("words.npy").write_text("no")
    for arguments, said in {
        ("fit", "bad.csv"): "Error: bad.csv: line 3 has 1 cell",
        ("fit", "my bad.csv"): 'Error: "my bad.csv": line 3 has 1 cell',
        ("fit", "tabel.csv"): "Error: tabel.csv does not exist; did you mean table.csv?",
        ("fit", "[ot]*e*.csv"): "Error: table.csv has other columns than other.csv",
        ("fit", "*.parquet"): 'Error: no file matches "*.parquet"',
        ("rank", "words.npy"): "Error: words.npy: it is named like a .npy file",
        ("inspect", "bad.csv"): "Error: bad.csv is damaged",
    }.items():
        assert call(*arguments).err.startswith(said), arguments


@pytest.mark.parametrize("kind", ["numbers", "texts", "novelty"])
def test_codes_of_an_estimator_hold_on_the_command_line(folder: Path, kind: str) -> None:
    """A model of Python's that knows -999 knows it here too, and says so; --na overrides it."""
    rows = [[cell or "-999" for cell in row] for row in cells()]
    if kind == "texts":
        rows[4][1] = "?"
    table(rows)
    codes = ["?", -999.0] if kind == "texts" else -999.0
    one = (
        eg.NoveltyDetector(missing_values=codes)
        if kind == "novelty"
        else eg.PPCA(1, missing_values=codes)
    )
    eg.save(one.fit("t.csv"), "t.egap")
    said = "? and -999 stand" if kind == "texts" else "-999 stands"
    ran = call("score", "t.egap", "t.csv", "-o", "scores.csv")
    assert ran.code == 0, ran.err
    assert f"Note    {said} for a missing cell, as in the fit; --na overrides it" in ran.err
    table([["" if cell in ("?", "-999") else cell for cell in row] for row in rows], name="g.csv")
    assert call("score", "t.egap", "g.csv").err == ran.err.replace(
        next(line for line in ran.err.splitlines(True) if line.startswith("Wrote")), ""
    )
    assert "as in the fit" not in call("score", "t.egap", "g.csv", "--na", "x").err
