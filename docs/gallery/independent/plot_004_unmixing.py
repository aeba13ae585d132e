r"""
Unmixing by independent components
==================================

004 sections 1 and 5; 000 section 5 names it as related.

**Claim.** Independent component analysis "is different from all algorithm discussed in above
sessions, because it is based on non-gaussian prior". (Section 5 of the text is empty.)

**Result.** Three signals, mixed on five channels: PCA gives channels that are uncorrelated and
still mixed, ICA the signals, up to order, sign and size. It works with noise and with a tenth of
the samples missing, and it cannot work for Gaussian sources: any rotation of those is as good.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import sawtooth, square

import eigengap as eg

rng = np.random.default_rng(0)
t = np.linspace(0, 8, 2000)
sources = np.c_[np.sin(2 * t), square(3 * t), sawtooth(2 * np.pi * t)]
sources /= sources.std(axis=0)
A = rng.normal(size=(5, 3))
X = sources @ A.T + 0.1 * rng.normal(size=(2000, 5))
gappy = np.where(rng.random(X.shape) < 0.1, np.nan, X)


def matched(S):
    """Sources in their order and sign, and how well each is met."""
    r = np.corrcoef(sources.T, S.T)[:3, 3:]
    order = abs(r).argmax(axis=1)
    return S[:, order] * np.sign(r[np.arange(3), order]), abs(r).max(axis=1)


by_pca, r_pca = matched(eg.PCA(3).fit_transform(X))
by_ica, r_ica = matched(eg.ICA(3, noise="ppca", random_state=0).fit_transform(X))
_, r_gaps = matched(eg.ICA(3, noise="ppca", random_state=0).fit_transform(gappy))

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

print("correlation with the sources: PCA " + ", ".join(f"{r:.2f}" for r in r_pca))
print("                              ICA " + ", ".join(f"{r:.3f}" for r in r_ica))
print("       a tenth of the cells missing " + ", ".join(f"{r:.3f}" for r in r_gaps))
assert r_ica.min() > 0.96
assert r_gaps.min() > 0.94
assert r_pca.min() < 0.9
