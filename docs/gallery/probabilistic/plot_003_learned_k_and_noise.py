r"""
K and σ² learned
================

003, comment on the algorithm.

**Claim.** "The probabilistic framework gives a way to learn K and σ² as well."

**Result.** It does. `BayesianPCA` starts with nine components for ten columns; on data with three
it switches off six, by the precision that each column of W has of its own (Bishop 1999), and
finds σ². Maximum likelihood has a σ² for every K, and its likelihood only grows with K: it cannot
choose.
"""

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

rng = np.random.default_rng(0)
n, d = 300, 10
X = (
    rng.normal(size=(n, d)) * np.r_[np.full(3, 1.0), np.full(7, 0.5)]
)  # sd 1 along three axes, 0.5 along seven
turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
X = X @ turn
incomplete = np.where(rng.random(X.shape) < 0.2, np.nan, X)

bayes = eg.BayesianPCA(random_state=0).fit(X)
with_missing = eg.BayesianPCA(random_state=0).fit(incomplete)
likelihoods = [eg.PPCA(q).fit(X) for q in range(1, 10)]

fig, (a, b, c) = plt.subplots(1, 3, figsize=(9, 3.1))
limit = abs(likelihoods[-1].loadings_).max()
for ax, W, title in (
    (a, likelihoods[-1].loadings_, "W by maximum likelihood, K = 9"),
    (b, bayes.loadings_, f"W by BayesianPCA: K = {bayes.n_components_}"),
):
    full = np.zeros((d, 9))
    full[:, : W.shape[1]] = W
    ax.imshow(full, cmap="PuOr", vmin=-limit, vmax=limit, aspect="auto")
    ax.set(
        title=title,
        xlabel="component",
        ylabel="column",
        xticks=[0, 2, 4, 6, 8],
        xticklabels=[1, 3, 5, 7, 9],
        yticks=[],
    )
c.plot(
    range(1, 10),
    [m.noise_variance_ for m in likelihoods],
    "o-",
    ms=4,
    label="σ² by maximum likelihood",
)
c.axhline(0.25, color="#8a9099", ls=":", label="the truth")
c.plot(bayes.n_components_, bayes.noise_variance_, "s", ms=8, label="BayesianPCA")
c.set(xlabel="K", ylim=0, title="noise variance")
c.legend(fontsize=8)

print(f"kept {bayes.n_components_} components, sigma2 {bayes.noise_variance_:.3f}")
print(f"a fifth missing: {with_missing.n_components_}, {with_missing.noise_variance_:.3f}")
print("the truth:       3, 0.25")
scores = [m.score(X) for m in likelihoods]
assert bayes.n_components_ == with_missing.n_components_ == 3
assert abs(bayes.noise_variance_ - 0.25) < 0.02
assert (np.diff(scores) > 0).all()
