"""At a glance: what was fitted to what, the verdict in words, and cautions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from eigengap.plots.numbers.outliers import ALPHA, RowDistances
from eigengap.plots.numbers.rows import Look
from eigengap.plots.numbers.spectrum import eigenvalues
from eigengap.plots.numbers.subject import Subject
from eigengap.reporting.specs import Fact, Section
from eigengap.reporting.words import count, listing, number, percent, whole
from eigengap.runtime.warnings import CapturedWarning

FEW_ROWS = 30
FEW_PER_COMPONENT = 5  # rows for each component
MOSTLY_MISSING = 0.5
FAR_APART = 10.0  # ratio of standard deviations
OWN_UNITS = {"seuclidean", "mahalanobis"}  # distances in units that the rows decide


def section(
    subject: Subject,
    look: Look,
    names: tuple[str, ...],
    distances: RowDistances | str,
    others: Sequence[Section],
    captured: Sequence[CapturedWarning],
) -> Section:
    """From the verdicts of the other sections."""
    words = [subject.wrapped] if subject.wrapped else []
    words += [part.verdict for part in others if part.verdict]
    return Section(
        "glance",
        "At a glance",
        words=tuple(dict.fromkeys(words)),
        facts=_facts(subject, look, distances),
        warnings=tuple(_warnings(subject, look, names, captured)),
    )


def _facts(subject: Subject, look: Look, distances: RowDistances | str) -> tuple[Fact, ...]:
    shown = f"{whole(len(look.at))} of them shown" if look.is_sampled else ""
    facts = [Fact("rows", whole(look.n_rows), shown)]
    if look.n_columns:
        facts.append(Fact("columns", whole(look.n_columns)))
        note = f"{whole(look.missing.cells)} cells" if look.missing.cells else "complete"
        facts.append(Fact("missing", percent(look.missing.share), note))
    facts.append(_components(subject))
    if not isinstance(distances, str):
        p = distances.p[np.isfinite(distances.p)]
        low = int(np.sum(p < ALPHA))
        facts.append(Fact("outliers", whole(low), f"{percent(low / max(len(p), 1))} with p < 0.05"))
    return tuple(facts)


def _components(subject: Subject) -> Fact:
    if subject.mixture is not None:
        ranks = list(map(str, subject.mixture.ranks))  # in the order of the components
        latent = listing(ranks[:1] if len(set(ranks)) == 1 else ranks)
        return Fact("mixture components", whole(subject.mixture.K), f"{latent} latent")
    q, share = subject.n_components, None
    with suppress(AttributeError):
        share = eigenvalues(subject.bare).share
    note = ""
    if share is not None and q is not None:
        behind = "" if subject.coded is None else " behind the columns"
        note = f"{percent(float(share[:q].sum()))} of the variance{behind}"
    return Fact("components", "–" if q is None else whole(q), note)


def _warnings(
    subject: Subject, look: Look, names: tuple[str, ...], captured: Sequence[CapturedWarning]
) -> list[str]:
    found = []
    if subject.converged is False:
        found.append(
            "The fit did not converge: every number here may still move. Raise max_iter, or tol."
        )
    if look.is_sampled:
        found.append(
            f"Charts and tables of rows show {whole(len(look.at))} of {whole(look.n_rows)} rows, "
            "drawn at random. Counts of missing values, and the model, are of all rows; outliers "
            "and held-out values are of the rows shown."
        )
    q = subject.n_components or 0
    if look.n_rows < FEW_ROWS:
        found.append(
            f"With {count(look.n_rows, 'row')} every number here is rough: another sample of rows "
            "could look quite different."
        )
    elif q and look.n_rows < FEW_PER_COMPONENT * q:
        found.append(
            f"There are fewer than {FEW_PER_COMPONENT} rows for the component; it may not come "
            "back in other rows."
            if q == 1
            else f"There are fewer than {FEW_PER_COMPONENT} rows for each of the {q} components; "
            "the later ones will not come back in other rows."
        )
    mostly = look.missing.per_column > MOSTLY_MISSING * look.n_rows
    empty = [names[j] for j in np.flatnonzero(mostly)]
    if empty:
        found.append(
            f"More than half of the values of {listing(empty)} are missing; imputations there rest "
            "on few rows."
        )
    found += _on_units(subject, look, names)
    found += [one.message[0].upper() + one.message[1:] + "." for one in captured]
    return list(dict.fromkeys(found))


def _on_units(subject: Subject, look: Look, names: tuple[str, ...]) -> list[str]:
    """Columns of very different size, which an unscaled fit takes for importance."""
    if not _depends_on_units(subject) or look.n_columns < 2 or subject.coded is not None:
        return []
    sd = look.sd[look.sd > 0]
    if len(sd) < 2 or sd.max() / sd.min() < FAR_APART:
        return []
    large, small = int(np.argmax(look.sd)), int(np.argmin(np.where(look.sd > 0, look.sd, np.inf)))
    advice = " Where units differ, scale=True gives every column the same weight."
    if not hasattr(subject.bare, "scale"):
        advice = ""
    return [
        f"Columns differ much in size ({names[large]} has a standard deviation of "
        f"{number(float(look.sd[large]))}, {names[small]} of {number(float(look.sd[small]))}), and "
        f"the large ones decide the components.{advice}"
    ]


def _depends_on_units(subject: Subject) -> bool:
    """Whether the fit would differ, and not only in its units, if a column had another unit."""
    model, depends = subject.bare, subject.entry.depends_on_units
    has_own_units = (
        getattr(model, "scale", False)
        or getattr(model, "noise", "") == "diagonal"
        or getattr(model, "metric", "") in OWN_UNITS
        or str(getattr(model, "method", "")).endswith("-cor")  # whitening of normalised columns
    )
    is_truncated = (subject.n_components or 0) < subject.n_features
    return (depends == "always" or (depends == "truncated" and is_truncated)) and not has_own_units
