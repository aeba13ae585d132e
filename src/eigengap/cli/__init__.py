"""The command line. Nothing heavy is imported before a command runs."""

import os
import sys

INTERRUPTED, MISSING_EXTRA = 1, 6  # exit codes


def main() -> None:
    """Entry point of `eigengap` and `python -m eigengap`."""
    if sys.stderr is None:  # closed by whoever started us: narration has nowhere to go
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, to the end of the process
    try:
        from eigengap.cli.app import main as end_with

        code = end_with(sys.argv[1:])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"click", "rich"}:
            raise  # a bug
        sys.stderr.write(
            f"Error: the command line needs {error.name}, which is not installed.\n"
            'Install it with: pip install "eigengap[cli]"\n'
        )
        code = MISSING_EXTRA
    except KeyboardInterrupt:  # while modules were being loaded
        sys.stderr.write("Interrupted. Nothing was written.\n")
        code = INTERRUPTED
    sys.exit(code)
