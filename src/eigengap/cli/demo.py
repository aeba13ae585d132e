"""`eigengap demo`: fill the gaps of the shipped table, and say what was found."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eigengap.cli.errors import FileInTheWay, FileTrouble, Unfittable
from eigengap.cli.narration import Narrator, listing

if TYPE_CHECKING:
    from eigengap.cli.tables import TextTable
    from eigengap.linalg import Array

TABLE = "breast_cancer_wisconsin.csv"
NOT_FEATURES = ("id", "diagnosis")
SHOWN = 5


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    default=Path("breast_cancer_filled.csv"),
    show_default=True,
    help="Where to write the filled table; - is standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing unless something is wrong.")
def demo(output: Path, force: bool, quiet: bool) -> None:
    """Fit PPCA to a shipped table with 16 real gaps, and fill them.

    The table is Breast Cancer Wisconsin (Original): 699 biopsies, 9 features scored 1 to 10.
    """
    _check_output(output, force)
    narrator = Narrator(quiet)
    table, features, X = _read(narrator)
    model = _fit(X, narrator)
    filled, sd = model.impute(X, return_std=True)
    _tell_filled(X, filled, sd, features, narrator)
    _write(table.filled(_new_cells(X, filled, features)), output, narrator)
    narrator.say(
        "Next",
        "the same on a table of your own: "
        "eigengap.PPCA(scale=True).fit(X).impute(X, return_std=True)",
    )


def _read(narrator: Narrator) -> tuple[TextTable, list[str], Array]:
    from importlib import resources

    import numpy as np

    from eigengap.cli.tables import read_csv

    with (resources.files("eigengap") / "data" / TABLE).open("rb") as stream:
        table = read_csv(stream, TABLE)
    features = [name for name in table.names if name not in NOT_FEATURES]
    X = table.numbers(features)
    missing = np.isnan(X)
    where = listing([features[j] for j in np.flatnonzero(missing.any(axis=0))])
    narrator.say(
        "Read",
        f"{X.shape[0]} rows x {X.shape[1]} numeric columns of {TABLE}, leaving out "
        f"{listing(NOT_FEATURES)}; {missing.sum()} cells missing ({100 * missing.mean():.2f} %), "
        f"all in {where}",
    )
    return table, features, X


def _fit(X: Array, narrator: Narrator) -> Any:
    import eigengap

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = eigengap.PPCA(n_components="auto", scale=True).fit(X)
        except ValueError as error:
            raise Unfittable(str(error)) from error
    narrator.say("Chose", f"{_choice(model)} (what that means: docs/rank.md)")
    narrator.say(
        "Fit",
        f"PPCA, {model.n_iter_} steps, {'converged' if model.converged_ else 'NOT converged'}; "
        f"log-likelihood per row {_signed(model.score(X))}; "
        f"{100 * model.explained_variance_ratio_.sum():.0f} % of the variance explained, "
        f"noise standard deviation {model.noise_variance_**0.5:.2f}",
    )
    for warning in caught:
        narrator.say("Note", str(warning.message))
    return model


def _signed(number: float) -> str:
    """Two decimals with a true minus sign.

    >>> _signed(-14.118)
    '−14.12'
    """
    return f"{number:.2f}".replace("-", "−")


def _choice(model: Any) -> str:
    """How many components, and why."""
    choice = getattr(model, "rank_choice_", None)
    return f"k = {model.n_components_}" if choice is None else choice.summary


def _tell_filled(
    X: Array, filled: Array, sd: Array, features: list[str], narrator: Narrator
) -> None:
    import numpy as np

    rows, columns = np.nonzero(np.isnan(X))
    values, spread = filled[rows, columns], sd[rows, columns]
    names = listing([features[j] for j in np.unique(columns)])
    narrator.say(
        "Filled",
        f"{len(rows)} cells in {names}: values {values.min():.1f} to {values.max():.1f}, "
        f"typically ± {np.median(spread):.1f} (one standard deviation); for example",
    )
    narrator.show_rows(
        ("data row", "column", "value ± sd"),
        [
            (str(row + 1), features[j], f"{value:.2f} ± {s:.2f}")
            for row, j, value, s in zip(rows, columns, values, spread, strict=True)
        ][:SHOWN],
    )


def _new_cells(X: Array, filled: Array, features: list[str]) -> dict[tuple[int, str], str]:
    import numpy as np

    gaps = zip(*np.nonzero(np.isnan(X)), strict=True)
    return {(int(row), features[j]): f"{filled[row, j]:.6g}" for row, j in gaps}


def _check_output(output: Path, force: bool) -> None:
    """Refuse before the work is done, not after it."""
    if str(output) == "-":
        return
    if output.exists() and not force:
        raise FileInTheWay(f"{output} exists. Overwrite it with --force, or name another: -o FILE")
    if not output.parent.is_dir():
        raise FileTrouble(f"there is no folder {output.parent} to write {output.name} to")


def _write(table: TextTable, output: Path, narrator: Narrator) -> None:
    from eigengap.cli.tables import write_csv

    if str(output) == "-":
        write_csv(table, sys.stdout)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as stream:
            write_csv(table, stream)
    except OSError as error:
        raise FileTrouble(f"cannot write {output}: {error.strerror}") from error
    size = output.stat().st_size / 1000
    narrator.say("Wrote", f"{output} ({size:.0f} kB), all {len(table.names)} columns")
