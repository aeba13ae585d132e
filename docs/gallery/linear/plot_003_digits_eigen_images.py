r"""
Eigen-images of a digit, and reconstruction by growing M
========================================================

003, "Example: digits": 16 x 16 images of handwritten 3's, their first four eigenvectors, and a 3
rebuilt from the mean and the first :math:`M - 1` eigenvectors.

**Claim.** :math:`x \approx \mathrm{mean} + \sum_{k < M} (\bar x^\top q_k) q_k`, better and better
as M grows.

**Result.** As claimed, on the 8 x 8 digits of scikit-learn (the 16 x 16 ones are not available
offline). The error falls with every M, as it must, to 36 % of that of the mean by M = 10 and to
zero when all eigenvectors are there; averaged over all images its square is the sum of the
discarded eigenvalues, to rounding.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import eigengap as eg

digits = load_digits()
X = digits.data[digits.target == 3]
model = eg.PCA().fit(X)
lam = model.explained_variance_ * (len(X) - 1) / len(X)  # divisor n, as in 000

fig, axes = plt.subplots(1, 5, figsize=(7.5, 1.72))
shown = [
    ("mean", model.mean_),
    *((f"$\\lambda_{k + 1}$ = {lam[k]:.0f}", model.components_[k]) for k in range(4)),
]
for ax, (title, image) in zip(axes, shown, strict=True):
    limit = None if title == "mean" else abs(image).max()
    kind = {"cmap": "gray_r"} if limit is None else {"cmap": "PuOr", "vmin": -limit, "vmax": limit}
    ax.imshow(image.reshape(8, 8), **kind)
    ax.set_title(title)
    ax.axis("off")

# %%
# One of them, rebuilt.

x = X[7]
centred = x - model.mean_
fig, axes = plt.subplots(1, 7, figsize=(7.5, 1.33))
errors = []
for ax, M in zip(axes, (1, 2, 5, 10, 20, 40, len(lam) + 1), strict=True):
    q = model.components_[: M - 1]
    rebuilt = model.mean_ + centred @ q.T @ q
    errors.append(np.linalg.norm(x - rebuilt))
    ax.imshow(rebuilt.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    ax.set_title(f"M = {M}")
    ax.axis("off")
print("its error: " + ", ".join(f"{e:.1f}" for e in errors))

# %%
# The error of all of them.

whole = [
    ((X - eg.PCA(q).fit(X).inverse_transform(eg.PCA(q).fit_transform(X))) ** 2).sum(axis=1).mean()
    for q in (1, 4, 9, 19, 39)
]
discarded = [lam[q:].sum() for q in (1, 4, 9, 19, 39)]
fig, ax = plt.subplots(figsize=(7.5, 3))
ax.plot(range(1, len(lam) + 1), lam.sum() - np.cumsum(lam), label="sum of discarded eigenvalues")
ax.plot((1, 4, 9, 19, 39), whole, "o", label="squared error of the images")
ax.set(xlabel="eigenvectors kept, M − 1", ylabel="grey levels squared", ylim=0)
ax.set_title("Error of all images and what Eq. 10 of 000 predicts")
ax.legend()

assert np.allclose(whole, discarded)
assert (np.diff(errors) < 1e-9).all()
assert errors[3] < 0.4 * errors[0]
assert errors[-1] < 1e-6
