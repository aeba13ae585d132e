"""Options that several commands share, each written once."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from eigengap.cli.models import NAMES

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(allow_dash=True)  # completes names of files; what is there is looked at later


def stacked(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several decorators as one, the first on top."""

    def decorate(function: F) -> F:
        for one in reversed(decorators):
            function = one(function)
        return function

    return decorate


data = click.argument("data", type=FILE, metavar="DATA")
model_file = click.argument("model", type=FILE, metavar="MODEL")
seed = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
    help="Random seed.",
)  # fmt: skip


def talking(function: F) -> F:
    """The command gets a narrator, whose facts are printed at its end where --json asks for it."""

    @wraps(function)
    def run(as_json: bool, quiet: bool, verbose: bool, **given: Any) -> None:
        from eigengap.cli.narration import Narrator, plain

        narrator = Narrator(quiet, as_json, verbose)
        function(narrator=narrator, **given)
        if as_json:
            click.echo(json.dumps(plain(narrator.facts), allow_nan=False))

    options = stacked(
        click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing unless something is wrong."),
        click.option("-v", "--verbose", is_flag=True, help="Say more."),
    )
    return options(run)  # type: ignore[return-value]


scheduler = click.option(
    "--scheduler", metavar="ADDRESS",
    help="Work on the Dask cluster of this scheduler, e.g. tcp://host:8786.",
)  # fmt: skip
forcing = click.option("--force", is_flag=True, help="Overwrite files that exist.")

ids = click.option(
    "--id", "ids", multiple=True, metavar="COL",
    help="A column that names the rows: copied to outputs, not a feature.",
)  # fmt: skip
cells = stacked(
    click.option(
        "--na", multiple=True, metavar="VALUE",
        help='What stands for a missing cell besides empty ones and NA, e.g. --na "?" --na -999.',
    ),
    click.option(
        "--skip-rows", type=click.IntRange(0), default=0, metavar="N",
        help="Lines of CSV above the header that are no rows.",
    ),
    click.option(
        "--comment", metavar="TEXT",
        help="Lines of CSV that begin with this, blanks apart, are no rows, e.g. --comment '#'.",
    ),
)  # fmt: skip
taken = click.option(
    "--columns", multiple=True, metavar="COLS",
    help="The columns of DATA that are the model's, in its order; found by name if left out.",
)  # fmt: skip
columns = stacked(
    click.option("--numeric", is_flag=True, help="Use columns of numbers only, as numbers."),
    click.option(
        "--kinds", multiple=True, metavar="NAME=KIND",
        help="What columns hold: stage=ordinal,share=bounded:0:100,note=ignored; else it is found.",
    ),
    click.option(
        "--order", "orders", multiple=True, metavar="NAME=LEVELS",
        help="Levels of text from the lowest on: stage=low,mid,high.",
    ),
    ids,
    click.option(
        "--ignore", multiple=True, metavar="COLS", help="Columns to exclude: a,b."
    ),
    click.option(
        "--columns", multiple=True, metavar="COLS", help="The features, and no others: a,b."
    ),
    cells,
)  # fmt: skip

components = click.option(
    "-k", "--components", metavar="N|SHARE|auto",
    help="Components: a number, a share of the variance (0.95), or auto.",
)  # fmt: skip
fitting = stacked(
    components,
    click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE",
        help="Any other parameter of the model, e.g. --set tol=1e-8.",
    ),
    click.option(
        "--scale/--no-scale", default=None,
        help="Divide columns by their standard deviations (the default, where the model can).",
    ),
    seed,
    click.option(
        "--checkpoint", type=click.Path(), metavar="FILE",
        help="Keep the steps of the fit here; the same command goes on from there.",
    ),
    scheduler,
)  # fmt: skip
image = click.argument("image", type=FILE, metavar="IMG")
of_patches = stacked(
    click.option(
        "--sd", type=click.Path(), metavar="FILE",
        help="Write the standard deviation of every sample too: exact in .tif, shades in .png.",
    ),
    click.option(
        "--compare", type=click.Path(), is_flag=False, flag_value="<unnamed>", metavar="[FILE]",
        help="Write before and after side by side too; as NAME.compared.png next to what is "
        "written if no name follows (put it behind IMG then).",
    ),
    click.option(
        "-m", "--model", "name", type=click.Choice(("mixture", "ppca")), default="mixture",
        show_default=True, help="What patches of the image follow: a mixture of PPCAs, or one.",
    ),
    click.option(
        "-k", "--components", metavar="N|auto", default="auto", show_default=True,
        help="Components of each PPCA.",
    ),
    seed,
)  # fmt: skip
model_name = click.option(
    "-m", "--model", "name", type=click.Choice(NAMES), default="ppca", show_default=True,
    metavar="MODEL", help=f"One of {', '.join(NAMES)}.",
)  # fmt: skip


def output(default: str | None, what: str) -> Callable[[F], F]:
    return click.option(
        "-o", "--output", type=FILE, default=default, show_default=default is not None,
        metavar="FILE", help=f"Where to write {what}; - is standard output.",
    )  # fmt: skip
