r"""
A colour image with 80 % missing
================================

003, "Example: missing data": "Another somewhat extreme example: Image is 480 x 320 x 3 (RGB
dimension)", "Throw away 80% at random".

**Claim.** Patches, a factor model, posterior means: the picture comes back.

**Result.** It does. Channel means recover nothing; one PPCA of all patches, as in the text,
brings back what is smooth; a mixture of Gaussians, whose covariances are free, loses less at
edges too, and says of each entry how sure it is. Patches are 6 x 6 here, the default of
`inpaint_image`; 003 suggests 8 x 8. Decibels are those of the missing entries alone. On a part of
a photograph of scikit-learn, so that this page is built in seconds; :doc:`/image-restoration` has
whole pictures, and other methods beside it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import eigengap as eg

picture = load_sample_image("china.jpg")[100:260, 140:380]
rng = np.random.default_rng(0)
mask = rng.random(picture.shape) < 0.8  # entries, not pixels


def squares(image):
    return (np.asarray(image, dtype=float) - picture) ** 2


def psnr(image):
    """Of the missing entries; those that are seen have no error."""
    return 10 * np.log10(255**2 / squares(image)[mask].mean())


observed = np.where(mask, 0, picture)
means = np.where(mask, np.round(picture.mean(axis=(0, 1), where=~mask)), picture).astype(np.uint8)
one = eg.inpaint_image(picture, mask, model="ppca", random_state=0)
mixture = eg.inpaint_image(picture, mask, n_mixture=8, random_state=0)

fig, axes = plt.subplots(2, 2, figsize=(8, 5.7))
panels = {
    "80 % thrown away": observed,
    f"one PPCA (003), {psnr(one):.1f} dB": one,
    f"mixture, {psnr(mixture):.1f} dB": mixture,
    "the picture": picture,
}
for ax, (title, image) in zip(axes.ravel(), panels.items(), strict=True):
    ax.imshow(np.asarray(image))
    ax.set_title(title)
    ax.axis("off")

# %%
# How sure is it? Standard deviations are large where the picture has detail. About 95 % of the
# missing entries lie within their 95 % intervals: over the whole picture, not at every place in
# it. Where it is steep there are fewer.

error = np.asarray(mixture, dtype=float) - picture
fig, axes = plt.subplots(1, 2, figsize=(8, 3.1))
shown = {"standard deviation": mixture.sd, "error, its size": abs(error)}
for ax, (title, values) in zip(axes, shown.items(), strict=True):
    drawn = ax.imshow(values.mean(axis=2), vmin=0, vmax=40)
    ax.set_title(f"{title}, mean of the colours")
    ax.axis("off")
fig.colorbar(drawn, ax=axes, shrink=0.8)

covered = np.mean(abs(error[mask]) < 1.96 * mixture.sd[mask])
slope = np.hypot(*np.gradient(picture.mean(axis=2)))
steep = mask & (slope > np.quantile(slope, 0.9))[:, :, None]
at_edges = {
    name: np.sqrt(squares(image)[steep].mean())
    for name, image in (("one PPCA", one), ("mixture", mixture))
}
covered_steep = np.mean(abs(error[steep]) < 1.96 * mixture.sd[steep])
print(mixture)
print(f"{mask.mean():.0%} missing; {mask.all(axis=2).mean():.0%} of the pixels have no entry left")
print(f"means {psnr(means):.1f} dB, one PPCA {psnr(one):.1f}, mixture {psnr(mixture):.1f}")
print("error where it is steep: " + ", ".join(f"{n} {v:.1f}" for n, v in at_edges.items()))
print(f"95 % intervals hold {covered:.0%} of the missing entries, {covered_steep:.0%} of the steep")
assert (np.asarray(mixture)[~mask] == picture[~mask]).all()  # seen entries stay as they are
assert psnr(means) < 12
assert psnr(one) > psnr(means) + 9
assert psnr(mixture) > psnr(one) + 1
assert at_edges["mixture"] < 0.92 * at_edges["one PPCA"]
assert mixture.patch == one.patch == 6
assert 0.93 < covered < 0.98
assert covered_steep < covered - 0.02
assert mixture.sd[steep].mean() > 1.3 * mixture.sd[mask].mean()
