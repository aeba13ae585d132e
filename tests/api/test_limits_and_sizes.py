"""Limits of cells and sizes of rows, through estimators: in the table's own terms."""

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.columns import Bounded, Censored, Count, with_limits
from eigengap.exceptions import DataError


def river(n=300, seed=0):
    """A table whose rows were observed for different hours, and the lead that was there."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    lead = np.exp(z + 0.4 * rng.normal(size=n))
    table = pd.DataFrame(
        {
            "lead": np.maximum(lead, 0.5),
            "zinc": np.exp(0.5 * z + 0.4 * rng.normal(size=n)),
            "ph": 7 + z + rng.normal(size=n),
            "hours": rng.uniform(1, 10, size=n),
        }
    )
    table["fish"] = rng.poisson(table.hours * np.exp(0.5 * z))
    table.loc[::7, "ph"] = np.nan
    return table, lead


KINDS = {"lead": Censored(below=0.5), "fish": Count(size="hours")}


def test_a_detection_limit_of_a_column():
    table, lead = river()
    imputer = eg.LowRankImputer(n_components=1, columns=KINDS).fit(table)
    assert imputer.kinds_["lead"] == "censored"
    assert imputer.kinds_["hours"] == "ignored"
    cut = lead < 0.5
    imputed = imputer.impute(table)["lead"].to_numpy()
    assert np.all((imputed[cut] > 0) & (imputed[cut] <= 0.5))
    np.testing.assert_array_equal(imputed[~cut], lead[~cut])
    assert np.corrcoef(imputed[cut], lead[cut])[0, 1] > 0.3
    np.testing.assert_array_equal(imputer.impute(table)["hours"], table["hours"])


def test_limits_of_cells_are_those_of_a_column_where_they_are_alike():
    table, lead = river()
    limits = np.full(table.shape, np.nan)
    limits[:, 0] = np.where(lead < 0.5, 0.5, np.nan)
    one = eg.FactorAnalysis(1, columns={"lead": Censored(below=0.5)}).fit(table)
    two = eg.FactorAnalysis(1, columns="auto").fit(table, upper=limits)
    assert two.kinds_["lead"] == "censored"
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-9)
    limited = with_limits(table, upper=limits)
    np.testing.assert_allclose(one.score_samples(table), two.score_samples(limited))
    for a, b in zip(one.intervals(table), two.intervals(limited), strict=True):
        pd.testing.assert_frame_equal(a, b)
    (drawn,) = two.sample_imputations(limited, 1, random_state=0)
    assert np.all(drawn["lead"][lead < 0.5] <= 0.5)
    assert two.transform(limited).shape == (300, 1)


def test_two_equal_limits_are_a_value():
    table, _ = river()
    exact = np.full(table.shape, np.nan)
    exact[:, 0] = table["lead"]
    kinds = {"lead": "censored"}
    one = eg.FactorAnalysis(1, columns=kinds).fit(table)
    unknown = table.assign(lead=7.0)  # whatever it holds where there are limits
    two = eg.FactorAnalysis(1, columns=kinds).fit(unknown, lower=exact, upper=exact)
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-9)


def test_sizes_scale_counts():
    table, _ = river()
    model = eg.FactorAnalysis(1, columns=KINDS).fit(table)
    longer = table.assign(fish=np.nan).assign(hours=10 * table["hours"])
    ratio = model.impute(longer)["fish"] / model.impute(table.assign(fish=np.nan))["fish"]
    assert np.median(ratio[np.isfinite(ratio)]) == pytest.approx(10, rel=0.25)


def test_a_file_has_the_same_details(tmp_path):
    table, _ = river()
    table["site"] = np.where(table["ph"] > 7, "north", "south")
    path = tmp_path / "river.csv"
    table.to_csv(path, index=False)
    from_file = eg.FactorAnalysis(1, columns=KINDS).fit(path)
    in_memory = eg.FactorAnalysis(1, columns=KINDS).fit(table)
    assert from_file.log_likelihood_ == pytest.approx(in_memory.log_likelihood_, rel=1e-9)
    np.testing.assert_allclose(from_file.score_samples(path), in_memory.score_samples(table))


def test_models_with_details_are_saved(tmp_path):
    table, _ = river()
    model = eg.FactorAnalysis(1, columns=KINDS).fit(table)
    eg.save(model, tmp_path / "model.eg")
    again = eg.load(tmp_path / "model.eg")
    np.testing.assert_allclose(again.score_samples(table), model.score_samples(table))
    pd.testing.assert_frame_equal(again.impute(table), model.impute(table))


def test_what_is_refused():
    table, _ = river()
    limits = np.full(table.shape, np.nan)
    lower, upper = limits.copy(), limits.copy()
    lower[3, 0], upper[3, 0] = 2.0, 1.0
    with pytest.raises(DataError, match="lower limit 2 at row 3"):
        eg.FactorAnalysis(1, columns="auto").fit(table, lower=lower, upper=upper)
    with pytest.raises(ValueError, match='columns="auto"'):
        eg.FactorAnalysis(1).fit(table, lower=limits)
    with pytest.raises(ValueError, match="does not fit"):
        with_limits(table, lower=np.zeros((2, 2)))
    with pytest.raises(DataError, match='row 0, column "hours", is no size'):
        eg.FactorAnalysis(1, columns=KINDS).fit(table.assign(hours=0.0))
    model = eg.FactorAnalysis(1, columns=KINDS).fit(table)
    limits[5, 2] = 1.0
    with pytest.raises(DataError, match='row 5 has a limit in column "ph"'):
        model.transform(with_limits(table, upper=limits))


def test_text_that_is_a_limit():
    """ "<0.5" among numbers: a limit of its own, and a number when it is imputed."""
    table, lead = river()
    limit = np.random.default_rng(1).choice([0.3, 0.8], size=len(lead))
    cut = lead < limit
    table["lead"] = np.where(cut, [f"<{x}" for x in limit], lead.astype(str))
    imputer = eg.LowRankImputer(n_components=1, columns="auto").fit(table)
    assert imputer.kinds_["lead"] == "censored"
    imputed = imputer.impute(table)["lead"].astype(float).to_numpy()
    assert np.all(imputed[cut] <= limit[cut])
    np.testing.assert_allclose(imputed[~cut], lead[~cut])


@pytest.mark.parametrize("kind", ["positive", Bounded(0, 100), "ordinal", "nominal", "ignored"])
@pytest.mark.parametrize("others", [{}, {"ph": "censored"}])
def test_limits_of_columns_that_have_none_are_refused_by_row_and_column(kind, others):
    table = river(60)[0][["lead", "zinc", "ph"]]
    table["zinc"] = np.ceil(table["zinc"]).clip(upper=3.0)
    kinds = {"zinc": kind, "lead": "positive", **others}
    limits = np.full(table.shape, np.nan)
    limits[4:, 1] = 2.0
    for call in (
        lambda: eg.FactorAnalysis(1, columns=kinds).fit(table, lower=limits),
        lambda: eg.FactorAnalysis(1, columns=kinds).fit(table).impute(with_limits(table, limits)),
    ):
        with pytest.raises(
            DataError, match='row 4 has a limit in column "zinc", which is'
        ) as caught:
            call()
        assert (caught.value.row, caught.value.column, caught.value.name) == (4, 1, "zinc")


def test_numbers_with_limits_are_censored_unless_they_are_asked_for():
    """Few whole numbers with limits are no levels, whether the limits are text or tables."""
    table, _ = river()
    table["stage"] = np.random.default_rng(1).integers(4, size=len(table)) * 1.0
    assert eg.FactorAnalysis(1, columns="auto").fit(table).kinds_["stage"] == "ordinal"
    upper = np.full(table.shape, np.nan)
    upper[:20, -1] = 1.0
    model = eg.FactorAnalysis(1, columns="auto").fit(table, upper=upper)
    text = table.assign(stage=table["stage"].astype(str))
    text.loc[:19, "stage"] = "<1"
    from_text = eg.FactorAnalysis(1, columns="auto").fit(text)
    assert model.kinds_ == from_text.kinds_
    assert model.kinds_["stage"] == "censored"
    assert model.log_likelihood_ == pytest.approx(from_text.log_likelihood_, rel=1e-9)


def test_limits_of_rows_of_weight_0_change_nothing():
    table, lead = river()
    upper = np.full(table.shape, np.nan)
    upper[:, 0] = np.where(lead < 0.5, 0.5, np.nan)
    more = pd.concat([table, table[:50].assign(lead=1e6)], ignore_index=True)
    all_upper = np.vstack([upper, np.full((50, table.shape[1]), 1e-6)])
    all_upper[len(table) :, 1:] = np.nan
    weight = np.r_[np.ones(len(table)), np.zeros(50)]
    one = eg.FactorAnalysis(1, columns="auto").fit(table, upper=upper)
    two = eg.FactorAnalysis(1, columns="auto").fit(more, upper=all_upper, sample_weight=weight)
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-9)


def test_weights_count_in_the_sizes_of_rows():
    """Three of a row are a row of weight 3, for the average row that totals are held against."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=150)
    Y = rng.poisson(np.exp(z[:, None] * [0.3, -0.6, 0.5, 0.1] + [1, 2, 2, 3])).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    weight = np.where(z > 0, 3, 1)
    kinds = dict.fromkeys(range(4), Count(size="total", dispersion=0))
    how = {"columns": kinds, "tol": 1e-6}
    weighted = eg.FactorAnalysis(1, **how).fit(Y, sample_weight=weight)
    repeated = eg.FactorAnalysis(1, **how).fit(np.repeat(Y, weight, axis=0))
    np.testing.assert_allclose(weighted.mean_, repeated.mean_, atol=1e-3)
    np.testing.assert_allclose(weighted.score_samples(Y), repeated.score_samples(Y), atol=1e-3)


