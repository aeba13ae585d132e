"""Kernel PCA against its equations by brute force, against PCA, scikit-learn and R's kernlab."""

import numpy as np
import pytest
import sklearn.decomposition
from scipy.sparse import csr_array
from scipy.spatial.distance import pdist
from sklearn.datasets import load_iris, make_circles
from sklearn.metrics.pairwise import laplacian_kernel

import eigengap
from eigengap.estimators.kernel_pca import KernelPCA
from eigengap.fitting.kernel.fit import Convention, fit_kernel_pca
from eigengap.fitting.kernel.landmarks import fit_in_feature_space, fit_on_landmarks
from eigengap.models import kernels
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.kernels.expected import ExpectedKernel
from eigengap.sources.conversion import as_source

# tanh is one, and says so: a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive")

KERNELS = {
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 2, "coef0": 0.5},
    "rbf": {"gamma": 0.2},
    "sigmoid": {"gamma": 0.02, "coef0": 0.1},
    "cosine": {},
}


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5)) + 1.0


@pytest.fixture
def new():
    return np.random.default_rng(1).normal(size=(9, 5)) + 1.0


def same_up_to_sign(a, b, **tolerance):
    np.testing.assert_allclose(a * np.sign(np.sum(a * b, axis=0)), b, **tolerance)


# The equations ------------------------------------------------------------------------------


def quadratic_features(X, gamma, coef0):
    """phi with phi(x)'phi(y) = (gamma x'y + coef0)^2, written out."""
    d = X.shape[1]
    squares = gamma * X**2
    crossed = [np.sqrt(2) * gamma * X[:, i] * X[:, j] for i in range(d) for j in range(i)]
    linear = np.sqrt(2 * gamma * coef0) * X
    return np.column_stack([squares, *crossed, linear, np.full(len(X), coef0)])


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("landmarks", [None, 50])
def test_polynomial_kernel_is_pca_of_explicit_features(X, new, center, landmarks):
    """The 21 features of degree 2 are spanned by any 50 rows, so that landmarks are exact too."""
    model = KernelPCA(
        4, kernel="poly", gamma=0.3, degree=2, coef0=0.5, center=center, landmarks=landmarks,
        random_state=0,
    ).fit(X)  # fmt: skip
    F, G = quadratic_features(X, 0.3, 0.5), quadratic_features(new, 0.3, 0.5)
    mean = F.mean(axis=0) if center else 0.0
    _, s, Vt = np.linalg.svd(F - mean, full_matrices=False)
    np.testing.assert_allclose(model.eigenvalues_, s[:4] ** 2, rtol=1e-9)
    same_up_to_sign(model.transform(new), (G - mean) @ Vt[:4].T, rtol=1e-8, atol=1e-8)
    total = np.sum(s**2)
    np.testing.assert_allclose(model.explained_variance_ratio_, s[:4] ** 2 / total, rtol=1e-8)
    assert model.landmark_error_ < 1e-9


def test_003_scores_are_root_lambda_times_ours_and_uncentred(X, new):
    """K a = lam a, scores lam_k a_k, new rows sum_i a_ki K(x, x_i): 003, as printed."""
    b, c = 2.5, 10.0
    K = b * np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / c)
    lam, a = np.linalg.eigh(K)
    lam, a = lam[::-1][:3], a[:, ::-1][:, :3]
    k_new = b * np.exp(-np.sum((new[:, None] - X) ** 2, axis=2) / c)
    how = {"kernel": "rbf", "b": b, "c": c, "center": False, "preimage": "fixed_point"}
    printed = KernelPCA(3, scaling="eigenvalue", **how)
    same_up_to_sign(printed.fit_transform(X), lam * a, atol=1e-10)
    same_up_to_sign(printed.transform(new), k_new @ a, atol=1e-10)
    ours = KernelPCA(3, **how).fit(X)
    np.testing.assert_allclose(
        printed.transform(new), ours.transform(new) * np.sqrt(ours.eigenvalues_), atol=1e-10
    )
    # Scores that are longer stand for the same points.
    np.testing.assert_allclose(
        printed.inverse_transform(printed.transform(new)),
        ours.inverse_transform(ours.transform(new)),
        atol=1e-6,
    )


