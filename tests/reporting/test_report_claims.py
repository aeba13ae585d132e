"""What the page says in words must be so: cases in which a careless sentence would be wrong."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.spatial.distance
import scipy.stats
from scipy.stats import binomtest
from tests.reporting.pages import Parsed

import eigengap as eg
from eigengap import registry
from eigengap.exceptions import ObjectiveFellError
from eigengap.plots.numbers.colour import asked_colour, colour_of
from eigengap.plots.numbers.columns import labels_of, read
from eigengap.plots.numbers.missing import HeldOut, held_out
from eigengap.plots.numbers.outliers import RowDistances, detector_for, distances_of
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.scores import Scores
from eigengap.plots.numbers.spectrum import eigenvalues
from eigengap.plots.numbers.subject import Subject
from eigengap.plots.numbers.variables import variables_of
from eigengap.reporting import report
from eigengap.reporting.sections import (
    components,
    glance,
    imputation,
    missing,
    quality,
    variables,
)
from eigengap.reporting.sections.samples import _on_separation, chosen_colour
from eigengap.reporting.specs import Section
from eigengap.reporting.words import percent
from eigengap.runtime.warnings import silence


def low_rank(seed: int, n: int = 120, d: int = 6, q: int = 2, noise: float = 0.4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + noise * rng.normal(size=(n, d))


def with_missing(X: np.ndarray, share: float = 0.1) -> np.ndarray:
    return np.where(np.random.default_rng(9).random(X.shape) < share, np.nan, X)


def looked(model: Any, X: Any) -> tuple[Subject, Look]:
    subject = Subject.of(model)
    return subject, read(subject, X, 2000, 0)


def test_what_correlated_scores_show_of_a_column_is_the_r2_of_the_regression_on_them() -> None:
    """Kernel PCA of a table with gaps: squared correlations, added up, come to more than 100 %."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(150, 1)) + 0.2 * rng.normal(size=(150, 2))
    X = with_missing(np.column_stack([Z, Z.sum(axis=1), Z[:, 0] + rng.normal(size=150)]), 0.3)
    model = eg.KernelPCA(2, kernel="linear").fit(X)
    subject, look = looked(model, X)
    found = variables_of(subject, look)
    assert found is not None
    T = model.transform(X)
    for j in range(X.shape[1]):
        observed = ~np.isnan(X[:, j])
        A = np.column_stack([np.ones(observed.sum()), T[observed]])
        x = X[observed, j]
        left = x - A @ np.linalg.lstsq(A, x, rcond=None)[0]
        assert found.shown(2)[j] == pytest.approx(1.0 - left.var() / x.var(), abs=1e-9)
    assert np.abs((found.r**2).sum(axis=1) - found.cos2).max() > 0.01


@pytest.mark.parametrize("make", [eg.PCA, eg.FactorAnalysis], ids=["PCA", "FactorAnalysis"])
def test_columns_are_never_shown_by_more_than_their_variance(make: Any) -> None:
    for X in (low_rank(0), with_missing(low_rank(0))):
        found = variables_of(*looked(make(2).fit(X), X))
        assert found is not None
        assert (found.shown(1) <= found.cos2 + 1e-9).all()
        assert found.cos2.max() <= 1.0
        if make is eg.PCA and not np.isnan(X).any():  # uncorrelated: the plain sum
            np.testing.assert_allclose(found.cos2, (found.r**2).sum(axis=1), atol=1e-9)


def test_the_sentence_on_the_eigengap_is_the_criterion_of_that_name() -> None:
    """A gappy table of one strong component and two fitted: 2 -> 3 would be over a mean."""
    rng = np.random.default_rng(2)
    X = 3.0 * rng.normal(size=(200, 1)) @ np.ones((1, 8)) + rng.normal(size=(200, 8))
    X = with_missing(X)
    subject, look = looked(eg.PPCA(2, scale=True).fit(X), X)
    choice = components.rank_choice(subject, look, 0)
    assert choice is not None
    part = components.section(subject, look, 0)
    k = choice.criteria["eigengap"]
    assert k == 1
    assert f"The largest eigengap is {k} → {k + 1} (" in " ".join(part.words)
    assert f"The largest eigengap is {k} → {k + 1} (" in part.figures[0].finding


