"""Agreement with R on R's own data sets, computed live."""

import io
import subprocess

import numpy as np
import pytest
from scipy.optimize import minimize
from tests import dense

import eigengap as eg

pytestmark = pytest.mark.needs_r


def r(code: str) -> np.ndarray:
    """The matrix that R prints as CSV."""
    script = f"write.table({code}, sep=',', row.names=FALSE, col.names=FALSE, quote=FALSE)"
    out = subprocess.run(
        ["Rscript", "-e", f"options(digits=15); {script}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return np.atleast_2d(np.genfromtxt(io.StringIO(out), delimiter=","))


def test_prcomp_of_scaled_arrests():
    X = r("USArrests")
    sd = r("prcomp(USArrests, scale.=TRUE)$sdev").ravel()
    np.testing.assert_allclose(sd, [1.5749, 0.9949, 0.59713, 0.41645], rtol=1e-4)  # scorecard
    # R scales by the standard deviation at divisor n - 1, we by that at n: the same axes, and
    # variances n / (n - 1) larger at divisor n - 1.
    model = eg.PCA(scale=True).fit(X)
    np.testing.assert_allclose(model.explained_variance_ * 49 / 50, sd**2, rtol=1e-10)
    axes = r("prcomp(USArrests, scale.=TRUE)$rotation")
    np.testing.assert_allclose(np.abs(model.components_.T), np.abs(axes), atol=1e-8)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_factanal(q):
    X = r("mtcars[, 1:7]")
    ours = eg.FactorAnalysis(q).fit(X)
    uniqueness = r(f"factanal(mtcars[, 1:7], {q}, rotation='none', lower=1e-6)$uniquenesses")
    share = ours.noise_variance_ / X.var(axis=0)
    np.testing.assert_allclose(share, uniqueness.ravel(), atol=2e-3)
    # factanal works on correlations: its discrepancy is ln|C| - ln|S| + tr C^-1 S - d.
    objective = r(
        f"factanal(mtcars[, 1:7], {q}, rotation='none', lower=1e-6)$criteria['objective']"
    ).item()
    S = np.corrcoef(X.T)
    C = ours.get_covariance() / np.outer(X.std(axis=0), X.std(axis=0))
    reached = np.linalg.slogdet(C)[1] - np.linalg.slogdet(S)[1]
    reached += np.trace(np.linalg.solve(C, S)) - 7
    assert reached <= objective + 1e-6


def test_varimax_of_factanal():
    X = r("mtcars[, 1:7]")
    theirs = r("unclass(factanal(mtcars[, 1:7], 2, lower=1e-6)$loadings)")
    ours = eg.FactorAnalysis(2, rotation="varimax", kaiser=True).fit(X)
    loadings = ours.loadings_ / X.std(axis=0)[:, None]
    for column in theirs.T:
        closest = min(
            np.abs(sign * loadings - column[:, None]).max(axis=0).min() for sign in (1, -1)
        )
        assert closest < 5e-3


def test_pca_methods_ppca_ends_below_our_maximum():
    """002 Eqs. 43-45: one covariance for all rows is not the observed-data likelihood."""
    X = r("{set.seed(1); X <- as.matrix(iris[, 1:4]); X[sample(600, 120)] <- NA; X}")
    code = (
        "{library(pcaMethods); set.seed(1); X <- as.matrix(iris[, 1:4]); X[sample(600, 120)] <- NA;"
        " p <- pca(X, method='ppca', nPcs=2, seed=1, threshold=1e-10); cbind(p@loadings, p@center)}"
    )
    found = r(f"suppressPackageStartupMessages({code})")
    axes, mean = np.linalg.qr(found[:, :2])[0], found[:, 2]

    def loss(logs):  # of the density with these axes and this mean, variances free
        sigma2, *more = np.exp(logs)
        C = (axes * more) @ axes.T + sigma2 * np.eye(4)
        return -dense.log_likelihood(X, mean, C).sum()

    best = minimize(loss, np.log([0.05, 4.0, 0.2]), method="Nelder-Mead", options={"xatol": 1e-3})
    assert eg.PPCA(2, tol=1e-8).fit(X).log_likelihood_ > -best.fun + 0.1


@pytest.mark.parametrize("rotation", ["varimax", "promax"])
@pytest.mark.parametrize("scale", [False, True])
def test_rotations_of_factanal_are_of_correlations(rotation, scale):
    """Boston's columns have standard deviations from 0.1 to 170: R rotates standardised loadings"""
    X = r("MASS::Boston")
    theirs = r(f"unclass(factanal(MASS::Boston, 3, rotation='{rotation}')$loadings)")
    ours = eg.FactorAnalysis(3, rotation=rotation, kaiser=True, scale=scale).fit(X)
    loadings = ours.loadings_ / X.std(axis=0)[:, None]
    overlap = theirs.T @ loadings
    order = np.argmax(np.abs(overlap), axis=1)
    assert sorted(order) == [0, 1, 2]
    signs = np.sign(overlap[np.arange(3), order])
    np.testing.assert_allclose(loadings[:, order] * signs, theirs, atol=5e-3)
