r"""
PCA, SVD and scaling are one
============================

000 sections 1, "PCA/SVD/MDS (all the same!)", and 3.

**Claim.** :math:`U^\top X = D V^\top`: projections by the eigenvectors of the covariance, by the
singular value decomposition, and by the eigenvectors of the Gram matrix are the same points.
"When to use which method? Use MDS, if d > n; use PCA, if n > d or use SVD anyways!"

**Result.** The same to rounding, up to the sign of each axis, from the Gram matrix as from the
distances, of which it can be made. Which is cheapest follows from the shape, as the text says,
and `PCA` chooses by itself. PCA also "decorrelates data" (section 2.4): the scores have the
diagonal covariance :math:`U^\top C U = \Lambda`, and not :math:`\lambda I` as printed
(:doc:`/errata`).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import eigengap as eg

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)

by_pca = eg.PCA(2).fit_transform(X)
centred = X - X.mean(axis=0)
U, s, _ = eg.svd(centred, k=2)
by_svd = U * s
by_gram = eg.ClassicalMDS(2, metric="gram").fit_transform(centred @ centred.T)
distances = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
by_mds = eg.ClassicalMDS(2, metric="precomputed").fit_transform(distances)

panels = {
    "PCA": by_pca,
    "SVD": by_svd,
    "scaling, Gram matrix": by_gram,
    "scaling, distances": by_mds,
}
fig, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharex=True, sharey=True)
for ax, (name, Z) in zip(axes, panels.items(), strict=True):
    signs = np.sign((Z * by_pca).sum(axis=0))
    for k in range(3):
        ax.scatter(*(Z * signs)[wine.target == k].T, s=8, color=f"C{k}")
    ax.set(title=name, xlabel="coordinate 1", aspect="equal")
    apart = abs(Z * signs - by_pca).max()
    print(f"{name}: {apart:.1e} from PCA at most, scores up to {abs(by_pca).max():.1f}")
    assert apart < 1e-8

axes[0].set_ylabel("coordinate 2")

# %%
# Exercise 3.2, with points as columns: V = X'U D^-1.

points = centred.T
U, D, Vt = np.linalg.svd(points, full_matrices=False)
assert np.allclose(Vt.T, points.T @ U / D)

# %%
# The covariance of the scores, by all 13 axes: Lambda, each with its own variance.

C = points @ points.T / len(X)
new = U.T @ C @ U
lam = np.linalg.eigvalsh(C)[::-1]
print(f"largest covariance of two scores {abs(new - np.diag(np.diag(new))).max():.0e}")
print(f"variances {lam[0]:.2f}, {lam[1]:.2f}, ..., {lam[-1]:.2f}")
assert np.allclose(new, np.diag(lam), atol=1e-12)
assert np.allclose(np.cov(by_pca.T, ddof=0), np.diag(lam[:2]), atol=1e-12)
assert lam[0] > 10 * lam[-1]  # so that no multiple of I would do
