"""Arrays, masked arrays, sparse matrices and lists: the same table whatever holds it."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import _NotAnArray
from sklearn.utils.validation import check_array

from eigengap.sources.conversion import as_source

nan, inf = np.nan, np.inf


@pytest.mark.parametrize(
    "dtype", ["i4", "u1", "i8", "u8", "?", ">f8", ">i2", "f2", np.longdouble, object, "f8"]
)
def test_numbers_become_float64(dtype):
    X = np.array([[0, 1], [1, 1], [1, 0]])
    source = as_source(X.astype(dtype))
    assert source.dtype == np.float64
    assert source.dtype.isnative
    np.testing.assert_array_equal(source.collect(), X)


@pytest.mark.parametrize("dtype", ["f4", ">f4"])
def test_float32_stays_float32(dtype):
    source = as_source(np.array([[0.1, 2]], dtype=dtype))
    assert source.dtype == np.float32
    assert source.dtype.isnative
    np.testing.assert_array_equal(source.collect(), np.array([[0.1, 2]], dtype="f4"))


def test_unaligned_floats_are_copied():
    raw = np.zeros(3 * 8 + 1, dtype="u1")
    X = raw[1:].view("f8").reshape(3, 1)
    assert as_source(X).collect().flags.aligned


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2.5], [None, 4]],
        ((1, 2.5), (nan, 4)),
        [[Decimal("1"), Fraction(5, 2)], [None, np.int8(4)]],
        np.array([[True, 2.5], [nan, 4]], dtype=object),
        np.ma.masked_invalid([[1, 2.5], [nan, 4]]),
        _NotAnArray(np.array([[1, 2.5], [nan, 4]])),
        np.asmatrix([[1, 2.5], [nan, 4]]),
    ],
)
def test_containers_of_numbers(X):
    source = as_source(X)
    assert type(source.collect()) is np.ndarray
    np.testing.assert_array_equal(source.collect(), [[1, 2.5], [nan, 4]])
    assert source.has_missing


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?", object])
def test_mask_is_missing(dtype):
    data = np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype)
    mask = np.array([[0, 1], [0, 0], [1, 0]], dtype=bool)
    X = np.ma.array(data, mask=mask)
    source = as_source(X)
    np.testing.assert_array_equal(source.collect(), np.where(mask, nan, data.astype(float)))
    np.testing.assert_array_equal(source.missing_per_column(), [1, 1])
    np.testing.assert_array_equal(X.mask, mask)
    np.testing.assert_array_equal(X.data, data)


def test_what_the_mask_hides_does_not_matter():
    hidden = np.ma.array([[inf, 1.0], [2.0, 3.0]], mask=[[1, 0], [0, 0]])
    assert as_source(hidden).has_missing
    words = np.ma.array(np.array([["?", 1], [2, 3]], dtype=object), mask=[[1, 0], [0, 0]])
    np.testing.assert_array_equal(as_source(words).collect(), [[nan, 1], [2, 3]])


def test_an_unmasked_masked_array_is_not_copied():
    X = np.ma.array(np.ones((2, 2)))
    assert np.shares_memory(as_source(X).collect(), X.data)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_matrix])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_sparse_becomes_canonical_csr(make, dtype):
    X = np.array([[0, 1, 0], [1, 0, 0]]).astype(dtype)
    source = as_source(make(X))
    assert source.is_sparse
    assert isinstance(source.collect(), sp.csr_array)
    assert source.dtype == (np.float32 if dtype == "f4" else np.float64)
    np.testing.assert_array_equal(source.collect().toarray(), X)


def test_duplicates_are_summed_and_the_callers_matrix_is_left_alone():
    X = sp.csr_array((np.array([1.0, 2, 3]), np.array([2, 0, 0]), np.array([0, 3, 3])), (2, 3))
    source = as_source(X)
    np.testing.assert_array_equal(source.collect().toarray(), [[5, 0, 1], [0, 0, 0]])
    assert source.collect().has_canonical_format
    np.testing.assert_array_equal(X.data, [1, 2, 3])
    np.testing.assert_array_equal(X.indices, [2, 0, 0])


def test_large_indices_and_explicit_zeros():
    X = sp.csr_array(np.array([[0, 1.0], [2, 0]]))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    X.data[0] = 0.0
    source = as_source(X, block_rows=1)
    np.testing.assert_array_equal(source.map(lambda b: b.values.toarray()), [[0, 0], [2, 0]])


def test_sparse_has_no_missing():
    X = np.zeros((4, 3))
    X[2, 1] = nan
    with pytest.raises(ValueError, match="row 2, column 1: sparse input has no missing"):
        as_source(sp.coo_array(X))
    X[2, 1], X[3, 0] = -inf, nan
    with pytest.raises(ValueError, match="Input X contains infinity: -inf at row 2, column 1"):
        as_source(sp.csc_array(X))
    with pytest.raises(ValueError, match="sparse input has no missing values; densify"):
        as_source(sp.csr_array(np.eye(2)), missing_values=1)
    with pytest.raises(ValueError, match="sparse input has no missing values; densify"):
        as_source(sp.csr_array(np.eye(2)), missing_values=0)
    np.testing.assert_array_equal(
        as_source(sp.csr_array(np.eye(2)), missing_values=-9).collect().toarray(), np.eye(2)
    )


# Shapes: scikit-learn's own words, read from scikit-learn.


@pytest.mark.parametrize(
    "X",
    [np.ones(3), np.float64(3), np.ones((2, 2, 2)), np.empty((0, 3)), np.empty((3, 0)), []],
    ids=str,
)
def test_shape_errors_are_scikit_learns(X):
    with pytest.raises(ValueError, match=r".") as theirs:
        check_array(X)
    with pytest.raises(ValueError, match=r".") as ours:
        as_source(X)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("X", [np.array([[1j]]), [[1, 2j]], sp.csr_array(np.array([[1j]]))])
def test_complex_is_refused(X):
    with pytest.raises(ValueError, match="Complex data not supported"):
        as_source(X)
    with pytest.raises(ValueError, match="Complex data not supported"):
        as_source(np.array([[1, 2j]], dtype=object))


def test_foreign_objects_raise_what_float_raises():
    X = np.array([[1.0, 2.0], [{"foo": "bar"}, 3.0]], dtype=object)
    with pytest.raises(TypeError, match=r"argument must be .* string.* number.*row 1, column 0"):
        as_source(X)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([[1, "a"], [2, "b"]], '1 (text, e.g. "a" at row 0)'),
        ([[1, None], [2, "2.5"]], '1 (numbers written as text, e.g. "2.5" at row 1)'),
        (np.array([["1", "x"], ["2", "y"]]), '0 (numbers written as text, e.g. "1" at row 0)'),
        (np.array([[b"x"], [b"y"]]), "0 (text, e.g. b'x' at row 0)"),
        (np.array([[1], ["?"]], dtype=object), '0 (text among numbers, e.g. "?" at row 1)'),
        (np.array([["1"], ["?"]]), '0 (text among numbers, e.g. "?" at row 1)'),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "2020-01-01 at row 0, column 0"),
        (np.array([[3]], dtype="m8[s]"), "dates or times"),
        (np.zeros((2, 2), dtype=[("a", "f8")]), "structured array"),
        ([[1, 2], [3]], "row 0 has 2 values, row 1 has 1"),
        ([[1.0], [10**400]], "too large for float64 at row 1, column 0"),
    ],
)
def test_what_is_not_a_number_is_named(X, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        as_source(X)


def test_columns_offered_by_the_error_work():
    X = np.array([[1, "a", 3], [2, "b", 4]], dtype=object)
    with pytest.raises(ValueError, match=re.escape("X[:, [0, 2]]")):
        as_source(X)
    np.testing.assert_array_equal(as_source(X, columns=[0, 2]).collect(), [[1, 3], [2, 4]])


@pytest.mark.parametrize("make", [np.array, np.ma.array, sp.csr_array, list])
@pytest.mark.parametrize("columns", [[2, 0], (-1, 0), np.array([2, 0])])
def test_columns_select_and_order(make, columns):
    values = as_source(make([[1, 2, 3], [4, 5, 6]]), columns=columns).collect()
    dense = values.toarray() if sp.issparse(values) else values
    np.testing.assert_array_equal(dense, [[3, 1], [6, 4]])


def test_a_mask_chooses_columns():
    X = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(as_source(X, columns=[True, False, True]).collect(), X[:, ::2])
    with pytest.raises(ValueError, match="2 truth values but X has 3 columns"):
        as_source(X, columns=[True, False])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["age"], 'chooses "age" but X has no column names; use integer positions'),
        ([3], "position 3 but X has 3 columns"),
        ([0, 0], "chooses 0 more than once"),
        ([], "0 feature"),
    ],
)
def test_wrong_columns(columns, words):
    with pytest.raises(ValueError, match=words):
        as_source(np.ones((2, 3)), columns=columns)


# Infinity is never silent, and a sum that overflows is not infinity.


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("value", [inf, -inf])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_infinity_is_located(order, value, dtype):
    X = np.zeros((5000, 70), dtype=dtype, order=order)  # more than one chunk
    X[0, 0] = nan
    X[4321, 7] = X[4999, 0] = X[4999, 2] = value
    with pytest.raises(ValueError, match=re.escape("(and 2 more cells)")) as error:
        as_source(X)
    assert f"Input X contains infinity: {value} at row 4321, column 7" in str(error.value)


def test_opposite_infinities_do_not_cancel_into_a_gap():
    with pytest.raises(ValueError, match=r"inf at row 0, column 1 \(and 1 more cell\)"):
        as_source(np.array([[1, inf], [-inf, 1]]))


def test_infinity_in_longdouble_and_object():
    big = np.array([[1, np.finfo(np.longdouble).max]])
    if np.finfo(np.longdouble).max > np.finfo(float).max:
        with pytest.raises(ValueError, match="inf at row 0, column 1"):
            as_source(big)
    with pytest.raises(ValueError, match="inf at row 0, column 1"):
        as_source(np.array([[1, inf]], dtype=object))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_sum_that_overflows_is_fine(dtype):
    X = np.full((10, 3), np.finfo(dtype).max, dtype=dtype)
    assert as_source(X).has_missing is False
    X[3, 2] = nan
    np.testing.assert_array_equal(as_source(X).missing_per_column(), [0, 0, 1])


@given(st.data())
@settings(max_examples=60)
def test_missing_and_infinities_agree_with_brute_force(data):
    cells = st.sampled_from([0.0, 1.0, -1e308, 1e308, nan, nan, inf, -inf])
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    X = np.array(data.draw(st.lists(cells, min_size=n * d, max_size=n * d))).reshape(n, d)
    X = np.asfortranarray(X) if data.draw(st.booleans()) else X
    infinite = np.argwhere(np.isinf(X))
    if len(infinite):
        i, j = infinite[0]
        with pytest.raises(ValueError, match=f"{X[i, j]} at row {i}, column {j}"):
            as_source(X)
    else:
        source = as_source(X)
        assert source.has_missing == np.isnan(X).any()
        np.testing.assert_array_equal(source.missing_per_column(), np.isnan(X).sum(axis=0))


# Codes for missing cells.


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", object])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codes", [-999, [-999], (nan, -999, None), np.array([-999.0])])
def test_codes_become_missing_on_a_copy(dtype, order, codes):
    X = np.array([[1, -999], [-999, 4], [5, 6]]).astype(dtype, order=order)
    before = X.copy()
    source = as_source(X, missing_values=codes)
    np.testing.assert_array_equal(source.collect(), [[1, nan], [nan, 4], [5, 6]])
    np.testing.assert_array_equal(X, before)


def test_several_codes_infinity_among_them():
    X = np.array([[1, inf], [-1, 3], [nan, -inf]])
    source = as_source(X, missing_values=[-1, inf, -inf])
    np.testing.assert_array_equal(source.collect(), [[1, nan], [nan, 3], [nan, nan]])


def test_codes_that_do_not_occur_cost_no_copy():
    X = np.ones((3, 2), dtype="f4")
    assert as_source(X, missing_values=-999).collect() is X
    assert as_source(X, missing_values=1e300).collect() is X
    X[0, 0] = inf
    with pytest.raises(ValueError, match="contains infinity"):
        as_source(X, missing_values=1e300)


@pytest.mark.parametrize("code", ["?", [1, "x"], 1j, True])
def test_codes_must_be_numbers(code):
    with pytest.raises(ValueError, match="missing_values must be NaN, a number or a list"):
        as_source(np.ones((2, 2)), missing_values=code)


def test_read_only_input_is_read():
    X = np.array([[1.0, -9], [2, 3]])
    X.flags.writeable = False
    assert as_source(X, missing_values=-9).has_missing
    assert as_source(X).collect() is X


# Weights.


@pytest.mark.parametrize(
    "w", [[1, 2, 0], (1, 2, 0), np.array([1, 2, 0], "i4"), _NotAnArray([1, 2, 0])]
)
def test_weights(w):
    source = as_source(np.ones((3, 2)), sample_weight=w)
    weight = source.map(lambda block: block.weight)
    assert weight.dtype == np.float64
    np.testing.assert_array_equal(weight, [1, 2, 0])


def test_a_number_weighs_every_row():
    weight = as_source(np.ones((3, 2)), sample_weight=2).map(lambda block: block.weight)
    np.testing.assert_array_equal(weight, [2, 2, 2])


@pytest.mark.parametrize(
    ("w", "words"),
    [
        ([1, 2], "sample_weight has 2 entries but X has 3 rows"),
        ([1, -2, 1], "-2.0 at row 1"),
        ([1, 1, nan], "nan at row 2"),
        ([inf, 1, -1], r"inf at row 0 \(and 1 more\)"),
        ([0, 0, 0], "weight.*zero"),
        (0, "weight.*zero"),
        (-1, "-1.0 at row 0"),
        (np.ones((3, 2)), "Sample weights must be 1D array or scalar, got 2D"),
        ([1e308, 1e308, 1e308], "sum of sample_weight is too large"),
    ],
)
def test_bad_weights(w, words):
    with pytest.raises(ValueError, match=words):
        as_source(np.ones((3, 2)), sample_weight=w)


# What a fit needs more than a transform.


def test_fit_needs_two_rows():
    source = as_source([[1, 2]])
    with pytest.raises(ValueError, match=r"1 sample\(s\) \(n_samples=1\); at least 2 rows"):
        source.require_fit()
    source.require_fit(min_rows=1)


def test_rows_of_weight_zero_are_as_if_absent():
    X = np.array([[1.0, nan], [2, 3], [4, 5]])
    with pytest.raises(ValueError, match="n_samples=1"):
        as_source(X, sample_weight=[1, 0, 0]).require_fit()
    with pytest.raises(ValueError, match="no value in column 1"):
        as_source(X[[0, 0, 1]], sample_weight=[1, 1, 0]).require_fit()
    as_source(X, sample_weight=[0, 1, 1]).require_fit()


def test_an_integer_weight_repeats_the_row():
    as_source([[1, 2], [3, 4]], sample_weight=[2, 0]).require_fit()


def test_an_missing_column_is_named_only_by_fit():
    X = np.full((3, 4), nan)
    X[:, 2] = 1
    source = as_source(X)
    with pytest.raises(ValueError, match="no value in columns 0, 1, 3: every cell is NaN"):
        source.require_fit()
    assert source.passes == 0
    as_source(np.full((1, 3), nan))


def test_arrays_import_no_frame_library():
    code = (
        "import sys, numpy as np\n"
        "from eigengap.sources import as_source\n"
        "from eigengap.sources.frames import like\n"
        "X = np.ones((3, 2)); as_source(X, sample_weight=[1, 1, 1]); as_source(X.tolist())\n"
        "as_source(np.ma.array(X)); like(X, X)\n"
        "heavy = {'narwhals', 'pandas', 'polars', 'pyarrow', 'sklearn', 'numba'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_word_in_a_list_does_not_turn_its_neighbours_into_text():
    with pytest.raises(ValueError, match=re.escape("X[:, [0, 2]]")) as error:
        as_source([[1, "a", 2.5], [3, "b", 4.5]])
    assert "written as text" not in str(error.value)
