"""Names of rows in a column without a name, as R writes them, stay with the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import NAMES, cells
from tests.cli.running import call


def write(name: str, header: str | None) -> list[str]:
    """A table with row names in the first column, under a header or without any line of names."""
    rows = [[f"s{i}", *row] for i, row in enumerate(cells())]
    lines = [] if header is None else [[header, *(f'"{one}"' for one in NAMES)]]
    Path(name).write_text("\n".join(",".join(line) for line in [*lines, *rows]) + "\n")
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    ("header", "chosen", "written"),
    [('""', "0", ""), ("", "0", ""), ("id", "id", "id"), ("id", "0", "id")],
    ids=["quotes", "bare", "named", "named, by position"],
)
@pytest.mark.parametrize("explicit", [False, True], ids=["as in the fit", "--id again"])
def test_transform_and_score_write_them(
    folder: Path, header: str, chosen: str, written: str, explicit: bool
) -> None:
    names = write("rn.csv", header)
    assert call("fit", "rn.csv", "--id", chosen, "-k", "1", "-o", "q.egap").code == 0
    again = ("--id", chosen) if explicit else ()
    for command in ("transform", "score"):
        ran = call(command, "q.egap", "rn.csv", *again, "-o", f"{command}.csv")
        assert ran.code == 0, ran.err
        lines = Path(f"{command}.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines] == [written, *names]
    assert call("transform", "q.egap", "rn.csv", *again, "-o", "t.parquet").code == 0
    table = pq.read_table("t.parquet")
    assert table.column_names == [written, "PC1"]
    assert table.column(0).to_pylist() == names
    filled = call("impute", "rn.csv", "--id", chosen, "-k", "1", "-q").text.splitlines()
    assert [line.split(",")[0] for line in filled] == [written, *names]


def test_new_rows_may_lack_them(folder: Path) -> None:
    write("rn.csv", "")
    assert call("fit", "rn.csv", "--id", "0", "-k", "1", "-o", "q.egap").code == 0
    bare = [line.partition(",")[2] for line in Path("rn.csv").read_text().splitlines()]
    Path("bare.csv").write_text("\n".join(bare) + "\n")
    ran = call("transform", "q.egap", "bare.csv")
    assert ran.code == 0, ran.err
    assert ran.text.startswith("PC1\n")


@pytest.mark.parametrize("command", ["transform", "score"])
def test_an_id_that_is_asked_for_has_to_be_there(folder: Path, command: str) -> None:
    write("rn.csv", "id")
    assert call("fit", "rn.csv", "--id", "id", "-k", "1", "-o", "q.egap").code == 0
    ran = call(command, "q.egap", "rn.csv", "--id", "idd", "-o", "t.csv")
    assert ran.code == 2
    assert 'Did you mean "id"?' in ran.err
