"""What each command does, checked against the library and against Python's own csv module."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import NAMES, as_csv, cells
from tests.cli.running import call
from tests.reporting.pages import Parsed

import eigengap as eg
from eigengap.persistence.model_file import load
from eigengap.reporting import report
from eigengap.sources.array import ArraySource


def parsed(text: str | bytes, **how: str) -> list[list[str]]:
    text = text.decode() if isinstance(text, bytes) else text
    return list(csv.reader(io.StringIO(text, newline=""), **how))


def numbers(rows: list[list[str]]) -> np.ndarray:
    return np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


X = numbers(cells())


# fit ----------------------------------------------------------------------------------------


def test_fit_tells_what_was_read_chosen_fitted_written_and_what_is_next(folder: Path) -> None:
    ran = call("fit", "table.csv")
    assert ran.code == 0
    assert ran.out == b""
    assert re.findall(r"^(\w+) ", ran.err, re.M) == ["Read", "Chose", "Fit", "Wrote", "Next"]
    missing = int(np.isnan(X).sum())
    assert f"40 rows x 4 numeric columns; {missing} cells missing" in ran.err
    assert re.search(r"^Chose   k = \d: \w+", ran.err, re.M)
    assert "eigengap report model.egap table.csv --open" in ran.err


def test_fit_is_the_library_s_fit_with_scaling(folder: Path) -> None:
    facts = json.loads(call("fit", "table.csv", "-k", "2", "--json", "-q").out)
    model = eg.PPCA(2, scale=True).fit(X)
    assert facts["n_components"] == 2
    assert facts["converged"] is True
    assert facts["n_iter"] == model.n_iter_
    assert facts["columns"] == list(NAMES)
    assert facts["missing"] == int(np.isnan(X).sum())
    np.testing.assert_allclose(facts["log_likelihood_per_row"], model.score(X), rtol=1e-9)
    loaded = load("model.egap")
    assert isinstance(loaded, eg.PPCA)
    np.testing.assert_allclose(loaded.transform(Path("table.csv")), model.transform(X), rtol=1e-9)
    assert loaded.provenance_["command"] == "eigengap fit table.csv -k 2 --json -q"
    assert loaded.provenance_["rows"] == 40


def test_options_reach_the_estimator(folder: Path) -> None:
    ran = call(
        "fit", "table.csv", "-m", "fa", "-k", "1", "--no-scale", "--set", "rotation=varimax",
        "--set", "tol=1e-3", "--seed", "7",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    got = load("model.egap").get_params()
    assert (got["n_components"], got["scale"], got["rotation"]) == (1, False, "varimax")
    assert (got["tol"], got["random_state"]) == (1e-3, 7)
    inspected = json.loads(call("inspect", "model.egap", "--json").out)
    assert inspected["kind"] == "FactorAnalysis"
    assert inspected["feature_names"] == list(NAMES)
    assert inspected["parameters"]["rotation"] == "varimax"


@pytest.mark.parametrize(
    "name",
    [
        *("pca", "mixture", "ica", "mds", "whitener", "isomap"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("bayesian-pca", "kernel-pca", "laplacian", "mvu", "structure")
        ),
    ],
)
def test_models_by_name_fit_and_transform_as_the_library(folder: Path, name: str) -> None:
    assert call("fit", "table.csv", "-m", name, "-o", "m.egap").code == 0
    ran = call("transform", "m.egap", "table.csv")
    assert ran.code == 0, ran.err
    header, *rows = parsed(ran.out)
    model = load("m.egap")
    assert header == model.component_names_
    np.testing.assert_allclose(
        numbers(rows), model.transform(ArraySource(X, names=NAMES)), rtol=1e-9, atol=1e-12
    )


def test_a_share_of_the_variance(folder: Path) -> None:
    facts = json.loads(call("fit", "table.csv", "-m", "pca", "-k", "0.9", "--json").out)
    assert facts["explained_variance_ratio"] >= 0.9


# columns ------------------------------------------------------------------------------------


def test_ids_ignored_and_chosen_columns(folder: Path) -> None:
    rows = [[f"r,{i}", *row, "x"] for i, row in enumerate(cells())]
    quoted = [[f'"{row[0]}"', *row[1:]] for row in rows]
    Path("t.csv").write_bytes(as_csv(quoted, ["name", *NAMES, "kind"]))
    ran = call("fit", "t.csv", "--id", "name", "--ignore", "kind,d", "-k", "1")
    assert ran.code == 0, ran.err
    assert list(load("model.egap").feature_names_in_) == ["a", "b", "c"]
    header, *scores = parsed(call("transform", "model.egap", "t.csv").out)  # the id is remembered
    assert header == ["name", "PC1"]
    assert [row[0] for row in scores] == [row[0] for row in rows]
    chosen = call("fit", "t.csv", "--columns", "d,a", "-k", "1", "--force")
    assert chosen.code == 0
    assert list(load("model.egap").feature_names_in_) == ["d", "a"]


def test_new_rows_may_have_their_columns_in_another_order_and_more_of_them(model: Path) -> None:
    rows = [["t", *row[::-1]] for row in cells()]
    Path("new.csv").write_bytes(as_csv(rows, ["note", *NAMES[::-1]]))
    same = call("transform", "m.egap", "table.csv").out
    assert call("transform", "m.egap", "new.csv").out == same


def test_a_file_without_names_goes_by_position(folder: Path) -> None:
    Path("bare.csv").write_bytes(as_csv(cells(), names=None))
    assert call("fit", "bare.csv", "--ignore", "1", "-k", "1").code == 0
    assert call("fit", "table.csv", "--ignore", "b", "-k", "1", "-o", "named.egap").code == 0
    bare = numbers(parsed(call("transform", "model.egap", "bare.csv").out)[1:])
    named = numbers(parsed(call("transform", "named.egap", "table.csv").out)[1:])
    np.testing.assert_allclose(bare, named, rtol=1e-9)


def test_what_stands_for_missing_is_remembered_by_the_model(folder: Path) -> None:
    marked = [
        ["?" if j == 0 and not cell else cell or "-999" for j, cell in enumerate(row)]
        for row in cells()
    ]
    Path("marked.csv").write_bytes(as_csv(marked))
    assert call("fit", "marked.csv", "--na", "?", "--na", "-999", "-k", "2").code == 0
    assert call("fit", "table.csv", "-k", "2", "-o", "m.egap").code == 0
    assert (
        call("transform", "model.egap", "marked.csv").out
        == call("transform", "m.egap", "table.csv").out
    )
    filled = parsed(call("impute", "marked.csv", "--model", "model.egap").out)
    assert filled == parsed(call("impute", "table.csv", "--model", "m.egap").out)


# impute -------------------------------------------------------------------------------------


def test_impute_in_one_go_is_fit_and_impute(model: Path) -> None:
    once = call("impute", "table.csv", "-m", "ppca", "-k", "2")
    twice = call("impute", "table.csv", "--model", "m.egap")
    assert once.code == twice.code == 0
    assert once.out == twice.out
    filled = numbers(parsed(once.out)[1:])
    expected = load("m.egap").impute(eg.open_source("table.csv"))
    np.testing.assert_allclose(filled, expected, rtol=1e-12)


def test_deviations_stand_beside_in_every_format(model: Path) -> None:
    expected, sd = load("m.egap").impute(eg.open_source("table.csv"), return_std=True)
    for suffix in ("csv", "csv.gz", "parquet", "npy", "h5"):
        ran = call("impute", "table.csv", "--model", "m.egap", "--std", "-o", f"f.{suffix}")
        assert ran.code == 0, ran.err
        source = eg.open_source(f"f.{suffix}")
        np.testing.assert_allclose(source.collect(), np.hstack([expected, sd]), rtol=1e-12)
        if suffix != "npy":
            assert source.names == (*NAMES, *(f"{name}_sd" for name in NAMES))


def test_draws_differ_in_missing_alone_and_follow_the_seed(model: Path) -> None:
    run = ("impute", "table.csv", "--model", "m.egap", "--draws", "3")
    header, *rows = parsed(call(*run).out)
    assert header == ["draw", *NAMES]
    table = numbers(rows).reshape(3, 40, 5)
    np.testing.assert_array_equal(table[:, :, 0], [[k] * 40 for k in (1, 2, 3)])
    observed = ~np.isnan(X)
    for drawn in table[:, :, 1:]:
        np.testing.assert_array_equal(drawn[observed], X[observed])
    assert np.all(table[0, :, 1:][~observed] != table[1, :, 1:][~observed])
    assert call(*run).out == call(*run, "--seed", "0").out != call(*run, "--seed", "1").out


def test_draws_have_the_spread_that_std_says(model: Path) -> None:
    rows = parsed(call("impute", "table.csv", "--model", "m.egap", "--draws", "60").out)[1:]
    drawn = numbers(rows).reshape(60, 40, 5)[:, :, 1:]
    _, sd = load("m.egap").impute(ArraySource(X, names=NAMES), return_std=True)
    missing = np.isnan(X)
    ratio = np.std(drawn, axis=0)[missing] / sd[missing]
    assert 0.8 < np.median(ratio) < 1.25


def test_a_table_without_missing_comes_back_as_it_was(folder: Path) -> None:
    whole = as_csv(cells(share=0.0))
    Path("whole.csv").write_bytes(whole)
    ran = call("impute", "whole.csv", "-k", "1")
    assert ran.out == whole
    assert "nothing: no cell is missing" in ran.err


# score, rank, compare -----------------------------------------------------------------------


def test_score_of_every_row(model: Path) -> None:
    header, *rows = parsed(call("score", "m.egap", "table.csv", "-o", "-", "-q").out)
    assert header == ["log_likelihood", "p_value", "outlier", "T2", "SPE"]
    table = numbers(rows)
    fitted = load("m.egap")
    np.testing.assert_allclose(
        table[:, 0], fitted.score_samples(eg.open_source("table.csv")), rtol=1e-9
    )
    detector = eg.NoveltyDetector(eg.PPCA(2, scale=True)).fit(X)
    np.testing.assert_allclose(table[:, 1], detector.p_values(X), rtol=1e-6)
    np.testing.assert_array_equal(table[:, 2], detector.predict(X) == -1)
    statistics = detector.statistics(X)
    np.testing.assert_allclose(table[:, 3], statistics.T2.value, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(table[:, 4], statistics.SPE.value, rtol=1e-6, atol=1e-9)


def test_an_autoencoder_scores_by_its_squared_error_and_not_by_a_likelihood(folder: Path) -> None:
    rows = cells()
    rows.append([""] * len(NAMES))  # a row without any observed value has no error
    Path("some.csv").write_bytes(as_csv(rows))
    fit = ("fit", "table.csv", "-m", "autoencoder", "-k", "1", "--set", "hidden=[3]")
    assert call(*fit, "--set", "max_iter=5", "-o", "a.egap").code == 0
    fitted = load("a.egap")
    header, *written = parsed(call("score", "a.egap", "some.csv", "-o", "-", "-q").out)
    assert header == ["neg_mean_squared_error"]
    expected = fitted.score_samples(ArraySource(numbers(rows), names=NAMES))
    np.testing.assert_allclose(numbers(written)[:, 0], expected, rtol=1e-6, atol=1e-12)
    ran = call("score", "a.egap", "some.csv", "--json")
    facts = json.loads(ran.out)
    assert "log_likelihood_per_row" not in facts
    np.testing.assert_allclose(
        facts["mean_squared_error_per_row"], -fitted.score(eg.open_source("table.csv")), rtol=1e-6
    )
    told = call("score", "a.egap", "some.csv").err
    assert "mean squared error per row" in told
    assert "is no density" in told
    assert "log-likelihood" not in told


def test_a_novelty_model_keeps_its_threshold_unless_told(folder: Path) -> None:
    fit = ("fit", "table.csv", "-m", "novelty", "-k", "1", "--set", "alpha=0.3", "-o", "n.egap")
    assert call(*fit).code == 0
    detector = load("n.egap")
    table = ArraySource(X, names=NAMES)
    facts = json.loads(call("score", "n.egap", "table.csv", "--json").out)
    assert facts["alpha"] == 0.3
    assert facts["outliers"] == int(np.sum(detector.predict(table) == -1))
    told = json.loads(call("score", "n.egap", "table.csv", "--alpha", "0.6", "--json").out)
    assert told["outliers"] == int(np.sum(detector.p_values(table) < 0.6)) > facts["outliers"]


def test_an_odd_row_is_found_and_explained(model: Path) -> None:
    rows = cells()
    rows[17][2] = "25"
    Path("odd.csv").write_bytes(as_csv(rows))
    ran = call("score", "m.egap", "odd.csv", "--json")
    assert json.loads(ran.out)["oddest"][0]["row"] == 18
    assert re.search(r"^ +18 .* c = 25, expected", ran.err, re.M)


def test_classes_and_predictions(folder: Path, predictors) -> None:
    kinds = predictors["kinds"]
    for name in ("classifier", "regressor"):
        Path(f"{name}.egap").write_bytes(predictors[name])
    rows = [[*row, kind] for row, kind in zip(cells(), kinds, strict=True)]
    Path("t.csv").write_bytes(as_csv(rows, [*NAMES, "kind"]))
    header, *predicted = parsed(call("transform", "classifier.egap", "t.csv").out)
    assert header == ["predicted", "p_high", "p_low"]
    right = np.mean([row[0] == kind for row, kind in zip(predicted, kinds, strict=True)])
    scored = json.loads(call("score", "classifier.egap", "t.csv", "--json").out)
    assert scored["accuracy"] == pytest.approx(right)
    assert right > 0.6
    assert json.loads(call("score", "regressor.egap", "table.csv", "--json").out)["r2"] > 0.5
    assert call("fit", "table.csv", "-m", "regressor").code == 2


def test_rank_and_compare_say_what_the_library_says(folder: Path) -> None:
    ran = call("rank", "table.csv", "--criterion", "bic", "--criterion", "eigengap", "-q")
    found = eg.choose_rank(X, criteria=["bic", "eigengap"], scale=True)
    assert [line.split()[0] for line in ran.text.splitlines()] == [
        "k", *(str(found.criteria[name]) for name in ("bic", "eigengap")),
    ]  # fmt: skip
    facts = json.loads(call("compare", "table.csv", "-m", "ppca:1", "-m", "ppca:2", "--json").out)
    assert facts["best"] == "ppca:2"
    assert [one["model"] for one in facts["models"]] == ["ppca:1", "ppca:2"]


# Places -------------------------------------------------------------------------------------


def test_every_place_for_data_gives_the_same_numbers(model: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    np.save("t.npy", X)
    columns = {name: pa.array(X[:, j], from_pandas=True) for j, name in enumerate(NAMES)}
    parquet.write_table(pa.table({"kind": ["x"] * 40, **columns}), "t.parquet")
    import gzip

    Path("t.csv.gz").write_bytes(gzip.compress(as_csv(cells())))
    for part, rows in (("part-2", cells()[:15]), ("part-10", cells()[15:])):
        Path(f"{part}.csv").write_bytes(as_csv(rows))
    expected = numbers(parsed(call("transform", "m.egap", "table.csv").out)[1:])
    for data in ("t.npy", "t.parquet", "t.csv.gz", "part-*.csv"):
        ran = call("transform", "m.egap", data)
        assert ran.code == 0, ran.err
        np.testing.assert_allclose(numbers(parsed(ran.out)[1:]), expected, rtol=1e-9)
    piped = call("transform", "m.egap", "-", stdin=as_csv(cells()))
    np.testing.assert_array_equal(numbers(parsed(piped.out)[1:]), expected)


@pytest.mark.slow
def test_a_fit_on_a_cluster_is_the_same_fit(folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    rows = [["r", *row] for row in cells(300)]
    Path("t.csv").write_bytes(as_csv(rows, ["name", *NAMES]))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        fit = ("fit", "t.csv", "--id", "name", "-k", "2")
        there = call(*fit, "--scheduler", cluster.scheduler_address, "--json")
        assert there.code == 0, there.err
        here = call(*fit, "-o", "here.egap", "--json")
    found, expected = json.loads(there.out), json.loads(here.out)
    assert found["n_iter"] == expected["n_iter"]
    np.testing.assert_allclose(
        found["log_likelihood_per_row"], expected["log_likelihood_per_row"], rtol=1e-10
    )


def test_the_index_of_a_pandas_frame_is_no_feature_and_stays(folder: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    X[4, 1] = np.nan
    frame = pandas.DataFrame(X, columns=list("abc"), index=np.arange(900, 930) ** 2)
    frame.to_parquet("t.parquet")
    assert call("impute", "t.parquet", "-k", "1", "-o", "full.parquet").code == 0
    full = pandas.read_parquet("full.parquet")
    np.testing.assert_array_equal(full.pop("__index_level_0__"), frame.index)
    frame.reset_index(drop=True).to_parquet("bare.parquet")
    assert call("impute", "bare.parquet", "-k", "1", "-o", "expected.parquet").code == 0
    pandas.testing.assert_frame_equal(full, pandas.read_parquet("expected.parquet"))


def test_parquet_keeps_its_types_where_nothing_is_filled(folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    large = [2**60 + k for k in range(40)]
    whole = pa.array([int(10 * float(row[0])) if row[0] else None for row in cells()], pa.int32())
    table = pa.table(
        {
            "key": pa.array(large, pa.int64()),
            "when": pa.array(range(40), pa.timestamp("ms")),
            "a": whole,
            "b": pa.array([float(row[1]) if row[1] else None for row in cells()]),
            "c": pa.array([int(100 * float(row[2] or 0)) for row in cells()], pa.int16()),
        }
    )
    parquet.write_table(table, "t.parquet")
    ran = call(
        "impute", "t.parquet", "--id", "key", "--ignore", "when", "-k", "1", "-o", "f.parquet"
    )
    assert ran.code == 0, ran.err
    filled = parquet.read_table("f.parquet")
    assert filled.column_names == table.column_names
    for name in ("key", "when", "c"):
        assert filled[name].equals(table[name])
    assert filled["a"].null_count == filled["b"].null_count == 0
    observed = np.array([cell is not None for cell in table["a"].to_pylist()])
    np.testing.assert_array_equal(
        np.array(filled["a"].to_pylist())[observed],
        [cell for cell in table["a"].to_pylist() if cell is not None],
    )


def test_a_report_counts_rows_as_score_does(model: Path) -> None:
    """From 1: the row that is said to be odd is found under its number in the page."""
    rows = cells()
    rows[17][2] = "25"
    Path("odd.csv").write_bytes(as_csv(rows))
    found = json.loads(call("score", "m.egap", "odd.csv", "--json", "-q").out)["oddest"][0]
    assert found["row"] == 18
    assert call("report", "m.egap", "odd.csv", "-q").code == 0
    page = Parsed(Path("report.html").read_text(encoding="utf-8"))
    data = page.data["rows"]
    assert (data["rows"], data["first"]) == (list(range(1, 41)), 1)
    assert "rows are counted from 1" in page.text
    assert data["p"].index(min(data["p"])) == 17
    report(load("m.egap"), "odd.csv", "python.html")
    data = Parsed(Path("python.html").read_text(encoding="utf-8")).data["rows"]
    assert (data["rows"], data["first"]) == (list(range(40)), 0)


def test_a_report_of_a_file_and_of_standard_input(model: Path) -> None:
    ran = call("report", "m.egap", "table.csv", "--rows", "10")
    assert ran.code == 0, ran.err
    assert Path("report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html")
    marked = [[cell or "?" for cell in row] + ["x"] for row in cells()]
    piped = call(
        "report", "m.egap", "-", "--na", "?", "--color", "kind", "-o", "-",
        stdin=as_csv(marked, [*NAMES, "kind"]),
    )  # fmt: skip
    assert piped.code == 0, piped.err
    assert b"kind" in piped.out
    assert call("report", "m.egap", "table.csv", "--color", "kin", "--force").code == 2


def test_doctor_and_completion(folder: Path) -> None:
    facts = json.loads(call("doctor", "--json").out)
    assert facts["eigengap"] == eg.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["memory_free"] > 0
    assert "extras" in facts
    assert eg.__version__ in call("doctor").text
    for shell in ("zsh", "fish"):
        assert "_EIGENGAP_COMPLETE" in call("completion", shell).text


def test_a_class_that_is_written_as_missing_is_none(tmp_path):
    """Every spelling that is missing in a feature is missing in the target too."""
    table = tmp_path / "t.csv"
    rows = [f"{k % 7}.5,{(k * k) % 11},{'n/a' if k in (3, 8) else 'ab'[k % 2]}" for k in range(20)]
    table.write_text("x,y,kind\n" + "\n".join(rows) + "\n")
    ended = call("fit", str(table), "-m", "classifier", "--target", "kind", "-o", "c.egap")
    assert ended.code != 0
    assert 'column "kind" has no class in 2 rows, the first is row 4' in ended.err


def test_the_schema_of_a_parquet_file_is_read_once_and_not_for_each_column(tmp_path, monkeypatch):
    from eigengap.cli.tables import pieces

    pq.write_table(pa.table({f"c{j}": ["a", "b"] for j in range(30)}), tmp_path / "t.parquet")
    asked = []

    class Watched:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *of_error):
            self.file.close()

        def __getattr__(self, name):
            asked.append(name)
            return getattr(self.file, name)

    opened = pieces._opened
    monkeypatch.setattr(pieces, "_opened", lambda path: Watched(opened(path)))
    table = SimpleNamespace(paths=[str(tmp_path / "t.parquet")])
    (columns,) = pieces.columns_of_parquet(table, range(30))
    assert [column.to_pylist() for column in columns] == [["a", "b"]] * 30
    assert asked.count("schema_arrow") == 1
