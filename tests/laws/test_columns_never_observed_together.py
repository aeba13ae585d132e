"""Columns that no row shows together (data fusion, split questionnaires): fits find the maximum.

The covariance of such columns is unknown, not zero. A start that takes it for zero has loadings of
zero in all blocks of columns but one: a saddle, where the gradient is zero too.
"""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.csgraph import connected_components
from tests.random_tables import climbed, noise_floor

import eigengap as eg
from eigengap.fitting.gaussian import start as spectral_start
from eigengap.fitting.gaussian.start import PairCounts
from eigengap.models.gaussian.observed_rows import prepare_rows
from eigengap.sources.conversion import as_source
from eigengap.statistics.first_look import Linked, linked

NOISE = {eg.PCA: "isotropic", eg.PPCA: "isotropic", eg.FactorAnalysis: "diagonal"}
SHORT = 1e-4  # nats per row


def blocks(seed, sizes, n=120, q=1, share=0.0):
    """Rows of a q-factor model, each of which shows one block of columns."""
    rng = np.random.default_rng(seed)
    d = sum(sizes)
    W = rng.choice([-1.0, 1.0], size=(d, q)) * rng.uniform(0.8, 2.0, size=(d, q))
    X = rng.normal(size=(n, q)) @ W.T + 0.4 * rng.normal(size=(n, d))
    block = np.repeat(np.arange(len(sizes)), sizes)
    X[(np.arange(n) % len(sizes))[:, None] != block] = np.nan
    X[rng.random(X.shape) < share] = np.nan
    return X[~np.isnan(X).all(axis=1)]


def best_of_many(X, w, q, noise, starts=4):
    """Nats per row that L-BFGS reaches from random starts, by dense covariances."""
    rng = np.random.default_rng(0)
    mu, variance = np.nanmean(X, axis=0), np.nanvar(X, axis=0)
    floor = noise_floor(X, w, noise)
    psi = variance / 2 if noise == "diagonal" else np.full(X.shape[1], np.mean(variance) / 2)
    ends = []
    for _ in range(starts):
        W = rng.normal(size=(X.shape[1], q)) * np.sqrt(variance / 2 / q)[:, None]
        ends.append(climbed(X, w, mu, W, psi, floor, noise, max_iter=200).after)
    return max(ends)


def per_row(model, X, w):
    return float(w @ model.model_.log_likelihood(X)) / float(np.sum(w))


@pytest.mark.parametrize("kind", NOISE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    ("sizes", "n", "q", "share"),
    [((3, 1), 80, 1, 0.0), ((3, 3), 400, 1, 0.0), ((4, 3), 400, 2, 0.1), ((3, 3, 2), 420, 1, 0.1)],
)
def test_the_fit_is_no_worse_than_the_best_of_many_starts(kind, sizes, n, q, share):
    X = blocks(sum(sizes) + q, sizes, n, q, share)
    w = np.ones(len(X))
    model = kind(q).fit(X)
    assert model.converged_
    assert per_row(model, X, w) >= best_of_many(X, w, q, NOISE[kind]) - SHORT


def test_weights_count():
    X = blocks(2, (3, 2))
    w = np.random.default_rng(0).uniform(0.2, 3.0, size=len(X))
    model = eg.PPCA(1).fit(X, sample_weight=w)
    assert per_row(model, X, w) >= best_of_many(X, w, 1, "isotropic") - SHORT


def test_the_subspace_start_finds_it_too(monkeypatch):
    """Beyond DIRECT columns no d x d matrix is formed."""
    X = blocks(3, (4, 3, 1), share=0.1)
    w = np.ones(len(X))
    monkeypatch.setattr(spectral_start, "DIRECT", 0)
    for kind in (eg.PPCA, eg.FactorAnalysis):
        model = kind(1).fit(X)
        assert per_row(model, X, w) >= best_of_many(X, w, 1, NOISE[kind]) - SHORT


def test_known_and_student_noise_find_it_too():
    X = blocks(4, (3, 3), n=200)
    sd = np.full(X.shape, 0.2)
    for fit in (
        lambda n_init: eg.PPCA(1, distribution="student", n_init=n_init).fit(X),
        lambda n_init: eg.PPCA(1, n_init=n_init).fit(X, cell_sd=sd),
    ):
        one, many = fit(1), fit(6)
        assert one.log_likelihood_ >= many.log_likelihood_ - SHORT * len(X)
        assert np.all(np.abs(one.model_.W) > 0.1)


def test_bayesian_pca_keeps_the_loadings_of_every_block():
    X = blocks(5, (4, 4), n=200)
    assert np.all(np.abs(eg.BayesianPCA(1).fit(X).bayesian_.W) > 0.1)


def test_a_mixture_of_one_is_ppca():
    X = blocks(6, (4, 3), n=200)
    mixture = eg.MixturePPCA(1, 1).fit(X)
    assert mixture.score(X) >= eg.PPCA(1).fit(X).score(X) - SHORT


