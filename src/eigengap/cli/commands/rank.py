"""`eigengap rank`: how many components, by every criterion."""

from __future__ import annotations

from typing import Any

import click

from eigengap.cli import options


@click.command("rank")
@options.data
@options.columns
@click.option("--criterion", "criteria", multiple=True, metavar="NAME", help="Ask these alone.")
@click.option("--max-rank", type=click.IntRange(1), help="Most components to consider.")
@click.option(
    "--noise", type=click.Choice(["isotropic", "diagonal"]), default="isotropic",
    show_default=True, help="One noise for all columns (PPCA), or one for each (fa).",
)  # fmt: skip
@click.option("--scale/--no-scale", default=True, show_default=True, help="Standardise columns.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, help="Random seed.")
@click.option("--scheduler", metavar="ADDRESS", help="Work on the Dask cluster of this scheduler.")
@options.talking
def command(data: str, narrator: Any, **given: Any) -> None:
    """Say how many components DATA has, by every criterion that applies.

    The table of criteria goes to standard output, all else to standard error.

    \b
    eigengap rank table.csv --ignore id,diagnosis
    """
    import eigengap
    from eigengap.cli.errors import WrongUsage
    from eigengap.cli.fitting import report_read, source_of
    from eigengap.cli.narration import aligned
    from eigengap.cli.progress import waiting
    from eigengap.cli.tables.table import opened
    from eigengap.selection.rank.choice import NAMES

    unknown = [name for name in given["criteria"] if name not in NAMES]
    if unknown:
        raise WrongUsage(f"--criterion {unknown[0]}: the criteria are {', '.join(NAMES)}")
    with (
        opened(data, given) as table,
        narrator.hearing(),
        source_of(table, given["scheduler"]) as source,
    ):
        report_read(table, source, narrator)
        with waiting(narrator, "Asking every criterion"):
            found = eigengap.choose_rank(
                source, criteria=given["criteria"] or None, max_rank=given["max_rank"],
                noise=given["noise"], scale=given["scale"], random_state=given["seed"],
            )  # fmt: skip
    narrator.say("Chose", found.summary, n_components=found.n_components, why=found.summary)
    narrator.facts["criteria"] = dict(found.criteria)
    narrator.facts["not_applied"] = dict(found.not_applied)
    narrator.facts["curves"] = {name: dict(curve) for name, curve in found.curves.items()}
    if not narrator.as_json:
        rows = [(str(q), NAMES[name]) for name, q in found.criteria.items()]
        rows += [("-", f"{NAMES[name]} ({why})") for name, why in found.not_applied.items()]
        for line, _ in aligned(("k", "criterion"), rows):
            click.echo(line)
