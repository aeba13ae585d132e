r"""
Closed form against EM, in time
===============================

002 section 4.1, Figures 2 and 3: seconds of the closed form and of EM on the breast-cancer table,
q = 3.

**Claim.** "It shows that the EM algorithm used in PPCA is relatively faster than the closed form
... However, this advantage is not always hold. The difference between running time often depend
on the size of the data and the choice of q dimensions."

**Result.** Not so on that table, nor as n, d and q grow: on a quiet machine the closed form is
faster than the EM of eigengap, and far faster than textbook EM (Eqs. 41 and 42) from a random
start that needs many steps; on a busy one single points of the figure may say otherwise. The 6.91
µs of Figure 2 look like ``%time`` on a line of its own, which times nothing (:doc:`/errata`). The
EM of eigengap starts from the leading eigenvectors of the covariance, which on complete data is
the closed form's answer, and confirms it in two or three steps.

The second half of the claim holds: the steps of textbook EM depend on the data and on q. Near the
maximum an error shrinks in every step by the larger of two factors. One is
:math:`\lambda_{q+1} / \lambda_q`, of the directions; the other :math:`1 - 2 s (1 - s)` with
:math:`s = \sigma^2 / \lambda_j`, of the lengths, here about
:math:`1 - 2 \sigma^2 / \lambda_1`. It is the lengths that take long, of *strong* components in
little noise: about 5300 steps where :math:`\lambda_1` is 2000 times :math:`\sigma^2`, with a wide
gap at the q-th. A narrow one, :math:`\lambda_q / \lambda_{q+1} = 1.13`, needs about 100.

The text runs on 699 rows with 16 gaps, all in one column. The closed form needs complete rows, so
that all three are compared on 683; EM of all 699 is printed beside it. Times are
processor time on one thread, on the machine that built this page; :doc:`/project/benchmarks` has
seconds of a quiet one. What is checked below are the steps.
"""

import time
from importlib.resources import files

import matplotlib.pyplot as plt
import numpy as np
from threadpoolctl import threadpool_limits

import eigengap as eg

LIMIT = 10_000  # steps of textbook EM before it is given up


def textbook_em(X, q, tol=1e-6):
    """002, Eqs. 41 and 42, until W moves by less than tol of its size; steps and last factor."""
    S = np.cov(X.T, ddof=0)
    d = len(S)
    W, sigma2, moved = np.random.default_rng(0).normal(size=(d, q)), 1.0, np.inf
    steps = 0
    while steps < LIMIT:
        steps += 1
        M = W.T @ W + sigma2 * np.eye(q)
        SW = S @ W
        new = SW @ np.linalg.inv(sigma2 * np.eye(q) + np.linalg.solve(M, W.T @ SW))
        sigma2 = np.trace(S - SW @ np.linalg.solve(M, new.T)) / d
        before, moved, W = moved, np.linalg.norm(new - W), new
        if moved < tol * np.linalg.norm(W):
            break
    return steps, moved / before


def factors(X, q):
    """By how much a step shrinks errors of the directions, and of the lengths of W."""
    lam = np.linalg.eigvalsh(np.cov(X.T, ddof=0))[::-1]
    s = lam[q:].mean() / lam[:q]
    return lam[q] / lam[q - 1], np.max(1 - 2 * s * (1 - s))


def seconds(work):
    """Processor time, the least of up to 30 runs within 0.15 s: a busy machine only adds to it."""
    best, spent, runs = np.inf, 0.0, 0
    with threadpool_limits(1):  # threads that wait for each other would count too
        while runs == 0 or (spent < 0.15 and runs < 30):
            start = time.process_time()
            result = work()
            took = time.process_time() - start
            best, spent, runs = min(best, took), spent + took, runs + 1
    return best, result


def row(X, q):
    closed, model = seconds(lambda: eg.PPCA(q, solver="closed_form").fit(X))
    em, ours = seconds(lambda: eg.PPCA(q, solver="em").fit(X))
    book, (steps, factor) = seconds(lambda: textbook_em(X, q))
    assert np.isclose(model.log_likelihood_, ours.log_likelihood_, rtol=1e-6)  # the same maximum
    assert ours.n_iter_ <= 3
    assert steps < LIMIT
    return {
        "ms": [1e3 * closed, 1e3 * em, 1e3 * book],
        "steps": steps,
        "em_steps": ours.n_iter_,
        "factor": factor,
        "expected": factors(X, q),
    }


