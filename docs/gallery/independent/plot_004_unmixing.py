r"""
Unmixing by independent components
==================================

004 sections 1 and 5; 000 section 5 names it as related.

**Claim.** Independent component analysis "is different from all algorithm discussed in above
sessions, because it is based on non-gaussian prior". (Section 5 of the text is empty.)

**Result.** Three signals, mixed on five channels with a little noise: PCA gives scores that are
uncorrelated and still mixed, ICA the signals, up to order, sign and size, also with a tenth of
the cells missing. For Gaussian sources it cannot work, since any rotation of those is as good:
tried, it finds none of them, and `ICA` warns.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.signal import sawtooth, square

import eigengap as eg

rng = np.random.default_rng(0)
t = np.linspace(0, 8, 2000)
sources = np.c_[np.sin(2 * t), square(3 * t), sawtooth(2 * np.pi * t)]
sources /= sources.std(axis=0)
A = rng.normal(size=(5, 3))
X = sources @ A.T + 0.1 * rng.normal(size=(2000, 5))
incomplete = np.where(rng.random(X.shape) < 0.1, np.nan, X)


def matched(S, truth=sources):
    """S in the order and with the signs of the truth, one to one, and how well each is met."""
    r = np.corrcoef(truth.T, S.T)[:3, 3:]
    rows, order = linear_sum_assignment(-abs(r))
    return S[:, order] * np.sign(r[rows, order]), abs(r[rows, order])


by_pca, r_pca = matched(eg.PCA(3).fit_transform(X))
by_ica, r_ica = matched(eg.ICA(3, noise="isotropic", random_state=0).fit_transform(X))
_, r_missing = matched(eg.ICA(3, noise="isotropic", random_state=0).fit_transform(incomplete))

normal = rng.normal(size=(2000, 3))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    unmixed = eg.ICA(3, noise="isotropic", random_state=0).fit_transform(
        normal @ A.T + 0.1 * rng.normal(size=(2000, 5))
    )
_, r_normal = matched(unmixed, normal)

fig, axes = plt.subplots(4, 1, figsize=(8, 6.5), sharex=True)
part = slice(0, 1200)
for ax, S, title in zip(
    axes,
    (sources, X[:, :3], by_pca, by_ica),
    ("sources", "three of five channels", "PCA", "ICA"),
    strict=True,
):
    for k in range(3):
        ax.plot(t[part], S[part, k] / S[:, k].std() + 4 * k, color=f"C{k}", lw=1)
    ax.set(yticks=[], title=title)
    ax.spines["left"].set_visible(False)
axes[-1].set_xlabel("seconds")

for name, r in (
    ("PCA", r_pca),
    ("ICA", r_ica),
    ("ICA, a tenth of the cells missing", r_missing),
    ("ICA, Gaussian sources", r_normal),
):
    print(f"{name:34s} correlation with the sources " + ", ".join(f"{v:.3f}" for v in r))
print(f"ICA of Gaussian sources warns: {str(heard[0].message)[:62]}")
between = abs(np.corrcoef(by_pca.T) - np.eye(3)).max()
print(f"largest correlation between scores of PCA {between:.0e}")
assert r_ica.min() > 0.96
assert r_missing.min() > 0.94
assert r_pca.min() < 0.8
assert between < 1e-10
assert r_normal.max() < 0.9
assert any(type(w.message).__name__ == "GaussianComponentsWarning" for w in heard)