def test_without_a_criterion_only_resolved_eigenvalues_are_compared() -> None:
    """The last resolved one over the mean of the rest is no eigengap, however large."""
    X = with_missing(low_rank(0, q=2, noise=0.01))
    found = eigenvalues(eg.PPCA(2).fit(X))
    assert found.n_rest == 4
    gap = components.largest_gap(found, None)
    assert gap is not None
    assert gap.k == 1
    assert gap.size == pytest.approx(found.values[0] / found.values[1])
    with silence():
        one = eigenvalues(eg.PPCA(1).fit(X))
    assert components.largest_gap(one, None) is None


@pytest.mark.parametrize("error", [ObjectiveFellError("it fell"), RuntimeError("x")])
def test_a_fit_to_hidden_cells_that_breaks_off_leaves_the_page(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in one small part must not take the others along."""
    X = low_rank(0)
    subject, look = looked(eg.PPCA(2).fit(X), X)

    def fails(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(Subject, "refitted", fails)
    found = held_out(subject, look, 0)
    assert isinstance(found, str)
    assert "is not known" in found
    assert str(error) in found


def test_a_broken_refit_is_told_on_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    X = with_missing(low_rank(0))

    def fell(*_: Any) -> Any:
        raise ObjectiveFellError("the objective fell <b>")

    model = eg.PPCA(2).fit(X)
    monkeypatch.setattr(Subject, "refitted", fell)
    text = Parsed(report(model, X, tmp_path / "r.html").read_text(encoding="utf-8")).text
    assert "of the observed values: the objective fell <b>" in text
    assert "Least certain imputations" in text


def test_exact_tables_are_not_said_to_depart_from_their_law() -> None:
    """Of 60 tables from the model itself about 3 leave a band of 95 %; 9 and more are improbable
    (p < 0.005)."""
    departed = 0
    for seed in range(60):
        X = low_rank(seed, n=100, noise=0.5)
        p = detector_for(eg.PPCA(2).fit(X)).p_values(X)
        departed += not quality.follows_law(p)
    assert departed <= 8


def test_departures_are_found_and_no_single_cause_is_named() -> None:
    """Gaussian numbers with two wild cells: they widen the noise, and nothing is rounded."""
    X = low_rank(0, n=300, noise=0.5)
    X[0, 0], X[1, 3] = 60.0, -60.0
    subject, look = looked(eg.PPCA(2).fit(X), X)
    distances = distances_of(subject, look)
    assert isinstance(distances, RowDistances)
    words = " ".join(quality.section(subject, look, distances, [""] * 300, tuple("abcdef")).words)
    assert "Outliers that widen the noise, noise that differs between columns" in words
    assert "do not show which" in words
    heavy = np.random.default_rng(0).random(300) ** 1.6
    assert quality.tail_is_heavy(heavy)


def quality_of(model: Any, X: Any) -> Section:
    subject, look = looked(model, X)
    distances = distances_of(subject, look)
    assert isinstance(distances, RowDistances)
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    return quality.section(subject, look, distances, [""] * len(X), names)


@pytest.mark.parametrize("kind", ["model", "tails", "groups", "uniform", "outliers"])
def test_what_is_said_of_distances_is_what_the_figure_shows(kind: str) -> None:
    rng = np.random.default_rng(4)
    X = low_rank(4, n=400, noise=0.5)
    if kind == "tails":
        X += rng.standard_t(3, size=X.shape)
    elif kind == "groups":
        X[:200] += 6.0 * rng.normal(size=6)
        X[200:] *= 0.1
    elif kind == "uniform":
        X = rng.random((400, 6))
    elif kind == "outliers":
        X[:6] *= 12.0
    part = quality_of(eg.PPCA(2).fit(X), X)
    words = " ".join(part.words)
    finding = next(figure for figure in part.figures if figure.id == "qq").finding
    good = "compatible with the distribution that it predicts" in words
    assert good == finding.startswith("All points lie inside the band")
    assert good == (kind == "model")
    assert not (good and "there are outliers" in words)
    assert "stay meaningful" not in words


def hidden(outside: int, n: int, refitted: bool = True) -> HeldOut:
    truth = np.zeros(n)
    truth[:outside] = 5.0
    zero, one = np.zeros(n), np.ones(n)
    return HeldOut(refitted, n, zero.astype(int), truth, zero, one, one[:1], one[:1], 0.5, 1.0)


@pytest.mark.parametrize(
    ("outside", "n", "said"),
    [
        (48, 647, "fewer than 95 % (binomial test: p = 0.0085): standard deviations are too small"),
        (32, 647, "compatible with 95 % (binomial test: p = 1.00)."),
        (5, 647, "more than 95 % (binomial test: p < 0.0001): standard deviations are too large"),
        (
            2,
            40,
            "compatible with 95 % (binomial test: p = 1.00); 40 values are few for such a test",
        ),
        (2000, 20000, "fewer than 95 % (binomial test: p < 0.0001)"),
    ],
)
def test_what_is_said_of_coverage_is_what_a_binomial_test_says(
    outside: int, n: int, said: str
) -> None:
    found = hidden(outside, n)
    assert found.coverage_p == pytest.approx(binomtest(outside, n, 0.05).pvalue, rel=1e-6)
    assert said in imputation._on_coverage(found)
    assert "binomial" not in imputation._on_coverage(hidden(outside, n, refitted=False))


def test_coverage_of_tables_from_the_model_is_rarely_called_wrong() -> None:
    """About 1 of 20; 6 and more are improbable (p < 0.001). A wrong noise variance is found."""
    wrong = 0
    for seed in range(20):
        X = low_rank(seed, n=150, noise=0.5)
        found = held_out(*looked(eg.PPCA(2).fit(X), X), 0)
        assert isinstance(found, HeldOut)
        wrong += found.coverage_p < 0.05
    assert wrong <= 5
    bad = held_out(*looked(eg.PPCA(2, noise_variance=0.05).fit(X), X), 0)
    assert isinstance(bad, HeldOut)
    assert "standard deviations are too small" in imputation._on_coverage(bad)


def test_what_is_said_of_the_number_of_components_is_of_all_rows_or_says_so() -> None:
    """Weak components that all rows show, and a few of the rows do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5)) @ np.diag([2.0, 0.5, 0.45, 0.4, 0.35]) @ np.eye(5, 12)
    X += rng.normal(size=X.shape)
    model = eg.PPCA().fit(X)
    subject = Subject.of(model)
    look = read(subject, X, 100, 0)
    assert look.is_sampled
    choice = components.rank_choice(subject, look, 0)
    assert choice is not None
    assert model.n_components_ > choice.criteria["deflated_parallel_analysis"]
    part = components.section(subject, look, 0)
    assert part.verdict.endswith("; the fit chose that number from all of its rows.")
    assert part.beside[0].note.startswith("Applied to the 100 rows shown.")
    given = Subject.of(eg.PPCA(5).fit(X))
    assert ", applied to the 100 rows shown, " in components.section(given, look, 0).verdict
    small = read(given, X[:100], 2000, 0)
    assert "rows shown" not in components.section(given, small, 0).verdict


