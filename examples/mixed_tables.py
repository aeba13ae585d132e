"""Tables of every kind of column: penguins, mammals, Star Wars, a survey, incomes.

Draws the pictures of docs/mixed-data.md, and prints what is said there.

Run: python examples/mixed_tables.py [folder]
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import eigengap as eg
from eigengap.plots import overview, save

NAMES = ("name", "genus", "order", "homeworld", "skin_color", "hair_color", "eye_color")


def table(name: str) -> pd.DataFrame:
    """A table that is shipped, without columns that only name its rows."""
    found = pd.read_csv(files("eigengap") / "data" / f"{name}.csv")
    return found.drop(columns=[*NAMES, "year"], errors="ignore")


def survey(n: int = 400) -> pd.DataFrame:
    """Six questions on a scale from 1 to 5, of two topics; an answer, a region; 10 % missing."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 2))
    topics = {
        "service": [1.0, 0.2],
        "staff": [0.9, 0.1],
        "speed": [0.8, 0.0],
        "price": [0.1, 1.0],
        "value": [0.2, 0.9],
        "discount": [0.0, 0.7],
    }
    found = pd.DataFrame(
        {
            question: 1 + np.digitize(z @ w + 0.6 * rng.normal(size=n), [-1.4, -0.6, 0.2, 1.0])
            for question, w in topics.items()
        }
    )
    found["again"] = np.where(z @ [1, 1] + 0.5 * rng.normal(size=n) > 0.3, "yes", "no")
    appeal = z @ np.array([[0.0, 0.5, -0.5], [0.6, -0.3, -0.3]]) + rng.gumbel(size=(n, 3))
    found["region"] = np.array(["north", "south", "east"])[np.argmax(appeal, axis=1)]
    return found.mask(rng.random(found.shape) < 0.1)


def incomes(n: int = 500) -> pd.DataFrame:
    """Five log-normal columns behind one factor, 20 % missing: `incomes().attrs["truth"]`."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 1))
    names = ["wage", "rent", "savings", "debt", "assets"]
    truth = pd.DataFrame(np.exp(8 + z + 0.6 * rng.normal(size=(n, 5))), columns=names)
    found = truth.mask(rng.random(truth.shape) < 0.2)
    found.attrs["truth"] = truth
    return found


def main(folder: str | None = None) -> dict[str, float]:
    charts: dict[str, Any] = {}
    found: dict[str, float] = {}

    penguins = table("penguins")
    model = eg.PPCA(2, columns="auto").fit(penguins)
    print(eg.associations(model, penguins), "\n")
    charts["overview"] = overview(penguins)
    charts["penguins"] = model.plot.biplot(penguins, color="species", ellipses="rows")
    charts["contributions"] = model.plot.contributions(penguins)
    hidden = penguins["sex"].where(np.random.default_rng(0).random(len(penguins)) < 0.7)
    guessed = eg.LowRankImputer(columns="auto").fit(penguins.assign(sex=hidden))
    known = penguins["sex"].notna() & hidden.isna()
    imputed = guessed.impute(penguins.assign(sex=hidden))["sex"]
    found["sex"] = float((imputed == penguins["sex"])[known].mean())
    charts["sex"] = guessed.plot.imputation(penguins.assign(sex=hidden), column="sex")
    print(f"sex of held-out penguins: {found['sex']:.0%} right")

    mammals = pd.read_csv(files("eigengap") / "data" / "msleep.csv")
    elephant = int(np.flatnonzero(mammals["name"] == "African elephant")[0])
    mammals = table("msleep")
    imputer = eg.LowRankImputer(columns="auto").fit(mammals)
    low, high = (ends["sleep_rem"][elephant] for ends in imputer.intervals(mammals))
    found["elephant"] = float(imputer.impute(mammals)["sleep_rem"][elephant])
    charts["mammals"] = imputer.plot.imputation(mammals)
    print(f"REM sleep of the elephant: {found['elephant']:.1f} h ({low:.1f} to {high:.1f})")

    people = table("starwars").drop(columns=["species", "gender"])
    charts["starwars"] = eg.PPCA(2, columns="auto").fit(people).plot.biplot(people, color="sex")

    asked = survey()
    answers = eg.PPCA(2, columns="auto").fit(asked)
    charts["survey"] = answers.plot.biplot(asked, color="again", ellipses="barycentre")
    print(eg.associations(answers, asked), "\n")

    money = incomes()
    truth, missing = money.attrs["truth"], money.isna()
    of_kinds = eg.LowRankImputer(columns="auto").fit(money)
    low, high = of_kinds.intervals(money)
    inside = ((low <= truth) & (truth <= high)).to_numpy()[missing.to_numpy()]
    found["covered"] = float(inside.mean())
    found["least"] = float(of_kinds.impute(money).to_numpy().min())
    gaussian = eg.LowRankImputer(columns="numeric").fit(money)
    found["negative"] = float((np.asarray(gaussian.impute(money)) < 0).sum())
    charts["incomes"] = of_kinds.plot.imputation(money, column="assets")
    print(
        f"log-normal columns: 95 % intervals cover {found['covered']:.0%}, the least imputed value "
        f"is {found['least']:.0f}; as Gaussian numbers {found['negative']:.0f} were negative"
    )

    if folder is not None:
        for name, chart in charts.items():
            save(chart, Path(folder) / f"mixed-{name}.png", scale=1.5)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:2])
