"""Running a command to its end: exit codes, and no traceback for what a user can mend."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

from eigengap.cli.app import app
from eigengap.cli.errors import (
    CLOSED_PIPE,
    INTERNAL,
    INTERRUPTED,
    TERMINATED,
    CommandError,
    command_error,
)
from eigengap.cli.wording import Options
from eigengap.wording import worded

ISSUES = "set EIGENGAP_DEBUG=1 to see where, and report it with `eigengap doctor`"


def main(arguments: Sequence[str]) -> int:
    """Run one command as the work of this process."""
    _end_on_terminate()
    return run(arguments)


def run(arguments: Sequence[str]) -> int:
    """Run one command and say how it ended."""
    try:
        with worded(Options()):
            _invoke(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return 0
    except BrokenPipeError:
        return _closed_pipe()
    except (click.Abort, KeyboardInterrupt) as error:
        return _interrupted(error, arguments)
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


def _end_on_terminate() -> None:
    """What a batch system sends before it kills ends a fit as Ctrl-C does: with a checkpoint."""

    def end(*_: Any) -> None:
        raise SystemExit(TERMINATED)

    try:
        signal.signal(signal.SIGTERM, end)
    except ValueError:  # not in the main thread
        return


def _closed_pipe() -> int:
    """Whoever read our output has gone; so do we, and the interpreter must not write at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
    return CLOSED_PIPE


def _interrupted(error: BaseException, arguments: Sequence[str], code: int = INTERRUPTED) -> int:
    """Ctrl-C, or a batch system that wants its machine back: say what is left of the work."""
    notes = getattr(error, "__notes__", ())
    kept = " ".join(f"{note}." for note in dict.fromkeys(notes))
    how = "Interrupted" if code == INTERRUPTED else "Terminated"
    _say(f"{how}. {kept or 'Nothing was written.'}", arguments, code)
    return code


def _print_error(error: click.ClickException, arguments: Sequence[str]) -> int:
    if isinstance(error, click.UsageError):
        error.show()
        _as_json(error.format_message(), arguments, error.exit_code)
        return error.exit_code
    _say(f"Error: {error.format_message()}", arguments, error.exit_code)
    return error.exit_code


def _unforeseen(error: Exception, arguments: Sequence[str]) -> int:
    if os.environ.get("EIGENGAP_DEBUG"):
        import traceback

        traceback.print_exc()
    if _is_of_stdout(error):
        from eigengap.cli.tables.outputs import stdout_trouble

        assert isinstance(error, OSError)
        error = stdout_trouble(error)
    found: CommandError | None = command_error(error)
    if found is not None:
        return _print_error(found, arguments)
    said = " ".join(str(error).split())
    _say(
        f"Error: eigengap has failed ({type(error).__name__}: {said}). This is a bug: {ISSUES}",
        arguments,
        INTERNAL,
    )
    return INTERNAL


def _is_of_stdout(error: Exception) -> bool:
    """Errors of files carry their names; what the system says without one is of standard output."""
    return (
        isinstance(error, OSError)
        and error.errno is not None
        and error.filename is None
        and error.strerror == os.strerror(error.errno)
    )


def _say(sentence: str, arguments: Sequence[str], code: int) -> None:
    click.echo(sentence, err=True)
    _as_json(sentence.removeprefix("Error: "), arguments, code)


def _as_json(sentence: str, arguments: Sequence[str], code: int) -> None:
    """With --json an error is an object on standard output too."""
    if "--json" not in arguments:
        return
    try:
        click.echo(json.dumps({"error": sentence, "exit_code": code}))
    except OSError:
        return
