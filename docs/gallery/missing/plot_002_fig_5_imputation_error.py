r"""
Imputation error of each feature against filling with means
===========================================================

002 section 4.3, Figure 5: 50 values of each column dropped at random, reconstructed by PPCA and
by the mean.

**Claim.** "PPCA's RMSE are 13% to 54% lower than filled with Mean and 26% lower on average."

**Result.** With three components, as in section 4.1, and the projection of Eq. 45: 7 %
(``bare_nuclei``) to 50 % (cell shape) lower, 28 % on average over ten draws. Single draws have 25
to 31 % on average and 48 to 58 % at the best feature, so that the text's 26 % and 54 % are met;
its 13 % is not, for the worst feature has 2 to 10 %. The number of components is not given for
this experiment, and it decides: the average falls from 34 % with one to 7 % with eight, past 26 %
between three and four, because many components reproduce the means that were filled in. The
posterior mean, shrunk towards the mean of the table, depends on it less and has 13 to 49 %, 32 %
on average. Maximum likelihood of the seen cells needs no filling first and has 36 %;
`LowRankImputer`, which chooses model and rank by hidden cells, 38 %. (699 x 9 is the Original
table, not the Diagnostic one: :doc:`/errata`. Its own 16 gaps, all in ``bare_nuclei``, are filled
as well and not scored.)
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


def by_means(incomplete):
    return np.where(np.isnan(incomplete), np.nanmean(incomplete, axis=0), incomplete)


def as_in_002(incomplete, q=3, kind="optimal"):
    """Means first, then PPCA of the filled table; "optimal" is the projection of Eq. 45."""
    filled = by_means(incomplete)
    return eg.PPCA(q).fit(filled).reconstruct(filled, kind=kind)


ways = {
    "means": by_means,
    "002: means, PPCA, Eq. 45": as_in_002,
    "the same, posterior mean": lambda incomplete: as_in_002(incomplete, kind="posterior"),
    "PPCA of the seen cells, q = 2": lambda incomplete: (
        eg.PPCA(2, scale=True).fit(incomplete).impute(incomplete)
    ),
    "LowRankImputer": lambda incomplete: (
        eg.LowRankImputer(random_state=0).fit(incomplete).impute(incomplete)
    ),
}
draws = 10
squares = {name: np.zeros((draws, 9)) for name in ways}
for seed in range(draws):
    incomplete, hidden = drop(seed)
    for name, fill in ways.items():
        error = np.where(hidden, np.asarray(fill(incomplete)) - X, 0.0)
        squares[name][seed] = (error**2).sum(axis=0) / 50
rmse = {name: np.sqrt(value) for name, value in squares.items()}
lower = {name: 100 * (1 - value / rmse["means"]) for name, value in rmse.items() if name != "means"}

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4))
y = np.arange(9)
for k, (name, value) in enumerate(rmse.items()):
    left.barh(
        y + 0.17 * (k - 2),
        value.mean(axis=0),
        height=0.16,
        label=name,
        color="#8a9099" if k == 0 else f"C{k - 1}",
    )
left.set_yticks(y, [n.replace("_", " ") for n in names])
left.invert_yaxis()
left.set(xlabel="root mean squared error", title=f"50 hidden cells a column, {draws} draws")
for k, (name, value) in enumerate(lower.items()):
    right.plot(value.mean(axis=0), y + 0.15 * (k - 1.5), "o", color=f"C{k}", label=name)
    right.hlines(y + 0.15 * (k - 1.5), value.min(axis=0), value.max(axis=0), color=f"C{k}", lw=1)
right.axvline(26, color="#8a9099", ls=":")
right.axvspan(13, 54, color="#8a9099", alpha=0.15, lw=0)
right.set(
    yticks=[],
    xlabel="% below means; grey: the claim of 002",
    title="lines: least and most of the draws",
)
right.invert_yaxis()
fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)

# %%
# Per feature and on average, % below filling with means.

print(f"{'':25s}" + "".join(f"{n[:10]:>11s}" for n in names) + f"{'average':>11s}")
for name, value in lower.items():
    mean = value.mean(axis=0)
    print(f"{name[:24]:25s}" + "".join(f"{v:11.1f}" for v in mean) + f"{mean.mean():11.1f}")
    print(
        f"{'':25s} single draws: worst feature {value.min(axis=1).min():.0f} to "
        f"{value.min(axis=1).max():.0f} %, best {value.max(axis=1).min():.0f} to "
        f"{value.max(axis=1).max():.0f} %, average {value.mean(axis=1).min():.0f} to "
        f"{value.mean(axis=1).max():.0f} %"
    )

# %%
# 002's way by the number of components, and its posterior mean beside it.


def average_lower(q, kind):
    ratios = []
    for seed in range(draws):
        incomplete, hidden = drop(seed)
        error = np.where(hidden, as_in_002(incomplete, q, kind) - X, 0.0)
        ratios.append(np.sqrt((error**2).sum(axis=0) / 50) / rmse["means"][seed])
    return 100 * (1 - np.mean(ratios))


by_rank = {kind: [average_lower(q, kind) for q in range(1, 9)] for kind in ("optimal", "posterior")}
for kind, averages in by_rank.items():
    print(
        f"q = 1 to 8, {kind:9s}: average lower by " + ", ".join(f"{v:.0f}" for v in averages) + " %"
    )

projected, shrunk, observed, chosen = lower.values()
per_feature = projected.mean(axis=0)
assert names[per_feature.argmin()] == "bare_nuclei"
assert names[per_feature.argmax()] == "cell_shape_uniformity"
assert 5 < per_feature.min() < 10  # 002: 13 %
assert 48 < per_feature.max() < 54  # 002: 54 %
assert 26 < projected.mean() < 30  # 002: 26 %
assert projected.min(axis=1).max() < 13
assert projected.mean(axis=1).min() < 26 < projected.mean(axis=1).max()
assert projected.max(axis=1).min() < 54 < projected.max(axis=1).max()
assert by_rank["optimal"][2] > 26 > by_rank["optimal"][3]
assert (np.diff(by_rank["optimal"]) < -1).all()
assert by_rank["optimal"][0] > 32
assert by_rank["optimal"][7] < 9
assert np.ptp(by_rank["posterior"]) < 0.5 * np.ptp(by_rank["optimal"])
assert 11 < shrunk.mean(axis=0).min() < 15
assert 47 < shrunk.mean(axis=0).max() < 51
assert 30 < shrunk.mean() < 34
assert 34.5 < observed.mean() < 37.5
assert observed.mean() + 1 < chosen.mean() < 40
assert chosen.mean(axis=0).min() > 10
