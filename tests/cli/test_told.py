"""What a command says, and what it refuses: messages to be copied, figures that mean something."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import NAMES, as_csv, cells
from tests.cli.running import call

import eigengap as eg
from eigengap.persistence.model_file import load, save
from eigengap.plots.numbers.columns import MOST_BESIDE


def facts(*arguments: str) -> dict:
    ran = call(*arguments, "--json", "-q")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


# Text among numbers --------------------------------------------------------------------------


def test_the_options_of_a_message_can_be_copied_and_mend_the_table(folder: Path) -> None:
    """Names keep their capitals, codes among numbers are offered for --na, each once; a column of
    text alone is set aside, and one that is half text left out."""
    names = ["Sample", "pH, field", "O2 mg/L", "Temp", 'the "Site"']
    rows = [[f"S{i}", *row[1:], f"S{i}" if i % 2 else f"{i}"] for i, row in enumerate(cells())]
    rows[4][1], rows[9][1], rows[7][2], rows[8][3] = "?", "n.d.", "n.d.", "?"
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    Path("t.csv").write_bytes(as_csv(rows, quoted))
    ran = call("fit", "t.csv", "-k", "1")
    assert ran.code == 5
    assert '"pH, field" holds text in rows 5, 10 ("?" and "n.d.")' in ran.err
    assert '--na "?" --na n.d.\n' in ran.err
    last = ran.err.rstrip().splitlines()[-1]
    assert last.strip().startswith("All of it at once: --ignore ")
    options = shlex.split(last.partition("once: ")[2])
    mended = call("fit", "t.csv", "-k", "1", *options)
    assert mended.code == 0, mended.err
    assert list(load("model.egap").feature_names_in_) == names[1:4]


def test_columns_of_many_texts_among_numbers_keep_their_names_in_the_proposal(folder) -> None:
    """A column that is half text is to be mended or left out, under its very name; and where all
    columns would be left out, nobody is told to do that."""
    rows = [[f"x{i}" if i % 2 else cell for cell in row] for i, row in enumerate(cells())]
    Path("t.csv").write_bytes(as_csv(rows, ["A b", "B", "C", "D"]))
    ran = call("fit", "t.csv")
    assert "Mend them, or leave it out: --ignore 'A b'\n" in ran.err
    assert "at once" not in ran.err
    assert "--na" not in ran.err


def test_text_in_a_column_of_a_fitted_model_cannot_be_left_out(model: Path) -> None:
    """score has no --ignore, and does not tell anybody to use it."""
    Path("t.csv").write_bytes(as_csv([["x", *row[1:]] for row in cells()]))
    ran = call("score", "m.egap", "t.csv")
    assert ran.code == 5
    assert '("x"), and the model was fitted to numbers there' in ran.err
    assert "--ignore" not in ran.err


# Predictions ---------------------------------------------------------------------------------


def test_codes_for_missing_hold_in_the_target_too(folder: Path) -> None:
    """-999 in the column that is predicted is no value to be compared with, neither as a number
    nor as a class."""
    rows = [["-999" if i % 5 == 4 else row[3] or "1", *row[:3]] for i, row in enumerate(cells())]
    Path("t.csv").write_bytes(as_csv(rows, ["y", "a", "b", "c"]))
    fit = ("fit", "t.csv", "--na", "-999", "--target", "y", "-m", "regressor")
    assert call(*fit).code == 0
    found = facts("score", "model.egap", "t.csv")
    assert (found["rows"], found["rows_with_target"]) == (40, 32)
    X = np.array([[float(cell or "nan") for cell in row] for row in rows])
    known = X[:, 0] != -999
    predicted = load("model.egap").predict(eg.open_source("t.csv", columns=["a", "b", "c"]))[known]
    y = X[known, 0]
    expected = 1 - np.mean((y - predicted) ** 2) / np.var(y)
    assert found["r2"] == pytest.approx(expected)
    assert "40 rows, 32 with a target" in call("score", "model.egap", "t.csv").err


def test_classes_that_are_missing_are_not_counted_as_wrong(folder: Path, predictors) -> None:
    """A label that --na names is no class, and nothing is predicted rightly or wrongly there."""
    (folder / "c.egap").write_bytes(predictors["classifier"])
    rows, kinds = cells(), predictors["kinds"]
    Path("t.csv").write_bytes(
        as_csv([[*row, kind] for row, kind in zip(rows, kinds, strict=True)], [*NAMES, "kind"])
    )
    all_known = facts("score", "c.egap", "t.csv")
    marked = [[*row, "?" if i < 10 else kinds[i]] for i, row in enumerate(rows)]
    Path("u.csv").write_bytes(as_csv(marked, [*NAMES, "kind"]))
    some = facts("score", "c.egap", "u.csv", "--na", "?")
    assert (all_known["rows_with_target"], some["rows_with_target"]) == (40, 30)
    predicted = [line.split(",")[0] for line in call("transform", "c.egap", "t.csv").text.split()]
    right = [a == b for a, b in zip(predicted[1:], kinds, strict=True)]
    assert all_known["accuracy"] == pytest.approx(np.mean(right))
    assert some["accuracy"] == pytest.approx(np.mean(right[10:]))


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_a_report_of_what_places_no_rows_is_wrong_usage(folder, predictors, kind: str) -> None:
    """One sentence with a way out, exit code 2, and no file."""
    (folder / "p.egap").write_bytes(predictors[kind])
    ran = call("report", "p.egap", "table.csv")
    assert ran.code == 2
    assert "nothing to draw" in ran.err
    assert "-m ppca" in ran.err
    assert not Path("report.html").exists()


# Columns without names -----------------------------------------------------------------------


@pytest.fixture
def nameless(folder: Path) -> np.ndarray:
    """bare.egap, fitted to 4 columns without names, beside tables of 6 in which they are 1 to 4."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1)) @ rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(40, 4))
    save(eg.PPCA(1).fit(X), "bare.egap")
    wide = np.hstack([rng.normal(size=(40, 1)), X, rng.normal(size=(40, 1))])
    np.save("x.npy", X)
    np.save("wide.npy", wide)
    Path("wide.csv").write_bytes(as_csv([list(map(repr, row)) for row in wide.tolist()], "pqrstu"))
    return X


