"""The limit of no noise, against least squares and a dense Gaussian in rational arithmetic.

A noise variance of 0 is approached as epsilon u_j^2: the oracle takes epsilon = 1e-60 and loses no
digit, because it computes with fractions.
"""

import warnings
from fractions import Fraction
from math import log

import numpy as np
import pytest
from numpy.testing import assert_allclose

from eigengap import PCA, PPCA, LinearGaussian
from eigengap.exceptions import SingularModelError, UnboundedLikelihoodWarning
from eigengap.models.gaussian.mixture import MixtureOfLinearGaussians
from eigengap.models.gaussian.student import StudentLinearGaussian

EPSILON = Fraction(1, 10**60)


def fractions(A):
    return np.vectorize(Fraction, otypes=[object])(np.asarray(A, dtype=np.float64))


def solve(A, B):
    """A^-1 B in fractions, by Gauss and Jordan."""
    n = len(A)
    rows = [list(a) + list(b) for a, b in zip(A, B, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return np.array([row[n:] for row in rows], dtype=object).reshape(n, -1)


def determinant(A):
    rows, result = [list(a) for a in A], Fraction(1)
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k])
        if pivot != k:
            rows[k], rows[pivot], result = rows[pivot], rows[k], -result
        result *= rows[k][k]
        for i in range(k + 1, len(rows)):
            by = rows[i][k] / rows[k][k]
            rows[i] = [a - by * b for a, b in zip(rows[i], rows[k], strict=True)]
    return result


def rational(model, X):
    """Posterior means (n, q), covariances (n, q, q) and -2 ln p without its constant (n,)."""
    unit = np.ones(model.d) if model.noise_unit is None else model.noise_unit
    W, mu, psi = fractions(model.W), fractions(model.mu), fractions(model.psi)
    psi = np.where(model.psi > 0, psi, EPSILON * fractions(unit) ** 2)
    means, covs, energies = [], [], []
    for x in X:
        o = ~np.isnan(x)
        Wo, r = W[o], fractions(x[o]) - mu[o]
        C = Wo @ Wo.T + np.diag(psi[o])
        gain = solve(C, Wo).T if o.any() else np.zeros((model.q, 0), dtype=object)
        means.append(gain @ r)
        covs.append(fractions(np.eye(model.q)) - gain @ Wo)
        quadratic = r @ solve(C, r[:, None])[:, 0] if o.any() else Fraction(0)
        det = determinant(C)
        log_det = log(det.numerator) - log(det.denominator) if o.any() else 0.0
        energies.append(float(quadratic) + log_det)
    return np.array(means, float), np.array(covs, float), np.array(energies)


def holes(X, share, rng):
    return np.where(rng.random(X.shape) < share, np.nan, X)


W3 = np.array([[3.0, 0.0], [1.0, 1.0], [0.5, 2.0]])


# The model -----------------------------------------------------------------------------------


def test_the_projection_is_orthogonal():
    model = LinearGaussian(W=W3, mu=np.zeros(3), psi=np.zeros(3))
    x = np.array([1.0, 2.0, -1.0])
    expected = W3 @ np.linalg.lstsq(W3, x, rcond=None)[0]
    assert_allclose(model.project(x[None])[0], expected, atol=1e-14)
    assert_allclose(model.project(x[None])[0], [10 / 7, 2 / 7, -1 / 7], atol=1e-14)


