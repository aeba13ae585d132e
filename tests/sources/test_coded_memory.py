"""A CSV of mixed columns that is larger than what a fit may hold."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

ROWS, PARTS = 1_000_000, 20

FIT = """
import resource, sys
import numpy as np, pyarrow, pyarrow.csv, pyarrow.parquet  # what does not depend on the table
import eigengap as eg
from eigengap import FactorAnalysis
from eigengap.sources.coded import CodedSource

path, out = sys.argv[1:]
CodedSource._most_kept = property(lambda self: 0.0, lambda self, value: None)  # nothing is kept
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
from eigengap.selection.coded_table import CodedTable
table, source = CodedTable.learned(path, "auto")
learned = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert source.observed().rows == 1_000_000
small = FactorAnalysis(1, columns="auto", max_iter=3).fit(path.replace("big", "small"))
eg.stream(small.impute, path, out)
streamed = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((learned - before) / 1024, (streamed - before) / 1024, len(table.used))
"""


def part(seed: int, n: int):
    import pandas as pd

    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    columns = {}
    for j in range(6):
        u = 0.8 * z + 0.6 * rng.normal(size=n)
        columns[f"x{j}"] = u.round(5)
        columns[f"t{j}"] = np.array(["red", "green", "blue"])[np.digitize(u, [-0.5, 0.5])]
    columns["id"] = [f"{seed}-{i}" for i in range(n)]
    table = pd.DataFrame(columns)
    hidden = rng.random(table.shape) < 0.1
    hidden[:, -1] = False
    return table.mask(hidden)


@pytest.mark.slow
def test_a_million_rows_in_bounded_memory(tmp_path):
    import pandas as pd

    big = tmp_path / "big.csv"
    n = ROWS // PARTS
    for k in range(PARTS):
        table = part(k, n)
        table.to_csv(big, index=False, header=k == 0, mode="a")
        if k == 0:
            table.iloc[:5000].to_csv(tmp_path / "small.csv", index=False)
    out = tmp_path / "out.csv"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIT, str(big), str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    learned, streamed, used = map(float, done.stdout.split())
    assert used == 12
    # Coded values alone are 96 MB, text in pandas 600 MB and more. What is held: 200 000 rows
    # that are drawn, twice while they are merged, blocks on their way, and one table of Arrow.
    assert learned < 350.0
    assert streamed < 450.0
    found = pd.read_csv(out, usecols=["x0", "t0", "id"])
    assert len(found) == ROWS
    assert not found.isna().any(axis=None)
    last = part(PARTS - 1, n)
    assert found["id"].iloc[-1] == last["id"].iloc[-1]
