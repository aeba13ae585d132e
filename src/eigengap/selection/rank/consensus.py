"""Several criteria in one sentence, and the number on which most agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

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
        sentence = f"k = {kept}: the fewest; no component stands out"
    for q in sorted({q for q in picks.values() if q != kept}):
        names = [name for name, picked in picks.items() if picked == q]
        sentence += "; " + _dissent(names, q)
    if not_applied:
        reasons = [f"{NAMES[name]} ({why})" for name, why in not_applied.items()]
        sentence += ". Not applied: " + "; ".join(reasons)
    return sentence


def _dissent(names: list[str], q: int) -> str:
    if names == ["eigengap"]:
        return f"the largest eigengap is {q}→{q + 1}"
    return f"{_listing(names)} prefer{'s' if len(names) == 1 else ''} {q}"


def _listing(names: list[str]) -> str:
    words = [NAMES[name] for name in names]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
