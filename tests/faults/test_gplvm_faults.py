"""Tables that a GPLVM must take, or refuse with a way out."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from eigengap import PPCA
from eigengap.estimators.gplvm import GPLVM
from eigengap.exceptions import DoesNotFitError
from eigengap.fitting.autodiff.gplvm import minimise_named
from eigengap.models.gp.kernels import RBF, Linear, Matern32

pytestmark = pytest.mark.filterwarnings("ignore:GPLVM did not converge")

EXACT = {"n_components": 2, "max_iter": 40, "tol": 1e-5}
BAYESIAN = {**EXACT, "method": "bayesian", "n_inducing": 8}
METHODS = {"exact": EXACT, "bayesian": BAYESIAN}


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    t, h = rng.uniform(-1.5, 1.5, 30), rng.uniform(-1, 1, 30)
    X = np.column_stack([np.sin(2 * t), np.cos(2 * t), h, t * h])
    return X + 0.05 * rng.normal(size=X.shape)


def assert_sound(model, X):
    assert np.all(np.isfinite(model.embedding_))
    assert np.isfinite(model.noise_variance_)
    rows, std = model.inverse_transform(model.embedding_, return_std=True)
    assert np.all(np.isfinite(rows))
    assert np.all(np.isfinite(std))
    assert np.all(np.isfinite(model.transform(X)))
    assert np.all(np.isfinite(model.score_samples(X)))


@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
@pytest.mark.parametrize("scale", [False, True], ids=["plain", "scaled"])
def test_constant_column(X, method, scale):
    X[:, 1] = 3.1
    model = GPLVM(**METHODS[method], scale=scale).fit(X)
    assert_sound(model, X)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_)[:, 1], 3.1, atol=1e-6)


@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_constant_table(method):
    X = np.full((30, 4), 2.5)
    with pytest.warns(UserWarning, match="all rows are equal"):
        model = GPLVM(**METHODS[method]).fit(X)
    assert_sound(model, X)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), 2.5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_huge_offset(X, method):
    X = np.round(X * 2**20) / 2**20  # so that the offset takes no digit
    few = {**METHODS[method], "max_iter": 8}
    near, far = GPLVM(**few).fit(X), GPLVM(**few).fit(X + 2.0**27)
    np.testing.assert_allclose(far.embedding_, near.embedding_, atol=1e-4)
    assert far.noise_variance_ == pytest.approx(near.noise_variance_, rel=1e-4)


@pytest.mark.parametrize("factor", [1e-100, 1e100], ids=["tiny", "huge"])
@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_extreme_units(X, method, factor):
    few = {**METHODS[method], "max_iter": 8}
    plain, scaled = GPLVM(**few).fit(X), GPLVM(**few).fit(X * factor)
    np.testing.assert_allclose(scaled.embedding_, plain.embedding_, atol=1e-5)
    rows = scaled.inverse_transform(scaled.embedding_)
    np.testing.assert_allclose(rows / factor, plain.inverse_transform(plain.embedding_), atol=1e-5)
    np.testing.assert_allclose(scaled.transform(X[:4] * factor), scaled.embedding_[:4])
    new = 0.9 * X[:4]
    np.testing.assert_allclose(scaled.transform(new * factor), plain.transform(new), atol=1e-3)


@pytest.mark.parametrize("factor", [1e-300, 1e300], ids=["tiny", "huge"])
def test_units_beyond_squares_are_refused(X, factor):
    with pytest.raises(ValueError, match=r"underflow|overflow"):
        GPLVM(**EXACT).fit(X * factor)


@pytest.mark.filterwarnings("ignore:the noise variance fell")
@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_every_row_twice(X, method):
    X = np.vstack([X[:15], X[:15]])
    model = GPLVM(**METHODS[method]).fit(X)
    assert_sound(model, X)
    np.testing.assert_array_equal(model.embedding_[:15], model.embedding_[15:])


@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_one_column(X, method):
    model = GPLVM(**METHODS[method]).fit(X[:, :1])
    assert_sound(model, X[:, :1])


@pytest.mark.parametrize("method", METHODS)
def test_no_noise_is_told_or_taken(method):
    """Rank one without noise: finite all the same."""
    X = np.outer(np.linspace(-1, 1, 30), [1.0, 2.0, -1.0, 0.5])
    with np.errstate(all="raise"):
        model = GPLVM(**METHODS[method]).fit(X)
    assert_sound(model, X)


@pytest.mark.parametrize("method", ["exact", pytest.param("bayesian", marks=pytest.mark.slow)])
def test_row_without_any_observed_cell(X, method):
    X[4] = np.nan
    X[9, 1] = np.nan
    model = GPLVM(**METHODS[method]).fit(X)
    np.testing.assert_array_equal(model.embedding_[4], 0.0)
    if method == "bayesian":
        np.testing.assert_array_equal(model.embedding_sd_[4], 1.0)
    filled, std = model.impute(X, return_std=True)
    assert np.all(np.isfinite(filled))
    assert np.all(std[4] > std[9, 1] * 0.5)


@pytest.mark.filterwarnings("ignore:the noise variance fell")
def test_more_dimensions_than_columns(X):
    model = GPLVM(**{**EXACT, "n_components": 6}).fit(X)
    assert_sound(model, X)
    assert_sound(GPLVM(6, kernel="linear").fit(X), X)


def test_as_many_dimensions_as_rows_are_refused(X):
    for kernel in ("rbf", "linear"):
        with pytest.raises(ValueError, match="must be less than the number of rows"):
            GPLVM(4, kernel=kernel).fit(X[:4])


def test_one_row_is_refused(X):
    with pytest.raises(ValueError, match="1 sample"):
        GPLVM(1).fit(X[:1])
    X[1:] = np.nan
    with pytest.raises(ValueError, match="at least 2 rows"):
        GPLVM(1).fit(X)


def test_column_that_was_never_observed_is_named(X):
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="no value in column 2"):
        GPLVM(2).fit(X)


def test_infinity_is_named(X):
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        GPLVM(2).fit(X)


def test_exact_fit_of_very_many_rows_is_refused_with_the_gigabytes():
    X = np.zeros((100_000, 2))
    X[:, 0] = np.arange(100_000)
    for kernel in ("rbf", "matern32"):
        with pytest.raises(DoesNotFitError, match=r'GB of memory.*method="bayesian"'):
            GPLVM(1, method="exact", kernel=kernel).fit(X)
    with pytest.raises(DoesNotFitError, match="GB of memory"):
        GPLVM(1, kernel="matern32").fit(X)


def test_the_linear_kernel_takes_very_many_rows():
    X = np.random.default_rng(0).normal(size=(100_000, 3)) * [3.0, 1.0, 0.1]
    for method in ("auto", "exact"):
        model = GPLVM(1, kernel="linear", method=method).fit(X)
    assert abs(np.corrcoef(model.embedding_[:, 0], X[:, 0])[0, 1]) > 0.999
    assert model.transform(X[:5] + 0.1).shape == (5, 1)


def test_kernels_without_expectations_name_the_way_out(X):
    with pytest.raises(ValueError, match=r'kernel="rbf".*method="exact"'):
        GPLVM(2, kernel="matern52", method="bayesian").fit(X)
    assert GPLVM(**EXACT, kernel="matern52").fit(X).method_ == "exact"


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.zeros((30, 3)), "init has shape"),
        (np.zeros((10, 2)), "init has shape"),
        (np.full((30, 2), np.nan), "init holds nan at row 0, column 0"),
    ],
    ids=["columns", "rows", "nan"],
)
def test_starts_that_do_not_fit_are_refused(X, init, message):
    with pytest.raises(ValueError, match=message):
        GPLVM(2, init=init).fit(X)


def test_a_start_without_variance_is_taken(X):
    assert_sound(GPLVM(**EXACT, init=np.zeros((30, 2))).fit(X), X)


def test_starts_are_looked_at_even_where_none_is_needed(X):
    with pytest.raises(ValueError, match="init has shape"):
        GPLVM(2, kernel="linear", init=np.zeros((30, 3))).fit(X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(-1.0), "RBF has variance=-1"),
        (RBF(1.0, 0.0), "RBF has lengths="),
        (RBF(np.nan), "RBF has variance=nan"),
        (Matern32(1.0, [1.0, np.inf]), "Matern32 has lengths="),
        (RBF() + Linear([0.5, -0.5]), "Linear has variances="),
        (RBF(1.0, [1.0, 2.0, 3.0]), "one for each of them"),
    ],
    ids=["negative", "zero", "nan", "infinite", "of a sum", "of three"],
)
@pytest.mark.parametrize("method", METHODS)
def test_kernel_values_that_are_none_are_refused(X, method, kernel, message):
    with pytest.raises(ValueError, match=message):
        GPLVM(**METHODS[method], kernel=kernel).fit(X)


@pytest.mark.parametrize(
    "missing", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["complete", "gaps"]
)
def test_a_bayesian_fit_with_a_linear_kernel(X, missing):
    """As good as probabilistic PCA, which it is but for the prior on its loadings."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(40, 5)) + 3.0
    truth = X.copy()
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    model = GPLVM(2, kernel="linear", method="bayesian", max_iter=300).fit(X)
    assert_sound(model, X)
    ppca = PPCA(2).fit(X)
    assert model.noise_variance_ == pytest.approx(ppca.noise_variance_, rel=0.3)
    assert model.bound_ < ppca.log_likelihood_  # loadings are integrated out, not chosen
    back = model.inverse_transform(model.embedding_)
    assert np.sqrt(np.mean((back - truth) ** 2)) < 0.12