def table(n, d, q=5, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, q)) * np.linspace(3, 1.5, q)) @ rng.normal(
        size=(q, d)
    ) + rng.normal(size=(n, d))


cells = np.genfromtxt(
    files("eigengap") / "data" / "breast_cancer_wisconsin.csv", delimiter=",", skip_header=1
)[:, 1:10]
complete = cells[~np.isnan(cells).any(axis=1)]
WAYS = ("closed form", "EM of eigengap", "textbook EM")
for solver in ("closed_form", "em"):
    eg.PPCA(3, solver=solver).fit(complete)  # the first fit also loads what it needs
cancer = row(complete, 3)
with_missing, incomplete = seconds(lambda: eg.PPCA(3).fit(cells))
times = ", ".join(f"{name} {ms:.1f} ms" for name, ms in zip(WAYS, cancer["ms"], strict=True))
print(f"breast cancer, {len(complete)} complete rows, q = 3: {times}")
print(f"steps: EM of eigengap {cancer['em_steps']}, textbook EM {cancer['steps']}")
print(
    f"all {len(cells)} rows, {np.isnan(cells).sum()} cells missing: EM of eigengap "
    f"{1e3 * with_missing:.1f} ms, {incomplete.n_iter_} steps"
)

# %%
# As the table grows.

grids = {
    "n, at d = 30, q = 5": [(n, row(table(n, 30), 5)) for n in (300, 1000, 3000, 10000)],
    "d, at n = 1000, q = 5": [(d, row(table(1000, d), 5)) for d in (10, 30, 100, 200)],
    "q, at n = 1000, d = 60": [(q, row(table(1000, 60, q=20), q)) for q in (1, 3, 8, 20)],
}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.4), sharey=True)
for ax, (name, rows) in zip(axes, grids.items(), strict=True):
    sizes = [size for size, _ in rows]
    for k, (label, mark) in enumerate(zip(WAYS, ("o-", "s-", "^-"), strict=True)):
        ax.loglog(sizes, [found["ms"][k] for _, found in rows], mark, ms=4, label=label)
    ax.set(xlabel=name)
    ax.set_xticks(sizes, [str(s) for s in sizes])
    ax.minorticks_off()
axes[0].set(ylabel="milliseconds of one processor")
axes[0].legend()

# %%
# Steps of textbook EM, and the factor of its last step against the larger of the two that theory
# gives: from directions, and from lengths.

print("                            steps  last factor  directions  lengths")
every = [("breast cancer, q = 3", cancer)] + [
    (f"{name.split(',')[0]} = {size}{name.split(',', 1)[1]}", found)
    for name, rows in grids.items()
    for size, found in rows
]
for name, found in every:
    directions, lengths = found["expected"]
    print(
        f"{name[:27]:27s} {found['steps']:5d} {found['factor']:12.4f} {directions:11.4f} "
        f"{lengths:8.4f}"
    )
slack = np.array([found["factor"] for _, found in every])
theory = np.array([max(found["expected"]) for _, found in every])
assert (abs((1 - slack) / (1 - theory) - 1) < 0.2).all()
by_q, by_d = dict(grids["q, at n = 1000, d = 60"]), dict(grids["d, at n = 1000, q = 5"])
assert 1 / by_q[8]["expected"][0] < 1.2  # a narrow gap
assert by_q[8]["steps"] < 150
assert 1 / by_d[200]["expected"][0] > 100  # a wide one
assert 4500 < by_d[200]["steps"] < 6000
assert 1800 < 2 / (1 - by_d[200]["expected"][1]) < 2200  # lambda_1 / sigma2, nearly
assert (np.diff([found["steps"] for found in by_d.values()]) > 0).all()
assert cancer["steps"] > 50
assert np.isnan(cells).sum(axis=0).tolist() == [0, 0, 0, 0, 0, 16, 0, 0, 0]
assert incomplete.n_iter_ < 30
