"""The steps of a fit as rich draws them: how far, objective, time that is left."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from eigengap.estimators.shared.progress import ProgressLine, forecast, in_words
from eigengap.fitting.optimise.loop import Progress as Step


class Steps(ProgressLine):
    """In the place of the progress line: the same steps, seen by another."""

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
        share = last.iteration / max(last.max_iter, 1)
        if left is not None:
            facts.append(left.after(0.0))
            share = last.seconds / max(last.seconds + left.seconds, 1e-9)
        else:
            facts.append(in_words(last.seconds))
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
