r"""
One unit vector for a cloud of points
=====================================

003, "Principal component analysis": points, a line through them, and a red dot for each on the
line.

**Claim.** The unit vector :math:`q` that minimises :math:`\sum_i \|x_i - q q^\top x_i\|^2` is the
first eigenvector of :math:`X X^\top`, and what is left is the rest of the trace (000, Eqs. 2 to
4, 10).

**Result.** It is: of all directions tried none leaves less.
"""

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

rng = np.random.default_rng(1)
X = rng.normal(size=(40, 2)) @ [[2.0, 1.1], [0.0, 0.6]]
X -= X.mean(axis=0)
model = eg.PCA(1).fit(X)
q = model.components_[0]
dots = (X @ q)[:, None] * q

angles = np.linspace(0, np.pi, 361)
left_over = [((X - np.outer(X @ u, u)) ** 2).sum() for u in np.c_[np.cos(angles), np.sin(angles)]]

fig, (plane, curve) = plt.subplots(1, 2)
plane.plot(
    *np.stack([X, dots, np.full_like(X, np.nan)], axis=1).reshape(-1, 2).T, color="#8a9099", lw=0.8
)
plane.axline((0, 0), q, color="C0")
plane.scatter(*X.T, s=18, color="C0", label="$x_i$")
plane.scatter(*dots.T, s=14, color="C1", label="$(q^\\top x_i)\\, q$")
plane.set(aspect="equal", title="points and their projections")
plane.legend(loc="upper left")
curve.plot(np.degrees(angles), left_over)
at = np.degrees(np.arctan2(q[1], q[0])) % 180
curve.axvline(at, color="C1", ls=":")
curve.set(
    xlabel="angle of q, degrees",
    ylabel="squared error",
    ylim=0,
    title="every direction; dotted: the first eigenvector",
)

error = ((X - dots) ** 2).sum()
second = np.linalg.eigvalsh(X.T @ X)[0]
print(f"squared error {error:.4f}; the discarded eigenvalue of XX' {second:.4f}")
assert np.isclose(error, second)
assert error <= min(left_over) + 1e-9
