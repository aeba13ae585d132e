"""Dask collections as sources: the same rows and the same fits as in memory, however chunked.

On Dask's local scheduler; a cluster of processes is in test_dask_cluster.py.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.tolerance import assert_same_optimum

from eigengap import PCA, PPCA, BayesianPCA, FactorAnalysis, MixturePPCA
from eigengap.exceptions import DoesNotFitError
from eigengap.fitting.gaussian.bayesian import fit_bayesian
from eigengap.fitting.gaussian.fit import fit_factor_analysis, fit_ppca
from eigengap.fitting.gaussian.pca import HasMissing, fit_pca
from eigengap.fitting.mixture.fit import fit_mixture
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.models.gaussian.posterior import Coefficients
from eigengap.sources.base import Block, ObservedCells, merge_tree
from eigengap.sources.blocked import Rescaled
from eigengap.sources.conversion import as_source
from eigengap.sources.dask import as_dask_source, is_dask
from eigengap.statistics.expected.gaussian import Expected
from eigengap.statistics.moments import ColumnMoments, Moments

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")

from eigengap.sources.dask.tasks import Forest, PartitionError  # noqa: E402

N, D = 400, 9
NAMES = list("abcdefghi")


def table(missing: bool, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3)) @ rng.normal(size=(3, D)) + 0.4 * rng.normal(size=(N, D)) + 5.0
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


def unknown(X: np.ndarray) -> Any:
    """Chunks whose number of rows only computing tells, an empty one among them."""
    array = da.from_array(np.insert(X, 0, 1e9, axis=0), chunks=(90, 4))
    return array[array[:, 0].map_blocks(lambda c: np.where(np.isnan(c), 0.0, c)) < 1e8]


def with_empty(X: np.ndarray) -> Any:
    nothing = da.from_array(X[:0], chunks=(1, D))
    return da.concatenate([nothing, da.from_array(X, chunks=(130, D)), nothing], axis=0)


def frame(X: np.ndarray) -> Any:
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=5, sort=False)


def frame_with_empty(X: np.ndarray) -> Any:
    whole = pd.DataFrame(X, columns=NAMES)
    return dd.concat([dd.from_pandas(whole.iloc[:0], npartitions=1), frame(X)])


WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "one chunk": lambda X: da.from_array(X, chunks=X.shape),
    "even rows": lambda X: da.from_array(X, chunks=(100, D)),
    "uneven rows and columns": lambda X: da.from_array(X, chunks=((1, 250, 149), (2, 4, 3))),
    "unknown rows": unknown,
    "empty chunks": with_empty,
    "frame": frame,
    "frame with an empty partition": frame_with_empty,
}
ways = pytest.mark.parametrize("way", list(WAYS))


def weights() -> np.ndarray:
    return np.random.default_rng(3).integers(1, 5, N).astype(float)


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


# The rows ---------------------------------------------------------------------------------------


@ways
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
def test_rows_come_back_as_they_were(way: str, missing: bool) -> None:
    X = table(missing)
    source = as_dask_source(WAYS[way](X))
    np.testing.assert_array_equal(source.collect(), X)
    assert source.n_rows == N
    assert source.observed().rows == N
    assert source.has_missing is missing


@ways
def test_rows_know_their_number(way: str) -> None:
    """A statistic that asks where a block starts: rows of unknown number are counted first."""
    source = as_dask_source(WAYS[way](table(False)), block_rows=37)
    counted = source.map(lambda block: block.start + np.arange(block.n_rows))
    np.testing.assert_array_equal(counted, np.arange(N))
    known = way in ("one chunk", "even rows", "uneven rows and columns", "empty chunks")
    assert source.passes == (1 if known else 3)  # an attempt, counting, and the pass itself
    np.testing.assert_array_equal(
        source.sample(7, np.random.default_rng(1)),
        as_source(table(False)).sample(7, np.random.default_rng(1)),
    )


def test_a_first_sample_of_unknown_rows_takes_a_second_pass() -> None:
    X = table(True)
    source = as_dask_source(unknown(X))
    expected = as_source(X).sample(11, np.random.default_rng(5))
    np.testing.assert_array_equal(source.sample(11, np.random.default_rng(5)), expected)
    assert source.passes == 2
    source.sample(4, np.random.default_rng(5))
    assert source.passes == 2  # the beginning of the larger one


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?", ">f8"])
def test_types(dtype: str) -> None:
    X = (10 * table(False)).astype(dtype)
    for given in (da.from_array(X, chunks=(70, 4)), frame(X)):
        source = as_dask_source(given)
        expected = as_source(X)
        assert source.dtype == expected.dtype
        found = source.collect()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected.collect())


def test_nullable_frames_and_masked_chunks() -> None:
    X = table(True)
    nullable = pd.DataFrame(X, columns=NAMES).convert_dtypes()
    source = as_dask_source(dd.from_pandas(nullable, npartitions=3))
    np.testing.assert_array_equal(source.collect(), X)
    masked = da.ma.masked_greater(da.from_array(np.nan_to_num(X, nan=99.0), chunks=(90, D)), 90.0)
    np.testing.assert_array_equal(as_dask_source(masked).collect(), X)


def test_blocks_are_contiguous_and_bounded() -> None:
    source = as_dask_source(frame(table(False)), block_rows=30)

    def shape(block: Block) -> np.ndarray:
        assert block.values.flags.c_contiguous
        return np.full(block.n_rows, block.n_rows)

    assert source.map(shape).max() <= 30


def test_small_partitions_are_taken_together() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 2))
    source = as_dask_source(da.from_array(X, chunks=(5, 2)))
    assert len(source.units()) <= 100
    same(source.reduce(Moments.of).scatter, as_source(X).reduce(Moments.of).scatter)
    np.testing.assert_array_equal(source.collect(), X)


def test_columns_and_codes() -> None:
    X = table(False)
    X[::7, 2] = -999.0
    for given in (frame(X), da.from_array(X, chunks=(90, 4))):
        chosen = ["c", "a"] if hasattr(given, "columns") else [2, 0]
        source = as_dask_source(given, columns=chosen, missing_values=-999)
        expected = np.where(X == -999.0, np.nan, X)[:, [2, 0]]
        np.testing.assert_array_equal(source.collect(), expected)
    assert as_dask_source(frame(X), columns=["c", "a"]).names == ("c", "a")


# Fits -------------------------------------------------------------------------------------------


@ways
def test_pca(way: str) -> None:
    X = table(False)
    source = as_dask_source(WAYS[way](X))
    source.gather(ObservedCells.of, Moments.of)
    fit, expected = fit_pca(source, 3), fit_pca(as_source(X), 3)
    same(fit.U, expected.U)
    same(fit.spectrum.lam, expected.spectrum.lam)
    same(fit.mean, expected.mean)
    assert source.passes == 1


FITS: dict[str, Callable[[Any], Any]] = {
    "PPCA": lambda source: fit_ppca(source, 3),
    "factor analysis": lambda source: fit_factor_analysis(source, 3),
    "Bayesian PCA": lambda source: fit_bayesian(source, 4),
}


def covariance(model: Any) -> np.ndarray:
    return np.asarray(model.W @ model.W.T + np.diag(model.psi))


@pytest.mark.parametrize(
    "way", ["uneven rows and columns", "unknown rows", "frame with an empty partition"]
)
@pytest.mark.parametrize(
    ("missing", "weighted"),
    [(False, False), (True, False), (True, True)],
    ids=["complete", "gaps", "gaps and weights"],
)
@pytest.mark.parametrize("name", list(FITS))
def test_gaussian_fits(way: str, missing: bool, weighted: bool, name: str) -> None:
    X = table(missing)
    w = weights() if weighted else None
    source, expected = as_dask_source(WAYS[way](X), sample_weight=w), as_source(X, sample_weight=w)
    source.observed()
    before = source.passes
    fit, other = FITS[name](source), FITS[name](expected)
    assert_same_optimum(covariance(fit.model), covariance(other.model))
    assert_same_optimum(fit.model.mu, other.model.mu)
    assert fit.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-10)
    assert source.passes - before == expected.passes


@pytest.mark.parametrize("way", ["uneven rows and columns", "unknown rows", "frame"])
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "gaps"])
def test_mixture(way: str, missing: bool) -> None:
    X = table(missing)
    X[: N // 2] += 6.0
    source, expected = as_dask_source(WAYS[way](X)), as_source(X)
    source.observed()
    before = source.passes
    fit, other = (fit_mixture(s, 2, [2, 2], "isotropic") for s in (source, expected))
    order = np.argsort([c.mu[0] for c in fit.model.models])
    other_order = np.argsort([c.mu[0] for c in other.model.models])
    for a, b in zip(order, other_order, strict=True):
        assert_same_optimum(fit.model.models[a].mu, other.model.models[b].mu)
        assert_same_optimum(covariance(fit.model.models[a]), covariance(other.model.models[b]))
    assert source.passes - before == expected.passes


ESTIMATORS: dict[str, Callable[[], Any]] = {
    "PCA": lambda: PCA(3),
    "PPCA": lambda: PPCA(3),
    "FactorAnalysis": lambda: FactorAnalysis(3),
    "BayesianPCA": lambda: BayesianPCA(4),
    "MixturePPCA": lambda: MixturePPCA(2, 2, random_state=0),
}


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_estimators(name: str) -> None:
    """Fitted on Dask and asked on Dask: as in memory."""
    X = table(True)
    estimator, expected = ESTIMATORS[name](), ESTIMATORS[name]().fit(X)
    estimator.fit(as_dask_source(da.from_array(X, chunks=(70, 4))))
    asked = as_dask_source(unknown(X))
    assert_same_optimum(estimator.transform(asked), expected.transform(X))
    assert asked.passes <= 2
    assert_same_optimum(estimator.score_samples(asked), expected.score_samples(X))


def test_missing_are_told_to_pca() -> None:
    with pytest.raises(HasMissing):
        fit_pca(as_dask_source(frame(table(True))), 2)


def test_what_is_too_large_to_keep_is_prepared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from eigengap.sources.dask import cluster

    X = table(True)
    monkeypatch.setattr(cluster, "most_kept", lambda: 0.0)
    fit = fit_ppca(as_dask_source(frame(X)), 3, solver="em")
    assert_same_optimum(
        covariance(fit.model), covariance(fit_ppca(as_source(X), 3, solver="em").model)
    )


# Weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "series", "dask array", "dask series"])
@pytest.mark.parametrize("way", ["even rows", "unknown rows", "frame"])
def test_weights_of_every_kind(way: str, kind: str) -> None:
    X, w = table(True), weights()
    w[::5] = 0.0  # as if absent
    given = WAYS[way](X)
    lengths = tuple(len(part) for part in dask.compute(*np.ravel(given.to_delayed())[:99]))
    if given.ndim == 2 and hasattr(given, "numblocks"):
        lengths = tuple(len(p) for p in dask.compute(*given.to_delayed()[:, 0]))
    made: dict[str, Callable[[], Any]] = {
        "array": lambda: w,
        "series": lambda: pd.Series(w),
        "dask array": lambda: da.from_array(w, chunks=(lengths,)),
        "dask series": lambda: dd.from_dask_array(da.from_array(w, chunks=(lengths,))),
    }
    source = as_dask_source(given, sample_weight=made[kind]())
    found = source.reduce(ColumnMoments.of)
    expected = as_source(X[w > 0], sample_weight=w[w > 0])
    same(found.mean, expected.reduce(ColumnMoments.of).mean)
    same(found.m2, expected.reduce(ColumnMoments.of).m2)
    assert source.observed().rows == np.count_nonzero(w)
    np.testing.assert_array_equal(source.collect(), X[w > 0])
    np.testing.assert_array_equal(
        source.sample(6, np.random.default_rng(2)), expected.sample(6, np.random.default_rng(2))
    )


def test_weights_are_computed_only_if_asked_for() -> None:
    X, w = table(True), weights()
    w[::9] = 0.0
    source = as_dask_source(frame(X), sample_weight=w)
    source.observed()
    before = source.passes
    rescaled = Rescaled(source, np.full(D, 2.0))
    assert source.passes == before
    np.testing.assert_array_equal(rescaled.weight, w[w > 0])
    assert len(source.weight) == len(source.collect())


def test_one_weight_for_all() -> None:
    moments = as_dask_source(frame(table(False)), sample_weight=2.0).reduce(Moments.of)
    assert moments.sum_w == 2.0 * N


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (np.ones(N - 1), f"sample_weight has {N - 1} entries but X has {N} rows"),
        (np.ones((N, 1)), "1D array or scalar"),
        (np.r_[np.ones(N - 1), -1.0], "not negative: -1.0 at row 399"),
        (np.zeros(N), "zero in every row"),
    ],
    ids=["short", "column", "negative", "zero"],
)
@pytest.mark.parametrize(
    ("way", "lazy"),
    [("even rows", False), ("unknown rows", False), ("even rows", True)],
    ids=["array", "array, unknown rows", "dask"],
)
def test_bad_weights(way: str, lazy: bool, w: np.ndarray, message: str) -> None:
    given = da.from_array(w, chunks=100) if lazy else w
    with pytest.raises(ValueError, match=message):
        as_dask_source(WAYS[way](table(False)), sample_weight=given).observed()


def test_weights_of_other_partitions() -> None:
    with pytest.raises(ValueError, match="sample_weight has 2 partitions but X has 5"):
        as_dask_source(frame(table(False)), sample_weight=da.ones(N, chunks=200))
    uneven = da.ones(N, chunks=((70, 90, 80, 80, 80),))
    with pytest.raises(PartitionError, match=r"partition [01] .* has 80 rows, .* has [79]0"):
        as_dask_source(frame(table(False)), sample_weight=uneven).observed()


# Passes -----------------------------------------------------------------------------------------


@ways
def test_several_statistics_in_one_pass(way: str) -> None:
    X = table(True)
    source = as_dask_source(WAYS[way](X))
    source.gather(ObservedCells.of, ColumnMoments.of)
    assert source.passes == 1
    same(source.reduce(ColumnMoments.of).mean, np.nanmean(X, axis=0))
    np.testing.assert_array_equal(source.observed().per_column, (~np.isnan(X)).sum(axis=0))
    assert source.passes == 1


def test_each_partition_is_computed_once_a_pass() -> None:
    loads: list[int] = []

    def load(chunk: np.ndarray, block_info: Any = None) -> np.ndarray:
        loads.append(len(chunk))
        return chunk

    array = da.from_array(table(False), chunks=(100, D)).map_blocks(
        load, dtype=float, meta=np.empty((0, 0))
    )
    source = as_dask_source(array)
    fit_pca(source, 2)
    assert sum(loads) == N
    loads.clear()
    fit_ppca(source, 2, solver="em")
    passes_over_the_raw_rows = 2 + 1  # of columns and of seen cells; once to be prepared
    assert sum(loads) == passes_over_the_raw_rows * N


# The tree of merges -----------------------------------------------------------------------------


class Word:
    """A merge that shows its order."""

    def __init__(self, text: str) -> None:
        self.text = text

    def merge(self, other: Word) -> Word:
        return Word(f"({self.text} {other.text})")


@pytest.mark.parametrize("n", range(1, 20))
def test_any_order_climbs_the_same_tree(n: int) -> None:
    words = [Word(str(i)) for i in range(n)]
    expected = merge_tree(list(words)).text
    rng = np.random.default_rng(n)
    for _ in range(5):
        order = rng.permutation(n)
        cuts = np.sort(rng.integers(0, n + 1, 3))
        forests = [
            Forest(n, {(0, int(i)): words[i] for i in some}) for some in np.split(order, cuts)
        ]
        assert Forest.together(forests).root().text == expected


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "where"),
    [
        ("even rows", "partition 2 of the Dask table: .*inf at row 250, column 4"),
        ("unknown rows", "partition 2 of the Dask table, its rows counted from 0: .*inf at row 71"),
        ("frame", 'partition 3 of the Dask table, its rows counted from 0: .*column "e"'),
    ],
    ids=["even", "unknown", "frame"],
)
def test_infinity_is_named(way: str, where: str) -> None:
    X = table(True)
    X[250, 4] = np.inf
    with pytest.raises(PartitionError, match=where):
        as_dask_source(WAYS[way](X)).observed()


def test_text_is_told_before_anything_is_computed() -> None:
    def explode(part: Any) -> Any:
        raise AssertionError("computed")

    whole = pd.DataFrame(table(False), columns=NAMES)
    whole["word"] = "text"
    whole["kind"] = pd.Categorical(["x", "y"] * (N // 2))
    whole["when"] = pd.Timestamp("2020-01-01")
    given = dd.from_pandas(whole, npartitions=3)
    given = given.map_partitions(explode, meta=given._meta)
    message = r'"word" \(text\), "kind" \(categorical\), "when" \(date or time\)'
    with pytest.raises(ValueError, match=message):
        as_dask_source(given)
    assert as_dask_source(given, columns=NAMES).names == tuple(NAMES)


def test_objects_are_looked_at_where_they_lie() -> None:
    with dask.config.set({"dataframe.convert-string": False}):
        whole = pd.DataFrame({"a": np.arange(6.0), "b": np.array([1, 2, None, 4, 5, 6], object)})
        given = dd.from_pandas(whole, npartitions=2, sort=False)
        found = as_dask_source(given).collect()
        np.testing.assert_array_equal(found[:, 1], [1, 2, np.nan, 4, 5, 6])
        whole["b"] = np.array([1, 2, 3, 4, "five", 6], object)
        given = dd.from_pandas(whole, npartitions=2, sort=False)
        with pytest.raises(PartitionError, match=r'partition 1 .*"b" .*"five" at row 1'):
            as_dask_source(given).observed()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: da.ones(5, chunks=2), "Expected 2D array, got 1D"),
        (lambda: da.ones((2, 3, 4), chunks=2), "dim 3"),
        (lambda: frame(table(False))["a"], "to_frame"),
        (lambda: da.ones((4, 3), chunks=2) + 1j, "Complex"),
        (lambda: da.from_array(np.array([["a", "b"]]), chunks=1), "not numeric"),
        (lambda: da.ones((0, 3), chunks=2), r"0 sample\(s\)"),
        (lambda: frame(table(False))[[]], r"0 feature\(s\)"),
        (lambda: dask.delayed(1), "two-dimensional"),
        (lambda: unknown(table(False)).T, "compute_chunk_sizes"),
    ],
    ids=["1d", "3d", "series", "complex", "text", "no rows", "no columns", "delayed", "width"],
)
def test_what_is_no_table(make: Callable[[], Any], message: str) -> None:
    given = make()
    assert is_dask(given)
    with pytest.raises(ValueError, match=message):
        as_dask_source(given)


def test_no_row_at_all_shows_when_it_is_computed() -> None:
    array = da.from_array(table(False), chunks=(100, D))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        as_dask_source(array[array[:, 0] > 1e9]).observed()


def test_a_chunk_of_another_width() -> None:
    def narrower(chunk: np.ndarray, block_info: Any = None) -> np.ndarray:
        return chunk[:, :-1] if block_info[0]["chunk-location"][0] == 2 else chunk

    array = da.from_array(table(False), chunks=(100, D)).map_blocks(
        narrower, dtype=float, meta=np.empty((0, 0))
    )
    with pytest.raises(PartitionError, match=r"partition 2 .* has 8 columns, and the table has 9"):
        as_dask_source(array).observed()


def test_rows_that_change_from_pass_to_pass() -> None:
    calls: list[int] = []

    def moody(part: Any) -> Any:
        calls.append(1)
        return part.iloc[: len(part) - len(calls)]

    given = frame(table(False)).partitions[0]
    source = as_dask_source(given.map_partitions(moody, meta=given._meta))
    source.observed()
    with pytest.raises(PartitionError, match=r"partition 0 .* had 79 rows and now has 78"):
        source.reduce(Moments.of)


def test_what_does_not_fit_is_refused_before_it_is_computed() -> None:
    huge = da.zeros((10**9, 100), chunks=(10**6, 100))
    source = as_dask_source(huge)
    assert not source.fits_in_memory
    with pytest.raises(DoesNotFitError, match=r"800\.0 GB"):
        source.collect()
    assert source.passes == 0


def test_looking_imports_no_dask() -> None:
    code = (
        "import sys; from eigengap.sources.dask import is_dask; import numpy; "
        "assert not is_dask(numpy.ones(3)) and not is_dask([1]); "
        "assert 'dask' not in sys.modules and 'distributed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("d", "q", "parts", "bundles"), [(20, 3, 8, 4), (40, 6, 16, 8)])
def test_a_step_sends_what_the_documentation_says(d, q, parts, bundles):
    """docs/dask.md: bytes of parameters and of statistics, and how many there are."""
    from eigengap.sources.dask import cluster, tasks

    rng = np.random.default_rng(0)
    K = (q + 1) * (q + 2) // 2
    coefficients = Coefficients(rng.normal(size=(d, q)), np.zeros(d), np.ones(d))
    work = tasks.Statistics((partial(Expected.of, coefficients=coefficients),))
    parameters = len(cluster.Sent(work).payload)
    assert 0 < parameters - 8 * d * (q + 2) < 2000
    X = rng.normal(size=(20, d))
    X[0, 0] = np.nan
    rows = [prepare_rows(X, None, np.zeros(d), None, q)]
    sent = 0
    for of_bundle in np.split(np.arange(parts), bundles):
        ready = tasks.Ready(parts, dict.fromkeys(of_bundle.tolist(), rows))
        forest = tasks.statistics_of(work, ready)
        assert len(forest.trees) == 1
        sent += len(pickle.dumps(forest))
    statistic = 8 * d * (K + q + 2)
    assert 0 < sent - bundles * statistic < 1000 * bundles
