"""What differs between the kinds of noise in an EM fit.

That is: the size of the columns, how rows are prepared, where the fit starts, what one step does,
and the model that comes of it.

The start is spectral for each, on rows that the noise does not spoil: as they are (Gaussian); each
divided by its length, as in spherical PCA (Student; Locantore et al. 1999); each cell shrunk by the
share of its variance that is not known to be noise (known standard deviations).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from eigengap.fitting.gaussian.robust_scale import typical_columns
from eigengap.fitting.gaussian.start import Starts, spectral_start
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.row_posterior import Coefficients
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.sources.base import Block, Source
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    gradient,
    maximise,
)
from eigengap.statistics.expected.heteroscedastic import (
    NoisyExpected,
    known_noise_gradient,
    maximise_known_noise,
)
from eigengap.statistics.expected.student import StudentExpected, maximise_student, student_gradient
from eigengap.statistics.moments import ColumnMoments

FIRST_NU = 8.0  # where learned degrees of freedom start


@dataclass(frozen=True, eq=False)
class Frame:
    """The units of a fit, r = (x - shift) / unit, and the sizes of its columns."""

    q: int
    shift: Array  # (d,)
    unit: Array  # (d,)
    variance: Array  # (d,) of r
    share_observed: Array  # (d,)
    sum_w: float


class Stepped(NamedTuple):
    """What one pass over the rows finds."""

    updated: Parameters  # after an EM step
    log_likelihood: float  # of the current parameters
    gradient: Callable[[], Parameters]  # of it and of the prior, by each of them


class NoiseKind(Protocol):
    """One kind of noise."""

    def columns(self, source: Source, moments: ColumnMoments) -> tuple[Array, Array]:
        """Centre (d,) and variance (d,) of each column, as the fit is to see them."""

    def prepare(self, block: Block, frame: Frame) -> Any:
        """The rows of a block as `step` wants them."""

    def start(
        self, source: Source, rows: Source, frame: Frame, constraints: Constraints
    ) -> Starts: ...

    def step(
        self, rows: Source, current: Parameters, constraints: Constraints, passes: int
    ) -> Stepped:
        """The next parameters, and the log-likelihood of the current ones: one pass."""

    def model(self, gaussian: LinearGaussian, nu: float) -> LinearGaussian:
        """The fitted density."""


class GaussianNoise:
    """e ~ N(0, diag(psi))."""

    def columns(self, source: Source, moments: ColumnMoments) -> tuple[Array, Array]:
        return moments.mean, moments.variance

    def prepare(self, block: Block, frame: Frame) -> ObservedRows:
        return prepare_rows(
            _dense(block),
            block.weight,
            frame.shift,
            frame.unit,
            frame.q,
            observed=block.observed,
        )

    def start(self, source: Source, rows: Source, frame: Frame, constraints: Constraints) -> Starts:
        return spectral_start(
            rows, frame.q, frame.variance, frame.share_observed, frame.sum_w, constraints
        )

    def step(
        self, rows: Source, current: Parameters, constraints: Constraints, passes: int
    ) -> Stepped:
        coefficients = Coefficients(current.W, current.delta, current.psi)
        of: Callable[[ObservedRows], Expected] = partial(
            Expected.of, coefficients=coefficients, passes=passes
        )
        expected = rows.reduce(of)
        return Stepped(
            maximise(expected, current, constraints),
            expected.log_likelihood,
            partial(gradient, expected, current, constraints),
        )

    def model(self, gaussian: LinearGaussian, nu: float) -> LinearGaussian:
        return gaussian


class StudentNoise(GaussianNoise):
    """Rows of their own scale: multivariate t."""

    def columns(self, source: Source, moments: ColumnMoments) -> tuple[Array, Array]:
        return typical_columns(source, moments)

    def start(self, source: Source, rows: Source, frame: Frame, constraints: Constraints) -> Starts:
        nu = FIRST_NU if constraints.fixed_nu is None else constraints.fixed_nu
        unit_rows = source.prepared(partial(_on_sphere, frame=frame))
        sums = unit_rows.reduce(_SphereSums.of)
        free = replace(constraints, fixed_noise=None)
        shapes = spectral_start(
            unit_rows,
            frame.q,
            sums.squares / sums.observed,
            sums.observed / sums.sum_w,
            sums.sum_w,
            free,
        )
        # Lengths are gone; the typical one is that of the columns as they are typically.
        size = float(np.sum(frame.variance) / np.sum(sums.squares / sums.observed))

        def sized(shape: Parameters) -> Parameters:
            psi = np.maximum(shape.psi * size, constraints.floor)
            if constraints.fixed_noise is not None:
                psi = np.full(len(psi), max(constraints.fixed_noise, float(constraints.floor[0])))
            return Parameters(W=shape.W * np.sqrt(size), delta=shape.delta, psi=psi, nu=nu)

        return shapes.map(sized)

    def step(
        self, rows: Source, current: Parameters, constraints: Constraints, passes: int
    ) -> Stepped:
        coefficients = Coefficients(current.W, current.delta, current.psi)
        of: Callable[[ObservedRows], StudentExpected] = partial(
            StudentExpected.of, coefficients=coefficients, nu=current.nu, passes=passes
        )
        statistic = rows.reduce(of)
        return Stepped(
            maximise_student(statistic, current, constraints),
            statistic.expected.log_likelihood,
            partial(student_gradient, statistic, current, constraints),
        )

    def model(self, gaussian: LinearGaussian, nu: float) -> LinearGaussian:
        return StudentLinearGaussian(
            W=gaussian.W,
            mu=gaussian.mu,
            psi=gaussian.psi,
            nu=nu,
            noise_unit=gaussian.noise_unit,
        )


class KnownNoise(GaussianNoise):
    """Cells of known standard deviation, beside psi."""

    def columns(self, source: Source, moments: ColumnMoments) -> tuple[Array, Array]:
        return typical_columns(source, moments)

    def prepare(self, block: Block, frame: Frame) -> ObservedRows:
        values, cell_sd = _dense(block), block.cell_sd
        cell_sd = np.zeros(values.shape) if cell_sd is None else cell_sd
        return prepare_rows(
            values,
            block.weight,
            frame.shift,
            frame.unit,
            frame.q,
            cell_sd=cell_sd,
            observed=block.observed,
        )

    def start(self, source: Source, rows: Source, frame: Frame, constraints: Constraints) -> Starts:
        shrunk = source.prepared(partial(_shrunk, frame=frame))
        sums = source.reduce(partial(_ShrunkSums.of, frame=frame))
        share = sums.share / frame.sum_w
        return spectral_start(shrunk, frame.q, sums.variance(), share, frame.sum_w, constraints)

    def step(
        self, rows: Source, current: Parameters, constraints: Constraints, passes: int
    ) -> Stepped:
        of: Callable[[ObservedRows], NoisyExpected] = partial(
            NoisyExpected.of,
            current=current,
            learns_noise=constraints.fixed_noise is None,
            passes=passes,
        )
        statistic = rows.reduce(of)
        return Stepped(
            maximise_known_noise(statistic, current, constraints),
            statistic.expected.log_likelihood,
            partial(known_noise_gradient, statistic, current, constraints),
        )


@dataclass(frozen=True, eq=False)
class _SphereSums:
    """Weighted sums of rows of unit length."""

    observed: Array  # (d,) of the weights of seen cells
    squares: Array  # (d,) of r^2
    sum_w: float

    @classmethod
    def of(cls, rows: ObservedRows) -> _SphereSums:
        return cls(rows.observed, rows.squares, rows.sum_w)

    def merge(self, other: _SphereSums) -> _SphereSums:
        return _SphereSums(
            self.observed + other.observed, self.squares + other.squares, self.sum_w + other.sum_w
        )


@dataclass(frozen=True, eq=False)
class _ShrunkSums:
    """Weighted sums of the seen cells of each column, each shrunk by its share a of signal."""

    share: Array  # (d,) of a
    share2: Array  # (d,) of a^2
    squares: Array  # (d,) of (a r)^2
    noise: Array  # (d,) of (a s)^2

    @classmethod
    def of(cls, block: Block, frame: Frame) -> _ShrunkSums:
        values = _dense(block)
        R = (values - frame.shift) / frame.unit
        a = np.where(block.observed, _signal_share(block, frame), 0.0)
        s = 0.0 if block.cell_sd is None else block.cell_sd / frame.unit
        w = np.ones(block.n_rows) if block.weight is None else block.weight
        squares = w @ np.nan_to_num(a * R) ** 2
        return cls(w @ a, w @ a**2, squares, w @ (a * s) ** 2)

    def merge(self, other: _ShrunkSums) -> _ShrunkSums:
        return _ShrunkSums(
            self.share + other.share,
            self.share2 + other.share2,
            self.squares + other.squares,
            self.noise + other.noise,
        )

    def variance(self) -> Array:
        """(d,) of each column, without what is known to be noise."""
        return np.maximum(self.squares - self.noise, 0.1 * self.squares) / self.share2


def _on_sphere(block: Block, frame: Frame) -> ObservedRows:
    """Rows weighted by their seen cells over their squared length."""
    values = _dense(block)
    R = (values - frame.shift) / frame.unit
    observed = np.count_nonzero(block.observed, axis=1)
    length = np.nansum(R**2, axis=1)
    near = 0.01 * float(np.mean(frame.variance)) * observed  # a row at the centre has no direction
    w = np.ones(len(values)) if block.weight is None else block.weight
    w = np.where(observed > 0, w * observed / np.where(observed > 0, length + near, 1.0), 0.0)
    return prepare_rows(values, w, frame.shift, frame.unit, frame.q, observed=block.observed)


def _shrunk(block: Block, frame: Frame) -> ObservedRows:
    """Cells drawn towards the centre, so that those of which little is known weigh little."""
    drawn = frame.shift + (_dense(block) - frame.shift) * _signal_share(block, frame)
    return prepare_rows(
        drawn, block.weight, frame.shift, frame.unit, frame.q, observed=block.observed
    )


def _signal_share(block: Block, frame: Frame) -> Array:
    """(c, d) of each cell's variance, what is not known to be noise."""
    variance = np.where(frame.variance > 0, frame.variance, 1.0) * frame.unit**2
    if block.cell_sd is None:
        return np.ones((block.n_rows, len(variance)))
    return np.asarray(variance / (variance + block.cell_sd**2))


def _dense(block: Block) -> Any:
    # A sparse table is complete, and centring fills it: EM has no use for its zeros.
    return block.values if isinstance(block.values, np.ndarray) else block.values.toarray()