@pytest.mark.parametrize("method", METHODS)
def test_rows_beyond_any_square_are_refused(X, method, recwarn):
    model = GPLVM(**{**METHODS[method], "max_iter": 5}).fit(X)
    far = X[:3].copy()
    far[2, 1] = 1e200
    for ask in (model.transform, model.posterior, model.score_samples):
        with pytest.raises(ValueError, match=r"row 2 is more than .* column 1"):
            ask(far)
    far[2, 1] = 1e20
    assert np.all(np.isfinite(model.transform(far)))
    assert np.all(np.isfinite(model.score_samples(far)))
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


@pytest.mark.parametrize("column", ["constant", "seen once"])
def test_units_of_a_scaled_column_of_one_value(X, column):
    """Its deviations are in the units of the data like all others."""
    X[:, 1] = 3.1 if column == "constant" else np.nan
    X[4, 1] = 3.1
    X[7, 0] = X[9, 1] = np.nan
    few = {**EXACT, "max_iter": 5, "scale": True}
    std = GPLVM(**few).fit(X).impute(X, return_std=True)[1]
    scaled = GPLVM(**few).fit(1024.0 * X).impute(1024.0 * X, return_std=True)[1]
    assert np.all(std[np.isnan(X)] > 0.0)
    np.testing.assert_allclose(scaled, 1024.0 * std, rtol=1e-6)


