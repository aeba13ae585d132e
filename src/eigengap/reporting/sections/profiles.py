"""How the components of a mixture differ: their means, column by column."""

from __future__ import annotations

import numpy as np

from eigengap.linalg import Array
from eigengap.reporting.numbers.look import Look
from eigengap.reporting.numbers.subject import Subject
from eigengap.reporting.page import specs
from eigengap.reporting.sections.section import Figure, Section
from eigengap.reporting.words import fixed, listing

MOST_LINES = 30


def profiles(subject: Subject, look: Look) -> Array:
    """(K, d) means of the components, in standard deviations of the columns from their means."""
    model = subject.mixture
    assert model is not None
    sd = np.where(look.sd > 0, look.sd, 1.0)
    return np.array([(part.mu - look.mean) / sd for part in model.models])


def section(subject: Subject, look: Look, names: tuple[str, ...]) -> Section:
    """In which columns the components differ."""
    means = profiles(subject, look)
    spread = means.max(axis=0) - means.min(axis=0)
    order = np.argsort(-spread, kind="stable")[:MOST_LINES]
    largest = listing([f"{names[j]} ({fixed(float(spread[j]), 1)})" for j in order[:4]], 4)
    words = (
        f"The components differ most in {largest}: standard deviations between the farthest means.",
    )
    k, j = np.meshgrid(np.arange(len(means)), order, indexing="ij")
    data = specs.records(
        column=[names[c] for c in j.ravel()],
        part=[f"component {c + 1}" for c in k.ravel()],
        mean=means[k.ravel(), j.ravel()],
    )
    spec = specs.chart(
        data,
        [
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.9},
                "encoding": {
                    "y": specs.axis("column", "", "nominal", sort=None),
                    "x": specs.axis(
                        "mean",
                        "mean, in standard deviations of the column",
                        axis={"tickCount": 7},
                    ),
                    "color": {
                        "field": "part",
                        "type": "nominal",
                        "title": None,
                        "scale": {"range": [f"var(--k{c + 1})" for c in range(8)]},
                    },
                    "tooltip": [
                        {"field": "column", "title": "column"},
                        {"field": "part", "title": "of"},
                        {"field": "mean", "title": "mean", "format": ".2f"},
                    ],
                },
            }
        ],
        height=max(120, 18 * len(order) + 20),
    )
    figure = Figure(
        "profiles",
        "Means of the components",
        words[0],
        spec,
        "" if len(names) <= MOST_LINES else f"The {MOST_LINES} columns that differ most.",
        wide=True,
    )
    return Section(
        "variables", "How the components differ", words=words, figures=(figure,), verdict=words[0]
    )
