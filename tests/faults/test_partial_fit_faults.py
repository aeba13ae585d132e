"""Batches that cannot be taken in are refused in words, and leave everything as it was."""

import warnings

import numpy as np
import pandas as pd
import pytest

import eigengap.fitting.online.stream as online
from eigengap import PCA, PPCA, FactorAnalysis
from eigengap.exceptions import DoesNotFitError, LostDigitsWarning, SentinelWarning

KINDS = [PCA, PPCA, FactorAnalysis]


def rows(n=40, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + rng.normal(size=(n, 1))


def with_cell(value):
    X = rows(300)  # more than wait to be taken in
    X[7, 2] = value
    return X


def kept(model):
    """Everything that the estimator remembers, by identity."""
    return {name: id(value) for name, value in vars(model).items()}


BAD = {
    "infinite cell": (with_cell(np.inf), "row 7"),
    "too few columns": (rows(d=3), "3 features, but .* is expecting 4 features"),
    "too many columns": (rows(d=5), "5 features, but .* is expecting 4 features"),
    "text": (np.array([["a", "b", "c", "d"]], dtype=object), "column"),
    "no rows": (np.empty((0, 4)), "0 sample"),
    "one dimension": (rows()[0], "2D"),
    "overflowing squares": (with_cell(1e300), "overflow"),
}


@pytest.mark.parametrize("solved", [False, True], ids=["unsolved", "solved"])
@pytest.mark.parametrize("name", list(BAD))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_refused_batch_changes_nothing(kind, name, solved):
    model = kind(1).partial_fit(rows())
    if solved:
        assert model.n_components_ == 1
    before = kept(model)
    batch, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        model.partial_fit(batch)
    assert kept(model) == before
    model.partial_fit(rows(seed=1))
    assert model.n_samples_seen_ == 80
    np.testing.assert_allclose(model.mean_, np.concatenate([rows(), rows(seed=1)]).mean(axis=0))


@pytest.mark.parametrize("name", ["infinite cell", "text", "no rows", "overflowing squares"])
def test_a_refused_first_batch_leaves_the_estimator_unfitted(name):
    model = PPCA(1)
    with pytest.raises(ValueError, match=BAD[name][1]):
        model.partial_fit(BAD[name][0])
    assert not hasattr(model, "n_features_in_")
    assert model.partial_fit(rows(d=3)).n_features_in_ == 3


def test_columns_by_other_names():
    frame = pd.DataFrame(rows(), columns=list("abcd"))
    model = PPCA(1).partial_fit(frame)
    before = kept(model)
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame.rename(columns={"b": "x"}))
    with pytest.raises(ValueError, match="must be in the same order"):
        model.partial_fit(frame[list("badc")])
    assert kept(model) == before
    with pytest.raises(ValueError, match='2 columns named "a"'):
        PPCA(1).partial_fit(pd.DataFrame(rows(), columns=list("aacd")))


def test_weights_of_another_length():
    model = PCA(1).partial_fit(rows())
    before = kept(model)
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(rows(), sample_weight=np.ones(3))
    assert kept(model) == before


def test_more_columns_than_memory_has_squares_for():
    with pytest.raises(DoesNotFitError, match=r"partial_fit of 300000 columns.* GB"):
        PCA(1).partial_fit(np.zeros((1, 300_000)))


def test_a_file_is_for_fit(tmp_path):
    np.save(tmp_path / "rows.npy", rows())
    model = PCA(1)
    with pytest.raises(ValueError, match="in memory"):
        model.partial_fit(str(tmp_path / "rows.npy"))
    assert not hasattr(model, "n_features_in_")


def test_a_warning_that_is_an_error_refuses_the_batch():
    X = rows(64)
    X[::10, 1] = -999.0
    model = PPCA(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SentinelWarning)
        with pytest.raises(SentinelWarning):
            model.partial_fit(X)
    assert not hasattr(model, "n_features_in_")


# What is not enough yet ---------------------------------------------------------------------


def test_a_single_row_is_kept_and_is_not_enough():
    X = rows()
    model = PCA(1).partial_fit(X[:1])
    with pytest.raises(ValueError, match="at least 2 rows"):
        model.transform(X)
    with pytest.raises(ValueError, match="at least 2 rows"):
        _ = model.mean_
    np.testing.assert_allclose(model.partial_fit(X[1:]).mean_, X.mean(axis=0))


def test_fewer_rows_than_components_wait_for_more():
    X = rows()
    model = PCA(3).partial_fit(X[:2])
    with pytest.raises(ValueError, match=r"n_components=3 must be between 0 and min\(.*\)=2"):
        _ = model.components_
    assert "n_samples_" not in vars(model)  # nothing half-made
    assert model.partial_fit(X[2:]).components_.shape == (3, 4)


def test_more_components_than_columns_are_refused_at_once():
    model = PPCA(5)
    with pytest.raises(ValueError, match="n_components=5 must be at most 4"):
        model.partial_fit(rows())
    assert not hasattr(model, "n_features_in_")


