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
def command(output: str, report: str, no_report: bool, force: bool, **given: Any) -> None:
    """Fit PPCA to a shipped table with 16 missing values, impute them, and write a report.

    The table is Breast Cancer Wisconsin (Original): 699 biopsies, 9 features scored 1 to 10.
    """
    from eigengap.cli.files import check_apart, check_output
    from eigengap.cli.fitting import Wanted, fitted
    from eigengap.cli.narration import Narrator
    from eigengap.cli.tables.imputing import write_imputed
    from eigengap.cli.tables.outputs import form_of
    from eigengap.cli.tables.table import Choice, open_table

    check_output(output, force)
    form_of(output)
    if not no_report:
        check_output(report, force, "--report FILE")
        check_apart(output, report)
    if output == "-" and given["as_json"]:
        raise click.UsageError("--json wants standard output: name a file with -o")
    narrator = Narrator(given["quiet"], given["as_json"], given["verbose"])
    with resources.as_file(resources.files("eigengap") / "data" / TABLE) as path:
        choice = Choice(ids=("id",), ignore=("diagnosis",))
        table = open_table(TABLE, str(path), choice)
        model = fitted(Wanted("ppca", "auto"), table, narrator)
        write_imputed(model, table, output, force, narrator, prints_std=True)
        if not no_report:
            _report(model, table, report, given["opens"], narrator)
    narrator.say("Next", "the same on a table of your own: eigengap fit TABLE.csv")
    narrator.finish()


def _report(model: Any, table: Any, report: str, opens: bool, narrator: Any) -> None:
    from eigengap.cli.browser import show_page
    from eigengap.cli.commands.report import write_report
    from eigengap.cli.errors import shown
    from eigengap.cli.kept_models import provenance_for
    from eigengap.cli.narration import size

    record = provenance_for(table, narrator.facts["rows"])
    count = write_report(model, table, report, narrator, color="diagnosis", provenance=record)
    narrator.say("Wrote", f"{shown(report)} ({size(count)}): open it in a browser", report=report)
    if opens:
        show_page(report, narrator)
