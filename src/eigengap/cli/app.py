"""The group of commands. A command's module is imported when it is called, not before."""

from __future__ import annotations

from importlib import import_module

import click

import eigengap

# Every command with its module and what `eigengap --help` says of it.
COMMANDS = {
    "fit": ("fit", "Fit a model to a table and write it to a file."),
    "transform": ("transform", "Coordinates (or predictions) of every row, by a fitted model."),
    "impute": ("impute", "Impute the missing values of a table, by a fitted model or in one go."),
    "score": ("score", "How likely every row is, and which are odd."),
    "rank": ("rank", "How many components a table has, by every criterion."),
    "compare": ("compare", "Models side by side on rows and cells that they have not seen."),
    "report": ("report", "One HTML file that shows a model and its data."),
    "denoise": ("denoise", "Take the noise out of an image."),
    "inpaint": ("inpaint", "Fill in what is missing of an image."),
    "inspect": ("inspect_model", "What is in a model file, without loading it."),
    "demo": ("demo", "Fit, impute and report the shipped table with its 16 missing values."),
    "doctor": ("doctor", "Versions, extras, threads and memory, for a bug report."),
    "completion": ("completion", "Print the script that completes commands in your shell."),
}


class Commands(click.Group):
    """A group that knows its commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command = getattr(import_module(f"eigengap.cli.commands.{module}"), "command")  # noqa: B009
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(_unknown(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean {close[0]}?" if close else "They are " + ", ".join(COMMANDS) + "."
    return f"there is no command {name!r}. {hint}"


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "Exit codes: 0 done, 1 interrupted, 2 wrong usage, 3 a file is in the way, 4 a file "
        "cannot be read or written, 5 the data cannot be fitted, 6 an extra is missing, 70 an "
        "error of eigengap itself."
    ),
)
@click.version_option(eigengap.__version__, message="eigengap %(version)s")
def app() -> None:
    """PCA and its probabilistic family, for data with holes.

    eigengap fit table.csv, then eigengap report model.egap table.csv. Tables are CSV (plain or
    compressed), Parquet, npy, npz, HDF5 or Zarr; - is standard input or output.
    """
