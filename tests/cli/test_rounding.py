"""Numbers with more digits than float64 keeps are reported once, and not as constant columns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.running import call, run

N = 12
ROUNDED = "a is constant after rounding to float64 and cannot distinguish rows"


def notes(err: str) -> list[str]:
    return [line[8:] for line in err.splitlines() if line.startswith("Note")]


def table(cells: list[str], separator: str = ",", mark: str = ".") -> None:
    rng = np.random.default_rng(0)
    others = [[f"{x:.3f}".replace(".", mark) for x in row] for row in rng.random((N, 2))]
    others[4][1] = ""
    lines = [["a", "b", "c"], *([cell, *rest] for cell, rest in zip(cells, others, strict=True))]
    Path("x.csv").write_text("\n".join(separator.join(line) for line in lines) + "\n")


@pytest.mark.parametrize("power", [18, 30])
def test_whole_numbers_beyond_float64(folder: Path, power: int) -> None:
    """In a process of its own: nothing but the lines of the command line is on standard error."""
    table([str(10**power + 3 * i) for i in range(N)])
    ran = run("impute", "x.csv", "-k", "1", "-o", "o.csv", cwd=Path.cwd())
    assert ran.code == 0, ran.err
    labels = {line[:8].strip() for line in ran.err.splitlines()}
    assert labels == {"Read", "Note", "Columns", "Chose", "Fit", "Imputed", "Wrote"}
    rounded, *constant = notes(ran.err)
    assert all(note.startswith(ROUNDED) for note in constant)
    assert rounded.startswith('column "a" holds whole numbers beyond 2^53')


@pytest.mark.parametrize("command", ["fit", "rank", "compare"])
def test_every_command_that_reads_reports_it_once(
    folder: Path, command: str, recwarn: pytest.WarningsRecorder
) -> None:
    table([str(10**17 + 1000 * i + i % 7) for i in range(N)])
    then = {"fit": ("-k", "1", "-o", "m.egap"), "compare": ("-m", "ppca:1", "--folds", "2")}
    ran = call(command, "x.csv", "--ignore", "c", *then.get(command, ()))
    assert ran.code == 0, ran.err
    assert sum("2^53" in note for note in notes(ran.err)) == 1
    assert "is constant" not in ran.err
    assert not [w for w in recwarn if "2^53" in str(w.message)]


@pytest.mark.parametrize(
    ("cells", "rounded"),
    [
        ([f"0.1{'0' * 20}{i + 1}" for i in range(N)], True),
        (["0.10000000000000000001"] * N, False),
        (["1" + "0" * 30] * N, False),
        (["1e30", "1" + "0" * 30, "1.0e30"] * (N // 3), False),
        (["7"] * N, False),
    ],
    ids=["decimals", "one decimal", "one whole number", "one number, written in three ways", "7"],
)
@pytest.mark.parametrize(("separator", "mark"), [(",", "."), (";", ",")])
def test_constant_in_the_file_or_by_rounding(
    folder: Path, cells: list[str], rounded: bool, separator: str, mark: str
) -> None:
    table([cell.replace(".", mark) for cell in cells], separator, mark)
    ran = call("fit", "x.csv", "-k", "1", "-o", "m.egap")
    told = [note for note in notes(ran.err) if note.startswith("a is constant")]
    assert len(told) == 1
    assert told[0].startswith(ROUNDED) == rounded


@pytest.mark.parametrize(
    ("column", "rounded"),
    [
        (pa.array([10**18 + 3 * i for i in range(N)]), True),
        (pa.array([10**18 + 3] * N), False),
        (pa.array([Decimal(10**30 + i) for i in range(N)], pa.decimal128(38, 0)), True),
        (pa.array([Decimal(f"0.{10**20 + i}") for i in range(N)], pa.decimal128(38, 21)), True),
        (pa.array([Decimal("0.5")] * N, pa.decimal128(38, 21)), False),
    ],
    ids=["integers", "one integer", "whole decimals", "decimals", "one decimal"],
)
def test_parquet(folder: Path, column: pa.Array, rounded: bool) -> None:
    others = np.random.default_rng(0).random((2, N))
    pq.write_table(pa.table({"a": column, "b": others[0], "c": others[1]}), "x.parquet")
    ran = call("fit", "x.parquet", "-k", "1", "-o", "m.egap")
    told = [note for note in notes(ran.err) if note.startswith("a is constant")]
    assert len(told) == 1
    assert told[0].startswith(ROUNDED) == rounded
