"""Where tasks run: a `distributed.Client` if there is one, else Dask's local scheduler.

No cluster is ever started here. Failures of workers or scheduler are raised as a `ClusterError`
that names the partitions (`Labels`); errors of a task are passed on unchanged.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from uuid import uuid4

import cloudpickle  # type: ignore[import-untyped]
import dask.base
import dask.config
from dask.core import get_dependencies
from dask.delayed import Delayed, delayed
from dask.utils import parse_timedelta

from eigengap.exceptions import ClusterError
from eigengap.runtime.memory import cores, free_memory
from eigengap.runtime.threads import at_most
from eigengap.sources.dask.tasks import Forest

BATCH_BYTES = 1 << 28  # of rows that are on their way from the workers at a time
INLINE_BYTES = 1 << 20  # of functions that the tasks of a pass carry in all; more are sent once
FAN_IN = 8  # forests that one task joins
KEPT_SHARE = 0.25  # of the free memory of this machine that prepared blocks may take
KEPT_SHARE_OF_WORKERS = 0.6  # of theirs
LOOK = 5.0  # seconds between two looks at whether there are workers at all
PATIENCE = 300.0  # seconds without any worker, or without any task at work, before giving up
# Seconds without any task ending although some run, or Dask's own setting of this name. One
# partition takes far less than hours, so a task that takes longer will not return.
TASK_TIMEOUT = ("eigengap.task-timeout", "2h")


class Sent:
    """A function on its way to the workers: pickled once, however many tasks carry it."""

    def __init__(self, work: Any = None, together: int = 1, payload: bytes | None = None) -> None:
        self._work, self._payload = work, payload
        self.together = together  # tasks that one machine runs at a time, at most

    def __reduce__(self) -> tuple[Any, ...]:
        return Sent, (None, self.together, self.payload)

    @property
    def payload(self) -> bytes:
        if self._payload is None:
            self._payload = bytes(cloudpickle.dumps(self._work))
        return self._payload

    def opened(self) -> Any:
        if self._work is None:
            self._work = cloudpickle.loads(self.payload)
        return self._work


def send(work: Any, tasks: int) -> Sent | Delayed:
    """A function as an argument of so many tasks.

    A large one becomes a task of its own, so that the scheduler sends it once and the workers pass
    it on; should its holder die it is made again.
    """
    client = current_client()
    if client is None:
        return Sent(work)
    sent = Sent(work, most_on_one_machine(workers(client)))
    if len(sent.payload) * tasks <= INLINE_BYTES:
        return sent
    return task(_itself, "parameters")(sent)


def task(fn: Callable[..., Any], name: str) -> Callable[..., Delayed]:
    """fn as a maker of tasks; scheduler and dashboard know them by `name`."""
    make = delayed(fn, pure=False, traverse=False)

    def made(*args: Any) -> Delayed:
        one: Delayed = make(*args, dask_key_name=f"eigengap-{name}-{uuid4().hex}")
        return one

    return made


def joined(forests: Sequence[Delayed]) -> Delayed:
    """All forests as one, by tasks of a few each."""
    join = task(_together, "merge")
    while len(forests) > 1:
        forests = [join(*forests[i : i + FAN_IN]) for i in range(0, len(forests), FAN_IN)]
    return forests[0]


def compute(tasks: Sequence[Delayed], labels: Labels) -> list[Any]:
    """The results of some tasks, here."""
    client = current_client()
    if client is None:
        with _share_of(_local_workers()):
            return list(dask.base.compute(*tasks))  # type: ignore[no-untyped-call]
    with _cluster_errors(client, labels):
        return _gathered(client, client.compute(list(tasks)), labels)


def stream(batches: Iterable[Sequence[Delayed]], labels: Labels) -> Iterator[list[Any]]:
    """The results of one batch of tasks after another; on a cluster the next is under way."""
    client = current_client()
    if client is None:
        yield from (compute(batch, labels) for batch in batches)
        return
    running: Any = None
    for batch in batches:
        with _cluster_errors(client, labels):
            updated = client.compute(list(batch))
            done = None if running is None else _gathered(client, running, labels)
        running = updated
        if done is not None:
            yield done
    with _cluster_errors(client, labels):
        done = _gathered(client, running, labels)
    yield done


def batches(made: Sequence[Delayed], sizes: Sequence[float]) -> Iterator[list[Delayed]]:
    """Tasks in order, in batches of bounded size that keep every thread busy."""
    least = 2 * threads()
    batch: list[Delayed] = []
    held = 0.0
    for one, size in zip(made, sizes, strict=True):
        if len(batch) >= least and held + size > BATCH_BYTES:
            yield batch
            batch, held = [], 0.0
        batch.append(one)
        held += size
    yield batch


def persist(tasks: Sequence[Delayed], labels: Labels) -> list[Delayed]:
    """The tasks with results that stay where they are computed.

    No worker is named. Dask keeps a task that was meant for a worker waiting for ever once all
    workers are lost and others have come, and what goes into the task as well; by itself it
    computes where the rows are.
    """
    client = current_client()
    if client is None:
        with _share_of(_local_workers()):
            return list(dask.base.persist(*tasks))  # type: ignore[no-untyped-call]
    with _cluster_errors(client, labels):
        return list(client.persist(list(tasks)))


def current_client() -> Any:
    """The client that Dask itself would use, or None."""
    client = dask.config.get("scheduler", None)
    if "Client" not in type(client).__name__:
        distributed = sys.modules.get("distributed")
        if distributed is None or client not in (None, "distributed", "dask.distributed"):
            return None
        try:
            client = distributed.get_client()
        except ValueError:
            return None
    if client.asynchronous:
        raise ClusterError(
            "the distributed.Client is asynchronous, and a fit waits for its results: connect one "
            "without asynchronous=True, and fit in a thread of its own (asyncio.to_thread)"
        )
    return client


def workers(client: Any) -> dict[str, int]:
    """Threads of each worker, by its address."""
    with _asked():
        return dict(client.nthreads())


def most_on_one_machine(threads: Mapping[str, int]) -> int:
    """Threads of all workers of a machine together, by their addresses; of the fullest one.

    >>> most_on_one_machine({"tcp://a:1": 2, "tcp://a:2": 2, "tcp://b:1": 3, "tls://[::1]:5": 1})
    4
    """
    machines: Counter[str] = Counter()
    for address, count in threads.items():
        machines[address.partition("://")[2].rpartition(":")[0]] += count
    return max(machines.values(), default=1)


def places(parts: Sequence[Delayed]) -> list[str | None]:
    """The worker that holds each part already (`X.persist()`); None where none does."""
    client = current_client()
    if client is None:
        return [None] * len(parts)
    known = {future.key: future for future in client.futures_of(parts[0])}
    futures = [known[part.key] for part in parts if part.key in known]
    if not futures:
        return [None] * len(parts)
    with _asked():
        held = client.who_has(futures)
    return [min(held.get(part.key) or (), default=None) for part in parts]


def threads() -> int:
    """Tasks that run at a time."""
    client = current_client()
    return max(1, _local_workers() if client is None else sum(workers(client).values()))


def most_kept() -> float:
    """Bytes of prepared blocks that may be kept between passes."""
    client = current_client()
    if client is None:
        return KEPT_SHARE * free_memory()
    with _asked():
        known = client.scheduler_info()["workers"].values()
    limits = [worker["memory_limit"] for worker in known]
    if not limits or not all(limits):  # workers that are still to come, or without a limit
        return float("inf")
    return KEPT_SHARE_OF_WORKERS * float(sum(limits))


def run_here(sent: Sent, run: Callable[..., Any], *args: Any) -> Any:
    """On a worker: run(work, *args) with its share of the cores."""
    own = _threads_of_worker()
    with _share_of(max(sent.together, own)) if own else nullcontext():
        return run(sent.opened(), *args)


def _threads_of_worker() -> int:
    """Threads of the worker that runs this task; 0 where this is no worker of a cluster."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return 0
    try:
        return int(distributed.get_worker().state.nthreads)
    except ValueError:
        return 0


