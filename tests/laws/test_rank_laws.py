"""What the choice of rank must not depend on, and what it says of odd tables."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

import eigengap as eg
from eigengap.fitting.gaussian.fit import fit_ppca
from eigengap.selection.rank import RankChoice, automatic_rank
from eigengap.selection.rank.choice import NAMES, in_words, vote
from eigengap.selection.rank.choose import CRITERIA, choose_rank, cross_validate
from eigengap.sources.conversion import as_source

FAST = [name for name in CRITERIA if name not in ("cross_validation", "ard")]


def table(n=80, d=6, q=2, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = 2 * rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + rng.normal(size=(n, d))
    X[rng.random((n, d)) < missing] = np.nan
    return X


def same(a, b, rtol=1e-6):
    assert a.criteria == b.criteria
    assert a.n_components == b.n_components
    for name in a.curves:
        same_curve(a, b, name, rtol)


def same_curve(a, b, name, rtol):
    assert list(a.curves[name]) == list(b.curves[name])
    np.testing.assert_allclose(
        list(a.curves[name].values()), list(b.curves[name].values()), rtol=rtol, err_msg=name
    )


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_shift_and_common_scale(missing):
    X = table(missing=missing)
    a, b = choose_rank(X, criteria=FAST), choose_rank(3.0 * X + 100.0, criteria=FAST)
    assert a.criteria == b.criteria
    for name in set(FAST) - {"bic", "minka"}:
        same_curve(a, b, name, rtol=1e-3)
    for name in ("bic", "minka"):  # a change of units adds a constant to a log-likelihood
        difference = [a.curves[name][q] - b.curves[name][q] for q in a.curves[name]]
        np.testing.assert_allclose(difference, difference[0], atol=1e-2)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_order_of_rows_and_columns(missing):
    X = table(missing=missing)
    asked = [name for name in FAST if name != "permuted_parallel_analysis"]  # other permutations
    rng = np.random.default_rng(1)
    other = X[rng.permutation(len(X))][:, rng.permutation(X.shape[1])]
    same(choose_rank(X, criteria=asked), choose_rank(other, criteria=asked), rtol=1e-3)


def test_units_of_columns_do_not_matter_to_the_default():
    X = table(missing=0.2)
    unit = np.array([1.0, 1e3, 1e-3, 5.0, 0.2, 1e6])
    a, b = automatic_rank(as_source(X)), automatic_rank(as_source(X * unit))
    same(a, b, rtol=1e-3)


def test_rotations_do_not_matter_to_isotropic_criteria():
    X = table()
    Q = np.linalg.qr(np.random.default_rng(2).normal(size=(6, 6)))[0]
    asked = ["eigengap", "tolerance", "bartlett", "bic", "minka", "gavish_donoho"]
    same(choose_rank(X, criteria=asked), choose_rank(X @ Q, criteria=asked))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_weights_are_repetitions(missing):
    X = table(n=50, missing=missing)
    times = np.random.default_rng(3).integers(1, 4, 50)
    a = choose_rank(X, criteria=FAST, sample_weight=times)
    b = choose_rank(np.repeat(X, times, axis=0), criteria=FAST)
    same(a, b, rtol=1e-3)


@pytest.mark.parametrize("rows", [7, 20])
def test_cross_validation_does_not_depend_on_blocks(rows):
    X = table(n=40, d=5, missing=0.1)

    def fit(source, q, options):
        return fit_ppca(source, q, options=options)

    one = cross_validate(as_source(X), fit, 2, seed=5)
    cut = cross_validate(as_source(X, block_rows=rows), fit, 2, seed=5)
    assert one[0] == cut[0]
    np.testing.assert_allclose(list(one[1].values()), list(cut[1].values()), rtol=1e-8)


def test_the_same_seed_gives_the_same_answer():
    X = table(n=40, d=5, missing=0.1)
    asked = ["permuted_parallel_analysis", "cross_validation"]
    first = choose_rank(X, criteria=asked, max_rank=1)
    generator = np.random.default_rng(0)
    same(first, choose_rank(X, criteria=asked, max_rank=1, random_state=generator), rtol=0)
    other = choose_rank(X, criteria=asked, max_rank=1, random_state=np.random.RandomState(1))
    assert dict(first.curves["cross_validation"]) != dict(other.curves["cross_validation"])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(frame):
    X = table(missing=0.1)
    df = frame({f"column {j}": X[:, j] for j in range(6)})
    same(choose_rank(df, criteria=FAST), choose_rank(X, criteria=FAST))


def test_codes_of_missing_values():
    X = table(missing=0.1)
    coded = np.where(np.isnan(X), -999.0, X)
    same(choose_rank(coded, criteria=FAST, missing_values=-999), choose_rank(X, criteria=FAST))


def test_sparse_tables():
    import scipy.sparse

    X = np.where(np.random.default_rng(0).random((60, 8)) < 0.5, 0.0, table(60, 8))
    asked = [*FAST, "cross_validation"]
    same(
        choose_rank(scipy.sparse.csr_array(X), criteria=asked),
        choose_rank(X, criteria=asked),
        rtol=1e-5,
    )


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(3, 2), (5, 40), (8, 8), (60, 2), (40, 3)])
@pytest.mark.parametrize("noise", ["isotropic", "diagonal"])
def test_edge_shapes(shape, noise, missing):
    rng = np.random.default_rng(1)
    X = rng.normal(size=shape)
    X[rng.random(shape) < missing] = np.nan
    X[0] = X[-1] = 1.5  # every column keeps two values and a row
    X[-1] += 1.0
    choice = choose_rank(X, noise=noise)
    assert 1 <= choice.n_components <= max(min(shape[1] - 1, shape[0] // 2), 1)
    assert set(choice.criteria) | set(choice.not_applied) == set(CRITERIA)
    assert all(np.isfinite(list(curve.values())).all() for curve in choice.curves.values())


def test_a_constant_column_is_no_obstacle():
    X = np.column_stack([table(), np.full(80, 3.0)])
    with_it, without = choose_rank(X, criteria=FAST), choose_rank(table(), criteria=FAST)
    for name in ("deflated_parallel_analysis", "parallel_analysis", "eigengap", "tolerance"):
        assert with_it.criteria[name] == without.criteria[name]
    assert "bartlett" in with_it.not_applied


def test_a_table_without_noise_has_its_rank():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 10))
    choice = choose_rank(X, criteria=["deflated_parallel_analysis", "eigengap", "tolerance", "bic"])
    assert choice.n_components == 3
    assert choice.criteria["eigengap"] == choice.criteria["bic"] == 3


def test_weak_components_beside_strong_ones():
    """What plain parallel analysis misses in their shadow, deflation finds; with gaps too."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(15, 3)))[0]
    X = rng.normal(size=(300, 3)) @ (U * [20.0, 3.0, 2.0]).T + rng.normal(size=(300, 15))
    for missing in (0.0, 0.2):
        Y = np.where(rng.random(X.shape) < missing, np.nan, X)
        choice = automatic_rank(as_source(Y))
        assert choice.criteria["parallel_analysis"] < 3
        assert choice.n_components == choice.criteria["deflated_parallel_analysis"] == 3


