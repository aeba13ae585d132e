"""The group of commands, and what all of them share: exit codes and errors without traceback."""

import click

import eigengap
from eigengap.cli.demo import demo


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 done, 1 interrupted, 2 wrong usage, 3 a file is in the way, "
        "4 a file cannot be read or written, 5 the data cannot be fitted, 6 an extra is missing."
    ),
)
@click.version_option(eigengap.__version__, message="eigengap %(version)s")
def app() -> None:
    """PCA and its probabilistic family, for data with holes."""


app.add_command(demo)
