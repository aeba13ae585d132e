r"""
Which eigenvectors? Maximum and saddle points
=============================================

002 section 3.2.

**Claim.** Every choice of q eigenvectors is a stationary point of the likelihood; the principal
ones are its maximum, "Other combinations of eigenvectors (i.e. non-principal ones) correspond to
saddlepoints", and W = 0 is "a minimum".

**Result.** Of the 84 choices of three of nine eigenvectors (the breast-cancer table) seven have a
W: the others keep an eigenvalue below the mean of the discarded ones, and Eq. 24 would be
imaginary. The gradient (Eq. 18) vanishes at each of the seven. Eq. 28 is their likelihood, and
the principal choice its highest; no step off that gains. The other six are saddles: towards a
better eigenvector the likelihood rises, along W itself it falls. So is W = 0, which is no
minimum: it rises along eigenvectors above the mean eigenvalue and falls along the others. Eq. 29
has lost a logarithm: with it the principal choice has the least E; as printed E is negative, and
least where the likelihood of the seven is lowest (:doc:`/errata`).
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


def model(W, sigma2):
    return W @ W.T + sigma2 * np.eye(d)


def gain(W, step, sigma2):
    return log_likelihood(model(W + step, sigma2)) - log_likelihood(model(W, sigma2))


found = []
for kept in itertools.combinations(range(d), q):
    rest = [k for k in range(d) if k not in kept]
    sigma2 = lam[rest].mean()
    spread = lam[list(kept)] - sigma2
    if (spread < 0).any():
        continue  # no real W
    W = U[:, kept] * np.sqrt(spread)
    Ci = np.linalg.inv(model(W, sigma2))
    small = 0.05 * np.linalg.norm(W)
    across = np.zeros_like(W)  # a step towards the largest eigenvector that was left out
    across[:, int(np.argmin(spread))] = U[:, min(rest)] * small
    found.append(
        {
            "kept": kept,
            "W": W,
            "sigma2": sigma2,
            "L": log_likelihood(model(W, sigma2)),
            "Eq. 28": -0.5
            * (
                np.log(lam[list(kept)]).sum()
                + (d - q) * np.log(lam[rest].mean())
                + d * np.log(2 * np.pi)
                + d
            ),
            "gradient": abs(Ci @ S @ Ci @ W - Ci @ W).max(),  # Eq. 18 over N
            "across": gain(W, across, sigma2),
            "along": gain(W, 0.05 * W, sigma2),
            "E": np.log(lam[rest].mean()) - np.log(lam[rest]).mean(),
            "E, as printed": np.log(lam[rest].mean()) - lam[rest].mean(),
        }
    )

found.sort(key=lambda one: -one["L"])
best, others = found[0], found[1:]
closed = eg.PPCA(q).fit(X)
print(f"{len(found)} of 84 choices have a real W; the best keeps {[k + 1 for k in best['kept']]}")
print(f"log-likelihood a row {best['L']:.4f}; PPCA's closed form {closed.score(X):.4f}")
print(f"largest gradient at any of them {max(one['gradient'] for one in found):.1e}")
print("kept       L        Eq. 28   step across  along W   E        E, as printed")
for one in found:
    print(
        f"{','.join(str(k + 1) for k in one['kept']):9s}{one['L']:9.4f}{one['Eq. 28']:10.4f}"
        f"{one['across']:+10.4f}{one['along']:+11.4f}{one['E']:9.4f}{one['E, as printed']:9.4f}"
    )

fig, (left, right) = plt.subplots(1, 2)
labels = [",".join(str(k + 1) for k in one["kept"]) for one in found]
left.plot(labels, [one["L"] for one in found], "o")
left.plot(labels[:1], [best["L"]], "o", color="C1", ms=9)
left.set(xlabel="eigenvectors kept", ylabel="log-likelihood a row")
left.set_title("every choice that has a W")
right.plot([one["E"] for one in found], [one["L"] for one in found], "o")
right.set(
    xlabel="E, with its logarithm",
    ylabel="log-likelihood a row",
    title="the less E, the better (Eq. 29)",
)

assert len(found) == 7
assert best["kept"] == (0, 1, 2)
assert np.isclose(best["L"], closed.score(X))
assert np.allclose([one["L"] for one in found], [one["Eq. 28"] for one in found])
assert max(one["gradient"] for one in found) < 1e-10
assert all(one["across"] > 0 > one["along"] for one in others)
assert min(found, key=lambda one: one["E"]) is best
assert min(one["E"] for one in found) > 0
assert min(found, key=lambda one: one["E, as printed"]) is found[-1]
assert max(one["E, as printed"] for one in found) < 0

# %%
# A maximum: of a thousand small steps off the principal choice, in W and in the noise, none
# gains.

rng = np.random.default_rng(0)
steps = [
    log_likelihood(
        model(
            best["W"] + 0.05 * rng.normal(size=(d, q)),
            best["sigma2"] * (1 + 0.02 * rng.normal()),
        )
    )
    - best["L"]
    for _ in range(1000)
]
print(f"gains of small steps: {min(steps):.1e} to {max(steps):.1e}")
assert max(steps) < 0

# %%
# Case 1, W = 0, with the noise that is best there, the mean of all eigenvalues.

zero, sigma2 = np.zeros((d, q)), lam.mean()
rise = []
for k in range(d):
    step = zero.copy()
    step[:, 0] = 0.5 * U[:, k]
    rise.append(gain(zero, step, sigma2))
print("W = 0, gain along each eigenvector: " + ", ".join(f"{g:+.4f}" for g in rise))
assert ((np.array(rise) > 0) == (lam > sigma2)).all()
assert rise[0] > 0 > rise[-1]
