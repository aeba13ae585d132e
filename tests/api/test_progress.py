"""What a fit tells of itself: passes over the data, trace, progress, seeds."""

import io
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import eigengap as eg
from eigengap.estimators.shared.progress import ProgressLine
from eigengap.fitting.gaussian.fit import fit_factor_analysis, fit_ppca
from eigengap.fitting.gaussian.noise import fit_by_em
from eigengap.fitting.gaussian.problem import EMOptions
from eigengap.fitting.optimise.loop import Progress
from eigengap.sources.conversion import as_source


def incomplete(n=200, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def test_em_reads_the_table_once_a_step_and_twice_before():
    """Column moments, the zero-filled scatter of the start, then one pass an E-step."""
    source = as_source(incomplete())
    fit = fit_by_em(source, 2, "isotropic")
    assert source.passes == 2 + fit.n_iter


def test_complete_data_are_read_once():
    X = incomplete()
    X = np.where(np.isnan(X), 0.0, X)
    for fit in (fit_ppca, fit_factor_analysis):
        source = as_source(X)
        fit(source, 2)
        assert source.passes == 1


def test_watch_sees_every_step():
    observed = []
    fit = fit_by_em(
        as_source(incomplete()), 2, "isotropic", options=EMOptions(watch=observed.append)
    )
    assert [p.iteration for p in observed] == list(range(1, fit.n_iter + 1))
    assert observed[-1].change <= 1e-6
    assert observed[-1].max_iter == 1000
    assert all(a.seconds <= b.seconds for a, b in pairwise(observed))


def test_verbose_prints_one_line_where_there_is_no_terminal(capsys):
    model = eg.PPCA(2, verbose=True).fit(incomplete())
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"PPCA: {model.n_iter_}/1000 [")
    eg.PPCA(2).fit(incomplete())
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_one_line_rewritten():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    line = ProgressLine("PPCA", terminal)
    for k in range(1, 4):
        line(Progress(k, 10, -1.0, 0.1, 0.2 * k))
    line.close()
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert text.count("\r") == 4
    assert "3/10" in text.rsplit("\r", 1)[1]


def test_the_trace_is_kept_and_a_short_fit_warns():
    with pytest.warns(ConvergenceWarning, match="did not converge in 3 steps"):
        model = eg.PPCA(2, max_iter=3).fit(incomplete())
    assert not model.converged_
    assert len(model.trace_) == model.n_iter_ == 3
    assert np.all(np.diff(model.trace_.objective) >= 0)


def test_random_starts_are_seeded():
    X = incomplete(60, 10)
    a, b = (eg.PPCA(4, n_init=3, random_state=7).fit(X).loadings_ for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_without_random_starts_the_seed_does_not_matter():
    X = incomplete()
    a, b = (eg.PPCA(2, random_state=s).fit(X).loadings_ for s in (1, 2))
    np.testing.assert_array_equal(a, b)
