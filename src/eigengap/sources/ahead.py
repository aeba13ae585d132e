"""Reading ahead: the next block is read while the last one is computed with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

from eigengap.runtime.warnings import CapturedWarning, captured, warn

T = TypeVar("T")

PATIENCE = 0.1  # seconds between two looks at whether anybody still wants the next block
_END = object()


def ahead(parts: Iterator[T], depth: int = 1) -> Iterator[T]:
    """The same parts, up to `depth` of them read before they are asked for, by one thread.

    What reading raises is raised here, in its place. Closing this iterator, or forgetting it,
    ends the thread and closes `parts`.
    """
    waiting: Queue[Any] = Queue(maxsize=depth)
    stop = Event()
    heard: list[CapturedWarning] = []  # while reading, to be given out where the rows are asked for
    thread = Thread(
        target=_read, args=(parts, waiting, stop, heard), name="eigengap-ahead", daemon=True
    )
    thread.start()
    try:
        while (taken := waiting.get()) is not _END:
            while heard:
                told = heard.pop(0)
                warn(told.message, told.category)
            if isinstance(taken, _Raised):
                raise taken.error
            yield taken
            del taken  # or it would be held while the next one is waited for
    finally:
        stop.set()
        _drain(waiting)  # a reader that waits for room sees the end at once
        thread.join()


class _Raised:
    """An exception on its way from the thread that reads to the one that computes."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _read(
    parts: Iterable[Any], waiting: Queue[Any], stop: Event, heard: list[CapturedWarning]
) -> None:
    iterator = iter(parts)
    try:
        with closing(iterator) if hasattr(iterator, "close") else _Nothing():  # type: ignore[type-var]
            while not stop.is_set():
                with captured() as told:
                    part = next(iterator, _END)
                heard += told
                _put(part, waiting, stop)
                if part is _END:
                    return
    except BaseException as error:  # all of it is the caller's
        _put(_Raised(error), waiting, stop)


def _put(part: Any, waiting: Queue[Any], stop: Event) -> None:
    while not stop.is_set():
        try:
            waiting.put(part, timeout=PATIENCE)
            return
        except Full:
            continue


def _drain(waiting: Queue[Any]) -> None:
    while True:
        try:
            waiting.get_nowait()
        except Empty:
            return


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