@pytest.mark.parametrize("q", [1, 3, 5, 8])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_posterior_means_are_least_squares_of_least_norm(q, rank):
    """With missing values, fewer observed cells than components, and dependent loadings."""
    rng = np.random.default_rng(q * 10 + rank)
    W = rng.normal(size=(6, min(rank, q))) @ rng.normal(size=(min(rank, q), q))
    model = LinearGaussian(W=W, mu=rng.normal(size=6), psi=np.zeros(6))
    X = holes(rng.normal(size=(20, 6)) * 3, 0.4, rng)
    posterior = model.posterior(X)
    imputed, variance = model.conditional(X)
    for i, x in enumerate(X):
        o = ~np.isnan(x)
        inverse = np.linalg.pinv(W[o], rcond=1e-10) if o.any() else np.zeros((q, 0))
        z = inverse @ (x[o] - model.mu[o])
        S = np.eye(q) - inverse @ W[o]
        near = 1e-11 * max(1.0, np.linalg.norm(inverse, 2) if o.any() else 1.0)
        assert_allclose(posterior.mean[i], z, atol=near * 10)
        assert_allclose(posterior.cov[i], S, atol=near)
        assert_allclose(imputed[i], np.where(o, x, W @ z + model.mu), atol=near * 30)
        assert_allclose(variance[i], np.where(o, 0, np.diag(W @ S @ W.T)), atol=near * 30)
    filled = imputed - model.mu
    expected = filled @ np.linalg.pinv(W, rcond=1e-10).T @ W.T + model.mu
    assert_allclose(model.project(X), expected, atol=1e-8)


PSI = {
    "none": [0, 0, 0, 0, 0],
    "one": [0, 1, 0.5, 2, 0.3],
    "as many as components": [0, 0, 0.5, 2, 0.3],
    "contradicting": [0, 0, 0, 2, 0.3],
    "all but one": [0, 0, 0, 0, 1],
    "tiny beside none": [0, 1e-30, 1e-8, 1, 0],
}


@pytest.mark.parametrize("psi", PSI.values(), ids=PSI.keys())
@pytest.mark.parametrize("units", [None, [1, 2, 0.5, 4, 1]])
@pytest.mark.parametrize("dependent", [False, True])
def test_the_limit_is_the_rational_ones(psi, units, dependent):
    rng = np.random.default_rng(3)
    W = rng.integers(-4, 5, size=(5, 3)).astype(float)
    W[1] = 2 * W[0] if dependent else [1, 1, 1]
    model = LinearGaussian(W=W, mu=[1.0, -2, 0.5, 0, 3], psi=psi, noise_unit=units)
    X = np.round(4 * rng.normal(size=(12, 5))) / 4
    X[4:] = holes(X[4:], 0.4, rng)
    means, covs, energies = rational(model, X)
    posterior = model.posterior(X)
    assert_allclose(posterior.mean, means, atol=1e-11)
    assert_allclose(posterior.cov, covs, atol=1e-11)
    limit = model.log_likelihood_limit(X)
    has_density = np.isfinite(limit)
    cells = np.count_nonzero(~np.isnan(X), axis=1)
    expected = -0.5 * (cells * np.log(2 * np.pi) + energies)
    assert_allclose(limit[has_density], expected[has_density], rtol=1e-10, atol=1e-10)
    assert np.all(np.abs(expected[~has_density]) > 50)  # of the order of ln epsilon, or 1 / epsilon
    assert np.array_equal(np.sign(limit[~has_density]), np.sign(expected[~has_density]))
    assert np.all(np.abs(expected[has_density]) < 1e32)


