"""Rows of results, and the Markdown that shows them.

A row is a dict: case, measure, unit, ours, peer (its name), theirs, ratio (theirs / ours), bound
(whether ratio is only a lower bound), target, met, note; and `detail` for results.json.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def against(
    case: str,
    measure: str,
    ours: float | None,
    peer: str,
    theirs: float | None,
    *,
    target: float | None = None,
    bound: bool = False,
    note: str = "",
    **detail: Any,
) -> Row:
    """A comparison; `target` is the ratio that is asked for."""
    ratio = theirs / ours if ours and theirs is not None else None
    met = None
    if target is not None:
        met = _met(ratio, target, bound, ours)
    goal = None if target is None else f">= {target:g} times"
    return {
        "case": case,
        "measure": measure,
        "unit": "s",
        "ours": ours,
        "peer": peer,
        "theirs": theirs,
        "ratio": ratio,
        "bound": bound,
        "target": goal,
        "met": met,
        "note": note,
        "detail": detail,
    }


def _met(ratio: float | None, target: float, bound: bool, ours: float | None) -> str | None:
    if ours is None:
        return "no"
    if ratio is None:
        return None
    if ratio >= target:
        return "yes"
    return "undecided" if bound else "no"


def limit(
    case: str, measure: str, ours: float, unit: str, target: float, note: str = "", **detail: Any
) -> Row:
    """A figure of ours that has to lie below `target`."""
    row = against(case, measure, ours, "", None, note=note, **detail)
    met = "yes" if ours < target else "no"
    return {**row, "unit": unit, "target": f"< {target:g} {unit}", "met": met}


def check(case: str, measure: str, passed: bool | None, note: str = "", **detail: Any) -> Row:
    """Something that has to work; None: it could not be tried here, and the note says why."""
    row = against(case, measure, None, "", None, note=note, **detail)
    met = None if passed is None else "yes" if passed else "no"
    return {**row, "target": "works", "met": met}


HEAD = ("case", "what", "eigengap", "peer", "peer's", "ratio", "target", "met", "notes")


def markdown(title: str, rows: Iterable[Row]) -> str:
    lines = [f"## {title}", "", _line(HEAD), _line(["---"] * len(HEAD))]
    return "\n".join([*lines, *(_line(_cells(row)) for row in rows)])


def _cells(row: Row) -> list[str]:
    return [
        row["case"],
        row["measure"],
        quantity(row["ours"], row["unit"]),
        row["peer"] or "-",
        (">= " if row["bound"] and row["theirs"] else "") + quantity(row["theirs"], row["unit"]),
        (">= " if row["bound"] and row["ratio"] else "") + times(row["ratio"]),
        row["target"] or "-",
        row["met"] or "-",
        row["note"],
    ]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "s" and value < 0.1:
        return f"{1e3 * value:.3g} ms"
    if unit == "dB":
        return f"{value:.2f} dB"
    return f"{value:.3g} {unit}"


def times(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"