@pytest.mark.parametrize("shape", [(80, 6), (20, 45)])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_linear_kernel_is_pca(shape, offset):
    rng = np.random.default_rng(2)
    A = np.round(rng.normal(size=shape) * np.linspace(3, 1, shape[1]), 6)
    scores = KernelPCA(3).fit_transform(A + offset)
    tolerance = 1e-8 if offset == 0.0 else 1e-6  # what the offset itself takes of the digits
    same_up_to_sign(scores, eigengap.PCA(3).fit_transform(A), atol=tolerance)
    reference = sklearn.decomposition.PCA(3, svd_solver="full").fit(A)
    same_up_to_sign(scores, reference.transform(A), atol=tolerance)
    # Classical scaling of the squared distances (Torgerson 1952): MDS.
    D2 = np.sum((A[:, None] - A) ** 2, axis=2)
    H = np.eye(len(A)) - 1 / len(A)
    lam, V = np.linalg.eigh(-0.5 * H @ D2 @ H)
    same_up_to_sign(scores, V[:, ::-1][:, :3] * np.sqrt(lam[::-1][:3]), atol=tolerance)
    model = KernelPCA(3, preimage="fixed_point").fit(A + offset)
    back = model.inverse_transform(model.transform(A + offset)) - offset
    np.testing.assert_allclose(
        back, reference.inverse_transform(reference.transform(A)), atol=1e-8 + 1e-15 * offset * 30
    )


@pytest.mark.parametrize("name", [*KERNELS, "laplacian"])
@pytest.mark.parametrize("center", [True, False])
def test_training_rows_as_new_rows(X, name, center):
    model = KernelPCA(3, kernel=name, center=center, **KERNELS.get(name, {}))
    scores = model.fit_transform(X)
    np.testing.assert_allclose(model.transform(X), scores, atol=1e-8)
    np.testing.assert_allclose(
        scores, model.eigenvectors_ * np.sqrt(model.eigenvalues_), atol=1e-10
    )


