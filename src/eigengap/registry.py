"""The estimators of eigengap: the one place where each is registered.

To add an estimator, write its file in `estimators/`, and add here one entry and one import for
type checkers. The public names of `eigengap`, model files, the command line, charts, the report,
the reference pages and the tests that hold for every estimator read this list. The name of the
class is also its kind in model files. Plain values only: importing this module loads nothing.
"""

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from eigengap.estimators.autoencoder import Autoencoder as Autoencoder
    from eigengap.estimators.bayesian_pca import BayesianPCA as BayesianPCA
    from eigengap.estimators.classical_mds import ClassicalMDS as ClassicalMDS
    from eigengap.estimators.classifier import PPCAClassifier as PPCAClassifier
    from eigengap.estimators.factor_analysis import FactorAnalysis as FactorAnalysis
    from eigengap.estimators.gplvm import GPLVM as GPLVM
    from eigengap.estimators.ica import ICA as ICA
    from eigengap.estimators.imputer import LowRankImputer as LowRankImputer
    from eigengap.estimators.isomap import Isomap as Isomap
    from eigengap.estimators.kernel_pca import KernelPCA as KernelPCA
    from eigengap.estimators.laplacian_eigenmaps import LaplacianEigenmaps as LaplacianEigenmaps
    from eigengap.estimators.mixture_ppca import MixturePPCA as MixturePPCA
    from eigengap.estimators.novelty import NoveltyDetector as NoveltyDetector
    from eigengap.estimators.pca import PCA as PCA
    from eigengap.estimators.ppca import PPCA as PPCA
    from eigengap.estimators.regressor import PPCARegressor as PPCARegressor
    from eigengap.estimators.structure_preserving import (
        StructurePreservingEmbedding as StructurePreservingEmbedding,
    )
    from eigengap.estimators.unfolding import MaximumVarianceUnfolding as MaximumVarianceUnfolding
    from eigengap.estimators.whitener import Whitener as Whitener

Family = Literal["linear", "task", "manifold"]


class Estimator(NamedTuple):
    """What the rest of the package needs to know about an estimator without loading it."""

    name: str  # of the class, and of its kind in model files
    module: str  # in eigengap.estimators
    command: str  # its name on the command line
    family: Family  # its group in the reference pages
    charts: tuple[str, ...]  # of `eigengap.plots`, those with a meaning for it
    objective: str = ""  # what its iterations optimise: the y axis of its trace
    noise: Literal["", "isotropic", "diagonal"] = ""  # of its linear-Gaussian density
    row_score: str = "log_likelihood"  # what `score_samples` returns, if it has one
    has_student_noise: bool = False  # whether it takes distribution="student"
    # Without scaling, columns of large variance dominate: always, or if components are left out.
    depends_on_units: Literal["", "always", "truncated"] = ""
    is_refitted: bool = False  # a report refits it to assess imputations
    allows_no_components: bool = False  # n_components=0 is a model
    target: Literal["", "class", "number"] = ""  # what a supervised estimator predicts
    next_command: str = "report"  # what the command line suggests after `fit`
    shows: str = ""  # the report's sentence if it shows the model {inner} within this one
    extra: str = ""  # of pip, without which it cannot be fitted

    @property
    def home(self) -> str:
        return f"eigengap.estimators.{self.module}"


_ROWS = ("scores", "correlation_circle", "missingness")
_VARIABLES = ("biplot", "contributions", "cos2")
_GAUSSIAN = ("scree", *_ROWS, *_VARIABLES, "imputation", "novelty", "trace", "rank_criteria")

_gaussian = partial(  # a density with loadings and noise
    Estimator,
    family="linear",
    charts=(*_GAUSSIAN, "spectrum"),
    objective="log-likelihood",
    noise="isotropic",
    depends_on_units="always",
    is_refitted=True,
    allows_no_components=True,
)
_manifold = partial(
    Estimator, family="manifold", charts=("scree", *_ROWS), depends_on_units="always"
)
_task = partial(Estimator, family="task")

