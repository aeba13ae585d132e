r"""
Variance along and across the subspace
======================================

001 section 1.2.

**Claim.** Along a retained eigenvector the model has exactly the variance of the data,
:math:`u_i^\top C u_i = \lambda_i`; in every direction orthogonal to the subspace it has
:math:`\sigma^2`, the mean of the discarded eigenvalues. A point is written in the latent space as
:math:`E[z \mid x] = M^{-1} W^\top (x - \bar x)`, :math:`M = W^\top W + \sigma^2 I`.

**Result.** All hold to rounding; the last is checked against conditioning the joint Gaussian of x
and z, which needs the inverse of the larger matrix C. (The text also says that columns of W are
scaled by :math:`\lambda_i - \sigma^2`: it is the root of that, as its own formula has it;
:doc:`/errata`.)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import eigengap as eg

X = StandardScaler().fit_transform(load_wine().data)
d, q = X.shape[1], 4
S = np.cov(X.T, ddof=0)
lam, U = np.linalg.eigh(S)
lam, U = lam[::-1], U[:, ::-1]
model = eg.PPCA(q).fit(X)
C = model.get_covariance()
along = np.einsum("ji,jk,ki->i", U, C, U)

fig, (left, right) = plt.subplots(1, 2)
left.plot(range(1, d + 1), lam, "o-", label="data, $\\lambda_i$")
left.plot(range(1, d + 1), along, "x", ms=8, mew=2, label="model, $u_i^\\top C u_i$")
left.axhline(model.noise_variance_, color="C1", ls=":", lw=1)
left.axvline(q + 0.5, color="#8a9099", ls=":", lw=1)
left.set(xlabel="eigenvector", ylabel="variance", title="wine, 4 of 13 retained")
left.legend()

# Directions between the subspace and what is left: a mixture of both.
rng = np.random.default_rng(0)
inside = U[:, :q] @ rng.normal(size=(q, 200))
outside = U[:, q:] @ rng.normal(size=(d - q, 200))
inside /= np.linalg.norm(inside, axis=0)
outside /= np.linalg.norm(outside, axis=0)
tilt = rng.uniform(0, np.pi / 2, 200)
v = np.cos(tilt) * inside + np.sin(tilt) * outside
right.scatter(np.degrees(tilt), np.einsum("ji,jk,ki->i", v, C, v), s=9, color="C1", label="model")
right.scatter(
    np.degrees(tilt),
    np.einsum("ji,jk,ki->i", v, S, v),
    s=9,
    marker="+",
    lw=0.7,
    color="C0",
    label="data",
)
right.axhline(model.noise_variance_, color="C1", ls=":", lw=1)
right.set(xlabel="degrees out of the subspace", ylabel="variance", title="any direction")
right.legend()

print(f"sigma2 {model.noise_variance_:.4f}, mean of the discarded eigenvalues {lam[q:].mean():.4f}")
assert np.allclose(along[:q], lam[:q])
assert np.allclose(along[q:], lam[q:].mean())
assert np.allclose(np.einsum("ji,jk,ki->i", outside, C, outside), model.noise_variance_)
assert np.allclose(
    np.linalg.norm(model.loadings_, axis=0), np.sqrt(lam[:q] - model.noise_variance_)
)

# %%
# E[z | x]: by M, 4 x 4, as in the text; by the joint Gaussian, whose C is 13 x 13; and by
# `transform`.

W, centred = model.loadings_, X - X.mean(axis=0)
M = W.T @ W + model.noise_variance_ * np.eye(q)
by_text = centred @ W @ np.linalg.inv(M)
joint = np.block([[np.eye(q), W.T], [W, W @ W.T + model.noise_variance_ * np.eye(d)]])  # of (z, x)
gain = joint[:q, q:] @ np.linalg.inv(joint[q:, q:])
given = joint[:q, :q] - gain @ joint[q:, :q]  # the covariance of z given x
print(f"E[z | x] by M and by the joint Gaussian: {abs(by_text - centred @ gain.T).max():.0e} apart")
assert np.allclose(by_text, centred @ gain.T, atol=1e-10)
assert np.allclose(by_text, model.transform(X), atol=1e-10)
assert np.allclose(given, model.noise_variance_ * np.linalg.inv(M), atol=1e-10)
