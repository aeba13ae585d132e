"""Classical scaling against scikit-learn, and against R's cmdscale and vegan on R's eurodist."""

import numpy as np
import pytest
import sklearn.manifold
from scipy.spatial.distance import cdist

from eigengap.estimators.classical_mds import ClassicalMDS

Peer = getattr(sklearn.manifold, "ClassicalMDS", None)  # since scikit-learn 1.8
needs_peer = pytest.mark.skipif(Peer is None, reason="scikit-learn below 1.8 has no ClassicalMDS")

pytestmark = pytest.mark.filterwarnings("ignore:negative eigenvalues hold")


def table(n=60, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1) + 7.0


@needs_peer
@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("euclidean", None),
        ("l2", None),
        ("manhattan", None),
        ("minkowski", {"p": 3}),
        ("cosine", None),
        ("chebyshev", None),
        ("sqeuclidean", None),
        ("seuclidean", None),
        ("mahalanobis", {"VI": np.diag([1.0, 0.1, 0.3, 0.2, 0.5])}),
        ("canberra", None),
        ("braycurtis", None),
        ("nan_euclidean", None),
        pytest.param(lambda x, y: float(np.sum(np.abs(x - y) ** 0.5)), None, id="callable"),
    ],
)
def test_coordinates_and_signs_of_scikit_learn(metric, params):
    X = table()
    theirs = Peer(3, metric=metric, metric_params=params).fit(X)
    ours = ClassicalMDS(3, metric=metric, metric_params=params).fit(X)
    scale = np.abs(theirs.embedding_).max()
    np.testing.assert_allclose(ours.embedding_, theirs.embedding_, atol=1e-8 * scale)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(ours.transform(X), ours.embedding_, atol=1e-8 * scale)


@needs_peer
@pytest.mark.parametrize("metric", ["jaccard", "dice", "hamming"])
def test_metrics_of_truth_values(metric):
    X = np.random.default_rng(0).integers(0, 2, (40, 12)).astype(bool)
    theirs = Peer(2, metric=metric).fit(X)
    ours = ClassicalMDS(2, metric=metric).fit(X)
    np.testing.assert_allclose(ours.embedding_, theirs.embedding_, atol=1e-8)
    np.testing.assert_allclose(ours.transform(X), ours.embedding_, atol=1e-8)


@needs_peer
@pytest.mark.parametrize("n", [50, 900])
def test_precomputed_distances_of_scikit_learn(n):
    X = table(n)
    for D in (cdist(X, X), cdist(X, X, "cityblock")):
        theirs = Peer(2, metric="precomputed").fit(D)
        ours = ClassicalMDS(2, metric="precomputed").fit(D)
        np.testing.assert_allclose(ours.embedding_, theirs.embedding_, atol=1e-7)
        np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


# R -------------------------------------------------------------------------------------------

# as.vector(eurodist): kilometres by road between 21 cities, one pair after the other.
# fmt: off
EURODIST = [
    3313, 2963, 3175, 3339, 2762, 3276, 2610, 4485, 2977, 3030, 4532, 2753, 3949, 2865, 2282, 2179,
    3000, 817, 3927, 1991, 1318, 1326, 1294, 1498, 2218, 803, 1172, 2018, 1490, 1305, 645, 636, 521,
    1014, 1365, 1033, 1460, 2868, 1802, 204, 583, 206, 966, 677, 2256, 597, 172, 2084, 690, 1558,
    1011, 925, 747, 285, 1511, 1616, 1175, 460, 409, 1136, 747, 2224, 714, 330, 2052, 739, 1550,
    1059, 1077, 977, 280, 1662, 1786, 1381, 785, 1545, 853, 2047, 1115, 731, 1827, 789, 1347, 1101,
    1209, 1160, 340, 1794, 2196, 1588, 760, 1662, 2436, 460, 269, 2290, 714, 1764, 1035, 911, 583,
    465, 1497, 1403, 937, 1418, 3196, 460, 269, 2971, 1458, 2498, 1778, 1537, 1104, 1176, 2050, 650,
    1455, 1975, 1118, 895, 1936, 158, 1439, 425, 328, 591, 513, 995, 2068, 1019, 2897, 2428, 676,
    1817, 698, 1693, 2185, 2565, 1971, 2631, 3886, 2974, 550, 2671, 1159, 2198, 1479, 1238, 805,
    877, 1751, 949, 1155, 2280, 863, 1730, 1183, 1098, 851, 457, 1683, 1500, 1205, 1178, 668, 1762,
    2250, 2507, 1799, 2700, 3231, 2937, 1281, 320, 328, 724, 471, 1048, 2108, 1157, 1157, 1724,
    2010, 1273, 2097, 3188, 2409, 618, 1109, 792, 1011, 2428, 1363, 331, 856, 586, 2187, 898, 821,
    946, 1754, 428, 1476, 1827, 1249, 2707, 1209, 2105,
]
# cmdscale(eurodist, k = 2, eig = TRUE)$eig
EIGENVALUES = [
    1.95383770895428e07, 1.18565553340011e07, 1.52884446798737e06, 1.11874195050876e06,
    7.89347202680119e05, 5.81655206719773e05, 2.62319207701126e05, 1.92597561676216e05,
    1.45084534964409e05, 1.07967306926215e05, 5.13948411077443e04, 0.0, -9.49612421916751e03,
    -5.30581956694731e04, -1.32216574997658e05, -2.57336025563689e05, -3.32671900716027e05,
    -5.16252254234439e05, -9.19149098412088e05, -1.00650396017177e06, -2.25184433173616e06,
]
# fmt: on


