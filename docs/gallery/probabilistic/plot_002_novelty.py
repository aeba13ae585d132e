r"""
Degree of novelty
=================

002 section 1.

**Claim.** "The value of the probability density function could be used as a measure of the
'degree of novelty' of a new data point."

**Result.** It can where rows are complete: digits that the model never saw have a lower density.
Where rows have gaps it cannot be compared between them, because a density depends on how many
cells were seen; p-values can, and `NoveltyDetector` gives those, and says which cell is odd.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import eigengap as eg

digits = load_digits()
keep = digits.data[digits.target == 3].std(axis=0) > 1.5  # pixels that vary
X = digits.data[:, keep]
threes = X[digits.target == 3]
train, familiar = threes[:120], threes[120:]
strange = X[np.isin(digits.target, (0, 4, 7))][:150]
new = np.r_[familiar, strange]
odd = np.r_[np.zeros(len(familiar)), np.ones(len(strange))]

detector = eg.NoveltyDetector(eg.PPCA(10)).fit(train)
density = eg.PPCA(10).fit(train)

rng = np.random.default_rng(0)
incomplete = new.copy()
for row in incomplete:  # every row has lost another share of its pixels
    row[rng.random(row.size) < rng.uniform(0, 0.8)] = np.nan

auc = {
    "complete, density": roc_auc_score(odd, -density.score_samples(new)),
    "complete, p-value": roc_auc_score(odd, -detector.score_samples(new)),
    "with gaps, density": roc_auc_score(odd, -density.score_samples(incomplete)),
    "with gaps, p-value": roc_auc_score(odd, -detector.score_samples(incomplete)),
}
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2))
observed = (~np.isnan(incomplete)).sum(axis=1)
for k, name in enumerate(("threes", "0, 4 and 7")):
    axes[0].hist(
        density.score_samples(new[odd == k]), bins=25, color=f"C{k}", alpha=0.75, label=name
    )
    axes[1].scatter(
        observed[odd == k], density.score_samples(incomplete[odd == k]), s=8, color=f"C{k}"
    )
axes[0].set(xlabel="log-density", ylabel="rows", title="complete rows")
axes[1].set(xlabel="pixels seen", ylabel="log-density", title="0 to 80 % of a row missing")
axes[1].legend(*axes[0].get_legend_handles_labels(), loc="lower left")

for name, area in auc.items():
    print(f"{name:20s} area under the curve {area:.3f}")
assert auc["complete, density"] > 0.95
assert auc["with gaps, p-value"] > auc["with gaps, density"] + 0.05
