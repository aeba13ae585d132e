"""The estimators inside scikit-learn's machinery and between data-frame libraries."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from eigengap import PCA, PPCA, FactorAnalysis

ALL = [PCA, PPCA, FactorAnalysis]
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]

every = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
# Iris has more factors asked of it below than its four columns carry.
pytestmark = pytest.mark.filterwarnings("ignore:Heywood case")


@pytest.fixture
def iris():
    """Rows with 5 % gaps, and the species."""
    X, y = load_iris(return_X_y=True)
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    return X, y


def signal(n=240, d=8, q=2, seed=0):
    """Rows with gaps whose q directions stand out."""
    rng = np.random.default_rng(seed)
    X = 3.0 * rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


# Composition -------------------------------------------------------------------------------


@every
def test_grid_search_by_score_finds_the_rank(kind):
    search = GridSearchCV(kind(), {"n_components": [1, 2, 3]}, cv=3, error_score="raise")
    search.fit(signal())
    assert search.best_params_ == {"n_components": 2}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    held_out = cross_val_score(kind(n_components=2), signal(), cv=3, error_score="raise")
    assert_allclose(held_out.mean(), search.best_score_, rtol=1e-12)


@every
def test_pipeline_with_a_classifier(kind, iris):
    X, y = iris
    model = make_pipeline(kind(n_components=2), LogisticRegression())
    assert cross_val_score(model, X, y, cv=3, error_score="raise").mean() > 0.9
    search = GridSearchCV(
        Pipeline([("reduce", kind()), ("classify", LogisticRegression())]),
        {"reduce__n_components": [1, 2], "reduce__scale": [False, True]},
        cv=3,
        error_score="raise",
    )
    assert search.fit(X, y).best_score_ > 0.9


@every
def test_column_transformer(kind, iris):
    frame = pd.DataFrame(iris[0], columns=NAMES)
    frame["species"] = iris[1]
    chosen = ColumnTransformer(
        [("sepal", kind(n_components=1), NAMES[:2]), ("petal", kind(n_components=1), NAMES[2:])],
        remainder="drop",
    )
    out = chosen.fit_transform(frame)
    alone = kind(n_components=1).fit_transform(frame[NAMES[2:]])
    assert_array_equal(out[:, 1:], alone)
    name = f"{kind.__name__.lower()}0"
    expected = [f"sepal__{name}", f"petal__{name}"]
    assert chosen.get_feature_names_out().tolist() == expected


def test_feature_union(iris):
    union = FeatureUnion([("pca", PCA(n_components=2)), ("fa", FactorAnalysis(n_components=1))])
    out = union.fit_transform(iris[0])
    assert_array_equal(out[:, :2], PCA(n_components=2).fit_transform(iris[0]))
    assert union.get_feature_names_out().tolist() == [
        "pca__pca0",
        "pca__pca1",
        "fa__factoranalysis0",
    ]


@every
def test_sample_weight_through_a_pipeline(kind, iris):
    X, _ = iris
    weight = np.random.default_rng(1).integers(1, 4, len(X))
    pipeline = Pipeline([("scale", StandardScaler()), ("reduce", kind(n_components=2))])
    pipeline.fit(X, reduce__sample_weight=weight)
    by_hand = kind(n_components=2).fit(StandardScaler().fit_transform(X), sample_weight=weight)
    assert_array_equal(pipeline["reduce"].get_covariance(), by_hand.get_covariance())
    unweighted = Pipeline([("scale", StandardScaler()), ("reduce", kind(n_components=2))]).fit(X)
    assert np.abs(pipeline["reduce"].mean_ - unweighted["reduce"].mean_).max() > 1e-3


# Copies ------------------------------------------------------------------------------------


PARAMETERS = {
    PCA: {"n_components": 2, "whiten": True, "scale": True, "random_state": 3},
    PPCA: {"n_components": 2, "n_init": 2, "missing_values": [-999.0], "random_state": 3},
    FactorAnalysis: {"n_components": 2, "rotation": "varimax", "kaiser": True},
}


@every
def test_clone_keeps_parameters_and_no_fit(kind, iris):
    model = kind(**PARAMETERS[kind]).fit(iris[0])
    copy = clone(model)
    assert not hasattr(copy, "model_")
    for name, value in model.get_params().items():
        np.testing.assert_equal(copy.get_params()[name], value)
    assert_array_equal(copy.fit(iris[0]).transform(iris[0]), model.transform(iris[0]))


@every
def test_a_second_fit_forgets_the_first(kind, iris):
    model = kind(n_components="auto").fit(iris[0])
    assert model.rank_choice_.n_components == model.n_components_
    model.set_params(n_components=1).fit(iris[0][:, :3])
    assert not hasattr(model, "rank_choice_")
    assert_array_equal(
        model.get_covariance(), kind(n_components=1).fit(iris[0][:, :3]).get_covariance()
    )


def outputs(model, X):
    yield from (model.transform(X), model.impute(X), model.score_samples(X))
    yield from (model.reconstruct(X), model.reconstruct(X, kind="optimal"))
    yield from (model.get_covariance(), model.get_precision(), model.posterior(X).cov)
    yield model.sample(5, random_state=0)
    yield from model.sample_imputations(X, 2, random_state=0)
    yield from (model.components_, model.explained_variance_, model.inverse_transform(np.eye(2)))


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@every
def test_pickle_gives_identical_outputs(kind, protocol, iris):
    X, _ = iris
    model = kind(**PARAMETERS[kind]).fit(X)
    copy = pickle.loads(pickle.dumps(model, protocol=protocol))
    for got, expected in zip(outputs(copy, X), outputs(model, X), strict=True):
        assert_array_equal(got, expected)


def fit_in_worker(kind, X, q):
    return kind(n_components=q).fit(X)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_workers(backend):
    X = signal()
    jobs = [(kind, q) for kind in ALL for q in (1, 2)]
    parallel = Parallel(n_jobs=2, backend=backend)
    models = parallel(delayed(fit_in_worker)(kind, X, q) for kind, q in jobs)
    for (kind, q), model in zip(jobs, models, strict=True):
        expected = kind(n_components=q).fit(X)
        assert_allclose(model.get_covariance(), expected.get_covariance(), rtol=1e-9)
        assert_allclose(model.transform(X), expected.transform(X), atol=1e-8)


# Names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("library", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
@every
def test_set_output(kind, library, frame, iris):
    X, _ = iris
    model = kind(n_components=2).set_output(transform=library)
    out = model.fit_transform(X)
    assert isinstance(out, frame)
    assert list(out.columns) == [f"{kind.__name__.lower()}{k}" for k in range(2)]
    assert_array_equal(out.to_numpy(), kind(n_components=2).fit(X).transform(X))


@every
def test_set_output_keeps_the_index(kind, iris):
    frame = pd.DataFrame(iris[0], columns=NAMES, index=[f"flower {i}" for i in range(150)])
    out = kind(n_components=2).set_output(transform="pandas").fit_transform(frame)
    assert out.index.equals(frame.index)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@every
def test_other_names_are_refused(kind, library, iris):
    frame = pd.DataFrame(iris[0], columns=NAMES)
    other = frame.rename(columns={"sepal width": "colour"})
    if library == "polars":
        frame, other = pl.from_pandas(frame), pl.from_pandas(other)
    model = kind(n_components=2).fit(frame)
    assert model.feature_names_in_.tolist() == NAMES
    for method in (model.transform, model.impute, model.score_samples):
        with pytest.raises(ValueError, match=r"feature names should match.*(\n.*)*colour"):
            method(other)
    with pytest.raises(ValueError, match="same order"):
        model.transform(frame[NAMES[::-1]])


@every
def test_other_widths_are_refused(kind, iris):
    model = kind(n_components=2).fit(iris[0])
    for X in (iris[0][:, :3], np.hstack([iris[0]] * 2)):
        for method in (model.transform, model.impute, model.score):
            expected = f"X has {X.shape[1]} features, but {kind.__name__} is expecting 4 features"
            with pytest.raises(ValueError, match=expected):
                method(X)


@every
def test_html_and_text_repr(kind, iris):
    model = kind(n_components=2, scale=True)
    for state in (model, model.fit(iris[0])):
        assert kind.__name__ in state._repr_html_()
        assert repr(state) == f"{kind.__name__}(n_components=2, scale=True)"
    assert "Fitted" in model._repr_html_()
    assert "Not fitted" in clone(model)._repr_html_()


# Type in is type out -----------------------------------------------------------------------


def as_library(X, library):
    frame = pd.DataFrame(X, columns=NAMES)
    if library == "ndarray":
        return X
    if library == "pandas":
        return frame.set_index(np.arange(len(X)) * 10)
    return pl.from_pandas(frame) if library == "polars" else pa.Table.from_pandas(frame)


def to_numpy(table):
    if isinstance(table, pa.Table):
        return np.column_stack([column.to_numpy() for column in table.columns])
    return np.asarray(table)


@pytest.mark.parametrize("library", ["ndarray", "pandas", "polars", "pyarrow"])
@every
def test_tables_come_back_as_they_came(kind, library, iris):
    X, _ = iris
    given = as_library(X, library)
    model = kind(n_components=1).fit(given)
    plain = kind(n_components=1).fit(X)
    filled, std = model.impute(given, return_std=True)
    tables = [
        (model.impute(given), plain.impute(X)),
        (filled, plain.impute(X)),
        (std, plain.impute(X, return_std=True)[1]),
        (model.reconstruct(given), plain.reconstruct(X)),
        (model.reconstruct(given, kind="optimal"), plain.reconstruct(X, kind="optimal")),
        *zip(
            model.sample_imputations(given, 2, random_state=0),
            plain.sample_imputations(X, 2, random_state=0),
            strict=True,
        ),
    ]
    for table, expected in tables:
        assert type(table) is type(given)
        # Frames are read column by column: rounding differs, and the fit stops at tol=1e-6.
        assert_allclose(to_numpy(table), expected, rtol=1e-6, atol=1e-6)
        if library == "pyarrow":
            assert table.column_names == NAMES
        elif library != "ndarray":
            assert list(table.columns) == NAMES
        if library == "pandas":
            assert table.index.equals(given.index)
    assert_allclose(model.transform(given), plain.transform(X), rtol=1e-5, atol=1e-6)
