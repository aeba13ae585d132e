r"""
Denoising
=========

003, "Example: denoising": "Noisy image on left, denoised image on right. The noise variance
parameter σ² was learned for this example."

**Claim.** Cut the picture into overlapping 8 x 8 patches, model them by probabilistic PCA,
replace each by :math:`W \mu_i`, average: the noise goes, and its variance is learned along the
way.

**Result.** It does, and the noise is learned to within a few per cent. One PPCA for all patches,
as in the text, removes most of the noise; a mixture of PPCA, which has flat patches, edges and
texture apart, removes more and keeps edges sharper. The text's picture is not to be had; this is
a part of one that comes with scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

import eigengap as eg

clean = load_sample_image("china.jpg")[60:280, 130:450].mean(axis=2)
rng = np.random.default_rng(0)
noisy = clean + 25.0 * rng.normal(size=clean.shape)


def psnr(image):
    return 10 * np.log10(255**2 / np.mean((np.asarray(image) - clean) ** 2))


one = eg.denoise_image(noisy, model="ppca", stride=2, random_state=0)
mixture = eg.denoise_image(noisy, stride=2, random_state=0)

fig, axes = plt.subplots(2, 2, figsize=(8, 5.9))
panels = {
    f"noise of 25, {psnr(noisy):.1f} dB": noisy,
    f"one PPCA (003), {psnr(one):.1f} dB": one,
    f"mixture of PPCA, {psnr(mixture):.1f} dB": mixture,
    "the picture": clean,
}
for ax, (title, image) in zip(axes.ravel(), panels.items(), strict=True):
    ax.imshow(np.asarray(image), cmap="gray", vmin=0, vmax=255)
    ax.set_title(title)
    ax.axis("off")

# %%
# Every pixel has a standard deviation, from the posterior of the patches that cover it: the less
# a pixel is like others, the less sure. Is it honest?

error = np.asarray(mixture) - clean
fig, axes = plt.subplots(1, 2, figsize=(8, 3.1))
shown = {"standard deviation, grey levels": mixture.sd, "error, its size": abs(error)}
for ax, (title, image) in zip(axes, shown.items(), strict=True):
    drawn = ax.imshow(image, vmin=0, vmax=20)
    ax.set_title(title)
    ax.axis("off")
fig.colorbar(drawn, ax=axes, shrink=0.8)

covered = np.mean(abs(error) < 1.96 * mixture.sd)
print(mixture)
print(f"noise learned: {one.noise_sd:.1f} and {mixture.noise_sd:.1f}; the truth 25")
print(f"95 % intervals hold {covered:.0%} of the pixels")
assert abs(mixture.noise_sd / 25 - 1) < 0.05
assert psnr(one) > psnr(noisy) + 3
assert psnr(mixture) > psnr(one)
