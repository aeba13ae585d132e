"""Which partitions of the table a task stands for, so that messages can name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dask.core import get_dependencies
from dask.delayed import Delayed


class Labels:
    """The partitions that keys of tasks stand for, in words."""

    def __init__(self, parts: Sequence[Delayed]) -> None:
        self._parts = parts
        self._words: dict[Any, str] = {}

    def __setitem__(self, key: Any, words: str) -> None:
        self._words[key] = words

    def __getitem__(self, key: Any) -> str:
        return self._words.get(key) or self._of_foreign(key) or f"the task {key!r}"

    def copy(self) -> Labels:
        labels = Labels(self._parts)
        labels._words |= self._words
        return labels

    def _of_foreign(self, key: Any) -> str | None:
        """A task of the caller's own graph: the partitions that are made of it."""
        found = [p for p, part in enumerate(self._parts) if key in _made_of(part)]
        if len(found) == len(self._parts) > 1:
            return None  # it says nothing
        return in_words(found) if found else None


def _made_of(part: Delayed) -> set[Any]:
    """All keys that a task needs."""
    graph = part.dask
    found, open_ = {part.key}, [part.key]
    while open_:
        for key in get_dependencies(graph, open_.pop()):
            if key not in found:
                found.add(key)
                open_.append(key)
    return found


def in_words(partitions: Sequence[int]) -> str:
    """Partitions by their numbers, neighbours as a range."""
    runs: list[list[int]] = []
    for p in partitions:
        if runs and p == runs[-1][1] + 1:
            runs[-1][1] = p
        else:
            runs.append([p, p])
    several = "s" if len(partitions) > 1 else ""
    listed = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in runs)
    return f"partition{several} {listed}"
