"""Tables as spreadsheets have them: text is levels, or is set aside and said so; none is lost."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.running import Ran, call

import eigengap

N = 90


def latent(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=N)


Z = latent()
X = Z + 0.5 * latent(1)
Y = -Z + 0.5 * latent(2)
GROUPS = np.array(["low", "mid", "high"])[np.digitize(Z + 0.4 * latent(3), [-0.5, 0.5])]
GONE = np.arange(N) % 7 == 3  # rows in which the column in question is missing


def write(columns: dict[str, list[str]], separator: str = ",", mark: bytes = b"") -> bytes:
    """t.csv: x, y, and the columns given, whose cells are text."""
    numbers = {"x": [f"{v:.2f}" for v in X], "y": [f"{v:.2f}" for v in Y]}
    if separator == ";":
        numbers = {k: [v.replace(".", ",") for v in cells] for k, cells in numbers.items()}
    table = {**numbers, **columns}
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    content = mark + text.getvalue().encode()
    Path("t.csv").write_bytes(content)
    return content


def with_gaps(cells) -> list[str]:
    return ["" if gone else str(cell) for cell, gone in zip(cells, GONE, strict=True)]


def impute(*options: str) -> tuple[Ran, list[list[str]], dict]:
    """The run, the rows that it wrote, and its facts."""
    ran = call("impute", "t.csv", "-k", "1", "-o", "out.csv", "--force", "--json", *options)
    assert ran.code == 0, ran.err
    text = Path("out.csv").read_bytes().decode("utf-8-sig")
    separator = ";" if text.split("\n")[0].count(";") else ","
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    return ran, rows, json.loads(ran.out)


def column(rows: list[list[str]], name: str) -> list[str]:
    return [row[rows[0].index(name)] for row in rows[1:]]


def require_observed(before: bytes, after: list[list[str]], separator: str = ",") -> None:
    """Every observed cell has its very text, in its place."""
    text = before.decode("utf-8-sig")
    was = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    assert was[0] == after[0]
    for old, new in zip(was, after, strict=True):
        assert all(a in ("", b) for a, b in zip(old, new, strict=True))


@pytest.mark.parametrize(
    ("separator", "mark"),
    [(",", b""), (";", b"\xef\xbb\xbf"), ("\t", b"")],
    ids=["plain", "bom", "tab"],
)
def test_levels_are_imputed_and_every_observed_cell_stays(folder, separator, mark) -> None:
    """A byte-order mark and decimal commas too."""
    before = write({"stage": with_gaps(GROUPS)}, separator, mark)
    ran, _, facts = impute()
    written = Path("out.csv").read_bytes()
    assert written.startswith(mark)
    rows = list(
        csv.reader(io.StringIO(written.decode("utf-8-sig"), newline=""), delimiter=separator)
    )
    require_observed(before, rows, separator)
    found = np.array(column(rows, "stage"))
    assert set(found[GONE]) <= {"low", "mid", "high"}
    assert not np.any(np.isin(found[GONE], "low") & np.isin(GROUPS[GONE], "high"))
    assert not np.any(np.isin(found[GONE], "high") & np.isin(GROUPS[GONE], "low"))
    assert facts["kinds"] == {"x": "continuous", "y": "continuous", "stage": "nominal"}
    assert facts["filled"] == GONE.sum()
    assert "Columns 2 continuous, 1 nominal\n" in ran.err


def test_what_no_model_can_use_is_set_aside_with_its_reason_and_written(folder: Path) -> None:
    """Line breaks and quotes within cells, too."""
    before = write(
        {
            "key": [f"P{i:03d}" for i in range(N)],
            "seen": [f"2024-0{i % 9 + 1}-11" for i in range(N)],
            "remark": [f'said "no", row {i}\nand went away' for i in range(N)],
            "site": [f"v{i % 60}" for i in range(N)],
            "country": ["Peru"] * N,
            "unused": [""] * N,
            "stage": with_gaps(GROUPS),
        }
    )
    ran, rows, facts = impute()
    require_observed(before, rows)
    assert facts["set_aside"] == {
        "key": "identifier",
        "seen": "dates",
        "remark": "free text",
        "site": "identifier",
        "country": "constant",
        "unused": "no value",
    }
    assert "set aside: key, site (identifier), seen (dates), remark (free text)" in ran.err
    assert column(rows, "unused") == [""] * N


def test_many_levels_that_recur_are_set_aside_unless_a_kind_is_named(folder: Path) -> None:
    """60 levels of two rows at least."""
    cells = [f"v{i % 60}" for i in range(180)]
    Path("t.csv").write_text(
        "x,site\n" + "".join(f"{X[i % N]:.2f},{cell}\n" for i, cell in enumerate(cells))
    )
    assert impute()[2]["set_aside"] == {"site": "60 different texts"}
    assert impute("--kinds", "site=nominal")[2]["kinds"]["site"] == "nominal"


def test_true_and_false_come_back_as_they_are_written(folder: Path) -> None:
    write({"alive": with_gaps(np.where(X > 0, "TRUE", "FALSE"))})
    _, rows, facts = impute()
    assert facts["kinds"]["alive"] == "binary"
    assert set(column(rows, "alive")) == {"TRUE", "FALSE"}
    assert "true and false" not in " ".join(facts.get("notes", ()))
    ran = call("impute", "t.csv", "-k", "1", "--numeric")
    assert "true and false in alive are read as 1 and 0" in ran.err


def test_yes_no_and_true_together_are_three_levels(folder: Path) -> None:
    before = write({"answer": with_gaps(np.array(["yes", "no", "TRUE"])[np.arange(N) % 3])})
    _, rows, facts = impute()
    require_observed(before, rows)
    assert facts["kinds"]["answer"] == "nominal"
    assert set(column(rows, "answer")) == {"yes", "no", "TRUE"}


def test_blanks_around_a_level_are_no_part_of_it(folder: Path) -> None:
    before = write({"stage": with_gaps(f"{g} " if i % 2 else g for i, g in enumerate(GROUPS))})
    _, rows, facts = impute("--order", "stage=low,mid,high")
    require_observed(before, rows)
    assert facts["kinds"]["stage"] == "ordinal"
    assert set(np.array(column(rows, "stage"))[GONE]) <= {"low", "mid", "high"}


def test_levels_that_look_like_numbers(folder: Path) -> None:
    """3+ makes levels of 0, 1, 2; a question mark among numbers is still to be explained."""
    cells = np.array(["0", "1", "2", "3+"])[np.digitize(Z, [-0.7, 0.0, 0.7])]
    write({"children": with_gaps(cells)})
    _, rows, facts = impute("--order", "children=0<1<2<3+")
    assert facts["kinds"]["children"] == "ordinal"
    assert set(column(rows, "children")) == {"0", "1", "2", "3+"}
    write({"children": with_gaps(np.where(cells == "3+", "?", cells))})
    refused = call("impute", "t.csv")
    assert refused.code == 5
    assert 'Treat it as missing: --na "?"' in refused.err
    assert impute("--kinds", "children=nominal")[2]["kinds"]["children"] == "nominal"


@pytest.mark.parametrize("name", ["--na", "-k", "a,b", 'say "x"', "a=b", "stage<1", "Größe"])
def test_columns_of_any_name(folder: Path, name: str) -> None:
    write({name: with_gaps(GROUPS)})
    quoted = '"' + name.replace('"', '""') + '"' if set(name) & set(',"') else name
    _, rows, facts = impute(f"--kinds={quoted}=nominal")
    assert facts["kinds"][name] == "nominal"
    assert all(row[-1] for row in rows)
    assert rows[0][-1].lstrip("'") == name  # a spreadsheet would run what begins with a minus
    _, _, facts = impute(f"--order={name}=low<mid<high")
    assert facts["kinds"][name] == "ordinal"


def test_names_that_occur_twice_are_refused_with_a_way_out(folder: Path) -> None:
    write({"stage": with_gaps(GROUPS)})
    text = Path("t.csv").read_text().replace("x,y,stage", "x,stage,stage")
    Path("t.csv").write_text(text)
    refused = call("impute", "t.csv")
    assert refused.code == 4
    assert "--ignore 2" in refused.err
    _, rows, _ = impute("--ignore", "2")
    assert rows[0] == ["x", "stage", "stage"]


def test_numbers_that_name_rows_are_set_aside_with_a_note(folder: Path) -> None:
    """Called an id and nearly all different, or 1, 2, 3, ... without a name: never silently, and
    not where the numbers recur or count from elsewhere, as years do."""
    own = {"patient_id": [str(7000 + 3 * i) for i in range(N)]}
    other = {"group_id": [str(i % 5) for i in range(N)], "year": [str(1930 + i) for i in range(N)]}
    write({**own, **other})
    ran, _, facts = impute()
    assert facts["set_aside"] == {"patient_id": "identifier"}
    assert "Note    patient_id is taken for names of rows" in ran.err
    assert list(facts["kinds"]) == ["x", "y", "group_id", "year"]
    kept = impute("--kinds", "patient_id=continuous")[2]
    assert kept["kinds"]["patient_id"] == "continuous"
    named = impute("--columns", "x,y,patient_id")[2]
    assert "set_aside" not in named
    Path("t.csv").write_text(
        '"","x","y"\n' + "".join(f'"{i + 1}",{X[i]:.2f},{Y[i]:.2f}\n' for i in range(N))
    )
    assert impute()[2]["set_aside"] == {"0": "identifier"}


def test_kinds_are_typed_in_several_ways_and_mistakes_are_answered(folder: Path) -> None:
    share = [f"{100 / (1 + np.exp(-v)):.1f}" for v in X]
    write(
        {"share": with_gaps(share), "visits": [str(int(v * v)) for v in Y], "stage": list(GROUPS)}
    )
    for option in (
        "share=bounded(0,100)",
        "share=bounded:0:100",
        "share=bounded(lower=0,upper=100)",
    ):
        _, rows, facts = impute("--kinds", f"{option},visits=count,stage=ignored")
        assert facts["kinds"] == {
            "x": "continuous", "y": "continuous", "share": "bounded", "visits": "count"
        }  # fmt: skip
        assert facts["set_aside"] == {"stage": "as asked"}
        assert all(0 < float(cell) < 100 for cell in column(rows, "share"))
    for options, said in {
        ("--kinds", "shaer=bounded"): 'has no such column. Did you mean "share"?',
        ("--kinds", "share=bound"): 'there is no kind "bound". Did you mean bounded?',
        ("--kinds", "share=bounded:100:0"): "lower must be less than upper",
        ("--kinds", "share=positive:1:2"): "positive takes no such parameters",
        ("--kinds", "share"): "write NAME=KIND",
        ("--kinds", "stage=ordinal"): "no order of its own. Say it from the lowest on",
        ("--kinds", "stage=continuous"): "stage",
        ("--kinds", "x=count"): "Give it another kind by --kinds, or make the value missing",
        ("--order", "stage=low,mid"): 'the column also holds "high"',
        ("--order", "stage=low,mid,hihg"): 'the column also holds "high" (meant by "hihg"?)',
        ("--order", "stage"): "write NAME=LEVELS",
        ("--kinds", "x=positive", "--kinds", "x=count"): "the column has a kind already",
        ("--kinds", "x=positive", "--numeric"): "leave --kinds and --order out",
        ("--kinds", "x=positive", "-m", "bayesian-pca", "--checkpoint", "c"): "columns as numbers",
    }.items():  # fmt: skip
        ran = call("impute", "t.csv", *options)
        assert ran.code in (2, 5), ran.err
        assert said in ran.err, options
        assert ran.err.count("Error: ") == 1


def test_a_level_that_the_order_has_is_not_taken_for_a_misspelt_one(folder: Path) -> None:
    write({"school": [("P", "S", "PS")[i % 3] for i in range(N)]})
    ran = call("impute", "t.csv", "--order", "school=P,PS")
    assert ran.code == 2
    assert 'the column also holds "S"\n' in ran.err


@pytest.mark.parametrize("model", ["isomap", "pca", "whitener"])
def test_models_of_numbers_set_text_aside_with_a_note(folder: Path, model: str) -> None:
    write({"stage": with_gaps(GROUPS), "key": [f"P{i}" for i in range(N)]})
    ran = call("fit", "t.csv", "-m", model, "-k", "1", "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert facts["set_aside"] == {"stage": "text", "key": "identifier"}
    assert facts["columns"] == ["x", "y"]
    assert "Columns 2 numeric; set aside: stage (text), key (identifier)\n" in ran.err
    # The identifier names the rows of what is written with the model.
    assert call("transform", "model.egap", "t.csv").text.startswith("key,")


def test_imputed_values_outside_what_was_observed_are_noted_for_gaussians(folder: Path) -> None:
    """A log-normal column: numbers as numbers go below zero, and the kinds do not."""
    write({"income": with_gaps(f"{np.exp(2 * v) + 0.01:.3f}" for v in X + Z)})
    ran, rows, _ = impute("--numeric")
    filled = [float(cell) for cell, gone in zip(column(rows, "income"), GONE, strict=True) if gone]
    assert min(filled) < 0
    assert "imputed values lie outside what was observed: income down to −" in ran.err
    assert "income spans decades (0.0" in ran.err
    assert "--kinds income=positive" in ran.err
    assert "spans decades" not in call("fit", "t.csv", "--ignore", "income").err
    ran, rows, _ = impute()
    assert all(float(cell) > 0 for cell in column(rows, "income"))
    assert "outside" not in ran.err


def test_a_model_of_columns_of_every_kind_imputes_other_tables(folder: Path) -> None:
    """By its file: the columns are found by name, and a level that the fit has not met refused."""
    write({"stage": with_gaps(GROUPS), "alive": with_gaps(np.where(X > 0, "TRUE", "FALSE"))})
    assert call("fit", "t.csv", "-m", "low-rank", "-k", "1", "-o", "m.egap").code == 0
    once = call("impute", "t.csv", "-k", "1")
    twice = call("impute", "t.csv", "--model", "m.egap")
    assert once.out == twice.out
    sure = call("impute", "t.csv", "--model", "m.egap", "--std").text.splitlines()
    assert sure[0] == "x,y,stage,alive,x_sd,y_sd,stage_p,alive_p"
    at = int(np.flatnonzero(GONE)[0])
    assert 1 / 3 < float(sure[at + 1].split(",")[6]) < 1
    draws = call("impute", "t.csv", "--model", "m.egap", "--draws", "2").text.splitlines()
    assert [line.split(",")[0] for line in draws[1:]] == ["1"] * N + ["2"] * N
    Path("new.csv").write_text("alive,stage,y,x\nTRUE,,0.5,1\n,high,,0.2\n")
    ran = call("impute", "new.csv", "--model", "m.egap")
    assert ran.code == 0, ran.err
    assert all("" not in line.split(",") for line in ran.text.splitlines())
    Path("new.csv").write_text("x,y,stage,alive\n1,2,hgih,TRUE\n")
    refused = call("impute", "new.csv", "--model", "m.egap")
    assert refused.code == 5
    assert '"hgih" at row 1, column "stage"' in refused.err


def test_parquet_keeps_the_types_of_its_columns(folder: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"x": X, "stage": pd.Categorical(GROUPS, ["low", "mid", "high"], True)})
    frame["alive"] = pd.array(X > 0, dtype="boolean")
    frame["when"] = pd.date_range("2024-01-01", periods=N)
    frame["key"] = [f"P{i}" for i in range(N)]
    frame.loc[GONE, ["stage", "alive"]] = None
    frame.to_parquet("t.parquet")
    ran = call("impute", "t.parquet", "-k", "1", "-o", "out.parquet", "--json")
    assert ran.code == 0, ran.err
    facts = json.loads(ran.out)
    assert facts["set_aside"] == {"when": "dates", "key": "identifier"}
    assert facts["kinds"] == {"x": "continuous", "stage": "ordinal", "alive": "binary"}
    back = pd.read_parquet("out.parquet")
    assert not back.isna().any().any()
    assert back["stage"].dtype.ordered
    pd.testing.assert_frame_equal(back[~GONE], frame[~GONE], check_dtype=False)


def test_scores_ranks_and_predictions_of_columns_of_every_kind(folder: Path) -> None:
    """Odd cells in the words of their column; levels among what a classifier learns from."""
    alive = np.where(X > 0, "TRUE", "FALSE")
    write({"stage": list(GROUPS), "alive": list(alive), "key": [f"P{i}" for i in range(N)]})
    rows = Path("t.csv").read_text().splitlines()
    where = int(np.flatnonzero(GROUPS == "low")[0])
    cells = rows[where + 1].split(",")
    rows[where + 1] = ",".join([*cells[:2], "high", *cells[3:]])
    assert call("fit", "t.csv", "-m", "novelty", "-k", "1", "-o", "n.egap").code == 0
    Path("odd.csv").write_text("\n".join(rows) + "\n")
    ran = call("score", "n.egap", "odd.csv", "--json", "-o", "scores.csv", "--alpha", "0.5")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["oddest"]
    assert len(found) > 0
    assert {"column", "value", "expected", "p"} == set(found[0]["cell"])
    assert found[0]["id"]["key"].startswith("P")
    assert Path("scores.csv").read_text().startswith("key,log_likelihood,p_value,outlier,")

    ppca = call("fit", "t.csv", "-k", "1", "-o", "p.egap", "--json")
    assert json.loads(ppca.out)["kinds"]["stage"] == "nominal"
    assert "kinds: x continuous, y continuous, stage nominal" in call("inspect", "p.egap").text
    scored = call("score", "p.egap", "t.csv")
    assert "come with -m novelty" in scored.err

    ranks = json.loads(call("rank", "t.csv", "--json").out)
    assert list(ranks["criteria"]) == ["cross_validation"]
    only = json.loads(call("rank", "t.csv", "--numeric", "--json").out)
    assert only["set_aside"] == {"stage": "text", "key": "identifier"}
    assert len(only["criteria"]) > 3

    both = json.loads(
        call("compare", "t.csv", "-m", "ppca:1", "-m", "fa:1", "--folds", "2", "--json").out
    )
    assert both["columns"] == ["x", "y", "stage", "alive"]
    assert all(np.isfinite(one["log_likelihood"]) for one in both["models"])
    one = json.loads(
        call("compare", "t.csv", "-m", "ppca:1", "-m", "pca:1", "--folds", "2", "--json").out
    )
    assert one["columns"] == ["x", "y", "alive"]  # pca takes numbers, and both are to have the same

    how = ("-m", "classifier", "--target", "stage", "-k", "1", "-o", "c.egap")
    fitted = call("fit", "t.csv", *how)
    assert fitted.code == 0, fitted.err
    accuracy = json.loads(call("score", "c.egap", "t.csv", "--json").out)["accuracy"]
    assert accuracy > 0.5


# Limits --------------------------------------------------------------------------------------


def limited(mark: str = ".") -> list[str]:
    """A column of exp(Z), of which small and large values are limits."""
    cells = []
    for i, value in enumerate(np.exp(Z + 0.3 * latent(4))):
        low = "<0.5" if i % 2 else "< 0.5"
        cells.append(low if value < 0.5 else ">3" if value > 3 else f"{value:.2f}")
    return [cell.replace(".", mark) for cell in with_gaps(cells)]


@pytest.mark.parametrize(("separator", "mark"), [(",", "."), (";", ",")], ids=["point", "comma"])
def test_limits_in_text_are_used_and_replaced_by_numbers_within_them(folder, separator, mark):
    cells = limited(mark)
    write({"crp": cells}, separator)
    ran, rows, facts = impute()
    assert facts["kinds"]["crp"] == "censored"
    assert facts["limits"] == sum(cell[:1] in ("<", ">") for cell in cells)
    assert "numbers behind < and > in crp are read as limits" in ran.err
    assert "limits in crp are replaced by numbers within them" in ran.err
    for was, now in zip(cells, column(rows, "crp"), strict=True):
        number = float(now.replace(",", "."))
        if was.startswith("<"):
            assert 0.0 < number <= 0.5
        elif was.startswith(">"):
            assert number >= 3.0
        else:
            assert now == was if was else np.isfinite(number)


def test_a_model_keeps_that_a_column_has_limits(folder) -> None:
    """New rows may have some or none; text that is neither is refused by row."""
    write({"crp": limited()})
    assert call("fit", "t.csv", "-m", "fa", "-k", "1", "-o", "t.egap").code == 0
    ran, _, facts = impute_by_model()
    assert facts["limits"] > 0, ran.err
    write({"crp": ["" if gone else "1.25" for gone in GONE]})
    assert "limits" not in impute_by_model()[2]
    write({"crp": ["low" if i == 4 else "<1" for i in range(N)]})
    ran = call("impute", "t.csv", "--model", "t.egap", "-o", "out.csv", "--force")
    assert ran.code == 5
    assert all(word in ran.err for word in ('column "crp"', "row 5", "low"))


def impute_by_model() -> tuple[Ran, str, dict]:
    ran = call("impute", "t.csv", "--model", "t.egap", "-o", "out.csv", "--force", "--json")
    assert ran.code == 0, ran.err
    return ran, Path("out.csv").read_text(), json.loads(ran.out)


def test_limits_beyond_the_first_rows_are_found(folder) -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(size=20_000)
    x, y = (z + rng.normal(size=len(z)) for _ in range(2))
    late = np.arange(len(z)) > len(z) - 3000
    cells = np.where(late & (y < -1.0), "<-1", y.round(4).astype(str))
    lines = [f"{a:.4f},{b},{c:.4f}" for a, b, c in zip(x, cells, z, strict=True)]
    Path("t.csv").write_text("\n".join(["x,y,z", *lines]) + "\n")
    ran = call("fit", "t.csv", "-m", "fa", "-k", "1", "-o", "t.egap", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["kinds"]["y"] == "censored"


def test_limits_in_text_of_parquet(folder) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    cells = [cell or None for cell in limited()]
    parquet.write_table(pa.table({"x": X, "y": Y, "crp": cells}), "t.parquet")
    ran = call("impute", "t.parquet", "-k", "1", "-o", "out.parquet", "--json")
    assert json.loads(ran.out)["kinds"]["crp"] == "censored", ran.err
    made = parquet.read_table("out.parquet").column("crp")
    assert (made.type, made.null_count) == (pa.float64(), 0)


def test_a_report_counts_limits_as_missing(folder) -> None:
    cells = limited()
    write({"crp": cells})
    assert call("fit", "t.csv", "-m", "fa", "-k", "1", "-o", "t.egap").code == 0
    ran = call("report", "t.egap", "t.csv", "-o", "t.html")
    assert ran.code == 0, ran.err
    assert "known by its limits counts as missing in the report" in ran.err


def test_a_report_of_a_model_without_components(folder) -> None:
    Path("t.csv").write_text("\n".join(["x", *np.where(Z > 0, "a", "b")]) + "\n")
    assert call("fit", "t.csv", "-o", "t.egap").code == 0
    ran = call("report", "t.egap", "t.csv", "-o", "t.html")
    assert ran.code == 0, ran.err


def test_a_report_of_a_mixture_of_columns_of_every_kind(folder) -> None:
    write({"stage": with_gaps(GROUPS)})
    assert call("fit", "t.csv", "-m", "mixture", "-k", "1", "-o", "t.egap").code == 0
    ran = call("report", "t.egap", "t.csv", "-o", "t.html")
    assert ran.code == 0, ran.err


def test_words_among_numbers_and_limits_are_named_alone(folder) -> None:
    cells = limited()
    cells[4] = "n.d."
    write({"crp": cells})
    ran = call("impute", "t.csv", "-o", "out.csv")
    assert ran.code == 5
    assert "row 5" in ran.err
    assert "--na" in ran.err
    assert "bound" not in ran.err
    assert call("impute", "t.csv", "-k", "1", "--na", "n.d.", "-o", "out.csv").code == 0


def test_models_of_numbers_name_the_models_that_take_limits(folder) -> None:
    write({"crp": limited()})
    for options in (("-m", "ppca", "--numeric"), ("-m", "kernel-pca")):
        ran = call("fit", "t.csv", *options)
        assert ran.code == 5
        assert "use it as a limit: -m low-rank without --numeric" in ran.err
        assert "--na" in ran.err


def test_models_are_compared_and_ranks_chosen_with_limits(folder) -> None:
    write({"crp": limited()})
    ran = call("compare", "t.csv", "-m", "fa:1", "-m", "ppca:1", "--folds", "2", "--json")
    assert ran.code == 0, ran.err
    assert all(np.isfinite(one["rmse"]) for one in json.loads(ran.out)["models"])
    assert call("rank", "t.csv", "--max-rank", "2").code == 0


# Truth values among numbers ------------------------------------------------------------------


@pytest.mark.parametrize("words", [("TRUE", "FALSE"), ("true", "false")])
def test_truth_values_stay_truth_values_where_a_model_takes_numbers(folder, words) -> None:
    truth, other = words
    write({"smokes": with_gaps(np.where(Z > 0, truth, other))})
    ran, rows, _ = impute("--numeric")
    assert set(column(rows, "smokes")) == {truth, other}
    assert "smokes up to" not in ran.err
    assert call("fit", "t.csv", "-m", "ppca", "-k", "1", "--numeric", "-o", "t.egap").code == 0
    call("impute", "t.csv", "--model", "t.egap", "-o", "out.csv", "--force")
    again = list(csv.reader(Path("out.csv").read_text().splitlines()))
    assert set(column(again, "smokes")) == {truth, other}
    call("impute", "t.csv", "--numeric", "-o", "out.npy")
    assert set(np.load("out.npy")[:, 2]) == {0.0, 1.0}


def test_booleans_of_parquet_stay_booleans_where_a_model_takes_numbers(folder) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    smokes = [None if gone else bool(z > 0) for z, gone in zip(Z, GONE, strict=True)]
    parquet.write_table(pa.table({"x": X, "y": Y, "smokes": smokes}), "t.parquet")
    assert call("impute", "t.parquet", "--numeric", "-k", "1", "-o", "out.parquet").code == 0
    made = parquet.read_table("out.parquet").column("smokes")
    assert (made.type, made.null_count) == (pa.bool_(), 0)


# What is said of components ------------------------------------------------------------------


def test_the_share_of_the_variance_is_said_to_be_of_variables_behind_the_columns(folder) -> None:
    write({"stage": with_gaps(GROUPS)})
    ran = call("fit", "t.csv", "-m", "fa", "-k", "1", "-o", "t.egap")
    assert "% of the variance behind the columns explained" in ran.err
    summary = str(eigengap.load("t.egap").summary())
    assert "% of the variance of the Gaussian variables behind the columns" in summary
    assert "the scale of those behind binary and nominal ones is a convention" in summary
    ran = call("fit", "t.csv", "-m", "fa", "-k", "1", "--numeric", "-o", "t.egap", "--force")
    assert "% of the variance explained" in ran.err


def test_components_that_were_offered_and_kept_are_told_apart(folder) -> None:
    write({f"w{k}": [f"{v:.3f}" for v in Z + 0.5 * latent(6 + k)] for k in range(8)})
    ran = call("fit", "t.csv", "-m", "bayesian-pca", "-k", "6", "-o", "t.egap", "--json")
    kept = json.loads(ran.out)["n_components"]
    assert kept < 6
    assert f"k = {kept} of at most 6," in ran.err
    assert "of at most" not in call("fit", "t.csv", "-m", "fa", "-k", "1", "-o", "u.egap").err


def test_one_component_of_a_trial_is_one() -> None:
    from eigengap.selection.imputation import Trial

    assert str(Trial("factor analysis", 1, 0.5)) == "factor analysis, 1 component"
    assert str(Trial("Bayesian PCA", 16, 0.5)) == "Bayesian PCA, up to 16 components"
    assert str(Trial("column means", None, 1.0)) == "column means"


def test_none_is_a_level_of_text_and_missing_among_numbers_and_truth_values(folder):
    """Survey data have levels such as Freq, None, Some."""
    levels = np.where(GROUPS == "mid", "None", GROUPS)
    cells = {
        "exercise": with_gaps(levels),
        "smokes": ["None" if gone else str(v > 0) for v, gone in zip(Y, GONE, strict=True)],
        "pulse": ["None" if gone else f"{v:.2f}" for v, gone in zip(X, GONE, strict=True)],
    }
    write(cells)
    _, rows, _ = impute()
    exercise = column(rows, "exercise")
    assert [cell for cell, gone in zip(exercise, GONE, strict=True) if not gone] == list(
        levels[~GONE]
    )
    assert set(exercise) <= {"low", "None", "high"}
    assert set(column(rows, "smokes")) == {"True", "False"}
    assert all(np.isfinite([float(cell) for cell in column(rows, "pulse")]))
    _, rows, _ = impute("--na", "None")
    assert "None" not in column(rows, "exercise")


def test_digits_with_leading_zeros_are_codes_and_no_numbers(folder):
    postcodes = np.where(GROUPS == "mid", "01552", np.where(GROUPS == "low", "08666", "10001"))
    write({"zip": with_gaps(list(postcodes)), "x": [f"{v:.2f}" for v in X]})
    _, rows, _ = impute()
    assert set(column(rows, "zip")) == {"01552", "08666", "10001"}
    _, rows, _ = impute("--numeric")  # as asked
    assert not set(column(rows, "zip")) <= {"01552", "08666", "10001"}