def test_rows_without_a_category_are_no_category() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=300)
    groups = np.where(z > 0, "high", "low").astype(object)
    groups[rng.random(300) < 0.6] = None
    known = np.array([group is not None for group in groups])
    colour = colour_of("stage", list(groups))
    assert colour is not None
    scores = Scores(Z=z[:, None], axes=("PC1",), cov=None, how="")
    F = scipy.stats.f_oneway(*(z[groups == level] for level in ("high", "low"))).statistic
    share = F / (F + known.sum() - 2)
    assert _on_separation(scores, [colour]) == (
        f"PC1 separates the categories of stage: {percent(share)} of its variance lies between "
        f"them among the {known.sum()} rows that have one."
    )
    groups[groups == "high"] = None
    alone = colour_of("stage", list(groups))
    assert alone is not None
    assert _on_separation(scores, [alone]) == ""


@pytest.mark.parametrize("noise", ["gaussian", "student"])
def test_student_noise_is_not_recommended_to_a_model_that_has_it(noise: str) -> None:
    """Rows with heavy tails: a Gaussian model is told of Student noise, and one with Student noise
    that this is what it is for."""
    freedom = 1.5 if noise == "student" else 4.0
    tails = np.random.default_rng(0).standard_t(freedom, size=(300, 6))
    X = low_rank(0, n=300, noise=0.3) + tails
    given = eg.FactorAnalysis(2, distribution=noise) if noise == "student" else eg.PPCA(2)
    subject, look = looked(given.fit(X), X)
    distances = distances_of(subject, look)
    assert isinstance(distances, RowDistances)
    words = " ".join(quality.section(subject, look, distances, [""] * 300, tuple("abcdef")).words)
    assert "Far rows are farther than the model predicts" in words
    assert ('Student noise (distribution="student") would keep' in words) == (noise == "gaussian")
    assert ("Its Student noise expects such rows" in words) == (noise == "student")


