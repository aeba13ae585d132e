"""F6: a file several times larger than what may be added to memory, read in and streamed out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

N, D = 500_000, 50  # 200 MB

# What a process needs for itself, and for reading any file at all, is there before it is measured.
CHILD = """
import json, sys
import numpy as np
from eigengap.sources.base import ObservedCells
from eigengap.sources.opening import open_source
from eigengap.sources.streaming import stream

def peak():  # ru_maxrss would begin with that of the process that has started this one
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) / 1024

small, large, out = sys.argv[1:]
stream(np.asarray, small, small + out[-4:], force=True)
before = peak()
source = open_source(large, block_bytes=8 << 20)
observed = source.reduce(ObservedCells.of)
read = peak()
stream(np.asarray, source, out)
print(json.dumps({"rows": observed.rows, "read": read - before, "streamed": peak() - before}))
"""


def write(path, X):
    kind = path.suffix
    if kind == ".npy":
        np.save(path, X)
    elif kind == ".parquet":  # all rows in one row group
        table = pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
        pq.write_table(table, path, row_group_size=len(X), use_dictionary=False)
    elif kind == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("data", data=X, chunks=(min(10_000, len(X)), X.shape[1]))
    elif kind == ".zarr":
        shape = (min(10_000, len(X)), X.shape[1])
        made = zarr.open_array(str(path), mode="w", shape=X.shape, chunks=shape, dtype="f8")
        made[:] = X
    else:
        lines = [",".join(f"{x:.17g}" for x in row) for row in X[:2000].tolist()]
        with path.open("w") as file:
            file.write(",".join(f"c{j}" for j in range(X.shape[1])) + "\n")
            for _ in range(max(1, len(X) // 8000)):
                file.write("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(N, D))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told by Linux")
@pytest.mark.parametrize("kind", ["npy", "parquet", "h5", "zarr", "csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, X, kind):
    small, large = tmp_path / f"small.{kind}", tmp_path / f"large.{kind}"
    write(small, X[:1000])
    write(large, X)
    out = tmp_path / ("out.csv" if kind == "csv" else "out.npy")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(small), str(large), str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    found = json.loads(child.stdout)
    assert found["rows"] == (N // 8000 * 2000 if kind == "csv" else N)
    assert found["read"] < 100, found
    assert found["streamed"] < 150, found
