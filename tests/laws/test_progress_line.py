"""What a progress line foretells, and that it lives while a step takes long."""

import io
import os
import threading
import time

import numpy as np
import pytest

import eigengap.estimators.shared.progress as progress_module
from eigengap import PPCA
from eigengap.estimators.shared.base import progress_of
from eigengap.estimators.shared.progress import ProgressLine, forecast, in_words
from eigengap.fitting.optimise.loop import Progress, Silent, checkpointer_of


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def shown(self):
        """The last state of the line."""
        return self.getvalue().rstrip("\n").rpartition("\r")[2].rstrip()


def falling(factor, *, n=20, max_iter=1000, tol=1e-6, noise=0.0, seconds=0.5):
    """Steps whose change falls by a factor each, of so many seconds each."""
    rng = np.random.default_rng(0)
    return [
        Progress(k, max_iter, -1.0, factor**k * np.exp(noise * rng.normal()), seconds * k, tol)
        for k in range(1, n + 1)
    ]


def left(steps):
    return forecast(steps).seconds


@pytest.mark.parametrize("factor", [0.9, 0.7], ids=str)
def test_what_falls_by_a_factor_arrives_when_it_is_foretold(factor):
    """factor^k = tol at k = ln tol / ln factor."""
    steps = falling(factor)
    expected = 0.5 * (np.log(1e-6) / np.log(factor) - 20)
    assert left(steps) == pytest.approx(expected, rel=1e-9)


def test_scatter_moves_the_forecast_little():
    exact = left(falling(0.9))
    assert left(falling(0.9, noise=0.1)) == pytest.approx(exact, rel=0.5)


def test_max_iter_comes_first_where_the_change_does_not_fall():
    assert left(falling(1.1, max_iter=100)) == pytest.approx(0.5 * 80)
    assert left(falling(0.999, max_iter=100)) == pytest.approx(0.5 * 80)
    assert left(falling(0.9, tol=np.nan, max_iter=100)) == pytest.approx(0.5 * 80)
    assert forecast(falling(1.1, max_iter=100)).after(10.0) == "at most 30.0 s left"
    assert forecast(falling(0.9)).after(0.0).startswith("about ")


def test_steps_that_were_taken_back_are_passed_over():
    steps = falling(0.9)
    steps[7] = Progress(8, 1000, -1.0, np.inf, 4.0, 1e-6)
    assert left(steps) == pytest.approx(left(falling(0.9)), rel=1e-9)


def test_few_steps_foretell_nothing():
    assert forecast(falling(0.9, n=4)) is None


def test_the_line_says_what_is_left_while_the_fit_runs_and_not_after():
    terminal = Terminal()
    line = ProgressLine("PPCA", terminal)
    for step in falling(0.9, n=30):
        line(step)
    assert "30/1000 [15.0 s, 2.0 it/s, objective -1, change 4.2e-02, about" in terminal.shown()
    assert terminal.shown().endswith("s left]")
    line.close()
    assert terminal.shown().endswith("change 4.2e-02]")
    assert terminal.getvalue().count("\n") == 1


def test_a_narrow_terminal_gets_a_line_that_fits(monkeypatch):
    class Narrow(Terminal):
        def fileno(self):
            return 2

    terminal = Narrow()
    line = ProgressLine("PPCA", terminal)
    for columns in (70, 50, 30, 5):
        monkeypatch.setattr(
            progress_module.os, "get_terminal_size", lambda _, n=columns: os.terminal_size((n, 9))
        )
        for step in falling(0.9, n=6):
            line(step)
        assert "6/1000" in terminal.shown()
        assert len(terminal.shown()) < max(columns, 30)
        assert ("left" in terminal.shown()) == (columns >= 50)
    line.close()


def test_several_runs_are_counted():
    terminal = Terminal()
    line = ProgressLine("PPCA", terminal)
    for _ in range(3):
        for step in falling(0.9, n=6):
            line(step)
    line.close()
    assert "PPCA: run 3, 6/1000" in terminal.shown()


def test_a_long_step_does_not_stop_the_clock(monkeypatch):
    monkeypatch.setattr(progress_module, "PULSE", 0.02)
    terminal = Terminal()
    line = ProgressLine("PPCA", terminal)
    _wait_for(lambda: "before the first step" in terminal.getvalue())
    line(Progress(1, 10, -1.0, 0.1, 100.0))
    before = terminal.getvalue().count("\r")
    _wait_for(lambda: terminal.getvalue().count("\r") >= before + 3)
    assert "1/10" in terminal.shown()
    line.close()
    after = terminal.getvalue()
    time.sleep(0.1)
    assert terminal.getvalue() == after


def test_a_line_that_is_forgotten_falls_silent(monkeypatch):
    """A fit may fail between making the line and closing it."""
    monkeypatch.setattr(progress_module, "PULSE", 0.02)
    line = ProgressLine("PPCA", Terminal())
    beating = [t for t in threading.enumerate() if t.name == "progress"]
    assert beating
    del line
    _wait_for(lambda: not any(t.is_alive() for t in beating))


def test_no_thread_where_there_is_no_terminal():
    before = threading.active_count()
    line = ProgressLine("PPCA", io.StringIO())
    assert threading.active_count() == before
    line.close()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (99.0, "99.0 s"), (150.0, "2 min"), (7200.0, "2 h"), (3e5, "3 days")],
    ids=["moment", "seconds", "minutes", "hours", "days"],
)
def test_times_in_words(seconds, words):
    assert in_words(seconds) == words


def test_a_checkpointer_travels_with_the_watch():
    checkpointer = object()

    def watch_for(verbose, checkpointer=None):
        with progress_of(PPCA(verbose=verbose), checkpointer) as watch:
            return watch

    assert checkpointer_of(watch_for(True, checkpointer)) is checkpointer
    assert isinstance(watch_for(False, checkpointer), Silent)
    assert watch_for(False) is None
    assert checkpointer_of(watch_for(True)) is None


def _wait_for(condition, seconds=20.0):
    end = time.perf_counter() + seconds
    while not condition():
        assert time.perf_counter() < end
        time.sleep(0.005)
