r"""
From R3 to R2
=============

003, "PCA: example of projecting from R3 to R2".

**Claim.** "For this data, most information (structure in the data) can be captured in R2": the
plane of :math:`q_1, q_2`, and the new coordinates :math:`(x^\top q_1, x^\top q_2)`.

**Result.** For a cloud near a plane two coordinates keep 99 % of the variance. Distances change
little: half of them by less than 0.3 %, nine in ten by less than 5 %.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist

import eigengap as eg

rng = np.random.default_rng(0)
group = np.repeat([0, 1, 2], 100)
flat = rng.normal(size=(300, 2)) * 0.5 + np.array([[0, 0], [2.4, 0.8], [0.6, 2.2]])[group]
tilt, _ = np.linalg.qr(rng.normal(size=(3, 3)))
X = np.c_[flat, 0.15 * rng.normal(size=300)] @ tilt.T

model = eg.PCA(2).fit(X)
Z = model.transform(X)

fig = plt.figure(figsize=(7.5, 3.6))
left = fig.add_subplot(121, projection="3d")
for k in range(3):
    left.scatter(*X[group == k].T, s=7, color=f"C{k}")
corners = np.array([[-2, -2], [2.4, -2], [2.4, 2.4], [-2, 2.4]]) @ model.components_ + model.mean_
left.plot_trisurf(*corners.T, triangles=[[0, 1, 2], [0, 2, 3]], color="#8a9099", alpha=0.2)
left.set(title="R3, and the plane of $q_1, q_2$", xticklabels=[], yticklabels=[], zticklabels=[])
right = fig.add_subplot(122)
for k in range(3):
    right.scatter(*Z[group == k].T, s=9, color=f"C{k}")
right.set(xlabel="$x^\\top q_1$", ylabel="$x^\\top q_2$", aspect="equal", title="R2")

kept = model.explained_variance_ratio_.sum()
shrunk = pdist(Z) / pdist(X)
half, most = 1 - np.quantile(shrunk, [0.5, 0.1])
print(f"{kept:.1%} of the variance kept")
print(f"distances shrink by {half:.2%} in the median; nine in ten by at most {most:.1%}")
assert kept > 0.98
assert (shrunk <= 1 + 1e-12).all()  # a projection never lengthens
assert half < 0.003
assert most < 0.05
