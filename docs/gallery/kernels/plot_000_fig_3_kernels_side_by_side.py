r"""
Kernels side by side
====================

000 section 4.2, Figure 3: "Projections of data using different kernels".

**Claim.** (By picture.) The kernel decides what the projection shows.

**Result.** It does. The linear kernel is PCA, to rounding; on rings inside each other it shows
nothing. The Gaussian parts them in its first three coordinates, the polynomial of degree 2 in its
third, which is the squared radius; a Gaussian that is too narrow sees every point by itself. (Eq.
17 as printed scales the scores by another factor: :doc:`/errata`.)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression

import eigengap as eg

X, ring = make_circles(400, factor=0.35, noise=0.06, random_state=0)
kernels = {
    "linear": {"kernel": "linear"},
    "polynomial, degree 2": {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 0.0},
    "Gaussian, $\\gamma$ = 2": {"kernel": "rbf", "gamma": 2.0},
    "Gaussian, $\\gamma$ = 200": {"kernel": "rbf", "gamma": 200.0},
    "cosine": {"kernel": "cosine"},
}

fig, axes = plt.subplots(2, 3, figsize=(8.5, 5.4))
axes = axes.ravel()
panels = {"data": X}
apart = {}
for name, options in kernels.items():  # two columns have two linear coordinates and no more
    panels[name] = eg.KernelPCA(2 if name in ("linear", "cosine") else 3, **options).fit_transform(
        X
    )
for ax, (name, Z) in zip(axes, panels.items(), strict=True):
    unit = Z / Z.std(axis=0)
    apart[name] = LogisticRegression(C=100.0).fit(unit, ring).score(unit, ring)
    told = [abs(np.corrcoef(column, ring)[0, 1]) for column in Z.T]
    one, two = sorted({0, 1 + int(np.argmax(told[1:]))} if np.argmax(told) else {0, 1})
    for k in (0, 1):
        ax.scatter(Z[ring == k, one], Z[ring == k, two], s=8, color=f"C{k}")
    ax.set(title=f"{name}\na plane tells {apart[name]:.0%} apart", xticks=[], yticks=[])
    ax.set(xlabel=f"coordinate {one + 1}", ylabel=f"coordinate {two + 1}")

linear, pca = panels["linear"], eg.PCA(2).fit_transform(X)
print({name: f"{share:.0%}" for name, share in apart.items()})
assert np.allclose(abs(linear), abs(pca), atol=1e-8)
assert apart["polynomial, degree 2"] > 0.98
assert apart["Gaussian, $\\gamma$ = 2"] > 0.98
assert apart["linear"] < 0.7
