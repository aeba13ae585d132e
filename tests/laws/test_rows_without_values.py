"""A row without any observed value, or of weight 0, changes nothing.

It says nothing about the columns, so that every fit, choice, interval and score must be what it is
without the row, wherever in the table the row stands. What describes each row of the table (the
shape of an embedding, the class prior, which counts labels) is the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import eigengap as eg
from eigengap.sources.conversion import as_source

pytestmark = pytest.mark.filterwarnings("ignore")

TABLES = ("complete", "incomplete")
N, D = 32, 5

Table = NDArray[np.float64]


def make(kind: str, n: int = N, d: int = D, share: float = 0.25, seed: int = 4) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.4 * rng.normal(size=(n, d)) + 1.0
    if kind == "incomplete":
        X[rng.random((n, d)) < share] = np.nan
        X[np.isnan(X).all(axis=1), 0] = 1.0
    return X


def places(n: int) -> list[int]:
    """Where rows are inserted into a table of n: before, between and after its own."""
    return [0, n // 3, n // 3, n]


def with_rows(X: Table, value: float = np.nan) -> Table:
    return np.insert(X, places(len(X)), value, axis=0)


def numbers(thing: Any, name: str = "", known: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every number, array and string in what a fit left behind, by name."""
    known = set() if known is None else known
    if isinstance(thing, np.ndarray | np.generic | float | int | str) or thing is None:
        yield name, thing
    elif id(thing) not in known:
        known.add(id(thing))
        if isinstance(thing, Mapping):
            inside = {str(key): value for key, value in thing.items()}
        elif isinstance(thing, list | tuple):
            inside = {str(i): value for i, value in enumerate(thing)}
        else:
            inside = dict(getattr(thing, "__dict__", {}))
        for key, value in inside.items():
            if "trace" not in key and "seconds" not in key:
                yield from numbers(value, f"{name}.{key}", known)


def assert_same(found: Any, expected: Any) -> None:
    """The same numbers, to the rounding of sums whose blocks differ."""
    here, there = dict(numbers(found)), dict(numbers(expected))
    assert here.keys() == there.keys()
    for name, value in there.items():
        if np.asarray(value).dtype.kind == "f":
            size = float(np.max(np.abs(value), initial=1.0, where=np.isfinite(value)))
            np.testing.assert_allclose(here[name], value, rtol=1e-6, atol=1e-8 * size, err_msg=name)
        else:
            np.testing.assert_array_equal(here[name], value, err_msg=name)


FITS: dict[str, Callable[[], Any]] = {
    "PCA": lambda: eg.PCA(2),
    "PCA auto": lambda: eg.PCA("auto"),
    "PCA share": lambda: eg.PCA(0.8),
    "PPCA": lambda: eg.PPCA(2),
    "PPCA auto": lambda: eg.PPCA("auto"),
    "PPCA scaled": lambda: eg.PPCA(2, scale=True),
    "PPCA Student": lambda: eg.PPCA(1, distribution="student"),
    "FactorAnalysis": lambda: eg.FactorAnalysis(2),
    "FactorAnalysis starts": lambda: eg.FactorAnalysis(2, n_init=3, random_state=0),
    "FactorAnalysis auto": lambda: eg.FactorAnalysis("auto"),
    "BayesianPCA": lambda: eg.BayesianPCA(),
    "BayesianPCA diagonal": lambda: eg.BayesianPCA(noise="diagonal"),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 1, random_state=0),
    "MixturePPCA auto": lambda: eg.MixturePPCA(2, random_state=0),
    "LowRankImputer": lambda: eg.LowRankImputer(random_state=0),
    "NoveltyDetector": lambda: eg.NoveltyDetector(),
    "NoveltyDetector share": lambda: eg.NoveltyDetector(eg.PPCA(1), contamination=0.1),
    "ICA": lambda: eg.ICA(2, random_state=0),
    "Whitener": lambda: eg.Whitener(),
    "KernelPCA": lambda: eg.KernelPCA(2, kernel="rbf"),
    "KernelPCA linear": lambda: eg.KernelPCA(2),
    "ClassicalMDS": lambda: eg.ClassicalMDS(2),
}

