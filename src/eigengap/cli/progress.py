"""Progress on a terminal, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigengap.cli.narration import Narrator


@contextmanager
def showing_steps(narrator: Narrator) -> Iterator[None]:
    """The steps of a fit inside are drawn on the terminal, and wiped when it has ended."""
    if not narrator.shows_progress:
        yield
        return
    from eigengap.cli.steps import Steps
    from eigengap.estimators.shared.progress import shown_by

    made: list[Steps] = []

    def line(label: str, checkpointer: Any = None) -> Steps:
        made.append(Steps(label, checkpointer=checkpointer, console=narrator.console))
        return made[-1]

    try:
        with shown_by(line):
            yield
    finally:
        for steps in made:
            steps.close()


@contextmanager
def counting_rows(
    narrator: Narrator, label: str, total: int | None
) -> Iterator[Callable[[int], None]]:
    """Call what is yielded with the number of rows that have been done."""
    if not narrator.shows_progress:
        yield lambda rows: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

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