def test_missing_at_random_in_many_columns_do_not_come_together() -> None:
    """30 columns have 435 pairs, and many more sets: one of them is odd in nearly every table."""
    told = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = np.where(rng.random((300, 30)) < 0.04, np.nan, 0.0)
        told += missing.together(X) != ((), 0)
    assert told <= 2
    X[:25, [4, 17]] = np.nan
    assert missing.together(X)[0] == (4, 17)


@pytest.mark.parametrize("make", [eg.PPCA, eg.FactorAnalysis], ids=["PPCA", "FactorAnalysis"])
def test_the_column_to_blame_is_the_one_that_the_detector_names(make: Any) -> None:
    """A wild cell draws its row along the components: others then add more to D2 than it does."""
    rng = np.random.default_rng(3)
    X = with_missing(low_rank(3, n=200))
    for i in range(12):
        X[i, rng.integers(6)] += 4.0
    model = make(2).fit(X)
    found = distances_of(*looked(model, X))
    assert isinstance(found, RowDistances)
    detector = eg.NoveltyDetector(make(2)).fit(X)
    named = [told.cells[0] for told in detector.explain(X[found.least_probable], k=1)]
    assert [f"x{j}" for j in found.blamed] == [cell.column for cell in named]
    np.testing.assert_allclose(found.expected, [cell.expected for cell in named], rtol=1e-3)
    np.testing.assert_allclose(found.expected_sd, [cell.std for cell in named], rtol=1e-3)


def test_rows_on_the_edge_of_the_picture_are_told() -> None:
    X = low_rank(0)
    X[0] = X.mean(axis=0)
    subject, look = looked(eg.PPCA(2).fit(X), X)
    distances = distances_of(subject, look)
    assert isinstance(distances, RowDistances)
    near = np.minimum(distances.T2 / distances.T2_limit, distances.SPE / distances.SPE_limit) < 0.01
    assert near.any()
    part = quality.section(subject, look, distances, [""] * len(X), tuple("abcdef"))
    figure = next(figure for figure in part.figures if figure.id == "t2-spe")
    rows = "1 row" if near.sum() == 1 else f"{near.sum()} rows"
    assert f"{rows} with less than 1 % of a limit" in figure.note


DAYS = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(30)]


@pytest.mark.parametrize(
    "values",
    [
        DAYS,
        [day.isoformat() for day in DAYS],
        list(pd.to_datetime(DAYS)),
        list(pd.to_datetime(DAYS).to_numpy()),
        list(pd.to_datetime(DAYS).to_period("D")),
        [day.strftime("%d.%m.%Y") for day in DAYS],
        [
            datetime.datetime(
                d.year, d.month, d.day, tzinfo=datetime.timezone(datetime.timedelta(hours=2))
            )
            for d in DAYS
        ],
    ],
    ids=["dates", "texts", "timestamps", "numpy", "periods", "pointed", "zoned"],
)
def test_dates_are_a_number_line_of_days(values: list[Any]) -> None:
    found = colour_of("day", [*values, None])
    assert found is not None
    assert found.dates
    assert found.values == (*(19723.0 + k for k in range(30)), None)