# Methods of neighbours and of latent points keep coordinates of every row of the table.
EMBEDDINGS: dict[str, Callable[[], Any]] = {
    "ClassicalMDS": lambda: eg.ClassicalMDS(2),
    "KernelPCA": lambda: eg.KernelPCA(2, kernel="rbf"),
    "Isomap": lambda: eg.Isomap(2),
    "Isomap landmarks": lambda: eg.Isomap(2, landmarks=8, random_state=0),
    "Isomap radius": lambda: eg.Isomap(2, n_neighbors=None, radius=3.0),
    "LaplacianEigenmaps": lambda: eg.LaplacianEigenmaps(2),
    "LaplacianEigenmaps rbf": lambda: eg.LaplacianEigenmaps(2, affinity="rbf"),
    "MaximumVarianceUnfolding": lambda: eg.MaximumVarianceUnfolding(2),
    "StructurePreservingEmbedding": lambda: eg.StructurePreservingEmbedding(2),
}

WEIGHTED = (
    "PCA", "PPCA", "PPCA Student", "FactorAnalysis", "BayesianPCA", "MixturePPCA",
    "LowRankImputer", "NoveltyDetector", "Whitener", "KernelPCA", "ClassicalMDS",
)  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", FITS)
def test_a_fit(name: str, kind: str) -> None:
    X = make(kind)
    found, expected = FITS[name]().fit(with_rows(X)), FITS[name]().fit(X)
    for one in (found, expected):
        one.__dict__.pop("embedding_", None)
        one.__dict__.pop("present_", None)
    assert_same(vars(found), vars(expected))


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_fit_with_rows_of_weight_zero(name: str) -> None:
    X = make("incomplete")
    w = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    Y, v = with_rows(X, 1e4), np.insert(w, places(len(X)), 0.0)
    found = FITS[name]().fit(Y, sample_weight=v)
    expected = FITS[name]().fit(X, sample_weight=w)
    for one in (found, expected):
        one.__dict__.pop("embedding_", None)
        one.__dict__.pop("present_", None)
    assert_same(vars(found), vars(expected))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_coordinates_of_the_other_rows(name: str, kind: str) -> None:
    X = make(kind, n=20, share=0.1)
    Y = with_rows(X)
    observed = ~np.isnan(Y).all(axis=1)
    found, expected = EMBEDDINGS[name](), EMBEDDINGS[name]()
    Z = found.fit_transform(Y)
    assert Z.shape == (len(Y), 2)
    np.testing.assert_allclose(Z[observed], expected.fit_transform(X), rtol=1e-6, atol=1e-8)
    if hasattr(found, "embedding_"):
        np.testing.assert_array_equal(found.embedding_, Z)
    new = make("complete", n=4, seed=9)
    np.testing.assert_allclose(found.transform(new), expected.transform(new), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("metric", ["nan_euclidean", "euclidean"])
def test_a_row_that_cannot_be_placed_has_no_coordinates(metric: str) -> None:
    Y = with_rows(make("complete"))
    Z = eg.Isomap(2, metric=metric).fit_transform(Y)
    empty = np.isnan(Y).all(axis=1)
    assert np.all(np.isfinite(Z[~empty]))
    assert np.all(np.isnan(Z[empty]) == (metric == "nan_euclidean"))


def test_such_rows_are_named() -> None:
    with pytest.warns(
        eg.exceptions.UncertainNeighboursWarning, match=r"4 rows have no observed value \(row"
    ):
        eg.Isomap(2).fit(with_rows(make("complete")))


def test_latent_points() -> None:
    pytest.importorskip("jax")
    X = make("complete", n=12)
    Y = with_rows(X)
    found, expected = (eg.GPLVM(1, max_iter=2, random_state=0).fit(T) for T in (Y, X))
    Z = found.embedding_[~np.isnan(Y).all(axis=1)]
    np.testing.assert_allclose(Z, expected.embedding_, rtol=1e-6, atol=1e-8)
    assert found.score(Y) == pytest.approx(expected.score(X), rel=1e-6)


def test_an_autoencoder() -> None:
    pytest.importorskip("jax")
    X = make("incomplete")
    how = {"hidden": (4,), "max_iter": 3, "random_state": 0}
    found, expected = (eg.Autoencoder(1, **how).fit(T) for T in (with_rows(X), X))
    assert_same(found.model_, expected.model_)
    assert found.noise_std_ == pytest.approx(expected.noise_std_)


FUNCTIONS: dict[str, Callable[[Table], Any]] = {
    "choose_rank": lambda X: eg.choose_rank(X),
    "asymptotic": lambda X: eg.confidence_intervals(eg.PPCA(1), X, method="asymptotic"),
    "bootstrap": lambda X: eg.confidence_intervals(eg.PPCA(1), X, method="bootstrap", n_boot=4),
    "parametric": lambda X: eg.confidence_intervals(eg.PPCA(1), X, method="parametric", n_boot=4),
    "test": lambda X: eg.likelihood_ratio_test(eg.PPCA(1), eg.FactorAnalysis(1), X),
    "test by bootstrap": lambda X: eg.likelihood_ratio_test(eg.PPCA(1), eg.PPCA(2), X, n_boot=3),
    "compare": lambda X: _compared(X),
    "low_rank": lambda X: _approximated(X, 2),
    "low_rank share": lambda X: _approximated(X, 0.9),
    "low_rank auto": lambda X: _approximated(X, "auto"),
    "partial_fit": lambda X: _in_batches(eg.PPCA(2), X),
    "partial_fit of factors": lambda X: _in_batches(eg.FactorAnalysis(2), X),
    "regressor": lambda X: vars(eg.PPCARegressor().fit(X[:, :-1], X[:, -1])),
    "classifier": lambda X: _classified(X, [0.5, 0.5]),
}


def _compared(X: Table) -> Any:
    found = eg.compare([eg.PPCA(1), eg.FactorAnalysis(1)], X, cv=3)
    return {name: value for name, value in vars(found).items() if "second" not in name}


def _approximated(X: Table, k: Any) -> Any:
    found = eg.low_rank(X, k)
    observed = ~np.isnan(X).all(axis=1)
    filled = found.fill(X)
    assert np.isfinite(filled).all()
    U = found.U[observed] * found.s
    return found.s, found.Vt, U, found.error, found.relative_error, filled[observed]


def _in_batches(model: Any, X: Table) -> Any:
    for batch in np.array_split(X, 9):
        model.partial_fit(batch)
    left = {name: getattr(model, name) for name in ("model_", "spectrum_", "evidence_")}
    return {**left, "seen": model.n_samples_seen_, "log_likelihood": model.log_likelihood_}


def _classified(X: Table, priors: Any) -> Any:
    empty = np.isnan(X).all(axis=1)
    labels = np.zeros(len(X), dtype=int)
    labels[~empty] = np.arange(np.sum(~empty)) % 2
    return vars(eg.PPCAClassifier(priors=priors).fit(X, labels))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name: str, kind: str) -> None:
    X = make(kind)
    assert_same(FUNCTIONS[name](with_rows(X)), FUNCTIONS[name](X))


