"""The group of commands, and how one runs to its end: exit codes, and no traceback for what a user
can mend. A command's module is imported when it is called, not before.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

import eigengap
from eigengap.cli.errors import CLOSED_PIPE, INTERNAL, INTERRUPTED, TERMINATED, command_error
from eigengap.cli.files import stdout_trouble
from eigengap.cli.wording import Options
from eigengap.wording import worded

# Every command with its module and its line in `eigengap --help`.
COMMANDS = {
    "fit": ("tables", "Fit a model to a table and write it to a file."),
    "transform": ("tables", "Coordinates (or predictions) of every row, by a fitted model."),
    "impute": ("tables", "Impute the missing values of a table, by a fitted model or in one go."),
    "score": ("tables", "How likely every row is, and which are outliers."),
    "rank": ("tables", "How many components a table has, by every criterion."),
    "compare": ("tables", "Models side by side on held-out rows and cells."),
    "report": ("report", "One HTML file that shows a model and its data."),
    "denoise": ("images", "Take the noise out of an image."),
    "inpaint": ("images", "Impute the missing pixels of an image."),
    "inspect": ("about", "What is in a model file, without loading it."),
    "demo": ("report", "Impute and report the shipped table with its 16 missing values."),
    "doctor": ("about", "Versions, extras, threads and memory, for a bug report."),
    "completion": ("about", "Print the script that completes commands in your shell."),
}
ISSUES = "set EIGENGAP_DEBUG=1 to see where, and report it with `eigengap doctor`"


class Commands(click.Group):
    """A group that knows its commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"eigengap.cli.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"They are {', '.join(COMMANDS)}."
            raise click.UsageError(f"there is no command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


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
    """PCA and its probabilistic family, for data with missing values.

    eigengap fit table.csv, then eigengap report model.egap table.csv. Tables are CSV (plain or
    compressed), Parquet, npy, npz, HDF5 or Zarr; - is standard input or output.
    """


def main(arguments: Sequence[str]) -> int:
    """Run one command as the work of this process.

    What a batch system sends before it kills ends a fit as Ctrl-C does: with a checkpoint.
    """

    def end(*_: Any) -> None:
        raise SystemExit(TERMINATED)

    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, end)
    return run(arguments)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        with worded(Options()):
            _invoke(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return 0
    except BrokenPipeError:
        return _closed_pipe()
    except (click.Abort, KeyboardInterrupt) as error:
        return _interrupted(error, arguments, INTERRUPTED)
    except click.ClickException as error:
        return _print_error(error, arguments)
    except SystemExit as error:  # a signal, or the completion of a shell
        if error.code == TERMINATED:
            return _interrupted(error, arguments, TERMINATED)
        return error.code if isinstance(error.code, int) else 0
    except Exception as error:
        return _unforeseen(error, arguments)


def _invoke(arguments: Sequence[str]) -> None:
    """As `app.main`, which would keep a closed pipe and an interrupt from us."""
    if "_EIGENGAP_COMPLETE" in os.environ:
        app.main(args=list(arguments), prog_name="eigengap")
    try:
        with app.make_context("eigengap", list(arguments)) as context:
            app.invoke(context)
    except click.exceptions.Exit as error:
        if error.exit_code:
            raise SystemExit(error.exit_code) from error


def _closed_pipe() -> int:
    """The reader closed our output: end, and keep the interpreter from writing at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
    return CLOSED_PIPE


def _interrupted(error: BaseException, arguments: Sequence[str], code: int) -> int:
    """Ctrl-C, or a batch system that wants its machine back: report what is left of the work."""
    notes = dict.fromkeys(getattr(error, "__notes__", ()))
    kept = " ".join(f"{note}." for note in notes) or "Nothing was written."
    how = "Interrupted" if code == INTERRUPTED else "Terminated"
    return _end(f"{how}. {kept}", arguments, code)


def _print_error(error: click.ClickException, arguments: Sequence[str]) -> int:
    if isinstance(error, click.UsageError):
        error.show()
        return _as_json(error.format_message(), arguments, error.exit_code)
    return _end(f"Error: {error.format_message()}", arguments, error.exit_code)


def _unforeseen(error: Exception, arguments: Sequence[str]) -> int:
    if os.environ.get("EIGENGAP_DEBUG"):
        import traceback

        traceback.print_exc()
    # Errors of files carry their names; those without one are of standard output.
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        is_of_system = error.strerror == os.strerror(error.errno)
        error = stdout_trouble(error) if is_of_system else error
    found = command_error(error)
    if found is not None:
        return _print_error(found, arguments)
    what = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return _end(
        f"Error: eigengap has failed ({what}). This is a bug: {ISSUES}", arguments, INTERNAL
    )


def _end(sentence: str, arguments: Sequence[str], code: int) -> int:
    click.echo(sentence, err=True)
    return _as_json(sentence.removeprefix("Error: "), arguments, code)


def _as_json(sentence: str, arguments: Sequence[str], code: int) -> int:
    """With --json an error is an object on standard output too."""
    if "--json" in arguments:
        with suppress(OSError):
            click.echo(json.dumps({"error": sentence, "exit_code": code}))
    return code
