r"""
How to pick r
=============

000 section 2.4: "(1) drop in eigenspectrum (2) given a reconstruction error tolerance ε".

**Claim.** Pick the largest drop, or the smallest r that leaves a share of variance below ε.

**Result.** On a table of known rank the drop finds it while the signal is strong; the tolerance
answers another question and depends on ε alone. Where signals are weak, comparing with noise
(parallel analysis, the default here) is right more often: :doc:`/rank` counts it.
"""

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg


def table(strength, seed):
    rng = np.random.default_rng(seed)
    axes, _ = np.linalg.qr(rng.normal(size=(20, 4)))
    signal = rng.normal(size=(300, 4)) * np.sqrt(strength * np.array([5.0, 3.5, 2.0, 1.0]))
    return signal @ axes.T + rng.normal(size=(300, 20))


criteria = ["eigengap", "tolerance", "deflated_parallel_analysis"]
names = ("largest drop", "tolerance 5 %", "compared with noise")
strengths = (0.7, 1.5, 3.0, 8.0, 20.0)
hits = np.zeros((len(strengths), 3))
for i, strength in enumerate(strengths):
    for seed in range(20):
        choice = eg.choose_rank(table(strength, seed), criteria=criteria, random_state=0)
        hits[i] += [choice.criteria[c] == 4 for c in criteria]
hits /= 20

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
for k, name in enumerate(names):
    right.plot(strengths, hits[:, k], "o-", ms=4, label=name)
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
assert hits[-1, 0] > 0.9
assert (hits[:, 2] >= hits[:, 0]).all()
assert hits[1:, 2].min() >= 0.8
