r"""
Which eigenvectors? Maximum and saddle points
=============================================

002 section 3.2.

**Claim.** Every choice of q eigenvectors is a stationary point of the likelihood; the principal
ones are its maximum, "other combinations of eigenvectors (i.e. non-principal ones) correspond to
saddlepoints".

**Result.** Of the 84 choices of three of nine eigenvectors (the breast-cancer table) seven have a
W: the others keep an eigenvalue below the mean of the discarded ones, and Eq. 24 would be
imaginary. The principal choice is the highest by Eq. 28. The gradient (Eq. 18) vanishes at each,
and a small step off a non-principal one gains. Eq. 29 has lost a logarithm: with it the best
choice has the least E, as printed it does not say so (:doc:`/errata`).
"""

import itertools
from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

table = np.genfromtxt(
    files("eigengap") / "data" / "breast_cancer_wisconsin.csv", delimiter=",", skip_header=1
)
X = table[:, 1:10]
X = X[~np.isnan(X).any(axis=1)]
n, d, q = *X.shape, 3
S = np.cov(X.T, ddof=0)
lam, U = np.linalg.eigh(S)
lam, U = lam[::-1], U[:, ::-1]


def log_likelihood(C):
    return -0.5 * (
        d * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + np.trace(np.linalg.solve(C, S))
    )


found = []
for kept in itertools.combinations(range(d), q):
    rest = [k for k in range(d) if k not in kept]
    sigma2 = lam[rest].mean()
    spread = lam[list(kept)] - sigma2
    if (spread < 0).any():
        continue  # no real W
    W = U[:, kept] * np.sqrt(spread)
    C = W @ W.T + sigma2 * np.eye(d)
    Ci = np.linalg.inv(C)
    gradient = Ci @ S @ Ci @ W - Ci @ W  # Eq. 18 over N
    # A step towards the largest eigenvector that was left out.
    away = np.zeros_like(W)
    away[:, int(np.argmin(spread))] = U[:, min(rest)] * 0.05 * np.linalg.norm(W)
    stepped = W + away
    gain = log_likelihood(stepped @ stepped.T + sigma2 * np.eye(d)) - log_likelihood(C)
    E = np.log(lam[rest].mean()) - np.log(lam[rest]).mean()
    found.append((kept, log_likelihood(C), abs(gradient).max(), gain, E))

found.sort(key=lambda row: -row[1])
best = found[0]
closed = eg.PPCA(q).fit(X)
print(f"{len(found)} of 84 choices have a real W; the best keeps {[int(k) + 1 for k in best[0]]}")
print(f"log-likelihood a row {best[1]:.4f}; PPCA's closed form {closed.score(X):.4f}")
print(f"largest gradient at any of them {max(row[2] for row in found):.1e}")

fig, (left, right) = plt.subplots(1, 2)
labels = [",".join(str(k + 1) for k in row[0]) for row in found]
left.plot(labels, [row[1] for row in found], "o")
left.plot(labels[:1], [best[1]], "o", color="C1", ms=9)
left.set(xlabel="eigenvectors kept", ylabel="log-likelihood a row")
left.set_title("every choice that has a W")
right.plot([row[4] for row in found], [row[1] for row in found], "o")
right.set(
    xlabel="E, with its logarithm",
    ylabel="log-likelihood a row",
    title="the less E, the better (Eq. 29)",
)

assert best[0] == (0, 1, 2)
assert np.isclose(best[1], closed.score(X))
assert max(row[2] for row in found) < 1e-10
assert best[3] < 0
assert all(row[3] > 0 for row in found[1:] if min(set(range(d)) - set(row[0])) < max(row[0]))
assert min(found, key=lambda row: row[4])[0] == (0, 1, 2)
