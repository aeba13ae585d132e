"""Statistics that are sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, eq=False)
class Additive:
    """Its fields are sums over rows, statistics, or tuples of them: it merges by addition.

    A field is None where a sum was not asked for.
    """

    def merge(self, other: Self, /) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(_sum(getattr(self, name), getattr(other, name)) for name in names))


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if hasattr(a, "merge"):
        return a.merge(b)
    return tuple(map(_sum, a, b)) if isinstance(a, tuple) else a + b