ESTIMATORS = (
    _gaussian("PCA", "pca", "pca"),
    _gaussian("PPCA", "ppca", "ppca", has_student_noise=True),
    _gaussian(
        "FactorAnalysis",
        "factor_analysis",
        "fa",
        charts=_GAUSSIAN,
        noise="diagonal",
        has_student_noise=True,
        depends_on_units="",
    ),
    _gaussian(
        "BayesianPCA",
        "bayesian_pca",
        "bayesian-pca",
        objective="evidence lower bound",
        allows_no_components=False,
    ),
    _gaussian(
        "MixturePPCA",
        "mixture_ppca",
        "mixture",
        charts=("mixture", "scores", "imputation", "trace", "missingness"),
        noise="",
        allows_no_components=False,
    ),
    Estimator(
        "ICA",
        "ica",
        "ica",
        "linear",
        (*_ROWS, *_VARIABLES, "trace", "rank_criteria"),
        objective="sum of the components' non-Gaussianity",
        depends_on_units="truncated",
    ),
    _manifold("ClassicalMDS", "classical_mds", "mds"),
    Estimator(
        "Whitener",
        "whitener",
        "whitener",
        "linear",
        ("scree", *_ROWS, "rank_criteria"),
        depends_on_units="truncated",
    ),
    _manifold("KernelPCA", "kernel_pca", "kernel-pca"),
    _manifold("Isomap", "isomap", "isomap"),
    _manifold("LaplacianEigenmaps", "laplacian_eigenmaps", "laplacian"),
    _manifold(
        "MaximumVarianceUnfolding",
        "unfolding",
        "mvu",
        charts=("scree", "trace", *_ROWS),
        objective="variance of the embedding",
    ),
    _manifold("StructurePreservingEmbedding", "structure_preserving", "structure", charts=_ROWS),
    _manifold(
        "GPLVM",
        "gplvm",
        "gplvm",
        charts=(*_ROWS, "imputation", "trace"),
        objective="log-likelihood, or its bound",
        extra="autodiff",
    ),
    _manifold(
        "Autoencoder",
        "autoencoder",
        "autoencoder",
        charts=(*_ROWS, "imputation", "trace"),
        objective="loss",
        row_score="neg_mean_squared_error",
        extra="autodiff",
    ),
    _task(
        "NoveltyDetector",
        "novelty",
        "novelty",
        charts=("novelty", "scree", *_ROWS, *_VARIABLES, "trace", "rank_criteria"),
        row_score="log_p_value",
        next_command="score",
        shows="NoveltyDetector scores rows by {inner}, which is shown here.",
    ),
    _task(
        "LowRankImputer",
        "imputer",
        "low-rank",
        charts=("imputation", "missingness", "trace"),
        next_command="impute",
        shows="LowRankImputer chose {inner}, and it is that model which is shown here.",
    ),
    _task(
        "PPCAClassifier",
        "classifier",
        "classifier",
        charts=("mixture", "missingness"),
        target="class",
        next_command="transform",
    ),
    _task(
        "PPCARegressor",
        "regressor",
        "regressor",
        charts=("scree", "trace", "missingness"),
        target="number",
        next_command="transform",
    ),
)
BY_NAME = {entry.name: entry for entry in ESTIMATORS}
BY_COMMAND = {entry.command: entry for entry in ESTIMATORS}
_OTHER = Estimator("", "", "", "task", ())


def names_with(chart: str) -> str:
    """The estimators that have a chart, for a sentence."""
    *names, last = (entry.name for entry in ESTIMATORS if chart in entry.charts)
    return f"{', '.join(names)} and {last}" if names else last


def entry_of(estimator: object) -> Estimator:
    """The entry of the nearest registered class of an estimator; one without a name if none is."""
    names = (cls.__name__ for cls in type(estimator).__mro__)
    return next((BY_NAME[name] for name in names if name in BY_NAME), _OTHER)


def scores_log_density(estimator: object) -> bool:
    """Whether `score_samples` of an estimator, if it has one, is a log-density.

    Estimators of other packages are taken at their word: scikit-learn's densities return one.
    """
    return entry_of(estimator).row_score == "log_likelihood"
