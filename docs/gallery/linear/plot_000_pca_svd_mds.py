r"""
PCA, SVD and scaling are one
============================

000 section 3: "PCA/SVD/MDS (all the same!)".

**Claim.** :math:`U^\top X = D V^\top`: projections by the eigenvectors of the covariance, by the
singular value decomposition, and by the eigenvectors of the Gram matrix are the same points.
"When to use which method? Use MDS, if d > n; use PCA, if n > d or use SVD anyways!"

**Result.** The same to rounding, up to the sign of each axis. Which is cheapest follows from the
shape, as the text says, and `PCA` chooses by itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import eigengap as eg

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)

by_pca = eg.PCA(2).fit_transform(X)
U, s, _ = eg.svd(X - X.mean(axis=0), k=2)
by_svd = U * s
distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
by_mds = eg.ClassicalMDS(2, metric="precomputed").fit_transform(distances)

fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharex=True, sharey=True)
for ax, name, Z in zip(
    axes, ("PCA", "SVD", "scaling of distances"), (by_pca, by_svd, by_mds), strict=True
):
    signs = np.sign((Z * by_pca).sum(axis=0))
    for k in range(3):
        ax.scatter(*(Z * signs)[wine.target == k].T, s=8, color=f"C{k}")
    ax.set(title=name, aspect="equal")
    apart = abs(Z * signs - by_pca).max()
    print(f"{name}: {apart:.1e} from PCA at most, scores up to {abs(by_pca).max():.1f}")
    assert apart < 1e-8

# %%
# Exercise 3.2, with points as columns: V = X'U D^-1.

points = (X - X.mean(axis=0)).T
U, D, Vt = np.linalg.svd(points, full_matrices=False)
assert np.allclose(Vt.T, points.T @ U / D)
