r"""
As σ² vanishes
==============

004 section 3.2; also 002 section 3.4, and 000 section 5 ("for σ² → 0, we get standard PCA").

**Claim** (004). As :math:`\sigma^2 \to 0`, :math:`W \to V`, :math:`F \to I` and the posterior
means become :math:`V^\top x`, "an orthogonal projection of the data onto the column space of V,
as in classical PCA".

**Result.** Not quite: :math:`W \to V \Lambda^{1/2}`, :math:`F \to \Lambda`, and the posterior
means become *whitened* scores :math:`\Lambda^{-1/2} V^\top x`. The plane is that of PCA, the
coordinates have variance 1. With :math:`\sigma^2 > 0` they, and with them the points
:math:`W \langle x \rangle + \mu`, are "skewed towards the origin" (002), the points by the factor
:math:`1 - \sigma^2 / \lambda_j` along axis j, and 002's formula
:math:`W (W^\top W)^{-1} M \langle x \rangle + \mu` undoes that exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import subspace_angles
from sklearn.datasets import load_iris

import eigengap as eg

X = load_iris().data
pca = eg.PCA(2).fit(X)
scores = pca.transform(X)
lam = pca.explained_variance_ * (len(X) - 1) / len(X)
sizes = np.array([1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6])
to_scores, to_white = [], []
for sigma2 in sizes:
    Z = eg.PPCA(2, noise_variance=sigma2 * lam[1], solver="closed_form").fit(X).transform(X)
    signs = np.sign((Z * scores).sum(axis=0))
    to_scores.append(abs(Z * signs - scores).max())
    to_white.append(abs(Z * signs - scores / np.sqrt(lam)).max())

fig, (left, right) = plt.subplots(1, 2)
left.loglog(sizes, to_scores, "o-", label="PCA's scores (004)")
left.loglog(sizes, to_white, "s-", label="whitened scores")
left.invert_xaxis()
left.set(xlabel="σ² / λ₂", ylabel="largest difference", title="what posterior means tend to")
left.legend()
# iris by PPCA with the noise that maximum likelihood finds, and the optimal reconstruction of 002
model = eg.PPCA(2).fit(X)
W, mu, sigma2 = model.loadings_, model.mean_, model.noise_variance_
Z = model.transform(X)
drawn = Z @ W.T + mu
M = W.T @ W + sigma2 * np.eye(2)
best = Z @ M @ np.linalg.inv(W.T @ W) @ W.T + mu
orthogonal = pca.inverse_transform(scores)
right.scatter(*scores.T, s=14, label="orthogonal projection")
right.scatter(*pca.transform(drawn).T, s=6, label="posterior mean: drawn to 0")
right.set(xlabel="PC1", ylabel="PC2", title="iris, σ² by maximum likelihood")
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=8, handletextpad=0)

print(f"at sigma2 = 1e-6 lam_2: {to_scores[-1]:.2f} from PCA's scores,")
print(f"{to_white[-1]:.1e} from whitened ones")
for name, guess in (("posterior mean", drawn), ("mended", best), ("PCA", orthogonal)):
    print(f"squared error, {name}: {((X - guess) ** 2).sum():.3f}")
assert to_white[-1] < 1e-5
assert to_scores[-1] > 0.5
shrunk = pca.transform(drawn)
factors = 1 - sigma2 / lam
print("posterior mean over projection, axis by axis: " + ", ".join(f"{f:.3f}" for f in factors))
assert np.allclose(best, orthogonal)
assert np.allclose(shrunk, scores * factors)
assert (abs(shrunk) < abs(scores)).all()
assert 0.6 < factors[1] < factors[0] < 1
assert ((X - drawn) ** 2).sum() > 1.05 * ((X - orthogonal) ** 2).sum()

# %%
# 004 section 3.3: with :math:`\sigma^2 = 0` EM is two least-squares problems in turn, and finds
# the plane of PCA without any eigenvectors. So does `PPCA` with ``noise_variance=0``.

centred = X - X.mean(axis=0)
W = np.random.default_rng(0).normal(size=(4, 2))
angles = []
for _ in range(60):
    Z = np.linalg.lstsq(W, centred.T, rcond=None)[0]  # E-step, printed as (W'W)^-1 W'X
    W = np.linalg.lstsq(Z.T, centred, rcond=None)[0].T  # M-step
    angles.append(np.degrees(subspace_angles(W, pca.components_.T).max()))
limit = eg.PPCA(2, noise_variance=0.0, solver="em").fit(X)
fig, ax = plt.subplots(figsize=(7.5, 2.8))
ax.semilogy(range(1, 61), angles)
ax.set(xlabel="step", ylabel="degrees", title="EM at σ² = 0: angle to the plane of PCA")
by_limit = np.degrees(subspace_angles(limit.components_.T, pca.components_.T).max())
print(f"after 60 steps {angles[-1]:.1e} degrees; PPCA with noise_variance=0 {by_limit:.1e}")
assert angles[-1] < 1e-4
assert by_limit < 1e-4