def test_a_colour_that_is_asked_for_is_shown_or_refused() -> None:
    """Never silently another one."""
    assert asked_colour("row", list(range(100))).values[99] == 99.0  # numbers of rows too
    assert asked_colour("day", DAYS[:3] * 4).levels == ("2024-01-01", "2024-01-02", "2024-01-03")
    with pytest.raises(ValueError, match=r'color="who" has 50 different texts in 50 rows'):
        asked_colour("who", [f"name {i}" for i in range(50)])
    with pytest.raises(ValueError, match='color="none" holds no value'):
        asked_colour("none", [None, float("nan")])


def test_a_colour_by_name_is_found_among_very_many_columns(tmp_path: Path) -> None:
    """The 30th column beside those of the fit, in a frame and in a file."""
    X = low_rank(0, d=4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    subject = Subject.of(eg.PPCA(2).fit(frame))
    extra = pd.DataFrame({f"e{k}": ["u", "v"] * 60 for k in range(30)})
    frame = pd.concat([frame, extra], axis=1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for table in (frame, tmp_path / "t.csv"):
        look = read(subject, table, 2000, 0)
        labels = labels_of(subject, table, look, "e29")
        given, start = chosen_colour("e29", look, labels, tuple("abcd"), subject.names)
        assert start == "e29"
        assert given is not None
        assert given.levels == ("u", "v")


@pytest.mark.parametrize("ranks", [(3, 1), (1, 3), (2, 2)])
def test_the_tile_and_the_table_of_a_mixture_have_its_components_in_one_order(
    ranks: tuple[int, ...],
) -> None:
    rng = np.random.default_rng(3)
    low = [rng.normal(size=(80, q)) @ rng.normal(size=(q, 6)) for q in ranks]
    X = np.concatenate([low[0], low[1] + 20.0]) + 0.1 * rng.normal(size=(160, 6))
    model = eg.MixturePPCA(2, n_components=list(ranks), random_state=0).fit(X)
    subject, look = looked(model, X)
    assert subject.mixture is not None
    grid = components.section(subject, look, 0).grids[0]
    first, second = (row[-1] for row in grid.rows)
    told = f"{first} latent" if first == second else f"{first} and {second} latent"
    assert glance._components(subject).note == told


def test_a_table_without_any_observed_value_has_a_page(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = eg.PPCA(1).fit(X)
    with silence():
        report(model, np.full((2, 3), np.nan), tmp_path / "r.html")
    assert "No row has an observed value" in (tmp_path / "r.html").read_text("utf-8")


SMALL = {
    "GPLVM": {"max_iter": 10, "random_state": 0},
    "Autoencoder": {"hidden": (), "max_iter": 50, "random_state": 0},
    "MixturePPCA": {"n_components": 1, "random_state": 0},
    "ICA": {"random_state": 0},
    "LaplacianEigenmaps": {"random_state": 0},
}
FIT_FOR_LONG = ("GPLVM", "MaximumVarianceUnfolding", "StructurePreservingEmbedding")


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(
            entry, id=entry.name, marks=[pytest.mark.slow] if entry.name in FIT_FOR_LONG else []
        )
        for entry in registry.ESTIMATORS
        if not entry.target and not entry.shows
    ],
)
def test_columns_of_different_size_are_reported_where_units_change_the_fit(entry: Any) -> None:
    """Distances between the rows' coordinates change beyond one factor, or the report is silent."""
    rng = np.random.default_rng(0)
    t = rng.normal(size=(40, 2))
    X = np.column_stack([t, t @ [1.0, -0.5] + 0.3 * rng.normal(size=40), rng.normal(size=40)])
    wide = X * [1.0, 1.0, 1.0, 50.0]
    make = getattr(eg, entry.name)
    settings = dict(SMALL.get(entry.name, {}))
    known = make().get_params()
    if "scale" in known:
        settings["scale"] = False
    if "n_components" in known:
        settings.setdefault("n_components", 2)
    shapes = []
    with silence():
        for table in (X, wide):
            model = make(**settings).fit(table)
            T = model.embedding_ if hasattr(model, "embedding_") else model.transform(table)
            apart = scipy.spatial.distance.pdist(np.asarray(T))
            shapes.append(apart / np.linalg.norm(apart))
        subject, look = looked(model, wide)
        said = glance._on_units(subject, look, tuple("abcd"))
    changed = np.linalg.norm(shapes[0] - shapes[1]) > 0.05
    assert bool(said) is bool(changed)
    assert bool(entry.depends_on_units) is bool(changed)


@pytest.mark.parametrize(
    "model",
    [
        eg.ClassicalMDS(2, metric="seuclidean"),
        eg.ClassicalMDS(2, metric="mahalanobis"),
        eg.MixturePPCA(2, n_components=1, noise="diagonal", random_state=0),
        eg.Whitener(2, method="pca-cor"),
        eg.Whitener(),
        eg.ICA(random_state=0),
    ],
    ids=repr,
)
def test_fits_in_units_of_the_columns_call_for_no_scaling(model: Any) -> None:
    X = low_rank(0) * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 100.0])
    with silence():
        subject, look = looked(model.fit(X), X)
    assert glance._on_units(subject, look, tuple("abcdef")) == []


