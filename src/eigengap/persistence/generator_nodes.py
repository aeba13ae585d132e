"""Random generators by their state, so that what they draw next is what they would have drawn.

NumPy copies a state into its C structures and checks little of it: a position outside of its table
would be read, so that everything is checked here before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eigengap.persistence.array_nodes import MalformedError, Node

BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
WORDS = {"MT19937": 624, "SFC64": 4}
Child = Callable[[Any, str], Any]


def is_generator(value: Any) -> bool:
    known = isinstance(value, np.random.Generator | np.random.RandomState)
    return known and type(_bits_of(value)).__name__ in BIT_GENERATORS


def generator_node(value: Any, child: Child) -> Node:
    old = isinstance(value, np.random.RandomState)
    state = value.get_state(legacy=False) if old else value.bit_generator.state
    node = {"is": "random", "old": old, "state": child(state, "state")}
    seeds = getattr(_bits_of(value), "seed_seq", None)
    if isinstance(seeds, np.random.SeedSequence):  # of which children are spawned
        entropy = seeds.entropy
        plain = entropy if entropy is None or isinstance(entropy, int) else list(map(int, entropy))
        node["seeds"] = child(
            {
                "entropy": plain,
                "spawn_key": [int(key) for key in seeds.spawn_key],
                "pool_size": int(seeds.pool_size),
                "n_children_spawned": int(seeds.n_children_spawned),
            },
            "seeds",
        )
    return node


def generator_of(node: Node, child: Callable[[Any], Any]) -> Any:
    state = child(node.get("state"))
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if name not in BIT_GENERATORS:
        raise MalformedError(f"no generator: {name!s:.40}")
    _require_state(state, name)
    try:
        seeds = _seeds(child(node["seeds"])) if "seeds" in node else 0
        bits = getattr(np.random, name)(seeds)
        if node.get("old") is True:
            made = np.random.RandomState(bits)
            made.set_state(state)
            return made
        bits.state = state
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise MalformedError(f"a generator that is none ({error!s:.80})") from None
    return np.random.Generator(bits)


def _bits_of(value: Any) -> Any:
    return value._bit_generator if isinstance(value, np.random.RandomState) else value.bit_generator


def _seeds(given: Any) -> np.random.SeedSequence:
    names = {"entropy", "spawn_key", "pool_size", "n_children_spawned"}
    if not isinstance(given, dict) or set(given) != names:
        raise MalformedError("a sequence of seeds that is none")
    entropy, key = given["entropy"], given["spawn_key"]
    lists = [[] if entropy is None else entropy if isinstance(entropy, list) else [entropy], key]
    for some in lists:
        if not isinstance(some, list) or len(some) > 4096 or not all(map(_is_word, some)):
            raise MalformedError("a sequence of seeds that is none")
    size, spawned = given["pool_size"], given["n_children_spawned"]
    if not (type(size) is int and 4 <= size <= 4096) or not _is_word(spawned):
        raise MalformedError("a sequence of seeds that is none")
    return np.random.SeedSequence(
        entropy, spawn_key=tuple(key), pool_size=size, n_children_spawned=spawned
    )


def _is_word(value: Any) -> bool:
    return type(value) is int and value >= 0 and value.bit_length() <= 4096


def _require_state(state: dict[str, Any], name: str) -> None:
    inner = state.get("state")
    if not isinstance(inner, dict):
        raise MalformedError("a generator without its state")
    if name in WORDS:
        words = inner.get("key" if name == "MT19937" else "state")
        kind = np.uint32 if name == "MT19937" else np.uint64
        if not _is_words(words, WORDS[name], kind):
            raise MalformedError(f"a state of {name} that is none")
    elif name == "Philox":
        whole = _is_words(inner.get("counter"), 4, np.uint64)
        whole = whole and _is_words(inner.get("key"), 2, np.uint64)
        if not whole or not _is_words(state.get("buffer"), 4, np.uint64):
            raise MalformedError(f"a state of {name} that is none")
        _require_position(state.get("buffer_pos"), 4)
    elif not all(_is_word(inner.get(part)) for part in ("state", "inc")):
        raise MalformedError(f"a state of {name} that is none")
    if name == "MT19937":
        _require_position(inner.get("pos"), 624)


def _is_words(value: Any, count: int, kind: type[Any]) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (count,) and value.dtype == kind


def _require_position(value: Any, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise MalformedError("a generator whose position lies outside of its table")
