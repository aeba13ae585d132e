"""Autoencoder as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from eigengap.estimators.shared.base import (
    as_fitted,
    check_features,
    keep_features,
    keep_parameters,
    like_input,
    progress_of,
)
from eigengap.estimators.shared.sklearn_compat import Interval, StrOptions, _fit_context
from eigengap.estimators.shared.transformer import COUNT, Transformer, as_latents, decoded
from eigengap.fitting.autoencoder.fit import AUTO_RATE, AutoencoderFit, AutoencoderOptions
from eigengap.fitting.optimise.loop import Watch
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import ACTIVATIONS, Network
from eigengap.runtime.warnings import warn
from eigengap.sources import Block, Source, as_source, warn_of_codes
from eigengap.statistics.moments import rows_are_equal

NOTHING = 0.999  # loss, in units of that of the columns' means, from which on nothing is left


class Autoencoder(Transformer):
    """Curved coordinates by a neural network that reproduces its rows; accepts missing values.

    An encoder takes a row to a few codes, a decoder takes the codes back to the row; both are
    fitted so that the observed values come back. With hidden=() it finds the subspace of
    PCA; hidden layers bend it. Needs JAX (the extra "autodiff") to fit, and NumPy alone afterwards.

    Parameters
    ----------
    n_components : int, default=2
        Number of codes.
    hidden : sequence of int, default=(128, 64)
        Widths of the encoder's hidden layers; the decoder mirrors them. () has none, and is linear
        whatever the activation.
    activation : {"gelu", "tanh", "relu", "softplus", "elu", "linear"}, default="gelu"
    shortcut : bool, default=True
        Whether a linear path runs parallel to the hidden layers, from the row to the codes and from
        the codes to the row. False is the classical network.
    init : {"auto", "pca", "random"}, default="auto"
        Where the weights start: "pca" at principal component analysis, in the linear path (or in
        the only layer), so that layers have to learn only what it misses; "random" throughout.
        "auto" is "pca" wherever there is a place for it.
    denoising : float in [0, 1), default=0.0
        Share of the cells that are hidden at every step and have to be given back nevertheless
        (Vincent et al. 2008). 0.2 imputes far better, also where values are missing anyway; 0 gives
        observed values back best.
    weight_decay : float, default=0.0
        Times half the sum of the squared weights, biases left out, added to the mean squared error
        in standardised units: a true L2 penalty, not the decoupled one of AdamW. A linear network
        loses a direction of variance l at weight_decay = 2 l / n_features, and all of them at 2.
    scale : bool, default=True
        Divide every column by its standard deviation first; undone in every output that is in data
        units. False divides all by one number, so that the unit of the table does not matter. On by
        default: steps of one size suit weights only if columns have similar scales.
    batch_size : int or "auto", default="auto"
        Rows of a step of Adam; "auto" is a hundredth of the rows, between 128 and 512.
    learning_rate : float or "auto", default="auto"
        First rate of Adam, halved where it no longer helps; "auto" is 0.005. Where it is so large
        that the loss explodes, the best weights before are kept, with a ConvergenceWarning.
    early_stopping : bool, default=True
        Hold out `validation_fraction` of the rows (at most 10 000) and keep the weights that give
        them back best. With fewer than 20 rows none are held out.
    validation_fraction : float in (0, 1), default=0.1
    patience : int, default=30
        Passes without gain before Adam ends; a quarter of it for the steps of L-BFGS after it.
    max_iter : int, default=500
        Most passes over the rows, and most steps of L-BFGS after them.
    tol : float, default=1e-4
        Relative gain of the monitored loss that counts as one.
    polish : bool or "auto", default="auto"
        Whether L-BFGS goes on over all rows at once where Adam ends. "auto" does, up to 1e7 cells;
        never for rows that memory does not hold, nor where cells are hidden by chance.
    random_state : int, RandomState or None, default=None
        Of weights, held-out rows, the order of rows and the cells hidden; None is another at
        every fit.

    Attributes
    ----------
    model_ : Network
        Encoder and decoder as a value of NumPy arrays.
    loss_ : float
        Mean squared error of the observed training values, in standardised units.
    reconstruction_error_ : float
        Mean squared distance of a training row to its reconstruction, in the units of the fit:
        what `PCA.reconstruction_error` gives for PCA.
    noise_std_ : array of shape (n_features,)
        Standard deviation of imputed values, in data units: see `impute`.
    trace_ : Trace
        Training loss of each pass, then of each step of L-BFGS, weight decay included.
    validation_curve_ : array
        Loss of the rows held out after each of those, weight decay included; empty where none are.
    n_iter_ : int
        Passes and steps taken.
    n_epochs_ : int
        The passes among them.
    n_held_out_ : int
    converged_ : bool
    stopped_early_ : bool
        Whether the rows held out ended the fit.
    n_components_, n_features_in_, feature_names_in_

    Notes
    -----
    A missing value is the mean of its column as an input, and does not count in the loss. Where
    values are missing, or denoising hides cells, further inputs mark the cells that are observed.

    Codes have mean 0, unit variances and no correlation over the training rows, and come in the
    order of how far they move reconstructions: of a linear network they are whitened principal
    components. The network is the same as without this, for encoder and decoder share the change.

    The table is read block by block, as often as there are passes; rows are shuffled within their
    block, of some 64 MB. A table larger than that which is sorted should be shuffled beforehand.

    References
    ----------
    Baldi and Hornik (1989), "Neural networks and principal component analysis"; Vincent et al.
    (2008), "Extracting and composing robust features with denoising autoencoders".

    Examples
    --------
    >>> import numpy as np
    >>> from eigengap import Autoencoder
    >>> t = np.linspace(-1, 1, 200)
    >>> X = np.column_stack([t, t**2, t**3])
    >>> bent = Autoencoder(1, hidden=(16,), max_iter=300, random_state=0).fit(X)
    >>> bent.transform(X).shape
    (200, 1)
    >>> straight = Autoencoder(1, hidden=(), random_state=0).fit(X)
    >>> bool(bent.loss_ < 0.02 * straight.loss_)
    True
    """

    _prefix = "AE"
    _accepts_sparse = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [COUNT],
        "hidden": ["array-like", Integral],  # a number is refused with its way out
        "activation": [StrOptions(set(ACTIVATIONS))],
        "shortcut": ["boolean"],
        "init": [StrOptions({"auto", "pca", "random"})],
        "denoising": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [COUNT, StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "patience": [COUNT],
        "polish": ["boolean", StrOptions({"auto"})],
    }

    model_: Network

    def __init__(
        self,
        n_components: int = 2,
        *,
        hidden: Any = (128, 64),
        activation: str = "gelu",
        shortcut: bool = True,
        init: str = "auto",
        denoising: float = 0.0,
        weight_decay: float = 0.0,
        scale: bool = True,
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int = 30,
        max_iter: int = 500,
        tol: float = 1e-4,
        polish: bool | str = "auto",
        missing_values: Any = nan,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        keep_parameters(self, locals())

    # Fitting -------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit encoder and decoder to the observed values of X."""
        from eigengap.fitting.autodiff.autoencoder import fit_autoencoder

        q = int(self.n_components)
        source = as_source(X, missing_values=self.missing_values).present()
        _refuse_sparse(source)
        source.require_fit(min_rows=2)
        warn_of_codes(source)
        if q > source.n_features and self.denoising == 0.0:
            warn(
                f"n_components={q} codes are more than the {source.n_features} columns, so that a "
                "network which copies its input loses nothing: take fewer, or denoising",
                UserWarning,
            )
        with progress_of(self) as watch:
            found = fit_autoencoder(source, q, self._options(watch))
        keep_features(self, X, source)  # only now: a fit may fail
        self.model_ = found.network
        self.loss_ = found.loss
        self.noise_std_ = found.noise
        self.trace_ = found.trace
        self.validation_curve_ = found.validation
        self.n_iter_ = max(len(found.trace), 1)
        self.n_epochs_ = found.epochs
        self.n_held_out_ = found.n_held_out
        self.converged_ = found.converged
        self.stopped_early_ = found.stopped_early
        if rows_are_equal(source):
            warn(
                "all rows are equal, so that there is nothing for the codes to describe",
                UserWarning,
            )
        self._warn(found)
        return self

    def _warn(self, found: AutoencoderFit) -> None:
        """Warn of passes that diverged or were too few, and of weights that decayed to nothing."""
        if found.diverged:
            rate = self._rate
            warn(
                f"the loss exploded in {found.epochs} passes at learning_rate={rate:g}, and the "
                f"best weights before were kept: take a smaller one, say learning_rate="
                f"{rate / 10:g}",
                ConvergenceWarning,
            )
        elif not found.converged:
            warn(
                f"Autoencoder did not converge in {found.epochs} passes and "
                f"{len(found.trace) - found.epochs} further steps (loss {found.loss:.4g}); raise "
                f"max_iter={self.max_iter} or tol",
                ConvergenceWarning,
            )
        if self.weight_decay > 0.0 and found.loss > NOTHING:
            warn(
                f"weight_decay={self.weight_decay:g} leaves next to nothing of the rows but the "
                f"means of their columns (loss {found.loss:.4g}, theirs is 1): take a smaller one",
                UserWarning,
            )

    @property
    def _rate(self) -> float:
        return AUTO_RATE if self.learning_rate == "auto" else float(self.learning_rate)

    def _options(self, watch: Watch | None = None) -> AutoencoderOptions:
        hidden = _widths(self.hidden)
        return AutoencoderOptions(
            hidden=hidden,
            activation=self.activation,
            shortcut=bool(self.shortcut),
            init=_start(self.init, bool(self.shortcut) or not hidden),
            denoising=float(self.denoising),
            weight_decay=float(self.weight_decay),
            scale=bool(self.scale),
            batch_size=None if self.batch_size == "auto" else int(self.batch_size),
            learning_rate=self._rate,
            validation_fraction=float(self.validation_fraction) if self.early_stopping else 0.0,
            patience=int(self.patience),
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            polish=None if self.polish == "auto" else bool(self.polish),
            seed=self._seed(fixed=False),
            watch=watch,
        )

    # Output --------------------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Codes of the rows of X: (n_samples, n_components)."""
        check_is_fitted(self, "model_")
        return self._map(X, self.model_.encode)

    def inverse_transform(self, X: Any) -> Array:
        """Rows at the codes X: (n_samples, n_features).

        Parameters
        ----------
        X : array of shape (n_samples, n_components)
            As `transform` returns them; a NaN counts as 0, the mean of a code.
        """
        check_is_fitted(self, "model_")
        Z = as_latents(X, self.n_components_, "codes")
        return decoded(np.where(np.isnan(Z), Z.dtype.type(0.0), Z), self.model_.decode)

    def reconstruct(self, X: Any) -> Any:
        """Rows as the network gives them back, missing values included: a table of X's type."""
        check_is_fitted(self, "model_")
        return like_input(self, X, self._map(X, self.model_.reconstruct))

    def impute(self, X: Any, return_std: bool = False) -> Any:
        """Impute every missing value by what the network makes of the rest of its row.

        Returns
        -------
        imputed : table of X's type
            Observed values are unchanged.
        std : table of X's type
            `noise_std_` of the column for each imputed value, 0 for observed ones. Only if
            return_std.

        Notes
        -----
        The standard deviation of a column is that of its cells in the rows held out, each hidden
        from the network once; a little more than their root mean squared error where those rows
        are few. It is the same for all rows. Where no rows are held out the training rows take
        their place, and it is too small by as much as the network overfits them. `denoising`
        improves the imputations, and does not change this.
        """
        check_is_fitted(self, "model_")
        imputed = like_input(self, X, self._map(X, self.model_.impute))
        if not return_std:
            return imputed
        std = self._map(X, lambda rows: np.where(np.isnan(rows), self.noise_std_, 0.0))
        return imputed, like_input(self, X, std)

    def score_samples(self, X: Any) -> Array:
        """Minus the mean squared error of the observed values of each row, in standardised units.

        Returns
        -------
        array of shape (n_samples,)
            0 is best, and the score of a row without any observed value. It is no log-likelihood:
            an autoencoder is no density.
        """
        check_is_fitted(self, "model_")
        return self._scores(self._source(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples` over the rows that have an observed value; 0 where none has."""
        check_is_fitted(self, "model_")
        source = self._source(X)
        present = source.map(lambda block: ~np.isnan(block.values).all(axis=1))
        return float(np.mean(self._scores(source)[present])) if present.any() else 0.0

    def _scores(self, source: Source) -> Array:
        return _applied(source, lambda rows: 0.0 - self.model_.squared_error(rows))

    def _source(self, X: Any) -> Source:
        source = as_source(X, missing_values=self.missing_values)
        _refuse_sparse(source)
        check_features(self, X, source)
        return source

    def _map(self, X: Any, fn: Callable[[Any], Array]) -> Array:
        source = self._source(X)
        return as_fitted(_applied(source, fn), source.dtype == np.float32)

    # Fitted attributes ---------------------------------------------------------------------

    n_components_ = property(attrgetter("model_.q"))

    @property
    def reconstruction_error_(self) -> float:
        unit = 1.0 if self.scale else float(self.model_.unit[0])
        return self.loss_ * self.model_.d * unit * unit  # 0 or inf where squares leave the range


def _widths(hidden: Any) -> tuple[int, ...]:
    """Widths of layers, as the user gives them."""
    if isinstance(hidden, Integral):
        raise ValueError(
            "hidden must be a sequence of widths, one for each layer: for one layer write "
            f"hidden=({int(hidden)},)"
        )
    for width in hidden:
        if not isinstance(width, Integral) or isinstance(width, bool) or width < 1:
            raise ValueError(
                f"hidden must hold positive integers, the widths of layers, got {width!r}"
            )
    return tuple(int(width) for width in hidden)


def _start(init: str, has_linear_path: bool) -> str:
    if init == "pca" and not has_linear_path:
        raise ValueError(
            'init="pca" needs a linear path to start in: use shortcut=True, hidden=(), or '
            'init="random"'
        )
    return init if init != "auto" else "pca" if has_linear_path else "random"


def _refuse_sparse(source: Source) -> None:
    if source.is_sparse:
        raise ValueError(
            "X is sparse, and the layers of a network are not; densify it with X.toarray(), or "
            "reduce it first (PCA takes sparse tables)"
        )


def _applied(source: Source, fn: Callable[[Any], Array]) -> Array:
    """fn of the rows of every block; a row for which it overflows is an error."""

    def of(block: Block) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            found = fn(block.values)
        if not np.isfinite(np.sum(found)):
            bad = ~np.isfinite(found.reshape(len(found), -1)).all(axis=1)
            if bad.any():
                raise ValueError(
                    f"row {block.start + int(np.argmax(bad))} has cells so large that what the "
                    "network makes of it overflows: leave it out"
                )
        return found

    return source.map(of)
