"""Maximum likelihood of x = W z + mu + e by EM, from incomplete rows, under each kind of noise.

The E-step (T&B 1999, Appendix B; with missing values, Ilin and Raiko 2010, section 4.3) and the
M-step are both in `statistics.expected.gaussian`; PPCA and factor analysis differ only in
`Constraints`. `GaussianProblem` has e ~ N(0, diag(psi)). A further noise model is a
subclass of it: the scale of the columns, how rows are prepared, where EM starts, its own E- and
M-step, and the model that comes of them.

Every start is spectral, on rows that the noise does not spoil: as they are (Gaussian); each divided
by its length, as in spherical PCA (multivariate t; Locantore et al. 1999); each cell shrunk by the
share of its variance that is not measurement error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from eigengap.fitting.gaussian.column_scale import typical_columns
from eigengap.fitting.gaussian.problem import (
    DEFAULT,
    EMOptions,
    GaussianFit,
    Noise,
    Packing,
    Problem,
    Run,
    Units,
    column_moments,
    data_model,
    dense,
    graded_axes,
    has_vanishing_noise,
    spectrum_of,
)
from eigengap.fitting.gaussian.start import Starts, random_start, spectral_start
from eigengap.fitting.optimise.em import Bounds, Mapped, Slope
from eigengap.linalg import Array
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.observed_rows import ObservedRows, prepare_rows
from eigengap.models.gaussian.student import NO_CELL_SD, StudentLinearGaussian
from eigengap.sources.base import Block, Source
from eigengap.statistics.additive import Additive
from eigengap.statistics.expected.fitted import LogLikelihood
from eigengap.statistics.expected.gaussian import (
    Constraints,
    Expected,
    Parameters,
    gradient,
    log_prior,
    maximise,
)
from eigengap.statistics.expected.heteroscedastic import (
    KnownVariances,
    NoisyExpected,
    known_noise_gradient,
    maximise_known_noise,
)
from eigengap.statistics.expected.student import (
    LARGEST_NU,
    StudentExpected,
    least_degrees,
    maximise_student,
    student_gradient,
)
from eigengap.statistics.moments import ColumnMoments

LOOSE = 1e-3  # tolerance at which several starts are compared
LOOSE_STEPS = 100  # most steps of each
TIE = 1e-4  # nats per cell by which loose runs differ that lead to the same optimum
BRIEF_STEPS = 25  # of those from other optima of the covariance
# Factor analysis of a small table has local optima: of 30 x 8 tables with 20 % missing and three
# factors one start fell short in 7 of 40, five in none. Of 18 fits that one start left short
# (docs/numerics.md), 16 were to fewer than 4000 observed values.
CHEAP_STARTS, CHEAP_CELLS = 5, 4000
FIRST_NU = 8.0  # where learned degrees of freedom start


class MStep(NamedTuple):
    """The M-step, and the derivatives of the objective by each parameter, from the statistics."""

    maximise: Callable[[Any, Parameters, Constraints], Parameters]
    gradient: Callable[[Any, Parameters, Constraints], Parameters]


@dataclass(frozen=True)
class MultivariateT:
    """Rows of their own scale, u ~ Gamma(nu / 2, nu / 2)."""

    nu: float | None = None  # None learns it


@dataclass(frozen=True)
class Specification:
    """The model to fit, in units of the data."""

    noise: Noise
    noise_variance: float | None = None  # where it is given and not learned
    fit_mean: bool = True
    loading_precision: float = 0.0
    student: MultivariateT | None = None

    def constraints(self, units: Units) -> Constraints:
        """Those of the M-step, in the units of a fit."""
        scale = float(units.unit[0]) if self.noise == "isotropic" else 1.0
        fixed = None if self.noise_variance is None else self.noise_variance / scale**2
        return Constraints(
            noise=self.noise,
            floor=units.floor(self.noise),
            fixed_noise=fixed,
            fit_mean=self.fit_mean,
            loading_precision=self.loading_precision * scale**2,
        )


def fit_by_em(
    source: Source,
    q: int,
    noise: Noise,
    *,
    noise_variance: float | None = None,
    fit_mean: bool = True,
    loading_precision: float = 0.0,
    student: MultivariateT | None = None,
    options: EMOptions = DEFAULT,
) -> GaussianFit:
    """Fit x = W z + mu + e to the observed values of a source.

    EM starts from a given point, or from the spectral start, or from the best of several.
    """
    spec = Specification(noise, noise_variance, fit_mean, loading_precision, student)
    columns = column_moments(source, noise, fit_mean=fit_mean)
    problem = problem_of(source, columns, q, spec)
    if fit_mean and not np.any(columns.variance > 0.0):
        return problem.constant(columns.mean, noise_variance or 0.0)
    if options.start is not None:
        return problem.finish(problem.from_given(options.start, options))
    starts = problem.starts_for(options)
    if starts.others or starts.n_random:
        return problem.finish(problem.best_of(starts, options))
    return problem.finish(problem.run(starts.first, options))


def problem_of(
    source: Source, columns: ColumnMoments, q: int, spec: Specification
) -> GaussianProblem:
    """The EM problem of the noise that was asked for."""
    if spec.student is None:
        kind = MeasurementErrorProblem if source.has_cell_sd else GaussianProblem
        return kind.of(source, columns, q, spec)
    if source.has_cell_sd:
        raise ValueError(NO_CELL_SD)
    return MultivariateTProblem.of(source, columns, q, spec)


@dataclass(frozen=True, eq=False)
class GaussianProblem(Problem[Parameters]):
    """e ~ N(0, diag(psi)): PPCA where psi is isotropic, factor analysis where it is diagonal."""

    source: Source
    rows: Source  # of what `prepare` makes of each block
    units: Units
    q: int
    constraints: Constraints
    packing: Packing

    @classmethod
    def of(cls, source: Source, columns: ColumnMoments, q: int, spec: Specification) -> Self:
        centre, variance = cls.location(source, columns)
        shift = centre if spec.fit_mean else np.zeros(len(centre))
        variance = variance + (centre - shift) ** 2
        sum_w = source.observed().sum_w
        units = Units.of(shift, variance, spec.noise, columns.sum_w, sum_w)
        return cls.in_units(source, units, q, spec)

    @classmethod
    def in_units(cls, source: Source, units: Units, q: int, spec: Specification) -> Self:
        how = spec.constraints(units)
        rows = source.prepared(partial(cls.prepare, units=units, q=q))
        return cls(source, rows, units, q, how, Packing(units, how, (q,)))

    # The noise model ------------------------------------------------------------------------

    @staticmethod
    def location(source: Source, columns: ColumnMoments) -> tuple[Array, Array]:
        """Location (d,) and variance (d,) of each column, by which the fit has its units."""
        return columns.mean, columns.variance

    @staticmethod
    def prepare(block: Block, units: Units, q: int) -> Any:
        """The rows of a block as the E-step takes them."""
        return units.prepare(block, q)

    def starts(self) -> Starts:
        return spectral_start(self.rows, self.q, self.units, self.constraints)

    def e_step(self, current: Parameters, passes: int) -> Callable[[Any], Any]:
        """The E-step as a function from prepared rows to expected statistics, which merge."""
        return partial(Expected.of, coefficients=current, passes=passes)

    m_step: ClassVar[MStep] = MStep(maximise, gradient)

    @staticmethod
    def log_likelihood(statistic: Any) -> float:
        """Of the parameters of the E-step."""
        return float(statistic.log_likelihood)

    def known(self, psi: Array) -> Array | float:
        """(d,) noise variance of a typical cell besides psi."""
        return 0.0

    def model(self, gaussian: LinearGaussian, nu: float) -> LinearGaussian:
        """The fitted density."""
        return gaussian

    # The EM map -----------------------------------------------------------------------------

    def apply(self, theta: Array, like: Parameters | None = None, passes: int = 1) -> Mapped:
        current = self.unpack(theta)
        known = self.known(current.psi)
        rotation = graded_axes(current.W, current.psi + known)
        current = replace(current, W=current.W @ rotation)
        statistic = self.rows.reduce(self.e_step(current, passes))
        updated = self.m_step.maximise(statistic, current, self.constraints)
        updated = replace(updated, W=updated.W @ rotation.T)

        def slope() -> Slope:
            by = self.m_step.gradient(statistic, current, self.constraints)
            by = replace(by, W=by.W @ rotation.T)
            observed = self.units.observed_w[None, :]
            return self.packing.slope([current], [by], observed, known=known)

        value = self.log_likelihood(statistic) + log_prior(current, self.constraints)
        return Mapped(self.pack(updated), value, slope)

    def pack(self, parameters: Parameters) -> Array:
        return self.packing.pack([parameters])

    def unpack(self, theta: Array, like: Parameters | None = None) -> Parameters:
        return self.packing.unpack(theta)[0][0]

    def bounds(self, like: Parameters) -> Bounds:
        return self.packing.bounds()

    def boundary_step(self, theta: Array, image: Array, like: Parameters) -> Array | None:
        return self.packing.at_limits(theta, image)

    def is_degenerate(self, theta: Array, like: Parameters) -> bool:
        return has_vanishing_noise(self.unpack(theta), self.constraints.floor)

    # Starts ---------------------------------------------------------------------------------

    def starts_for(self, options: EMOptions) -> Starts:
        """`starts`, with as many random ones as are asked for, called for, or cheap."""
        given = self.starts()
        # A fit that is wanted roughly does not need more starts than were asked for.
        if options.tol >= LOOSE or options.max_iter < LOOSE_STEPS:
            return replace(given, others=(), n_random=options.n_init - 1)
        observed = int(np.sum(self.source.observed().per_column))  # whatever the rows weigh
        is_cheap = self.constraints.noise == "diagonal" and observed <= CHEAP_CELLS
        cheap = CHEAP_STARTS - 1 if is_cheap else 0
        return replace(given, n_random=max(options.n_init - 1, given.n_random, cheap))

    def best_of(self, starts: Starts, options: EMOptions) -> Run[Parameters]:
        """EM from several starts.

        Where a start leads shows long before it has arrived: only the best goes all the way, and
        the spectral one, so that more starts are never worse.
        """
        few = min(options.max_iter, LOOSE_STEPS)
        loose = replace(options, tol=max(options.tol, LOOSE), max_iter=few)
        brief = replace(loose, max_iter=min(few, BRIEF_STEPS))  # where each leads is soon clear
        first = self.run(starts.first, brief if starts.others else loose)
        runs = [
            first,
            *(self.run(start, brief) for start in starts.others),
            *(self.run(start, loose) for start in self._random_starts(starts, options.seed)),
        ]
        # Of starts that lead to one optimum the first goes on, whatever their rounding.
        least = max(run.objective for run in runs) - TIE * self.units.cells
        best = next(run for run in runs if run.objective >= least)
        end = self._finished(best, options)
        if best is first:
            return end
        return max(end, self._finished(first, options), key=lambda run: run.objective)

    def _random_starts(self, given: Starts, seed: int) -> list[Parameters]:
        """Loadings are drawn for the columns in the order of their covariances.

        So a table with its columns in another order starts from the same points.
        """
        first, floor = given.first, self.constraints.floor
        strength = given.strength
        if strength is None:
            strength = np.einsum("jq,jq->j", first.W, first.W)
        order = np.argsort(strength, kind="stable")
        place = np.argsort(order)
        rng = np.random.default_rng(seed)
        how = replace(self.constraints, floor=floor[order])
        starts = []
        for _ in range(given.n_random):
            start = random_start(self.q, self.units.variance[order], how, rng)
            starts.append(Parameters(start.W[place], start.delta, start.psi[place], first.nu))
        return starts

    def _finished(self, loose: Run[Parameters], options: EMOptions) -> Run[Parameters]:
        """A loose run continued to the tolerance asked for."""
        left = options.max_iter - len(loose.trace)
        if left <= 0:
            return replace(loose, converged=False)
        return loose.then(self.run(loose.parameters, replace(options, max_iter=left)))

    def from_given(self, start: LinearGaussian, options: EMOptions) -> Run[Parameters]:
        """EM from a given point, which may be a saddle.

        W = 0 and non-principal eigenvectors are stationary but unstable (Tipping and Bishop 1999,
        Appendix A): a small push that EM does not take back leads to the maximum.
        """
        unit, shift = self.units.unit, self.units.shift
        given = start.rescaled(1.0 / unit, -shift / unit)
        psi = np.maximum(given.psi, self.constraints.floor)
        nu = getattr(start, "nu", FIRST_NU)
        result = self.run(Parameters(W=given.W, delta=given.mu, psi=psi, nu=nu), options)
        rng = np.random.default_rng(options.seed)
        while True:
            at = result.parameters
            push = 1e-2 * self.units.size[:, None] * rng.standard_normal(at.W.shape)
            pushed = self.run(replace(at, W=at.W + push), options)
            if pushed.objective <= result.objective + 1e-7 * self.units.cells:
                return result
            result = result.then(pushed)

    # What it leaves -------------------------------------------------------------------------

    def finish(self, run: Run[Parameters]) -> GaussianFit:
        parameters, units, how = run.parameters, self.units, self.constraints
        model, at_floor = data_model(parameters, units, how)
        of_kind = self.model(model, parameters.nu)
        log_likelihood = run.objective - log_prior(parameters, how) - units.log_jacobian
        if how.fixed_noise is not None and np.any(how.fixed_noise < parameters.psi):
            # The steps had the noise at its floor, which is another likelihood.
            log_likelihood = self.source.reduce(partial(LogLikelihood.of, model=of_kind)).value
        return GaussianFit(
            model=of_kind,
            axes=model.principal_axes()[0],
            spectrum=spectrum_of(model, units.sum_w),
            log_likelihood=log_likelihood,
            observed_w=units.observed_w,
            sum_w=units.sum_w,
            converged=run.converged,
            trace=units.in_data(run.trace),
            at_floor=at_floor,
        )

    def constant(self, mean: Array, noise_variance: float) -> GaussianFit:
        """The fit where all rows are equal: no loadings, and no noise but what is given."""
        d, nu = self.units.d, self.constraints.fixed_nu
        model = LinearGaussian(W=np.zeros((d, self.q)), mu=mean, psi=np.full(d, noise_variance))
        of_kind = self.model(model, LARGEST_NU if nu is None else nu)
        return GaussianFit(
            model=of_kind,
            axes=np.eye(d, self.q),
            spectrum=spectrum_of(replace(model, psi=np.zeros(d)), self.units.sum_w),
            log_likelihood=self.source.reduce(partial(LogLikelihood.of, model=of_kind)).value,
            observed_w=self.units.observed_w,
            sum_w=self.units.sum_w,
            at_floor=() if noise_variance else tuple(range(d)),
        )


@dataclass(frozen=True, eq=False)
class MultivariateTProblem(GaussianProblem):
    """Rows of their own scale, which makes them multivariate t."""

    @classmethod
    def in_units(cls, source: Source, units: Units, q: int, spec: Specification) -> Self:
        assert spec.student is not None
        plain = super().in_units(source, units, q, spec)
        how = replace(
            plain.constraints,
            fixed_nu=spec.student.nu,
            least_nu=least_degrees(units.sum_w, units.d, q),
        )
        packing = Packing(units, how, (q,), learns_nu=how.fixed_nu is None)
        return replace(plain, constraints=how, packing=packing)

    location = staticmethod(typical_columns)

    def starts(self) -> Starts:
        units, how = self.units, self.constraints
        nu = FIRST_NU if how.fixed_nu is None else how.fixed_nu
        unit_rows = self.source.prepared(partial(_on_sphere, units=units, q=self.q))
        sums = unit_rows.reduce(_SphereSums.of)
        variance = sums.squares / sums.observed
        of_rows = replace(units, variance=variance, observed_w=sums.observed, sum_w=sums.sum_w)
        shapes = spectral_start(unit_rows, self.q, of_rows, replace(how, fixed_noise=None))
        # Lengths were divided out; the typical one is that of columns of their robust scale.
        size = float(np.sum(units.variance) / np.sum(variance))

        def sized(shape: Parameters) -> Parameters:
            psi = shape.psi * size if how.fixed_noise is None else how.fixed_noise
            psi = np.maximum(psi, how.floor)
            return Parameters(W=shape.W * np.sqrt(size), delta=shape.delta, psi=psi, nu=nu)

        return shapes.map(sized)

    def e_step(self, current: Parameters, passes: int) -> Callable[[Any], Any]:
        return partial(StudentExpected.of, current=current, passes=passes)

    m_step = MStep(maximise_student, student_gradient)

    @staticmethod
    def log_likelihood(statistic: Any) -> float:
        return float(statistic.expected.log_likelihood)

    def model(self, gaussian: LinearGaussian, nu: float) -> LinearGaussian:
        return StudentLinearGaussian(
            W=gaussian.W, mu=gaussian.mu, psi=gaussian.psi, nu=nu, noise_unit=gaussian.noise_unit
        )


@dataclass(frozen=True, eq=False)
class MeasurementErrorProblem(GaussianProblem):
    """Cells of known standard deviation, besides psi: heteroscedastic noise."""

    variances: KnownVariances | None = None  # of the cells of r

    @classmethod
    def in_units(cls, source: Source, units: Units, q: int, spec: Specification) -> Self:
        variances = source.reduce(KnownVariances.of).rescaled(units.unit)
        if spec.noise_variance == 0.0 and np.any(units.variance > 0):
            variances.require_everywhere(source.names)
        plain = super().in_units(source, units, q, spec)
        how = plain.constraints
        floor = variances.floor(how.floor, how.noise)
        if how.fixed_noise is not None:
            floor = np.zeros(units.d)  # what is known keeps the noise positive
        how = replace(how, floor=floor)
        packing = Packing(units, how, (q,), least_known=variances.least)
        return replace(plain, constraints=how, packing=packing, variances=variances)

    location = staticmethod(typical_columns)

    @staticmethod
    def prepare(block: Block, units: Units, q: int) -> ObservedRows:
        values, cell_sd = dense(block), block.cell_sd
        cell_sd = np.zeros(values.shape) if cell_sd is None else cell_sd
        return prepare_rows(
            values,
            block.weight,
            units.shift,
            units.unit,
            q,
            cell_sd=cell_sd,
            observed=block.observed,
        )

    def starts(self) -> Starts:
        units = self.units
        shrunk = self.source.prepared(partial(_shrunk, units=units, q=self.q))
        sums = self.source.reduce(partial(_ShrunkSums.of, units=units))
        of_rows = replace(units, variance=sums.variance(), observed_w=sums.share)
        return spectral_start(shrunk, self.q, of_rows, self.constraints)

    def e_step(self, current: Parameters, passes: int) -> Callable[[Any], Any]:
        learns_noise = self.constraints.fixed_noise is None
        return partial(NoisyExpected.of, current=current, learns_noise=learns_noise, passes=passes)

    m_step = MStep(maximise_known_noise, known_noise_gradient)

    @staticmethod
    def log_likelihood(statistic: Any) -> float:
        return float(statistic.expected.log_likelihood)

    def known(self, psi: Array) -> Array | float:
        return 0.0 if self.variances is None else self.variances.typical(psi)


# Rows that noise does not spoil -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _SphereSums(Additive):
    """Weighted sums of rows of unit length."""

    observed: Array  # (d,) of the weights of observed cells
    squares: Array  # (d,) of r^2
    sum_w: float

    @classmethod
    def of(cls, rows: ObservedRows) -> _SphereSums:
        return cls(rows.observed, rows.squares, rows.sum_w)


@dataclass(frozen=True, eq=False)
class _ShrunkSums(Additive):
    """Weighted sums of the observed cells of each column, each shrunk by its share a of signal."""

    share: Array  # (d,) of a
    share2: Array  # (d,) of a^2
    squares: Array  # (d,) of (a r)^2
    noise: Array  # (d,) of (a s)^2

    @classmethod
    def of(cls, block: Block, units: Units) -> _ShrunkSums:
        values = dense(block)
        R = (values - units.shift) / units.unit
        a = np.where(block.observed, _signal_share(block, units), 0.0)
        s = 0.0 if block.cell_sd is None else block.cell_sd / units.unit
        w = np.ones(block.n_rows) if block.weight is None else block.weight
        squares = w @ np.nan_to_num(a * R) ** 2
        return cls(w @ a, w @ a**2, squares, w @ (a * s) ** 2)

    def variance(self) -> Array:
        """(d,) of each column, without measurement error."""
        return np.maximum(self.squares - self.noise, 0.1 * self.squares) / self.share2


def _on_sphere(block: Block, units: Units, q: int) -> ObservedRows:
    """Rows weighted by their observed cells over their squared length."""
    values = dense(block)
    R = (values - units.shift) / units.unit
    observed = np.count_nonzero(block.observed, axis=1)
    length = np.nansum(R**2, axis=1)
    near = 0.01 * float(np.mean(units.variance)) * observed  # a row at the centre has no direction
    w = np.ones(len(values)) if block.weight is None else block.weight
    w = np.where(observed > 0, w * observed / np.where(observed > 0, length + near, 1.0), 0.0)
    return prepare_rows(values, w, units.shift, units.unit, q, observed=block.observed)


def _shrunk(block: Block, units: Units, q: int) -> ObservedRows:
    """Cells drawn towards the centre, so that those of large measurement error weigh little."""
    drawn = units.shift + (dense(block) - units.shift) * _signal_share(block, units)
    return prepare_rows(drawn, block.weight, units.shift, units.unit, q, observed=block.observed)


def _signal_share(block: Block, units: Units) -> Array:
    """(c, d) share of each cell's variance that is not measurement error."""
    variance = np.where(units.variance > 0, units.variance, 1.0) * units.unit**2
    if block.cell_sd is None:
        return np.ones((block.n_rows, len(variance)))
    return np.asarray(variance / (variance + block.cell_sd**2))
