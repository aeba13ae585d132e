r"""
Images with three degrees of freedom
====================================

003, "Dimensionality reduction": one digit, shifted and turned.

**Claim.** "... we could represent the above images with three numbers since they have three
degrees of freedom. Two for shifts and a third for rotation."

**Result.** True of the images, but not of PCA, which needs many more: the images lie on a
*curved* surface of three dimensions. Isomap, which measures along the surface, finds three, and
they are the shifts and the angle.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import affine_transform, gaussian_filter, zoom
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression

import eigengap as eg

# %%
# A three, blurred a little, on a canvas of 28 x 28 pixels, moved by up to four pixels each way
# and turned by up to half a radian.

digits = load_digits()
three = zoom(digits.images[3], 2, order=1) / 16
canvas = gaussian_filter(np.pad(three, 6), 1.5)
rng = np.random.default_rng(0)
freedom = rng.uniform([-4, -4, -0.5], [4, 4, 0.5], size=(700, 3))  # rows, columns, radians


def moved(down, right, angle):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = np.array(canvas.shape) / 2 - 0.5
    return affine_transform(
        canvas, turn, middle - turn @ (middle + np.array([down, right])), order=1
    )


images = np.stack([moved(*f) for f in freedom])
X = images.reshape(len(images), -1)

fig, axes = plt.subplots(1, 8, figsize=(7.5, 1.2))
for ax, image in zip(axes, images, strict=False):
    ax.imshow(image, cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color="#8a9099", linewidth=0.6)

# %%
# How many numbers does each method need?

pca = eg.PCA().fit(X)
explained = np.cumsum(pca.explained_variance_ratio_)
residual = [eg.Isomap(q, n_neighbors=10).fit(X).residual_variance_ for q in range(1, 7)]

fig, (left, right) = plt.subplots(1, 2)
left.plot(range(1, 31), 1 - explained[:30], "o-", ms=3)
left.axvline(3, color="C1", ls=":")
left.set(xlabel="principal components", ylabel="variance left", ylim=0, title="PCA")
right.plot(range(1, 7), residual, "o-", ms=4)
right.axvline(3, color="C1", ls=":")
right.set(xlabel="coordinates", ylabel="residual variance", ylim=0, title="Isomap")

needed = int(np.searchsorted(explained, 0.95) + 1)
print(f"PCA needs {needed} components for 95 % of the variance; three explain {explained[2]:.0%}.")

# %%
# Are the three coordinates of Isomap the three degrees of freedom? A linear map from one to the
# other says how far.

Z = eg.Isomap(3, n_neighbors=10).fit_transform(X)
fit = LinearRegression().fit(Z, freedom)
found = fit.predict(Z)
r2 = 1 - ((freedom - found) ** 2).sum(axis=0) / ((freedom - freedom.mean(axis=0)) ** 2).sum(axis=0)
scores = pca.transform(X)[:, :3]
by_pca = LinearRegression().fit(scores, freedom).score(scores, freedom)
names = ("shift down", "shift right", "angle")
print("R2 of Isomap: " + ", ".join(f"{n} {v:.2f}" for n, v in zip(names, r2, strict=True)))
print(f"on average {r2.mean():.2f}; of three principal components {by_pca:.2f}")

fig, axes = plt.subplots(1, 3, figsize=(7.5, 2.7))
for ax, name, true, guess in zip(axes, names, freedom.T, found.T, strict=True):
    ax.scatter(true, guess, s=4)
    ax.set(xlabel=f"{name}, true", title=name)
axes[0].set_ylabel("found by Isomap")

assert needed > 10
assert explained[2] < 0.75
assert residual[2] < 0.5 * residual[1]
assert residual[2] - residual[3] < 0.02
assert r2.min() > 0.85
assert r2.mean() > by_pca + 0.2
