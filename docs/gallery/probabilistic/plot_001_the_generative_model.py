r"""
The generative model
====================

000 section 5, 001 and 004 section 3.1 ("taking an isotropic Gaussian 'spray can' and moving it
across the principle subspace spraying Gaussian ink").

**Claim.** :math:`z \sim N(0, I)`, :math:`x \mid z \sim N(W z + \mu, \sigma^2 I)`; marginally
:math:`x \sim N(\mu, W W^\top + \sigma^2 I)`.

**Result.** Drawn, and checked against many samples. A fit to them finds :math:`\sigma^2`, and W
up to a rotation of the latent space, which leaves :math:`W W^\top` and so the density as it is
(004). With one latent that is a sign; with two it is shown at the end.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle, Ellipse
from scipy.linalg import orthogonal_procrustes

import eigengap as eg

truth = eg.LinearGaussian(W=[[2.0], [1.0]], mu=[1.0, 1.0], psi=[0.25, 0.25])
z = np.linspace(-3, 3, 400)
line = z[:, None] * truth.W.T + truth.mu

fig, (a, b, c) = plt.subplots(1, 3, figsize=(9, 2.55))
a.fill_between(z, np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), alpha=0.35)
a.axvline(0.8, color="C1")
a.set(xlabel="z", ylabel="density", ylim=0, box_aspect=2 / 3, title="1. pick z from N(0, 1)")
b.plot(*line.T, color="#8a9099")
spot = np.array([0.8]) @ truth.W.T + truth.mu
for reach in (1, 2):
    b.add_patch(Circle(spot, 0.5 * reach, color="C1", alpha=0.25, lw=0))
b.plot(*spot, "o", color="C1", ms=4)
b.set(title="2. go to W z + μ, spray with σ", xlim=(-6.5, 8.5), ylim=(-4, 6), aspect="equal")
X = truth.sample(600, np.random.default_rng(0))
c.scatter(*X.T, s=5)
C = truth.covariance()
lam, U = np.linalg.eigh(C)
for reach in (1, 2, 3):
    width, height = 2 * reach * np.sqrt(lam[::-1])
    c.add_patch(
        Ellipse(
            truth.mu,
            width,
            height,
            angle=np.degrees(np.arctan2(U[1, 1], U[0, 1])),
            fill=False,
            color="C1",
        )
    )
c.set(title="3. many: N(μ, WWᵀ + σ²I)", xlim=(-6.5, 8.5), ylim=(-4, 6), aspect="equal")

for ax in (b, c):
    ax.set(xlabel="$x_1$", ylabel="$x_2$")

# %%
# Is the marginal covariance what the formula says, and does a fit find its way back?

many = truth.sample(200_000, np.random.default_rng(1))
fit = eg.PPCA(1).fit(many)
print("W W' + sigma2 I:\n", C.round(3), "\nof 200 000 samples:\n", np.cov(many.T).round(3))
print(f"sigma2 = 0.25, fitted {fit.noise_variance_:.4f}")
print(f"W = (2, 1), fitted {fit.loadings_[:, 0].round(3)}")
assert np.allclose(np.cov(many.T), C, atol=0.05)
assert abs(fit.noise_variance_ - 0.25) < 0.005
assert np.allclose(abs(fit.loadings_), abs(truth.W), atol=0.02)

# %%
# Two latents in five dimensions. W R has the same covariance for any rotation R; a fit finds one
# of these, and after the best R it is W again.

W = np.random.default_rng(2).normal(size=(5, 2))
plane = eg.LinearGaussian(W=W, mu=np.zeros(5), psi=np.full(5, 0.25))
turn = np.radians(40)
R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
turned = eg.LinearGaussian(W=W @ R, mu=np.zeros(5), psi=np.full(5, 0.25))
rows = plane.sample(200_000, np.random.default_rng(3))
fit = eg.PPCA(2).fit(rows)
back, _ = orthogonal_procrustes(fit.loadings_, W)
print(f"W R against W: {abs(W @ R - W).max():.2f} apart, their covariances ", end="")
print(f"{abs(turned.covariance() - plane.covariance()).max():.0e}")
print(f"fitted W {abs(fit.loadings_ - W).max():.2f} from W, ", end="")
print(f"after a rotation {abs(fit.loadings_ @ back - W).max():.3f}")
assert np.allclose(turned.covariance(), plane.covariance(), atol=1e-12)
assert np.allclose(turned.covariance(), W @ W.T + 0.25 * np.eye(5))
assert abs(W @ R - W).max() > 0.5
assert abs(fit.loadings_ - W).max() > 0.1
assert np.allclose(fit.loadings_ @ back, W, atol=0.02)
