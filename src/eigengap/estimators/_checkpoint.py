"""The `checkpoint` parameter: an iterative fit that survives interruption."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from eigengap import __version__
from eigengap.persistence.atomic import require_writable
from eigengap.persistence.checkpoint import Checkpoint, FileCheckpointer
from eigengap.persistence.fingerprint import fingerprint
from eigengap.sources import Source

CHECKPOINT_CONSTRAINTS: dict[str, list[Any]] = {"checkpoint": [str, os.PathLike, Checkpoint, None]}

# Parameters that do not change the way a fit takes, only how far it goes or what it tells.
FREE = frozenset({"checkpoint", "max_iter", "verbose", "copy", "n_jobs"})

LONGEST = 16  # entries of a parameter that are told one by one


def require_checkpoint(estimator: Any) -> None:
    """Refuse a checkpoint that cannot be written, before the data are looked at."""
    asked = getattr(estimator, "checkpoint", None)
    if asked is not None:
        require_writable(Checkpoint.of(asked).path)


@contextmanager
def checkpointed(estimator: Any, source: Source) -> Iterator[FileCheckpointer | None]:
    """The keeper that the fit's watch is to carry, None where no checkpoint is asked for.

    What runs inside is a fit that leaves `converged_`. If it fails or is interrupted, what it has
    done is written; if it has converged, the file is removed.
    """
    asked = getattr(estimator, "checkpoint", None)
    if asked is None:
        yield None
        return
    checkpointer = FileCheckpointer.open(Checkpoint.of(asked), _identity(estimator, source))
    try:
        yield checkpointer
    except BaseException as error:
        checkpointer.leave(error)
        raise
    checkpointer.end(converged=bool(estimator.converged_))


def _identity(estimator: Any, source: Source) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    return {
        "estimator": type(estimator).__name__,
        "version": __version__,
        "parameters": {k: _described(v) for k, v in parameters.items() if k not in FREE},
        "data": fingerprint(source),
    }


def _described(value: Any) -> Any:
    """A parameter as JSON that tells it from others; a generator by its type alone."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        entries = np.asarray(value).ravel().tolist()
        told = [_described(entry) for entry in entries[:LONGEST]]
        return told if len(entries) <= LONGEST else [*told, f"{len(entries)} entries", repr(value)]
    if isinstance(value, int | float | np.number | np.bool_):
        return repr(value.item() if isinstance(value, np.generic) else value)
    return type(value).__name__
