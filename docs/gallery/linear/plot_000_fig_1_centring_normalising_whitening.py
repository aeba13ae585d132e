r"""
Centring, normalising, whitening
================================

000 section 3.3, Figure 1: one cloud, processed in three ways.

**Claim.** :math:`\tilde X = D^{-1} U^\top X` (Eq. 13) rescales "all dimensions to have variance 1
and covariance entries of 0".

**Result.** Eq. 13 gives the covariance :math:`I / n`: :math:`D` holds the singular values of
:math:`X`, not of :math:`X / \sqrt n`. With the :math:`\sqrt n` it is the identity
(:doc:`/errata`). Whitening is also not unique: any rotation of white data is white, and
`Whitener` has the usual choices.
"""

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 2)) @ [[3.0, 1.2], [0.0, 0.6]] + [6.0, 3.0]

ways = {
    "as measured": X,
    "centred": eg.Whitener(method="centre").fit_transform(X),
    "normalised": eg.Whitener(method="normalise", ddof=0).fit_transform(X),
    "whitened (PCA)": eg.Whitener(method="pca", ddof=0).fit_transform(X),
    "whitened (ZCA)": eg.Whitener(method="zca", ddof=0).fit_transform(X),
}
far = np.argsort(X @ [1, 0.4])
colour = np.empty(300)
colour[far] = np.linspace(0, 1, 300)

fig, axes = plt.subplots(1, 5, figsize=(9, 2.1))
for ax, (name, rows) in zip(axes, ways.items(), strict=True):
    ax.scatter(*rows.T, c=colour, s=5)
    ax.axhline(0, color="#8a9099", lw=0.6)
    ax.axvline(0, color="#8a9099", lw=0.6)
    reach = 15 if name == "as measured" else 10 if name == "centred" else 4
    ax.set(
        title=name, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[]
    )

# %%
# Eq. 13 as printed, and mended.

centred = (X - X.mean(axis=0)).T  # columns are points, as in 000
U, D, _ = np.linalg.svd(centred, full_matrices=False)
printed = np.diag(1 / D) @ U.T @ centred
mended = np.sqrt(len(X)) * printed
print("covariance by Eq. 13, times n:\n", (len(X) * np.cov(printed, ddof=0)).round(3))
print("mended:\n", np.cov(mended, ddof=0).round(3))

white = np.cov(ways["whitened (ZCA)"].T, ddof=0)
assert np.allclose(np.cov(printed, ddof=0), np.eye(2) / len(X))
assert np.allclose(np.cov(mended, ddof=0), np.eye(2))
assert np.allclose(white, np.eye(2))
normal = np.cov(ways["normalised"].T, ddof=0)
assert np.allclose(np.diag(normal), 1)
assert abs(normal[0, 1]) > 0.5
