r"""
The EM algorithm, as printed and as maximum likelihood
======================================================

003, "EM for probabilistic PCA".

**Claim.** Iterating the E-step and
:math:`W = [\sum_i x_i \mu_i^\top] [\sigma^2 I + \sum_i (\mu_i \mu_i^\top + \Sigma_i)]^{-1}`
maximises :math:`\sum_i \ln p(x_i \mid W)`.

**Result.** Almost. The :math:`\sigma^2 I` makes it the maximum *a posteriori* under
:math:`W_{ij} \sim N(0, 1)`, and the likelihood ends a little below its maximum (:doc:`/errata`);
`PPCA` has it as ``loading_precision=1``. Without it the likelihood never falls and ends at the
closed form.
"""

import matplotlib.pyplot as plt
import numpy as np

import eigengap as eg

rng = np.random.default_rng(0)
n, d, K, sigma2 = 60, 8, 2, 0.5
X = rng.normal(size=(n, K)) @ rng.normal(size=(K, d)) * 1.5 + np.sqrt(sigma2) * rng.normal(
    size=(n, d)
)


def log_likelihood(W):
    C = sigma2 * np.eye(d) + W @ W.T
    return -0.5 * (
        n * (d * np.log(2 * np.pi) + np.linalg.slogdet(C)[1])
        + np.trace(np.linalg.solve(C, X.T @ X))
    )


def em(prior, steps=200):
    W = np.random.default_rng(1).normal(size=(d, K))
    trace = [log_likelihood(W)]
    for _ in range(steps):
        Sigma = np.linalg.inv(np.eye(K) + W.T @ W / sigma2)
        mu = X @ W @ Sigma / sigma2
        W = X.T @ mu @ np.linalg.inv(prior * sigma2 * np.eye(K) + mu.T @ mu + n * Sigma)
        trace.append(log_likelihood(W))
    return W, np.array(trace)


printed, by_printed = em(prior=1.0)
plain, by_plain = em(prior=0.0)
options = {"fit_mean": False, "noise_variance": sigma2, "tol": 1e-10}
ml = eg.PPCA(K, **options).fit(X)
mapped = eg.PPCA(K, loading_precision=1.0, **options).fit(X)
highest = log_likelihood(ml.loadings_)

fig, ax = plt.subplots()
ax.semilogy(highest - by_plain + 1e-12, label="without $\\sigma^2 I$: maximum likelihood")
ax.semilogy(highest - by_printed + 1e-12, label="as printed: maximum a posteriori")
ax.set(
    xlabel="step",
    ylabel="nats below the maximum",
    title="log-likelihood of both, 60 x 8, K = 2",
    ylim=(1e-10, None),
)
ax.legend()

print(f"the printed M-step ends {highest - by_printed[-1]:.3f} nats below the maximum")
apart = abs(printed @ printed.T - mapped.loadings_ @ mapped.loadings_.T).max()
print(f"largest difference of W W' to PPCA with loading_precision=1: {apart:.1e}")
assert (np.diff(by_plain) > -1e-9).all()
assert highest - by_plain[-1] < 1e-6
assert highest - by_printed[-1] > 0.01
assert np.allclose(printed @ printed.T, mapped.loadings_ @ mapped.loadings_.T, atol=1e-4)
