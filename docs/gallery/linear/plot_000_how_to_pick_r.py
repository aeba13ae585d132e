r"""
How to pick r
=============

000 section 2.4: "(1) drop in eigenspectrum (2) ... given a reconstruction error tolerance ε, pick
r s.t." the share of the discarded eigenvalues is below ε.

**Claim.** Pick r at the drop, or the smallest r that leaves a share of variance below ε.

**Result.** A drop is a difference of two eigenvalues. The largest difference finds a known rank
only where the components are of like strength; where they are not it stops between the first
ones, here at every strength. The largest *ratio*, which is what `choose_rank` calls "eigengap",
finds both while the signal is strong. The tolerance answers another question: its r follows from
ε and from how much noise there is. Where signals are weak, comparing with noise (parallel
analysis, the default here) is right more often, 80 % against 0 and 100 % against 70 % in the two
weakest cases: :doc:`/rank` counts it.
"""

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

UNLIKE, ALIKE = (5.0, 3.5, 2.0, 1.0), (1.0, 1.0, 1.0, 1.0)
EPS = 0.05


def table(strength, seed, variances=UNLIKE):
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(20, 4)))
    signal = rng.normal(size=(300, 4)) * np.sqrt(strength * np.array(variances))
    return signal @ axes.T + rng.normal(size=(300, 20))


def picks(X):
    """r by each rule."""
    lam = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    criteria = ["eigengap", "tolerance", "deflated_parallel_analysis"]
    choice = eg.choose_rank(X, criteria=criteria, tolerance=EPS, random_state=0).criteria
    left = 1 - np.cumsum(lam) / lam.sum()  # by 1, 2, ... components
    assert left[choice["tolerance"] - 1] < EPS <= left[choice["tolerance"] - 2]
    assert choice["eigengap"] == 1 + np.argmax(lam[:10] / lam[1:11])
    return [1 + np.argmax(lam[:-1] - lam[1:]), *(choice[c] for c in criteria)]


names = ("largest difference", "largest ratio", "tolerance 5 %", "compared with noise")
strengths = (0.7, 1.5, 3.0, 8.0, 20.0)
found = np.array([[picks(table(strength, seed)) for seed in range(20)] for strength in strengths])
alike = np.array([picks(table(8.0, seed, ALIKE)) for seed in range(20)])
hits = (found == 4).mean(axis=1)

fig, (left, right) = plt.subplots(1, 2)
for strength, mark in ((0.7, "o-"), (8.0, "s-")):
    left.plot(
        range(1, 21),
        eg.PCA().fit(table(strength, 0)).explained_variance_,
        mark,
        ms=4,
        label=f"strength {strength:g}",
    )
left.axvline(4.5, color="#8a9099", ls=":")
left.set(xlabel="component", ylabel="eigenvalue", yscale="log", title="four components and noise")
left.legend()
for k, (name, mark, size) in enumerate(zip(names, "sovo", (8, 4, 4, 4), strict=True)):
    right.plot(strengths, hits[:, k], f"{mark}-", ms=size, label=name)
right.set(
    xscale="log",
    xlabel="strength of the weakest, noise = 1",
    ylabel="share of tables with r = 4",
    ylim=(-0.03, 1.03),
)
right.set_xticks(strengths, [f"{s:g}" for s in strengths])
right.legend(loc="center right")

for strength, row in zip(strengths, hits, strict=True):
    print(
        f"strength {strength:4g}: "
        + ", ".join(f"{n} {h:.0%}" for n, h in zip(names, row, strict=True))
    )
print("four of strength 8 each:")
print(
    "  " + ", ".join(f"{n} {h:.0%}" for n, h in zip(names, (alike == 4).mean(axis=0), strict=True))
)
kept = {strength: rows[:, 2] for strength, rows in zip(strengths, found, strict=True)}
print(f"r by tolerance: {kept[0.7].min()} to {kept[0.7].max()} at strength 0.7, ", end="")
print(f"{kept[20.0].min()} to {kept[20.0].max()} at 20")
generous = [
    eg.choose_rank(table(20.0, seed), criteria=["tolerance"], tolerance=0.1).criteria["tolerance"]
    for seed in range(20)
]
difference, ratio, tolerance, noise = hits.T
assert (found[:, :, 0] <= 2).all()  # after the first component or the second
assert (alike[:, 0] == 4).all()
assert (alike[:, 1] == 4).all()
assert (ratio[2:] == 1).all()
assert (found[:, :, 2] > 4).all()
assert kept[20.0].max() < 10 < kept[0.7].min()
assert (np.array(generous) == 4).all()  # at 10 %
assert ratio[0] <= 0.1
assert noise[0] >= 0.7
assert ratio[1] <= 0.8
assert (noise[1:] == 1).all()