LINEAR_MAPS = {
    "Whitener": (lambda: eg.Whitener(), True),
    "Whitener, zca": (lambda: eg.Whitener(method="zca"), True),
    "KernelPCA, linear": (lambda: eg.KernelPCA(2, kernel="linear"), True),
    "KernelPCA, poly of degree 1": (lambda: eg.KernelPCA(2, kernel="poly", degree=1), True),
    "Autoencoder, linear": (
        lambda: eg.Autoencoder(2, hidden=(), max_iter=5, random_state=0),
        True,
    ),
    "KernelPCA, rbf": (lambda: eg.KernelPCA(2, kernel="rbf"), False),
    "KernelPCA, poly": (lambda: eg.KernelPCA(2, kernel="poly"), False),
    "Isomap": (lambda: eg.Isomap(n_components=2), False),
    "Autoencoder": (
        lambda: eg.Autoencoder(2, hidden=(4,), shortcut=False, max_iter=5, random_state=0),
        False,
    ),
}


@pytest.mark.parametrize("name", LINEAR_MAPS)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_coordinates_are_called_nonlinear_only_where_they_are(name: str, missing: float) -> None:
    make, is_linear = LINEAR_MAPS[name]
    X = low_rank(0, n=60)
    if missing:
        if "poly" in name or name == "Isomap":
            pytest.skip("takes no missing values")
        X = with_missing(X, missing)
    with silence():
        subject, look = looked(make().fit(X), X)
        found = variables_of(subject, look)
    names = tuple("abcdef")
    said = " ".join(variables.section(subject, look, found, names).words)
    assert ("no linear functions of the columns" in said) is not is_linear


def test_a_difference_is_said_to_be_in_standard_deviations_within_the_groups() -> None:
    """Two groups far apart: the standard deviation over all rows would be much larger."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=30), rng.normal(8.0, size=30)])
    X = np.column_stack([x, np.where(x > 4.0, np.nan, rng.normal(size=60)), rng.normal(size=60)])
    pooled = np.sqrt((x[:30].var(ddof=1) + x[30:].var(ddof=1)) / 2)
    apart = (x[30:].mean() - x[:30].mean()) / pooled
    with silence():
        _, look = looked(eg.PPCA(1).fit(X), X)
    said = " ".join(missing.section(look, ("x", "y", "z")).words)
    assert f"x is {apart:.1f} standard deviations higher on average (pooled within the two" in said
