r"""
A colour image with 80 % missing
================================

003, "Example: missing data": "Another somewhat extreme example: image is 480 x 320 x 3 (RGB
dimension). Throw away 80% at random."

**Claim.** Patches, a factor model, posterior means: the picture comes back.

**Result.** It does. Means know nothing; one PPCA of all patches, as in the text, brings back what
is smooth; a mixture brings back edges too, and says of each entry how sure it is. Here on a part
of a photograph of scikit-learn, so that this page is built in seconds; :doc:`/image-restoration`
has whole pictures, and other methods beside it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import eigengap as eg

picture = load_sample_image("china.jpg")[100:260, 140:380]
rng = np.random.default_rng(0)
mask = rng.random(picture.shape) < 0.8  # entries, not pixels: half of the pixels have none left


def psnr(image):
    return 10 * np.log10(255**2 / np.mean((np.asarray(image, dtype=float) - picture) ** 2))


seen = np.where(mask, 0, picture)
means = np.where(mask, np.round(picture.mean(axis=(0, 1), where=~mask)), picture).astype(np.uint8)
one = eg.inpaint_image(picture, mask, model="ppca", random_state=0)
mixture = eg.inpaint_image(picture, mask, n_mixture=8, random_state=0)

fig, axes = plt.subplots(2, 2, figsize=(8, 5.7))
panels = {
    "80 % thrown away": seen,
    f"one PPCA (003), {psnr(one):.1f} dB": one,
    f"mixture, {psnr(mixture):.1f} dB": mixture,
    "the picture": picture,
}
for ax, (title, image) in zip(axes.ravel(), panels.items(), strict=True):
    ax.imshow(np.asarray(image))
    ax.set_title(title)
    ax.axis("off")

# %%
# How sure is it? Standard deviations are large where the picture has detail. Of the missing
# entries 96 % lie within their 95 % intervals: over the whole picture, not at every place in it.

error = np.asarray(mixture, dtype=float) - picture
fig, axes = plt.subplots(1, 2, figsize=(8, 3.1))
shown = {"standard deviation": mixture.sd, "error, its size": abs(error)}
for ax, (title, values) in zip(axes, shown.items(), strict=True):
    drawn = ax.imshow(values.mean(axis=2), vmin=0, vmax=40)
    ax.set_title(f"{title}, mean of the colours")
    ax.axis("off")
fig.colorbar(drawn, ax=axes, shrink=0.8)

covered = np.mean(abs(error[mask]) < 1.96 * mixture.sd[mask])
print(mixture)
print(f"means {psnr(means):.1f} dB, one PPCA {psnr(one):.1f}, mixture {psnr(mixture):.1f}")
print(f"95 % intervals hold {covered:.0%} of the missing entries")
assert (np.asarray(mixture)[~mask] == picture[~mask]).all()  # seen entries stay as they are
assert psnr(mixture) > psnr(one) > psnr(means) + 8
assert 0.93 < covered < 0.98
