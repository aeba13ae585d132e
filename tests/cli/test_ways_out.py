"""What a command refuses, and the way out that it names: followed, each of them leads on."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import NAMES, as_csv, cells
from tests.cli.running import call

import eigengap as eg
from eigengap.persistence.model_file import load
from eigengap.printable import quoted
from eigengap.sources.files.csv.cells import likeness_of

FIT = ("fit", "t.csv", "-k", "1", "-o", "t.egap", "--force")


def table(rows: list[list[str]], names=NAMES, name: str = "t.csv") -> None:
    Path(name).write_bytes(as_csv(rows, names))


# Cells that look like numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "like", "instead"),
    [
        ("1_000", "underscores", "1000"),
        ("\u22121.5", "minus sign (U+2212)", "-1.5"),
        ("5%", "percentage", "0.05"),
        ("0x1F", "hexadecimal", "31"),
        ('"1,5"', "decimal comma", "1.5"),
        ("1 000", "spaces", "1000"),
        ("1\u00a0000", "spaces", "1000"),
        ("$5", "money", "5"),
        ("12kg", "unit (kg)", "12"),
    ],
    ids=[
        "underscore",
        "minus",
        "percent",
        "hex",
        "comma",
        "space",
        "nbsp",
        "money",
        "unit",
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_a_number_in_other_clothes_is_told_with_its_likeness(
    folder: Path, cell: str, like: str, instead: str, late: bool
) -> None:
    """Also where the cell stands beyond the rows that are looked at first. --na comes second, and
    the number that is proposed is one that can be read."""
    rows = cells(n=1100 if late else 40, share=0.0)
    rows[1060 if late else 4][1] = cell
    table(rows)
    ran = call(*FIT)
    assert ran.code == 5
    assert "looks like " in ran.err
    assert like in ran.err
    assert f"write {instead}" in ran.err or f"for instance {instead}" in ran.err
    second = " --ignore b" if not cell.isprintable() and not late else " --na "
    assert ran.err.index("looks like") < ran.err.index(second)
    rows[1060 if late else 4][1] = instead
    table(rows)
    assert call(*FIT).code == 0


def test_words_for_missing_cells_are_still_told_by_na_alone(folder: Path) -> None:
    """Text that looks like no number; and beside one that does, each has its own way out."""
    rows = cells(share=0.0)
    rows[4][1] = "?"
    table(rows)
    ran = call(*FIT)
    assert 'holds text in row 5 ("?"). Treat it as missing: --na "?"\n' in ran.err
    rows[9][1] = "1_000"
    table(rows)
    ran = call(*FIT)
    assert '"1_000" looks like a number with underscores: write 1000' in ran.err
    assert 'Treat "?" as missing: --na "?"\n' in ran.err
    assert "--na 1_000" not in ran.err


def test_a_column_of_percentages_is_not_only_to_be_left_out(folder: Path) -> None:
    """Where no cell is a number as we read it, leaving the column out is the second choice. Codes
    such as 12A, which are no numbers with units, are text."""
    table([[f"{i}%", f"{i}A", *row[2:]] for i, row in enumerate(cells(share=0.0))])
    ran = call(*FIT)
    (first,) = ran.err.splitlines()
    assert re.search(
        r"looks like a percentage: write .* Or leave the column out: --ignore a$", first
    )
    mended = call(*FIT, "--ignore", "a")
    assert "set aside: b (identifier)" in mended.err


CODES = ["Integra", "535i", "626", "Legend", "90", "Riviera", "LeSabre", "Century"]
TEXTS = {
    "names": lambda i: f"person {i}",
    "codes": lambda i: CODES[i % len(CODES)],
    "units": lambda i: f"{i} kg",
    "glued": lambda i: f"{i}kg" if i % 2 else f"{i}",
    "mixed": lambda i: ("tall", "5 ft", "12", "short")[i % 4],
    "percent": lambda i: f"{i}%",
    "missing": lambda i: "unknown" if i == 3 else f"{i * i}",
    "clothed": lambda i: {3: "1_000", 7: "?"}.get(i, f"{i * i}"),
}


def options_of(err: str) -> list[str]:
    """The options of the last line of a message, as a shell reads them."""
    return shlex.split(err.rstrip().splitlines()[-1].rpartition(": ")[2])


@pytest.mark.parametrize(
    "kinds",
    [
        # Whose 1_000 is to be written anew, and texts that are used or set aside.
        *([kind] for kind in TEXTS if kind not in ("clothed", "names", "codes", "mixed")),
        ["names", "percent"],
        ["codes", "units"],
        ["missing", "clothed"],
        ["glued", "mixed", "percent"],
        list(TEXTS),
        [*TEXTS, *TEXTS],
    ],
    ids="-".join,
)
def test_the_options_of_the_last_line_lead_on_when_run_as_printed(
    folder: Path, kinds: list[str]
) -> None:
    names = [f"{kind}.{k}" for k, kind in enumerate(kinds)]
    rows = [[*row, *(TEXTS[kind](i) for kind in kinds)] for i, row in enumerate(cells(share=0.0))]
    table(rows, [*NAMES, *names])
    ran = call(*FIT)
    assert ran.code == 5
    options = options_of(ran.err)
    assert options[0] in ("--ignore", "--na")
    mended = call(*FIT, *options)
    assert mended.code == 0, mended.err
    assert set(NAMES) <= set(load("t.egap").feature_names_in_)


def test_one_code_among_names_is_no_number_with_a_unit(folder: Path) -> None:
    """As the models of cars: most are words, a few are numbers, and one is 535i."""
    table([[*row, TEXTS["codes"](i)] for i, row in enumerate(cells(share=0.0))], [*NAMES, "Model"])
    ran = call(*FIT, "-m", "pca")
    assert ran.code == 0
    assert "set aside: Model (text)\n" in ran.err
    rows = [[*row, TEXTS["codes"](i + 1)] for i, row in enumerate(cells(share=0.0))]
    table(rows, [*NAMES, "Model"])
    with pytest.raises(ValueError, match="535i") as caught:
        eg.open_source("t.csv")
    assert "looks like" not in str(caught.value)


def test_units_in_all_cells_are_told(folder: Path) -> None:
    table([[*row, f"{i} kg"] for i, row in enumerate(cells(share=0.0))], [*NAMES, "mass"])
    ran = call(*FIT)
    assert '("0 kg"), which looks like a number with a unit (kg): write 0. Or leave' in ran.err
    with pytest.raises(ValueError, match=r"a number with a unit \(kg\): write 0"):
        eg.open_source("t.csv")


def test_numbers_of_which_no_two_are_alike_are_told_with_their_likeness(folder: Path) -> None:
    """Of more different texts than are compared with numbers those that were decide."""
    n = 300
    table([[f"${1000 + 1.25 * i:.2f}", f"{i / 7:.3f}%", str(i)] for i in range(n)], ["a", "b", "c"])
    told = call(*FIT).err
    assert '("$1000.00"), which looks like a sum of money: write 1000.00 without the sign' in told
    assert '("0.000%"), which looks like a percentage: write 0' in told


# Separators at the ends of lines -------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("separator", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_separators_at_the_end_of_every_line_are_no_columns(
    folder: Path, separator: str, count: int
) -> None:
    """The table is read as if they were not there, by all commands; impute keeps them."""
    rows = cells()
    plain = as_csv(rows, separator=separator)
    bare = [""] * count
    trailing = as_csv([[*row, *bare] for row in rows], [*NAMES, *bare], separator=separator)
    Path("plain.csv").write_bytes(plain)
    Path("t.csv").write_bytes(trailing)
    ran = call(*FIT)
    assert ran.code == 0, ran.err
    assert ran.err.count("lines end with ") == 1
    at = ", ".join(map(str, range(4, 4 + count)))
    assert re.search(rf"\({at}, the first being 0\) ha.* empty in the first 40 rows", ran.err)
    assert list(load("t.egap").feature_names_in_) == list(NAMES)
    assert call("score", "t.egap", "t.csv").code == 0
    filled = call("impute", "t.csv", "-k", "1", "-q").text
    expected = call("impute", "plain.csv", "-k", "1", "-q").text
    assert filled == "".join(line + separator * count + "\n" for line in expected.splitlines())


def test_a_nameless_last_column_that_holds_something_is_not_left_out(folder: Path) -> None:
    table([[*row, "" if i else "7"] for i, row in enumerate(cells())], [*NAMES, ""])
    ran = call(*FIT)
    assert ran.code == 4
    assert "column 4 (the first is 0) has no name" in ran.err
    assert "row numbers" not in ran.err
    assert call(*FIT, "--ignore", "4").code == 0
    with pytest.raises(ValueError, match=r"column 4 has no name in line 1\. Leave it out"):
        eg.open_source("t.csv")


def test_the_library_tells_empty_columns_from_row_numbers(folder: Path) -> None:
    table([[*row, "", ""] for row in cells()], [*NAMES, "", ""])
    with pytest.raises(ValueError, match=r"lines end with 2 separators.*\[0, 1, 2, 3\]"):
        eg.open_source("t.csv")
    table([[str(i), *row] for i, row in enumerate(cells())], ["", *NAMES])
    with pytest.raises(ValueError, match=r"column 0 .* may be the row numbers"):
        eg.open_source("t.csv")


def test_lines_that_end_with_a_separator_under_a_header_that_does_not(folder: Path) -> None:
    """Refused, with the way out; which is taken."""
    table([[*row, ""] for row in cells()])
    ran = call(*FIT)
    assert ran.code == 4
    assert 'It ends with ",". If all lines do so, add one at the end of line 1' in ran.err
    text = Path("t.csv").read_text().replace("\n", ",\n", 1)
    Path("t.csv").write_text(text)
    assert call(*FIT).code == 0
    table([[*row, "", ""] for row in cells()])
    assert 'It ends with 2 times ",". If all lines do so, add as many' in call(*FIT).err
    table(cells(), [*NAMES, "", ""])
    assert "Behind its last name line 1 has separators that name nothing" in call(*FIT).err


# Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", ["0", "-1", "1.5", "abc", "0.0", "1.0", "nan"])
def test_k_is_refused_in_the_words_of_the_command_line(folder: Path, k: str) -> None:
    """What was given, what is allowed, no word of Python, and no look at the file."""
    ran = call("fit", "not-there.csv", "-k", k)
    if ran.code == 4:  # a file that is not there may be told first
        ran = call("fit", "table.csv", "-k", k)
    assert ran.code == 2
    assert f"-k {k}: " in ran.err
    assert "whole number" in ran.err
    assert "between 0 and 1 (0.95)" in ran.err
    assert "auto" in ran.err
    assert not re.search(r"n_components|int |float|instance|range|None|str\b", ran.err)
    assert call("compare", "table.csv", "-m", f"ppca:{k}", "-m", "fa").code == 2


def test_k_of_a_model_that_takes_less(folder: Path) -> None:
    """No share of the variance is offered where there is none; a mixture may have 0."""
    ran = call("fit", "table.csv", "-m", "isomap", "-k", "0.95")
    assert ran.code == 2
    assert (
        "-k 0.95: the number of components of Isomap is a whole number from 1 on (3)\n" in ran.err
    )
    ran = call("fit", "table.csv", "-m", "mixture", "-k", "-1")
    assert "a whole number from 0 on (3) or auto" in ran.err
    assert call("fit", "table.csv", "-m", "mixture", "-k", "0").code == 0


def test_more_steps_are_ten_times_those_that_were_used(folder: Path) -> None:
    """Not the number again that was too small."""
    ran = call("fit", "table.csv", "-m", "fa", "-k", "1", "--set", "max_iter=2")
    assert "allow more: --set max_iter=20, or a larger --set tol=..." in ran.err
    assert "max_iter=2 " not in ran.err


# Columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "impute", "rank", "compare"])
def test_empty_columns_are_set_aside_and_named(folder: Path, command: str) -> None:
    names = ["a", "my, col", "c", "d", "n" * 70]
    rows = [[row[0], "", *row[2:], ""] for row in cells()]
    table(rows, ["a", '"my, col"', "c", "d", names[-1]])
    ran = (
        call(command, "t.csv", "--json", "-o", "out.csv")
        if command == "impute"
        else call(command, "t.csv", "--json")
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["set_aside"] == {names[1]: "no value", names[4]: "no value"}
    assert 'set aside: "my, col", ' in ran.err


@pytest.mark.parametrize("scale", ["--scale", "--no-scale"])
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "gaps"])
def test_numbers_too_large_to_be_squared_are_told_with_their_column(
    folder: Path, scale: str, missing: float
) -> None:
    rows = [[row[0], *row[1:3], row[3] and f"{row[3]}e200"] for row in cells(share=missing)]
    table(rows)
    for model in ("ppca", "pca", "fa"):
        ran = call(*FIT, scale, "-m", model)
        assert ran.code == 5
        assert re.search(r'column "d" holds values up to \d\.\d+e\+200 in size', ran.err)
        assert "beforehand divide it by 1e200\n" in ran.err


# Likelihoods without bound -------------------------------------------------------------------


def test_as_many_rows_as_leave_no_noise_are_told(folder: Path) -> None:
    """Two rows and one component: the density grows without bound as the noise goes to zero."""
    table(cells(n=2, share=0.0))
    ran = call(*FIT, "--json")
    assert ran.code == 0, ran.err
    assert " inf" not in ran.err
    assert "Note    the likelihood has no bound" in ran.err
    assert "mean nothing. Add rows\n" in ran.err
    assert json.loads(ran.out)["log_likelihood_per_row"] is None
    assert "the likelihood has no bound" in str(load("t.egap").summary())
    ran = call("score", "t.egap", "t.csv")
    assert ran.code == 5
    assert "the model has no density" in ran.err
    assert "--set noise_variance=" in ran.err
    ran = call(*FIT, "-m", "pca")
    assert "Note    no noise is left besides the components" in ran.err
    assert "are meaningless: add rows\n" in ran.err
    table([[a, a] for a, *_ in cells(share=0.0)], ["a", "b"])
    for model in ("ppca", "pca"):
        assert "columns that follow from others\n" in call(*FIT, "-m", model).err
    assert "no bound" not in call(*FIT, "--ignore", "b").err
    table(cells(n=4, share=0.0))
    assert "no bound" not in call(*FIT).err


def test_a_fit_with_its_noise_at_the_floor_is_told_again_when_it_scores(folder: Path) -> None:
    table(cells(n=2, share=0.0))
    assert "Heywood case" in call(*FIT, "-m", "fa").err
    assert "Note    Heywood case" in call("score", "t.egap", "t.csv").err


def test_the_library_warns_where_a_likelihood_has_no_bound() -> None:
    """A density that is asked for; PCA, which is mostly fitted for its axes, says nothing."""
    X = [[1.0, 2.0, 3.0], [2.0, 1.0, 4.0]]
    with pytest.warns(eg.exceptions.NoiseFloorWarning, match=r"no bound.*\. Add rows$"):
        eg.PPCA(1).fit(X)
    with pytest.warns(eg.exceptions.NoiseFloorWarning, match=r"Take fewer components or add rows$"):
        eg.PPCA(2).fit([*X, [0.0, 1.0, 1.0]])
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error", eg.exceptions.NoiseFloorWarning)
        eg.PCA(1).fit(X)


@pytest.mark.parametrize(
    ("cell", "meant"), [("5k", "5000"), ("1.5M", "1500000"), ("-2bn", "-2000000000")]
)
def test_multiples_are_not_said_to_be_units(cell: str, meant: str) -> None:
    """To write 5 for 5k would be wrong by a thousand."""
    look = likeness_of(cell)
    assert look is not None
    assert "multiple" in look.like
    assert meant in look.way


@pytest.mark.parametrize("code", ["?", "n/a", "$x", "`id`", 'a"b', "back\\slash"])
def test_a_proposed_code_reaches_the_program_as_it_is(code):
    """The shell splits the proposed option into the very code, and expands nothing of it."""
    from eigengap.cli.wording import Options

    option = Options().missing_values([quoted(code)])
    shell = subprocess.run(
        ["sh", "-c", f'printf "%s\\n" {option}'], capture_output=True, text=True, check=True
    )
    assert shell.stdout.splitlines() == ["--na", code]


# Columns that are meant for something else ----------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_regressor_of_text_names_the_classifier(folder: Path, ending: str) -> None:
    rows = [[*row, "yes" if i % 3 else "no"] for i, row in enumerate(cells())]
    table(rows, [*NAMES, "g"])
    name = "t.csv"
    if ending == "parquet":
        name = "t.parquet"
        pd.read_csv("t.csv").to_parquet(name)
    of = (name, "--target", "g", "-k", "1", "-o", "r.egap")
    ran = call("fit", *of, "-m", "regressor")
    assert ran.code == 5
    assert '"g" (text' in ran.err
    assert "A regressor predicts numbers; to predict classes take -m classifier" in ran.err
    assert "no numeric column" not in ran.err
    assert call("fit", *of, "-m", "classifier").code == 0


def test_a_code_among_the_numbers_of_a_target_is_no_class(folder: Path) -> None:
    rows = [[*row, str(i % 7) if i % 5 else "?"] for i, row in enumerate(cells())]
    table(rows, [*NAMES, "g"])
    of = ("fit", "t.csv", "--target", "g", "-k", "1", "-m", "regressor", "-o", "r.egap")
    ran = call(*of)
    assert '--na "?"' in ran.err
    assert "classifier" not in ran.err
    assert call(*of, "--na", "?").code == 0


@pytest.mark.parametrize("given", ["", " , "])
def test_a_choice_of_no_column_is_told_as_such(folder: Path, given: str) -> None:
    table(cells())
    ran = call(*FIT, "--columns", given)
    assert ran.code == 2
    assert "--columns names no column of t.csv, which has a, b, c and d" in ran.err
    assert "--ignore" not in ran.err
