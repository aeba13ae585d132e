"""Tables larger than memory: PCA and PPCA from files, under a real limit on memory.

The yardstick of PCA is what no method can do without: reading the file once, and the product X'X;
both are measured here under the same limit. Peers read the same file: scikit-learn's IncrementalPCA
from a memory map, dask-ml's PCA from Dask blocks. All run in processes of their own.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.limited import Group, memory_limit, most_anonymous
from benchmarks.table import Row, against, limit
from benchmarks.timing import FailedError, OutOfTimeError, in_new_process

D, Q = 500, 10
ROWS, INCOMPLETE_ROWS = 2_000_000, 1_000_000  # 8 GB and 4 GB
QUICK = 50  # times fewer rows
MEMORY = 1_000_000_000
SLACK = 1.5  # times the larger of reading and multiplying
PATIENCE = 1800.0
LENGTHS = (10_000, 100_000, 1_000_000, 10_000_000)  # of tables of 20 columns
BLOCK = 8192  # rows written together


def run(quick: bool = False) -> list[Row]:
    few = QUICK if quick else 1
    # Not in /tmp where that may lie in memory.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        place = Path(folder)
        rows = _complete(place, ROWS // few)
        rows += _incomplete(place, INCOMPLETE_ROWS // few)
        rows += _lengths(place, quick)
    return rows


def _complete(place: Path, n: int) -> list[Row]:
    npy, parquet = place / "table.npy", place / "table.parquet"
    _say(f"writing {n} x {D}")
    in_new_process(f"{__name__}:write", str(npy), n, 0.0)
    in_new_process(f"{__name__}:to_parquet", str(npy), str(parquet))
    case = f"{n} x {D}, {npy.stat().st_size / 1e9:.2g} GB"
    product = _limited("product", n)
    rows = []
    for path in (npy, parquet):
        kind = path.suffix[1:]
        _say(f"{case} {kind}")
        raw = _limited("raw_reading", str(path))
        ours = _limited("pca", str(path))
        least = max(raw["seconds"], product["seconds"])
        rows.append(
            limit(
                f"{case} {kind}", "PCA, time over the larger of reading and X'X",
                ours["seconds"] / least, "times", SLACK,
                note=f"{ours['seconds']:.3g} s; reading {raw['seconds']:.3g} s, X'X "
                f"{product['seconds']:.3g} s; {ours['passes']} pass",
            )
        )  # fmt: skip
        rows.append(
            limit(
                f"{case} {kind}", "PCA, anonymous memory", ours["megabytes"], "MB", MEMORY / 1e6,
                note=ours["under"],
            )
        )  # fmt: skip
        if path is npy:
            rows += _peers(case, str(path), ours)
    npy.unlink()
    parquet.unlink()
    return rows


def _peers(case: str, path: str, ours: dict[str, Any]) -> list[Row]:
    rows = []
    for name, function in (("IncrementalPCA", "incremental"), ("dask-ml", "dask_ml")):
        _say(f"{case}: {name}")
        try:
            found = _limited(function, path)
        except (FailedError, OutOfTimeError) as error:
            rows.append(
                against(
                    case, "PCA from npy", ours["seconds"], name, None,
                    note=f"not under {MEMORY / 1e9:g} GB: {error}",
                )
            )  # fmt: skip
            continue
        angle = _largest_angle(found["axes"], ours["axes"])
        rows.append(
            against(
                case, "PCA from npy", ours["seconds"], name, found["seconds"], target=1.0,
                note=f"its memory {found['megabytes']:.0f} MB; angle to the exact axes "
                f"{angle:.1e}; noise variance {found['noise']:.4g} (exact {ours['noise']:.4g})",
            )
        )  # fmt: skip
    return rows


def _incomplete(place: Path, n: int) -> list[Row]:
    path = place / "gaps.npy"
    _say(f"PPCA, {n} x {D} with gaps")
    in_new_process(f"{__name__}:write", str(path), n, 0.2)
    size = path.stat().st_size / 1e9
    ours = _limited("ppca", str(path))
    whole = in_new_process(f"{__name__}:ppca_in_memory", str(path))
    path.unlink()
    case = f"{n} x {D}, {size:.2g} GB npy, 20% missing, q {Q}"
    apart = abs(ours["log_likelihood"] - whole["log_likelihood"]) / n
    return [
        limit(case, "PPCA, anonymous memory", ours["megabytes"], "MB", MEMORY / 1e6,
              note=ours["under"]),
        limit(case, "PPCA, time over that of the table in memory",
              ours["seconds"] / whole["seconds"], "times", 2.0,
              note=f"{ours['seconds']:.3g} s, {ours['n_iter']} steps, {ours['passes']} passes; in "
              f"memory {whole['seconds']:.3g} s; log-likelihoods differ by {apart:.1e} a row"),
    ]  # fmt: skip


def _lengths(place: Path, quick: bool) -> list[Row]:
    """Seconds a row must not grow with the number of rows, where memory is short and where not."""
    path = place / "long.npy"
    free: dict[int, float] = {}
    short: dict[int, float] = {}
    for n in LENGTHS[:-1] if quick else LENGTHS:
        _say(f"PPCA, {n} x 20 with gaps")
        in_new_process(f"{__name__}:write", str(path), n, 0.1, 20)
        free[n] = in_new_process(f"{__name__}:ppca_steps", str(path))["seconds"]
        short[n] = _limited("ppca_steps", str(path))["seconds"]
    path.unlink()
    longest = max(free)
    return [
        _growth("all memory free", free, 100_000, longest),
        # Below a million rows what is prepared fits into the gigabyte and is not read again.
        _growth(f"{MEMORY / 1e9:g} GB of memory", short, longest // 10, longest),
    ]


def _growth(memory: str, found: dict[int, float], middle: int, longest: int) -> Row:
    growth = (found[longest] / longest) / (found[middle] / middle)
    return limit(
        f"20 columns, 10% missing, q 3, 10 EM steps from npy, {memory}",
        f"seconds a row at {longest:,} rows over those at {middle:,}", growth, "times", 1.3,
        note=", ".join(f"{n:,}: {s:.3g} s" for n, s in found.items()),
        seconds={str(n): s for n, s in found.items()},
    )  # fmt: skip


# In processes of their own --------------------------------------------------------------------


def write(path: str, n: int, missing: float, d: int = D) -> None:
    rng = np.random.default_rng(0)
    q = min(Q, d // 2)
    W = rng.normal(size=(q, d)) * np.linspace(3.0, 1.0, q)[:, None]
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, d))
    for start in range(0, n, BLOCK):
        c = min(BLOCK, n - start)
        rows = rng.standard_normal((c, q)) @ W + rng.standard_normal((c, d)) + 10.0
        if missing:
            rows[rng.random(rows.shape, dtype=np.float32) < missing] = np.nan
        out[start : start + c] = rows
    out.flush()


def to_parquet(npy: str, path: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X = np.load(npy, mmap_mode="r")
    names = [f"x{j}" for j in range(X.shape[1])]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, len(X), 4 * BLOCK):  # 131 MB, as row groups are
            columns = np.ascontiguousarray(X[start : start + 4 * BLOCK].T)
            writer.write_table(pa.table(list(columns), names=names))


def raw_reading(path: str) -> dict[str, Any]:
    start = time.perf_counter()
    if path.endswith(".npy"):
        buffer = bytearray(32 << 20)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    else:
        import pyarrow.parquet as pq

        # Its default keeps what it has read, and is ended by the limit.
        for _ in pq.ParquetFile(path, pre_buffer=False).iter_batches(BLOCK):
            pass
    return {"seconds": time.perf_counter() - start}


def product(n: int) -> dict[str, Any]:
    X = np.random.default_rng(0).standard_normal((BLOCK, D))
    total = np.zeros((D, D))
    start = time.perf_counter()
    for _ in range(-(-n // BLOCK)):
        total += X.T @ X
    return {"seconds": time.perf_counter() - start}


def pca(path: str) -> dict[str, Any]:
    import eigengap

    source = eigengap.open_source(path)
    model = eigengap.PCA(Q)  # loaded before the clock runs, as the peers are
    start = time.perf_counter()
    model.fit(source)
    return {
        "seconds": time.perf_counter() - start,
        "passes": source.passes,
        "axes": model.components_,
        "noise": model.noise_variance_,
    }


def incremental(path: str) -> dict[str, Any]:
    from sklearn.decomposition import IncrementalPCA

    X = np.load(path, mmap_mode="r")
    start = time.perf_counter()
    model = IncrementalPCA(Q)
    for first in range(0, len(X), 5 * D):  # its own default batch
        if len(batch := X[first : first + 5 * D]) >= Q:
            model.partial_fit(batch)
    return _of_peer(model, start)


def dask_ml(path: str) -> dict[str, Any]:
    import dask.array as da
    from dask_ml.decomposition import PCA

    X = da.from_array(np.load(path, mmap_mode="r"), chunks=(BLOCK, D))
    start = time.perf_counter()
    return _of_peer(PCA(Q, svd_solver="full").fit(X), start)


def _of_peer(model: Any, start: float) -> dict[str, Any]:
    return {
        "seconds": time.perf_counter() - start,
        "axes": model.components_,
        "noise": float(model.noise_variance_),
    }


def ppca(path: str) -> dict[str, Any]:
    import eigengap

    source = eigengap.open_source(path)
    model = eigengap.PPCA(Q)
    start = time.perf_counter()
    model.fit(source)
    return {
        "seconds": time.perf_counter() - start,
        "passes": source.passes,
        "n_iter": model.n_iter_,
        "log_likelihood": model.log_likelihood_,
    }


def ppca_in_memory(path: str) -> dict[str, Any]:
    import eigengap

    X = np.load(path)
    model = eigengap.PPCA(Q)
    start = time.perf_counter()
    model.fit(X)
    return {
        "seconds": time.perf_counter() - start,
        "log_likelihood": model.log_likelihood_,
    }


def ppca_steps(path: str) -> dict[str, Any]:
    import eigengap

    model = eigengap.PPCA(3, max_iter=10, tol=1e-300)
    model.fit(np.random.default_rng(0).normal(size=(5000, 20)))  # kernels are compiled or loaded
    start = time.perf_counter()
    model.fit(eigengap.open_source(path))
    return {"seconds": time.perf_counter() - start}


def _limited(function: str, *args: Any) -> dict[str, Any]:
    """function(*args) under the limit on memory, and how it went."""
    with memory_limit(MEMORY) as group:
        prefix = () if group is None else group.prefix
        found = in_new_process(
            f"{__name__}:watched", function, args, prefix=prefix, timeout=PATIENCE
        )
    _say(f"  {function}: {found['seconds']:.3g} s, {found['megabytes']:.0f} MB")
    return {**found, "under": _under(group)}


def watched(function: str, args: tuple[Any, ...]) -> dict[str, Any]:
    """function(*args), and the most memory of this process that was not pages of files."""
    with most_anonymous() as megabytes:
        found: dict[str, Any] = globals()[function](*args)
    return {**found, "megabytes": megabytes()}


def _under(group: Group | None) -> str:
    if group is None:
        return "no limit could be set on this machine"
    return f"in a control group of {MEMORY / 1e9:g} GB, files that are read included"


def _largest_angle(A: np.ndarray, B: np.ndarray) -> float:
    inside = np.linalg.norm(A - (A @ B.T) @ B, 2)
    return float(np.arcsin(min(inside, 1.0)))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
