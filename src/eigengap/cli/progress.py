"""Progress on a terminal, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from eigengap.cli.narration import Narrator
from eigengap.estimators.shared.progress import ProgressLine, forecast, in_words, shown_by
from eigengap.fitting.optimise.loop import Progress as Step


@contextmanager
def showing_steps(narrator: Narrator) -> Iterator[None]:
    """The steps of a fit inside are drawn on the terminal, and wiped when it has ended."""
    if not narrator.shows_progress:
        yield
        return
    made: list[_Steps] = []

    def line(label: str, checkpointer: Any = None) -> _Steps:
        made.append(_Steps(label, checkpointer=checkpointer, console=narrator.console))
        return made[-1]

    try:
        with shown_by(line):
            yield
    finally:
        for steps in made:
            steps.close()


class _Steps(ProgressLine):
    """In the place of the progress line, drawn by rich: how far, objective, time that is left."""

    def __init__(self, label: str, *, checkpointer: Any = None, console: Console) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[facts]}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=None, facts="before the first step")
        self._bar.start()
        super().__init__(label, io.StringIO(), checkpointer)  # nothing of the line itself is shown

    def __call__(self, progress: Step) -> None:
        super().__call__(progress)
        last, left = self._steps[-1], forecast(self._steps)
        facts = [f"step {last.iteration}", f"objective {last.objective:.6g}"]
        if left is not None:
            facts.append(left.after(0.0))
            share = last.seconds / max(last.seconds + left.seconds, 1e-9)
        else:
            facts.append(in_words(last.seconds))
            share = last.iteration / max(last.max_iter, 1)
        run = f", run {self._run}" if self._run > 1 else ""
        self._bar.update(
            self._task,
            total=1.0,
            completed=min(share, 1.0),
            description=f"{self._label}{run}",
            facts=", ".join(facts),
        )

    def close(self) -> None:
        self._closed.set()
        self._bar.stop()


@contextmanager
def counting_rows(
    narrator: Narrator, label: str, total: int | None
) -> Iterator[Callable[[int], None]]:
    """Call what is yielded with the number of rows that have been done."""
    if not narrator.shows_progress:
        yield lambda rows: None
        return
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} rows"),
        TimeRemainingColumn(),
        console=narrator.console,
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=total)
        yield partial(bar.advance, task)


@contextmanager
def waiting(narrator: Narrator, label: str) -> Iterator[None]:
    """A sign of life for what cannot be counted."""
    if not narrator.shows_progress:
        yield
        return
    with narrator.console.status(label):
        yield
