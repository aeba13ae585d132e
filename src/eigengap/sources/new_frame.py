"""A data frame made from columns: pandas where it is installed, else polars."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def new_frame(columns: Mapping[str, Any]) -> Any:
    """The columns, name -> values of equal length, as a frame.

    Raises
    ------
    ImportError
        Where neither pandas nor polars is installed.
    """
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(dict(columns))
    raise ImportError(
        "a frame needs pandas or polars, and neither is installed: pip install pandas; "
        "the numbers are attributes of this object without it"
    )