def test_few_of_many_are_those_of_all():
    """Lanczos on the matrix that is never centred, against LAPACK on the one that is."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(700, 4))
    w = rng.integers(1, 4, 700).astype(float)
    for weight in (None, w):
        few = fit_kernel_pca(kernels.RBF(0.3), A, 4, w=weight)
        all_ = fit_kernel_pca(kernels.RBF(0.3), A, 4, w=weight, solver="dense")
        assert few.passes > 1
        assert all_.passes == 1
        np.testing.assert_allclose(few.lam, all_.lam, rtol=1e-9)
        np.testing.assert_allclose(few.map.forward(A), all_.map.forward(A), atol=1e-5)
        assert few.total == pytest.approx(all_.total)


def test_share_of_the_variance():
    A = np.random.default_rng(4).normal(size=(600, 3))
    all_ = np.cumsum(KernelPCA(kernel="rbf").fit(A).explained_variance_ratio_)
    assert all_[-1] == pytest.approx(1.0, abs=1e-9)
    for share in (0.5, 0.9, 0.99):
        q = KernelPCA(share, kernel="rbf").fit(A).n_components_
        assert all_[q - 1] >= share > all_[q - 2]


def test_automatic_number_is_before_the_largest_drop():
    """Three tight clusters: two components tell them apart."""
    rng = np.random.default_rng(5)
    centres = np.array([[0, 0], [6, 0], [0, 6]])
    A = centres[np.arange(90) % 3] + 0.2 * rng.normal(size=(90, 2))
    assert KernelPCA("auto", kernel="rbf", gamma=0.5).fit(A).n_components_ == 2


def test_weights_are_frequencies(X, new):
    w = np.random.default_rng(6).integers(0, 4, len(X))
    for name, options in KERNELS.items():
        weighted = KernelPCA(3, kernel=name, **options).fit(X, sample_weight=w)
        repeated = KernelPCA(3, kernel=name, **options).fit(np.repeat(X, w, axis=0))
        np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(weighted.transform(new), repeated.transform(new), atol=1e-8)
    landmarks = X[:20]
    a = fit_on_landmarks(as_source(X, sample_weight=w), kernels.RBF(0.2), landmarks, 3)
    b = fit_on_landmarks(as_source(np.repeat(X, w, axis=0)), kernels.RBF(0.2), landmarks, 3)
    np.testing.assert_allclose(a.lam, b.lam, rtol=1e-9)
    np.testing.assert_allclose(a.map.forward(new), b.map.forward(new), atol=1e-9)
    assert a.residual == pytest.approx(b.residual)


# Other people's numbers ---------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
def test_agrees_with_scikit_learn(X, new, name, sparse):
    """Signs included."""
    theirs = sklearn.decomposition.KernelPCA(3, kernel=name, **KERNELS[name]).fit(X)
    ours = KernelPCA(3, kernel=name, **KERNELS[name])
    scores = ours.fit_transform(csr_array(X) if sparse else X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-9)
    np.testing.assert_allclose(scores, theirs.transform(X), atol=1e-8)
    np.testing.assert_allclose(
        ours.transform(csr_array(new) if sparse else new), theirs.transform(new), atol=1e-8
    )


def test_agrees_with_scikit_learn_on_laplacian_and_precomputed(X, new):
    K, k = laplacian_kernel(X, gamma=0.1), laplacian_kernel(new, X, gamma=0.1)
    theirs = sklearn.decomposition.KernelPCA(3, kernel="precomputed").fit(K)
    given = KernelPCA(3, kernel="precomputed").fit(K)
    built = KernelPCA(3, kernel="laplacian", gamma=0.1).fit(X)
    np.testing.assert_allclose(given.transform(k), theirs.transform(k), atol=1e-10)
    np.testing.assert_allclose(built.transform(new), theirs.transform(k), atol=1e-10)


def test_callable_kernels(X, new):
    def cubic(x, y, scale=1.0):
        return (scale * float(x @ y) + 1.0) ** 3

    class Cubic(kernels.Kernel):
        def matrix(self, X, Y, out=None):
            return (0.1 * X @ Y.T + 1.0) ** 3 if out is None else np.copyto(
                out, (0.1 * X @ Y.T + 1.0) ** 3
            )  # fmt: skip

        def diagonal(self, X):
            return (0.1 * np.sum(X**2, axis=1) + 1.0) ** 3

    expected = KernelPCA(2, kernel="poly", gamma=0.1).fit(X).transform(new)
    by_pairs = KernelPCA(2, kernel=cubic, kernel_params={"scale": 0.1}).fit(X)
    np.testing.assert_allclose(by_pairs.transform(new), expected, rtol=1e-8)
    np.testing.assert_allclose(KernelPCA(2, kernel=Cubic()).fit(X).transform(new), expected)
    with pytest.raises(ValueError, match=r"takes two rows and returns one number.*\(5,\)"):
        KernelPCA(2, kernel=lambda x, y: x * y).fit(X)


# library(kernlab); X <- as.matrix(iris[seq(1, 150, 5), 1:4])
# f <- kpca(X, kernel = ..., features = 3); eig(f); abs(rotated(f)[1:3, ])
# abs(predict(f, as.matrix(iris[c(2, 77, 149), 1:4]))); kernlab 0.9-32.
# Its eigenvalues are ours over n, its scores ours times sqrt(n).
KERNLAB = {
    "rbfdot(sigma = 0.2)": (
        {"kernel": "rbf", "gamma": 0.2},
        [0.3234885471495, 0.1373512599834, 0.0449070372604],
        [4.49355654695, 0.571080676285, 0.427611110133],
        [[4.32074633256, 0.445291503442, 0.147341394085],
         [2.61111837076, 0.876243151746, 0.778835832408],
         [2.84064800037, 0.640151510415, 1.276174161000]],
    ),
    "polydot(degree = 2, scale = 0.5, offset = 1)": (
        {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1},
        [217.44841672692, 8.49832337689, 3.66876897489],
        [99.5805219728, 7.11057380319, 0.740589342615],
        [[103.8659951483, 7.46143997664, 4.58018063613],
         [39.6966273156, 5.01616457251, 18.09850530737],
         [60.4592007124, 8.09361896129, 24.86970037864]],
    ),
    "vanilladot()": (
        {"kernel": "linear"},
        [4.5049335646612, 0.2525940780867, 0.0901567652638],
        [15.5978478017, 1.13753671679, 0.0887181665753],
        [[15.81753825612, 1.536813796520, 0.875746745302],
         [6.35195185411, 0.361676187067, 2.904463983442],
         [9.54746567620, 0.386161323272, 3.869130383388]],
    ),
    "tanhdot(scale = 0.001, offset = 0.1)": (
        {"kernel": "sigmoid", "gamma": 0.001, "coef0": 0.1},
        [4.34405496290e-03, 2.43868028772e-04, 8.70402544959e-05],
        [0.485497506477, 0.0347524233340, 0.00288177581794],
        None,  # its predict fails for this kernel
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", KERNLAB)
def test_agrees_with_kernlab(call):
    options, eig, rotated, predicted = KERNLAB[call]
    iris = load_iris().data
    model = KernelPCA(3, **options)
    scores = model.fit_transform(iris[::5])
    np.testing.assert_allclose(model.eigenvalues_ / 30, eig, rtol=1e-9)
    np.testing.assert_allclose(np.abs(scores[0]) * np.sqrt(30), rotated, rtol=1e-7)
    if predicted is not None:
        found = np.abs(model.transform(iris[[1, 76, 148]])) * np.sqrt(30)
        np.testing.assert_allclose(found, predicted, rtol=1e-7)


# Landmarks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    "kernel", [kernels.RBF(0.2, 2.0), kernels.Polynomial(0.3), kernels.Laplacian(0.1)]
)
def test_all_rows_as_landmarks_are_exact(X, new, kernel, center):
    how = Convention(centred=center)
    exact = fit_kernel_pca(kernel, X, 4, convention=how)
    on_all = fit_on_landmarks(as_source(X), kernel, X, 4, convention=how)
    np.testing.assert_allclose(on_all.lam, exact.lam, rtol=1e-9)
    same_up_to_sign(on_all.map.forward(new), exact.map.forward(new), atol=1e-8)
    assert on_all.residual < 1e-8 * exact.total
    Z = exact.map.forward(new)
    sign = np.sign(np.sum(Z * on_all.map.forward(new), axis=0))
    if isinstance(kernel, kernels.RBF):  # and the way back: the same points of feature space
        gram = kernel.matrix(X, X)
        apart = exact.map.weights(Z) - on_all.map.weights(Z * sign)
        np.testing.assert_allclose(np.einsum("ij,jk,ik->i", apart, gram, apart), 0.0, atol=1e-10)


@pytest.mark.parametrize("how", ["kmeans++", "kmeans", "leverage", "uniform"])
def test_what_landmarks_miss_bounds_the_eigenvalues(how):
    A = np.random.default_rng(7).normal(size=(400, 3))
    exact = KernelPCA(5, kernel="rbf").fit(A)
    model = KernelPCA(
        5, kernel="rbf", landmarks=60, landmark_method=how, random_state=0
    ).fit(A)  # fmt: skip
    low = exact.eigenvalues_ - model.eigenvalues_
    total = exact.eigenvalues_[0] / exact.explained_variance_ratio_[0]
    assert np.all(low > -1e-9)
    assert np.sum(low) <= model.landmark_error_ * total * (1 + 1e-6) + 1e-9
    assert 0.0 < model.landmark_error_ < 0.05
    assert model.landmarks_.shape == (60, 3)
    same_up_to_sign(model.transform(A)[:, :2], exact.transform(A)[:, :2], atol=0.05)


def test_landmarks_do_not_depend_on_the_blocks(X, new):
    kernel, landmarks = kernels.RBF(0.2), X[:15]
    fits = [
        fit_on_landmarks(as_source(X, block_rows=rows), kernel, landmarks, 3)
        for rows in (1, 7, len(X))
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.lam, fits[0].lam, rtol=1e-10)
        np.testing.assert_allclose(fit.map.forward(new), fits[0].map.forward(new), atol=1e-10)


def test_one_pass_on_landmarks():
    A = np.random.default_rng(8).normal(size=(500, 3))
    source = as_source(A, block_rows=100)
    before = source.passes
    fit_on_landmarks(source, kernels.RBF(0.3), A[:30], 2)
    assert source.passes == before + 1


def test_explicit_features_are_the_matrix_of_pairs(X, new):
    for kernel in (kernels.Linear(), kernels.Cosine()):
        pairs = fit_kernel_pca(kernel, X, None)
        features = fit_in_feature_space(as_source(X), kernel, None)
        np.testing.assert_allclose(features.lam, pairs.lam, rtol=1e-9)
        same_up_to_sign(features.map.forward(new), pairs.map.forward(new), atol=1e-9)


# Use ----------------------------------------------------------------------------------------


def test_concentric_circles_come_apart():
    A, ring = make_circles(300, factor=0.3, noise=0.05, random_state=0)
    scores = KernelPCA(1, kernel="rbf", gamma=3.0).fit_transform(A)[:, 0]
    assert scores[ring == 1].min() > scores[ring == 0].max()
    flat = KernelPCA(1).fit_transform(A)[:, 0]
    assert flat[ring == 1].min() < flat[ring == 0].max()


@pytest.mark.parametrize("landmarks", [None, 120])
def test_pre_images_take_noise_away(landmarks):
    """Points near a circle come back nearer to it, by either way."""
    rng = np.random.default_rng(9)
    angle = rng.uniform(0, 2 * np.pi, 400)
    A = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * rng.normal(size=(400, 2)) + 1e6
    how = {"kernel": "rbf", "gamma": 1.0, "landmarks": landmarks, "random_state": 0}
    model = KernelPCA(2, preimage="fixed_point", **how).fit(A)
    noisy = np.std(np.linalg.norm(A - 1e6, axis=1))
    fixed = model.inverse_transform(model.transform(A))
    assert np.std(np.linalg.norm(fixed - 1e6, axis=1)) < 0.5 * noisy
    model.set_params(preimage="ridge", alpha=0.1).fit(A)
    ridge = model.inverse_transform(model.transform(A))
    assert np.std(np.linalg.norm(ridge - 1e6, axis=1)) < 0.5 * noisy


def test_a_fixed_point_is_one(X):
    """Mika et al. (1998): x = sum_i c_i k(x, x_i) x_i / sum_i c_i k(x, x_i)."""
    model = KernelPCA(3, kernel="rbf", gamma=0.05, preimage="fixed_point").fit(X)
    Z = model.transform(X[:8])
    found = model.inverse_transform(Z)
    weights = model.model_.weights(Z)
    share = weights * np.exp(-0.05 * np.sum((found[:, None] - X) ** 2, axis=2))
    np.testing.assert_allclose(found, share @ X / share.sum(axis=1)[:, None], atol=1e-5)


def test_all_components_give_the_rows_back(X):
    model = KernelPCA(kernel="rbf", gamma=0.1, preimage="fixed_point")
    np.testing.assert_allclose(model.inverse_transform(model.fit_transform(X)), X, atol=1e-3)


@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
def test_ridge_is_scikit_learns_on_centred_rows(X, new, name):
    """With an intercept, which theirs lacks: equal where the mean is 0."""
    A = X - X.mean(axis=0)
    options = {"kernel": name, "fit_inverse_transform": True, "alpha": 0.1}
    theirs = sklearn.decomposition.KernelPCA(3, **options).fit(A)
    ours = KernelPCA(3, **options).fit(A)
    Z = theirs.transform(new)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-7)
    np.testing.assert_allclose(ours.inverse_transform(Z), theirs.inverse_transform(Z), atol=1e-7)
    moved = KernelPCA(3, **options).fit(A + 50.0) if name != "poly" else None
    if moved is not None:
        np.testing.assert_allclose(
            moved.inverse_transform(Z), ours.inverse_transform(Z) + 50.0, atol=1e-5
        )


def test_ridge_on_landmarks_is_the_ridge_where_all_rows_are_landmarks(X):
    from eigengap.fitting.kernel.preimage import fit_ridge, fit_ridge_on_landmarks

    w = np.random.default_rng(10).integers(1, 4, len(X)).astype(float)
    kernel = kernels.RBF(0.5)
    at = fit_kernel_pca(kernels.RBF(0.1), X, 3, w=w).map
    direct = fit_ridge(X, at.forward(X), kernel, 0.3, w)
    summed = fit_ridge_on_landmarks(as_source(X, sample_weight=w, block_rows=7), at, kernel, 0.3)
    Z = at.forward(X[:5]) + 0.01
    np.testing.assert_allclose(summed.backward(Z), direct.backward(Z), atol=1e-6)


def test_bandwidths():
    rng = np.random.default_rng(11)
    t = rng.uniform(0, 2 * np.pi, 160)
    A = np.column_stack([np.cos(t), np.sin(t), np.cos(2 * t)]) + 0.05 * rng.normal(size=(160, 3))
    D2 = np.sum((A[:, None] - A) ** 2, axis=2)[np.triu_indices(160, 1)]
    for asked in ("median", "auto"):
        model = KernelPCA(2, kernel="rbf", gamma=asked).fit(A)
        assert model.gamma_ == pytest.approx(1 / (2 * np.median(D2)), rel=1e-10)
    chosen = KernelPCA(2, kernel="rbf", gamma="cv", random_state=0).fit(A)
    grid, errors = chosen.gamma_curve_
    assert chosen.gamma_ == grid[np.argmin(errors)]
    # Neither the widest, which is linear PCA, nor the narrowest, which knows no neighbours.
    assert errors.min() < 0.9 * min(errors[0], errors[-1])


@pytest.mark.parametrize(("kernel", "metric"), [("rbf", "sqeuclidean"), ("laplacian", "cityblock")])
@pytest.mark.parametrize("rows", [(0, 1, 3, 30), (0, 1, 2, 100), (0, 2, 7, 7, 7, 40)])
def test_the_median_of_an_even_number_of_pairs(kernel, metric, rows):
    X = np.array(rows, dtype=float)[:, None]
    apart = pdist(X, metric)
    middle = np.median(apart[apart > 0]) * (2 if kernel == "rbf" else 1)
    distinct, count = np.unique(X, axis=0, return_counts=True)
    for fit in (
        KernelPCA(1, kernel=kernel, gamma="median").fit(X),
        KernelPCA(1, kernel=kernel, gamma="median").fit(distinct, sample_weight=count / 10),
    ):
        assert fit.gamma_ == pytest.approx(1 / middle, rel=1e-12)


# Gaps ---------------------------------------------------------------------------------------


@pytest.fixture
def incomplete():
    rng = np.random.default_rng(12)
    model = LinearGaussian(
        W=rng.normal(size=(5, 2)), mu=rng.normal(size=5), psi=rng.uniform(0.1, 0.5, 5)
    )
    A = model.sample(12, rng)
    A[rng.random(A.shape) < 0.35] = np.nan
    A[0] = model.sample(1, rng)
    A[5] = A[4]  # a pattern of two rows
    return model, A, rng


@pytest.mark.parametrize("kernel", [kernels.RBF(0.2, 1.5), kernels.Linear()])
def test_expected_kernels_by_monte_carlo(incomplete, kernel):
    model, A, rng = incomplete
    expected = ExpectedKernel(kernel, model)
    draws = 600
    sums, squares, own = 0.0, 0.0, 0.0
    for _ in range(draws):
        x, y = model.sample_conditional(A, rng), model.sample_conditional(A, rng)
        K = kernel.matrix(x, y)
        sums, squares, own = sums + K, squares + K**2, own + kernel.diagonal(x)
    mean = sums / draws
    error = np.sqrt(np.maximum(squares / draws - mean**2, 0.0) / draws)
    found = expected.matrix(A, A)
    assert np.all(np.abs(found - mean) < 5 * error + 1e-12)
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    np.testing.assert_allclose(expected.matrix(A[:4], A[3:]), found[:4, 3:], atol=1e-12)
    np.testing.assert_allclose(expected.diagonal(A), own / draws, rtol=0.05)
    K = found.copy()
    K[np.diag_indices(len(K))] = expected.diagonal(A)
    assert np.linalg.eigvalsh(K)[0] > -1e-10


def test_large_and_small_patterns_take_the_same_road(incomplete, monkeypatch):
    from eigengap.models.kernels import expected as expected_kernel

    model, A, _ = incomplete
    kernel = ExpectedKernel(kernels.RBF(0.2), model)
    found = kernel.matrix(A, A)
    monkeypatch.setattr(expected_kernel, "FEW_PAIRS", 0)
    np.testing.assert_allclose(kernel.matrix(A, A), found, atol=1e-13)
    monkeypatch.setattr(expected_kernel, "_STACK_BYTES", 1)
    np.testing.assert_allclose(kernel.matrix(A, A), found, atol=1e-13)


@pytest.mark.parametrize("name", ["rbf", "linear"])
def test_missing_move_scores_little(name):
    rng = np.random.default_rng(13)
    A = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(150, 8))
    holes = A.copy()
    holes[rng.random(A.shape) < 0.1] = np.nan
    full = KernelPCA(2, kernel=name, preimage="fixed_point").fit(A)
    model = KernelPCA(2, kernel=name, preimage="fixed_point").fit(holes)
    expected = full.transform(A)
    for scores in (model.fit_transform(holes), model.transform(holes), full.transform(holes)):
        signed = scores * np.sign(np.sum(scores * expected, axis=0))
        assert np.max(np.std(signed - expected, axis=0) / np.std(expected, axis=0)) < 0.1
    complete = ~np.isnan(holes).any(axis=1)
    np.testing.assert_allclose(
        model.transform(holes)[complete], model.fit_transform(holes)[complete], atol=1e-8
    )
    back, aim = (each.inverse_transform(each.transform(A)) for each in (model, full))
    assert np.mean((back - aim) ** 2) < 0.01 * np.var(A, axis=0).mean()


def test_missing_on_landmarks():
    rng = np.random.default_rng(14)
    A = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(400, 6))
    holes = A.copy()
    holes[rng.random(A.shape) < 0.05] = np.nan
    model = KernelPCA(2, kernel="rbf", gamma=0.1, landmarks=80, random_state=0).fit(holes)
    exact = KernelPCA(2, kernel="rbf", gamma=0.1).fit(holes)
    assert not np.isnan(model.landmarks_).any()
    same_up_to_sign(model.transform(holes), exact.transform(holes), atol=0.05)
