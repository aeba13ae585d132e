"""Columns against components: against FactoMineR, SciPy's analysis of variance, and laws."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_iris

import eigengap as eg
from eigengap.inference.associations import LevelScores, correlation

REL = 1e-9  # of sums over at most some hundred rows: rounding is a million times smaller


@pytest.fixture(scope="module")
def iris() -> pd.DataFrame:
    found = load_iris(as_frame=True)
    table = found.data.copy()
    table.columns = ["sl", "sw", "pl", "pw"]
    table["species"] = found.target_names[found.target]
    table["size"] = np.where(table["sl"] > 5.8, "large", "small")
    return table


@pytest.fixture(scope="module")
def fit(iris: pd.DataFrame) -> tuple[eg.PCA, Any]:
    model = eg.PCA(3, scale=True).fit(iris[["sl", "sw", "pl"]])
    return model, eg.associations(model, iris, extra=["pw", "species", "size"])


@pytest.fixture(scope="module")
def scores() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of 200 rows, levels of a column with missing cells, weights of whole numbers."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 3, 200)
    T = rng.normal(size=(200, 2)) + np.where(codes == 1, 0.8, 0.0)[:, None]
    return T, codes, rng.integers(1, 4, 200).astype(float)


# Other people's software -------------------------------------------------------------------------


def test_eta2_is_that_of_the_analysis_of_variance(scores: Any) -> None:
    T, codes, _ = scores
    found = LevelScores.of(codes, 3, T)
    for k in range(2):
        groups = [T[codes == level, k] for level in range(3)]
        F, p = stats.f_oneway(*groups)
        n = sum(map(len, groups))
        assert found.eta2[k] == pytest.approx(2 * F / (2 * F + n - 3), rel=REL)
        assert found.p_value[k] == pytest.approx(p, rel=1e-7)
        np.testing.assert_allclose(found.barycentre[:, k], [g.mean() for g in groups], rtol=REL)
    for level in range(3):
        cov = np.cov(T[codes == level].T)
        np.testing.assert_allclose(found.cov[level], cov, rtol=REL)
        np.testing.assert_allclose(found.cov_barycentre[level], cov / np.sum(codes == level))


def test_correlations_are_those_of_scipy(scores: Any) -> None:
    T, _, _ = scores
    x = T[:, 0] + np.random.default_rng(1).normal(size=200)
    x[::9] = np.nan
    r, p, n = correlation(x, T)
    seen = ~np.isnan(x)
    assert n == seen.sum()
    for k in range(2):
        theirs = stats.pearsonr(x[seen], T[seen, k])
        assert r[k] == pytest.approx(theirs.statistic, rel=REL)
        assert p[k] == pytest.approx(theirs.pvalue, rel=1e-7)


def test_the_v_test_counts_random_draws_of_the_level(scores: Any) -> None:
    """Drawn without replacement, a mean of w_k of the N scores has that standard deviation."""
    T, codes, _ = scores
    found = LevelScores.of(codes, 3, T)
    seen = T[codes >= 0]
    rng = np.random.default_rng(0)
    size = int(found.weight[1])
    drawn = np.array([rng.permutation(seen[:, 0])[:size].mean() for _ in range(4000)])
    expected = (found.barycentre[1, 0] - seen[:, 0].mean()) / drawn.std()
    # A standard deviation of 4 000 draws is off by 1 / sqrt(8 000), four times that here.
    assert found.v_test[1, 0] == pytest.approx(expected, rel=0.045)


def r(code: str, folder: Path, **tables: pd.DataFrame) -> np.ndarray:
    """The matrix that R prints as CSV, given some tables."""
    read = "".join(
        f"{name} <- read.csv('{folder / name}.csv', stringsAsFactors=TRUE); " for name in tables
    )
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    script = f"write.table({{{code}}}, sep=',', row.names=FALSE, col.names=FALSE, quote=FALSE)"
    out = subprocess.run(
        [
            "Rscript",
            "-e",
            f"options(digits=15); suppressMessages(library(FactoMineR)); {read}{script}",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return np.atleast_2d(np.genfromtxt(io.StringIO(out), delimiter=","))


@pytest.mark.needs_r("FactoMineR")
def test_supplementary_columns_of_factominer(
    iris: pd.DataFrame, fit: tuple[eg.PCA, Any], tmp_path: Path
) -> None:
    """PCA with quanti.sup and quali.sup: coordinates, v-tests, eta2, ellipses, dimdesc."""
    model, found = fit
    res = "res <- PCA(d, quanti.sup=4, quali.sup=5:6, ncp=3, graph=FALSE); "
    sign = np.sign(
        np.sum(
            r(res + "res$ind$coord", tmp_path, d=iris) * model.transform(iris[["sl", "sw", "pl"]]),
            axis=0,
        )
    )
    categories = found.categories
    order = [
        list(categories.level).index(x)
        for x in ("setosa", "versicolor", "virginica", "large", "small")
    ]
    theirs = r(res + "res$quali.sup$coord", tmp_path, d=iris) * sign
    np.testing.assert_allclose(categories.coordinates[order], theirs, rtol=1e-7, atol=1e-10)
    theirs = r(res + "res$quali.sup$v.test", tmp_path, d=iris) * sign
    np.testing.assert_allclose(categories.v_test[order], theirs, rtol=1e-7, atol=1e-9)
    theirs = r(res + "res$quali.sup$eta2", tmp_path, d=iris)
    np.testing.assert_allclose(found.r2[4:], theirs, rtol=1e-7, atol=1e-12)
    theirs = r(res + "res$quanti.sup$coord", tmp_path, d=iris) * sign
    np.testing.assert_allclose(found.r[3:4], theirs, rtol=1e-7, atol=1e-10)
    theirs = r(res + "res$var$contrib", tmp_path, d=iris)
    np.testing.assert_allclose(found.contributions[:3], theirs, rtol=1e-7, atol=1e-9)
    # Outlines: theirs have 100 points and other angles; the Mahalanobis distance of each is one.
    for kind, bary in (("rows", "FALSE"), ("barycentre", "TRUE")):
        outline = (
            r(
                res
                + "s <- cbind.data.frame(d$species, res$ind$coord); "
                + f"coord.ellipse(s, bary={bary})$res[,2:3]",
                tmp_path,
                d=iris,
            ).reshape(3, 100, 2)
            * sign[:2]
        )
        ours = categories.ellipses((1, 2), of=kind)
        for level in range(3):
            away = outline[level] - ours.centre[order[level]]
            distance = np.einsum("pi,ij,pj->p", away, np.linalg.inv(ours.cov[order[level]]), away)
            np.testing.assert_allclose(distance, stats.chi2.ppf(0.95, 2), rtol=1e-6)


@pytest.mark.needs_r("FactoMineR")
def test_dimdesc_of_factominer(iris: pd.DataFrame, fit: tuple[eg.PCA, Any], tmp_path: Path) -> None:
    _, found = fit
    res = "res <- PCA(d, quanti.sup=4, quali.sup=5:6, ncp=3, graph=FALSE); x <- dimdesc(res)[[1]]; "
    for part, measure in (("quanti", "correlation"), ("quali", "eta2"), ("category", "estimate")):
        theirs = r(res + f"x${part}", tmp_path, d=iris)
        ours = found.describe(1)
        ours = ours[ours["measure"] == measure]
        assert len(ours) == len(theirs)
        by_p = theirs[np.argsort(theirs[:, 1], kind="stable")]
        np.testing.assert_allclose(np.abs(ours["value"]), np.abs(by_p[:, 0]), rtol=1e-7)
        np.testing.assert_allclose(ours["p_value"], by_p[:, 1], rtol=1e-5)


@pytest.mark.needs_r("FactoMineR")
def test_famd_of_factominer_given_its_scores(iris: pd.DataFrame, tmp_path: Path) -> None:
    """var$coord are squared correlations and eta2, and contributions are shares of their sum."""
    res = "res <- FAMD(d[, 1:5], ncp=3, graph=FALSE); "
    T = r(res + "res$ind$coord", tmp_path, d=iris)
    codes = pd.Categorical(iris["species"]).codes.astype(np.intp)
    levels = LevelScores.of(codes, 3, T)
    r2 = np.array(
        [*(correlation(iris[x].to_numpy(), T)[0] ** 2 for x in iris.columns[:4]), levels.eta2]
    )
    np.testing.assert_allclose(r2, r(res + "res$var$coord", tmp_path, d=iris), rtol=1e-7)
    share = 100 * r2 / r2.sum(axis=0)
    np.testing.assert_allclose(share, r(res + "res$var$contrib", tmp_path, d=iris), rtol=1e-7)
    theirs = r(res + "res$quali.var$coord", tmp_path, d=iris)
    np.testing.assert_allclose(levels.barycentre, theirs, rtol=1e-7, atol=1e-10)
    theirs = r(res + "res$quali.var$v.test", tmp_path, d=iris)
    np.testing.assert_allclose(levels.v_test, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.needs_r("FactoMineR")
def test_mca_of_factominer_given_its_scores(iris: pd.DataFrame, tmp_path: Path) -> None:
    """Coordinates of MCA are barycentres over the root of the eigenvalue."""
    res = "res <- MCA(d[, 5:6], ncp=2, graph=FALSE); "
    T = r(res + "res$ind$coord", tmp_path, d=iris)
    codes = pd.Categorical(iris["species"]).codes.astype(np.intp)
    levels = LevelScores.of(codes, 3, T)
    np.testing.assert_allclose(
        levels.eta2, r(res + "res$var$eta2[1,]", tmp_path, d=iris).ravel(), rtol=1e-7
    )
    theirs = r(res + "res$var$v.test[1:3,]", tmp_path, d=iris)
    np.testing.assert_allclose(levels.v_test, theirs, rtol=1e-6, atol=1e-9)
    theirs = r(res + "res$var$coord[1:3,] %*% diag(sqrt(res$eig[1:2, 1]))", tmp_path, d=iris)
    np.testing.assert_allclose(levels.barycentre, theirs, rtol=1e-7, atol=1e-10)


# Laws --------------------------------------------------------------------------------------------


def test_eta2_of_two_levels_is_the_squared_correlation_of_their_code(scores: Any) -> None:
    T, codes, w = scores
    binary = np.where(codes < 0, -1, codes > 0)
    of_code = np.where(codes < 0, np.nan, codes > 0)
    for weight in (None, w):
        found = LevelScores.of(binary, 2, T, w=weight)
        r_, p, _ = correlation(of_code, T, weight)
        np.testing.assert_allclose(found.eta2, r_**2, rtol=REL)
        np.testing.assert_allclose(found.p_value, p, rtol=1e-7)
        np.testing.assert_allclose(found.p_level, np.tile(p, (2, 1)), rtol=1e-7)


def test_a_row_of_weight_two_is_two_rows(scores: Any) -> None:
    T, codes, w = scores
    times = np.repeat(np.arange(200), w.astype(int))
    unsure = np.tile(np.eye(2), (3, 1, 1))
    weighted = LevelScores.of(codes, 3, T, unsure, w)
    repeated = LevelScores.of(codes[times], 3, T[times], unsure)
    for name, value in vars(weighted).items():
        np.testing.assert_allclose(value, getattr(repeated, name), rtol=1e-8, err_msg=name)
    x = np.where(codes < 0, np.nan, T[:, 0] ** 2)
    for one, other in zip(correlation(x, T, w), correlation(x[times], T[times]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_contributions_are_those_of_pca_and_sum_to_100(iris: pd.DataFrame) -> None:
    from eigengap.plots.numbers import variable_contributions

    numbers = iris[["sl", "sw", "pl", "pw"]]
    for scale in (False, True):
        model = eg.PCA(3, scale=scale).fit(numbers)
        share = eg.associations(model, numbers).contributions
        np.testing.assert_allclose(share.sum(axis=0), 100.0, rtol=REL)
        np.testing.assert_allclose(share, variable_contributions(model), rtol=1e-7, atol=1e-9)


def test_the_order_of_rows_and_columns_changes_nothing(iris: pd.DataFrame, fit: Any) -> None:
    model, found = fit
    order = np.random.default_rng(0).permutation(len(iris))
    other = eg.associations(model, iris.iloc[order], extra=["size", "pw", "species"])
    place = [list(found.columns).index(name) for name in other.columns]
    np.testing.assert_allclose(other.r2, found.r2[place], rtol=REL)
    names = list(zip(found.categories.column, found.categories.level, strict=True))
    place = [
        names.index(pair)
        for pair in zip(other.categories.column, other.categories.level, strict=True)
    ]
    np.testing.assert_allclose(other.categories.coordinates, found.categories.coordinates[place])
    np.testing.assert_allclose(other.categories.v_test, found.categories.v_test[place])


def test_missing_cells_count_in_no_figure_of_their_column(iris: pd.DataFrame) -> None:
    model = eg.PPCA(2, scale=True).fit(iris[["sl", "sw", "pl", "pw"]])
    gone = iris.copy()
    gone.loc[::5, "species"] = None
    gone.loc[::7, "size"] = None
    found = eg.associations(model, gone, extra=["species", "size"])
    kept = gone["species"].notna()
    alone = eg.associations(model, gone[kept], extra=["species"])
    np.testing.assert_allclose(found.r2[4], alone.r2[4], rtol=REL)
    assert found.weight[4] == kept.sum()
    assert found.categories.weight.sum() == gone[["species", "size"]].notna().sum().sum()


def test_the_uncertainty_of_incomplete_rows_widens_their_level(iris: pd.DataFrame) -> None:
    """By the law of total covariance: the mean covariance of their scores is added."""
    table = iris[["sl", "sw", "pl", "pw"]].mask(np.random.default_rng(0).random((150, 4)) < 0.3)
    table["species"] = iris["species"]
    model = eg.PPCA(2, scale=True).fit(table.drop(columns="species"))
    found = eg.associations(model, table, extra="species").categories
    posterior = model.posterior(table.drop(columns="species"))
    rows = (table["species"] == "setosa").to_numpy()
    expected = np.cov(posterior.mean[rows].T) + posterior.cov[rows].mean(axis=0)
    np.testing.assert_allclose(found.cov[0], expected, rtol=1e-8)
    assert np.linalg.det(found.cov[0]) > np.linalg.det(np.cov(posterior.mean[rows].T))


def test_degenerate_columns() -> None:
    """One level, a level of one row, constant scores: NaN where nothing is known, no warning."""
    T = np.column_stack([np.arange(6.0), np.full(6, 1e6 + 0.1)])
    one = LevelScores.of(np.zeros(6, dtype=np.intp), 2, T)
    assert one.eta2[0] == 0.0
    assert np.isnan(one.p_value).all()
    assert np.isnan(one.eta2[1])
    assert np.isnan(one.barycentre[1]).all()
    single = LevelScores.of(np.array([0, 1, 1, 1, 1, 1]), 2, T)
    assert np.isnan(single.cov[0]).all()
    assert single.barycentre[0, 0] == 0.0
    r_, p, n = correlation(np.full(6, np.nan), T)
    assert n == 0
    assert np.isnan(r_).all()
    assert np.isnan(p).all()


def test_supplementary_columns_in_every_form(iris: pd.DataFrame) -> None:
    numbers = iris[["sl", "sw", "pl"]]
    model = eg.PCA(2, scale=True).fit(numbers)
    by_name = eg.associations(model, iris, extra=["species"])
    for extra in (iris["species"], iris[["species"]], iris["species"].to_numpy(), "species"):
        found = eg.associations(model, iris, extra=extra)
        np.testing.assert_array_equal(found.r2, by_name.r2)
    with pytest.raises(ValueError, match="extra has 10 rows"):
        eg.associations(model, iris, extra=iris["species"][:10])
    with pytest.raises(ValueError, match="cannot be supplementary"):
        eg.associations(model, iris, extra=np.array([f"row {i}" for i in range(len(iris))]))
    with pytest.raises(ValueError, match='no column "colour"'):
        eg.associations(model, iris, extra=["colour"])


# Fits to columns of several kinds ----------------------------------------------------------------


def structured(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    """Two factors behind six columns of numbers and four of three levels, in even directions."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 2))
    table = {}
    for j in range(6):
        w = [np.cos(j * np.pi / 6), np.sin(j * np.pi / 6)]
        table[f"x{j}"] = z @ w + 0.3 * rng.normal(size=n)
    for j in range(4):
        angle = j * np.pi / 4 + np.arange(3) * 2 * np.pi / 3
        utility = z @ np.array([np.cos(angle), np.sin(angle)]) + 0.2 * rng.normal(size=(n, 3))
        table[f"c{j}"] = np.array(list("abc"))[np.argmax(utility, axis=1)]
    return pd.DataFrame(table), z


