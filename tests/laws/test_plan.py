"""The plan as a table: what is asked of which shape, and the route that it takes."""

import pytest

from eigengap.fitting.gaussian.plan import SOLVERS, plan


@pytest.mark.parametrize(
    ("n", "d", "q", "sparse", "solver", "route"),
    [
        # the shape decides
        (100_000, 50, 10, False, "auto", "covariance"),
        (20_000, 500, 20, False, "auto", "covariance"),
        (200_000, 100, 10, False, "auto", "covariance"),
        (1_000, 10, 10, False, "auto", "covariance"),
        (500, 20_000, 20, False, "auto", "gram"),
        (5, 100, 2, False, "auto", "gram"),
        (3_000, 3_000, 10, False, "auto", "krylov"),
        (3_000, 3_000, 20, False, "auto", "krylov"),
        (100_000, 100_000, 10, False, "auto", "krylov"),
        (30, 20, 5, False, "auto", "svd"),
        (64, 64, None, False, "auto", "svd"),
        # all components, or a share of the variance: the whole spectrum is needed
        (3_000, 3_000, None, False, "auto", "covariance"),
        (2_000, 3_000, None, False, "auto", "gram"),
        (3_000, 3_000, 2_900, False, "auto", "covariance"),
        # sparse rows keep their zeros
        (50_000, 10_000, 10, True, "auto", "krylov"),
        (1_000, 200_000, 10, True, "auto", "krylov"),
        (50_000, 300, 10, True, "auto", "covariance"),
        # rows not counted yet
        (None, 200, 5, False, "auto", "covariance"),
        (None, 200, None, False, "auto", "covariance"),
        (None, 200_000, 5, False, "auto", "krylov"),
        # scikit-learn's names, and ours
        (3_000, 3_000, 10, False, "full", "svd"),
        (500, 2_000, 10, False, "covariance_eigh", "covariance"),
        (100_000, 50, 5, False, "arpack", "krylov"),
        (500, 20_000, 20, False, "randomized", "krylov"),
        (100_000, 50, 5, False, "gram", "gram"),
        # a Krylov space has no room where most components are wanted
        (1_000, 10, 9, False, "arpack", "covariance"),
        (100, 1_000, None, False, "randomized", "gram"),
        (1_000, 80, 0, False, "arpack", "covariance"),
    ],
)
def test_route(n, d, q, sparse, solver, route):
    assert plan(n, d, q, sparse=sparse, solver=solver).route == route


def test_an_unknown_solver_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="lobpcg") as error:
        plan(10, 10, 2, solver="lobpcg")
    assert all(name in str(error.value) for name in SOLVERS)


def test_every_plan_says_why():
    assert all(plan(n, 80, 3).reason for n in (None, 10, 80, 10_000))
