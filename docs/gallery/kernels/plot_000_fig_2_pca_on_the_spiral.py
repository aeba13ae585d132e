r"""
PCA on the spiral
=================

000 section 4, Figure 2.

**Claim.** (By picture.) On a spiral PCA, being linear, lays the turns on top of each other:
non-linear methods are needed.

**Result.** So it is: the first component says little of where along the spiral a point lies.
Isomap unrolls it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

import eigengap as eg

rng = np.random.default_rng(0)
t = np.sqrt(np.linspace(1.5**2, 4.5**2, 400)) * np.pi  # even along the curve
along = 0.5 * (t * np.sqrt(1 + t**2) + np.arcsinh(t))  # arc length
X = np.c_[t * np.cos(t), t * np.sin(t)] + 0.15 * rng.normal(size=(400, 2))

pca = eg.PCA(1).fit(X)
line = pca.inverse_transform(pca.transform(X))
unrolled = eg.Isomap(1, n_neighbors=8).fit_transform(X)[:, 0]

fig, (a, b, c) = plt.subplots(1, 3, figsize=(9, 3))
a.scatter(*X.T, c=along, s=8)
a.axline(pca.mean_, pca.mean_ + pca.components_[0], color="C1", lw=1)
a.set(aspect="equal", title="the spiral and its first axis")
b.scatter(along, pca.transform(X)[:, 0], c=along, s=8)
b.set(xlabel="arc length", ylabel="score", title="PCA: turns fall together")
c.scatter(along, unrolled, c=along, s=8)
c.set(xlabel="arc length", ylabel="coordinate", title="Isomap: unrolled")

by_pca = abs(spearmanr(along, pca.transform(X)[:, 0]).statistic)
by_isomap = abs(spearmanr(along, unrolled).statistic)
print(f"rank correlation with the arc length: PCA {by_pca:.2f}, Isomap {by_isomap:.4f}")
assert by_pca < 0.6
assert by_isomap > 0.999