@pytest.mark.parametrize("kind", [eg.PPCA, eg.FactorAnalysis], ids=lambda kind: kind.__name__)
def test_a_few_rows_that_link_the_blocks_are_heeded(kind):
    """Two rows show all columns: they decide how the blocks go together."""
    X = blocks(7, (3, 3), n=160)
    X[:2] = np.random.default_rng(7).normal(size=(2, 1)) * [2.0, -1.5, 1.0, 1.5, -2.0, 1.0]
    w = np.ones(len(X))
    model = kind(1).fit(X)
    assert per_row(model, X, w) >= best_of_many(X, w, 1, NOISE[kind]) - SHORT


def test_the_order_of_rows_and_columns_does_not_matter():
    X = blocks(8, (3, 3, 1), q=2, n=200)
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    for kind in NOISE:
        a, b = kind(2).fit(X), kind(2).fit(X[rows][:, columns])
        assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, abs=SHORT * len(X))


# The statistics ----------------------------------------------------------------------------


def masked(seed, n, d, missing):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < missing] = np.nan
    X[: n // 3] = X[0]  # a shared pattern
    return X, rng.integers(0, 4, size=n).astype(float)


@pytest.mark.parametrize("missing", [0.0, 0.2, 0.6, 0.97])
@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_are_counted(missing, weighted):
    X, w = masked(1, 900, 12, missing)
    X[:, 3] = 1.0
    m = (~np.isnan(X)).astype(float)
    expected = m.T @ (m * w[:, None] if weighted else m)
    prepare = partial(prepare_rows, shift=np.zeros(12), scale=None, q=3)
    parts = [
        PairCounts.of(prepare(X[at], w[at] if weighted else None))
        for at in (slice(0, 500), slice(500, None))
    ]
    np.testing.assert_allclose(parts[0].merge(parts[1]).value, expected)


@pytest.mark.parametrize("missing", [0.3, 0.9, 0.99])
def test_components_are_those_of_the_pairs(missing):
    for seed in range(5):
        X, _ = masked(seed, 60, 15, missing)
        X[0, :2] = 1.0
        m = ~np.isnan(X)
        prepare = partial(prepare_rows, weight=None, shift=np.zeros(15), scale=None, q=1)
        got = Linked.of(prepare(X[:25])).merge(Linked.of(prepare(X[25:]))).labels
        expected = linked((m.T.astype(int) @ m.astype(int)) > 0)
        np.testing.assert_array_equal(got[:, None] == got, expected[:, None] == expected)


WARNING = {
    "PPCA": lambda: eg.PPCA(1),
    "FactorAnalysis": lambda: eg.FactorAnalysis(1),
    "BayesianPCA": lambda: eg.BayesianPCA(1),
    "MixturePPCA": lambda: eg.MixturePPCA(2, 1, random_state=0),
    "LowRankImputer": lambda: eg.LowRankImputer(eg.PPCA(1)),
    "Whitener": lambda: eg.Whitener(),
    "ICA": lambda: eg.ICA(2, random_state=0),
}


@pytest.mark.parametrize("name", WARNING)
@pytest.mark.filterwarnings("ignore")
def test_groups_that_nothing_links_are_named(name):
    """The sign of one group against another has no trace in the data."""
    X = pd.DataFrame(blocks(0, (3, 2), 200, 1, 0.1), columns=list("abcde"))
    said = r'2 groups.*columns "a", "b", "c"; columns "d", "e"'
    with pytest.warns(eg.exceptions.UnlinkedColumnsWarning, match=said):
        WARNING[name]().fit(X)


@pytest.mark.parametrize("n", [60, 3000])
def test_one_row_that_links_all_columns_is_enough(n):
    """In a table of more rows than a sample holds, too; read as a whole or in blocks."""
    X = blocks(0, (3, 2), n, 1, 0.1)
    X[n // 2] = 1.0
    for table in (X, as_source(X, block_rows=50)):
        with warnings.catch_warnings():
            warnings.simplefilter("error", eg.exceptions.UnlinkedColumnsWarning)
            eg.PPCA(1).fit(table)
    X[n // 2, :3] = np.nan
    for table in (X, as_source(X, block_rows=50)):
        with pytest.warns(eg.exceptions.UnlinkedColumnsWarning):
            eg.PPCA(1).fit(table)


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_those_of_the_graph_of_pairs(seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((12, 9)) < 0.15, 1.0, np.nan)
    M = ~np.isnan(X)
    pairs = M.astype(int).T @ M.astype(int) > 0
    expected = connected_components(pairs | np.eye(9, dtype=bool))[1]
    found = as_source(X, block_rows=5).reduce(Linked.of_block).labels
    np.testing.assert_array_equal(found[:, None] == found, expected[:, None] == expected)
