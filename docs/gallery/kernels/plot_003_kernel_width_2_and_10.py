r"""
Kernel PCA with c = 2 and c = 10
================================

003, "Example results": data in the plane, and new coordinates under
:math:`K(x, x') = b \exp(-\|x - x'\|^2 / c)` with c = 2 and c = 10.

**Claim.** (By picture, which the extracted text has lost.) Another width, other coordinates. The
colours are "for reference (but may be classes)".

**Result.** Other coordinates they are, with the algorithm as printed (K not centred, scores
:math:`\lambda_k a_{ki}`) and as PCA would have it (K centred, :math:`\sqrt{\lambda_k} a_{ki}`).
Not centred, the first coordinate is all of one sign and nearly the mean of each row of K, at both
widths. Centred, c = 2 lays the rings so that straight lines tell them apart; c = 10 is so wide
that the kernel is nearly linear: the coordinates are those of the data for the most part, and the
two outer rings wrap around each other as before. Whether that is what 003 shows cannot be known:
its data are not given, and these are three rings of our own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

import eigengap as eg

rng = np.random.default_rng(0)
ring = np.repeat([0, 1, 2], 150)
angle = rng.uniform(0, 2 * np.pi, 450)
radius = np.array([0.4, 2.0, 3.6])[ring] + 0.15 * rng.normal(size=450)
X = np.c_[radius * np.cos(angle), radius * np.sin(angle)]

fig, axes = plt.subplot_mosaic(
    [["data", "printed 2", "printed 10"], ["data", "centred 2", "centred 10"]], figsize=(8.5, 5.6)
)


def show(ax, Z, title, words):
    for k in range(3):
        ax.scatter(*Z[ring == k].T, s=7, color=f"C{k}")
    ax.set(title=title, xticks=[], yticks=[], xlabel=f"{words} 1", ylabel=f"{words} 2")


coordinates = {}
show(axes["data"], X, "data", "column")
axes["data"].set_aspect("equal")
ways = {"as printed": {"center": False, "scaling": "eigenvalue"}, "centred": {}}
for words, printed in ways.items():
    for c in (2.0, 10.0):
        Z = eg.KernelPCA(2, kernel="rbf", b=1.0, c=c, **printed).fit_transform(X)
        show(axes[f"{words.split()[-1]} {c:g}"], Z, f"c = {c:g}, {words}", "coordinate")
        coordinates[words, c] = Z

# %%
# How do the widths differ? Whether straight lines tell the rings apart, and how much of the two
# coordinates is a linear function of the data.

told, linear = {}, {}
for at, Z in coordinates.items():
    unit = Z / Z.std(axis=0)
    told[at] = LogisticRegression(C=1e4, max_iter=5000).fit(unit, ring).score(unit, ring)
    linear[at] = LinearRegression().fit(X, unit).score(X, unit)
    print(f"{at[0]:10s} c = {at[1]:2g}: lines tell {told[at]:.0%} apart, linear {linear[at]:.2f}")
assert told["as printed", 2.0] == told["as printed", 10.0] == told["centred", 2.0] == 1.0
assert told["centred", 10.0] < 0.6
assert linear["centred", 2.0] < 0.4
assert linear["centred", 10.0] > 0.8

# %%
# The same by ten lines of NumPy, to be sure which algorithm it is.

K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 10.0)
lam, a = np.linalg.eigh(K)
by_hand = lam[-1] * a[:, -1]
ours = coordinates["as printed", 10.0][:, 0]


def one_sign(z):
    return max(np.mean(z > 0), np.mean(z < 0))


mean_like, centred = one_sign(ours), one_sign(coordinates["centred", 10.0][:, 0])
print(f"003 by hand and by KernelPCA: {abs(abs(by_hand) - abs(ours)).max():.1e} apart")
print(f"first coordinate: not centred {mean_like:.0%} of one sign, centred {centred:.0%}")
assert np.allclose(abs(by_hand), abs(ours), atol=1e-6)
assert mean_like == 1.0  # as for any matrix of positive entries (Perron)
assert centred < 0.7
for c in (2.0, 10.0):
    rows = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / c).mean(axis=1)
    assert abs(np.corrcoef(coordinates["as printed", c][:, 0], rows)[0, 1]) > 0.99

# %%
# "Kernel PCA and new data": a new point is projected by its kernel with the old ones.

new = rng.normal(size=(50, 2)) * 2
printed = eg.KernelPCA(2, kernel="rbf", b=1.0, c=10.0, center=False, scaling="eigenvalue").fit(X)
kernel = np.exp(-((new[:, None] - X[None]) ** 2).sum(axis=2) / 10.0)
assert np.allclose(abs(kernel @ a[:, -2:][:, ::-1]), abs(printed.transform(new)), atol=1e-6)