@pytest.mark.parametrize("kind", [eg.PCA, eg.PPCA, eg.FactorAnalysis])
def test_auto_is_choose_ranks_default(kind):
    for missing in (0.0, 0.2):
        X = table(200, 9, 2, seed=4, missing=missing)
        model = kind(n_components="auto").fit(X)
        assert model.n_components_ == choose_rank(X, criteria=FAST).n_components == 2
        assert list(model.rank_choice_.criteria) == [
            "parallel_analysis",
            "deflated_parallel_analysis",
        ]


def test_auto_on_complete_data_reads_the_table_a_few_times():
    source = as_source(table(500, 9))
    automatic_rank(source)
    assert source.passes <= 3


# The value --------------------------------------------------------------------------------------


def test_the_choice_cannot_be_changed_and_can_be_pickled():
    choice = choose_rank(table(), criteria=["bic", "eigengap"])
    assert isinstance(choice, RankChoice)
    with pytest.raises(AttributeError):
        choice.n_components = 3
    with pytest.raises(TypeError):
        choice.criteria["bic"] = 3
    with pytest.raises(AttributeError):
        choice.criteria._items = {}
    with pytest.raises(TypeError):
        choice.curves["bic"][1] = 0.0
    copy = pickle.loads(pickle.dumps(choice))
    assert dict(copy.criteria) == dict(choice.criteria)
    assert dict(copy.curves["bic"]) == dict(choice.curves["bic"])


def test_curves_say_which_way_is_better():
    choice = choose_rank(table(), criteria=FAST)
    for name, curve in choice.curves.items():
        assert curve.label
        if curve.better in ("lower", "higher"):
            best = (min if curve.better == "lower" else max)(curve, key=curve.get)
            assert choice.criteria[name] == best


def test_words():
    picks = {"bic": 3, "minka": 3, "parallel_analysis": 3, "eigengap": 1, "cross_validation": 4}
    assert in_words(3, picks, {"bartlett": "it needs more rows"}) == (
        "k = 3: BIC, Minka's evidence and parallel analysis agree; the largest eigengap is 1→2; "
        "cross-validation prefers 4. Not applied: Bartlett's test (it needs more rows)"
    )
    assert vote(picks) == 3
    assert vote({"bic": 2, "minka": 1}) == 1
    assert set(NAMES) == set(CRITERIA)


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"criteria": ["bicc"]}, "'bicc' is not a criterion; choose from .*bic"),
        ({"criteria": []}, "criteria is empty"),
        ({"max_rank": 0}, "max_rank is 0"),
        ({"max_rank": 2.5}, "whole number"),
        ({"noise": "white"}, "noise is 'white'"),
        ({"tolerance": 1.5}, "between 0 and 1"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ValueError, match=words):
        choose_rank(table(), **options)


def test_wrong_tables():
    X = table()
    with pytest.raises(ValueError, match="1 column"):
        choose_rank(X[:, :1])
    with pytest.raises(ValueError, match="all rows of X are equal"):
        choose_rank(np.ones((10, 3)))
    with pytest.raises(ValueError, match="at least 3 rows"):
        choose_rank(X[:2])
    with pytest.raises(ValueError, match="column 1"):
        choose_rank(np.column_stack([X[:, 0], np.full(80, np.nan)]))
    with pytest.raises(ValueError, match=r"none of the criteria applies.*rows"):
        choose_rank(X[:5], criteria=["minka", "bartlett"])


def test_a_cap_on_the_number_of_components():
    choice = choose_rank(table(), criteria=FAST, max_rank=1)
    assert choice.n_components == 1
    assert max(q for name, q in choice.criteria.items() if name != "tolerance") == 1


def test_criteria_of_the_whole_spectrum_count_the_rows_that_show_two_columns():
    """There are more rows than columns here, and the reason must not deny it."""
    X = np.random.default_rng(0).normal(size=(6, 4))
    X[0, 0] = X[1, 1] = X[2, 2] = np.nan
    reasons = choose_rank(X).not_applied
    observed = (~np.isnan(X)).astype(float)
    rows = np.mean(observed.T @ observed)
    for name in ("bartlett", "minka", "gavish_donoho"):
        assert "observed together in at least 5 rows" in reasons[name]
        assert reasons[name].endswith(f"they are in {rows:.3g}")
