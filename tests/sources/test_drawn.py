"""Laws of drawing rows: a sample without replacement that does not depend on the blocks."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from eigengap import open_source
from eigengap.sources.base import CHUNK, Block, Draw, least_keys, merge_tree, seed_of


def blocks(X, w, cuts):
    edges = sorted({0, len(X), *(c % len(X) for c in cuts)})
    for start, stop in pairwise(edges):
        yield Block(X[start:stop], None if w is None else w[start:stop], None, start)


@given(
    n=st.integers(1, 60),
    k=st.integers(1, 70),
    seed=st.integers(0, 2**63 - 1),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
    weighted=st.booleans(),
)
def test_the_rows_do_not_depend_on_the_blocks(n, k, seed, cuts, weighted):
    X = np.arange(2.0 * n).reshape(n, 2)
    w = np.arange(n) % 4 * 0.5 if weighted else None
    draw = Draw(k, seed)
    parts = reduce(lambda a, b: a.merge(b), map(draw, blocks(X, w, cuts)))
    whole = draw(Block(X, w, None, 0))
    np.testing.assert_array_equal(parts.rows, whole.rows)
    present = n if w is None else np.count_nonzero(w)
    assert len(np.unique(whole.rows[:, 0])) == min(k, present)


@given(seed=st.integers(0, 2**63 - 1), small=st.integers(1, 30))
def test_a_smaller_sample_begins_a_larger_one(seed, small):
    X = np.arange(100.0)[:, None]
    block = Block(X, None, None, 0)
    np.testing.assert_array_equal(Draw(small, seed)(block).rows, Draw(40, seed)(block).rows[:small])


def test_many_rows_are_drawn_as_if_hashed_at_once():
    n, k = 3 * CHUNK + 17, 50
    at, keys = least_keys(k, 3, 0, n, None)
    weighted, _ = least_keys(k, 3, 0, n, np.ones(n))
    np.testing.assert_array_equal(at, weighted)
    assert np.all(np.diff(keys) > 0)


def test_every_row_is_as_likely_as_any_other():
    n, k, times = 40, 8, 5000
    counts = np.zeros(n)
    for seed in range(times):
        counts[least_keys(k, seed, 0, n, None)[0]] += 1
    # Draws without replacement vary less than a multinomial, so that this level is conservative.
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_the_first_row_is_drawn_in_proportion_to_its_weight():
    w = np.array([1.0, 2.0, 0.0, 5.0, 8.0])
    times = 8000
    first = np.array([least_keys(1, seed, 0, 5, w)[0][0] for seed in range(times)])
    counts = np.bincount(first, minlength=5)
    assert counts[2] == 0
    present = w > 0
    expected = times * w[present] / w.sum()
    assert scipy.stats.chisquare(counts[present], expected).pvalue > 1e-3


@pytest.mark.parametrize("k", [0, 1, 5])
def test_no_more_than_there_are(k):
    at, _ = least_keys(k, 0, 0, 3, np.array([0.0, 1.0, 2.0]))
    assert len(at) == min(k, 2)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_a_bound_on_the_keys_changes_nothing(k):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 2))
    blocks = [Block(X[s : s + 999], None, None, s) for s in range(0, len(X), 999)]
    bounded, free = Draw.among(len(X), k, 5), Draw(k, 5)
    assert bounded.below < 1.0
    few = [bounded(block) for block in blocks]
    assert sum(len(part.rows) for part in few) < 2 * k + 300  # of 21 blocks
    found, expected = merge_tree(few), merge_tree([free(block) for block in blocks])
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert Draw.among(50, k, 5) == Draw.among(None, k, 5) == free


def test_a_bound_that_was_too_tight_costs_a_pass_and_no_row(tmp_path):
    path = tmp_path / "table.npy"
    X = np.random.default_rng(4).normal(size=(500, 3))
    np.save(path, X)
    tight, free = open_source(path), open_source(path)
    tight.gather(Draw(20, seed_of(np.random.default_rng(0)), below=1e-9))
    expected = free.sample(20, np.random.default_rng(0))
    np.testing.assert_array_equal(tight.sample(20, np.random.default_rng(0)), expected)
    assert tight.passes == 2
