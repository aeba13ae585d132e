"""How many components: eigenvalues, what the criteria choose, and the parts of a mixture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.spectrum import Eigenvalues, Gap, eigenvalues, largest_ratio
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting import specs
from eigengap.reporting.specs import Figure, Grid, Section
from eigengap.reporting.words import count, listing, number, percent, whole
from eigengap.runtime.warnings import silence
from eigengap.selection.rank.choice import NAMES, RankChoice
from eigengap.selection.rank.choose import choose_rank

CHEAP = (
    "deflated_parallel_analysis",
    "parallel_analysis",
    "eigengap",
    "tolerance",
    "minka",
    "gavish_donoho",
    "bartlett",
)
BY_FITS = ("bic",)  # one fit for each number of components where cells are missing
SMALL = 20_000  # cells up to which fits are made for it
MOST_MINKA = 100  # columns; its cost grows with their cube
MOST_SHOWN = 30  # eigenvalues
TITLE = "How many components"


def rank_choice(subject: Subject, look: Look, seed: int) -> RankChoice | None:
    """What the criteria choose for the rows that are shown; None where that means nothing."""
    if not subject.entry.noise or look.n_columns < 2 or subject.coded is not None:
        return None
    criteria = tuple(name for name in CHEAP if name != "minka" or look.n_columns <= MOST_MINKA)
    if not look.missing.cells or look.X.size <= SMALL:
        criteria = (*criteria, *BY_FITS)
    noise: Any = subject.entry.noise
    scale = bool(getattr(subject.bare, "scale", False))
    observed = ~np.isnan(look.X)
    rows = look.X[observed.any(axis=1)][:, observed.any(axis=0)]
    try:
        with silence():
            return choose_rank(rows, criteria=criteria, noise=noise, scale=scale, random_state=seed)
    except ValueError:  # constant, or too few rows
        return None


def section(subject: Subject, look: Look, seed: int) -> Section:
    """The section, by what the estimator is."""
    if subject.mixture is not None:
        return _of_mixture(subject, look)
    try:
        found = eigenvalues(subject.bare)
    except AttributeError:
        q = subject.n_components
        given = "" if q is None else f" It has {count(q, 'coordinate')}, as requested."
        why = f"{subject.kind} has no eigenvalues to choose the rank by.{given}"
        return Section("components", TITLE, left_out=why)
    if len(found.values) == 0:
        return Section("components", TITLE, left_out="The model has no components.")
    choice = rank_choice(subject, look, seed)
    gap = largest_gap(found, None if look.is_sampled else choice)  # the fit's are of all rows
    if subject.coded is not None:
        found = replace(found, what="explained variance of the variables behind the columns")
    words = [_on_share(found), *_on_choice(subject, choice, look)]
    if gap is not None:
        words.append(f"The largest eigengap is {gap}.")
    return Section(
        "components",
        TITLE,
        words=tuple(word for word in words if word),
        figures=(_scree(found, gap),),
        beside=() if choice is None else (_criteria(choice, look),),
        verdict=_verdict(subject, found, choice, look),
    )


def largest_gap(found: Eigenvalues, choice: RankChoice | None) -> Gap | None:
    """As the criterion of that name has it, else between eigenvalues that the fit resolves."""
    if choice is None:
        lam = found.values[found.values > 0]
        return found.gap if found.n_rest == 0 else largest_ratio(lam, len(lam))
    k = choice.criteria.get("eigengap")
    return None if k is None else Gap(k, float(choice.curves["eigengap"][k]), is_ratio=True)


def _whole(found: Eigenvalues) -> str:
    """What the shares are of."""
    if "behind" in found.what:
        return "the variance of the Gaussian variables behind the columns"
    return "the variance" if "variance" in found.what else "the sum of the eigenvalues"


def _on_share(found: Eigenvalues) -> str:
    share, q = found.share, found.kept
    if share is None or not len(share):
        return f"The model has {count(q, 'component')}."
    total, of = float(share[:q].sum()), _whole(found)
    words = f"{count(q, 'component')} explain{'s' if q == 1 else ''} {percent(total)} of {of}"
    if q > 1:
        words += f", the first alone {percent(float(share[0]))}"
    return words + "."


def _on_choice(subject: Subject, choice: RankChoice | None, look: Look) -> list[str]:
    own = getattr(subject.bare, "rank_choice_", None)
    words = []
    if own is not None:
        words.append(f"The number was chosen by the fit: {own.summary}.")
    if choice is None:
        return words
    of = "the rows that are shown" if look.is_sampled else "this table"
    q = subject.n_components or 0
    agree = [NAMES[name] for name, picked in choice.criteria.items() if picked == q]
    said = f"None of the criteria picks {q} for {of}"
    if agree:
        said = f"{listing(agree, 8)} pick{'s' if len(agree) == 1 else ''} {q} for {of}"
    lower, upper = min(choice.criteria.values()), max(choice.criteria.values())
    ranging = "" if lower == upper else f"; the criteria range from {lower} to {upper}"
    words.append(said[0].upper() + said[1:] + ranging + ".")
    return words


def _verdict(subject: Subject, found: Eigenvalues, choice: RankChoice | None, look: Look) -> str:
    """How many criteria pick the number; where rows are sampled, the fit's own choice comes first.

    What criteria choose for a sample of the rows is not what they choose for the table.
    """
    words = _on_share(found)
    own = getattr(subject.bare, "rank_choice_", None)
    is_own = own is not None and own.n_components == found.kept
    picks = () if choice is None else tuple(choice.criteria.values())
    agree = sum(picked == found.kept for picked in picks)
    if is_own and (look.is_sampled or not agree):
        return f"{words[:-1]}; the fit chose that number from all of its rows."
    if not picks:
        return words
    of = f", applied to the {count(len(look.at), 'row')} shown," if look.is_sampled else ""
    if not agree:
        reach = f"they range from {min(picks)} to {max(picks)}"
        none = f"none of the {whole(len(picks))} criteria{of} picks that number: {reach}"
        return f"{words[:-1]}; {none}."
    verb = "picks" if agree == 1 else "pick"
    return f"{words[:-1]}; {whole(agree)} of {whole(len(picks))} criteria{of} {verb} that number."


def _scree(found: Eigenvalues, largest: Gap | None) -> Figure:
    k = min(len(found.values), max(MOST_SHOWN, found.kept))
    of = _whole(found)
    values, title, form, first = found.values[:k], found.what, ".4g", ""
    axis: specs.Spec = {}
    if found.share is None:
        first = f"The first eigenvalue is {number(float(found.values[0]))}"
    else:
        values, title, form = found.share[:k], f"share of {of}", ".1%"
        axis = {"axis": {"format": "%"}}
        first = f"The first component explains {percent(float(found.share[0]))} of {of}"
    data = specs.records(
        k=np.arange(1, k + 1),
        value=values,
        total=np.cumsum(values),
        kept=["kept" if i < found.kept else "left out" for i in range(k)],
    )
    layers = [
        specs.layer(
            "bar",
            {"width": {"band": 0.75}, "cornerRadiusEnd": 2},
            x=specs.axis("k", "component", "ordinal", axis={"labelAngle": 0}),
            y=specs.axis("value", title, **axis),
            color=specs.either("kept", None, "kept", "left out", other=specs.RULE),
            tooltip=specs.tips(k="component", value=f"{title}|{form}", total=f"up to here|{form}"),
        )
    ]
    note = ""
    if found.rest is not None and found.total:
        level = specs.rounded(found.rest / (found.total if found.share is not None else 1.0))
        layers.append(specs.dashed(specs.OTHER, [{"level": level}], y=specs.axis("level", title)))
        note = (
            f"Dashed: the mean of the {count(found.n_rest, 'eigenvalue')} that the model does not "
            "resolve, its noise."
        )
    elif k < len(found.values):
        note = f"The first {k} of {whole(len(found.values))} eigenvalues."
    gap = "" if largest is None else f" The largest eigengap is {largest}."
    return Figure("scree", "Eigenvalues", f"{first}.{gap}", specs.chart(data, *layers), note)


def _criteria(choice: RankChoice, look: Look) -> Grid:
    of = f"Applied to the {count(len(look.at), 'row')} shown. " if look.is_sampled else ""
    rows = [(NAMES[name], whole(q)) for name, q in choice.criteria.items()]
    rows += [(f"{NAMES[name]} ({why})", "–") for name, why in choice.not_applied.items()]
    return Grid(
        "What each criterion picks",
        ("criterion", "components"),
        tuple(rows),
        (False, True),
        note=of
        + "What they are: docs/rank.md of eigengap. The default is deflated parallel analysis.",
    )


def _of_mixture(subject: Subject, look: Look) -> Section:
    model = subject.mixture
    assert model is not None
    weights = model.weights
    resp = model.responsibilities(look.X)
    part = np.argmax(resp, axis=1)
    rows = tuple(
        (
            f"component {k + 1}",
            percent(float(weights[k])),
            whole(int(np.sum(part == k))),
            whole(int(model.ranks[k])),
        )
        for k in range(model.K)
    )
    sure = float(np.mean(np.max(resp, axis=1) > 0.9))
    apart = "are well apart" if sure > 0.9 else "overlap, and sharp labels would hide it"
    words = (
        f"The mixture has {count(model.K, 'component')}, the largest with "
        f"{percent(float(weights.max()))} of the rows.",
        f"{percent(sure)} of the rows belong to one component with a probability above 90 %: they "
        f"{apart}.",
    )
    header = ("", "weight", "rows shown", "latent dimensions")
    grid = Grid("Components of the mixture", header, rows, (False, True, True, True))
    title = "The components of the mixture"
    return Section("components", title, words=words, grids=(grid,), verdict=" ".join(words))
