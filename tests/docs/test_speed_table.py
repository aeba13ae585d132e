"""The tables of speeds say what was measured."""

from __future__ import annotations

import json

import pytest
from benchmarks import speed_table


@pytest.fixture(scope="module")
def results():
    return json.loads(speed_table.RESULTS.read_text())


@pytest.mark.parametrize("page", [speed_table.README, speed_table.PAGE], ids=lambda path: path.name)
def test_a_page_is_what_the_results_make_of_it(page, results):
    assert speed_table.updated(page, results) == page.read_text()


def test_the_picture_has_the_ratios_of_the_results(results):
    drawn = speed_table.PICTURE.read_text()
    for chosen in speed_table.CHOSEN:
        if chosen.short:
            ratio = speed_table.figure(speed_table.found(results, chosen)["ratio"])
            assert f"{ratio} ×" in drawn, chosen.short


def test_a_row_that_is_gone_is_an_error(results):
    gone = speed_table.Chosen("pca", "no such case", "fit", "nobody", "", "")
    with pytest.raises(LookupError, match="no such case"):
        speed_table.found(results, gone)
