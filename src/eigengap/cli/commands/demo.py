"""`eigengap demo`: fit the shipped table, impute its missing values, and write the report."""

from __future__ import annotations

from importlib import resources
from typing import Any

import click

from eigengap.cli import options

TABLE = "breast_cancer_wisconsin.csv"


@click.command("demo")
@options.output("breast_cancer_filled.csv", "the imputed table")
@click.option(
    "--report", type=click.Path(), default="report.html", show_default=True, metavar="FILE",
    help="Where to write the report.",
)  # fmt: skip
@click.option("--no-report", is_flag=True, help="Write no report.")
@click.option("--open", "opens", is_flag=True, help="Open the report in a browser.")
@options.forcing
@options.talking
def command(
    output: str, report: str, no_report: bool, opens: bool, force: bool, narrator: Any
) -> None:
    """Fit PPCA to a shipped table with 16 missing values, impute them, and write a report.

    The table is Breast Cancer Wisconsin (Original): 699 biopsies, 9 features scored 1 to 10.
    """
    from eigengap.cli.commands.report import show_page, write_report
    from eigengap.cli.files import check_apart, check_output, check_places
    from eigengap.cli.fitting import Wanted, fitted
    from eigengap.cli.kept_models import provenance_for
    from eigengap.cli.tables.imputing import write_imputed
    from eigengap.cli.tables.table import Choice, open_table

    check_places(narrator, output, force)
    if not no_report:
        check_output(report, force, "--report FILE")
        check_apart(output, report)
    with resources.as_file(resources.files("eigengap") / "data" / TABLE) as path:
        table = open_table(TABLE, str(path), Choice(ids=("id",), ignore=("diagnosis",)))
        model = fitted(Wanted("ppca", "auto"), table, narrator)
        write_imputed(model, table, output, force, narrator, prints_std=True)
        if not no_report:
            record = provenance_for(table, narrator.facts["rows"])
            count = write_report(
                model, table, report, narrator, color="diagnosis", provenance=record
            )
            narrator.wrote(report, count, after=": open it in a browser", report=report)
            if opens:
                show_page(report, narrator)
    narrator.say("Next", "the same on a table of your own: eigengap fit TABLE.csv")