def test_a_table_of_more_columns_than_a_nameless_model_is_refused(nameless) -> None:
    """By position the first of 6 columns would be taken for the first of 4."""
    for arguments in (
        ("score", "bare.egap", "wide.csv"),
        ("transform", "bare.egap", "wide.npy"),
        ("impute", "wide.csv", "--model", "bare.egap"),
        ("report", "bare.egap", "wide.csv"),
    ):
        ran = call(*arguments)
        assert ran.code == 4, ran.err
        assert ran.out == b""
        assert re.search(r"wide\.\w+ has 6 columns, .* a table of 4;.* --columns ", ran.err)
    assert not Path("report.html").exists()


def test_columns_says_which_are_the_model_s(nameless) -> None:
    """--columns, by name or position, is the way out; a wrong number of them is refused."""
    expected = call("transform", "bare.egap", "x.npy").out
    for data, columns in (("wide.csv", "q,r,s,t"), ("wide.npy", "1,2,3,4")):
        assert call("transform", "bare.egap", data, "--columns", columns).out == expected
    ran = call("score", "bare.egap", "wide.csv", "--columns", "q,r")
    assert ran.code == 2
    assert "--columns names 2 columns, and the model was fitted to 4" in ran.err
    report = ("report", "bare.egap", "wide.csv", "--columns", "q,r,s,t", "--color", "p")
    assert call(*report, "-o", "r.html").code == 0
    named = call("score", "bare.egap", "wide.npy", "--columns", "4,3,2,1")
    assert named.code == 0, named.err


def test_a_named_model_takes_no_nameless_table_of_another_width(model: Path) -> None:
    """The other way round: the table has no names."""
    np.save("wide.npy", np.ones((5, 6)))
    ran = call("transform", "m.egap", "wide.npy")
    assert ran.code == 4
    assert "has 6 columns, and the model was fitted to a table of 4; this file has no" in ran.err


def test_a_nameless_fit_to_some_of_the_columns_knows_how_many_there_were(folder: Path) -> None:
    """Without the last column of the fit the others could be anything; the target may be away."""
    X = np.random.default_rng(0).normal(size=(30, 4))
    np.save("x.npy", X)
    np.save("less.npy", X[:, :3])
    assert call("fit", "x.npy", "--ignore", "3", "-k", "1", "-o", "m.egap").code == 0
    assert call("transform", "m.egap", "x.npy").code == 0
    assert call("transform", "m.egap", "less.npy").code == 4
    fit = ("fit", "x.npy", "--target", "3", "-m", "regressor", "-k", "1", "-o", "r.egap")
    assert call(*fit).code == 0
    assert call("transform", "r.egap", "less.npy").out == call("transform", "r.egap", "x.npy").out