def _itself(sent: Sent) -> Sent:
    return sent


def _together(*forests: Forest) -> Forest:
    return Forest.together(forests)


def _gathered(client: Any, futures: list[Any], labels: Labels) -> list[Any]:
    """The results, unless no worker is left to compute them, or none makes progress."""
    import distributed

    observed: Work | None = None
    since = time.monotonic()
    while True:
        try:
            distributed.wait(futures, timeout=LOOK)  # type: ignore[no-untyped-call]
            return list(client.gather(futures))
        except TimeoutError:
            if client.status != "running":
                raise ClusterError(_LOST) from None
        work = _under_way(client)
        if work != observed:
            observed, since = work, time.monotonic()
        _check_patience(work, time.monotonic() - since, labels)


Work = dict[str, tuple[str, ...]]  # worker -> keys of the tasks that it was given


def _under_way(client: Any) -> Work:
    with _asked():
        given = client.processing().items()
    return {worker: tuple(sorted(map(str, keys))) for worker, keys in given}


def _check_patience(work: Work, unchanged: float, labels: Labels) -> None:
    """Whether the cluster may stay as it is, after so many seconds without a change."""
    keys = [key for given in work.values() for key in given]
    if not work and unchanged >= PATIENCE:
        raise ClusterError(
            f"the Dask cluster has had no worker for {PATIENCE:.0f} seconds: they died, or "
            "never came. See their logs (client.get_worker_logs()); too little memory is "
            "the usual cause, and smaller partitions the way out"
        )
    if work and not keys and unchanged >= PATIENCE:
        raise ClusterError(
            f"the Dask cluster has workers, but has run no task for {PATIENCE:.0f} seconds: they "
            "are paused for want of memory, or not allowed to run these tasks. Their state stands "
            "in client.scheduler_info(); smaller partitions or more workers are the way out"
        )
    name, default = TASK_TIMEOUT
    limit = parse_timedelta(dask.config.get(name, default))
    if keys and unchanged >= limit:
        where = ", ".join(dict.fromkeys(labels[key] for key in keys))
        raise ClusterError(
            f"no task on the Dask cluster has ended for {limit:.0f} seconds; those of "
            f"{where} still run. If they do need longer, allow it: "
            f'dask.config.set({{"{name}": "12h"}})'
        )


