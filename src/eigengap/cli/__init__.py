"""The command line. Nothing heavy is imported before a command runs."""

import sys

MISSING_EXTRA = 6  # exit code


def main() -> None:
    """Entry point of `eigengap` and `python -m eigengap`."""
    try:
        from eigengap.cli.ending import main as end_with
    except ModuleNotFoundError as error:
        _refuse_without_extra(error)
    else:
        sys.exit(end_with(sys.argv[1:]))


def _refuse_without_extra(error: ModuleNotFoundError) -> None:
    """Say which extra brings the missing module; anything else missing is a bug and is raised."""
    if error.name is None or error.name.partition(".")[0] not in {"click", "rich"}:
        raise error
    sys.stderr.write(
        f"Error: the command line needs {error.name}, which is not installed.\n"
        'Install it with: pip install "eigengap[cli]"\n'
    )
    sys.exit(MISSING_EXTRA)