def test_a_search_that_cannot_begin_has_not_converged():
    """A value that is nowhere lower: no step was made, and none is claimed."""

    def both(p):
        return np.sum(p["x"]), {"x": -np.ones(3)}  # the slope points uphill

    _, found = minimise_named(both, {"x": np.zeros(3)}, tol=1e-6, max_iter=50)
    assert not found.converged


def test_unknown_kernels_are_named(X):
    with pytest.raises(ValueError, match="there is no kernel 'cosine'"):
        GPLVM(2, kernel="rbf+cosine").fit(X)


@pytest.mark.filterwarnings("default:GPLVM did not converge")
def test_too_few_steps_are_told(X):
    with pytest.warns(ConvergenceWarning, match="raise max_iter=1"):
        model = GPLVM(2, max_iter=1).fit(X)
    assert not model.converged_
    assert model.n_iter_ == 1


def test_a_failed_fit_leaves_nothing_behind(X):
    model = GPLVM(4)
    with pytest.raises(ValueError, match="must be less"):
        model.fit(X[:3])
    assert not hasattr(model, "model_")
    assert not hasattr(model, "n_features_in_")


def test_latents_that_are_not_finite_are_refused(X):
    model = GPLVM(2, kernel="linear").fit(X)
    with pytest.raises(ValueError, match="nan at row 1, column 0"):
        model.inverse_transform([[0.0, 0.0], [np.nan, 0.0]])
    with pytest.raises(ValueError, match="2 latent dimensions"):
        model.inverse_transform([[0.0, 0.0, 0.0]])


def test_sparse_tables_are_taken_with_their_zeros(X):
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    few = {**EXACT, "max_iter": 5}
    np.testing.assert_array_equal(
        GPLVM(**few).fit(csr_array(X)).embedding_, GPLVM(**few).fit(X).embedding_
    )


def test_a_code_for_missing_can_be_named(X):
    incomplete = X.copy()
    incomplete[2, 1] = incomplete[7, 3] = np.nan
    coded = np.where(np.isnan(incomplete), -9.0, incomplete)
    few = {**EXACT, "max_iter": 5}
    np.testing.assert_array_equal(
        GPLVM(**few, missing_values=-9.0).fit(coded).embedding_,
        GPLVM(**few).fit(incomplete).embedding_,
    )
