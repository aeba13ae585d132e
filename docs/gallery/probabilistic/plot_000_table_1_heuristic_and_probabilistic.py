r"""
Heuristic and probabilistic models
==================================

000 section 1, Table 1: k-means and PCA beside Gaussian mixtures and probabilistic PCA.

**Claim.** Clustering and dimensionality reduction each have "heuristic (non-probabilistic)
methods and probabilistic methods".

**Result.** The table, drawn: the heuristic gives a label or a point on a line, its probabilistic
counterpart a density, and with it how sure it is. Of the other three of the table kernel PCA and
the GPLVM are in the galleries on kernels and manifolds; kernel k-means is not in eigengap. That
"GPLVM is a generalization of PPCA" (section 5) is checked at the end: with a linear kernel its
latents are those of PPCA, up to the size of each axis.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import eigengap as eg

rng = np.random.default_rng(3)
groups = np.r_[
    rng.normal(size=(150, 2)) @ [[1.6, 1.0], [0, 0.5]],
    rng.normal(size=(150, 2)) * [0.5, 1.0] + [4.2, 0.5],
]
strip = rng.normal(size=(200, 1)) * [2.0, 1.2] + 0.55 * rng.normal(size=(200, 2))
grid = np.stack(np.meshgrid(np.linspace(-8.5, 8.5, 170), np.linspace(-6, 6, 120)), axis=-1)


def shade(ax, density):
    levels = density(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.contour(
        *np.moveaxis(grid, -1, 0),
        levels,
        levels=levels.max() - np.array([6.0, 4.0, 2.0, 1.0]),
        colors="#8a9099",
        linewidths=0.9,
        linestyles="solid",
    )


fig, axes = plt.subplots(2, 2, figsize=(8, 5.6), sharex=True, sharey=True)
(kmeans_ax, pca_ax), (mixture_ax, ppca_ax) = axes
labels = KMeans(2, n_init=5, random_state=0).fit_predict(groups)
mixture = eg.MixturePPCA(2, 1, random_state=0).fit(groups)
sure = mixture.predict_proba(groups).max(axis=1)
kmeans_ax.scatter(*groups.T, s=9, c=[f"C{k}" for k in labels])
kmeans_ax.set(title="k-means: a label", ylabel="heuristic")
shade(mixture_ax, mixture.score_samples)
points = mixture_ax.scatter(*groups.T, s=9, c=sure, vmin=0.5, vmax=1)
mixture_ax.set(title="mixture: a probability", ylabel="probabilistic")
fig.colorbar(points, ax=mixture_ax, label="probability of its component", shrink=0.8)
pca = eg.PCA(1).fit(strip)
flat = pca.inverse_transform(pca.transform(strip))
pca_ax.scatter(*strip.T, s=9, color="#8a9099")
pca_ax.scatter(*flat.T, s=9, color="C1")
pca_ax.set_title("PCA: points on a line")
ppca = eg.PPCA(1).fit(strip)
shade(ppca_ax, ppca.score_samples)
ppca_ax.scatter(*strip.T, s=9, color="C1")
ppca_ax.set_title("PPCA: a density")
for ax in axes.ravel():
    ax.set(xticks=[], yticks=[], aspect="equal")

# %%
# A density integrates to one, and its line is that of PCA.

cell = np.prod([np.diff(grid[0, :2, 0])[0], np.diff(grid[:2, 0, 1])[0]])
mass = {
    name: np.exp(m.score_samples(grid.reshape(-1, 2))).sum() * cell
    for name, m in (("mixture", mixture), ("PPCA", ppca))
}
for name, value in mass.items():
    print(f"{name}: {value:.3f} of the mass lies in the frame")
assert all(0.97 < value < 1.001 for value in mass.values())
assert np.allclose(abs(pca.components_), abs(ppca.components_))

# %%
# The GPLVM with a linear kernel against PPCA.

wide = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(200, 5))
latents = eg.GPLVM(2, kernel="linear").fit_transform(wide)
means = eg.PPCA(2).fit_transform(wide)
agree = abs(np.corrcoef(latents.T, means.T)[:2, 2:])
print(f"correlation of the latents of the GPLVM and of PPCA: {agree[0, 0]:.6f}, {agree[1, 1]:.6f}")
assert np.allclose(agree, np.eye(2), atol=1e-8)