_LOST = (
    "the connection to the Dask scheduler is lost: it was stopped, killed, or cannot be reached. "
    "Start a cluster, connect a new distributed.Client, and fit again; a fit with a checkpoint "
    "goes on from there"
)


@contextmanager
def _asked() -> Iterator[None]:
    """A question to the scheduler, which may be lost."""
    try:
        yield
    except (OSError, CancelledError) as error:
        raise ClusterError(_LOST) from error


@contextmanager
def _cluster_errors(client: Any, labels: Labels) -> Iterator[None]:
    """Failures of workers and scheduler as `ClusterError`."""
    from distributed.scheduler import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"every worker that was given {labels[error.args[0]]} died, {int(error.args[2]) + 1} "
            "in all. This task, or another one on these workers, may crash or need more memory "
            "than a worker has (smaller partitions help): compute it alone, and see "
            "the logs (client.get_worker_logs())"
        ) from error
    except (CancelledError, OSError) as error:
        if client.status != "running":
            raise ClusterError(_LOST) from error
        if isinstance(error, OSError):
            raise  # of a task: a file that a worker cannot read, say
        raise ClusterError(
            f"Dask cancelled the computation ({error}): data that lived only on a lost worker "
            "(client.scatter) cannot be made again. Give data that workers can load anew"
        ) from error


def _share_of(tasks: int) -> AbstractContextManager[None]:
    """Hold BLAS to what is for one of so many tasks at a time: each would start one a core.

    A limit that is lower already (Dask's own OMP_NUM_THREADS=1 for workers of a nanny) stays.
    """
    return at_most(max(1, cores() // max(1, tasks)))


def _local_workers() -> int:
    if dask.config.get("scheduler", None) in ("synchronous", "sync", "single-threaded"):
        return 1
    return int(dask.config.get("num_workers", None) or cores())


class Labels(dict[Any, str]):
    """The partitions that keys of tasks stand for, in words."""

    def __init__(self, parts: Sequence[Delayed], known: Mapping[Any, str] | None = None) -> None:
        super().__init__(known or {})
        self._parts = parts

    def __missing__(self, key: Any) -> str:
        """A task of the caller's own graph: the partitions that are made of it."""
        found = [p for p, part in enumerate(self._parts) if key in _made_of(part)]
        says_nothing = len(found) == len(self._parts) > 1
        return f"the task {key!r}" if says_nothing or not found else in_words(found)

    def copy(self) -> Labels:
        return Labels(self._parts, self)


def _made_of(part: Delayed) -> set[Any]:
    """All keys that a task needs."""
    found, open_ = {part.key}, [part.key]
    while open_:
        new = get_dependencies(part.dask, open_.pop()) - found
        found |= new
        open_ += new
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
