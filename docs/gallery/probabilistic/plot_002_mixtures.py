r"""
A mixture of probabilistic PCA
==============================

002 section 1.

**Claim.** "The single PCA model could be extended to a mixture of such models."

**Result.** On three clusters, each with a direction of its own, one PPCA has one direction for
all; the mixture finds the clusters, their directions and, by BIC, their number, also with 30 % of
the cells missing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

import eigengap as eg

rng = np.random.default_rng(0)
cluster = np.repeat([0, 1, 2], 150)
directions = np.array([[2.0, 1.2], [0.2, 2.0], [1.8, -1.2]])
middles = np.array([[0.0, 0.0], [6.0, 2.0], [-1.0, 6.0]])
plane = (
    rng.normal(size=(450, 1)) * directions[cluster]
    + middles[cluster]
    + 0.3 * rng.normal(size=(450, 2))
)
lift, _ = np.linalg.qr(rng.normal(size=(8, 2)))
X = plane @ lift.T + 0.3 * rng.normal(size=(450, 8))
incomplete = np.where(rng.random(X.shape) < 0.3, np.nan, X)

bic = {k: eg.MixturePPCA(k, 1, random_state=0).fit(incomplete).bic(incomplete) for k in range(1, 6)}
mixture = eg.MixturePPCA(3, 1, random_state=0).fit(incomplete)
found = mixture.predict(incomplete)

fig, (a, b, c) = plt.subplots(1, 3, figsize=(9, 3.1))
one = eg.PPCA(1).fit(incomplete)
a.scatter(*plane.T, s=6, color="#8a9099")
middle, axis = one.mean_ @ lift, one.loadings_[:, 0] @ lift
a.plot(*np.c_[middle - 2 * axis, middle + 2 * axis], color="C1")
a.set(title="one PPCA", aspect="equal")
for k in range(3):
    b.scatter(*plane[found == k].T, s=6, color=f"C{k}", alpha=0.6)
    middle, axis = mixture.means_[k] @ lift, mixture.loadings_[k][:, 0] @ lift
    b.plot(*np.c_[middle - 2 * axis, middle + 2 * axis], color=f"C{k}", lw=3)
b.set(title="mixture of three, 30 % missing", aspect="equal")
c.plot(list(bic), list(bic.values()), "o-")
c.set(xlabel="components of the mixture", title="BIC, lower is better", xticks=list(bic))

agree = adjusted_rand_score(cluster, found)
cosines = [
    max(
        abs(mixture.loadings_[k][:, 0] @ lift @ u)
        / np.linalg.norm(mixture.loadings_[k])
        / np.linalg.norm(u)
        for u in directions
    )
    for k in range(3)
]
worst = np.degrees(np.arccos(min(cosines)))
print(f"adjusted Rand index {agree:.3f}; directions agree to {worst:.1f} degrees at worst")
print(
    f"log-likelihood per row: {one.score(incomplete):.2f}, mixture {mixture.score(incomplete):.2f}"
)
assert agree > 0.9
assert min(bic, key=bic.get) == 3
assert min(cosines) > 0.97
assert mixture.score(incomplete) > one.score(incomplete)