def test_folds_that_are_given_count_all_rows_of_the_table() -> None:
    X = make("incomplete")
    n = len(X)
    half = np.arange(n) < n // 2
    models = [eg.PPCA(1), eg.FactorAnalysis(1)]
    expected = eg.compare(models, X, cv=[(half, ~half), (~half, half)])
    Y = with_rows(X)
    empty, at = np.flatnonzero(np.isnan(Y).all(axis=1)), np.flatnonzero(~np.isnan(Y).all(axis=1))
    folds = [
        (at[half], np.append(empty, at[~half])),
        (np.append(at[~half], empty), at[half]),
    ]
    found = eg.compare(models, Y, cv=folds)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-9)


def test_a_label_of_such_a_row_counts_in_the_prior_alone() -> None:
    X = make("incomplete")
    found, expected = _classified(with_rows(X), None), _classified(X, None)
    prior, before = found.pop("class_prior_"), expected.pop("class_prior_")
    assert_same(found, expected)
    np.testing.assert_allclose(prior, (before * N + [4, 0]) / (N + 4))


def test_a_class_of_such_rows_alone_is_refused() -> None:
    X = with_rows(make("complete"))
    with pytest.raises(ValueError, match='class "b" has no row with an observed value'):
        eg.PPCAClassifier().fit(X, np.where(np.isnan(X[:, 0]), "b", "a"))


