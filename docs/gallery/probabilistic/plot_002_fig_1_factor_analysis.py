r"""
Factor analysis, and what sets PPCA apart
=========================================

002 Figure 1 (the path diagram of factor analysis) and section 3.3.

**Claim.** "PPCA is covariant under rotation of the original data axes, as is standard PCA,
whereas factor analysis is covariant under componentwise rescaling", and "in factor analysis
neither of the factors found by a two-factor model is necessarily the same as that found by a
single-factor model. In PPCA ... the principal axes may be found incrementally."

**Result.** All three hold. (W is d x q, not q x d: :doc:`/errata`.)
"""

from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import subspace_angles

import eigengap as eg

table = np.genfromtxt(
    files("eigengap") / "data" / "breast_cancer_wisconsin.csv", delimiter=",", names=True
)
names = [n for n in table.dtype.names if n not in ("id", "diagnosis")]
X = np.stack([table[n] for n in names], axis=1)
X = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
model = eg.FactorAnalysis(2, rotation="varimax").fit(X)  # 16 cells are missing

fig, ax = plt.subplots(figsize=(7.5, 4))
for k in range(2):
    ax.text(
        0.0,
        6.5 - 4 * k,
        f"factor {k + 1}",
        ha="center",
        va="center",
        bbox={"boxstyle": "circle", "fc": f"C{k}", "ec": "none", "alpha": 0.3},
    )
for j, name in enumerate(names):
    ax.text(3.1, 8.0 - j, name.replace("_", " "), va="center", fontsize=9)
    ax.text(5.15, 8.0 - j, f"ψ = {model.noise_variance_[j]:.2f}", va="center", fontsize=9)
    for k in range(2):
        w = model.loadings_[j, k]
        if abs(w) > 0.25:
            ax.plot([0.42, 3.0], [6.5 - 4 * k, 8.0 - j], color=f"C{k}", lw=4 * w**2, alpha=0.8)
ax.set(
    xlim=(-0.6, 6),
    ylim=(-0.7, 8.6),
    title="breast cancer: loadings above 0.25, width by their square",
)
ax.axis("off")

# %%
# The three claims of section 3.3.

rng = np.random.default_rng(2)
complete = X[~np.isnan(X).any(axis=1)]
turn, _ = np.linalg.qr(rng.normal(size=(9, 9)))
units = np.exp(rng.normal(size=9))


def loglik_change(estimator, change, volume):
    return (
        estimator.fit(change(complete)).score(change(complete))
        + volume
        - estimator.fit(complete).score(complete)
    )


stretch = np.log(units).sum()
rows = {
    "PPCA, turned": loglik_change(eg.PPCA(2), lambda A: A @ turn, 0.0),
    "PPCA, rescaled": loglik_change(eg.PPCA(2), lambda A: A * units, stretch),
    "factor analysis, turned": loglik_change(eg.FactorAnalysis(2), lambda A: A @ turn, 0.0),
    "factor analysis, rescaled": loglik_change(eg.FactorAnalysis(2), lambda A: A * units, stretch),
}
for name, change in rows.items():
    print(f"{name:26s} log-likelihood changes by {change:+.6f} nats a row")


def first_axis_moves(estimator):
    one, two = (estimator(k).fit(complete).loadings_ for k in (1, 2))
    return np.degrees(subspace_angles(one, two).max())


ppca, factor = first_axis_moves(eg.PPCA), first_axis_moves(eg.FactorAnalysis)
print("the single factor lies out of the plane of two by")
print(f"{ppca:.4f} degrees (PPCA), {factor:.2f} degrees (factor analysis)")
assert abs(rows["PPCA, turned"]) < 1e-8
assert abs(rows["factor analysis, rescaled"]) < 1e-5
assert abs(rows["PPCA, rescaled"]) > 0.1
assert abs(rows["factor analysis, turned"]) > 0.01
assert ppca < 1e-5
assert factor > 0.1