def canonical(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Canonical correlations of two sets of scores."""
    first, second = (np.linalg.qr(T - T.mean(axis=0))[0] for T in (A, B))
    return np.linalg.svd(first.T @ second)[1]


@pytest.mark.needs_r("FactoMineR")
def test_the_components_are_nearly_those_of_famd(tmp_path: Path) -> None:
    table, z = structured()
    theirs = r("FAMD(d, ncp=2, graph=FALSE)$ind$coord", tmp_path, d=table)
    ours = eg.PPCA(2, columns="auto").fit(table).transform(table)
    assert canonical(ours, theirs).min() > 0.97
    assert canonical(ours, z).min() >= canonical(theirs, z).min() - 0.01


def test_contributions_of_mixed_columns_sum_to_100() -> None:
    table, _ = structured()
    table.loc[::6, "c0"] = None
    table.loc[::7, "x0"] = None
    table["x1"] = np.exp(table["x1"])
    model = eg.PPCA(2, columns="auto").fit(table)
    found = eg.associations(model, table)
    np.testing.assert_allclose(found.contributions.sum(axis=0), 100.0, rtol=REL)
    T = model.transform(table)
    seen = table["c0"].notna().to_numpy()
    groups = [T[(table["c0"] == level).to_numpy(), 0] for level in "abc"]
    F = stats.f_oneway(*groups).statistic
    assert found.r2[6, 0] == pytest.approx(2 * F / (2 * F + seen.sum() - 3), rel=1e-8)
    np.testing.assert_allclose(
        found.categories.coordinates[0], T[(table["c0"] == "a").to_numpy()].mean(axis=0), rtol=REL
    )
    # A log-normal column counts by its logarithm, or as it is where that is asked for.
    logged, plain = (np.corrcoef(x, T[:, 1])[0, 1] for x in (np.log(table["x1"]), table["x1"]))
    as_data = eg.associations(model, table, scale="data")
    assert found.r[1, 1] == pytest.approx(logged, rel=0.02)
    assert as_data.r[1, 1] == pytest.approx(plain, rel=REL)


def test_mixed_columns_in_any_order_and_supplementary_ones() -> None:
    table, _ = structured()
    columns = {"c3": "ignored", "x5": "ignored"}
    model = eg.PPCA(2, columns=columns).fit(table)
    found = eg.associations(model, table, extra=["c3", "x5"])
    assert found.supplementary.tolist() == [False] * 8 + [True] * 2
    order = np.random.default_rng(0).permutation(len(table))
    other = eg.associations(model, table.iloc[order], extra=["x5", "c3"])
    np.testing.assert_allclose(found.r2[[0, 8, 9]], other.r2[[0, 9, 8]], rtol=1e-8)
    assert found.r2[8:].sum() > 0.5  # they follow from the factors behind the others
    alone = LevelScores.of(
        pd.Categorical(table["c3"]).codes.astype(np.intp), 3, model.transform(table)
    )
    np.testing.assert_allclose(found.r2[8], alone.eta2, rtol=REL)
