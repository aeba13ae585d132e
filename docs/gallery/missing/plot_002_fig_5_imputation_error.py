r"""
Imputation error of each feature against filling with means
===========================================================

002 section 4.3, Figure 5: 50 values of each column dropped at random, reconstructed by PPCA and
by the mean.

**Claim.** "PPCA's RMSE are 13% to 54% lower than filled with Mean and 26% lower on average."

**Result.** The range is met, from 13 % (``mitoses``, which hardly goes along with the others) to
about a half (cell size and shape). The average by the text's own way, which fills with means
first and reconstructs from a PPCA of that, depends on the number of components, which is not
given for this experiment: 32 % with three, as in section 4.1, and the 26 % of the text with six
or seven, because many components reproduce the means that were filled in. More is to be had:
maximum likelihood of the seen cells needs no filling first, and `LowRankImputer` chooses model
and rank by hidden cells. (699 x 9 is the Original table, not the Diagnostic one: :doc:`/errata`.)
"""

from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

table = np.genfromtxt(
    files("eigengap") / "data" / "breast_cancer_wisconsin.csv", delimiter=",", names=True
)
names = [n for n in table.dtype.names if n not in ("id", "diagnosis")]
X = np.stack([table[n] for n in names], axis=1)
known = ~np.isnan(X)


def drop(seed):
    rng = np.random.default_rng(seed)
    hidden = np.zeros_like(known)
    for j in range(9):
        hidden[rng.choice(np.flatnonzero(known[:, j]), 50, replace=False), j] = True
    return np.where(hidden, np.nan, X), hidden


def by_means(gappy):
    return np.where(np.isnan(gappy), np.nanmean(gappy, axis=0), gappy)


def as_in_002(gappy, q=3):  # means first, then PPCA of the filled table, q = 3 as in section 4.1
    filled = by_means(gappy)
    return eg.PPCA(q).fit(filled).reconstruct(filled)


ways = {
    "means": by_means,
    "002: means, then PPCA": as_in_002,
    "PPCA of the seen cells, q = 2": lambda gappy: eg.PPCA(2, scale=True).fit(gappy).impute(gappy),
    "LowRankImputer": lambda gappy: eg.LowRankImputer(random_state=0).fit(gappy).impute(gappy),
}
draws = 10
squares = {name: np.zeros((draws, 9)) for name in ways}
for seed in range(draws):
    gappy, hidden = drop(seed)
    for name, fill in ways.items():
        error = np.where(hidden, np.asarray(fill(gappy)) - X, 0.0)
        squares[name][seed] = (error**2).sum(axis=0) / 50
rmse = {name: np.sqrt(value) for name, value in squares.items()}
lower = {name: 100 * (1 - value / rmse["means"]) for name, value in rmse.items() if name != "means"}

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
y = np.arange(9)
for k, (name, value) in enumerate(rmse.items()):
    left.barh(
        y + 0.2 * k - 0.3,
        value.mean(axis=0),
        height=0.19,
        label=name,
        color="#8a9099" if k == 0 else f"C{k - 1}",
    )
left.set_yticks(y, [n.replace("_", " ") for n in names])
left.invert_yaxis()
left.set(xlabel="root mean squared error", title=f"50 hidden cells a column, {draws} draws")
for k, (name, value) in enumerate(lower.items()):
    right.plot(value.mean(axis=0), y + 0.15 * (k - 1), "o", color=f"C{k}", label=name)
    right.hlines(y + 0.15 * (k - 1), value.min(axis=0), value.max(axis=0), color=f"C{k}", lw=1)
right.axvline(26, color="#8a9099", ls=":")
right.axvspan(13, 54, color="#8a9099", alpha=0.15, lw=0)
right.set(
    yticks=[],
    xlabel="% below means; grey: the claim of 002",
    title="lines: least and most of the draws",
)
right.invert_yaxis()
fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

# %%
# Per feature and on average, % below filling with means.

print(f"{'':24s}" + "".join(f"{n[:10]:>11s}" for n in names) + f"{'average':>11s}")
for name, value in lower.items():
    mean = value.mean(axis=0)
    print(f"{name[:23]:24s}" + "".join(f"{v:11.1f}" for v in mean) + f"{mean.mean():11.1f}")
average = {name: value.mean() for name, value in lower.items()}
by_rank = {}
for q in range(1, 9):
    ratios = []
    for seed in range(draws):
        gappy, hidden = drop(seed)
        error = np.where(hidden, as_in_002(gappy, q) - X, 0.0)
        ratios.append(np.sqrt((error**2).sum(axis=0) / 50) / rmse["means"][seed])
    by_rank[q] = 100 * (1 - np.mean(ratios))
print(
    "002's way on average, by components: "
    + ", ".join(f"{q}: {v:.0f} %" for q, v in by_rank.items())
)
assert by_rank[7] < 26.5 < by_rank[5]
assert 10 < lower["002: means, then PPCA"].mean(axis=0).min() < 16
assert 28 < average["002: means, then PPCA"] < 36
assert average["LowRankImputer"] > 30
assert average["PPCA of the seen cells, q = 2"] > average["002: means, then PPCA"]
assert lower["LowRankImputer"].mean(axis=0).min() > 0