def test_an_observed_target_counts() -> None:
    X = make("complete")
    Y = with_rows(X)
    y = np.where(np.isnan(Y[:, -1]), 50.0, Y[:, -1])
    with_target = eg.PPCARegressor(1).fit(Y[:, :-1], y).estimator_.mean_[-1]
    assert with_target > eg.PPCARegressor(1).fit(X[:, :-1], X[:, -1]).estimator_.mean_[-1] + 1.0


SCORED: dict[str, Callable[[], Any]] = {
    "PCA": lambda: eg.PCA(2),
    "PPCA": lambda: eg.PPCA(2),
    "FactorAnalysis": lambda: eg.FactorAnalysis(2),
    "BayesianPCA": lambda: eg.BayesianPCA(),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 1, random_state=0),
}


@pytest.mark.parametrize("name", SCORED)
def test_the_mean_score(name: str) -> None:
    X = make("incomplete")
    model = SCORED[name]().fit(X)
    assert model.score(with_rows(X)) == pytest.approx(model.score(X), rel=1e-12)
    assert model.score(np.full((2, D), np.nan)) == 0.0


def _from_file(X: Table, folder: Path) -> Any:
    np.save(folder / "table.npy", X)
    return eg.open_source(folder / "table.npy", block_rows=7)


def _on_dask(X: Table, folder: Path) -> Any:
    array = pytest.importorskip("dask.array")
    return array.from_array(X, chunks=(7, D))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("lies", [_from_file, _on_dask])
@pytest.mark.parametrize("name", ["PCA", "PPCA", "FactorAnalysis", "MixturePPCA", "ICA"])
def test_a_table_that_is_read_in_blocks(name: str, lies: Any, kind: str, tmp_path: Path) -> None:
    # Blocks hold other rows then, so that an iteration may end a little elsewhere.
    X = make(kind)
    found = FITS[name]().fit(lies(with_rows(X), tmp_path))
    expected = FITS[name]().fit(lies(X, tmp_path))
    read = {"ICA": "components_", "MixturePPCA": "means_"}.get(name, "loadings_")
    np.testing.assert_allclose(getattr(found, read), getattr(expected, read), rtol=1e-4, atol=1e-4)
    if read == "loadings_":
        assert found.spectrum_.sum_w == expected.spectrum_.sum_w == N


@pytest.mark.parametrize("lies", [_from_file, _on_dask])
def test_blocks_of_such_rows_alone(lies: Any, tmp_path: Path) -> None:
    X = make("complete")
    Y = np.insert(X, np.repeat([0, 20, N], 21), np.nan, axis=0)
    source = as_source(lies(Y, tmp_path)).present()
    np.testing.assert_array_equal(source.collect(), X)
    assert source.observed().rows == N
    np.testing.assert_array_equal(
        source.sample(9, np.random.default_rng(3)),
        as_source(X).sample(9, np.random.default_rng(3)),
    )


@pytest.mark.parametrize("lies", [_from_file, _on_dask, lambda X, _: X])
def test_a_table_of_such_rows_alone_is_refused(lies: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no value in columns 0, 1"):
        eg.PPCA(1).fit(lies(np.full((20, D), np.nan), tmp_path))


def test_batches_of_such_rows_alone() -> None:
    X, empty = make("incomplete"), np.full((5, D), np.nan)
    model = eg.PPCA(2).partial_fit(empty)
    for batch in (X[:20], empty, X[20:], empty):
        model.partial_fit(batch)
    assert model.n_samples_seen_ == N
    np.testing.assert_allclose(
        model.get_covariance(), eg.PPCA(2).fit(X).get_covariance(), rtol=1e-4, atol=1e-4
    )


def test_an_optimum_that_such_rows_moved() -> None:
    # Five of them took FactorAnalysis to another optimum in 20 of 120 such tables.
    for seed in (0, 1, 9, 14):
        X = make("incomplete", n=40, d=6, share=0.5, seed=seed)
        found = eg.FactorAnalysis(2).fit(np.vstack([X, np.full((5, 6), np.nan)]))
        np.testing.assert_allclose(found.impute(X), eg.FactorAnalysis(2).fit(X).impute(X))