def lognormal(n=200, seed=0):
    """A frame whose columns get logarithms, and upper limits of its first column."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(size=(n, 1)) + 0.4 * rng.normal(size=(n, 3)))
    upper = np.full(values.shape, np.nan)
    upper[values[:, 0] < 0.5, 0] = 0.5
    return pd.DataFrame(values, columns=["lead", "zinc", "tin"]), upper


@pytest.mark.parametrize("transform", ["auto", "log"])
def test_limits_that_leave_no_value_are_refused(transform, tmp_path):
    table, upper = lognormal()
    model = eg.FactorAnalysis(1, columns={"lead": Censored(transform)}).fit(table, upper=upper)
    new = table[:4].assign(lead=np.nan)
    none = np.full(new.shape, np.nan)
    for low, high in [(np.nan, 0.0), (np.nan, -1e-9), (-5.0, -1.0)]:
        lower, upper = none.copy(), none.copy()
        lower[2, 0], upper[2, 0] = low, high
        for answer in (model.impute, model.intervals, model.score_samples):
            with pytest.raises(DataError, match='row 2, column "lead", leaves no value') as caught:
                answer(with_limits(new, lower, upper))
            assert (caught.value.row, caught.value.name) == (2, "lead")
    path = tmp_path / "new.csv"
    new.astype(object).assign(lead=[1.0, 2.0, "<0", 3.0]).to_csv(path, index=False)
    text = table.assign(lead=table["lead"].astype(str).mask(table["lead"] < 0.5, "<0.5"))
    from_text = eg.FactorAnalysis(1, columns={"lead": Censored(transform)}).fit(text)
    for given in (path, pd.read_csv(path)):
        with pytest.raises(DataError, match='row 2, column "lead", leaves no value'):
            from_text.score_samples(given)


def test_a_lower_limit_beyond_the_range_says_nothing():
    table, upper = lognormal()
    model = eg.FactorAnalysis(1, columns="auto").fit(table, upper=upper)
    new = table[:4].assign(lead=np.nan)
    high, low = np.full(new.shape, np.nan), np.full(new.shape, np.nan)
    high[:, 0], low[:, 0] = 0.3, [-5.0, 0.0, -1e100, np.nan]
    one, two = (with_limits(new, each, high) for each in (None, low))
    np.testing.assert_array_equal(model.score_samples(one), model.score_samples(two))
    imputed = model.impute(two)
    pd.testing.assert_frame_equal(model.impute(one), imputed)
    assert imputed["lead"].between(0.0, 0.3, inclusive="neither").all()


def test_no_transform_is_learned_from_limits_that_it_excludes():
    table, upper = lognormal()
    upper[3, 0] = 0.0
    with pytest.raises(DataError, match='upper limit 0 at row 3, column "lead", leaves no value'):
        eg.FactorAnalysis(1, columns={"lead": Censored("log")}).fit(table, upper=upper)
    model = eg.FactorAnalysis(1, columns="auto").fit(table, upper=upper)
    assert np.isfinite(model.log_likelihood_)


def test_what_a_table_holds_where_there_are_limits_does_not_matter():
    table, upper = lognormal()
    limited = ~np.isnan(upper[:, 0])
    one = eg.FactorAnalysis(1, columns={"lead": Censored("log")}).fit(
        table.assign(lead=table["lead"].mask(limited)), upper=upper
    )
    two = eg.FactorAnalysis(1, columns={"lead": Censored("log")}).fit(
        table.assign(lead=table["lead"].mask(limited, -1.0)), upper=upper
    )
    assert one.log_likelihood_ == two.log_likelihood_


def test_infinite_limits_are_none():
    table, upper = lognormal()
    one = eg.FactorAnalysis(1, columns="auto").fit(table, upper=upper)
    infinite = np.where(np.isnan(upper), np.inf, upper)
    two = eg.FactorAnalysis(1, columns="auto").fit(table, lower=-np.inf, upper=infinite)
    assert one.kinds_ == two.kinds_
    assert one.log_likelihood_ == two.log_likelihood_


@pytest.mark.parametrize("limit", [1e200, -1e200, np.inf])
def test_limits_too_large_to_be_squared_are_refused(limit):
    table, upper = lognormal()
    model = eg.FactorAnalysis(1, columns="auto").fit(table, upper=upper)
    lower = np.full(table.shape, np.nan)
    lower[7, 0] = limit
    for call in (
        lambda: eg.FactorAnalysis(1, columns="auto").fit(table, lower=lower),
        lambda: model.score_samples(with_limits(table, lower)),
    ):
        with pytest.raises(DataError, match='row 7, column "lead", is too large') as caught:
            call()
        assert (caught.value.row, caught.value.name, caught.value.value) == (7, "lead", limit)


@pytest.mark.parametrize("held", [np.nan, 1.0])
def test_a_column_known_by_intervals_alone(held):
    """Brackets of incomes: the map is that of the values, as far as brackets tell."""
    table, _ = lognormal(400)
    lower, upper = np.full((2, *table.shape), np.nan)
    lower[:, 0] = np.floor(2 * table["lead"]) / 2
    upper[:, 0] = lower[:, 0] + 0.5
    model = eg.FactorAnalysis(1, columns={"lead": Censored("log")})
    model.fit(table.assign(lead=held), lower=lower, upper=upper)
    margin = model.table_.columns.kinds[0].margin
    log = np.log(table["lead"])  # standard errors are 0.05 and 0.04 of an sd of 1.1
    assert margin.centre == pytest.approx(log.mean(), abs=0.05)
    assert margin.unit == pytest.approx(log.std(), abs=0.08)
    imputed = model.impute(with_limits(table.assign(lead=held), lower, upper))["lead"]
    assert imputed.between(lower[:, 0], upper[:, 0]).all()


@pytest.mark.parametrize("ends", [(np.nan, 1.0), (0.0, 1.0), ("both", None)])
def test_limits_that_leave_the_spread_open_are_refused(ends):
    table, _ = lognormal()
    lower, upper = np.full((2, *table.shape), np.nan)
    lower[:, 0], upper[:, 0] = (np.nan, np.nan) if ends[0] == "both" else ends
    if ends[0] == "both":  # above 2 or below 1
        lower[::2, 0], upper[1::2, 0] = 2.0, 1.0
    with pytest.raises(DataError, match=r'column "lead" has no exact value.*both limits'):
        eg.FactorAnalysis(1, columns="auto").fit(
            table.assign(lead=np.nan), lower=lower, upper=upper
        )


def test_limits_go_with_columns_of_kinds():
    table, upper = lognormal()
    limited = with_limits(table, upper=upper)
    model = eg.FactorAnalysis(1).fit(table)
    for call in (
        lambda: eg.FactorAnalysis(1).fit(limited),
        lambda: eg.PCA(1).fit(limited),
        lambda: eg.LowRankImputer(columns="numeric").fit(limited),
        lambda: model.impute(limited),
        lambda: model.score_samples(limited),
    ):
        with pytest.raises(ValueError, match=r'limits go with columns.*columns="auto"') as caught:
            call()
        assert len(str(caught.value)) < 200
