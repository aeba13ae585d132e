"""F6: a file larger than the memory that the process may have.

The limit is the system's: a control group where one may be made, else a limit on the data segment.
The table repeats one block of rows, so its exact covariance is known without reading it whole.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.limited import memory_limit

resource = pytest.importorskip("resource")

LIMIT = 500_000_000
D, ROWS, TIMES = 50, 12_500, 128  # 640 MB

PROGRAM = """
import json, sys
import eigengap
path, out = sys.argv[1:]
try:
    import numpy as np
    np.empty({limit} // 8).fill(1.0)  # would the limit let a whole table in?
    print("the limit does not hold"); sys.exit(9)
except MemoryError:
    pass
source = eigengap.open_source(path, block_bytes=4 << 20)
model = eigengap.PCA(3).fit(source)
eigengap.stream(model.transform, eigengap.open_source(path, block_bytes=4 << 20), out)
print(json.dumps({{"variance": list(model.explained_variance_), "passes": source.passes}}))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    block = rng.normal(size=(ROWS, D)) @ (rng.normal(size=(D, D)) / 4) + 100.0
    path = tmp_path_factory.mktemp("large") / "table.npy"
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(TIMES * ROWS, D))
    for k in range(TIMES):
        out[k * ROWS : (k + 1) * ROWS] = block
    out.flush()
    del out
    yield path, block
    path.unlink()


def test_a_table_that_does_not_fit_is_fitted_and_transformed(table, tmp_path):
    path, block = table
    assert path.stat().st_size > LIMIT
    scores = tmp_path / "scores.npy"
    done = _limited(PROGRAM.format(limit=LIMIT), path, scores)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["passes"] == 1
    n = TIMES * ROWS
    lam, U = np.linalg.eigh(np.cov(block, rowvar=False, bias=True) * n / (n - 1))
    np.testing.assert_allclose(told["variance"], lam[::-1][:3], rtol=1e-10)
    Z = np.load(scores, mmap_mode="r")
    assert Z.shape == (n, 3)
    expected = np.abs((block - block.mean(axis=0)) @ U[:, ::-1][:, :3])
    for k in (0, TIMES // 2, TIMES - 1):  # rows in their order, to the last
        np.testing.assert_allclose(np.abs(Z[k * ROWS : (k + 1) * ROWS]), expected, atol=1e-8)


def _limited(program: str, *args: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, args)]
    with memory_limit(LIMIT) as group:
        # A group ends a process that asks for too much; the limit on data refuses it, which the
        # program can see. Both hold together.
        return subprocess.run(
            [*(() if group is None else group.prefix), *command],
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT)),
            timeout=300,
        )