# Figures -------------------------------------------------------------------------------------


def test_each_column_with_a_mark_among_its_levels_has_a_note(folder: Path) -> None:
    rows = [
        [*row, "?" if i % 9 == 0 else "xyz"[i % 3], "uv-"[i % 3]] for i, row in enumerate(cells())
    ]
    Path("t.csv").write_bytes(as_csv(rows, [*NAMES, "g", "h"]))
    ran = call("fit", "t.csv", "-m", "fa", "-k", "1", "-o", "t.egap", "--json")
    notes = [note for note in json.loads(ran.out)["notes"] if "holds a mark" in note]
    assert ['column "g"' in note and '--na "?"' in note for note in notes] == [True, False]
    assert ['column "h"' in note and '--na "-"' in note for note in notes] == [False, True]


def test_odd_rows_are_listed_with_as_many_ids_as_the_report_lists(model: Path) -> None:
    rows = cells()
    rows[17][2] = "25"
    ids = [f"id{k}" for k in range(12)]
    named = [[*(f"{name}_{i}" for name in ids), *row] for i, row in enumerate(rows)]
    Path("odd.csv").write_bytes(as_csv(named, [*ids, *NAMES]))
    of = ("score", "m.egap", "odd.csv", "--id", ",".join(ids))
    told = call(*of, "-o", "scores.csv").err
    (header,) = [line for line in told.splitlines() if "data row" in line]
    assert header.split()[2:] == [*ids[:MOST_BESIDE], "p", "least", "expected", "value"]
    assert f"id{MOST_BESIDE}_17" not in told
    # Files and programs have all of them.
    assert Path("scores.csv").read_text().startswith(",".join(ids))
    assert list(json.loads(call(*of, "--json").out)["oddest"][0]["id"]) == ids


def test_odd_rows_come_with_their_ids_and_the_cell_in_fields(model: Path) -> None:
    """A program need not take a sentence apart, and people find the row under its own name."""
    rows = cells()
    rows[17][2] = "25"
    named = [[f"R{i}", *row] for i, row in enumerate(rows)]
    Path("odd.csv").write_bytes(as_csv(named, ["name", *NAMES]))
    ran = call("score", "m.egap", "odd.csv", "--id", "name", "--json")
    found = json.loads(ran.out)["oddest"][0]
    assert (found["row"], found["id"]) == (18, {"name": "R17"})
    cell = found["cell"]
    assert (cell["column"], cell["value"]) == ("c", 25.0)
    # The conditional law of cell 2 given the seen rest of the row.
    row, fitted = np.array([float(x or "nan") for x in rows[17]]), load("m.egap")
    rest = [j for j in (0, 1, 3) if np.isfinite(row[j])]
    C, mu = fitted.get_covariance(), fitted.mean_
    slope = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, 2])
    assert cell["expected"] == pytest.approx(mu[2] + slope @ (row[rest] - mu[rest]))
    assert cell["sd"] == pytest.approx(np.sqrt(C[2, 2] - slope @ C[rest, 2]))
    assert re.search(r"^ +data row  name  p ", ran.err, re.M)
    assert re.search(r"^ +18  R17 .* c = 25, expected", ran.err, re.M)


def test_a_likelihood_alone_is_told_with_the_reason(folder: Path) -> None:
    """Student noise: no p-values, and the way to have them is said and works."""
    student = ("--set", "distribution=student", "--set", "max_iter=5")
    assert call("fit", "table.csv", "-m", "fa", "-k", "1", *student, "-o", "s.egap").code == 0
    ran = call("score", "s.egap", "table.csv", "-o", "s.csv")
    assert "with Student noise rows have a likelihood alone" in ran.err
    assert Path("s.csv").read_text().startswith("log_likelihood\n")
    way = shlex.split(re.search(r"fit with (-m .*)$", ran.err, re.M)[1])
    assert call("fit", "table.csv", "-k", "1", *way, "-o", "n.egap").code == 0
    assert "outliers" in facts("score", "n.egap", "table.csv")


