r"""
Compression: ratio against error
================================

000 section 1 names compression first among the reasons for reducing dimensions; section 2.3 gives
its price.

**Claim.** The reconstruction error is the sum of the eigenvalues that were not kept (000, Eq.
10), and "PCA is optimal: no other linear method can produce projections with a smaller
reconstruction error".

**Result.** Both hold. A photograph cut into patches of 8 x 8 pixels and the same photograph taken
as one matrix (000, U2: low-rank approximation) lose the same to 6 % up to eight times
compression; beyond that patches lose less, by a sixth at sixty times, for neighbouring pixels are
alike when whole rows of the picture are not. The cosine transform of JPEG, which is fixed and not
learned, loses at most 6 % more with as many coefficients, and needs no room for its axes.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.fft import dctn
from sklearn.datasets import load_sample_image

import eigengap as eg

image = load_sample_image("china.jpg")[:424, :640].mean(axis=2) / 255
patches = image.reshape(53, 8, 80, 8).swapaxes(1, 2).reshape(-1, 64)  # 4240 of 64 pixels


def picture(rows):
    return rows.reshape(53, 80, 8, 8).swapaxes(1, 2).reshape(image.shape)


def rms(guess):
    return np.sqrt(np.mean((guess - image) ** 2)) * 255


ranks = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48])
by_patches, by_matrix, by_cosines, ratios, matrix_ratios = [], [], [], [], []
cosines = np.array([dctn(p.reshape(8, 8), norm="ortho").ravel() for p in patches])
order = np.argsort(-(cosines**2).mean(axis=0))
model = eg.PCA().fit(patches)
for q in ranks:
    axes = model.components_[:q]
    by_patches.append(rms(picture((patches - model.mean_) @ axes.T @ axes + model.mean_)))
    ratios.append(patches.size / (len(patches) * q + 64 * q + 64))
    kept = cosines * np.isin(np.arange(64), order[:q])
    by_cosines.append(np.sqrt(np.mean((cosines - kept) ** 2)) * 255)
    k = max(1, round(image.size / ratios[-1] / sum(image.shape)))
    approximation = eg.low_rank(image, k)
    by_matrix.append(rms(approximation.to_array()))
    matrix_ratios.append(approximation.compression)

fig, ax = plt.subplots()
ax.plot(ratios, by_patches, "o-", ms=4, label="PCA of patches")
ax.plot(patches.shape[1] / ranks, by_cosines, "s--", ms=4, label="cosine transform of patches")
ax.plot(matrix_ratios, by_matrix, "^-", ms=4, label="low rank of the whole picture")
ax.set(
    xscale="log",
    xlabel="compression, numbers in / numbers kept",
    ylabel="error, grey levels of 255",
    ylim=0,
)
ax.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
ax.legend()

# %%
fig, axes = plt.subplots(1, 3, figsize=(7.5, 1.97))
for ax, q in zip(axes, (1, 4, 16), strict=True):
    u = model.components_[:q]
    rebuilt = picture((patches - model.mean_) @ u.T @ u + model.mean_)
    ax.imshow(rebuilt, cmap="gray", vmin=0, vmax=1)
    ax.set_title(f"{q} of 64: {ratios[list(ranks).index(q)]:.0f} times, {rms(rebuilt):.1f} off")
    ax.axis("off")

lam = model.explained_variance_ * (len(patches) - 1) / len(patches)
predicted = [np.sqrt(lam[q:].sum() / 64) * 255 for q in ranks]
print("error by PCA:        " + " ".join(f"{e:5.1f}" for e in by_patches))
print("by the eigenvalues:  " + " ".join(f"{e:5.1f}" for e in predicted))
print("cosine transform:    " + " ".join(f"{e:5.1f}" for e in by_cosines))
assert np.allclose(by_patches, predicted, rtol=1e-6)
ratios, cosine = np.array(ratios), np.array(by_cosines) / by_patches
whole = np.array(by_matrix) / by_patches
print("low rank over PCA:   " + " ".join(f"{e:5.2f}" for e in whole))
print("compression:         " + " ".join(f"{e:5.1f}" for e in ratios))
assert ((cosine > 1 - 1e-9) & (cosine < 1.06)).all()
assert (abs(whole - 1) < 0.06)[ratios < 8].all()
assert (whole > 1.05)[ratios > 10].all()
assert whole[0] > 1.18
