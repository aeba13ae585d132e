"""The numbers of the report against computations that share no code with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from tests.reporting.pages import Parsed

import eigengap as eg
from eigengap.plots.numbers.colour import colour_of
from eigengap.plots.numbers.columns import labels_of, read
from eigengap.plots.numbers.missing import HeldOut, held_out
from eigengap.plots.numbers.outliers import RowDistances, distances_of, local_level, quantiles
from eigengap.plots.numbers.rows import Look, look_at
from eigengap.plots.numbers.scores import report_scores
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting.sections import missing
from eigengap.reporting.sections.samples import separation
from eigengap.reporting.words import number, percent
from eigengap.selection.imputation import rounds
from eigengap.sources.conversion import as_source


@pytest.fixture(scope="module")
def subject(fitted: Any) -> Subject:
    return Subject.of(fitted)


@pytest.fixture(scope="module")
def look(subject: Subject, biopsies: pd.DataFrame) -> Look:
    return read(subject, biopsies, 2000, 0)


def test_missing_means_and_deviations_are_those_of_pandas(
    look: Look, biopsies: pd.DataFrame, features: list[str]
) -> None:
    frame = biopsies[features]
    np.testing.assert_array_equal(look.missing.per_column, frame.isna().sum())
    assert look.missing.incomplete_rows == int(frame.isna().any(axis=1).sum())
    np.testing.assert_allclose(look.mean, frame.mean(), rtol=1e-12)
    np.testing.assert_allclose(look.sd, frame.std(ddof=0), rtol=1e-12)
    np.testing.assert_array_equal(look.X, frame.to_numpy(dtype=float))


@pytest.mark.parametrize("rows", [1, 7, 100, 700])
def test_the_same_rows_are_drawn_however_the_table_is_cut(look: Look, rows: int) -> None:
    whole = look_at(as_source(look.X), 60, 3)
    cut = look_at(as_source(look.X, block_rows=rows), 60, 3)
    np.testing.assert_array_equal(cut.at, whole.at)
    np.testing.assert_array_equal(cut.X, look.X[whole.at])
    np.testing.assert_array_equal(cut.missing.per_column, whole.missing.per_column)
    assert cut.missing.incomplete_rows == whole.missing.incomplete_rows
    np.testing.assert_allclose(cut.sd, whole.sd, rtol=1e-12)


def test_scores_are_what_transform_and_posterior_give(
    subject: Subject, look: Look, fitted: Any, biopsies: pd.DataFrame, features: list[str]
) -> None:
    found = report_scores(subject, look)
    np.testing.assert_allclose(found.Z, fitted.transform(biopsies[features]), atol=1e-10)
    assert found.cov is not None
    np.testing.assert_allclose(found.cov, fitted.posterior(biopsies[features]).cov, atol=1e-12)


def test_p_values_are_those_of_the_detector(
    subject: Subject, look: Look, biopsies: pd.DataFrame, features: list[str]
) -> None:
    detector = eg.NoveltyDetector(eg.PPCA(3, scale=True)).fit(biopsies[features])
    found = distances_of(subject, look)
    assert isinstance(found, RowDistances)
    expected = detector.statistics(biopsies[features])
    np.testing.assert_allclose(found.T2, expected.T2.value, rtol=1e-6)
    np.testing.assert_allclose(found.SPE, expected.SPE.value, rtol=1e-6)
    np.testing.assert_allclose(found.p, expected.D2.p_value, rtol=0.02, atol=1e-12)


def test_held_out_errors_and_coverage_by_hand(look: Look, subject: Subject) -> None:
    found = held_out(subject, look, seed=0)
    assert isinstance(found, HeldOut)
    assert found.refitted
    errors, plain, hits, k = [[] for _ in range(9)], [[] for _ in range(9)], 0, 0
    for mask in rounds(~np.isnan(look.X), 0):
        left = look.X.copy()
        left[mask] = np.nan
        filled, std = eg.PPCA(3, scale=True).fit(left).impute(left, return_std=True)
        for i, j in np.argwhere(mask):
            errors[j].append(filled[i, j] - look.X[i, j])
            plain[j].append(np.nanmean(left[:, j]) - look.X[i, j])
            hits += abs(errors[j][-1]) <= 1.959963984540054 * std[i, j]
            k += 1
    sd = np.nanstd(look.X, axis=0)
    expected = [np.sqrt(np.mean(np.square(e))) / s for e, s in zip(errors, sd, strict=True)]
    by_mean = [np.sqrt(np.mean(np.square(e))) / s for e, s in zip(plain, sd, strict=True)]
    np.testing.assert_allclose(found.error, expected, rtol=1e-9)
    assert found.overall == pytest.approx(np.mean(expected))
    assert found.mean_overall == pytest.approx(np.mean(by_mean))
    assert (found.n_hidden, found.coverage) == (k, pytest.approx(hits / k))


def test_the_page_says_these_numbers(parsed: Parsed, look: Look, subject: Subject) -> None:
    found = held_out(subject, look, seed=0)
    assert found is not None
    assert f"{percent(found.gain)} less than by the column means" in parsed.text
    assert f"cover {percent(found.coverage)} of them" in parsed.text
    share = subject.given.explained_variance_ratio_
    assert f"3 components explain {percent(share.sum())} of the variance" in parsed.text
    assert f"the first alone {percent(share[0])}" in parsed.text
    assert "16 cells of 6291 (0.25 %) are missing, all in bare_nuclei" in parsed.text
    assert "PC1 separates the categories of diagnosis" in parsed.text
    distances = distances_of(subject, look)
    assert isinstance(distances, RowDistances)
    odd = int((distances.p < 0.05).sum())
    assert f"{odd} of 699 rows ({percent(odd / 699)}) have p < 0.05" in parsed.text


def test_the_embedded_numbers_are_those_of_the_model(
    parsed: Parsed, fitted: Any, biopsies: pd.DataFrame, features: list[str]
) -> None:
    rows = parsed.data["rows"]
    Z = fitted.transform(biopsies[features])
    np.testing.assert_allclose(np.array(rows["scores"]).T, Z, rtol=1e-3, atol=1e-6)
    assert [feature["name"] for feature in rows["features"]] == features
    for feature, name in zip(rows["features"], features, strict=True):
        values = [np.nan if v is None else v for v in feature["values"]]
        np.testing.assert_allclose(values, biopsies[name], rtol=1e-3)
    diagnosis = next(c for c in rows["colours"] if c["name"] == "diagnosis")
    assert [diagnosis["levels"][k] for k in diagnosis["codes"]] == list(biopsies["diagnosis"])
    cov = fitted.posterior(biopsies[features]).cov
    lower = np.tril_indices(3)
    kinds = np.array(rows["cov"]["kinds"])[rows["cov"]["of"]]
    np.testing.assert_allclose(kinds, cov[:, lower[0], lower[1]], rtol=5e-3, atol=1e-6)


def test_quantiles_lie_in_their_band_exactly_where_the_law_holds() -> None:
    """All points together in 95 % of tables of any size: 400 of them are 20 +- 4.4 outside."""
    rng = np.random.default_rng(0)
    for m in (1, 7, 40, 300, 1200):
        left = sum(quantiles(rng.random(m)).outside > 0 for _ in range(400))
        assert 5 <= left <= 38, m
    heavy = scipy.stats.chi2.sf(5 * scipy.stats.f(5, 4).rvs(300, random_state=0), 5)
    assert quantiles(heavy).outside > 90
    known = quantiles(np.array([0.5, np.nan, 0.25]))
    np.testing.assert_allclose(known.found, scipy.stats.norm.isf([0.5, 0.25]))
    law = scipy.stats.beta([1, 2], [2, 1])
    high = scipy.stats.norm.ppf(law.ppf(1 - local_level(2) / 2))
    np.testing.assert_allclose(known.high, high, rtol=1e-5)


def test_missing_that_depend_on_another_column_are_told_and_random_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    blind = X.copy()
    blind[rng.random(X.shape) < 0.2] = np.nan
    assert missing.differences(blind) == []
    X[X[:, 1] > 0.5, 3] = np.nan
    first = missing.differences(X)[0]
    assert (first.incomplete, first.other) == (3, 1)
    gone, observed = X[np.isnan(X[:, 3]), 1], X[~np.isnan(X[:, 3]), 1]
    pooled = np.sqrt((gone.var() * len(gone) + observed.var() * len(observed)) / (len(X) - 2))
    assert first.size == pytest.approx((gone.mean() - observed.mean()) / pooled)


def test_missing_that_come_together_by_chance_are_not_said_to() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 12))
    X[rng.random(X.shape) < 0.05] = np.nan
    assert missing.together(X) == ((), 0)
    X[:40, [2, 5]] = np.nan
    assert missing.together(X)[0] == (2, 5)


def test_separation_is_eta_squared() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 90)
    z = rng.normal(size=90) + groups
    F = scipy.stats.f_oneway(*(z[groups == k] for k in range(3))).statistic
    assert separation(z, tuple(groups)) == pytest.approx(F * 2 / (F * 2 + 87))


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (["b", "a", None, "a"] * 5, ("a", "b", "(missing)")),
        ([1, 0, 1, 1] * 5, ("0", "1")),
        ([True, False] * 10, ("False", "True")),
        ([0.5, 1.5, np.nan] * 7, ()),
        (list(range(100)), None),  # names of rows
        ([f"id {i}" for i in range(100)], None),
        ([None] * 10, None),
    ],
    ids=["text", "codes", "truth", "scale", "numbers", "names", "nothing"],
)
def test_columns_become_categories_or_scales(values: list[Any], levels: Any) -> None:
    found = colour_of("c", values)
    assert (None if found is None else found.levels) == levels


def test_rare_categories_are_put_together() -> None:
    values = [chr(97 + k) for k in range(15) for _ in range(15 - k)]
    found = colour_of("letter", values)
    assert found is not None
    assert len(found.levels) == 8
    shown = [found.levels[k] for k in found.codes]
    assert shown == [v if v in found.levels else "(other)" for v in values]
    assert "8 rarer" in found.note


def test_numbers_in_words() -> None:
    assert number(float("inf")) == "∞"
    assert [percent(x) for x in (0.0, 0.049, 0.5, 0.9951)] == ["0 %", "4.9 %", "50 %", "99.51 %"]


def test_files_and_frames_give_the_same_rows_and_labels(
    subject: Subject, biopsies: pd.DataFrame, tmp_path: Path
) -> None:
    import polars as pl

    path = tmp_path / "b.csv"
    biopsies.to_csv(path, index=False)
    biopsies.to_parquet(tmp_path / "b.parquet")
    same_rows_and_labels(
        subject,
        biopsies,
        pl.from_pandas(biopsies),
        pl.from_pandas(biopsies).to_arrow(),
        path,
        str(tmp_path / "b.parquet"),
    )


@pytest.mark.slow
def test_dask_gives_the_same_rows_and_labels(subject: Subject, biopsies: pd.DataFrame) -> None:
    import dask.dataframe as dd

    same_rows_and_labels(subject, biopsies, dd.from_pandas(biopsies, npartitions=3))


def same_rows_and_labels(subject: Subject, biopsies: pd.DataFrame, *tables: Any) -> None:
    first = read(subject, biopsies, 40, 0)
    for table in (biopsies, *tables):
        look = read(subject, table, 40, 0)
        np.testing.assert_array_equal(look.at, first.at)
        np.testing.assert_array_equal(look.X, first.X)
        labels = {label.name: label.values for label in labels_of(subject, table, look)}
        for name in ("id", "diagnosis"):
            assert list(labels[name]) == [biopsies[name].iloc[i] for i in look.at]
