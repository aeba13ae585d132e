"""Wrong input is told: what is wrong, where, and the way out."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from eigengap import PCA, PPCA, FactorAnalysis
from eigengap.exceptions import InfiniteCellError, RoundedWarning

ALL = [PCA, PPCA, FactorAnalysis]
every = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)

HOSTILE = [
    'say "hi"',
    "two\nlines",
    "{braces} {0}",
    "</script><img src=x onerror=alert(1)>",
    "%s %(x)d",
    "bell\x07\x1b[31m",
    "x" * 500,
]
NAMES = ["age", "height", "weight", "pulse"]


def table(n=40, d=4):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))


def told(action, *words, error=ValueError):
    """The message of the error that the action raises; it must hold all words."""
    with pytest.raises(error) as raised:
        action()
    message = str(raised.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    return message


# Cells -------------------------------------------------------------------------------------


FRAMES = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame(columns),
    "pyarrow": lambda columns: pa.table(columns),
}


@pytest.mark.parametrize("library", FRAMES)
@every
def test_text_in_a_frame(kind, library):
    columns = dict(zip(NAMES, table().T, strict=True))
    columns["name"] = ["Ada", "Bob"] * 20
    told(
        lambda: kind(n_components=2).fit(FRAMES[library](columns)),
        "not numeric",
        '"name" (text, e.g. "Ada" at row 0)',
        'X[["age", "height", "weight", "pulse"]]',
    )


@every
def test_numbers_written_as_text(kind):
    frame = pd.DataFrame(table(), columns=NAMES)
    frame["pulse"] = frame["pulse"].map(str)
    told(
        lambda: kind(n_components=2).fit(frame),
        '"pulse" (numbers written as text',
        'pandas.to_numeric(X["pulse"])',
    )


@every
def test_text_in_an_array(kind):
    X = table().astype(object)
    X[3, 1] = "tall"
    told(
        lambda: kind(n_components=2).fit(X),
        "not numeric: 1 (text among numbers",
        '"tall" at row 3',
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@every
def test_infinity(kind, value):
    X = table()
    model = kind(n_components=2).fit(X)
    X[5, 2] = value
    words = ("infinity", f"{value} at row 5", "Set such cells to NaN")
    told(lambda: kind(n_components=2).fit(X), *words, "column 2")
    told(lambda: model.transform(X), *words, "column 2")
    named = pd.DataFrame(X, columns=NAMES)
    told(lambda: kind(n_components=2).fit(named), *words, 'column "weight"')
    sparse = scipy.sparse.csr_array(X)
    told(lambda: kind(n_components=2).fit(sparse), *words, "column 2")


@pytest.mark.parametrize("value", [np.inf, -np.inf, Decimal("Infinity")])
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_infinity_beside_integers_in_objects(kind, value):
    X = np.array([[1, 2], [value, 3.0], [2**60 + 1, 2]], dtype=object)
    given = X if kind == "array" else pd.DataFrame(X, columns=["a", "b"])
    where = "0" if kind == "array" else '"a"'
    with (
        pytest.warns(RoundedWarning, match="at row 2"),
        pytest.raises(InfiniteCellError, match=f"inf at row 1, column {where}"),
    ):
        PCA(1).fit(given)


@every
def test_infinities_are_counted(kind):
    X = table()
    X[5, 2] = X[7, 0] = X[9, 1] = np.inf
    told(lambda: kind(n_components=2).fit(X), "at row 5, column 2", "and 2 more cells")


@every
def test_nan_in_sparse_input(kind):
    X = table()
    X[2, 3] = np.nan
    told(
        lambda: kind(n_components=2).fit(scipy.sparse.csr_array(X)),
        "NaN at row 2, column 3",
        "X.toarray()",
    )


@every
def test_complex_numbers(kind):
    told(lambda: kind(n_components=2).fit(table() + 1j), "Complex data not supported")


@every
def test_dates(kind):
    frame = pd.DataFrame(table(), columns=NAMES)
    frame["when"] = pd.date_range("2020-01-01", periods=40)
    told(lambda: kind(n_components=2).fit(frame), '"when" (date or time', "at row 0")


@every
def test_column_without_values(kind):
    X = table()
    X[:, [1, 3]] = np.nan
    told(lambda: kind(n_components=2).fit(X), "no value in columns 1, 3", "NaN", "Drop them")
    frame = pd.DataFrame(X, columns=NAMES)
    told(lambda: kind(n_components=2).fit(frame), 'columns "height", "pulse"', "Drop them")


@every
def test_nothing_but_missing(kind):
    told(lambda: kind(n_components=2).fit(np.full((10, 3), np.nan)), "no value in columns 0, 1, 2")


# Shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.empty((0, 4)), ["0 sample(s)", "minimum of 1"]),
        (np.empty((10, 0)), ["0 feature(s)", "minimum of 1"]),
        (np.ones(10), ["Expected 2D array, got 1D array", "reshape(-1, 1)"]),
        (np.ones((3, 4, 5)), ["dim 3", "dim <= 2"]),
        (7.0, ["Expected 2D array, got scalar", "reshape"]),
        ([[1.0, 2.0], [3.0]], ["differ in length", "row 0 has 2", "row 1 has 1"]),
        (pd.Series([1.0, 2.0]), ["2-dimensional", "DataFrame"]),
        (pl.LazyFrame({"a": [1.0, 2.0]}), ["lazy", "collect"]),
    ],
    ids=["no rows", "no columns", "1-D", "3-D", "scalar", "ragged", "series", "lazy"],
)
@every
def test_shape(kind, X, words):
    told(lambda: kind(n_components=1).fit(X), *words)


@every
def test_one_row(kind):
    told(lambda: kind(n_components=1).fit(table(n=1)), "1 sample", "at least 2 rows are needed")


@every
def test_wrong_width(kind):
    model = kind(n_components=2).fit(table())
    for method in (model.transform, model.impute, model.reconstruct, model.score, model.posterior):
        told(lambda method=method: method(table(d=3)), "3 features", "expecting 4 features")


@pytest.mark.parametrize("shape", [(5, 3), (5, 1), (2,)])
@every
def test_wrong_width_of_scores(kind, shape):
    model = kind(n_components=2).fit(table())
    told(lambda: model.inverse_transform(np.zeros(shape)), "each of the 2 components", f"{shape}")


# Parameters --------------------------------------------------------------------------------


@every
def test_unknown_parameter(kind):
    told(lambda: kind(n_component=2), "n_component", error=TypeError)
    told(lambda: kind().set_params(n_component=2), "n_component")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", -1),
        ("n_components", 1.5),
        ("n_components", "many"),
        ("scale", "yes"),
        ("max_iter", 0),
        ("tol", -1.0),
        ("tol", np.nan),
        ("random_state", "seed"),
        ("missing_values", "NA"),
    ],
)
@every
def test_bad_value_of_a_parameter(kind, name, value):
    told(lambda: kind(**{name: value}).fit(table()), name)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (PCA, "svd_solver", "magic"),
        (PCA, "whiten", 2),
        (PPCA, "solver", "guess"),
        (PPCA, "noise_variance", -0.1),
        (PPCA, "loading_precision", -1.0),
        (PPCA, "fit_mean", None),
        (PPCA, "n_init", 0),
        (FactorAnalysis, "rotation", "spin"),
        (FactorAnalysis, "kaiser", "yes"),
    ],
)
def test_bad_value_of_an_own_parameter(kind, name, value):
    told(lambda: kind(**{name: value}).fit(table()), f"'{name}' parameter of {kind.__name__}")


@pytest.mark.parametrize("missing", [False, True])
@every
def test_more_components_than_possible(kind, missing):
    X = table()
    if missing:
        X[3, 1] = np.nan
    told(lambda: kind(n_components=5).fit(X), "n_components=5", "at most 4", "columns (4)")
    told(
        lambda: kind(n_components=4).fit(X[1:4]),
        "n_components=4",
        "at most 3",
        "number of rows (3)",
    )


def test_what_the_closed_form_cannot_do():
    X = table()
    X[3, 1] = np.nan
    told(lambda: PPCA(2, solver="closed_form").fit(X), "complete data", 'solver="em"')
    told(lambda: PCA("mle").fit(X), '"mle" needs complete data', '"auto"')


@every
def test_unknown_kind_of_reconstruction(kind):
    model = kind(n_components=2).fit(table())
    told(lambda: model.reconstruct(table(), kind="x"), "kind", '"posterior" or "optimal"', "'x'")


@pytest.mark.parametrize("missing_values", ["NA", [1, "NA"], {"a": 1}])
@every
def test_missing_values_that_are_no_numbers(kind, missing_values):
    told(lambda: kind(missing_values=missing_values).fit(table()), "missing_values")


# Weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(39), ["39 entries", "40 rows"]),
        (np.r_[np.ones(10), -1.0, np.ones(29)], ["not negative", "-1.0 at row 10"]),
        (np.r_[np.ones(10), np.nan, np.ones(29)], ["finite", "nan at row 10"]),
        (np.r_[np.ones(10), np.inf, np.ones(29)], ["finite", "inf at row 10"]),
        (np.zeros(40), ["zero in every row", "no row is left"]),
        (np.ones((40, 1)), ["1D", "(40,)"]),
        (np.r_[np.ones(1), np.zeros(39)], ["at least 2 rows are needed"]),
    ],
    ids=["length", "negative", "nan", "inf", "zero", "2-D", "one row left"],
)
@every
def test_weight(kind, weight, words):
    told(lambda: kind(n_components=2).fit(table(), sample_weight=weight), *words)


@every
def test_weights_that_sum_to_one(kind):
    """A habit from elsewhere; here weights are frequencies, and one row has no variance."""
    for q in (2, "auto"):
        told(
            lambda q=q: kind(n_components=q).fit(table(), sample_weight=np.full(40, 1 / 40)),
            "sample_weight sums to 1",
            "frequencies",
            "sample_weight.sum()",
        )


# Order of calls ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "transform",
        "inverse_transform",
        "impute",
        "reconstruct",
        "posterior",
        "score",
        "score_samples",
        "get_covariance",
        "get_precision",
        "sample",
        "sample_imputations",
        "get_feature_names_out",
        "reconstruction_error",
    ],
)
@every
def test_before_fit(kind, call):
    if call == "reconstruction_error" and kind is not PCA:
        assert not hasattr(kind, call)  # of PCA only
        return
    model = kind()
    arguments = {
        "get_covariance": (),
        "get_precision": (),
        "sample": (),
        "get_feature_names_out": (),
        "reconstruction_error": (),
        "sample_imputations": (table(), 2),
    }.get(call, (table(),))

    def act():
        result = getattr(model, call)(*arguments)
        return list(result) if call == "sample_imputations" else result

    told(act, f"This {kind.__name__} instance is not fitted yet", "'fit'", error=NotFittedError)


@every
def test_a_failed_fit_leaves_nothing_behind(kind):
    model = kind(n_components=2)
    told(lambda: model.fit(np.full((10, 3), np.nan)), "no value")
    told(lambda: model.transform(table()), "not fitted", error=NotFittedError)


# Foreign names -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name)[:20])
@every
def test_hostile_names(kind, name):
    """A name is quoted, escaped, on one line and not too long; it changes nothing else."""
    frame = pd.DataFrame(table(), columns=["a", name, "c", "d"])
    assert kind(n_components=2).fit(frame).transform(frame).shape == (40, 2)
    frame.loc[4, name] = np.inf
    message = told(lambda: kind(n_components=2).fit(frame), "inf at row 4, column")
    shown = re.search(r'column (".*")\.', message).group(1)
    assert all(char.isprintable() for char in message)
    assert len(shown) < 100
    assert not re.search(r'(?<!\\)"', shown[1:-1])  # a quote inside is escaped
    frame[name] = "text"
    assert shown in told(lambda: kind(n_components=2).fit(frame), "not numeric")
    frame[name] = np.nan
    assert shown in told(lambda: kind(n_components=2).fit(frame), "no value in column")
