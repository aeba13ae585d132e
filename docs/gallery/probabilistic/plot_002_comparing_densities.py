r"""
Comparing densities
===================

002 section 1.

**Claim.** "The corresponding likelihood would permit comparison with other density-estimation
techniques and facilitate statistical testing."

**Result.** It does: PPCA of growing rank, factor analysis and Gaussian mixtures on the same
folds, and a test of equal noise between PPCA and factor analysis. On wine, which has three
clusters, mixtures are ahead of any single PPCA; the mixture with full covariances has the highest
density of new rows and cannot fill cells, the mixture of PPCA does both.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import eigengap as eg

X = StandardScaler().fit_transform(load_wine().data)
models = [eg.PPCA(q) for q in (1, 2, 3, 5, 8)] + [
    eg.FactorAnalysis(2),
    eg.MixturePPCA(3, 2, random_state=0),
    GaussianMixture(3, random_state=0),
]
names = [f"PPCA, q = {q}" for q in (1, 2, 3, 5, 8)] + [
    "factor analysis, q = 2",
    "mixture of 3 PPCA",
    "mixture of 3, full",
]
result = eg.compare(dict(zip(names, models, strict=True)), X, cv=5, random_state=0)
print(result)

fig, ax = plt.subplots(figsize=(7.5, 3.4))
value = dict(zip(result.names, result.log_likelihood, strict=True))
order = sorted(value, key=value.get)
ax.barh(order, [value[name] - min(value.values()) for name in order], color="C0")
ax.set(xlabel="held-out nats a row above the worst", title="wine, standardised, 5 folds")

test = eg.likelihood_ratio_test(eg.PPCA(2), eg.FactorAnalysis(2), X)
print(f"is the noise the same in every column? p = {test.p_value:.1e}")
assert test.p_value < 1e-6
assert value["mixture of 3 PPCA"] > max(v for name, v in value.items() if name.startswith("PPCA"))
assert np.isfinite(list(value.values())).all()