def test_filled_values_of_several_columns_have_no_common_range(model: Path) -> None:
    """The ends of values in many units mean nothing; of one column they do. 512 is no 5.1e+02."""
    large = [[cell and str(1000 * float(cell)) for cell in row] for row in cells()]
    Path("large.csv").write_bytes(as_csv(large))
    many = call("impute", "large.csv", "-k", "1", "--std", "-o", "f.csv")
    (said,) = (line for line in many.err.splitlines() if line.startswith("Imputed"))
    assert "values" not in said
    assert re.search(r"\d ± \d+0$", many.err, re.M)
    assert "e+0" not in many.err
    one = [[row[0], *(cell or "0.5" for cell in row[1:])] for row in cells()]
    Path("one.csv").write_bytes(as_csv(one))
    told = call("impute", "one.csv", "--model", "m.egap", "--std", "-o", "g.csv").err
    assert re.search(r"cells in a: values .* to .*, typically ± ", told)
    one[1:] = [[cell or "0.5" for cell in row] for row in one[1:]]
    one[5][0] = ""
    Path("single.csv").write_bytes(as_csv(one))
    told = call("impute", "single.csv", "--model", "m.egap", "-o", "h.csv").err
    assert re.search(r"1 cell in a: value \S+$", told, re.M)


def test_a_novelty_model_is_scaled_unless_told(folder: Path) -> None:
    """--scale is the default wherever a model can, the one inside a detector included."""
    fit = ("fit", "table.csv", "-m", "novelty", "-k", "1", "--force", "-o", "n.egap")
    for options, scale in (((), True), (("--no-scale",), False)):
        assert call(*fit, *options).code == 0
        within = load("n.egap").estimator_
        assert type(within).__name__ == "FactorAnalysis"
        assert within.scale is scale


def test_compare_says_how_many_components_each_model_has(folder: Path) -> None:
    """As given, or as a fit to all rows chooses; in the table and in JSON."""
    compare = ("compare", "table.csv", "-m", "ppca", "-m", "ppca:1", "--folds", "2")
    k = [one["n_components"] for one in facts(*compare)["models"]]
    assert k == [eg.PPCA(scale=True).fit(eg.open_source("table.csv")).n_components_, 1]
    header, _, *lines = call(*compare, "-q").text.splitlines()
    assert header.split()[:2] == ["model", "k"]
    assert [line.split()[:2] for line in lines] == [["ppca", str(k[0])], ["ppca:1", "1"]]


def test_a_colour_that_cannot_be_used_is_refused(model: Path) -> None:
    """Never silently another colour: dates are a line of days, names of rows are no colours."""
    rows = [
        [f"R{i}", f"2024-{1 + i // 20:02d}-{1 + i % 20:02d}", *row] for i, row in enumerate(cells())
    ]
    Path("t.csv").write_bytes(as_csv(rows, ["name", "day", *NAMES]))
    ran = call("report", "m.egap", "t.csv", "--color", "name", "-o", "r.html")
    assert ran.code == 2
    assert '--color "name"' in ran.err
    assert not Path("r.html").exists()
    assert call("report", "m.egap", "t.csv", "--color", "day", "-o", "r.html").code == 0


def test_data_are_not_replaced_by_their_model(folder: Path) -> None:
    """Also with --force, and under another name for the same file."""
    Path("t.csv").write_bytes(as_csv(cells()))
    before = Path("t.csv").read_bytes()
    ran = call("fit", "t.csv", "-o", str(Path("t.csv").resolve()), "--force", "-k", "1")
    assert ran.code == 2
    assert "would replace the data" in ran.err
    assert Path("t.csv").read_bytes() == before


def test_columns_taken_in_order_for_want_of_names_are_told(model: Path) -> None:
    """A table without names fits any model of as many columns."""
    Path("n.csv").write_bytes(as_csv(cells()).split(b"\n", 1)[1])
    ran = call("transform", str(model), "n.csv", "-o", "z.csv")
    assert ran.code == 0, ran.err
    assert "columns are taken in the order of the fit" in ran.err


def test_a_closed_standard_output_is_told_before_the_work(folder: Path, monkeypatch) -> None:
    """As `eigengap impute t.csv >&-` leaves it."""
    from eigengap.cli.errors import FileTrouble
    from eigengap.cli.files import check_output

    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(FileTrouble, match="standard output is closed"):
        check_output("-", force=False)