def eurodist():
    D = np.zeros((21, 21))
    D[np.triu_indices(21, 1)] = EURODIST
    return D + D.T


def up_to_sign(Z, expected):
    signs = np.sign(np.sum(Z[: len(expected)] * expected, axis=0))
    np.testing.assert_allclose(Z[: len(expected)] * signs, expected, rtol=1e-9)


def test_cmdscale():
    """cmdscale(eurodist, k = 2, eig = TRUE): points, eig, GOF."""
    mds = ClassicalMDS(2, metric="precomputed").fit(eurodist())
    up_to_sign(
        mds.embedding_,
        [
            [2290.27467963145227, 1798.8029280852843],
            [-825.38279035333289, 546.8114799819348],
            [59.18334054586729, -367.0813524640473],
            [-82.84597289699025, -429.9146581846149],
            [-352.49943488815939, -290.9084328261823],
        ],
    )
    np.testing.assert_allclose(mds.spectrum_.lam, EIGENVALUES, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(
        mds.goodness_of_fit_, [0.753754315507984, 0.867913429647823], rtol=1e-12
    )
    lam = np.array(EIGENVALUES)
    assert mds.negative_share_ == pytest.approx(-lam[lam < 0].sum() / np.abs(lam).sum())
    assert mds.n_significant_ == 2  # the third is smaller than the last in modulus


def test_cmdscale_with_an_additive_constant():
    """cmdscale(eurodist, k = 2, eig = TRUE, add = TRUE): ac, points, eig, GOF."""
    D = eurodist()
    mds = ClassicalMDS(2, metric="precomputed", correction="cailliez").fit(D)
    assert mds.additive_constant_ == pytest.approx(2132.67849519795, rel=1e-12)
    up_to_sign(
        mds.embedding_,
        [
            [-2683.219582280411, 3149.753939631077],
            [1448.327854494961, 734.877260417594],
            [-234.921830077525, -735.204358231173],
        ],
    )
    np.testing.assert_allclose(
        mds.spectrum_.lam[[0, 1, 2, 18]],
        [4.22718808005712e07, 2.95391042138130e07, 9.55342250748755e06, 1.18200505891798e06],
        rtol=1e-9,
    )
    np.testing.assert_allclose(mds.goodness_of_fit_, [0.511556410743003] * 2, rtol=1e-9)
    assert mds.negative_share_ < 1e-12
    np.testing.assert_allclose(mds.transform(D), mds.embedding_, atol=1e-8)


def test_lingoes_of_vegan():
    """vegan::wcmdscale(eurodist, k = 2, eig = TRUE, add = "lingoes"): ac, eig, points."""
    D = eurodist()
    mds = ClassicalMDS(2, metric="precomputed", correction="lingoes").fit(D)
    assert mds.additive_constant_ == pytest.approx(2251844.33173616, rel=1e-12)
    np.testing.assert_allclose(
        mds.spectrum_.lam[:3], [21790221.42127898, 14108399.66573723, 3780688.79972353], rtol=1e-10
    )
    up_to_sign(
        mds.embedding_,
        [
            [2418.6562549070418, 1962.199662058475],
            [-871.6497048738130, 596.481851612476],
            [62.5008685947609, -400.425691167636],
        ],
    )
    np.testing.assert_allclose(mds.transform(D), mds.embedding_, atol=1e-8)


def test_weights_of_vegan():
    """vegan::wcmdscale(eurodist, k = 2, eig = TRUE, w = rep(c(1, 2, 3), 7)): eig, points."""
    mds = ClassicalMDS(2, metric="precomputed").fit(
        eurodist(), sample_weight=np.tile([1.0, 2.0, 3.0], 7)
    )
    np.testing.assert_allclose(
        mds.spectrum_.lam[[0, 1, 2, 19, 20]],
        [41179015.16171911, 16815230.35817937, 3210654.23828402, -1954436.0887573, -3966504.259828],
        rtol=1e-10,
    )
    up_to_sign(
        mds.embedding_,
        [
            [2045.669194912102, 2330.870316573519],
            [-750.253539397188, 420.654268565549],
            [300.490923343196, -289.612637062339],
        ],
    )
