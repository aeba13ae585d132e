"""A number of components and why: what each criterion chooses, and all of them in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from eigengap.linalg import Array

V = TypeVar("V")

Better = Literal["lower", "higher", "above 1", "at most tolerance", "above level"]

NAMES = {
    "deflated_parallel_analysis": "deflated parallel analysis",
    "parallel_analysis": "parallel analysis",
    "permuted_parallel_analysis": "parallel analysis by permutation",
    "eigengap": "the largest eigengap",
    "tolerance": "the tolerance",
    "bartlett": "Bartlett's test",
    "bic": "BIC",
    "minka": "Minka's evidence",
    "gavish_donoho": "Gavish and Donoho's threshold",
    "cross_validation": "cross-validation",
    "ard": "automatic relevance determination",
}


class ReadOnly(Mapping[str, V]):
    """A mapping that cannot be changed (and, unlike mappingproxy, can be pickled)."""

    __slots__ = ("_items",)
    _items: dict[str, V]

    def __init__(self, items: Mapping[str, V]) -> None:
        object.__setattr__(self, "_items", dict(items))

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a choice of rank cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self._items),)

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True, eq=False)
class Curve(Mapping[int, float]):
    """A criterion at each number of components q that was tried.

    Attributes
    ----------
    points : ((q, value), ...) in rising q
    better : which values speak for a q
    label : what the values are
    """

    points: tuple[tuple[int, float], ...]
    better: Better
    label: str

    @classmethod
    def of(cls, values: Mapping[int, float], better: Better, label: str) -> Curve:
        return cls(tuple((int(q), float(values[q])) for q in sorted(values)), better, label)

    @classmethod
    def from_first(cls, values: Sequence[float] | Array, better: Better, label: str) -> Curve:
        """Of the values at q = 1, 2, ..."""
        return cls.of(dict(enumerate(values, 1)), better, label)

    def __getitem__(self, q: int) -> float:
        return dict(self.points)[q]

    def __iter__(self) -> Iterator[int]:
        return (q for q, _ in self.points)

    def __len__(self) -> int:
        return len(self.points)

    def lowest(self) -> int:
        """The q of the smallest value, the smaller q in a tie."""
        return min(self.points, key=lambda point: (point[1], point[0]))[0]

    def highest(self) -> int:
        """The q of the largest value, the smaller q in a tie."""
        return min(self.points, key=lambda point: (-point[1], point[0]))[0]


@dataclass(frozen=True, eq=False)
class RankChoice:
    """A number of components, what each criterion chooses, and a verdict in words.

    Attributes
    ----------
    n_components : int
        At least 1; 0 where columns of several kinds do not predict one another.
    criteria : mapping of str to int
        What each criterion picks; 0 means that no component exceeds the noise level.
    curves : mapping of str to Curve
        Each criterion at every number of components that it looked at. A curve is a mapping of q to
        its value, with `better` ("lower", "higher", ...) and `label`.
    summary : str
    not_applied : mapping of str to str
        Criteria that do not apply to this table, and why.
    """

    n_components: int
    criteria: Mapping[str, int]
    curves: Mapping[str, Curve]
    summary: str
    not_applied: Mapping[str, str]

    def __post_init__(self) -> None:
        for name in ("criteria", "curves", "not_applied"):
            object.__setattr__(self, name, ReadOnly(getattr(self, name)))

    def __repr__(self) -> str:
        return f"RankChoice({self.summary})"


class DoesNotApplyError(ValueError):
    """A criterion does not apply to this table; the message gives the reason."""


def vote(picks: Mapping[str, int]) -> int:
    """The number that most criteria pick, the smaller in a tie."""
    counts = Counter(picks.values())
    return min(counts, key=lambda q: (-counts[q], q))


def in_words(kept: int, picks: Mapping[str, int], not_applied: Mapping[str, str]) -> str:
    """E.g. "k = 3: BIC and Minka's evidence agree; cross-validation prefers 4"."""
    agree = [name for name, q in picks.items() if q == kept]
    if len(agree) > 1:
        sentence = f"k = {kept}: {_listing(agree)} agree"
    elif agree:
        sentence = f"k = {kept}: {NAMES[agree[0]]} alone"
    else:
        sentence = f"k = {kept}: the fewest; no component exceeds the noise level"
    for q in sorted({q for q in picks.values() if q != kept}):
        names = [name for name, picked in picks.items() if picked == q]
        prefer = f"{_listing(names)} prefer{'s' if len(names) == 1 else ''} {q}"
        alone = names == ["eigengap"]
        sentence += "; " + (f"the largest eigengap is {q}→{q + 1}" if alone else prefer)
    if not_applied:
        reasons = [f"{NAMES[name]} ({why})" for name, why in not_applied.items()]
        sentence += ". Not applied: " + "; ".join(reasons)
    return sentence


def _listing(names: list[str]) -> str:
    words = [NAMES[name] for name in names]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
