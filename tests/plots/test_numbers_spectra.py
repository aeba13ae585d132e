"""Eigenvalues, their gap, and the law of noise, by simulation and quadrature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

import eigengap as eg
from eigengap.plots.numbers import MarchenkoPastur, against_noise, eigenvalues, trace_numbers

# Fits warn of these tables, which are not the point here.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_eigenvalues_are_those_of_the_covariance(wine: pd.DataFrame, pca: eg.PCA) -> None:
    expected = np.linalg.eigvalsh(np.corrcoef(wine, rowvar=False))[::-1]
    found = eigenvalues(pca)
    np.testing.assert_allclose(found.values * (len(wine) - 1) / len(wine), expected, atol=1e-10)
    assert found.share is not None
    np.testing.assert_allclose(found.share, expected / expected.sum(), atol=1e-10)


def test_the_gap_is_that_of_the_criterion(wine: pd.DataFrame, pca: eg.PCA) -> None:
    choice = eg.choose_rank(wine, criteria=["eigengap"], scale=True)
    gap = eigenvalues(pca).gap
    assert gap is not None
    assert gap.k == choice.criteria["eigengap"]
    assert gap.size == pytest.approx(choice.curves["eigengap"][gap.k])


def test_under_missing_q_values_and_the_mean_of_the_others_are_known(
    ppca: eg.PPCA, incomplete: np.ndarray
) -> None:
    found = eigenvalues(ppca)
    lam = np.linalg.eigvalsh(ppca.get_covariance())[::-1] * 300 / 299
    assert len(found.values) == 3
    np.testing.assert_allclose(found.values, lam[:3], rtol=1e-6)
    assert found.n_rest == 5
    assert found.rest == pytest.approx(np.mean(lam[3:]), rel=1e-6)
    ratios = found.values[:-1] / found.values[1:]  # the mean of the others is no eigenvalue
    assert found.gap is not None
    assert found.gap.k == 1 + np.argmax(ratios)
    assert found.gap.size == pytest.approx(ratios.max())
    assert found.gap.is_partial


def test_a_choice_of_rank_says_which_gap_is_the_largest(
    ppca: eg.PPCA, incomplete: np.ndarray
) -> None:
    """Whatever number of components was fitted: under gaps a fit knows but few eigenvalues."""
    choice = eg.choose_rank(incomplete, criteria=["eigengap"])
    k = choice.criteria["eigengap"]
    gap = eigenvalues(ppca, choice).gap
    assert gap is not None
    assert (gap.k, gap.size) == (k, choice.curves["eigengap"][k])
    assert eigenvalues(eg.PPCA(1).fit(incomplete)).gap is None


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: eg.KernelPCA(3, gamma=0.1), id="kernel"),
        pytest.param(lambda: eg.ClassicalMDS(3), id="mds"),
        pytest.param(lambda: eg.Isomap(n_components=3), id="isomap"),
        pytest.param(lambda: eg.LaplacianEigenmaps(n_components=3), id="laplacian"),
        pytest.param(lambda: eg.Whitener(), id="whitener"),
    ],
)
def test_others_have_spectra_too(make, iris: pd.DataFrame) -> None:
    model = make().fit(iris)
    found = eigenvalues(model)
    assert len(found.values) >= 3
    name = "eigenvalues_" if hasattr(model, "eigenvalues_") else "explained_variance_"
    k = len(getattr(model, name))
    np.testing.assert_allclose(found.values[:k], getattr(model, name))


def test_an_estimator_without_a_spectrum_says_who_has_one(iris: pd.DataFrame) -> None:
    with pytest.raises(AttributeError, match=r"ICA has no scree plot.*PCA, PPCA"):
        eigenvalues(eg.ICA(2, random_state=0).fit(iris))


@pytest.mark.parametrize("shape", [(400, 100), (100, 400)], ids=["long", "wide"])
def test_noise_stays_within_the_edges(shape: tuple[int, int]) -> None:
    n, d = shape
    law = MarchenkoPastur(n, d, 2.0)
    rng = np.random.default_rng(0)
    largest = []
    inside = []
    for _ in range(20):
        X = np.sqrt(2.0) * rng.normal(size=(n, d))
        lam = np.linalg.svd(X, compute_uv=False) ** 2 / n
        largest.append(lam[0])
        inside.append(np.mean((lam > 0.97 * law.edges[0]) & (lam < 1.03 * law.edges[1])))
    assert law.edges[1] == pytest.approx(2.0 * (1 + np.sqrt(d / n)) ** 2)
    assert np.mean(largest) == pytest.approx(law.edges[1], rel=0.03)
    assert np.mean(inside) > 0.99
    assert sum(value > law.by_chance for value in largest) <= 3


def test_five_in_a_hundred_tables_of_noise_exceed_what_chance_explains() -> None:
    n, d = 80, 40
    law = MarchenkoPastur(n, d, 1.0)
    rng = np.random.default_rng(1)
    largest = [np.linalg.norm(rng.normal(size=(n, d)), 2) ** 2 / n for _ in range(1000)]
    assert 0.03 < np.mean(np.array(largest) > law.by_chance) < 0.07


@pytest.mark.parametrize(("n", "d"), [(400, 100), (100, 400), (50, 49)])
def test_density_integrates_to_the_share_that_is_not_zero(n: int, d: int) -> None:
    law = MarchenkoPastur(n, d, 1.5)
    mass, _ = integrate.quad(lambda x: float(law.density(np.array([x]))[0]), *law.edges, limit=200)
    assert mass == pytest.approx(min(1.0, n / d), abs=1e-4)
    mean, _ = integrate.quad(
        lambda x: x * float(law.density(np.array([x]))[0]), *law.edges, limit=200
    )
    assert mean == pytest.approx(1.5, abs=1e-4)


def test_signals_exceed_the_edge_and_noise_does_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 60)) + rng.normal(size=(500, 2)) @ rng.normal(size=(2, 60))
    found = against_noise(eg.PPCA(2).fit(X))
    assert found.beyond_chance == 2
    assert against_noise(eg.PPCA(1).fit(rng.normal(size=(500, 60)))).beyond_chance == 0


def test_no_noise_no_edge(wine: pd.DataFrame, pca: eg.PCA) -> None:
    with pytest.raises(ValueError, match="fit fewer components than columns"):
        against_noise(pca)
    with pytest.raises(AttributeError, match="one noise variance for all columns"):
        against_noise(eg.FactorAnalysis(2).fit(wine))


@pytest.mark.parametrize(
    ("make", "end"),
    [
        pytest.param(lambda: eg.PPCA(2, scale=True), "log_likelihood_", id="ppca"),
        pytest.param(lambda: eg.BayesianPCA(scale=True, tol=1e-9), "elbo_", id="bayesian"),
        pytest.param(
            lambda: eg.MixturePPCA(2, 1, scale=True, random_state=0),
            "log_likelihood_",
            id="mixture",
        ),
    ],
)
def test_trace_of_standardised_columns_is_in_the_units_of_the_data(
    make, end: str, incomplete: np.ndarray
) -> None:
    """It ends where log_likelihood_ and the summary are, not at the value of the scaled columns."""
    model = make().fit(100.0 * incomplete)
    assert trace_numbers(model).objective[-1] == pytest.approx(getattr(model, end), abs=0.1)


def test_trace_is_that_of_the_fit(ppca: eg.PPCA, wine: pd.DataFrame) -> None:
    found = trace_numbers(ppca)
    np.testing.assert_array_equal(found.objective, ppca.trace_.objective)
    assert found.distance[-1] == 0.0
    assert np.all(np.diff(found.distance) <= 1e-6)
    with pytest.raises(ValueError, match="closed form"):
        trace_numbers(eg.PPCA(2).fit(wine))
    with pytest.raises(AttributeError, match="KernelPCA has no trace"):
        trace_numbers(eg.KernelPCA(2, gamma=0.1).fit(wine))