@pytest.mark.parametrize("psi", PSI.values(), ids=PSI.keys())
@pytest.mark.parametrize("units", [None, [1, 2, 0.5, 4, 1]])
def test_the_projection_is_the_rational_one(psi, units):
    """Weighted least squares, in which cells without noise outweigh all others."""
    rng = np.random.default_rng(4)
    model = LinearGaussian(
        W=rng.integers(-4, 5, size=(5, 3)), mu=np.ones(5), psi=psi, noise_unit=units
    )
    X = np.round(4 * rng.normal(size=(6, 5))) / 4
    unit = np.ones(5) if units is None else units
    W, R = fractions(model.W), fractions(X - 1.0)
    noise = np.where(model.psi > 0, fractions(model.psi), EPSILON * fractions(unit) ** 2)
    weighted = W / noise[:, None]
    Z = solve(weighted.T @ W, weighted.T @ R.T)
    assert_allclose(model.project(X) - 1.0, (W @ Z).T.astype(float), atol=1e-11)


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1.0, 1e12, 1e150])
def test_an_exact_feature_may_be_in_any_unit(scale):
    """Features without noise that do not contradict each other: units do not matter."""
    rng = np.random.default_rng(5)
    W = rng.normal(size=(4, 3))
    plain = LinearGaussian(W=W, mu=np.zeros(4), psi=[0, 0, 0.5, 1.0])
    by = np.array([1.0, scale, 1.0, 1.0])
    scaled = LinearGaussian(W=W * by[:, None], mu=np.zeros(4), psi=[0, 0, 0.5, 1.0])
    X = holes(plain.sample(20, rng), 0.3, rng)
    assert_allclose(scaled.posterior_mean(X * by), plain.posterior_mean(X), rtol=1e-9, atol=1e-9)
    jacobian = np.log(scale) * ~np.isnan(X[:, 1])
    expected = plain.log_likelihood(X) - jacobian
    assert_allclose(scaled.log_likelihood(X * by), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_everything_is_continuous_at_zero(missing):
    """From the route of products to the limit itself, the distance to the limit falls as sigma2."""
    rng = np.random.default_rng(6)
    W = rng.normal(size=(7, 3))
    X = rng.normal(size=(15, 7)) * 2
    X = holes(X, 0.4, rng) if missing else X

    def outputs(sigma2):
        model = LinearGaussian(W=W, mu=np.ones(7), psi=np.full(7, sigma2))
        few = np.count_nonzero(~np.isnan(X), axis=1) <= 3
        return [
            model.posterior_mean(X),
            model.conditional(X)[1],
            model.project(X),
            model.canonical().W,
            model.log_likelihood(X[few]),
        ]

    limits = outputs(0.0)
    # As the noise rises z moves by about sigma2 over the square of the least singular value of W_o.
    least = min(np.linalg.svd(W[o])[1].min() for o in ~np.isnan(X) if o.any())
    for sigma2 in (1e-5, 1e-7, 1e-8, 1e-12, 1e-16, 1e-19, 1e-20, 1e-24, 1e-30, 1e-40):
        for found, limit in zip(outputs(sigma2), limits, strict=True):
            near = 1e-11 / least + 100 * sigma2 / least**3
            assert_allclose(found, limit, atol=near * max(1.0, np.max(np.abs(limit), initial=0.0)))


def test_both_routes_agree_where_one_takes_over():
    """At w^T w / psi of 1e7 the products hand over to the factorisation."""
    rng = np.random.default_rng(7)
    W = rng.normal(size=(6, 2))
    X = holes(rng.normal(size=(50, 6)), 0.3, rng)
    largest = np.max(np.sum(W**2, axis=1))
    found = []
    for ratio in (1e7 * (1 - 1e-9), 1e7 * (1 + 1e-9)):
        model = LinearGaussian(W=W, mu=np.zeros(6), psi=np.full(6, largest / ratio))
        found.append((model.posterior_mean(X), model.posterior(X).cov, model.log_likelihood(X)))
    for below, above in zip(*found, strict=True):
        assert_allclose(below, above, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("noise", [1e-18, 1e-21, 1e-24, 1e-40])
def test_a_missing_cell_inherits_the_noise_of_the_observed_ones(noise):
    """However small, it is w_j^2 psi_o / w_o^2 beside psi_j, and known to the digits of psi."""
    W = np.array([[1.0], [1.0], [100.0]])
    model = LinearGaussian(W=W, mu=np.zeros(3), psi=np.full(3, noise))
    variance = model.conditional(np.array([[0.5, np.nan, np.nan]]))[1][0, 1:]
    assert_allclose(variance / noise, [2.0, 10001.0], rtol=1e-12)
    # With a noisy cell beside the exact one, which moves the free direction as well.
    W = np.array([[1.0, 0.0], [0.3, 0.7], [0.0, 1e6], [5.0, 0.0]])
    model = LinearGaussian(W=W, mu=np.zeros(4), psi=np.array([noise, 0.1, 1e3, noise]))
    X = np.array([[0.5, -0.2, np.nan, np.nan]])
    assert_allclose(model.conditional(X)[1][0, 3] / noise, 26.0, rtol=1e-12)
    left = 1e12 / (1.0 + 0.49 / 0.1) + 1e3
    assert_allclose(model.conditional(X)[1][0, 2], left, rtol=1e-12)


@pytest.mark.parametrize("apart", [1e-3, 1e-1, 1.0, 10.0, 1e3, 1e6])
def test_noise_decides_between_cells_whose_loadings_hardly_differ(apart):
    """Noise that vanishes beside the loadings may be large beside the difference of two cells."""
    W = np.array([[1e11, 0.1 * apart], [1e11, 0.3 * apart]])
    model = LinearGaussian(W=W, mu=np.zeros(2), psi=np.ones(2))
    x = np.array([1e11, 1e11 + 2.0])
    wanted = -log(2 * np.pi) - 0.5 * rational(model, x[None])[2][0]
    assert_allclose(model.log_likelihood(x[None])[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("noise", [1e-17, 1e-18, 1e-22, 0.0])
def test_no_variance_is_below_that_of_the_noise(noise):
    """A missing cell that two observed ones determine, beside directions that they leave open."""
    plane = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for seed in range(20):
        axes = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        model = LinearGaussian(W=plane @ axes, mu=np.zeros(4), psi=np.full(4, noise))
        variance = model.conditional(np.array([[0.5, 0.7, np.nan, np.nan]]))[1][0]
        assert variance[2] >= noise


def test_forms_of_the_model_without_noise():
    rng = np.random.default_rng(8)
    model = LinearGaussian(W=W3, mu=[1.0, 2.0, 3.0], psi=np.zeros(3))
    X = rng.normal(size=(5, 3))
    assert_allclose(model.encoder().A, np.linalg.pinv(W3), atol=1e-14)
    turned = model.canonical()
    assert_allclose(turned.covariance(), model.covariance(), atol=1e-13)
    assert_allclose(turned.project(X), model.project(X), atol=1e-13)
    gram = turned.W.T @ turned.W
    assert_allclose(gram, np.diag(np.sort(np.linalg.svd(W3)[1] ** 2)[::-1]), atol=1e-13)
    x = np.array([4.0, np.nan, np.nan])
    rest = model.given(x)
    inverse = np.linalg.pinv(W3[:1])
    S = np.eye(2) - inverse @ W3[:1]
    assert_allclose(rest.mu, model.mu[1:] + W3[1:] @ inverse @ [3.0], atol=1e-14)
    assert_allclose(rest.covariance(), W3[1:] @ S @ W3[1:].T, atol=1e-14)
    draws = model.sample_conditional(np.tile([4.0, 2.5, np.nan], (10, 1)), rng)
    known = np.linalg.solve(W3[:2], [3.0, 0.5])
    assert_allclose(draws[:, 2], 3.0 + W3[2] @ known, atol=1e-13)
    axes, lam = model.principal_axes()
    assert_allclose((axes * lam) @ axes.T, model.covariance(), atol=1e-13)


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_precision_inverts_a_regular_covariance_in_any_units(scale):
    rng = np.random.default_rng(15)
    by = np.array([1.0, scale, 1.0, 1.0])
    W = rng.normal(size=(4, 3))
    model = LinearGaussian(W=W * by[:, None], mu=np.zeros(4), psi=[0, 0, 0, 0.5])
    expected = np.linalg.inv(W @ W.T + np.diag([0, 0, 0, 0.5]))
    assert_allclose(model.precision() * np.outer(by, by), expected, rtol=1e-9, atol=1e-9)


def test_canonical_form_of_a_mixed_model_is_the_limits():
    rng = np.random.default_rng(9)
    W, psi = rng.normal(size=(6, 4)), np.array([0, 0, 1, 0.5, 2, 0.3])
    limit = LinearGaussian(W=W, mu=np.zeros(6), psi=psi).canonical()
    near = LinearGaussian(W=W, mu=np.zeros(6), psi=psi + 1e-10 * (psi == 0)).canonical()
    assert_allclose(limit.W, near.W, atol=1e-8)
    assert_allclose(limit.covariance(), W @ W.T + np.diag(psi), atol=1e-13)


def test_units_follow_a_model_that_is_rescaled():
    """PCA of standardised columns is orthogonal in standardised units."""
    rng = np.random.default_rng(10)
    plain = LinearGaussian(W=W3, mu=np.zeros(3), psi=np.zeros(3))
    scale = np.array([100.0, 1.0, 0.01])
    scaled = plain.rescaled(scale, 5.0)
    X = holes(rng.normal(size=(20, 3)), 0.2, rng)
    assert_allclose(scaled.posterior_mean(X * scale + 5), plain.posterior_mean(X), atol=1e-9)
    expected = plain.project(X) * scale + 5.0
    assert_allclose((scaled.project(X * scale + 5) - expected) / scale, 0, atol=1e-9)
    two = scaled.marginal([2, 0])
    expected = plain.marginal([2, 0]).posterior_mean(X[:, [2, 0]])
    assert_allclose(two.posterior_mean((X * scale + 5)[:, [2, 0]]), expected, atol=1e-9)


def test_single_precision_rows():
    rng = np.random.default_rng(11)
    model = LinearGaussian(W=W3, mu=np.ones(3), psi=np.zeros(3))
    X = holes(rng.normal(size=(20, 3)).astype(np.float32), 0.2, rng)
    assert_allclose(model.posterior_mean(X.astype(np.float32)), model.posterior_mean(X), atol=1e-14)


@pytest.mark.parametrize("kind", ["mixture", "student"])
def test_kin_of_the_model_project_orthogonally(kind):
    rng = np.random.default_rng(12)
    plain = LinearGaussian(W=np.eye(3)[:, :2] + 1.0, mu=np.zeros(3), psi=np.zeros(3))
    X = rng.normal(size=(20, 3))
    if kind == "student":
        model = StudentLinearGaussian(W=plain.W, mu=plain.mu, psi=plain.psi, nu=4.0)
        assert_allclose(model.posterior_mean(X), X @ np.linalg.pinv(plain.W).T, atol=1e-13)
        assert_allclose(model.project(X), plain.project(X), atol=1e-13)
        assert np.all(model.row_weights(X) == 0.0)  # each row is infinitely far from the plane
        wider = StudentLinearGaussian(W=W3[:, :1], mu=plain.mu, psi=plain.psi, nu=4.0)
        with pytest.raises(SingularModelError):
            wider.conditional(np.array([[1.0, 2.0, np.nan]]))
        alone = wider.conditional(np.array([[1.0, np.nan, np.nan]]))[1]  # which has a density
        assert_allclose(alone, 0.0, atol=1e-14)
    else:
        few = X.copy()
        few[:, 0] = np.nan  # two cells and two components: each component has a density
        far = LinearGaussian(W=plain.W, mu=plain.mu + 50, psi=plain.psi)
        model = MixtureOfLinearGaussians(np.log([0.5, 0.5]), [plain, far])
        assert_allclose(model.project(few), plain.project(few), atol=1e-12)
        assert_allclose(model.conditional_mean(few), plain.conditional_mean(few), atol=1e-12)


# Estimators ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("case", ["PCA()", "PPCA(9)", "PPCA(2, noise_variance=0)"])
def test_new_rows_of_a_wide_table(case, scale, missing):
    rng = np.random.default_rng(13)
    X = rng.normal(size=(10, 40)) * np.geomspace(0.1, 10, 40)
    new = holes(rng.normal(size=(8, 40)) * np.geomspace(0.1, 10, 40), missing, rng)
    made = {
        "PCA()": PCA(scale=scale),
        "PPCA(9)": PPCA(9, scale=scale),
        "PPCA(2, noise_variance=0)": PPCA(2, noise_variance=0, scale=scale),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnboundedLikelihoodWarning)
        model = made[case].fit(X)
    unit = X.std(axis=0) if scale else np.ones(40)
    standard, rows = (X - X.mean(axis=0)) / unit, (new - X.mean(axis=0)) / unit
    q = model.n_components_
    U, s, _ = np.linalg.svd(standard.T, full_matrices=False)
    W = U[:, :q] * s[:q] / np.sqrt(len(X))
    expected, filled = np.empty((8, q)), rows.copy()
    for i, x in enumerate(rows):
        o = ~np.isnan(x)
        expected[i] = np.linalg.lstsq(W[o], x[o], rcond=None)[0]
        filled[i] = np.where(o, x, W @ expected[i])
    assert_allclose((model.impute(new) - X.mean(axis=0)) / unit, filled, atol=1e-9)
    best = filled @ U[:, :q] @ U[:, :q].T
    for kind in ("optimal", "posterior"):
        again = model.reconstruct(new, kind=kind)
        # Imputed cells lie on the plane, so that both are the nearest point to the observed ones.
        assert_allclose((again - X.mean(axis=0)) / unit, best, atol=1e-9)
    if isinstance(model, PPCA):
        fitted = model.model_.W / unit[:, None]
        turn = np.linalg.lstsq(W, fitted, rcond=None)[0]  # signs
        assert_allclose(model.transform(new) @ turn.T, expected, atol=1e-9)


@pytest.mark.parametrize("sigma2", [1e-8, 1e-12, 1e-16, 1e-20, 0.0])
def test_given_noise_tends_to_pca(sigma2):
    rng = np.random.default_rng(14)
    X = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    model, pca = PPCA(2, noise_variance=sigma2).fit(X), PCA(2).fit(X)
    error = np.mean(np.sum((X - model.reconstruct(X)) ** 2, axis=1))
    assert_allclose(error, pca.reconstruction_error(), rtol=1e-12 + 10 * sigma2)
    scores = pca.transform(X) / np.sqrt(pca.spectrum_.lam[:2])
    assert_allclose(model.transform(X), scores, atol=1e-12 + 10 * sigma2)


@pytest.mark.parametrize("options", [{}, {"scale": True}, {"distribution": "student"}])
@pytest.mark.parametrize("sigma2", [1e-3, 1e-8, 1e-14])
@pytest.mark.parametrize("missing", [False, True])
def test_the_likelihood_under_given_noise_is_that_of_the_rows(missing, sigma2, options):
    """Below the floor of the EM steps too."""
    rng = np.random.default_rng(16)
    X = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    X = holes(X, 0.2, rng) if missing else X
    weight = rng.integers(1, 4, size=60)
    model = PPCA(2, noise_variance=sigma2, **options).fit(X, sample_weight=weight)
    assert_allclose(model.log_likelihood_, weight @ model.score_samples(X), rtol=1e-8)


@pytest.mark.parametrize("options", [{}, {"scale": True}, {"distribution": "student"}])
@pytest.mark.parametrize("missing", [False, True])
def test_the_likelihood_without_noise_is_the_limit(missing, options):
    rng = np.random.default_rng(17)
    X = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    off = PPCA(2, noise_variance=0, **options).fit(holes(X, 0.2, rng) if missing else X)
    assert off.log_likelihood_ == -np.inf
    smaller = [
        PPCA(2, noise_variance=sigma2, **options).fit(X).log_likelihood_
        for sigma2 in (1e-2, 1e-4, 1e-6, 1e-8)
    ]
    assert np.all(np.diff(smaller) < 0)
    with pytest.raises(SingularModelError, match=r"no density.*noise_variance above 0"):
        off.score(X)


def test_the_likelihood_of_rows_on_the_plane_has_no_bound():
    rng = np.random.default_rng(18)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 3.0
    with pytest.warns(UnboundedLikelihoodWarning):
        model = PPCA(2, noise_variance=0).fit(X)
    assert model.log_likelihood_ == np.inf
    assert np.all(np.isposinf(model.model_.log_likelihood_limit(model.reconstruct(X))))
    assert np.all(np.isneginf(model.model_.log_likelihood_limit(X + rng.normal(size=X.shape))))


@pytest.mark.parametrize("missing", [False, True])
def test_given_noise_holds_for_equal_rows_too(missing):
    X = np.tile([1.0, 2.0, 0.1], (10, 1))
    if missing:
        X[2, 0] = X[3, 1] = np.nan
    with pytest.warns(UserWarning, match="all rows are equal"):
        model = PPCA(1, noise_variance=2.0).fit(X)
    assert model.noise_variance_ == 2.0
    cells = np.count_nonzero(~np.isnan(X))
    assert_allclose(model.log_likelihood_, -0.5 * cells * np.log(4 * np.pi), rtol=1e-12)
    assert_allclose(model.log_likelihood_, model.score_samples(X).sum(), rtol=1e-12)
