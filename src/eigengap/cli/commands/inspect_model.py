"""`eigengap inspect`: what a model file says of itself; nothing of it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eigengap.cli import options

MOST_NAMES = 12
MOST_TENSORS = 20
LONGEST = 2000  # letters of one entry


@click.command("inspect")
@options.model_file
@options.talking
def command(model: str, narrator: Any) -> None:
    """Say what is in MODEL: kind, columns, parameters, where it comes from.

    Only the head of the file is read, and nothing in it is run.
    """
    from eigengap.cli.errors import FileTrouble, shown
    from eigengap.cli.files import as_file
    from eigengap.persistence.model_file import inspect_file

    with as_file(model, "MODEL") as path:
        if not Path(path).exists():
            raise FileTrouble(f"{shown(model)} does not exist")
        facts = inspect_file(path)
    names = ("size", "format", "version", "kind", "parameters", "n_features", "feature_names")
    found = {name: getattr(facts, name) for name in (*names, "summary", "provenance")}
    tensors = [{"name": n, "dtype": d, "shape": s} for n, d, s in facts.tensors]
    narrator.facts.update(path=model, **found, tensors=tensors)
    if not narrator.as_json:
        _print(facts, model, narrator.verbose)


def _print(facts: Any, model: str, verbose: bool) -> None:
    from eigengap.cli.errors import shown
    from eigengap.cli.narration import size

    _line(
        "File",
        f"{shown(model)} ({size(facts.size)}), format {facts.format}, by eigengap {facts.version}",
    )
    summary = ", ".join(f"{name} {_value(value)}" for name, value in facts.summary.items())
    _line("Model", f"{facts.kind}{'; ' if summary else ''}{summary}")
    _line("Columns", _columns(facts, verbose))
    _line("Set", ", ".join(f"{n}={_value(v)}" for n, v in facts.parameters.items()) or "nothing")
    for name, value in facts.provenance.items():
        _line("From" if name == next(iter(facts.provenance)) else "", f"{name}: {_value(value)}")
    shown_tensors = facts.tensors if verbose else facts.tensors[:MOST_TENSORS]
    for k, (name, dtype, shape) in enumerate(shown_tensors):
        shape_text = " x ".join(map(str, shape)) or "a number"
        _line("Arrays" if k == 0 else "", f"{_value(name)}: {dtype}, {shape_text}")
    if len(shown_tensors) < len(facts.tensors):
        _line("", f"and {len(facts.tensors) - len(shown_tensors)} more (-v shows all)")


def _columns(facts: Any, verbose: bool) -> str:
    from eigengap.cli.narration import listing, many

    if facts.feature_names is None:
        return f"{facts.n_features}, without names"
    most = len(facts.feature_names) if verbose else MOST_NAMES
    return f"{many(len(facts.feature_names), 'column')}: {listing(facts.feature_names, most)}"


def _line(label: str, text: str) -> None:
    click.echo(f"{label:<9}{text}")


def _value(value: Any) -> str:
    """Anything that a file may hold, on one line and harmless to a terminal."""
    text = str(value)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:LONGEST])
