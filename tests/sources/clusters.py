"""Dask clusters on this machine that end, whatever the tests did to their workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

PATIENCE = 60  # seconds


@contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """A client of so many worker processes of one thread each.

    A nanny whose worker was killed may wait for it for ever (seen with distributed 2025.1). Worker
    processes end with the one that started them, so that nothing is left behind.
    """
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    client = distributed.Client(cluster)
    try:
        yield client
    finally:
        client.close(timeout=PATIENCE)
        with suppress(TimeoutError):
            cluster.close(timeout=PATIENCE)
