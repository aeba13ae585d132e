"""Limits of cells and sizes of rows, through estimators: in the table's own terms."""

import numpy as np
import pandas as pd
import pytest

import eigengap as eg
from eigengap.columns import Censored, Count, with_limits
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