def test_student_noise_needs_all_rows():
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as refused:
        PPCA(1, distribution="student").partial_fit(rows())
    assert "Gaussian noise only" in str(refused.value.__cause__)
    fitted = PPCA(1, distribution="student").fit(rows()).set_params(distribution="gaussian")
    with pytest.raises(ValueError, match="begin with a clone"):
        fitted.partial_fit(rows())


def test_attributes_that_are_not_there_are_named():
    with pytest.raises(AttributeError, match="PCA has seen no batch"):
        _ = PCA().n_samples_seen_
    with pytest.raises(AttributeError, match="has no attribute 'model_'"):
        _ = PCA().model_
    with pytest.raises(AttributeError, match="has no attribute 'rank_choice_'"):
        _ = PCA(1).partial_fit(rows()).rank_choice_


def test_components_cannot_change_once_rows_are_gone(monkeypatch):
    monkeypatch.setattr(online, "KEPT_ROWS", 50)
    X = rows(400)
    X[::2, 1] = np.nan
    model = PPCA(1).partial_fit(X)
    with pytest.raises(ValueError, match="taken in with 1"):
        model.set_params(n_components=2).partial_fit(X)
    assert model.set_params(n_components=1).partial_fit(X).n_samples_seen_ == 800


def test_a_column_that_never_shows_a_value_ends_patience(monkeypatch):
    monkeypatch.setattr(online, "KEPT_ROWS", 20)
    frame = pd.DataFrame(rows(150), columns=list("abcd"))
    frame["c"] = np.nan
    model = PPCA(1).partial_fit(frame)
    with pytest.raises(ValueError, match='column "c"'):
        model.transform(frame)
    model.partial_fit(frame[:40])  # as many as are kept
    with pytest.raises(ValueError, match='column "c" had no value'):
        model.partial_fit(pd.concat([frame, frame]))


def test_minka_needs_complete_rows():
    X = rows()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="complete data"):
        _ = PCA("mle").partial_fit(X).n_components_


# What is told -------------------------------------------------------------------------------


def test_codes_for_missing_cells_are_told_once():
    X = rows(64)
    X[::10, 1] = -999.0
    model = PPCA(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for start in range(0, 64, 4):
            model.partial_fit(X[start : start + 4])
        model.partial_fit(X)
    (once,) = [w for w in told if issubclass(w.category, SentinelWarning)]
    assert "-999" in str(once.message)


def test_a_variance_near_rounding_is_told():
    X = rows(200, 3) * [1e5, 1.0, 1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", LostDigitsWarning)
        _ = PPCA(1).partial_fit(rows(200, 3)).model_
    with pytest.warns(LostDigitsWarning, match="of the largest"):
        _ = PPCA(1).partial_fit(X).model_


def test_columns_of_different_size_are_told():
    from eigengap.exceptions import UnitsWarning

    with pytest.warns(UnitsWarning, match="column 1"):
        _ = PPCA(1).partial_fit(rows(200) * [1.0, 1e-2, 1.0, 1.0]).model_


def test_batches_of_one_value_are_constant():
    model = PCA(1).partial_fit(np.full((5, 3), 2.0)).partial_fit(np.full((9, 3), 2.0))
    with pytest.warns(UserWarning, match="no variance"):
        assert model.explained_variance_ratio_ == [0.0]
    np.testing.assert_array_equal(model.mean_, 2.0)


@pytest.mark.parametrize("kind", [PCA, PPCA, FactorAnalysis])
@pytest.mark.parametrize("missing", [False, True])
def test_a_batch_of_rows_without_weight_changes_nothing(kind, missing):
    X = np.random.default_rng(0).normal(size=(60, 4)) * [4, 3, 2, 1]
    if missing:
        X[::7, 1] = np.nan
    weight = np.ones(60)
    weight[[0, 17, 59]] = 0.0
    rows, whole = kind(1), kind(1).partial_fit(X, sample_weight=weight)
    for i in range(60):
        rows.partial_fit(X[i : i + 1], sample_weight=weight[i : i + 1])
    assert rows.n_samples_seen_ == whole.n_samples_seen_ == 57
    np.testing.assert_allclose(rows.get_covariance(), whole.get_covariance(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("q", [3, 4])
@pytest.mark.filterwarnings("ignore")
def test_small_columns_keep_their_digits_next_to_nanosecond_timestamps(q, batches):
    X = np.random.default_rng(0).normal(size=(300, 4)) * [1.0, 5.0, 3.0, 1.0]
    X[:, 0] = 1.7e18 + np.arange(300) * 8.64e13
    whole, streamed = PCA(q).fit(X), PCA(q)
    for part in np.array_split(X, batches):
        streamed.partial_fit(part)
    np.testing.assert_allclose(streamed.explained_variance_, whole.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(streamed.components_, whole.components_, atol=1e-6)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.filterwarnings("ignore")
def test_more_components_than_the_rank_of_the_rows_are_as_in_fit(rank):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, rank)) @ rng.normal(size=(rank, 6))
    found, expected = PCA(5).partial_fit(X).explained_variance_, PCA(5).fit(X).explained_variance_
    np.testing.assert_allclose(found, expected, atol=1e-12 * expected[0])
    with pytest.raises(ValueError, match=r"at most|allow only"):
        _ = PCA(5).partial_fit(X[:4]).components_
